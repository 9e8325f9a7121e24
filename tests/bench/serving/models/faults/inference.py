"""A request that takes as long as it says, and a model that can be bad; the framework is imported as for any model."""

import json
import os
import time

import torch


def model_fn(model_dir):
    if os.environ.get("BENCH_BAD"):
        raise RuntimeError("the weights are bad")
    return torch.nn.Linear(8, 8)


def transform_fn(model, data, content_type, accept):
    print("begun", data, flush=True)
    time.sleep(json.loads(data)["seconds"])
    return json.dumps({"done": True}), "application/json"
