"""The server's parts by themselves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from . import serving


def cpus(monkeypatch, affinity: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)))


@pytest.mark.parametrize(
    ("files", "affinity", "expected"),
    [
        ({}, 8, 8),
        ({"cpu.max": "200000 100000"}, 8, 2),
        ({"cpu.max": "150000 100000"}, 8, 2),
        ({"cpu.max": "max 100000"}, 8, 8),
        ({"cpu.max": "1600000 100000"}, 4, 4),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 8, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8, 8),
    ],
)
def test_usable_cpus(tmp_path, monkeypatch, files, affinity, expected):
    from sagemaker_inference.server import capacity

    cpus(monkeypatch, affinity)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert capacity.cpus(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("visible", "devices", "expected"),
    [
        (None, [], 0),
        (None, ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"], 2),
        ("", ["nvidia0"], 0),
        ("0,1,2", ["nvidia0"], 3),
        ("1,-1,2", [], 1),
        ("-1", ["nvidia0"], 0),
        ("GPU-8932f937,MIG-1", [], 2),
    ],
)
def test_gpus(tmp_path, visible, devices, expected):
    from sagemaker_inference.server import capacity

    (tmp_path / "dev").mkdir()
    for name in devices:
        (tmp_path / "dev" / name).touch()
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert capacity.gpus(environ, str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("wanted", "size", "free", "expected"),
    [(4, 100, 10000, 4), (4, 1000, 2300, 3), (4, 1000, 900, 1), (4, 0, 100, 4), (4, 100, None, 4)],
)
def test_workers_that_fit_into_memory(monkeypatch, wanted, size, free, expected):
    from sagemaker_inference.server import capacity

    monkeypatch.setattr(capacity.memory, "used", lambda pids: size)
    monkeypatch.setattr(capacity.memory, "free", lambda: free)
    assert capacity.by_memory(wanted, os.getpid()) == (expected, size)


def test_no_more_workers_are_started_than_memory_holds(tmp_path):
    code = """
        def model_fn(model_dir):
            return bytearray(b"x" * (100 << 20))
        def transform_fn(model, data, content_type, accept):
            return data, accept
    """
    server = serving.make(tmp_path, code, CUDA_VISIBLE_DEVICES="0,1,2,3", SLIPWAY_METRICS_PATH="/metrics")
    del server.environ["SAGEMAKER_MODEL_SERVER_WORKERS"]
    # 225 MB beside the first worker: one more of 110 to 200 MB.
    program = "from sagemaker_inference import memory; memory.free = lambda: 250 << 20; "
    server.arguments = ("-c", program + "from sagemaker_inference.cli import serve; serve.main()")
    try:
        server.start().ready()
        serving.wait_for(lambda: server.log.count("ready after") == 2, server)
        page = server.get("/metrics").body.decode()
        assert "\nslipway_workers_planned 2\n" in page
        assert "\nslipway_workers_ready 2\n" in page
        assert len(server.workers()) == 2
    finally:
        server.close()


@pytest.mark.parametrize(
    ("environ", "workers", "expected"),
    [({}, 2, "4"), ({}, 8, "1"), ({}, 3, "2"), ({"OMP_NUM_THREADS": "7"}, 2, None)],
)
def test_threads_of_a_worker(monkeypatch, environ, workers, expected):
    from sagemaker_inference.server import capacity

    cpus(monkeypatch, 8)
    monkeypatch.setattr(capacity.cgroup, "cpu_quota", lambda root: None)
    assert capacity.variables(environ, workers).get("OMP_NUM_THREADS") == expected


def test_the_kernels_count_of_what_was_read_and_written():
    from sagemaker_inference.server import sockets

    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        assert sockets.traffic(server) == (0, 0)
        client.sendall(b"x" * 10)
        server.recv(4)
        server.sendall(b"y" * 7)
        assert sockets.traffic(server) == (4, 7)
        client.shutdown(socket.SHUT_WR)
        server.recv(100)
        # The end of the stream counts as one, when it has come.
        serving.wait_for(lambda: sockets.traffic(server) == (11, 7))
    left, right = socket.socketpair()
    with left, right:
        assert sockets.traffic(left) is None


def test_the_last_words_of_a_worker_are_heard_and_then_its_end():
    from sagemaker_inference.server import channel

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        assert list(channel.messages(ours)) == []  # nothing yet is no end
        ours.send(channel.DRAIN)  # never read: the kernel then reports a reset before what the worker said
        theirs.send(channel.FAILED + b"why")
        theirs.close()
        assert list(channel.messages(ours)) == [channel.FAILED + b"why", b""]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"G", None),
        (b"GET /ping", None),
        (b"GET /ping ", b"GET /ping"),
        (b"GET /ping?x", b"GET /ping"),
        (b"GET /pingpong", b""),
        (b"GET /metrics ", b"GET /metrics"),
        (b"HEAD /ping", b""),
        (b"POST /invocations", b""),
        (b"\x00", b""),
    ],
)
def test_which_requests_the_supervisor_answers(head, expected):
    from sagemaker_inference.server.clients import Clients

    found = Clients(SimpleNamespace(), {b"/ping": bytes, b"/metrics": bytes}, lambda client: None)
    assert found._mine(head) == expected


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal 9, SIGKILL"), (-11, "signal 11, SIGSEGV")]
)
def test_how_a_process_ended(code, words):
    from sagemaker_inference.server import children

    assert children.how(code) == words


@pytest.mark.parametrize(
    ("variables", "workers", "expected"),
    [
        ({}, 4, {"MaxConcurrentTransforms": 4, "MaxPayloadInMB": 6}),
        ({}, 64, {"MaxConcurrentTransforms": 16, "MaxPayloadInMB": 6}),
        ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "50"}, 8, {"MaxConcurrentTransforms": 2, "MaxPayloadInMB": 50}),
        ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "0"}, 8, {"MaxConcurrentTransforms": 1, "MaxPayloadInMB": 0}),
        ({"SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "3"}, 1, {"MaxConcurrentTransforms": 3, "MaxPayloadInMB": 6}),
    ],
)
def test_execution_parameters(variables, workers, expected):
    from sagemaker_inference.server.app import execution_parameters
    from sagemaker_inference.settings import Settings

    assert json.loads(execution_parameters(Settings.read(variables), workers)) == expected


def test_the_supervisor_imports_no_framework_and_no_event_loop():
    code = (
        "import sys, sagemaker_inference.model_server; "
        "print([name for name in ('numpy', 'uvicorn', 'uvloop', 'asyncio', 'ssl') if name in sys.modules])"
    )
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(serving.SOURCE)}
    told = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def unit(base, *more: str) -> subprocess.Popen[bytes]:
    server = serving.make(base)
    arguments = ("--socket", str(base / "s"), "--name", "a-model", "--model-dir", str(base / "model"), *more)
    server.arguments = ("-m", "sagemaker_inference.server.unit", *arguments)
    return server.start()


def over_unix(path) -> serving.Client | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(serving.BOUND)
    try:
        connection.connect(str(path))
    except OSError:
        return None
    return serving.Client(connection)


def unit_ping(base) -> int:
    client = over_unix(base / "s")
    return client.send(b"GET /ping HTTP/1.1\r\nhost: unit\r\n\r\n").answer().status if client else 0


def test_a_unit_serves_one_model_on_a_unix_socket(tmp_path):
    server = unit(tmp_path)
    try:
        serving.wait_for(lambda: unit_ping(tmp_path) == 200, server)
        client = over_unix(tmp_path / "s")
        assert client.post(b"[1]").answer().body == b"[1]"
        for worker in server.workers():
            os.kill(worker, signal.SIGKILL)
        # Unread, so the next worker has it. On a new connection: of the old one nobody knows how far its answer came,
        # since the kernel counts no bytes of Unix sockets.
        assert over_unix(tmp_path / "s").post(b"[2]").answer().body == b"[2]"
        server.terminate()
        assert server.wait() == 0
    finally:
        server.close()


@pytest.mark.parametrize(
    ("failure", "out_of_memory"),
    [("OSError('weights are missing')", False), ("MemoryError('8 GB')", True)],
)
def test_a_unit_that_cannot_load_says_why(tmp_path, failure, out_of_memory):
    server = serving.make(tmp_path, f"def model_fn(model_dir):\n    raise {failure}\ndef predict_fn(data, model): ...")
    report = tmp_path / "failure.json"
    server.arguments = (
        *("-m", "sagemaker_inference.server.unit", "--socket", str(tmp_path / "s"), "--name", "m"),
        *("--model-dir", str(tmp_path / "model"), "--failure", str(report)),
    )
    try:
        assert server.start().wait() == 5
    finally:
        server.close()
    told = json.loads(report.read_text())
    assert told["message"] == server.log.strip().splitlines()[-1]
    assert told["out_of_memory"] is out_of_memory
