"""Releases for real: `invoke release` in a project of its own, the engine, two registries behind passwords."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from slipway import settings
from slipway.engine.docker import Engine
from slipway.errors import (
    AuthError,
    Interrupted,
    NotFoundError,
    NotProvedError,
    RegistryError,
    TagConflictError,
    UsageError,
)
from slipway.records import Smoke
from slipway.registry import Credentials, Registry
from slipway.release import delivery, push
from slipway.verify import smoke_hash
from tests.support.project import ROOT, Project
from tests.support.proxy import Harm, Proxy, Request, proxying
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration

TRAINING, INFERENCE = "pytorch-training-2.13.0-cpu-py311", "pytorch-inference-2.13.0-cpu-py311"
TAG = "2.13.0-cpu-py311-debian12"
ALIASES = (TAG, "2.13.0-cpu-py311", "2.13-cpu-py311")
BOTH = ("release", "--framework", "pytorch")
RELEASE = ("release", "--only", TRAINING)


@dataclass
class Site:
    """A registry, and the proxy before it."""

    registry: PasswordRegistry
    proxy: Proxy


@dataclass
class World:
    """A project and two registries that stand for two regions."""

    project: Project
    sites: tuple[Site, Site]

    def repository(self, scope: str) -> str:
        return f"{self.project.prefix}/pytorch-{scope}"

    def names(self, scope: str, tag: str) -> set[str]:
        """The digests under a tag in both registries; empty where it is not there."""
        return {site.registry.digest(self.repository(scope), tag) for site in self.sites}

    def tags(self, scope: str) -> list[set[str]]:
        """The tags that people see, by registry."""
        found = (site.registry.tags(self.repository(scope)) for site in self.sites)
        return [{tag for tag in tags if not tag.startswith("sha256-")} for tags in found]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        sites = []
        for name in ("first", "second"):
            registry = make(tmp_path / name, name, f"s3cret-{name}")
            registry.start()
            stack.callback(registry.kill)
            sites.append(Site(registry, stack.enter_context(proxying(registry.port))))
        project = Project(tmp_path / "project")
        stack.callback(project.close)
        project.environment = {
            f"{name}_{key}": value
            for name, site in zip("AB", sites, strict=True)
            for key, value in (("USER", site.registry.user), ("WORD", site.registry.password))
        }
        project.configure(
            {
                key.lower(): {
                    "kind": "oci",
                    "host": site.proxy.host,
                    "credentials": {"username-from": f"{key}_USER", "password-from": f"{key}_WORD"},
                }
                for key, site in zip("AB", sites, strict=True)
            },
            notes="as release.yml says",
        )
        yield World(project, (sites[0], sites[1]))


def test_a_release_from_plan_to_listing(world: World) -> None:
    shared = os.urandom(2 << 20)
    builds = [world.project.build(image, image.encode(), below=shared) for image in (TRAINING, INFERENCE)]
    plan = world.project.told(*BOTH, "--plan")
    actions = {(one["step"], one["action"]) for one in plan if one["image"] in (TRAINING, "")}
    assert actions == {
        ("build", "skip"),
        ("verify", "skip"),
        ("smoke", "skip"),
        ("size", "do"),
        ("sbom", "not configured"),
        ("changes", "skip"),
        ("push", "do"),
        ("scan", "not configured"),
        ("sign", "not configured"),
        ("check", "not configured"),
        ("replicate", "do"),
        ("promote", "do"),
        ("ledger", "do"),
        ("listing", "do"),
    }
    assert all(not site.proxy.asked for site in world.sites), "a plan asks no registry"
    world.project.environment["DOCKER_HOST"] = "unix:///nowhere/docker.sock"
    (build, *_) = world.project.told(*BOTH, "--plan")
    assert (build["action"], build["why"]) == ("do", "unless the engine has it; none answers here")
    del world.project.environment["DOCKER_HOST"]

    released = world.project.told(*BOTH)
    for build, one, scope in zip(builds, released, ("training", "inference"), strict=True):
        assert one["config_digest"] == build.config_digest
        for tag in (f"{TAG}-v1", *ALIASES):
            assert world.names(scope, tag) == {one["manifest_digest"]} == {build.engine_id}
        assert world.tags(scope) == [{f"{TAG}-v1", *ALIASES}] * 2
    # Each blob once in each registry: the shared layer is not sent for the second image.
    for site in world.sites:
        unique = sum(path.stat().st_size for path in (site.registry.folder / "data").rglob("blobs/sha256/*/*/data"))
        assert site.proxy.blob_bytes <= 1.02 * unique
    (entry,) = world.project.ledger
    assert [image["tag"] for image in entry["images"]] == [f"{TAG}-v1"] * 2
    assert [place["registry"] for place in entry["images"][0]["places"]] == [site.proxy.host for site in world.sites]
    assert entry["images"][0]["labels"] == {"a": "b"}
    assert f"`{TAG}-v1`" in (world.project.folder / "releases/README.md").read_text()

    uri = world.project.invoke("image-uri", "--framework", "pytorch", "--host", world.sites[1].proxy.host)
    assert uri.stdout.strip() == f"{world.sites[1].proxy.host}/{world.repository('training')}:{TAG}-v1"
    again = world.project.invoke(*BOTH)
    assert "nothing was left to release" in again.stdout and again.returncode == 0
    assert len(world.project.ledger) == 1


def test_a_second_release_moves_the_aliases_and_keeps_the_first(world: World) -> None:
    shared = os.urandom(2 << 20)
    world.project.build(TRAINING, b"one", below=shared)
    (first,) = world.project.told("release", "--only", TRAINING)
    before = [site.proxy.blob_bytes for site in world.sites]
    world.project.build(TRAINING, b"two", below=shared)
    (second,) = world.project.told("release", "--only", TRAINING, "--notes", "why")
    for site, sent in zip(world.sites, before, strict=True):  # what a change of a toolkit alone costs
        assert site.proxy.blob_bytes - sent < 100_000
    assert (second["tag"], second["previous"]) == (f"{TAG}-v2", f"{TAG}-v1")
    assert world.names("training", f"{TAG}-v1") == {first["manifest_digest"]}
    assert world.names("training", "2.13-cpu-py311") == {second["manifest_digest"]}
    assert [entry["number"] for entry in world.project.ledger] == [1, 2]
    assert [entry["notes"] for entry in world.project.ledger] == ["as release.yml says", "why"]


def sabotage(world: World, child: list[subprocess.Popen[str]], number: int) -> None:
    """Kill the command when the `number`th upload of a blob or manifest has just been stored, before it knows."""
    left = [number]

    def end() -> None:
        child[0].kill()
        child[0].wait()

    def harm(request: Request) -> Harm | None:
        if request.method != "PUT":
            return None
        left[0] -= 1
        return Harm(then=end) if left[0] == 0 else None

    for site in world.sites:
        site.proxy.harm = harm


def moved(world: World, digests: dict[str, str]) -> bool:
    """Whether any tag that people see names the new image."""
    return any(digests[scope] in world.names(scope, tag) for scope in digests for tag in (f"{TAG}-v2", *ALIASES))


@pytest.mark.slow
def test_a_release_that_is_killed_after_each_thing_it_stores(world: World) -> None:
    """Every run is killed when it has stored one thing more than the run before; the last one has nothing left."""
    for image in (TRAINING, INFERENCE):
        world.project.build(image, f"old {image}".encode())
    old = {one["scope"]: one["manifest_digest"] for one in world.project.told(*BOTH)}
    new = {image.split("-")[1]: world.project.build(image, image.encode()).engine_id for image in (TRAINING, INFERENCE)}
    runs, states = 0, set()
    while True:
        child: list[subprocess.Popen[str]] = []
        sabotage(world, child, 1)
        child.append(world.project.start(*BOTH))
        _, err = child[0].communicate(timeout=300)
        runs += 1
        assert runs < 60
        if child[0].returncode == 0:
            break
        assert child[0].returncode == -signal.SIGKILL, err
        state = world.project.journals()[-1]["state"]
        states.add(state)
        assert state == "promoting" or not moved(world, new), "a tag moved that no journal knows of"
        assert len(world.project.ledger) == 1
        for scope in old:  # an alias is the old image or the new, never gone, and the old number never moves
            assert world.names(scope, f"{TAG}-v1") == {old[scope]}
            assert world.names(scope, "2.13-cpu-py311") <= {old[scope], new[scope]}
    assert states == {"open", "promoting"}
    for scope, digest in new.items():
        for tag in (f"{TAG}-v2", *ALIASES):
            assert world.names(scope, tag) == {digest}
        assert world.tags(scope) == [{f"{TAG}-v1", f"{TAG}-v2", *ALIASES}] * 2
    assert [len(entry["images"]) for entry in world.project.ledger] == [2, 2]
    assert world.project.journals()[-1]["state"] == "done"


@pytest.mark.slow
def test_a_signed_release_that_is_killed_after_each_of_its_steps(world: World) -> None:
    """Every run is killed at its first request after a step that no killed run before it had on record, and when a
    first signature or attestation has just been stored."""
    folder = world.project.folder
    key = {"kind": "key", "key": "cosign.key", "public-key": "cosign.pub"}
    given = json.loads((folder / "release.yml").read_text())
    concerned = {"package": {"ecosystem": "PyPI", "name": "other"}, "versions": ["1"]}
    (folder / "advisories.json").write_text(json.dumps([{"id": "PYSEC-1", "affected": [concerned]}]))
    scan = {"scanner": "osv-file", "source": "advisories.json"}
    (folder / "release.yml").write_text(json.dumps({**given, "signing": key, "scan": scan, "sbom": True}))
    environment = {**os.environ, "COSIGN_PASSWORD": ""}
    subprocess.run(["cosign", "generate-key-pair"], cwd=folder, env=environment, check=True, capture_output=True)
    metadata = {"usr/lib/python3/dist-packages/x-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: x\nVersion: 1\n"}
    build = world.project.build(TRAINING, b"signed", files=metadata, packages={"x": 1})
    seen: set[str] = set()

    def run() -> subprocess.Popen[str]:
        """One run of the release, which is killed once if there is anything new to be killed at."""
        child: list[subprocess.Popen[str]] = []

        def end() -> None:
            child[0].kill()
            child[0].wait()

        def harm(request: Request) -> Harm | None:
            points = {step for journal in world.project.journals()[-1:] for step in journal["steps"]}
            if request.names_a_tag and (ending := request.path.rpartition(".")[2]) in ("sig", "att"):
                points.add(ending)
            if points <= seen or child[0].poll() is not None:
                return None
            seen.update(points)
            return Harm(then=end)

        for site in world.sites:
            site.proxy.harm = harm
        child.append(world.project.start(*RELEASE))
        _, err = child[0].communicate(timeout=300)
        assert child[0].returncode in (0, -signal.SIGKILL), err
        return child[0]

    kills = 0
    while run().returncode:
        kills += 1
        assert world.tags("training") == [set(), set()] and world.project.ledger == []
    assert seen >= {"sbom", "push", "scan", "sign", "check", "replicate", "sig", "att"} and kills >= 7
    assert world.names("training", f"{TAG}-v1") == {build.engine_id}
    stem = build.engine_id.replace(":", "-")
    for site in world.sites:
        for ending, layers in (("sig", 1), ("att", 3)):
            manifest = site.registry.get(f"/v2/{world.repository('training')}/manifests/{stem}.{ending}")[2]
            assert len(json.loads(manifest)["layers"]) == layers, "one of each kind, however often it was begun"
    assert {line["status"] for line in world.project.told("audit", TRAINING)["lines"]} == {"ok"}


def test_a_release_killed_between_two_aliases_is_finished_by_the_next_run(world: World) -> None:
    world.project.build(TRAINING, b"one")
    world.project.told("release", "--only", TRAINING)
    build = world.project.build(TRAINING, b"two")
    child: list[subprocess.Popen[str]] = []
    aliases = []

    def end() -> None:
        child[0].kill()
        child[0].wait()

    def harm(request: Request) -> Harm | None:
        if request.names_a_tag and "-v2" not in request.path and "staging" not in request.path:
            aliases.append(request.path)
        return Harm(then=end) if len(aliases) == 2 else None

    world.sites[0].proxy.harm = harm
    child.append(world.project.start("release", "--only", TRAINING))
    child[0].communicate(timeout=300)
    assert child[0].returncode == -signal.SIGKILL
    assert world.project.journals()[-1]["state"] == "promoting" and len(world.project.ledger) == 1
    world.sites[0].proxy.harm = lambda request: None
    # Whatever the next run is asked for: it finishes that one first.
    world.project.build(INFERENCE, b"another")
    (plan, *_) = world.project.told("release", "--only", INFERENCE, "--plan")
    assert (plan["step"], plan["image"], plan["action"]) == ("settle", TRAINING, "do")
    done = world.project.invoke("release", "--only", INFERENCE)
    assert done.returncode == 0, done.stderr
    for tag in (f"{TAG}-v2", *ALIASES):
        assert world.names("training", tag) == {build.engine_id}
    images = [[image["image"] for image in entry["images"]] for entry in world.project.ledger]
    assert images == [[TRAINING], [TRAINING], [INFERENCE]]
    assert {journal["state"] for journal in world.project.journals()} == {"done"}


def test_a_release_killed_around_its_document_has_one_document(world: World) -> None:
    """What a run leaves that is killed just before or just after the ledger's document is there."""
    world.project.build(TRAINING, b"one")
    world.project.told("release", "--only", TRAINING)
    (journal,) = (world.project.folder / ".slipway/releases").glob("*/journal.json")
    (document,) = (world.project.folder / "releases").glob("*.json")
    for written in (True, False):
        journal.write_text(json.dumps({**json.loads(journal.read_text()), "state": "promoted"}))
        if not written:
            document.unlink()
        done = world.project.invoke("release", "--only", TRAINING)
        assert done.returncode == 0 and "finishing it first" in done.stderr, done.stderr
        assert "nothing was left to release" in done.stdout
        (entry,) = world.project.ledger
        assert [image["tag"] for image in entry["images"]] == [f"{TAG}-v1"]
        assert json.loads(journal.read_text())["state"] == "done"


