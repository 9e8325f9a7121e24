"""What a toolkit says of itself in its pyproject.toml.

    [project]              name and version
    [tool.slipway]
    setup = "package.mod"  a module that is run once where the toolkit is installed
    capabilities = [...]   what SageMaker may ask of an image with this toolkit; each becomes a label

Read by pattern: the standard library of Python 3.10 has no reader for TOML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slipway.errors import SpecError

# com.amazonaws.sagemaker.capabilities.<name>; SageMaker developer guide, "Custom inference code with hosting services".
CAPABILITIES = ("accept-bind-to-port", "multi-models", "bidirectional-streaming")


@dataclass(frozen=True)
class Toolkit:
    """One toolkit: its folder's name, its distribution as a wheel's file has it, and what it asks for and can do."""

    folder: str
    distribution: str
    version: str
    setup: str
    capabilities: tuple[str, ...]


def read(folder: str, pyproject: bytes | None) -> Toolkit:
    """Raises SpecError when pyproject.toml is missing, unnamed, or claims what SageMaker does not know."""
    if pyproject is None:
        raise SpecError(f"toolkits/{folder} has no pyproject.toml", fix="a toolkit is a folder that builds a wheel")
    text = pyproject.decode(errors="replace")
    name = re.search(r'^name\s*=\s*["\']([\w.-]+)["\']', text, re.MULTILINE)
    if not name:
        raise SpecError(f"toolkits/{folder}/pyproject.toml has no project name", fix='add name = "slipway-…"')
    version = re.search(r'^version\s*=\s*["\']([\w.+]+)["\']', text, re.MULTILINE)
    own = re.search(r"^\[tool\.slipway\]$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    said = own[1] if own else ""
    setup = re.search(r'^setup = "([\w.]+)"$', said, re.MULTILINE)
    listed = re.search(r"^capabilities = \[(.*?)\]", said, re.MULTILINE | re.DOTALL)
    capabilities = tuple(re.findall(r'"([^"]*)"', listed[1])) if listed else ()
    unknown = [capability for capability in capabilities if capability not in CAPABILITIES]
    if unknown:
        raise SpecError(
            f"toolkits/{folder}/pyproject.toml claims unknown capabilities: {', '.join(unknown)}",
            fix=f"known are {', '.join(CAPABILITIES)}",
        )
    return Toolkit(
        folder=folder,
        distribution=re.sub(r"[-_.]+", "_", name[1]).lower(),
        version=version[1] if version else "",
        setup=setup[1] if setup else "",
        capabilities=capabilities,
    )
