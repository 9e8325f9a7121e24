"""Contract files: what is wrong with them is said all at once; what is chosen brings along what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.errors import SpecError, UsageError
from slipway.verify import contract

HEAD = "kind: training\ngroups: {a: first, b: second}\nchecks:\n"


def check(id: str, needs: str = "", extra: str = "") -> str:
    lines = [
        f"  - id: {id}",
        "    reason: r",
        "    source: s",
        "    fix: f",
        *([f"    needs: [{needs}]"] if needs else []),
    ]
    return "\n".join([*lines, *([extra] if extra else []), ""])


def project(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "tests/contract"
    folder.mkdir(parents=True)
    (folder / "training.yml").write_text(text)
    return tmp_path


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        contract.load(project(tmp_path, text), "training")
    return [str(fault) for fault in caught.value.faults]


def test_a_contract_is_read_in_its_order(tmp_path: Path) -> None:
    found = contract.load(project(tmp_path, HEAD + check("a.one") + check("b.two-more", "a.one")), "training")
    assert [(one.id, one.function, one.group, one.needs, one.severity) for one in found.checks] == [
        ("a.one", "test_a_one", "a", (), "error"),
        ("b.two-more", "test_b_two_more", "b", ("a.one",), "error"),
    ]


def test_what_is_chosen_brings_what_it_needs(tmp_path: Path) -> None:
    text = HEAD + check("a.one") + check("a.two", "a.one") + check("b.three", "a.two") + check("b.four")
    found = contract.load(project(tmp_path, text), "training")

    def chosen(*names: str) -> list[str]:
        return [one.id for one in found.choose(names)]

    assert chosen("b.three") == ["a.one", "a.two", "b.three"]
    assert chosen("b") == ["a.one", "a.two", "b.three", "b.four"]
    assert chosen("a.one") == ["a.one"]
    assert chosen() == ["a.one", "a.two", "b.three", "b.four"]


def test_unknown_checks_are_answered_all_at_once(tmp_path: Path) -> None:
    found = contract.load(project(tmp_path, HEAD + check("a.one") + check("b.two")), "training")
    with pytest.raises(UsageError) as caught:
        found.choose(["a.on", "b.tow"])
    assert "a.one" in str(caught.value) and "b.two" in str(caught.value)


def test_a_kind_without_contract_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean training"):
        contract.load(project(tmp_path, HEAD + check("a.one") + check("b.two")), "trainings")


def test_every_fault_is_named_with_its_line(tmp_path: Path) -> None:
    text = HEAD + check("a.one", "a.two") + check("a.two", "a.three") + check("a.two") + check("c.x")
    found = faults(tmp_path, text)
    assert found == [
        "tests/contract/training.yml:8: a.one needs a.two, which comes later (fix: move it up)",
        "tests/contract/training.yml:13: a.two needs a.three, which does not exist (fix: did you mean a.one?)",
        "tests/contract/training.yml:14: a.two is declared twice (fix: rename one)",
        "tests/contract/training.yml:18: c.x: there is no group 'c' (fix: known: a, b)",
        "tests/contract/training.yml:2: group b has no check (fix: remove it)",
    ]


def test_ids_that_name_the_same_function_are_a_fault(tmp_path: Path) -> None:
    assert "declared twice" in faults(tmp_path, HEAD + check("a.one-b") + check("a.one-b") + check("b.c"))[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + check("a.one", extra="    severty: error") + check("b.two"), "did you mean severity?"),
        (HEAD + check("a.one", extra="    severity: fatal") + check("b.two"), "known: error, policy"),
        (HEAD + check("Upper.one") + check("b.two"), "should match pattern"),
        (HEAD + "  - id: a.one\n    reason: r\n    source: s\n" + check("b.two"), "add `fix:`"),
        ("kind: training\ngroups: {}\nchecks: []\n", "at least 1 item"),
        (HEAD.replace("training", "inference") + check("a.one") + check("b.two"), "the file's name says training"),
    ],
)
def test_a_wrong_form_is_a_fault(tmp_path: Path, text: str, said: str) -> None:
    assert any(said in fault for fault in faults(tmp_path, text))


def test_a_contract_extends_another(tmp_path: Path) -> None:
    root = project(tmp_path, "kind: training\nextends: image\ngroups: {b: second}\nchecks:\n" + check("b.two", "a.one"))
    image = "kind: image\ngroups: {a: first}\nchecks:\n" + check("a.one")
    (root / "tests/contract/image.yml").write_text(image)
    found = contract.load(root, "training")
    assert [one.id for one in found.checks] == ["a.one", "b.two"]
    assert [one.id for one in found.own] == ["b.two"]
    assert found.groups == {"a": "first", "b": "second"} and found.extends == "image"
    (root / "tests/contract/image.yml").write_text(image.replace("kind: image", "kind: image\nextends: training"))
    with pytest.raises(SpecError, match="stands on itself"):
        contract.load(root, "training")


def test_a_contract_that_extends_nothing_known(tmp_path: Path) -> None:
    text = "kind: training\nextends: trainin\ngroups: {a: first}\nchecks:\n" + check("a.one")
    (fault,) = faults(tmp_path, text)
    assert fault.startswith("tests/contract/training.yml:2: there is no contract 'trainin'") and "training" in fault
