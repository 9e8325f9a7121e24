"""The models of this process as a back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sagemaker_tensorflow_serving_container.backend import Answer, Target
from sagemaker_tensorflow_serving_container.documents import Document
from sagemaker_tensorflow_serving_container.engine import Engine

if TYPE_CHECKING:
    from sagemaker_tensorflow_serving_container.loopback import Loopback


class Local:
    """An engine, and where there is user code its REST interface."""

    grpc_port: str | None = None

    def __init__(self, engine: Engine, loopback: Loopback | None) -> None:
        self.engine = engine
        self._loopback = loopback
        self.rest_port = loopback.port if loopback else None

    def post(self, target: Target, document: Document) -> Answer:
        return self.engine.answer(target, document)

    def close(self) -> None:
        if self._loopback:
            self._loopback.close()
        self.engine.close()
