"""The commands `config` and `metrics` as their tasks call them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from invoke.exceptions import Exit

from slipway.clients import accelerate
from slipway.commands import clients
from slipway.commands.options import CONFIG_KEYS
from slipway.errors import InputError, UsageError

from .conftest import METRICS

Write = Callable[..., Path]
FLAGS = {"iam_role_name": "X", "ec2_instance_type": "ml.m5.xlarge"}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "buildspec").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(check: str = "", answers: str = "", output: str = "", force: bool = False, **flags: str) -> int:
    """The exit code of `invoke config --json`."""
    try:
        clients.config(True, check, answers, output, force, {**dict.fromkeys(CONFIG_KEYS), **flags})
    except Exit as ended:
        return int(ended.code)
    return 0


def metrics(definitions: str, log: str) -> int:
    try:
        clients.metrics(True, definitions, log)
    except Exit as ended:
        return int(ended.code)
    return 0


def test_every_key_is_a_flag() -> None:
    assert set(CONFIG_KEYS) == {key.name for key in accelerate.KEYS} - {"compute_environment"}


def test_flags_become_keys_of_their_types() -> None:
    args = '{"max_run": 60}'
    assert config(**FLAGS, num_machines="2", use_cpu="yes", additional_args=args, image_uri="Mine:1") == 0
    written = yaml.safe_load(Path("sagemaker.yaml").read_text())
    assert accelerate.load(Path("sagemaker.yaml")).config.num_machines == 2
    assert {key: written[key] for key in ("num_machines", "use_cpu", "additional_args", "image_uri")} == {
        "num_machines": 2,
        "use_cpu": True,
        "additional_args": {"max_run": 60},
        "image_uri": "Mine:1",
    }
    assert written["compute_environment"] == "AMAZON_SAGEMAKER"
    assert written["distributed_type"] == "NO"


def test_flags_win_over_answers() -> None:
    Path("answers.json").write_text(json.dumps({**FLAGS, "region": "eu-west-1", "num_machines": 3}))
    assert config(answers="answers.json", output="made.json", region="us-west-2") == 0
    written = json.loads(Path("made.json").read_text())
    assert (written["region"], written["num_machines"], written["iam_role_name"]) == ("us-west-2", 3, "X")


def test_a_file_that_exists_is_kept_unless_forced(capfd: pytest.CaptureFixture[str]) -> None:
    Path("sagemaker.yaml").write_text("mine")
    assert config(**FLAGS) == UsageError.exit_code
    assert Path("sagemaker.yaml").read_text() == "mine"
    assert "--force" in capfd.readouterr().err
    assert config(force=True, **FLAGS) == 0
    assert "iam_role_name: X" in Path("sagemaker.yaml").read_text()


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({**FLAGS, "num_machines": "two"}, "--num-machines"),
        ({"iam_role_name": "X"}, "ec2_instance_type is not given"),
        ({**FLAGS, "ec2_instance_type": "ml.m5.xlage"}, "did you mean ml.m5.xlarge"),
        ({**FLAGS, "additional_args": '{"environment": {"1": "x"}}'}, "Environment: key: '1'"),
        ({**FLAGS, "additional_args": '{"use_spot_instances": true}'}, "set max_wait"),
    ],
)
def test_nothing_is_written_after_a_fault(
    flags: dict[str, str], what: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert config(**flags) == InputError.exit_code
    assert what in capfd.readouterr().err
    assert [path.name for path in project.iterdir()] == ["buildspec"]


def test_check_tells_a_program_what_it_found(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    assert config(check=str(write())) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["file"], told["faults"], told["accelerate"]["newest"]) == ("config.yaml", [], "1.9")
    assert any("the image has 2.13.0" in warning["what"] for warning in told["warnings"])
    assert config(check=str(write(additional_args={"subnets": ["s-1"]}))) == InputError.exit_code
    assert "without security_group_ids" in capfd.readouterr().err
    assert config(check="config.yaml", region="us-east-1") == UsageError.exit_code


def test_check_with_output_mends(write: Write) -> None:
    path = write()
    path.write_text(path.read_text().replace("distributed_type: DATA_PARALLEL", "distributed_type: NO"))
    assert config(check=str(path)) == InputError.exit_code
    assert config(check=str(path), output="mended.yaml") == 0
    assert accelerate.load(Path("mended.yaml")).config.distributed_type == "NO"
    assert config(check=str(path), output="mended.yaml") == UsageError.exit_code
    assert config(check=str(path), output="mended.yaml", force=True) == 0


def test_metrics_shows_what_a_log_would_give(capfd: pytest.CaptureFixture[str]) -> None:
    Path("metrics.tsv").write_text(METRICS + "loss\tloss=([0-9.]+)\nfar\t'far': ([0-9.]+)\n")
    first, second = ("epoch 0: {'accuracy': 0.5, 'f1': 0.25}", "epoch 1: {'accuracy': 0.75, 'f1': 0.5}")
    Path("log").write_bytes(f"{first}\r\n{second}\r\nloss=1\r\n{{'eval_far': 0.5}}".encode())
    assert metrics("metrics.tsv", "log") == 0
    told = json.loads(capfd.readouterr().out)
    found = {each["name"]: each for each in told["metrics"]}
    assert found["accuracy"]["first_line"] == first
    assert {name: found["accuracy"][name] for name in ("count", "last", "min", "max")} == {
        "count": 2,
        "last": 0.75,
        "min": 0.5,
        "max": 0.75,
    }
    assert found["loss"]["first_line"] == "loss=1"
    (problem,) = told["problems"]
    assert "far" in str(problem) and "eval_far" in str(problem)


def test_metrics_needs_both_files() -> None:
    assert metrics("", "log") == UsageError.exit_code
    Path("metrics.tsv").write_text(METRICS)
    assert metrics("metrics.tsv", "nowhere") == InputError.exit_code
    assert metrics("nowhere.tsv", "nowhere") == InputError.exit_code
