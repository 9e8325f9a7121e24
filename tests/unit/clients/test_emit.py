"""Programs that start the same job. Those for the SDKs are run by the integration tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from slipway.clients import config_check, emit, launch, request
from slipway.clients.launch import Prepared

Write = Callable[..., Path]


def prepared(path: Path, *argv: str) -> Prepared:
    Path("src").mkdir(exist_ok=True)
    Path("src/train.py").write_text("")
    checked = config_check.check(path)
    return launch.prepare(checked, Path("src/train.py"), argv, pushes=(), home=Path("/home/somebody"))


def test_the_program_for_boto3_sends_the_request(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared(write(), "--name", 'it\'s "quoted"\nand broken', "--flag")
    asked = request.create(launch.on_sagemaker(found, "job", None))
    sent: dict[str, Any] = {}

    class Client:
        def create_training_job(self, **given: Any) -> None:
            sent.update(given)

    monkeypatch.setattr(boto3, "client", lambda service, region_name: Client())
    exec(compile(emit.snippet("boto3", found, asked), "snippet", "exec"), {})
    assert sent == asked


@pytest.mark.parametrize("form", sorted(emit.FORMS))
def test_every_program_compiles_and_names_the_image(write: Write, form: str) -> None:
    found = prepared(write(additional_args={"max_run": 60}), "--id", "007")
    text = emit.snippet(form, found, request.create(launch.on_sagemaker(found, "job", None)))
    compile(text, form, "exec")
    assert found.image.reference in text


@pytest.mark.parametrize(
    ("distribution", "starter"),
    [
        ({"smdistributed": {"dataparallel": {"enabled": True}}}, "Torchrun()"),
        ({"pytorchddp": {"enabled": True}}, "Torchrun()"),
        (
            {"mpi": {"enabled": True, "processes_per_host": 4, "custom_mpi_options": "-x A -x B"}},
            "MPI(process_count_per_node=4, mpi_additional_options=['-x', 'A', '-x', 'B'])",
        ),
    ],
)
def test_sdk_3_starts_as_many_processes(write: Write, distribution: dict[str, Any], starter: str) -> None:
    found = prepared(write(distributed_type="NO", additional_args={"distribution": distribution}), "--flag")
    text = emit.snippet("sdk3", found, request.create(launch.on_sagemaker(found, "job", None)))
    assert f"distributed={starter}," in text
    assert f"import {starter.partition('(')[0]}\n" in text
    assert "entry_script='train.py'" in text
    assert "switches and lists do not arrive as typed" in text


def test_sdk_3_gives_one_process_its_arguments_as_typed(write: Write) -> None:
    found = prepared(write(distributed_type="NO"), "--id", "007", "--flag", "a b")
    Path("src/requirements.txt").write_text("")
    text = emit.snippet("sdk3", found, request.create(launch.on_sagemaker(found, "job", None)))
    assert (
        "command='python3', args=['train.py', '--id', '007', '--flag', 'a b'], requirements='requirements.txt'" in text
    )
    assert "distributed" not in text
    assert "# ProfilerConfig cannot be asked for" in text
