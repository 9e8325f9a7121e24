from dataclasses import replace

import pytest

from slipway.commands.publish import _newest_builds, _number, _registries
from slipway.errors import NotFoundError, UsageError
from slipway.records import Build, Records
from slipway.release.config import OciRegistry, ReleaseConfig, Rule
from slipway.spec.model import Image

BUILD = Build(
    image="pytorch-training-2.13.0-cpu-py311",
    framework="pytorch",
    version="2.13.0",
    scope="training",
    processor="cpu",
    python="3.11",
    repository="pytorch-training",
    tag="2.13.0-cpu-py311-debian12",
    reference="",
    config_digest="sha256:" + "a" * 64,
    engine_id="",
    input_hash="",
    size=0,
    revision="",
    created="",
    base="",
    lock_hash="",
    built_at="2026-01-01T00:00:00Z",
    seconds=0,
)
TEAM, OTHER = OciRegistry("team", "team.example.com"), OciRegistry("other", "other.example.com")
CONFIG = ReleaseConfig({"team": TEAM, "other": OTHER}, (Rule(("team",), framework="pytorch"),))


def test_the_rules_say_where_an_image_goes():
    assert _registries(CONFIG, BUILD, None) == (TEAM,)
    assert _registries(CONFIG, BUILD, "team") == (TEAM,)


def test_without_registries_it_goes_to_the_loopback_one():
    assert _registries(ReleaseConfig(), BUILD, None) == ()
    assert _registries(CONFIG, BUILD, "local") == ()


@pytest.mark.parametrize(
    ("build", "registry", "what"),
    [
        (BUILD, "teem", "no registry 'teem'"),
        (BUILD, "other", "does not send"),
        (replace(BUILD, framework="mxnet"), None, "nowhere"),
    ],
)
def test_where_an_image_does_not_go(build, registry, what):
    with pytest.raises(UsageError, match=what):
        _registries(CONFIG, build, registry)


@pytest.mark.parametrize(
    ("given", "images", "number"), [(None, 2, None), ("3", 1, 3), ("0", 1, None), ("v3", 1, None), ("3", 2, None)]
)
def test_a_number_is_for_one_image(given, images, number):
    if given is None or number:
        assert _number(given, images) == number
    else:
        with pytest.raises(UsageError, match="--number"):
            _number(given, images)


def test_the_newest_build_of_each_image(tmp_path):
    records = Records(tmp_path)
    newer = replace(BUILD, config_digest="sha256:" + "b" * 64, built_at="2026-01-02T00:00:00Z")
    records.add_build(newer)
    records.add_build(BUILD)
    image = _image("training")
    assert _newest_builds(records, [image]) == [newer]


def test_every_image_that_was_not_built_is_named(tmp_path):
    images = [_image("training"), _image("inference")]
    with pytest.raises(NotFoundError, match="invoke build --only pytorch-training"):
        _newest_builds(Records(tmp_path), images[:1])
    with pytest.raises(NotFoundError, match="nothing was sent") as caught:
        _newest_builds(Records(tmp_path), images)
    assert len(caught.value.faults) == 2


def _image(scope: str) -> Image:
    return Image(
        framework="pytorch", stack="2.13", version="2.13.0", scope=scope, processor="cpu", python="3.11", os="debian12"
    )
