"""A parameter server, as a process of its own: only here is TensorFlow imported.

As a program: ``python -m sagemaker_tensorflow_container.parameter_server CLUSTER INDEX``, CLUSTER as JSON. It serves
until it is ended.

Rules: docs/contract/tensorflow-training.md, rows tf-ps-*.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Sequence

from sagemaker_training import errors, process

from sagemaker_tensorflow_container import cluster


def start(hosts: Sequence[str], current: str) -> None:
    """Starts the parameter server of this host. It ends with the job. Raises ClientError where its port is taken."""
    _check_port()
    description = json.dumps(cluster.parameter_server_cluster(hosts))
    command = [sys.executable, "-m", __name__, description, str(hosts.index(current))]
    # The devices are the script's.
    process.start_service(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})


def _check_port() -> None:
    import socket

    try:
        socket.create_server(("", cluster.PS_PORT)).close()
    except OSError as error:
        raise errors.ClientError(
            f"Port {cluster.PS_PORT}, on which the parameter server of this host listens, cannot be used: {error}."
        ) from error


def serve(description: str, index: int) -> None:
    import tensorflow as tf

    server = tf.distribute.Server(
        json.loads(description),
        job_name="ps",
        task_index=index,
        config=tf.compat.v1.ConfigProto(device_count={"GPU": 0}),
    )
    server.join()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
