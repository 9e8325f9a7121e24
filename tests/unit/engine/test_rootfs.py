"""Root filesystems on a machine whose mmdebstrap is a stand-in: made once, whole or not at all, faults told apart."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slipway import base, settings
from slipway.base import Recipe
from slipway.console import Console
from slipway.engine import packages, rootfs
from slipway.errors import BuildError, DiskError, ProgramError, SlipwayError

# Writes a tar with one Debian package to its target, the argument after the suite. What it is told to do else stands in
# a file beside it: `fail TEXT`, or `wait`.
STAND_IN = """\
#!{python}
import io, os, pathlib, sys, tarfile, time
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    calls.write("call\\n")
(here / "arguments").write_text("\\n".join(sys.argv))
print("I: running apt-get update...", flush=True)
target = sys.argv[sys.argv.index("bookworm") + 1]
orders = (here / "orders").read_text() if (here / "orders").exists() else ""
open(target, "w").write("half")
if orders.startswith("fail "):
    sys.exit(orders[5:])
if orders == "wait":
    (here / "waiting").touch()
    time.sleep(600)
status = b"Package: adduser\\nStatus: install ok installed\\nVersion: 3.134\\n"
with tarfile.open(target, "w") as tar:
    member = tarfile.TarInfo("./var/lib/dpkg/status")
    member.size = len(status)
    tar.addfile(member, io.BytesIO(status))
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "mmdebstrap"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> settings.Settings:
    (tmp_path / "project" / "buildspec").mkdir(parents=True)
    return settings.read(project=tmp_path / "project", environment={})


def recipe() -> Recipe:
    found = base.of("debian12")
    assert isinstance(found, Recipe)
    return found


def console() -> Console:
    return Console(out=io.StringIO(), err=io.StringIO())


def words(console: Console) -> str:
    assert isinstance(console.err, io.StringIO)
    return console.err.getvalue()


def calls(programs: Path) -> int:
    return (programs / "calls").read_text().count("call")


def left_in(project: settings.Settings) -> list[str]:
    """What stands in the state folder besides logs and locks."""
    folder = project.state / "rootfs"
    return [path.name for path in folder.iterdir() if path.suffix not in (".log", ".lock")] if folder.is_dir() else []


def test_it_is_made_once_and_found_again(programs: Path, project: settings.Settings) -> None:
    first = rootfs.ensure(recipe(), project, console())
    second = rootfs.ensure(recipe(), project, console())
    assert first == second
    assert calls(programs) == 1
    assert first.packages == (("adduser", "3.134"),)
    assert first.tar == project.state / "rootfs" / recipe().hash / "rootfs.tar"
    assert len(first.sha256) == 64


@pytest.mark.parametrize("damage", ["rootfs.tar", "rootfs.json"])
def test_one_that_is_not_whole_is_made_again(programs: Path, project: settings.Settings, damage: str) -> None:
    first = rootfs.ensure(recipe(), project, console())
    (first.tar.parent / damage).write_text("{")
    assert rootfs.ensure(recipe(), project, console()).packages == first.packages
    assert calls(programs) == 2


