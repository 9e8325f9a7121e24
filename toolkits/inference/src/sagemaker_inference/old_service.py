"""Handler services of Multi Model Server and TorchServe, served unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sagemaker_inference import answers, content_types, errors, logging
from sagemaker_inference.context import Context
from sagemaker_inference.function_service import failure, reply
from sagemaker_inference.service import Place, Reply, Request, Service
from sagemaker_inference.settings import Settings

_log = logging.get_logger(__name__)


class OldService(Service):
    """Something with ``handle(data, context)``, which returns a list with the body of each answer."""

    batches = True

    def __init__(self, instance: Any, settings: Settings, place: Place) -> None:
        self._instance = instance
        self._place = place
        self._multi_model = settings.multi_model
        self._debug = settings.debug
        self._log_ids = settings.log_format == "json"

    def handle(self, request: Request) -> Reply:
        return self.handle_many((request,))[0]

    def handle_many(self, requests: Sequence[Request]) -> list[Reply]:
        try:
            return self._handle_group(requests)
        except Exception as error:
            if len(requests) > 1:
                _log.warning("The handler failed for %d requests; they are tried one by one: %s", len(requests), error)
                return [self.handle(request) for request in requests]
            status = errors.status_of(error, multi_model=self._multi_model)
            return [failure(requests[0], error, status, debug=self._debug)]

    def _handle_group(self, requests: Sequence[Request]) -> list[Reply]:
        if self._log_ids:
            logging.request_ids.set((requests[0].id, requests[0].inference_id))
        context = Context(self._place, requests)
        results = self._instance.handle([{"body": request.body} for request in requests], context)
        if not isinstance(results, (list, tuple)):
            raise TypeError(f"handle returned {type(results).__name__}, and not a list with one body for each request.")
        if len(results) != len(requests):
            raise ValueError(f"handle returned {len(results)} bodies for {len(requests)} requests.")
        return [self._reply(context, idx, result) for idx, result in enumerate(results)]

    def _reply(self, context: Context, idx: int, result: Any) -> Reply:
        kind = context.get_response_content_type(idx) or _guessed(result)
        return reply(context, kind, answers.whole("handle", result), idx)


def _guessed(result: Any) -> str:
    if isinstance(result, str):
        return "text/plain; charset=utf-8"
    if result is None or isinstance(result, (bytes, bytearray, memoryview)):
        return content_types.OCTET_STREAM
    return content_types.JSON
