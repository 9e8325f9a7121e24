"""What the training toolkit costs, against the bare script in the same run.

    python -m tests.bench.training.bench [--image NAME | --peer PYTHON] [--rounds 15] [--lines 1000000] [--json]

Without an image, ``train`` and ``python train.py`` run as processes on this host. With one, both run as its containers,
from ``docker run`` on; ``--image build`` makes the image from the wheel on the base image of the integration tests.
``--peer`` is an interpreter that has the reference toolkit (sagemaker-training from PyPI) installed.

The floor is the script alone. Figures are those of `tests.bench.figures`, with 90 % intervals; the peer's have no
bound. Ends with 1 when a figure of ours does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.bench import figures
from tests.bench.figures import Figure

SOURCE = Path(__file__).parents[3] / "toolkits" / "training" / "src"

SCRIPT = """\
import time
print("first", flush=True)
time.sleep(0.3)
print("last", flush=True)
"""

LINES = """\
import sys
for i in range(int(sys.argv[-1])):
    print("step", i, "loss=0.25")
"""

FLOOR, OURS, PEER = "python train.py", "train", "reference train"


def tree(base: Path) -> None:
    """A job's /opt/ml."""
    for folder in ("input/config", "input/data", "code", "model", "output/data"):
        (base / folder).mkdir(parents=True)
    (base / "code/train.py").write_text(SCRIPT)
    (base / "code/lines.py").write_text(LINES)
    config = base / "input/config"
    (config / "hyperparameters.json").write_text('{"sagemaker_program": "train.py"}')
    (config / "resourceconfig.json").write_text('{"current_host": "localhost", "hosts": ["localhost"]}')
    (config / "inputdataconfig.json").write_text("{}")


def environment(base: Path, toolkit: bool = True) -> dict[str, str]:
    """toolkit: whether this project's package is on the path; the reference has the same import name."""
    path = {"PYTHONPATH": str(SOURCE)} if toolkit else {}
    return {**os.environ, "SAGEMAKER_BASE_DIR": str(base), **path}


def once(command: list[str], base: Path, env: dict[str, str], memory: Callable[[int], int]) -> dict[str, float]:
    """Seconds to the first line, from the last line to the end, in all; kB of the parent while the script runs."""
    for name in ("success", "failure"):
        (base / "output" / name).unlink(missing_ok=True)
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=base / "code", env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    assert process.stdout is not None
    seen: dict[bytes, float] = {}
    kilobytes = 0
    for line in process.stdout:
        seen[line.strip()] = time.perf_counter()
        if line.strip() == b"first":
            kilobytes = memory(process.pid)
    if process.wait():
        raise SystemExit(f"{command} failed with exit code {process.returncode}")
    ended = time.perf_counter()
    return {
        "first line, s": seen[b"first"] - started,
        "after last line, s": ended - seen[b"last"],
        "total, s": ended - started,
        "parent, MB": kilobytes * 1024 / 1e6,
    }


