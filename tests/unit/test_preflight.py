"""A pulled base is looked at before a build begins: there, not logged in, not existing, not answering."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway import preflight
from slipway.base import Pulled
from slipway.errors import AuthError, NotFoundError, RegistryError, SlipwayError

DIGEST = "sha256:" + "0" * 64
ECR = f"123456789012.dkr.ecr.eu-west-1.amazonaws.com/python@{DIGEST}"


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ("ERROR: unexpected status from HEAD request: 401 Unauthorized", AuthError),
        ("ERROR: failed to authorize: authorization failed: no basic auth credentials", AuthError),
        ("pull access denied, repository does not exist or may require authorization", AuthError),
        (f"ERROR: registry.example/python@{DIGEST}: not found", NotFoundError),
        ("ERROR: manifest unknown", NotFoundError),
        ("ERROR: dial tcp: lookup registry.example: no such host", RegistryError),
        ("", RegistryError),
    ],
)
def test_the_registrys_answer_is_told_apart(told: str, error: type[SlipwayError]) -> None:
    assert type(preflight.refusal(f"registry.example/python@{DIGEST}", told)) is error


def test_the_next_step_is_the_login_command() -> None:
    assert "docker login registry.example:5000" in preflight.refusal(f"registry.example:5000/x@{DIGEST}", "401").fix


def test_for_ecr_the_region_is_named() -> None:
    refused = preflight.refusal(ECR, "403 Forbidden")
    assert "aws ecr get-login-password --region eu-west-1" in refused.fix
    assert "region eu-west-1" in preflight.refusal(ECR, "not found").message


@pytest.mark.parametrize(
    ("reference", "host"),
    [
        ("python", "docker.io"),
        ("team/python", "docker.io"),
        ("localhost/python", "localhost"),
        ("localhost:5000/python", "localhost:5000"),
        ("registry.example/python", "registry.example"),
    ],
)
def test_the_registry_is_the_one_docker_would_ask(reference: str, host: str) -> None:
    assert preflight.registry_host(reference) == host


def docker(folder: Path, *, inspect: int, imagetools: int, told: str) -> None:
    program = folder / "docker"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = image ]; then exit {inspect}; fi\necho "{told}" >&2\nexit {imagetools}\n'
    )
    program.chmod(0o755)


def test_an_image_of_the_engine_needs_no_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker(tmp_path, inspect=0, imagetools=1, told="401")
    monkeypatch.setenv("PATH", str(tmp_path))
    preflight.pulled_base(Pulled(f"python@{DIGEST}"))


def test_a_refused_image_stops_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker(tmp_path, inspect=1, imagetools=1, told="ERROR: 401 Unauthorized")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AuthError, match="not logged in"):
        preflight.pulled_base(Pulled(f"python@{DIGEST}"))
