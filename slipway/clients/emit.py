"""A launch as a program for those who call SageMaker themselves."""

from __future__ import annotations

import json
import pprint
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from slipway.clients import arguments

if TYPE_CHECKING:
    from slipway.clients.launch import Prepared


def snippet(form: str, prepared: Prepared, asked: Mapping[str, Any]) -> str:
    """Python that starts the same job; `asked` is its request."""
    return FORMS[form](prepared, asked)


def _boto3(prepared: Prepared, asked: Mapping[str, Any]) -> str:
    source = json.loads(asked["HyperParameters"]["sagemaker_submit_directory"])
    return f"""\
# The source goes to {source} first:
#   tar -czf sourcedir.tar.gz -C {prepared.given["source_dir"]} . && aws s3 cp sourcedir.tar.gz {source}
import boto3

request = {_python(asked)}

boto3.client("sagemaker", region_name={prepared.config.region!r}).create_training_job(**request)
"""


def _sdk2(prepared: Prepared, asked: Mapping[str, Any]) -> str:
    given = prepared.given
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
        "metric_definitions": asked["AlgorithmSpecification"].get("MetricDefinitions"),
        "distribution": given.get("distribution") or None,
        "debugger_hook_config": False,
        "enable_sagemaker_metrics": True,
    }
    values |= {name: value for name, value in prepared.config.additional_args.items() if name not in values}
    for name in ("pytorch_version", "transformers_version", "py_version"):
        values.pop(name, None)
    shown = {name: value for name, value in values.items() if value is not None}
    return f"""\
# SageMaker Python SDK 2
from sagemaker.pytorch import PyTorch

estimator = PyTorch(
{_keywords(shown)}
)
estimator.fit({_python(_inputs(prepared))})
"""


def _sdk3(prepared: Prepared, asked: Mapping[str, Any]) -> str:
    given = prepared.given
    metrics = asked["AlgorithmSpecification"].get("MetricDefinitions", [])
    inputs = "".join(
        f"        InputData(channel_name={name!r}, data_source={where!r}),\n"
        for name, where in (_inputs(prepared) or {}).items()
    )
    values: dict[str, Any] = {"hyperparameters": _own(asked, vector=False), "environment": dict(asked["Environment"])}
    told = "".join(f"    MetricDefinition(name={each['Name']!r}, regex={each['Regex']!r}),\n" for each in metrics)
    stopping = asked["StoppingCondition"]["MaxRuntimeInSeconds"]
    return f"""\
# SageMaker Python SDK 3. It starts the script itself, from hyperparameters: switches and lists do not arrive as typed.
from sagemaker.core.shapes import MetricDefinition
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode, StoppingCondition

trainer = ModelTrainer(
    training_image={given["image_uri"]!r},
    role={given["role"]!r},
    base_job_name={given["base_job_name"]!r},
    source_code=SourceCode(source_dir={given["source_dir"]!r}, entry_script={given["entry_point"]!r}),
    compute=Compute(instance_type={given["instance_type"]!r}, instance_count={given["instance_count"]!r}),
    stopping_condition=StoppingCondition(max_runtime_in_seconds={stopping!r}),
{_keywords(values)}
).with_metric_definitions([
{told}])
trainer.train(
    input_data_config=[
{inputs}    ]
)
"""


FORMS: Mapping[str, Callable[[Prepared, Mapping[str, Any]], str]] = {"sdk2": _sdk2, "sdk3": _sdk3, "boto3": _boto3}


def _own(asked: Mapping[str, Any], *, vector: bool = True) -> dict[str, Any]:
    """The script's hyperparameters as values: those that an SDK sets by itself are left out."""
    values = {key: json.loads(value) for key, value in asked["HyperParameters"].items()}
    return {
        key: value
        for key, value in values.items()
        if not key.startswith("sagemaker_") or (vector and key == arguments.VECTOR)
    }


def _inputs(prepared: Prepared) -> dict[str, str] | None:
    return {channel.name: channel.location for channel in prepared.channels} or None


def _keywords(values: Mapping[str, Any]) -> str:
    lines = (f"{name}={_python(value)}," for name, value in values.items())
    return "\n".join("    " + line.replace("\n", "\n    ") for line in lines)


def _python(value: Any) -> str:
    return pprint.pformat(value, width=100, sort_dicts=False)
