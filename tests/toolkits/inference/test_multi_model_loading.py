"""Loading and unloading: when the answer comes, what it says, what is left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from . import disks
from . import router as routers
from .index import wheel
from .serving import in_parallel, wait_for


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    # Without a time for units to end by themselves: what is given back was taken by the router.
    one = routers.started(tmp_path_factory.mktemp("loading"), SLIPWAY_DRAIN_SECONDS="0")
    yield one
    one.close()


# A model that waits in model_fn until the test lets it go on.
WAITS = """
    import os, time
    def model_fn(model_dir):
        open(os.path.join(model_dir, "begun"), "w").close()
        while not os.path.exists(os.path.join(model_dir, "go")):
            time.sleep(0.01)
        return "model"
    def transform_fn(model, data, content_type, accept):
        return b"served"
"""


def begun(folder):
    return wait_for(Path(folder, "begun").exists)


def go(folder):
    Path(folder, "go").touch()


def test_ready_without_a_model(tmp_path):
    one = routers.started(tmp_path)
    assert one.get("/ping").body == b""
    assert one.names() == []
    assert one.family() == set()
    one.close()


def test_answer_comes_when_the_model_serves(router):
    folder = router.write("slow", WAITS)
    answers = in_parallel(
        lambda: router.load("slow"),
        # While it is being loaded it is not there, and /ping does not wait for it.
        lambda: (
            begun(folder), router.ping(), router.invoke("slow").status, router.get("/models/slow").status,
            router.unload("slow").status, router.load("slow").status, router.names(), go(folder),
        ),
    )  # fmt: skip
    assert answers[0].status == 200, answers[0]
    assert answers[1][1:-1] == (200, 404, 404, 404, 409, [])
    assert router.invoke("slow").body == b"served"
    assert json.loads(router.get("/models/slow").body) == {"modelName": "slow", "modelUrl": folder}
    assert router.load("slow").status == 409
    assert router.unload("slow").status == 200


def test_of_parallel_loads_of_a_name_one_succeeds(router):
    folder = router.write("same")
    answers = in_parallel(*[lambda: router.load("same", folder)] * 8)
    assert sorted(answer.status for answer in answers) == [200] + [409] * 7
    assert router.unload("same").status == 200


def test_different_names_load_in_parallel(router):
    """Each waits in its model_fn for the other, so that one after the other would never end."""
    code = """
        import os, time
        def model_fn(model_dir):
            models = os.path.dirname(os.path.dirname(model_dir))
            open(os.path.join(models, "{mine}.here"), "w").close()
            while not os.path.exists(os.path.join(models, "{other}.here")):
                time.sleep(0.01)
        def transform_fn(model, data, content_type, accept):
            return data
    """
    for mine, other in (("left", "right"), ("right", "left")):
        router.write(mine, code.format(mine=mine, other=other))
    answers = in_parallel(lambda: router.load("left"), lambda: router.load("right"))
    assert [answer.status for answer in answers] == [200, 200]
    assert in_parallel(lambda: router.unload("left").status, lambda: router.unload("right").status) == [200, 200]


SERVES = "def transform_fn(model, data, content_type, accept):\n    return data\n"
BAD = {
    "import": ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
    "raises": (f"{SERVES}def model_fn(model_dir):\n    raise ValueError('wrong weights')", "ValueError: wrong weights"),
    "exits": ("import sys\nsys.exit('no licence')", "no licence"),
    "dies": ("import os\nos._exit(7)", "exit code 7"),
    "killed": ("import os\nos.kill(os.getpid(), 9)", "signal 9"),
    "wrong functions": ("def model_fn(a, b, c, d): pass", "model_fn"),
}


@pytest.mark.parametrize("case", BAD)
def test_failed_load_says_why_and_leaves_nothing(router, case):
    code, reason = BAD[case]
    name = f"bad {case}"
    before = router.family(), router.folders()
    folder = router.write(name, code)
    answer = router.load(name)
    assert answer.status in (500, 507)
    assert answer.headers["content-type"] == "application/json"
    assert reason in answer.error["message"]
    assert reason in router.log
    assert name not in router.names()
    assert (router.family(), router.folders()) == before
    assert router.invoke(name).status == 404
    # The name is free again.
    router.write(name)
    assert router.load(name, folder).status == 200
    assert router.unload(name).status == 200


def test_memory_that_is_not_enough_for_a_load_is_a_507(router):
    for name, code in {
        "host": f"{SERVES}def model_fn(model_dir):\n    raise MemoryError('no')",
        "device": f"{SERVES}def model_fn(model_dir):\n    raise RuntimeError('CUDA out of memory. Tried 2 GiB')",
    }.items():
        answer = router.load(name, router.write(name, code))
        assert (answer.status, answer.error["type"]) == (507, "OutOfMemory")
        assert name not in router.names()


def full_by_stub(one):
    """Has the router find its disk full as long as there is a file `full`."""
    program = """if True:
        import errno, os
        def mkdir(path, *mode, made=os.mkdir):
            if os.path.exists("full") and "/serve-" in str(path):
                raise OSError(errno.ENOSPC, "No space left on device", path)
            made(path, *mode)
        os.mkdir = mkdir
        from sagemaker_inference.cli import serve
        serve.main()
    """
    one.arguments = ("-c", program)
    return one


def when_the_disk_is_full(one, fill):
    """Fills it after one model is loaded, and frees it again; meanwhile the reason is told and nothing else suffers."""
    one.start()
    one.ready()
    one.loaded("before")
    before = one.family(), one.folders()
    folder = one.write("after")
    fillers = fill()
    answer = one.load("after", folder)
    assert answer.status == 507, answer
    assert "No space left on device" in answer.error["message"]
    assert "/serve-" in answer.error["message"]
    assert one.names() == ["before"]
    assert (one.family(), one.folders()) == before
    assert one.invoke("before", b"x").body == b"x"
    for filler in fillers:
        filler.unlink()
    assert one.load("after", folder).status == 200


def test_a_full_disk_is_a_507_until_there_is_room(tmp_path):
    one = full_by_stub(routers.make(tmp_path))

    def fill():
        (tmp_path / "full").touch()
        return [tmp_path / "full"]

    try:
        when_the_disk_is_full(one, fill)
    finally:
        one.close()


def test_a_disk_that_is_really_full_is_a_507_too(tmp_path):
    with disks.small(tmp_path / "disk", "size=8m,nr_inodes=60") as disk:
        one = routers.make(tmp_path)
        one.environ["TMPDIR"] = str(disk)
        one.folders = lambda: sorted(path.name for path in disk.glob("serve-*/*"))
        try:
            when_the_disk_is_full(one, lambda: disks.fill(disk))
        finally:
            one.close()


def test_load_that_takes_too_long(tmp_path):
    one = routers.started(tmp_path, SAGEMAKER_STARTUP_TIMEOUT="2")
    answer = one.load("slow", one.write("slow", WAITS))
    assert answer.status == 500
    assert "2 s" in answer.error["message"]
    assert one.names() == []
    assert one.family() == set()
    one.close()


def test_folders_that_are_not_there_or_no_folders(router):
    assert router.load("absent", "/not/there/at/all").status == 404
    file = router.base / "file"
    file.touch()
    assert router.load("absent", str(file)).status == 400
    # Where models are is the platform's business.
    outside = router.base / "elsewhere"
    shutil.copytree(router.write("inside"), outside)
    assert router.load("outside", str(outside)).status == 200
    assert router.unload("outside").status == 200


def test_model_without_code_uses_the_default_functions(router):
    """The base's own defaults cannot load a model, and say so."""
    folder = router.base / "models" / "bare"
    folder.mkdir(parents=True)
    answer = router.load("bare", str(folder))
    assert answer.status == 500
    assert "no default" in answer.error["message"]


