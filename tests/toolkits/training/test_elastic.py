"""What is read out of torchrun's last lines. The texts are those of PyTorch 2.13."""

from __future__ import annotations

import pytest
from sagemaker_training import elastic

BANNER = f"""
{"*" * 41}
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
{"*" * 41}
"""

REPORT = f"""\
W1130 15:00:49.713000 8 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 11 closing signal SIGTERM
E1130 15:00:49.714000 8 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 7) local_rank: 1
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
{"=" * 60}
/bin/sh FAILED
{"-" * 60}
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 11)  (SIGTERM)
  traceback : Signal 15 (SIGTERM) received by PID 11
{"-" * 60}
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : %s (pid: 12)\x20
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
{"=" * 60}
"""

CAUSE = """\
step 3
Traceback (most recent call last):
  File "train.py", line 5, in <module>
    raise ValueError("bad batch")
ValueError: bad batch
"""

CONSEQUENCE = """\
Traceback (most recent call last):
  File "train.py", line 6, in <module>
    dist.all_reduce(torch.ones(1))
RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [172.18.0.3]:45071
"""


@pytest.mark.parametrize("code", [7, -9, -11])
def test_rank_and_exit_code_of_the_root_cause(code):
    failure = elastic.read(REPORT % code)
    assert (failure.rank, failure.exit_code) == (1, code)


def test_nothing_of_torchrun_is_left():
    failure = elastic.read(BANNER + REPORT % 7 + "last words\n")
    assert failure.text.strip() == "last words"
    assert not failure.secondhand


@pytest.mark.parametrize("text", [CAUSE + CONSEQUENCE, CONSEQUENCE + CAUSE])
def test_a_cause_goes_before_its_consequences(text):
    failure = elastic.read(REPORT % 1 + text)
    assert "Connection closed" not in failure.text
    assert "ValueError: bad batch" in failure.text
    assert not failure.secondhand


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [pair.cc:547] Connection closed by peer [172.18.0.3]:45071",
        "RuntimeError: [pair.cc:547] Connection reset by peer",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1, remote process exited",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms",
    ],
)
def test_errors_that_tell_of_other_hosts(error):
    failure = elastic.read(f'Traceback (most recent call last):\n  File "train.py", line 1\n{error}\n')
    assert failure.secondhand
    assert error in failure.text


def test_warnings_of_pytorch_are_no_cause_but_its_errors_are():
    warning = (
        "[W1130 15:53:09.759131720 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved.\n"
    )
    error = "[E1130 15:53:09.759131720 ProcessGroupNCCL.cpp:1] Watchdog caught collective operation timeout\n"
    assert elastic.read("last words\n" + warning).text.strip() == "last words"
    assert elastic.read(error).text == error


def test_an_error_of_torchrun_itself_stays():
    text = "/usr/bin/python3: No module named 'torch'\n"
    failure = elastic.read(text)
    assert (failure.exit_code, failure.text, failure.secondhand) == (None, text, False)


def test_a_stop_of_torchrun_is_no_cause():
    text = (
        'Traceback (most recent call last):\n  File "run.py", line 1\n'
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 8 got signal: 15\n"
    )
    assert elastic.read("saved\n" + text).text.strip() == "saved"


def test_context_holds_nothing_that_passes_for_the_cause():
    assert "Traceback" not in elastic.context(CAUSE)
    assert "ValueError: bad batch" in elastic.context(CAUSE)
