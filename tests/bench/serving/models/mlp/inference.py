"""A small torch model, asked in JSON."""

import json

import torch


def model_fn(model_dir):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
    return torch.nn.Sequential(*layers).eval()


def input_fn(data, content_type):
    return torch.tensor(json.loads(data)["inputs"], dtype=torch.float32)


def predict_fn(data, model):
    with torch.inference_mode():
        return model(data)


def output_fn(prediction, accept):
    return json.dumps(prediction.tolist())
