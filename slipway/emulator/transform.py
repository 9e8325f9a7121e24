"""A batch transform job on this machine's engine: every input object through the container, one output object each.

Source of the rules: the SageMaker API reference, CreateTransformJob, and the developer guide, "Use Your Own Inference
Code with Batch Transform".
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway.emulator import records, s3
from slipway.emulator.exchange import Answer, NoAnswer, Request, exchange
from slipway.emulator.hosting import MB, Served, Serving, check, host
from slipway.emulator.job import LogLine
from slipway.engine.docker import Engine
from slipway.errors import Fault, InputError
from slipway.files import write_whole

MOST_CONCURRENT_MB = 100
_SUFFIX = ".out"


@dataclass(frozen=True, kw_only=True)
class TransformJob:
    """What is asked for, in the words of CreateTransformJob. None: the container's choice, else the platform's.

    `inputs`: a file, a folder, or an s3:// prefix. `timeout` is InvocationsTimeoutInSeconds.
    """

    served: Served
    inputs: str
    content_type: str = ""
    accept: str = ""
    split: str = "None"
    strategy: str | None = None
    assemble: str = "None"
    join: str = "None"
    compression: str = "None"
    max_payload_mb: int | None = None
    max_concurrent: int | None = None
    timeout: float = 600.0
    retries: int = 3
    name: str = "transform"


@dataclass(frozen=True)
class ObjectResult:
    """What came of one input object. `error` empty: its output is at `output`."""

    name: str
    requests: int
    error: str
    output: Path | None


@dataclass(frozen=True, kw_only=True)
class TransformResult:
    """`status`: Completed or Failed. The other fields: what was in force."""

    name: str
    status: str
    failure_reason: str
    objects: tuple[ObjectResult, ...]
    strategy: str
    max_payload_mb: int
    max_concurrent: int
    log: Path


def run_transform(
    job: TransformJob,
    engine: Engine,
    output: Path,
    *,
    on_line: Callable[[LogLine], None] | None = None,
    on_object: Callable[[ObjectResult], None] | None = None,
    s3_endpoint: str | None = None,
) -> TransformResult:
    """Run a job to its end. A failed object fails the job; the others are transformed all the same.

    `output` gets `<input>.out` for each object, under the input's own sub-folders, and logs/. Raises InputError for
    what the service would not take, EndpointError when the container does not become healthy, EngineError.
    """
    _check(job)
    engine.image(job.served.image)
    served = replace(job.served, environment={**_environment(job), **job.served.environment})
    with host(engine, output, on_line=on_line, s3_endpoint=s3_endpoint) as machine:
        inputs = _inputs(job.inputs, machine.work / "input", s3_endpoint)
        serving = machine.start(served)
        serving.wait_until_healthy()
        job = _settled(job, serving)
        assert job.max_concurrent and job.max_payload_mb is not None and job.strategy
        results = _transform(job, serving, inputs, output, on_object or (lambda result: None))
        serving.stop()
    failed = [result for result in results if result.error]
    return TransformResult(
        name=job.name,
        status="Failed" if failed else "Completed",
        failure_reason=f"ClientError: {failed[0].name}: {failed[0].error}" if failed else "",
        objects=tuple(results),
        strategy=job.strategy,
        max_payload_mb=job.max_payload_mb,
        max_concurrent=job.max_concurrent,
        log=serving.log,
    )


def _check(job: TransformJob) -> None:
    check(job.served)
    faults = [
        Fault(f"{name} {value!r} is unknown", f"one of: {', '.join(known)}")
        for name, value, known in (
            ("split type", job.split, records.SPLITS),
            ("batch strategy", job.strategy or records.STRATEGIES[0], records.STRATEGIES),
            ("assembly", job.assemble, records.ASSEMBLIES),
            ("join source", job.join, records.JOINS),
            ("compression", job.compression, ("None", "Gzip")),
        )
        if value not in known
    ]
    if job.join == "Input" and job.split != "Line":
        faults.append(Fault("inputs can be joined only when they are split by line", "set the split type to Line"))
    if job.strategy == "MultiRecord" and job.split == "None":
        faults.append(Fault("MultiRecord without a split type", "set the split type"))
    if not 0 <= job.retries <= 3:
        faults.append(Fault(f"{job.retries} retries", "0 to 3"))
    if not 1 <= job.timeout <= 3600:
        faults.append(Fault(f"a time limit of {job.timeout:g} s for a request", "1 to 3600"))
    if job.max_payload_mb is not None and not 0 <= job.max_payload_mb <= MOST_CONCURRENT_MB:
        faults.append(Fault(f"MaxPayloadInMB {job.max_payload_mb}", f"0 to {MOST_CONCURRENT_MB}"))
    if job.max_concurrent is not None and job.max_concurrent < 1:
        faults.append(Fault(f"MaxConcurrentTransforms {job.max_concurrent}", "1 or more"))
    elif (job.max_concurrent or 1) * (job.max_payload_mb or 0) > MOST_CONCURRENT_MB:
        faults.append(Fault("MaxConcurrentTransforms x MaxPayloadInMB is over 100", "lower one of them"))
    if faults:
        raise InputError("SageMaker would not take this transform job", faults=faults)


def _environment(job: TransformJob) -> dict[str, str]:
    found = {"SAGEMAKER_BATCH": "true"}
    if job.max_payload_mb is not None:
        found["SAGEMAKER_MAX_PAYLOAD_IN_MB"] = str(job.max_payload_mb)
    if job.strategy is not None:
        found["SAGEMAKER_BATCH_STRATEGY"] = "SINGLE_RECORD" if job.strategy == "SingleRecord" else "MULTI_RECORD"
    if job.max_concurrent is not None:
        found["SAGEMAKER_MAX_CONCURRENT_TRANSFORMS"] = str(job.max_concurrent)
    return found


def _inputs(location: str, folder: Path, s3_endpoint: str | None) -> dict[str, Path]:
    """The input objects by name, in order of their names."""
    if location.startswith("s3://"):
        s3.download(location, folder, s3_endpoint)
        path = folder
    else:
        path = Path(location.removeprefix("file://"))
    if path.is_file():
        return {path.name: path}
    found = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
    if not found:
        raise InputError(f"there is nothing to transform at {location}", fix="name a file or a folder of files")
    return found


def _settled(job: TransformJob, serving: Serving) -> TransformJob:
    """The job with every choice made: the request's, the container's, the platform's, in this order."""
    offered: dict[str, Any] = {}
    answer = serving.call(Request("GET", "/execution-parameters", timeout=60.0))
    if answer.status == 200:
        try:
            offered = dict(json.loads(answer.body))
        except (ValueError, TypeError):
            raise serving.failed(f"/execution-parameters answered {answer.text(200)!r}, which is no object") from None
    strategies = {"SINGLE_RECORD": "SingleRecord", "MULTI_RECORD": "MultiRecord"}
    offered_strategy = strategies.get(str(offered.get("BatchStrategy", "")), "MultiRecord")

    def chosen(asked: int | None, name: str, otherwise: int) -> int:
        return asked if asked is not None else int(offered.get(name, otherwise))

    return replace(
        job,
        strategy=job.strategy or offered_strategy,
        max_payload_mb=chosen(job.max_payload_mb, "MaxPayloadInMB", 6),
        max_concurrent=chosen(job.max_concurrent, "MaxConcurrentTransforms", 1),
    )


