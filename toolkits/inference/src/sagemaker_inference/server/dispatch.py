"""Which worker gets which request; what becomes of the requests of a worker that is busy or dead."""

from __future__ import annotations

import logging
import select
import signal
import time
from collections import deque
from collections.abc import Iterator

from sagemaker_inference.server import board, channel, children, replies, sockets
from sagemaker_inference.server.clients import Client, Clients
from sagemaker_inference.server.pool import Pool, Worker
from sagemaker_inference.settings import Settings

_SHORT_CALL = 0.005
"""A worker whose call is younger than this is not busy: it will be done before another could be asked."""
_LONG_CALL = 0.02
"""Connections are taken back from a worker whose call is older."""
_ON_THEIR_WAY = 16
_OWN_LIMIT_SECONDS = 1.0
_STOP_SECONDS = 1.0
_SHORTEST_WAIT = 60.0
"""The platform's own limit: whoever waited longer than this and a request's limit is not there any more."""

logger = logging.getLogger("sagemaker_inference.server")


class Dispatch:
    """Requests that wait for a worker, in order of arrival, and the connections that workers have."""

    def __init__(self, shared: board.Board, pool: Pool, waiting_room: Clients, settings: Settings) -> None:
        self._words = shared.words
        self._times = shared.times
        self._board = shared
        self._pool = pool
        self._clients = waiting_room
        self._settings = settings
        self._free = deque(range(board.SLOTS))
        self._taking_back = False
        self.refused = 0
        """Requests for which there was no place."""
        self.waiting: deque[tuple[float, Client]] = deque()

    def busy(self) -> bool:
        """Whether workers have connections, or requests wait."""
        return bool(self.waiting) or any(one.clients for one in self._pool.workers)

    # To workers

    def add(self, client: Client) -> None:
        """Takes a connection on which a request has come."""
        if not self.waiting and self._give(client):
            return
        if self._taking_back:
            # It came before those that wait.
            self.waiting.appendleft((time.monotonic(), client))
        else:
            self.waiting.append((time.monotonic(), client))
        if len(self.waiting) > self._settings.queue_size:
            _, newest = self.waiting.pop()
            self.refused += 1
            message = f"{len(self.waiting)} requests wait already, and all workers are busy."
            self._clients.refuse(newest, replies.whole(503, message, close=True, kind="QueueFull"))
        self.run()

    def run(self) -> None:
        """Gives what waits to workers that are free; has the others tell when they are."""
        while self.waiting and self._give(self.waiting[0][1]):
            self.waiting.popleft()
        if not self.waiting:
            return
        for one in self._pool.ready():
            self._words[board.worker_cell(one.number) + board.WANTED] = 1
        # One may have become free before it could see that.
        while self.waiting and self._give(self.waiting[0][1]):
            self.waiting.popleft()

    def _give(self, client: Client) -> bool:
        one = self._choose()
        if one is None or not self._free:
            return False
        slot = self._free.popleft()
        self._board.set_slot(slot, board.PASSED, client.received, client.sent)
        message = channel.with_number(channel.CONNECTION, slot)
        try:
            given = sockets.send_descriptor(one.channel, message, client.descriptor)
        except OSError:
            given = False  # It is dead, and that will be told.
        if not given:
            self._words[board.slot_cell(slot) + board.STATE] = board.FREE
            self._free.append(slot)
            return False
        client.slot = slot
        one.clients[slot] = client
        one.passed.add(slot)
        return True

    def _choose(self) -> Worker | None:
        now = time.monotonic()
        best: tuple[tuple[int, int, int], Worker] | None = None
        for one in self._pool.ready():
            load = self._load(one, now)
            if load is not None and (best is None or load < best[0]):
                best = load, one
        return best[1] if best else None

    def _load(self, one: Worker, now: float) -> tuple[int, int, int] | None:
        """How much a worker has to do, for comparison; None: it is busy."""
        words = self._words
        if one.passed:
            one.passed = {slot for slot in one.passed if words[board.slot_cell(slot)] == board.PASSED}
        first = board.worker_cell(one.number)
        running = words[first + board.RUNNING]
        if len(one.passed) >= _ON_THEIR_WAY or running + len(one.passed) >= self._settings.queue_size:
            return None
        started = self._times[first + board.CALL_STARTED]
        if started and now - started > _SHORT_CALL:
            return None
        return running + bool(started), len(one.passed), len(one.clients)

    # From workers

    def closed(self, one: Worker, slot: int) -> None:
        """A worker is done with a connection."""
        client = one.clients.pop(slot, None)
        one.taken.discard(slot)
        one.passed.discard(slot)
        self._words[board.slot_cell(slot) + board.STATE] = board.FREE
        self._free.append(slot)
        if client is not None:
            client.connection.close()

    def overdue(self, now: float) -> Iterator[tuple[Worker, set[int]]]:
        """Workers with requests that have taken longer than the limit, and the slots of these."""
        limit = now - self._settings.timeout_seconds
        for one in self._pool.ready():
            first = board.worker_cell(one.number)
            slots = set()
            # Async requests the worker ends by itself; the second is for a loop that does not get to it.
            since = limit - _OWN_LIMIT_SECONDS
            if 0.0 < self._times[first + board.CALL_STARTED] < limit:
                slots.add(self._words[first + board.CALL_SLOT])
                since = limit
            if self._words[first + board.RUNNING]:
                begun = ((slot, self._times[board.slot_cell(slot) + board.STARTED]) for slot in one.clients)
                slots.update(slot for slot, started in begun if 0.0 < started <= since)
            if slots:
                yield one, slots

    def give_up_waiting(self, now: float) -> None:
        """Answers requests for which no worker became free in time."""
        patience = max(self._settings.timeout_seconds, _SHORTEST_WAIT)
        while self.waiting and self.waiting[0][0] < now - patience:
            message = f"No worker became free within {patience:g} s."
            self._clients.refuse(self.waiting.popleft()[1], replies.whole(503, message, close=True, kind="QueueFull"))

    def stop_busy(self, now: float) -> None:
        """Stops workers that compute while requests wait unread on their connections, to take those back.

        A worker that is stopped in a call does not read meanwhile, so that no request is read by two.
        """
        for one in self._pool.ready():
            if one.stopped_call and now - one.stopped_at > _STOP_SECONDS:
                # Something that cannot be interrupted keeps it from stopping; it need not.
                self._go_on(one)
            started = self._times[board.worker_cell(one.number) + board.CALL_STARTED]
            if started and now - started > _LONG_CALL and not one.stopped_call and self._better_elsewhere(one):
                one.stopped_call, one.stopped_at = started, now
                children.signal_process(one.pid, signal.SIGSTOP)

    def _better_elsewhere(self, one: Worker) -> bool:
        """Whether requests wait at a busy worker that another would take, that are ours, or that are too many."""
        slots = self._untouched(one)
        if not slots:
            return False
        if self._choose() is not None or len(slots) + len(self.waiting) > self._settings.queue_size:
            return True
        return any(self._clients.is_own(one.clients[slot]) for slot in slots)

    def take_back(self, one: Worker) -> None:
        """Takes back the connections of a worker that has stopped, and lets it go on."""
        started = one.stopped_call
        back = []
        if started and self._times[board.worker_cell(one.number) + board.CALL_STARTED] == started:
            for slot in self._untouched(one):
                self._words[board.slot_cell(slot) + board.STATE] = board.TAKEN
                one.taken.add(slot)
                channel.tell(one.channel, channel.with_number(channel.TAKEN, slot))
                one.passed.discard(slot)
                back.append(self._recall(one.clients.pop(slot)))
        self._go_on(one)
        self._taking_back = True
        for client in reversed(back):
            self._clients.watch(client)
        self._taking_back = False

    def _go_on(self, one: Worker) -> None:
        one.stopped_call = 0.0
        children.signal_process(one.pid, signal.SIGCONT)

    def _untouched(self, one: Worker) -> list[int]:
        """Slots on which a request waits of which the worker has read nothing."""
        poll = select.poll()
        slots = {}
        for slot, client in one.clients.items():
            if self._words[board.slot_cell(slot) + board.STATE] in (board.IDLE, board.PASSED):
                slots[client.descriptor] = slot
                poll.register(client.descriptor, select.POLLIN)
        found = [slots[descriptor] for descriptor, _ in poll.poll(0)]
        # The end of a client's stream is no request.
        return [slot for slot in found if sockets.readable(one.clients[slot].connection)]

    def _recall(self, client: Client) -> Client:
        first = board.slot_cell(client.slot)
        client.received = self._words[first + board.RECEIVED]
        client.sent = self._words[first + board.SENT]
        client.slot = -1
        return client

    # After a death

    def settle(self, one: Worker, how: str) -> None:
        """Answers the requests of a dead worker, and takes over its connections on which nothing was read."""
        for slot, client in one.clients.items():
            self._settle(client, slot, one, how)
            self._words[board.slot_cell(slot) + board.STATE] = board.FREE
            self._free.append(slot)
        for slot in one.taken:
            self._words[board.slot_cell(slot) + board.STATE] = board.FREE
            self._free.append(slot)
        one.clients.clear()

    def _settle(self, client: Client, slot: int, one: Worker, how: str) -> None:
        first = board.slot_cell(slot)
        state = self._words[first + board.STATE]
        traffic = sockets.traffic(client.connection)
        read = traffic is not None and traffic[0] - self._words[first + board.RECEIVED] not in (0, 1)
        self._recall(client)
        if state in (board.PASSED, board.IDLE) and not read:
            if traffic is not None:
                # It may have had no time to note the end of its last answer.
                client.sent = traffic[1]
            self._clients.watch(client)
            return
        if state != board.ANSWERING or (traffic is not None and traffic[1] == client.sent):
            self._clients.refuse(client, self._epitaph(slot, one, how))
        elif traffic is not None and traffic[1] == self._words[first + board.EXPECTED] and not read:
            # It wrote the whole answer, and had no time left to note that.
            client.sent = traffic[1]
            self._clients.watch(client)
        else:
            # Cut short, which the client sees by the length or by the chunk that lacks.
            self._clients.refuse(client, b"")

    def _epitaph(self, slot: int, one: Worker, how: str) -> bytes:
        """What the client of a dead worker is told."""
        if slot in one.overdue:
            return replies.whole(504, replies.took_too_long(self._settings.timeout_seconds), close=True)
        return replies.whole(500, replies.worker_died(how), close=True)

    def refuse_all(self, message: str) -> None:
        """Answers everything that waits."""
        while self.waiting:
            self._clients.refuse(self.waiting.popleft()[1], replies.whole(503, message, close=True, kind="NotReady"))
