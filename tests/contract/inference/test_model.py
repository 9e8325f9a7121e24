"""The model's data, and the user's functions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from slipway.verify.endpoints import Hosted


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_model_arrives(hosted: Hosted) -> None:
    seen = hosted.seen()
    assert seen["folder"] == "/opt/ml/model", f"model_fn was given {seen['folder']}"
    wanted = files(hosted.model)
    wrong = [
        name for name in sorted(wanted.keys() | seen["files"].keys()) if wanted.get(name) != seen["files"].get(name)
    ]
    assert not wrong, f"model_fn saw other files: {', '.join(wrong)}"
    assert not seen["writable"], "the model's folder can be written, so this says nothing of a read-only one"


def test_model_functions(hosted: Hosted) -> None:
    first, second = hosted.seen(), hosted.seen()
    assert first["process"] == second["process"], "one worker was asked for, and two answered"
    calls = second["calls"]
    assert calls[0] == "model_fn" and calls.count("model_fn") == 1, (
        f"model_fn was called {calls.count('model_fn')} times"
    )
    tail = calls[-5:]
    assert tail == ["input_fn", "predict_fn", "output_fn", "input_fn", "predict_fn"], f"called were {tail}"


def test_model_types(hosted: Hosted) -> None:
    text = hosted.post(b'{"do": "see"}', "Application/JSON; charset=utf-8", "application/json")
    assert text.status == 200, text.text()
    kind = json.loads(text.body)["type"]
    assert kind == "application/json", f"of 'Application/JSON; charset=utf-8' input_fn was given {kind!r}"
    seen = hosted.seen()
    assert seen["kind"] == "str", f"JSON came as {seen['kind']}"
    assert seen["type"] == "application/json", f"the content type came as {seen['type']!r}"
    assert seen["accept"] == "application/json", f"without Accept output_fn was given {seen['accept']!r}"
    data = bytes(range(256))
    answer = hosted.post(data, "application/octet-stream")
    assert (answer.status, answer.body, answer.content_type) == (200, data, "application/octet-stream"), (
        f"{len(data)} bytes came back as {answer.status} {answer.content_type} {len(answer.body)} bytes"
    )


def test_model_context(hosted: Hosted) -> None:
    answer = hosted.post(b'{"do": "see"}', X_Amzn_SageMaker_Custom_Attributes="a=b")
    assert b'"header": "a=b"' in answer.body, "the request's headers do not reach the context"
    answer = hosted.do("head", text="c=d")
    header = answer.headers.get("x-amzn-sagemaker-custom-attributes")
    assert header == "c=d", f"a header that was set through the context came as {header!r}"
