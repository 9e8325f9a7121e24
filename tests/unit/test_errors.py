"""Errors: what they say, and the register of exit codes that programs rely on."""

from __future__ import annotations

from slipway import errors
from slipway.errors import Fault, SlipwayError, nearest

# A released code is never given another meaning: a change here is a new line, never another number.
RELEASED = {
    "SlipwayError": 1,
    "UsageError": 2,
    "SpecError": 3,
    "InputError": 4,
    "EngineError": 5,
    "BuildError": 6,
    "DiskError": 7,
    "VerifyError": 8,
    "RegistryError": 9,
    "AuthError": 10,
    "NotProvedError": 11,
    "TagConflictError": 12,
    "LockError": 13,
    "JobError": 14,
    "ProgramError": 15,
    "NotFoundError": 16,
    "ServiceError": 17,
    "EndpointError": 18,
    "SizeError": 19,
    "TrustError": 20,
    "GateError": 21,
    "ScanError": 22,
    "NoDeviceError": 23,
    "DowngradeError": 24,
    "Interrupted": 130,
}


def test_codes_keep_their_meaning() -> None:
    found = {name: code for code, name, _ in errors.exit_codes()}
    assert found == RELEASED


def test_each_code_has_one_error_and_a_meaning() -> None:
    rows = errors.exit_codes()
    assert len({code for code, _, _ in rows}) == len(rows)
    assert len({meaning for _, _, meaning in rows}) == len(rows)
    assert [code for code, _, _ in rows] == sorted(RELEASED.values())


def test_an_error_shows_all_faults_and_the_next_step() -> None:
    error = SlipwayError("two things", fix="do this", faults=[Fault("a", "mend a", "f", 3), Fault("b")])
    assert str(error) == "two things\n  f:3: a (fix: mend a)\n  b\n  next: do this"


def test_a_fault_of_a_file_without_line_names_the_file() -> None:
    assert str(Fault("a", file="f")) == "f: a"


def test_the_nearest_names_are_offered_or_all() -> None:
    assert nearest("pytorh", ["pytorch", "mxnet"]) == "did you mean pytorch?"
    assert nearest("zzz", ["b", "a", "a"]) == "known: a, b"
    assert nearest("x", []) == "nothing is known here"
