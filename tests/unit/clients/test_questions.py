"""The questionnaire, without a terminal."""

from __future__ import annotations

import pytest

from slipway.clients import questions
from slipway.errors import UsageError


def asked(answers: dict[str, str], known: dict[str, object] | None = None) -> tuple[dict[str, object], list[str]]:
    """What comes of answers (by a word of the question), and what was said meanwhile."""
    said: list[str] = []

    def reply(prompt: str) -> str:
        said.append(prompt)
        assert len(said) < 50, said[-1]
        return next((answer for word, answer in answers.items() if word in prompt), "")

    return questions.ask(reply, said.append, known or {}), said


def test_answers_become_keys() -> None:
    values, said = asked(
        {"role": "Trainer", "image (": "Host/Mine:Tag", "distributed training": "DATA_PARALLEL", "number": "2"}
    )
    assert values["iam_role_name"] == "Trainer"
    assert values["image_uri"] == "Host/Mine:Tag"
    assert (values["distributed_type"], values["num_machines"]) == ("DATA_PARALLEL", 2)
    assert (values["mixed_precision"], values["region"]) == ("no", "us-east-1")
    assert "pytorch_version" not in values
    assert not any("PyTorch version" in prompt for prompt in said)
    assert questions.config(values).num_machines == 2


def test_versions_are_asked_for_where_the_image_is_looked_up() -> None:
    values, _ = asked({"role": "X", "PyTorch": "2.13"})
    assert values["pytorch_version"] == "2.13"
    assert "num_machines" not in values


def test_what_is_known_is_not_asked() -> None:
    _, said = asked({}, {"iam_role_name": "X", "region": "eu-west-1"})
    assert not any("role" in prompt or "region" in prompt for prompt in said)


def test_a_wrong_answer_is_asked_for_again() -> None:
    replies = iter(["two", "0", "2"])
    said: list[str] = []
    known = {question.key: "" for question in questions.QUESTIONS if question.key not in ("num_machines",)}
    known |= {"distributed_type": "DATA_PARALLEL"}
    values = questions.ask(lambda prompt: next(replies), said.append, known)
    assert values["num_machines"] == 2
    assert len(said) == 2


def test_a_required_answer_is_insisted_on() -> None:
    replies = iter(["", "X"])
    known = {question.key: "" for question in questions.QUESTIONS if question.key != "iam_role_name"}
    said: list[str] = []
    assert questions.ask(lambda prompt: next(replies), said.append, known)["iam_role_name"] == "X"
    assert "iam_role_name is needed" in said[0]


def test_answers_that_end_early() -> None:
    with pytest.raises(UsageError, match="no answer for profile"):
        questions.ask(lambda prompt: None, lambda text: None, {})
