"""Lets PyTorch's own threads finish with the interpreter before it ends, so that a finished script does not abort.

A worker thread of gloo frees the tensors of each collective operation, and needs the interpreter's lock (GIL) for
those that Python knows. If it waits for the lock when the interpreter begins to end, CPython up to 3.13 answers with
``pthread_exit``, whose unwinding meets a C++ destructor: "terminate called without an active exception", SIGABRT. A
script that ends within milliseconds of its last operation, its model still alive, meets that now and then, with plain
gloo as well as through accelerate; ``destroy_process_group`` alone does not help, since the model keeps the group.

PyTorch calls ``register`` at the end of ``import torch``: it is an entry point of the group ``torch.backends``.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import time

# Threads that wait are through in microseconds, even where the machine is busy.
_SECONDS = 2.0
# With CUDA, autograd keeps threads whose states look like those of threads that wait.
_CUDA_SECONDS = 0.05
_PAUSE_SECONDS = 0.001


def register() -> None:
    """Has the end of the interpreter wait. What registers later, such as the script's own functions, runs before."""
    atexit.register(let_through)


def let_through() -> None:
    """Gives the lock to every thread that waits for it, for a bounded time."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_cuda_used = cuda is not None and cuda.is_initialized()
    deadline = time.monotonic() + (_CUDA_SECONDS if is_cuda_used else _SECONDS)
    while threads() > 0 and time.monotonic() < deadline:
        # Lets the lock go, and wakes who waits for it.
        time.sleep(_PAUSE_SECONDS)


def threads() -> int:
    """The number of threads that have a state in this interpreter and run no Python: those that wait for its lock.

    C++ code makes itself a state before it takes the lock, and drops it when it gives the lock back.
    """
    api = ctypes.pythonapi
    current = api["PyInterpreterState_Get"]
    first, following = api["PyInterpreterState_ThreadHead"], api["PyThreadState_Next"]
    for function in (current, first, following):
        function.restype = ctypes.c_void_p
    states = 0
    state = first(ctypes.c_void_p(current()))
    while state:
        states += 1
        state = following(ctypes.c_void_p(state))
    return states - len(sys._current_frames())
