"""The arguments of an SDK v2 estimator that accelerate makes of a configuration, and what each becomes in the request.

`additional_args` of a configuration are laid over them, mapping into mapping, and win: that is where spot instances,
networks, checkpoints, tags and the like are asked for. Source: accelerate's `prepare_sagemager_args_inputs`, and the
parameters of `HuggingFace`, `Framework` and `EstimatorBase` in the SageMaker Python SDK 2.257.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from slipway.clients.accelerate import Config
from slipway.errors import Fault, nearest


@dataclass(frozen=True)
class Parameter:
    """A parameter of the estimator: its type, and its place in the request (empty: it has none of its own)."""

    name: str
    kind: type
    place: str = ""


def _parameters() -> tuple[Parameter, ...]:
    algorithm, resources = "AlgorithmSpecification", "ResourceConfig"
    access = f"{algorithm}.TrainingImageConfig"
    return (
        Parameter("base_job_name", str),
        Parameter("checkpoint_local_path", str, "CheckpointConfig.LocalPath"),
        Parameter("checkpoint_s3_uri", str, "CheckpointConfig.S3Uri"),
        Parameter("code_location", str),
        Parameter("container_arguments", list, f"{algorithm}.ContainerArguments"),
        Parameter("container_entry_point", list, f"{algorithm}.ContainerEntrypoint"),
        Parameter("container_log_level", int),
        Parameter("debugger_hook_config", bool),
        Parameter("dependencies", list),
        Parameter("disable_output_compression", bool),
        Parameter("disable_profiler", bool),
        Parameter("distribution", dict),
        Parameter("enable_infra_check", bool, "InfraCheckConfig.EnableInfraCheck"),
        Parameter("enable_network_isolation", bool, "EnableNetworkIsolation"),
        Parameter("enable_remote_debug", bool, "RemoteDebugConfig.EnableRemoteDebug"),
        Parameter("enable_sagemaker_metrics", bool, f"{algorithm}.EnableSageMakerMetricsTimeSeries"),
        Parameter("enable_session_tag_chaining", bool, "SessionChainingConfig.EnableSessionTagChaining"),
        Parameter("encrypt_inter_container_traffic", bool, "EnableInterContainerTrafficEncryption"),
        Parameter("entry_point", str),
        Parameter("environment", dict),
        Parameter("hyperparameters", dict),
        Parameter("image_uri", str, f"{algorithm}.TrainingImage"),
        Parameter("input_mode", str, f"{algorithm}.TrainingInputMode"),
        Parameter("instance_count", int, f"{resources}.InstanceCount"),
        Parameter("instance_type", str, f"{resources}.InstanceType"),
        Parameter("keep_alive_period_in_seconds", int, f"{resources}.KeepAlivePeriodInSeconds"),
        Parameter("max_retry_attempts", int, "RetryStrategy.MaximumRetryAttempts"),
        Parameter("max_run", int, "StoppingCondition.MaxRuntimeInSeconds"),
        Parameter("max_wait", int, "StoppingCondition.MaxWaitTimeInSeconds"),
        Parameter("metric_definitions", list, f"{algorithm}.MetricDefinitions"),
        Parameter("output_kms_key", str, "OutputDataConfig.KmsKeyId"),
        Parameter("output_path", str, "OutputDataConfig.S3OutputPath"),
        Parameter("py_version", str),
        Parameter("pytorch_version", str),
        Parameter("role", str),
        Parameter("security_group_ids", list, "VpcConfig.SecurityGroupIds"),
        Parameter("source_dir", str),
        Parameter("subnets", list, "VpcConfig.Subnets"),
        Parameter("tags", list),
        Parameter("training_plan", str, f"{resources}.TrainingPlanArn"),
        Parameter("training_repository_access_mode", str, f"{access}.TrainingRepositoryAccessMode"),
        Parameter(
            "training_repository_credentials_provider_arn",
            str,
            f"{access}.TrainingRepositoryAuthConfig.TrainingRepositoryCredentialsProviderArn",
        ),
        Parameter("transformers_version", str),
        Parameter("use_spot_instances", bool, "EnableManagedSpotTraining"),
        Parameter("volume_kms_key", str, f"{resources}.VolumeKmsKeyId"),
        Parameter("volume_size", int, f"{resources}.VolumeSizeInGB"),
    )


PARAMETERS: Mapping[str, Parameter] = {parameter.name: parameter for parameter in _parameters()}
# Parameters that exist, and why a file cannot give them.
_REFUSED = {
    "callback_image_uri": "model callbacks are not made from here",
    "compiler_config": "the Training Compiler is retired",
    "git_config": "source is taken from this machine: check it out",
    "instance_groups": "an object of the SDK, which no file can hold",
    "model_uri": "name the model as a channel in the inputs file",
    "profiler_config": "an object of the SDK; only disable_profiler can be given",
    "rules": "an object of the SDK, which no file can hold",
    "sagemaker_session": "an object of the SDK, which no file can hold",
    "tensorboard_output_config": "an object of the SDK, which no file can hold",
    "tensorflow_version": "accelerate asks for PyTorch; name a TensorFlow image by image_uri",
}
_SHOWN = {str: "text", int: "a whole number", bool: "true or false", dict: "a mapping", list: "a list"}
# What null in additional_args would take away, and no default takes its place.
_NEEDED = ("role", "instance_type", "instance_count", "entry_point", "source_dir")
# The kinds of `distribution`, and the options of each.
_DISTRIBUTIONS: Mapping[str, Mapping[str, type]] = {
    "smdistributed.dataparallel": {"enabled": bool, "custom_mpi_options": str},
    "mpi": {"enabled": bool, "processes_per_host": int, "custom_mpi_options": str},
    "torch_distributed": {"enabled": bool},
    "pytorchddp": {"enabled": bool, "custom_mpi_options": str},
}
_TOP_DISTRIBUTIONS = ("mpi", "torch_distributed", "pytorchddp")
_LIKE_HERE = {"local": "ml.m5.xlarge", "local_gpu": "ml.g5.xlarge"}
# In the environment of jobs with mixed_precision fp8: accelerate's own defaults.
_FP8 = {
    "BACKEND": "te",
    "USE_AUTOCAST_DURING_EVAL": "False",
    "MARGIN": "0",
    "INTERVAL": "1",
    "FORMAT": "HYBRID",
    "AMAX_HISTORY_LEN": "1024",
    "AMAX_COMPUTE_ALGO": "most_recent",
    "OVERRIDE_FPROP": "False",
    "OVERRIDE_DGRAD": "False",
    "OVERRIDE_WGRAD": "False",
    "OPT_LEVEL": "O2",
}


def arguments(config: Config, script: PurePath, metrics: list[dict[str, str]] | None) -> dict[str, Any]:
    """What accelerate gives the estimator, additional_args laid over it; without the script's own arguments."""
    given: dict[str, Any] = {
        "image_uri": config.image_uri,
        "entry_point": script.name,
        "source_dir": str(script.parent),
        "role": config.iam_role_name,
        "transformers_version": config.transformers_version,
        "pytorch_version": config.pytorch_version,
        "py_version": config.py_version,
        "base_job_name": config.base_job_name,
        "instance_count": config.num_machines,
        "instance_type": config.ec2_instance_type,
        "debugger_hook_config": False,
        "distribution": distribution(config),
        "hyperparameters": {},
        "environment": environment(config),
        "metric_definitions": metrics,
    }
    return _laid_over(given, config.additional_args)


