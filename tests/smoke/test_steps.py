"""What the numbers of each smoke step must be."""

from __future__ import annotations

from typing import Any

import pytest

Numbers = dict[str, Any]

# The largest error of a product of 192 numbers each, as a part of the largest value: a few units in the last place of
# the type (2^-24, 2^-11 for TF32 and half, 2^-8), for sums whose order is the library's own affair. Half has more room:
# some libraries add up in it.
PRECISION = {"fp32": 2e-6, "tf32": 2e-3, "fp16": 1e-2, "bf16": 1.6e-2}
FLOAT32 = 1e-4
BACKENDS = {("torch", "cpu"): "gloo", ("torch", "cuda"): "nccl", ("tensorflow", "cuda"): "nccl"}


def within(numbers: Numbers, limit: float, *names: str) -> None:
    """Hold numbers to a limit. What is no number (nan, inf) is beyond every limit."""
    beyond = {
        name: numbers[name]
        for name in names
        if not (isinstance(numbers[name], (int, float)) and abs(numbers[name]) <= limit)
    }
    assert not beyond, f"more than {limit:g}: " + ", ".join(f"{name} {value}" for name, value in beyond.items())


def test_device_toolkit(numbers: Numbers, device: str) -> None:
    assert numbers["sum"] == 499500.0, f"0 + 1 + … + 999 is {numbers['sum']}, not 499500"
    if device == "cpu":
        assert numbers["threads"] >= 1, f"it computes in {numbers['threads']} threads"
        assert numbers.get("onednn", True), "the framework was built without its fast kernels (oneDNN)"
        return
    assert numbers["gpus"] >= 1, "the framework sees no GPU"
    assert numbers["driver"], "the driver's version cannot be asked: libnvidia-ml.so.1 is not there"
    if numbers.get("driver_cuda") and numbers.get("cuda"):
        major = int(str(numbers["cuda"]).partition(".")[0])
        serves = numbers["driver_cuda"] // 1000
        assert serves >= major, f"driver {numbers['driver']} serves CUDA {serves}, the framework brings {major}"
    if numbers.get("compiled_for"):
        capability = str(numbers["capability"]).replace(".", "")
        assert runs_on(numbers["compiled_for"], int(capability)), (
            f"the GPU is sm_{capability}, the framework holds code for {' '.join(numbers['compiled_for'])}"
        )


def runs_on(architectures: list[str], capability: int) -> bool:
    """Whether code runs on a GPU: machine code of its major version, or code that the driver compiles (PTX)."""
    for name in architectures:
        kind, _, number = name.partition("_")
        compiled = int("".join(char for char in number if char.isdigit()) or 0)
        if compiled <= capability and (kind == "compute" or compiled // 10 == capability // 10):
            return True
    return False


def test_libraries_locked(numbers: Numbers, pins: dict[str, str]) -> None:
    held = numbers["packages"]
    imported = numbers["imported"]
    shadowed = {name: version for name, version in imported.items() if not same(held.get(name, version), version)}
    assert not shadowed, "imported is another version than the installed package: " + ", ".join(
        f"{name} {version}, installed {held[name]}" for name, version in shadowed.items()
    )
    if not pins:
        pytest.skip("no lock is known; name one with --lock")
    other = [
        f"{name} {held.get(name, 'is not installed')}, locked {pin}"
        for name, pin in pins.items()
        if not same(held.get(name, ""), pin)
    ]
    assert not other, "; ".join(other)


def same(one: str, other: str) -> bool:
    """Whether two versions are one. Either may leave out the local part (`+cpu`), as indexes and wheels do."""
    return other in (one, one.partition("+")[0]) or one == other.partition("+")[0]


def test_numerics_precision(numbers: Numbers, device: str) -> None:
    assert "fp32" in numbers and (device == "cpu" or "tf32" in numbers)
    for name, limit in PRECISION.items():
        if name in numbers:
            within(numbers, limit, name)
    types = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
    wrong = {name: numbers[f"{name}_type"] for name in types if numbers.get(f"{name}_type", types[name]) != types[name]}
    assert not wrong, f"results are of another type: {wrong}"


def test_numerics_convolution(numbers: Numbers) -> None:
    within(numbers, 1e-5, "output", "image_gradient", "kernel_gradient")


def test_device_memory(numbers: Numbers) -> None:
    assert numbers["peak_mib"] >= numbers["block_mib"] / 2, f"the block took {numbers['peak_mib']} MiB: not measured"
    # The last block may stay until the next one is wanted; a leak is all of them.
    within(numbers, numbers["block_mib"] * 1.5, "missing_mib", "missing_on_device_mib")


def test_device_transfer(numbers: Numbers, device: str) -> None:
    assert numbers["different"] == 0, f"{numbers['different']} of the numbers came back changed"
    if device == "cuda" and "pinned" in numbers:
        assert numbers["pinned"], "memory could not be pinned"


def test_collectives_sums(numbers: Numbers, device: str) -> None:
    ranks = numbers["ranks"]
    wanted = ranks * (ranks + 1) / 2
    assert numbers["sums"] == [wanted] * ranks, f"the sum over {ranks} ranks is {numbers['sums']}, not {wanted}"
    if "gathered" in numbers:
        assert numbers["gathered"] == [[rank + 1.0 for rank in range(ranks)]] * ranks, f"gathered {numbers['gathered']}"
        assert numbers["broadcast"] == [7.0] * ranks, f"broadcast {numbers['broadcast']}"
    backend = BACKENDS.get((numbers["framework"].partition(" ")[0], device))
    assert backend in (None, numbers["backend"]), f"over {numbers['backend']}, not {backend}"


def test_compiling_graph(numbers: Numbers) -> None:
    within(numbers, FLOAT32, "output", "gradient", "again")
    assert numbers["graphs"] == 1, f"{numbers['graphs']} graphs were captured, not 1"


def test_compiling_code(numbers: Numbers) -> None:
    within(numbers, FLOAT32, "output", "gradient", "again")
    assert numbers["graphs"] == 1, f"{numbers['graphs']} graphs were compiled, not 1"


def test_training_step(numbers: Numbers) -> None:
    within(numbers, 100.0, "first_loss", "last_loss")
    first, last = numbers["first_loss"], numbers["last_loss"]
    assert last < first / 2, f"after {numbers['steps']} steps the loss is {last:.3g}, from {first:.3g}"


def test_training_checkpoint(numbers: Numbers) -> None:
    assert numbers["tensors"] >= 4, f"{numbers['tensors']} tensors were saved"
    assert numbers["different"] == 0, f"{numbers['different']} of {numbers['tensors']} tensors came back changed"
    assert numbers["answers_equal"], "the restored net answers otherwise"


def test_training_loader(numbers: Numbers) -> None:
    assert numbers["samples"] == 96, f"{numbers['samples']} of 96 samples came"
    assert numbers["in_order"], "the samples came in another order, or changed"
    assert numbers.get("workers", 2) == 2, f"{numbers['workers']} workers read, not 2"


def test_serving_equal(numbers: Numbers, device: str) -> None:
    assert numbers["answers"] == 3
    assert numbers.get("model_on", device) == device, f"the model is on {numbers['model_on']}"
    within(numbers, FLOAT32, "difference")


def test_serving_pipeline(numbers: Numbers, device: str) -> None:
    assert numbers["texts"] == 4, f"{numbers['texts']} of 4 texts were answered"
    assert numbers["labels_different"] == 0, f"{numbers['labels_different']} labels differ from the CPU's"
    within(numbers, 1e-3, "difference")
    assert numbers.get("model_on", device) == device, f"the model is on {numbers['model_on']}"
