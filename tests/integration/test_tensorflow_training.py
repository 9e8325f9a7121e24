"""TensorFlow jobs on two hosts: mirrored workers, parameter servers, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.emulator.job import TrainingJob, TrainingResult
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine

from .training_hosts import lose_a_host, start_hosts, training_image

pytestmark = pytest.mark.integration

MIRRORED = """\
import json, os
import numpy as np
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.keras.utils.set_random_seed(1)
inputs = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((inputs, inputs.sum(1, keepdims=True))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2) / strategy.num_replicas_in_sync
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

@tf.function
def train(batch):
    strategy.run(step, args=batch)

for batch in strategy.experimental_distribute_dataset(data):
    train(batch)
weights = np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
task = json.loads(os.environ["TF_CONFIG"])["task"]
print("worker", task["index"], "of", strategy.num_replicas_in_sync, "weights", weights.tobytes().hex(), flush=True)
if task["index"] == 0:
    model.export("/opt/ml/model/1", verbose=False)
"""

# Each process adds to variables that lie on the parameter servers of both hosts.
SERVED = """\
import json, os, sys, time
import tensorflow as tf
v1 = tf.compat.v1
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
server = tf.distribute.Server(config["cluster"], job_name=task["type"], task_index=task["index"])
with v1.Graph().as_default():
    shares = []
    for index in (0, 1):
        with tf.device(f"/job:ps/task:{index}"):
            shares.append(v1.get_variable(f"share-{index}", initializer=0.0, use_resource=True))
    add = [share.assign_add(index + 1.0) for index, share in enumerate(shares)]
    init, missing = v1.global_variables_initializer(), v1.report_uninitialized_variables()
    with v1.Session(server.target) as session:
        if task["type"] == "master":
            session.run(init)
        while len(session.run(missing)):
            time.sleep(0.1)
        session.run(add)
        print(task["type"], "added", flush=True)
        while task["type"] == "master" and session.run(shares)[0] < 2:
            time.sleep(0.1)
        if task["type"] == "master":
            time.sleep(3)
            print("shares", [float(share) for share in session.run(shares)], flush=True)
            sys.exit(int(sys.argv[sys.argv.index("--code") + 1]))
"""


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with training_image(engine, tmp_path_factory.mktemp("tensorflow"), "tensorflow") as made:
        yield made


def run(engine: Engine, image: str, folder: Path, script: str, **fields: Any) -> tuple[TrainingResult, list[str]]:
    """Runs a script on two hosts. Returns the result, and the lines of both hosts."""
    source = folder / "source"
    source.mkdir()
    (source / "train.py").write_text(script)
    lines: list[str] = []
    job = TrainingJob(image=image, source=source, entry="train.py", hosts=2, **fields)
    result = run_training(job, engine, folder / "out", on_line=lambda line: lines.append(line.text))
    return result, lines


def test_mirrored_workers_end_with_equal_weights(engine: Engine, image: str, tmp_path: Path) -> None:
    switch = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}
    result, lines = run(engine, image, tmp_path, MIRRORED, hyperparameters=switch)
    assert result.status == "Completed", result.failure_reason
    workers = sorted(line.split() for line in lines if line.startswith("worker "))
    assert [(words[1], words[3]) for words in workers] == [("0", "2"), ("1", "2")]
    assert workers[0][-1] == workers[1][-1]
    assert not [line for line in lines if "TensorFlow Serving" in line]


def test_parameter_servers_end_when_the_master_does(engine: Engine, image: str, tmp_path: Path) -> None:
    """Asked for by environment variable. The second host's script is through seconds before the first one's."""
    environment = {"SAGEMAKER_PARAMETER_SERVER_ENABLED": "true"}
    values = {"code": 0}
    result, lines = run(engine, image, tmp_path, SERVED, environment=environment, hyperparameters=values)
    assert result.status == "Completed", result.failure_reason
    assert {"master added", "worker added", "shares [2.0, 4.0]"} <= set(lines)
    assert any("/opt/ml/model is empty" in line for line in lines)


@pytest.mark.slow
def test_the_masters_failure_is_every_hosts(engine: Engine, image: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(SERVED)
    values = {"sagemaker_program": "train.py", "sagemaker_parameter_server_enabled": True, "code": 7}
    with start_hosts(engine, image, tmp_path, source, values) as (first, second):
        assert (first.end(), second.end()) == (7, 7)
        assert second.failure.startswith("The run ended on algo-1 with exit code 7")


def test_smdistributed_is_refused_on_every_host(engine: Engine, image: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text("print('never')")
    values = {"sagemaker_program": "train.py", "sagemaker_distributed_dataparallel_enabled": True}
    with start_hosts(engine, image, tmp_path, source, values) as running:
        for host in running:
            assert host.end() == 1
            assert "multi_worker_mirrored_strategy" in host.failure
            assert "never" not in host.lines


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_lost_host_ends_the_other(engine: Engine, image: str, tmp_path: Path, dies: int) -> None:
    lose_a_host(engine, image, tmp_path, {"sagemaker_multi_worker_mirrored_strategy_enabled": True}, dies)
