"""Calls of TensorFlow's C interface: what is let go of, and how a refusal is told, with a stand-in for the library."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sagemaker_tensorflow_serving_container import native


class Library:
    """Counts tensors; a run makes one and ends with a code."""

    def __init__(self, code):
        self.code, self.deleted, self.statuses = code, [], 0

    def TF_NewStatus(self):
        self.statuses += 1
        return 1

    def TF_DeleteStatus(self, pointer):
        self.statuses -= 1

    def TF_GetCode(self, pointer):
        return self.code

    def TF_Message(self, pointer):
        return b"no such shape"

    def TF_SessionRun(self, session, options, inputs, given, fed, outputs, made, fetched, *_):
        made[0] = 7

    def TF_DeleteTensor(self, tensor):
        self.deleted.append(tensor)


@pytest.fixture
def session():
    def make(code):
        made = object.__new__(native.Session)
        made._library, made._session = Library(code), None
        made._tensor = lambda array, dtype: 5
        made._array = lambda tensor: native.Fetched(np.zeros(tensor), 1)
        return made

    return make


def test_a_run_lets_go_of_every_tensor(session):
    made = session(0)
    (found,) = made.run([(native.Output(), np.zeros(1), 1)], [native.Output()])
    assert len(found.array) == 7
    assert made._library.deleted == [5, 7]
    assert made._library.statuses == 0


def test_a_refusal_has_its_code_and_text_and_lets_go_too(session):
    made = session(3)
    with pytest.raises(native.NativeError, match="no such shape") as caught:
        made.run([(native.Output(), np.zeros(1), 1)], [native.Output()])
    assert caught.value.code == 3
    assert made._library.deleted == [5, 7]
    assert made._library.statuses == 0


def test_a_place_is_an_operation_and_an_index(session):
    made = session(0)
    made._graph = None
    made._library.TF_GraphOperationByName = lambda graph, name: 9 if name == b"y" else None
    assert (made.place("y:2").index, made.place("y").index) == (2, 0)
    with pytest.raises(KeyError, match="z:0"):
        made.place("z:0")


def test_without_tensorflow_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(native.MissingTensorFlow):
        native.library.__wrapped__()
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: found)
    with pytest.raises(native.MissingTensorFlow):
        native.library.__wrapped__()
