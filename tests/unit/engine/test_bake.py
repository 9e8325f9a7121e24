"""What buildx says while it bakes, as steps; and what its failures mean."""

from __future__ import annotations

import base64
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.engine import bake
from slipway.engine.bake import Step, Tracker
from slipway.errors import BuildError, DiskError, EngineError, ProgramError

RUN = {"digest": "sha256:1", "name": "[t_1 stage-1.0 2/3] RUN --mount=type=cache,target=/c   pip install\n  x"}
EXPORT = {"digest": "sha256:2", "name": "[t_1] exporting to docker image format"}
INTERNAL = {"digest": "sha256:3", "name": "[t_1 internal] load build definition from Dockerfile"}
STARTED = {"started": "2026-01-01T00:00:00.123456789Z"}
ENDED = {**STARTED, "completed": "2026-01-01T00:00:02.623456789Z"}


def lines(event: dict[str, Any], *, spread: bool) -> list[str]:
    """An event as buildx 0.13 prints it (spread over many lines) or newer ones."""
    return json.dumps(event, indent=2 if spread else None).splitlines()


def feed(tracker: Tracker, *events: dict[str, Any], spread: bool = False) -> list[Step]:
    return [step for event in events for line in lines(event, spread=spread) for step in tracker.feed(line)]


def log(data: bytes, vertex: str = "sha256:1") -> dict[str, Any]:
    return {"vertex": vertex, "stream": 1, "data": base64.b64encode(data).decode()}


@pytest.mark.parametrize("spread", [True, False], ids=["buildx 0.13", "newer"])
def test_steps_are_followed_from_start_to_end(spread: bool) -> None:
    tracker = Tracker({"t_1": "t.1"})
    changed = feed(
        tracker,
        {"vertexes": [{**INTERNAL, **ENDED}, {**RUN, **STARTED}]},
        {"statuses": [{"id": "a", "vertex": "sha256:1", "current": 3_000_000}]},
        {"statuses": [{"id": "b", "vertex": "sha256:1", "current": 1_000_000}, {"id": "c", "vertex": "sha256:3"}]},
        {"logs": [log(b"one\ntw"), log(b"o\n"), log(b"x", "sha256:3")]},
        {"vertexes": [{**RUN, **ENDED}, {**EXPORT, **STARTED}]},
        spread=spread,
    )
    run, export = tracker.steps.values()
    assert (run.stage, run.text) == ("stage-1.0", "RUN pip install x")
    assert (run.done, run.cached, run.error) == (True, False, "")
    assert run.seconds == pytest.approx(2.5)
    assert run.megabytes == pytest.approx(4.0)
    assert run.log == ["one", "two"]
    assert (export.stage, export.text, export.done) == ("t.1", bake.EXPORT, False)
    assert [step is run for step in changed] == [True, True, True, True, True, False]
    assert tracker.words == []


def test_a_cached_step_took_no_time() -> None:
    tracker = Tracker()
    feed(tracker, {"vertexes": [{**RUN, **ENDED, "cached": True}]})
    (step,) = tracker.steps.values()
    assert (step.cached, step.done, step.seconds) == (True, True, 0.0)


def test_a_step_of_another_platform_is_known_by_its_stage() -> None:
    tracker = Tracker()
    feed(tracker, {"vertexes": [{"digest": "x", "name": "[t linux/arm64 stage 1/2] COPY a b"}]})
    assert [(step.stage, step.text) for step in tracker.steps.values()] == [("stage", "COPY a b")]


def test_what_else_is_said_is_kept() -> None:
    tracker = Tracker()
    for line in ["WARNING: odd", "", "17", "ERROR: failed"]:
        assert tracker.feed(line) == []
    assert tracker.words == ["WARNING: odd", "17", "ERROR: failed"]