def test_two_at_once_make_one(programs: Path, project: settings.Settings) -> None:
    found: list[rootfs.Rootfs] = []
    threads = [
        threading.Thread(target=lambda: found.append(rootfs.ensure(recipe(), project, console()))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert calls(programs) == 1


def test_the_hosts_apt_settings_come_along_in_a_file_that_does_not_stay(
    programs: Path, project: settings.Settings
) -> None:
    apt = programs / "apt-config"
    apt.write_text(
        "#!/bin/sh\n"
        "echo 'Acquire::http::Proxy \"http://user:secret@proxy.example:3128\";'\n"
        "echo 'Acquire::Languages:: \"none\";'\n"
    )
    apt.chmod(0o755)
    kept = programs / "kept"
    spy = "import shutil, sys; shutil.copy(next(w for w in sys.argv if 'upload' in w).split()[1], {!r})\n"
    program = programs / "mmdebstrap"
    program.write_text(program.read_text().replace("import io", spy.format(str(kept)) + "import io", 1))
    rootfs.ensure(recipe(), project, console())
    assert kept.read_text() == 'Acquire::http::Proxy "http://user:secret@proxy.example:3128";\n'
    assert "secret" not in (programs / "arguments").read_text()
    assert not list(project.state.rglob("*host-apt*"))


def test_a_machine_without_mmdebstrap_is_told_what_to_install(programs: Path, project: settings.Settings) -> None:
    (programs / "mmdebstrap").unlink()
    with pytest.raises(ProgramError, match="mmdebstrap, which is not installed") as caught:
        rootfs.ensure(recipe(), project, console())
    assert "apt-get install mmdebstrap" in caught.value.fix
    assert left_in(project) == []


@pytest.mark.parametrize(
    ("told", "error", "step"),
    [
        ("tar: ./x: Cannot write: No space left on device", DiskError, "invoke clean"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", DiskError, "invoke clean"),
        ("E: Failed to fetch http://m/x  Could not connect to m", BuildError, "apt-mirror"),
        ("E: Failed to fetch http://m/x  403  Permission denied", BuildError, "apt-mirror"),
        ("E: unable to pick chroot mode automatically", BuildError, "run as root"),
        ("E: something else", BuildError, "read the log"),
    ],
)
def test_a_failed_bootstrap_names_its_cause_and_leaves_only_the_log(
    programs: Path, project: settings.Settings, told: str, error: type[SlipwayError], step: str
) -> None:
    (programs / "orders").write_text(f"fail {told}")
    with pytest.raises(error) as caught:
        rootfs.ensure(recipe(), project, console())
    assert step in caught.value.fix
    assert told in caught.value.message
    assert left_in(project) == []
    (log,) = (project.state / "rootfs").glob("*.log")
    assert told in log.read_text()


def test_leftovers_of_a_killed_command_are_cleared(programs: Path, project: settings.Settings) -> None:
    stale = project.state / "rootfs" / f".making-{recipe().hash[:16]}-x"
    stale.mkdir(parents=True)
    rootfs.ensure(recipe(), project, console())
    assert left_in(project) == [recipe().hash]


def test_ctrl_c_ends_the_program_and_leaves_nothing(programs: Path, project: settings.Settings, tmp_path: Path) -> None:
    (programs / "orders").write_text("wait")
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from slipway import base, settings\n"
        "from slipway.console import Console\n"
        "from slipway.engine import rootfs\n"
        f"project = settings.read(project=Path({str(project.project)!r}), environment={{}})\n"
        "rootfs.ensure(base.of('debian12'), project, Console())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(rootfs.__file__).parents[2])}
    child = subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert child.stdout is not None
    while "running apt" not in child.stdout.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert left_in(project) == []


def test_drift_is_shown_shortened_and_never_fatal(programs: Path, project: settings.Settings) -> None:
    record = packages.record_path(project.project, "debian12")
    packages.write_record(record, (("adduser", "3.0"), *((f"p{number}", "1") for number in range(9))))
    speaker = console()
    rootfs.ensure(recipe(), project, speaker)
    told = words(speaker)
    assert "10 Debian packages differ from buildspec/base/debian12.packages" in told
    assert "~ adduser 3.0 -> 3.134" in told
    assert "and 5 more" in told


def test_a_missing_record_is_said(programs: Path, project: settings.Settings) -> None:
    speaker = console()
    rootfs.ensure(recipe(), project, speaker)
    assert "invoke base --record" in words(speaker)


def test_what_was_made_says_how(programs: Path, project: settings.Settings) -> None:
    made = rootfs.ensure(recipe(), project, console())
    assert json.loads((made.tar.parent / "rootfs.json").read_text())["recipe"] == recipe().command()
