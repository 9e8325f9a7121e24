"""What was built, verified and pushed, kept under the state folder as one JSON document each.

The key is the image's config digest: it names the content alone, so it is the same in every engine and registry. The
manifest digest depends on how layers were compressed; it joins when an image is pushed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from slipway.errors import NotFoundError, SlipwayError
from slipway.files import canonical_json, sha256_bytes, write_whole

FORM = 1  # of the documents; a reader refuses a newer one


@dataclass(frozen=True, kw_only=True)
class Build:
    """An image that was built. Sizes are bytes, times ISO 8601 in UTC."""

    image: str  # the cell's ID, e.g. pytorch-training-2.13.0-cpu-py311
    framework: str
    version: str
    scope: str  # training | inference
    processor: str  # cpu | gpu
    python: str  # 3.11
    repository: str  # pytorch-training
    tag: str  # without -dev or -vN: 2.13.0-cpu-py311-debian12
    reference: str  # the name in the engine: pytorch-training:2.13.0-cpu-py311-debian12-dev
    config_digest: str  # sha256:…
    engine_id: str  # what the engine calls it (its manifest digest with the containerd store)
    input_hash: str
    size: int  # uncompressed
    revision: str
    created: str
    base: str
    lock_hash: str
    built_at: str
    seconds: float
    layers: tuple[str, ...] = ()  # diff IDs, lowest first
    compressed: int = 0  # 0: the engine does not know
    hidden: int = 0  # in files that upper layers replace or delete
    ceiling_mb: int = 0  # uncompressed; 0: none
    compressed_ceiling_mb: int = 0
    layer_sizes: tuple[tuple[str, int], ...] = ()  # stage and bytes, lowest first
    packages: Mapping[str, int] = field(default_factory=dict)  # bytes by name


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check of a verdict. `status`: passed, failed, blocked (what it depends on failed) or skipped."""

    id: str
    status: str
    seconds: float
    reason: str = ""
    detail: str = ""
    fix: str = ""
    blocked_by: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)  # what was measured


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the checks said of one image: filed by config digest and by the hash of the suite that ran."""

    config_digest: str
    suite_hash: str
    image: str
    reference: str
    passed: bool
    at: str
    seconds: float
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Smoke:
    """What the smoke steps said of one image on one device, run inside it. Only `device` cuda counts for a release.

    A step for which the image has nothing (no transformers, no compiler) is skipped, with its reason in `detail`.
    """

    config_digest: str
    suite_hash: str
    image: str
    reference: str
    device: str  # cpu | cuda
    device_name: str  # NVIDIA H200, or the processor's model
    driver: str  # version of the NVIDIA driver; empty on a CPU
    passed: bool
    at: str
    seconds: float
    steps: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Push:
    """One tag of one registry that was pushed, with the digest read back from there."""

    config_digest: str
    manifest_digest: str
    media_type: str
    image: str
    framework: str
    version: str
    scope: str
    processor: str
    python: str
    registry: str  # host[:port], e.g. 123456789012.dkr.ecr.us-east-1.amazonaws.com
    region: str  # empty outside ECR
    repository: str
    tag: str  # with -vN
    uri: str  # registry/repository:tag
    aliases: tuple[str, ...] = ()
    pushed_at: str = ""
    revision: str = ""
    yanked: str = ""  # why nobody should use it any more; empty: it was not taken back


Record = TypeVar("Record", Build, Verdict, Smoke, Push)


@dataclass(frozen=True)
class Records:
    """The records of one state folder."""

    state: Path

    def add_build(self, build: Build) -> None:
        self._write("builds", build.config_digest[7:], build)

    def add_verdict(self, verdict: Verdict) -> None:
        self._write("verdicts", f"{verdict.config_digest[7:]}-{verdict.suite_hash[:16]}", verdict)

    def add_smoke(self, smoke: Smoke) -> None:
        name = f"{smoke.config_digest[7:]}-{smoke.device}-{smoke.suite_hash[:16]}"
        self._write("smokes", name, smoke)

    def add_push(self, push: Push) -> None:
        self._write("pushes", f"{push.tag}-{sha256_bytes(push.uri.encode())[:16]}", push)

    def builds(self) -> list[Build]:
        """All builds, oldest first."""
        return sorted(self._read("builds", Build), key=lambda build: build.built_at)

    def verdicts(self) -> list[Verdict]:
        return sorted(self._read("verdicts", Verdict), key=lambda verdict: verdict.at)

    def pushes(self) -> list[Push]:
        """All pushes, oldest first."""
        return sorted(self._read("pushes", Push), key=lambda push: push.pushed_at)

    def build_of(self, image: str) -> Build:
        """The newest build of a cell. Raises NotFoundError when there is none."""
        found = [build for build in self.builds() if build.image == image]
        if not found:
            raise NotFoundError(f"{image} was not built here", fix=f"run `invoke build --only {image}`")
        return found[-1]

    def verdict_of(self, config_digest: str, suite_hash: str) -> Verdict | None:
        """The verdict of exactly this image under exactly this suite, if there is one."""
        for verdict in self._read("verdicts", Verdict):
            if (verdict.config_digest, verdict.suite_hash) == (config_digest, suite_hash):
                return verdict
        return None

    def smoke_of(self, config_digest: str, suite_hash: str, device: str = "cuda") -> Smoke | None:
        """What the smoke steps of this suite (`slipway.verify.smoke_hash`) said of this image on this kind of device.

        None: they were not run there. A run counts as proof only if it also `passed`.
        """
        for smoke in self._read("smokes", Smoke):
            if (smoke.config_digest, smoke.suite_hash, smoke.device) == (config_digest, suite_hash, device):
                return smoke
        return None

    def _write(self, kind: str, name: str, record: Build | Verdict | Smoke | Push) -> None:
        write_whole(self.state / kind / f"{name}.json", canonical_json({"form": FORM, **asdict(record)}))

    def _read(self, kind: str, model: type[Record]) -> Iterator[Record]:
        folder = self.state / kind
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
            yield _parse(path, model)


def _parse(path: Path, model: type[Record]) -> Record:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        form = data.pop("form")
        if form > FORM:
            raise SlipwayError(f"{path} was written by a newer Slipway (form {form})", fix="update Slipway")
        for name in ("layers", "aliases"):
            if name in data:
                data[name] = tuple(data[name])
        if "layer_sizes" in data:
            data["layer_sizes"] = tuple((str(stage), int(size)) for stage, size in data["layer_sizes"])
        for name in ("checks", "steps"):
            if name in data:
                data[name] = tuple(CheckResult(**check) for check in data[name])
        return model(**data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlipwayError(f"{path} is not a record: {error}", fix="move it away; it is never read half") from None
