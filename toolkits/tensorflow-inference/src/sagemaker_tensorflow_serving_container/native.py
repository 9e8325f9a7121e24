"""SavedModels in TensorFlow's own C++ runtime, called through its C interface.

``import tensorflow`` takes seconds and hundreds of megabytes in every worker, of which serving needs nothing: the
wheel's shared libraries have the stable C interface of ``tensorflow/c/c_api.h``, with the loader that TensorFlow
Serving itself uses. The signatures of the functions below are that header's. ``numpy`` is loaded here, TensorFlow's
Python never.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import threading
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sagemaker_tensorflow_serving_container.tensors import BFLOAT16, DTYPES, STRING, Array

_TAGS = (b"serve",)
_STRING_SIZE = 24
_OK = 0


class NativeError(Exception):
    """TensorFlow refused. code: its status code (3 is an invalid argument, 8 exhausted memory)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MissingTensorFlow(Exception):
    """No TensorFlow is installed beside this toolkit."""


class _Buffer(ctypes.Structure):
    _fields_ = (("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p))


class Output(ctypes.Structure):
    """``TF_Output``: a tensor's place in a graph."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


class Fetched(NamedTuple):
    array: Array
    dtype: int


_DEALLOCATOR = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "TF_Version": (c_char_p, ()),
    "TF_NewStatus": (c_void_p, ()),
    "TF_DeleteStatus": (None, (c_void_p,)),
    "TF_GetCode": (c_int, (c_void_p,)),
    "TF_Message": (c_char_p, (c_void_p,)),
    "TF_NewSessionOptions": (c_void_p, ()),
    "TF_SetConfig": (None, (c_void_p, c_char_p, c_size_t, c_void_p)),
    "TF_DeleteSessionOptions": (None, (c_void_p,)),
    "TF_NewGraph": (c_void_p, ()),
    "TF_DeleteGraph": (None, (c_void_p,)),
    "TF_NewBuffer": (POINTER(_Buffer), ()),
    "TF_DeleteBuffer": (None, (POINTER(_Buffer),)),
    "TF_LoadSessionFromSavedModel": (
        c_void_p,
        (c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, POINTER(_Buffer), c_void_p),
    ),
    "TF_CloseSession": (None, (c_void_p, c_void_p)),
    "TF_DeleteSession": (None, (c_void_p, c_void_p)),
    "TF_GraphOperationByName": (c_void_p, (c_void_p, c_char_p)),
    "TF_SessionRun": (
        None,
        (
            *(c_void_p, c_void_p, POINTER(Output), POINTER(c_void_p), c_int),
            *(POINTER(Output), POINTER(c_void_p), c_int, c_void_p, c_int, c_void_p, c_void_p),
        ),
    ),
    "TF_AllocateTensor": (c_void_p, (c_int, POINTER(c_int64), c_int, c_size_t)),
    "TF_NewTensor": (c_void_p, (c_int, POINTER(c_int64), c_int, c_void_p, c_size_t, _DEALLOCATOR, c_void_p)),
    "TF_DeleteTensor": (None, (c_void_p,)),
    "TF_TensorType": (c_int, (c_void_p,)),
    "TF_NumDims": (c_int, (c_void_p,)),
    "TF_Dim": (c_int64, (c_void_p, c_int)),
    "TF_TensorByteSize": (c_size_t, (c_void_p,)),
    "TF_TensorData": (c_void_p, (c_void_p,)),
    "TF_StringInit": (None, (c_void_p,)),
    "TF_StringCopy": (None, (c_void_p, c_char_p, c_size_t)),
    "TF_StringDealloc": (None, (c_void_p,)),
    "TF_StringGetDataPointer": (c_void_p, (c_void_p,)),
    "TF_StringGetSize": (c_size_t, (c_void_p,)),
}


@cache
def library() -> Any:
    """TensorFlow's C interface, loaded once. Raises MissingTensorFlow."""
    spec = importlib.util.find_spec("tensorflow")
    for folder in spec.submodule_search_locations or () if spec else ():
        framework = glob.glob(os.path.join(folder, "libtensorflow_framework.so.*"))
        complete = glob.glob(os.path.join(folder, "libtensorflow_cc.so.*"))
        if framework and complete:
            ctypes.CDLL(framework[0], mode=ctypes.RTLD_GLOBAL)
            return _declare(ctypes.CDLL(complete[0]))
    raise MissingTensorFlow(
        "There is no TensorFlow in this image: neither tensorflow nor tensorflow-cpu is installed for this Python."
    )


def version() -> str:
    return str(library().TF_Version().decode())


class Session:
    """A loaded SavedModel. Any thread may run it. Raises NativeError."""

    def __init__(self, path: str, config: bytes = b"") -> None:
        self._library = library()
        self._graph = c_void_p(self._library.TF_NewGraph())
        self._session = c_void_p()
        self.meta_graph = self._load(path, config)

    def place(self, name: str) -> Output:
        """Where a tensor is, by its name (``operation:index``). Raises KeyError."""
        operation, _, index = name.partition(":")
        found = self._library.TF_GraphOperationByName(self._graph, operation.encode())
        if not found:
            raise KeyError(name)
        return Output(found, int(index or 0))

    def run(self, feeds: Sequence[tuple[Output, Array, int]], fetches: Sequence[Output]) -> list[Fetched]:
        """Computes tensors from tensors. The interpreter is free for other threads meanwhile."""
        given = (c_void_p * len(feeds))()
        made = (c_void_p * len(fetches))()
        try:
            for index, (_, array, dtype) in enumerate(feeds):
                given[index] = self._tensor(array, dtype)
            with _Status(self._library) as status:
                self._library.TF_SessionRun(
                    self._session,
                    None,
                    (Output * len(feeds))(*(place for place, _, _ in feeds)),
                    given,
                    len(feeds),
                    (Output * len(fetches))(*fetches),
                    made,
                    len(fetches),
                    None,
                    0,
                    None,
                    status.pointer,
                )
                status.check()
            return [self._array(tensor or 0) for tensor in made]
        finally:
            for tensor in (*given, *made):
                if tensor:
                    self._library.TF_DeleteTensor(tensor)

    def close(self) -> None:
        """Gives the model's memory back."""
        if not self._session:
            return
        with _Status(self._library) as status:
            self._library.TF_CloseSession(self._session, status.pointer)
            self._library.TF_DeleteSession(self._session, status.pointer)
        self._library.TF_DeleteGraph(self._graph)
        self._session = c_void_p()

    def _load(self, path: str, config: bytes) -> bytes:
        options = c_void_p(self._library.TF_NewSessionOptions())
        buffer = self._library.TF_NewBuffer()
        try:
            with _Status(self._library) as status:
                self._library.TF_SetConfig(options, config, len(config), status.pointer)
                status.check()
                tags = (c_char_p * len(_TAGS))(*_TAGS)
                session = self._library.TF_LoadSessionFromSavedModel(
                    options, None, os.fsencode(path), tags, len(_TAGS), self._graph, buffer, status.pointer
                )
                status.check()
                self._session = c_void_p(session)
            return ctypes.string_at(buffer.contents.data, buffer.contents.length)
        finally:
            self._library.TF_DeleteBuffer(buffer)
            self._library.TF_DeleteSessionOptions(options)

    def _tensor(self, array: Array, dtype: int) -> int:
        dims = (c_int64 * array.ndim)(*array.shape)
        if dtype == STRING:
            return _Strings.tensor(self._library, array, dims)
        # A view of contiguous bytes: not a copy unless it has to be.
        data = np.ascontiguousarray(array)
        tensor = self._library.TF_AllocateTensor(dtype, dims, array.ndim, data.nbytes)
        if data.nbytes:
            ctypes.memmove(self._library.TF_TensorData(tensor), data.ctypes.data, data.nbytes)
        return int(tensor)

    def _array(self, tensor: int) -> Fetched:
        dtype = self._library.TF_TensorType(tensor)
        shape = [self._library.TF_Dim(tensor, axis) for axis in range(self._library.TF_NumDims(tensor))]
        size = self._library.TF_TensorByteSize(tensor)
        data = self._library.TF_TensorData(tensor)
        if dtype == STRING:
            return Fetched(_Strings.array(self._library, data, size // _STRING_SIZE, shape), dtype)
        raw = ctypes.string_at(data, size) if size else b""
        kind = "uint16" if dtype == BFLOAT16 else DTYPES.get(dtype)
        if kind is None:
            return Fetched(np.zeros(0), dtype)
        return Fetched(np.frombuffer(raw, dtype=kind).reshape(shape), dtype)


class _Status:
    """One call's ``TF_Status``."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions
        self.pointer = c_void_p(functions.TF_NewStatus())

    def __enter__(self) -> _Status:
        return self

    def __exit__(self, *_: object) -> None:
        self._functions.TF_DeleteStatus(self.pointer)

    def check(self) -> None:
        code = self._functions.TF_GetCode(self.pointer)
        if code != _OK:
            raise NativeError(code, self._functions.TF_Message(self.pointer).decode("utf-8", "replace"))


class _Strings:
    """Tensors of strings. TensorFlow may keep one beyond the run, so it is TensorFlow that lets go of it."""

    _alive: dict[int, Any] = {}  # noqa: RUF012 - of the whole process, as the callback is
    _lock = threading.Lock()

    @classmethod
    def tensor(cls, functions: Any, array: Array, dims: Any) -> int:
        count = array.size
        buffer = ctypes.create_string_buffer(max(1, count * _STRING_SIZE))
        start = ctypes.addressof(buffer)
        for index, value in enumerate(array.ravel().tolist()):
            functions.TF_StringInit(start + index * _STRING_SIZE)
            functions.TF_StringCopy(start + index * _STRING_SIZE, value, len(value))
        with cls._lock:
            cls._alive[start] = (buffer, count)
        return int(functions.TF_NewTensor(STRING, dims, array.ndim, start, count * _STRING_SIZE, _release, None))

    @classmethod
    def release(cls, start: int) -> None:
        with cls._lock:
            _, count = cls._alive[start]
        functions = library()
        for index in range(count):
            functions.TF_StringDealloc(start + index * _STRING_SIZE)
        with cls._lock:
            del cls._alive[start]

    @staticmethod
    def array(functions: Any, start: int, count: int, shape: Sequence[int]) -> Array:
        array = np.empty(count, dtype=object)
        for index in range(count):
            string = start + index * _STRING_SIZE
            size = functions.TF_StringGetSize(string)
            array[index] = ctypes.string_at(functions.TF_StringGetDataPointer(string), size)
        return array.reshape(shape)


_release = _DEALLOCATOR(lambda start, size, argument: _Strings.release(start))


def _declare(functions: Any) -> Any:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(functions, name)
        function.restype = result
        function.argtypes = arguments
    return functions
