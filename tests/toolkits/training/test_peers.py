"""The watch of hosts over each other. Here all hosts are this machine, by several of its addresses."""

from __future__ import annotations

import json
import logging
import signal
import socket
import threading
import time

import pytest
from sagemaker_training import peers, process

from .test_torch_distributed import free_port

HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]

# For what must not happen there is no event; for all else this is a limit, not a pause.
LIMIT = 20


@pytest.fixture
def watches():
    """Starts the watch of each host; all know of each other."""
    made = []

    def start(hosts=HOSTS, *names):
        port = free_port()
        made.extend(peers.Watch(hosts, name, port) for name in names or hosts)
        for watch in made:
            watch.start()
        until(lambda: not any(watch.absent() for watch in made))
        return made

    yield start
    for watch in made:
        watch.leave(0)


def until(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def close(watch):
    """What the death of its process does."""
    watch._lost = "dead: it tells nobody anything"
    watch._over.set()
    for connection in list(watch._peers):
        connection.shutdown(socket.SHUT_RDWR)


def test_a_goodbye_in_peace_is_no_loss(watches):
    first, second, third = watches()
    second.leave(0)
    until(lambda: len(first._peers) == 1)
    assert first.lost is None
    third.leave(3)
    assert first.wait(LIMIT)


def test_absence_is_a_loss():
    """Told to the host that did report, too."""
    port = free_port()
    leader, other = (peers.Watch(HOSTS, name, port, patience=600) for name in HOSTS[:2])
    leader.start()
    other.start()
    until(lambda: leader.absent() == HOSTS[2:] and not other.absent())
    leader._look_for_absence()
    told = "Host 127.0.0.3 never reported in 600 s: it did not start, died at once, or cannot be reached."
    assert [watch.wait(LIMIT) for watch in (leader, other)] == [told, told]
    for watch in (leader, other):
        watch.leave(0)


def test_a_leader_that_never_comes_is_a_loss():
    other = peers.Watch(HOSTS, HOSTS[1], free_port(), patience=0.1)
    other.start()
    assert other.wait(LIMIT).startswith("Host 127.0.0.1 never reported in 0.1 s")
    other.leave(0)


def test_who_reports_in_time_is_not_lost_later():
    port = free_port()
    pair = [peers.Watch(HOSTS[:2], name, port, patience=600) for name in HOSTS[:2]]
    for watch in pair:
        watch.start()
    until(lambda: not any(watch.absent() for watch in pair))
    for watch in pair:
        watch._look_for_absence()
        assert watch.lost is None
        watch.leave(0)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failure_is_told_to_every_host(watches, failing):
    hosts = watches()
    hosts[failing].leave(7, "ValueError: bad batch")
    told = {watch.wait(LIMIT) for watch in hosts if watch is not hosts[failing]}
    assert told == {f"Host {HOSTS[failing]} failed first, with exit code 7: ValueError: bad batch"}


@pytest.mark.parametrize("dying", [0, 1])
def test_a_death_is_told_to_every_host(watches, dying):
    hosts = watches()
    close(hosts[dying])
    for watch in hosts:
        if watch is not hosts[dying]:
            assert watch.wait(LIMIT).startswith(f"Host {HOSTS[dying]} was lost: it went without a word")


def test_silence_is_a_loss(monkeypatch):
    """A host that froze keeps its connection open."""
    port = free_port()
    leader = peers.Watch(HOSTS[:2], HOSTS[0], port)
    leader.start()
    frozen = socket.create_connection((HOSTS[0], port))
    frozen.sendall(json.dumps({"host": HOSTS[1]}).encode() + b"\n")
    until(lambda: not leader.absent())
    monkeypatch.setattr(peers, "SILENCE_SECONDS", 0.5)
    assert "gave no sign of life" in leader.wait(LIMIT)
    frozen.close()
    leader.leave(0)


def test_quiet_hosts_are_heard_again_and_again(watches, monkeypatch):
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.1)
    hosts = watches()
    connections = [peer for watch in hosts for peer in watch._peers.values()]
    for _ in range(3):
        now = time.monotonic()
        until(lambda now=now: all(peer.heard > now for peer in connections))
    assert not any(watch.lost for watch in hosts)


def test_the_callback_comes_even_when_set_late(watches):
    first, second, _ = watches()
    second.leave(1)
    assert first.wait(LIMIT)
    callers = []
    called = threading.Event()
    first.on_loss(lambda: (callers.append(threading.current_thread()), called.set()))
    assert called.wait(LIMIT)
    # It waits for processes that this thread is about to start.
    assert callers != [threading.current_thread()]


def test_the_first_loss_counts(watches):
    first, second, third = watches()
    second.leave(1, "the cause")
    assert first.wait(LIMIT) == third.wait(LIMIT)
    third.leave(1, "a consequence")
    until(lambda: not first._peers)
    assert "the cause" in first.lost


def test_a_host_that_is_being_stopped_takes_no_notice(watches, monkeypatch):
    first, second, _ = watches()
    monkeypatch.setattr(process, "stop_requested", lambda: signal.SIGTERM)
    close(second)
    until(lambda: len(first._peers) == 1)
    assert first.lost is None


def test_a_stop_that_reaches_one_host_only_ends_the_others_after_a_while(watches, monkeypatch):
    monkeypatch.setattr(peers, "_STOP_SPREAD_SECONDS", 0.2)
    first, second, _ = watches()
    with monkeypatch.context() as patch:
        patch.setattr(process, "stop_requested", lambda: signal.SIGTERM)
        second.leave(143)
    assert first.wait(LIMIT) == f"Host {HOSTS[1]} was stopped by the platform."


def test_strangers_and_nonsense_are_ignored(watches):
    port = free_port()
    leader = peers.Watch(HOSTS[:2], HOSTS[0], port)
    leader.start()
    for message in (b"GET / HTTP/1.1\r\n\r\n", b'{"host": "stranger"}\n', b"[1]\n", b'"end"\n', b"x" * 100000):
        with socket.create_connection((HOSTS[0], port)) as stranger:
            stranger.sendall(message)
    other = peers.Watch(HOSTS[:2], HOSTS[1], port)
    other.start()
    until(lambda: not leader.absent())
    assert leader.lost is None
    other.leave(5)
    assert "exit code 5" in leader.wait(LIMIT)


def test_a_port_that_is_taken_is_said(caplog):
    port = free_port()
    with socket.create_server(("", port)), caplog.at_level(logging.WARNING):
        peers.Watch(HOSTS[:2], HOSTS[0], port).start()
    assert f"port {port} cannot be used" in caplog.text


def test_a_leader_without_address_is_tried_again(monkeypatch):
    """Its name may lag behind. And no thread looks names up: the resolver reads what the main thread writes."""
    port = free_port()
    leader = peers.Watch(HOSTS[:2], HOSTS[0], port)
    leader.start()
    other = peers.Watch(HOSTS[:2], HOSTS[1], port)
    look_up = socket.getaddrinfo
    asked = []

    def late(*arguments, **options):
        asked.append(threading.current_thread())
        if len(asked) == 1:
            raise socket.gaierror("not yet")
        return look_up(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    for _ in range(3):
        other.start()
    until(lambda: not leader.absent())
    assert asked == [threading.current_thread()] * 2
    for watch in (leader, other):
        watch.leave(0)
