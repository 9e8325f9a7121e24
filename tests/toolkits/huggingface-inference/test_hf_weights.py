"""Which files of a repository are left out."""

from __future__ import annotations

import pytest
from sagemaker_huggingface_inference_toolkit import weights

REST = ["README.md", "config.json", "tokenizer.json", "vocab.txt", "code/inference.py", "spiece.model", "own.py"]


@pytest.mark.parametrize(
    "name",
    [
        "tf_model.h5",
        "tf_model-00001-of-00002.h5",
        "flax_model.msgpack",
        "rust_model.ot",
        "model.onnx",
        "onnx/model_quantized.onnx",
        "onnx/config.json",
        "openvino/openvino_model.bin",
        "coreml/text-classification/model.mlpackage/Data/weights.bin",
        "model.gguf",
        "saved_model/saved_model.pb",
        "pytorch_model.bin",
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model.bin.index.json",
        "original/consolidated.00.pth",
        "consolidated.safetensors",
        "optimizer.pt",
        "training_args.bin",
        "checkpoint-500/model.safetensors",
    ],
)
def test_other_weights_are_left_out_beside_safetensors(name):
    assert weights.unwanted([*REST, "model.safetensors", name]) == [name]


def test_without_safetensors_the_pickled_weights_are_wanted():
    assert weights.unwanted([*REST, "pytorch_model.bin", "tf_model.h5"]) == ["tf_model.h5"]


def test_shards_and_their_index_stay():
    names = [
        *REST,
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    assert weights.unwanted(names) == []


def test_pickled_weights_in_another_folder_stay():
    names = [*REST, "model.safetensors", "2_Dense/pytorch_model.bin", "1_Pooling/config.json"]
    assert weights.unwanted(names) == []


def test_where_no_weights_of_pytorch_are_everything_is_wanted():
    assert weights.unwanted([*REST, "model.onnx", "tf_model.h5"]) == []


def test_weights_in_their_makers_form_alone_stay():
    assert weights.unwanted([*REST, "consolidated.safetensors"]) == []


def test_diffusion_models_once():
    wanted = [
        "model_index.json",
        "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors",
        "vae/diffusion_pytorch_model.safetensors",
        "text_encoder/model.safetensors",
        "safety_checker/pytorch_model.bin",
    ]
    skipped = [
        "sd-v1-4.ckpt",
        "text_encoder/model.fp16.safetensors",
        "unet/diffusion_pytorch_model.bin",
        "unet/diffusion_pytorch_model.fp16.safetensors",
        "unet/diffusion_pytorch_model.non_ema.safetensors",
        "v1-5-pruned-emaonly.safetensors",
        "vae/diffusion_pytorch_model.fp16.bin",
    ]
    assert weights.unwanted([*wanted, *skipped]) == sorted(skipped)


def test_tensorflow_takes_its_own_weights_else_safetensors():
    names = [*REST, "model.safetensors", "pytorch_model.bin", "model.onnx"]
    assert weights.unwanted([*names, "tf_model.h5"], tensorflow=True) == names[-1:] + names[-3:-1]
    assert weights.unwanted(names, tensorflow=True) == ["model.onnx", "pytorch_model.bin"]
