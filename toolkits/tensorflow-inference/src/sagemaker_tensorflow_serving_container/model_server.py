"""``tensorflow_model_server`` as a child of the worker, where the image has that program.

Rules tf-server-*. The worker and its model server live and die together: a worker whose server ends, ends as well, so
that the supervisor sees the truth, answers what is in flight and starts both anew; the kernel ends a server whose
worker is gone.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from sagemaker_inference.server import children

from sagemaker_tensorflow_serving_container.backend import Answer, Target
from sagemaker_tensorflow_serving_container.documents import Document
from sagemaker_tensorflow_serving_container.models import Model, ModelError
from sagemaker_tensorflow_serving_container.ports import Pair
from sagemaker_tensorflow_serving_container.settings import Settings

PROGRAM = "tensorflow_model_server"

logger = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.05
_ASK_SECONDS = 5.0
_END_SECONDS = 5.0
# sysexits.h: a service that this process needs is not there.
_EX_UNAVAILABLE = 69
_PR_SET_PDEATHSIG = 1


def program() -> str | None:
    """The program's path, or None where the image has none."""
    return shutil.which(PROGRAM)


def command(
    path: str, ports: Pair, folder: str, settings: Settings, timeout_seconds: float, gpu_share: float | None
) -> list[str]:
    """The command line of a model server whose files ``write_files`` put into a folder."""
    arguments = [
        path,
        f"--port={ports.grpc}",
        f"--rest_api_port={ports.rest}",
        f"--rest_api_timeout_in_ms={int(timeout_seconds * 1000)}",
        f"--model_config_file={_models_file(folder)}",
        "--max_num_load_retries=0",
        f"--tensorflow_intra_op_parallelism={settings.intra_op}",
        f"--tensorflow_inter_op_parallelism={settings.inter_op}",
    ]
    if settings.batching:
        arguments += ["--enable_batching=true", f"--batching_parameters_file={_batching_file(folder)}"]
    if gpu_share is not None:
        arguments.append(f"--per_process_gpu_memory_fraction={gpu_share:.4f}")
    return arguments


def write_files(folder: str, models: Iterable[Model], settings: Settings) -> None:
    """The files that the command line names. Raises OSError."""
    with open(_models_file(folder), "w", encoding="utf-8") as file:
        file.write(model_config(models))
    if settings.batching:
        with open(_batching_file(folder), "w", encoding="utf-8") as file:
            file.write(batching_config(settings))


def model_config(models: Iterable[Model]) -> str:
    """The text of ``model_config_file``: every version of every model."""
    return "model_config_list {\n" + "".join(map(_config, models)) + "}\n"


def batching_config(settings: Settings) -> str:
    values = {
        "max_batch_size": settings.max_batch_size,
        "batch_timeout_micros": settings.batch_timeout_micros,
        "num_batch_threads": settings.batch_threads,
        "max_enqueued_batches": settings.max_enqueued_batches,
    }
    return "".join(f"{name} {{ value: {value} }}\n" for name, value in values.items())


