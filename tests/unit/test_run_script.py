"""`./run` on machines of several kinds, each a private view of this one: own /etc, /run, processes and network.

On PATH stand only the system's plain tools and stand-ins for docker, dockerd, apt-get and id, which note each call in
/run/calls. Nothing here can reach the machine's own engine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "run"
TOOLS = (
    *("awk", "cat", "chmod", "cmp", "cp", "cut", "dirname", "env", "grep", "head", "kill", "mkdir", "mktemp", "rm"),
    *("sed", "setsid", "sh", "sleep", "tail", "touch", "tr", "true"),
)

DOCKER = """\
#!/bin/sh
case "$*" in
    "context show") cat /run/context 2>/dev/null || echo default ;;
    "compose version" | "buildx version") exit 0 ;;
    version*) [ -e /run/answers ] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; } ;;
esac
"""
DOCKERD = """\
#!/bin/sh
echo "dockerd $*" >>/run/calls
if [ -e /run/refuse ]; then echo "failed to start: the reason"; exit 1; fi
trap 'echo "dockerd stops" >>/run/calls; rm -f /run/answers; exit 0' TERM
if ! [ -e /run/mute ]; then touch /run/answers; fi
while :; do sleep 0.1; done
"""
# What is installed becomes runnable: the stand-ins wait in a folder beside.
APT_GET = """\
#!/bin/sh
case "$1" in indextargets) echo 'bookworm http://mirror.example/debian/'; exit 0 ;; esac
echo "apt-get $*" >>/run/calls
[ ! -e /usr/sbin/policy-rc.d ] || echo "services held back" >>/run/calls
if [ -e /run/no-network ]; then echo "E: Failed to fetch"; exit 100; fi
for word in "$@"; do
    case "$word" in
        docker.io*) cp "$BOX/packages/dockerd" "$BOX/packages/docker" "$BOX/bin/" ;;
        docker-cli*) cp "$BOX/packages/docker" "$BOX/bin/" ;;
    esac
done
"""
ID = "#!/bin/sh\ncat /run/uid\n"
# Makes a virtual environment whose python notes what it is asked to do.
PYTHON = """\
#!/bin/sh
case "$*" in
    "-c "*) exit {fit} ;;
    "-m venv --clear "*) mkdir -p "$4/bin"; cp "$BOX/packages/venv-python" "$4/bin/python" ;;
    *) exec {real} "$@" ;;
esac
echo "python $*" >>/run/calls
"""
VENV_PYTHON = """\
#!/bin/sh
case "$*" in "-c "*) exit 0 ;; esac
echo "venv $*" >>/run/calls
pwd >/run/folder
case "$*" in *"pip install"*) if [ -e /run/no-network ]; then exit 1; fi ;; esac
"""
SYSTEMS = {
    "bookworm": "ID=debian\nVERSION_CODENAME=bookworm\n",
    "trixie": "ID=debian\nVERSION_CODENAME=trixie\n",
    "noble": "ID=ubuntu\nVERSION_CODENAME=noble\n",
    "focal": "ID=ubuntu\nVERSION_CODENAME=focal\n",
    "fedora": "ID=fedora\n",
}


@dataclass(frozen=True)
class Outcome:
    codes: list[int]
    told: str
    calls: list[str]

    def called(self, word: str) -> list[str]:
        return [call for call in self.calls if call.startswith(word)]


@dataclass(frozen=True)
class Box:
    """One machine, by folder: its /etc, /run and /usr/sbin, its programs, and the project on it."""

    folder: Path

    def write(self, path: str, text: str = "", *, mode: int = 0o644) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def program(self, name: str, text: str) -> None:
        self.write(f"bin/{name}", text, mode=0o755)

    def state(self, name: str) -> Path:
        return self.folder / "project" / ".slipway" / "engine" / name

    def run(self, *lines: str, **environment: str) -> Outcome:
        """Run shell lines on the machine; `R ARGUMENTS` is ./run, whose exit codes are kept."""
        mounts = {"etc": "/etc", "run": "/run", "sbin": "/usr/sbin", "keyrings": "/usr/share/keyrings"}
        script = "\n".join(
            [
                *(f'mount --bind "$BOX/{name}" {target}' for name, target in mounts.items()),
                'PATH="$BOX/bin"',
                'R() { code=0; "$BOX/project/run" "$@" || code=$?; echo "$code" >>/run/codes; }',
                *lines,
            ]
        )
        for name in ("calls", "codes"):
            self.write(f"run/{name}")
        unshare = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
        if os.geteuid() != 0:
            unshare.append("--map-root-user")
        done = subprocess.run(
            [*unshare, "sh", "-euc", script],
            env={"PATH": os.environ["PATH"], "BOX": str(self.folder), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        codes = [int(code) for code in (self.folder / "run/codes").read_text().split()]
        assert done.returncode == 0, done.stdout
        return Outcome(codes, done.stdout, (self.folder / "run/calls").read_text().splitlines())


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A Debian 12 as root with nothing of Docker on it."""
    made = Box(tmp_path)
    for name in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/docker", "run", "sbin", "keyrings", "bin"):
        (tmp_path / name).mkdir(parents=True)
    for tool in TOOLS:
        if found := shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(Path(found).resolve())
    made.write("etc/os-release", SYSTEMS["bookworm"])
    made.write("run/uid", "0\n")
    made.write("project/requirements/run.lock", "one\n")
    made.write("project/requirements/check.lock", "one\ntwo\n")
    shutil.copy(RUN, tmp_path / "project/run")
    for name, text in (("docker", DOCKER), ("dockerd", DOCKERD), ("venv-python", VENV_PYTHON)):
        made.write(f"packages/{name}", text, mode=0o755)
    for name, text in (("apt-get", APT_GET), ("id", ID)):
        made.program(name, text)
    made.program("python3.11", PYTHON.format(fit=0, real=sys.executable))
    return made


