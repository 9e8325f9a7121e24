"""What an image weighs: by layer, by package, against its ceilings and against what it weighed before.

Bytes unpacked are what a disk needs, bytes compressed what is pulled; the latter only engines with the containerd store
know. The ceilings are the spec's; one that was raised wants its reason beside it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slipway.engine.docker import ContainerSpec, Engine
from slipway.errors import EngineError, Fault, SizeError
from slipway.records import Build
from slipway.spec.model import Image
from slipway.stages import Stage

SERVERLESS_MB = 10_000  # serverless inference refuses larger images; SageMaker developer guide
LAYER_MB = 54_525  # 52,000 MiB, the largest layer that ECR takes; Amazon ECR service quotas
HIDDEN_MB = 16  # dpkg's own database, which each layer of Debian packages writes anew, is half of that
SHOWN = 6

# Runs inside the image, with its own Python: what each distribution's RECORD and each Debian package's entry add up to,
# and what all that is to be seen takes.
_LOOK = """
import importlib.metadata, json, os, re, subprocess
found = {}
for distribution in importlib.metadata.distributions():
    paths = (str(distribution.locate_file(path)) for path in distribution.files or ())
    sizes = (os.lstat(path).st_size for path in paths if os.path.lexists(path))
    found[distribution.metadata["Name"].lower().replace("_", "-")] = sum(sizes)
try:
    with open("/var/lib/dpkg/status") as file:
        for entry in file.read().split("\\n\\n"):
            name, size = re.search(r"^Package: (.*)$", entry, re.M), re.search(r"^Installed-Size: (.*)$", entry, re.M)
            if name and size:
                found[name[1] + " (Debian)"] = int(size[1]) * 1024
except OSError:
    pass
try:
    seen = int(subprocess.run(["du", "-sxB1", "/"], stdout=subprocess.PIPE, check=False).stdout.split()[0])
except (OSError, IndexError, ValueError):
    seen = 0
print("sizes\\t" + json.dumps([found, seen]))
"""


@dataclass(frozen=True)
class Size:
    """Bytes of one image. `layers` by stage, lowest first; `packages` by name; `compressed` 0: unknown.

    `hidden`: of files that an upper layer replaces or deletes, which are pulled all the same; 0 where it is not known.
    """

    unpacked: int
    compressed: int
    layers: Mapping[str, int]
    packages: Mapping[str, int]
    hidden: int = 0


def measure(engine: Engine, reference: str, stages: Iterable[Stage] = ()) -> Size:
    """Measure an image of the engine. `stages`: those that its layers come from, lowest first; without, layers have
    numbers."""
    size, (held, seen) = weigh(engine, reference, stages), _look(engine, reference)
    # The classic store counts a layer's files, not the blocks that they take, so that the two cannot be compared.
    hidden = max(0, size.unpacked - seen) if seen and size.compressed else 0
    return replace(size, packages=held, hidden=hidden)


def weigh(engine: Engine, reference: str, stages: Iterable[Stage] = ()) -> Size:
    """The same without a look inside: no packages, and nothing of what is hidden."""
    sizes = [size for size in engine.layer_sizes(reference) if size]  # newest first
    names = [stage.name for stage in stages][::-1]
    layers: dict[str, int] = {}
    for at, size in enumerate(sizes):
        below = names[-1] if names else f"layer {len(sizes) - at}"
        name = names[at] if at < len(names) else below
        layers[name] = layers.get(name, 0) + size
    return Size(sum(sizes), _compressed(engine, reference), dict(reversed(layers.items())), {})


def _look(engine: Engine, reference: str) -> tuple[dict[str, int], int]:
    """Bytes of each Python and Debian package inside an image, and of all that is to be seen in it; nothing where it
    does not run here or has no Python."""
    spec = ContainerSpec(image=reference, name="size", entrypoint=("python3", "-c", _LOOK), user="0")
    text = ""
    # An image of another architecture is built all the same; only its ceiling's account lacks packages.
    with contextlib.suppress(EngineError), engine.run() as run:
        container = run.create(spec)
        output = container.attach()
        container.start()
        text = b"".join(block for _, block in output).decode("utf-8", "replace")
    line = next((line for line in text.splitlines() if line.startswith("sizes\t")), "sizes\t[{}, 0]")
    found, seen = json.loads(line.partition("\t")[2])
    return found, seen


def _compressed(engine: Engine, reference: str) -> int:
    """The containerd store keeps layers as they are pulled; the classic one forgets their form."""
    driver = engine.info().get("DriverStatus") or ()
    return int(engine.image(reference)["Size"]) if any("containerd" in str(pair) for pair in driver) else 0


def refuse_over(images: Iterable[Image], measured: Mapping[str, Size], before: Mapping[str, Build]) -> None:
    """Raises SizeError that names every image over a ceiling, and what grew most since its last build within it."""
    faults = []
    for image in images:
        size, last = measured[image.id], before.get(image.id)
        for what, held, ceiling in _ceilings(image, size):
            if held > ceiling * 1e6:
                text = f"{image.id} takes {held / 1e6:.0f} MB {what}, over its ceiling of {ceiling} MB"
                faults.append(Fault(f"{text}{_growth(size, last)}", _FIX, image.file, image.lines[0][0]))
    if faults:
        raise SizeError("images are over their ceilings", faults=faults)


_FIX = "take packages out, or raise ceiling-mb with its ceiling-reason"


def refuse_unexplained(images: Iterable[Image], before: Mapping[str, Build]) -> None:
    """Raises SizeError for ceilings that are higher than at the last build and do not say why."""
    faults = [
        Fault(
            f"{image.id}: its {what} of {was} MB was raised to {now}",
            "say why under ceiling-reason",
            image.file,
            image.lines[0][0],
        )
        for image in images
        if image.id in before and not image.ceiling_reason
        for what, was, now in (
            ("ceiling", before[image.id].ceiling_mb, image.ceiling_mb),
            ("compressed ceiling", before[image.id].compressed_ceiling_mb, image.compressed_ceiling_mb),
        )
        if 0 < was < now
    ]
    if faults:
        raise SizeError("ceilings were raised", faults=faults)


def refused(size: Size, scope: str, processor: str) -> list[str]:
    """What of SageMaker's services refuses an image of this size, whoever built it; empty: none does."""
    found = [
        f"{name} takes {held / 1e6:.0f} MB; ECR takes no layer over {LAYER_MB} MB"
        for name, held in size.layers.items()
        if held > LAYER_MB * 1e6
    ]
    if _serverless(scope, processor) and size.unpacked > SERVERLESS_MB * 1e6:
        found.append(
            f"it takes {size.unpacked / 1e6:.0f} MB; serverless inference takes no image over {SERVERLESS_MB} MB"
        )
    return found


