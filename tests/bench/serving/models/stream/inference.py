"""As many chunks as were asked for, which cost nothing to make."""

import json

CHUNK = b"x" * 64


def model_fn(model_dir):
    return None


def transform_fn(model, data, content_type, accept):
    chunks = json.loads(data)["chunks"]

    def made():
        for _ in range(chunks):
            yield CHUNK

    return made(), "application/octet-stream"
