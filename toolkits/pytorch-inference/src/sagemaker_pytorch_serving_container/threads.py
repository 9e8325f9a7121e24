"""PyTorch's threads where a loaded model is forked for each worker (``SLIPWAY_PRELOAD``)."""

from __future__ import annotations

import os


def wait_for_fork() -> None:
    """One thread while this process loads; in each process that is forked from it, as many as PyTorch had before.

    A child inherits the record of the parent's OpenMP threads, not the threads, and would wait for them for ever: so
    the parent must not start any.
    """
    import torch

    wanted = torch.get_num_threads()
    torch.set_num_threads(1)
    waiting = [wanted]

    def in_child() -> None:
        # Once: processes that user code forks later are none of ours. What model_fn has set stays.
        if waiting and torch.get_num_threads() == 1:
            torch.set_num_threads(waiting[0])
        waiting.clear()

    os.register_at_fork(after_in_child=in_child)
