"""Commands of the supply chain: audit, rescan, wheels, ci-matrix."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.commands.guard import command
from slipway.errors import Fault, GateError, NotFoundError, ScanError, TrustError, UsageError
from slipway.records import Records

if TYPE_CHECKING:
    from slipway.registry import Manifest
    from slipway.release.config import ReleaseConfig
    from slipway.release.ledger import History
    from slipway.release.rescan import Seen
    from slipway.settings import Settings
    from slipway.spec.select import Selector
    from slipway.supply.audit import Known
    from slipway.supply.config import Signing


def audit(image: str, key: str, identity: str, issuer: str, json: bool) -> None:
    """Check an image's signature and attestations. `key`: a public key; without one that of release.yml."""
    with command(json) as (settings, console):
        from slipway.registry import Registry
        from slipway.release import access, config
        from slipway.supply import audit as auditing

        release = config.load(settings.project)
        history = _history(settings)
        how = _signing(key, identity, issuer, release)
        host, repository, reference = _located(image, history, Records(settings.state))
        found = auditing.audit(
            Registry(host, access.credentials(host, release, settings)),
            repository,
            reference,
            how,
            access.access(host, release, settings),
            lambda manifest: _known(manifest, history, Records(settings.state)),
        )
        console.say(found.subject)
        for name, value in found.facts.items():
            console.say(f"  {name}: {value}")
        console.say("")
        console.table(("check", "result", "seen"), [(line.check, line.status, line.told) for line in found.lines])
        console.result({**asdict(found), "passed": found.passed})
        wrong = [Fault(f"{line.check}: {line.told}") for line in found.lines if line.status == auditing.WRONG]
        if wrong:
            raise TrustError(f"{found.subject} is not what it should be", faults=wrong, fix="do not use it")


def rescan(every: bool, json: bool) -> None:
    """Have released images scanned again, and list what to build anew."""
    from datetime import datetime, timezone

    with command(json) as (settings, console):
        from slipway.release import config
        from slipway.release import rescan as rescanning

        release = config.load(settings.project)
        subjects = rescanning.subjects(_history(settings), Records(settings.state).pushes(), every=every)
        today = datetime.now(timezone.utc).date()
        seen = []
        for subject in subjects:
            seen.append(rescanning.look(subject, release, settings, today))
            console.note(f"{subject.image} {subject.tag}: {seen[-1].state}")
        rows = [(one.subject.image, one.subject.tag, one.state, _why(one)) for one in seen]
        console.table(("image", "tag", "state", "why"), rows)
        console.result([_document(one) for one in seen])
        _judge(seen)


def wheels(to: str, known: str, json: bool) -> None:
    """Build the toolkits' wheels; keep them as files, or upload them to an index. `to`: a folder or an address."""
    with command(json) as (settings, console):
        from slipway.supply import wheels as making
        from slipway.supply.provenance import without_secrets

        upload = "://" in to
        if known and not upload:
            raise UsageError("--known goes with an index", fix="give --to the address that takes uploads")
        made = making.build(settings.project, settings.state / "dist" if upload else Path(to))
        if upload:
            from slipway.release import ledger, stores
            from slipway.release import wheels as released

            book = ledger.Ledger(stores.of(settings))
            released.refuse_changed(made, book.history())
            making.publish(made, to, known)
            released.write_down(made, to, book)
        for wheel in made:
            console.say(wheel.requirement)
        console.note(f"{len(made)} wheels are in {without_secrets(to)}")
        console.result([{**asdict(wheel), "path": str(wheel.path)} for wheel in made])


def ci_matrix(selector: Selector) -> None:
    """Print the images as a matrix of CI jobs: one line of JSON, as a workflow's outputs want it."""
    with command() as (settings, console):
        from json import dumps

        from slipway.spec import load
        from slipway.spec.select import select
        from slipway.supply import jobs

        matrix = load.load(settings.project)
        found = jobs.of(matrix, select(matrix, selector))
        console.say(dumps({"include": [asdict(job) for job in found]}))


def _history(settings: Settings) -> History:
    from slipway.release import ledger, stores

    return ledger.Ledger(stores.of(settings)).history()