@pytest.fixture
def ready(box: Box) -> Box:
    """The same with all programs there, and no engine that runs."""
    for name, text in (("docker", DOCKER), ("dockerd", DOCKERD), ("mmdebstrap", "#!/bin/sh\n")):
        box.program(name, text)
    box.write("keyrings/debian-archive-keyring.gpg")
    return box


# --- What is installed -------------------------------------------------------------------------------------------


def test_an_engine_that_answers_is_left_alone(ready: Box) -> None:
    ready.write("run/answers")
    done = ready.run("R engine-start")
    assert done.codes == [0]
    assert done.calls == []
    assert done.told == ""


def test_debian_12_takes_the_engine_from_the_next_release_by_name(box: Box) -> None:
    done = box.run("R engine-start")
    assert done.codes == [0], done.told
    (install,) = [call for call in done.called("apt-get") if " install " in call]
    assert install.split()[-6:] == [
        *("docker.io/trixie", "docker-cli/trixie", "docker-buildx/trixie", "docker-compose/trixie"),
        *("mmdebstrap", "debian-archive-keyring"),
    ]
    assert " -t " not in install
    sources = (box.folder / "etc/apt/sources.list.d/slipway-trixie.list").read_text()
    assert sources == "deb http://mirror.example/debian/ trixie main\n"
    assert "Pin-Priority: 100\n" in (box.folder / "etc/apt/preferences.d/slipway-trixie").read_text()
    assert len(done.called("dockerd --config-file")) == 1


def test_it_says_what_it_installs_before_it_does(box: Box) -> None:
    box.write("run/no-network")
    done = box.run("R engine-start")
    assert done.codes == [15]
    assert "run: installing what the engine needs with apt-get: docker.io/trixie" in done.told
    assert "E: Failed to fetch" in done.told, "the error shows apt's last lines"


def test_services_do_not_start_by_themselves(box: Box) -> None:
    done = box.run("R engine-start")
    assert "services held back" in done.calls
    assert not (box.folder / "sbin/policy-rc.d").exists()
    box.write("run/no-network")
    (box.folder / "bin/docker").unlink()
    (box.folder / "run/answers").unlink()
    box.run("R engine-start")
    assert not (box.folder / "sbin/policy-rc.d").exists(), "after a failure neither"


