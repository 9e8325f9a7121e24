"""The SDK's way to ask for an image: `slipway.image_uri` in place of `sagemaker.image_uris.retrieve`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipway.clients import instances, lookup
from slipway.errors import UsageError, nearest
from slipway.records import Push, Records

_SCOPES = ("training", "inference")
# Arguments of the SDK's call that have no meaning for our images.
_OTHERS = """
    accelerator_type config_name container_version distribution hub_arn inference_tool model_id model_type model_version
    sagemaker_session sdk_version serverless_inference_config tolerate_deprecated_model tolerate_vulnerable_model
    training_compiler_config
"""


def image_uri(
    framework: str,
    region: str | None = None,
    version: str | None = None,
    py_version: str | None = None,
    instance_type: str | None = None,
    image_scope: str = "training",
    *,
    processor: str | None = None,
    base_framework_version: str | None = None,
    registry: str | None = None,
    digest: bool = False,
    at: str | None = None,
    state: Path | None = None,
    **others: Any,
) -> str:
    """The URI of the newest pushed image that fits: `HOST/REPOSITORY:TAG`, or `HOST/REPOSITORY@sha256:…` with `digest`.

    The arguments are those of `sagemaker.image_uris.retrieve`: `version` is a full version or its beginning (`2.13`),
    `py_version` is `py311` or `3.11`, the instance type decides between the images for CPU and GPU unless `processor`
    says so, `image_scope` is training or inference. Beyond them: `registry` is a host, `at` a date as of which to look,
    `state` a state folder whose pushes alone are known; by default the ledger and the pushes of the project around the
    current folder are. A version that is not on record is a Python warning, and the nearest is taken. Raises
    NotFoundError, which names what is on record, and UsageError for an argument that does not fit.
    """
    if state is None:
        from slipway import settings

        pushes = lookup.known(settings.read())
    else:
        pushes = Records(state).pushes()
    found = find(
        lookup.as_of(pushes, at) if at else pushes,
        framework=framework,
        region=region,
        version=version,
        py_version=py_version,
        instance_type=instance_type,
        image_scope=image_scope,
        processor=processor,
        base_framework_version=base_framework_version,
        registry=registry,
        warn=lambda text: warnings.warn(text, stacklevel=5),
        **others,
    )
    return lookup.by_digest(found[0]) if digest else found[0].uri


def find(
    pushes: list[Push],
    *,
    framework: str,
    region: str | None = None,
    version: str | None = None,
    py_version: str | None = None,
    instance_type: str | None = None,
    image_scope: str = "training",
    processor: str | None = None,
    base_framework_version: str | None = None,
    registry: str | None = None,
    warn: Callable[[str], None] | None = None,
    **others: Any,
) -> list[Push]:
    """The pushes that fit, best first; arguments as for `image_uri`, and `warn` as for `lookup.find`."""
    for name, value in others.items():
        if name not in _OTHERS.split():
            raise UsageError(
                f"image_uri has no argument {name}", fix=nearest(name, ("version", "py_version", "region"))
            )
        if value:
            raise UsageError(f"{name} has no meaning for images of Slipway", fix="leave it out")
    if image_scope not in _SCOPES:
        raise UsageError(f"image_scope {image_scope!r} is not known", fix=nearest(image_scope, _SCOPES))
    if processor is None:
        gpu = bool(instance_type) and (instance_type == "local_gpu" or instances.gpu(str(instance_type)) is not None)
        processor = "gpu" if gpu else "cpu"
    if base_framework_version:  # of Hugging Face images: `pytorch2.13.0` beside the version of transformers
        base = base_framework_version.removeprefix("pytorch")
        version = f"{base}-transformers{version}" if version else base
    return lookup.find(
        pushes,
        framework=framework,
        scope=image_scope,
        version=version,
        processor=processor,
        python=py_version,
        region=region,
        registry=registry,
        warn=warn,
    )
