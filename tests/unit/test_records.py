"""Records: what is written is read again; what is not a record is named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from slipway.errors import NotFoundError, SlipwayError
from slipway.records import FORM, Build, CheckResult, Push, Records, Smoke, Verdict

DIGEST = "sha256:" + "a" * 64
BUILD = Build(
    image="small-training-1.2.0-cpu-py311",
    framework="small",
    version="1.2.0",
    scope="training",
    processor="cpu",
    python="3.11",
    repository="small-training",
    tag="1.2.0-cpu-py311-debian12",
    reference="small-training:1.2.0-cpu-py311-debian12-dev",
    config_digest=DIGEST,
    engine_id="sha256:b",
    input_hash="c",
    size=1,
    revision="d",
    created="2026-01-01T00:00:00+00:00",
    base="bootstrapped",
    lock_hash="e",
    built_at="2026-01-02T00:00:00.000+00:00",
    seconds=1.5,
    layers=("sha256:f", "sha256:g"),
)
VERDICT = Verdict(
    config_digest=DIGEST,
    suite_hash="0123456789abcdef0123",
    image=BUILD.image,
    reference=BUILD.reference,
    passed=True,
    at="2026-01-03T00:00:00+00:00",
    seconds=2.0,
    checks=(CheckResult(id="x", status="passed", seconds=0.1),),
)
SMOKE = Smoke(
    config_digest=DIGEST,
    suite_hash="0123456789abcdef0123",
    image=BUILD.image,
    reference=BUILD.reference,
    device="cuda",
    device_name="NVIDIA X",
    driver="580.1",
    passed=True,
    at="2026-01-03T00:00:00+00:00",
    seconds=60.0,
    steps=(CheckResult(id="x", status="passed", seconds=0.1, numbers={"error": 1e-6}),),
)
PUSH = Push(
    config_digest=DIGEST,
    manifest_digest="sha256:h",
    media_type="application/vnd.oci.image.manifest.v1+json",
    image=BUILD.image,
    framework="small",
    version="1.2.0",
    scope="training",
    processor="cpu",
    python="3.11",
    registry="127.0.0.1:5000",
    region="",
    repository="team/small-training",
    tag="1.2.0-cpu-py311-debian12-v1",
    uri="127.0.0.1:5000/team/small-training:1.2.0-cpu-py311-debian12-v1",
    aliases=("1.2-cpu-py311",),
)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "state")


def test_nothing_is_on_record_at_first(records: Records) -> None:
    assert (records.builds(), records.verdicts(), records.pushes()) == ([], [], [])
    with pytest.raises(NotFoundError, match="was not built here") as caught:
        records.build_of(BUILD.image)
    assert BUILD.image in caught.value.fix


def test_what_is_written_is_read_again(records: Records) -> None:
    records.add_build(BUILD)
    records.add_verdict(VERDICT)
    records.add_push(PUSH)
    assert (records.builds(), records.verdicts(), records.pushes()) == ([BUILD], [VERDICT], [PUSH])
    assert (records.state / "builds" / f"{'a' * 64}.json").is_file(), "the config digest is the key"
    assert json.loads((records.state / "builds" / f"{'a' * 64}.json").read_text())["form"] == FORM


def test_the_newest_build_of_a_cell_counts(records: Records) -> None:
    later = dataclasses.replace(BUILD, config_digest="sha256:" + "0" * 64, built_at="2026-01-05T00:00:00.000+00:00")
    records.add_build(later)
    records.add_build(BUILD)
    assert records.builds() == [BUILD, later]
    assert records.build_of(BUILD.image) == later
    records.add_build(dataclasses.replace(BUILD, built_at="2026-01-06T00:00:00.000+00:00"))
    assert records.build_of(BUILD.image).config_digest == DIGEST


def test_a_verdict_is_of_one_image_under_one_suite(records: Records) -> None:
    records.add_verdict(VERDICT)
    assert records.verdict_of(DIGEST, VERDICT.suite_hash) == VERDICT
    assert records.verdict_of(DIGEST, "0123456789abcdef9999") is None
    assert records.verdict_of("sha256:" + "b" * 64, VERDICT.suite_hash) is None


def test_pushes_of_two_tags_and_places_are_kept_apart(records: Records) -> None:
    for registry in ("127.0.0.1:5000", "127.0.0.1:5001", "127.0.0.1_5000"):
        for repository in ("team/small-training", "team_small-training"):
            for tag in ("1.2.0-v1", "1.2.0-v2"):
                uri = f"{registry}/{repository}:{tag}"
                push = dataclasses.replace(PUSH, registry=registry, repository=repository, tag=tag, uri=uri)
                records.add_push(push)
                records.add_push(push)
    assert len(records.pushes()) == 12


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"x"', "{}", '{"form": "1"}', '{"form": 1}', '{"form": 1, "surprise": 2}', "\x00"]
)
def test_what_is_not_a_record_is_named(records: Records, text: str) -> None:
    path = records.state / "builds" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(SlipwayError, match=f"{path} is not a record"):
        records.builds()


def test_a_record_of_a_newer_form_is_refused(records: Records) -> None:
    records.add_build(BUILD)
    (path,) = (records.state / "builds").iterdir()
    path.write_text(path.read_text().replace(f'"form": {FORM}', f'"form": {FORM + 1}'))
    with pytest.raises(SlipwayError, match=rf"was written by a newer Slipway \(form {FORM + 1}\)") as caught:
        records.builds()
    assert caught.value.fix == "update Slipway"


def test_smoke_counts_for_its_own_image_suite_and_device(tmp_path: Path) -> None:
    records = Records(tmp_path)
    on_cpu = dataclasses.replace(SMOKE, device="cpu", driver="", passed=False)
    records.add_smoke(on_cpu)
    assert records.smoke_of(DIGEST, SMOKE.suite_hash) is None
    records.add_smoke(SMOKE)
    assert records.smoke_of(DIGEST, SMOKE.suite_hash) == SMOKE
    assert records.smoke_of(DIGEST, SMOKE.suite_hash, "cpu") == on_cpu
    assert records.smoke_of("sha256:" + "b" * 64, SMOKE.suite_hash) is None
    assert records.smoke_of(DIGEST, "another") is None