def test_a_policy_of_the_hosts_own_stays(box: Box) -> None:
    box.write("sbin/policy-rc.d", "the host's\n")
    box.run("R engine-start")
    assert (box.folder / "sbin/policy-rc.d").read_text() == "the host's\n"


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        ("trixie", "docker.io docker-cli docker-buildx docker-compose mmdebstrap debian-archive-keyring"),
        ("noble", "docker.io docker-buildx docker-compose-v2 mmdebstrap debian-archive-keyring"),
    ],
)
def test_newer_systems_have_it_all(box: Box, system: str, packages: str) -> None:
    box.write("etc/os-release", SYSTEMS[system])
    done = box.run("R engine-start")
    assert done.codes == [0], done.told
    assert f"with apt-get: {packages} (log" in done.told
    assert not list((box.folder / "etc/apt/sources.list.d").iterdir())


def test_only_what_is_missing_is_installed(box: Box) -> None:
    box.program("docker", DOCKER)
    box.program("mmdebstrap", "#!/bin/sh\n")
    box.write("keyrings/debian-archive-keyring.gpg")
    done = box.run("R engine-start")
    assert done.codes == [0], done.told
    assert "with apt-get: docker.io/trixie (log" in done.told


@pytest.mark.parametrize("system", ["fedora", "focal"])
def test_other_systems_are_told_what_to_install(box: Box, system: str) -> None:
    box.write("etc/os-release", SYSTEMS[system])
    done = box.run("R build")
    assert done.codes == [5]
    assert "install Docker with buildx, and mmdebstrap" in done.told
    assert done.calls == []


def test_who_is_not_root_is_told_what_to_install(ready: Box) -> None:
    ready.write("run/uid", "1000\n")
    done = ready.run("R build")
    assert done.codes == [5]
    assert "Cannot connect to the Docker daemon" in done.told, "docker's own reason"
    assert done.calls == []


def test_no_install_means_none(box: Box) -> None:
    done = box.run("R build", SLIPWAY_NO_INSTALL="1")
    assert done.codes == [5]
    assert "SLIPWAY_NO_INSTALL=1 forbids" in done.told
    assert done.calls == []
    assert not (box.folder / "project/.venv").exists()


def test_no_install_means_no_engine_started_either(ready: Box) -> None:
    done = ready.run("R engine-start", SLIPWAY_NO_INSTALL="1")
    assert (done.codes, done.calls) == ([5], [])


def test_an_engine_elsewhere_is_not_ours_to_start(ready: Box) -> None:
    done = ready.run("R engine-start", DOCKER_HOST="tcp://builder.example:2376")
    assert done.codes == [5]
    assert "tcp://builder.example:2376 does not answer" in done.told
    ready.write("run/context", "builder\n")
    done = ready.run("R engine-start")
    assert done.codes == [5]
    assert "context builder does not answer" in done.told
    assert done.calls == []


# --- Starting and stopping the engine ----------------------------------------------------------------------------


def test_it_starts_once_and_is_stopped_by_name(ready: Box) -> None:
    done = ready.run("R engine-start", "R engine-start", "R engine-stop", "R engine-stop")
    assert done.codes == [0, 0, 0, 0], done.told
    assert len(done.called("dockerd --config-file")) == 1
    assert done.calls[-1] == "dockerd stops"
    assert "no engine was started from here" in done.told
    assert not ready.state("started").exists()


def test_its_settings_turn_the_containerd_store_on_and_keep_the_hosts(ready: Box) -> None:
    ready.write("etc/docker/daemon.json", '{"registry-mirrors": ["https://mirror.example"], "features": {"x": true}}')
    done = ready.run("R engine-start")
    assert done.called("dockerd") == [f"dockerd --config-file {ready.state('daemon.json')}"]
    assert json.loads(ready.state("daemon.json").read_text()) == {
        "registry-mirrors": ["https://mirror.example"],
        "features": {"x": True, "containerd-snapshotter": True},
    }


def test_host_settings_that_are_no_json_are_named(ready: Box) -> None:
    ready.write("etc/docker/daemon.json", "{")
    done = ready.run("R engine-start")
    assert done.codes == [5]
    assert "/etc/docker/daemon.json is not the JSON" in done.told
    assert "Traceback" not in done.told
    assert done.calls == []


