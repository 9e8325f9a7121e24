"""Faults of buildspec/: each with file, line and fix, all of them at once, never a traceback."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.errors import SpecError
from slipway.spec import load

from .conftest import SPEC

Write = Callable[[str, str], Path]


def faults(project: Path) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load.load(project)
    assert caught.value.message == f"buildspec/ has {len(caught.value.faults)} fault" + (
        "s" if len(caught.value.faults) > 1 else ""
    )
    assert all(fault.file and fault.line for fault in caught.value.faults)
    return [str(fault).removeprefix("buildspec/small.yml:") for fault in caught.value.faults]


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SPEC.splitlines(), start=1) if text in line)


def test_the_file_that_the_others_change_is_right(project: Path) -> None:
    assert len(load.load(project).images) == 3


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    os: debian12", "    oss: debian12", "unknown key 'oss' (fix: did you mean os?)"),
        ("wheel-index:", "wheel_index:", "unknown key 'wheel_index' (fix: did you mean wheel-index?)"),
        ("os: debian12", "os: debian11", "stacks.1.2.os: 'debian11' is not known (fix: did you mean debian1"),
        ("framework: small", "framework: Small", "framework: string should match pattern"),
        ("framework: small", "framework: 7", "framework: must be text"),
        ("version: 1.2.0", "version: 1.20", "stacks.1.2.version: 1.2 was read as a number (fix: put it in quotes)"),
        ("version: 1.2.0", "version: 1", "1 was read as a number"),
        ("version: 1.2.0", "version: latest", "'latest' is not a version (fix: write it as 2.13.0)"),
        ('python: ["3.11"]', "python: [3.10]", "stacks.1.2.python.0: 3.1 was read as a number"),
        ('python: ["3.11"]', 'python: ["3"]', "'3' is not a major.minor version"),
        ('python: ["3.11"]', "python: []", "stacks.1.2.python: list should have at least 1 item"),
        ('python: ["3.11"]', 'python: ["3.11", "3.11"]', "python: 3.11 is given twice"),
        ("      cpu:\n        arch", "      gpu:\n        arch", "a gpu cell needs its CUDA version"),
        (
            "      cpu:\n        arch",
            '      cpu:\n        cuda: "13.0"\n        arch',
            "a cpu cell has no CUDA version",
        ),
        ("      cpu:\n        arch", "      gpu:\n        arch", "a gpu cell needs the GPUs that its framework"),
        (
            "      cpu:\n        arch",
            "      cpu:\n        cuda-architectures: [sm_80]\n        arch",
            "a cpu cell has no CUDA code",
        ),
        (
            "      cpu:\n        arch",
            "      gpu:\n        cuda-architectures: ['8.0']\n        arch",
            "'8.0' is not an architecture of CUDA code",
        ),
        ("      cpu:\n        arch", "      tpu:\n        arch", "'tpu' is not known"),
        ("[amd64, arm64]", "[amd64, arm65]", "'arm65' is not known (fix: did you mean arm64"),
        ("training: [training]", "training: [trainer]", "there is no toolkit 'trainer' (fix: did you mean training?)"),
        ("common: [small==1.2.0, numpy]", "common: [small 1.2.0]", "'small 1.2.0' is not a requirement"),
        ("common: [small==1.2.0, numpy]", "common: []", "no package is named for cpu"),
        ("common: [small==1.2.0, numpy]", "common: small==1.2.0", "stacks.1.2.packages.common: must be a list"),
        ("common: [small==1.2.0, numpy]", 'common: ["--index-url https://x"]', "is not a requirement"),
        ("architecture: arm64", "architecture: amd64\n    python: '3.12'", "this excludes no cell"),
        ("reason: no machine of this architecture builds here", "reason: because", "at least 10 characters"),
        ("https://wheels.example/cpu", "wheels", "'wheels' is not the address of an index"),
        ("https://wheels.example/cpu", "https://me:word@wheels.example", "user name or password"),
        ("scopes: [training]", "scopes: [training, inference]", "no toolkit starts the images of the scope inference"),
        (
            "scopes: [training]",
            "scopes: [training]\n    ceiling-mb: {inference: 5}",
            "inference is not among the scopes",
        ),
        (
            "scopes: [training]",
            "scopes: [training]\n    ceiling-mb: {gpu-inference: 5}",
            "gpu-inference is not among the scopes",
        ),
        ("scopes: [training]", "scopes: [training]\n    ceiling-mb: {training: -5}", "should be greater than 0"),
        ("scopes: [training]", "scopes: [training]\n    supported-until: 20270731", "20270731 is not a date"),
        ("scopes: [training]", "scopes: [training]\n    supported-until: 2027-02-30", "day is out of range"),
        ('  "1.1":', '  "1.2":', "'1.2' is given twice (fix: first on line"),
        ('  "1.1":', '  "":', "string should match pattern"),
        (
            "version: 1.1.0",
            "version: 1.2.0",
            "small-1.2.0-cpu-py311 is declared twice (fix: first at buildspec/small.yml",
        ),
        ("version: 1.2.0", f"version: 1.2.{'0' * 130}", "a tag of more than 128 characters"),
    ],
)
def test_one_fault_is_told_where_it_stands(project: Path, write: Write, old: str, new: str, told: str) -> None:
    assert old in SPEC
    write("buildspec/small.yml", SPEC.replace(old, new, 1))
    found = faults(project)
    fault = next(fault for fault in found if told in fault)
    changed = line_of(old.split("\n")[0])
    assert changed - 1 <= int(fault.split(":")[0]) <= changed + 3


def test_a_scope_without_a_template_is_told(project: Path) -> None:
    (project / "dockerfiles" / "training.Dockerfile.j2").unlink()
    assert (
        "there is no template for the scope training (fix: write dockerfiles/training.Dockerfile.j2"
        in faults(project)[0]
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "framework", "null"])
def test_a_file_that_holds_nothing_useful_is_told(project: Path, write: Write, text: str) -> None:
    write("buildspec/small.yml", text)
    assert faults(project)


def test_a_folder_without_files_is_told(project: Path) -> None:
    (project / "buildspec" / "small.yml").unlink()
    with pytest.raises(SpecError, match=r"holds no \.yml file"):
        load.load(project)


def test_the_faults_of_all_files_are_told_at_once(project: Path, write: Write) -> None:
    write("buildspec/small.yml", SPEC.replace("os: debian12", "os: plan9").replace("framework:", "framwork:"))
    write("buildspec/tabs.yml", "framework:\n\t- x\n")
    (project / "buildspec" / "bytes.yml").write_bytes(b"framework: \xff\n")
    write(
        "buildspec/other.yml",
        SPEC.replace("framework: small", "framework: other").replace("[training]", "[nothing]", 1),
    )
    with pytest.raises(SpecError) as caught:
        load.load(project)
    places = [(fault.file, fault.line) for fault in caught.value.faults]
    assert ("buildspec/bytes.yml", 1) in places
    assert ("buildspec/tabs.yml", 2) in places
    assert ("buildspec/other.yml", line_of("[training]")) in places
    assert [file for file, _ in places].count("buildspec/small.yml") == 4


def test_a_framework_of_two_files_is_told_with_both(project: Path, write: Write) -> None:
    write("buildspec/tiny.yml", SPEC)
    with pytest.raises(SpecError) as caught:
        load.load(project)
    told = [str(fault) for fault in caught.value.faults]
    assert told[0].startswith("buildspec/tiny.yml:1: the framework small is declared in two files")
    assert "small-1.2.0-cpu-py311 is declared twice (fix: first at buildspec/small.yml:7; remove one)" in told[1]
    assert len(told) == 4


def test_two_stacks_that_would_share_their_locks_are_told(project: Path, write: Write) -> None:
    write("dockerfiles/inference.Dockerfile.j2", "FROM parent")
    spec = SPEC.replace("training: [training]", "training: [training]\n  inference: [training]", 1)
    head, tail = spec.split('  "1.1":')
    tail = tail.replace("1.1.0", "1.2.0").replace("scopes: [training]", "scopes: [inference]")
    write("buildspec/small.yml", head + '  "1.1":' + tail)
    assert "small-1.2.0-cpu-py311 is declared twice" in faults(project)[0]


# Each mutation takes the file's lines and a number that it may use as it likes.
Mutation = Callable[[list[str], int], None]
ODD = [
    "\t",
    "\x00",
    "*x",
    "&x",
    "!t",
    "[",
    "{",
    "]",
    "- -",
    ": :",
    "'",
    '"',
    "#",
    "?",
    "|",
    "2.10",
    "2027-99-99",
    "~",
    "<<",
    "%",
    "ü",
    "𐍈",
]


def remove(lines: list[str], number: int) -> None:
    del lines[number % len(lines)]


def repeat(lines: list[str], number: int) -> None:
    lines.insert(number % len(lines), lines[number // 7 % len(lines)])


def indent(lines: list[str], number: int) -> None:
    lines[number % len(lines)] = " " * (number // 7 % 9) + lines[number % len(lines)].strip()


def spoil(lines: list[str], number: int) -> None:
    line = lines[number % len(lines)]
    at = number // 7 % (len(line) + 1)
    lines[number % len(lines)] = line[:at] + ODD[number // 11 % len(ODD)] + line[at:]


def misspell(lines: list[str], number: int) -> None:
    line = lines[number % len(lines)]
    at = number // 7 % (len(line) + 1)
    lines[number % len(lines)] = line[:at] + string.ascii_letters[number // 11 % 52] + line[at + 1 :]


def retype(lines: list[str], number: int) -> None:
    key, colon, _ = lines[number % len(lines)].partition(":")
    values = ["", "1", "1.5", "true", "[]", "{}", "[1, x]", "{a: b}", "null", "2027-01-01", "''", "-1", ".inf", "1e999"]
    lines[number % len(lines)] = f"{key}{colon} {values[number // 7 % len(values)]}"


mutations = st.lists(
    st.tuples(st.sampled_from([remove, repeat, indent, spoil, misspell, retype]), st.integers(0, 100_000)),
    min_size=1,
    max_size=4,
)


@given(mutations)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_spoiled_file_loads_or_is_told_with_file_and_line(project: Path, changes: list[tuple[Mutation, int]]) -> None:
    lines = SPEC.splitlines()
    for change, number in changes:
        if lines:
            change(lines, number)
    (project / "buildspec" / "small.yml").write_text("\n".join(lines))
    try:
        load.load(project)
    except SpecError as error:
        assert error.faults
        for fault in error.faults:
            assert fault.file == "buildspec/small.yml"
            assert fault.line is not None and fault.line >= 1
            assert fault.what
