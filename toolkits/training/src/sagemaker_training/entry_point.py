"""From a source address to a running script."""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping, Optional, Sequence

from sagemaker_training import files, hosts, kinds, layout, modules, runner, settings
from sagemaker_training.environment import Environment, write_env_vars
from sagemaker_training.kinds import Kind
from sagemaker_training.logs import logger


def run(
    uri: Optional[str],
    user_entry_point: Optional[str],
    args: Sequence[str],
    env_vars: Optional[Mapping[str, str]] = None,
    wait: bool = True,
    capture_error: bool = False,
    runner_type: runner.RunnerType = runner.ProcessRunnerType,
    extra_opts: Optional[Mapping[str, Any]] = None,
) -> Any:
    """Fetches the source, installs what it needs, and runs the entry point.

    Returns what the runner returns (``process.Outcome``; the ``Popen`` with wait off). Raises ClientError and its
    subclasses for what is wrong with the job. Whatever can be checked is checked before anything is installed.
    """
    name = kinds.check_name(user_entry_point)
    variables = dict(Environment().to_env_vars() if env_vars is None else env_vars)
    launcher = runner.get(runner_type, name, args, variables, extra_opts)
    files.download_and_extract(uri or layout.code_dir, layout.code_dir)
    kinds.check_exists(name, layout.code_dir)
    launcher.check()
    install(name, layout.code_dir, capture_error)
    write_env_vars({**variables, "PYTHONPATH": python_path()})
    hosts.wait_for_names(Environment().hosts)
    return launcher.run(wait, capture_error)


def install(name: str, path: str = layout.code_dir, capture_error: bool = False) -> None:
    """Installs what an entry point needs, by its kind."""
    kind = kinds.kind_of(name, path)
    if kind is Kind.PYTHON_PACKAGE:
        modules.install(path, capture_error)
    elif kind is Kind.PYTHON_PROGRAM or settings.shell_requirements():
        modules.install_requirements(path, capture_error)
    elif modules.has_requirements(path):
        logger.warning(
            "requirements.txt is not installed for the shell entry point %s: install it there, or set %s=true",
            name,
            settings.SHELL_REQUIREMENTS,
        )


def python_path() -> str:
    """The code folder, then what the toolkit's search path has beyond the interpreter's own folders.

    The script's interpreter finds its own folders by itself. Another one, which a shell entry point may use, must not
    be given this one's standard library.
    """
    import site

    library = os.path.dirname(os.__file__)
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    own = {layout.code_dir, "", library, os.path.join(library, "lib-dynload"), *site.getsitepackages()}
    own.add(site.getusersitepackages())
    return os.pathsep.join(
        [layout.code_dir, *(entry for entry in sys.path if entry not in own and os.path.basename(entry) != archive)]
    )
