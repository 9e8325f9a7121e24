"""User code that leaves every content type to the toolkit, where that knows any."""


def model_fn(model_dir):
    try:
        import mxnet
    except ImportError:
        return model_dir
    # The kind of the model decides which defaults MXNet images take.
    return mxnet.gluon.nn.HybridLambda(lambda functions, data: data)


def predict_fn(data, model):
    values = data.get("inputs", data) if isinstance(data, dict) else data
    values = values.asnumpy() if hasattr(values, "asnumpy") else values
    return values.tolist() if hasattr(values, "tolist") else values


def handler(data, context):
    return data.read(), context.request_content_type