@given(st.text(alphabet="aü€𐍈\n", max_size=40), st.lists(st.integers(0, 100), max_size=6))
def test_blocks_may_end_anywhere_in_the_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    tracker = Tracker()
    feed(tracker, {"vertexes": [{**RUN, **STARTED}]})
    for first, last in itertools.pairwise(places):
        feed(tracker, {"logs": [log(data[first:last])]})
    (step,) = tracker.steps.values()
    assert step.log == text.splitlines()


def test_the_last_words_count_also_when_they_come_with_the_end() -> None:
    tracker = Tracker()
    feed(tracker, {"vertexes": [{**RUN, **ENDED, "error": "exit code: 1"}], "logs": [log(b"no newline at the end")]})
    (step,) = tracker.steps.values()
    assert step.log == ["no newline at the end"]


def test_passwords_in_what_a_step_prints_are_masked() -> None:
    tracker = Tracker()
    said = b"Could not fetch https://me:word@index.example/x via http://word@proxy:1 for a@b.example"
    event = {"vertexes": [{**RUN, **ENDED, "error": "https://me:word@index.example"}], "logs": [log(said)]}
    feed(tracker, event)
    (step,) = tracker.steps.values()
    assert step.log == ["Could not fetch https://****@index.example/x via http://****@proxy:1 for a@b.example"]
    assert step.error == "https://****@index.example"


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_json_that_is_no_event_is_no_failure(data: object) -> None:
    if not isinstance(data, dict) or not {"vertexes", "statuses", "logs"} & set(data):
        Tracker().feed(json.dumps(data))


