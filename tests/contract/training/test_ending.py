"""How a job ends: exit codes, reasons, and a stop in time."""

from __future__ import annotations

from slipway.verify.jobs import Finished


def test_ending_exit_code(failed_job: Finished) -> None:
    assert failed_job.result.exit_code == 3, (
        f"the script ended with 3, the container with {failed_job.result.exit_code}"
    )


def test_ending_signal(killed_job: Finished) -> None:
    code = killed_job.result.exit_code
    assert code == 137, f"the script was ended by signal 9, the container with {code} instead of 137"


def test_ending_cause(failed_job: Finished) -> None:
    reason = failed_job.result.failure_reason
    cause = "FileNotFoundError: the vocabulary vocab-7f3a.json is not in the channel"
    assert cause in reason, f"the exception is not in the failure reason:\n{reason}"


def test_ending_own_reason(killed_job: Finished) -> None:
    reason = killed_job.result.failure_reason
    own = "AlgorithmError: the script's own reason: no positive samples"
    assert reason == own, f"the failure reason is not the script's own:\n{reason}"


def test_ending_stop(stopped_job: Finished) -> None:
    saved = stopped_job.model.get("checkpoint.txt")
    assert saved == b"saved on signal 15", f"SIGTERM did not reach the script: {stopped_job.ending()}"
    code = stopped_job.result.hosts[0].exit_code
    assert code != 137, "the script ended in time, the container did not, and was killed"
