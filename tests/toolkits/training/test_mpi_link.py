"""The end of a run on all hosts. Here the hosts are this machine, by several of its addresses."""

from __future__ import annotations

import pytest
from sagemaker_training import errors, leader, mpi_link
from sagemaker_training.mpi_link import End, Link

from .test_torch_distributed import free_port

HOSTS = ["127.0.0.1", "127.0.0.2"]
LIMIT = 20


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(mpi_link, "PORT", free_port())


@pytest.fixture
def links(port):
    made = [Link(HOSTS, host) for host in HOSTS]
    for link in made:
        link.start()
    yield made
    for link in made:
        link.leave(0)


def joined(links):
    while any(link.absent() for link in links):
        links[0].wait(0.05)
    return links


def test_the_first_hosts_end_is_news_for_the_others(links):
    first, second = joined(links)
    first.leave(7, "ValueError: bad batch")
    assert second.wait_for_end(LIMIT, LIMIT)
    assert second.end == End(7, "ValueError: bad batch", False)
    assert second.lost is None


def test_success_is_news_too(links):
    first, second = joined(links)
    first.leave(0)
    assert second.wait_for_end(None, LIMIT)
    assert second.end == End(0, "", False)


def test_another_hosts_failure_is_a_loss_for_the_first(links):
    first, second = joined(links)
    second.leave(1, "OSError: disk full")
    lost = first.wait(LIMIT)
    assert lost is not None and "127.0.0.2" in lost and "OSError: disk full" in lost


def test_a_first_host_that_never_comes_ends_the_wait(port):
    second = Link(HOSTS, HOSTS[1])
    second.start()
    assert not second.wait_for_end(None, 0.2)
    assert second.absent() == [HOSTS[0]]
    second.leave(0)


def test_the_wait_for_the_end_has_a_limit(links):
    _, second = joined(links)
    assert not second.wait_for_end(0.2, LIMIT)


# leader.run_together


def follow(first: Link, script):
    """Runs a script on the second host, against a first host whose link the test holds."""
    return leader.run_together(HOSTS, HOSTS[1], script)


def test_a_single_host_runs_alone():
    assert leader.run_together(["127.0.0.1"], "127.0.0.1", lambda: 5) == 5


def test_a_follower_returns_when_the_leader_is_through(port):
    first = Link(HOSTS, HOSTS[0])
    first.start()

    def script():
        joined([first])
        first.leave(0)
        return "through"

    assert follow(first, script) == "through"


def test_a_follower_fails_as_the_leader_does(port):
    first = Link(HOSTS, HOSTS[0])
    first.start()

    def script():
        joined([first])
        first.leave(7, "ValueError: bad batch")

    with pytest.raises(
        errors.ExecuteUserScriptError, match=r"ended on 127.0.0.1 with exit code 7: ValueError: bad"
    ) as caught:
        follow(first, script)
    assert caught.value.return_code == 7


def test_a_followers_own_failure_is_told_to_the_leader(port):
    first = Link(HOSTS, HOSTS[0])
    first.start()

    def script():
        joined([first])
        raise errors.ExecuteUserScriptError(["python"], 3, "Traceback (most recent call last):\nKeyError: 'x'")

    with pytest.raises(errors.ExecuteUserScriptError):
        follow(first, script)
    lost = first.wait(LIMIT)
    assert lost is not None and "exit code 3: KeyError: 'x'" in lost
    first.leave(1)
