"""A configuration with its two TSV files, as accelerate's users have them, and records of pushed images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.records import Push

OURS = "123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.13.0-cpu-py311-debian12-v1"
CONFIG: dict[str, Any] = {
    "base_job_name": "accelerate-sagemaker-1",
    "compute_environment": "AMAZON_SAGEMAKER",
    "distributed_type": "DATA_PARALLEL",
    "ec2_instance_type": "ml.p3.16xlarge",
    "iam_role_name": "X",
    "image_uri": OURS,
    "mixed_precision": "fp16",
    "num_machines": 1,
    "profile": "X",
    "py_version": "py38",
    "pytorch_version": "1.10.2",
    "region": "us-east-1",
    "sagemaker_inputs_file": "inputs.tsv",
    "sagemaker_metrics_file": "metrics.tsv",
    "transformers_version": "4.17.0",
    "use_cpu": False,
}
INPUTS = "channel_name\tdata_location\ntrain\ts3://bucket/train\ntest\ts3://bucket/test\n"
METRICS = "metric_name\tmetric_regex\naccuracy\t'accuracy': ([0-9.]+)\nf1\t'f1': ([0-9.]+)\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes configuration (changed as asked for; None removes a key) and TSV files into the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inputs.tsv").write_text(INPUTS)
    (tmp_path / "metrics.tsv").write_text(METRICS)

    def write(**changes: Any) -> Path:
        data = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
        path = Path("config.yaml")
        path.write_text(yaml.safe_dump(data))
        return path

    return write


def pushed(version: str = "2.13.0", number: int = 1, **changes: Any) -> Push:
    """The record of a pushed image."""
    registry = f"123456789012.dkr.ecr.{changes.get('region', 'us-east-1')}.amazonaws.com"
    processor, python = changes.get("processor", "cpu"), changes.get("python", "3.11")
    cell = f"{version}-{processor}-py{python.replace('.', '')}"
    values: dict[str, Any] = {
        "config_digest": "sha256:" + "a" * 64,
        "manifest_digest": "sha256:" + "b" * 64,
        "media_type": "application/vnd.oci.image.manifest.v1+json",
        "image": f"pytorch-training-{cell}",
        "framework": "pytorch",
        "version": version,
        "scope": "training",
        "processor": processor,
        "python": python,
        "registry": registry,
        "region": "us-east-1",
        "repository": "pytorch-training",
        "tag": f"{cell}-debian12-v{number}",
        "uri": f"{registry}/pytorch-training:{cell}-debian12-v{number}",
        "aliases": (f"{cell}-debian12", cell),
        "pushed_at": f"2026-01-0{number}T00:00:00Z",
    }
    return Push(**{**values, **changes})
