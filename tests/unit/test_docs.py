"""Pages that repeat what the code knows must say the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from slipway import errors, settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def named(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match[0].lower()


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    body = next(part for part in section if part.startswith(heading + "\n"))
    lines = [line for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("heading", ["What the commands need", "What the checks need"])
def test_every_dependency_has_its_reason(heading: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["dependencies"] if "commands" in heading else project["optional-dependencies"]["dev"]
    told = rows("docs/dependencies.md", heading)
    assert sorted(row[0].lower() for row in told) == sorted(named(requirement) for requirement in asked)
    assert all(len(row[1]) > 10 for row in told)


@pytest.mark.parametrize("lock", ["run", "check", "toolkits"])
def test_every_dependency_is_locked_with_hashes_and_nothing_of_a_host_is(lock: str) -> None:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = tables["project"]
    asked = {
        "run": project["dependencies"],
        "check": project["dependencies"] + project["optional-dependencies"]["dev"],
        "toolkits": tables["dependency-groups"]["toolkits"],
    }[lock]
    text = (ROOT / f"requirements/{lock}.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9._-]+)(?:\[[a-z0-9,-]+\])?==\S+.*\\\n    --hash=sha256:", text, flags=re.MULTILINE)
    assert {named(requirement).replace("_", "-") for requirement in asked} <= set(pins)
    entries = re.findall(r"^[a-z0-9]", text, flags=re.MULTILINE)
    assert len(entries) == len(pins), "a pin without a hash"
    assert not re.search(r"^-|://", text, flags=re.MULTILINE), "an index or a path of the host that made the lock"


def test_the_locks_agree() -> None:
    def pins(lock: str) -> set[str]:
        text = (ROOT / f"requirements/{lock}.lock").read_text(encoding="utf-8")
        return set(re.findall(r"^([a-z0-9._-]+(?:\[[a-z0-9,-]+\])?==[^ ;]+)", text, flags=re.MULTILINE))

    def plain(found: set[str]) -> set[str]:
        return {re.sub(r"\[.*\]", "", pin) for pin in found}

    assert plain(pins("run")) <= plain(pins("check"))


def test_the_exit_codes_are_those_of_the_register() -> None:
    told = rows("docs/troubleshooting.md", "Exit codes")
    assert told == [[str(code), name, meaning] for code, name, meaning in errors.exit_codes()]


def test_codes_are_not_used_twice() -> None:
    codes = [code for code, _, _ in errors.exit_codes()]
    assert len(set(codes)) == len(codes)


def test_settings_that_the_page_names_exist() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    known = {setting.name for setting in settings.KNOWN}
    assert {"apt-mirror", "snapshot", "base", "min-free-mb"} <= known & set(re.findall(r"`([a-z-]+)`", text))


def test_the_commands_that_the_pages_name_exist() -> None:
    tasks = (ROOT / "tasks.py").read_text(encoding="utf-8")
    known = {name.rstrip("_").replace("_", "-") for name in re.findall(r"^def (\w+)\(", tasks, flags=re.MULTILINE)}
    for page in ("docs/troubleshooting.md", "docs/dependencies.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for command in re.findall(r"`invoke ([a-z-]+)", text):
            assert command in known, f"{page}: invoke {command}"
