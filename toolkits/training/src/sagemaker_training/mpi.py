"""The MPI launcher: mpirun on the first host of the run, reached by ssh from there the others.

The first host starts the ranks on all hosts and has their lines in its log. The others serve ssh, and end as the
first one does. No wait is without a limit, and a host that dies or vanishes ends the others.

Rules: docs/contract/mpi.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence

from sagemaker_training import (
    distribution,
    errors,
    fabric,
    kinds,
    layout,
    masking,
    modules,
    mpi_command,
    mpi_output,
    mpi_shield,
    mpi_ssh,
    params,
    process,
    runner,
    settings,
)
from sagemaker_training.environment import Environment
from sagemaker_training.kinds import Kind
from sagemaker_training.logs import logger
from sagemaker_training.mpi_link import Link
from sagemaker_training.mpi_rank import ENVIRONMENT_FILE
from sagemaker_training.mpi_ranks import MPIRUN_FILE, LocalRanks

# How long the word of a lost host may come after mpirun or a rank noticed it.
_NEWS_SECONDS = 3.0
_NEWS_BESIDE_RANK_SECONDS = 0.5

# mpirun ends all ranks when one fails, and then itself. It may hang over that.
_HANG_SECONDS = 45.0

# How often ranks that start after a stop are looked for.
_ROUND_SECONDS = 1.0

_CAUSE_LENGTH = 400

_TRACEBACK = "Traceback (most recent call last):"


class MPIRunner(runner.Runner):
    """Runs the entry point under mpirun, one rank per device of each host of the run."""

    def __init__(
        self,
        entry_point: str,
        args: Sequence[str],
        env_vars: Mapping[str, str],
        extra_opts: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(entry_point, args, env_vars, extra_opts)
        self.job = Environment()
        self._link: Optional[Link] = None
        self._ranks = LocalRanks(mpi_ssh.FOLDER)
        self._version = 0
        self._ending = False

    # What is run

    @property
    def hosts(self) -> List[str]:
        return self.job.distribution_hosts or self.job.hosts

    @property
    def processes_per_host(self) -> int:
        framework = self.job.additional_framework_parameters
        return distribution.processes_per_host(framework, self.job.num_gpus, self.job.num_neurons)

    @property
    def processes(self) -> int:
        """Ranks of the whole run."""
        asked = self.job.additional_framework_parameters.get(params.MPI_NUM_PROCESSES)
        if asked is None:
            return self.processes_per_host * len(self.hosts)
        if isinstance(asked, bool) or not str(asked).isdigit() or int(asked) < 1:
            raise errors.ClientError(
                f"Hyperparameter {params.MPI_NUM_PROCESSES} must be a whole number from 1, it is {asked!r}."
            )
        return int(asked)

    @property
    def custom(self) -> mpi_command.Custom:
        text = self.job.additional_framework_parameters.get(params.MPI_CUSTOM_OPTIONS)
        return mpi_command.read_custom(str(self.extra_opts.get(params.MPI_CUSTOM_OPTIONS, text) or ""))

    def check(self) -> None:
        mpirun = mpi_command.program()
        self._version = mpi_command.version(mpirun)
        if self.kind is Kind.PYTHON_PROGRAM and not modules.has_requirements(layout.code_dir):
            self._check_mpi4py()
        self.custom, self.processes  # noqa: B018 - what is wrong with them is to be said now
        if len(self.hosts) > 1:
            mpi_ssh.check()
            self._link = Link(self.hosts, self.job.current_host)
            self._link.start()

    def _check_mpi4py(self) -> None:
        if self.kind is not Kind.COMMAND and not modules.exists("mpi4py"):
            raise errors.ClientError(
                "This job runs under MPI, and mpi4py, which starts its ranks, is missing. Add mpi4py to the source's "
                "requirements.txt, or use an image that has it."
            )

    def script(self) -> List[str]:
        """The entry point of one rank. mpi4py starts it, so that a rank that fails takes the others with it."""
        plain = kinds.script_command(self.entry_point, self.args, layout.code_dir)
        if self.kind is Kind.COMMAND:
            return plain
        module = kinds.module_name(self.entry_point) if self.kind is Kind.PYTHON_PACKAGE else None
        entry = ["-m", module] if module else [self.entry_point]
        return [sys.executable, "-m", "mpi4py", *entry, *self.args]

    def command(self) -> List[str]:
        """The run as one would start it by hand."""
        return self._mpirun("", self.script())

    def _mpirun(self, ssh_config: str, ranks: Sequence[str]) -> List[str]:
        interface = self.job.network_interface_name
        run = mpi_command.Run(
            hosts=tuple(self.hosts),
            processes_per_host=self.processes_per_host,
            processes=self.processes,
            # The config may name an interface that this container does not have. Then Open MPI finds its own.
            interface=interface if fabric.interface_exists(interface) else "",
            ssh_config=ssh_config,
            custom=self.custom,
        )
        mpirun = mpi_command.program()
        self._version = self._version or mpi_command.version(mpirun)
        return mpi_command.build(mpirun, self._version, run, ranks)

    def defaults(self) -> Dict[str, str]:
        interface = self.job.network_interface_name
        named = {"NCCL_SOCKET_IFNAME": interface} if fabric.interface_exists(interface) else {}
        efa = fabric.efa_variables(self.job.current_instance_type)
        return {
            **named,
            **efa,
            **({"NCCL_PROTO": "simple"} if efa else {}),
            "NCCL_MIN_NRINGS": "4",
            "NCCL_DEBUG": self.custom.nccl_debug or "INFO",
        }

    # How it is run

    def launch(self) -> process.Outcome:
        mpi_ssh.write_private(ENVIRONMENT_FILE, json.dumps(self.environ()))
        try:
            self._check_mpi4py()
            if self._link is None:
                return self._lead("")
            mpi_ssh.start_server()
            if self.job.current_host != self.hosts[0]:
                outcome = self._follow(self._link)
            else:
                outcome = self._lead(mpi_ssh.prepare_client())
            self._leave(process.exit_code(outcome.returncode), self._cause(outcome))
            return outcome
        except errors.ClientError as error:
            self._leave(1, str(error))
            raise
        except process.Stopped as stop:
            self._leave(128 + stop.signum, "")
            raise
        finally:
            self._ranks.kill()
            shutil.rmtree(mpi_ssh.FOLDER, ignore_errors=True)

    def _lead(self, ssh_config: str) -> process.Outcome:
        """The first host's part: the run itself."""
        lost = self._wait_for_hosts()
        if lost is not None:
            return process.Outcome(tuple(self.command()), 1, "", lost)
        over = threading.Event()
        if self._link is not None:
            self._link.on_loss(lambda: self._ranks.end_run(over))
        with mpi_output.RankOutput(self.hosts, lambda failed: self._look_after(failed, over)) as output:
            try:
                outcome = process.run(
                    self._shielded(self._mpirun(ssh_config, self._rank_command(output.port))),
                    layout.code_dir,
                    self.environ(),
                    mpi_output.host_tags(self.hosts, self.processes_per_host),
                    sources=output.sources(),
                )
            finally:
                over.set()
        return self._judge(outcome, output)

    def _look_after(self, seconds_since_failure: float, over: threading.Event) -> None:
        """What the platform's stop, and a rank's failure that mpirun does not act upon, ask for while it runs."""
        if process.stop_requested() is not None:
            self._ranks.stop()
        elif seconds_since_failure > _HANG_SECONDS and not self._ending:
            self._ending = True
            logger.error("mpirun has not ended %g s after a rank failed: ending it", _HANG_SECONDS)
            threading.Thread(target=self._ranks.end_run, args=(over,), daemon=True).start()

    def _wait_for_hosts(self) -> Optional[str]:
        """Waits until every other host serves ssh. Returns what happened to one that was lost meanwhile."""
        if self._link is None:
            return None
        for host in self.hosts[1:]:
            lost = mpi_ssh.wait_for_server(host, settings.dns_timeout(), self._link.wait)
            if lost is not None:
                return lost
        return None

    def _rank_command(self, port: int) -> List[str]:
        master = self.hosts[0] if len(self.hosts) > 1 else "localhost"
        names = ",".join(self.custom.exports)
        rank = [sys.executable, "-m", "sagemaker_training.mpi_rank", mpi_ssh.FOLDER, f"{master}:{port}", names]
        return [*rank, *self.script()]

    @staticmethod
    def _shielded(mpirun: Sequence[str]) -> List[str]:
        note = os.path.join(mpi_ssh.FOLDER, MPIRUN_FILE)
        return [sys.executable, "-I", "-S", os.path.abspath(mpi_shield.__file__), note, *mpirun]

    def _judge(self, outcome: process.Outcome, output: mpi_output.RankOutput) -> process.Outcome:
        """The outcome in the words of what failed first: a lost host, else a rank, else mpirun."""
        own = outcome.stdout + outcome.stderr
        text = output.tail("stderr") or output.tail("stdout") or own
        outcome = outcome._replace(argv=tuple(self.command()), stdout="", stderr=text)
        if not outcome.returncode or outcome.stopped is not None:
            return outcome
        failed = output.failed(own)
        if self._link is not None:
            lost = self._link.wait(_NEWS_BESIDE_RANK_SECONDS if failed else _NEWS_SECONDS)
            if lost is not None:
                return outcome._replace(returncode=1, stderr=lost)
        if failed is None:
            return outcome
        # The last words count as the cause, where nobody has an exception to tell.
        text = text if _TRACEBACK in text else f"{text}\n{failed}"
        return outcome._replace(returncode=failed.code, stderr=text)

    def _follow(self, link: Link) -> process.Outcome:
        """The part of every other host: ranks run here, but how the run ends is for the first host to say."""
        first = self.hosts[0]
        argv = tuple(self.command())
        patience = settings.dns_timeout()
        try:
            over = link.wait_for_end(None, patience)
        except process.Stopped:
            with process.deferred_stop():
                over = self._follow_stop(link)
        stopped = process.stop_requested()
        if link.end is not None:
            code, cause = link.end.code, link.end.cause
            text = f"The run ended on {first} with exit code {code}" + (f": {cause}" if cause else ".")
            outcome = process.Outcome(argv, code, "", text if code else "", stopped=stopped)
        elif over or stopped is None:
            text = (
                link.lost or f"Host {first} never reported within {patience:g} s: it did not start, or failed before."
            )
            outcome = process.Outcome(argv, 1, "", text, stopped=stopped)
        else:
            text = f"Host {first} did not say how the run ended."
            outcome = process.Outcome(argv, -signal.SIGKILL, "", text, stopped=stopped)
        return outcome

    def _follow_stop(self, link: Link) -> bool:
        """Passes the stop on to the ranks of this host, and waits for the end as long as the platform does."""
        while process.grace_left():
            self._ranks.stop()
            if link.wait_for_end(_ROUND_SECONDS, _ROUND_SECONDS):
                return True
        return False

    def _leave(self, code: int, cause: str) -> None:
        if self._link is not None:
            self._link.leave(code, cause if code else "")

    def _cause(self, outcome: process.Outcome) -> str:
        if not outcome.returncode:
            return ""
        error = errors.ExecuteUserScriptError(outcome.argv, outcome.returncode, outcome.stderr)
        return masking.text(str(error).split("\n", 1)[0])[:_CAUSE_LENGTH]
