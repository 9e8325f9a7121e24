"""The CreateTrainingJob request for a launch, as pure data: what accelerate with SDK v2 would have sent.

Source: `Session._get_train_request` and the estimators of the SageMaker Python SDK 2.257; tests compare field by field.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.clients import arguments, estimator, limits
from slipway.emulator.channels import Channel
from slipway.errors import Fault, InputError

_LONGEST_NAME = 63
_STAMP = "%Y-%m-%d-%H-%M-%S"
# Where SDK v2 knows no profiler.
_NO_PROFILER = """
    us-iso-east-1 us-isob-east-1 us-gov-east-1 ap-southeast-3 ap-southeast-4 ap-south-2 eu-south-2 eu-central-2
    me-central-1
"""
# Where a job without a network finds its source: it comes as a channel, for the job cannot fetch it.
_ISOLATED_SOURCE = "/opt/ml/input/data/code/sourcedir.tar.gz"
_SOURCE_CHANNEL = "code"
_ONLY_IF_TRUE = ("enable_network_isolation", "encrypt_inter_container_traffic", "use_spot_instances")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What is launched. `given` are the estimator's arguments (estimator.arguments) with the image decided.

    `argv` are the script's own arguments; `ours`: the image is of Slipway, so they travel as they are. `bucket` holds
    the source and, unless `given` says otherwise, the results. `role` is an ARN.
    """

    name: str
    given: Mapping[str, Any]
    argv: tuple[str, ...] = ()
    ours: bool
    channels: tuple[Mapping[str, Any], ...] = ()
    region: str
    bucket: str
    role: str

    @property
    def source(self) -> str:
        """Where the packed source lies, or will."""
        source = str(self.given["source_dir"])
        if source.startswith("s3://"):
            return source
        # As SDK v2: without code_location in the results' bucket, at its top.
        results = "/".join(self.output.split("/")[:3])
        base = str(self.given.get("code_location") or results)
        return f"{base.rstrip('/')}/{self.name}/source/sourcedir.tar.gz"

    @property
    def output(self) -> str:
        return str(self.given.get("output_path") or f"s3://{self.bucket}/")


def new_name(base: str, now: datetime.datetime) -> str:
    """A job's name: the base, cut where needed, and the time to the millisecond."""
    stamp = now.strftime(_STAMP) + f"-{now.microsecond // 1000:03}"
    return f"{base[: _LONGEST_NAME - len(stamp) - 1].rstrip('-')}-{stamp}"


def create(launch: Launch) -> dict[str, Any]:
    """The request. Raises InputError with everything for which the service, or the image's toolkit, would refuse it."""
    values, faults = hyperparameters(launch)
    request = _request(launch, values)
    network = _vpc(launch.given)
    faults += limits.validate({key: value for key, value in request.items() if not (network and key == "VpcConfig")})
    faults += network
    if faults:
        raise InputError("SageMaker would not take this job", faults=list(dict.fromkeys(faults)))
    return request


def source_of(asked: Mapping[str, Any]) -> str:
    """The URI of the packed source that a request of `create` names."""
    if asked.get("EnableNetworkIsolation"):
        (channel,) = (each for each in asked["InputDataConfig"] if each["ChannelName"] == _SOURCE_CHANNEL)
        return str(channel["DataSource"]["S3DataSource"]["S3Uri"])
    return str(json.loads(asked["HyperParameters"]["sagemaker_submit_directory"]))


def s3_channel(channel: Channel) -> dict[str, Any]:
    """A channel as SDK v2 asks for it."""
    asked: dict[str, Any] = {"ChannelName": channel.name, "DataSource": _data_source(channel)}
    further = {"ContentType": channel.content_type, "InputMode": channel.input_mode}
    further |= {"CompressionType": channel.compression, "RecordWrapperType": channel.record_wrapper}
    return {**asked, **{name: value for name, value in further.items() if value}}


def _data_source(channel: Channel) -> dict[str, Any]:
    if channel.file_system is not None:
        kind, identifier, folder = channel.file_system
        return {
            "FileSystemDataSource": {
                "FileSystemId": identifier,
                "FileSystemType": {"efs": "EFS", "fsx": "FSxLustre"}[kind],
                "DirectoryPath": folder,
                "FileSystemAccessMode": channel.access or "ro",
            }
        }
    where: dict[str, Any] = {
        "S3DataType": channel.data_type or "S3Prefix",
        "S3Uri": channel.location,
        "S3DataDistributionType": channel.distribution or "FullyReplicated",
    }
    if channel.attribute_names:
        where["AttributeNames"] = list(channel.attribute_names)
    if channel.instance_groups:
        where["InstanceGroupNames"] = list(channel.instance_groups)
    return {"S3DataSource": where}


