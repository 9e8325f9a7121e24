"""A compiler that is there and does not work."""

import os
import tempfile

folder = tempfile.mkdtemp()
for name in ("g++", "gcc"):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\nexit 1\n")
    os.chmod(path, 0o755)
os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
os.environ.pop("CXX", None)
os.environ.pop("CC", None)
