"""Which device a worker computes on, with a stand-in for PyTorch and its GPUs."""

from __future__ import annotations

import logging

import pytest
from sagemaker_pytorch_serving_container import device


@pytest.mark.parametrize(
    ("count", "wanted", "found"),
    [
        (0, None, "cpu"),
        (0, 1, "cpu"),
        (1, None, "cuda:0"),
        (2, None, "cuda:0"),
        (2, 0, "cuda:0"),
        (2, 1, "cuda:1"),
        (2, "1", "cuda:1"),
        (2, 3, "cuda:1"),
        (2, "", "cuda:0"),
        (2, -1, "cuda:0"),
    ],
)
def test_a_worker_has_the_gpu_that_it_was_given(torch, count, wanted, found):
    torch.cuda.count = count
    assert device.of_worker({"gpu_id": wanted}) == found
    assert torch.cuda.current == (found if count else None), "code that asks for cuda alone must get the same"


def test_without_properties_the_first_gpu_serves(torch):
    torch.cuda.count = 2
    assert device.of_worker({}) == "cuda:0"


def test_a_model_on_a_gpu_is_not_forked(torch, monkeypatch):
    monkeypatch.setenv("SLIPWAY_PRELOAD", "true")
    assert device.of_worker({}) == "cpu"
    torch.cuda.count = 1
    with pytest.raises(ValueError, match=r"SLIPWAY_PRELOAD .* cannot be forked"):
        device.of_worker({"gpu_id": 0})


@pytest.mark.parametrize("text", ["true", "True"])
def test_the_retired_accelerator_means_the_cpu(torch, monkeypatch, caplog, text):
    torch.cuda.count = 1
    monkeypatch.setenv(device.ACCELERATOR_ENV, text)
    assert device.of_worker({"gpu_id": 0}) == "cpu"
    assert "retired" in caplog.text


@pytest.mark.parametrize(
    ("cuda", "said"), [(None, "is a build for CPUs: choose the GPU image"), ("13.0", "compare the driver's version")]
)
def test_a_gpu_that_is_not_used_is_told(torch, monkeypatch, caplog, cuda, said):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(device.glob, "glob", lambda pattern: ["/dev/nvidia0", "/dev/nvidia1"])
    torch.version.cuda = cuda
    with caplog.at_level(logging.WARNING):
        assert device.of_worker({}) == "cpu"
    assert "The host has 2 GPU(s), and the model runs on the CPU" in caplog.text
    assert said in caplog.text


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_cuda_s_variable_keeps_a_model_off_the_gpus(torch, monkeypatch, caplog, hidden):
    torch.cuda.count = 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    monkeypatch.setattr(device.glob, "glob", lambda pattern: ["/dev/nvidia0"])
    assert device.of_worker({}) == "cpu"
    assert caplog.text == ""
