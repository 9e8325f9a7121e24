"""A configuration and its two TSV files, checked at once: faults, for which a launch would stop, and warnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TypeVar

from slipway.clients import accelerate, estimator, images, limits, request, source
from slipway.clients.accelerate import Config, ConfigFile
from slipway.clients.images import Facts
from slipway.emulator import channels, metrics
from slipway.emulator.channels import Channel, Channels
from slipway.emulator.metrics import Metrics
from slipway.errors import Fault, InputError, nearest

ROLE = re.compile(r"[\w+=,.@/-]{1,512}")
_BASE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+")

# In a request that is made to be looked at, for what is not known yet.
_SOME_IMAGE, _SOME_INSTANCE, _SOME_ROLE = "image", "ml.m5.xlarge", "arn:aws:iam::123456789012:role/role"
# Fields of the request that are made of additional_args without one place of their own, and of keys.
_REQUEST_KEYS = {
    "environment": "Environment",
    "hyperparameters": "HyperParameters",
    "tags": "Tags",
    "role": "RoleArn",
}
_FROM_KEYS = {
    "ResourceConfig.InstanceCount": "num_machines",
    "ResourceConfig.InstanceType": "ec2_instance_type",
    "AlgorithmSpecification.TrainingImage": "image_uri",
}

Read = TypeVar("Read")


@dataclass(frozen=True)
class Checked:
    """A configuration as found. `image` is None where image_uri is empty; TSV files that are not named are empty."""

    file: ConfigFile
    channels: Channels
    metrics: Metrics
    image: Facts | None
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]

    @property
    def config(self) -> Config:
        return self.file.config

    def require(self) -> None:
        """Raise InputError when there are faults."""
        if self.faults:
            raise InputError(f"{self.file.name} and the files that it names have faults", faults=self.faults)


def check(
    path: Path,
    *,
    text: str | None = None,
    local: bool = False,
    facts: Callable[[str], Facts] = lambda reference: images.facts(reference, ()),
    profiles: Collection[str] | None = None,
) -> Checked:
    """Check a configuration for SageMaker, or with `local` for this machine. Raises InputError if it cannot be parsed.

    `text` is what the file will hold, where it is not written yet. `facts` says what is known of an image; `profiles`
    are those of this machine, None: not looked at.
    """
    file = accelerate.read(path) if text is None else accelerate.parse(path, text)
    config = file.config
    local = local or config.local
    faults = [*file.faults, *_faults(file, local)]
    warnings = _notes(file, profiles, local)
    inputs = _table(file, "sagemaker_inputs_file", channels.read, Channels((), ()), faults, warnings)
    defined = _table(file, "sagemaker_metrics_file", metrics.read, Metrics((), ()), faults, warnings)
    warnings += [*inputs.warnings, *defined.warnings]
    if not local:
        faults += _remote(file, inputs)
    merged = config.additional_args
    uri = merged.get("image_uri") or config.image_uri
    image = facts(str(uri)) if uri else None
    faults += _request(file, inputs, defined, image, local, faults)
    instance = str(merged.get("instance_type") or config.ec2_instance_type)
    if image is not None:
        warnings += [file.fault(key, what, fix) for key, what, fix in images.warnings(image, config, instance)]
    return Checked(file, inputs, defined, image, tuple(_once(faults)), tuple(_once(warnings)))


def located(config_file: ConfigFile, key: str) -> tuple[Path, Fault | None]:
    """The file that a key names: relative to the current folder, as for accelerate, else beside the configuration."""
    name = str(getattr(config_file.config, key))
    path, beside = Path(name), Path(config_file.name).parent / name
    if path.exists() or not beside.exists():
        return path, None
    what = f"{key}: {name} is not in the current folder; the one beside the configuration is taken"
    return beside, config_file.fault(key, what, "accelerate looks in the current folder alone")


def _table(
    file: ConfigFile,
    key: str,
    read: Callable[[Path], Read],
    otherwise: Read,
    faults: list[Fault],
    warnings: list[Fault],
) -> Read:
    if not getattr(file.config, key):
        return otherwise
    path, note = located(file, key)
    warnings += [note] if note else []
    if not path.exists():
        faults.append(file.fault(key, f"{key}: {path} does not exist", "correct the path, or remove the key"))
        return otherwise
    try:
        return read(path)
    except InputError as error:
        faults += error.faults or [Fault(error.message, error.fix, str(path))]
        return otherwise


def _faults(file: ConfigFile, local: bool) -> list[Fault]:
    config = file.config

    def fault(key: str, what: str, fix: str) -> Fault:
        return file.fault(key, f"{key}: {what}", fix)

    found = [file.fault("additional_args", each.what, each.fix) for each in estimator.faults(config)]
    role = config.iam_role_name
    if role.startswith("arn:") and not local:
        found += [fault("iam_role_name", each.what, each.fix) for each in limits.member("RoleArn", role)]
    elif role and not local and not ROLE.fullmatch(role):
        found.append(fault("iam_role_name", f"{role!r}", "a role's name or its ARN"))
    kind = config.ec2_instance_type
    if kind and not config.local:
        known = [*limits.instance_types(), *accelerate.LOCAL]
        if kind not in known:
            found.append(fault("ec2_instance_type", f"{kind!r} is not known", nearest(kind, known)))
    if not _BASE_NAME.fullmatch(config.base_job_name):
        fix = "letters, digits and single dashes between them, 63 at most"
        found.append(fault("base_job_name", f"{config.base_job_name!r}", fix))
    if not _REGION.fullmatch(config.region):
        found.append(fault("region", f"{config.region!r} is no region", "write it as us-east-1"))
    uri = config.image_uri or ""
    if len(uri) > 255 or re.search(r"\s", uri):
        found.append(fault("image_uri", f"{uri[:60]!r}", "255 characters at most, without blanks"))
    return found


def _remote(file: ConfigFile, inputs: Channels) -> list[Fault]:
    """SageMaker reads from S3 alone."""
    path = str(located(file, "sagemaker_inputs_file")[0])
    return [
        Fault(
            f"channel {channel.name}: {channel.location} is of this machine, and SageMaker reads S3 alone",
            "copy it there (`aws s3 sync`) and write s3://BUCKET/PREFIX, or launch with --local",
            path,
        )
        for channel in inputs.channels
        if not _is_remote(channel)
    ]


def _is_remote(channel: Channel) -> bool:
    return channel.location.startswith(("s3://", "efs://", "fsx://"))


def _request(
    file: ConfigFile, inputs: Channels, defined: Metrics, image: Facts | None, local: bool, known: list[Fault]
) -> list[Fault]:
    """What a launch would find in the request, made with a script, a name and an account of no one.

    What is `known` to be wrong is left out of it, so that nothing is told twice.
    """
    config = replace(file.config, additional_args=estimator.sound(file.config))
    wrong = {fault.what.partition(":")[0] for fault in known if fault.file == file.name}
    metrics = [{"Name": each.name, "Regex": each.regex} for each in defined.definitions]
    given = estimator.arguments(config, PurePath("script.py"), metrics if config.sagemaker_metrics_file else None)
    own = config.additional_args
    if not given["image_uri"] or ("image_uri" in wrong and not own.get("image_uri")):
        given["image_uri"] = _SOME_IMAGE
    if not given["instance_type"] or ("ec2_instance_type" in wrong and "instance_type" not in own):
        given["instance_type"] = _SOME_INSTANCE
    given["instance_type"] = estimator.instance_type(given)
    role = str(own.get("role") or "")
    faults = source.lacking(given)
    if role and not local and not role.startswith("arn:") and not ROLE.fullmatch(role):
        faults.append(Fault(f"role: {role!r}", "a role's name or its ARN"))
    launch = request.Launch(
        name="job",
        given=given,
        ours=image is not None and image.ours,
        channels=() if local else tuple(request.s3_channel(each) for each in inputs.channels if _is_remote(each)),
        region=config.region,
        bucket="bucket",
        role=role if role.startswith("arn:") else _SOME_ROLE,
    )
    try:
        request.create(launch)
    except InputError as error:
        faults += error.faults
    return [_placed(file, inputs, launch, fault) for fault in faults]


def _placed(file: ConfigFile, inputs: Channels, launch: request.Launch, fault: Fault) -> Fault:
    """A fault of the request with the file and the line from which it comes."""
    named = re.match(r"InputDataConfig\[(\d+)\]|channel ([^ :]+):", fault.what)
    if named:
        name = named[2] or launch.channels[int(named[1])]["ChannelName"]
        path = str(located(file, "sagemaker_inputs_file")[0])
        what = fault.what if named[2] else f"channel {name}: {fault.what}"
        return Fault(what, fault.fix, path, inputs.lines.get(name))
    place = fault.what.partition(":")[0].partition("[")[0].partition(" ")[0]
    for name in file.config.additional_args:
        parameter = estimator.PARAMETERS.get(name)
        places = (_REQUEST_KEYS.get(name), parameter and parameter.place)
        if name == place.partition(".")[0] or place in places:
            return file.document.fault(("additional_args", name), fault.what, fault.fix)
    return file.fault(_FROM_KEYS.get(place, "additional_args"), fault.what, fault.fix)


def _notes(file: ConfigFile, profiles: Collection[str] | None, local: bool) -> list[Fault]:
    config = file.config
    found = []
    for key in ("use_cpu", "debug", "enable_cpu_affinity", "gpu_ids"):
        if getattr(config, key) != accelerate.default(key):
            found.append(file.fault(key, f"{key} does not reach the job", "remove it"))
    if config.dynamo_config and config.dynamo_config != {"dynamo_backend": "NO"}:
        fix = "set ACCELERATE_DYNAMO_… under additional_args: environment:"
        found.append(file.fault("dynamo_config", "dynamo_config does not reach the job", fix))
    if config.distributed_type == "MODEL_PARALLEL":
        what = (
            "MODEL_PARALLEL asks SageMaker for nothing; in the job accelerate then expects data parallelism, and fails"
        )
        found.append(file.fault("distributed_type", what, "write DATA_PARALLEL"))
    if config.distributed_type == "NO" and config.num_machines > 1:
        what = f"distributed_type NO on {config.num_machines} machines: each trains by itself"
        found.append(file.fault("num_machines", what, "write distributed_type: DATA_PARALLEL, or num_machines: 1"))
    if config.image_uri is None and not config.versions_are_chosen:
        what = "image_uri is empty: the newest image that fits is looked up at launch"
        found.append(file.fault("image_uri", what, ""))
    if local:
        return found
    if config.profile is None:
        what = "profile is empty: accelerate then wants --aws_access_key_id and --aws_secret_access_key"
        found.append(file.fault("profile", what, "Slipway uses the credentials that the AWS tools would"))
    elif profiles is not None and config.profile not in profiles:
        what = f"profile: {config.profile!r} is not among this machine's AWS profiles"
        found.append(file.fault("profile", what, nearest(config.profile, profiles) if profiles else "aws configure"))
    return found


def _once(faults: list[Fault]) -> list[Fault]:
    return sorted(dict.fromkeys(faults), key=lambda fault: (fault.file or "", fault.line or 0))
