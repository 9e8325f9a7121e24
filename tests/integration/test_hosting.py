"""An endpoint and a batch transform on the real engine, from the side of their clients: curl's and boto3's."""

from __future__ import annotations

import contextlib
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from slipway.emulator.exchange import Request
from slipway.emulator.hosting import Served, Serving, host, hosted
from slipway.emulator.multi_model import MultiModel
from slipway.emulator.runtime import Endpoint, RuntimeServer
from slipway.emulator.transform import TransformJob, run_transform
from slipway.engine.docker import Engine
from slipway.errors import EndpointError, InputError

pytestmark = pytest.mark.integration


@pytest.fixture
def image(serving_image: str) -> str:
    return serving_image


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model archive: weights and user code."""
    folder = tmp_path / "weights"
    (folder / "code").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"\0" * 1000)
    (folder / "code" / "inference.py").write_text("")
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)
    return archive


@contextlib.contextmanager
def client(endpoint: Endpoint) -> Iterator[Any]:
    """boto3's client of the runtime API."""
    server = RuntimeServer(endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield boto3.client(
            "sagemaker-runtime",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"total_max_attempts": 1}),
        )
    finally:
        server.shutdown()
        server.server_close()


def test_an_endpoint_as_boto3_sees_it(engine: Engine, image: str, model: Path, tmp_path: Path) -> None:
    before = set(engine.runs())
    out = tmp_path / "out"
    source = tmp_path / "source"
    source.mkdir()
    (source / "inference.py").write_text("# mine")
    served = Served(image=image, model=str(model), source=source, environment={"MINE": "1"})
    with hosted(served, engine, out) as serving, client(Endpoint("e", (serving,))) as runtime:
        assert set(engine.runs()) > before
        found = runtime.invoke_endpoint(
            EndpointName="e", Body=b"see", ContentType="text/csv; header=no", Accept="application/json",
            CustomAttributes="a=b", InferenceId="i-1",
        )  # fmt: skip
        assert found["InvokedProductionVariant"] == "AllTraffic"
        seen = json.loads(found["Body"].read())
        assert seen["files"] == ["code/inference.py", "weights.bin"]
        assert seen["headers"]["content-type"] == "text/csv; header=no"
        assert seen["headers"]["x-amzn-sagemaker-custom-attributes"] == "a=b"
        assert seen["headers"]["x-amzn-sagemaker-inference-id"] == "i-1"
        assert "authorization" not in seen["headers"]
        assert seen["environment"] == {
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_REGION": "us-east-1",
            "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
        }
        assert not seen["writable"]
        with pytest.raises(ClientError) as failed:
            runtime.invoke_endpoint(EndpointName="e", Body=b"fail")
        told = failed.value.response
        assert told["Error"]["Code"] == "ModelError"
        assert told["ResponseMetadata"]["HTTPStatusCode"] == 424
        assert (told["OriginalStatusCode"], told["OriginalMessage"]) == (418, "the model's own reason")
        with pytest.raises(ClientError, match="not found"):
            runtime.invoke_endpoint(EndpointName="other", Body=b"x")
        with pytest.raises(ClientError, match="26,214,401 bytes"):
            runtime.invoke_endpoint(EndpointName="e", Body=b"x" * (25 * 2**20 + 1))
        streamed = runtime.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"stream", CustomAttributes="a")
        assert b"".join(part["PayloadPart"]["Bytes"] for part in streamed["Body"]) == b"one two three"
        assert streamed["CustomAttributes"] == "told back"
        broken = runtime.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"break")["Body"]
        with pytest.raises(EventStreamError, match="ModelStreamError"):
            list(broken)
        with pytest.raises(ClientError, match="26,214,401 bytes"):
            runtime.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"x" * (25 * 2**20 + 1))
        assert serving.stop().code == 0
    assert (out / "logs" / "model.log").read_text().endswith("drained\n")
    assert not set(engine.runs()) - before
    assert sorted(path.name for path in out.iterdir()) == ["logs"]


