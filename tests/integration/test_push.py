"""Pushes for real: the engine, docker-registry behind a password, moto's ECR; read back by code of its own."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slipway import local_registry, settings
from slipway.clients import retrieve
from slipway.engine.docker import Engine
from slipway.engine.uploads import upload
from slipway.errors import (
    AuthError,
    NotFoundError,
    NotProvedError,
    RegistryError,
    TagConflictError,
    UsageError,
    VerifyError,
)
from slipway.records import Build, CheckResult, Records, Verdict
from slipway.registry import Credentials
from slipway.registry.blobs import Repository, copy
from slipway.release import config, destinations
from slipway.release.destinations import OciDestination
from slipway.release.push import Pusher
from slipway.verify import suite_hash
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SUITE = "5" * 64
TAG = "2.13.0-cpu-py311-debian12"
MOTO = ("AWS", "123456789012-auth-token")  # the pair inside every token that moto's ECR gives


@dataclass
class Bench:
    """An image in the engine, its records, and what a push said."""

    state: Path
    repository: str
    notes: list[str] = field(default_factory=list)
    progress: Callable[[int, int], None] = lambda sent, total: None

    @property
    def records(self) -> Records:
        return Records(self.state)

    @property
    def pusher(self) -> Pusher:
        return Pusher(
            records=self.records,
            suite_hash=SUITE,
            engine=lambda: Engine.connect(os.environ),
            note=self.notes.append,
            progress=self.progress,
        )

    def build(self, content: bytes, *, flags: tuple[str, ...] = ("--provenance=false",), proved: bool = True) -> Build:
        """Build an image of one file and file the records that `build` and `verify` would."""
        context = self.state / "context"
        context.mkdir(parents=True, exist_ok=True)
        (context / "content").write_bytes(content)
        (context / "Dockerfile").write_text("FROM scratch\nCOPY content /content\n")
        reference = f"{self.repository}:{TAG}-dev"
        meta = self.state / "meta.json"
        subprocess.run(
            ["docker", "buildx", "build", "--quiet", *flags, "--metadata-file", meta, "--tag", reference, context],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        told = json.loads(meta.read_text())
        build = Build(
            image="pytorch-training-2.13.0-cpu-py311",
            framework="pytorch",
            version="2.13.0",
            scope="training",
            processor="cpu",
            python="3.11",
            repository=self.repository,
            tag=TAG,
            reference=reference,
            config_digest=told.get("containerimage.config.digest", "sha256:" + "0" * 64),
            engine_id=told["containerimage.digest"],
            input_hash="",
            size=len(content),
            revision="0" * 40,
            created="2026-01-01T00:00:00Z",
            base="scratch",
            lock_hash="",
            built_at="2026-01-01T00:00:00Z",
            seconds=1.0,
        )
        self.records.add_build(build)
        if proved:
            self.verdict(build, passed=True)
        return build

    def verdict(self, build: Build, *, passed: bool, suite: str = SUITE) -> None:
        check = CheckResult(
            id="channels",
            status="passed" if passed else "failed",
            seconds=1.0,
            reason="" if passed else "a channel is not readable",
        )
        self.records.add_verdict(
            Verdict(
                config_digest=build.config_digest,
                suite_hash=suite,
                image=build.image,
                reference=build.reference,
                passed=passed,
                at="2026-01-01T00:00:00Z",
                seconds=1.0,
                checks=(check,),
            )
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "state", f"slipway-test-{secrets.token_hex(4)}")
    yield bench
    subprocess.run(["docker", "rmi", f"{bench.repository}:{TAG}-dev"], check=False, capture_output=True)
    assert not _names(bench.repository), "the push left a name in the engine"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[PasswordRegistry]:
    registry = make(tmp_path / "registry", "someone", "s3cret")
    registry.start()
    yield registry
    registry.kill()


def _names(repository: str) -> list[str]:
    listed = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"], check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.splitlines() if repository in name]


def at(registry: PasswordRegistry, password: str = "") -> OciDestination:
    return OciDestination(registry.host, lambda: Credentials(registry.user, password or registry.password))


def test_an_image_is_pushed_by_digest_under_the_next_number(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    (pushed,) = bench.pusher.push(build, bench.repository, [at(registry)])
    record = pushed.record
    assert record.uri == f"{registry.host}/{bench.repository}:{TAG}-v1"
    assert pushed.new and pushed.sent > 0
    assert registry.digest(bench.repository, f"{TAG}-v1") == record.manifest_digest == build.engine_id
    assert registry.config(bench.repository, f"{TAG}-v1") == build.config_digest
    moving = {TAG, "2.13.0-cpu-py311", "2.13-cpu-py311"}
    assert {registry.digest(bench.repository, alias) for alias in moving} == {record.manifest_digest}
    assert registry.tags(bench.repository) == {f"{TAG}-v1", *moving, "sha256-staging"}
    assert bench.records.pushes() == [record]
    assert retrieve.image_uri("pytorch", state=bench.state) == record.uri
    by_digest = retrieve.image_uri("pytorch", version="2.13", digest=True, state=bench.state)
    assert by_digest == f"{registry.host}/{bench.repository}@{record.manifest_digest}"


def test_an_unchanged_image_takes_no_new_number(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    bench.pusher.push(build, bench.repository, [at(registry)])
    before, files = registry.tags(bench.repository), _blobs(registry)
    (again,) = bench.pusher.push(build, bench.repository, [at(registry)])
    assert (again.new, again.sent) == (False, 0)
    assert (registry.tags(bench.repository), _blobs(registry)) == (before, files)
    assert len(bench.records.pushes()) == 1


def test_a_changed_image_takes_the_next_number_and_the_aliases(bench: Bench, registry: PasswordRegistry) -> None:
    first = bench.pusher.push(bench.build(b"one"), bench.repository, [at(registry)])[0].record
    second = bench.pusher.push(bench.build(b"two"), bench.repository, [at(registry)])[0].record
    assert second.tag == f"{TAG}-v2"
    assert registry.digest(bench.repository, f"{TAG}-v1") == first.manifest_digest != second.manifest_digest
    assert registry.digest(bench.repository, "2.13-cpu-py311") == second.manifest_digest
    # Pushing the older image again is a no-op: it takes the aliases from nobody.
    (older,) = bench.pusher.push(bench.build(b"one"), bench.repository, [at(registry)])
    assert (older.new, older.record.tag) == (False, f"{TAG}-v1")
    assert registry.digest(bench.repository, "2.13-cpu-py311") == second.manifest_digest
    assert retrieve.image_uri("pytorch", state=bench.state) == second.uri


def test_layers_of_another_repository_are_not_sent_again(
    bench: Bench, registry: PasswordRegistry, tmp_path: Path
) -> None:
    build = bench.build(secrets.token_bytes(100_000))
    shown = ["docker", "inspect", "--format", "{{json .RootFS.Layers}}", build.reference]
    layers = json.loads(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)
    build = replace(build, layers=tuple(layers))
    (first,) = bench.pusher.push(build, bench.repository, [at(registry)])
    assert first.sent > 100_000
    other = make(tmp_path / "other", "someone", "s3cret")
    other.start()
    try:
        # As another machine pushed it: the engine, which mounts what it has sent itself, knows nothing of it.
        source, target = (
            Repository(at(one).client(), name) for one, name in ((registry, bench.repository), (other, "a"))
        )
        manifest = source.registry.manifest(source.name, first.record.manifest_digest)
        assert manifest is not None
        copy(source, target, manifest)
        bench.records.add_push(replace(first.record, registry=other.host, repository="a", uri=f"{target}:{TAG}-v1"))
        (second,) = bench.pusher.push(build, "b", [at(other)])
        assert second.new
        assert second.sent < 10_000
    finally:
        other.kill()


def test_a_record_that_was_lost_is_written_again(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    bench.pusher.push(build, bench.repository, [at(registry)])
    shutil.rmtree(bench.state / "pushes")
    (again,) = bench.pusher.push(build, bench.repository, [at(registry)])
    assert not again.new
    assert bench.records.pushes() == [again.record]


def test_a_registry_that_lost_its_data_is_pushed_to_anew(bench: Bench, registry: PasswordRegistry) -> None:
    bench.pusher.push(bench.build(b"one"), bench.repository, [at(registry)])
    registry.kill()
    shutil.rmtree(registry.folder / "data")
    registry.start()
    second = bench.build(b"two")
    (pushed,) = bench.pusher.push(second, bench.repository, [at(registry)])
    assert pushed.record.tag == f"{TAG}-v1"
    assert [push.config_digest for push in bench.records.pushes()] == [second.config_digest]


def test_the_same_number_for_another_image_is_refused_before_upload(bench: Bench, registry: PasswordRegistry) -> None:
    bench.pusher.push(bench.build(b"one"), bench.repository, [at(registry)])
    before = _blobs(registry)
    with pytest.raises(TagConflictError, match=r"-v1 of .* never moves") as caught:
        bench.pusher.push(bench.build(b"two"), bench.repository, [at(registry)], number=1)
    assert "next free number is 2" in str(caught.value)
    assert _blobs(registry) == before
    assert len(bench.records.pushes()) == 1


def test_a_number_may_be_asked_for(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    assert bench.pusher.push(build, bench.repository, [at(registry)], number=7)[0].record.tag == f"{TAG}-v7"
    (again,) = bench.pusher.push(build, bench.repository, [at(registry)], number=7)
    assert not again.new


def test_a_race_for_a_number_ends_in_a_conflict_not_in_overwriting(bench: Bench, registry: PasswordRegistry) -> None:
    theirs = bench.pusher.push(bench.build(b"theirs"), bench.repository, [at(registry)])[0].record
    kind, body = theirs.media_type, registry.get(f"/v2/{bench.repository}/manifests/{theirs.tag}")[2]

    def they_come_first(sent: int, total: int) -> None:
        registry.ask("PUT", f"/v2/{bench.repository}/manifests/{TAG}-v2", body, kind)

    bench.progress = they_come_first
    with pytest.raises(TagConflictError, match="taken by another push"):
        bench.pusher.push(bench.build(b"ours"), bench.repository, [at(registry)])
    assert registry.digest(bench.repository, f"{TAG}-v2") == theirs.manifest_digest
    assert len(bench.records.pushes()) == 1


def test_two_pushes_at_once_wait_for_each_other(bench: Bench, registry: PasswordRegistry) -> None:
    first = bench.build(b"one")
    # The second build takes the name, without which the engine drops the first.
    subprocess.run(["docker", "tag", first.engine_id, f"{bench.repository}:kept"], check=True)
    try:
        builds = [first, bench.build(b"two")]
        with ThreadPoolExecutor(2) as pool:
            pushes = [pool.submit(bench.pusher.push, build, bench.repository, [at(registry)]) for build in builds]
            done = [push.result()[0].record for push in pushes]
        assert {record.tag for record in done} == {f"{TAG}-v1", f"{TAG}-v2"}
        for record in done:
            assert registry.config(bench.repository, record.tag) == record.config_digest
        assert "another push is running here; waiting for it" in bench.notes
    finally:
        subprocess.run(["docker", "rmi", f"{bench.repository}:kept"], check=True, capture_output=True)


def test_an_index_is_refused_before_it_gets_a_name(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one", flags=("--provenance=true",))
    with pytest.raises(VerifyError, match="not one image"):
        bench.pusher.push(build, bench.repository, [at(registry)])
    assert registry.tags(bench.repository) == {"sha256-staging"}
    assert bench.records.pushes() == []


def test_another_image_than_the_recorded_one_gets_no_name(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    other = replace(build, config_digest="sha256:" + "1" * 64)
    bench.verdict(other, passed=True)
    with pytest.raises(VerifyError, match="built and verified was sha256:1111"):
        bench.pusher.push(other, bench.repository, [at(registry)])
    assert registry.tags(bench.repository) == {"sha256-staging"}


def test_what_was_not_proved_is_not_sent(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one", proved=False)
    with pytest.raises(NotProvedError, match="never verified"):
        bench.pusher.push(build, bench.repository, [at(registry)])
    bench.verdict(build, passed=True, suite="4" * 64)
    with pytest.raises(NotProvedError, match="by other checks"):
        bench.pusher.push(build, bench.repository, [at(registry)])
    bench.verdict(build, passed=False)
    with pytest.raises(NotProvedError, match="verified and failed") as caught:
        bench.pusher.push(build, bench.repository, [at(registry)])
    assert "channels: a channel is not readable" in str(caught.value)
    again = bench.build(b"two", proved=False)
    with pytest.raises(NotProvedError, match="built again since"):
        bench.pusher.push(again, bench.repository, [at(registry)])
    assert _blobs(registry) == set()


def test_a_wrong_password(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    with pytest.raises(AuthError) as caught:
        bench.pusher.push(build, bench.repository, [at(registry, "wr0ng")])
    assert f"docker login {registry.host}" in str(caught.value)
    assert "wr0ng" not in str(caught.value)
    assert bench.records.pushes() == []


def test_a_password_that_the_engine_finds_wrong(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    engine, wrong = Engine.connect(os.environ), Credentials(registry.user, "wr0ng")
    with pytest.raises(AuthError, match="401") as caught:
        upload(engine, build.engine_id, registry.host, bench.repository, "x", wrong, lambda sent, total: None)
    assert "wr0ng" not in str(caught.value)
    assert _names(bench.repository) == [build.reference]


def test_a_registry_that_dies_in_the_middle_of_a_push(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(os.urandom(48 << 20))
    bench.progress = lambda sent, total: registry.kill()
    with pytest.raises(RegistryError):
        bench.pusher.push(build, bench.repository, [at(registry)])
    assert bench.records.pushes() == []
    registry.start()
    bench.progress = lambda sent, total: None
    (pushed,) = bench.pusher.push(build, bench.repository, [at(registry)])
    assert registry.digest(bench.repository, f"{TAG}-v1") == pushed.record.manifest_digest


def test_ctrl_c_in_the_middle_of_a_push(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(os.urandom(48 << 20))
    bench.progress = lambda sent, total: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        bench.pusher.push(build, bench.repository, [at(registry)])
    assert bench.records.pushes() == []
    assert _names(bench.repository) == [build.reference]
    assert f"{TAG}-v1" not in registry.tags(bench.repository)


def test_registries_are_all_asked_before_one_is_sent_to(
    bench: Bench, registry: PasswordRegistry, tmp_path: Path
) -> None:
    build = bench.build(b"one")
    down = make(tmp_path / "down", "someone", "s3cret")
    with pytest.raises(RegistryError, match=f"{down.host} does not answer"):
        bench.pusher.push(build, bench.repository, [at(registry), at(down)])
    assert _blobs(registry) == set()


def test_a_push_to_several_registries_goes_on_where_it_stopped(
    bench: Bench, registry: PasswordRegistry, tmp_path: Path
) -> None:
    build = bench.build(b"one")
    second = make(tmp_path / "second", "someone", "s3cret")
    second.start()
    try:
        # The first upload's progress takes the second registry away, after both were found ready.
        bench.progress = lambda sent, total: second.kill()
        with pytest.raises(RegistryError) as caught:
            bench.pusher.push(build, bench.repository, [at(registry), at(second)])
        assert f"pushed to: {registry.host}/{bench.repository}:{TAG}-v1" in str(caught.value)
        assert f"not pushed to: {second.host}" in str(caught.value)
        bench.progress = lambda sent, total: None
        second.start()
        first, other = bench.pusher.push(build, bench.repository, [at(registry), at(second)])
        assert (first.new, other.new) == (False, True)
        assert second.digest(bench.repository, f"{TAG}-v1") == registry.digest(bench.repository, f"{TAG}-v1")
        assert {push.registry for push in bench.records.pushes()} == {registry.host, second.host}
    finally:
        second.kill()


def test_numbers_are_the_same_everywhere(bench: Bench, registry: PasswordRegistry, tmp_path: Path) -> None:
    second = make(tmp_path / "second", "someone", "s3cret")
    second.start()
    try:
        bench.pusher.push(bench.build(b"one"), bench.repository, [at(registry)])
        both = bench.pusher.push(bench.build(b"two"), bench.repository, [at(registry), at(second)])
        assert [pushed.record.tag for pushed in both] == [f"{TAG}-v2", f"{TAG}-v2"]
    finally:
        second.kill()


def test_an_image_that_left_the_engine(bench: Bench, registry: PasswordRegistry) -> None:
    build = bench.build(b"one")
    subprocess.run(["docker", "rmi", build.reference], check=True, capture_output=True)
    with pytest.raises(NotFoundError, match="no longer has"):
        bench.pusher.push(build, bench.repository, [at(registry)])


def test_without_a_registry_one_is_started_on_loopback(bench: Bench, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "buildspec").mkdir(parents=True)
    given = settings.read({"state": str(bench.state)}, project=project, environment={})
    try:
        target = destinations.loopback(given, bench.notes.append)
        assert "invoke registry --stop" in bench.notes[-1] and target.host in bench.notes[-1]
        (pushed,) = bench.pusher.push(bench.build(b"one"), bench.repository, [target])
        noted = len(bench.notes)
        assert destinations.loopback(given, bench.notes.append).host == target.host
        assert len(bench.notes) == noted, "a running registry is used without a word"
        local_registry.stop(bench.state)
        # Its data and its address outlive it.
        assert destinations.loopback(given, bench.notes.append).host == target.host
        reader = PasswordRegistry(tmp_path, int(target.host.rpartition(":")[2]), "", "")
        assert reader.digest(bench.repository, f"{TAG}-v1") == pushed.record.manifest_digest
    finally:
        assert local_registry.stop(bench.state) is not None
    assert local_registry.running(bench.state) is None


def invoke(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SLIPWAY_STATE": str(bench.state)}
    argv = [sys.executable, "-m", "invoke", *words]
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_commands_from_push_to_image_uri(bench: Bench) -> None:
    image = bench.build(b"one", proved=False)
    refused = invoke(bench, "push", "--only", image.image)
    assert (refused.returncode, refused.stdout) == (NotProvedError.exit_code, "")
    assert "never verified" in refused.stderr and "Traceback" not in refused.stderr
    bench.verdict(image, passed=True, suite=suite_hash(ROOT))
    try:
        pushed = invoke(bench, "push", "--only", image.image, "--json")
        assert pushed.returncode == 0, pushed.stderr
        assert "no registry is configured: started one at" in pushed.stderr
        (told,) = json.loads(pushed.stdout)
        assert (told["config_digest"], told["new"]) == (image.config_digest, True)
        again = invoke(bench, "push", "--only", image.image)
        assert again.returncode == 0 and "already there" in again.stdout
        uri = invoke(bench, "image-uri", "--framework", "pytorch", "--scope", "training")
        assert uri.stdout == told["uri"] + "\n"
        digest = invoke(bench, "image-uri", "--framework", "pytorch", "--digest").stdout.strip()
        assert digest == f"{told['registry']}/{bench.repository}@{told['manifest_digest']}"
        subprocess.run(["docker", "pull", "--quiet", digest], check=True, capture_output=True)
        subprocess.run(["docker", "rmi", digest], check=True, capture_output=True)
    finally:
        stopped = invoke(bench, "registry", "--stop")
    assert stopped.returncode == 0 and "its images stay" in stopped.stdout
    assert invoke(bench, "image-uri", "--framework", "pytoch").returncode == NotFoundError.exit_code
    assert invoke(bench, "image-uri").returncode == UsageError.exit_code
    assert invoke(bench, "push", "--only", image.image, "--number", "0").returncode == UsageError.exit_code
    assert invoke(bench, "push", "--only", image.image, "--registry", "nowhere").returncode == UsageError.exit_code


@pytest.fixture
def ecr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ecr]:
    from moto.server import ThreadedMotoServer

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    regions = {name: make(tmp_path / name, *MOTO) for name in ("us-east-1", "eu-west-1")}
    for registry in regions.values():
        registry.start()
    yield Ecr(f"http://127.0.0.1:{server.get_host_and_port()[1]}", regions, tmp_path / "project")
    for registry in regions.values():
        registry.kill()
    server.stop()


@dataclass
class Ecr:
    """moto's ECR, and a registry for each region."""

    endpoint: str
    regions: dict[str, PasswordRegistry]
    project: Path

    def destinations(self, account: str = "123456789012", more: str = "") -> list[destinations.Destination]:
        (self.project / "buildspec").mkdir(parents=True, exist_ok=True)
        hosts = "\n".join(f"      {region}: {registry.host}" for region, registry in self.regions.items())
        (self.project / "release.yml").write_text(
            f"registries:\n  production:\n    kind: ecr\n    account: '{account}'\n"
            f"    regions: [{', '.join(self.regions)}]\n    role: arn:aws:iam::{account}:role/release\n"
            f"    hosts:\n{hosts}\n{more}"
        )
        given = settings.read(project=self.project, environment={"AWS_ENDPOINT_URL": self.endpoint})
        return destinations.of(config.load(self.project).registry("production"), given)

    def client(self, region: str):  # type: ignore[no-untyped-def]
        import boto3

        return boto3.client("ecr", region_name=region, endpoint_url=self.endpoint)


