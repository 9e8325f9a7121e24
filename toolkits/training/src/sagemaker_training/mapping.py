"""Values as environment variables and as command-line arguments."""

from __future__ import annotations

import collections
import collections.abc
import functools
import json
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from sagemaker_training import params, settings

SplitResultSpec = collections.namedtuple("SplitResultSpec", "included excluded")

_NOT_PORTABLE = re.compile(r"[^A-Z0-9_]")


def to_env_vars(mapping: Mapping[str, Any]) -> Dict[str, str]:
    """``SM_*`` variables of a mapping.

    ``hyperparameters`` and ``channel_input_dirs`` go by their historical names, and each of their
    entries has a variable of its own. A name that no shell can read (``SM_HP_BATCH-SIZE``) gets
    an alias with underscores, unless that name belongs to another value.
    """
    variables = {}
    for key, value in mapping.items():
        if key == "hyperparameters":
            variables["SM_HPS"] = encode(value)
            variables.update(_each("SM_HP_", value))
        elif key == "channel_input_dirs":
            variables["SM_CHANNELS"] = encode(sorted(value))
            variables.update(_each("SM_CHANNEL_", value))
        else:
            variables["SM_" + str(key).upper()] = encode(value)
    return with_aliases(variables)


def _each(prefix: str, mapping: Mapping[str, Any]) -> Dict[str, str]:
    return {prefix + str(key).upper(): encode(value) for key, value in mapping.items()}


def with_aliases(variables: Mapping[str, str]) -> Dict[str, str]:
    """The variables, and those that a shell cannot name once more under a name that it can."""
    aliases: Dict[str, str] = {}
    for name, value in variables.items():
        alias = _NOT_PORTABLE.sub("_", name)
        if alias not in variables:
            aliases.setdefault(alias, value)
    return {**variables, **aliases}


def encode(value: Any) -> str:
    """A value as the text of an environment variable: strings as they are, the rest as compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value)
    return str(value)


def to_cmd_args(mapping: Mapping[str, Any]) -> List[str]:
    """Options of a mapping: sorted by code point, ``-k`` or ``--key``, each with exactly one value."""
    as_json = settings.json_arguments()
    arguments = []
    for key in sorted(mapping):
        arguments.append(("-" if len(key) == 1 else "--") + key)
        arguments.append(_argument(mapping[key], as_json))
    return arguments


def _argument(value: Any, as_json: bool) -> str:
    if value is None:
        return ""
    if as_json and isinstance(value, (list, dict)):
        return encode(value)
    if isinstance(value, collections.abc.Mapping):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def split_by_criteria(
    dictionary: Mapping[str, Any], keys: Iterable[str] = (), prefix: Optional[str] = None
) -> SplitResultSpec:
    """The entries with one of the keys or with the prefix, and the others."""
    wanted = set(keys or ())
    included: Dict[str, Any] = {}
    excluded: Dict[str, Any] = {}
    for key, value in dictionary.items():
        matches = key in wanted or (prefix is not None and key.startswith(prefix))
        (included if matches else excluded)[key] = value
    return SplitResultSpec(included=included, excluded=excluded)


def split_hyperparameters(hyperparameters: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]:
    """The user's, the known reserved ones, and the other ``sagemaker_*`` ones."""
    reserved, user = split_by_criteria(
        hyperparameters,
        keys=params.SAGEMAKER_HYPERPARAMETERS,
        prefix=params.SAGEMAKER_PREFIX,
    )
    known, framework = split_by_criteria(reserved, keys=params.SAGEMAKER_HYPERPARAMETERS)
    return user, known, framework


@functools.cache
def _properties(cls: type) -> Tuple[str, ...]:
    return tuple(sorted(name for name in dir(cls) if isinstance(getattr(cls, name, None), property)))


class MappingMixin(collections.abc.Mapping):  # type: ignore[type-arg]
    """An object whose properties read as a mapping."""

    def properties(self) -> List[str]:
        return list(_properties(type(self)))

    def __getitem__(self, key: str) -> Any:
        if key not in _properties(type(self)):
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(_properties(type(self)))

    def __len__(self) -> int:
        return len(_properties(type(self)))

    def __str__(self) -> str:
        return str(dict(self))

    # Two environments are equal when they are the same one: comparing forty properties, some
    # of them probes of the hardware, is nobody's wish.
    __hash__ = object.__hash__
    __eq__ = object.__eq__