def _signing(key: str, identity: str, issuer: str, release: ReleaseConfig) -> Signing:
    from slipway.supply.config import Signing

    if bool(identity) != bool(issuer) or (key and identity):
        raise UsageError("--identity and --issuer go together, and stand in place of --key", fix="give both, or a key")
    if identity:
        return Signing(kind="keyless", identity=identity, issuer=issuer)
    if key:
        if "://" not in key and not Path(key).is_file():
            raise UsageError(f"there is no public key {key}", fix="give the path of cosign.pub, or a KMS address")
        return Signing(kind="kms" if "://" in key else "key", public_key=key)
    if release.signing is None:
        raise UsageError("there is no key to check with", fix="give --key cosign.pub, or say in release.yml who signs")
    return release.signing


def _located(image: str, history: History, records: Records) -> tuple[str, str, str]:
    """Host, repository, and tag or digest of an image: a URI, or the name of one that was released or pushed here."""
    from slipway.release import yank

    pushes = [*records.pushes(), *history.pushes()]
    named = [push for push in pushes if image in (*yank.names(push), push.image)]
    if named:
        return named[-1].registry, named[-1].repository, named[-1].manifest_digest
    host, slash, rest = image.partition("/")
    place, at, digest = rest.partition("@")
    repository, colon, tag = place.rpartition(":")
    if not slash or not ("." in host or ":" in host or host == "localhost") or not (at or colon):
        raise UsageError(
            f"{image} is no image that was released or pushed here, nor a URI",
            fix="give HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:…",
        )
    return (host, place.partition(":")[0], digest) if at else (host, repository, tag)


def _known(manifest: Manifest, history: History, records: Records) -> Known:
    """What is on record here of the image that a manifest describes."""
    from slipway.supply.audit import Known

    config = manifest.config_digest
    released = next((one.image for one in history.standings if one.image.config_digest == config), None)
    digests = [push.manifest_digest for push in records.pushes() if push.config_digest == config]
    digests += [released.manifest_digest] if released else []
    return Known(
        manifest_digest=manifest.digest if manifest.digest in digests else (digests[-1] if digests else ""),
        build=next((build for build in records.builds() if build.config_digest == config), None),
        packages=released.packages if released else {},
    )


def _why(seen: Seen) -> str:
    if seen.trouble is not None:
        return seen.trouble.message.splitlines()[0]
    assert seen.judgement is not None
    ended = [f"the allowance of {allow.id} ended on {allow.review_by}" for allow in seen.judgement.expired]
    return "; ".join([*map(str, seen.judgement.failures), *ended]) or f"{len(seen.judgement.waiting)} without a fix yet"


def _document(seen: Seen) -> dict[str, object]:
    trouble = seen.trouble
    return {
        **{name: getattr(seen.subject, name) for name in ("image", "tag", "manifest_digest", "config_digest")},
        "places": [f"{host}/{repository}" for host, repository in seen.subject.places],
        "scanner": seen.scanner,
        "state": seen.state,
        "judgement": asdict(seen.judgement) if seen.judgement else None,
        "trouble": trouble.message if trouble else "",
    }


def _judge(seen: list[Seen]) -> None:
    """Raise GateError for what must be built anew, else ScanError for what could not be looked at."""
    from slipway.release.rescan import REBUILD, UNSEEN
    from slipway.supply.gate import remedy

    rebuild = [one for one in seen if one.state == REBUILD]
    unseen = [one for one in seen if one.state == UNSEEN]
    blind = [Fault(f"{one.subject.image}: {_why(one)}", one.trouble.fix if one.trouble else "") for one in unseen]
    if rebuild:
        faults = [
            Fault(f"{one.subject.image}: {finding}", remedy(finding))
            for one in rebuild
            if one.judgement
            for finding in one.judgement.failures
        ]
        faults += [
            Fault(f"{one.subject.image}: the allowance of {allow.id} ended on {allow.review_by}", "look at it again")
            for one in rebuild
            if one.judgement
            for allow in one.judgement.expired
        ]
        names = " ".join(one.subject.image for one in rebuild)
        raise GateError(f"to be mended and built anew: {names}", faults=[*faults, *blind], fix="see each line")
    if blind:
        raise ScanError(f"{len(blind)} of {len(seen)} images could not be looked at", faults=blind)
    if not seen:
        raise NotFoundError("nothing was released or pushed from here", fix="run `invoke release`")
