"""From the first second to the last: the readiness gate, loads that fail, the drain."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from . import serving
from .index import wheel

LOADING = """
    import os, time
    base = os.environ["SAGEMAKER_BASE_DIR"]
    open(base + "/importing", "w").close()
    while not os.path.exists(base + "/go"):
        time.sleep(0.005)
    def model_fn(model_dir):
        return None
    def transform_fn(model, data, content_type, accept):
        return data, accept
"""


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(code: str = serving.ECHO, **variables: str) -> serving.Server:
        one = serving.make(tmp_path, code, **variables)
        servers.append(one)
        return one.start()

    yield started
    for one in servers:
        one.close()


def test_not_ready_before_the_model_is_loaded(start, tmp_path):
    server = start(LOADING)
    serving.wait_for((tmp_path / "importing").exists, server)
    answer = server.get("/ping")
    assert (answer.status, answer.error["type"]) == (503, "NotReady")
    answer = server.post(b"x")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    (tmp_path / "go").touch()
    assert server.ready().post(b"x").status == 200


def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_traceback_last(start):
    server = start(
        """
        def model_fn(model_dir):
            raise OSError("weights are missing")
        def transform_fn(model, data, content_type, accept):
            return data, accept
        """
    )
    assert server.wait() == 5
    lines = server.log.strip().splitlines()
    assert lines[-1] == "OSError: weights are missing"
    assert server.log.count("Traceback") == 1
    assert "model_fn" in server.log


def test_an_error_while_importing_ends_the_server_with_its_traceback_last(start):
    server = start("import no_such_module_anywhere")
    assert server.wait() == 5
    assert server.log.strip().endswith("No module named 'no_such_module_anywhere'")


def test_user_code_that_exits_while_loading_ends_the_server(start):
    server = start("raise SystemExit(0)")
    assert server.wait() == 5


def test_a_load_over_its_limit_ends_the_server_with_a_traceback(start):
    server = start(LOADING, SAGEMAKER_STARTUP_TIMEOUT="1")
    assert server.wait() == 5
    assert "within 1 s" in server.log.splitlines()[-1]
    assert "inference.py" in server.log


def test_a_model_that_raises_once_later_is_loaded_again(start, tmp_path):
    code = """
        import os
        base = os.environ["SAGEMAKER_BASE_DIR"]
        def model_fn(model_dir):
            if os.path.exists(base + "/fail"):
                os.unlink(base + "/fail")
                raise RuntimeError("not this time")
        def transform_fn(model, data, content_type, accept):
            return data, accept
    """
    server = start(code).ready()
    (tmp_path / "fail").touch()
    os.kill(server.workers()[0], signal.SIGKILL)
    serving.wait_for(lambda: "not this time" in server.log, server)
    assert server.ready().post(b"x").status == 200


def in_a_pause(server: serving.Server) -> tuple[serving.Answer, serving.Answer] | None:
    """Answers to /ping and to an invocation that came while the only worker was dead and not started again."""
    deaths = server.log.count("it is restarted in 0.5 s") + server.log.count("it is restarted in 1 s")
    if not deaths or server.workers():
        return None
    answers = server.get("/ping"), server.post(b"x")
    return answers if not server.workers() else None


def test_a_model_that_always_raises_later_ends_the_server(start, tmp_path):
    code = """
        import os
        base = os.environ["SAGEMAKER_BASE_DIR"]
        def model_fn(model_dir):
            if os.path.exists(base + "/fail"):
                raise RuntimeError("never again")
        def transform_fn(model, data, content_type, accept):
            return data, accept
    """
    server = start(code, SLIPWAY_MAX_RESTARTS="3").ready()
    (tmp_path / "fail").touch()
    os.kill(server.workers()[0], signal.SIGKILL)
    # The first restart comes at once, later ones after a pause.
    ping, invocation = serving.wait_for(lambda: in_a_pause(server), server)
    assert (ping.status, ping.error["type"]) == (503, "NotReady")
    assert "never again" in ping.error["message"]
    assert (invocation.status, invocation.headers["retry-after"]) == (503, "1")
    assert server.wait() == 6
    assert "never again" in server.log.strip().splitlines()[-1]


def test_sigterm_lets_running_requests_finish(start, tmp_path):
    code = """
        import os, time
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            name = data if isinstance(data, str) else bytes(data).decode()
            open(name, "w").close()
            while os.path.exists(name):
                time.sleep(0.005)
            return "done", "text/plain"
    """
    server = start(code).ready()
    idle = server.client()
    assert idle.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n").answer().status == 200
    held, next_one = tmp_path / "held", tmp_path / "next"
    client = server.client().post(os.fsencode(held))
    serving.wait_for(held.exists, server)
    waiting = server.client().post(os.fsencode(next_one))
    assert server.ping() == 200
    workers = server.workers()
    server.terminate()
    serving.wait_for(lambda: server.ping() == 0, server)
    assert idle.ended()
    held.unlink()
    serving.wait_for(next_one.exists, server)
    next_one.unlink()
    assert client.answer().body == b"done"
    assert waiting.answer().body == b"done"
    assert server.wait() == 0
    assert not any(map(serving.is_alive, workers))


def test_a_request_that_does_not_end_is_ended_by_the_drain_limit(start, tmp_path):
    code = """
        import os, subprocess, time
        def model_fn(model_dir):
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            open(os.environ["SAGEMAKER_BASE_DIR"] + "/child", "w").write(str(child.pid))
        def transform_fn(model, data, content_type, accept):
            open(os.environ["SAGEMAKER_BASE_DIR"] + "/held", "w").close()
            time.sleep(1000)
    """
    server = start(code, SLIPWAY_DRAIN_SECONDS="0.5").ready()
    client = server.client().post(b"x")
    serving.wait_for((tmp_path / "held").exists, server)
    server.terminate()
    answer = client.answer()
    assert answer.status == 500
    assert "stopped" in answer.error["message"]
    assert server.wait() == 0
    # Nor does anything that user code started survive.
    assert not serving.is_alive((tmp_path / "child").read_text())


def test_sigterm_before_ready_ends_at_once(start, tmp_path):
    server = start(LOADING)
    serving.wait_for((tmp_path / "importing").exists, server)
    workers = server.workers()
    server.terminate()
    assert server.wait() == 0
    assert not any(map(serving.is_alive, workers))


def test_no_worker_outlives_a_supervisor_that_is_killed(start, tmp_path):
    code = """
        import os, time
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            open(os.environ["SAGEMAKER_BASE_DIR"] + "/held", "w").close()
            time.sleep(1000)
    """
    server = start(code, SAGEMAKER_MODEL_SERVER_WORKERS="2").ready()
    serving.wait_for(lambda: server.log.count("ready after") == 2, server)
    # One computes and cannot see that its channel has ended, one idles.
    server.client().post(b"x")
    serving.wait_for((tmp_path / "held").exists, server)
    workers = server.workers()
    os.kill(server.pid, signal.SIGKILL)
    serving.wait_for(lambda: not any(map(serving.is_alive, workers)), server)


def test_wrong_variables_end_the_server_at_once(start):
    server = start(SAGEMAKER_BIND_TO_PORT="x", SAGEMAKER_MODEL_SERVER_WORKERS="many")
    assert server.wait() == 2
    assert "SAGEMAKER_BIND_TO_PORT='x'" in server.log or "SAGEMAKER_BIND_TO_PORT=x" in server.log
    assert "SAGEMAKER_MODEL_SERVER_WORKERS" in server.log


def test_a_port_that_is_taken_is_named(start):
    first = start().ready()
    second = start(SAGEMAKER_BIND_TO_PORT=str(first.port))
    assert second.wait() == 4
    assert f"Port {first.port} cannot be listened on" in second.log


def test_the_effective_configuration_is_said_once_with_its_sources(start):
    server = start(SAGEMAKER_MODEL_SERVER_TIMEOUT="90").ready()
    assert server.log.count("timeout_seconds = 90.0 (SAGEMAKER_MODEL_SERVER_TIMEOUT)") == 1
    assert "workers = 1 (SAGEMAKER_MODEL_SERVER_WORKERS)" in server.log


def test_orphans_are_reaped(start, tmp_path):
    code = """
        import os, subprocess
        def model_fn(model_dir):
            # A child of a child that is gone: its new parent is the server.
            subprocess.run(["sh", "-c", "sleep 600 & echo $! > $SAGEMAKER_BASE_DIR/orphan"])
        def transform_fn(model, data, content_type, accept):
            return data, accept
    """
    server = start(code).ready()
    orphan = int((tmp_path / "orphan").read_text())
    assert f"PPid:\t{server.pid}\n" in Path(f"/proc/{orphan}/status").read_text()
    os.kill(orphan, signal.SIGKILL)
    serving.wait_for(lambda: not serving.is_alive(orphan), server)
    assert server.post(b"x").status == 200


def test_what_user_code_prints_is_in_the_log_at_once(start, tmp_path):
    code = """
        import os, time
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            print("printed, and not flushed")
            open(os.environ["SAGEMAKER_BASE_DIR"] + "/held", "w").close()
            while os.path.exists(os.environ["SAGEMAKER_BASE_DIR"] + "/held"):
                time.sleep(0.005)
            return data, accept
    """
    server = start(code).ready()
    client = server.client().post(b"x")
    serving.wait_for((tmp_path / "held").exists, server)
    assert "printed, and not flushed\n" in server.log
    (tmp_path / "held").unlink()
    assert client.answer().status == 200


def test_requirements_that_cannot_be_installed_end_the_server(start, tmp_path):
    (tmp_path / "model" / "code").mkdir(parents=True)
    (tmp_path / "model" / "code" / "requirements.txt").write_text("no-such-package-as-this==1.0\n")
    server = start(serving.ECHO, PIP_NO_INDEX="1")
    # The port is open while they are looked for.
    serving.wait_for(lambda: server.ping() == 503 or server.ended(), server)
    assert server.wait() == 3
    assert "no-such-package-as-this" in server.log
    assert "requirements.txt" in server.log.strip().splitlines()[-1]


def test_requirements_are_there_before_the_model_is_loaded(start, tmp_path):
    wheels = tmp_path / "model" / "code"
    wheels.mkdir(parents=True)
    wheel(wheels, "a-requirement", "1.0")
    (wheels / "requirements.txt").write_text("./a_requirement-1.0-py3-none-any.whl\n")
    code = """
        import a_requirement
        def model_fn(model_dir):
            return a_requirement.__file__
        def transform_fn(model, data, content_type, accept):
            return model, "text/plain"
    """
    server = start(code, PIP_NO_INDEX="1").ready()
    folder = server.post(b"x").body.decode()
    # In a folder of the server's own, which goes with it.
    assert folder.startswith(str(tmp_path / "serve-"))
    server.terminate()
    assert server.wait() == 0
    assert not list(tmp_path.glob("serve-*"))
