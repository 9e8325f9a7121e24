"""Command `image-uri`: from a framework to the URI of an image that was pushed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from slipway.clients import images, lookup, retrieve
from slipway.clients.lookup import Standing
from slipway.commands.guard import command
from slipway.errors import SpecError, UsageError, nearest
from slipway.records import Push
from slipway.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command's options; None: not given."""

    framework: str = ""
    scope: str | None = None
    job: str | None = None
    version: str | None = None
    processor: str | None = None
    python: str | None = None
    instance_type: str | None = None
    region: str | None = None
    host: str | None = None
    at: str | None = None
    digest: bool = False
    format: str = "uri"


def image_uri(json: bool, options: Options) -> None:
    """Print the newest pushed image that fits, and say how it stands."""
    form = "json" if json else options.format
    with command(form == "json") as (settings, console):
        if not options.framework:
            raise UsageError("no framework was named", fix="give --framework NAME; `invoke list` shows them")
        if form not in (*FORMS, "json"):
            raise UsageError(f"--format {form} is not known", fix=nearest(form, (*FORMS, "json")))
        if options.scope and options.job and options.scope != options.job:
            raise UsageError("--job and --scope are one thing, and differ", fix="leave one of them out")
        scope = options.job or options.scope or "training"
        if form == "accelerate" and scope != "training":
            raise UsageError(
                f"--format accelerate goes without --scope {scope}: accelerate launches training alone",
                fix="choose uri, json, sdk2 or sdk3",
            )
        every = lookup.known(settings)
        found = retrieve.find(
            lookup.as_of(every, options.at) if options.at else every,
            framework=options.framework,
            image_scope=scope,
            version=options.version,
            processor=options.processor,
            py_version=options.python,
            instance_type=options.instance_type,
            region=options.region,
            registry=options.host,
            warn=console.warn,
        )
        chosen = found[0]
        elsewhere = [push.uri for push in found[1:] if push.tag == chosen.tag]
        if elsewhere and not options.region and not options.host:
            console.note(f"the same image is also at {', '.join(elsewhere)}; choose with --region or --host")
        standing = lookup.standing(chosen, every, _supported_until(settings, chosen), _today())
        for note in standing.notes():
            console.note(note)
        uri = lookup.by_digest(chosen) if options.digest else chosen.uri
        console.say(FORMS.get(form, _uri)(uri, chosen).rstrip("\n"))
        console.result(_document(uri, chosen, standing))


def _document(uri: str, push: Push, standing: Standing) -> dict[str, object]:
    return {**asdict(push), "image_uri": uri, "digest_uri": lookup.by_digest(push), **asdict(standing)}


def _supported_until(settings: Settings, push: Push) -> str:
    """The day that `eol` or else buildspec/ names for a version; empty where none does."""
    from slipway.release import ledger, stores
    from slipway.spec import load

    ends = ledger.Ledger(stores.of(settings)).history().ends()
    if (push.framework, push.version) in ends:
        return ends[push.framework, push.version]

    try:
        images = load.load(settings.project, settings.own).images
    except SpecError:  # `invoke list` tells what is wrong; an image that was pushed can be looked up all the same
        return ""
    same = (image for image in images if (image.framework, image.version) == (push.framework, push.version))
    return next((image.supported_until for image in same), "")


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()


def _uri(uri: str, push: Push) -> str:
    return uri


def _accelerate(uri: str, push: Push) -> str:
    """Lines for a configuration."""
    python = "py" + push.python.replace(".", "")
    version = f"pytorch_version: '{push.version.partition('-')[0]}'\n" if "pytorch" in push.framework else ""
    library = images.transformers(push)
    transformers = f"transformers_version: '{library}'\n" if library else ""
    return f"image_uri: {uri}\n{version}{transformers}py_version: {python}\n"


def _sdk2(uri: str, push: Push) -> str:
    if push.scope == "inference":
        module, kind = ("pytorch", "PyTorchModel") if push.framework == "pytorch" else ("model", "Model")
        return f"""\
from sagemaker.{module} import {kind}

model = {kind}(
    image_uri={uri!r},
    model_data=MODEL_DATA,
    role=ROLE,
    entry_point="inference.py",
    source_dir="src",
)
"""
    return f"""\
from sagemaker.estimator import Estimator

estimator = Estimator(
    image_uri={uri!r},
    role=ROLE,
    instance_count=1,
    instance_type=INSTANCE_TYPE,
    entry_point="train.py",
    source_dir="src",
)
"""


def _sdk3(uri: str, push: Push) -> str:
    if push.scope == "inference":
        return f"""\
from sagemaker.core.resources import Model
from sagemaker.core.shapes import ContainerDefinition

model = Model.create(
    model_name=MODEL_NAME,
    primary_container=ContainerDefinition(image={uri!r}, model_data_url=MODEL_DATA),
    execution_role_arn=ROLE,
)
"""
    return f"""\
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode

trainer = ModelTrainer(
    training_image={uri!r},
    role=ROLE,
    compute=Compute(instance_type=INSTANCE_TYPE, instance_count=1),
    source_code=SourceCode(source_dir="src", entry_script="train.py"),
)
"""


FORMS: Mapping[str, Callable[[str, Push], str]] = {
    "uri": _uri,
    "accelerate": _accelerate,
    "sdk2": _sdk2,
    "sdk3": _sdk3,
}
