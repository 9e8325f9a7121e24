"""The toolkit and what it stands on, from this tree. transformers is not here: tests/integration/inside has it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "toolkits" / name / "src" for name in ("huggingface-inference", "pytorch-inference", "inference")]

sys.path[:0] = [str(source) for source in SOURCES]


@pytest.fixture
def model(tmp_path):
    """Writes a model folder: files by name, JSON of what is no text."""
    import json

    def write(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", "/").replace("_json", ".json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(tmp_path)

    return write
