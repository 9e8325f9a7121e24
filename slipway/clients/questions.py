"""The questionnaire for a configuration: accelerate's questions, with what it leaves out.

It knows neither terminal nor file: `reply` gets a prompt and gives the answer as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.clients import accelerate
from slipway.clients.accelerate import Config
from slipway.errors import InputError, UsageError

Reply = Callable[[str], "str | None"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """One question, about one key. `when`: only if the answers so far make it one. `suggested` stands for no answer."""

    key: str
    text: str
    suggested: str = ""
    when: Callable[[Mapping[str, Any]], bool] = lambda answers: True


def _parallel(answers: Mapping[str, Any]) -> bool:
    return answers.get("distributed_type") == "DATA_PARALLEL"


def _looked_up(answers: Mapping[str, Any]) -> bool:
    return not answers.get("image_uri")


QUESTIONS: tuple[Question, ...] = (
    Question("profile", "AWS profile (empty: the credentials that the AWS tools find)"),
    Question("region", "AWS region", "us-east-1"),
    Question("iam_role_name", "execution role of the job: a name or an ARN"),
    Question("image_uri", "image (empty: at launch the newest that fits)"),
    Question("pytorch_version", "PyTorch version of that image (empty: any)", "", _looked_up),
    Question("transformers_version", "transformers version of that image (empty: any)", "", _looked_up),
    Question("py_version", "Python of that image, such as py311 (empty: any)", "", _looked_up),
    Question("sagemaker_inputs_file", "TSV file of input channels: channel_name, data_location (empty: none)"),
    Question("sagemaker_metrics_file", "TSV file of metrics: metric_name, metric_regex (empty: none)"),
    Question("distributed_type", "distributed training", "NO"),
    Question("ec2_instance_type", "instance type, or local / local_gpu for this machine", "ml.m5.xlarge"),
    Question("num_machines", "number of instances", "1", _parallel),
    Question("mixed_precision", "mixed precision", "no"),
    Question("base_job_name", "begin of the jobs' names", "accelerate-sagemaker-1"),
    Question("debug", "check distributed operations for errors (does not reach the job)", "no", _parallel),
    Question("dynamo_config", "torch dynamo, as JSON (does not reach the job; empty: none)"),
    Question("additional_args", 'more arguments of the estimator, as JSON, such as {"max_run": 3600} (empty: none)'),
)


def ask(reply: Reply, say: Say, known: Mapping[str, Any]) -> dict[str, Any]:
    """Ask what is not known yet; a wrong answer is asked for again. Raises UsageError when the answers end."""
    answers = dict(known)
    for question in QUESTIONS:
        if question.key not in answers and question.when(answers):
            value = _answer(question, reply, say)
            if value is not None:
                answers[question.key] = value
    return answers


def config(answers: Mapping[str, Any]) -> Config:
    """The configuration that answers make; `given` are those that were answered."""
    return Config(**answers, given=frozenset(answers))


def _answer(question: Question, reply: Reply, say: Say) -> Any:
    key = accelerate.BY_NAME[question.key]
    choices = f" ({' | '.join(key.choices)})" if key.choices else ""
    suggested = f" [{question.suggested}]" if question.suggested else ""
    while True:
        given = reply(f"{question.text}{choices}{suggested}: ")
        if given is None:
            raise UsageError(f"no answer for {question.key}", fix="give it as a flag, or all in a file with --answers")
        try:
            value = accelerate.from_text(question.key, given or question.suggested)
        except InputError as error:
            say(f"  {error.message} ({error.fix})")
            continue
        if value is None and key.required:
            say(f"  {question.key} is needed: {key.about}")
            continue
        return value
