"""The REST forms of TensorFlow Serving, answered for a SavedModel without user code."""

from __future__ import annotations

import json

from slipway.verify.endpoints import Hosted


def test_rest_predict(bare_hosted: Hosted) -> None:
    wrong = []
    for body, wanted in (
        (b'{"instances": [[1, 2], [3, 4]]}', {"predictions": [[2.0, 4.0], [6.0, 8.0]]}),
        (b'{"inputs": [[1, 2]]}', {"outputs": [[2.0, 4.0]]}),
        (b"[[1, 2]]", {"predictions": [[2.0, 4.0]]}),
    ):
        answer = bare_hosted.post(body)
        if answer.status != 200 or json.loads(answer.body) != wanted:
            wrong.append(f"{body!r} is answered with {answer.status} {answer.text()}")
    assert not wrong, "\n".join(wrong)


def test_rest_lines(bare_hosted: Hosted) -> None:
    wrong = []
    for body, kind in ((b"1,2\n3,4\n", "text/csv"), (b"[1,2]\n[3,4]\n", "application/jsonlines")):
        answer = bare_hosted.post(body, kind)
        if answer.status != 200 or json.loads(answer.body) != {"predictions": [[2.0, 4.0], [6.0, 8.0]]}:
            wrong.append(f"{kind} is answered with {answer.status} {answer.text()}")
        elif b"\n" in answer.body.strip():
            wrong.append(f"{kind} is answered on several lines")
    assert not wrong, "\n".join(wrong)


def test_rest_attributes(bare_hosted: Hosted) -> None:
    name = "X_Amzn_SageMaker_Custom_Attributes"
    good = bare_hosted.post(b"[[1, 2]]", **{name: "tfs-model-name=double,tfs-model-version=1"})
    assert good.status == 200, f"model and version that exist: {good.status} {good.text()}"
    wrong = [
        f"{text} is answered with {answer.status}"
        for text in ("tfs-model-name=../x", "tfs-model-version=x", "tfs-method=delete")
        if (answer := bare_hosted.post(b"[[1, 2]]", **{name: text})).status != 400
    ]
    assert not wrong, "\n".join(wrong)
