"""The form of a contract file, as pydantic models: the edge where YAML becomes data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Id = Annotated[str, StringConstraints(pattern=r"^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckPart(_Part):
    """One check. `source`: where the rule comes from, so that it can be looked up again."""

    id: _Id
    severity: Literal["error", "policy"] = "error"
    reason: _Text
    source: _Text
    fix: _Text
    needs: tuple[str, ...] = ()


class ContractFile(_Part):
    """A contract: the groups with their titles, and the checks in the order in which they run.

    `extends`: the contract whose checks come first.
    """

    kind: _Text
    extends: _Text | None = None
    groups: dict[str, _Text]
    checks: Annotated[tuple[CheckPart, ...], Field(min_length=1)]
