"""User code that leaves every content type to the toolkit."""


def model_fn(model_dir):
    return model_dir


def predict_fn(data, model):
    values = data.get("inputs", data) if isinstance(data, dict) else data
    return values.tolist() if hasattr(values, "tolist") else values