def pss(pid: int) -> int:
    """kB that a process has to itself, shared pages divided."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def container_pss(name: str) -> Callable[[int], int]:
    def measure(pid: int) -> int:
        inside = subprocess.run(["docker", "inspect", "-f", "{{.State.Pid}}", name], stdout=subprocess.PIPE, check=True)
        return pss(int(inside.stdout))

    return measure


def start(contestants: dict[str, list[str]], base: Path, rounds: int, image: str) -> dict[str, dict[str, list[float]]]:
    """What each contestant took, by round."""
    seen: dict[str, dict[str, list[float]]] = {name: {} for name in contestants}

    def run(name: str) -> float:
        command = contestants[name]
        if image:
            container = f"slipway-bench-{secrets.token_hex(4)}"
            full = ["docker", "run", "--rm", "--name", container, "-v", f"{base}:/opt/ml", "-w", "/opt/ml/code"]
            found = once([*full, image, *command], base, dict(os.environ), container_pss(container))
        else:
            found = once(command, base, environment(base, name != PEER), pss)
        for key, value in found.items():
            seen[name].setdefault(key, []).append(value)
        return found["total, s"]

    figures.measure({name: partial(run, name) for name in contestants}, rounds)
    return seen


def relay(base: Path, lines: int, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of parent and script together for short unbuffered lines: to a file, and through ``train``."""
    target = base / "log"
    env = {**environment(base), "PYTHONUNBUFFERED": "1", "SAGEMAKER_PROGRAM": "lines.py"}
    (base / "input/config/hyperparameters.json").write_text(
        json.dumps({"sagemaker_program": "lines.py", "n": str(lines)})
    )
    commands = {
        FLOOR: [sys.executable, "lines.py", "-n", str(lines)],
        OURS: [sys.executable, "-m", "sagemaker_training.cli.train"],
    }
    expected = "".join(f"step {number} loss=0.25\n" for number in range(lines)).encode()

    def run(name: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with target.open("wb") as log:
            subprocess.run(
                commands[name], cwd=base / "code", env=env, stdout=log, stderr=subprocess.DEVNULL, check=True
            )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if target.read_bytes() != expected:
            raise SystemExit("lines were lost or torn")
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return figures.measure({name: partial(run, name) for name in commands}, rounds)


def import_seconds(rounds: int, base: Path) -> list[float]:
    """Seconds that importing the trainer takes, without the interpreter's own start."""
    code = "import time; t = time.perf_counter(); import sagemaker_training.trainer; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, env=environment(base), stdout=subprocess.PIPE, check=True) for _ in range(rounds)]
    return [float(run.stdout) for run in runs]


def build(folder: Path) -> str:
    """An image with the wheel, on the base of the integration tests."""
    from tests.toolkits.training import images

    return images.build(SOURCE.parent, folder)


def promised(seen: dict[str, dict[str, list[float]]], in_container: bool) -> list[Figure]:
    """The figures of the runs that have a bound."""
    floor, ours = seen[FLOOR], seen[OURS]
    nothing = [0.0] * len(ours["parent, MB"])
    first, last = "first line, s", "after last line, s"
    ratio = figures.ratio("first line, ratio to the floor", ours[first], floor[first], 1.35)
    return [
        *([ratio] if in_container else []),
        figures.difference("first line over the floor, s", ours[first], floor[first], 0.15),
        figures.difference("after the last line over the floor, s", ours[last], floor[last], 0.15),
        figures.difference("parent's memory, MB", ours["parent, MB"], nothing, 25.0),
    ]


def told(seen: dict[str, dict[str, list[float]]]) -> list[Figure]:
    """The peer's, which have none."""
    floor, peer, none = seen[FLOOR], seen[PEER], float("inf")
    nothing = [0.0] * len(peer["parent, MB"])
    first, last = "first line, s", "after last line, s"
    return [
        figures.ratio("reference: first line, ratio to the floor", peer[first], floor[first], none),
        figures.difference("reference: after the last line over the floor, s", peer[last], floor[last], none),
        figures.difference("reference: parent's memory, MB", peer["parent, MB"], nothing, none),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--image", default="", help="run in containers of this image; build: make one")
    parser.add_argument("--peer", default="", help="an interpreter with the reference toolkit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--lines", type=int, default=1000000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.image and given.peer:
        parser.error("--peer is an interpreter of this host, so it runs without --image")
    work = Path(tempfile.mkdtemp(prefix="slipway-bench-"))
    image = ""
    try:
        base = work / "ml"
        tree(base)
        image = build(work / "context") if given.image == "build" else given.image
        python = "python3" if image else sys.executable
        contestants = {
            FLOOR: [python, "train.py"],
            OURS: ["train"] if image else [python, "-m", "sagemaker_training.cli.train"],
        }
        if given.peer:
            contestants[PEER] = [str(Path(given.peer).parent / "train")]
        seen = start(contestants, base, given.rounds, image)
        imported = import_seconds(given.rounds, base)
        cpu = relay(base, given.lines, given.rounds)
    finally:
        shutil.rmtree(work)
        if given.image == "build" and image:
            subprocess.run(["docker", "image", "rm", "-f", image], stdout=subprocess.DEVNULL)
    found = [
        *promised(seen, bool(image)),
        figures.difference("import, s", imported, [0.0] * len(imported), 0.15),
        figures.ratio("CPU of relayed lines, ratio to a file", cpu[OURS], cpu[FLOOR], 1.0),
    ]
    rest = told(seen) if given.peer else []
    if given.json:
        print(json.dumps([asdict(figure) for figure in (*found, *rest)], indent=2))
    else:
        for figure in (*found, *rest):
            print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
