"""What stands in for TensorFlow: sessions whose models are a line of numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sagemaker_tensorflow_serving_container import native, wire

FLOAT, INT32, STRING, INT64, BOOL = 1, 3, 7, 9, 10


def tensor_info(name: str, dtype: int, shape: tuple[int, ...] | None) -> bytes:
    if shape is None:
        dims = wire.number(3, 1)
    else:
        dims = b"".join(wire.message(2, wire.number(1, size & (2**64 - 1))) for size in shape)
    return wire.message(1, name.encode()) + wire.number(2, dtype) + wire.message(3, dims)


def signature(method: str, inputs: dict[str, bytes], outputs: dict[str, bytes]) -> bytes:
    content = wire.message(3, method.encode())
    for field, tensors in ((1, inputs), (2, outputs)):
        for name, info in tensors.items():
            content += wire.message(field, wire.message(1, name.encode()) + wire.message(2, info))
    return content


def meta_graph(signatures: dict[str, bytes]) -> bytes:
    """With fields around the signatures, as a real one has."""
    entries = b"".join(
        wire.message(5, wire.message(1, name.encode()) + wire.message(2, content))
        for name, content in signatures.items()
    )
    return wire.message(1, b"\x0a\x00") + entries + wire.fixed64(9, b"\0" * 8)


_X = tensor_info("x:0", FLOAT, (-1,))
_EXAMPLES = tensor_info("examples:0", STRING, (-1,))

META_GRAPH = meta_graph(
    {
        "serving_default": signature("tensorflow/serving/predict", {"x": _X}, {"y": tensor_info("y:0", FLOAT, (-1,))}),
        "both": signature(
            "tensorflow/serving/predict",
            {"x": _X, "n": tensor_info("n:0", INT64, (-1, 2))},
            {
                "y": tensor_info("y:0", FLOAT, (-1,)),
                "sum": tensor_info("sum:0", INT64, (-1,)),
                "raw_bytes": tensor_info("raw:0", STRING, (-1,)),
            },
        ),
        "text": signature(
            "tensorflow/serving/predict",
            {"text": tensor_info("text:0", STRING, None)},
            {"length": tensor_info("length:0", INT32, None)},
        ),
        "scalar": signature("tensorflow/serving/predict", {"x": _X}, {"mean": tensor_info("mean:0", FLOAT, ())}),
        "regress": signature(
            "tensorflow/serving/regress", {"inputs": _EXAMPLES}, {"outputs": tensor_info("size:0", FLOAT, (-1, 1))}
        ),
        "classify": signature(
            "tensorflow/serving/classify",
            {"inputs": _EXAMPLES},
            {
                "classes": tensor_info("classes:0", STRING, (-1, 2)),
                "scores": tensor_info("scores:0", FLOAT, (-1, 2)),
            },
        ),
        "__saved_model_init_op": signature("", {}, {"init": tensor_info("NoOp", 0, None)}),
    }
)


class Session:
    """y = x / 2 + the version's number. Raises NativeError for 13, memory error for 1e9."""

    made: list[Session] = []  # noqa: RUF012 - one list for all

    def __init__(self, path: str, config: bytes = b"") -> None:
        if (Path(path) / "saved_model.pb").stat().st_size:
            raise native.NativeError(3, "no SavedModel")
        self.path = path
        self.config = config
        self.meta_graph = META_GRAPH
        self.closed = False
        self.runs = 0
        Session.made.append(self)

    def place(self, name: str):
        return name

    def run(self, feeds, fetches):
        self.runs += 1
        fed = {place: array for place, array, _ in feeds}
        number = int(Path(self.path).name)
        made = {}
        if "x:0" in fed:
            x = fed["x:0"]
            if 13 in x:
                raise native.NativeError(3, "13 is\nno good")
            if 1e9 in x:
                raise native.NativeError(8, "OOM when allocating")
            made["y:0"] = native.Fetched((x / 2 + number).astype("float32"), FLOAT)
            made["mean:0"] = native.Fetched(np.array(x.mean(), "float32"), FLOAT)
            made["raw:0"] = native.Fetched(objects([str(value).encode() for value in x.tolist()]), STRING)
        if "n:0" in fed:
            made["sum:0"] = native.Fetched(fed["n:0"].sum(axis=-1), INT64)
        if "text:0" in fed:
            sizes = [len(value) for value in fed["text:0"].ravel().tolist()]
            made["length:0"] = native.Fetched(np.array(sizes, "int32").reshape(fed["text:0"].shape), INT32)
        if "examples:0" in fed:
            sizes = [len(value) for value in fed["examples:0"].tolist()]
            made["size:0"] = native.Fetched(np.array(sizes, "float32")[:, None], FLOAT)
            made["classes:0"] = native.Fetched(objects([b"a", b"b"] * len(sizes)).reshape(-1, 2), STRING)
            made["scores:0"] = native.Fetched(np.array([[0.25, 0.75]] * len(sizes), "float32"), FLOAT)
        return [made[place] for place in fetches]

    def close(self) -> None:
        self.closed = True


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
