"""The containers of a training job: what each one finds below /opt/ml, and how it is started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway.emulator import cluster, layout, warm_pool
from slipway.emulator.channel_data import ChannelStore
from slipway.emulator.checkpoints import Checkpoints
from slipway.emulator.following import Host
from slipway.emulator.job import TrainingJob
from slipway.emulator.layout import HostFolders
from slipway.engine.docker import Container, ContainerSpec, Engine, LimitsRefused, Mount, Run, Ulimit
from slipway.errors import EngineError

_LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_ACCOUNT = "000000000000"

# What hosted jobs have (nproc and memlock without limit).
_ULIMITS = (
    Ulimit("nofile", 65536, 65536),
    Ulimit("memlock", -1, -1),
    Ulimit("nproc", -1, -1),
    Ulimit("stack", 65536 << 10, 65536 << 10),
)


@dataclass(frozen=True)
class Cluster:
    """A job's hosts: the folders of each by its name, and where their data and logs are."""

    job: TrainingJob
    folders: Mapping[str, HostFolders]
    store: ChannelStore
    logs: Path

    def start(self, run: Run, notes: list[str]) -> list[Host]:
        """Start every host's container, its output already followed."""
        network = run.network()
        hosts = []
        for own in self.folders.values():
            own.names.write_text(_LOCALHOST)
        for name, own in self.folders.items():
            container, output = _start(run, self._spec(name, own, network), self.job, notes)
            hosts.append(Host(name, own, container, output, self.logs / f"{name}.log"))
            if len(self.folders) > 1:
                self._tell_address(name, container.address(network))
        return hosts

    def _tell_address(self, name: str, address: str) -> None:
        """The engine forgets a host's name when it has ended; on SageMaker the others find it to the job's end."""
        for own in self.folders.values() if address else ():
            with own.names.open("a") as names:
                names.write(f"{address}\t{name}\n")

    def _spec(self, name: str, own: HostFolders, network: str) -> ContainerSpec:
        job = self.job
        data = [mount for channel, *share in job.channels_of(name) for mount in self.store.mounts([channel], *share)]
        mounts = [*own.mounts(), *data, *job.mounts]
        if len(self.folders) > 1:
            mounts.append(Mount(own.names, "/etc/hosts"))
        if job.checkpoints:
            mounts.append(Mount(own.checkpoints, job.checkpoint_path.rstrip("/")))
        if job.warm_pool is not None:
            mounts.append(warm_pool.mount(job.warm_pool, name))
        return ContainerSpec(
            image=job.image,
            name=name,
            entrypoint=job.entrypoint,
            command=job.command(),
            environment=_environment(job),
            mounts=tuple(mounts),
            network=network,
            aliases=(name,),
            hostname=name,
            user=job.user,
            read_only=job.read_only,
            tmpfs=("/tmp",) if job.read_only else (),
            shm_bytes=job.shm_bytes,
            ulimits=_limits(job),
            gpus=_gpus(job),
        )


def prepare(job: TrainingJob, host: str, root: Path, output: Path, checkpoints: Checkpoints | None) -> HostFolders:
    """Write the tree that one host sees under /opt/ml."""
    folders = HostFolders(root)
    folders.make()
    hyperparameters = dict(job.hyperparameters)
    if job.source is not None:
        layout.copy_source(job.source, folders.code, leave_out=output)
        # What SDK v2 local mode adds; the last three may be chosen otherwise.
        hyperparameters |= {"sagemaker_program": job.entry, "sagemaker_submit_directory": layout.CODE}
        hyperparameters.setdefault("sagemaker_container_log_level", 20)
        hyperparameters.setdefault("sagemaker_job_name", job.name)
        hyperparameters.setdefault("sagemaker_region", job.region)
    documents: dict[str, Any] = {
        "hyperparameters": layout.encode_hyperparameters(hyperparameters, raw=job.raw_hyperparameters),
        "resourceconfig": cluster.resource_config(host, job.placed()),
        "inputdataconfig": layout.input_data_config([channel for channel, *_ in job.channels_of(host)]),
        "metric-definition-regex": {metric.name: metric.regex for metric in job.metrics},
    }
    if checkpoints is not None:
        checkpoints.restore(folders.checkpoints)
        documents["checkpointconfig"] = {"LocalPath": f"{job.checkpoint_path.rstrip('/')}/", "S3Uri": checkpoints.uri}
    layout.write_configs(folders.config, documents)
    return folders


def need_gpus(engine: Engine, job: TrainingJob) -> None:
    """Raises NoDeviceError when the engine cannot give the GPUs that are asked for, before anything is brought here.

    Only a start tells: what the engine says of its runtimes leaves out what `--gpus` itself looks for.
    """
    if not job.gpus:
        return
    with engine.run() as run:
        probe = run.create(ContainerSpec(image=job.image, name="gpus", entrypoint=("true",), gpus=_gpus(job)))
        with contextlib.suppress(EngineError):  # an image without `true`: the devices were there all the same
            probe.start()
            probe.wait()


def _gpus(job: TrainingJob) -> bool | int:
    return job.gpus == "all" or int(job.gpus or 0)


def _limits(job: TrainingJob) -> tuple[Ulimit, ...]:
    asked = {limit.name for limit in job.ulimits}
    return (*job.ulimits, *(limit for limit in _ULIMITS if limit.name not in asked))


def _start(
    run: Run, spec: ContainerSpec, job: TrainingJob, notes: list[str]
) -> tuple[Container, Iterator[tuple[str, bytes]]]:
    """Start a container, its output already followed."""
    container = run.create(spec)
    output = container.attach()
    try:
        container.start()
    except LimitsRefused:
        if spec.ulimits == job.ulimits:
            raise
        container.remove()
        notes.append(f"{spec.name} has the engine's own limits (nofile, memlock, …): the engine may not raise them")
        return _start(run, replace(spec, ulimits=job.ulimits), job, notes)
    return container, output


def _environment(job: TrainingJob) -> dict[str, str]:
    partition = (
        "aws-cn" if job.region.startswith("cn-") else "aws-us-gov" if job.region.startswith("us-gov-") else "aws"
    )
    return {
        "AWS_REGION": job.region,
        **job.environment,
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": f"arn:{partition}:sagemaker:{job.region}:{_ACCOUNT}:training-job/{job.name}",
        **({warm_pool.VARIABLE: warm_pool.CACHE} if job.warm_pool is not None else {}),
    }
