"""What a reference says of an image before a job is made of it: from its tag, the records of pushes, and its labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from slipway import cuda
from slipway.clients import instances, lookup
from slipway.clients.accelerate import Config
from slipway.errors import NotFoundError
from slipway.records import Push

OURS = "com.amazonaws.ml.engines.sagemaker.dlc.contributor.slipway"
"""The label by which an image says that it is of Slipway."""

EFA = "io.slipway.efa"
"""The label by which an image that was derived from one of ours says that it holds EFA's libraries (examples/efa)."""

Labels = Callable[[str], Mapping[str, str] | None]
"""From a reference to the labels of an image that is at hand, None where it is not."""

_FRAMEWORKS = ("pytorch", "huggingface-pytorch")
_REPOSITORY = re.compile(r"(?:.*/)?(?P<framework>[a-z0-9-]+)-(?P<scope>training|inference)")
_TAG = re.compile(
    r"(?P<version>\d+(?:\.\w+)+)(?:-transformers(?P<transformers>\d[\d.]*))?"
    r"-(?P<processor>cpu|gpu)-(?P<python>py\d+)(?:-cu(?P<cuda>\d{2,}))?(?:-.*)?"
)
_ECR = re.compile(r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<domain>[a-z0-9.-]+)/.*")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of an image; empty where nothing is. `python` as in tags (py311), `cuda` as a version (13.0)."""

    reference: str
    ours: bool = False
    framework: str = ""
    scope: str = ""
    version: str = ""
    transformers: str = ""
    processor: str = ""
    python: str = ""
    cuda: str = ""
    region: str = ""
    architectures: tuple[str, ...] = ()
    efa: bool = False
    yanked: str = ""


def facts(reference: str, pushes: Sequence[Push], labels: Labels = lambda reference: None) -> Facts:
    """What a reference says, what was recorded when it was pushed, and what the image's labels say.

    An image is ours by its record, by its label, or by its whole tag: AWS, whose grammar it is, builds none on Debian.
    """
    found = _from_name(reference)
    pushed = pushed_as(reference, pushes)
    if pushed is not None:
        tagged = _from_name(pushed.uri)
        found = replace(tagged, reference=reference, ours=True, region=found.region, yanked=pushed.yanked)
    given = labels(reference)
    if given is not None:
        architectures = tuple(given.get(cuda.ARCHITECTURES, "").replace(",", " ").split())
        ours, efa = found.ours or OURS in given, given.get(EFA) == "true"
        found = replace(found, ours=ours, architectures=architectures, efa=efa)
    return found


def newest(config: Config, pushes: Sequence[Push]) -> Push:
    """The newest pushed training image that fits a configuration without image_uri. Raises NotFoundError.

    The versions count only if someone chose them. On an instance with a GPU an image for GPUs goes before others.
    """
    version = python = None
    if config.versions_are_chosen:
        version = config.pytorch_version if "pytorch_version" in config.given else None
        python = config.py_version if "py_version" in config.given else None
    processor = "gpu" if instances.gpu(config.ec2_instance_type) or config.ec2_instance_type == "local_gpu" else "cpu"
    errors: list[NotFoundError] = []

    def of(framework: str) -> list[Push]:
        try:
            return lookup.find(pushes, framework=framework, version=version, python=python, processor=None)
        except NotFoundError as error:
            errors.append(error)
            return []

    found = [push for framework in _FRAMEWORKS for push in of(framework)]
    if config.versions_are_chosen and "transformers_version" in config.given:
        found = [push for push in found if transformers(push) in ("", config.transformers_version)]
    if not found:
        raise NotFoundError(
            "image_uri is empty, and no pushed image fits the configuration"
            + (f": {errors[0].message}" if errors else ""),
            fix=(errors[0].fix + "; " if errors and errors[0].fix else "") + "or name an image by image_uri",
        )
    fitting = [push for push in found if push.processor == processor] or found
    in_region = [push for push in fitting if push.region == config.region] or fitting
    return max(in_region, key=lookup.age)


def warnings(found: Facts, config: Config, instance_type: str) -> list[tuple[str, str, str]]:
    """Where an image and a configuration contradict each other, as (key, what, fix)."""
    taken_back = [("image_uri", f"the image was yanked: {found.yanked}", "name another")] if found.yanked else []
    return [*taken_back, *_versions(found, config), *_hardware(found, config, instance_type)]


