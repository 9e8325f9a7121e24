"""What a model brings along, other ways to run the container, and how it ends."""

from __future__ import annotations

import threading
import time

from slipway.emulator.exchange import Answer
from slipway.verify.endpoints import Ended, Hosted


def test_packages_installed(requiring_hosted: Hosted) -> None:
    answer = requiring_hosted.post(b"{}")
    assert (answer.status, answer.body) == (200, b"42"), f"{answer.status} {answer.text()}"


def test_packages_cause(unmet_ended: Ended) -> None:
    assert unmet_ended.code, f"the container ended with {unmet_ended.code} although a requirement cannot be met"
    assert "slipway-probe-missing" in unmet_ended.log[-4000:], (
        f"the log's end does not name it:\n{unmet_ended.log[-2000:]}"
    )
    assert 200 not in unmet_ended.statuses, "/ping answered 200 although a requirement cannot be met"


def test_accounts_any(user_hosted: Hosted) -> None:
    answer = user_hosted.post(b"[[1]]")
    assert answer.status == 200, f"as another user: {answer.status} {answer.text()}"


def test_accounts_read_only(plain_hosted: Hosted) -> None:
    answer = plain_hosted.post(b"[[1]]")
    assert answer.status == 200, f"with a read-only root: {answer.status} {answer.text()}"


def test_stopping_drains(hosted: Hosted) -> None:
    answers: list[Answer] = []
    working = threading.Thread(target=lambda: answers.append(hosted.do("sleep", seconds=2.0)))
    working.start()
    time.sleep(0.7)  # the request must be with the worker
    began = time.monotonic()
    ended = hosted.serving.stop()
    seconds = time.monotonic() - began
    working.join()
    assert answers and answers[0].status == 200, f"a request that ran when the container was stopped: {answers}"
    assert ended.code == 0, f"it ended with {ended.code}"
    assert seconds < 25, f"it took {seconds:.0f} s to end"
