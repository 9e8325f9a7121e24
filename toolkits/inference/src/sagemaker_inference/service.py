"""What a worker serves with: one loaded model that answers requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sagemaker_inference.settings import Settings


Message = str | bytes
"""One message of a bidirectional stream: of text, or binary."""


class Headers(Mapping[str, str]):
    """Request headers by name, whatever its case; a repeated one is joined by commas.

    raw: pairs as ASGI has them, names in lower case. Nothing is copied or decoded before it is asked for.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self.raw = raw

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Headers:
        return cls([(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()])

    def __getitem__(self, name: str) -> str:
        key = name.lower().encode("latin-1", "replace")
        found = [value for candidate, value in self.raw if candidate == key]
        if not found:
            raise KeyError(name)
        return b", ".join(found).decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.decode("latin-1") for name, _ in self.raw))

    def __len__(self) -> int:
        return len({name for name, _ in self.raw})


class Request(NamedTuple):
    """One HTTP request. A tuple, not a dataclass: one is made for every request, and this is the cheapest."""

    body: bytes
    headers: Headers
    id: str
    """The server's own."""
    path: str = "/invocations"

    @property
    def inference_id(self) -> str:
        """The client's name for the request; empty where it gave none."""
        return self.headers.get("x-amzn-sagemaker-inference-id", "")


class Reply(NamedTuple):
    """One answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """With the content type, without the content length."""
    body: bytes | Iterator[bytes] | AsyncIterator[bytes]
    """An iterator is a stream: send each item as it comes, and close() or aclose() it when the client is gone.
    Its first item has been made already, so it failed before the first byte or not at all."""


@dataclass(frozen=True)
class Place:
    """Where a worker stands."""

    model_dir: str
    model_name: str = "model"
    worker: int = 0
    gpu_id: int | None = None
    batch_size: int = 1


class Service(ABC):
    """One loaded model in one worker process."""

    asynchronous = False
    """Any of its functions is async: await ``handle_async`` then, else call ``handle``."""

    batches = False
    """It answers a group faster than its requests one by one; else there is no point in waiting for a group."""

    converses = False
    """Has a function for bidirectional streams: ``converse``."""

    @abstractmethod
    def handle(self, request: Request) -> Reply:
        """Answers; a request's own failure is a Reply, never an exception."""

    async def handle_async(self, request: Request) -> Reply:
        return self.handle(request)

    def handle_many(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply for each request, in order, each with a status of its own."""
        return [self.handle(request) for request in requests]

    async def handle_many_async(self, requests: Sequence[Request]) -> list[Reply]:
        """The same for an asynchronous service."""
        return [await self.handle_async(request) for request in requests]

    def converse(self, messages: AsyncIterator[Message], request: Request) -> AsyncGenerator[Message, None]:
        """What to send in answer to a client's messages, as they come; request: has the headers of the connection."""
        raise NotImplementedError


def load_service(settings: Settings, place: Place, handler_service: str) -> Service:
    """Imports the handler service (a module name or a file) and the user's module, and loads the model.

    Raises whatever user code raises, unchanged.
    """
    from sagemaker_inference.handler_services import load

    return load(settings, place, handler_service)
