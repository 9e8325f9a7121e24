"""A launch as a program for those who call SageMaker themselves."""

from __future__ import annotations

import json
import pprint
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slipway.clients import arguments, request
from slipway.clients.launch import Prepared
from slipway.clients.request import s3_channel


def snippet(form: str, prepared: Prepared, asked: Mapping[str, Any]) -> str:
    """Python that starts the same job; `asked` is its request."""
    return FORMS[form](prepared, asked)


def _boto3(prepared: Prepared, asked: Mapping[str, Any]) -> str:
    source = request.source_of(asked)
    return f"""\
# The source goes to {source} first:
#   tar -czf sourcedir.tar.gz -C {prepared.given["source_dir"]} . && aws s3 cp sourcedir.tar.gz {source}
import boto3

request = {_python(asked)}

boto3.client("sagemaker", region_name={prepared.config.region!r}).create_training_job(**request)
"""


def _sdk2(prepared: Prepared, asked: Mapping[str, Any]) -> str:
    given, algorithm = prepared.given, asked["AlgorithmSpecification"]
    values = {
        "image_uri": given["image_uri"],
        "role": given["role"],
        "entry_point": given["entry_point"],
        "source_dir": given["source_dir"],
        "instance_type": given["instance_type"],
        "instance_count": given["instance_count"],
        "base_job_name": given["base_job_name"],
        "hyperparameters": _own(asked),
        "environment": dict(asked["Environment"]),
        "metric_definitions": algorithm.get("MetricDefinitions"),
        "distribution": given.get("distribution") or None,
        "debugger_hook_config": False,
        "enable_sagemaker_metrics": algorithm["EnableSageMakerMetricsTimeSeries"],
    }
    values |= {name: value for name, value in prepared.config.additional_args.items() if name not in values}
    for name in ("pytorch_version", "transformers_version", "py_version"):
        values.pop(name, None)
    shown = {name: value for name, value in values.items() if value is not None}
    return f"""\
# SageMaker Python SDK 2
import boto3
from sagemaker import Session
from sagemaker.inputs import FileSystemInput, TrainingInput
from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    sagemaker_session=Session(boto3.Session(region_name={prepared.config.region!r})),
{_keywords(shown)}
)
estimator.fit(
    {{
{_lines(f"{channel['ChannelName']!r}: {_input(channel)}" for channel in map(s3_channel, prepared.channels))}
    }}
)
"""


def _input(channel: Mapping[str, Any]) -> str:
    """A channel of the request as an input of SDK 2."""
    files = channel["DataSource"].get("FileSystemDataSource")
    if files:
        kind = {"ContentType": channel["ContentType"]} if "ContentType" in channel else {}
        return _object("FileSystemInput", {**files, **kind})
    source = channel["DataSource"]["S3DataSource"]
    renamed = {
        "S3Data": source["S3Uri"],
        "Distribution": source["S3DataDistributionType"],
        "S3DataType": source["S3DataType"],
        "AttributeNames": source.get("AttributeNames"),
        "Compression": channel.get("CompressionType"),
        "RecordWrapping": channel.get("RecordWrapperType"),
        "ContentType": channel.get("ContentType"),
        "InputMode": channel.get("InputMode"),
    }
    return _object("TrainingInput", {name: value for name, value in renamed.items() if value is not None})


SDK3_CANNOT_ASK = {
    "ProfilerConfig": "SageMaker decides on its system metrics",
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries": "SageMaker does so where there are metric definitions",
    "AlgorithmSpecification.ContainerEntrypoint": "it gives its own, which starts the script",
    "AlgorithmSpecification.ContainerArguments": "it gives its own",
}
"""What a launch may ask for and ModelTrainer of SDK 3 has no argument for, and what happens instead."""
_SDK3_WITH = {
    "RetryStrategy": "with_retry_strategy",
    "RemoteDebugConfig": "with_remote_debug_config",
    "InfraCheckConfig": "with_infra_check_config",
    "SessionChainingConfig": "with_session_chaining_config",
}
_SDK3_CONFIGS = (
    "Channel",
    "CheckpointConfig",
    "Compute",
    "DataSource",
    "FileSystemDataSource",
    "InfraCheckConfig",
    "MetricDefinition",
    "Networking",
    "OutputDataConfig",
    "RemoteDebugConfig",
    "RetryStrategy",
    "S3DataSource",
    "SessionChainingConfig",
    "SourceCode",
    "StoppingCondition",
    "Tag",
    "TrainingImageConfig",
    "TrainingRepositoryAuthConfig",
)


def _sdk3(prepared: Prepared, asked: Mapping[str, Any]) -> str:
    algorithm, distributed = asked["AlgorithmSpecification"], _sdk3_distributed(asked["HyperParameters"])
    further = {method: _shape(name, asked.get(name)) for name, method in _SDK3_WITH.items()}
    further["with_metric_definitions"] = _shapes("MetricDefinition", algorithm.get("MetricDefinitions"))
    calls = "".join(f"trainer.{method}({value})\n" for method, value in further.items() if value is not None)
    body = f"""\
session = Session(boto3.Session(region_name={prepared.config.region!r}))
trainer = ModelTrainer(
{_keywords(_sdk3_values(prepared, asked, distributed))}
)
{calls}trainer.train(
    input_data_config=[
{_lines(_object("Channel", s3_channel(channel)) for channel in prepared.channels)}
    ]
)
"""
    starter = f"from sagemaker.train.distributed import {distributed.partition('(')[0]}\n" if distributed else ""
    return f"""\
# SageMaker Python SDK 3. It starts the script itself{_sdk3_remarks(asked, distributed)}
import boto3
from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import {", ".join(name for name in _SDK3_CONFIGS if f"{name}(" in body)}
{starter}
{body}"""


