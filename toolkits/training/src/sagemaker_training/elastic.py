"""What torchrun's output says about a failure: whose it was, with which exit code, and from what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

_TRACEBACK = "Traceback (most recent call last):"

# torchrun's summary. The root cause is the rank that it saw fail first.
_SUMMARY = re.compile(r"^={20,}\n.* FAILED\n-{20,}\n.*?^={20,}$", re.MULTILINE | re.DOTALL)
_ROOT = re.compile(r"^Root Cause.*?^\s*rank\s*: (\d+).*?^\s*exitcode\s*: (-?\d+)", re.MULTILINE | re.DOTALL)

# torchrun's own lines: its log, and the banner about OMP_NUM_THREADS; and warnings of the C++ part of PyTorch.
_OWN_LINE = re.compile(r"^(?:[A-Z]|\[[WI])\d{4} \d\d:\d\d:\d\d|^\*{20,}$|^Setting OMP_NUM_THREADS")
_OWN_ERROR = re.compile(r"ChildFailedError|elastic\S*SignalException")

# Errors of ranks that only say that another rank is gone.
_CONSEQUENCE = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|DistBackendError|DistNetworkError|DistStoreError"
    r"|ncclRemoteError|ncclSystemError|Socket Timeout|Timed out waiting|watchdog"
    r"|Rank \d+ (successfully reached|failed to pass) monitoredBarrier"
)


@dataclass(frozen=True)
class Failure:
    """rank: the one that failed first, counted over all hosts; exit_code: its own, negative for a signal. Both are None
    where torchrun does not say.

    text: what the ranks wrote, without torchrun's words and, where it has another cause, without errors that only
    tell of a lost rank. secondhand: the only errors in it are such.
    """

    rank: Optional[int]
    exit_code: Optional[int]
    text: str
    secondhand: bool


def read(output: str) -> Failure:
    """What the last lines of torchrun and its ranks say."""
    summary = _SUMMARY.search(output)
    root = _ROOT.search(summary[0]) if summary else None
    rank, code = map(int, root.groups()) if root else (None, None)
    blocks = [block for block in _blocks(_SUMMARY.sub("", output)) if not (block[1] and _OWN_ERROR.search(block[1]))]
    causes = [error for _, error in blocks if error is not None]
    firsthand = [error for error in causes if not _CONSEQUENCE.search(error)]
    if firsthand:
        blocks = [block for block in blocks if block[1] is None or not _CONSEQUENCE.search(block[1])]
    text = "\n".join(line for lines, _ in blocks for line in lines)
    return Failure(rank, code, text, bool(causes) and not firsthand)


def _blocks(output: str) -> Iterator[Tuple[List[str], Optional[str]]]:
    """Tracebacks with their exception line, and the lines between them with None."""
    lines: List[str] = []
    traceback = False
    for line in output.split("\n"):
        if _OWN_LINE.match(line):
            continue
        if line.startswith(_TRACEBACK):
            yield lines, None
            lines, traceback = [line], True
        elif traceback and line and line[0] not in " \t":
            yield [*lines, line], line
            lines, traceback = [], False
        else:
            lines.append(line)
    yield lines, None


def context(text: str) -> str:
    """The text with nothing in it that would pass for the cause: for the lines around a cause that is known."""
    return "\n".join(line for line in text.split("\n") if _TRACEBACK not in line)
