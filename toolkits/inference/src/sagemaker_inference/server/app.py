"""The ASGI application of a worker: which path is what, and one call of the user's functions for each request."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sagemaker_inference.server import board, replies, streams
from sagemaker_inference.server.wire import Wire
from sagemaker_inference.service import Headers, Reply, Request, Service
from sagemaker_inference.settings import Settings

INVOCATIONS = "/invocations"
PING = "/ping"
PARAMETERS = "/execution-parameters"

Send = Callable[[dict[str, Any]], Awaitable[None]]

logger = logging.getLogger("sagemaker_inference.server")


class App:
    """Answers with one loaded service."""

    def __init__(
        self, service: Service, settings: Settings, shared: board.Board, worker: int, on_idle: Callable[[], None]
    ) -> None:
        self._service = service
        self.timeout = settings.timeout_seconds
        self._words = shared.words
        self._times = shared.times
        first = board.worker_cell(worker)
        self._call_started = first + board.CALL_STARTED
        self._call_slot = first + board.CALL_SLOT
        self._answered = first + board.ANSWERED
        self._wanted = first + board.WANTED
        self._running = first + board.RUNNING
        self._on_idle = on_idle
        self._settings = settings
        self.invoke = self._invoke_async if service.asynchronous else self._invoke

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        method = scope["method"]
        wire: Wire = scope["state"]["wire"]
        if path == INVOCATIONS and method == "POST":
            await self.invoke(scope, receive, send, wire)
            return
        status, content_type, body, headers = self._other(path, method)
        await answer(wire, send, Reply(status, ((b"content-type", content_type), *headers), body), body)

    async def _invoke(self, scope: Any, receive: Any, send: Send, wire: Wire) -> None:
        body = (await receive())["body"]
        request = Request(body, Headers(scope["headers"]), replies.request_id(), INVOCATIONS)
        words, times = self._words, self._times
        words[self._call_slot] = wire.slot
        times[self._call_started] = time.monotonic()
        try:
            reply = self._service.handle(request)
            content = reply.body
            if type(content) is bytes:
                times[self._call_started] = 0.0
                await answer(wire, send, reply, content)
            else:
                await streams.send_all(self, scope, send, wire, reply, request.id)
        except Exception:
            logger.exception("request %s: the server could not send the answer", request.id)
            fail(wire, request.id)
        except BaseException as error:
            leave(error, request.id)
        finally:
            times[self._call_started] = 0.0
        words[self._answered] += 1
        if words[self._wanted]:
            words[self._wanted] = 0
            self._on_idle()

    def touch(self) -> None:
        """Restarts the clock of the running call: it has just made an item of a stream."""
        self._times[self._call_started] = time.monotonic()

    async def _invoke_async(self, scope: Any, receive: Any, send: Send, wire: Wire) -> None:
        body = (await receive())["body"]
        request = Request(body, Headers(scope["headers"]), replies.request_id(), INVOCATIONS)
        words = self._words
        words[self._running] += 1
        self._times[wire.started] = time.monotonic()
        try:
            reply = await self._service.handle_async(request)
            content = reply.body
            if type(content) is bytes:
                await answer(wire, send, reply, content)
            else:
                await streams.send_all(self, scope, send, wire, reply, request.id)
        except Exception:
            logger.exception("request %s: the server could not send the answer", request.id)
            fail(wire, request.id)
        except (SystemExit, KeyboardInterrupt) as error:
            leave(error, request.id)
        finally:
            words[self._running] -= 1
            if not wire.closed:
                self._times[wire.started] = 0.0
        words[self._answered] += 1
        if words[self._wanted]:
            words[self._wanted] = 0
            self._on_idle()

    def _other(self, path: str, method: str) -> tuple[int, bytes, bytes, tuple[tuple[bytes, bytes], ...]]:
        """Everything but an invocation: status, content type, body, more headers."""
        allowed = {INVOCATIONS: "POST", PING: "GET", PARAMETERS: "GET"}.get(path)
        if allowed is None:
            message = f"There is nothing at {path[:200]!r}; the paths are {PING}, {INVOCATIONS} and {PARAMETERS}."
            return 404, replies.JSON, replies.error(404, message), ()
        if method != allowed:
            message = f"{path} answers {allowed}, not {method}."
            return 405, replies.JSON, replies.error(405, message), ((b"allow", allowed.encode()),)
        if path == PING:
            return 200, replies.JSON, b"", ()
        return 200, replies.JSON, execution_parameters(self._settings), ()


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


def execution_parameters(settings: Settings) -> bytes:
    """The answer to a batch transform job's question. The strategy is left out: clients spell it in two ways."""
    payload = 6 if settings.max_payload_mb is None else settings.max_payload_mb
    workers = settings.workers or 1
    concurrency = settings.max_concurrent_transforms or min(workers, max(1, 100 // max(1, payload)))
    return json.dumps({"MaxConcurrentTransforms": concurrency, "MaxPayloadInMB": payload}).encode()
