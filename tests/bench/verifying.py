"""How long the checks of an image take: those that look at it, those of its contract, those of its framework.

    python tests/bench/verifying.py IMAGE [--rounds 7]

IMAGE is the ID of a cell that was built here, such as `pytorch-training-2.13.0-cpu-py311`. Each round runs all its
checks anew. Ends with 1 when a figure does not hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures

PROJECT = Path(__file__).parents[2]
LOOKING = ("programs", "labels", "files")
FRAMEWORK = "framework"
# Seconds, on two cores.
BOUNDS = {"looking": {"training": 5.0, "inference": 5.0}, "contract": {"training": 20.0, "inference": 30.0}}
FRAMEWORK_BOUND = 60.0


def part(check: str) -> str:
    """Of which figure a check is: `looking`, `framework`, `contract`."""
    group = check.partition(".")[0]
    return "looking" if group in LOOKING else FRAMEWORK if group == FRAMEWORK else "contract"


def once(image: str) -> Counter[str]:
    """Seconds by part. What checks share, such as a container's start, counts for the first that needs it."""
    command = [sys.executable, "-m", "invoke", "verify", "--only", image, "--force", "--json"]
    told = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout
    seconds: Counter[str] = Counter()
    for verdict in json.loads(told):
        for check in verdict["checks"]:
            seconds[part(check["id"])] += check["seconds"]
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("image")
    parser.add_argument("--rounds", type=int, default=figures.ROUNDS)
    given = parser.parse_args()
    scope = "training" if "-training-" in given.image else "inference"
    rounds = [once(given.image) for _ in range(max(given.rounds, figures.ROUNDS))]
    found = [
        figures.plain(f"{name}, s", [seconds[name] for seconds in rounds], bounds[scope])
        for name, bounds in BOUNDS.items()
    ]
    found.append(figures.plain("framework, s", [seconds[FRAMEWORK] for seconds in rounds], FRAMEWORK_BOUND))
    for figure in found:
        print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
