"""The models and versions of a model folder, and which of them a request means.

Rules tf-model-*: docs/contract/tensorflow-inference.md.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SAVED_MODEL = "saved_model.pb"
KERAS = ".keras"


class ModelError(ValueError):
    """The folder holds no model that can be served, or holds two under one name. The text says what to change."""


@dataclass(frozen=True)
class Version:
    """One version of a model: a SavedModel's folder, or a Keras file."""

    number: int
    path: str

    @property
    def keras(self) -> bool:
        return self.path.endswith(KERAS)


@dataclass(frozen=True)
class Model:
    """A model, by the name of the folder that its versions lie in."""

    name: str
    base: str
    versions: tuple[Version, ...]

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def version(self, number: int | None) -> Version | None:
        """That version, the newest without a number, None where there is no such version."""
        if number is None:
            return self.newest
        return next((version for version in self.versions if version.number == number), None)


def find(model_dir: str) -> tuple[Model, ...]:
    """Every model below a folder, in the order of their paths. Raises ModelError.

    A model's version is a folder whose name is all digits and that holds ``saved_model.pb`` or one ``.keras`` file; a
    ``.keras`` file elsewhere is version 1 of a model of its own name.
    """
    found: dict[str, list[Version]] = {}
    misplaced = []
    for folder, folders, files in os.walk(model_dir):
        folders.sort()
        keras = sorted(name for name in files if name.endswith(KERAS) and not name.startswith("."))
        numbered = _is_number(os.path.basename(folder)) and folder != model_dir
        if SAVED_MODEL in files:
            # What lies inside a SavedModel is that model's own.
            folders.clear()
            if numbered:
                found.setdefault(os.path.dirname(folder), []).append(Version(int(os.path.basename(folder)), folder))
            else:
                misplaced.append(folder)
        elif numbered and len(keras) == 1:
            number = int(os.path.basename(folder))
            found.setdefault(os.path.dirname(folder), []).append(Version(number, os.path.join(folder, keras[0])))
        else:
            for name in keras:
                path = os.path.join(folder, name)
                found.setdefault(path[: -len(KERAS)], []).append(Version(1, path))
    if not found:
        raise ModelError(_nothing(model_dir, misplaced))
    models = [_model(base, versions) for base, versions in found.items()]
    _check_names(models)
    return tuple(models)


def default(models: Iterable[Model], name: str | None) -> Model:
    """The model that a request means that names none: the given one, else the first. Raises ModelError."""
    models = list(models)
    if not name:
        return models[0]
    for model in models:
        if model.name == name:
            return model
    raise ModelError(
        f"SAGEMAKER_TFS_DEFAULT_MODEL_NAME={name!r}: there is no such model. "
        f"Give one of: {', '.join(model.name for model in models)}."
    )


def by_name(models: Iterable[Model]) -> Mapping[str, Model]:
    return {model.name: model for model in models}


def _model(base: str, versions: list[Version]) -> Model:
    versions.sort(key=lambda version: version.number)
    for one, other in itertools.pairwise(versions):
        if one.number == other.number:
            raise ModelError(f"{one.path} and {other.path} are both version {one.number}. Rename one of them.")
    return Model(os.path.basename(base), base, tuple(versions))


def _check_names(models: list[Model]) -> None:
    names: dict[str, Model] = {}
    for model in models:
        other = names.setdefault(model.name, model)
        if other is not model:
            raise ModelError(f"{other.base} and {model.base} are both named {model.name!r}. Rename one of them.")


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _nothing(model_dir: str, misplaced: list[str]) -> str:
    wanted = f"Put the model below a numbered folder, as in {os.path.join(model_dir, '1', SAVED_MODEL)}."
    if misplaced:
        return f"{os.path.join(misplaced[0], SAVED_MODEL)} is in no version: its folder is no number. {wanted}"
    try:
        entries = sorted(os.listdir(model_dir))
    except OSError:
        return f"There is no model: the folder {model_dir} does not exist. {wanted}"
    held = ", ".join(entries[:20]) + (", …" if len(entries) > 20 else "")
    return f"There is no SavedModel and no {KERAS} file in {model_dir}, which holds: {held or 'nothing'}. {wanted}"
