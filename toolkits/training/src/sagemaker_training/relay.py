"""Passes on what a process writes: byte for byte, in whole lines, at once, at next to no cost.

A poll loop moves bytes from pipes to sinks. It looks at no line by itself: per chunk it finds the
last line end and writes everything up to there, so the cost does not grow with the number of lines.
A writer that keeps it busy is read every two milliseconds instead of at every byte, which saves
both sides their wake-ups; a line that comes alone is passed on at once.
"""

from __future__ import annotations

import collections
import errno
import fcntl
import os
import select
import time
from contextlib import suppress
from typing import Callable, Deque, Dict, List, Optional, Union

Transform = Callable[[bytes], bytes]

COALESCE_SECONDS = 0.002
TAIL_LINES = 200
TAIL_BYTES = 64 * 1024

# A line that never ends would grow without limit; beyond this it is passed on in parts. CloudWatch cuts an event
# long before.
HOLD_BYTES = 1024 * 1024

_READ_BYTES = 256 * 1024
_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)

# Wake-ups in a row that are answered at once, before a writer counts as busy.
_BURST = 8


def open_pipe() -> tuple[int, int]:
    """A pipe as large as the system allows, so that a burst does not stop its writer."""
    reader, writer = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(writer, _SET_PIPE_SIZE, _PIPE_BYTES)
    os.set_blocking(reader, False)
    return reader, writer


class Tail:
    """The last lines of a stream, kept as chunks so that keeping them costs nothing per line."""

    def __init__(self) -> None:
        self._chunks: Deque[bytes] = collections.deque()
        self._size = 0

    def add(self, data: memoryview) -> None:
        chunk = bytes(data[-TAIL_BYTES:])
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= TAIL_BYTES:
            self._size -= len(self._chunks.popleft())
        if len(self._chunks) > TAIL_LINES:
            # Many small chunks: one object for all of them keeps the memory bounded.
            joined = b"".join(self._chunks)[-TAIL_BYTES:]
            self._chunks = collections.deque([joined])
            self._size = len(joined)

    def text(self) -> str:
        """At most 200 lines and 64 kB. Of a progress bar, what stood last on the screen."""
        joined = b"".join(self._chunks)[-TAIL_BYTES:].decode("utf-8", "replace")
        lines = joined.split("\n")[-TAIL_LINES - 1 :]
        return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


class Sink:
    """A file descriptor that takes whole units of one or several streams."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.streams = 0
        self.midline = False
        self.error: Optional[OSError] = None

    def write(self, data: memoryview) -> None:
        if not data:
            return
        self.midline = data[-1] != 0x0A
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                select.select([], [self.fd], [])
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EBADF, errno.EIO, errno.ENOSPC):
                    raise
                # Nobody takes the log any more. The script must not stand still for that.
                self.error = error
                return


class Stream:
    """One source of bytes on its way to a sink."""

    def __init__(self, fd: int, sink: Sink, transform: Optional[Transform], awaited: bool) -> None:
        self.fd = fd
        self.awaited = awaited
        self.tail = Tail()
        self._sink = sink
        self._transform = transform
        self._held: List[bytes] = []
        self._held_size = 0
        sink.streams += 1

    def forward(self, data: memoryview) -> None:
        """Passes on all whole lines and holds the rest back."""
        cut = data.obj.rfind(b"\n", 0, len(data)) + 1  # type: ignore[attr-defined]
        if not cut and self._may_split():
            # The redraws of a progress bar. Nothing else writes to this sink, so nothing can come
            # in between and tear the line.
            cut = data.obj.rfind(b"\r", 0, len(data)) + 1  # type: ignore[attr-defined]
        if cut:
            self._release(data[:cut])
        if cut < len(data):
            self._held.append(bytes(data[cut:]))
            self._held_size += len(data) - cut
            if self._held_size > HOLD_BYTES:
                self._release()

    def finish(self) -> None:
        """Passes on a last line without an end, as it is."""
        self._release()
        self._sink.streams -= 1

    def _may_split(self) -> bool:
        return self._sink.streams == 1 and self._transform is None

    def _release(self, more: Union[bytes, memoryview] = b"") -> None:
        """Passes on what is held together with what completes it, so that a line is written in one piece."""
        if self._held:
            more = b"".join([*self._held, more])
            self._held, self._held_size = [], 0
        if more:
            self._pass(memoryview(more))

    def _pass(self, data: memoryview) -> None:
        if self._transform is not None:
            data = memoryview(self._transform(bytes(data)))
        self.tail.add(data)
        self._sink.write(data)


class Relay:
    """Moves the bytes of any number of streams until they end."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._streams: Dict[int, Stream] = {}
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._credit = float(_BURST)
        self._last_wake = 0.0

    def add(self, fd: int, sink: Sink, transform: Optional[Transform] = None, awaited: bool = True) -> Stream:
        """Takes over a descriptor opened for reading. It is closed at its end.

        awaited: whether ``drain`` waits for that end. A named pipe that this process holds open has none.
        """
        os.set_blocking(fd, False)
        stream = Stream(fd, sink, transform, awaited)
        self._streams[fd] = stream
        self._poll.register(fd, select.POLLIN)
        return stream

    def watch(self, fd: int) -> None:
        """Lets another descriptor end a wait."""
        self._poll.register(fd, select.POLLIN)

    def pump(self, timeout: Optional[float]) -> None:
        """Waits for bytes, at most timeout seconds (None: without limit), and passes them on."""
        self._rest_if_busy()
        for fd, _ in self._poll.poll(None if timeout is None else max(0, int(timeout * 1000))):
            if fd in self._streams:
                self._move(self._streams[fd])

    def drain(self, seconds: float) -> None:
        """Passes on what is already there, and closes all streams.

        Waits up to the given time for streams that are still held open, by a ``tee`` that works off its
        last lines; one that a background process keeps open ends here nevertheless.
        """
        deadline = time.monotonic() + seconds
        while any(stream.awaited for stream in self._streams.values()):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            for fd, _ in self._poll.poll(int(left * 1000) + 1):
                if fd in self._streams:
                    self._move(self._streams[fd], rounds=64)
        for stream in list(self._streams.values()):
            self._move(stream, rounds=64)
        for stream in list(self._streams.values()):
            self._close(stream)

    def _rest_if_busy(self) -> None:
        now = time.monotonic()
        self._credit = min(float(_BURST), self._credit + (now - self._last_wake) / COALESCE_SECONDS)
        if self._credit < 1:
            time.sleep(COALESCE_SECONDS)
            now = time.monotonic()
        else:
            self._credit -= 1
        self._last_wake = now

    def _move(self, stream: Stream, rounds: int = 8) -> None:
        for _ in range(rounds):
            try:
                count = os.readv(stream.fd, [self._buffer])
            except BlockingIOError:
                return
            if not count:
                self._close(stream)
                return
            stream.forward(self._view[:count])
            if count < _READ_BYTES:
                return

    def _close(self, stream: Stream) -> None:
        stream.finish()
        self._poll.unregister(stream.fd)
        del self._streams[stream.fd]
        os.close(stream.fd)
