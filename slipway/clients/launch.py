"""From a checked configuration, a script and its arguments to a job: on SageMaker, or on this machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway.clients import estimator, images, official, request, source
from slipway.clients.accelerate import Config
from slipway.clients.aws import Aws
from slipway.clients.config_check import Checked
from slipway.clients.images import Facts
from slipway.clients.source import Source
from slipway.emulator.channels import Channel
from slipway.emulator.job import TrainingJob
from slipway.emulator.layout import CHECKPOINTS
from slipway.emulator.metrics import MetricDefinition
from slipway.errors import InputError
from slipway.files import naming_full_disk
from slipway.records import Build, Push

_UNKNOWN_ACCOUNT = "000000000000"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that is decided before a place is chosen. `given`: the estimator's arguments, the image among them."""

    config: Config
    given: Mapping[str, Any]
    image: Facts
    ours: bool
    argv: tuple[str, ...]
    source: Source | None  # None: it lies in S3 already
    channels: tuple[Channel, ...]
    notes: tuple[str, ...] = ()

    @property
    def instance_type(self) -> str:
        return str(self.given["instance_type"])


def prepare(
    checked: Checked,
    script: Path,
    argv: Sequence[str],
    *,
    pushes: Sequence[Push],
    labels: images.Labels = lambda reference: None,
    home: Path,
    take_official: bool = False,
    ours: bool = False,
) -> Prepared:
    """Decide image and source. `ours`: take the image for one of Slipway's though nothing here says so.

    Raises InputError for the source's faults, NotFoundError where image_uri is empty and nothing fits.
    """
    config, notes = checked.config, []
    metrics = [{"Name": each.name, "Regex": each.regex} for each in checked.metrics.definitions]
    named = config.sagemaker_metrics_file is not None
    given = estimator.arguments(config, script, metrics if named else None)
    uri = given.get("image_uri")
    if not uri:
        uri = official.image_uri(config) if take_official else images.newest(config, pushes).uri
        notes.append(f"image_uri is empty; taken: {uri}")
    image = images.facts(str(uri), pushes, labels)
    in_s3 = str(given["source_dir"]).startswith("s3://")
    return Prepared(
        config=config,
        given={**given, "image_uri": str(uri)},
        image=image,
        ours=ours or image.ours,
        argv=tuple(argv),
        source=None if in_s3 else source.find(given, home),
        channels=checked.channels.channels,
        notes=tuple(notes),
    )


def on_sagemaker(prepared: Prepared, name: str, aws: Aws | None) -> request.Launch:
    """The launch of a job on SageMaker. Without `aws` the account is guessed, for a look at the request alone."""
    config, role = prepared.config, str(prepared.given["role"])
    if aws is not None:
        arn, bucket = aws.role(role), aws.bucket
    else:
        account = guessed_account(prepared)
        bucket = f"sagemaker-{config.region}-{account}"
        arn = role if role.startswith("arn:") else f"arn:aws:iam::{account}:role/{role}"
    return request.Launch(
        name=name,
        given=prepared.given,
        argv=prepared.argv,
        ours=prepared.ours,
        channels=tuple(request.s3_channel(channel) for channel in prepared.channels),
        region=config.region,
        bucket=bucket,
        role=arn,
    )


def guessed_account(prepared: Prepared) -> str:
    """The account of the role or of the image; zeros where neither tells."""
    role = str(prepared.given["role"])
    if role.startswith("arn:") and role.count(":") >= 5:
        return role.split(":")[4]
    host = prepared.image.reference.partition(".dkr.ecr")[0]
    return host if len(host) == 12 and host.isdecimal() else _UNKNOWN_ACCOUNT


def start(prepared: Prepared, launch: request.Launch, aws: Aws) -> tuple[str, int]:
    """Upload the source and start the job: its ARN, and the bytes that were sent.

    The request is made, and so checked, before anything is sent; what was sent is taken back when the job cannot start.
    """
    asked = request.create(launch)
    if prepared.source is None:
        return aws.create(asked), 0
    with tempfile.TemporaryDirectory(prefix="slipway-source-") as folder:
        archive = Path(folder) / "sourcedir.tar.gz"
        with naming_full_disk(archive):
            prepared.source.pack(archive)
        size = archive.stat().st_size
        aws.upload(archive, launch.source, str(launch.given.get("output_kms_key") or ""))
    try:
        return aws.create(asked), size
    except BaseException:
        aws.remove(launch.source)
        raise


def on_this_machine(prepared: Prepared, name: str, reference: str, output: Path) -> tuple[TrainingJob, list[str]]:
    """The same job for the engine, whose name for the image is `reference`; and what is different here.

    Its source is the script's folder alone: dependencies are for the caller to lay beside it.
    Raises InputError for what cannot be had on this machine, and for every limit of SageMaker's.
    """
    if prepared.source is None:
        raise InputError("the source lies in S3", fix="name a script of this machine for a job on this machine")
    launch = replace(on_sagemaker(prepared, name, None), channels=())
    # Limits are those of SageMaker: what runs here should run there. The instance may be no instance.
    given = {**prepared.given, "instance_type": estimator.instance_type(prepared.given)}
    asked = request.create(replace(launch, given=given))
    environment, notes = dict(asked["Environment"]), []
    precision = environment.get("ACCELERATE_MIXED_PRECISION", "no")
    if precision != "no":
        environment["ACCELERATE_MIXED_PRECISION"] = "no"
        notes.append(f"mixed_precision {precision} needs a GPU, which jobs on this machine do not get: it runs without")
    checkpoints = asked.get("CheckpointConfig")
    if checkpoints:
        notes.append(f"checkpoints go to {output / 'checkpoints'} instead of {checkpoints['S3Uri']}")
    algorithm = asked["AlgorithmSpecification"]
    values = dict(asked["HyperParameters"])
    if "sagemaker_instance_type" in values:
        values["sagemaker_instance_type"] = json.dumps(prepared.instance_type)
    job = TrainingJob(
        image=reference,
        name=name,
        hyperparameters=values,
        raw_hyperparameters=True,  # they are encoded already
        channels=prepared.channels,
        metrics=tuple(
            MetricDefinition(metric["Name"], metric["Regex"]) for metric in algorithm.get("MetricDefinitions", ())
        ),
        environment=environment,
        source=prepared.source.folder,
        entry=prepared.source.entry,
        hosts=int(asked["ResourceConfig"]["InstanceCount"]),
        region=prepared.config.region,
        time_limit=float(asked["StoppingCondition"]["MaxRuntimeInSeconds"]),
        entrypoint=tuple(algorithm.get("ContainerEntrypoint", ())),
        arguments=tuple(algorithm.get("ContainerArguments", ())),
        checkpoints=str(output / "checkpoints") if checkpoints else "",
        checkpoint_path=(checkpoints or {}).get("LocalPath") or CHECKPOINTS,
    )
    return job, notes


def reference_here(uri: str, pushes: Sequence[Push], builds: Sequence[Build]) -> str:
    """The engine's name of an image that was built and pushed from here; of others the URI itself."""
    push = images.pushed_as(uri, pushes)
    digest = push.config_digest if push else ""
    return next((build.reference for build in reversed(builds) if build.config_digest == digest), uri)