def test_ecr_in_two_regions(bench: Bench, ecr: Ecr) -> None:
    build = bench.build(b"one")
    pushed = bench.pusher.push(build, f"ml/{bench.repository}", ecr.destinations())
    assert [(one.record.region, one.record.tag) for one in pushed] == [
        ("us-east-1", f"{TAG}-v1"),
        ("eu-west-1", f"{TAG}-v1"),
    ]
    for region, registry in ecr.regions.items():
        assert registry.digest(f"ml/{bench.repository}", f"{TAG}-v1") == build.engine_id
        (made,) = ecr.client(region).describe_repositories()["repositories"]
        assert made["repositoryName"] == f"ml/{bench.repository}"
        assert made["imageTagMutability"] == "IMMUTABLE_WITH_EXCLUSION"
        filters = {one["filter"] for one in made["imageTagMutabilityExclusionFilters"]}
        assert filters == {"sha256-*", "*-debian12", "*-py311"}
        assert made["imageScanningConfiguration"] == {"scanOnPush": True}
    uri = retrieve.image_uri("pytorch", region="eu-west-1", state=bench.state)
    assert uri == f"{ecr.regions['eu-west-1'].host}/ml/{bench.repository}:{TAG}-v1"


def test_ecr_keeps_the_filters_that_a_repository_has(bench: Bench, ecr: Ecr) -> None:
    client = ecr.client("us-east-1")
    client.create_repository(
        repositoryName=bench.repository,
        imageTagMutability="IMMUTABLE_WITH_EXCLUSION",
        imageTagMutabilityExclusionFilters=[{"filterType": "WILDCARD", "filter": "*-py312"}],
    )
    bench.pusher.push(bench.build(b"one"), bench.repository, ecr.destinations())
    (made,) = client.describe_repositories(repositoryNames=[bench.repository])["repositories"]
    filters = {one["filter"] for one in made["imageTagMutabilityExclusionFilters"]}
    assert filters == {"sha256-*", "*-debian12", "*-py311", "*-py312"}


