"""How an image came to be, as a predicate of SLSA provenance v1.

Source: https://slsa.dev/spec/v1.0/provenance. cosign wraps the predicate into an in-toto statement that names the
image by its digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from slipway import __version__, process
from slipway.errors import ProgramError
from slipway.records import Build

PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:slipway:image-build:1"
LOCAL_BUILDER = "urn:slipway:builder:local"


def predicate(
    build: Build, *, source: str, builder: str, invocation: str = "", parameters: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The predicate for one build. Pure: the same build gives the same predicate.

    `source`: address of the repository, may be empty. `builder`, `invocation`: see `builder_of`. `parameters`: the
    settings that decided the build, such as base and snapshot.
    """
    finished = datetime.fromisoformat(build.built_at)
    started = finished - timedelta(seconds=build.seconds)
    run: dict[str, Any] = {
        "builder": {"id": builder, "version": {"slipway": __version__}},
        "metadata": {
            **({"invocationId": invocation} if invocation else {}),
            "startedOn": started.isoformat(timespec="seconds"),
            "finishedOn": finished.isoformat(timespec="seconds"),
        },
        "byproducts": [{"name": "image-config", "digest": _sha256(build.config_digest)}],
    }
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "image": build.image,
                "repository": build.repository,
                "tag": build.tag,
                "settings": dict(parameters or {}),
            },
            "internalParameters": {"inputHash": build.input_hash, "lockHash": build.lock_hash, "base": build.base},
            "resolvedDependencies": [
                _source(source, build.revision),
                _base(build),
                {"name": "inputs", "digest": _sha256(build.input_hash)},
                {"name": "lock", "digest": _sha256(build.lock_hash)},
            ],
        },
        "runDetails": run,
    }


def disagreements(found: Mapping[str, Any], build: Build) -> list[str]:
    """In what a predicate differs from the record of a build; nothing when it speaks of that build."""
    definition = found.get("buildDefinition", {})
    inner, outer = definition.get("internalParameters", {}), definition.get("externalParameters", {})
    expected = {
        "image": (outer.get("image"), build.image),
        "input hash": (inner.get("inputHash"), build.input_hash),
        "lock hash": (inner.get("lockHash"), build.lock_hash),
        "base": (inner.get("base"), build.base),
        "source commit": (commit_of(found), _commit(build.revision)),
        "config digest": (config_digest_of(found), build.config_digest),
    }
    return [f"{what}: {seen!r}, on record {kept!r}" for what, (seen, kept) in expected.items() if seen != kept]


def commit_of(found: Mapping[str, Any]) -> str:
    """The source commit that a predicate names; empty when it names none, as for a tree with changes."""
    return str(_dependency(found, "source").get("digest", {}).get("gitCommit", ""))


def config_digest_of(found: Mapping[str, Any]) -> str:
    parts = found.get("runDetails", {}).get("byproducts", [])
    given: dict[str, Any] = next((part for part in parts if part.get("name") == "image-config"), {})
    return f"sha256:{given.get('digest', {}).get('sha256', '')}"


def builder_of(environment: Mapping[str, str]) -> tuple[str, str]:
    """Who builds here, and in which run: the workflow and the run on GitHub Actions, elsewhere "local" and nothing."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return LOCAL_BUILDER, ""
    server = environment.get("GITHUB_SERVER_URL", "")
    run = f"{server}/{environment.get('GITHUB_REPOSITORY', '')}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}"
    attempt = environment.get("GITHUB_RUN_ATTEMPT", "1")
    return f"{server}/{environment.get('GITHUB_WORKFLOW_REF', '')}", f"{run}/attempts/{attempt}"


def origin(project: Path) -> str:
    """The address of the project's repository, without any password in it; empty outside git."""
    try:
        found = process.run(["git", "-C", project, "remote", "get-url", "origin"], check=False, timeout=60)
    except ProgramError:
        return ""
    return without_secrets(found.stdout.strip()) if found.code == 0 else ""


def without_secrets(address: str) -> str:
    """An address without user, password, query and fragment. `git@host:path` is left as it is."""
    parts = urlsplit(address)
    if not parts.netloc:
        return address
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _dependency(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    listed = found.get("buildDefinition", {}).get("resolvedDependencies", [])
    return next((one for one in listed if one.get("name") == name), {})


def _source(source: str, revision: str) -> dict[str, Any]:
    """The repository at a commit. A tree with changes is no commit: then the digest is left out."""
    commit = _commit(revision)
    found: dict[str, Any] = {"name": "source"}
    if source:
        found["uri"] = f"git+{source}@{commit}" if commit else f"git+{source}"
    if commit:
        found["digest"] = {"gitCommit": commit}
    else:
        found["annotations"] = {"revision": revision}
    return found


def _commit(revision: str) -> str:
    return revision if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", revision) else ""


def _base(build: Build) -> dict[str, Any]:
    """A pulled base by its digest; a bootstrapped one by the layer that it became."""
    reference, _, digest = build.base.removeprefix("pulled ").partition("@")
    if digest.startswith("sha256:"):
        return {"name": "base", "uri": f"docker://{reference}", "digest": _sha256(digest)}
    return {"name": "base", "digest": _sha256(build.layers[0]) if build.layers else {}}


def _sha256(digest: str) -> dict[str, str]:
    return {"sha256": digest.removeprefix("sha256:")}
