"""Dynamic batching: requests that come close together are handled by one call, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from sagemaker_inference.server.wire import Wire
from sagemaker_inference.service import Reply, Request


class Ticket:
    """What a request in a batch waits for. Its coroutine goes on in the moment the reply is there, without the loop."""

    __slots__ = ("coroutine", "reply", "request", "wire")

    def __init__(self, request: Request, wire: Wire) -> None:
        self.request = request
        self.wire = wire
        self.reply: Reply | None = None
        self.coroutine: Any = None

    def __await__(self) -> Generator[Ticket, None, Reply]:
        while self.reply is None:
            yield self
        return self.reply

    def settle(self, reply: Reply) -> None:
        self.reply = reply
        if self.coroutine is None:
            return  # The batch was full with this one, which has not begun to wait.
        try:
            self.coroutine.send(None)
        except StopIteration:
            pass


class Batcher:
    """Gathers up to ``size`` requests, for ``delay`` seconds after the first, and hands them to ``handle``."""

    def __init__(
        self,
        size: int,
        delay: float,
        loop: asyncio.AbstractEventLoop,
        handle: Callable[[Sequence[Ticket]], Sequence[Reply]],
    ) -> None:
        self._size = size
        self._delay = delay
        self._loop = loop
        self._handle = handle
        self._tickets: list[Ticket] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, request: Request, wire: Wire) -> Ticket:
        """The request's ticket, to be awaited."""
        ticket = Ticket(request, wire)
        self._tickets.append(ticket)
        if len(self._tickets) >= self._size:
            self._run()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._delay, self._run)
        return ticket

    def _run(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tickets, self._tickets = self._tickets, []
        for ticket, reply in zip(tickets, self._handle(tickets), strict=True):
            ticket.settle(reply)


class AsyncBatcher:
    """The same for functions that are async: several batches may run at the same time."""

    def __init__(
        self, size: int, delay: float, handle: Callable[[Sequence[Request]], Awaitable[Sequence[Reply]]]
    ) -> None:
        self._size = size
        self._delay = delay
        self._handle = handle
        self._waiting: list[tuple[Request, asyncio.Future[Reply]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def reply(self, request: Request) -> Reply:
        """The request's own reply, when its batch is done."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((request, future))
        if len(self._waiting) >= self._size:
            self._start()
        elif self._timer is None:
            self._timer = loop.call_later(self._delay, self._start)
        return await future

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        task = asyncio.ensure_future(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, batch: list[tuple[Request, asyncio.Future[Reply]]]) -> None:
        try:
            replies = await self._handle([request for request, _ in batch])
            for (_, future), reply in zip(batch, replies, strict=True):
                if not future.done():
                    future.set_result(reply)
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