class ModelServer:
    """A model server of this worker's own, once started, or the one of another worker."""

    def __init__(self, ports: Pair, models: Sequence[Model], wait_seconds: float, timeout_seconds: float) -> None:
        self.grpc_port: str | None = str(ports.grpc)
        self.rest_port: int | None = ports.rest
        self._models = models
        self._wait_seconds = wait_seconds
        self._timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = False
        self._kept = threading.local()

    def start(self, arguments: Sequence[str]) -> None:
        """Starts the program, which from then on ends this process when it ends."""
        logger.info("starting %s", " ".join(arguments))
        self._process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, preexec_fn=_dying_with_parent())

    def wait(self) -> None:
        """Returns when every version of every model is AVAILABLE. Raises ModelError."""
        deadline = time.monotonic() + self._wait_seconds
        open_ = [(model, version.number) for model in self._models for version in model.versions]
        while open_:
            code = self._process.poll() if self._process else None
            if code is not None:
                raise ModelError(f"{PROGRAM} ended with {children.how(code)}; its own words stand above.")
            open_ = [(model, number) for model, number in open_ if not self._available(model, number)]
            if open_ and time.monotonic() > deadline:
                waiting = ", ".join(f"{model.name} version {number}" for model, number in open_)
                raise ModelError(
                    f"{PROGRAM} has not loaded {waiting} in {self._wait_seconds:g} s. "
                    "Raise SAGEMAKER_TFS_WAIT_TIME_SECONDS if that takes longer."
                )
            if open_:
                time.sleep(_POLL_SECONDS)
        if self._process:
            threading.Thread(target=self._watch, name=PROGRAM, daemon=True).start()

    def post(self, target: Target, document: Document) -> Answer:
        """Its answer. Raises TimeoutError, or ConnectionError where there is none."""
        try:
            return self._ask("POST", target.path, document.data, self._timeout_seconds)
        except http.client.HTTPException as error:
            raise ConnectionError(f"{PROGRAM} broke off its answer: {error}") from error

    def close(self) -> None:
        self._closing = True
        if not self._process:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
            return
        self._process.kill()
        self._process.wait()

    def _available(self, model: Model, number: int) -> bool:
        """Raises ModelError for a version that has failed to load."""
        try:
            answer = self._ask("GET", Target(model.name, number, "").path, b"", _ASK_SECONDS)
            statuses = answer.document.value.get("model_version_status", [])
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return False
        for status in statuses:
            if status.get("state") == "AVAILABLE":
                return True
            reason = status.get("status", {}).get("error_message")
            if status.get("state") == "END" and reason:
                raise ModelError(f"{PROGRAM} cannot load {model.name} version {number}: {reason}")
        return False

    def _watch(self) -> None:
        assert self._process is not None
        code = self._process.wait()
        if not self._closing:
            logger.error("%s ended with %s; its worker ends too", PROGRAM, children.how(code))
            logging.shutdown()
            os._exit(_EX_UNAVAILABLE)

    def _ask(self, verb: str, path: str, body: bytes, timeout: float) -> Answer:
        """One request. A kept connection that the server has closed meanwhile is replaced, once."""
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is not None:
            try:
                return self._exchange(kept, verb, path, body, timeout)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self._drop()
        self._kept.connection = http.client.HTTPConnection(_HOST, self.rest_port, timeout=timeout)
        try:
            return self._exchange(self._kept.connection, verb, path, body, timeout)
        except BaseException:
            self._drop()
            raise

    def _exchange(
        self, connection: http.client.HTTPConnection, verb: str, path: str, body: bytes, timeout: float
    ) -> Answer:
        connection.timeout = timeout
        if connection.sock is None:
            connection.connect()
        else:
            connection.sock.settimeout(timeout)
        try:
            connection.request(verb, path, body or None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return Answer(response.status, Document(data=response.read()))
        except TimeoutError:
            self._drop()
            raise

    def _drop(self) -> None:
        connection = getattr(self._kept, "connection", None)
        if connection is not None:
            connection.close()
        self._kept.connection = None


def _dying_with_parent() -> Callable[[], None]:
    """What a child calls before it becomes its program, so that the kernel kills it when its parent ends."""
    import ctypes

    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl

    def call() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return call


def _config(model: Model) -> str:
    versions = " ".join(f"versions: {version.number}" for version in model.versions)
    return (
        "  config {\n"
        f"    name: {_quoted(model.name)}\n"
        f"    base_path: {_quoted(model.base)}\n"
        '    model_platform: "tensorflow"\n'
        f"    model_version_policy {{ specific {{ {versions} }} }}\n"
        "  }\n"
    )


def _quoted(text: str) -> str:
    """A text of protocol buffers' text format, which for these is JSON's."""
    return json.dumps(text, ensure_ascii=False)


def _models_file(folder: str) -> str:
    return os.path.join(folder, "models.config")


def _batching_file(folder: str) -> str:
    return os.path.join(folder, "batching.config")
