"""What the training toolkit costs, against the bare script in the same run.

    python tests/bench/training/bench.py [--image NAME] [--peer PYTHON] [--rounds 7] [--lines 1000000] [--json]

Without an image, ``train`` and ``python train.py`` run as processes on this host. With one, both run as its containers,
from ``docker run`` on; ``--image build`` makes the image from the wheel on the base image of the integration tests.
``--peer`` is an interpreter that has the reference toolkit (sagemaker-training from PyPI) installed.

Every round runs each contestant once, in turn, so that what else the machine does hits all of them alike. Medians are
compared, as differences and ratios to the floor, which is the script alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

PEER = "reference train"


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
        "parent, MB": kilobytes / 1024,
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


def start(contestants: dict[str, list[str]], base: Path, rounds: int, image: str) -> dict[str, dict[str, float]]:
    """Medians of each contestant."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, command in contestants.items():
            if image:
                container = f"slipway-bench-{secrets.token_hex(4)}"
                full = ["docker", "run", "--rm", "--name", container, "-v", f"{base}:/opt/ml", "-w", "/opt/ml/code"]
                results[name].append(once([*full, image, *command], base, dict(os.environ), container_pss(container)))
            else:
                results[name].append(once(command, base, environment(base, name != PEER), pss))
    return {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in results.items()
    }


def relay(base: Path, lines: int, rounds: int) -> dict[str, float]:
    """CPU seconds of parent and script together for short unbuffered lines: to a file, and through ``train``."""
    target = base / "log"
    env = {**environment(base), "PYTHONUNBUFFERED": "1", "SAGEMAKER_PROGRAM": "lines.py"}
    (base / "input/config/hyperparameters.json").write_text(
        json.dumps({"sagemaker_program": "lines.py", "n": str(lines)})
    )
    commands = {
        "straight to a file": [sys.executable, "lines.py", "-n", str(lines)],
        "through train": [sys.executable, "-m", "sagemaker_training.cli.train"],
    }
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        outputs = []
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with target.open("wb") as log:
                subprocess.run(command, cwd=base / "code", env=env, stdout=log, stderr=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            outputs.append(target.read_bytes())
        if outputs[0] != outputs[1]:
            raise SystemExit("lines were lost or torn")
    return {name: statistics.median(values) for name, values in spent.items()}


def import_seconds(rounds: int, base: Path) -> float:
    """Seconds that importing the trainer takes, without the interpreter's own start."""
    code = "import time; t = time.perf_counter(); import sagemaker_training.trainer; print(time.perf_counter() - t)"
    runs = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], env=environment(base), stdout=subprocess.PIPE, check=True
            ).stdout
        )
        for _ in range(rounds)
    ]
    return statistics.median(runs)


def build(folder: Path) -> str:
    """An image with the wheel, on the base of the integration tests."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.toolkits.training import images

    return images.build(SOURCE.parent, folder)


def verdicts(
    found: dict[str, dict[str, float]], cpu: dict[str, float], imported: float, in_container: bool
) -> dict[str, tuple[float, float]]:
    """Each promised figure: what was measured, and what it may be at most."""
    floor, ours = found["python train.py"], found["train"]
    ratio = {"first line, ratio to the floor": (ours["first line, s"] / floor["first line, s"], 1.35)}
    return {
        **(ratio if in_container else {}),
        "first line over the floor, s": (ours["first line, s"] - floor["first line, s"], 0.15),
        "after the last line over the floor, s": (ours["after last line, s"] - floor["after last line, s"], 0.15),
        "parent's memory, MB": (ours["parent, MB"], 25.0),
        "import, s": (imported, 0.15),
        "CPU of relayed lines, ratio": (cpu["through train"] / cpu["straight to a file"], 1.0),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", default="", help="run in containers of this image; build: make one")
    parser.add_argument("--peer", default="", help="an interpreter with the reference toolkit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--lines", type=int, default=1000000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="slipway-bench-"))
    image = ""
    try:
        base = work / "ml"
        tree(base)
        image = build(work / "context") if given.image == "build" else given.image
        python = "python3" if image else sys.executable
        contestants = {
            "python train.py": [python, "train.py"],
            "train": ["train"] if image else [python, "-m", "sagemaker_training.cli.train"],
        }
        if given.peer:
            contestants[PEER] = [str(Path(given.peer).parent / "train")]
        found = start(contestants, base, given.rounds, image)
        cpu = relay(base, given.lines, max(3, given.rounds // 2))
        figures = verdicts(found, cpu, import_seconds(given.rounds, base), bool(image))
    finally:
        shutil.rmtree(work)
        if given.image == "build" and image:
            subprocess.run(["docker", "image", "rm", "-f", image], stdout=subprocess.DEVNULL)
    report(found, cpu, figures, given.json)
    return 0 if all(value <= limit for value, limit in figures.values()) else 1


def report(
    found: dict[str, Any], cpu: dict[str, float], figures: dict[str, tuple[float, float]], as_json: bool
) -> None:
    if as_json:
        print(json.dumps({"medians": found, "cpu": cpu, "figures": figures}, indent=2))
        return
    for name, values in found.items():
        ratio = values["first line, s"] / found["python train.py"]["first line, s"]
        print(
            f"{name:18}", "  ".join(f"{key} {value:.3f}" for key, value in values.items()), f" first line {ratio:.2f} x"
        )
    for name, value in cpu.items():
        print(f"{name:18} CPU {value:.2f} s")
    for name, (value, limit) in figures.items():
        print(f"{'ok  ' if value <= limit else 'MISS'} {name}: {value:.3f} (at most {limit:g})")


if __name__ == "__main__":
    sys.exit(main())
