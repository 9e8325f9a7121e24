"""YAML files checked against a pydantic model, with every fault named by file and line.

Used for buildspec/ and release.yml. A key that is given twice or is unknown is a fault, with the nearest known name.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from slipway.errors import Fault, SpecError, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel

Place = tuple[str | int, ...]
Model = TypeVar("Model", bound="BaseModel")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 40  # levels; no file of ours needs ten
# What pydantic says, where a person who writes YAML would ask what it means.
_PLAIN = {
    "model_type": "must be a mapping | write lines of the form `key: value` below it",
    "dict_type": "must be a mapping | write lines of the form `key: value` below it",
    "list_type": "must be a list | write it as [one, other]",
    "string_type": "must be text | write it in quotes",
}


class Document:
    """A parsed YAML file: its data, and the line on which each key or list item stands."""

    def __init__(self, name: str, text: str) -> None:
        """Parse `text`; `name` is the path to show in faults. Raises SpecError when it is not YAML or repeats a key."""
        self.name = name
        self.text = text
        self._lines: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._faults: list[Fault] = []
        self._seen: set[int] = set()
        self._scalars = yaml.constructor.SafeConstructor()
        try:
            node = yaml.compose(text, Loader=_LOADER)
        except yaml.YAMLError as error:
            raise SpecError(f"{name} is not valid YAML", faults=[self._syntax(error)]) from None
        self._lines[()] = node.start_mark.line + 1 if node is not None else 1
        self.data: Any = self._build(node, ()) if node is not None else {}
        if self._faults:
            raise SpecError(f"{name} has faults", faults=self._faults)

    def line(self, place: Place) -> int | None:
        """Line of a key or item; of its nearest parent when it stands nowhere itself."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place)

    def span(self, place: Place) -> tuple[int, int] | None:
        """First and last line of a key with its value."""
        if place not in self._lines:
            return None
        return self._lines[place], self._ends[place]

    def fault(self, place: Place, what: str, fix: str = "") -> Fault:
        return Fault(what, fix, self.name, self.line(place))

    def validate(self, model: type[Model]) -> tuple[Model | None, list[Fault]]:
        """The data as `model`, or None with every fault found."""
        from pydantic import ValidationError

        try:
            return model.model_validate(self.data), []
        except ValidationError as error:
            return None, [self._translate(item, model) for item in error.errors(include_url=False)]

    def _syntax(self, error: yaml.YAMLError) -> Fault:
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            lines = self.text.splitlines()
            line = max(1, min(mark.line + 1, len(lines)))  # what is not closed is missed after the last line
            fix = "indent with spaces: YAML allows no tabs there" if lines and "\t" in lines[line - 1] else ""
            return Fault(getattr(error, "problem", None) or "not YAML", fix, self.name, line)
        # A character that YAML does not allow: the reader knows its position alone.
        line = self.text.count("\n", 0, getattr(error, "position", 0)) + 1
        return Fault(getattr(error, "reason", "not YAML"), "remove the character", self.name, line)

    def _build(self, node: yaml.Node, place: Place) -> Any:
        if id(node) in self._seen:
            self._faults.append(self.fault(place, "an alias (`*name`) is not read here", "write the value out"))
            return None
        self._seen.add(id(node))
        if len(place) > _DEEPEST:
            self._faults.append(self.fault(place, "this is nested too deeply", "see the file's JSON schema"))
            return None
        if isinstance(node, yaml.MappingNode):
            found: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                line = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    self._faults.append(Fault("a key must be text", "write it as `key: value`", self.name, line))
                    continue
                key = key_node.value
                here = (*place, key)
                if key in found:
                    first = f"first on line {self._lines[here]}; keep one"
                    self._faults.append(Fault(f"{key!r} is given twice", first, self.name, line))
                    continue
                self._mark(here, key_node, value_node)
                found[key] = self._build(value_node, here)
            return found
        if isinstance(node, yaml.SequenceNode):
            items = []
            for at, item in enumerate(node.value):
                self._mark((*place, at), item, item)
                items.append(self._build(item, (*place, at)))
            return items
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:  # an unknown tag; the 31st of a month that has 30 days
            problem = getattr(error, "problem", None) or str(error)
            self._faults.append(self.fault(place, f"{node.value!r} cannot be read: {problem}", "put it in quotes"))
            return None

    def _mark(self, place: Place, start: yaml.Node, end: yaml.Node) -> None:
        self._lines[place] = start.start_mark.line + 1
        self._ends[place] = max(self._lines[place], _last_line(end))

    def _translate(self, item: Any, model: type[BaseModel]) -> Fault:
        kind = item["type"]
        place = tuple(part for part in item["loc"] if not _is_branch(part, self.data, item["loc"]))
        dotted = ".".join(str(part) for part in place) or "the file"
        if kind == "extra_forbidden":
            known = _known_keys(model, item["loc"][:-1])
            fix = nearest(str(place[-1]), known) if known else "remove it"
            return self.fault(place, f"unknown key {place[-1]!r}", fix)
        if kind == "missing":
            return self.fault(place[:-1], f"{dotted} is missing", f"add `{place[-1]}:`")
        if kind == "literal_error":
            known = re.findall(r"'([^']*)'", item["ctx"]["expected"])
            return self.fault(place, f"{dotted}: {item['input']!r} is not known", nearest(str(item["input"]), known))
        message = _PLAIN.get(kind) or str(item["msg"]).removeprefix("Value error, ")
        what, _, fix = message.partition(" | ")
        given = item.get("input")
        shown = "" if isinstance(given, (dict, list)) or kind == "value_error" else f" (given: {given!r})"
        return self.fault(place, f"{dotted}: {what[0].lower() + what[1:]}{shown}", fix)


