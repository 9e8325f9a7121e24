"""What each image is rendered to, kept file by file, so that a change of a template shows what it does to every image.

Left out: what stands elsewhere in the project as it is, such as the toolkits' sources and the locks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slipway import base, plan, render
from slipway.spec import load
from slipway.spec.model import Image

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CELLS = load.load(ROOT).buildable
STABLE = {"revision": "0" * 40, "created": "2026-01-01T00:00:00+00:00"}  # a commit must not change these files
AS_THEY_ARE = ("/lock.txt", ".keep", "empty/nothing", "/files/licences.py")
REFRESH = "see what changed with `pytest tests/golden --refresh` and `git diff tests/golden`"


def files(image: Image) -> dict[str, str]:
    sources, below = load.read_sources(ROOT), base.of(image.os)
    made = plan.plan([image], sources, {image.os: below})
    held = render.toolkits_of(image.toolkits, sources)
    rendered = render.render(made, sources, {image.id: render.labels(image, base=below, held=held, **STABLE)})
    return {
        path: content.decode()
        for path, content in rendered.files.items()
        if not path.startswith("toolkits/") and not path.endswith(AS_THEY_ARE)
    }


@pytest.mark.parametrize("image", CELLS, ids=lambda image: image.id)
def test_an_image_is_rendered_as_before(image: Image, request: pytest.FixtureRequest) -> None:
    folder, found = HERE / image.id, files(image)
    if request.config.getoption("--refresh"):
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in found.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    kept = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert sorted(found) == sorted(kept), REFRESH
    for path, text in found.items():
        assert text == kept[path], f"{path}: {REFRESH}"


def test_no_rendering_outlives_its_image() -> None:
    kept = {path.name for path in HERE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert kept == {image.id for image in CELLS}, "remove the folders of images that are gone"