@pytest.mark.skipif(shutil.which("ip") is None, reason="needs iproute2 to lay a route")
@pytest.mark.parametrize(("mtu", "given"), [(1400, 1400), (1500, None), (9000, None)])
def test_a_smaller_mtu_on_the_way_out_is_taken_over(ready: Box, mtu: int, given: int | None) -> None:
    shutil.copy(shutil.which("ip") or "", ready.folder / "bin")
    (ready.folder / "bin/mount").symlink_to(shutil.which("mount") or "")
    route = ["mount -t sysfs sysfs /sys", f"ip link set lo mtu {mtu} up", "ip route add default dev lo"]
    ready.run(*route, "R engine-start")
    assert json.loads(ready.state("daemon.json").read_text()).get("mtu") == given


def socket_at(path: str) -> str:
    """A shell line that leaves a socket behind which nobody listens at."""
    code = f"import os, socket; os.makedirs(os.path.dirname({path!r})); socket.socket(socket.AF_UNIX).bind({path!r})"
    return f'{sys.executable} -c "{code}"'


def test_what_a_killed_engine_left_is_cleared(ready: Box) -> None:
    ready.write("run/docker.pid", "1")  # a living process that is no engine
    ready.write("run/docker/containerd/containerd.pid", "99999")
    done = ready.run(socket_at("/run/containerd/containerd.sock"), "R engine-start")
    assert done.codes == [0], done.told
    for path in ("docker.pid", "docker/containerd/containerd.pid", "containerd/containerd.sock"):
        assert not (ready.folder / "run" / path).exists()
    assert done.told.count("of an engine that is gone") == 3


def test_what_a_living_containerd_holds_stays(ready: Box) -> None:
    ready.program("containerd", "#!/bin/sh\nwhile :; do sleep 0.1; done\n")
    (ready.folder / "run/docker/containerd").mkdir(parents=True)
    done = ready.run(
        socket_at("/run/containerd/containerd.sock"),
        "containerd & pid=$!",
        "echo $pid >/run/docker/containerd/containerd.pid",
        "until grep -q containerd /proc/$pid/comm; do sleep 0.05; done",
        "R engine-start",
    )
    assert done.codes == [0], done.told
    for path in ("docker/containerd/containerd.pid", "containerd/containerd.sock"):
        assert (ready.folder / "run" / path).exists()


def test_an_engine_that_is_slow_never_meets_a_second(ready: Box) -> None:
    ready.write("run/mute")
    done = ready.run(
        "dockerd first &",
        "echo $! >/run/docker.pid",
        "until [ -s /run/calls ]; do sleep 0.05; done",
        "{ sleep 0.5; touch /run/answers; } &",
        "R engine-start",
    )
    assert done.codes == [0], done.told
    assert done.called("dockerd") == ["dockerd first"]
    assert (ready.folder / "run/docker.pid").exists()
    assert not ready.state("started").exists(), "it is not ours to stop"


def test_an_engine_that_does_not_come_up_gives_its_reason(ready: Box) -> None:
    ready.write("run/refuse")
    done = ready.run("R engine-start")
    assert done.codes == [5]
    assert "failed to start: the reason" in done.told
    assert not ready.state("started").exists()


def test_ctrl_c_while_it_starts_stops_it(ready: Box) -> None:
    ready.write("run/mute")
    done = ready.run(
        # A shell's background jobs ignore Ctrl-C; env gives it back.
        'env --default-signal=INT "$BOX/project/run" engine-start & started=$!',
        "until [ -s /run/calls ]; do sleep 0.05; done",
        "kill -INT $started",
        'wait $started || echo "$?" >>/run/codes',
    )
    assert done.codes == [130], done.told
    assert done.calls[-1] == "dockerd stops"
    assert not ready.state("started").exists()


def test_only_the_very_process_that_was_started_is_stopped(ready: Box) -> None:
    ready.write("project/.slipway/engine/started", "1 12345\n")
    done = ready.run("dockerd other &", "R engine-stop")
    assert done.codes == [0]
    assert "dockerd stops" not in done.calls
    assert not ready.state("started").exists()


# --- Python packages ---------------------------------------------------------------------------------------------


def test_packages_are_installed_once_by_hash(ready: Box) -> None:
    done = ready.run("R list", "R list")
    assert done.codes == [0, 0], done.told
    (install,) = [call for call in done.called("venv") if "pip install" in call]
    assert "--require-hashes" in install
    assert "requirements/run.lock" in install
    assert [call for call in done.called("venv") if "-m invoke" in call and call.endswith(" list")] != []