@pytest.mark.parametrize("how", ["refused", "ctrl-c"])
def test_a_failed_promotion_leaves_every_tag_where_it_was(world: World, how: str) -> None:
    old = world.project.build(TRAINING, b"one")
    world.project.told("release", "--only", TRAINING)
    before = world.tags("training")
    new = world.project.build(TRAINING, b"two")
    child: list[subprocess.Popen[str]] = []

    def harm(request: Request) -> Harm | None:
        # The last alias in the second registry: all that goes before it has moved by then.
        if not (request.names_a_tag and request.path.endswith("/2.13-cpu-py311")) or not child:
            return None
        if how == "refused":
            child.clear()
            return Harm(status=403, code="DENIED", message="not today")
        return Harm(then=lambda: child.pop().send_signal(signal.SIGINT))

    world.sites[1].proxy.harm = harm
    run = world.project.start("release", "--only", TRAINING)
    child.append(run)
    _, err = run.communicate(timeout=300)
    assert run.returncode == (AuthError.exit_code if how == "refused" else Interrupted.exit_code), err
    assert "every tag is where it was" in err
    assert world.tags("training") == before
    for tag in (f"{TAG}-v1", *ALIASES):
        assert world.names("training", tag) == {old.engine_id}
    assert len(world.project.ledger) == 1
    world.sites[1].proxy.harm = lambda request: None
    sent = sum(site.proxy.blob_bytes for site in world.sites)
    (again,) = world.project.told("release", "--only", TRAINING)
    assert again["tag"] == f"{TAG}-v2" and world.names("training", "2.13-cpu-py311") == {new.engine_id}
    assert sum(site.proxy.blob_bytes for site in world.sites) == sent, "what was pushed is not pushed again"


