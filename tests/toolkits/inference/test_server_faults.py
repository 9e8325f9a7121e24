"""Workers that die, hang or compute: what each client sees, and that nobody else notices."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from . import serving

PING_SECONDS = 2.0
"""The platform's: it gives a container up that answers later."""

CODE = """
    import os, signal, sys, time
    def model_fn(model_dir):
        return None
    def transform_fn(model, data, content_type, accept, context):
        word, _, rest = (data if isinstance(data, str) else bytes(data).decode()).partition(" ")
        if word == "hold":
            open(rest, "w").close()
            while os.path.exists(rest):
                time.sleep(0.005)
        elif word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == "exit":
            sys.exit(3)
        elif word == "compute":
            open(rest, "w").close()
            # Nothing lets go of the interpreter's lock: one long call into C.
            pow(3, 10 ** 6 * 4)
            sum(range(10 ** 8 * 3))
        return word + " " + str(os.getpid()), "text/plain"
"""


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(code: str = CODE, **variables: str) -> serving.Server:
        one = serving.make(tmp_path, code, **variables)
        servers.append(one)
        return one.start()

    yield started
    for one in servers:
        one.close()


def both_ready(server: serving.Server) -> list[int]:
    return serving.wait_for(lambda: server.log.count("ready after") == 2 and server.workers(), server)


def test_a_killed_worker_takes_one_request_with_it(start, tmp_path):
    server = start().ready()
    held = tmp_path / "held"
    victim = server.client().post(b"hold %s" % os.fsencode(held))
    serving.wait_for(held.exists, server)
    # On one new connection, and on one that the worker has had.
    others = [server.client().post(b"echo") for _ in range(8)]
    os.kill(server.workers()[0], signal.SIGKILL)
    held.unlink()
    answer = victim.answer()
    assert answer.status == 500
    assert "signal 9" in answer.error["message"]
    assert answer.error["type"] == "WorkerDied"
    assert [other.answer().status for other in others] == [200] * 8
    assert "SIGKILL" in server.log


def test_idle_connections_outlive_their_worker(start):
    server = start().ready()
    clients = [server.client() for _ in range(4)]
    first = [client.post(b"echo").answer().body for client in clients]
    os.kill(server.workers()[0], signal.SIGKILL)
    second = [client.post(b"echo").answer() for client in clients]
    assert [answer.status for answer in second] == [200] * 4
    assert {answer.body for answer in second}.isdisjoint(first)


@pytest.mark.parametrize(("word", "how"), [(b"kill", "signal 9"), (b"exit", "exit code 3")])
def test_user_code_that_ends_its_process(start, word, how):
    server = start().ready()
    answer = server.post(word)
    assert (answer.status, answer.error["type"]) == (500, "WorkerDied")
    assert how in answer.error["message"]
    assert server.post(b"echo").status == 200


AT_A_MOMENT = """
    import os, signal
    from sagemaker_inference.server.protocol import Connection
    from sagemaker_inference.server.wire import Wire
    moment = os.environ["SAGEMAKER_BASE_DIR"] + "/moment"
    def dying(owner, name):
        method = getattr(owner, name)
        def wrapped(self, *args, **options):
            if os.path.exists(moment) and open(moment).read() == name:
                os.unlink(moment)
                os.kill(os.getpid(), signal.SIGKILL)
            return method(self, *args, **options)
        setattr(owner, name, wrapped)
    dying(Connection, "data_received")
    dying(Connection, "on_message_begin")
    dying(Wire, "uncork")
    dying(Wire, "finish")
    def model_fn(model_dir):
        return None
    def transform_fn(model, data, content_type, accept):
        return data, "text/plain"
"""


@pytest.mark.parametrize(
    ("moment", "status"),
    [
        ("data_received", 500),  # read, and nothing of it looked at
        ("on_message_begin", 500),
        ("uncork", 500),
        ("finish", 200),  # the whole answer is gone, which is not noted yet
    ],
)
def test_a_worker_that_dies_at_a_bad_moment(start, tmp_path, moment, status):
    server = start(AT_A_MOMENT).ready()
    client = server.client()
    assert client.post(b"first").answer().body == b"first"
    (tmp_path / "moment").write_text(moment)
    answer = client.post(b"second").answer()
    assert answer.status == status, server.log
    if status == 200:
        # One answer, and the connection lives on.
        assert answer.body == b"second"
        assert client.post(b"third").answer().body == b"third"
    else:
        assert answer.error["type"] == "WorkerDied"
        assert client.ended()
    assert server.post(b"fourth").body == b"fourth"
    # Empty lines between requests are no request that could be lost.
    idle = server.client().post(b"fifth", b"connection: keep-alive")
    assert idle.answer().body == b"fifth"
    idle.send(b"\r\n")
    serving.wait_for(lambda: not serving.unread(server.port), server)
    os.kill(server.workers()[0], signal.SIGKILL)
    assert idle.post(b"sixth").answer().body == b"sixth"


def test_traffic_goes_on_while_workers_are_killed(start):
    server = start(SAGEMAKER_MODEL_SERVER_WORKERS="2").ready()
    both_ready(server)
    killed = threading.Event()
    results: list[tuple[int, bytes]] = []

    def traffic(number: int) -> None:
        client = server.client()
        last = 0
        # To the end of the killing, and a little after it.
        while last < 50:
            last += killed.is_set()
            word = b"n%d" % number
            answer = client.post(word).answer()
            results.append((answer.status, answer.body))
            if answer.headers.get("connection") == "close":
                client = server.client()
            if answer.status == 200:
                assert answer.body.startswith(word + b" "), "an answer of another request"

    def killing() -> None:
        for _ in range(4):
            done = len(results)
            serving.wait_for(lambda done=done: len(results) > done + 50 and len(server.workers()) == 2, server)
            os.kill(server.workers()[-1], signal.SIGKILL)
        killed.set()

    outcome = serving.in_parallel(killing, *(lambda number=number: traffic(number) for number in range(6)))
    assert outcome == [None] * 7, server.log
    failed = [body for status, body in results if status != 200]
    # At most the one request that each worker was computing.
    assert len(failed) <= 4
    assert all(b"WorkerDied" in body for body in failed)


