"""What can be told of the engine's interface without an engine."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.engine import docker
from slipway.engine.docker import Engine, whole_lines
from slipway.engine.interrupts import uninterrupted
from slipway.errors import EngineError, NoDeviceError

frames = st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary()))


@given(frames)
def test_no_byte_is_lost_and_no_line_torn(given_frames: list[tuple[bytes | None, bytes | None]]) -> None:
    blocks = list(whole_lines(given_frames))
    for at, stream in enumerate(("stdout", "stderr")):
        sent = b"".join(frame[at] or b"" for frame in given_frames)
        got = [block for name, block in blocks if name == stream]
        assert b"".join(got) == sent
        assert all(block.endswith(b"\n") for block in got[:-1])


def test_streams_keep_their_order_of_arrival() -> None:
    sent = [(b"a", None), (None, b"x\n"), (b"b\n", None)]
    assert list(whole_lines(sent)) == [("stderr", b"x\n"), ("stdout", b"ab\n")]


def test_a_line_without_end_is_handed_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "LONGEST_LINE", 10)
    blocks = list(whole_lines([(b"x" * 7, None)] * 4))
    assert b"".join(block for _, block in blocks) == b"x" * 28
    assert max(len(block) for _, block in blocks) <= 17


def test_ctrl_c_waits_for_the_end_of_the_block() -> None:
    done = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        done = True
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_no_engine_is_an_error_with_a_next_step(tmp_path: object) -> None:
    with pytest.raises(EngineError) as caught:
        Engine.connect({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert "DOCKER_HOST" in caught.value.fix
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "said",
    [
        'could not select device driver "" with capabilities: [[gpu]]',
        "OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver not loaded",
        "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
    ],
)
def test_an_engine_without_gpus_says_that_there_is_no_device(said: str) -> None:
    from docker.errors import APIError

    class Refusing:
        def start(self, id: str) -> None:
            raise APIError("500 Server Error", explanation=said)

    with pytest.raises(NoDeviceError, match="with GPUs") as refused:
        docker.Container("id", "smoke", Refusing()).start()
    assert refused.value.exit_code == 23 and "NVIDIA" in refused.value.fix
