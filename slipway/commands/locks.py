"""lock, outdated, add: the versions that images are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipway.commands.guard import command
from slipway.console import Console
from slipway.errors import UsageError
from slipway.spec import load
from slipway.spec.model import Image
from slipway.spec.select import Selector, select

if TYPE_CHECKING:
    from slipway.lock import Change, Part


def lock(selector: Selector, upgrade: bool, check: bool, json: bool, **flags: str | None) -> None:
    """Resolve stacks to hashed locks and show what changed."""
    from slipway import lock as locks
    from slipway.errors import LockError

    with command(json, **flags) as (settings, console):
        matrix = load.load(settings.project, settings.own)
        chosen = select(matrix, selector) if selector.given else matrix.buildable
        texts = dict(load.read_sources(settings.project, settings.own).locks)
        if check:
            faults = [f"{image.id}: {what}" for image in chosen for what in locks.faults(image, texts)]
            if faults:
                raise LockError("locks are missing or out of date:\n  " + "\n  ".join(faults), fix="run `invoke lock`")
            console.say(f"the locks of {len(chosen)} images are current")
            console.result({"current": [image.id for image in chosen]})
            return
        pip = settings.pip()
        before = dict(texts)
        parts = _parts(chosen)
        for part in parts:
            console.note(f"locking {part.name}")
            texts[part.name] = locks.resolve(part, texts, pip, settings, upgrade=upgrade)
        # All or none: half of a stack's locks would not serve.
        changes = [locks.write(settings.project, part, before.get(part.name, ""), texts[part.name]) for part in parts]
        _show(changes, console)
        console.result([{"lock": change.name, "changes": list(change.lines)} for change in changes])


def outdated(selector: Selector, json: bool) -> None:
    """What `lock --upgrade` would change, and which versions that buildspec/ itself names have newer ones."""
    from slipway import lock as locks

    with command(json) as (settings, console):
        matrix = load.load(settings.project, settings.own)
        chosen = select(matrix, selector) if selector.given else matrix.buildable
        pip = settings.pip()
        texts = dict(load.read_sources(settings.project, settings.own).locks)
        upgraded = dict(texts)
        named: dict[str, dict[str, tuple[str, str]]] = {}
        changes = []
        for part in _parts(chosen):
            console.note(f"looking at {part.name}")
            upgraded[part.name] = locks.resolve(part, upgraded, pip, settings, upgrade=True)
            changes.append(locks.compare(part, texts.get(part.name, ""), upgraded[part.name]))
            named[part.name] = locks.newer(part, texts, pip, settings)
        rows = [(lock, name, old, new) for lock, found in named.items() for name, (old, new) in found.items()]
        if rows:
            console.table(("lock", "named in buildspec/", "there", "newest"), rows)
            console.say("")
        _show([change for change in changes if change.lines], console)
        if not rows and not any(change.lines for change in changes):
            console.say("nothing is outdated")
        console.result(
            [
                {
                    "lock": change.name,
                    "changes": list(change.lines),
                    "named": {name: {"there": old, "newest": new} for name, (old, new) in named[change.name].items()},
                }
                for change in changes
            ]
        )


def add(framework: str, version: str, processor: str, json: bool) -> None:
    """Write a version's entry and its locks, in the form of the framework's newest stack."""
    from slipway import additions, documents
    from slipway import lock as locks
    from slipway.engine import wheels
    from slipway.files import write_whole

    with command(json) as (settings, console):
        if not framework or not version:
            raise UsageError(
                "add wants a framework and a version", fix="invoke add --framework pytorch --version 2.15.0"
            )
        model = select(load.load(settings.project, settings.own), Selector(framework=framework, processor=processor))[0]
        addition = additions.add(documents.read(settings.project / model.file, settings.project), model, version)
        pip, before = settings.pip(), load.read_sources(settings.project, settings.own).locks
        texts = dict(before)

        def resolved(text: str) -> tuple[list[Part], dict[str, str]]:
            cells = load.load(settings.project, settings.own, instead={model.file: text}).buildable
            own = [cell for cell in cells if (cell.framework, cell.stack) == (model.framework, addition.key)]
            found = dict(texts)
            parts = _parts(own)
            for part in parts:
                console.note(f"locking {part.name}")
                found[part.name] = locks.resolve(part, found, pip, settings)
            return parts, found

        parts, found = resolved(addition.text)
        versions = {pin.name: pin.version for part in parts for pin in wheels.pins(found[part.name])}
        text = addition.pinned(versions)
        if text != addition.text:
            texts |= found
            parts, found = resolved(text)
        changes = [locks.write(settings.project, part, before.get(part.name, ""), found[part.name]) for part in parts]
        write_whole(settings.project / model.file, text)
        _show(changes, console)
        console.say(f"{model.file}: stack {addition.key!r}, in the form of {model.stack!r}; look at it, then")
        console.say(f"next: invoke build --framework {model.framework} --version {version}")
        console.result({"file": model.file, "stack": addition.key, "locks": [change.name for change in changes]})


def _parts(images: Sequence[Image]) -> list[Part]:
    from slipway import lock as locks

    """What to resolve for these images: the installer and their stacks; for one of a user's own file that alone, as it
    stands on what the project has locked."""
    wanted = [part for image in images for part in locks.parts(image) if part.folder == locks.folder(image)]
    tools = locks.tools_part()
    return list(dict.fromkeys([*([tools] if any(part.folder == tools.folder for part in wanted) else []), *wanted]))


def _show(changes: Sequence[Change], console: Console) -> None:
    for change in changes:
        same = "the same versions, other hashes" if change.diff else "no change"
        console.say(f"{change.name}: {'' if change.lines else same}".rstrip())
        for line in change.lines:
            console.say(f"  {line}")