def test_a_request_over_the_limit_gets_504_and_its_worker_is_restarted(start, tmp_path):
    server = start(SAGEMAKER_MODEL_SERVER_TIMEOUT="1").ready()
    held = tmp_path / "held"
    victim = server.client().post(b"hold %s" % os.fsencode(held))
    serving.wait_for(held.exists, server)
    other = server.client().post(b"echo")
    answer = victim.answer()
    assert answer.status == 504
    assert "1 s" in answer.error["message"]
    assert other.answer().status == 200
    # The log shows what it was doing.
    assert "transform_fn" in server.log


def test_ping_answers_while_every_worker_computes(start, tmp_path):
    server = start(SAGEMAKER_MODEL_SERVER_WORKERS="2").ready()
    both_ready(server)
    reused = [server.client() for _ in range(4)]
    for client in reused:
        assert client.post(b"echo").answer().status == 200
    held = [tmp_path / "a", tmp_path / "b"]
    busy = [server.client().post(b"compute %s" % os.fsencode(path)) for path in held]
    for path in held:
        serving.wait_for(path.exists, server)
    # On new connections, and on connections that busy workers have.
    assert server.ping() == 200
    for client in reused:
        assert client.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n").answer().status == 200
    for client in busy:
        client.connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.connection.recv(1)


def test_ping_answers_within_its_limit_on_the_first_calls_ever(start, tmp_path):
    code = """
        import ctypes, os
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            open(os.environ["SAGEMAKER_BASE_DIR"] + "/" + data, "w").close()
            ctypes.PyDLL(None).sleep(600)  # keeps the interpreter's lock, unlike a call by CDLL
    """
    server = start(code, SAGEMAKER_MODEL_SERVER_WORKERS="2")
    # By the log: no connection was ever made.
    both_ready(server)
    busy = [server.client().post(name, b"content-type: text/csv") for name in (b"a", b"b")]
    for name in ("a", "b"):
        serving.wait_for((tmp_path / name).exists, server)
    for _ in range(3):
        client = server.client()
        client.connection.settimeout(PING_SECONDS)
        assert client.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n").answer().status == 200
    for client in busy:
        client.connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.connection.recv(1)


def test_a_request_on_a_busy_workers_connection_goes_to_a_free_one(start, tmp_path):
    server = start(SAGEMAKER_MODEL_SERVER_WORKERS="2").ready()
    both_ready(server)
    clients = [server.client() for _ in range(8)]
    owners = [client.post(b"echo").answer().body for client in clients]
    assert len(set(owners)) == 2
    held = tmp_path / "held"
    clients[0].post(b"hold %s" % os.fsencode(held))
    serving.wait_for(held.exists, server)
    # Those of the busy worker too.
    answers = [client.post(b"echo").answer().body for client in clients[1:]]
    assert len(set(answers)) == 1
    assert owners[0] not in answers
    held.unlink()
    busy = int(clients[0].answer().body.partition(b" ")[2])
    assert busy == int(owners[0].partition(b" ")[2])
    # It lets go of what was taken from it: no connection is in two workers.
    workers = server.workers()
    serving.wait_for(lambda: sum(serving.connections(pid, server.port) for pid in workers) == len(clients), server)
    assert [client.post(b"echo").answer().status for client in clients] == [200] * 8


def test_requests_that_were_taken_back_are_not_lost(start, tmp_path):
    server = start().ready()
    clients = [server.client() for _ in range(5)]
    assert [client.post(b"echo").answer().status for client in clients] == [200] * 5
    held = tmp_path / "held"
    clients[0].post(b"hold %s" % os.fsencode(held))
    serving.wait_for(held.exists, server)
    later = [client.post(b"echo") for client in clients[1:4]]
    # Only for the ping is anything taken back: no other worker could take the requests.
    assert clients[4].send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n").answer().status == 200
    new = server.client().post(b"echo")
    assert server.ping() == 200
    held.unlink()
    assert [client.answer().status for client in (clients[0], *later, new)] == [200] * 5


def test_a_full_queue_is_503_with_retry_after(start, tmp_path):
    server = start(SLIPWAY_QUEUE_SIZE="3").ready()
    held = tmp_path / "held"
    first = server.client().post(b"hold %s" % os.fsencode(held))
    serving.wait_for(held.exists, server)
    waiting = []
    for _ in range(3):
        waiting.append(server.client().post(b"echo"))
        assert server.ping() == 200  # the supervisor has seen it
    refused = server.client().post(b"echo").answer()
    assert (refused.status, refused.headers["retry-after"], refused.error["type"]) == (503, "1", "QueueFull")
    held.unlink()
    assert [client.answer().status for client in (first, *waiting)] == [200] * 4


def test_deaths_without_an_answer_between_end_the_server(start):
    server = start(SLIPWAY_MAX_RESTARTS="1").ready()
    assert server.post(b"kill").status == 500
    serving.wait_for(lambda: server.ping() == 200, server)
    server.post(b"kill")
    assert server.wait() == 6
    assert "2 deaths in a row" in server.log
    assert "fewer workers" in server.log
