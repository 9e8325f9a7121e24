"""Sizes: ceilings, what grew since the last build within them, what images share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway import size
from slipway.errors import SizeError
from slipway.records import Build, Records
from slipway.size import Size
from slipway.spec.model import Image

from .conftest import image_of

MB = 1_000_000


def build(image: Image, *, ceiling: int = 100, **layers: int) -> Build:
    return Build(
        image=image.id,
        framework=image.framework,
        version=image.version,
        scope=image.scope,
        processor=image.processor,
        python=image.python,
        repository=image.repository,
        tag=image.tag,
        reference=image.reference,
        config_digest="sha256:" + "0" * 64,
        engine_id="x",
        input_hash="x",
        size=sum(layers.values()) * MB,
        revision="x",
        created="x",
        base="x",
        lock_hash="x",
        built_at="2026-11-30T10:00:00.000+00:00",
        seconds=1.0,
        layers=tuple(f"sha256:{name}" for name in layers),
        ceiling_mb=ceiling,
        layer_sizes=tuple((name, value * MB) for name, value in layers.items()),
        packages={"numpy": 20 * MB, "torch": 40 * MB},
    )


def measured(packages: dict[str, int], compressed: int = 0, **layers: int) -> Size:
    in_bytes = {name: value * MB for name, value in layers.items()}
    return Size(sum(in_bytes.values()), compressed * MB, in_bytes, {name: mb * MB for name, mb in packages.items()})


def test_an_image_over_its_ceiling_is_told_with_what_grew(project: Path) -> None:
    image = replace(image_of(project), ceiling_mb=100)
    last = build(image, base=50, stack=40)
    now = measured({"numpy": 20, "torch": 60, "tests": 9}, base=50, stack=69)
    with pytest.raises(SizeError) as caught:
        size.refuse_over([image], {image.id: now}, {image.id: last})
    told = str(caught.value)
    assert "takes 119 MB unpacked, over its ceiling of 100 MB; grown since 2026-11-30T10:00:00" in told
    assert "layers: stack +29 MB" in told
    assert "packages: torch +20 MB, tests +9 MB" in told
    assert f"{image.file}:{image.lines[0][0]}" in told
    size.refuse_over([replace(image, ceiling_mb=120)], {image.id: now}, {})


def test_without_a_build_before_the_largest_are_named(project: Path) -> None:
    image = replace(image_of(project), compressed_ceiling_mb=10)
    with pytest.raises(SizeError, match="11 MB compressed, over its ceiling of 10 MB; the largest"):
        size.refuse_over([image], {image.id: measured({}, compressed=11, stack=20)}, {})


def test_serverless_inference_takes_no_image_over_ten_gigabytes(project: Path) -> None:
    serves = replace(image_of(project), scope="inference", processor="cpu")
    others = [replace(serves, scope="training"), replace(serves, processor="gpu")]
    now = {image.id: measured({}, stack=10_001) for image in (serves, *others)}
    with pytest.raises(SizeError, match="more than serverless inference takes, over its ceiling of 10000 MB"):
        size.refuse_over([serves], now, {})
    size.refuse_over([serves], {serves.id: measured({}, base=1, stack=9_999)}, {})
    # Neither training nor GPUs are for serverless endpoints.
    size.refuse_over(others, now, {})


def test_what_services_refuse_is_told_of_any_image() -> None:
    large = measured({}, base=1_000, stack=9_001)
    assert size.refused(large, "inference", "cpu") == [
        "it takes 10001 MB; serverless inference takes no image over 10000 MB"
    ]
    assert [size.refused(large, *kind) for kind in (("inference", "gpu"), ("training", "cpu"))] == [[], []]
    layer = measured({}, base=1_000, stack=54_526)
    assert size.refused(layer, "training", "gpu") == ["stack takes 54526 MB; ECR takes no layer over 54525 MB"]
    assert size.refused(measured({}, base=54_525, stack=54_525), "training", "gpu") == []


def test_what_upper_layers_hide_has_a_ceiling_too(project: Path) -> None:
    image = image_of(project)
    now = replace(measured({}, stack=90), hidden=60 * MB)
    with pytest.raises(SizeError, match="takes 60 MB in files that upper layers replace or delete"):
        size.refuse_over([image], {image.id: now}, {})
    size.refuse_over([image], {image.id: replace(now, hidden=8 * MB)}, {})
    assert size.of_build(replace(build(image, stack=90), hidden=5)).hidden == 5


def test_a_ceiling_is_not_raised_without_a_word(project: Path) -> None:
    image = replace(image_of(project), ceiling_mb=150)
    before = {image.id: build(image, stack=90)}
    with pytest.raises(SizeError, match="ceilings were raised") as caught:
        size.refuse_unexplained([image], before)
    assert "its ceiling of 100 MB was raised to 150 (fix: say why under ceiling-reason)" in str(caught.value)
    size.refuse_unexplained([replace(image, ceiling_reason="pandas came along")], before)
    size.refuse_unexplained([replace(image, ceiling_mb=90)], before)


def test_nor_is_that_of_what_is_pulled(project: Path) -> None:
    image = replace(image_of(project), ceiling_mb=100, compressed_ceiling_mb=50)
    before = {image.id: replace(build(image, stack=90), compressed_ceiling_mb=40)}
    with pytest.raises(SizeError, match="its compressed ceiling of 40 MB was raised to 50") as caught:
        size.refuse_unexplained([image], before)
    assert len(caught.value.faults) == 1
    size.refuse_unexplained([replace(image, ceiling_reason="pandas came along")], before)
    # The first ceiling is not raised, but set.
    size.refuse_unexplained([image], {image.id: build(image, stack=90)})


def test_growth_is_measured_against_the_last_that_was_within(project: Path) -> None:
    image = image_of(project)
    within, over = build(image, stack=90), build(image, stack=110)
    pulled = replace(build(image, stack=95), compressed=31 * MB, compressed_ceiling_mb=30)
    assert size.last_within([within, over, pulled]) == {image.id: within}
    assert size.last_within([within, replace(pulled, compressed=30 * MB)])[image.id].size == 95 * MB


def test_equal_layers_count_once(project: Path) -> None:
    image = image_of(project)
    other = replace(build(image, base=50, more=10), image="other")
    found = size.sharing([build(image, base=50, stack=40), other])
    assert found.stages == {"base": (50 * MB, 2), "stack": (40 * MB, 1), "more": (10 * MB, 1)}
    assert (found.unique, found.total) == (100 * MB, 150 * MB)


def test_sizes_are_kept_on_record_in_their_order(tmp_path: Path, project: Path) -> None:
    records = Records(tmp_path)
    made = build(image_of(project), zebra=1, ant=2)
    records.add_build(made)
    assert records.builds() == [made]
