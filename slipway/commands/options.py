"""Options that several commands share, written once: the selectors of images."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from invoke.parser.argument import Argument
from invoke.tasks import Task

from slipway.spec.select import Selector

SELECTORS = {
    "framework": "as named in buildspec/, e.g. pytorch",
    "version": "full version, or a stack's name such as 2.13",
    "scope": "training | inference",
    "processor": "cpu | gpu",
    "python": "3.11 or py311",
    "only": "one image's ID, as `invoke list` shows it",
    "all": "every image that is not excluded; with other selectors, every one that fits them",
}


# Every key of a configuration is a flag of the same name; here are those that someone may want to set.
CONFIG_KEYS = {
    "image_uri": "the image; without it the newest that fits, looked up at launch",
    "iam_role_name": "execution role: a name or an ARN",
    "ec2_instance_type": "ml.…, or local / local_gpu for this machine",
    "num_machines": "number of instances",
    "distributed_type": "NO | DATA_PARALLEL | MODEL_PARALLEL",
    "mixed_precision": "no | fp16 | bf16 | fp8",
    "region": "AWS region",
    "profile": "AWS profile",
    "sagemaker_inputs_file": "TSV file: channel_name, data_location",
    "sagemaker_metrics_file": "TSV file: metric_name, metric_regex",
    "base_job_name": "begin of the jobs' names",
    "pytorch_version": "picks the image where none is named",
    "transformers_version": "picks the image where none is named",
    "py_version": "picks the image where none is named",
    "additional_args": 'more arguments of the estimator, as JSON: {"max_run": 3600}',
    "dynamo_config": "as JSON; does not reach the job",
    "use_cpu": "yes | no; does not reach the job",
    "debug": "yes | no; does not reach the job",
    "enable_cpu_affinity": "yes | no; does not reach the job",
    "gpu_ids": "does not reach the job",
}


def configuring(body: Callable[..., None]) -> Callable[..., None]:
    """Give a task a flag for each key of a configuration; its body gets them as `keys`, None where not given."""
    context, *rest = inspect.signature(body).parameters.values()
    rest = [parameter for parameter in rest if parameter.name != "keys"]
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    flags = [inspect.Parameter(name, keyword, default=None) for name in CONFIG_KEYS]

    @functools.wraps(body)
    def task(context: Any, **given: Any) -> None:
        keys = {name: given.pop(name, None) for name in CONFIG_KEYS}
        body(context, keys, **given)

    task.__signature__ = inspect.Signature([context, *rest, *flags])  # type: ignore[attr-defined]
    return task


class _Waivable(Argument):
    """A positional argument that need not be given once a certain other one is."""

    def __init__(self, given: Argument, other: Argument) -> None:
        vars(self).update(vars(given))
        self._other = other

    @property
    def value(self) -> Any:
        found = super().value
        return "" if found is None and self._other.got_value else found

    @value.setter
    def value(self, arg: str) -> None:
        self.set_value(arg, cast=True)


class LaunchTask(Task[Callable[..., None]]):
    """A task whose positional arguments need not be given together with --wait."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        arguments = super().get_arguments(ignore_unknown_help)
        wait = next(argument for argument in arguments if argument.name == "wait")
        return [_Waivable(each, wait) if each.positional else each for each in arguments]


def selecting(body: Callable[..., None]) -> Callable[..., None]:
    """Give a task the selector options; its body gets them as one `selector` after the context."""
    own = list(inspect.signature(body).parameters.values())
    context, rest = own[0], [parameter for parameter in own[1:] if parameter.name != "selector"]
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    options = [inspect.Parameter(name, keyword, default=False if name == "all" else "") for name in SELECTORS]

    @functools.wraps(body)
    def task(context: Any, **given: Any) -> None:
        everything = given.pop("all", False)
        names = [name for name in SELECTORS if name != "all"]
        selector = Selector(everything=everything, **{name: given.pop(name, "") for name in names})
        body(context, selector, **given)

    task.__signature__ = inspect.Signature([context, *options, *rest])  # type: ignore[attr-defined]
    return task
