"""What a build shows while it runs: redrawn in place on a terminal, a line a step elsewhere, folded output in CI."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slipway.console import Console
from slipway.engine.bake import Step

if TYPE_CHECKING:
    from types import TracebackType

    from rich.live import Live


class Progress:
    """Shows the steps of a build. Use as a context manager and hand `step` to the build."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._running: dict[int, Step] = {}
        self._finished: set[int] = set()
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self._console.live:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._table, console=self._console.rich(), refresh_per_second=4, transient=True
            )
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def step(self, step: Step) -> None:
        """Take note of a step that changed."""
        key = id(step)
        if step.done and key not in self._finished:
            self._finished.add(key)
            self._running.pop(key, None)
            self._finish(step)
        elif not step.done:
            self._running[key] = step

    def _finish(self, step: Step) -> None:
        how = "failed" if step.error else "cached" if step.cached else f"{step.seconds:.1f} s"
        moved = f", {step.megabytes:.0f} MB" if step.megabytes >= 1 else ""
        line = f"{step.stage}: {step.text.split()[0]} ({how}{moved})"
        if self._console.in_ci and step.log:
            with self._console.fold(line):
                for text in step.log:
                    self._console.note(text)
        elif self._live is not None:
            self._live.console.print(line, markup=False)
        else:
            self._console.note(line)

    def _table(self) -> Any:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        now = time.time()
        for step in list(self._running.values()):
            if not step.started:
                continue
            seconds = f"{now - step.started:.0f} s"
            megabytes = f"{step.megabytes:.0f} MB" if step.megabytes >= 1 else ""
            table.add_row(step.stage, step.text.split()[0], seconds, megabytes)
        return table
