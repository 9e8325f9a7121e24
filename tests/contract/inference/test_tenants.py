"""Multi-model endpoints: models loaded and unloaded in one container."""

from __future__ import annotations

import json

from slipway.verify.endpoints import Tenants

CODE = """\
import helper_{name}
def model_fn(model_dir): return helper_{name}.NAME
def input_fn(data, content_type): return data
def predict_fn(data, model): return model
def output_fn(prediction, accept): return prediction, "text/plain"
def handler(data, context): return helper_{name}.NAME, "text/plain"
"""

BAD = """\
import importlib.util
def model_fn(model_dir): raise RuntimeError("no such layer")
def predict_fn(data, model): return data
def handler(data, context): return data.read(), "text/plain"
if importlib.util.find_spec("sagemaker_tensorflow_serving_container"): model_fn("")
"""


def load(tenants: Tenants, name: str) -> int:
    body = tenants.place(name, CODE.format(name=name))
    (tenants.folder / name / "model" / "code" / f"helper_{name}.py").write_text(f"NAME = 'model {name}'\n")
    return tenants.call("POST", "/models", body).status


def test_tenants_empty(tenants_hosted: Tenants) -> None:
    answer = tenants_hosted.serving.ping()
    assert answer is not None and answer.status == 200, "without a model /ping does not answer 200"
    listed = tenants_hosted.call("GET", "/models")
    assert (listed.status, json.loads(listed.body)) == (200, {"models": []}), f"{listed.status} {listed.text()}"


def test_tenants_models(tenants_hosted: Tenants) -> None:
    steps = []

    def step(what: str, status: int, wanted: int) -> None:
        if status != wanted:
            steps.append(f"{what}: {status}, not {wanted}")

    step("LOAD a", load(tenants_hosted, "a"), 200)
    step("LOAD b", load(tenants_hosted, "b"), 200)
    again = {"model_name": "a", "url": "/opt/ml/models/a/model"}
    step("LOAD a again", tenants_hosted.call("POST", "/models", again).status, 409)
    for name in ("a", "b"):
        answer = tenants_hosted.call("POST", f"/models/{name}/invoke", b"x")
        step(f"INVOKE {name}", answer.status, 200)
        if answer.body != f"model {name}".encode():
            steps.append(f"INVOKE {name} was answered by {answer.text()}")
    listed = json.loads(tenants_hosted.call("GET", "/models").body)
    names = sorted(model["modelName"] for model in listed["models"])
    if names != ["a", "b"]:
        steps.append(f"LIST says {names}")
    one = tenants_hosted.call("GET", "/models/a")
    step("GET a", one.status, 200)
    if one.status == 200 and json.loads(one.body) != {"modelName": "a", "modelUrl": "/opt/ml/models/a/model"}:
        steps.append(f"GET a says {one.text()}")
    step("UNLOAD a", tenants_hosted.call("DELETE", "/models/a").status, 200)
    step("UNLOAD a again", tenants_hosted.call("DELETE", "/models/a").status, 404)
    step("INVOKE a after UNLOAD", tenants_hosted.call("POST", "/models/a/invoke", b"x").status, 404)
    step("INVOKE b after UNLOAD a", tenants_hosted.call("POST", "/models/b/invoke", b"x").status, 200)
    assert not steps, "\n".join(steps)


def test_tenants_failed(tenants_hosted: Tenants) -> None:
    body = tenants_hosted.place("bad", BAD)
    answer = tenants_hosted.call("POST", "/models", body)
    assert answer.status >= 500 and answer.status != 507, f"a model that cannot be loaded: {answer.status}"
    assert "no such layer" in answer.text(), f"the answer does not tell why: {answer.text()}"
    code = tenants_hosted.folder / "bad" / "model" / "code" / "inference.py"
    code.write_text(CODE.format(name="bad"))
    (code.parent / "helper_bad.py").write_text("NAME = 'mended'\n")
    again = tenants_hosted.call("POST", "/models", body)
    assert again.status == 200, f"loading it again once it is mended: {again.status} {again.text()}"
    ping = tenants_hosted.serving.ping()
    assert ping is not None and ping.status == 200, "a model that cannot be loaded made the endpoint unhealthy"


def test_tenants_names(tenants_hosted: Tenants) -> None:
    wrong = []
    for name in ("", "..", "../x", "a/b"):
        answer = tenants_hosted.call("POST", "/models", {"model_name": name, "url": "/opt/ml/models/x/model"})
        if answer.status != 400:
            wrong.append(f"a model named {name!r} is answered with {answer.status}")
    missing = tenants_hosted.call("POST", "/models", {"model_name": "m", "url": "/opt/ml/models/none/model"})
    if missing.status != 404:
        wrong.append(f"a url that does not exist is answered with {missing.status}")
    assert not wrong, "\n".join(wrong)
