"""size: what an image weighs, and why."""

from __future__ import annotations

from slipway.commands.guard import command
from slipway.errors import NotFoundError
from slipway.records import Records

SHOWN = 25


def size(image: str, json: bool) -> None:
    """An image by layer and by package: one of the matrix as last built, or any of the engine."""
    from slipway import size as sizes
    from slipway.engine.docker import Engine

    with command(json) as (settings, console):
        try:
            build = Records(settings.state).build_of(image)
        except NotFoundError:
            build = None
        if build is not None and build.layer_sizes:
            found = sizes.of_build(build)
        else:
            engine = Engine.connect(settings.environment)
            found = sizes.measure(engine, build.engine_id if build else image)
        console.table(("layer", "MB"), [(name, f"{held / 1e6:.1f}") for name, held in found.layers.items()])
        console.say("")
        largest = sorted(found.packages.items(), key=lambda item: -item[1])
        console.table(("package", "MB"), [(name, f"{held / 1e6:.1f}") for name, held in largest[:SHOWN]])
        most = (build.ceiling_mb, build.compressed_ceiling_mb) if build is not None else (0, 0)
        ceiling, pulled_ceiling = (f", ceiling {mb} MB" if mb else "" for mb in most)
        pulled = f"; {found.compressed / 1e6:.0f} MB compressed{pulled_ceiling}" if found.compressed else ""
        hidden = f", {found.hidden / 1e6:.0f} MB of it hidden by upper layers" if found.hidden else ""
        console.say("")
        console.say(f"{found.unpacked / 1e6:.0f} MB unpacked{hidden}{ceiling}{pulled}")
        console.result(vars(found))
