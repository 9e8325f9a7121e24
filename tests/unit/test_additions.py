"""One more version: the entry that `invoke add` writes, from the newest stack's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slipway import additions, documents
from slipway.errors import UsageError
from slipway.spec import load

from .conftest import SPEC, image_of

FORM = SPEC.replace("[small==1.2.0, numpy]", "[small==1.2.0, helper==0.9.1, numpy]").replace(
    '  "1.2":\n', '  # The stable one.\n  "1.2":\n'
)


@pytest.fixture
def file(project: Path) -> documents.Document:
    path = project / "buildspec" / "small.yml"
    path.write_text(FORM)
    return documents.read(path, project)


def test_an_entry_has_the_form_of_the_newest(project: Path, file: documents.Document) -> None:
    added = additions.add(file, image_of(project), "1.3.4")
    assert (added.key, added.companions) == ("1.3", ("helper",))
    text = added.pinned({"helper": "0.10.0", "small": "9"})
    stacks = yaml.safe_load(text)["stacks"]
    assert list(stacks) == ["1.3", "1.2", "1.1"]
    assert stacks["1.3"]["packages"]["common"] == ["small==1.3.4", "helper==0.10.0", "numpy"]
    assert stacks["1.3"]["version"] == "1.3.4"
    assert stacks["1.2"] == yaml.safe_load(FORM)["stacks"]["1.2"], "what was there stays as it is"
    assert text.count("# The stable one.") == 1
    assert text.index("# The stable one.") > text.index('"1.3"'), "a comment stays with its own stack"
    images = load.load(project, instead={"buildspec/small.yml": text}).images
    assert {image.version for image in images if image.newest} == {"1.3.4"}


def test_a_minor_that_is_there_is_told(project: Path, file: documents.Document) -> None:
    with pytest.raises(UsageError, match=r"buildspec/small\.yml has a stack '1\.1' already") as caught:
        additions.add(file, image_of(project), "1.1.9")
    assert "invoke lock --framework small --version 1.1.9" in caught.value.fix
