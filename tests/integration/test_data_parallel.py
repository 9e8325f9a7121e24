"""DATA_PARALLEL of accelerate: the real one, from PyPI, in an image that has no proprietary library."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import process
from slipway.engine.docker import ContainerSpec, Engine

from .training_hosts import Cluster, build_image, training_image

pytestmark = pytest.mark.integration

# What accelerate's own client asks the service for, given its config file.
CLIENT = """\
import json, sys
from accelerate.commands.config.config_args import SageMakerConfig
from accelerate.commands.launch import launch_command_parser
from accelerate.utils.launch import prepare_sagemager_args_inputs
arguments = launch_command_parser().parse_args(
    ["--aws_access_key_id=none", "--aws_secret_access_key=none", "--mixed_precision=no", "train.py", "--steps", "6"]
)
arguments.dynamo_backend = "no"
config = SageMakerConfig(
    compute_environment="AMAZON_SAGEMAKER", distributed_type="DATA_PARALLEL", ec2_instance_type="ml.m5.large",
    iam_role_name="role", image_uri="image", num_machines=2, mixed_precision="no", use_cpu=False, debug=False,
)
estimator, _ = prepare_sagemager_args_inputs(config, arguments)
print("ESTIMATOR " + json.dumps({key: estimator[key] for key in ("hyperparameters", "environment", "distribution")}))
"""

TRAIN = """\
import argparse, json, torch
from accelerate import Accelerator
from accelerate.utils import set_seed
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
steps = parser.parse_args().steps
accelerator = Accelerator()
set_seed(0)
inputs = torch.randn(8 * steps, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
if accelerator.process_index:
    # Only what accelerate sends makes the ranks equal.
    torch.nn.init.zeros_(model[0].weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(data, batch_size=8 // accelerator.num_processes)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
weights = [value.item() for p in accelerator.unwrap_model(model).parameters() for value in p.detach().flatten()]
told = {"rank": accelerator.process_index, "world": accelerator.num_processes, "losses": losses, "weights": weights}
print("RESULT " + json.dumps(told), flush=True)
accelerator.end_training()
"""


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    context = tmp_path_factory.mktemp("accelerate")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", context / "wheels"]
    # Without its requirement of torch, which the image has.
    process.run([*pip, "--no-deps", "accelerate"])
    process.run([*pip, "huggingface_hub", "safetensors", "psutil", "packaging", "pyyaml"])
    with training_image(engine, tmp_path_factory.mktemp("torch"), "pytorch") as torch:
        made = build_image(
            context,
            f"FROM {torch}",
            "RUN --mount=type=bind,target=/context"
            " python -m pip install --no-index --no-cache-dir --find-links /context/wheels accelerate",
        )
        yield made
        process.run(["docker", "image", "rm", "--force", made], check=False)


@pytest.fixture(scope="module")
def estimator(engine: Engine, image: str) -> dict[str, Any]:
    """What accelerate's client asks for."""
    with engine.run() as run:
        spec = ContainerSpec(image=image, name="client", command=("python", "-c", CLIENT))
        client = run.create(spec)
        output = client.attach()
        client.start()
        text = "".join(block.decode() for _, block in output)
    told = [line for line in text.splitlines() if line.startswith("ESTIMATOR ")]
    assert told, text
    return dict(json.loads(told[0].partition(" ")[2]))


def results(cluster: Cluster) -> list[dict[str, Any]]:
    found = [json.loads(line.partition(" ")[2]) for line in cluster.printed("RESULT ")]
    return sorted(found, key=lambda result: result["rank"])


def test_two_hosts_train_as_one_process_does(
    engine: Engine, image: str, estimator: dict[str, Any], tmp_path: Path
) -> None:
    assert estimator["distribution"] == {"smdistributed": {"dataparallel": {"enabled": True}}}
    both = Cluster(engine, image, tmp_path / "both")
    # What the SDK makes of that distribution.
    distribution = {
        "sagemaker_distributed_dataparallel_enabled": True,
        "sagemaker_distributed_dataparallel_custom_mpi_options": "",
        "sagemaker_instance_type": "ml.m5.large",
    }
    source = both.source(train=TRAIN)
    done = both.run(source, {**estimator["hyperparameters"], **distribution}, environment=estimator["environment"])
    assert done.status == "Completed", done.failure_reason
    first, second = results(both)
    assert first["world"] == 2
    assert first["weights"] == second["weights"]
    assert first["losses"] == second["losses"]
    # Each host's log names the transport, and names it once.
    assert sorted(line.host for line in both.lines if "gloo" in line.text) == ["algo-1", "algo-2"]

    alone = Cluster(engine, image, tmp_path / "alone")
    done = alone.run(source, {"steps": 6}, hosts=1, environment={"ACCELERATE_USE_CPU": "true"})
    assert done.status == "Completed", done.failure_reason
    (single,) = results(alone)
    assert single["world"] == 1
    assert single["losses"] == pytest.approx(first["losses"], rel=1e-5)
    assert single["weights"] == pytest.approx(first["weights"], rel=1e-5)
    assert single["losses"][-1] < single["losses"][0]
