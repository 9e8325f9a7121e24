"""The released images as a page: which tags never move, which do, what was taken back."""

from __future__ import annotations

from slipway.release.ledger import History, Standing

_HEAD = """\
# Released images

Written by `invoke release` from the documents beside this page. Pin a release tag or, better, its digest: neither ever
moves. Aliases follow the newest release.

"""


def markdown(history: History) -> str:
    """Every released image by repository, the newest first."""
    by_repository: dict[str, list[Standing]] = {}
    for one in history.standings:
        by_repository.setdefault(one.image.places[0].repository, []).append(one)
    ends = history.ends()
    text = _HEAD
    for repository in sorted(by_repository):
        text += f"## {repository}\n\n| release tag | digest | aliases | in | released | supported until | state |\n"
        text += "|---|---|---|---|---|---|---|\n"
        for one in reversed(by_repository[repository]):
            text += _row(one, history, ends.get((one.image.framework, one.image.version), ""))
        text += "\n"
    return text.rstrip("\n") + "\n"


def _row(one: Standing, history: History, end: str) -> str:
    image = one.image
    newest = history.newest(image.image)
    current = newest is not None and newest.image.tag == image.tag
    aliases = ", ".join(f"`{alias}`" for alias in image.aliases) if current else ""
    places = ", ".join(place.region or place.registry for place in image.places)
    state = f"taken back: {one.withdrawn}" if one.withdrawn else "current" if current else ""
    untested = "; not run on a GPU" if "untested" in image.smoke else ""
    cells = [f"`{image.tag}`", f"`{image.manifest_digest}`", aliases, places, one.at[:10]]
    cells += [end or image.supported_until, (state + untested).removeprefix("; ")]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"