def read(path: Path, project: Path) -> Document:
    """Read a YAML file of the project. Raises SpecError when it is missing or cannot be parsed."""
    shown = name(path, project)
    return Document(shown, read_text(path, shown))


def name(path: Path, project: Path) -> str:
    """How a file is called in faults: by its path in the project, else by its whole path."""
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def read_text(path: Path, name: str) -> str:
    """A file's text, without a byte order mark. Raises SpecError under `name` when it cannot be read as UTF-8."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SpecError(f"{name} does not exist", fix="check the name, or write the file") from None
    except OSError as error:
        raise SpecError(f"{name} cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = Fault(f"not UTF-8 text (byte {error.start + 1} of the file)", "save it as UTF-8", name, line)
        raise SpecError(f"{name} cannot be read", faults=[fault]) from None


def _last_line(node: yaml.Node) -> int:
    """The last line that a value stands on. The end mark of a block stands at the start of what follows it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    mark = node.end_mark
    block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return int(mark.line if block or not mark.column else mark.line + 1)


def _is_branch(part: str | int, data: Any, loc: tuple[str | int, ...]) -> bool:
    """Pydantic puts the name of a union's branch, or `[key]`, into the location; a file has no such key."""
    if isinstance(part, int):
        return False
    current = data
    for step in loc[: loc.index(part)]:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            current = current[step]
    if isinstance(current, dict) and part in current:
        return False
    return part == "[key]" or (part[:1].isupper() and isinstance(current, dict))


def _known_keys(model: Any, path: tuple[str | int, ...]) -> list[str]:
    """The keys that the model at `path` knows; empty when it cannot be told."""
    from typing import get_args

    from pydantic import BaseModel

    def keys(kind: Any) -> list[str]:
        return [field.alias or name for name, field in kind.model_fields.items()]

    def models(kind: Any) -> list[Any]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return [kind]
        return [found for part in get_args(kind) for found in models(part)]

    current: list[Any] = [model]
    for step in path:
        following: list[Any] = []
        for kind in current:
            for name, field in kind.model_fields.items():
                if step in (name, field.alias):
                    following.extend(models(field.annotation))
        # A mapping's key or a list's index leads into the same models.
        current = following or current
    return [key for kind in current for key in keys(kind)]
