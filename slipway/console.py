"""The one printer.

People read progress on standard error and tables on standard output; machines read one JSON document from standard
output. In CI long output is folded. Nothing else in Slipway prints.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from slipway.errors import SlipwayError

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


@dataclass
class Console:
    """Where a command's words go. With `machine`, standard output carries one JSON document and nothing else."""

    machine: bool = False
    in_ci: bool = False
    github: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    inp: TextIO = field(default_factory=lambda: sys.stdin)
    answered: bool = False

    @property
    def live(self) -> bool:
        """Whether progress may be redrawn in place: a terminal, outside CI, read by a person."""
        return not self.machine and not self.in_ci and self.err.isatty()

    def note(self, text: str) -> None:
        """A line of progress or explanation."""
        self._line(self.err, text)

    def say(self, text: str) -> None:
        """A line of the answer itself; kept back with --json, where `result` is the answer."""
        if not self.machine:
            self._line(self.out, text)

    def ask(self, prompt: str) -> str | None:
        """One line from standard input, without its end; None when there is no more."""
        self.err.write(prompt)
        self.err.flush()
        line = self.inp.readline()
        return line.rstrip("\r\n") if line else None

    def warn(self, text: str) -> None:
        self._line(self.err, f"warning: {text}")

    def error(self, error: SlipwayError) -> None:
        """The error that ends the command; the answer for machines too, unless that was given before."""
        if self.machine and not self.answered:
            self._line(
                self.out,
                json.dumps(
                    {
                        "error": {
                            "code": error.exit_code,
                            "kind": type(error).__name__,
                            "message": error.message,
                            "faults": [vars(fault) for fault in error.faults],
                            "next": error.fix,
                        }
                    },
                    ensure_ascii=False,
                ),
            )
        self._line(self.err, f"error: {error}")

    def result(self, data: Any) -> None:
        """The command's answer for machines: printed only with --json."""
        if self.machine:
            self.answered = True
            self._line(self.out, json.dumps(data, indent=2, ensure_ascii=False, default=str))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
        """A table of the answer. Cells that are numbers stand at the right."""
        if self.machine:
            return
        if title:
            self._line(self.out, title)
        cells = [[_cell(value) for value in row] for row in rows]
        widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(columns)]
        right = [bool(rows) and all(isinstance(row[at], (int, float)) for row in rows) for at in range(len(columns))]
        for line in ([*columns], ["-" * width for width in widths], *cells):
            padded = [
                text.rjust(width) if at_right else text.ljust(width)
                for text, width, at_right in zip(line, widths, right, strict=True)
            ]
            self._line(self.out, "  ".join(padded).rstrip())

    @contextlib.contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """Long output under a heading, which CI systems that can will fold."""
        started = time.monotonic()
        self._line(self.err, f"::group::{title}" if self.github else f"--- {title}")
        try:
            yield
        finally:
            seconds = time.monotonic() - started
            self._line(self.err, "::endgroup::" if self.github else f"--- {title}: {seconds:.1f} s")

    def rich(self) -> RichConsole:
        """A console for live displays, on standard error."""
        from rich.console import Console as RichConsole

        return RichConsole(file=self.err, highlight=False, soft_wrap=False)

    @staticmethod
    def _line(stream: TextIO, text: str) -> None:
        # A reader that went away (`| head`) is no reason to end with a traceback.
        with contextlib.suppress(BrokenPipeError):
            try:
                stream.write(text + "\n")
            except UnicodeEncodeError:  # a terminal of another age
                stream.write(text.encode("ascii", "replace").decode() + "\n")
            stream.flush()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value)
