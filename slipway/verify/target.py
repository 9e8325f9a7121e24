"""What is to be verified: the newest build of a cell of the matrix, or any image that the engine has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.engine import images
from slipway.engine.docker import Engine
from slipway.errors import NotFoundError
from slipway.records import Build, Records

_JOB_LABEL = "com.amazonaws.ml.engines.sagemaker.dlc.job."
_FRAMEWORK_LABEL = "com.amazonaws.ml.engines.sagemaker.dlc.framework."
_DEVICE_LABEL = "com.amazonaws.ml.engines.sagemaker.dlc.device."
_LIBRARY_LABEL = "com.amazonaws.ml.engines.sagemaker.dlc.lib."
_DEFAULT_KIND = "training"
_OWN_KINDS = {("tensorflow", "inference"): "tensorflow-inference"}
"""Images that are held to a contract of their framework's, by framework and scope."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """An image of the engine. `image`: its ID in the matrix, else the reference; `kind`: of its contract.

    `engine_id` is what containers are made from: a reference may come to name another image meanwhile.
    """

    image: str
    reference: str
    engine_id: str
    config_digest: str
    kind: str
    processor: str = "cpu"

    @property
    def device(self) -> str:
        """What its framework computes on, as frameworks call it."""
        return "cuda" if self.processor == "gpu" else "cpu"


def of_build(build: Build, engine: Engine) -> Target:
    """A build of the matrix. Raises NotFoundError when the engine no longer has it."""
    try:
        found = engine.image(build.engine_id)
    except NotFoundError:
        raise NotFoundError(
            f"{build.image} was built, but the engine no longer has it ({build.engine_id})",
            fix=f"run `invoke build --only {build.image}`",
        ) from None
    return Target(
        image=build.image,
        reference=build.reference,
        engine_id=build.engine_id,
        config_digest=build.config_digest,
        kind=_kind(_labels(found), build.scope),
        processor=build.processor,
    )


def of_reference(reference: str, engine: Engine, records: Records) -> Target:
    """Any image of the engine, whoever built it. Raises NotFoundError when the engine does not have it."""
    found = engine.image(reference)
    build = next((build for build in reversed(records.builds()) if build.engine_id == found["Id"]), None)
    if build is not None:
        return of_build(build, engine)
    labels = _labels(found)
    job = next((label.removeprefix(_JOB_LABEL) for label in labels if label.startswith(_JOB_LABEL)), _DEFAULT_KIND)
    return Target(
        image=reference,
        reference=reference,
        engine_id=str(found["Id"]),
        config_digest=images.config_digest(engine, reference),
        kind=_kind(labels, job),
        processor="gpu" if f"{_DEVICE_LABEL}gpu" in labels else "cpu",
    )


def _labels(found: Mapping[str, Any]) -> Mapping[str, str]:
    return (found.get("Config") or {}).get("Labels") or {}


def _kind(labels: Mapping[str, str], scope: str) -> str:
    """By the framework that an image names, whatever stands on it.

    Hugging Face images serve by their own functions: ours name a library beside the framework, AWS's two frameworks.
    """
    named = [label.removeprefix(_FRAMEWORK_LABEL) for label in labels if label.startswith(_FRAMEWORK_LABEL)]
    library = any(label.startswith(_LIBRARY_LABEL) for label in labels)
    framework = named[0].partition(".")[0] if len(named) == 1 and not library else ""
    return _OWN_KINDS.get((framework, scope), scope)
