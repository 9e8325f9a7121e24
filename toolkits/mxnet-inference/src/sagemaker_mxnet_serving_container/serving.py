"""What ``serve`` calls in an MXNet image."""

from __future__ import annotations

import os

from sagemaker_inference import model_server

HANDLER_SERVICE = "sagemaker_mxnet_serving_container.handler_service"

# One thread a worker: MXNet's engine otherwise starts as many as there are CPUs in each of them.
ONE_THREAD = (
    "MXNET_CPU_WORKER_NTHREADS",
    "MXNET_CPU_PRIORITY_NTHREADS",
    "MXNET_KVSTORE_REDUCTION_NTHREADS",
    "OMP_NUM_THREADS",
)


def main() -> None:
    """Serves until the platform stops the container. The process ends with the server's exit status."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    model_server.start_model_server(handler_service=HANDLER_SERVICE)
