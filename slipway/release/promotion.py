"""Tags that come to name what was released, in every registry: all of them, or, after a failure, none.

The journal holds every move before the first is made. Numbers go before aliases, so that an alias never names what has
no number. A failure or Ctrl-C moves back what was moved; a killed run is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.errors import Fault, RegistryError, SlipwayError, TagConflictError
from slipway.registry import Registry
from slipway.registry.removal import remove_tag
from slipway.release import tags
from slipway.release.journal import Journal, Move
from slipway.release.push import Site
from slipway.release.tags import Release

Clients = Mapping[str, Registry]
"""Clients of registries by host."""


def number_for(sites: Sequence[Site]) -> int:
    """The -vN under which an image goes out: one that it has somewhere and that is free or its own everywhere else."""
    tag = sites[0].build.tag
    for held in sorted({site.held.number for site in sites if site.held}, reverse=True):
        release = Release(tag, held)
        if all(str(release) not in site.existing or site.has(release) for site in sites):
            return held
    return max(tags.next_number(tag, site.existing) for site in sites)


def moves_of(sites: Sequence[Site], release: Release, digest: str, *, aliases: bool) -> list[Move]:
    """What has to move for one image; of tags that stand already the move is from their digest to the same."""
    found = []
    for site in sites:
        following = tags.aliases_to_move(release, site.existing) if aliases else ()
        for tag in (str(release), *following):
            found.append(move_to(site.registry, site.repository, tag, digest, fixed=tag == str(release)))
    return found


def move_to(registry: Registry, repository: str, tag: str, digest: str, *, fixed: bool) -> Move:
    """A move of a tag from what it names now."""
    present = registry.manifest(repository, tag)
    before = present.digest if present else ""
    return Move(host=registry.host, repository=repository, tag=tag, before=before, after=digest, fixed=fixed)


def carry_out(journal: Journal, clients: Clients) -> None:
    """Make every move of a journal that is `promoting`, and turn it to `promoted`.

    Raises what failed, and TagConflictError when a tag names neither what it did nor what it should; then `take_back`.
    """
    for move in _in_order(journal.moves):
        _move(move, clients[move.host])
    journal.turn("promoted")


def take_back(journal: Journal, clients: Clients) -> None:
    """Move every tag of a journal back to where it was, and turn it to `open`.

    Raises RegistryError that names those that could not be moved.
    """
    faults = [fault for move in reversed(_in_order(journal.moves)) for fault in _moved_back(move, clients[move.host])]
    if faults:
        raise RegistryError(
            f"{len(faults)} tags could not be moved back; the release {journal.id} is still open",
            faults=faults,
            fix="run the same command again: it finishes the release, or takes it back",
        )
    journal.turn("open")


def _in_order(moves: Sequence[Move]) -> list[Move]:
    return sorted(moves, key=lambda move: not move.fixed)


def _move(move: Move, registry: Registry) -> None:
    present = registry.manifest(move.repository, move.tag)
    held = present.digest if present else ""
    if held == move.after:
        return
    if held != move.before or (move.fixed and held):
        raise TagConflictError(
            f"{move} names {held or 'nothing'} now; it was to go from {move.before or 'nothing'} to {move.after}",
            fix="someone else released meanwhile: run the command again",
        )
    manifest = registry.manifest(move.repository, move.after)
    if manifest is None:
        raise RegistryError(f"{move.host}/{move.repository} has lost {move.after}", fix="run the command again")
    registry.put_manifest(move.repository, move.tag, manifest)
    back = registry.manifest(move.repository, move.tag)
    if back is None or back.digest != move.after:
        raise RegistryError(f"{move} does not name {move.after}, just put there", fix="run the command again")


def _moved_back(move: Move, registry: Registry) -> list[Fault]:
    try:
        _move_back(move, registry)
    except SlipwayError as error:
        return [Fault(f"{move}: {error.message}", error.fix)]
    return []


def _move_back(move: Move, registry: Registry) -> None:
    present = registry.manifest(move.repository, move.tag)
    held = present.digest if present else ""
    if held != move.after or move.before == move.after:  # never moved, or moved on by someone else
        return
    if not move.before:
        remove_tag(registry, move.repository, move.tag)
        return
    manifest = registry.manifest(move.repository, move.before)
    if manifest is None:
        raise RegistryError(f"{move.host}/{move.repository} has lost {move.before}")
    registry.put_manifest(move.repository, move.tag, manifest)
