"""The memory that supervisor and workers share: what each worker is doing, and how far each connection has come.

All cells are 8 bytes wide and aligned, each has one writer at a time, and a reader that sees an old value only acts a
moment later. So no locks are needed, and a worker that computes, hangs or dies cannot keep one.

Times are ``time.monotonic()``, which all processes of a host share; 0 means none.
"""

from __future__ import annotations

import mmap
import os

WORKERS = 1025
SLOTS = 8192
"""Connections at the same time."""

# States of a slot.
FREE = 0
PASSED = 1  # on its way to a worker
IDLE = 2  # a worker has it, and has read nothing of the next request
READ = 3  # a request is being read or handled
ANSWERING = 4  # bytes of the answer may have been sent
TAKEN = 5  # the supervisor has it back; the worker must not touch it

# Cells of the whole server.
PLANNED = 0  # workers that there are, or will be when all are loaded
GLOBAL_CELLS = 8

# Cells of a worker.
CALL_STARTED = 0
CALL_SLOT = 1
ANSWERED = 2
WANTED = 3  # the supervisor asks to be told when the call is done
RUNNING = 4  # requests between read and answered; above 1 only where functions are asynchronous
WORKER_CELLS = 64  # from METRICS on: see metrics.py
METRICS = 8

# Cells of a slot.
STATE = 0
RECEIVED = 1  # bytes consumed from the socket, since it was accepted
SENT = 2  # bytes written to it by answers that are complete
STARTED = 3  # when its request was handed to the user's functions
EXPECTED = 4  # what SENT will be when the answer that is being written is complete; 0: not known
SLOT_CELLS = 8

_FIRST_SLOT = GLOBAL_CELLS + WORKERS * WORKER_CELLS
_SIZE = 8 * (_FIRST_SLOT + SLOTS * SLOT_CELLS)


class Board:
    """The shared cells: ``words`` as unsigned integers, ``times`` the same as floats."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        memory = mmap.mmap(descriptor, _SIZE)
        self.words = memoryview(memory).cast("Q")
        self.times = memoryview(memory).cast("d")

    @classmethod
    def create(cls) -> Board:
        """A new board in memory that has no name, so nothing of it can be left behind."""
        descriptor = os.memfd_create("serve-board")
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def clear_worker(self, worker: int) -> None:
        """For a new process in the worker's place; what was counted stays."""
        first = worker_cell(worker)
        for cell in (CALL_STARTED, CALL_SLOT, ANSWERED, WANTED, RUNNING):
            self.words[first + cell] = 0

    def set_slot(self, slot: int, state: int, received: int, sent: int) -> None:
        first = slot_cell(slot)
        self.words[first + RECEIVED] = received
        self.words[first + SENT] = sent
        self.words[first + STARTED] = 0
        self.words[first + EXPECTED] = 0
        self.words[first + STATE] = state


def worker_cell(worker: int) -> int:
    """Index of a worker's first cell."""
    return GLOBAL_CELLS + worker * WORKER_CELLS


def slot_cell(slot: int) -> int:
    """Index of a slot's first cell."""
    return _FIRST_SLOT + slot * SLOT_CELLS
