"""How long a plan of a release takes, and how many bytes a release of images that share layers sends.

python tests/bench/release.py plan
python tests/bench/release.py bytes [IMAGE-ID …]    of the images that were built here; default: all for CPUs

`bytes` pushes to an empty registry behind a proxy that counts, then copies to a second one. It wants free disk for the
images, compressed, twice.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from slipway import settings
from slipway.engine.docker import Engine
from slipway.errors import NotFoundError
from slipway.records import Build, Records
from slipway.registry import Credentials, Registry
from slipway.registry.blobs import Repository, copy
from slipway.release import delivery
from slipway.release.push import Site
from slipway.release.sharing import Holders
from tests.support.proxy import Proxy, proxying
from tests.support.registries import make

PROJECT = Path(__file__).parents[2]
PLAN_SECONDS = 2.0
SENT = 1.02  # of the unique bytes
ROUNDS = 7


def plan() -> bool:
    """Plans of one framework and of every CPU image, each from a process of its own."""
    holds = True
    for words in (("--framework", "pytorch"), ("--all", "--processor", "cpu")):
        seconds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            argv = [sys.executable, "-m", "invoke", "release", *words, "--plan"]
            subprocess.run(argv, cwd=PROJECT, check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
        found = statistics.median(seconds)
        holds &= found <= PLAN_SECONDS
        print(f"release {' '.join(words)} --plan: {found:.2f} s, slowest {max(seconds):.2f}, bound {PLAN_SECONDS:g}")
    return holds


def sent(ids: list[str]) -> bool:
    """Push images one after the other, then copy them on."""
    engine = Engine.connect(os.environ)
    builds = _builds(engine, ids)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slipway-bench-")))
        places = []
        for name in ("first", "second"):
            registry = make(folder / name, "bench", "bench")
            registry.start()
            stack.callback(registry.kill)
            places.append(stack.enter_context(proxying(registry.port)))
        clients = [Registry(proxy.host, Credentials("bench", "bench")) for proxy in places]
        manifests, seconds = [], []
        holders = Holders(clients[0])
        for build in builds:
            started = time.perf_counter()
            holders.mount(build.repository, build.layers)
            manifest, _ = delivery.send(Site(build, build.repository, clients[0], "", ()), lambda: engine, print)
            seconds.append(time.perf_counter() - started)
            holders.learn(build.repository, manifest.digest)
            manifests.append((build, manifest))
            print(f"  {build.image}: {sum(manifest.blobs.values()) / 1e6:.0f} MB in {seconds[-1]:.0f} s")
        unique = sum({digest: size for _, one in manifests for digest, size in one.blobs.items()}.values())
        whole = sum(size for _, one in manifests for size in one.blobs.values())
        holds = _told("pushed by the engine", places[0], unique, whole)
        neighbours = sorted({build.repository for build in builds})
        for build, manifest in manifests:
            first, second = (Repository(client, build.repository) for client in clients)
            copy(first, second, manifest, neighbours=neighbours)
        return _told("copied to the second", places[1], unique, whole) and holds


def _builds(engine: Engine, ids: list[str]) -> list[Build]:
    newest = {build.image: build for build in Records(settings.read(project=PROJECT).state).builds()}
    found = []
    for build in newest.values():
        if build.image not in ids and (ids or build.processor != "cpu"):
            continue
        try:
            engine.image(build.engine_id)
        except NotFoundError:
            print(f"  {build.image}: the engine no longer has it")
            continue
        found.append(build)
    return found


def _told(what: str, proxy: Proxy, unique: int, whole: int) -> bool:
    share = proxy.blob_bytes / unique
    word = "holds" if share <= SENT else "DOES NOT HOLD"
    print(f"{what}: {proxy.blob_bytes / 1e6:.0f} MB of {unique / 1e6:.0f} unique, {share:.4f}, bound {SENT:g}: {word}")
    print(f"  without sharing it would be {whole / 1e6:.0f} MB")
    return share <= SENT


def main(words: list[str]) -> int:
    if words[:1] == ["plan"]:
        return 0 if plan() else 1
    if words[:1] == ["bytes"]:
        return 0 if sent(words[1:]) else 1
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