def test_two_releases_at_once_wait_for_each_other(world: World) -> None:
    for image in (TRAINING, INFERENCE):
        world.project.build(image, image.encode())
    runs = [world.project.start("release", "--only", image, "--json") for image in (TRAINING, INFERENCE)]
    ended = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ended
    assert any("another release is running; waiting for it" in err for _, err in ended)
    assert sorted(entry["number"] for entry in world.project.ledger) == [1, 2]
    assert world.names("training", f"{TAG}-v1") | world.names("inference", f"{TAG}-v1") != {""}


def test_registries_that_are_not_ready_end_a_release_before_it_begins(world: World) -> None:
    world.project.build(TRAINING, b"one")
    world.project.environment["B_WORD"] = "wr0ng"
    done = world.project.invoke("release", "--only", TRAINING)
    assert done.returncode == AuthError.exit_code and "wr0ng" not in done.stderr
    assert not any(request.writes for site in world.sites for request in site.proxy.asked)
    assert world.project.ledger == []


def test_what_was_not_proved_or_is_untested_is_refused(world: World) -> None:
    world.project.build(TRAINING, b"one", proved=False)
    gpu = next(one["id"] for one in world.project.told("list", "--all", "--processor", "gpu", "--framework", "pytorch"))
    build = world.project.build(gpu, b"gpu")
    refused = world.project.invoke("release", "--only", gpu)
    assert refused.returncode == NotProvedError.exit_code and "no GPU has run it" in refused.stderr
    assert not any(request.writes for site in world.sites for request in site.proxy.asked)
    assert world.project.invoke("release", "--only", gpu, "--untested-gpu", "x").returncode == UsageError.exit_code
    (released,) = world.project.told("release", "--only", gpu, "--untested-gpu", gpu)
    assert released["config_digest"] == build.config_digest
    assert "untested" in world.project.ledger[0]["images"][0]["smoke"]
    assert "not run on a GPU" in (world.project.folder / "releases/README.md").read_text()

    build = world.project.build(gpu, b"gpu, tried")
    world.project.records.add_smoke(
        Smoke(
            config_digest=build.config_digest,
            suite_hash=smoke_hash(world.project.folder),
            image=gpu,
            reference=build.reference,
            device="cuda",
            device_name="NVIDIA H200",
            driver="570.1",
            passed=True,
            at="2026-01-01T00:00:00Z",
            seconds=1.0,
        )
    )
    world.project.told("release", "--only", gpu)
    assert world.project.ledger[1]["images"][0]["smoke"]["device"] == "NVIDIA H200"


