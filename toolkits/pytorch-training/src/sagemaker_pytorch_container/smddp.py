"""The open stand-in for ``smdistributed.dataparallel``: where it is, and how Python finds it.

Amazon's package is proprietary. The stand-in must never hide it, so it is no top-level package of this distribution:
it lies in a folder of its own that is searched last, and only where Amazon's package is absent.

``python -m sagemaker_pytorch_container.smddp`` makes it known to every Python program of an image, such as the
drivers of SDK v3 that run no toolkit.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin")

PATH_FILE = "slipway-smddp.pth"


def is_proprietary_there() -> bool:
    """Whether a ``smdistributed.dataparallel`` other than the stand-in is installed."""
    try:
        spec = importlib.util.find_spec("smdistributed.dataparallel")
    except ImportError:
        return False
    places = [spec.origin or "", *(spec.submodule_search_locations or [])] if spec else []
    return any(place and not place.startswith(FOLDER + os.sep) for place in places)


def offer() -> None:
    """Makes the stand-in importable for the processes that this one starts.

    Children get this process's ``sys.path`` (by PYTHONPATH), so appending to it is enough.
    """
    if FOLDER not in sys.path and not is_proprietary_there():
        sys.path.append(FOLDER)


def install() -> str:
    """Makes it importable for every program of this interpreter, and gives the file that does.

    A line of a ``.pth`` file is a folder that is searched after ``site-packages``: what is installed there wins.
    """
    path = os.path.join(sysconfig.get_path("purelib"), PATH_FILE)
    with open(path, "w", encoding="utf-8") as file:
        file.write(FOLDER + "\n")
    return path


if __name__ == "__main__":
    sys.stdout.write(install() + "\n")
