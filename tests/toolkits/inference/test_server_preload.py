"""The model loaded once, and forked for each worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from . import serving

CODE = """
    import os
    def model_fn(model_dir):
        with open(os.environ["SAGEMAKER_BASE_DIR"] + "/loads", "a") as file:
            file.write("x")
        return bytearray(os.urandom(1 << 20) * 60)
    def transform_fn(model, data, content_type, accept):
        return str(os.getpid()), "text/plain"
"""


@pytest.fixture
def server(tmp_path):
    one = serving.make(tmp_path, CODE, SLIPWAY_PRELOAD="true", SAGEMAKER_MODEL_SERVER_WORKERS="3")
    yield one
    one.close()


def share(pid: int) -> int:
    """Bytes that a process takes, its share of what several have."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1]) << 10


def test_workers_share_one_load(server):
    server.start().ready()
    serving.wait_for(lambda: server.log.count("ready after") == 3, server)
    clients = [server.client() for _ in range(9)]
    assert len({client.post(b"x").answer().body for client in clients}) == 3
    assert (server.base / "loads").read_text() == "x"
    # Four processes, one model of 60 MB.
    assert sum(map(share, server.workers())) < 180 << 20
    # A worker that dies comes back without a load.
    victim = int(clients[0].post(b"x").answer().body)
    os.kill(victim, signal.SIGKILL)
    assert int(clients[0].post(b"x").answer().body) != victim
    serving.wait_for(lambda: server.log.count("ready after") == 4, server)
    assert (server.base / "loads").read_text() == "x"
    workers = server.workers()
    server.terminate()
    assert server.wait() == 0
    assert not any(map(serving.is_alive, workers))


def test_a_forked_worker_that_hangs_is_replaced(tmp_path):
    code = """
        import os, time
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            if data == "hang":
                time.sleep(600)
            return str(os.getpid()), "text/plain"
    """
    one = serving.make(tmp_path, code, SLIPWAY_PRELOAD="true", SAGEMAKER_MODEL_SERVER_TIMEOUT="1")
    try:
        before = one.start().ready().post("x", Content_Type="text/csv").body
        assert one.post("hang", Content_Type="text/csv").status == 504
        assert one.post("x", Content_Type="text/csv").body != before
        assert not serving.is_alive(int(before))
    finally:
        one.close()


def test_a_template_that_dies_is_loaded_again_with_the_next_worker(server):
    server.start().ready()
    serving.wait_for(lambda: server.log.count("ready after") == 3, server)
    template = server.workers()[0]
    serving_workers = server.workers()[1:]
    os.kill(template, signal.SIGKILL)
    serving.wait_for(lambda: template not in server.workers(), server)
    assert server.post(b"x").status == 200
    os.kill(serving_workers[0], signal.SIGKILL)
    serving.wait_for(lambda: server.log.count("ready after") == 4, server)
    assert (server.base / "loads").read_text() == "xx"


def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path):
    code = "def model_fn(model_dir):\n    raise OSError('gone')\ndef predict_fn(data, model): ..."
    server = serving.make(tmp_path, code, SLIPWAY_PRELOAD="true")
    try:
        assert server.start().wait() == 5
        assert server.log.strip().endswith("OSError: gone")
    finally:
        server.close()


def test_no_worker_outlives_a_supervisor_that_is_killed(server):
    server.start().ready()
    serving.wait_for(lambda: server.log.count("ready after") == 3, server)
    workers = server.workers()
    os.kill(server.pid, signal.SIGKILL)
    serving.wait_for(lambda: not any(map(serving.is_alive, workers)), server)
