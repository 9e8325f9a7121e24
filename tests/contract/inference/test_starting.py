"""How the container starts, and when it says that it is ready."""

from __future__ import annotations

import threading
import time
from typing import Any

from slipway.emulator.exchange import Answer, Request
from slipway.verify.endpoints import Ended, Hosted, until
from slipway.verify.inspection import Inspection

TOOLKIT = "slipway-inference"
CAPABILITIES = "com.amazonaws.sagemaker.capabilities."
STREAMS = CAPABILITIES + "bidirectional-streaming"


def test_programs_serve(looked: Inspection) -> None:
    path = looked.programs["serve"]
    installed = "is installed without its program" if TOOLKIT in looked.facts["packages"] else "is not installed"
    assert path, f"serve is not on PATH: the toolkit package {TOOLKIT} {installed}"
    problems = [f"as {who}: {what}" for who, what in looked.facts["serve"].items() if what]
    assert not problems, f"{path} cannot be executed " + "; ".join(problems)


def test_labels_capabilities(config: dict[str, Any], looked: Inspection) -> None:
    labels = {name: config["Labels"].get(CAPABILITIES + name) for name in ("accept-bind-to-port", "multi-models")}
    wrong = [f"{CAPABILITIES}{name} is {value!r}, not 'true'" for name, value in labels.items() if value != "true"]
    # The server speaks WebSocket by this library; without it the label promises what no request gets.
    streams = config["Labels"].get(STREAMS) == "true"
    if streams and TOOLKIT in looked.facts["packages"] and "websockets" not in looked.facts["packages"]:
        wrong.append(f"{STREAMS} is 'true', and websockets is not installed")
    assert not wrong, "\n".join(wrong)


def test_hosting_starts(hosted: Hosted) -> None:
    answer = hosted.serving.ping()
    assert answer is not None and answer.status == 200, f"/ping answered {answer}"


def test_hosting_gate(hosted: Hosted) -> None:
    # A server that is called ready too early refuses this for a while.
    until(lambda: hosted.do("see").status == 200, "no request is answered", seconds=60.0)
    seen = hosted.seen()
    asked = next(when for when, status in hosted.serving.pings if status == 200)
    early = seen["loaded"] - asked
    assert early <= 0.5, f"/ping answered 200 {early:.1f} s before the model was loaded"
    wrong = [status for _, status in hosted.serving.pings[:-1] if status not in (None, 503)]
    assert not wrong, f"/ping answered {wrong} while the model was loaded, not 503"


def test_hosting_port(requiring_hosted: Hosted) -> None:
    answer = requiring_hosted.serving.ping()
    assert answer is not None and answer.status == 200, "nothing answers on the port of SAGEMAKER_BIND_TO_PORT"


def test_hosting_busy(hosted: Hosted) -> None:
    began = time.monotonic()
    answers: list[Answer] = []
    working = threading.Thread(target=lambda: answers.append(hosted.do("busy", seconds=5.0)))
    working.start()
    pinged = []
    while working.is_alive():
        answer = hosted.serving.ping()
        pinged.append(None if answer is None else answer.status)
        time.sleep(0.3)
    working.join()
    assert answers and answers[0].status == 200, "the busy request failed"
    assert time.monotonic() - began > 2.5, "the probe was not busy for long enough to tell"
    assert pinged and set(pinged) == {200}, f"while the worker computed, /ping answered {pinged} (None: not in 2 s)"


def test_hosting_cause(raising_ended: Ended) -> None:
    assert raising_ended.code is not None, "the container runs on although the model cannot be loaded"
    assert raising_ended.code != 0, "the container ended with 0 although the model cannot be loaded"
    assert 200 not in raising_ended.statuses, "/ping answered 200 although the model cannot be loaded"
    tail = raising_ended.log[-4000:]
    for text in ("the weights are of another shape", "inference.py", "model_fn"):
        assert text in tail, f"the end of the log does not tell of {text!r}:\n{tail}"


def test_hosting_paths(hosted: Hosted) -> None:
    strange = hosted.serving.call(Request("GET", "/nowhere"))
    wrong = hosted.serving.call(Request("GET", "/invocations"))
    assert strange.status == 404, f"GET /nowhere: {strange.status}"
    assert wrong.status == 405, f"GET /invocations: {wrong.status}"
    assert "POST" in wrong.headers.get("allow", ""), f"405 without Allow: POST, but {wrong.headers.get('allow')!r}"
    for answer in (strange, wrong):
        assert answer.content_type.startswith("application/json"), f"{answer.status} is answered with {answer.text()}"
