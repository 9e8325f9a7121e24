import datetime
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

import slipway
from slipway.clients.lookup import as_of, by_digest, find, standing
from slipway.clients.retrieve import image_uri
from slipway.errors import NotFoundError, UsageError
from slipway.records import Push, Records
from slipway.release.ledger import Ledger, document
from slipway.release.stores import Folder
from tests.unit.release.released import released

_clock = itertools.count()


def push(version="2.13.0", number=1, registry="r.example.com", region="", **more) -> Push:
    given = {"framework": "pytorch", "scope": "training", "processor": "cpu", "python": "3.11", **more}
    repository = f"{given['framework']}-{given['scope']}"
    tag = f"{version}-{given['processor']}-py{given['python'].replace('.', '')}-debian12-v{number}"
    return Push(
        config_digest="sha256:" + "c" * 64,
        manifest_digest=f"sha256:{next(_clock):064x}",
        media_type="",
        image=f"{repository}-{version}",
        version=version,
        registry=registry,
        region=region,
        repository=repository,
        tag=tag,
        uri=f"{registry}/{repository}:{tag}",
        pushed_at=f"2026-01-01T00:00:{next(_clock):02d}+00:00",
        **given,
    )


@pytest.fixture(autouse=True)
def _restart_clock():
    global _clock
    _clock = itertools.count()


def test_the_newest_version_then_the_highest_number_then_the_latest_push():
    pushes = [
        push("2.13.0", 10),
        push("2.13.0", 9),
        push("2.9.1", 11),
        push("2.13.0", 10, registry="later.example.com"),
        push("2.13.0rc1", 12),
    ]
    found = find(pushes, framework="pytorch")
    assert [(one.version, one.tag.rpartition("-")[2], one.registry) for one in found] == [
        ("2.13.0", "v10", "later.example.com"),
        ("2.13.0", "v10", "r.example.com"),
        ("2.13.0", "v9", "r.example.com"),
        ("2.13.0rc1", "v12", "r.example.com"),
        ("2.9.1", "v11", "r.example.com"),
    ]


@pytest.mark.parametrize(
    ("asked", "tags"),
    [
        ({"version": "2.9"}, ["2.9.1-cpu-py311-debian12-v1"]),
        ({"version": "2.9.1"}, ["2.9.1-cpu-py311-debian12-v1"]),
        ({"processor": "gpu"}, ["2.13.0-gpu-py311-debian12-v1"]),
        ({"scope": "inference", "python": "py312"}, ["2.13.0-cpu-py312-debian12-v1"]),
        ({"scope": "inference", "python": "3.12"}, ["2.13.0-cpu-py312-debian12-v1"]),
        ({"region": "eu-west-1"}, ["2.13.0-cpu-py311-debian12-v2"]),
        ({"registry": "ecr.example.com"}, ["2.13.0-cpu-py311-debian12-v2"]),
    ],
)
def test_each_selector(asked, tags):
    pushes = [
        push("2.9.1"),
        push("2.90.0"),
        push(processor="gpu"),
        push(scope="inference", python="3.12"),
        push(number=2, registry="ecr.example.com", region="eu-west-1"),
    ]
    assert [one.tag for one in find(pushes, framework="pytorch", **asked)] == tags


@pytest.mark.parametrize(
    ("asked", "what", "fix"),
    [
        ({"framework": "pytoch"}, "framework pytoch", "did you mean pytorch"),
        ({"framework": "pytorch", "version": "2.12"}, "version 2.12, of those with framework pytorch", "2.13.0"),
        ({"framework": "pytorch", "scope": "inference"}, "scope inference", "training"),
        ({"framework": "pytorch", "region": "us-east-1"}, "region us-east-1", "none"),
    ],
)
def test_what_is_not_on_record_is_answered_with_what_is(asked, what, fix):
    with pytest.raises(NotFoundError) as caught:
        find([push()], **asked)
    assert what in caught.value.message
    assert fix in caught.value.fix
    assert ("invoke push --framework pytorch" in caught.value.fix) == (asked["framework"] == "pytorch")


@pytest.mark.parametrize(
    ("asked", "taken"),
    [("2.14.1", "2.13.0"), ("2.10", "2.9.1"), ("2.13.7", "2.13.0"), ("1.9", "2.9.1"), ("2.13.0rc1", "2.9.1")],
)
def test_an_unknown_version_is_a_warning_where_someone_hears_it(asked, taken):
    told = []
    found = find([push(), push("2.9.1")], framework="pytorch", version=asked, warn=told.append)
    assert {one.version for one in found} == {taken}
    assert told == [f"no image was pushed with version {asked}: {taken} is the nearest, and is taken"]
    assert find([push(), push("2.9.1")], framework="pytorch", version="2.13", warn=told.append)
    assert len(told) == 1, "a known one is none"


def test_the_sdk_s_call_warns_where_it_was_made(tmp_path: Path):
    Records(tmp_path).add_push(push())
    with pytest.warns(UserWarning, match=r"version 3\.0: 2\.13\.0 is the nearest") as heard:
        assert "2.13.0" in image_uri("pytorch", version="3.0", state=tmp_path)
    assert heard[0].filename == __file__