HELPED = """
    import helper, os, sys
    def model_fn(model_dir):
        os.environ["LEFT_BY_A_MODEL"] = helper.NAME
        sys.modules["json"].LEFT_BY_A_MODEL = helper.NAME
        return helper.NAME, "SET_BY_ANOTHER" in os.environ
    def transform_fn(model, data, content_type, accept):
        import json
        return f"{model} {os.environ['LEFT_BY_A_MODEL']} {json.LEFT_BY_A_MODEL}"
"""


def test_modules_of_one_name_stay_apart(router):
    for name in ("one", "two"):
        router.loaded(name, HELPED, helper__py=f"NAME = {name!r}\n")
    for name in ("one", "two"):
        assert router.invoke(name).body.decode() == f"('{name}', False) {name} {name}"
        assert router.unload(name).status == 200


def test_requirements_of_each_model_are_its_own(router, tmp_path):
    """Two versions of a package, from wheels in the models; a third model has none."""
    uses = """
        import lovely_numbers
        def model_fn(model_dir): return lovely_numbers.VERSION
        def transform_fn(model, data, content_type, accept): return model
    """
    for name, version in (("new", "2"), ("old", "1")):
        folder = router.write(name, uses, requirements__txt=f"./lovely_numbers-{version}-py3-none-any.whl\n")
        wheel(Path(folder, "code"), "lovely-numbers", version)
    answers = in_parallel(lambda: router.load("new"), lambda: router.load("old"))
    assert [answer.status for answer in answers] == [200, 200], answers
    assert router.invoke("new").body == b"2"
    assert router.invoke("old").body == b"1"
    answer = router.load("none", router.write("none", uses))
    assert "No module named 'lovely_numbers'" in answer.error["message"]
    assert not list((router.base / "models").glob("**/site-packages"))  # Nothing is written to the models.
    for name in ("new", "old"):
        assert router.unload(name).status == 200
    assert router.folders() == []


