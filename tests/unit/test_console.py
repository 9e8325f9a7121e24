"""The one printer: what goes where, for people, machines and CI systems."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from slipway.console import Console
from slipway.errors import Fault, SpecError

from .conftest import ROOT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console(**options: bool) -> Console:
    return Console(out=io.StringIO(), err=Terminal(), **options)


def texts(made: Console) -> tuple[str, str]:
    assert isinstance(made.out, io.StringIO) and isinstance(made.err, io.StringIO)
    return made.out.getvalue(), made.err.getvalue()


def test_people_read_answers_and_progress_apart() -> None:
    made = console()
    made.note("going")
    made.warn("odd")
    made.say("done")
    made.result({"kept": "back"})
    assert texts(made) == ("done\n", "going\nwarning: odd\n")


def test_machines_read_one_document() -> None:
    made = console(machine=True)
    made.say("words")
    made.table(("a",), [(1,)])
    made.result({"ü": 1})
    assert json.loads(texts(made)[0]) == {"ü": 1}


def test_an_error_is_the_answer_unless_one_was_given() -> None:
    error = SpecError("bad", fix="mend", faults=[Fault("x", "y", "f", 1)])
    made = console(machine=True)
    made.error(error)
    out, err = texts(made)
    assert json.loads(out) == {
        "error": {
            "code": 3,
            "kind": "SpecError",
            "message": "bad",
            "faults": [{"what": "x", "fix": "y", "file": "f", "line": 1}],
            "next": "mend",
        }
    }
    assert err == "error: bad\n  f:1: x (fix: y)\n  next: mend\n"
    late = console(machine=True)
    late.result([1])
    late.error(error)
    assert json.loads(texts(late)[0]) == [1]


def test_numbers_stand_at_the_right() -> None:
    made = console()
    made.table(("name", "MB"), [("a", 5), ("bcdef", 1234.56), (None, 0)], title="sizes")
    assert texts(made)[0] == "sizes\nname       MB\n-----  ------\na           5\nbcdef  1234.6\n-           0\n"
    empty = console()
    empty.table(("name",), [])
    assert texts(empty)[0] == "name\n----\n"


@pytest.mark.parametrize(
    ("options", "live"), [({}, True), ({"in_ci": True}, False), ({"machine": True}, False)], ids=str
)
def test_only_a_persons_terminal_is_redrawn(options: dict[str, bool], live: bool) -> None:
    assert console(**options).live is live
    assert not Console(err=io.StringIO()).live


def test_long_output_is_folded_also_when_it_fails() -> None:
    made = console(github=True)
    with pytest.raises(RuntimeError), made.fold("log"):
        made.note("line")
        raise RuntimeError
    assert texts(made)[1] == "::group::log\nline\n::endgroup::\n"
    plain = console()
    with plain.fold("log"):
        pass
    assert texts(plain)[1].startswith("--- log\n--- log: ")


def test_a_terminal_without_unicode_gets_question_marks() -> None:
    made = Console(out=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), err=io.StringIO())
    made.say("1 µs")
    made.say("next")
    made.out.seek(0)
    assert made.out.read() == "1 ? s\n".replace(" s", "s") + "next\n"


def test_a_reader_that_went_away_is_no_failure() -> None:
    script = (
        "from slipway.console import Console\nc = Console()\nfor _ in range(100000): c.say('x' * 100)\nc.note('end')"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == "end\n"
    assert child.wait(30) == 0
