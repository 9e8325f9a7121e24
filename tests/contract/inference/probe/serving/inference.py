"""The probe of inference images: user code whose requests say what it is to do, and whose answers say what it saw."""

import hashlib
import importlib.util
import json
import os
import signal
import time

CALLS = []

MODEL = "/opt/ml/model"


def files(folder):
    """The files below a folder but for the code, with their hashes."""
    found = {}
    for place, folders, names in os.walk(folder):
        if place == folder and "code" in folders:
            folders.remove("code")
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                found[os.path.relpath(path, folder)] = hashlib.sha256(stream.read()).hexdigest()
    return found


def writable(folder):
    """Whether a file can be made there; a user's rights alone do not tell, since root has them all."""
    try:
        with open(os.path.join(folder, ".probe"), "w"):
            pass
    except OSError:
        return False
    os.unlink(os.path.join(folder, ".probe"))
    return True


def shipped():
    """The definitions of metrics that the server brings along; empty where it brings none."""
    found = importlib.util.find_spec("sagemaker_inference")
    path = os.path.join(os.path.dirname(found.origin), "metrics.tsv") if found else ""
    if not os.path.exists(path):
        return ""
    with open(path) as stream:
        return stream.read()


def model_fn(model_dir):
    CALLS.append("model_fn")
    began = time.time()
    time.sleep(1.0)
    return {
        "files": files(model_dir),
        "writable": writable(model_dir),
        "folder": model_dir,
        "began": began,
        "loaded": time.time(),
    }


def input_fn(data, content_type):
    CALLS.append("input_fn")
    wanted = {"type": content_type, "kind": type(data).__name__, "data": data}
    if content_type == "application/json":
        wanted.update(json.loads(data))
    return wanted


def predict_fn(wanted, model, context):
    CALLS.append("predict_fn")
    do = wanted.get("do")
    if do == "see":
        calls = list(CALLS)
        request = context.request_processor[0].get_request_properties() if context.request_processor else {}
        return {
            **model,
            "calls": calls,
            "type": wanted["type"],
            "kind": wanted["kind"],
            "user": os.getuid(),
            "process": os.getpid(),
            "header": context.get_request_header(0, "X-Amzn-SageMaker-Custom-Attributes"),
            "headers": {name.lower(): value for name, value in dict(request).items()},
            "model_dir": context.system_properties.get("model_dir"),
            "metrics": shipped(),
        }
    if do == "refuse":
        from sagemaker_inference import errors

        raise errors.GenericInferenceToolkitError(wanted["status"], wanted["text"])
    if do == "head":
        context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", wanted["text"])
    act(wanted)
    return wanted


def act(wanted):
    """What any framework's functions can be asked to do."""
    do = wanted.get("do")
    if do == "busy":
        hold(wanted["seconds"])
    if do == "sleep":
        time.sleep(wanted["seconds"])
    if do == "raise":
        raise ValueError(wanted["text"])
    if do == "die":
        os.kill(os.getpid(), signal.SIGKILL)


def hold(seconds):
    """Compute without ever giving the interpreter away: the sum is one call into C."""
    began = time.process_time()  # which others on the same machine do not lengthen
    sum(range(20_000_000))
    sum(range(int(20_000_000 * seconds / (time.process_time() - began))))


def output_fn(prediction, accept):
    CALLS.append("output_fn")
    if prediction.get("do") == "stream":
        return stream(prediction), "text/event-stream"
    if isinstance(prediction.get("data"), (bytes, bytearray)):
        return bytes(prediction["data"]), prediction["type"]
    if prediction.get("do") == "large":
        return b"x" * prediction["bytes"], "application/octet-stream"
    prediction.pop("data", None)
    return json.dumps({**prediction, "accept": accept, "output_calls": CALLS.count("output_fn")}), "application/json"


def handler(data, context):
    """All of the above in one, as images for TensorFlow call user code."""
    body, kind = data.read(), context.request_content_type
    if kind != "application/json":
        return body, kind
    wanted = {"type": kind, **json.loads(body)}
    do = wanted.get("do")
    if do == "see":
        wanted.update({"files": files(MODEL), "writable": writable(MODEL), "folder": MODEL})
        wanted.update({"loaded": IMPORTED, "process": os.getpid(), "metrics": shipped()})
    else:
        act(wanted)
    return json.dumps(wanted), "application/json"


def stream(wanted):
    """Parts that are made one after the other; the last says when each was."""
    made = []
    for number in range(wanted["parts"]):
        made.append(time.time())
        yield f"part {number}\n"
        time.sleep(wanted["pause"])
    if wanted.get("break"):
        raise RuntimeError("broken in the middle")
    yield json.dumps(made)


# The load of a module takes its time too.
time.sleep(1.0)
IMPORTED = time.time()
