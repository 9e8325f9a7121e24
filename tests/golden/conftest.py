"""`pytest tests/golden --refresh` writes the renderings anew; look at the difference before you commit it."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh", action="store_true", help="write the golden renderings anew")
