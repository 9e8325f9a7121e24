"""Toolkit wheels in the ledger: what was uploaded where, so that a version's bytes never change."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.errors import Fault, TagConflictError
from slipway.release.ledger import History, Ledger
from slipway.supply.provenance import without_secrets
from slipway.supply.wheels import Wheel


def refuse_changed(made: Sequence[Wheel], history: History) -> None:
    """Raise TagConflictError that names each wheel whose version was released with other bytes, wherever that was."""
    known = {
        (given["name"], given["version"]): given["hash"]
        for entry in history.entries
        if entry.kind == "wheels"
        for given in entry.body["wheels"]
    }
    faults = [
        Fault(f"{one.name} {one.version} was released as {known[one.name, one.version]}, and is {one.hash} now")
        for one in made
        if known.get((one.name, one.version), one.hash) != one.hash
    ]
    if faults:
        raise TagConflictError(
            "a version that was released never changes",
            faults=faults,
            fix="raise the version in the toolkit's pyproject.toml",
        )


def write_down(made: Sequence[Wheel], address: str, ledger: Ledger) -> None:
    """Add a document for what an index has now; none where the ledger says so already."""
    place = without_secrets(address)
    listed = [{"name": one.name, "version": one.version, "hash": one.hash} for one in made]
    known = [entry.body for entry in ledger.entries() if entry.kind == "wheels"]
    if not any(body["to"] == place and body["wheels"] == listed for body in known):
        ledger.append("wheels", {"to": place, "wheels": listed})
