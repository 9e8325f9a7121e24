"""The log: what a script prints, as it prints it, when it prints it."""

from __future__ import annotations

from types import SimpleNamespace

from slipway.verify.jobs import Finished


def test_output_bytes(job: Finished, probe: SimpleNamespace) -> None:
    parts = job.log.split(probe.EDGE)
    assert len(parts) == 3, f"the two lines around what was printed arrived {len(parts) - 1} times"
    found, wanted = parts[1].split(b"\n"), probe.ODD.split(b"\n")
    wrong = [
        f"line {at}: {(found[at] if at < len(found) else None)!r:.200} instead of {line!r:.200}"
        for at, line in enumerate(wanted)
        if at >= len(found) or found[at] != line
    ]
    assert parts[1] == probe.ODD, "\n".join(wrong[:5]) or f"{len(found) - len(wanted)} lines too many"


def test_output_live(stopped_job: Finished) -> None:
    how = stopped_job.result.stopped_by
    assert how == "caller", (
        f"a line was printed, and had not arrived when the job was ended ({how or 'it ended itself'})"
    )
