"""Exit statuses of ``serve``. The last lines of the log say why."""

from __future__ import annotations

STOPPED = 0
SETTINGS = 2
"""A variable has a wrong value."""
REQUIREMENTS = 3
"""The requirements of the model could not be installed, or the model could not be downloaded."""
PORT = 4
"""The port cannot be listened on."""
MODEL = 5
"""The model could not be loaded."""
WORKERS = 6
"""Workers died too often in a row."""
