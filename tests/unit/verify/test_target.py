"""What is verified: by ID or by reference, the very image that was meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from slipway.engine.docker import Engine
from slipway.errors import NotFoundError
from slipway.records import Build, Records
from slipway.verify import target

BUILD = Build(
    image="pytorch-training-2.13.0-cpu-py311",
    framework="pytorch",
    version="2.13.0",
    scope="training",
    processor="cpu",
    python="3.11",
    repository="pytorch-training",
    tag="2.13.0-cpu-py311-debian12",
    reference="pytorch-training:2.13.0-cpu-py311-debian12-dev",
    config_digest="sha256:" + "c" * 64,
    engine_id="sha256:" + "e" * 64,
    input_hash="i",
    size=1,
    revision="r",
    created="2026-11-01T00:00:00Z",
    base="b",
    lock_hash="l",
    built_at="2026-11-01T00:00:00Z",
    seconds=1.0,
)


class FakeEngine:
    """Has images by reference: (ID, labels)."""

    def __init__(self, **images: tuple[str, dict[str, str]]) -> None:
        self.images = images

    def image(self, reference: str) -> dict[str, Any]:
        for name, (id, labels) in self.images.items():
            if reference in (name, id):
                return {"Id": id, "Config": {"Labels": labels}}
        raise NotFoundError(f"the engine has no image {reference}")

    def info(self) -> dict[str, Any]:
        return {"DriverStatus": []}


def engine(**images: tuple[str, dict[str, str]]) -> Engine:
    return cast(Engine, FakeEngine(**images))


@pytest.mark.parametrize(
    ("facts", "scope", "kind"),
    [
        (["framework.tensorflow.2-21-0"], "inference", "tensorflow-inference"),
        (["framework.tensorflow.2-21-0"], "training", "training"),
        (["framework.tensorflow.2-15-1", "lib.transformers.4-57-6"], "inference", "inference"),
        (["framework.huggingface-tensorflow.2-15-1", "framework.tensorflow.2-15-1"], "inference", "inference"),
        ([], "inference", "inference"),
    ],
)
def test_the_contract_is_that_of_what_serves(facts: list[str], scope: str, kind: str, tmp_path: Path) -> None:
    dlc = "com.amazonaws.ml.engines.sagemaker.dlc"
    labels = {f"{dlc}.{fact}": "true" for fact in [*facts, f"job.{scope}"]}
    own = replace(BUILD, framework="team", scope=scope)  # on a stack of the framework that the label names
    assert target.of_build(own, engine(mine=(own.engine_id, labels))).kind == kind
    other = "sha256:" + "1" * 64
    assert target.of_reference("theirs", engine(theirs=(other, labels)), Records(tmp_path)).kind == kind


def test_a_build_is_run_by_the_engines_id_because_its_tag_moves() -> None:
    found = target.of_build(BUILD, engine(mine=(BUILD.engine_id, {})))
    assert (found.engine_id, found.config_digest, found.kind) == (BUILD.engine_id, BUILD.config_digest, "training")
    assert (found.image, found.reference) == (BUILD.image, BUILD.reference)


def test_a_build_that_the_engine_lost_is_to_be_built_again() -> None:
    with pytest.raises(NotFoundError, match=f"invoke build --only {BUILD.image}"):
        target.of_build(BUILD, engine())


def test_a_reference_of_an_own_build_is_that_build(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add_build(BUILD)
    found = target.of_reference("mine", engine(mine=(BUILD.engine_id, {})), records)
    assert found.image == BUILD.image and found.config_digest == BUILD.config_digest


def test_a_foreign_image_is_known_by_its_reference(tmp_path: Path) -> None:
    id = "sha256:" + "f" * 64
    labels = {"com.amazonaws.ml.engines.sagemaker.dlc.job.inference": "true"}
    found = target.of_reference("theirs", engine(theirs=(id, labels)), Records(tmp_path))
    assert (found.image, found.config_digest, found.kind) == ("theirs", id, "inference")
    plain = target.of_reference("theirs", engine(theirs=(id, {})), Records(tmp_path))
    assert plain.kind == "training"


def test_an_image_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        target.of_reference("nothing", engine(), Records(tmp_path))
