"""The failure text: what went wrong, cause first, in the 1,024 characters that the platform keeps."""

from __future__ import annotations

import os
import re
import signal
from typing import List, Optional, Sequence, Tuple, Union

from sagemaker_training import errors, layout, masking, process

LIMIT = 1024

_COMMAND_LIMIT = 160
_CAUSE_LIMIT = 400

_TRACEBACK = re.compile(r"^(?P<prefix>.*?)Traceback \(most recent call last\):\s*$")

# Launchers that report that a child failed. The child's own traceback says why.
_SECOND_HAND = re.compile(r"ChildFailedError|SystemExit|CalledProcessError.*torchrun")

# What pip and others say after the line that matters.
_REMARKS = ("[notice]", "WARNING:")

_EXCEPTION_GROUP = "+ Exception Group "

_CHANNEL_KEY = re.compile(r"KeyError: '(SM_CHANNEL_\w+)'")


def compose(error: BaseException, log: str = "", channels: Sequence[str] = ()) -> str:
    """The text for ``output/failure``.

    log: the toolkit's own traceback, for errors that are nobody's but the toolkit's. channels: their names, for hints.
    """
    if isinstance(error, errors.CalledProcessError):
        text = describe_process(error, channels)
    elif isinstance(error, errors.ClientError):
        text = f"{type(error).__name__}: {error}"
    elif isinstance(error, process.Stopped):
        text = f"The platform asked the job to stop ({signal.Signals(error.signum).name}) while no script was running."
    elif isinstance(error, SystemExit):
        text = f"SystemExit: {error}"
    else:
        text = _fit([f"Framework Error: {type(error).__name__}: {error}"], log)
    return masking.text(text)[:LIMIT]


def describe_process(error: errors.CalledProcessError, channels: Sequence[str] = ()) -> str:
    """Last exception first, then how the process ended, hints, as much of its last lines as fits, the command."""
    # Masked before anything is cut: half a secret has no shape any more.
    cause, context = _cause(masking.text(error.output))
    head = [_shorten(cause, _CAUSE_LIMIT)] if cause else []
    head.append(f"{type(error).__name__}: ExitCode {error.return_code}{_named_signal(error.return_code)}")
    head += [hint for hint in [error.info, *hints(cause, channels)] if hint]
    return _fit(head, context, f'Command "{_shorten(_command(error.cmd), _COMMAND_LIMIT)}"')


def _command(cmd: Union[str, Sequence[str]]) -> str:
    if isinstance(cmd, str):
        return masking.text(cmd)
    import shlex

    return " ".join(shlex.quote(argument) for argument in masking.arguments(cmd))


def _fit(head: List[str], context: str, foot: str = "") -> str:
    """Head and foot whole, and between them the end of the context."""
    room = LIMIT - len("\n".join([*head, foot])) - 2
    kept: List[str] = []
    for line in reversed(context.splitlines()):
        if len(line) + 1 > room:
            break
        kept.insert(0, line)
        room -= len(line) + 1
    return "\n".join([*head, *kept, foot]).rstrip("\n")


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _named_signal(return_code: Optional[int]) -> str:
    if return_code is None or return_code >= 0:
        return ""
    try:
        return f" ({signal.Signals(-return_code).name})"
    except ValueError:
        return ""


def telling(stderr: str, stdout: str) -> str:
    """The stream that explains a failure: the one with a traceback, else the one with anything in it."""
    for text in (stderr, stdout):
        if "Traceback (most recent call last):" in text:
            return text
    return stderr if stderr.strip() else stdout


def _cause(output: str) -> Tuple[str, str]:
    """The line that explains the end, and the text around it.

    That is the exception of the last traceback; where there is none, the last line.
    """
    lines = [line.rstrip() for line in output.splitlines()]
    found: Optional[Tuple[str, str]] = None
    for start in reversed([index for index, line in enumerate(lines) if _TRACEBACK.match(line)]):
        traceback = _traceback(lines, start)
        if traceback is None:
            continue
        found = found or traceback
        if not _SECOND_HAND.search(traceback[0]):
            return traceback
    if found:
        return found
    written = [line for line in lines if any(map(str.isalnum, line)) and not line.startswith(_REMARKS)]
    return (written[-1].strip(), "\n".join(written[:-1])) if written else ("", "")


def _traceback(lines: Sequence[str], start: int) -> Optional[Tuple[str, str]]:
    """Exception line and frames of the traceback at a line; None when it is cut off.

    A launcher may prefix each line with the rank; the prefix of the first line is taken off all.
    """
    match = _TRACEBACK.match(lines[start])
    assert match is not None
    prefix = match["prefix"]
    if prefix.endswith(_EXCEPTION_GROUP):
        prefix = prefix[: -len(_EXCEPTION_GROUP)] + "| "
    frames = []
    for position in range(start + 1, len(lines)):
        line = lines[position]
        if not line.startswith(prefix):
            continue
        line = line[len(prefix) :]
        if line[:1] in (" ", "\t"):
            frames.append(line)
        elif line:
            more = [text[len(prefix) :] for text in lines[position + 1 : position + 4] if text.startswith(prefix)]
            message = [line, *_message_rest(more)]
            return " ".join(message), "\n".join(frames)
    return None


def _message_rest(lines: Sequence[str]) -> List[str]:
    """Further lines of a message. Only indented ones certainly belong to it."""
    rest = []
    for line in lines:
        if line[:1] not in (" ", "\t"):
            break
        rest.append(line.strip())
    return rest


def hints(cause: str, channels: Sequence[str] = ()) -> List[str]:
    """What to do about causes that many jobs meet."""
    found = []
    channel = _CHANNEL_KEY.search(cause)
    if channel:
        names = ", ".join(f"SM_CHANNEL_{name.upper()}" for name in sorted(channels)) or "none"
        found.append(f"Hint: the job has no channel for {channel[1]}. Its channels: {names}.")
    if "unrecognized arguments:" in cause:
        found.append(
            "Hint: every hyperparameter becomes an option of the script (--key value). "
            "Declare it, or parse with parse_known_args()."
        )
    return found


def end_hint(returncode: int, oom_kills: int, stopped: Optional[int], memory_limit: Optional[int]) -> str:
    """Why a process was killed, where that can be told."""
    if stopped is not None:
        return f"The platform asked the job to stop ({signal.Signals(stopped).name})."
    if oom_kills:
        limit = f" of {memory_limit / 2**30:.1f} GiB" if memory_limit else ""
        return f"Out of memory: the kernel killed {oom_kills} process(es) at the container's limit{limit}."
    if returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "Killed from outside the script, most often because the host ran out of memory."
    if returncode in (-signal.SIGTERM, 128 + signal.SIGTERM):
        return "Ended by SIGTERM, although the platform did not ask the job to stop."
    if returncode in (-signal.SIGBUS, 128 + signal.SIGBUS):
        return "SIGBUS: most often shared memory (/dev/shm) is full; lower num_workers or give the container more."
    return ""


def exists() -> bool:
    """Whether the script (or anyone) wrote a reason already."""
    return os.path.isfile(layout.failure_file) and os.path.getsize(layout.failure_file) > 0
