"""CI jobs: every image once, by options that mean exactly its images."""

from __future__ import annotations

import re
import shlex

import pytest

from slipway.spec import load
from slipway.spec.select import Selector, select
from slipway.supply import jobs
from tests.unit.conftest import ROOT


def meant(options: str) -> Selector:
    words = shlex.split(options)
    return Selector(**{key.removeprefix("--"): value for key, value in zip(words[::2], words[1::2], strict=True)})


@pytest.mark.parametrize(
    "selector",
    [Selector(everything=True), Selector(framework="pytorch"), Selector(only="mxnet-training-1.9.1-cpu-py311")],
)
def test_every_image_is_in_one_job_whose_options_mean_its_images(selector: Selector) -> None:
    matrix = load.load(ROOT)
    wanted = [image.id for image in select(matrix, selector)]
    found = jobs.of(matrix, select(matrix, selector))
    assert sorted(image for job in found for image in job.images) == sorted(wanted)
    for job in found:
        assert sorted(image.id for image in select(matrix, meant(job.select))) == sorted(job.images)
        assert re.fullmatch(r"[\w.= -]+", job.select), "a shell may split it and do nothing else with it"
    assert len({job.name for job in found}) == len(found)


def test_the_images_of_a_stack_are_built_together_and_part_of_one_is_not() -> None:
    matrix = load.load(ROOT)
    (both,) = jobs.of(matrix, select(matrix, Selector(framework="pytorch")))
    assert len(both.images) == 2
    one = select(matrix, Selector(only=both.images[0]))
    assert [job.select for job in jobs.of(matrix, one)] == [f"--only {both.images[0]}"]
