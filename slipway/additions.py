"""One more version of a framework: its newest stack's entry once more, with another version in it. Texts alone.

What the stack pins beside the framework (torchvision==0.29.1) belongs to one version of it: those pins are dropped,
and set again to what the locks resolve to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.documents import Document
from slipway.errors import UsageError
from slipway.spec.model import Image

_PIN = re.compile(r"\b([a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,-]+\])?)==([0-9][\w.+]*)")


@dataclass(frozen=True)
class Addition:
    """A new stack's entry, not yet pinned beside the framework, and the text of the file around it."""

    key: str
    before: str
    entry: str
    after: str
    companions: tuple[str, ...]  # what was pinned beside the framework

    @property
    def text(self) -> str:
        return self.before + self.entry + self.after

    def pinned(self, versions: Mapping[str, str]) -> str:
        """The file's text with the companions pinned to these versions."""
        entry = self.entry
        for name in self.companions:
            if name in versions:
                entry = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.=\[-])", f"{name}=={versions[name]}", entry)
        return self.before + entry + self.after


def add(document: Document, model: Image, version: str) -> Addition:
    """The addition of a version to the file of `model`, whose stack is taken for its form.

    Raises UsageError when the file has that version already.
    """
    old = model.library_version or model.version
    key = ".".join(version.split(".")[:2])
    span = document.span(("stacks", model.stack))
    if document.line(("stacks", key)) is not None and document.span(("stacks", key)) is not None:
        raise UsageError(
            f"{model.file} has a stack {key!r} already",
            fix=f"change its version there, then run `invoke lock --framework {model.framework} --version {version}`",
        )
    assert span is not None  # the image came from there
    lines = document.text.splitlines(keepends=True)
    entry = "".join(lines[span[0] - 1 : span[1]])
    entry = re.sub(r'^(\s*)("?)[^"\n]+?\2:', lambda match: f'{match[1]}"{key}":', entry, count=1)
    entry = re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", version, entry)
    entry = re.sub(r"^\s*supported-until:.*\n", "", entry, flags=re.MULTILINE)
    companions = tuple(match[1] for match in _PIN.finditer(entry) if match[2] != version)
    for name in companions:
        entry = re.sub(rf"(?<![\w.-]){re.escape(name)}==[\w.+]+", name, entry)
    head = "".join(lines[: span[0] - 1])
    # What stands right above the model is its own comment.
    own = re.search(r"((?:^[ \t]+#.*\n)*)\Z", head, re.MULTILINE)
    cut = len(head) - len(own[1]) if own else len(head)
    return Addition(key, head[:cut], entry, head[cut:] + "".join(lines[span[0] - 1 :]), companions)
