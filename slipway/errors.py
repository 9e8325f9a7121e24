"""The errors that Slipway raises on purpose, and the register of its exit codes.

Every error that a user can cause has a class here. The class fixes the exit code; the instance says what is wrong and
what to do next. A program may rely on the codes: a released code is never given another meaning.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing wrong with one input: where it stands, what it is, and how to mend it."""

    what: str
    fix: str = ""
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        text = f"{place}: {self.what}" if place else self.what
        return f"{text} (fix: {self.fix})" if self.fix else text


class SlipwayError(Exception):
    """Base of all errors that end a command. `faults` lists every fault found, not only the first."""

    exit_code = 1
    meaning = "something went wrong that has no code of its own"

    def __init__(self, message: str, *, fix: str = "", faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.faults = tuple(faults)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {fault}" for fault in self.faults)]
        if self.fix:
            lines.append(f"  next: {self.fix}")
        return "\n".join(lines)


class UsageError(SlipwayError):
    exit_code = 2
    meaning = "the command line: an unknown selector, name or option"


class SpecError(SlipwayError):
    exit_code = 3
    meaning = "a file of the matrix (buildspec/), a template or a setting is wrong"


class InputError(SlipwayError):
    exit_code = 4
    meaning = "an input file is wrong: a TSV file, a metric definition, a job's configuration"


class EngineError(SlipwayError):
    exit_code = 5
    meaning = "no Docker engine, or one that lacks what is needed"


class BuildError(SlipwayError):
    exit_code = 6
    meaning = "a build step failed"


class DiskError(SlipwayError):
    exit_code = 7
    meaning = "a disk is full, or too full to begin"


class VerifyError(SlipwayError):
    exit_code = 8
    meaning = "an image was checked and failed"


class RegistryError(SlipwayError):
    exit_code = 9
    meaning = "a registry did not answer, or refused"


class AuthError(SlipwayError):
    exit_code = 10
    meaning = "a registry or AWS did not accept the credentials"


class NotProvedError(SlipwayError):
    exit_code = 11
    meaning = "an image without a passed verdict was to be pushed or released"


class TagConflictError(SlipwayError):
    exit_code = 12
    meaning = "a tag that never moves already names another digest"


class LockError(SlipwayError):
    exit_code = 13
    meaning = "a lock is missing, or cannot be made"


class JobError(SlipwayError):
    exit_code = 14
    meaning = "a training job failed; the job's own exit code is in the message and in --json"


class ProgramError(SlipwayError):
    exit_code = 15
    meaning = "a program that Slipway runs is missing or failed"


class NotFoundError(SlipwayError):
    exit_code = 16
    meaning = "what was looked up is not on record: no such image, push or release"


class ServiceError(SlipwayError):
    exit_code = 17
    meaning = "an AWS service other than a registry did not answer, or refused"


class EndpointError(SlipwayError):
    exit_code = 18
    meaning = "an endpoint or a batch transform failed: its container, or a request to it"


class SizeError(SlipwayError):
    exit_code = 19
    meaning = "an image is over its ceiling, or a ceiling was raised without a reason"


class TrustError(SlipwayError):
    exit_code = 20
    meaning = "a signature, an attestation or an SBOM of an image is missing, or is not what it should be"


class GateError(SlipwayError):
    exit_code = 21
    meaning = "an image has vulnerabilities that are not allowed, or an allowance whose date has passed"


class ScanError(SlipwayError):
    exit_code = 22
    meaning = "a vulnerability scanner could not look, so nothing is known of the image"


class NoDeviceError(SlipwayError):
    exit_code = 23
    meaning = "what was asked for needs a GPU, and there is none here: it was not run, and nothing was filed"


class DowngradeError(SlipwayError):
    exit_code = 24
    meaning = "a package is older than in the release before, and release.yml does not list it"


class Interrupted(SlipwayError):
    exit_code = 130
    meaning = "stopped by Ctrl-C; what was begun is cleared away"


def exit_codes() -> list[tuple[int, str, str]]:
    """The register as (code, error, meaning), in order of code."""
    classes: list[type[SlipwayError]] = [SlipwayError, *SlipwayError.__subclasses__()]
    return sorted((cls.exit_code, cls.__name__, cls.meaning) for cls in classes)


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """A phrase that names the known names closest to `name`; all of them when none is close."""
    names = sorted(set(known))
    if not names:
        return "nothing is known here"
    close = difflib.get_close_matches(name, names, n=count, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known: " + ", ".join(names)
