"""An endpoint and a batch transform job of the SageMaker SDK v2 in local mode."""

from __future__ import annotations

import json
import re
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway import settings
from slipway.records import Records
from slipway.spec import load
from slipway.spec.select import Selector, select

from .clients import sdk

pytestmark = pytest.mark.integration

CODE = """\
import json
def model_fn(model_dir):
    with open(model_dir + "/factor.txt") as stream:
        return int(stream.read())
def input_fn(data, content_type):
    if content_type == "text/csv":
        return [[int(cell) for cell in line.split(",")] for line in data.splitlines()]
    return json.loads(data)["rows"]
def predict_fn(rows, factor):
    return [[factor * cell for cell in row] for row in rows]
def output_fn(rows, accept):
    if accept == "text/csv":
        return "\\n".join(",".join(map(str, row)) for row in rows)
    return json.dumps({"rows": rows, "accept": accept})
"""


@pytest.fixture(scope="module")
def client() -> Iterator[sdk.Client]:
    with sdk.client("v2") as client:
        yield client


def test_an_endpoint_answers_and_a_batch_is_transformed(client: sdk.Client, tmp_path: Path) -> None:
    (cell, *_) = select(load.load(sdk.PROJECT), Selector(framework="base", scope="inference"))
    image = Records(settings.read(project=sdk.PROJECT).state).build_of(cell.id).reference
    for name in ("source", "inputs", "output", "slipway-serving"):
        (tmp_path / name).mkdir()
    (tmp_path / "source" / "inference.py").write_text(CODE)
    (tmp_path / "factor.txt").write_text("10")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "factor.txt", "factor.txt")
    (tmp_path / "inputs" / "a.csv").write_text("1,2\n3,4\n")
    (tmp_path / "inputs" / "b.csv").write_text("5,6")
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    request = {
        "image": image,
        "port": port,
        "source": str(tmp_path / "source"),
        "model": (tmp_path / "model.tar.gz").as_uri(),
        "root": str(tmp_path / "slipway-serving"),
        "inputs": str(tmp_path / "inputs"),
        "output": str(tmp_path / "output"),
    }
    (tmp_path / "job.json").write_text(json.dumps(request))
    done = client.program([sdk.HERE / "v2_serving.py", tmp_path / "job.json"], tmp_path)
    text = done.stdout + done.stderr
    told = re.search(r"told (\{.*\})$", done.stdout, re.MULTILINE)  # behind what the container's log ends with
    assert done.code == 0 and told, text
    answer = json.loads(told[1])["answer"]
    assert answer["rows"] == [[10, 20], [30, 40]]
    assert (tmp_path / "output" / "a.csv.out").read_text() == "10,20\n30,40\n"
    assert (tmp_path / "output" / "b.csv.out").read_text() == "50,60\n"
