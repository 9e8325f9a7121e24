"""Checks of the TensorFlow toolkit with the real TensorFlow. See run.py."""

from __future__ import annotations

import base64
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf
from sagemaker_tensorflow_serving_container.models import ModelError
from serving import Folder, Served, Server, environ, failing, request
from tensorflow.core.protobuf import saved_model_pb2

SERVICE = "sagemaker_tensorflow_serving_container.handler_service"
MAIN = "sagemaker_tensorflow_serving_container.serving:main"
MODELS = Path(tempfile.mkdtemp())
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def spec(dtype: tf.DType, *shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec([None, *shape], dtype)


class Half(tf.Module):
    """y = x / 2 + b, as TensorFlow Serving's own example is; with a signature for each method."""

    def __init__(self, b: float) -> None:
        self.b = tf.Variable(b)

    @tf.function(input_signature=[spec(tf.float32)])
    def predict(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x * 0.5 + self.b}

    @tf.function(input_signature=[spec(tf.string)])
    def regress(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        x = tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]
        return {"outputs": (x * 0.5 + self.b)[:, None]}

    @tf.function(input_signature=[spec(tf.string)])
    def classify(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {
            "x": tf.io.FixedLenFeature([2], tf.float32),
            "n": tf.io.FixedLenFeature([], tf.int64),
            "label": tf.io.FixedLenFeature([], tf.string),
        }
        read = tf.io.parse_example(inputs, features)
        labels = tf.stack([read["label"], tf.strings.as_string(read["n"])], 1)
        return {"scores": read["x"], "classes": labels}

    @tf.function(input_signature=[spec(tf.string), spec(tf.int64, 2)])
    def mixed(self, text: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
        twice = tf.strings.join([text, text])
        return {"twice": twice, "raw_bytes": twice, "sum": tf.reduce_sum(n, 1), "positive": n > 0}


class Echo(tf.Module):
    """What comes in, for each type that has a JSON form."""

    def signatures(self) -> dict[str, object]:
        def echo(dtype: tf.DType) -> object:
            return tf.function(lambda x: {"y": x + x if dtype.is_floating else tf.identity(x)}).get_concrete_function(
                spec(dtype, None)
            )

        return {name: echo(tf.as_dtype(name)) for name in (*DTYPES, *FLOATS)}


class Vocabulary(tf.Module):
    """A table that is filled from a file of the model's when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = tf.saved_model.Asset(str(file))
        text = tf.lookup.TextFileInitializer(
            self.file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(text, -1)

    @tf.function(input_signature=[spec(tf.string)])
    def look_up(self, word: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"index": self.table.lookup(word)}


def save_half(path: Path, b: float) -> None:
    half = Half(b)
    names = ("regress", "classify", "mixed")
    signatures = {"serving_default": half.predict, **{name: getattr(half, name) for name in names}}
    tf.saved_model.save(half, str(path), signatures=signatures)
    # TensorFlow 2 has no way to say which method a signature is for; its estimators did.
    file = path / "saved_model.pb"
    read = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for name in ("regress", "classify"):
        read.meta_graphs[0].signature_def[name].method_name = f"tensorflow/serving/{name}"
    file.write_bytes(read.SerializeToString())


def save_of_tensorflow_1(path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        y = x * v1.get_variable("three", initializer=3.0)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": y})


def prepare() -> None:
    """Every model of these checks, made once."""
    save_half(MODELS / "half" / "1", 1.0)
    save_half(MODELS / "half" / "00002", 2.0)
    echo = Echo()
    tf.saved_model.save(echo, str(MODELS / "echo" / "1"), signatures=echo.signatures())
    words = MODELS / "words.txt"
    words.write_text("zero\none\ntwo\n")
    vocabulary = Vocabulary(words)
    tf.saved_model.save(
        vocabulary, str(MODELS / "vocabulary" / "1"), signatures={"serving_default": vocabulary.look_up}
    )
    save_of_tensorflow_1(MODELS / "old" / "1")
    keras.utils.set_random_seed(1)
    dense = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3), keras.layers.Flatten()])
    dense.add(keras.layers.Dense(3, activation="softmax"))
    dense.save(MODELS / "dense.keras")
    dense.export(MODELS / "exported" / "1", verbose=False)


prepare()


def folder(*names: str, code: str = "", **files: str) -> Folder:
    made = Folder(code, **files)
    for name in names:
        source = MODELS / name
        if source.is_dir():
            shutil.copytree(source, made.model / name)
        else:
            shutil.copy(source, made.model)
    return made


def ask(served: Served, value: object, attributes: str = "", content_type: str = "application/json") -> object:
    body = value if isinstance(value, str) else json.dumps(value)
    asked = request(body, content_type)
    headers = [*asked.headers.raw, (b"x-amzn-sagemaker-custom-attributes", attributes.encode())]
    (answer,) = served.ask_all([asked._replace(headers=type(asked.headers)(headers))])
    found = json.loads(answer.body)
    return found if answer.status == 200 else (answer.status, found["error"])


def test_versions_forms_and_signatures() -> None:
    served = folder("half", "old").load(SERVICE)
    assert ask(served, {"instances": [1, 2.0, 5]}) == {"predictions": [2.5, 3.0, 4.5]}
    assert ask(served, {"inputs": {"x": [0.2]}}, "tfs-model-version=1") == {"outputs": [1.1]}
    assert ask(served, "1\n2\n", content_type="text/csv") == {"predictions": [2.5, 3.0]}
    assert ask(served, [2.0], "tfs-model-name=old") == {"predictions": [[6.0]]}
    examples = {"signature_name": "regress", "examples": [{"x": 1.0}, {"x": [2.0]}]}
    assert ask(served, examples, "tfs-method=regress") == {"results": [2.5, 3.0]}
    shared = {"n": 7, "label": "é"}
    examples = {"signature_name": "classify", "context": shared, "examples": [{"x": [0.25, -1.5]}]}
    assert ask(served, examples, "tfs-method=classify") == {"results": [[["é", 0.25], ["7", -1.5]]]}


def test_texts_bytes_and_several_tensors() -> None:
    served = folder("half").load(SERVICE)
    long = "long " * 1000
    rows = [{"text": "a", "n": [1, -2]}, {"text": {"b64": base64.b64encode(long.encode()).decode()}, "n": [3, 4]}]
    found = ask(served, {"signature_name": "mixed", "instances": rows})
    assert found["predictions"][0] == {
        "positive": [True, False],
        "raw_bytes": {"b64": "YWE="},
        "sum": -1,
        "twice": "aa",
    }
    assert found["predictions"][1]["twice"] == long * 2
    binary = {"signature_name": "mixed", "inputs": {"text": [{"b64": "/w=="}], "n": [[1, 1]]}}
    assert ask(served, binary)[0] == 400
    assert "raw_bytes" not in ask(served, binary)[1]


def test_every_type_comes_back_as_it_went() -> None:
    served = folder("echo").load(SERVICE)
    limits = {name: [tf.as_dtype(name).min, 0, tf.as_dtype(name).max] for name in DTYPES if name != "bool"}
    for name in DTYPES:
        values = [[int(value) for value in limits[name]]] if name in limits else [[True, False]]
        assert ask(served, {"signature_name": name, "instances": values}) == {"predictions": values}, name
    for name in FLOATS:
        given = {"signature_name": name, "inputs": [[0.5, -2.0, 0.0]]}
        assert ask(served, given) == {"outputs": [[1.0, -4.0, 0.0]]}, name
        status, text = ask(served, {"signature_name": name, "instances": [["1"]]})
        assert (status, name in text) == (400, True)
    assert ask(served, {"signature_name": "float32", "instances": [[0.1]]}) == {"predictions": [[0.2]]}


def test_numbers_are_tensorflows_own() -> None:
    images = np.random.default_rng(0).normal(size=(5, 8, 8, 1)).astype("float32")
    model = keras.saving.load_model(MODELS / "dense.keras")
    expected = model.predict(images, verbose=0)
    for name in ("exported", "dense.keras"):
        found = ask(folder(name).load(SERVICE), {"instances": images.tolist()})
        np.testing.assert_allclose(np.array(found["predictions"], "float32"), expected, rtol=1e-5)


def test_tables_are_filled_from_the_models_files() -> None:
    assert ask(folder("vocabulary").load(SERVICE), {"instances": ["two", "x"]}) == {"predictions": [2, -1]}


def test_the_models_own_errors_are_passed_on() -> None:
    served = folder("exported").load(SERVICE)
    status, text = ask(served, {"instances": [[[[1.0]] * 8] * 9]})
    assert (status, "node" in text) == (400, True)


def test_a_tensor_of_another_rank_does_not_end_the_process() -> None:
    served = folder("exported").load(SERVICE)
    status, text = ask(served, {"instances": [[[1.0]]]})
    assert (status, "has shape [1, 1, 1]; the model takes [any, 8, 8, 1]" in text) == (400, True)
    assert len(ask(served, {"instances": np.zeros((1, 8, 8, 1)).tolist()})["predictions"][0]) == 3


def test_what_cannot_be_loaded_is_named() -> None:
    broken = folder("half")
    (broken.model / "half" / "1" / "saved_model.pb").write_bytes(b"nothing")
    with failing(ModelError, "half/1 cannot be loaded"):
        broken.load(SERVICE)
    incomplete = folder("half")
    shutil.rmtree(incomplete.model / "half" / "1" / "variables")
    with failing(ModelError, "half/1 cannot be loaded"):
        incomplete.load(SERVICE)
    no_keras = folder("half")
    (no_keras.model / "bad.keras").write_bytes(b"nothing")
    with failing(ModelError, "bad.keras cannot be loaded by Keras"):
        no_keras.load(SERVICE)


def test_requests_are_put_together() -> None:
    served = folder("half").load(SERVICE)
    bodies = ("1\n2", "x", "3")
    answers = served.ask_all([request(body, "text/csv") for body in bodies])
    assert [answer.status for answer in answers] == [200, 400, 200]
    assert (answers[0].json, answers[2].json) == ({"predictions": [2.5, 3.0]}, {"predictions": [3.5]})


def test_texts_take_no_memory_for_ever() -> None:
    served = folder("half").load(SERVICE)
    body = json.dumps({"signature_name": "mixed", "inputs": {"text": ["x" * 100_000], "n": [[1, 1]]}})

    def resident_after(requests: int) -> int:
        for _ in range(requests):
            served.ask(body)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    first = resident_after(100)
    assert resident_after(400) - first < 20_000_000


WORKER = """\
import sys
from sagemaker_inference import handler_services
from sagemaker_inference.service import Headers, Place, Request
from sagemaker_inference.settings import Settings
service = handler_services.load(Settings.read(), Place(model_dir=sys.argv[1]), sys.argv[2])
print(service.handle(Request(b'{"instances": [1]}', Headers([]), "id")).body)
print([name for name in ("tensorflow", "keras", "google.protobuf", "http.server") if name in sys.modules])
"""


def test_a_worker_imports_no_python_of_tensorflow() -> None:
    made = folder("half")
    command = [sys.executable, "-c", WORKER, str(made.model), SERVICE]
    with environ(SAGEMAKER_BASE_DIR=str(made.base)):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["b'{\"predictions\": [2.5]}'", "[]"]


REGISTERED = """\
import keras
@keras.saving.register_keras_serializable(package="own")
class Twice(keras.layers.Layer):
    def call(self, x):
        return x * 2
"""
ANSWERS = """\
def handler(data, context):
    import urllib.request
    with urllib.request.urlopen(context.rest_uri, data.read()) as answer:
        return answer.read(), "application/json"
"""


def test_keras_classes_of_the_users_module_are_known() -> None:
    source = Path(tempfile.mkdtemp())
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r}); import inference, keras\n"
        f"keras.Sequential([keras.Input((2,)), inference.Twice()]).save({str(source / 'twice.keras')!r})\n"
    )
    (source / "inference.py").write_text(REGISTERED)
    subprocess.run([sys.executable, "-c", program], check=True)
    made = folder(code=REGISTERED + ANSWERS)
    shutil.copy(source / "twice.keras", made.model)
    served = made.load(SERVICE)
    try:
        assert ask(served, {"instances": [[1.0, 2.0]]}) == {"predictions": [[2.0, 4.0]]}
    finally:
        served.service._backend.close()
        del sys.modules["inference"]


def test_code_may_use_tensorflow_beside_the_served_model() -> None:
    served = folder(
        "half",
        code="""\
        import json
        import tensorflow as tf
        def input_handler(data, context):
            values = tf.strings.to_number(tf.strings.split(data.read(), ";"))
            return json.dumps({"instances": (values * 2).numpy().tolist()})
        def output_handler(response, context):
            return json.dumps(tf.reduce_sum(response.json()["predictions"]).numpy().item()), "application/json"
        """,
    ).load(SERVICE)
    try:
        assert ask(served, "1;2") == 7.0
    finally:
        served.service._backend.close()
        del sys.modules["inference"]


def test_serve_answers_survives_and_ends() -> None:
    made = folder("half", "dense.keras", code=ANSWERS)
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": "2", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half"}
    with Server(made.base, MAIN, **variables) as server:
        server.wait_ready()
        body = json.dumps({"instances": [4]})
        attributes = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-version=1"}
        for _ in range(20):
            assert server.send("POST", "/invocations", body).json == {"predictions": [4.0]}
            assert server.send("POST", "/invocations", body, **attributes).json == {"predictions": [3.0]}
        attributes = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=dense,tfs-method=walk"}
        assert server.send("POST", "/invocations", body, **attributes).status == 400
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    assert "model half, version 2: loaded in" in server.output


def test_each_request_of_a_group_gets_its_own_answer() -> None:
    variables = {
        "SAGEMAKER_TFS_ENABLE_BATCHING": "true",
        "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "50000",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "1",
    }
    with Server(folder("half").base, MAIN, **variables) as server:
        server.wait_ready()

        def ask_one(number: int) -> tuple[int, object]:
            answer = server.send("POST", "/invocations", json.dumps({"instances": [number or "bad"]}))
            return answer.status, answer.json.get("predictions")

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(ask_one, range(64)))
    assert answers[0] == (400, None)
    assert answers[1:] == [(200, [number / 2 + 2]) for number in range(1, 64)]


def test_many_models_come_and_go() -> None:
    base = Path(tempfile.mkdtemp())
    for name, version in (("a", "1"), ("b", "00002")):
        shutil.copytree(MODELS / "half" / version, base / "models" / name / "model" / "half" / "1")
    (base / "models" / "b" / "model" / "code").mkdir()
    handler = "def handler(data, context):\n    return context.model_name, 'text/plain'\n"
    (base / "models" / "b" / "model" / "code" / "inference.py").write_text(handler)
    with Server(base, MAIN, SAGEMAKER_MULTI_MODEL="true", SAGEMAKER_SAFE_PORT_RANGE="25000-25099") as server:
        server.wait_ready()

        def load(name: str) -> int:
            place = {"model_name": name, "url": str(base / "models" / name / "model")}
            return server.send("POST", "/models", json.dumps(place), Content_Type="application/json").status

        assert (load("a"), load("b"), load("a"), load("c")) == (200, 200, 409, 404)
        body = json.dumps({"instances": [4]})
        assert server.send("POST", "/models/a/invoke", body).json == {"predictions": [3.0]}
        assert server.send("POST", "/models/b/invoke", body).body == b"half"
        listed = [model["modelName"] for model in server.send("GET", "/models").json["models"]]
        assert sorted(listed) == ["a", "b"]
        assert server.send("DELETE", "/models/a").status == 200
        assert server.send("POST", "/models/a/invoke", body).status == 404
        assert load("a") == 200
        assert server.send("POST", "/models/a/invoke", body).json == {"predictions": [3.0]}