def hyperparameters(launch: Launch) -> tuple[dict[str, str], list[Fault]]:
    """All hyperparameters of a launch, encoded, and what cannot be one."""
    given = launch.given
    faults: list[Fault] = []
    if launch.ours:
        own = arguments.for_ours(launch.argv)
    else:
        own, faults = arguments.for_foreign(launch.argv)
    ordered = {key: value for key, value in own.items() if key != arguments.VECTOR}
    further = {key: value for key, value in (given.get("hyperparameters") or {}).items() if value is not None}
    ordered |= further
    if arguments.VECTOR in own:
        # Hyperparameters of additional_args are options like the others, and win over those of the command line.
        ordered[arguments.VECTOR] = with_options(launch.argv, further)
    ordered |= {
        "sagemaker_submit_directory": _ISOLATED_SOURCE if given.get("enable_network_isolation") else launch.source,
        "sagemaker_program": given["entry_point"],
        "sagemaker_container_log_level": given.get("container_log_level") or 20,
        "sagemaker_job_name": launch.name,
        "sagemaker_region": launch.region,
    }
    distribution, wrong = estimator.distribution_hyperparameters(
        given.get("distribution") or {}, str(given["instance_type"])
    )
    encoded = arguments.encode({**ordered, **distribution})
    vector = encoded.get(arguments.VECTOR, "")
    if len(vector) > arguments.LONGEST_VALUE:
        what = f"the script's arguments have {len(vector)} characters as JSON"
        faults.append(Fault(what, f"{arguments.LONGEST_VALUE} at most: give long ones in a file of a channel"))
        del encoded[arguments.VECTOR]
    return encoded, [*faults, *wrong]


def with_options(argv: Sequence[str], further: Mapping[str, Any]) -> list[str]:
    """An argument vector with the hyperparameters of additional_args as options behind it, where the last one wins."""
    words = list(argv)
    for key, value in further.items():
        if not key.startswith("sagemaker_"):
            words += [f"-{key}" if len(key) == 1 else f"--{key}", "" if value is None else str(value)]
    return words


def _request(launch: Launch, values: Mapping[str, str]) -> dict[str, Any]:
    given = {**_DEFAULTS, **{name: value for name, value in launch.given.items() if value is not None}}
    request: dict[str, Any] = {
        "TrainingJobName": launch.name,
        "RoleArn": launch.role,
        "OutputDataConfig": {"S3OutputPath": launch.output},
        "HyperParameters": dict(values),
        "Environment": dict(given["environment"]),
    }
    for name, value in given.items():
        place = estimator.PARAMETERS[name].place if name in estimator.PARAMETERS else ""
        if place and value not in ([], {}) and not (name in _ONLY_IF_TRUE and not value):
            _put(request, place, value)
    channels = [dict(channel) for channel in launch.channels]
    if given.get("enable_network_isolation"):
        where = {"S3DataType": "S3Prefix", "S3Uri": launch.source, "S3DataDistributionType": "FullyReplicated"}
        channels.append({"ChannelName": _SOURCE_CHANNEL, "DataSource": {"S3DataSource": where}})
    if channels:
        request["InputDataConfig"] = channels
    if given.get("disable_output_compression"):
        request["OutputDataConfig"]["CompressionType"] = "NONE"
    if given.get("tags"):
        tags = given["tags"]
        if isinstance(tags, Mapping):
            tags = [{"Key": key, "Value": value} for key, value in tags.items()]
        request["Tags"] = tags
    request |= _profiler(launch, bool(given.get("disable_profiler")), str(given["instance_type"]))
    return request


_DEFAULTS: Mapping[str, Any] = {
    "max_run": 86400,
    "volume_size": 30,
    "input_mode": "File",
    "enable_sagemaker_metrics": True,  # as the HuggingFace estimator sets it
    "environment": {},
}


def _profiler(launch: Launch, disabled: bool, instance_type: str) -> dict[str, Any]:
    """SDK v2 asks for the profiler's system metrics wherever they are to be had."""
    if disabled or launch.region in _NO_PROFILER.split() or instance_type.startswith("ml.trn"):
        return {"ProfilerConfig": {"DisableProfiler": True}}
    return {"ProfilerConfig": {"S3OutputPath": launch.output, "DisableProfiler": False}}


def _put(request: dict[str, Any], place: str, value: Any) -> None:
    *parents, last = place.split(".")
    at = request
    for parent in parents:
        at = at.setdefault(parent, {})
    at[last] = value


def _vpc(given: Mapping[str, Any]) -> list[Fault]:
    if bool(given.get("subnets")) == bool(given.get("security_group_ids")):
        return []
    lacking = "security_group_ids" if given.get("subnets") else "subnets"
    return [Fault(f"additional_args: a network without {lacking}", "subnets and security_group_ids go together")]
