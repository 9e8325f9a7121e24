"""The least that user code can do: what comes goes back."""


def model_fn(model_dir):
    return None


def input_fn(data, content_type):
    return data


def predict_fn(data, model):
    return data


def output_fn(prediction, accept):
    return prediction
