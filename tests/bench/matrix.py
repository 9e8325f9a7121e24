"""How long the CPU matrix takes to build without a cache, against its distinct `uv pip install` steps run bare.

python tests/bench/matrix.py [FRAMEWORK]     minutes; builds the images anew, which makes the same ones

The bare steps start with an empty cache of packages and compile bytecode, as the bound says. The builder keeps its own
cache of packages, which `--no-cache` leaves alone: a figure counts as cold on an engine that has not built before, and
the size of that cache is printed beside it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slipway import base, lock, plan, settings
from slipway.spec import load
from slipway.spec.select import Selector, select

PROJECT = Path(__file__).parents[2]
BOUND = 1.5


def bare(selector: Selector) -> dict[str, float]:
    """Seconds of each distinct step that installs packages, by its stage."""
    found = settings.read(project=PROJECT)
    images = select(load.load(PROJECT), selector)
    made = plan.plan(images, load.read_sources(PROJECT), {image.os: base.of(image.os) for image in images})
    steps = {stage.pins: stage for stage in made.stages if stage.template.startswith("packages")}
    taken = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for number, (pins, stage) in enumerate(steps.items()):
            (folder / "lock.txt").write_text(pins)
            python = str(stage.values["python"])
            command = [lock.uv(), "pip", "install", "--quiet", "--no-config", "--no-deps", "--only-binary", ":all:"]
            command += ["--require-hashes", "--compile-bytecode", "--link-mode", "copy", "--python-version", python]
            command += ["--python-platform", "x86_64-manylinux_2_36", "--index-strategy", "unsafe-best-match"]
            command += ["--cache-dir", str(folder / "cache"), "--target", str(folder / str(number))]
            environment = lock.index_environment(found.pip(), stage.wheel_index)
            started = time.perf_counter()
            subprocess.run(
                [*command, "-r", str(folder / "lock.txt")], env={**found.environment, **environment}, check=True
            )
            taken[stage.name] = time.perf_counter() - started
            print(f"bare  {stage.name}: {taken[stage.name]:.1f} s")
    return taken


def built(selector: Selector) -> float:
    words = ["--framework", selector.framework] if selector.framework else []
    command = [sys.executable, "-m", "invoke", "build", "--all", "--processor", "cpu", "--no-cache", *words]
    started = time.perf_counter()
    subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def package_cache() -> str:
    """What the builder's own cache of packages holds."""
    command = ["docker", "buildx", "du", "--filter", "type=exec.cachemount"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return " + ".join(re.findall(r"\b[\d.]+[kMG]?B\b", said)) or "empty"


def main() -> int:
    selector = Selector(framework="".join(sys.argv[1:2]), processor="cpu", everything=True)
    print(f"the builder's cache of packages before: {package_cache()}")
    ours, floor = built(selector), sum(bare(selector).values())
    holds = ours <= BOUND * floor
    word = "holds" if holds else "DOES NOT HOLD"
    print(
        f"build without cache / bare installs: {ours:.0f} s / {floor:.0f} s = {ours / floor:.2f}, bound {BOUND}: {word}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
