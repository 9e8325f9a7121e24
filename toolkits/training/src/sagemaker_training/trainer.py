"""The ``train`` command: one job from its config files to its exit code."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import traceback
from typing import Any, Callable, Optional

from sagemaker_training import (
    distribution,
    entry_point,
    environment,
    errors,
    failures,
    files,
    intermediate_output,
    layout,
    logs,
    mapping,
    masking,
    params,
    process,
    runner,
    settings,
)
from sagemaker_training.logs import logger


def train() -> None:
    """Runs the job and ends the interpreter with its exit code."""
    try:
        code = _Job().run()
    except process.Stopped as stop:  # It came between two steps.
        code = exit_code(stop)
    sys.exit(code)


class _Job:
    """A job, and what is known of it when it fails."""

    def __init__(self) -> None:
        self.environment: Optional[environment.Environment] = None
        self.sync: Optional[intermediate_output.Sync] = None

    def run(self) -> int:
        """The exit code of ``train``."""
        with process.stop_handling():
            error: Optional[BaseException] = None
            log = ""
            try:
                self._train()
            except (Exception, SystemExit, process.Stopped) as caught:
                error = caught
                log = traceback.format_exc()
            with process.deferred_stop():
                return self._finish(error, log)

    def _train(self) -> None:
        settings.check()
        self.environment = env = environment.Environment()
        masking.learn(env.hyperparameters)
        masking.learn(os.environ)
        self.sync = intermediate_output.start_sync(env.sagemaker_s3_output(), env.job_name)
        if env.framework_module:
            function = _framework_function(env.framework_module)
            logs.configure(env.log_level)
            function()
        else:
            logs.configure(env.log_level)
            _run_script(env)

    def _finish(self, error: Optional[BaseException], log: str) -> int:
        """Leaves the marker file, ends the helpers, and gives the exit code."""
        if not logging.getLogger().handlers:
            logs.configure(environment.DEFAULT_LOG_LEVEL)
        code = exit_code(error)
        if code == 0:
            try:
                files.write_success_file()
            except OSError as unwritable:
                error, log, code = unwritable, traceback.format_exc(), unwritable.errno or 1
        if code:
            assert error is not None
            self._report(error, log)
        if self.sync is not None:
            self.sync.join(process.grace_left())
        process.end_services()
        return code

    def _report(self, error: BaseException, log: str) -> None:
        channels = list(self.environment.channel_input_dirs) if self.environment else []
        text = failures.compose(error, log, channels)
        logger.error("%s", text)
        try:
            files.write_failure_file(text)
        except OSError as unwritable:
            logger.error("the reason cannot be written to %s: %s", layout.failure_file, unwritable)


def exit_code(error: Optional[BaseException]) -> int:
    """The script's own code where it has one; 128+n after a stop; the errno or 1 for the toolkit's errors."""
    if error is None:
        return 0
    if isinstance(error, errors.ExecuteUserScriptError):
        return process.exit_code(error.return_code or 1)
    if isinstance(error, process.Stopped):
        return 128 + error.signum
    stopped = process.stop_requested()
    if stopped is not None:
        return 128 + stopped
    if isinstance(error, SystemExit):
        code = error.code
        return 0 if code is None else process.exit_code(code) if isinstance(code, int) else 1
    number = 1 if isinstance(error, errors.ClientError) else getattr(error, "errno", None)
    return number if isinstance(number, int) and 1 <= number <= 255 else 1


def _framework_function(name: str) -> Callable[[], Any]:
    """The function that ``SAGEMAKER_TRAINING_MODULE`` names. Raises ImportModuleError."""
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function or "train")  # type: ignore[no-any-return]
    except Exception as error:
        raise errors.ImportModuleError(
            f"{params.FRAMEWORK_TRAINING_MODULE_ENV}={name} cannot be imported "
            f"(expected module:function): {type(error).__name__}: {error}"
        ) from error


def _run_script(env: environment.Environment) -> None:
    """The flow without a framework toolkit: MPI where the job asks for it, else one plain process."""
    framework = env.additional_framework_parameters
    in_distribution = env.current_instance_group in env.distribution_instance_groups
    mpi = distribution.enabled(params.LAUNCH_MPI_ENV_NAME, framework) and in_distribution
    for key in distribution.launchers(framework):
        if key != params.LAUNCH_MPI_ENV_NAME:
            logger.warning("%s needs a framework toolkit, which this image does not have: not acted upon", key)
    log_environment(env)
    entry_point.run(
        env.module_dir,
        env.user_entry_point,
        env.to_cmd_args(),
        env.to_env_vars(),
        runner_type=runner.MPIRunnerType if mpi else runner.ProcessRunnerType,
    )


def log_environment(env: environment.Environment) -> None:
    """Logs what the job is, with secrets masked. Framework toolkits call it once before they start the script."""
    if not logger.isEnabledFor(logging.INFO):
        return
    properties = masking.mapping(dict(env))
    arguments = masking.arguments(env.to_cmd_args())
    variables = environment.env_vars(env, arguments, properties)
    logger.info("environment:\n%s", json.dumps(properties, indent=2, sort_keys=True, default=str))
    logger.info("variables:\n%s", "\n".join(f"{name}={variables[name]}" for name in sorted(variables)))
    logger.info("arguments: %s", mapping.encode(arguments))
