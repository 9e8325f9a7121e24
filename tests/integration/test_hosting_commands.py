"""`invoke serve` and `invoke transform` as processes of their own, with the options that a user gives them."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError

from slipway.engine.docker import Engine

from .commands import Command

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def started(*argv: str, **environment: str) -> Iterator[Command]:
    command = Command(*argv, **environment)
    try:
        yield command
    finally:
        if command.child.poll() is None:
            command.child.send_signal(signal.SIGINT)
            command.end()


def run(*argv: str, **environment: str) -> tuple[int, str, str]:
    return Command(*argv, **environment).end()


@pytest.fixture(autouse=True)
def nothing_left(engine: Engine, tmp_path: Path) -> Iterator[None]:
    Command.pids.clear()
    yield
    assert not set(Command.pids) & set(engine.runs().values()), "containers or networks were left behind"
    assert not list(tmp_path.glob("**/.host-*")), "a work folder was left behind"


@pytest.fixture
def bucket(s3: str, aws_keys: None) -> Any:
    """S3's client, and a bucket `models` with two archives and a folder of plain files."""
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="models")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("weights.bin")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    for key in ("many/a.tar.gz", "many/deep/b.tar.gz"):
        client.put_object(Bucket="models", Key=key, Body=packed.getvalue())
    client.put_object(Bucket="models", Key="plain/code/inference.py", Body=b"")
    return client


def runtime(url: str) -> Any:
    return boto3.client(
        "sagemaker-runtime", endpoint_url=url, region_name="us-east-1", config=Config(retries={"total_max_attempts": 1})
    )


