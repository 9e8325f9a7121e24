"""What came of a training job: status, failure reason, artefacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipway.emulator import layout
from slipway.emulator.following import Follower
from slipway.emulator.history import History
from slipway.emulator.job import HostResult, TrainingJob, TrainingResult


def gather(
    job: TrainingJob, follower: Follower, output: Path, history: History, refusal: str, notes: Sequence[str]
) -> TrainingResult:
    """Say how the job ended, and pack what it left. `refusal`: why what it left could not be kept; else empty."""
    seconds = history.seconds()
    hosts = [
        HostResult(host.name, host.exit.code, host.exit.out_of_memory, host.log) for host in follower.hosts if host.exit
    ]
    failed = next((host for host in hosts if host.name == follower.first_failed), None)
    stopped = follower.stopped_by not in ("", "failure")
    failure = ""
    if failed is not None and not stopped:
        texts = [layout.failure_text(host.folders.failure) for host in follower.hosts if host.name == failed.name]
        failure = "AlgorithmError: " + (texts[0] or f"Exit Code: {failed.exit_code}")
    elif refusal:
        failure = f"ClientError: Artifact upload failed: {refusal}"
    model, artefacts = output / "model.tar.gz", output / "output.tar.gz"
    history.enter("Uploading")
    told = [*dict.fromkeys(notes), *layout.pack([host.folders.model for host in follower.hosts], model)]
    told += layout.pack([host.folders.output_data for host in follower.hosts], artefacts)
    told += [f"{host.name} ran out of memory" for host in hosts if host.out_of_memory]
    told += [f"{host.name}: {host.problem}" for host in follower.hosts if host.problem]
    status = "Failed" if failure else "Stopped" if stopped else "Completed"
    history.enter("MaxRuntimeExceeded" if follower.stopped_by == "time limit" and stopped else status, failure)
    return TrainingResult(
        name=job.name,
        status=status,
        exit_code=failed.exit_code if failed is not None else 0,
        failure_reason=failure,
        stopped_by=follower.stopped_by if stopped else "",
        seconds=seconds,
        hosts=tuple(hosts),
        metrics=follower.hear.meter.summaries(),
        final_metric_data_list=follower.hear.meter.finals(),
        problems=follower.hear.meter.problems(),
        model=model if model.exists() else None,
        output=artefacts if artefacts.exists() else None,
        notes=tuple(told),
        transitions=tuple(history.transitions),
    )
