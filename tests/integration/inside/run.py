"""Runs the checks of one file, inside an image: it has the framework, and no pytest.

    python run.py FILE.py

A check is a function `test_…` without arguments. One line of JSON for each says how it went: its name, and the
traceback of one that failed.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path

MARK = "check: "


def main(path: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    # Imported under its name, so that classes in it can be pickled.
    for name, check in list(vars(importlib.import_module(Path(path).stem)).items()):
        if not name.startswith("test_"):
            continue
        try:
            check()
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        print(MARK + json.dumps([name, failure]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
