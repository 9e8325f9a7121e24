"""One start of a model's processes: the server for a single model, on a socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagemaker_inference import memory, requirements
from sagemaker_inference.multi_model import refusal
from sagemaker_inference.multi_model.link import LinkLost, Pool
from sagemaker_inference.multi_model.processes import Process
from sagemaker_inference.multi_model.refusal import Refusal
from sagemaker_inference.server import children, exits

# A model that is being loaded is killed before one that serves, and both before the router.
_SCORE_LOADING = 900
_SCORE_SERVING = 500

_SHORTEST_POLL = 0.01
_LONGEST_POLL = 0.1
# The unit ends its own workers; this is how long the kernel may need to take what it left.
_GONE_SECONDS = 10.0
# Between the end of a connection and the end of the process that had it.
_LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True)
class Source:
    """What a unit serves. handler: the framework's module of functions. device: see ``devices``."""

    name: str
    folder: str
    handler: str
    device: int | None = None


@dataclass(frozen=True)
class End:
    """How a unit ended. reason: in one line. out_of_memory: whether memory was not enough.

    for_good: whether the unit has tried again and again by itself.
    """

    reason: str
    out_of_memory: bool = False
    for_good: bool = False


class UnitFailed(Exception):
    """A unit ended before it was ready, or was not ready in time."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


class Unit:
    """The processes of one model. Make one with ``start``; ``ready`` says when it serves, ``end`` how it ended."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str) -> None:
        self._process = process
        self._folder = folder
        self._kills = memory.oom_kills() or 0
        self.pool = Pool(_socket(folder))

    @classmethod
    async def start(cls, source: Source, folder: str, environ: Mapping[str, str]) -> Unit:
        """Starts a unit in a private folder, whose packages stay from one start to the next. Raises OSError."""
        for path in (_socket(folder), _failure(folder), _no_packages(folder)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        await asyncio.to_thread(shutil.rmtree, _temporary(folder), ignore_errors=True)
        os.mkdir(_temporary(folder), 0o700)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sagemaker_inference.server.unit"),
            *("--socket", _socket(folder), "--name", source.name, "--model-dir", source.folder),
            *("--handler", source.handler, "--failure", _failure(folder)),
            env={**environ, "TMPDIR": _temporary(folder)},
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        memory.prefer_for_killing([process.pid], _SCORE_LOADING)
        return cls(process, folder)

    async def ready(self, limit: float | None) -> None:
        """Returns when the unit serves. Raises UnitFailed when it ends before, or after a limit in seconds."""
        end = asyncio.ensure_future(self._process.wait())
        serving = asyncio.ensure_future(self._serving())
        try:
            await asyncio.wait((end, serving), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                raise UnitFailed(self.end())
            if not serving.done():
                raise UnitFailed(End(f"The model was not loaded within {limit:g} seconds."))
        finally:
            end.cancel()
            serving.cancel()
        await asyncio.to_thread(memory.prefer_for_killing, memory.family(self._process.pid), _SCORE_SERVING)

    async def wait(self) -> End:
        """Waits for the unit's end."""
        await self._process.wait()
        return self.end()

    async def used(self) -> int:
        """Bytes of memory that the unit takes now."""
        return await asyncio.to_thread(lambda: memory.used(memory.family(self._process.pid)))

    async def stop(self, grace: float) -> None:
        """Ends the unit, by force after a grace in seconds. On return its memory and ports are given back."""
        self.pool.close()
        family = [Process.of(pid) for pid in memory.family(self._process.pid)]
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM if grace > 0 else signal.SIGKILL)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), grace or None)
        await self._wait_until_gone(family)
        await self._process.wait()

    def end(self) -> End:
        """How the unit ended, once it has."""
        code = self._process.returncode or 0
        told = self._told()
        reason = str(told.get("message") or f"The model's server died ({children.how(code)}).")
        if "signal 9" in reason and (self._kills_rose() or memory.oom_kills() is None):
            return End(f"Out of memory: {reason}", out_of_memory=True)
        return End(reason, out_of_memory=bool(told.get("out_of_memory")), for_good=code == exits.WORKERS)

    async def no_answer(self) -> Refusal:
        """Why a request got no answer, when the connection to the unit broke."""
        with contextlib.suppress(asyncio.TimeoutError):
            end = await asyncio.wait_for(self.wait(), _LAST_WORDS_SECONDS)
            return refusal.no_memory(end.reason) if end.out_of_memory else refusal.failed(end.reason)
        return refusal.failed("The model's server broke off the connection.")

    def killed_for_memory(self, answer: bytes) -> bool:
        """Whether an answer tells of a worker that the kernel killed since memory had run out."""
        return b'"WorkerDied"' in answer and b"signal 9" in answer and self._kills_rose()

    def _kills_rose(self) -> bool:
        before, self._kills = self._kills, memory.oom_kills() or 0
        return self._kills > before

    def _told(self) -> dict[str, object]:
        """What the unit, or the installation of its requirements, left as the reason of its end."""
        with contextlib.suppress(OSError), open(_failure(self._folder), encoding="utf-8") as file:
            return dict(json.load(file))
        with contextlib.suppress(OSError), open(_no_packages(self._folder), encoding="utf-8") as file:
            return {"message": file.read()}
        return {}

    async def _serving(self) -> None:
        """Returns when /ping answers 200. Polled, since a socket is all that a unit has in common with us."""
        pause = _SHORTEST_POLL
        while await self.get("/ping") is None:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_POLL)

    async def get(self, path: str) -> bytes | None:
        """What the unit's supervisor answers; None when it does not, or not with 200."""
        try:
            # On one that was used before, a worker would answer.
            link = await self.pool.new()
        except OSError:
            return None
        try:
            link.request(b"GET %b HTTP/1.1\r\nhost: unit\r\n\r\n" % path.encode(), b"", last=True)
            status, _ = await link.head()
            content, more = b"", True
            while more:
                part, more = await link.body()
                content += part
        except LinkLost:
            return None
        finally:
            link.close()
        return content if status == 200 else None

    async def _wait_until_gone(self, family: Sequence[Process]) -> None:
        """Kills what the unit left behind, and waits until it is gone."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + _GONE_SECONDS
        while (left := [process for process in family if process.alive()]) and loop.time() < limit:
            for process in left:
                process.kill()
            await asyncio.sleep(_SHORTEST_POLL)


def _socket(folder: str) -> str:
    return os.path.join(folder, "s")


def _failure(folder: str) -> str:
    return os.path.join(folder, "failure.json")


def _no_packages(folder: str) -> str:
    return requirements.reason_of(os.path.join(folder, "packages"))


def _temporary(folder: str) -> str:
    """The model's own temporary folder: what it leaves there goes with it."""
    return os.path.join(folder, "tmp")