def _serverless(scope: str, processor: str) -> bool:
    """Whether images of a kind may stand behind serverless endpoints, which have no GPU."""
    return scope == "inference" and processor == "cpu"


def _ceilings(image: Image, size: Size) -> list[tuple[str, int, int]]:
    found = [
        ("unpacked", size.unpacked, image.ceiling_mb),
        ("compressed", size.compressed, image.compressed_ceiling_mb),
        ("in files that upper layers replace or delete", size.hidden, HIDDEN_MB),
    ]
    if _serverless(image.scope, image.processor):
        found.append(("unpacked, more than serverless inference takes", size.unpacked, SERVERLESS_MB))
    return [(what, held, ceiling) for what, held, ceiling in found if ceiling]


def _growth(size: Size, last: Build | None) -> str:
    """The layers and packages that grew most since a build; without one, the largest."""
    old = of_build(last) if last else Size(0, 0, {}, {})
    grown = "".join(
        f"\n      {kind}: {', '.join(_most(now, then)) or 'none grew'}"
        for kind, now, then in (("layers", size.layers, old.layers), ("packages", size.packages, old.packages))
    )
    return f"; grown since {last.built_at[:19]}:{grown}" if last else f"; the largest:{grown}"


def _most(now: Mapping[str, int], old: Mapping[str, int]) -> list[str]:
    by = {name: size - old.get(name, 0) for name, size in now.items()}
    rows = sorted((grown, name) for name, grown in by.items() if grown > 500_000)[::-1][:SHOWN]
    return [f"{name} +{grown / 1e6:.0f} MB" for grown, name in rows]


def of_build(build: Build) -> Size:
    """The size on record."""
    return Size(build.size, build.compressed, dict(build.layer_sizes), build.packages, build.hidden)


def last_within(builds: Iterable[Build]) -> dict[str, Build]:
    """Of each image the last build that was within its ceilings then: what growth is measured against."""
    return {
        build.image: build
        for build in builds
        if all(
            not ceiling or held <= ceiling * 1e6
            for held, ceiling in ((build.size, build.ceiling_mb), (build.compressed, build.compressed_ceiling_mb))
        )
    }


@dataclass(frozen=True)
class Sharing:
    """What images share: bytes of each stage's layer and how many images hold it, bytes in all, and without sharing."""

    stages: Mapping[str, tuple[int, int]]
    unique: int
    total: int


def sharing(builds: Iterable[Build]) -> Sharing:
    """Layers are told apart by their content: stages of several stacks may make the same one."""
    names: dict[str, str] = {}
    held: dict[str, list[int]] = {}
    for build in builds:
        stages = [stage for stage, _ in build.layer_sizes]
        layers = build.layers if len(build.layers) == len(stages) else stages
        for layer, (stage, size) in zip(layers, build.layer_sizes, strict=True):
            held.setdefault(names.setdefault(layer, stage), []).append(size)
    found = {stage: (max(sizes), len(sizes)) for stage, sizes in held.items()}
    return Sharing(
        found,
        unique=sum(size for size, _ in found.values()),
        total=sum(size * count for size, count in found.values()),
    )