def test_ecr_removes_what_no_tag_names(bench: Bench, ecr: Ecr) -> None:
    def opened(days: int) -> int:
        """Days that the repository says now."""
        (one, _) = ecr.destinations(more=f"    untagged-days: {days}\n")
        one.open(bench.repository, TAG, bench.notes.append)
        policy = json.loads(client.get_lifecycle_policy(repositoryName=bench.repository)["lifecyclePolicyText"])
        (rule,) = policy["rules"]
        assert (rule["selection"]["tagStatus"], rule["action"]) == ("untagged", {"type": "expire"})
        return int(rule["selection"]["countNumber"])

    client = ecr.client("us-east-1")
    assert opened(30) == 30
    told = len(bench.notes)
    assert opened(30) == 30
    assert len(bench.notes) == told, "nothing was changed, so nothing is said"
    assert opened(7) == 7
    foreign = json.loads(client.get_lifecycle_policy(repositoryName=bench.repository)["lifecyclePolicyText"])
    foreign["rules"][0] |= {"description": "of the platform team"}
    client.put_lifecycle_policy(repositoryName=bench.repository, lifecyclePolicyText=json.dumps(foreign))
    assert opened(30) == 7, "somebody else's policy stays"
    assert "has a lifecycle policy of its own" in bench.notes[-1]


