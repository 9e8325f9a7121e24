"""Commands `serve` and `transform`: an endpoint or a batch transform job on this machine, as SageMaker would run it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from slipway.commands.guard import command
from slipway.commands.reading import Reading
from slipway.commands.run import environment_of, reference_of, region_of, whole
from slipway.console import Console
from slipway.emulator import runtime
from slipway.emulator.asynchronous import MOST_CONCURRENT, AsyncInvocations
from slipway.emulator.hosting import MB, PORT, Served, Serving, check, host
from slipway.emulator.job import new_name
from slipway.emulator.multi_model import MultiModel
from slipway.emulator.runtime import Endpoint, Limits, ModelError, RuntimeServer
from slipway.emulator.transform import ObjectResult, TransformJob, TransformResult, run_transform
from slipway.engine.docker import Engine
from slipway.engine.interrupts import LONGEST_WAIT
from slipway.errors import EndpointError, Fault, InputError
from slipway.records import Records
from slipway.settings import Settings

SERVERLESS_MEMORY = 2048 * MB
"""Bytes: what a serverless endpoint has where its MemorySizeInMB is not given, as the SageMaker SDK asks for it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """What is served, as text; empty: not given."""

    image: str
    model: str = ""
    source: str = ""
    entry: str = "inference.py"
    env: tuple[str, ...] = ()
    memory_mb: str = ""
    output: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeOptions:
    name: str = "local"
    port: str = str(PORT)
    models: str = ""
    serverless: bool = False
    send: str = ""
    content_type: str = "application/json"
    accept: str = ""
    target: str = ""
    async_output: str = ""
    async_concurrent: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformOptions:
    inputs: str
    content_type: str = ""
    accept: str = ""
    split: str = "None"
    strategy: str = ""
    assemble: str = "None"
    join: str = "None"
    compression: str = "None"
    max_payload_mb: str = ""
    max_concurrent: str = ""
    retries: str = "3"
    time_limit: str = "600"


def serve(json: bool, served: ServedOptions, options: ServeOptions) -> None:
    with command(json) as (settings, console):
        reading = Reading()
        wanted = _served(served, settings, reading)
        if options.serverless:
            wanted = dataclasses.replace(wanted, read_only=True, memory=wanted.memory or SERVERLESS_MEMORY)
        body = reading.take(lambda: _body(options), b"")
        port = reading.take(lambda: whole("port", options.port), 0)
        concurrent = reading.take(lambda: _concurrent(options), 1)
        reading.close("this cannot be served")
        engine = Engine.connect(settings.environment)
        wanted = dataclasses.replace(wanted, image=reference_of(wanted.image, Records(settings.state), engine))
        output = Path(served.output) if served.output else settings.state / "endpoints" / options.name
        with host(
            engine, output, on_line=lambda line: console.note(line.text), s3_endpoint=settings.aws_endpoint("s3")
        ) as machine:
            models = None
            if options.models:
                folder = machine.work / "models"
                folder.mkdir(mode=0o755)
                wanted = dataclasses.replace(wanted, models=folder)
            serving = machine.start(wanted)
            serving.wait_until_healthy()
            console.note(f"healthy after {serving.seconds_to_ready:.1f} s")
            if wanted.models is not None:
                models = MultiModel(
                    serving, options.models, wanted.models, settings.aws_endpoint("s3"), on_event=console.note
                )
            limits = runtime.SERVERLESS if options.serverless else Limits()
            endpoint = Endpoint(options.name, (serving,), models, limits)
            if options.send:
                _send(endpoint, body, options, console)
            else:
                waiting = None
                if options.async_output:
                    waiting = AsyncInvocations(
                        endpoint,
                        options.async_output,
                        concurrent=concurrent,
                        s3_endpoint=settings.aws_endpoint("s3"),
                        on_event=console.note,
                    )
                _until_stopped(endpoint, serving, port, waiting, console)


def transform(json: bool, served: ServedOptions, options: TransformOptions) -> None:
    with command(json) as (settings, console):
        reading = Reading()

        def number(name: str, text: str) -> int:
            return reading.take(lambda: whole(name, text), 1)

        job = TransformJob(
            served=_served(served, settings, reading),
            inputs=options.inputs,
            content_type=options.content_type,
            accept=options.accept,
            split=options.split,
            strategy=options.strategy or None,
            assemble=options.assemble,
            join=options.join,
            compression=options.compression,
            max_payload_mb=number("max-payload-mb", options.max_payload_mb) if options.max_payload_mb else None,
            max_concurrent=number("max-concurrent", options.max_concurrent) if options.max_concurrent else None,
            retries=number("retries", options.retries),
            timeout=number("time-limit", options.time_limit),
            name=new_name("transform"),
        )
        reading.close("this cannot be transformed")
        engine = Engine.connect(settings.environment)
        image = reference_of(served.image, Records(settings.state), engine)
        job = dataclasses.replace(job, served=dataclasses.replace(job.served, image=image))
        output = Path(served.output) if served.output else settings.state / "transforms" / job.name

        def tell(result: ObjectResult) -> None:
            console.note(f"{result.name}: {result.error or f'{result.requests} requests'}")

        result = run_transform(
            job,
            engine,
            output,
            on_line=lambda line: console.note(line.text),
            on_object=tell,
            s3_endpoint=settings.aws_endpoint("s3"),
        )
        _show(result, output, console)
        if result.status != "Completed":
            raise EndpointError(f"the job {result.name} failed: {result.failure_reason}", fix=f"see {result.log}")


