"""A training job as SageMaker runs it."""

from __future__ import annotations

from slipway.verify.jobs import Finished


def test_job_completes(job: Finished) -> None:
    assert job.result.status == "Completed" and job.report, job.ending()
