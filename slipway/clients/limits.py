"""A CreateTrainingJob request held against the service: its model in botocore, and rules that no model states.

Botocore itself checks types, required members and least lengths only. Patterns, greatest lengths and enumerations stand
in the same model and are what the service refuses a job for, after its source was uploaded. Rules between fields are
those of the API reference of CreateTrainingJob.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.emulator import patterns
from slipway.errors import Fault, nearest

_OPERATION = "CreateTrainingJobRequest"
_LONGEST_SHOWN = 60
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "boolean": (bool,),
    "structure": (dict,),
    "map": (dict,),
    "list": (list, tuple),
    "double": (float, int),
    "float": (float, int),
}
# Java's names of character classes, as Python writes them inside a set.
_CLASSES = {r"\p{Alnum}": "a-zA-Z0-9", r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": " \u00a0\u2000-\u200a\u3000"}


class _WrongType(Fault):
    """A value that is not even of its field's type."""


@functools.cache
def _shapes() -> dict[str, Any]:
    from botocore.loaders import create_loader

    model = create_loader().load_service_model("sagemaker", "service-2")
    return dict(model["shapes"])


def validate(request: Mapping[str, Any]) -> list[Fault]:
    """Everything for which the service would refuse a request."""
    found = list(_shape(_OPERATION, request, ""))
    if any(isinstance(fault, _WrongType) for fault in found):
        return found  # rules between fields need fields that are what they should be
    return [*found, *_between(request)]


def member(path: str, value: Any) -> list[Fault]:
    """What is wrong with one value, named by its path in the request, e.g. `ResourceConfig.InstanceType`."""
    name = _OPERATION
    for part in path.split("."):
        name = _shapes()[name]["members"][part]["shape"]
    return list(_shape(name, value, path.rpartition(".")[2]))


def instance_types() -> list[str]:
    return list(_shapes()["TrainingInstanceType"]["enum"])


def _shape(name: str, value: Any, path: str) -> Iterator[Fault]:
    shape = _shapes()[name]
    kind = shape["type"]
    if not _is(kind, value):
        yield _WrongType(f"{path}: {_shown(value)} is no {kind}", f"give a {kind}")
    elif kind == "structure":
        yield from _structure(shape, value, path)
    elif kind == "map":
        yield from _size(shape, len(value), path, "entries")
        for key, item in value.items():
            yield from _shape(shape["key"]["shape"], key, f"{path}: key")
            yield from _shape(shape["value"]["shape"], item, f"{path}[{_shown(key)}]")
    elif kind == "list":
        yield from _size(shape, len(value), path, "items")
        for at, item in enumerate(value):
            yield from _shape(shape["member"]["shape"], item, f"{path}[{at}]")
    elif kind == "string":
        yield from _string(shape, value, path)
    elif not shape.get("min", value) <= value <= shape.get("max", value):
        yield Fault(f"{path}: {value}", _range(shape))


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _structure(shape: Mapping[str, Any], value: Mapping[str, Any], path: str) -> Iterator[Fault]:
    members, dot = shape["members"], f"{path}." if path else ""
    for key, item in value.items():
        if key in members:
            yield from _shape(members[key]["shape"], item, dot + key)
        else:
            yield Fault(f"{dot}{key}: CreateTrainingJob has no such field", nearest(key, members))
    for key in shape.get("required", []):
        if key not in value:
            yield Fault(f"{dot}{key} is missing", "give it")


def _string(shape: Mapping[str, Any], value: str, path: str) -> Iterator[Fault]:
    if "enum" in shape:
        if value not in shape["enum"]:
            yield Fault(f"{path}: {value!r} is not known", nearest(value, shape["enum"]))
        return
    if not shape.get("min", 0) <= len(value) <= shape.get("max", len(value)):
        yield Fault(f"{path}: {len(value)} characters", _range(shape))
    elif "pattern" in shape and not re.fullmatch(_python(shape["pattern"]), value):
        if shape["pattern"] == ".*":
            yield Fault(f"{path}: it has a line break", "write it on one line")
        else:
            yield Fault(f"{path}: {_shown(value)}", f"it must match {shape['pattern']}")


def _python(pattern: str) -> str:
    for java, python in _CLASSES.items():
        pattern = pattern.replace(java, python)
    return pattern


def _size(shape: Mapping[str, Any], size: int, path: str, what: str) -> Iterator[Fault]:
    if not shape.get("min", 0) <= size <= shape.get("max", size):
        yield Fault(f"{path}: {size} {what}", _range(shape))


def _range(shape: Mapping[str, Any]) -> str:
    least, most = shape.get("min"), shape.get("max")
    if most is None:
        return f"{least} at least"
    return f"{least} to {most}" if least else f"{most} at most"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _between(request: Mapping[str, Any]) -> Iterator[Fault]:
    """Rules that the model does not state."""
    yield from _names(request)
    yield from _times(request)
    algorithm = request.get("AlgorithmSpecification", {})
    for metric in algorithm.get("MetricDefinitions", []):
        for objection in patterns.objections(str(metric.get("Regex", ""))):
            yield Fault(f"metric {metric.get('Name')}: {objection.what}", objection.fix)
    if not algorithm.get("TrainingImage"):
        yield Fault("AlgorithmSpecification.TrainingImage is empty", "name the image")
    if re.search(r"\s", str(algorithm.get("TrainingImage", ""))):
        yield Fault(f"AlgorithmSpecification.TrainingImage: {algorithm['TrainingImage']!r} holds blanks", "remove them")
    modes = {algorithm.get("TrainingInputMode", "")}
    for channel in request.get("InputDataConfig", []):
        yield from _channel(channel, channel.get("InputMode") or next(iter(modes)))
    resources = request.get("ResourceConfig", {})
    if resources.get("InstanceCount", 1) < 1:
        yield Fault(f"ResourceConfig.InstanceCount: {resources['InstanceCount']}", "1 at least")
    if resources.get("VolumeSizeInGB", 1) < 1:
        yield Fault(f"ResourceConfig.VolumeSizeInGB: {resources['VolumeSizeInGB']}", "1 at least")


def _names(request: Mapping[str, Any]) -> Iterator[Fault]:
    channels = [str(channel.get("ChannelName")) for channel in request.get("InputDataConfig", [])]
    metrics = [
        str(metric.get("Name")) for metric in request.get("AlgorithmSpecification", {}).get("MetricDefinitions", [])
    ]
    tags = [str(tag.get("Key")) for tag in request.get("Tags", [])]
    for what, names in (("channel", channels), ("metric", metrics), ("tag", tags)):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Fault(f"{what} {name!r} is given twice", "keep one")
    for name in tags:
        if name.lower().startswith("aws:"):
            yield Fault(f"tag {name!r}", "keys that begin with aws: are AWS's own")
    for key in request.get("HyperParameters", {}):
        if not key:
            yield Fault("a hyperparameter without a name", "name it")
    for key in request.get("Environment", {}):
        if not key:
            yield Fault("an environment variable without a name", "name it")


def _times(request: Mapping[str, Any]) -> Iterator[Fault]:
    stopping = request.get("StoppingCondition", {})
    longest, wait = stopping.get("MaxRuntimeInSeconds", 86400), stopping.get("MaxWaitTimeInSeconds")
    spot = request.get("EnableManagedSpotTraining", False)
    if wait is not None and not spot:
        yield Fault("MaxWaitTimeInSeconds (max_wait) is for spot training alone", "set use_spot_instances: true")
    if spot and wait is None:
        yield Fault("spot training without MaxWaitTimeInSeconds", f"set max_wait, {longest} at least")
    elif spot and wait < longest:
        yield Fault(f"MaxWaitTimeInSeconds: {wait} is less than MaxRuntimeInSeconds", f"{longest} at least")
    if spot and request.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds"):
        yield Fault("a warm pool (keep_alive_period_in_seconds) cannot be had of spot instances", "choose one of them")
    if longest > 28 * 86400:
        yield Fault(f"MaxRuntimeInSeconds: {longest}", f"28 days, {28 * 86400}, at most")


def _channel(channel: Mapping[str, Any], mode: str) -> Iterator[Fault]:
    name = channel.get("ChannelName")
    source = channel.get("DataSource", {})
    if len(source) != 1:
        yield Fault(f"channel {name}: {len(source)} data sources", "exactly one")
    bucket = source.get("S3DataSource", {})
    kind, attributes = bucket.get("S3DataType"), bucket.get("AttributeNames")
    if kind == "AugmentedManifestFile" and mode != "Pipe":
        yield Fault(f"channel {name}: an augmented manifest is read in Pipe mode alone", "set its input mode to Pipe")
    if attributes and kind != "AugmentedManifestFile":
        yield Fault(f"channel {name}: attribute names without an augmented manifest", "remove them")
    if mode == "FastFile" and kind not in (None, "S3Prefix"):
        yield Fault(f"channel {name}: FastFile mode reads an S3 prefix alone", "set its input mode to File")
    if "FileSystemDataSource" in source and mode != "File":
        yield Fault(f"channel {name}: a file system is read in File mode alone", "set its input mode to File")