def test_a_serverless_endpoint_serves_until_ctrl_c(serving_image: str, s3: str, bucket: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    argv = ["serve", "--image", serving_image, "--model", "s3://models/many/a.tar.gz", "--serverless", "--name", "mine"]
    argv += ["--port", "0", "--output", str(out), "--env", "MODE="]
    with started(*argv, AWS_ENDPOINT_URL_S3=s3) as command:
        url = command.url()
        assert requests.get(f"{url}/ping", timeout=60).status_code == 200
        seen = json.loads(runtime(url).invoke_endpoint(EndpointName="mine", Body=b"see")["Body"].read())
        assert seen["files"] == ["weights.bin"]
        assert (seen["root"], seen["temporary"]) == (False, True), "the root is read-only, /tmp is not"
        assert seen["memory"] == str(2048 << 20)
        largest = b"x" * (4 << 20)
        assert len(runtime(url).invoke_endpoint(EndpointName="mine", Body=largest)["Body"].read()) == len(largest)
        with pytest.raises(ClientError, match="4,194,305 bytes; this endpoint takes 4,194,304"):
            runtime(url).invoke_endpoint(EndpointName="mine", Body=largest + b"x")
        command.child.send_signal(signal.SIGINT)
        code, _, stderr = command.end()
    assert code == 0, stderr
    assert "healthy after" in stderr and "stopped; the container ended with 0" in stderr
    assert "Traceback" not in stderr
    assert (out / "logs" / "model.log").read_text().endswith("drained\n")
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{url}/ping", timeout=60)


def test_asynchronous_requests_are_answered_in_s3_before_it_ends(
    serving_image: str, s3: str, bucket: Any, tmp_path: Path
) -> None:
    for key in ("hold", "abc"):
        bucket.put_object(Bucket="models", Key=key, Body=key.encode())
    argv = ["serve", "--image", serving_image, "--port", "0", "--output", str(tmp_path / "out")]
    argv += ["--async-output", "s3://models/answers"]
    with started(*argv, AWS_ENDPOINT_URL_S3=s3) as command:
        url = command.url()
        ask = runtime(url).invoke_endpoint_async
        told = [ask(EndpointName="local", InputLocation=f"s3://models/{key}") for key in ("hold", "abc")]
        command.child.send_signal(signal.SIGINT)
        command.until("what waits in the queue is done first")
        requests.get(f"{url}/release", timeout=60)
        code, _, stderr = command.end()
    assert code == 0, stderr
    keys = [each["OutputLocation"].removeprefix("s3://models/") for each in told]
    assert [bucket.get_object(Bucket="models", Key=key)["Body"].read() for key in keys] == [b"held", b"ABC"]
    assert stderr.count(": s3://models/answers/") == 2


def test_one_request_to_a_model_of_many(serving_image: str, s3: str, bucket: Any, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_text("see")
    argv = ["serve", "--image", serving_image, "--models", "s3://models/many", "--send", str(body)]
    argv += ["--target", "deep/b.tar.gz", "--content-type", "text/x", "--output", str(tmp_path / "out"), "--json"]
    code, stdout, stderr = run(*argv, "--memory-mb", "300", AWS_ENDPOINT_URL_S3=s3)
    assert code == 0, stderr
    answer = json.loads(stdout)
    assert (answer["status"], answer["content_type"]) == (200, "application/json")
    seen = json.loads(answer["body"])
    assert seen["files"] == ["weights.bin"]
    assert (seen["root"], seen["memory"]) == (True, str(300 << 20)), "what nobody asked to be serverless is not"
    assert (seen["headers"]["content-type"], seen["environment"]["SAGEMAKER_MULTI_MODEL"]) == ("text/x", "true")
    assert "loaded deep/b.tar.gz" in stderr


def test_a_request_that_fails_and_a_container_that_ends(serving_image: str, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_text("fail")
    argv = ["serve", "--image", serving_image, "--output", str(tmp_path / "out")]
    code, stdout, stderr = run(*argv, "--send", str(body))
    assert (code, stdout) == (18, "")
    assert "the model answered 418: the model's own reason" in stderr
    with started(*argv, "--port", "0") as command:
        answer = requests.post(f"{command.url()}/invocations", b"die", timeout=60)
        assert answer.status_code == 502
        code, _, stderr = command.end()
    assert code == 18
    assert "ended by itself, exit code 7" in stderr


def test_what_cannot_be_served_is_said_before_anything_starts(serving_image: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, stderr = run(
        *("serve", "--image", serving_image, "--port", "any", "--memory-mb", "2g", "--env", "NOT_SET_ANYWHERE"),
        *("--source", str(tmp_path), "--target", "a", "--output", str(out)),
    )
    assert code == 4
    for part in (
        "--port takes a whole number, not 'any'",
        "--memory-mb takes a whole number, not '2g'",
        "NOT_SET_ANYWHERE has no value",
        "there is no inference.py in the source folder",
        "--target without --send",
    ):
        assert part in stderr
    code, _, stderr = run(
        *("serve", "--image", serving_image, "--async-output", "answers", "--serverless", "--models", str(tmp_path)),
        *("--async-concurrent", "1001", "--output", str(out)),
    )
    assert code == 4
    for part in ("with --serverless", "with --models", "'answers' is no place in S3", "--async-concurrent 1001"):
        assert part in stderr
    code, _, stderr = run("serve", "--image", serving_image, "--send", str(tmp_path / "none"), "--output", str(out))
    assert code == 4 and f"there is no {tmp_path / 'none'} to send" in stderr
    code, _, stderr = run(
        *("transform", "--image", serving_image, "--inputs", str(tmp_path), "--retries", "few", "--time-limit", "1h"),
        *("--max-concurrent", "all", "--output", str(out)),
    )
    assert code == 4
    assert all(f"--{name} takes a whole number" in stderr for name in ("retries", "time-limit", "max-concurrent"))
    assert not out.exists()


def test_transform_writes_its_outputs(serving_image: str, s3: str, bucket: Any, tmp_path: Path) -> None:
    inputs, out = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    (inputs / "a.csv").write_text("one,1\ntwo,2\n")
    argv = ["transform", "--image", serving_image, "--model", "s3://models/plain", "--inputs", str(inputs)]
    argv += ["--split", "Line", "--assemble", "Line", "--join", "Input", "--strategy", "SingleRecord"]
    argv += ["--content-type", "text/csv", "--max-concurrent", "2", "--output", str(out)]
    code, stdout, stderr = run(*argv, "--json", AWS_ENDPOINT_URL_S3=s3)
    assert code == 0, stderr
    assert (out / "a.csv.out").read_text() == "one,1,ONE,1\ntwo,2,TWO,2\n"
    result = json.loads(stdout)
    assert (result["status"], result["max_concurrent"]) == ("Completed", 2)
    assert result["objects"] == [{"name": "a.csv", "requests": 2, "error": "", "output": str(out / "a.csv.out")}]
    (inputs / "bad.csv").write_text("fail")
    code, stdout, stderr = run(*argv, AWS_ENDPOINT_URL_S3=s3)
    assert code == 18
    assert "bad.csv: 418 the model's own reason" in stderr and "Failed" in stdout
    assert sorted(path.name for path in out.iterdir()) == ["a.csv.out", "logs"]


def test_ctrl_c_ends_a_transform_that_waits_for_an_answer(serving_image: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("hold")
    out = tmp_path / "out"
    argv = ["transform", "--image", serving_image, "--inputs", str(tmp_path / "in"), "--output", str(out)]
    with started(*argv) as command:
        command.until("holding")
        command.child.send_signal(signal.SIGINT)
        code, stdout, stderr = command.end()
    assert (code, stdout) == (130, ""), stderr
    assert "Traceback" not in stderr
    assert [path.name for path in out.iterdir()] == ["logs"]
    assert (out / "logs" / "model.log").read_text().count("holding") == 1, "it was not asked again"