def test_nothing_pushed_yet():
    with pytest.raises(NotFoundError, match="nothing was pushed") as caught:
        find([], framework="pytorch")
    assert caught.value.fix == "run `invoke push --framework pytorch`"


def test_the_uri_as_tag_and_as_digest(tmp_path: Path):
    one = push()
    Records(tmp_path).add_push(one)
    assert image_uri("pytorch", state=tmp_path) == "r.example.com/pytorch-training:2.13.0-cpu-py311-debian12-v1"
    assert image_uri("pytorch", digest=True, state=tmp_path) == by_digest(one)
    assert by_digest(one) == f"r.example.com/pytorch-training@{one.manifest_digest}"


def test_the_state_folder_is_that_of_the_project_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "buildspec").mkdir()
    (tmp_path / "deep").mkdir()
    Records(tmp_path / ".slipway").add_push(push())
    monkeypatch.chdir(tmp_path / "deep")
    assert image_uri("pytorch").endswith("-v1")


def test_the_call_of_the_sdk_works_with_our_images(tmp_path: Path):
    for one in (push("2.9.1"), push("2.13.0"), push("2.13.0", processor="gpu"), push(region="eu-west-1")):
        Records(tmp_path).add_push(one)
    found = slipway.image_uri(
        "pytorch", "eu-west-1", py_version="py311", instance_type="ml.m5.xlarge", image_scope="training", state=tmp_path
    )
    assert found.endswith("2.13.0-cpu-py311-debian12-v1")
    assert "-gpu-" in slipway.image_uri("pytorch", instance_type="ml.p4d.24xlarge", state=tmp_path)
    assert "2.9.1" in slipway.image_uri("pytorch", version="2.9", state=tmp_path)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"image_scope": "train"}, "image_scope 'train'"),
        ({"hub_arn": "arn"}, "hub_arn has no meaning"),
        ({"regoin": "x"}, "no argument regoin"),
        ({"at": "yesterday"}, "--at yesterday is no date"),
    ],
)
def test_arguments_that_do_not_fit(tmp_path: Path, given, what):
    Records(tmp_path).add_push(push())
    with pytest.raises(UsageError, match=what):
        slipway.image_uri("pytorch", state=tmp_path, **given)


def test_arguments_of_the_sdk_that_say_nothing_are_no_fault(tmp_path: Path):
    Records(tmp_path).add_push(push())
    assert slipway.image_uri("pytorch", state=tmp_path, accelerator_type=None, distribution=None)


def test_a_name_that_the_package_does_not_have():
    with pytest.raises(AttributeError, match="no attribute 'image'"):
        _ = slipway.image


def test_as_it_was_on_a_day():
    old, new = push(), push(number=2)
    old = Push(**{**vars(old), "pushed_at": "2026-01-01T23:00:00+00:00"})
    new = Push(**{**vars(new), "pushed_at": "2026-01-03T00:00:00+00:00"})
    assert as_of([old, new], "2026-01-01") == [old]
    assert as_of([old, new], "2026-01-02") == [old]
    assert as_of([old, new], "2026-01-03T00:00:00Z") == [old]
    assert as_of([old, new], "2026-01-03") == [old, new]
    with pytest.raises(NotFoundError, match="up to 2025-12-31"):
        as_of([old, new], "2025-12-31")


def test_how_an_image_stands():
    pushes = [push("2.13.0"), push("2.13.1", 2), push("2.14.0"), push("2.13.2", processor="gpu"), push("2.13.0", 2)]
    today = datetime.date(2026, 6, 1)
    first = standing(pushes[0], pushes, "2026-05-31", today)
    assert (first.ended, first.newer) == (True, pushes[1].uri)
    assert len(first.notes()) == 2
    assert standing(pushes[1], pushes, "2026-06-01", today).notes() == [
        "its framework version is supported until 2026-06-01"
    ]
    assert standing(pushes[2], pushes, "", today).notes() == []


def test_a_newer_one_that_was_taken_back_is_told():
    first, second = push("2.13.0", 1), push("2.13.0", 2, yanked="crashes")
    (found,) = find([first, second], framework="pytorch")
    assert found == first
    told = standing(found, [first, second], "", datetime.date(2026, 1, 1))
    assert told.passed_over == (f"{second.uri}: crashes",)
    assert told.notes() == [f"newer, but taken back: {second.uri}: crashes"]


def test_the_ledger_is_read_first(tmp_path, monkeypatch):
    (tmp_path / "buildspec").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLIPWAY_LEDGER", raising=False)
    pushed = replace(push("2.13.0", 9), image="pytorch-training-2.13.0-cpu-py311")
    other = push("2.7.1", 1)
    for one in (pushed, other):
        Records(tmp_path / ".slipway").add_push(one)
    assert slipway.image_uri("pytorch") == pushed.uri
    ledger = Ledger(Folder(tmp_path / "releases", "releases"))
    ledger.append("release", {"release": "a", "images": [document(released(1))]})
    assert slipway.image_uri("pytorch") == "r.example.com/ml/pytorch-training:2.13.0-cpu-py311-debian12-v1"
    assert slipway.image_uri("pytorch", version="2.7") == other.uri, "what it does not know was pushed from here"
    assert slipway.image_uri("pytorch", state=tmp_path / ".slipway") == pushed.uri
