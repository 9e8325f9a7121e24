"""The log: what a script prints, as it prints it, when it prints it."""

from __future__ import annotations

from types import SimpleNamespace

from slipway.verify.jobs import Finished


def test_output_bytes(job: Finished, probe: SimpleNamespace) -> None:
    log = one_stream(job, probe.EDGE)
    parts = log.split(probe.EDGE)
    assert len(parts) == 3, f"the two lines around what was printed arrived {len(parts) - 1} times"
    found, wanted = parts[1].split(b"\n"), probe.ODD.split(b"\n")
    wrong = [
        f"line {at}: {(found[at] if at < len(found) else None)!r:.200} instead of {line!r:.200}"
        for at, line in enumerate(wanted)
        if at >= len(found) or found[at] != line
    ]
    assert parts[1] == probe.ODD, "\n".join(wrong[:5]) or f"{len(found) - len(wanted)} lines too many"


def one_stream(job: Finished, line: bytes) -> bytes:
    """The log, without what came on the other stream than `line` did.

    The engine carries each stream by itself: what a toolkit says at the end may overtake a long line of the script.
    """
    own = {each.stream for each in job.lines if each.text.encode() + b"\n" == line}
    pairs = zip(job.log.split(b"\n"), job.lines, strict=False)
    return b"".join(content + b"\n" for content, each in pairs if each.stream in own)


def test_output_live(stopped_job: Finished) -> None:
    how = stopped_job.result.stopped_by
    assert how == "caller", (
        f"a line was printed, and had not arrived when the job was ended ({how or 'it ended itself'})"
    )
