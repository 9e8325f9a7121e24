"""How long `invoke list` and `invoke plan` of the whole matrix take, against `invoke --list` on an empty tasks file.

python tests/bench/front_door.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures

PROJECT = Path(__file__).parents[2]
BOUND = 3.0


def timed(words: list[str], folder: Path) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "invoke", *words], cwd=folder, capture_output=True)
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
        }
        for run in contestants.values():
            run()
        values = figures.measure(contestants, rounds=15)
    found = [figures.ratio(f"invoke {name} / empty", values[name], values["floor"], BOUND) for name in ("list", "plan")]
    for figure in found:
        print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