def test_rollback_yank_and_eol_lead_people_elsewhere(world: World) -> None:
    repository = world.repository("training")

    def found(*words: str) -> tuple[str, str]:
        done = world.project.invoke("image-uri", "--framework", "pytorch", "--host", world.sites[0].proxy.host, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().rpartition("-")[2], done.stderr

    world.project.build(TRAINING, b"one")
    (first,) = world.project.told("release", "--only", TRAINING)
    world.project.build(TRAINING, b"two")
    (second,) = world.project.told("release", "--only", TRAINING)
    assert found()[0] == "v2"
    assert world.project.invoke("rollback", TRAINING).returncode == UsageError.exit_code
    back = world.project.told("rollback", TRAINING, "--reason", "crashes on import")
    assert (back["to"], back["withdrawn"]) == (f"{repository}:{TAG}-v1", [f"{repository}:{TAG}-v2"])
    for alias in ALIASES:
        assert world.names("training", alias) == {first["manifest_digest"]}
    assert world.names("training", f"{TAG}-v2") == {second["manifest_digest"]}, "a release tag never moves"
    assert found()[0] == "v1"
    refused = world.project.invoke("release", "--only", TRAINING)
    assert refused.returncode == NotProvedError.exit_code and "crashes on import" in refused.stderr
    assert world.project.invoke("rollback", TRAINING, "--reason", "x").returncode == NotFoundError.exit_code

    world.project.build(TRAINING, b"three")
    (third,) = world.project.told("release", "--only", TRAINING)
    assert (third["tag"], third["previous"]) == (f"{TAG}-v3", f"{TAG}-v1")
    assert found()[0] == "v3"
    world.project.told("yank", third["manifest_digest"], "--reason", "leaks")
    assert found()[0] == "v1"
    world.project.told("yank", f"{TAG}-v3", "--undo")
    world.project.told("eol", "--framework", "pytorch", "--version", "2.13.0", "--on", "2020-01-01")
    tag, said = found()
    assert tag == "v3" and "supported until 2020-01-01" in said
    kinds = [entry["kind"] for entry in world.project.ledger]
    assert kinds == ["release", "release", "rollback", "release", "yank", "yank", "eol"]
    # Another machine has the repository and no record of its own.
    shutil.rmtree(world.project.folder / ".slipway")
    assert found()[0] == "v3"
    listed = world.project.told("releases")
    assert [(one["tag"], bool(one["withdrawn"])) for one in listed] == [
        (f"{TAG}-v1", False),
        (f"{TAG}-v2", True),
        (f"{TAG}-v3", False),
    ]
    same = world.project.told("changes", f"{TAG}-v1", f"{TAG}-v3")
    assert same["size"] == len(b"three") - len(b"one") and same["labels"] == []


def test_credentials_that_end_while_the_engine_uploads_are_renewed(world: World) -> None:
    """A token that ends after the first layer, as ECR's may: the upload goes on with a fresh one."""
    build = world.project.build(TRAINING, os.urandom(1 << 20), below=os.urandom(1 << 20))
    site = world.sites[0]
    good = Credentials(site.registry.user, site.registry.password)
    spare = Credentials("spare", "s3cret-spare")
    site.registry.add_user(spare.username, spare.password)
    stored: list[str] = []

    def harm(request: Request) -> Harm | None:
        stored.extend([request.path] if request.method == "PUT" else [])
        if stored and request.headers.get("Authorization") == good.basic:
            return Harm(401, "UNAUTHORIZED", "token expired", {"WWW-Authenticate": 'Basic realm="test"'})
        return None

    site.proxy.harm = harm
    notes: list[str] = []
    place = push.Site(build, world.repository("training"), Registry(site.proxy.host, good, renew=lambda: spare), "", ())
    manifest, _ = delivery.send(place, lambda: Engine.connect(os.environ), notes.append)
    assert site.registry.digest(world.repository("training"), manifest.digest) == build.engine_id
    assert any("attempt 2" in note for note in notes) and spare.password not in "".join(notes)


def test_a_registry_that_deletes_nothing_gets_the_release_finished(world: World) -> None:
    """The first release fails at its last alias; the tags that it made cannot be taken away, and are told."""
    build = world.project.build(TRAINING, b"one")
    refused = [1]

    def harm(request: Request) -> Harm | None:
        if request.method == "DELETE":
            return Harm(405, "UNSUPPORTED", "no")
        if request.names_a_tag and request.path.endswith("/2.13-cpu-py311") and refused[0]:
            refused[0] -= 1
            return Harm(403, "DENIED", "not today")
        return None

    world.sites[1].proxy.harm = harm
    done = world.project.invoke("release", "--only", TRAINING)
    assert done.returncode == RegistryError.exit_code and "could not be moved back" in done.stderr
    assert f"{world.sites[1].proxy.host}/{world.repository('training')}:{TAG}-v1" in done.stderr
    assert world.project.journals()[-1]["state"] == "promoting" and world.project.ledger == []
    again = world.project.invoke("release", "--only", TRAINING)
    assert again.returncode == 0, again.stderr
    for tag in (f"{TAG}-v1", *ALIASES):
        assert world.names("training", tag) == {build.engine_id}
    assert len(world.project.ledger) == 1


def test_builders_stage_and_a_releaser_without_an_engine_releases(world: World, tmp_path: Path) -> None:
    builds = {image: world.project.build(image, image.encode()) for image in (TRAINING, INFERENCE)}
    for image in builds:  # two runners would do this at once, each with a state of its own
        staged = world.project.invoke("release", "--only", image, "--stage")
        assert staged.returncode == 0 and "no tag has moved" in staged.stdout, staged.stderr
    assert world.tags("training") == world.tags("inference") == [set(), set()]
    assert world.project.ledger == []
    releaser = Project(tmp_path / "releaser", prefix=world.project.prefix)
    shutil.copyfile(world.project.folder / "release.yml", releaser.folder / "release.yml")
    for name in ("builds", "verdicts", "releases"):
        shutil.copytree(world.project.folder / ".slipway" / name, releaser.folder / ".slipway" / name)
    releaser.environment = {**world.project.environment, "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    released = releaser.told(*BOTH)
    assert [one["config_digest"] for one in released] == [build.config_digest for build in builds.values()]
    for image, build in builds.items():
        assert world.names(image.split("-")[1], f"{TAG}-v1") == {build.engine_id}


def test_a_number_that_someone_else_takes_in_the_middle_ends_the_release(world: World) -> None:
    other = world.project.build(TRAINING, b"theirs")
    world.project.told("release", "--only", TRAINING)
    world.project.build(TRAINING, b"ours")
    before = world.tags("training")
    manifests = f"/v2/{world.repository('training')}/manifests"
    second = world.sites[1].registry
    _, kind, body = second.get(f"{manifests}/{TAG}-v1")

    def take() -> None:
        world.sites[0].proxy.harm = lambda request: None
        second.ask("PUT", f"{manifests}/{TAG}-v2", body, kind["Content-Type"])

    # In the first registry our -v2 is there already; in the second it is theirs now.
    world.sites[0].proxy.harm = lambda request: (
        Harm(then=take) if request.names_a_tag and "-v2" in request.path else None
    )
    done = world.project.invoke("release", "--only", TRAINING)
    assert done.returncode == TagConflictError.exit_code, done.stderr
    assert world.tags("training") == [before[0], before[1] | {f"{TAG}-v2"}]
    assert world.names("training", "2.13-cpu-py311") == {other.engine_id}
    (again,) = world.project.told("release", "--only", TRAINING)
    assert again["tag"] == f"{TAG}-v3" and world.names("training", f"{TAG}-v3") == {again["manifest_digest"]}


@pytest.mark.slow
def test_what_was_never_built_is_built_proved_and_released(world: World, tmp_path: Path) -> None:
    """A buildspec file of one's own, of which nothing is there: one command from the lock to the registries."""
    name = f"team{secrets.token_hex(3)}"
    stack = {"stands-on": {"framework": "base", "stack": "0.1"}, "scopes": ["training"], "packages": {}}
    (tmp_path / f"{name}.yml").write_text(json.dumps({"framework": name, "stacks": {"1": stack}}))
    state = world.project.folder / ".slipway"
    state.mkdir()
    (state / "rootfs").symlink_to(settings.read(project=ROOT).state / "rootfs")
    world.project.environment["SLIPWAY_BUILDSPEC"] = str(tmp_path / f"{name}.yml")
    assert world.project.invoke("lock", "--framework", name).returncode == 0
    plan = {one["step"]: one["action"] for one in world.project.told("release", "--framework", name, "--plan")}
    assert (plan["build"], plan["verify"], plan["push"]) == ("do", "do", "do")
    try:
        (released,) = world.project.told("release", "--framework", name)
        (build,) = world.project.records.builds()
        (verdict,) = world.project.records.verdicts()
        assert verdict.passed and verdict.config_digest == build.config_digest == released["config_digest"]
        repository = f"{world.project.prefix}/{name}-training"
        for site in world.sites:
            assert site.registry.digest(repository, released["tag"]) == released["manifest_digest"]
        assert world.project.invoke("release", "--framework", name).stdout.strip() == "nothing was left to release"
    finally:
        for build in world.project.records.builds():
            world.project.made.append(build.reference)
