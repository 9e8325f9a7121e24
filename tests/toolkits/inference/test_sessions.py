"""Stateful sessions: opened, carried, closed, expired."""

from __future__ import annotations

import re
import time

import pytest

from . import serving

CODE = """
    import os
    from sagemaker_inference import sessions
    def model_fn(model_dir):
        return None
    def transform_fn(model, data, content_type, accept, context):
        session = context.get_request_header(0, "X-Amzn-SageMaker-Session-Id")
        if not session or session == "NEW_SESSION":
            return "none", "text/plain"
        path = sessions.folder(session) + "/count"
        count = int(open(path).read()) + 1 if os.path.exists(path) else 1
        open(path, "w").write(str(count))
        return str(count), "text/plain"
"""
NEW = {"X_Amzn_SageMaker_Session_Id": "NEW_SESSION"}


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(**variables: str) -> serving.Server:
        variables = {"SAGEMAKER_ENABLE_STATEFUL_SESSIONS": "true", **variables}
        one = serving.make(tmp_path, CODE, SAGEMAKER_SESSIONS_PATH=str(tmp_path), **variables)
        servers.append(one)
        return one.start().ready()

    yield started
    for one in servers:
        one.close()


def identity(answer: serving.Answer) -> str:
    told = answer.headers["x-amzn-sagemaker-new-session-id"]
    assert len(told) <= 256
    found = re.fullmatch(r"([A-Za-z0-9-]+); Expires=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)", told)
    assert found, told
    return found[1]


def test_a_session_from_its_opening_to_its_end(start, tmp_path):
    server = start(SAGEMAKER_MODEL_SERVER_WORKERS="2")
    opened = server.post('{"requestType": "NEW_SESSION"}', **NEW)
    assert (opened.status, opened.body) == (200, b"{}")
    session = {"X_Amzn_SageMaker_Session_Id": identity(opened)}
    assert [server.post("1", **session).body for _ in range(4)] == [b"1", b"2", b"3", b"4"]
    other = server.post("1", **NEW)
    assert other.body == b"1"
    assert identity(other) != identity(opened)
    # Another way to the same folder is no id.
    for trick in (f"./{identity(opened)}", f"{identity(opened)}/", f"../serve-sessions/{identity(opened)}"):
        assert "is no session id" in server.post("1", X_Amzn_SageMaker_Session_Id=trick).error["message"]
    closed = server.post('{"requestType": "CLOSE"}', **session)
    assert closed.headers["x-amzn-sagemaker-closed-session-id"] == identity(opened)
    gone = server.post("1", **session)
    assert (gone.status, gone.error["type"]) == (400, "SessionError")
    assert identity(opened) in gone.error["message"]
    for wrong in ("../../etc", "a b", "-x", "unknown"):
        assert server.post("1", X_Amzn_SageMaker_Session_Id=wrong).status == 400
    assert server.post("1").body == b"none"


def test_a_session_goes_on_in_whichever_worker_is_free(tmp_path):
    code = CODE.replace(
        """        if not session""",
        """        if data.startswith("/"):
            open(data, "w").close()
            while os.path.exists(data):
                time.sleep(0.005)
            return str(os.getpid()), "text/plain"
        if not session""",
    ).replace("return str(count)", "return f'{count} {os.getpid()}'")
    server = serving.make(
        tmp_path,
        code.replace("import os", "import os, time", 1),
        SAGEMAKER_ENABLE_STATEFUL_SESSIONS="true",
        SAGEMAKER_SESSIONS_PATH=str(tmp_path),
        SAGEMAKER_MODEL_SERVER_WORKERS="2",
    ).start()
    csv = {"Content_Type": "text/csv"}

    def busy(name: str) -> serving.Client:
        client = server.client().post(str(tmp_path / name).encode(), b"content-type: text/csv")
        serving.wait_for((tmp_path / name).exists, server)
        return client

    try:
        serving.wait_for(lambda: server.log.count("ready after") == 2, server)
        one = busy("one")
        opened = server.post("1", **NEW, **csv)
        session = {"X_Amzn_SageMaker_Session_Id": identity(opened), **csv}
        two = busy("two")  # the one that opened it, as the other is held
        (tmp_path / "one").unlink()
        first = one.answer().body
        elsewhere = server.post("1", **session)
        busy_again = busy("one")
        (tmp_path / "two").unlink()
        second = two.answer().body
        back = server.post("1", **session)
        (tmp_path / "one").unlink()
        assert busy_again.answer().body == first != second
        assert [answer.body.split() for answer in (opened, elsewhere, back)] == [
            [b"1", second],
            [b"2", first],
            [b"3", second],
        ]
    finally:
        server.close()


def test_a_session_expires(start, tmp_path):
    server = start(SAGEMAKER_SESSIONS_EXPIRATION="1")
    session = {"X_Amzn_SageMaker_Session_Id": identity(server.post("1", **NEW))}
    serving.wait_for(lambda: server.post("1", **session).status == 400, server)
    # The next one takes its folder away.
    server.post("1", **NEW)
    assert len(list((tmp_path / "serve-sessions").iterdir())) == 1


def test_without_the_feature_the_header_is_ignored(start):
    server = start(SAGEMAKER_ENABLE_STATEFUL_SESSIONS="false")
    answer = server.post('{"requestType": "NEW_SESSION"}', **NEW)
    assert answer.body == b"none"
    assert "x-amzn-sagemaker-new-session-id" not in answer.headers


def test_a_leftover_without_a_date_is_swept_when_it_is_old(tmp_path):
    import os

    from sagemaker_inference.sessions import Sessions

    sessions = Sessions(str(tmp_path), 60)
    fresh, old = tmp_path / "serve-sessions" / "fresh", tmp_path / "serve-sessions" / "old"
    for place in (fresh, old):
        place.mkdir(parents=True)
    os.utime(old, (time.time() - 3600,) * 2)
    sessions.open()
    assert (fresh.exists(), old.exists()) == (True, False)
