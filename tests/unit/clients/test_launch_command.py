"""The command `launch` on SageMaker: options that have no meaning are refused, and a job's end is the exit code."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from invoke.exceptions import Exit
from invoke.parser import Parser, ParserContext

import tasks
from slipway.clients.aws import Aws
from slipway.commands import launch
from slipway.commands.launch import Options
from slipway.errors import InputError, Interrupted, JobError, UsageError

Write = Callable[..., Path]
NAME = "job-1"


class Service:
    """What AWS would answer: one job that has ended as it is told to, and what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: dict[str, Any] = {"TrainingJobStatus": "Completed"}
        self.error: BaseException | None = None
        self.asked: list[dict[str, Any]] = []
        self.at: list[Aws] = []
        monkeypatch.setattr(Aws, "account", "123456789012")
        monkeypatch.setattr(Aws, "role", lambda aws, name: f"arn:aws:iam::{aws.account}:role/{name}")
        monkeypatch.setattr(Aws, "upload", lambda aws, file, location, key: None)
        monkeypatch.setattr(Aws, "create", lambda aws, request: self.create(request))
        monkeypatch.setattr(Aws, "describe", lambda aws, job: self.describe(aws, job))
        monkeypatch.setattr(Aws, "log_streams", lambda aws, job: [f"{job}/algo-1-17"])
        monkeypatch.setattr(Aws, "log_events", lambda aws, stream, token: self.log(token))

    def create(self, request: dict[str, Any]) -> str:
        self.asked.append(request)
        return "arn:job"

    def describe(self, aws: Aws, job: str) -> dict[str, Any]:
        self.at.append(aws)
        if self.error:
            raise self.error
        return {"TrainingJobName": job, "ModelArtifacts": {"S3ModelArtifacts": "s3://b/model.tar.gz"}, **self.told}

    def log(self, token: str) -> tuple[list[str], str]:
        return ([] if token else ["epoch 0: {'accuracy': 0.5, 'f1': 0.25}"]), "end"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    (tmp_path / "buildspec").mkdir()  # makes the folder a project
    return Service(monkeypatch)


@pytest.fixture
def script(write: Write) -> str:
    Path("src").mkdir()
    Path("src/train.py").write_text("")
    return "src/train.py"


def code(**options: Any) -> int:
    """The exit code of the command."""
    try:
        launch.launch(False, Options(**options))
    except Exit as ended:
        return int(ended.code)
    return 0


@pytest.mark.parametrize(
    ("told", "exit_code"),
    [
        ({"TrainingJobStatus": "Completed"}, 0),
        ({"TrainingJobStatus": "Failed", "FailureReason": "AlgorithmError: exit code 1"}, JobError.exit_code),
        ({"TrainingJobStatus": "Stopped", "SecondaryStatus": "MaxRuntimeExceeded"}, JobError.exit_code),
        ({"TrainingJobStatus": "Stopped"}, JobError.exit_code),
    ],
)
def test_the_end_of_a_job_is_the_exit_code(
    write: Write,
    script: str,
    service: Service,
    capfd: pytest.CaptureFixture[str],
    told: dict[str, Any],
    exit_code: int,
) -> None:
    service.told = told
    path = str(write())
    assert code(config=path, script=script) == exit_code
    (asked,) = service.asked
    out, err = capfd.readouterr()
    assert f"{asked['TrainingJobName']}: {told['TrainingJobStatus']}" in out
    assert "accuracy" in out
    assert ("ended as" in err) == bool(exit_code)
    assert told.get("FailureReason", "" if not exit_code else "no reason is given") in err
    assert code(wait=NAME, config=path) == exit_code
    out, err = capfd.readouterr()
    assert f"{NAME}: {told['TrainingJobStatus']}" in out
    assert len(service.asked) == 1


def test_a_job_that_does_not_exist_is_no_job_that_failed(write: Write, service: Service) -> None:
    service.error = InputError(f"there is no training job {NAME}")
    assert code(wait=NAME, config=str(write())) == InputError.exit_code


@pytest.mark.parametrize("config", ["config.yaml", "two words/config.yaml", ""])
def test_ctrl_c_names_commands_that_work(
    write: Write,
    service: Service,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    config: str,
) -> None:
    path = write(region="eu-west-1")
    if config:
        Path(config).parent.mkdir(exist_ok=True)
        path.rename(config)
    else:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
    service.error = KeyboardInterrupt()
    assert code(wait=NAME, config=config) == Interrupted.exit_code
    err = capfd.readouterr().err
    again, stop = err.partition("follow it: ")[2].split("; stop it: ")
    region = "--region eu-west-1" + (" --profile X" if config else "")
    assert stop.split("\n")[0] == f"aws sagemaker stop-training-job --training-job-name {NAME} {region}"
    words = shlex.split(again)
    assert words[0] == "invoke" if config else words[:2] == ["AWS_REGION=eu-west-1", "invoke"]
    task = copy.deepcopy(tasks.launch)  # asked for its arguments, a task uses up its help
    asked = Parser([ParserContext("launch", args=task.get_arguments())]).parse_argv(words[words.index("launch") :])[0]
    given = {name: argument.value for name, argument in asked.args.items()}
    assert (given["wait"], given["config"]) == (NAME, config)


@pytest.mark.parametrize(
    ("options", "changes", "what"),
    [
        ({"output": "out"}, {}, "--output is the folder of a job on this machine"),
        ({"output": "out", "dry_run": True}, {}, "--output is the folder"),
        ({"output": "out", "emit": "sdk2"}, {"ec2_instance_type": "local"}, "--output is the folder"),
        ({"official": True}, {}, "--official goes without image_uri"),
        ({"official": True, "local": True}, {"image_uri": None, "additional_args": {"image_uri": "x"}}, "--official"),
        ({"emit": "sdk2", "local": True}, {}, "--emit goes without --local"),
        ({"emit": "sdk2", "dry_run": True}, {}, "--dry-run goes without --emit"),
        ({"detach": True, "local": True}, {}, "cannot be left alone"),
        ({"detach": True}, {"ec2_instance_type": "local"}, "cannot be left alone"),
        *(
            ({"wait": NAME, "script": "", name: value}, {}, f"it goes without --{name.replace('_', '-')}")
            for name, value in (
                ("output", "out"),
                ("official", True),
                ("ours", True),
                ("emit", "sdk2"),
                ("local", True),
                ("dry_run", True),
                ("detach", True),
            )
        ),
        ({"wait": NAME}, {}, "it goes without script"),
        ({"wait": NAME, "script": "", "argv": ("--lr", "1")}, {}, "it goes without words behind `--`"),
    ],
)
def test_an_option_without_meaning_is_refused(
    write: Write,
    script: str,
    service: Service,
    capfd: pytest.CaptureFixture[str],
    options: dict[str, Any],
    changes: dict[str, Any],
    what: str,
) -> None:
    assert code(**{"config": str(write(**changes)), "script": script, **options}) == UsageError.exit_code
    err = capfd.readouterr().err
    assert what in err
    assert "next: " in err
    assert not service.asked and not service.at


def test_what_has_a_meaning_is_taken(write: Write, script: str, service: Service) -> None:
    here = str(write(ec2_instance_type="local"))
    assert code(config=here, script=script, dry_run=True, output="out") == 0
    assert code(config=str(write()), script=script, local=True, dry_run=True, output="out") == 0
    assert code(config=str(write(image_uri=None)), script=script, dry_run=True, official=True) == 0
    assert not service.asked