def _transform(
    job: TransformJob,
    serving: Serving,
    inputs: dict[str, Path],
    output: Path,
    on_object: Callable[[ObjectResult], None],
) -> list[ObjectResult]:
    """One object after the other, the requests of each side by side."""
    results = []
    for name, path in inputs.items():
        bodies: list[bytes] = []
        try:
            data = path.read_bytes()
            if job.compression == "Gzip":
                data = _unzipped(data)
            cut = records.split(data, job.split)
            bodies = list(records.pack(cut, job.strategy or "MultiRecord", (job.max_payload_mb or 0) * MB))
            content = records.assemble(_answers(job, serving, bodies), job.assemble)
            if job.join == "Input":
                content = records.join(data, content, job.content_type)
            target = output / f"{name}{_SUFFIX}"
            write_whole(target, content)
            result = ObjectResult(name, len(bodies), "", target)
        except _Refused as error:
            result = ObjectResult(name, len(bodies), str(error), None)
        except InputError as error:
            result = ObjectResult(name, len(bodies), error.message, None)
        results.append(result)
        on_object(result)
    return results


class _Refused(Exception):
    """A request that failed for good."""


def _unzipped(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise InputError(f"it is not compressed with gzip: {error}") from None


def _answers(job: TransformJob, serving: Serving, bodies: list[bytes]) -> Iterator[bytes]:
    headers = {"Content-Type": job.content_type} if job.content_type else {}
    if job.accept:
        headers["Accept"] = job.accept
    given_up = threading.Event()

    def send(body: bytes) -> bytes:
        if given_up.is_set():
            return b""
        try:
            return _sent(job, serving, Request("POST", "/invocations", body, headers, job.timeout))
        except BaseException:
            given_up.set()
            raise

    with ThreadPoolExecutor(job.max_concurrent) as pool:
        try:
            yield from pool.map(send, bodies)
        except KeyboardInterrupt:
            # The pool waits for its requests, and each of them would wait for its answer.
            given_up.set()
            serving.stop()
            raise


def _sent(job: TransformJob, serving: Serving, request: Request) -> bytes:
    """The answer to one request. 5xx and time limits are tried again, 4xx are final."""
    what = ""
    for _ in range(job.retries + 1):
        if serving.ended.is_set():
            raise serving.failed("ended in the middle of the job")
        try:
            answer: Answer = exchange(serving.port, request)
        except NoAnswer as error:
            what = f"no answer: {error}"
            continue
        if 200 <= answer.status < 300:
            return answer.body
        what = f"{answer.status} {answer.text()}"
        if answer.status < 500:
            break
    raise _Refused(what)
