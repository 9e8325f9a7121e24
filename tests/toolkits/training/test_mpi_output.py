"""The lines of ranks on their way into one log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from sagemaker_training import mpi_output, mpi_trust
from sagemaker_training.mpi_output import Failed, RankOutput

LIMIT = 20


@pytest.fixture
def output():
    with RankOutput(["127.0.0.1"], lambda seconds: None) as made:
        for reader, _ in made.sources():
            os.set_blocking(reader, True)
        yield made


def call(output: RankOutput, words: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", output.port), timeout=LIMIT)
    connection.sendall(words)
    return connection


def finish(connection: socket.socket) -> None:
    """Ends a stream, and waits until all of it was taken."""
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""


def sent_away(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:  # What it had sent was not even read.
        return True


def written(output: RankOutput, stream: str, size: int = 65536) -> bytes:
    return os.read({name: reader for reader, name in output.sources()}[stream], size)


def test_a_line_in_pieces_is_not_mixed_with_another_ranks(output):
    first, second = call(output, b"0 stdout algo-1\nloss="), call(output, b"3 stdout algo-2\nloss=1\n")
    finish(second)
    first.sendall(b"0.25\n\n")
    finish(first)
    assert written(output, "stdout") == (
        b"[1,mpirank:3,algo-2]<stdout>:loss=1\n[1,mpirank:0,algo-1]<stdout>:loss=0.25\n[1,mpirank:0,algo-1]<stdout>:\n"
    )


def test_a_line_that_is_passed_on_in_parts_has_one_tag():
    tagged = mpi_output._Prefix(b"[1,mpirank:0,algo-1]<stdout>:")
    parts = (b"x" * 9, b"y\nnext\n", b"last")
    assert b"".join(map(tagged, parts)) == (
        b"[1,mpirank:0,algo-1]<stdout>:" + b"x" * 9 + b"y\n[1,mpirank:0,algo-1]<stdout>:next\n"
        b"[1,mpirank:0,algo-1]<stdout>:last"
    )


def test_the_first_failure_is_kept_and_ranks_that_mpirun_ended_are_none(output):
    """The first by time: the word of another may come sooner."""
    for words in (b"0 ended:-15:1.000000 algo-1\n", b"1 ended:14:7.500000 algo-1\n", b"3 ended:9:7.250000 algo-2\n"):
        finish(call(output, words))
    assert output.failed("") == Failed(7.25, 3, "algo-2", 9)


def test_a_rank_that_lost_its_connection_is_not_the_first_to_fail(output):
    """Its clock, or its word, may be ahead. Open MPI 5 says why it failed."""
    for words in (b"1 ended:14:7.100000 algo-1\n", b"3 ended:9:7.250000 algo-2\n"):
        finish(call(output, words))
    own = (
        "[1,mpirank:1,algo-1]<stderr>: [algo-1:00000] *** An error occurred in Socket closed\n"
        "[1,mpirank:1,algo-1]<stderr>: [algo-1:00000] *** reported by process [1046609921,1]\n"
    )
    assert output.failed(own) == Failed(7.25, 3, "algo-2", 9)
    assert output.failed("") == Failed(7.1, 1, "algo-1", 14)


def test_who_does_not_greet_as_a_rank_is_sent_away(output):
    for words in (b"GET / HTTP/1.1\r\n", b"x stdout algo-1\n", b"0 stdlog algo-1\n"):
        assert sent_away(call(output, words))
    assert not output.tail("stdout")


def test_who_is_no_host_of_the_job_is_sent_away(output, monkeypatch):
    monkeypatch.setattr(mpi_trust, "resolve", lambda hosts: set())
    assert sent_away(call(output, b"0 stdout algo-1\nlie\n"))
    assert not output.tail("stdout")


def test_a_rank_that_is_cut_off_leaves_the_others_alone(output):
    broken = call(output, b"0 stdout algo-1\nfirst\n")
    broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    assert written(output, "stdout") == b"[1,mpirank:0,algo-1]<stdout>:first\n"
    broken.close()
    whole = call(output, b"1 stdout algo-1\nsecond\n")
    finish(whole)
    assert written(output, "stdout") == b"[1,mpirank:1,algo-1]<stdout>:second\n"


@pytest.mark.parametrize(
    ("tag", "named"),
    [
        (b"[1,3]<stdout>:x", b"[1,mpirank:3,algo-2]<stdout>:x"),
        (b"[prterun-aws-17@1,0]<stderr>: x", b"[1,mpirank:0,algo-1]<stderr>: x"),
        (b"[1,99]<stdout>:x", b"[1,mpirank:99,algo-2]<stdout>:x"),
        (b"[1,3] x", b"[1,3] x"),
    ],
)
def test_mpiruns_own_tags(tag, named):
    assert mpi_output.host_tags(["algo-1", "algo-2"], 2)(tag) == named


# mpi_trust


def trusted(tmp_path, text: str) -> str:
    path = tmp_path / "resourceconfig.json"
    path.write_text(text)
    command = [sys.executable, "-I", "-S", mpi_trust.__file__, str(path), "ssh-ed25519", "AAAA"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_sshd_lets_in_the_hosts_of_the_job_by_address(tmp_path):
    line = trusted(tmp_path, '{"hosts": ["127.0.0.9", "no-such-host.invalid"]}')
    assert line == 'from="127.0.0.1,127.0.0.9,::1" ssh-ed25519 AAAA\n'


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_sshd_lets_in_nobody_where_the_job_has_no_hosts(tmp_path, text):
    assert trusted(tmp_path, text) == ""
