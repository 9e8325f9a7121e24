"""Names that user code imports, and what importing them costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from .conftest import SOURCE

NAMES = {
    "content_types": ["JSON", "CSV", "OCTET_STREAM", "ANY", "NPY", "NPZ", "UTF8_TYPES"],
    "decoder": ["decode", "_json_to_numpy", "_csv_to_numpy", "_npy_to_numpy", "_npz_to_sparse"],
    "encoder": ["encode", "SUPPORTED_CONTENT_TYPES", "_array_to_json", "_array_to_npy", "_array_to_csv"],
    "errors": ["UnsupportedFormatError", "BaseInferenceToolkitError", "GenericInferenceToolkitError"],
    "default_inference_handler": ["DefaultInferenceHandler"],
    "default_handler_service": ["DefaultHandlerService"],
    "transformer": ["Transformer"],
    "model_server": ["start_model_server"],
    "environment": ["Environment", "model_dir", "code_dir", "base_dir"],
    "parameters": [
        "BASE_PATH_ENV",
        "USER_PROGRAM_ENV",
        "LOG_LEVEL_ENV",
        "DEFAULT_INVOCATIONS_ACCEPT_ENV",
        "MODEL_SERVER_WORKERS_ENV",
        "MODEL_SERVER_TIMEOUT_ENV",
        "MODEL_SERVER_TIMEOUT_SECONDS_ENV",
        "MODEL_SERVER_VMARGS",
        "STARTUP_TIMEOUT_ENV",
        "BIND_TO_PORT_ENV",
        "SAFE_PORT_RANGE_ENV",
        "MULTI_MODEL_ENV",
        "MAX_REQUEST_SIZE",
    ],
    "utils": ["read_file", "write_file", "parse_accept", "retrieve_content_type_header", "remove_crlf"],
    "logging": ["get_logger", "configure_logger"],
}

PROPERTIES = [
    "module_name",
    "model_server_timeout",
    "model_server_timeout_seconds",
    "model_server_workers",
    "startup_timeout",
    "default_accept",
    "inference_http_port",
    "management_http_port",
    "safe_port_range",
    "vmargs",
    "max_request_size",
]


def python(program: str) -> str:
    """What a new interpreter prints that has the standard library and the toolkit, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_every_name_is_there_with_the_standard_library_alone():
    lines = [
        f"from sagemaker_inference.{module} import {', '.join(names)}"
        for module, names in NAMES.items()
        if module != "model_server"
    ]
    python("\n".join(lines))


def test_signature_of_the_servers_start():
    from sagemaker_inference import model_server

    parameter, *others = inspect.signature(model_server.start_model_server).parameters.values()
    assert (parameter.name, parameter.default) == ("handler_service", "sagemaker_inference.default_handler_service")
    assert all(other.default is not other.empty for other in others)


def test_properties_of_the_environment():
    from sagemaker_inference.environment import Environment

    for name in PROPERTIES:
        assert isinstance(inspect.getattr_static(Environment, name), property)


def test_constants():
    from sagemaker_inference import content_types, parameters

    assert (content_types.JSON, content_types.CSV, content_types.ANY) == ("application/json", "text/csv", "*/*")
    assert (content_types.NPY, content_types.NPZ) == ("application/x-npy", "application/x-npz")
    assert content_types.OCTET_STREAM == "application/octet-stream"
    assert content_types.UTF8_TYPES == ["application/json", "text/csv"]
    assert parameters.MAX_REQUEST_SIZE == "SAGEMAKER_MAX_PAYLOAD_IN_MB"
    assert parameters.MODEL_SERVER_VMARGS == "SAGEMAKER_MODEL_SERVER_VMARGS"
    for name in NAMES["parameters"]:
        assert getattr(parameters, name).startswith("SAGEMAKER_")


def test_signatures_of_the_default_handler():
    from sagemaker_inference.default_inference_handler import DefaultInferenceHandler

    for name, first in {
        "default_model_fn": "(model_dir, context=None)",
        "default_input_fn": "(input_data, content_type, context=None)",
        "default_predict_fn": "(data, model, context=None)",
        "default_output_fn": "(prediction, accept, context=None)",
    }.items():
        signature = inspect.signature(getattr(DefaultInferenceHandler(), name))
        plain = [item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()]
        assert str(inspect.Signature(plain)) == first
    for name, arguments in {"default_model_fn": ("d",), "default_predict_fn": (1, 2)}.items():
        with pytest.raises(NotImplementedError):
            getattr(DefaultInferenceHandler(), name)(*arguments)


def test_loading_a_model_imports_no_numpy(base):
    base.code("""
        def model_fn(model_dir): return 1
        def input_fn(data, kind): return 1
        def predict_fn(data, model): return 1
    """)
    out = python(f"""
import os
os.environ["SAGEMAKER_BASE_DIR"] = {str(base.path)!r}
from sagemaker_inference.settings import Settings
from sagemaker_inference.service import Headers, Place, Request, load_service
settings = Settings.read()
served = load_service(settings, Place(settings.model_dir), "sagemaker_inference.default_handler_service")
print(served.handle(Request(b"[1]", Headers([]), "r")).status, {{"numpy", "scipy"}} & set(sys.modules))
""")
    assert out == "200 set()\n"


def test_stand_in_of_another_servers_errors(base):
    base.code("""
        from mms.service import PredictionException
        def model_fn(model_dir): return PredictionException("text", 429)
        def predict_fn(data, model): raise model
    """)
    base.load()
    from mms.service import PredictionException

    error = PredictionException("text")
    assert (error.message, error.error_code, str(error)) == ("text", 500, "text")
    assert (base.post("[1]").status, base.post("[1]").error["message"]) == (429, "text")


def test_real_package_wins_over_the_stand_in(base):
    base.write("model/code/mms/__init__.py")
    base.write("model/code/mms/service.py", "REAL = True")
    base.code("""
        from mms.service import REAL
        def model_fn(model_dir): return REAL
        def predict_fn(data, model): return model
    """)
    for name in ("mms", "mms.service"):
        sys.modules.pop(name, None)
    base.load()
    assert base.post("[1]").text == "true"
    for name in ("mms", "mms.service"):
        sys.modules.pop(name, None)


def test_files(tmp_path):
    from sagemaker_inference import utils

    path = str(tmp_path / "file")
    utils.write_file(path, "text")
    utils.write_file(path, " more", "a")
    assert (utils.read_file(path), utils.read_file(path, "rb")) == ("text more", b"text more")


def test_header_helpers():
    from sagemaker_inference import utils

    assert utils.retrieve_content_type_header({"ConTent-tYpe": "a/b"}) == "a/b"
    assert utils.retrieve_content_type_header({"accept": "a/b"}) is None
    assert utils.remove_crlf("a\r\nb\nc") == "a  b c"


def test_configured_log_goes_to_standard_output_once():
    out = python("""
from sagemaker_inference import logging
for _ in range(2):
    logger = logging.configure_logger("DEBUG")
logger.debug("look")
import logging as standard
standard.getLogger("mine").info("too")
assert logging.get_logger("x").name == "x"
""")
    first, second = out.splitlines()
    assert first.endswith("DEBUG sagemaker-inference: look") and second.endswith("INFO mine: too")
