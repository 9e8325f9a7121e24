"""How long `invoke list` and `invoke plan` of the whole matrix take, against `invoke --list` on an empty tasks file;
and what a second run of `./run list` adds to `invoke list`.

python tests/bench/front_door.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures

PROJECT = Path(__file__).parents[2]
BOUND = 3.0
SET_UP_SECONDS = 1.0


def timed(
    words: list[str], folder: Path, program: Sequence[str] = (sys.executable, "-m", "invoke")
) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        done = subprocess.run([*program, *words], cwd=folder, capture_output=True)
        # invoke answers 1 when it lists a file without tasks.
        assert done.returncode == 0 or words == ["--list"], done.stderr
        return time.perf_counter() - started

    return run


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        empty = Path(scratch)
        (empty / "tasks.py").touch()
        contestants = {
            "floor": timed(["--list"], empty),
            "list": timed(["list"], PROJECT),
            "plan": timed(["plan"], PROJECT),
            "run": timed(["list"], PROJECT, ["./run"]),
        }
        for run in contestants.values():
            run()
        values = figures.measure(contestants, rounds=15)
    found = [figures.ratio(f"invoke {name} / empty", values[name], values["floor"], BOUND) for name in ("list", "plan")]
    found.append(figures.difference("./run list - invoke list, s", values["run"], values["list"], SET_UP_SECONDS))
    for figure in found:
        print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
