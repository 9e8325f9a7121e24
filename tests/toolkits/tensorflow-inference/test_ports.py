"""Ports for what listens beside the server."""

from __future__ import annotations

import socket

import pytest
from sagemaker_tensorflow_serving_container import ports
from sagemaker_tensorflow_serving_container.ports import Pair, PortError


def test_pairs_begin_at_the_low_end_of_the_range():
    assert ports.pair((25000, 25999), 0) == Pair(25000, 25001)
    assert ports.pair((25000, 25999), 3) == Pair(25006, 25007)


def test_without_a_range_they_are_the_usual_ones():
    assert ports.pair(None, 0) == Pair(9000, 8501)
    assert ports.pair(None, 1) == Pair(9002, 8503)


def test_a_range_with_too_few_ports_is_refused():
    assert ports.pair((25000, 25003), 1) == Pair(25002, 25003)
    with pytest.raises(PortError, match=r"SAGEMAKER_SAFE_PORT_RANGE=25000-25003: instance 3 needs the ports 25004"):
        ports.pair((25000, 25003), 2)
    with pytest.raises(PortError):
        ports.count((25000, 25000))


def test_many_models_share_nine_tenths_of_the_range():
    pairs = ports.of_models((9000, 9999))
    assert len(pairs) == 449
    assert pairs[-1] == Pair(9896, 9897)
    assert ports.count((9000, 9999)) == 500


def test_a_pair_is_held_until_it_is_released():
    pairs = [Pair(27580, 27581), Pair(27582, 27583)]
    first = ports.hold_first(pairs)
    second = ports.hold_first(pairs)
    assert (first.ports, second.ports) == (pairs[0], pairs[1])
    with pytest.raises(PortError, match="All ports"):
        ports.hold_first(pairs)
    first.release()
    third = ports.hold_first(pairs)
    assert third.ports == pairs[0]
    second.release()
    third.release()


def test_a_pair_that_something_listens_on_is_passed_over():
    with socket.create_server(("127.0.0.1", 27585)):
        held = ports.hold_first([Pair(27584, 27585), Pair(27586, 27587)])
    assert held.ports == Pair(27586, 27587)
    held.release()
