"""The command line of mpirun, for Open MPI 4 and 5, and what the job may say about it.

Rules: docs/contract/mpi.md, rows mpi-command-*.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from typing import Dict, List, Sequence, Set, Tuple

from sagemaker_training import errors, params

_VERSION = re.compile(r"\(?(?:Open MPI|OpenRTE|PRRTE)\)? v?(\d+)\.")
_VERSION_SECONDS = 20

# One dash or two, and the run-time's parameters by their names in both versions.
_MCA = ("-mca", "--mca", "-gmca", "--gmca", "-omca", "--omca", "-prtemca", "--prtemca")
_EXPORT = ("-x", "--x")
_NCCL_DEBUG = "--NCCL_DEBUG"


@dataclass(frozen=True)
class Custom:
    """The job's own options for mpirun.

    words: as they are to stand on the command line. exports: variables that they pass to the ranks (``-x``).
    parameters: MCA parameters that they set. nccl_debug: the level that the toolkit's own option asks for.
    """

    words: Tuple[str, ...] = ()
    exports: Tuple[str, ...] = ()
    parameters: Tuple[str, ...] = ()
    nccl_debug: str = ""


@dataclass(frozen=True)
class Run:
    """hosts: all hosts, the first one starts the run. processes_per_host: from 1. processes: of the whole run.

    interface: the network interface to use, empty to leave it to Open MPI. ssh_config: the client's configuration
    file, empty on a single host.
    """

    hosts: Tuple[str, ...]
    processes_per_host: int
    processes: int
    interface: str = ""
    ssh_config: str = ""
    custom: Custom = Custom()


def read_custom(text: str) -> Custom:
    """Reads ``sagemaker_mpi_custom_mpi_options``. Raises ClientError where quotes are not closed."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise errors.ClientError(f"Hyperparameter {params.MPI_CUSTOM_OPTIONS}={text!r}: {error}.") from error
    kept: List[str] = []
    level = ""
    while words:
        word = words.pop(0)
        if word == _NCCL_DEBUG and words:
            level = words.pop(0)
        elif word.startswith(_NCCL_DEBUG + "="):
            level = word.partition("=")[2]
        else:
            kept.append(word)
    following = list(zip(kept, kept[1:]))
    exports = tuple(value.partition("=")[0] for option, value in following if option in _EXPORT)
    parameters = tuple(value for option, value in following if option in _MCA)
    return Custom(tuple(kept), exports, parameters, level)


def program() -> str:
    """The path of mpirun. Raises ClientError where there is none."""
    found = shutil.which("mpirun")
    if found is None:
        raise errors.ClientError(
            "This job runs under MPI, and mpirun is not on PATH in this image. Install Open MPI "
            "(Debian: apt-get install openmpi-bin), or use an image that has it."
        )
    return found


def version(mpirun: str) -> int:
    """The major version of Open MPI. Raises ClientError where mpirun is another MPI's, or does not answer."""
    try:
        answer = subprocess.run(
            [mpirun, "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_SECONDS,
            check=False,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.ClientError(f"{mpirun} --version gives no answer: {error}.") from error
    match = _VERSION.search(answer)
    if match is None:
        first = (answer.strip().splitlines() or ["nothing"])[0]
        raise errors.ClientError(f"{mpirun} is not Open MPI's, which this launcher needs. It says: {first}")
    return int(match[1])


def build(mpirun: str, major: int, run: Run, ranks: Sequence[str]) -> List[str]:
    """The command that starts the ranks: the toolkit's options, the job's own after them, what each rank runs."""
    named = set(run.custom.parameters)
    return [
        mpirun,
        *("--host", ",".join(_slots(run)), "-np", str(run.processes), "--allow-run-as-root"),
        *(_options_5(run, named) if major >= 5 else _options_4(run, named)),
        *run.custom.words,
        *ranks,
    ]


def _slots(run: Run) -> List[str]:
    # By its own name a single host would have to be known to DNS.
    hosts = run.hosts if len(run.hosts) > 1 else ("localhost",)
    return [f"{host}:{run.processes_per_host}" if run.processes_per_host > 1 else host for host in hosts]


def _options_4(run: Run, named: Set[str]) -> List[str]:
    runtime: Dict[str, str] = {"orte_abort_on_non_zero_status": "1"}
    if run.interface:
        runtime["oob_tcp_if_include"] = run.interface
    if run.ssh_config:
        runtime.update({"plm_rsh_no_tree_spawn": "1", "plm_rsh_args": f"-F {run.ssh_config}"})
    transport = {**_transport(run), "btl": "^openib", "btl_vader_single_copy_mechanism": "none"}
    return [
        *("--display-map", "--tag-output", "-bind-to", "none", "-map-by", "slot"),
        *_parameters("-mca", {**transport, **runtime}, named),
    ]


def _options_5(run: Run, named: Set[str]) -> List[str]:
    """The run-time is a project of its own there (PRRTE), and so are its parameters. openib is gone from it."""
    runtime: Dict[str, str] = {}
    if run.interface:
        runtime["prte_if_include"] = run.interface
    if run.ssh_config:
        runtime.update({"plm_ssh_no_tree_spawn": "1", "plm_ssh_args": f"-F {run.ssh_config}"})
    # What vader's option is in 4: no copies straight between processes, which containers do not allow.
    transport = {**_transport(run), "smsc": "^cma"}
    return [
        *("--display", "map", "--output", "tag", "--bind-to", "none", "--map-by", "slot"),
        *_parameters("--mca", transport, named),
        *_parameters("--prtemca", runtime, named),
    ]


def _transport(run: Run) -> Dict[str, str]:
    return {"pml": "ob1", **({"btl_tcp_if_include": run.interface} if run.interface else {})}


def _parameters(option: str, parameters: Dict[str, str], named: Set[str]) -> List[str]:
    """Options for parameters. Where the job sets one itself, Open MPI would join the two values: the job's counts."""
    return [word for name, value in parameters.items() if name not in named for word in (option, name, value)]