def test_a_changed_lock_is_installed(ready: Box) -> None:
    done = ready.run("R list", 'echo new >>"$BOX/project/requirements/run.lock"', "R list")
    assert len([call for call in done.calls if "pip install" in call]) == 2
    assert len(done.called("python -m venv")) == 1


def test_check_needs_more_packages_and_covers_the_rest(ready: Box) -> None:
    ready.write("run/answers")
    ready.program("docker-registry", "#!/bin/sh\n")
    ready.program("cosign", "#!/bin/sh\n")
    done = ready.run("R check", "R check", "R list")
    assert done.codes == [0, 0, 0], done.told
    (install,) = [call for call in done.calls if "pip install" in call]
    assert "requirements/check.lock" in install


def test_a_failed_installation_is_not_taken_for_done(ready: Box) -> None:
    ready.write("run/no-network")
    done = ready.run("R list", "rm /run/no-network", "R list")
    assert done.codes == [15, 0], done.told
    assert "could not be installed" in done.told
    assert len([call for call in done.calls if "pip install" in call]) == 2


def test_a_python_that_is_too_old_is_passed_over(ready: Box) -> None:
    ready.program("python3.12", PYTHON.format(fit=1, real=sys.executable))
    done = ready.run("R list")
    assert "making .venv with python3.11" in done.told


def test_without_python_debian_installs_it_and_others_are_told(ready: Box) -> None:
    (ready.folder / "bin/python3.11").unlink()
    done = ready.run("R list")
    assert done.codes == [15], "the stand-in of apt-get brings no Python"
    assert [call.split()[-2:] for call in done.called("apt-get -qy install")] == [["python3", "python3-venv"]]
    ready.write("etc/os-release", SYSTEMS["fedora"])
    done = ready.run("R list")
    assert done.codes == [15]
    assert "no Python of 3.10 or newer" in done.told
    assert done.calls == []


@pytest.mark.parametrize(
    "arguments", ["list", "plan --all", "render", "build --dry-run", "release --plan", "build --help", ""]
)
def test_what_needs_no_engine_starts_none(ready: Box, arguments: str) -> None:
    done = ready.run(f"R {arguments}")
    assert done.codes == [0]
    assert done.called("dockerd") == []


@pytest.mark.parametrize("arguments", ["build --framework pytorch", "verify", "push", "release --all", "run", "check"])
def test_what_needs_an_engine_gets_one_first(ready: Box, arguments: str) -> None:
    done = ready.run(f"R {arguments}")
    assert done.codes == [0], done.told
    assert done.calls[0].startswith("dockerd --config-file")


@pytest.mark.parametrize(
    ("system", "present", "installed"),
    [
        ("bookworm", [], ["docker-registry/trixie", "cosign/trixie"]),
        ("bookworm", ["docker-registry"], ["cosign/trixie"]),
        ("trixie", ["cosign"], ["docker-registry"]),
        ("noble", [], ["docker-registry"]),
        ("noble", ["docker-registry"], []),
    ],
)
def test_only_check_sets_up_what_only_tests_use(
    ready: Box, system: str, present: list[str], installed: list[str]
) -> None:
    ready.write("run/answers")
    ready.write("etc/os-release", SYSTEMS[system])
    for name in present:
        ready.program(name, "#!/bin/sh\n")
    assert ready.run("R build").called("apt-get") == []
    installs = [call for call in ready.run("R check").called("apt-get") if " install " in call]
    assert [word for call in installs for word in call.split("=0 ")[-1].split()] == installed


def test_arguments_reach_invoke_as_they_are(ready: Box) -> None:
    done = ready.run("""R build --only 'a b' '*'""")
    assert done.calls[-1].endswith(f"-m invoke --search-root {ready.folder}/project build --only a b *")


@pytest.mark.parametrize(("caller", "invoke"), [("/", "project"), ("$BOX/project/docs", "project/docs")])
def test_it_means_its_own_project_wherever_it_is_called_from(ready: Box, caller: str, invoke: str) -> None:
    (ready.folder / "project/docs").mkdir()
    done = ready.run(f'cd "{caller}"', "R list")
    assert done.codes == [0], done.told
    assert (ready.folder / "run/folder").read_text() == f"{ready.folder / invoke}\n"