def environment(config: Config) -> dict[str, str]:
    """The variables by which accelerate, inside the job, knows how it was launched."""
    variables = {
        "ACCELERATE_USE_SAGEMAKER": "true",
        "ACCELERATE_MIXED_PRECISION": config.mixed_precision,
        "ACCELERATE_DYNAMO_BACKEND": "NO",
        "ACCELERATE_DYNAMO_MODE": "default",
        "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
        "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
        "ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE": config.distributed_type,
    }
    if config.distributed_type != "NO":
        # The newest accelerate that can launch NO (0.33) does not know this one; False is what it means when absent.
        variables["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "False"
    if config.mixed_precision == "fp8":
        variables |= {f"ACCELERATE_FP8_{name}": value for name, value in _FP8.items()}
    return variables


def distribution(config: Config) -> dict[str, Any]:
    """Only DATA_PARALLEL asks for one: MODEL_PARALLEL has no effect on the job but for its variable."""
    if config.distributed_type != "DATA_PARALLEL":
        return {}
    return {"smdistributed": {"dataparallel": {"enabled": True}}}


def instance_type(given: Mapping[str, Any]) -> str:
    """The instance of the estimator's arguments; for this machine one that is like it, for the limits to hold it to."""
    named = str(given["instance_type"])
    return _LIKE_HERE.get(named, named)


def faults(config: Config) -> list[Fault]:
    """What is wrong with the names and types in additional_args."""
    return [fault for name, value in config.additional_args.items() if (fault := _objection(name, value))]


def sound(config: Config) -> dict[str, Any]:
    """The additional_args in which `faults` finds none."""
    return {name: value for name, value in config.additional_args.items() if not _objection(name, value)}


def distribution_hyperparameters(given: Mapping[str, Any], instance_type: str) -> tuple[dict[str, Any], list[Fault]]:
    """The hyperparameters by which a toolkit learns how to start the processes, and what is wrong with `distribution`.

    Names and rules are those of SDK v2's PyTorch estimators.
    """
    wrong = list(_distribution_faults(given))
    if wrong:
        return {}, wrong
    if _enabled(given, "pytorchddp"):
        return {"sagemaker_pytorch_ddp_enabled": True, "sagemaker_instance_type": instance_type}, []
    values: dict[str, Any] = {}
    if "mpi" in given:
        mpi = given["mpi"]
        values["sagemaker_mpi_enabled"] = _enabled(given, "mpi")
        if mpi.get("processes_per_host"):
            values["sagemaker_mpi_num_of_processes_per_host"] = mpi["processes_per_host"]
        values["sagemaker_mpi_custom_mpi_options"] = mpi.get("custom_mpi_options", "")
    if "smdistributed" in given:
        parallel = given["smdistributed"].get("dataparallel", {})
        on = bool(parallel.get("enabled", False))
        values |= {"sagemaker_distributed_dataparallel_enabled": on, "sagemaker_instance_type": instance_type}
        if on:
            values["sagemaker_distributed_dataparallel_custom_mpi_options"] = parallel.get("custom_mpi_options", "")
    if _enabled(given, "torch_distributed"):
        values |= {"sagemaker_torch_distributed_enabled": True, "sagemaker_instance_type": instance_type}
    return values, []


def _distribution_faults(given: Mapping[str, Any]) -> Iterator[Fault]:
    for name, options in given.items():
        if name == "instance_groups":
            yield Fault("distribution.instance_groups cannot be given", _REFUSED["instance_groups"])
        elif name == "smdistributed" and isinstance(options, Mapping):
            for kind, inner in options.items():
                if kind == "modelparallel":
                    yield Fault("distribution.smdistributed.modelparallel cannot be given", "use torch_distributed")
                elif kind != "dataparallel":
                    yield Fault(f"distribution.smdistributed.{kind} is not known", nearest(kind, ("dataparallel",)))
                else:
                    yield from _option_faults("smdistributed.dataparallel", inner)
        elif name == "smdistributed":
            what = f"distribution.smdistributed: {options!r} is not a mapping"
            yield Fault(what, "write smdistributed: {dataparallel: {enabled: true}}")
        elif name in _TOP_DISTRIBUTIONS:
            yield from _option_faults(name, options)
        else:
            yield Fault(f"distribution.{name} is not known", nearest(name, ("smdistributed", *_TOP_DISTRIBUTIONS)))


def _option_faults(name: str, options: Any) -> Iterator[Fault]:
    kinds = _DISTRIBUTIONS[name]
    if not isinstance(options, Mapping):
        fix = f"write {name.rpartition('.')[2]}: {{enabled: true}}"
        yield Fault(f"distribution.{name}: {options!r} is not a mapping", fix)
        return
    for option, value in options.items():
        if option not in kinds:
            yield Fault(f"distribution.{name}.{option} is not known", nearest(option, kinds))
        elif not _fits(value, kinds[option]):
            shown = _SHOWN[kinds[option]]
            yield Fault(f"distribution.{name}.{option}: {value!r} is not {shown}", f"give {shown}")


def _objection(name: str, value: Any) -> Fault | None:
    """What is wrong with one of additional_args."""
    if name in _REFUSED:
        return Fault(f"additional_args.{name} cannot be given", _REFUSED[name])
    if name not in PARAMETERS:
        return Fault(f"additional_args.{name}: the estimator has no such argument", nearest(name, PARAMETERS))
    if value is None:
        needed = f"additional_args.{name}: null takes away what every job needs"
        return Fault(needed, "give a value, or remove it") if name in _NEEDED else None
    if name == "debugger_hook_config" and value is True:
        return Fault("additional_args.debugger_hook_config cannot be true", "the debugger is not started here")
    kind = PARAMETERS[name].kind
    if _fits(value, kind) or (name == "tags" and isinstance(value, dict)):  # the SDK takes a mapping of tags too
        return None
    return Fault(f"additional_args.{name}: {value!r} is not {_SHOWN[kind]}", f"give {_SHOWN[kind]}")


def _enabled(given: Mapping[str, Any], name: str) -> bool:
    return bool(given.get(name, {}).get("enabled", False))


def _fits(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _laid_over(given: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping goes into a mapping; anything else takes its place."""
    merged = dict(given)
    for name, value in over.items():
        before = merged.get(name)
        if isinstance(value, Mapping):
            merged[name] = _laid_over(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged
