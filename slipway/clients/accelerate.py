"""Accelerate's configuration file for SageMaker: its keys, read with every fault named, and written.

The keys, their defaults and the versions that know them are those of accelerate 0.5 to 1.15 (`SageMakerConfig` and
`BaseConfig` in accelerate/commands/config/config_args.py). What a key does to a job stands in docs/accelerate.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.errors import Fault, InputError, SpecError, nearest

if TYPE_CHECKING:
    from slipway.documents import Document

ENVIRONMENT = "AMAZON_SAGEMAKER"
DISTRIBUTED = ("NO", "DATA_PARALLEL", "MODEL_PARALLEL")
PRECISIONS = ("no", "fp16", "bf16", "fp8")
LOCAL = ("local", "local_gpu")
"""What ec2_instance_type may name instead of an instance: this machine."""


@dataclass(frozen=True)
class Key:
    """One key of the file. `kind`: text, whole, flag or mapping; `since`: the first accelerate that knows it."""

    name: str
    kind: str
    about: str
    since: str
    choices: tuple[str, ...] = ()
    required: bool = False


KEYS: tuple[Key, ...] = (
    Key("compute_environment", "text", "always AMAZON_SAGEMAKER", "0.1", (ENVIRONMENT,), True),
    Key("distributed_type", "text", "how the hosts train together", "0.1", DISTRIBUTED, True),
    Key("ec2_instance_type", "text", "ml.…, or local / local_gpu for this machine", "0.5", (), True),
    Key("iam_role_name", "text", "execution role: a name or an ARN", "0.5", (), True),
    Key("image_uri", "text", "the image; empty: the newest that fits", "0.11"),
    Key("profile", "text", "AWS profile", "0.5"),
    Key("region", "text", "AWS region", "0.5"),
    Key("num_machines", "whole", "number of instances", "0.5"),
    Key("base_job_name", "text", "begin of every job's name", "0.5"),
    Key("pytorch_version", "text", "picks the image where image_uri is empty", "0.5"),
    Key("transformers_version", "text", "picks the image where image_uri is empty", "0.5"),
    Key("py_version", "text", "picks the image where image_uri is empty", "0.11"),
    Key("sagemaker_inputs_file", "text", "TSV file of input channels", "0.11"),
    Key("sagemaker_metrics_file", "text", "TSV file of metric definitions", "0.11"),
    Key("additional_args", "mapping", "arguments of the estimator, over all others", "0.17"),
    Key("dynamo_config", "mapping", "written by the questionnaire; does not reach the job", "0.17"),
    Key("mixed_precision", "text", "number format of the training", "0.10", PRECISIONS),
    Key("use_cpu", "flag", "does not reach the job", "0.10"),
    Key("debug", "flag", "does not reach the job", "0.22"),
    Key("enable_cpu_affinity", "flag", "does not reach the job", "0.31"),
    Key("gpu_ids", "text", "does not reach the job", "0.14"),
)
BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}

# Keys of older writers, which every accelerate since converts when it loads the file.
FORMER = {"fp16": "mixed_precision", "dynamo_backend": "dynamo_config"}
# Keys of accelerate's other kind of config, for a cluster of one's own.
_CLUSTER = """
    commands command_file deepspeed_config downcast_bf16 fp8_config fsdp_config machine_rank main_process_ip
    main_process_port main_training_function megatron_lm_config mpirun_config num_processes parallelism_config
    rdzv_backend same_network tpu_env tpu_name tpu_use_cluster tpu_use_sudo tpu_vm tpu_zone
"""
_VERSIONS = ("pytorch_version", "transformers_version", "py_version")
_YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_PLAIN = {"text": "text", "whole": "a whole number", "flag": "true or false", "mapping": "a mapping"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """A configuration. Defaults are accelerate's; a key that is empty or null in the file has its default here.

    `given` names the keys that the file holds with a value of its own. Paths of TSV files are as written: relative to
    the folder where the command runs, as for accelerate.
    """

    compute_environment: str = ENVIRONMENT
    distributed_type: str = "NO"
    ec2_instance_type: str = ""
    iam_role_name: str = ""
    image_uri: str | None = None
    profile: str | None = None
    region: str = "us-east-1"
    num_machines: int = 1
    base_job_name: str = "accelerate-sagemaker-1"
    pytorch_version: str = "1.10.2"
    transformers_version: str = "4.17.0"
    py_version: str = "py38"
    sagemaker_inputs_file: str | None = None
    sagemaker_metrics_file: str | None = None
    additional_args: Mapping[str, Any] = field(default_factory=dict)
    dynamo_config: Mapping[str, Any] = field(default_factory=dict)
    mixed_precision: str = "no"
    use_cpu: bool = False
    debug: bool = False
    enable_cpu_affinity: bool = False
    gpu_ids: str = "all"
    given: frozenset[str] = frozenset()

    @property
    def local(self) -> bool:
        """Whether the file itself asks for this machine instead of SageMaker."""
        return self.ec2_instance_type in LOCAL

    @property
    def versions_are_chosen(self) -> bool:
        """Whether the three versions are someone's choice.

        Accelerate writes 1.10.2, 4.17.0 and py38 into every file and never asks for them.
        """
        return (self.pytorch_version, self.transformers_version, self.py_version) != ("1.10.2", "4.17.0", "py38")


_DEFAULTS = Config()


@dataclass(frozen=True)
class ConfigFile:
    """A file as read: its configuration, its faults, and where each key stands."""

    name: str
    config: Config
    faults: tuple[Fault, ...]
    document: Document

    def fault(self, key: str, what: str, fix: str = "") -> Fault:
        """A fault of one key's value, at its line."""
        return self.document.fault((key,), what, fix)


def read(path: Path) -> ConfigFile:
    """Read a configuration (JSON by the suffix .json, else YAML). Raises InputError when it cannot be parsed."""
    from slipway import documents

    try:
        return parse(path, documents.read_text(path, str(path)))
    except SpecError as error:
        raise InputError(error.message, fix=error.fix, faults=error.faults) from None


def parse(path: Path, content: str) -> ConfigFile:
    """A configuration from the text that `path` holds or will hold. Raises InputError when it cannot be parsed."""
    document, data = _parse(path, content)
    if not isinstance(data, dict):
        fault = document.fault((), "not a configuration", "write lines of the form `key: value`")
        raise InputError(f"{path} has faults", faults=[fault])
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for name, given in data.items():
        if name in FORMER:
            _convert_former(name, given, data, values, document, faults)
        elif name not in BY_NAME:
            faults.append(_unknown(name, document, data))
        elif given is not None and given != "":
            value = _value(BY_NAME[name], given, document, faults)
            if value is not None:
                values[name] = value
    for key in KEYS:
        if key.required and data.get(key.name) in (None, ""):
            faults.append(document.fault((), f"{key.name} is missing", f"add `{key.name}:` ({key.about})"))
    faults.sort(key=lambda fault: fault.line or 0)
    return ConfigFile(str(path), Config(**values, given=frozenset(values)), tuple(faults), document)


def load(path: Path) -> ConfigFile:
    """Read a configuration that must be without fault. Raises InputError with every fault of the file itself."""
    found = read(path)
    if found.faults:
        fix = f"`invoke config --check {path}` shows the faults of its TSV files as well"
        raise InputError(f"{path} has faults", faults=found.faults, fix=fix)
    return found


def text(config: Config, suffix: str) -> str:
    """The file's text: JSON for the suffix `.json`, else YAML, keys sorted, as accelerate writes it.

    image_uri is always there, null for "the newest that fits": accelerate 0.11 to 0.13 stop at a file without it.
    """
    data: dict[str, Any] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if each.name in _VERSIONS and each.name not in config.given:
            continue  # accelerate's defaults name an image of 2022; here they would look like someone's choice
        if each.name in BY_NAME and (each.name == "image_uri" or value not in (None, {})):
            data[each.name] = dict(value) if isinstance(value, Mapping) else value
    return dump(data, suffix)


def dump(data: Mapping[str, Any], suffix: str) -> str:
    """Keys and values as a file's text."""
    if suffix == ".json":
        return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    import yaml

    return yaml.safe_dump(dict(data), allow_unicode=True)


def read_by(config: Config) -> tuple[str, str]:
    """The oldest accelerate that knows every key that `text` writes, and the newest that can launch the file.

    Accelerate 0.34 and newer add a key to files with `NO` which they then refuse; 1.10 and newer read a key of every
    file that configurations for SageMaker do not have.
    """
    written = [key.since for key in KEYS if key.name in config.given] or ["0.11"]
    oldest = max(written, key=lambda version: tuple(int(part) for part in version.split(".")))
    return oldest, "0.33" if config.distributed_type == "NO" else "1.9"


def _parse(path: Path, content: str) -> tuple[Document, Any]:
    from slipway import documents

    try:
        if path.suffix != ".json":
            document = documents.Document(str(path), content)
            return document, document.data
        # JSON is YAML but for tabs between its tokens; the document only tells on which line a key stands.
        data = json.loads(content, parse_constant=_no_number)
        return documents.Document(str(path), content.replace("\t", " ")), data
    except json.JSONDecodeError as error:
        fault = Fault(f"not valid JSON: {error.msg}", "mend it, or name the file .yaml", str(path), error.lineno)
        raise InputError(f"{path} cannot be read", faults=[fault]) from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except SpecError as error:
        raise InputError(error.message, fix=error.fix, faults=error.faults) from None


def _no_number(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _unknown(name: str, document: Document, data: Mapping[str, Any]) -> Fault:
    what = f"unknown key {name!r}: accelerate stops at it"
    if name in _CLUSTER.split():
        why = "a key of accelerate's configurations for one's own cluster; remove it"
        if name == "num_processes":
            why += " (a job has as many processes as its instances have GPUs)"
        return document.fault((name,), what, why)
    left = [key.name for key in KEYS if key.name not in data]
    fix = nearest(str(name), left or BY_NAME)
    close = [key for key in KEYS if f"did you mean {key.name}?" == fix]
    if close:
        fix += f" (accelerate {close[0].since} and newer know that one)"
    return document.fault((name,), what, fix)


def _convert_former(
    name: str, given: Any, data: Mapping[str, Any], values: dict[str, Any], document: Document, faults: list[Fault]
) -> None:
    """Keys of accelerate before 0.10 (fp16) and of 0.15 and 0.16 (dynamo_backend), converted as accelerate does."""
    if name == "fp16":
        if not isinstance(given, bool):
            faults.append(document.fault((name,), f"fp16: {given!r} is not true or false", "write mixed_precision"))
        elif data.get("mixed_precision") is None:
            values["mixed_precision"] = "fp16" if given else "no"
    elif not isinstance(given, str):
        fix = "put it in quotes, 'NO': YAML reads it as false" if given is False else "write a backend's name"
        faults.append(document.fault((name,), f"dynamo_backend: {given!r} is not text", fix))
    elif given != "NO":
        values["dynamo_config"] = {"dynamo_backend": given}


def _value(key: Key, given: Any, document: Document, faults: list[Fault]) -> Any:
    """A key's value, or None after a fault."""
    objection = _objection(key, given)
    if not objection:
        return given
    faults.append(document.fault((key.name,), f"{key.name}: {objection[0]}", objection[1]))
    return None


def _objection(key: Key, given: Any) -> tuple[str, str] | None:
    """What is wrong with a value, and how to mend it; None when it fits."""
    no = next((choice for choice in key.choices if choice.lower() == "no"), "")
    if given is False and no:
        return "YAML reads NO without quotes as false", f"write '{no}' in quotes"
    if not _is(key.kind, given):
        if key.kind == "text" and isinstance(given, (int, float)) and not isinstance(given, bool):
            return f"{given!r} is a number, not text", "put it in quotes"
        mapping = "write lines of the form `key: value` below it"
        return f"{given!r} is not {_PLAIN[key.kind]}", mapping if key.kind == "mapping" else f"write {_PLAIN[key.kind]}"
    if key.choices and given not in key.choices:
        same = [choice for choice in key.choices if choice.lower() == given.lower()]
        return f"{given!r} is not known", f"write {same[0]!r}" if same else nearest(given, key.choices)
    if key.kind == "text" and given != given.strip():
        return f"blanks around {given!r}", "remove them"
    if key.name == "num_machines" and given < 1:
        return f"{given} machines", "give 1 or more"
    if key.kind == "mapping" and not _plain(given):
        return "it holds what no request can carry (a date, nan or the like)", "put that in quotes"
    return None


def _is(kind: str, value: Any) -> bool:
    kinds: Mapping[str, type] = {"text": str, "whole": int, "flag": bool, "mapping": dict}
    return isinstance(value, kinds[kind]) and (kind == "flag" or not isinstance(value, bool))


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _plain(item) for name, item in value.items())
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, int, bool))


def from_text(name: str, text: str) -> Any:
    """A key's value from what a person wrote; None for nothing. Raises InputError for a value that does not fit."""
    key, text = BY_NAME[name], text.strip()
    given: Any = text
    if not text:
        return None
    if key.kind == "whole" and text.lstrip("-").isdecimal():
        given = int(text)
    elif key.kind == "flag" and text.lower() in _YES:
        given = _YES[text.lower()]
    elif key.kind == "mapping":
        try:
            given = json.loads(text, parse_constant=_no_number)
        except ValueError as error:
            raise InputError(f"{name}: not JSON: {error}", fix='write {"max_run": 3600}, say') from None
    objection = _objection(key, given)
    if objection:
        raise InputError(f"{name}: {objection[0]}", fix=objection[1])
    return given


def default(name: str) -> Any:
    """A key's default value; empty where it has none."""
    return getattr(_DEFAULTS, name)
