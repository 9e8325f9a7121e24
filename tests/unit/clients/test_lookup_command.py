"""The command `image-uri`: what each form prints, for training and for inference."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml
from invoke.exceptions import Exit

from slipway.clients import accelerate
from slipway.clients import lookup as records
from slipway.commands import lookup
from slipway.errors import UsageError
from slipway.records import Push

from .conftest import pushed

LIBRARY = "2.13.0-transformers5.24.0"


def of(framework: str, scope: str, version: str = "2.13.0") -> Push:
    made = pushed(version)
    repository = f"{framework}-{scope}"
    return pushed(
        version,
        framework=framework,
        scope=scope,
        repository=repository,
        uri=made.uri.replace(made.repository, repository),
    )


@pytest.fixture(autouse=True)
def pushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Push]:
    (tmp_path / "buildspec").mkdir()
    monkeypatch.chdir(tmp_path)
    every = [
        of(framework, scope, version)
        for framework, version in (("pytorch", "2.13.0"), ("huggingface-pytorch", LIBRARY), ("tensorflow", "2.20.0"))
        for scope in ("training", "inference")
    ]
    monkeypatch.setattr(records, "known", lambda settings: every)
    return every


def printed(capfd: pytest.CaptureFixture[str], **options: Any) -> str:
    lookup.image_uri(False, lookup.Options(**options))
    return capfd.readouterr().out


def called(program: str) -> tuple[str, set[str]]:
    """The class that a program makes its object with, which it imports, and the names of the arguments."""
    tree = ast.parse(program)
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    (call,) = (node.value for node in tree.body if isinstance(node, ast.Assign))
    assert isinstance(call, ast.Call)
    name = ast.unparse(call.func)
    assert name.partition(".")[0] in imported
    return name, {str(word.arg) for word in call.keywords}


@pytest.mark.parametrize(
    ("framework", "scope", "form", "name", "argument"),
    [
        ("pytorch", "training", "sdk2", "Estimator", "instance_count"),
        ("pytorch", "training", "sdk3", "ModelTrainer", "training_image"),
        ("pytorch", "inference", "sdk2", "PyTorchModel", "model_data"),
        ("tensorflow", "inference", "sdk2", "Model", "model_data"),
        ("huggingface-pytorch", "inference", "sdk2", "Model", "model_data"),
        ("pytorch", "inference", "sdk3", "Model.create", "primary_container"),
        ("tensorflow", "inference", "sdk3", "Model.create", "primary_container"),
    ],
)
def test_a_program_makes_what_the_image_is_for(
    capfd: pytest.CaptureFixture[str], framework: str, scope: str, form: str, name: str, argument: str
) -> None:
    program = printed(capfd, framework=framework, scope=scope, format=form)
    kind, arguments = called(program)
    assert kind == name
    assert argument in arguments
    assert f"/{framework}-{scope}:" in program
    assert printed(capfd, framework=framework, job=scope, format=form) == program


def test_accelerate_gets_lines_of_a_configuration(capfd: pytest.CaptureFixture[str]) -> None:
    told = yaml.safe_load(printed(capfd, framework="huggingface-pytorch", format="accelerate"))
    assert set(told) <= set(accelerate.BY_NAME)
    assert (told["pytorch_version"], told["transformers_version"]) == ("2.13.0", "5.24.0")
    assert told["py_version"] == "py311"
    assert "/huggingface-pytorch-training:" in told["image_uri"]
    plain = yaml.safe_load(printed(capfd, framework="pytorch", format="accelerate"))
    assert set(plain) == {"image_uri", "pytorch_version", "py_version"}


def test_accelerate_launches_no_inference(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as ended:
        printed(capfd, framework="pytorch", scope="inference", format="accelerate")
    assert ended.value.code == UsageError.exit_code
    assert "--format accelerate goes without --scope inference" in capfd.readouterr().err
