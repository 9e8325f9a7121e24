"""From buildspec/ to the matrix: cells, names, selectors, and the schema that editors read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import jsonschema
import pytest
import yaml

from slipway.errors import SpecError, UsageError
from slipway.spec import load, naming
from slipway.spec.cells import order
from slipway.spec.model import Image, Matrix
from slipway.spec.schema import json_schema
from slipway.spec.select import Selector, select

from .conftest import ROOT, SPEC, image_of

NEWEST = "small-training-1.2.0-cpu-py311"
OLDER = "small-training-1.1.0-cpu-py311"
EXCLUDED = f"{NEWEST}-arm64"


@pytest.fixture
def matrix(project: Path) -> Matrix:
    return load.load(project)


def ids(matrix: Matrix, *, excluded: bool = False, **axes: str) -> list[str]:
    return [image.id for image in select(matrix, Selector(**axes), excluded=excluded)]  # type: ignore[arg-type]


def refused(matrix: Matrix, **axes: object) -> str:
    with pytest.raises(UsageError) as caught:
        select(matrix, Selector(**axes))  # type: ignore[arg-type]
    return str(caught.value)


def test_cells_stand_in_theorder_of_the_file(matrix: Matrix) -> None:
    assert [image.id for image in matrix.images] == [NEWEST, EXCLUDED, OLDER]
    assert [image.id for image in matrix.buildable] == [NEWEST, OLDER]


def test_a_cell_knows_all_that_is_said_of_it(project: Path) -> None:
    image = image_of(project)
    assert image.packages == {"common": ("small==1.2.0", "numpy"), "training": ("boto3",)}
    assert image.toolkits == ("training",)
    assert image.wheel_index == "https://wheels.example/cpu"
    assert image.repository == "small-training"
    assert image.reference == "small-training:1.2.0-cpu-py311-debian12-dev"
    assert image.platform == "linux/amd64"
    first, last = image.lines[0]
    lines = SPEC.splitlines()
    assert lines[first - 1] == '  "1.2":'
    assert lines[last] == '  "1.1":'


def test_gpu_images_may_have_ceilings_of_their_own(project: Path, write: Callable[[str, str], Path]) -> None:
    processors = 'cpu: {}\n      gpu: {cuda: "13.0", cuda-architectures: [sm_80]}'
    text = SPEC.replace("cpu:\n        architectures: [amd64, arm64]", processors).split("excluded:")[0]

    def ceilings(said: str) -> set[tuple[str, int]]:
        scopes = "scopes: [training]"
        write("buildspec/small.yml", text.replace(scopes, f"{scopes}\n    ceiling-mb: {said}"))
        return {(image.processor, image.ceiling_mb) for image in load.load(project).images if image.ceiling_mb}

    assert ceilings("{training: 5}") == {("cpu", 5), ("gpu", 5)}
    assert ceilings("{training: 5, gpu-training: 9}") == {("cpu", 5), ("gpu", 9)}


def test_the_newest_cpu_cell_is_the_default(matrix: Matrix) -> None:
    assert [image.id for image in matrix.images if image.default] == [NEWEST]
    assert ids(matrix, framework="small") == [NEWEST]


@pytest.mark.parametrize(
    "rising",
    [("1.9.0", "1.10.0"), ("2.0.0rc1", "2.0.0"), ("2.0.0a1", "2.0.0"), ("1.9.9", "2.0.0rc1"), ("2.13", "2.13.1")],
)
def test_versions_areordered_as_numbers(rising: tuple[str, str]) -> None:
    assert order(rising[0]) < order(rising[1])


@pytest.mark.parametrize(
    ("axes", "found"),
    [
        ({"version": "1.1"}, [OLDER]),
        ({"version": "1.1.0"}, [OLDER]),
        ({"scope": "training"}, [NEWEST]),
        ({"python": "py311"}, [NEWEST]),
        ({"python": "3.11", "processor": "cpu"}, [NEWEST]),
        ({"only": OLDER}, [OLDER]),
        ({"everything": True}, [NEWEST, OLDER]),
    ],
)
def test_selectors_narrow(matrix: Matrix, axes: dict[str, str], found: list[str]) -> None:
    assert ids(matrix, **axes) == found


def test_another_architecture_is_taken_only_by_id_or_with_all(project: Path, write: Callable[[str, str], Path]) -> None:
    write("buildspec/small.yml", SPEC[: SPEC.index("excluded:")])
    matrix = load.load(project)
    assert ids(matrix, framework="small") == ids(matrix, version="1.2.0", processor="cpu") == [NEWEST]
    assert ids(matrix, only=EXCLUDED) == [EXCLUDED]
    assert [image.id for image in matrix.images if image.default] == [NEWEST]


def test_excluded_cells_are_kept_for_who_asks(matrix: Matrix) -> None:
    assert EXCLUDED in ids(matrix, everything=True, excluded=True)  # type: ignore[arg-type]
    assert ids(matrix, only=EXCLUDED, excluded=True) == [EXCLUDED]


def test_all_goes_with_what_narrows_it(matrix: Matrix) -> None:
    assert ids(matrix, everything=True, processor="cpu") == [NEWEST, OLDER]  # type: ignore[arg-type]
    assert ids(matrix, everything=True, version="1.1") == [OLDER]  # type: ignore[arg-type]


def test_unknown_values_are_answered_all_at_once_with_the_nearest(matrix: Matrix) -> None:
    told = refused(matrix, framework="smal", version="1.3", scope="trainin", processor="gpu", python="py312")
    assert "--framework smal: there is no such framework (fix: did you mean small?)" in told
    assert "--version 1.3: there is no such version" in told
    assert "--scope trainin: there is no such scope (fix: did you mean training?)" in told
    assert "--processor gpu: there is no such processor" in told
    assert "--python py312: there is no such python (fix: did you mean py311" in told


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({}, "no image was named"),
        ({"only": "small-training-1.2.0"}, f"did you mean {NEWEST}"),
        ({"only": EXCLUDED}, "is excluded: no machine of this architecture builds here"),
        ({"only": NEWEST, "scope": "training"}, "--only stands alone"),
        ({"everything": True, "only": NEWEST}, "--only stands alone"),
    ],
)
def test_what_means_nothing_is_refused(matrix: Matrix, axes: dict[str, object], told: str) -> None:
    assert told in refused(matrix, **axes)


def test_what_exists_but_not_together_is_told_apart(project: Path, write: Callable[[str, str], Path]) -> None:
    write("buildspec/other.yml", SPEC.replace("framework: small", "framework: other").replace('["3.11"]', '["3.12"]'))
    assert "no image has --framework small, --python 3.12 together" in refused(
        load.load(project), framework="small", python="3.12"
    )


def test_if_all_that_fit_are_excluded_the_reasons_are_told(project: Path, write: Callable[[str, str], Path]) -> None:
    rule = "excluded:\n  - version: 1.2.0\n    reason: its wheels are not out yet\n"
    write("buildspec/small.yml", SPEC.replace("excluded:\n", rule))
    told = refused(load.load(project), framework="small")
    assert "every image that fits is excluded" in told
    assert f"{NEWEST}: its wheels are not out yet" in told


def test_names_follow_the_grammar() -> None:
    assert naming.image_id("mx_net", "training", "2.1.0+cu130", "gpu", "3.12", "13.0", "arm64") == (
        "mx_net-training-2.1.0.cu130-gpu-py312-cu130-arm64"
    )
    assert naming.repository("mx_net", "training") == "mx-net-training"
    assert naming.tag("2.1.0", "gpu", "3.12", "13.0", "debian12", "amd64") == "2.1.0-gpu-py312-cu130-debian12"


@pytest.mark.parametrize(
    ("text", "fits"),
    [("1.0-cpu", True), ("_x", True), ("", False), ("-x", False), (".x", False), ("a+b", False), ("a" * 129, False)],
)
def test_a_tag_is_what_registries_take(text: str, fits: bool) -> None:
    assert naming.is_tag(text) is fits


def test_the_shipped_schema_is_that_of_the_models() -> None:
    shipped = json.loads((ROOT / "buildspec" / "schema.json").read_text())
    assert shipped == json_schema(), "refresh it: python -m slipway.spec.schema > buildspec/schema.json"


@pytest.mark.parametrize("path", sorted((ROOT / "buildspec").glob("*.yml")), ids=lambda path: path.name)
def test_every_shipped_file_fits_the_schema(path: Path) -> None:
    data = yaml.load(path.read_text(), _WithoutDates)
    jsonschema.Draft202012Validator(json_schema()).validate(data)
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=schema.json"


def test_the_schema_refuses_what_the_models_refuse() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    data = yaml.load(SPEC, _WithoutDates)
    assert validator.is_valid(data)
    assert not validator.is_valid({**data, "framwork": "x"})
    assert not validator.is_valid({**data, "stacks": {"1": {**data["stacks"]["1.2"], "os": "plan9"}}})
    assert not validator.is_valid({**data, "stacks": {}})


class _WithoutDates(yaml.SafeLoader):
    """Reads dates as text: JSON has none, and editors check what JSON would hold."""


_WithoutDates.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


# The images that the project is there for: `--framework huggingface` means its two.
MAIN = {
    (framework, scope, processor)
    for framework in ("pytorch", "tensorflow", "huggingface-pytorch", "huggingface-tensorflow", "mxnet")
    for scope in ("training", "inference")
    for processor in ("cpu", "gpu")
}
REASONS = (
    "no wheel for that (Python|CUDA)",
    "framework unsupported on that processor",
    "build machine lacks the architecture",
    "binary not redistributable",
)


def test_the_project_itself_loads() -> None:
    matrix = load.load(ROOT)
    assert len({image.id for image in matrix.images}) == len(matrix.images)

    def cells(images: Iterable[Image]) -> set[tuple[str, str, str]]:
        return {(image.framework, image.scope, image.processor) for image in images if image.architecture == "amd64"}

    assert cells(matrix.images) >= MAIN
    assert MAIN - cells(matrix.buildable) == {("mxnet", "training", "gpu"), ("mxnet", "inference", "gpu")}
    # What one asks for without a version is there for every framework.
    assert cells(image for image in matrix.images if image.default) >= {cell for cell in MAIN if cell[2] == "cpu"}


def test_the_project_leaves_images_out_for_four_reasons_alone() -> None:
    excluded = {image.id: image.excluded for image in load.load(ROOT).images if image.excluded}
    known = re.compile(rf"(stands on an excluded image: )?({'|'.join(REASONS)}): .+")
    assert excluded and {name: why for name, why in excluded.items() if not known.fullmatch(why)} == {}


def test_every_image_of_the_project_has_both_ceilings() -> None:
    images = load.load(ROOT).buildable
    assert [image.id for image in images if not 0 < image.compressed_ceiling_mb < image.ceiling_mb] == []
    serverless = [image for image in images if (image.scope, image.processor) == ("inference", "cpu")]
    assert serverless and max(image.ceiling_mb for image in serverless) <= 2_000


def test_sources_hold_what_decides_images(project: Path) -> None:
    cache = project / "toolkits" / "training" / "__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_bytes(b"")
    sources = load.read_sources(project)
    assert set(sources.toolkits["training"]) == {"pyproject.toml", "small_toolkit.py"}
    assert "small-1.2.0-cpu-py311/common" in sources.locks
    assert "training.Dockerfile.j2" in sources.templates


@pytest.mark.parametrize("name", ["dockerfiles/base.Dockerfile.j2", "buildspec/locks/tools.txt"])
def test_a_source_that_is_not_text_is_told(project: Path, name: str) -> None:
    (project / name).write_bytes(b"line\n\xff")
    with pytest.raises(SpecError, match=f"{name}:2: not UTF-8"):
        load.read_sources(project)