def test_requirements_that_cannot_be_installed_fail_the_load(router):
    folder = router.write("needs", requirements__txt="surely-not-a-package==1\n--no-index\n")
    answer = router.load("needs", folder)
    assert answer.status == 500
    assert f"{folder}/code/requirements.txt cannot be installed" in answer.error["message"]
    assert "surely-not-a-package==1" in answer.error["message"]
    Path(folder, "code", "requirements.txt").unlink()
    assert router.load("needs").status == 200
    assert router.unload("needs").status == 200


def test_a_model_is_replaced_under_a_new_name(router):
    for version in ("v1", "v2"):
        router.loaded(version, f"def model_fn(d): return {version!r}\ndef transform_fn(m, d, c, a): return m\n")
    assert router.unload("v1").status == 200
    assert router.invoke("v1").status == 404
    assert router.invoke("v2").body == b"v2"
    router.loaded("v1")
    assert in_parallel(lambda: router.unload("v1").status, lambda: router.unload("v2").status) == [200, 200]


def test_unload_gives_everything_back_before_it_answers(router):
    code = """
        import os, subprocess, tempfile
        def model_fn(model_dir):
            open(os.path.join(tempfile.gettempdir(), "left"), "w").write("x")
            return bytearray(64 << 20), subprocess.Popen(["sleep", "600"], start_new_session=True)
        def transform_fn(model, data, content_type, accept):
            return b"served"
    """
    before = router.family(), router.folders()
    router.loaded("large", code)
    family = router.family() - before[0]
    assert len(family) >= 3  # the unit, its worker, and what that started
    assert router.unload("large").status == 200
    assert not routers.running(family)
    assert (router.family(), router.folders()) == before
    assert router.unload("large").status == 404
    assert router.get("/models/large").status == 404


def test_unload_waits_for_running_requests(router):
    code = """
        import os, time
        def model_fn(model_dir):
            return model_dir
        def transform_fn(model, data, content_type, accept):
            open(os.path.join(model, "begun"), "w").close()
            while not os.path.exists(os.path.join(model, "go")):
                time.sleep(0.01)
            return b"finished"
    """
    router.loaded("busy", code)
    folder = str(router.base / "models" / "busy" / "model")

    def unload():
        begun(folder)
        return router.unload("busy").status

    def later():
        # The unload has begun when no new request is taken.
        begun(folder)
        wait_for(lambda: router.get("/models/busy").status == 404)
        status = router.invoke("busy").status, router.load("busy").status, router.unload("busy").status
        go(folder)
        return status

    answers = in_parallel(lambda: router.invoke("busy"), unload, later)
    assert answers[0].body == b"finished"
    assert answers[1:] == [200, (404, 409, 404)]
    assert "busy" not in router.names()


LOGS = """
    import logging
    def model_fn(model_dir):
        logging.getLogger("mine").info("from the model")
    def transform_fn(model, data, content_type, accept):
        return data
"""


def test_lines_of_the_log_name_their_model(router, tmp_path):
    router.loaded("100%s {x}", LOGS)
    assert "INFO 100%s {x}: mine: from the model" in router.log
    assert "INFO 100%s {x}: sagemaker_inference.server: worker 0: ready" in router.log
    assert router.unload("100%s {x}").status == 200
    other = routers.started(tmp_path, SLIPWAY_LOG_FORMAT="json")
    other.loaded("in json", LOGS)
    lines = [json.loads(line) for line in other.log.splitlines()]
    assert [line["model"] for line in lines if line["message"] == "from the model"] == ["in json"]
    assert "model" not in lines[0]
    other.close()


def test_units_cannot_be_reached_by_others(router):
    router.loaded("private")
    (folder,) = router.base.glob("serve-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    (socket,) = folder.glob("*/s")
    assert socket.is_socket()
    assert router.unload("private").status == 200