def test_an_ecr_repository_whose_aliases_cannot_move(bench: Bench, ecr: Ecr) -> None:
    ecr.client("eu-west-1").create_repository(repositoryName=bench.repository, imageTagMutability="IMMUTABLE")
    with pytest.raises(RegistryError, match="lets no tag move") as caught:
        bench.pusher.push(bench.build(b"one"), bench.repository, ecr.destinations())
    assert "aws ecr put-image-tag-mutability --region eu-west-1" in str(caught.value)
    assert all(_blobs(registry) == set() for registry in ecr.regions.values())


def test_a_mutable_ecr_repository_is_used_with_a_word(bench: Bench, ecr: Ecr) -> None:
    ecr.client("us-east-1").create_repository(repositoryName=bench.repository)
    bench.pusher.push(bench.build(b"one"), bench.repository, ecr.destinations())
    assert any("only Slipway keeps its -vN tags from moving" in note for note in bench.notes)


def test_ecr_out_of_reach(bench: Bench, ecr: Ecr) -> None:
    build = bench.build(b"one")
    targets = ecr.destinations()
    gone = [replace(target, ecr=replace(target.ecr, endpoint="http://127.0.0.1:9", role="")) for target in targets]
    with pytest.raises(RegistryError, match="2 registries are not ready; nothing was sent"):
        bench.pusher.push(build, bench.repository, gone)


def test_no_secret_is_left_behind(bench: Bench, ecr: Ecr, tmp_path: Path) -> None:
    bench.pusher.push(bench.build(b"one"), bench.repository, ecr.destinations())
    token = base64.b64encode(":".join(MOTO).encode())
    for path in (path for path in bench.state.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert MOTO[1].encode() not in content and token not in content, path


def _blobs(registry: PasswordRegistry) -> set[str]:
    return {path.parent.name for path in (registry.folder / "data").rglob("blobs/sha256/*/*/data")}
