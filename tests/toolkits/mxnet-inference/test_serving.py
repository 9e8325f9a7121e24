"""How the server is started, and how an input_fn gets the model."""

from __future__ import annotations

import os

import pytest
from sagemaker_inference import model_server
from sagemaker_inference.utils import parse_accept
from sagemaker_mxnet_serving_container import mxnet_model, serving, utils


@pytest.fixture
def started(monkeypatch):
    """What the server was started with, and the variables at that time."""
    found = []
    for name in serving.ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(model_server, "start_model_server", lambda **given: found.append((given, dict(os.environ))))
    return found


def test_main_serves_with_the_handler_of_mxnet(started):
    serving.main()
    assert started[0][0] == {"handler_service": "sagemaker_mxnet_serving_container.handler_service"}


def test_threads_are_one_unless_the_user_says_otherwise(started, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    serving.main()
    set_then = {name: started[0][1][name] for name in serving.ONE_THREAD}
    assert set_then == {**dict.fromkeys(serving.ONE_THREAD, "1"), "OMP_NUM_THREADS": "4"}


def test_parse_accept_is_the_base_toolkit_s():
    assert utils.parse_accept is parse_accept


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (lambda body, kind, model: (body, kind, model), ("b", "k"), ("b", "k", "M")),
        (lambda body, kind, model, context: (body, kind, model, context), ("b", "k", "c"), ("b", "k", "M", "c")),
        (lambda body, kind, context, model: (body, kind, model, context), ("b", "k", "c"), ("b", "k", "M", "c")),
        (lambda model, body, kind: (body, kind, model), ("b", "k"), ("b", "k", "M")),
        (lambda body, kind, *, model: (body, kind, model), ("b", "k"), ("b", "k", "M")),
        (lambda body, kind, *rest, model: (body, kind, model, rest), ("b", "k", "c"), ("b", "k", "M", ("c",))),
    ],
)
def test_the_model_is_filled_in_wherever_it_stands(function, arguments, result):
    assert mxnet_model.bind(function, lambda: "M")(*arguments) == result
