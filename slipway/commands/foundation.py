"""The command that looks after the base root filesystem: make it, compare its packages with the record."""

from __future__ import annotations

from slipway.commands.guard import command


def base(os: str, record: bool, json: bool, snapshot: str | None) -> None:
    with command(json, snapshot=snapshot) as (settings, console):
        from slipway import base as bases
        from slipway import preflight
        from slipway.engine import packages, rootfs

        found = bases.of(
            os,
            base=settings.text("base"),
            mirror=settings.text("apt-mirror"),
            snapshot=settings.snapshot(),
        )
        console.note(bases.describe(found))
        if isinstance(found, bases.Pulled):
            preflight.pulled_base(found)
            console.say(f"{found.reference} is there")
            console.result({"base": found.reference})
            return
        made = rootfs.ensure(found, settings, console, drift=False)
        path = packages.record_path(settings.project, os)
        if record:
            packages.write_record(path, made.packages)
            console.note(f"recorded {len(made.packages)} packages in {path.relative_to(settings.project)}")
        drift = rootfs.show_drift(found, made, settings, console, whole=True)
        console.say(f"{made.tar} (sha256 {made.sha256}, {len(made.packages)} packages)")
        console.result(
            {"tar": made.tar, "sha256": made.sha256, "packages": dict(made.packages), "drift": list(drift.lines)}
        )