def _versions(found: Facts, config: Config) -> list[tuple[str, str, str]]:
    has = {
        "pytorch_version": found.version if "pytorch" in found.framework else "",
        "transformers_version": found.transformers,
        "py_version": found.python,
    }
    told = []
    for key, value in has.items():
        wanted = str(getattr(config, key))
        same = value == wanted or (key != "py_version" and value.startswith(f"{wanted}."))
        if value and key in config.given and not same:
            told.append((key, f"{key} is {wanted}, the image has {value}: the image decides", f"write {value}"))
    if found.region and found.region != config.region:
        what = f"the image is in {found.region}, the job runs in {config.region}"
        told.append(("image_uri", what, "push the image to that region as well: a job pulls it across regions slowly"))
    if found.scope == "inference":
        told.append(("image_uri", "the image is for inference", f"use {found.framework}-training"))
    return told


def _hardware(found: Facts, config: Config, instance_type: str) -> list[tuple[str, str, str]]:
    gpu = instances.gpu(instance_type)
    told = []
    if gpu and found.processor == "cpu":
        told.append(
            ("ec2_instance_type", f"the image is for CPU: the {gpu.name} GPUs of {instance_type} would stay idle", "")
        )
    elif gpu and not instances.runs(gpu, found.architectures, found.cuda):
        made = " ".join(found.architectures) or f"CUDA {found.cuda}, which begins with sm_75"
        what = f"{instance_type} has {gpu.name} GPUs ({gpu.architecture}), and the image is made for {made}"
        told.append(("ec2_instance_type", what, "choose a newer instance, or an image with an older CUDA"))
    elif not gpu and found.processor == "gpu" and instances.cpu_only(instance_type):
        told.append(("ec2_instance_type", f"the image is for GPUs, and {instance_type} has none", "use the CPU image"))
    if found.ours and not found.efa and config.num_machines > 1 and instances.efa(instance_type):
        what = f"the hosts of {instance_type} reach each other by EFA, which no image of ours holds: they take TCP"
        told.append(("ec2_instance_type", what, "derive an image that adds it, as examples/efa does"))
    precision = config.mixed_precision
    if precision != "no" and (instances.cpu_only(instance_type) or instance_type == "local"):
        fix = "write mixed_precision: 'no'" + (", or bf16, which newer CPUs know" if precision == "fp16" else "")
        told.append(("mixed_precision", f"{precision} without a GPU: {instance_type} has none", fix))
    elif precision != "no" and gpu and not gpu.trains_in(precision):
        what = f"{gpu.name} GPUs ({gpu.architecture}) have no arithmetic in {precision}"
        told.append(("mixed_precision", what, "write fp16" if gpu.capability >= 70 else "write 'no'"))
    return told


def _from_name(reference: str) -> Facts:
    ecr = _ECR.fullmatch(reference)
    path, _, tag = reference.partition("@")[0].rpartition(":")
    if not path or "/" in tag:
        path, tag = reference.partition("@")[0], ""
    repository, cell = _REPOSITORY.fullmatch(path), _TAG.fullmatch(tag)
    return Facts(
        reference=reference,
        ours=bool(repository and cell and re.search(r"-debian\d+(-arm64)?(-v\d+|-dev)?$", tag)),
        region=ecr["region"] if ecr else "",
        framework=repository["framework"] if repository else "",
        scope=repository["scope"] if repository else "",
        version=cell["version"] if cell else "",
        transformers=(cell["transformers"] or "") if cell else "",
        processor=cell["processor"] if cell else "",
        python=cell["python"] if cell else "",
        cuda=f"{cell['cuda'][:-1]}.{cell['cuda'][-1]}" if cell and cell["cuda"] else "",
    )


def pushed_as(reference: str, pushes: Sequence[Push]) -> Push | None:
    """The push that a name means, of all that were made, oldest first. An alias means the last that took it."""
    return next((push for push in reversed(pushes) if reference in names(push)), None)


def names(push: Push) -> set[str]:
    """Every name under which a push can be pulled. Aliases move, but to images of ours alone."""
    repository = f"{push.registry}/{push.repository}"
    digests = {f"{name}@{push.manifest_digest}" for name in (repository, push.uri)}
    return {push.uri, *digests, *(f"{repository}:{alias}" for alias in push.aliases)}


def transformers(push: Push) -> str:
    """The version of transformers in an image; empty where its tag names none."""
    found = _TAG.match(push.tag)
    return (found["transformers"] or "") if found else ""
