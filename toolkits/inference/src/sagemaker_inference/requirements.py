"""The ``code/requirements.txt`` of a model: checked, and installed by pip only when something is lacking.

A program of its own, since what it imports has no place in a server that idles for weeks::

    python -m sagemaker_inference.requirements CODE_DIR FOLDER

FOLDER becomes an ``overlay`` when something has to be installed. Everything is logged to stderr, secrets masked; on
failure the last line is the reason, which stands in the file ``reason_of(FOLDER)`` too, and the exit code ``FAILED``.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sagemaker_inference import codeartifact, masking, overlay, requirement_lines

FILE = "requirements.txt"
FAILED = 3
#: A folder of code/ that, where a model has it, takes the place of its requirements; a framework's ``serving`` sets it.
VENDORED = "SLIPWAY_VENDORED"

_CONSTRAINTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constraints.txt")
_REPLACED = {
    "sagemaker-inference",
    "sagemaker-pytorch-inference",
    "sagemaker-mxnet-inference",
    "sagemaker-huggingface-inference-toolkit",
    "multi-model-server",
}

# Defaults only: what the image or the user set holds. Without an index, pip's own would wait for minutes.
_DEFAULTS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_RETRIES": "1",
    "PIP_TIMEOUT": "10",
    "PYTHONUNBUFFERED": "1",
}
_UNREACHABLE = ("Failed to establish a new connection", "Temporary failure in name resolution", "ConnectTimeoutError")
_HINT = (
    "no package index answers: name a reachable one by PIP_INDEX_URL or CA_REPOSITORY_ARN, put wheels into code/, "
    "or use an image that holds the packages"
)
_FULL = "No space left on device"


class RequirementsError(Exception):
    """The requirements cannot be installed; the text says why, in one line."""


def present(code_dir: str) -> bool:
    """Whether a model has a requirements file; one in a wrong place counts, as ``install`` has to say so."""
    return any(map(os.path.isfile, (os.path.join(code_dir, FILE), *_misplaced(code_dir))))


def command(code_dir: str, folder: str) -> list[str]:
    """The command that installs a model's requirements with FOLDER as its overlay."""
    return [sys.executable, "-m", "sagemaker_inference.requirements", code_dir, folder]


def reason_of(folder: str) -> str:
    """The file that says why an installation failed."""
    return f"{folder}.failure"


def install(code_dir: str, folder: str, environ: Mapping[str, str]) -> None:
    """Meets the requirements of a model. Raises RequirementsError.

    code_dir: the model's code; pip runs in it, so relative paths mean what they say. folder: where the overlay goes.
    """
    path = os.path.join(code_dir, FILE)
    masking.learn(environ)
    vendored = os.path.join(code_dir, environ[VENDORED]) if environ.get(VENDORED) else ""
    if os.path.isdir(vendored) and os.path.isfile(path):
        _say(f"warning: {path} is not installed: {vendored} holds the packages instead")
        return
    if not os.path.isfile(path):
        for place in filter(os.path.isfile, _misplaced(code_dir)):
            _say(f"warning: {place} is not installed: the file is read at {path} only")
        return
    try:
        from sagemaker_inference import installed
    except ImportError as error:
        raise RequirementsError(f"{path} cannot be installed: this Python has no pip ({error})") from error
    lacking = installed.lacking(_lines(path, environ))
    if not lacking:
        _say(f"{path}: everything is installed already")
        return
    _say(f"{path}: installing, since these are not there: {', '.join(lacking)}")
    started = time.monotonic()
    _install(code_dir, folder, environ)
    _say(f"{path}: installed in {time.monotonic() - started:.1f} s")


def main(argv: Sequence[str]) -> int:
    """Runs the program; its exit code."""
    code_dir, folder = argv
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        install(code_dir, folder, os.environ)
    except RequirementsError as error:
        with suppress(OSError), open(reason_of(folder), "w", encoding="utf-8") as file:
            file.write(str(error))
        _say(str(error))
        return FAILED
    return 0


def _misplaced(code_dir: str) -> list[str]:
    return [os.path.join(code_dir, "lib", FILE), os.path.join(os.path.dirname(os.path.abspath(code_dir)), FILE)]


def _lines(path: str, environ: Mapping[str, str]) -> requirement_lines.Lines:
    """What the file asks for, without what this image's toolkit replaces."""
    lines = requirement_lines.read(path, environ)
    kept = [line for line in lines.requirements if requirement_lines.name(line) not in _REPLACED]
    for line in lines.requirements:
        if line not in kept:
            text = " ".join(line.split())
            _say(f"warning: {path}: {text!r} is left out, this image's toolkit provides the same import name")
    return dataclasses.replace(lines, requirements=kept)


def _install(code_dir: str, folder: str, environ: Mapping[str, str]) -> None:
    path = os.path.join(code_dir, FILE)
    variables = {**_DEFAULTS, **environ}
    try:
        if environ.get(codeartifact.VARIABLE):
            variables["PIP_INDEX_URL"] = codeartifact.index_url(environ[codeartifact.VARIABLE])
        overlay.make(folder)
        file = _effective(path, folder)
    except (codeartifact.CodeArtifactError, OSError, ValueError) as error:
        raise RequirementsError(f"{path} cannot be installed: {masking.text(str(error))}") from error
    # Isolated, as a module of the user's in the working folder must not take the place of one that pip imports.
    pip = [overlay.python(folder), "-I", "-m", "pip", "install", "-r", file, "-c", _CONSTRAINTS]
    code, told = _run(pip, code_dir, variables)
    if code:
        raise RequirementsError(f"{path} cannot be installed: {_reason(told, folder)} (pip's exit code {code})")


def _run(argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> tuple[int, list[str]]:
    """Runs pip, and passes on what it says. Returns its exit code and its last lines."""
    told: list[str] = []
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for raw in process.stdout:
            line = masking.text(raw.decode("utf-8", "replace").rstrip())
            told = [*told[-199:], line]
            _say(line)
        return process.wait(), told
    finally:
        # What pip has started too: a compiler, a build.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reason(told: Sequence[str], folder: str) -> str:
    """pip's own error, or its last line; and what to do when no index answered or the disk is full."""
    errors = [line for line in told if line.startswith("ERROR: ")]
    reason = (errors or [line for line in told if line] or ["pip said nothing"])[-1].removeprefix("ERROR: ")
    if any(sign in line for line in told for sign in _UNREACHABLE):
        return f"{reason}; {_HINT}"
    if any(_FULL in line for line in told):
        free = shutil.disk_usage(folder).free >> 20
        return f"{reason}; {free} MB are free at {folder}: name a folder on a larger disk by TMPDIR"
    return reason


def _effective(path: str, folder: str) -> str:
    """The file to install from: the model's own, or a copy in the overlay without what this toolkit replaces."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        lines = list(requirement_lines.logical(file.read()))
    kept = [line for line in lines if requirement_lines.name(line) not in _REPLACED]
    if len(kept) == len(lines):
        return path
    copy = os.path.join(folder, FILE)
    with open(copy, "w", encoding="utf-8", errors="surrogateescape") as file:
        # pip reads what a file includes from beside that file.
        file.writelines(requirement_lines.with_absolute_includes(line, os.path.dirname(path)) for line in kept)
    return copy


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