def test_a_container_that_does_not_become_healthy_says_why(engine: Engine, image: str, tmp_path: Path) -> None:
    with (
        pytest.raises(EndpointError, match=r"exit code 3[\s\S]*the weights are bad"),
        hosted(Served(image=image, environment={"MODE": "dies"}), engine, tmp_path),
    ):
        pass
    served = Served(image=image, environment={"MODE": "never"}, start_limit=3.0)
    with (
        pytest.raises(EndpointError, match="not healthy within 3 s: /ping answered 503 not yet"),
        hosted(served, engine, tmp_path),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_a_container_that_dies_or_does_not_stop(engine: Engine, image: str, tmp_path: Path) -> None:
    with hosted(Served(image=image), engine, tmp_path / "a") as serving:
        with pytest.raises(EndpointError, match="exit code 7"):
            serving.call(Request("POST", "/invocations", b"die"))
        assert serving.stop().code == 7
    served = Served(image=image, environment={"MODE": "stubborn"}, stop_grace=1.0)
    with hosted(served, engine, tmp_path / "b") as serving:
        assert serving.stop().code == 137


def test_a_pipeline_hands_the_answer_on(engine: Engine, image: str, tmp_path: Path) -> None:
    with host(engine, tmp_path) as machine:
        chain: list[Serving] = []
        for number in range(2):
            served = Served(image=image, name=f"c{number}", port=8080 + number)
            chain.append(machine.start(served))
        for serving in chain:
            serving.wait_until_healthy()
        answer = Endpoint("p", tuple(chain)).invoke(b"abc", {"content-type": "text/csv", "accept": "text/x"})
        assert (answer.body, answer.content_type) == (b"ABC", "text/x")
        with client(Endpoint("p", tuple(chain))) as runtime:
            ask = runtime.invoke_endpoint_with_response_stream
            found = ask(EndpointName="p", Body=b"abc", Accept="text/x")
            assert b"".join(part["PayloadPart"]["Bytes"] for part in found["Body"]) == b"ABC"
            assert found["ContentType"] == "text/x"
            with pytest.raises(ClientError, match="own reason"):
                ask(EndpointName="p", Body=b"fail")
        # All three reached the first, and what failed there went no further.
        assert [serving.log.read_text().count("POST /invocations") for serving in chain] == [3, 2]


def test_many_models_take_turns(engine: Engine, image: str, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "models"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / f"{name}.tar.gz").write_bytes(model.read_bytes())
    events: list[str] = []
    with host(engine, tmp_path / "out") as machine:
        folder = machine.work / "models"
        folder.mkdir(mode=0o755)
        serving = machine.start(Served(image=image, models=folder))
        serving.wait_until_healthy()
        models = MultiModel(serving, str(source), folder, on_event=events.append)
        with client(Endpoint("m", (serving,), models)) as runtime:

            def ask(target: str) -> dict[str, Any]:
                answer = runtime.invoke_endpoint(EndpointName="m", Body=b"see", TargetModel=target)
                seen: dict[str, Any] = json.loads(answer["Body"].read())
                return seen

            assert ask("a.tar.gz")["files"] == ["code/inference.py", "weights.bin"]
            seen = ask("b.tar.gz")
            assert seen["environment"]["SAGEMAKER_MULTI_MODEL"] == "true"
            assert seen["headers"]["x-amzn-sagemaker-target-model"] == "b.tar.gz"
            ask("a.tar.gz")
            ask("c.tar.gz")  # no room: the one that was not used for longest goes
            assert models.loaded() == ["a.tar.gz", "c.tar.gz"]
            assert events == ["loaded a.tar.gz", "loaded b.tar.gz", "unloaded b.tar.gz", "loaded c.tar.gz"]
            assert len(list(folder.iterdir())) == 2
            with pytest.raises(ClientError, match="there is no model at"):
                ask("d.tar.gz")
            with pytest.raises(ClientError, match="no path below"):
                ask("../weights")
            with pytest.raises(ClientError, match="needs TargetModel"):
                runtime.invoke_endpoint(EndpointName="m", Body=b"x")
            with pytest.raises(ClientError, match="has no TargetModel"):
                runtime.invoke_endpoint_with_response_stream(EndpointName="m", Body=b"x")


def test_a_transform_job(engine: Engine, image: str, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    (inputs / "deep").mkdir(parents=True)
    (inputs / "a.csv").write_text("".join(f"row,{number}\n" for number in range(5)))
    (inputs / "deep" / "b.csv").write_text("last,line")
    (inputs / "bad.csv").write_text("fail")
    served = Served(image=image, environment={"MODE": "flaky", "OFFER": '{"MaxConcurrentTransforms": 2}'})
    job = TransformJob(
        served=served, inputs=str(inputs), content_type="text/csv", split="Line", assemble="Line", join="Input",
        strategy="SingleRecord", accept="text/csv",
    )  # fmt: skip
    result = run_transform(job, engine, tmp_path / "out")
    assert result.status == "Failed"
    assert result.failure_reason == "ClientError: bad.csv: 418 the model's own reason"
    assert (result.max_concurrent, result.max_payload_mb, result.strategy) == (2, 6, "SingleRecord")
    assert [(each.name, each.requests) for each in result.objects] == [("a.csv", 5), ("bad.csv", 1), ("deep/b.csv", 1)]
    assert (tmp_path / "out" / "a.csv.out").read_text() == "".join(f"row,{n},ROW,{n}\n" for n in range(5))
    assert (tmp_path / "out" / "deep" / "b.csv.out").read_text() == "last,line,LAST,LINE\n"
    assert not (tmp_path / "out" / "bad.csv.out").exists()
    log = result.log.read_text()
    assert log.count("POST /invocations") == 2 * 7
    assert log.endswith("drained\n")


def test_a_transform_job_that_the_service_would_not_take(engine: Engine, image: str, tmp_path: Path) -> None:
    job = TransformJob(
        served=Served(image=image), inputs=str(tmp_path), split="Rows", strategy="MultiRecord", join="Input",
        max_payload_mb=60, max_concurrent=2, retries=4, timeout=0,
    )  # fmt: skip
    with pytest.raises(InputError) as refused:
        run_transform(job, engine, tmp_path / "out")
    text = str(refused.value)
    for part in ("split type 'Rows'", "joined only", "over 100", "4 retries", "0 s for a request"):
        assert part in text
    assert not (tmp_path / "out").exists()