def _served(options: ServedOptions, settings: Settings, reading: Reading) -> Served:
    environment: dict[str, str] = reading.take(lambda: environment_of(options.env, settings.environment), {})
    served = Served(
        image=options.image,
        model=options.model,
        source=Path(options.source) if options.source else None,
        entry=options.entry,
        environment=environment,
        region=region_of(settings),
        memory=reading.take(lambda: whole("memory-mb", options.memory_mb or "0"), 0) * MB,
    )
    reading.take(lambda: check(served), None)
    return served


def _body(options: ServeOptions) -> bytes:
    """What is to be sent. Raises InputError for a file that is not there, and for what is of no use without one."""
    path = options.send
    if not path:
        idle = [f"--{name}" for name in ("accept", "target") if getattr(options, name)]
        if idle:
            raise InputError(
                f"{' and '.join(idle)} without --send", fix="clients say it with each request; leave it out"
            )
        return b""
    if not Path(path).is_file():
        raise InputError(f"there is no {path} to send", fix="name the file that holds the request's body")
    return Path(path).read_bytes()


def _concurrent(options: ServeOptions) -> int:
    """How many asynchronous requests are worked on at once. Raises InputError for what cannot go with them."""
    faults = []
    if options.async_output:
        faults = [
            Fault(f"--async-output with --{name}", "SageMaker has no such endpoint; leave one of them out")
            for name in ("models", "serverless")
            if getattr(options, name)
        ]
        if options.send:
            faults.append(Fault("--async-output with --send", "send requests to the endpoint that it serves"))
        if not re.fullmatch(r"s3://[^/]+(/.*)?", options.async_output):
            faults.append(
                Fault(f"--async-output {options.async_output!r} is no place in S3", "write s3://BUCKET/PREFIX")
            )
    elif options.async_concurrent:
        faults.append(Fault("--async-concurrent without --async-output", "name the s3:// prefix of the answers"))
    number = whole("async-concurrent", options.async_concurrent or "1")
    if not 1 <= number <= MOST_CONCURRENT:
        faults.append(Fault(f"--async-concurrent {number}", f"1 to {MOST_CONCURRENT}"))
    if faults:
        raise InputError("these options do not go together", faults=faults)
    return number


def _send(endpoint: Endpoint, body: bytes, options: ServeOptions, console: Console) -> None:
    """One request, whose answer is the command's."""
    headers = {"content-type": options.content_type}
    if options.accept:
        headers["accept"] = options.accept
    begun = time.monotonic()
    try:
        answer = endpoint.invoke(body, headers, options.target)
    except ModelError as error:
        raise EndpointError(f"the model answered {error.status}: {error.message}", fix=f"see {error.log}") from None
    text = answer.body.decode("utf-8", "replace")
    console.say(text)
    console.result(
        {
            "status": answer.status,
            "content_type": answer.content_type,
            "seconds": round(time.monotonic() - begun, 3),
            "body": text,
        }
    )


def _until_stopped(
    endpoint: Endpoint, serving: Serving, port: int, waiting: AsyncInvocations | None, console: Console
) -> None:
    """Serve until Ctrl-C, or until the container ends."""
    with _front(endpoint, port, waiting) as server:
        console.say(f"{server.url} serves {serving.served.image}; Ctrl-C ends it")
        console.say(f"  curl -s {server.url}/invocations -H 'Content-Type: application/json' -d '…'")
        console.say(f"  boto3.client('sagemaker-runtime', endpoint_url='{server.url}'), EndpointName='{endpoint.name}'")
        console.result({"url": server.url, "endpoint": endpoint.name, "log": str(serving.log)})
        try:
            while not serving.ended.wait(LONGEST_WAIT):
                pass
        except KeyboardInterrupt:
            if waiting is not None:
                console.note("what waits in the queue is done first; Ctrl-C again ends it at once")
                waiting.close()
            ended = serving.stop()
            console.note(f"stopped; the container ended with {ended.code}")
            if ended.code:
                raise EndpointError(
                    f"the container ended with {ended.code} when it was stopped", fix=f"see {serving.log}"
                ) from None
            return
        if waiting is not None:
            waiting.close()  # what still waits has its failure said in S3
    raise serving.failed("ended by itself")


@contextlib.contextmanager
def _front(endpoint: Endpoint, port: int, waiting: AsyncInvocations | None) -> Iterator[RuntimeServer]:
    try:
        server = RuntimeServer(endpoint, port, waiting.take if waiting is not None else None)
    except OSError as error:
        raise InputError(f"port {port} cannot be listened on: {error.strerror}", fix="give another --port") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def _show(result: TransformResult, output: Path, console: Console) -> None:
    rows = [(each.name, each.requests, each.error or str(each.output)) for each in result.objects]
    console.table(("object", "requests", "output, or what failed"), rows)
    console.say(
        f"{result.name}: {result.status}; {result.strategy}, {result.max_payload_mb} MB, "
        f"{result.max_concurrent} at once; results in {output}"
    )
    console.result(dataclasses.asdict(result))
