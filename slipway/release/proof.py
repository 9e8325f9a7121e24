"""The steps before anything is sent: build, verify, smoke, size, and what changed since the release before."""

from __future__ import annotations

from collections.abc import Sequence

from slipway import size
from slipway.errors import Fault, NotProvedError
from slipway.records import Build
from slipway.release import changes
from slipway.release.push import require_proof
from slipway.release.work import DO, OFF, SKIP, STOP, Item, State, Work

_AFTER = State(DO, "after the build")


class BuildStep:
    """Builds what has no build of its inputs as they are."""

    name = "build"

    def look(self, work: Work, item: Item) -> State:
        build = work.build(item)
        if build is None:
            known = [one for one in work.tools.records.builds() if one.image == item.id]
            why = f"its inputs changed since the build of {known[-1].built_at[:19]}" if known else "it was never built"
            return State(DO, why)
        if work.done("push", item) is None and not work.in_engine(build):
            return State(DO, f"the engine no longer has the build of {build.built_at[:19]}")
        return State(SKIP, f"built {build.built_at[:19]} from these inputs ({item.input_hash[:12]})")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        work.tools.build(items)
        work.built()
        for item in items:
            work.the_build(item)


class VerifyStep:
    """Runs the contract's checks over what they have not seen as they are now."""

    name = "verify"

    def look(self, work: Work, item: Item) -> State:
        build = work.build(item)
        if build is None:
            return _AFTER
        verdict = work.tools.records.verdict_of(build.config_digest, work.tools.suite_hash)
        if verdict is None:
            return State(DO, "the checks as they are now have not seen this image")
        if not verdict.passed:
            failed = ", ".join(check.id for check in verdict.checks if check.status == "failed")
            return State(STOP, f"it failed: {failed}")
        return State(SKIP, f"passed {len(verdict.checks)} checks at {verdict.at}")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        for item in items:
            work.tools.verify(work.the_build(item))


class SmokeStep:
    """Lets no GPU image out that no GPU has run, unless the releaser names it."""

    name = "smoke"

    def look(self, work: Work, item: Item) -> State:
        if item.cell.processor != "gpu":
            return State(SKIP, "a CPU image")
        build = work.build(item)
        smoke = work.tools.records.smoke_of(build.config_digest, work.tools.smoke_hash) if build else None
        if smoke is not None and smoke.passed:
            return State(SKIP, f"ran on {smoke.device_name} at {smoke.at}")
        why = f"it failed on {smoke.device_name}" if smoke is not None else "no GPU has run it"
        if item.id in work.untested:
            return State(DO, f"{why}; released all the same, by name, and the ledger says so")
        return State(STOP, f"{why}: `invoke smoke --only {item.id}` on a host with one, or --untested-gpu {item.id}")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        for item in items:
            work.record("smoke", item, untested=True)


class SizeStep:
    """Holds images to their ceilings again, also those that were built elsewhere."""

    name = "size"

    def look(self, work: Work, item: Item) -> State:
        build = work.build(item)
        if build is None:
            return _AFTER
        ceiling = f" of {item.cell.ceiling_mb}" if item.cell.ceiling_mb else ", no ceiling"
        return State(DO, f"{build.size / 1e6:.0f}{ceiling} MB")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        measured = {item.id: size.of_build(work.the_build(item)) for item in items}
        size.refuse_over([item.cell for item in items], measured, size.last_within(work.tools.records.builds()))


class SbomStep:
    """Lists what is inside, once for an image's content."""

    name = "sbom"

    def look(self, work: Work, item: Item) -> State:
        if work.tools.sbom is None:
            return State(OFF, "release.yml says sbom: false")
        if work.build(item) is None:
            return _AFTER
        if work.done(self.name, item) is not None:
            return State(SKIP, "this release has it")
        return State(DO, "CycloneDX and SPDX, by syft")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        from slipway.files import sha256_file
        from slipway.supply import sbom

        assert work.tools.sbom is not None
        for item in items:
            build = work.the_build(item)
            made = work.tools.sbom(build.engine_id, work.sbom_folder(build))
            packages = {package.called: package.version for package in sbom.read(made.cyclonedx)}
            digests = {"cyclonedx": sha256_file(made.cyclonedx), "spdx": sha256_file(made.spdx)}
            work.record(self.name, item, packages=packages, digests=digests)


class ChangesStep:
    """Compares with the release before: a package that went back stops the release unless it may."""

    name = "changes"

    def look(self, work: Work, item: Item) -> State:
        before = work.history.newest(item.id)
        if before is None:
            return State(SKIP, "nothing was released before")
        if work.tools.sbom is None or not before.image.packages:
            return State(OFF, f"no SBOM of {before.image.tag} and this one to compare")
        return State(DO, f"since {before.image.tag}")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        for item in items:
            before = work.history.newest(item.id)
            facts = work.done("sbom", item)
            assert before is not None and facts is not None
            found = changes.of_packages(before.image.packages, facts["packages"])
            changes.refuse_downgrades(f"{item.id} since {before.image.tag}", found, item.may_go_back)


def require(work: Work) -> None:
    """Raise NotProvedError unless every image may go out: proved, not taken back, and GPU images run or named."""
    for item in work.items:
        build = work.the_build(item)
        require_proof(build, work.tools.records, work.tools.suite_hash)
        _refuse_withdrawn(work, item, build)
        if build.revision.endswith("-dirty") or build.revision == "unknown":
            why = "from files that are in no commit" if build.revision != "unknown" else "outside git"
            work.tools.note(
                f"warning: {item.id} was built {why}: the ledger will name no commit to build it from again"
            )
    states = [(item, SmokeStep().look(work, item)) for item in work.items]
    faults = [Fault(f"{item.id}: {state.why}") for item, state in states if state.action == STOP]
    if faults:
        raise NotProvedError("GPU images are not proved on a GPU; nothing was sent", faults=faults)


def _refuse_withdrawn(work: Work, item: Item, build: Build) -> None:
    for one in work.history.of_image(item.id):
        if one.image.config_digest == build.config_digest and one.withdrawn:
            raise NotProvedError(
                f"{one.image.name} is this very image, and was taken back: {one.withdrawn}",
                fix=f"build one without that fault, or let it be found again: invoke yank {one.image.name} --undo",
            )
