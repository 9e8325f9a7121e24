"""What a rebuild of a real image costs: no step where nothing changed; one stage, and little to push, for one line.

python tests/bench/rebuild.py [IMAGE-ID]    default: pytorch-training-2.13.0-cpu-py311

Works on a clone of the last commit, whose images have a name of their own, and takes them out of the engine again.
Both are pushed to an empty registry behind a proxy that counts.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from slipway.engine.docker import Engine
from slipway.records import Records
from slipway.registry import Credentials, Registry
from slipway.release import delivery
from slipway.release.push import Site
from tests.support.proxy import proxying
from tests.support.registries import make

PROJECT = Path(__file__).parents[2]
IMAGE = "pytorch-training-2.13.0-cpu-py311"
CHANGED = "toolkits/training/src/sagemaker_training/__init__.py"
NAMING = ("slipway/spec/model.py", 'return f"{self.repository}:{self.tag}-dev"')
PUSHED = 1_000_000  # bytes of new layers
RAN = re.compile(r"^(\S+): [A-Z]+ \(\d+\.\d s")  # an instruction that was neither cached nor failed


@dataclass(frozen=True)
class Rebuild:
    """A build's own account, and the stages of which it ran a step."""

    told: dict[str, Any]
    ran: tuple[str, ...]


@dataclass(frozen=True)
class Clone:
    """The last commit in a folder of its own, with the root filesystem and the wheels that the project has at hand."""

    folder: Path
    image: str

    def build(self) -> Rebuild:
        argv = [sys.executable, "-m", "invoke", "build", "--only", self.image, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(argv, cwd=self.folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        (told,) = json.loads(done.stdout)
        lines = [found for line in done.stderr.splitlines() if (found := RAN.match(line))]
        return Rebuild(told, tuple(sorted({found[1] for found in lines})))


@contextmanager
def cloned(image: str) -> Iterator[Clone]:
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as scratch:
        folder = Path(scratch) / "project"
        subprocess.run(["git", "clone", "--quiet", "--shared", PROJECT, folder], check=True)
        (folder / ".slipway").mkdir()
        for name in ("rootfs", "wheels"):
            if (PROJECT / ".slipway" / name).is_dir():
                (folder / ".slipway" / name).symlink_to(PROJECT / ".slipway" / name)
        own = f"slipway-bench-{secrets.token_hex(4)}"
        path, line = folder / NAMING[0], NAMING[1]
        text = path.read_text()
        assert text.count(line) == 1, f"{NAMING[0]} names images in another way now"
        path.write_text(text.replace(line, f'return f"{own}/{{self.repository}}:{{self.tag}}"'))
        clone = Clone(folder, image)
        try:
            yield clone
        finally:
            references = {build.reference for build in Records(folder / ".slipway").builds()}
            subprocess.run(["docker", "image", "rm", "--force", *references], capture_output=True)


def main(words: list[str]) -> int:
    engine = Engine.connect(os.environ)
    with ExitStack() as stack:
        clone = stack.enter_context(cloned(words[0] if words else IMAGE))
        registry = make(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "registry", "bench", "bench")
        registry.start()
        stack.callback(registry.kill)
        proxy = stack.enter_context(proxying(registry.port))
        client = Registry(proxy.host, Credentials("bench", "bench"))

        def sent() -> int:
            """Push what was built last; returns the bytes of blobs that went over the wire."""
            before = proxy.blob_bytes
            build = max(Records(clone.folder / ".slipway").builds(), key=lambda one: one.built_at)
            delivery.send(Site(build, build.repository, client, "", ()), lambda: engine, lambda line: None)
            return proxy.blob_bytes - before

        file = clone.folder / CHANGED
        # Once with a line that no builder has seen, so that the rebuild's is a change whatever ran before.
        file.write_text(file.read_text() + f"# {secrets.token_hex(8)}\n")
        first = clone.build()
        whole = sent()
        again = clone.build()
        file.write_text(file.read_text() + f"# {secrets.token_hex(8)}\n")
        changed = clone.build()
        pushed = sent()
    ran = again.told["steps"] - again.told["cached_steps"]
    same = first.told["config_digest"] == again.told["config_digest"]
    layers = [one != other for one, other in zip(first.told["layers"], changed.told["layers"], strict=True)]
    last = layers[-1] and not any(layers[:-1])
    found = [
        (f"nothing changed: {ran} of {again.told['steps']} steps ran, bound 0", ran == 0 and not again.ran and same),
        (f"one line changed: ran {' '.join(changed.ran)}, bound the last stage", changed.ran == (clone.image,)),
        (f"one line changed: {sum(layers)} of {len(layers)} layers are new, bound the last one", last),
        (f"one line changed: {pushed} bytes pushed of {whole}, bound {PUSHED}", 0 < pushed <= PUSHED),
    ]
    for text, holds in found:
        print(f"{text}: {'holds' if holds else 'DOES NOT HOLD'}")
    return 0 if all(holds for _, holds in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
