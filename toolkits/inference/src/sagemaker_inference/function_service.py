"""The service of user functions: the path of every request, so nothing is looked at here that could be before."""

from __future__ import annotations

import re
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sagemaker_inference import answers, content_types, errors, logging, negotiation, records
from sagemaker_inference.context import Context
from sagemaker_inference.functions import Hook
from sagemaker_inference.model import Model
from sagemaker_inference.service import Message, Place, Reply, Request, Service
from sagemaker_inference.settings import Settings

_log = logging.get_logger(__name__)

T = TypeVar("T")

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")


class Exchange:
    """One request on its way to its answer."""

    __slots__ = ("accept", "answering", "body", "context", "kind", "reply", "request", "value")

    def __init__(self, request: Request, place: Place) -> None:
        self.request = request
        self.context = Context(place, (request,))
        #: An error from here on means that the answer, not the request, was at fault.
        self.answering = False
        self.reply: Reply | None = None
        self.value: Any = None

    def read(self, default_accept: str) -> None:
        """Takes what user functions get out of the request. Raises for a body that is not the text it says it is."""
        kind = accept = None
        for name, value in self.request.headers.raw:
            if name == b"content-type":
                kind = value
            elif name == b"accept":
                # A list may come in several headers.
                accept = value if accept is None else accept + b"," + value
        self.accept = negotiation.accept(accept, default_accept)
        content_type = negotiation.content_type(kind)
        self.kind = content_type.type
        self.body: str | bytes = self.request.body
        if content_type.text:
            self.body = records.text(self.request.body, content_type.charset)

    def forget_choice(self) -> None:
        """A codec's choice of a type is for one answer only; with one exact type there is none to make."""
        if not self.accept.exact:
            negotiation.chosen.set(None)