# Stands in for docker: says and does what the files beside it hold.
DOCKER = """\
#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1] == "context":
    sys.exit(sys.argv[3] != "elsewhere")
(here / "argv").write_text(json.dumps(sys.argv[1:]))
(here / "environment").write_text(json.dumps(dict(os.environ)))
print((here / "said").read_text(), end="")
metadata = here / "metadata"
if metadata.exists():
    pathlib.Path(sys.argv[sys.argv.index("--metadata-file") + 1]).write_text(metadata.read_text())
sys.exit(0 if metadata.exists() else 1)
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "docker").write_text(DOCKER.format(python=sys.executable))
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_bake_names_each_images_digests(docker: Path, tmp_path: Path) -> None:
    (docker / "said").write_text(json.dumps({"vertexes": [{**RUN, **ENDED}]}) + "\n")
    facts = {"containerimage.config.digest": "sha256:c", "containerimage.digest": "sha256:m"}
    (docker / "metadata").write_text(json.dumps({"t_1": facts, "t_0": {"buildx.build.ref": "x"}, "odd": "text"}))
    seen: list[Step] = []
    baked = bake.bake(tmp_path, {"HOST_CA": "/x"}, seen.append, stages={"t_1": "t.1"}, builder="other", no_cache=True)
    assert baked.images == {"t.1": bake.Exported("sha256:c", "sha256:m")}
    assert list(baked.steps) == seen
    argv = json.loads((docker / "argv").read_text())
    assert argv[:4] == ["buildx", "bake", "--file", "docker-bake.json"]
    assert {"--no-cache", "--provenance=false"} <= set(argv)
    assert argv[argv.index("--builder") + 1] == "other"
    environment = json.loads((docker / "environment").read_text())
    assert environment["HOST_CA"] == "/x"
    assert environment["BUILDX_NO_DEFAULT_LOAD"] == "1"
    assert not Path(argv[argv.index("--metadata-file") + 1]).exists()


def test_each_target_keeps_its_cache_and_takes_from_every_one(docker: Path, tmp_path: Path) -> None:
    (docker / "said").write_text("")
    (docker / "metadata").write_text("{}")
    caches = {"t_1": "host/cache:t.1", "t_2": "host/cache:t.2"}
    bake.bake(tmp_path, {}, lambda step: None, stages={}, cache=caches)
    asked = " ".join(json.loads((docker / "argv").read_text()))
    for name in ("t_1", "t_2"):
        assert f"--set *.cache-from=type=registry,ref={caches[name]}" in asked
        assert f"--set {name}.cache-to=type=registry,ref={caches[name]},mode=max" in asked


def test_a_docker_context_is_named_where_docker_takes_it(docker: Path, tmp_path: Path) -> None:
    (docker / "said").write_text("")
    (docker / "metadata").write_text("{}")
    bake.bake(tmp_path, {}, lambda step: None, stages={}, builder="elsewhere")
    argv = json.loads((docker / "argv").read_text())
    assert argv[:4] == ["--context", "elsewhere", "buildx", "bake"]
    assert "--builder" not in argv


def failing(docker: Path, tmp_path: Path, said: str) -> Exception:
    (docker / "said").write_text(said)
    with pytest.raises(Exception) as caught:
        bake.bake(tmp_path, {}, lambda step: None, stages={})
    return caught.value


def failed(output: bytes, error: str = "process did not complete: exit code: 1") -> str:
    events = [
        {"vertexes": [{"digest": "y", "name": "[t_2 beside 1/1] RUN x", **ENDED, "error": "context canceled"}]},
        {"vertexes": [{**RUN, **STARTED}], "logs": [log(output)]},
        {"vertexes": [{**RUN, **ENDED, "error": error}]},
    ]
    return "".join("\n".join(lines(event, spread=True)) + "\n" for event in events) + "ERROR: failed to solve\n"


def test_a_failed_step_is_named_with_its_last_lines(docker: Path, tmp_path: Path) -> None:
    output = "".join(f"line {number}\n" for number in range(50)).encode()
    error = failing(docker, tmp_path, failed(output))
    assert isinstance(error, BuildError)
    assert "the stage stage-1.0 failed at RUN pip install x; its last lines:" in str(error)
    assert "line 49" in str(error)
    assert "line 19" not in str(error)


def test_a_failed_step_that_said_nothing_shows_the_builders_words(docker: Path, tmp_path: Path) -> None:
    assert "exit code: 1" in str(failing(docker, tmp_path, failed(b"")))


@pytest.mark.parametrize(
    "said",
    [
        failed(b"OSError: [Errno 28] No space left on device\n"),
        failed(b"", "failed to copy: write /x: no space left on device"),
        "ERROR: write /var/lib/x: no space left on device\n",
    ],
)
def test_a_full_disk_is_told_as_such(docker: Path, tmp_path: Path, said: str) -> None:
    error = failing(docker, tmp_path, said)
    assert isinstance(error, DiskError)
    assert "invoke clean" in error.fix


@pytest.mark.parametrize(
    "said",
    [
        "docker: 'buildx' is not a docker command.\nSee 'docker --help'\n",
        'ERROR: no builder "other" found\n',
        "ERROR: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?\n",
    ],
)
def test_a_builder_that_cannot_be_used_is_told(docker: Path, tmp_path: Path, said: str) -> None:
    error = failing(docker, tmp_path, said)
    assert isinstance(error, EngineError)
    assert said.splitlines()[0] in str(error)
    assert "invoke doctor" in error.fix


def test_a_step_that_could_not_connect_is_no_fault_of_the_builder(docker: Path, tmp_path: Path) -> None:
    assert isinstance(failing(docker, tmp_path, failed(b"Cannot connect to proxy\n")), BuildError)


def test_a_bake_that_fails_before_any_step_shows_its_words(docker: Path, tmp_path: Path) -> None:
    error = failing(docker, tmp_path, 'ERROR: target x: failed to compute cache key: "/rootfs.tar": not found\n')
    assert isinstance(error, BuildError)
    assert "/rootfs.tar" in str(error)


def test_a_machine_without_docker_is_told(docker: Path, tmp_path: Path) -> None:
    (docker / "docker").unlink()
    with pytest.raises(ProgramError, match="cannot run docker"):
        bake.bake(tmp_path, {}, lambda step: None, stages={})
