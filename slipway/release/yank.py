"""Taking back an image that was pushed: it stays where it is, but nobody is led to it any more."""

from __future__ import annotations

from dataclasses import replace

from slipway.errors import NotFoundError, UsageError, nearest
from slipway.records import Push, Records


def yank(records: Records, name: str, reason: str) -> list[Push]:
    """Mark an image in every registry that it was pushed to. `reason` empty: take the mark away again.

    `name`: a URI, a tag, or a digest, of the manifest or of the configuration. Raises NotFoundError for a name that is
    on no record, UsageError for one that means several images.
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
    marked = [replace(push, yanked=reason) for push in pushes if push.config_digest in digests]
    for push in marked:
        records.add_push(push)
    return marked


def names(push: Push) -> set[str]:
    """What an image that was pushed may be called."""
    by_digest = f"{push.registry}/{push.repository}@{push.manifest_digest}"
    return {push.uri, push.tag, f"{push.repository}:{push.tag}", push.manifest_digest, push.config_digest, by_digest}
