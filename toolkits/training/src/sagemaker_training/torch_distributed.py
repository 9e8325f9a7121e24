"""The torchrun launcher: one torchrun on each host of the run, and no ssh.

Rules: docs/contract/pytorch-training.md, rows torchrun-*.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

from sagemaker_training import distribution, elastic, errors, fabric, kinds, layout, masking, process, runner, settings
from sagemaker_training.environment import Environment
from sagemaker_training.kinds import Kind
from sagemaker_training.peers import Watch
from sagemaker_training.ranks import Ranks

MASTER_PORT = "7777"

NEURON_PARALLEL_COMPILE_ENV = "RUN_NEURON_PARALLEL_COMPILE"

# How long the true cause may take to arrive from the host where it happened: torchrun there notices that a rank ended,
# ends the others, and then itself. On a host that computes hard that takes seconds.
_NEWS_SECONDS = 10.0

_CAUSE_LENGTH = 400


class TorchDistributedRunner(runner.Runner):
    """Runs the entry point through torchrun: as many processes as the host has devices, on every host of the run.

    The entry point is a script or a module (of a source folder with a setup.py). Where another host fails or is lost,
    this one ends too, with a failure text that names the host.
    """

    def __init__(
        self,
        entry_point: str,
        args: Sequence[str],
        env_vars: Mapping[str, str],
        extra_opts: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(entry_point, args, env_vars, extra_opts)
        self.job = Environment()
        self._watch: Optional[Watch] = None

    # What is run

    @property
    def hosts(self) -> List[str]:
        return self.job.distribution_hosts or self.job.hosts

    @property
    def processes(self) -> int:
        """Processes on this host."""
        framework = self.job.additional_framework_parameters
        return distribution.processes_per_host(framework, self.job.num_gpus, self.job.num_neurons)

    @property
    def instance_type(self) -> str:
        """As the platform says, else as the caller of the job said."""
        asked = self.job.additional_framework_parameters.get("sagemaker_instance_type")
        own = self.job.current_instance_type
        return str(asked) if asked and own == "local" else own

    def check(self) -> None:
        if self.kind is Kind.COMMAND:
            raise errors.ClientError(
                f"torchrun cannot start {self.entry_point}: it starts Python scripts (name.py), and modules of a "
                "source folder that has a setup.py."
            )
        if self.job.current_host not in self.hosts:
            raise errors.ClientError(
                f"Host {self.job.current_host} takes no part in this run, which is on {', '.join(self.hosts)}."
            )
        self._start_watch()

    def command(self) -> List[str]:
        """The whole run as one would start it by hand."""
        return [*self._torchrun(), *self._entry()]

    def _entry(self) -> List[str]:
        module = kinds.module_name(self.entry_point) if self.kind is Kind.PYTHON_PACKAGE else None
        entry = ["-m", module] if module else [self.entry_point]
        # torchrun would take a script's `--l` for the begin of several options of its own, and stop. Behind `--` it
        # reads none; the script does not see the mark.
        if not module and any(argument.startswith("--") for argument in self.args):
            entry.insert(0, "--")
        return [*entry, *self.args]

    def _torchrun(self) -> List[str]:
        prefix = ["neuron_parallel_compile"] if os.environ.get(NEURON_PARALLEL_COMPILE_ENV) == "1" else []
        if prefix and shutil.which(prefix[0]) is None:
            raise errors.ClientError(
                f"{NEURON_PARALLEL_COMPILE_ENV}=1 asks for neuron_parallel_compile, which is not on PATH in this image."
            )
        # As a module of the toolkit's own interpreter: a torchrun on PATH may belong to another one.
        command = [*prefix, sys.executable, "-m", "torch.distributed.run"]
        command += ["--nnodes", str(len(self.hosts)), "--nproc_per_node", str(self.processes)]
        return [*command, *self._rendezvous()]

    def _rendezvous(self) -> List[str]:
        if len(self.hosts) == 1:
            # torchrun's fixed port would meet that of another job in the same network.
            port = os.environ.get("MASTER_PORT") or str(_free_port())
            return ["--master_addr", "127.0.0.1", "--master_port", port]
        rank = self.hosts.index(self.job.current_host)
        master = os.environ.get("MASTER_ADDR") or self.hosts[0]
        return ["--master_addr", master, "--master_port", str(self._port()), "--node_rank", str(rank)]

    def _port(self) -> int:
        text = os.environ.get("MASTER_PORT") or MASTER_PORT
        if not text.isdigit() or not 1 <= int(text) <= 65534:
            raise errors.ClientError(f"MASTER_PORT={text!r}: use a port number from 1 to 65534.")
        return int(text)

    def defaults(self) -> Dict[str, str]:
        interface = self.job.network_interface_name
        named = {"NCCL_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}
        return {
            # The config may name an interface that this container does not have. Then each library finds its own.
            **(named if fabric.interface_exists(interface) else {}),
            "NCCL_PROTO": "simple",
            **fabric.efa_variables(self.instance_type),
            # Of torchrun itself: its ranks get the platform's grace to save their work, not its usual 30 s.
            "PET_SHUTDOWN_TIMEOUT": "105",
        }

    # How it is run

    def launch(self) -> process.Outcome:
        self._start_watch()
        command = self.command()
        lost = self._watch.lost if self._watch else None
        if lost is not None:
            return process.Outcome(tuple(command), 1, "", lost)
        with Ranks(self.processes) as ranks:
            torchrun = [*self._torchrun(), "--no_python", *ranks.rank_command(_rank_script(self._entry()))]
            if self._watch:
                self._watch.on_loss(ranks.end)
            outcome = process.run(
                ranks.agent_command(torchrun), layout.code_dir, self.environ(), sources=ranks.sources()
            )
        return self._judge(command, outcome)

    def _start_watch(self) -> None:
        """Starts it as soon as possible, so that a host that is lost while others install things is noticed too."""
        if len(self.hosts) == 1:
            return
        if self._watch is None:
            # Next to torchrun's own port.
            self._watch = Watch(self.hosts, self.job.current_host, self._port() + 1, settings.host_timeout())
        self._watch.start()

    def _judge(self, command: Sequence[str], outcome: process.Outcome) -> process.Outcome:
        """The outcome with the exit code and the words of what failed first; the other hosts are told."""
        failure = elastic.read(outcome.stdout + outcome.stderr)
        code, text, rank = outcome.returncode, failure.text, failure.rank
        if code > 0 and failure.exit_code and outcome.stopped is None:
            code = failure.exit_code
        if self._watch is not None:
            lost = self._elsewhere(failure.secondhand) if code and outcome.stopped is None else None
            if lost:
                code, text, rank = 1, f"{elastic.context(text)}\n{lost}", None
            self._watch.leave(process.exit_code(code), self._cause(command, code, text, rank) if code else "")
        remark = f"Rank {rank} failed first." if rank is not None else ""
        return process.Outcome(tuple(command), code, "", text, outcome.oom_kills, outcome.stopped, remark)

    def _elsewhere(self, secondhand: bool) -> Optional[str]:
        """What happened on another host, if that is the cause. secondhand: the errors of this host say so."""
        if self._watch is None:
            return None
        lost = self._watch.wait(_NEWS_SECONDS if secondhand else 0)
        absent = self._watch.absent() if secondhand else []
        if absent and not lost:
            return f"Host {', '.join(absent)} never reported: it did not start, or cannot be reached."
        return lost

    def _cause(self, command: Sequence[str], code: int, text: str, rank: Optional[int]) -> str:
        first = str(errors.ExecuteUserScriptError(command, code, text)).split("\n", 1)[0]
        whose = f"rank {rank}: " if rank is not None else ""
        return whose + masking.text(first)[:_CAUSE_LENGTH]


def _rank_script(entry: Sequence[str]) -> List[str]:
    return [sys.executable, *entry]


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
