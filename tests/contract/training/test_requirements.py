"""Packages that a job brings along in its requirements.txt, offline."""

from __future__ import annotations

from slipway.verify.jobs import Finished


def test_requirements_installed(requiring_job: Finished) -> None:
    assert requiring_job.result.status == "Completed", requiring_job.ending()
    assert requiring_job.model.get("model.txt") == b"42", "the script did not import what was required"


def test_requirements_cause(unmet_job: Finished) -> None:
    assert unmet_job.result.status == "Failed", f"the job went on without what it requires: {unmet_job.ending()}"
    reason = unmet_job.result.failure_reason
    assert "slipway-probe-missing" in reason, f"the failure reason does not name the package:\n{reason}"
    assert "the script has started" not in unmet_job.log.decode("utf-8", "replace"), (
        "the script was started all the same"
    )