class FunctionService(Service):
    """One model served by its functions."""

    def __init__(self, model: Model, settings: Settings, place: Place) -> None:
        self._model = model
        self._place = place
        self._default_accept = settings.default_accept
        self._multi_model = settings.multi_model
        self._debug = settings.debug
        self._log_ids = settings.log_format == "json"
        # A batch job puts its own line end after each answer; a second one would be an empty record.
        self._trims = settings.batch and not model.whole and not model.output.users
        self.asynchronous = model.asynchronous
        self.batches = model.batches
        self.converses = model.bidirectional is not None

    def handle(self, request: Request) -> Reply:
        return run(self._answer(request))

    async def handle_async(self, request: Request) -> Reply:
        return await self._answer(request)

    def handle_many(self, requests: Sequence[Request]) -> list[Reply]:
        return run(self._answer_many(requests))

    async def handle_many_async(self, requests: Sequence[Request]) -> list[Reply]:
        return await self._answer_many(requests)

    def converse(self, messages: AsyncIterator[Message], request: Request) -> AsyncGenerator[Message, None]:
        assert self._model.bidirectional
        context = self._open(request).context
        return self._model.bidirectional.call(messages, self._model.value, context)  # type: ignore[no-any-return]

    async def _answer(self, request: Request) -> Reply:
        model = self._model
        if model.only_batches:
            return (await self._answer_group([request]))[0]
        exchange = self._open(request)
        context = exchange.context
        try:
            exchange.read(self._default_accept)
            if model.transform:
                exchange.forget_choice()
                result = model.transform.call(model.value, exchange.body, exchange.kind, exchange.accept.value, context)
                if model.transform.awaitable:
                    result = await result
                return await self._reply(exchange, model.transform, result)
            data = model.input.call(exchange.body, exchange.kind, context)
            if model.input.awaitable:
                data = await data
            prediction = model.predict.call(data, model.value, context)
            if model.predict.awaitable:
                prediction = await prediction
            return await self._output(exchange, prediction)
        except Exception as error:
            return self._failed(exchange, error)

    async def _answer_many(self, requests: Sequence[Request]) -> list[Reply]:
        if self.batches:
            return await self._answer_group(requests)
        return [await self._answer(request) for request in requests]

    async def _answer_group(self, requests: Sequence[Request]) -> list[Reply]:
        """Each request is read and answered on its own; only the function for groups gets them together."""
        model = self._model
        exchanges = [self._open(request) for request in requests]
        hook = model.batch_transform or model.batch_predict
        assert hook is not None

        async def before(exchange: Exchange) -> None:
            exchange.read(self._default_accept)
            exchange.value = exchange.body
            if not model.batch_transform:
                data = model.input.call(exchange.body, exchange.kind, exchange.context)
                exchange.value = await data if model.input.awaitable else data

        async def after(exchange: Exchange) -> None:
            if model.batch_transform:
                exchange.forget_choice()
                exchange.reply = await self._reply(exchange, hook, exchange.value)
            else:
                exchange.reply = await self._output(exchange, exchange.value)

        await self._attempt_each(exchanges, before)
        await self._call_group(hook, [exchange for exchange in exchanges if exchange.reply is None])
        await self._attempt_each(exchanges, after)
        return [exchange.reply for exchange in exchanges if exchange.reply is not None]

    async def _call_group(self, hook: Hook, exchanges: Sequence[Exchange]) -> None:
        """Sets each value, or the reply of those that failed.

        When a group fails, its requests are tried one by one: none has to suffer for another's.
        """
        if not exchanges:
            return
        model = self._model
        values = [exchange.value for exchange in exchanges]
        context = Context.of_group([exchange.context for exchange in exchanges])
        try:
            if hook is model.batch_transform:
                kinds = [exchange.kind for exchange in exchanges]
                accepts = [exchange.accept.value for exchange in exchanges]
                results = hook.call(model.value, values, kinds, accepts, context)
            else:
                results = hook.call(values, model.value, context)
            if hook.awaitable:
                results = await results
            results = list(results)
            if len(results) != len(exchanges):
                raise ValueError(f"{hook.name} returned {len(results)} results for {len(exchanges)} requests.")
        except Exception as error:
            if len(exchanges) == 1:
                exchanges[0].reply = self._failed(exchanges[0], error)
                return
            _log.warning("%s failed for %d requests; they are tried one by one: %s", hook.name, len(exchanges), error)
            for exchange in exchanges:
                await self._call_group(hook, [exchange])
            return
        for exchange, result in zip(exchanges, results, strict=True):
            exchange.value = result
            if isinstance(result, Exception):
                exchange.reply = self._failed(exchange, result)

    async def _attempt_each(self, exchanges: Sequence[Exchange], step: Callable[[Exchange], Awaitable[None]]) -> None:
        """Takes those that have no reply yet one step further; a failure is a reply."""
        for exchange in exchanges:
            if exchange.reply is None:
                try:
                    await step(exchange)
                except Exception as error:
                    exchange.reply = self._failed(exchange, error)

    def _open(self, request: Request) -> Exchange:
        if self._log_ids:
            logging.request_ids.set((request.id, request.inference_id))
        return Exchange(request, self._place)

    async def _output(self, exchange: Exchange, prediction: Any) -> Reply:
        output = self._model.output
        exchange.answering = True
        if not output.users and answers.is_stream(prediction):
            return await self._reply(exchange, output, prediction)
        exchange.forget_choice()
        result = output.call(prediction, exchange.accept.value, exchange.context)
        if output.awaitable:
            result = await result
        return await self._reply(exchange, output, result)

    async def _reply(self, exchange: Exchange, hook: Hook, result: Any) -> Reply:
        kind = None
        if isinstance(result, tuple):
            result, kind = answers.pair(hook.name, result)
        if type(result) is str:
            body: Any = result.encode()
        elif type(result) is bytes:
            body = result
        elif answers.is_stream(result):
            return await self._stream(exchange, hook, result, kind)
        else:
            body = answers.whole(hook.name, result)
        accept = exchange.accept
        if not kind and exchange.context.is_used:
            kind = exchange.context.get_response_content_type()
        if not kind:
            kind = accept.first if accept.exact else negotiation.chosen.get() or accept.first
        if self._trims and kind == content_types.CSV:
            body = body.removesuffix(b"\n")
        return reply(exchange.context, kind, body)

    async def _stream(self, exchange: Exchange, hook: Hook, items: Any, kind: str | None) -> Reply:
        """The first item is made before the answer begins, so that its failure has a status."""
        first: list[Any] = []
        waits = hasattr(items, "__anext__")
        try:
            if not waits:
                first.append(next(items))
            elif self.asynchronous:
                first.append(await anext(items))
            else:
                # Only known now, and the server calls functions that are not async without an event loop.
                raise TypeError(f"{hook.name} returned an async iterator: define it with async def.")
        except (StopIteration, StopAsyncIteration):
            kind = kind or exchange.context.get_response_content_type() or exchange.accept.first
            return reply(exchange.context, kind, b"")
        kind = kind or exchange.context.get_response_content_type()
        kind = kind or answers.stream_type(first[0], exchange.accept)
        write = answers.item_writer(kind)
        if waits:
            return reply(exchange.context, kind, answers.AsyncStream(first[0], items, write))
        return reply(exchange.context, kind, answers.Stream(first[0], items, write))

    def _failed(self, exchange: Exchange, error: Exception) -> Reply:
        status = errors.status_of(error, answering=exchange.answering, multi_model=self._multi_model)
        return failure(exchange.request, error, status, debug=self._debug)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("An asynchronous service must be awaited.")


def reply(context: Context, kind: str, body: Any, idx: int = 0) -> Reply:
    """A reply with the status and the headers that were set in the context."""
    if not context.is_used:
        return Reply(200, _content_type_header(kind), body)
    processor = context.request_processor[idx]
    headers = {**processor.get_response_headers(), "content-type": kind}
    return Reply(
        processor.get_response_status_code(),
        tuple((name.encode("latin-1"), _header_value(value)) for name, value in headers.items()),
        body,
    )


def failure(request: Request, error: Exception, status: int, *, debug: bool = False) -> Reply:
    """The JSON reply of a request that failed; the traceback goes to the log with the request's ids."""
    message = errors.message_of(error)
    _log.error(
        "Request %s (inference id %s) failed with status %d: %s",
        request.id,
        request.inference_id or "-",
        status,
        message,
        exc_info=error,
    )
    more = {"traceback": "".join(traceback.format_exception(error))} if debug else {}
    body = errors.body(status, message, type(error).__name__, request.id, **more)
    return Reply(status, _content_type_header(content_types.JSON), body)


@lru_cache(256)
def _content_type_header(kind: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"content-type", _header_value(kind)),)


def _header_value(value: str) -> bytes:
    """One line of visible characters: what user code makes of a request must not become a header of its own."""
    return _UNPRINTABLE.sub(" ", value).strip().encode("latin-1", "replace")