def _sdk3_values(prepared: Prepared, asked: Mapping[str, Any], distributed: str) -> dict[str, Any]:
    """The arguments of ModelTrainer."""
    given, algorithm = prepared.given, asked["AlgorithmSpecification"]
    output = dict(asked["OutputDataConfig"])
    if not given.get("output_path"):
        output["S3OutputPath"] = _Code('f"s3://{session.default_bucket()}/"')
    compute = {**asked["ResourceConfig"], "EnableManagedSpotTraining": asked.get("EnableManagedSpotTraining")}
    flags = ("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption")
    network = {**asked.get("VpcConfig", {}), **{flag: asked.get(flag) for flag in flags}}
    values = {
        "sagemaker_session": _Code("session"),
        "training_image": given["image_uri"],
        "training_image_config": _shape("TrainingImageConfig", algorithm.get("TrainingImageConfig")),
        "training_input_mode": algorithm["TrainingInputMode"],
        "role": given["role"],
        "base_job_name": given["base_job_name"],
        "source_code": _sdk3_source(prepared, asked, distributed),
        "distributed": _Code(distributed) if distributed else None,
        "compute": _shape("Compute", compute),
        "stopping_condition": _shape("StoppingCondition", asked["StoppingCondition"]),
        "output_data_config": _shape("OutputDataConfig", output),
        "checkpoint_config": _shape("CheckpointConfig", asked.get("CheckpointConfig")),
        "networking": _shape("Networking", network),
        "tags": _shapes("Tag", asked.get("Tags")),
        "hyperparameters": _own(asked, vector=False),
        "environment": dict(asked["Environment"]),
    }
    return {name: value for name, value in values.items() if value is not None}


def _sdk3_source(prepared: Prepared, asked: Mapping[str, Any], distributed: str) -> _Code:
    """The script, with its arguments as typed where one process a host is started."""
    given, vector = prepared.given, asked["HyperParameters"].get(arguments.VECTOR)
    fields: dict[str, Any] = {"SourceDir": given["source_dir"]}
    if vector and not distributed:
        fields |= {"Command": "python3", "Args": [given["entry_point"], *json.loads(vector)]}
    else:
        fields["EntryScript"] = given["entry_point"]
    # SDK 3 installs only what it is told to; our toolkits do so whenever the file is there.
    if prepared.source is not None and (prepared.source.folder / "requirements.txt").is_file():
        fields["Requirements"] = "requirements.txt"
    return _Code(_object("SourceCode", fields))


def _sdk3_distributed(values: Mapping[str, str]) -> str:
    """How SDK 3 starts several processes; empty where one a host is enough."""
    known = {key: json.loads(value) for key, value in values.items() if key.startswith("sagemaker_")}
    if known.get("sagemaker_mpi_enabled"):
        options = {
            "ProcessCountPerNode": known.get("sagemaker_mpi_num_of_processes_per_host"),
            "MpiAdditionalOptions": known.get("sagemaker_mpi_custom_mpi_options", "").split() or None,
        }
        return _object("MPI", {name: value for name, value in options.items() if value is not None})
    by_torchrun = ("distributed_dataparallel", "torch_distributed", "pytorch_ddp")
    return "Torchrun()" if any(known.get(f"sagemaker_{name}_enabled") for name in by_torchrun) else ""


def _sdk3_remarks(asked: Mapping[str, Any], distributed: str) -> str:
    told = ", from hyperparameters:\n# switches and lists do not arrive as typed." if distributed else "."
    for place, instead in SDK3_CANNOT_ASK.items():
        *parents, last = place.split(".")
        if last in (asked[parents[0]] if parents else asked):
            told += f"\n# {last} cannot be asked for: {instead}."
    return told


class _Code(str):
    """Text that stands in a program as it is."""

    def __repr__(self) -> str:
        return str(self)


def _object(kind: str, fields: Mapping[str, Any]) -> str:
    """A structure of the request as an object of an SDK, where classes and fields are named after it."""
    given = (
        f"{_snake(name)}={_object(name, value) if isinstance(value, Mapping) else repr(value)}"
        for name, value in fields.items()
    )
    return f"{kind}({', '.join(given)})"


def _shape(kind: str, fields: Mapping[str, Any] | None) -> _Code | None:
    known = {name: value for name, value in (fields or {}).items() if value is not None}
    return _Code(_object(kind, known)) if known else None


def _shapes(kind: str, each: Iterable[Mapping[str, Any]] | None) -> _Code | None:
    found = [_object(kind, fields) for fields in each or ()]
    return _Code("[\n" + "".join(f"    {one},\n" for one in found) + "]") if found else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _lines(each: Iterable[str]) -> str:
    return "\n".join(f"        {one}," for one in each)


FORMS: Mapping[str, Callable[[Prepared, Mapping[str, Any]], str]] = {"sdk2": _sdk2, "sdk3": _sdk3, "boto3": _boto3}


def _own(asked: Mapping[str, Any], *, vector: bool = True) -> dict[str, Any]:
    """The script's hyperparameters as values: those that an SDK sets by itself are left out."""
    values = {key: json.loads(value) for key, value in asked["HyperParameters"].items()}
    return {
        key: value
        for key, value in values.items()
        if not key.startswith("sagemaker_") or (vector and key == arguments.VECTOR)
    }


def _keywords(values: Mapping[str, Any]) -> str:
    lines = (f"{name}={_python(value)}," for name, value in values.items())
    return "\n".join("    " + line.replace("\n", "\n    ") for line in lines)


def _python(value: Any) -> str:
    return pprint.pformat(value, width=100, sort_dicts=False)
