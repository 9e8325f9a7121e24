"""What a toolkit's pyproject.toml says of it."""

from __future__ import annotations

import pytest

from slipway import toolkits
from slipway.errors import SpecError

PROJECT = """
[project]
name = "slipway-small"
version = "1.2.0"

[tool.slipway]
setup = "small.setup"
# what it can do
capabilities = ["accept-bind-to-port",
    "multi-models"]

[tool.other]
setup = "other"
"""


@pytest.mark.parametrize("line", ['name = "Slipway.Tool_kit"', "name = 'slipway-tool-kit'"])
def test_a_distribution_is_named_as_its_wheel(line: str) -> None:
    assert toolkits.read("x", f"[project]\n{line}\n".encode()).distribution == "slipway_tool_kit"


def test_it_is_read_with_all_that_it_says() -> None:
    found = toolkits.read("small", PROJECT.encode())
    assert (found.distribution, found.version, found.setup) == ("slipway_small", "1.2.0", "small.setup")
    assert found.capabilities == ("accept-bind-to-port", "multi-models")


def test_the_tables_of_other_tools_are_theirs() -> None:
    found = toolkits.read("x", b'[project]\nname = "x"\n[tool.slipway]\n[tool.other]\nsetup = "other"\n')
    assert (found.setup, found.capabilities) == ("", ())


def test_a_claim_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SpecError, match=r"toolkits/x/pyproject\.toml claims unknown capabilities: multi-model"):
        toolkits.read("x", PROJECT.replace("multi-models", "multi-model").encode())
