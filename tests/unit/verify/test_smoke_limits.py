"""The limits of the smoke steps: what a sound device measures passes, each thing that may be wrong with it does not.

The numbers of a GPU are judged here too, where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.smoke import test_steps as steps

ABOUT = {"framework": "torch 2.14.1", "device": "NVIDIA X", "driver": "580.1"}
GPU = {
    "sum": 499500.0,
    "gpus": 2,
    "capability": "9.0",
    "compiled_for": ["sm_80", "sm_90", "compute_90"],
    "cuda": "13.0",
    "driver_cuda": 13000,
}
GOOD: dict[str, dict[str, Any]] = {
    "device_toolkit": GPU,
    "device_memory": {"block_mib": 128, "peak_mib": 128, "missing_mib": 0, "missing_on_device_mib": 2},
    "device_transfer": {"different": 0, "pinned": True},
    "libraries_locked": {"packages": {"torch": "2.14.1+cu130", "numpy": "2.0"}, "imported": {"torch": "2.14.1+cu130"}},
    "numerics_precision": {"fp32": 1e-6, "tf32": 1e-3, "fp16": 1e-3, "bf16": 1e-2, "bf16_type": "bfloat16"},
    "numerics_convolution": {"output": 1e-6, "image_gradient": 1e-6, "kernel_gradient": 1e-6},
    "collectives_sums": {
        "ranks": 2,
        "backend": "nccl",
        "sums": [3.0, 3.0],
        "gathered": [[1.0, 2.0], [1.0, 2.0]],
        "broadcast": [7.0, 7.0],
    },
    "compiling_graph": {"output": 0.0, "gradient": 0.0, "again": 0.0, "graphs": 1},
    "compiling_code": {"output": 0.0, "gradient": 0.0, "again": 0.0, "graphs": 1},
    "training_step": {"steps": 60, "first_loss": 1.1, "last_loss": 0.1},
    "training_checkpoint": {"tensors": 16, "different": 0, "answers_equal": True},
    "training_loader": {"samples": 96, "in_order": True, "workers": 2},
    "serving_equal": {"answers": 3, "difference": 1e-7},
    "serving_pipeline": {"texts": 4, "labels_different": 0, "difference": 1e-6, "model_on": "cuda"},
}
PINS = {"torch": "2.14.1", "numpy": "2.0"}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("device_toolkit", {"sum": 499501.0}, "not 499500"),
    ("device_toolkit", {"gpus": 0}, "sees no GPU"),
    ("device_toolkit", {"driver": ""}, "libnvidia-ml"),
    ("device_toolkit", {"driver_cuda": 12080}, "serves CUDA 12, the framework brings 13"),
    ("device_toolkit", {"capability": "7.0"}, "the GPU is sm_70"),
    ("device_toolkit", {"capability": "10.0", "compiled_for": ["sm_90"]}, "the GPU is sm_100"),
    ("device_memory", {"missing_mib": 1024}, "missing_mib 1024"),
    ("device_memory", {"missing_on_device_mib": 1000}, "missing_on_device_mib"),
    ("device_memory", {"peak_mib": 0}, "not measured"),
    ("device_transfer", {"different": 1}, "came back changed"),
    ("device_transfer", {"pinned": False}, "pinned"),
    ("libraries_locked", {"imported": {"torch": "2.0"}}, "imported is another version"),
    ("libraries_locked", {"imported": {"torch": "2.14.1+cpu"}}, "torch 2.14.1+cpu, installed 2.14.1+cu130"),
    ("libraries_locked", {"packages": {"torch": "2.14.1+cu130"}}, "numpy is not installed, locked 2.0"),
    ("libraries_locked", {"packages": {"torch": "2.14.1+cu130", "numpy": "2.1"}}, "numpy 2.1, locked 2.0"),
    *(("numerics_precision", {name: value}, name) for name in steps.PRECISION for value in (0.1, "nan")),
    ("numerics_precision", {"bf16_type": "float32"}, "another type"),
    *(("numerics_convolution", {name: "nan"}, name) for name in GOOD["numerics_convolution"]),
    ("collectives_sums", {"sums": [3.0, 1.0]}, "the sum over 2 ranks"),
    ("collectives_sums", {"gathered": [[1.0, 2.0], [2.0, 1.0]]}, "gathered"),
    ("collectives_sums", {"broadcast": [7.0, 8.0]}, "broadcast"),
    ("collectives_sums", {"backend": "gloo"}, "not nccl"),
    *((step, {"gradient": 1.0}, "gradient") for step in ("compiling_graph", "compiling_code")),
    *((step, {"graphs": 0}, "0 graphs") for step in ("compiling_graph", "compiling_code")),
    ("training_step", {"last_loss": 1.0}, "the loss is 1"),
    ("training_step", {"last_loss": "nan"}, "last_loss nan"),
    ("training_checkpoint", {"different": 1}, "1 of 16 tensors"),
    ("training_checkpoint", {"answers_equal": False}, "answers otherwise"),
    ("training_checkpoint", {"tensors": 0}, "0 tensors"),
    ("training_loader", {"samples": 88}, "88 of 96"),
    ("training_loader", {"in_order": False}, "another order"),
    ("training_loader", {"workers": 0}, "0 workers"),
    ("serving_equal", {"difference": 0.1}, "difference"),
    ("serving_equal", {"model_on": "cpu"}, "the model is on cpu"),
    ("serving_pipeline", {"labels_different": 1}, "1 labels differ"),
    ("serving_pipeline", {"difference": "inf"}, "difference inf"),
    ("serving_pipeline", {"model_on": "cpu"}, "the model is on cpu"),
    ("serving_pipeline", {"texts": 0}, "0 of 4"),
]


def judge(step: str, numbers: dict[str, Any], device: str = "cuda") -> None:
    function: Callable[..., None] = getattr(steps, f"test_{step}")
    given = {"numbers": {**ABOUT, **numbers}, "device": device, "pins": PINS}
    function(**{name: given[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]})


@pytest.mark.parametrize("step", GOOD)
def test_sound_numbers_pass(step: str) -> None:
    judge(step, GOOD[step])


@pytest.mark.parametrize(("step", "change", "said"), WRONG)
def test_a_wrong_number_does_not(step: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(AssertionError) as failed:
        judge(step, {**GOOD[step], **change})
    assert said in str(failed.value)


def test_every_step_has_its_limits() -> None:
    judged = {name.removeprefix("test_") for name in vars(steps) if name.startswith("test_")}
    assert judged == set(GOOD) == {step for step, _, _ in WRONG}


def test_a_cpu_is_judged_by_what_it_has() -> None:
    judge("device_toolkit", {"sum": 499500.0, "threads": 2, "onednn": True}, "cpu")
    judge("device_transfer", {"different": 0, "pinned": False}, "cpu")
    with pytest.raises(AssertionError, match="oneDNN"):
        judge("device_toolkit", {"sum": 499500.0, "threads": 2, "onednn": False}, "cpu")


def test_a_gpu_runs_code_of_its_major_version_and_what_the_driver_can_compile() -> None:
    assert steps.runs_on(["sm_80"], 86) and steps.runs_on(["sm_90a"], 90) and steps.runs_on(["compute_70"], 120)
    assert not steps.runs_on(["sm_86"], 80) and not steps.runs_on(["compute_90"], 80) and not steps.runs_on([], 80)


def test_a_wheel_may_leave_out_which_build_it_is() -> None:
    packages = {"torch": "2.14.1", "numpy": "2.0"}
    judge("libraries_locked", {"packages": packages, "imported": {"torch": "2.14.1+cu130"}})
    judge("libraries_locked", {"packages": packages, "imported": {"torch": "2.14.1"}})
