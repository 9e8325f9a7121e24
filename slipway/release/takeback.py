"""Aliases that go back to an earlier release, and support that ends: what the ledger learns after a release."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from dataclasses import dataclass, replace

from slipway.errors import NotFoundError, UsageError, nearest
from slipway.files import locked
from slipway.records import Push, Records
from slipway.registry import Registry
from slipway.release import listing, promotion, tags
from slipway.release import yank as yanking
from slipway.release.journal import Journals, Move
from slipway.release.ledger import LISTING, Entry, History, Ledger, Standing
from slipway.release.pipeline import settle
from slipway.release.work import Tools


@dataclass(frozen=True)
class Rollback:
    """What a rollback does. `withdrawn`: the releases that nobody is led to any more, newest first."""

    target: Standing
    withdrawn: tuple[Standing, ...]
    moves: tuple[Move, ...] = ()


def plan_rollback(history: History, name: str, to: str) -> Rollback:
    """Find what is taken back and what the aliases go to: `to`, else the release before.

    Raises NotFoundError where there is none before, UsageError for a target that is not older, or taken back itself.
    """
    newest = history.newest(name) or history.find(name)
    same = [one for one in history.of_image(newest.image.image) if not one.withdrawn]
    if newest.image.tag not in {one.image.tag for one in same}:
        raise UsageError(f"{newest.image.name} is taken back already: {newest.withdrawn}")
    at = [one.image.tag for one in same].index(newest.image.tag)
    if not to:
        if at == 0:
            raise NotFoundError(
                f"{newest.image.name} has no release before it to go back to",
                fix=f'to lead nobody to it: invoke yank {newest.image.name} --reason "…"',
            )
        target = same[at - 1]
    else:
        target = history.find(to)
        if target.withdrawn:
            raise UsageError(f"{target.image.name} was taken back itself: {target.withdrawn}", fix="name another")
        if target.image.tag not in {one.image.tag for one in same[:at]}:
            raise UsageError(
                f"{target.image.name} is no earlier release of {newest.image.image}",
                fix=nearest(to, (one.image.name for one in same[:at])),
            )
    last = [one.image.tag for one in same].index(target.image.tag)
    return Rollback(target, tuple(reversed(same[last + 1 :])))


def roll_back(tools: Tools, name: str, to: str, reason: str) -> Rollback:
    """Move the aliases of what is withdrawn back, in every registry, journaled as a release is; tell the ledger.

    An alias that names something else meanwhile is left alone.
    """
    state = tools.records.state
    with locked(state / "releases" / "lock"), locked(state / "push.lock"):
        planned = plan_rollback(tools.ledger.history(), name, to)
        target = planned.target.image
        bad = {one.image.manifest_digest for one in planned.withdrawn}
        clients: dict[str, Registry] = {}
        moves = []
        for place in target.places:
            registry = clients.setdefault(place.registry, tools.client(place.registry))
            for alias in tags.aliases(target.tag.rpartition("-v")[0]):
                move = promotion.move_to(registry, place.repository, alias, target.manifest_digest, fixed=False)
                if move.before in bad:
                    moves.append(move)
        journal = Journals(state / "releases").begin([target.image])
        body = {
            "kind": "rollback",
            "release": journal.id,
            "config_digests": [one.image.config_digest for one in planned.withdrawn],
            "from": [one.image.name for one in planned.withdrawn],
            "to": target.name,
            "aliases": sorted({move.tag for move in moves}),
            "reason": f"rolled back to {target.tag}: {reason}",
        }
        settle(tools, journal, lambda host: clients[host], moves, body)
        return replace(planned, moves=tuple(moves))


def end(ledger: Ledger, framework: str, version: str, on: str, reason: str) -> Entry:
    """Write down the day on which the support of a version ends. Raises UsageError and NotFoundError."""
    try:
        datetime.date.fromisoformat(on)
    except ValueError:
        raise UsageError(f"--on {on} is no day", fix="write it as 2026-11-30") from None
    known = {(one.image.framework, one.image.version) for one in ledger.history().standings}
    if framework not in {name for name, _ in known}:
        raise NotFoundError(
            f"no image of {framework!r} was released", fix=nearest(framework, {one for one, _ in known})
        )
    if (framework, version) not in known:
        versions = {found for name, found in known if name == framework}
        raise NotFoundError(f"{framework} {version!r} was never released", fix=nearest(version, versions))
    entry = ledger.append("eol", {"framework": framework, "version": version, "on": on, "reason": reason})
    write_listing(ledger)
    return entry


def yank(records: Records, ledger: Ledger, name: str, reason: str) -> list[Push]:
    """Mark an image as taken back, in the ledger where it was released and on record where it was pushed from here.

    `reason` empty: take the mark away again. Raises NotFoundError for a name that neither has, UsageError for one that
    means several images and for a mark to be taken away where there is none.
    """
    one = next((one for one in ledger.history().standings if name in one.image.called()), None)
    if one is None:
        return yanking.yank(records, name, reason)
    found = ledger.history().find(name)
    if not reason and not found.withdrawn:
        raise UsageError(f"{name} is not yanked", fix='give --reason "…" to yank it')
    digest = found.image.config_digest
    ledger.append("yank", {"config_digests": [digest], "image": found.image.name, "reason": reason})
    write_listing(ledger)
    mark_records(records, {digest}, reason)
    return [push for push in ledger.history().pushes() if push.config_digest == digest]


def mark_records(records: Records, digests: Collection[str], reason: str) -> None:
    """Mark what was pushed from here, so that no command leads to it either."""
    for push in records.pushes():
        if push.config_digest in digests:
            records.add_push(replace(push, yanked=reason))


def write_listing(ledger: Ledger) -> None:
    ledger.store.replace(LISTING, listing.markdown(ledger.history()).encode())
