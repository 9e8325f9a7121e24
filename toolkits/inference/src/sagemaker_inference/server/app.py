"""The ASGI application of a worker: which path is what, and one call of the user's functions for each request."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sagemaker_inference import errors
from sagemaker_inference.server import board, metrics, replies, streams
from sagemaker_inference.server.batching import AsyncBatcher, Batcher, Ticket
from sagemaker_inference.server.wire import Wire
from sagemaker_inference.service import Headers, Reply, Request, Service
from sagemaker_inference.sessions import Sessions
from sagemaker_inference.settings import Settings

INVOCATIONS = "/invocations"
PING = "/ping"
PARAMETERS = "/execution-parameters"
_METHODS = {INVOCATIONS: "POST", PING: "GET", PARAMETERS: "GET"}
_BATCH_MEGABYTES = 100
"""What the platform allows for concurrency times payload in a batch transform job."""

Get = Callable[[Request, Wire], Awaitable[Reply]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

logger = logging.getLogger("sagemaker_inference.server")


class App:
    """Answers with one loaded service."""

    def __init__(
        self,
        service: Service,
        settings: Settings,
        shared: board.Board,
        worker: int,
        loop: asyncio.AbstractEventLoop,
        on_idle: Callable[[], None],
    ) -> None:
        """on_idle: called after a request if the supervisor waits for that."""
        self.timeout = settings.timeout_seconds
        self._service = service
        self._handle = service.handle
        self._settings = settings
        self._loop = loop
        self._on_idle = on_idle
        self._words = shared.words
        self._times = shared.times
        first = board.worker_cell(worker)
        self._call_started = first + board.CALL_STARTED
        self._call_slot = first + board.CALL_SLOT
        self._answered = first + board.ANSWERED
        self._wanted = first + board.WANTED
        self._running = first + board.RUNNING
        self._get = self._way()
        if settings.sessions_enabled:
            sessions = Sessions(settings.sessions_path, settings.sessions_expiration)
            self._get = self._in_session(sessions, self._get)
        counts = settings.metrics_path or settings.metrics_log_seconds
        self._recorder = metrics.Recorder(shared, worker) if counts else None

    def _way(self) -> Get | None:
        """How a reply is got, where that is more than a call."""
        service, size, delay = self._service, self._settings.batch_size, self._settings.max_batch_delay_ms / 1000
        if size > 1 and not getattr(service, "batches", True):
            logger.warning("batch_size=%d has no effect: the model has no function for batches", size)
            size = 1
        if service.asynchronous:
            if size == 1:
                return lambda request, wire: self._limited(service.handle_async(request), wire)
            together = AsyncBatcher(size, delay, service.handle_many_async)
            return lambda request, wire: self._limited(together.reply(request), wire)
        if size == 1:
            return None
        self._batcher = Batcher(size, delay, self._loop, self._handle_batch)
        return self._in_batch

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._converse(scope, receive, send)
            return
        path = scope["path"]
        method = scope["method"]
        wire: Wire = scope["state"]["wire"]
        if path == INVOCATIONS and method == "POST":
            await self._invoke(scope, receive, send, wire)
            return
        reply, body = self._other(path, method)
        await answer(wire, send, reply, body)

    async def _converse(self, scope: Any, receive: Any, send: Send) -> None:
        from sagemaker_inference.server import conversations

        await conversations.converse(self._service, scope, receive, send)

    async def _invoke(self, scope: Any, receive: Any, send: Send, wire: Wire) -> None:
        body = (await receive())["body"]
        request = Request(body, Headers(scope["headers"]), replies.request_id(), INVOCATIONS)
        words, times = self._words, self._times
        started = time.monotonic()
        try:
            if self._get is None:
                words[self._call_slot] = wire.slot
                times[self._call_started] = started
                reply = self._handle(request)
            else:
                reply = await self._get(request, wire)
            content = reply.body
            if type(content) is bytes:
                times[self._call_started] = 0.0
                await answer(wire, send, reply, content)
            else:
                await streams.send_all(self, scope, send, wire, reply, request.id)
            if self._recorder is not None:
                self._recorder.answered(reply.status, time.monotonic() - started)
        except Exception:
            logger.exception("request %s: the server could not send the answer", request.id)
            fail(wire, request.id)
        except (SystemExit, KeyboardInterrupt) as error:
            leave(error, request.id)
        finally:
            times[self._call_started] = 0.0
        words[self._answered] += 1
        if words[self._wanted]:
            words[self._wanted] = 0
            self._on_idle()

    def touch(self) -> None:
        """Restarts the clock of the running call: it has just made an item of a stream."""
        if self._times[self._call_started]:
            self._times[self._call_started] = time.monotonic()

    def _in_session(self, sessions: Sessions, get: Get | None) -> Get:
        """The way to a reply, with what its session asks for before and after."""

        async def reply(request: Request, wire: Wire) -> Reply:
            try:
                step = sessions.step(request)
            except errors.GenericInferenceToolkitError as error:
                return Reply(400, ((b"content-type", replies.JSON),), replies.error(400, str(error), "SessionError"))
            if step.reply is not None:
                found = step.reply
            elif get is not None:
                found = await get(step.request, wire)
            else:
                self._words[self._call_slot] = wire.slot
                self._times[self._call_started] = time.monotonic()
                found = self._handle(step.request)
            return found._replace(headers=(*found.headers, *step.headers))

        return reply

    async def _limited(self, reply: Awaitable[Reply], wire: Wire) -> Reply:
        """A reply of async functions, or a 504 in its time."""
        task = asyncio.current_task()
        assert task is not None
        over = False

        def end() -> None:
            nonlocal over
            over = True
            task.cancel()

        timer = self._loop.call_later(self.timeout, end)
        self._words[self._running] += 1
        self._times[wire.started] = time.monotonic()
        try:
            return await reply
        except asyncio.CancelledError:
            if not over:
                raise
            message = replies.took_too_long(self.timeout)
            logger.error("request on slot %d: %s", wire.slot, message)
            return Reply(504, ((b"content-type", replies.JSON),), replies.error(504, message))
        finally:
            timer.cancel()
            self._words[self._running] -= 1
            if not wire.closed:
                self._times[wire.started] = 0.0

    async def _in_batch(self, request: Request, wire: Wire) -> Reply:
        self._words[self._running] += 1
        try:
            return await self._batcher.add(request, wire)
        finally:
            self._words[self._running] -= 1

    def _handle_batch(self, tickets: Sequence[Ticket]) -> Sequence[Reply]:
        now = time.monotonic()
        for ticket in tickets:
            if not ticket.wire.closed:
                self._times[ticket.wire.started] = now
        self._words[self._call_slot] = tickets[0].wire.slot
        self._times[self._call_started] = now
        try:
            return self._service.handle_many([ticket.request for ticket in tickets])
        except Exception:
            logger.exception("a batch of %d requests failed as a whole", len(tickets))
            failed = replies.error(500, "The batch failed; the log says why.", "InternalServerError")
            return [Reply(500, ((b"content-type", replies.JSON),), failed)] * len(tickets)
        except (SystemExit, KeyboardInterrupt) as error:
            leave(error, tickets[0].request.id)
            raise
        finally:
            self._times[self._call_started] = 0.0
            for ticket in tickets:
                if not ticket.wire.closed:
                    self._times[ticket.wire.started] = 0.0

    def _other(self, path: str, method: str) -> tuple[Reply, bytes]:
        """Everything but an invocation."""
        allowed = _METHODS.get(path)
        if allowed is None:
            message = f"There is nothing at {path[:200]!r}; the paths are {PING}, {INVOCATIONS} and {PARAMETERS}."
            return _json(404, replies.error(404, message))
        if method != allowed:
            message = f"{path} answers {allowed}, not {method}."
            return _json(405, replies.error(405, message), (b"allow", allowed.encode()))
        if path == PING:
            return _json(200, b"")
        return _json(200, execution_parameters(self._settings, self._words[board.PLANNED]))


def _json(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[Reply, bytes]:
    return Reply(status, ((b"content-type", replies.JSON), *headers), body), body


async def answer(wire: Wire, send: Send, reply: Reply, body: bytes) -> None:
    """Sends an answer that is there as a whole, in one write."""
    wire.cork()
    headers = [*reply.headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    wire.uncork(whole=True)
    wire.finish()


def fail(wire: Wire, identity: str) -> None:
    """Answers with a 500 when an answer could not be sent, unless a part of it has been."""
    if wire.begun():
        wire.abort()
        return
    wire.discard()
    message = "The answer could not be sent; the log says why."
    wire.cork()
    wire.write(replies.whole(500, message, close=True, identity=identity, kind="InternalServerError"))
    wire.uncork()
    wire.finish()
    wire.close()


def leave(error: BaseException, identity: str) -> None:
    """Ends the process as user code asked; the supervisor answers the request and starts another worker."""
    code = error.code if isinstance(error, SystemExit) else 1
    if code is not None and not isinstance(code, int):
        logger.error("request %s: %s", identity, code)
        code = 1
    logger.error("request %s: user code ended the worker by %s", identity, type(error).__name__)
    logging.shutdown()
    os._exit(code or 0)


def execution_parameters(settings: Settings, workers: int) -> bytes:
    """The answer to a batch transform job's question. The strategy is left out: clients spell it in two ways."""
    payload = 6 if settings.max_payload_mb is None else settings.max_payload_mb
    most = max(1, _BATCH_MEGABYTES // payload) if payload else 1
    concurrency = settings.max_concurrent_transforms or min(workers, most)
    return json.dumps({"MaxConcurrentTransforms": concurrency, "MaxPayloadInMB": payload}).encode()
