"""Commands of Slipway as processes of their own, as a user starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).parents[2]


class Command:
    """`invoke ARGV` in the project's folder. `pids`: of all that were started, to be cleared by who looks at them."""

    pids: ClassVar[list[int]] = []

    def __init__(self, *argv: str, **environment: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "invoke", *argv],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.pids.append(self.child.pid)

    def url(self) -> str:
        """Where it serves, once it does."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if found := re.match(r"(http://127\.0\.0\.1:[0-9]+) serves ", line):
                return found[1]
        raise AssertionError(f"it never served; {self.end()}")

    def until(self, text: str) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            if text in line:
                return
        raise AssertionError(f"{text!r} was never printed; exit code {self.child.wait()}")

    def end(self) -> tuple[int, str, str]:
        stdout, stderr = self.child.communicate(timeout=120)
        return self.child.returncode, stdout, stderr
