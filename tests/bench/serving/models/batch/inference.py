"""A model of which a batch of eight costs 1.2 times as much as one request. It waits, as for a GPU."""

import json
import time

ONE = 0.020
EIGHT = 1.2 * ONE


def model_fn(model_dir):
    return None


def input_fn(data, content_type):
    return json.loads(data)


def predict_fn(data, model):
    time.sleep(ONE)
    return data


def batch_predict_fn(data, model):
    time.sleep(ONE + (EIGHT - ONE) * (len(data) - 1) / 7)
    return data


def output_fn(prediction, accept):
    return json.dumps(prediction)
