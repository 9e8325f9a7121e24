"""Asynchronous invocations: requests that wait in a queue, their inputs and answers in S3.

Source of the rules: the API reference of SageMaker Runtime, InvokeEndpointAsync, and the developer guide, "Asynchronous
inference".
"""

from __future__ import annotations

import io
import queue
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from slipway.emulator import s3
from slipway.emulator.hosting import MB
from slipway.emulator.runtime import Accepted, Endpoint, Limits, ModelError
from slipway.engine.interrupts import LONGEST_WAIT
from slipway.errors import InputError, SlipwayError

LARGEST_INPUT = 1024 * MB
LARGEST_BODY = 128_000
"""Bytes of a payload that comes with the request itself."""
MOST_CONCURRENT = 1000

_PREFIX = "x-amzn-sagemaker-"
_SECONDS = {"invocationtimeoutseconds": (900, 1, 3600), "requestttlseconds": (21600, 60, 21600)}
"""Of each the default, the least and the most."""
_FORMS = {
    "inference-id": r"\S[ -~]{0,63}",
    "inputlocation": r"s3://[^/]+/.+",
    "s3outputpathextension": r"(?!s3:|https:)[a-zA-Z0-9!_.*'()/-]{1,512}",
    "filename": r"(?!.*\..*\.)[a-zA-Z0-9][a-zA-Z0-9_.-]{0,31}",
}


@dataclass(frozen=True)
class _Waiting:
    """A request in the queue. `source` empty: `body` came with it. `stored` and `failed`: names below the output."""

    accepted: Accepted
    source: str
    body: bytes
    headers: Mapping[str, str]
    seconds: float
    expires: float
    stored: str
    failed: str


class AsyncInvocations:
    """The queue of one endpoint, worked off in the order of arrival by `concurrent` workers.

    `output`: the s3:// prefix of answers (`ID.out`) and failures (`ID-error.out`). `on_event` hears what came of each
    request. `clock` in seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        output: str,
        *,
        concurrent: int = 1,
        s3_endpoint: str | None = None,
        on_event: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint, self._output, self._s3_endpoint = endpoint, output.rstrip("/"), s3_endpoint
        self._on_event, self._clock = on_event, clock
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closing, self._closed = threading.Lock(), False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(concurrent)]
        for worker in self._workers:
            worker.start()

    def take(self, headers: Mapping[str, str], body: bytes) -> Accepted:
        """Put a request into the queue. `headers` by lower-case name. Raises InputError for what the API refuses."""
        waiting = self._read(headers, body)
        with self._closing:
            if self._closed:
                raise InputError("the endpoint is being stopped")
            self._queue.put(waiting)
        return waiting.accepted

    def close(self) -> None:
        """Take no more, and return when all that was taken is done."""
        with self._closing:
            self._closed = True
            for _ in self._workers:
                self._queue.put(None)
        for worker in self._workers:
            while worker.is_alive():
                worker.join(LONGEST_WAIT)

    def _read(self, headers: Mapping[str, str], body: bytes) -> _Waiting:
        given = {name.removeprefix(_PREFIX): value for name, value in headers.items() if name.startswith(_PREFIX)}
        faults = [
            f"{name} {given[name]!r} is not of the form {form}"
            for name, form in _FORMS.items()
            if name in given and not re.fullmatch(form, given[name])
        ]
        if bool(body) == ("inputlocation" in given):
            faults.append("give an InputLocation or a Body, and not both")
        if len(body) > LARGEST_BODY:
            faults.append(f"the body has {len(body):,} bytes; {LARGEST_BODY:,} are taken, more by InputLocation")
        seconds = {}
        for name, (otherwise, least, most) in _SECONDS.items():
            text = given.get(name, str(otherwise))
            seconds[name] = int(text) if text.isdecimal() else 0
            if not least <= seconds[name] <= most:
                faults.append(f"{name} {text!r} is not from {least} to {most}")
        if faults:
            raise InputError("; ".join(faults))
        own = str(uuid.uuid4())
        folder = given.get("s3outputpathextension", "").strip("/")
        stored = f"{folder}/{given.get('filename', f'{own}.out')}".lstrip("/")
        failed = f"{own}-error.out"
        identity = given.get("inference-id", own)
        sent = {**headers, f"{_PREFIX}inference-id": identity}
        sent.pop("content-type", None)  # of the call, not of the input
        if "content-type" in given:
            sent["content-type"] = given["content-type"]
        return _Waiting(
            Accepted(identity, f"{self._output}/{stored}", f"{self._output}/{failed}"),
            given.get("inputlocation", ""),
            body,
            sent,
            seconds["invocationtimeoutseconds"],
            self._clock() + seconds["requestttlseconds"],
            stored,
            failed,
        )

    def _work(self) -> None:
        while (waiting := self._queue.get()) is not None:
            identity = waiting.accepted.inference_id
            try:
                self._store(waiting.stored, self._answer(waiting))
                self._on_event(f"{identity}: {waiting.accepted.output}")
            except Exception as error:  # whatever it is, those behind it in the queue have their turn
                self._fail(waiting, error)

    def _answer(self, waiting: _Waiting) -> bytes:
        if self._clock() > waiting.expires:
            raise InputError("the request expired in the queue, which its RequestTTLSeconds limits")
        body = waiting.body
        if waiting.source:
            body = s3.read_object(waiting.source, self._s3_endpoint, LARGEST_INPUT)
        limits = Limits(body=LARGEST_INPUT, seconds=waiting.seconds)
        return replace(self._endpoint, limits=limits).invoke(body, waiting.headers).body

    def _fail(self, waiting: _Waiting, error: Exception) -> None:
        told = f"the model answered {error.status}: {error.message}" if isinstance(error, ModelError) else str(error)
        self._on_event(f"{waiting.accepted.inference_id}: failed: {told}")
        try:
            self._store(waiting.failed, told.encode())
        except SlipwayError as refused:
            self._on_event(f"{waiting.accepted.inference_id}: {refused}")

    def _store(self, name: str, content: bytes) -> None:
        with s3.uploading(f"{self._output}/", self._s3_endpoint) as store:
            store(name, io.BytesIO(content))
