"""The plan: pure, stable, and each change reaches exactly the stages that it decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway import base, plan
from slipway.errors import LockError, SpecError
from slipway.plan import Plan
from slipway.spec import load

from .conftest import ROOT, SPEC, lock_all, pin

NEWEST = "small-training-1.2.0-cpu-py311"
OLDER = "small-training-1.1.0-cpu-py311"
BASE = "base-debian12"
TOOLS = "tools-debian12"
PYTHON = "python-debian12-py311"
STACK = "small-1.2.0-cpu-py311"
SCOPE = "small-1.2.0-cpu-py311-training"

Write = Callable[[str, str], Path]


def planned(project: Path, **settings: str) -> Plan:
    images = load.load(project).buildable
    return plan.plan(images, load.read_sources(project), {"debian12": base.of("debian12", **settings)})


def hashes(made: Plan) -> dict[str, str]:
    return {stage.name: stage.hash for stage in made.stages}


def changed(project: Path, change: Callable[[], object]) -> set[str]:
    """The stages whose hash a change moves."""
    before = hashes(planned(project))
    change()
    after = hashes(planned(project))
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def test_parents_come_before_children_and_shared_stages_once(project: Path) -> None:
    made = planned(project)
    names = [stage.name for stage in made.stages]
    assert names[:6] == [BASE, TOOLS, PYTHON, STACK, SCOPE, NEWEST]
    assert len(names) == len(set(names))
    for stage in made.stages:
        assert all(names.index(parent) < names.index(stage.name) for parent in stage.parents.values())
    assert [image.id for image in made.images] == [NEWEST, OLDER]


def test_an_image_is_the_stages_below_it(project: Path) -> None:
    made = planned(project)
    newest, older = made.images
    assert [stage.name for stage in made.chain(newest)] == [BASE, PYTHON, STACK, SCOPE, NEWEST]
    assert [stage.name for stage in made.chain(older)] == [BASE, PYTHON, "small-1.1.0-cpu-py311", OLDER]
    assert [stage.name for stage in made.needed(older)] == [BASE, TOOLS, PYTHON, "small-1.1.0-cpu-py311", OLDER]
    assert made.shared(made.stage(PYTHON)) == (newest, older)
    assert made.shared(made.stage(SCOPE)) == (newest,)
    assert made.input_hash(newest) == made.stage(NEWEST).hash


def test_the_same_project_has_the_same_hashes_in_every_process(project: Path) -> None:
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from slipway import base, plan\n"
        "from slipway.spec import load\n"
        "root = Path(sys.argv[1])\n"
        "made = plan.plan(load.load(root).buildable, load.read_sources(root), {'debian12': base.of('debian12')})\n"
        "print(json.dumps([[s.name, s.hash] for s in made.stages]))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script, project],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert [[*pair] for pair in hashes(planned(project)).items()] == json.loads(found.pop())
    assert not found


def test_a_toolkits_change_reaches_only_the_last_stages(project: Path, write: Write) -> None:
    def change() -> None:
        write("toolkits/training/small_toolkit.py", '"""Other."""\n')

    assert changed(project, change) == {NEWEST, OLDER}


def test_a_new_hash_in_a_lock_reaches_what_stands_on_it(project: Path, write: Write) -> None:
    path = project / "buildspec/locks" / STACK / "common.txt"
    text = path.read_text()
    assert changed(project, lambda: path.write_text(text + "# one more\n")) == {STACK, SCOPE, NEWEST}


def test_the_installers_lock_reaches_all_that_it_installs(project: Path) -> None:
    path = project / "buildspec/locks/tools.txt"
    found = changed(project, lambda: path.write_text(path.read_text() + "# one more\n"))
    assert found == set(hashes(planned(project))) - {BASE, PYTHON}


@pytest.mark.parametrize(
    ("template", "first"),
    [("base", BASE), ("python", PYTHON), ("packages", STACK), ("training", NEWEST), ("tools", TOOLS)],
)
def test_a_templates_change_reaches_its_stages_and_those_above(project: Path, template: str, first: str) -> None:
    path = project / "dockerfiles" / f"{template}.Dockerfile.j2"
    found = changed(project, lambda: path.write_text(path.read_text() + "# more\n"))
    names = [stage.name for stage in planned(project).stages]
    assert first in found
    assert NEWEST in found
    assert not [name for name in found if names.index(name) < names.index(first)]


def test_a_changed_macro_reaches_every_stage(project: Path) -> None:
    path = project / "dockerfiles" / "install.j2"
    found = changed(project, lambda: path.write_text(path.read_text() + "{# more #}\n"))
    assert found == set(hashes(planned(project)))


@pytest.mark.parametrize("name", ["README.md", "docs/use.md", "toolkits/training/__pycache__/x.pyc", "slipway.yml"])
def test_what_decides_nothing_changes_nothing(project: Path, write: Write, name: str) -> None:
    assert changed(project, lambda: write(name, "snapshot:\n")) == set()


def test_another_stack_or_a_comment_in_the_file_changes_nothing(project: Path, write: Write) -> None:
    one_more = SPEC[SPEC.index('  "1.1":') : SPEC.index("excluded:")].replace("1.1", "1.0")

    def change() -> None:
        write("buildspec/small.yml", "# words\n" + SPEC.replace("excluded:", one_more + "excluded:"))
        lock_all(project)

    assert changed(project, change) == {"small-1.0.0-cpu-py311", "small-training-1.0.0-cpu-py311"}


def test_the_base_decides_everything(project: Path) -> None:
    before = hashes(planned(project))
    digest = "sha256:" + "0" * 64
    for settings in ({"snapshot": "https://days.example/debian/20261101T000000Z"}, {"base": f"debian@{digest}"}):
        after = hashes(planned(project, **settings))
        assert set(after) == set(before)
        assert not set(after.values()) & set(before.values())


def test_the_order_of_the_files_decides_nothing(project: Path) -> None:
    images = load.load(project).buildable
    sources, bases = load.read_sources(project), {"debian12": base.of("debian12")}
    forward = plan.plan(images, sources, bases)
    backward = plan.plan(reversed(images), sources, bases)
    assert hashes(forward) == hashes(backward)


def test_what_a_bootstrapped_base_cannot_carry_is_told(project: Path, write: Write) -> None:
    spec = SPEC.replace('python: ["3.11"]', 'python: ["3.11", "3.12"]', 1)
    write("buildspec/small.yml", spec[: spec.index("excluded:")])
    lock_all(project)
    with pytest.raises(SpecError) as caught:
        planned(project)
    told = [str(fault) for fault in caught.value.faults]
    assert [one.split(" (fix")[0] for one in told] == [
        f"buildspec/small.yml:7: {NEWEST}-arm64: the bootstrap makes amd64, not arm64",
        "buildspec/small.yml:7: small-training-1.2.0-cpu-py312: debian12 carries Python 3.11, not 3.12",
        "buildspec/small.yml:7: small-training-1.2.0-cpu-py312-arm64: debian12 carries Python 3.11, not 3.12",
        "buildspec/small.yml:7: small-training-1.2.0-cpu-py312-arm64: the bootstrap makes amd64, not arm64",
    ]
    planned(project, base="python@sha256:" + "0" * 64)


def test_missing_and_stale_locks_are_one_error_that_names_all(project: Path, write: Write) -> None:
    (project / "buildspec/locks" / STACK / "training.txt").unlink()
    (project / "buildspec/locks/small-1.1.0-cpu-py311/common.txt").unlink()
    write("buildspec/small.yml", SPEC.replace("small==1.2.0, numpy", "small==1.2.0, numpy>=2"))
    with pytest.raises(LockError) as caught:
        planned(project)
    told = str(caught.value)
    assert f"{NEWEST}: buildspec/locks/{STACK}/common.txt was made for other packages" in told
    assert f"{NEWEST}: buildspec/locks/{STACK}/training.txt does not exist" in told
    assert f"{OLDER}: buildspec/locks/small-1.1.0-cpu-py311/common.txt does not exist" in told
    assert "buildspec/small.yml:7: " in told and "buildspec/small.yml:18: " in told
    assert caught.value.fix == "run `invoke lock --framework small`"


def test_a_package_that_an_upper_layer_replaces_is_an_error(project: Path) -> None:
    """What locking never writes, a hand may: the same package above itself, or a toolkit under another's name."""
    path = project / "buildspec/locks" / STACK / "training.txt"
    good = path.read_text()
    path.write_text(good + pin("numpy==0.9"))
    with pytest.raises(SpecError) as caught:
        planned(project)
    (fault,) = caught.value.faults
    assert fault.what == (
        f"buildspec/locks/{STACK}/training.txt holds numpy, which buildspec/locks/{STACK}/common.txt holds too"
    )
    assert (fault.file, fault.line) == ("buildspec/small.yml", 7)
    path.write_text(good + pin("small_toolkit==7"))
    with pytest.raises(SpecError) as caught:
        planned(project)
    (fault,) = caught.value.faults
    assert fault.what == f"{NEWEST}: the toolkit training would replace small-toolkit of {path.relative_to(project)}"


def test_the_description_is_for_machines(project: Path) -> None:
    data = json.loads(json.dumps(plan.describe(planned(project))))
    assert data["bases"] == {"debian12": "bootstrapped debian12 (bookworm)"}
    assert data["stages"][-1]["image"] == OLDER
    assert data["stages"][3]["shared_by"] == [NEWEST]
