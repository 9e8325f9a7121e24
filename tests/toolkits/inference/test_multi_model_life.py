"""Deaths, restarts and the end: what one model does concerns no other, and never the router."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from . import router as routers
from .serving import in_parallel, wait_for

# Answers with its process; does what the header "mode" says.
MODEL = """
    import os, signal, sys, time
    def model_fn(model_dir):
        if os.path.exists(os.path.join(model_dir, "spoilt")):
            raise RuntimeError("the weights are spoilt")
        return model_dir
    def transform_fn(folder, data, content_type, accept, context):
        mode = context.get_request_header(0, "mode")
        if mode == "worker":
            os.kill(os.getpid(), int(data))
        if mode == "unit":
            os.kill(os.getppid(), int(data))
            time.sleep(600)
        if mode == "wait":
            open(os.path.join(folder, "begun"), "w").close()
            while not os.path.exists(os.path.join(folder, "go")):
                time.sleep(0.01)
        if mode == "hold":
            open(os.path.join(folder, "begun"), "w").close()
            max(range(10 ** 9))  # The interpreter's lock is not given to others meanwhile.
        return f"{os.getpid()}"
"""


@pytest.fixture
def router(tmp_path):
    one = routers.started(tmp_path, SLIPWAY_MAX_RESTARTS="2")
    yield one
    one.close()


def served(router, name):
    """The process that serves a model, when it does."""
    return wait_for(lambda: (answer := router.invoke(name, "x")).status == 200 and int(answer.body), router)


def test_dead_worker_concerns_nobody_else(router):
    router.loaded("a", MODEL).loaded("b", MODEL)
    other = served(router, "b")
    before = served(router, "a")
    answer = router.invoke("a", "11", mode="worker")
    assert answer.status == 500
    assert "signal 11" in answer.error["message"]
    assert served(router, "a") != before
    assert served(router, "b") == other
    assert router.names() == ["a", "b"]


def test_dead_unit_is_restarted_and_its_request_answered(router):
    router.loaded("a", MODEL).loaded("b", MODEL)
    other = served(router, "b")
    for _ in range(3):  # More often than deaths in a row are forgiven: each is followed by a good answer.
        answer = router.invoke("a", "9", mode="unit")
        assert answer.status == 500
        assert "signal 9" in answer.error["message"]
        served(router, "a")
    assert served(router, "b") == other
    assert router.unload("a").status == 200


def test_model_that_cannot_come_back_is_given_up_and_says_why(router):
    router.loaded("a", MODEL).loaded("b", MODEL)
    (router.base / "models" / "a" / "model" / "spoilt").touch()
    router.invoke("a", "9", mode="unit")
    answers = []

    def given_up():
        answers.append(router.invoke("a", "x"))
        return "not served any more" in answers[-1].error["message"]

    wait_for(given_up, router)
    assert {answer.status for answer in answers} == {503}
    assert all("retry-after" in answer.headers for answer in answers)
    assert "RuntimeError: the weights are spoilt" in answers[-1].error["message"]
    assert router.log.count("died and is restarted") == 2
    # It is still the platform's to unload; the rest goes on.
    assert router.ping() == 200
    assert router.names() == ["a", "b"]
    assert router.load("a").status == 409
    served(router, "b")
    assert router.unload("a").status == 200
    (router.base / "models" / "a" / "model" / "spoilt").unlink()
    assert router.load("a").status == 200
    served(router, "a")


def test_worker_that_dies_again_and_again_is_given_up(router):
    router.loaded("a", MODEL)
    deaths = 0

    def given_up():
        nonlocal deaths
        answer = router.invoke("a", "9", mode="worker")
        deaths += answer.status == 500
        assert answer.status in (500, 503)
        return "not served any more" in answer.error["message"]

    wait_for(given_up, router)
    assert deaths <= 4
    assert router.ping() == 200
    assert router.unload("a").status == 200


def test_model_that_is_being_restarted_can_be_unloaded(router):
    router.loaded("a", MODEL)
    (router.base / "models" / "a" / "model" / "spoilt").touch()
    router.invoke("a", "9", mode="unit")
    assert router.invoke("a", "x").status == 503
    assert router.unload("a").status == 200
    assert (router.names(), router.family(), router.folders()) == ([], set(), [])


def test_ping_while_models_hold_their_interpreters(router):
    """All models compute without giving others a turn; the router and the load of one more do not wait for them."""
    for name in ("a", "b"):
        router.loaded(name, MODEL)
        client = router.client()
        client.post(b"x", b"mode: hold", path=routers.path_of(name).encode() + b"/invoke")
        wait_for((router.base / "models" / name / "model" / "begun").exists)
    assert router.ping() == 200
    assert router.loaded("c", MODEL).names() == ["a", "b", "c"]
    assert router.unload("c").status == 200


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_stop_lets_running_requests_finish(router, signum):
    router.loaded("a", MODEL).loaded("b", MODEL)
    folder = router.base / "models" / "a" / "model"
    idle = router.client()
    idle.post(b"x", path=b"/models/b/invoke").answer()

    def stop():
        wait_for((folder / "begun").exists)
        family = router.family()
        os.kill(router.pid, signum)
        wait_for(lambda: router.ping() == 0)  # No more connections.
        (folder / "go").touch()
        return family

    answer, family = in_parallel(lambda: router.invoke("a", "x", mode="wait"), stop)
    assert answer.status == 200
    assert router.wait() == 0
    assert idle.ended()
    assert len(family) == 4
    assert not routers.running(family)
    assert not list(router.base.glob("serve-*"))


def test_stop_does_not_wait_longer_than_it_may(tmp_path):
    one = routers.started(tmp_path, SLIPWAY_DRAIN_SECONDS="1")
    one.loaded("a", MODEL)
    client = one.client().post(b"x", b"mode: wait", path=b"/models/a/invoke")
    wait_for((tmp_path / "models" / "a" / "model" / "begun").exists)
    family = one.family()
    one.terminate()
    assert one.wait() == 0
    assert client.answer().status == 500
    assert not routers.running(family)
    assert not list(tmp_path.glob("serve-*"))


def test_stop_ends_a_load(router):
    folder = router.write("slow", "import time\nopen(__file__ + '.begun', 'w').close()\ntime.sleep(600)\n")

    def stop():
        wait_for(Path(folder, "code", "inference.py.begun").exists)
        router.terminate()
        return router.wait()

    _, code = in_parallel(lambda: router.load("slow"), stop)
    assert code == 0
    assert not list(router.base.glob("serve-*"))


def test_models_end_with_a_router_that_was_killed(router):
    router.loaded("a", MODEL)
    family = router.family()
    router.process.kill()
    assert router.wait() == -signal.SIGKILL
    wait_for(lambda: not routers.running(family))


def test_stop_without_a_model(router):
    router.terminate()
    assert router.wait() == 0
    assert "stopping" in router.log


def test_port_that_is_taken(router):
    other = routers.make(router.base, SAGEMAKER_BIND_TO_PORT=str(router.port)).start()
    assert other.wait() == 4
    assert f"port {router.port} cannot be listened on" in other.log


def test_temporary_folder_that_is_too_deep_for_sockets(tmp_path):
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    one = routers.make(tmp_path, TMPDIR=str(deep)).start()
    assert one.wait() == 2
    assert "set TMPDIR to a shorter path" in one.log


def test_read_only_models_and_no_other_writable_folder(tmp_path):
    """Nothing is written beside the temporary folder: the model's folder stays as it was."""
    one = routers.started(tmp_path)
    folder = Path(one.write("a", MODEL, helper__py="X = 1\n"))
    before = sorted(str(path) for path in folder.glob("**/*"))
    assert one.load("a").status == 200
    assert sorted(str(path) for path in folder.glob("**/*")) == before
    assert one.unload("a").status == 200
    one.close()


def test_metrics_tell_of_each_model(tmp_path):
    one = routers.started(tmp_path, SLIPWAY_METRICS_PATH="/metrics")
    one.loaded("a", MODEL).loaded("b", MODEL)
    for _ in range(3):
        one.invoke("b", "x")
    page = one.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")

    def lines():
        return one.get("/metrics").body.decode().splitlines()

    # A request is counted when its answer has left.
    wait_for(lambda: 'slipway_requests_total{model="b",code="2xx"} 3' in lines(), one)
    assert 'slipway_requests_total{model="a",code="2xx"} 0' in lines()
    assert sum(line.startswith("# TYPE slipway_requests_total") for line in lines()) == 1
    assert one.unload("b").status == 200
    assert b'model="b"' not in one.get("/metrics").body
    one.close()
