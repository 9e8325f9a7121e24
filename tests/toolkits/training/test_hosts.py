"""Other hosts: their names may come late, or never."""

from __future__ import annotations

import socket

import pytest
from sagemaker_training import errors, hosts


@pytest.fixture
def names(monkeypatch):
    """A resolver in which each name appears after a number of questions, and a clock that only sleeping moves."""
    asked, clock = {}, [0.0]
    late = {"algo-1": 0, "algo-2": 3, "algo-3": 10**9}

    def resolve(host, port):
        asked[host] = asked.get(host, 0) + 1
        if asked[host] <= late[host]:
            raise socket.gaierror(-2, "Name or service not known")

    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(hosts.time, "sleep", sleep)
    monkeypatch.setattr(hosts.time, "monotonic", lambda: clock[0])
    return asked, pauses


def test_names_that_come_late_are_waited_for(names):
    asked, pauses = names
    hosts.wait_for_names(["algo-1", "algo-2"])
    assert asked == {"algo-1": 1, "algo-2": 4}
    assert pauses == [0.1, 0.2, 0.4]


def test_name_that_never_comes_is_named_after_the_limit(names):
    with pytest.raises(errors.ClientError, match="No address for algo-3 within 900 s"):
        hosts.wait_for_names(["algo-1", "algo-3"])
    assert max(names[1]) == 30.0
    assert sum(names[1]) == pytest.approx(900)


def test_limit_by_setting(names, monkeypatch):
    monkeypatch.setenv("SLIPWAY_DNS_TIMEOUT", "1")
    with pytest.raises(errors.ClientError, match="within 1 s"):
        hosts.wait_for_names(["algo-1", "algo-3"])


@pytest.mark.parametrize("value", ["soon", "-1", "inf", "nan"])
def test_limit_that_is_no_number(names, monkeypatch, value):
    monkeypatch.setenv("SLIPWAY_DNS_TIMEOUT", value)
    with pytest.raises(errors.ClientError, match="SLIPWAY_DNS_TIMEOUT"):
        hosts.wait_for_names(["algo-1", "algo-3"])


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_not_in_studios_local_mode(names, monkeypatch, value):
    monkeypatch.setenv("SM_STUDIO_LOCAL_MODE", value)
    hosts.wait_for_names(["algo-1", "algo-3"])
    assert names[0] == {}


def test_single_host_waits_for_nobody(names):
    hosts.wait_for_names(["algo-3"])
    assert names[0] == {}


def test_second_host_that_never_appears_fails_the_job(job):
    job.env["SLIPWAY_DNS_TIMEOUT"] = "0.3"
    job.resources({"current_host": "algo-1", "hosts": ["algo-1", "no-such-host.invalid"]})
    job.script("print('must not run')")
    done = job.run()
    assert (done.code, done.out) == (1, "")
    assert "no-such-host.invalid" in done.failure
