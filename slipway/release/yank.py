"""Taking back an image that was pushed from here: it stays where it is, but nobody is led to it any more."""

from __future__ import annotations

from dataclasses import replace

from slipway.errors import NotFoundError, UsageError, nearest
from slipway.records import Push, Records


def yank(records: Records, name: str, reason: str) -> list[Push]:
    """Mark an image in every registry that it was pushed to. `reason` empty: take the mark away again.

    `name`: a URI, a tag, or a digest, of the manifest or of the configuration; aliases move, and are none. Raises
    NotFoundError for a name that is on no record, UsageError for one that means several images and for a mark to be
    taken away where there is none.
    """
    pushes = records.pushes()
    named = [push for push in pushes if name in names(push)]
    if not named:
        known = [push.uri for push in pushes]
        raise NotFoundError(f"no push of {name} is on record", fix=nearest(name, known))
    digests = {push.config_digest for push in named}
    if len(digests) > 1:
        listed = ", ".join(sorted(push.uri for push in named))
        raise UsageError(f"{name} means several images: {listed}", fix="give a digest, or a whole URI")
    if not reason and not any(push.yanked for push in named):
        raise UsageError(f"{name} is not yanked", fix='give --reason "…" to yank it')
    marked = [replace(push, yanked=reason) for push in pushes if push.config_digest in digests]
    for push in marked:
        records.add_push(push)
    return marked


def names(push: Push) -> set[str]:
    """What an image that was pushed may be called."""
    by_digest = f"{push.registry}/{push.repository}@{push.manifest_digest}"
    return {push.uri, push.tag, f"{push.repository}:{push.tag}", push.manifest_digest, push.config_digest, by_digest}
