"""Regular expressions of metric definitions, kept to what Java and Python share.

The service does not document the dialect that it searches with, so a definition must mean the same in both. Sources:
the documentation of Python's `re` and of Java's `java.util.regex.Pattern`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 500

_TOKEN = re.compile(
    r"""(?P<escape>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[0-9]{1,3}|.))
      | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<group>\((?:\?(?:P[<=>]|<[=!]|[=!:>\#(]|<|[a-zA-Z-]*[:)])?)?)
      | (?P<close>\))
      | (?P<either>\|)
      | (?P<repeat>(?:[*+?]|\{[0-9]*(?:,[0-9]*)?\})[?+]?)
      | (?P<other>[.^$])
      | (?P<literal>.)""",
    re.VERBOSE | re.DOTALL,
)
_CONTROL = {"t": "\t", "f": "\f", "a": "\a"}


@dataclass(frozen=True)
class Objection:
    """Why a pattern cannot be a metric's, and what to write instead."""

    what: str
    fix: str


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def objections(pattern: str) -> list[Objection]:
    """Everything that is wrong with a pattern."""
    if len(pattern) > LONGEST:
        return [Objection(f"the regex has {len(pattern)} characters", f"SageMaker takes {LONGEST} at most")]
    found = list(_dialect(pattern))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of nested sets, which are objected to by name
            groups = re.compile(pattern, re.ASCII).groups
    except (re.error, OverflowError, RecursionError) as error:
        at = getattr(error, "pos", None)
        place = f" at character {at + 1}" if at is not None else ""
        what = f"the regex does not compile: {getattr(error, 'msg', error)}{place}"
        return found or [Objection(what, r"escape with \ what is meant literally")]
    if groups == 0:
        found.append(Objection("the regex has no group, so there is no number to read", "put ( ) around the number"))
    elif groups > 1:
        found.append(Objection(f"the regex has {groups} groups; only the first is read", "write (?:…) for the others"))
    return found


def literal(pattern: str) -> str:
    """The longest text that every match must hold; empty when there is none to be sure of.

    A cheap search for it in a block of lines tells which lines need the regex.
    """
    best = run = ""
    depth = 0
    for token in _tokens(pattern):
        if token.kind == "either" and depth == 0:
            return ""
        if token.kind == "group":
            if re.fullmatch(r"\(\?[a-zA-Z]*i[a-zA-Z]*\)", token.text):
                return ""
            depth += not (token.text.endswith(")"))
        depth -= token.kind == "close"
        text = _text(token) if depth == 0 else ""
        if token.kind == "repeat" and run:
            # What may be left out is no part of it; what is repeated ends it.
            best, run = max(best, run if token.text[0] == "+" else run[:-1], key=len), ""
        elif text:
            run += text
        else:
            best, run = max(best, run, key=len), ""
    return max(best, run, key=len)


def _tokens(pattern: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(pattern):
        assert found.lastgroup is not None
        yield _Token(found.lastgroup, found[0])


def _text(token: _Token) -> str:
    """The one character that a token stands for; empty when it may be another."""
    if token.kind == "literal":
        return token.text
    if token.kind == "escape":
        code = token.text[1:]
        if not code.isalnum():
            return code
        return _CONTROL.get(code, "")
    return ""


def _dialect(pattern: str) -> Iterator[Objection]:
    """What one of the two languages lacks or reads differently."""
    for token in _tokens(pattern):
        text = token.text
        if token.kind == "group":
            yield from _group(text)
        elif token.kind == "class":
            yield from _class(text)
        elif token.kind == "escape":
            yield from _escape(text)
        elif token.kind == "repeat":
            if text.startswith(("{,", "{}")):
                yield Objection(f"{text} is a repeat in Python alone", "write {0,N}, or \\{ for a brace")
            elif len(text) > 1 and text.endswith("+"):
                yield Objection(f"the possessive repeat {text} is not in every Python", f"write {text[:-1]}")
        elif text == "{":
            yield Objection("a brace that Java takes for the begin of a repeat", r"write \{")


def _group(text: str) -> Iterator[Objection]:
    if text.startswith("(?P") or text == "(?<":
        yield Objection("a named group, which Java and Python write differently", "write a plain group ( )")
    elif text == "(?#":
        yield Objection("a comment (?#…), which Java does not have", "remove it")
    elif text == "(?(":
        yield Objection("a conditional (?(…)…), which Java does not have", "write two definitions")
    elif text == "(?>":
        yield Objection("an atomic group (?>…), which is not in every Python", "write (?:…)")
    elif re.search(r"\?.*[^ims:)?-]", text) and text[2:3] not in "=!<":
        yield Objection(f"the flags {text}, which differ between Java and Python", "only i, m and s are common")


def _class(text: str) -> Iterator[Objection]:
    inside = re.sub(r"\\.", "", text[1:-1].removeprefix("^"))
    if "[" in inside or "&&" in inside:
        yield Objection(f"{text}: Java reads [ and && in a set as a set within it", r"escape them with \ ")
    if inside.startswith("]"):
        yield Objection(f"{text}: a set that begins with ]", r"write \]")
    if re.search(r"(?<!\\)(?:\\\\)*\\b", text):
        yield Objection(rf"{text}: \b in a set is a backspace in Python and an error in Java", r"write \x08")


def _escape(text: str) -> Iterator[Objection]:
    if text[1] == "0":
        yield Objection(f"{text}: Java and Python write octal numbers differently", r"write \xHH")
    elif text[1] in "NU":
        yield Objection(f"{text}…, which Java and Python read differently", r"write the character, or \uHHHH")
    elif text[1] == "v":
        yield Objection(r"\v is one character in Python and a set in Java", r"write \x0b")
    elif text[1] in "pPhHRXGQEKkecz":
        yield Objection(f"{text}, which Python does not have", "write a set such as [A-Za-z]")
