"""Other ways to run the container than as root with everything writable."""

from __future__ import annotations

from slipway.verify.jobs import Finished


def test_users_any(user_job: Finished, anybody: int) -> None:
    assert user_job.result.status == "Completed", user_job.ending()
    assert user_job.report["user"] == anybody, f"the script ran as user {user_job.report['user']}"
    assert user_job.model.get("model.txt") == b"trained", "the script's model did not arrive"


def test_users_read_only(read_only_job: Finished) -> None:
    assert read_only_job.result.status == "Completed", read_only_job.ending()
    assert read_only_job.model.get("model.txt") == b"trained", "the script's model did not arrive"
