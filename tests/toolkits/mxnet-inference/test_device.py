"""Which device a worker computes on, with a stand-in for MXNet and its GPUs."""

from __future__ import annotations

import pytest
from sagemaker_mxnet_serving_container import utils


@pytest.mark.parametrize(
    ("count", "wanted", "found"),
    [(0, None, "cpu"), (0, 1, "cpu"), (1, None, "gpu(0)"), (2, 1, "gpu(1)"), (2, "1", "gpu(1)"), (2, 3, "gpu(1)")],
)
def test_a_worker_has_the_gpu_that_it_was_given(mxnet, count, wanted, found):
    mxnet.count = count
    assert utils.get_default_context({"gpu_id": wanted}) == found


def test_without_properties_the_first_gpu_serves(mxnet):
    mxnet.count = 2
    assert utils.get_default_context() == "gpu(0)"


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_cuda_s_variable_keeps_a_model_off_the_gpus(mxnet, monkeypatch, hidden):
    mxnet.count = 2
    monkeypatch.setenv(utils.VISIBLE_ENV, hidden)
    assert utils.get_default_context({"gpu_id": 1}) == "cpu"
