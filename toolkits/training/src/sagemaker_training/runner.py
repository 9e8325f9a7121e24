"""Launchers: how the entry point is started on this host.

A launcher is a subclass of ``Runner`` in a module of its own; ``_LAUNCHERS`` names where it is found. It gets the
entry point, its arguments and the job's variables, and gives the command line and the defaults of its children's
environment. Everything else (relay, stop, exit code, failure text) is done here and in ``process`` for all
launchers alike. See ``Runner``.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from sagemaker_training import cgroup, errors, failures, layout, process
from sagemaker_training.kinds import Kind, kind_of, script_command
from sagemaker_training.relay import Transform


class RunnerType:
    """A name of a launcher. Its text is the historical one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"RunnerType.{self.name}"

    def __str__(self) -> str:
        return self.name


ProcessRunnerType = RunnerType("Process")
MPIRunnerType = RunnerType("MPI")
SMDataParallelRunnerType = RunnerType("SMDataParallel")
PyTorchXLARunnerType = RunnerType("PyTorchXLA")
TorchDistributedRunnerType = RunnerType("TorchDistributed")


class Runner:
    """Starts the entry point as one plain process, and is the base of every launcher.

    entry_point: checked name relative to the code folder. args: the script's arguments. env_vars: the job's
    variables, exported to ``os.environ`` already. extra_opts: what the framework toolkit gives for this launcher.

    A launcher overrides as little as it needs:

    - ``check()``: raises ClientError when it cannot run here (a program is missing, the entry kind is not
      supported). Called on every host before the source's requirements are installed.
    - ``command()``: the argument vector to start. ``self.script()`` is the entry point as one process would run it.
    - ``defaults()``: variables for the children that hold only where the user set none.
    - ``transform``: a function on whole lines of output, for rank prefixes; None leaves the bytes alone.
    - ``launch()``: for roles that are more than one command. It returns the ``process.Outcome`` by which the job is
      judged. Foreground commands go through ``process.run``, helpers through ``process.start_service``. A stop reaches
      the group of a foreground command; while none runs it raises ``process.Stopped`` out of any wait in Python.
    """

    transform: Optional[Transform] = None

    def __init__(
        self,
        entry_point: str,
        args: Sequence[str],
        env_vars: Mapping[str, str],
        extra_opts: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.entry_point = entry_point
        self.args = list(args)
        self.env_vars = dict(env_vars)
        self.extra_opts = dict(extra_opts or {})

    @property
    def kind(self) -> Kind:
        return kind_of(self.entry_point, layout.code_dir)

    def check(self) -> None:
        """Raises ClientError when the launcher cannot run on this host."""

    def script(self) -> List[str]:
        """The entry point with its arguments, as one process runs it."""
        return script_command(self.entry_point, self.args, layout.code_dir)

    def command(self) -> List[str]:
        return self.script()

    def defaults(self) -> Dict[str, str]:
        return {}

    def environ(self) -> Dict[str, str]:
        """The environment of the command: the process's own, and the defaults where the user set nothing."""
        # Without it a script's lines wait in its buffer, and are lost when it is killed.
        defaults = {"PYTHONUNBUFFERED": "1", **self.defaults()}
        return {**defaults, **os.environ}

    def launch(self) -> process.Outcome:
        return process.run(self.command(), layout.code_dir, self.environ(), self.transform)

    def run(self, wait: bool = True, capture_error: bool = False) -> Any:
        """Runs the entry point to its end and returns the Outcome; with wait off, returns the running ``Popen``.

        Raises ExecuteUserScriptError unless it ended with 0. capture_error is accepted and means nothing: the
        explanation of a failure is always kept.
        """
        if not wait:
            return process.spawn(self.command(), layout.code_dir, self.environ())
        try:
            outcome = self.launch()
        except OSError as error:
            raise errors.ExecuteUserScriptError(
                self.command(), 126, f"{type(error).__name__}: {error}", "The command cannot be started."
            ) from error
        raise_for(outcome, errors.ExecuteUserScriptError)
        return outcome


ProcessRunner = Runner

_LAUNCHERS: Dict[RunnerType, Tuple[str, str]] = {
    MPIRunnerType: ("sagemaker_training.mpi", "MPIRunner"),
    SMDataParallelRunnerType: ("sagemaker_training.smdataparallel", "SMDataParallelRunner"),
    PyTorchXLARunnerType: ("sagemaker_training.pytorch_xla", "PyTorchXLARunner"),
    TorchDistributedRunnerType: ("sagemaker_training.torch_distributed", "TorchDistributedRunner"),
}


def get(
    identifier: Union[RunnerType, Runner],
    user_entry_point: Optional[str] = None,
    args: Optional[Sequence[str]] = None,
    env_vars: Optional[Mapping[str, str]] = None,
    extra_opts: Optional[Mapping[str, Any]] = None,
) -> Runner:
    """The runner of a type; what the arguments leave out is taken from the job's environment.

    Raises ClientError for a launcher that this toolkit does not have, ValueError for what is no runner type.
    """
    if isinstance(identifier, Runner):
        return identifier
    runner_class = _runner_class(identifier)
    if user_entry_point is None or args is None or env_vars is None:
        from sagemaker_training.environment import Environment

        environment = Environment()
        user_entry_point = environment.user_entry_point if user_entry_point is None else user_entry_point
        args = environment.to_cmd_args() if args is None else args
        env_vars = environment.to_env_vars() if env_vars is None else env_vars
    made: Runner = runner_class(user_entry_point or "", args, env_vars, extra_opts)
    return made


def _runner_class(identifier: Any) -> Any:
    if identifier is ProcessRunnerType:
        return ProcessRunner
    if identifier not in _LAUNCHERS:
        raise ValueError(f"{identifier!r} is no runner type.")
    module, name = _LAUNCHERS[identifier]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise errors.ClientError(
            f"This job asks for the {identifier} launcher, and the toolkit in this image has none "
            f"({module} is missing). Start the job without it, or use an image whose toolkit has it."
        ) from error


def raise_for(outcome: process.Outcome, error_class: type) -> None:
    """Raises the error of a process that did not end with 0."""
    if outcome.returncode == 0:
        return
    hint = failures.end_hint(outcome.returncode, outcome.oom_kills, outcome.stopped, cgroup.memory_limit())
    info = "\n".join(line for line in (outcome.remark, hint) if line)
    raise error_class(outcome.argv, outcome.returncode, failures.telling(outcome.stderr, outcome.stdout), info)


def python() -> str:
    """The interpreter for the script: the toolkit's own."""
    return sys.executable
