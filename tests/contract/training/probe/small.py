"""A script that does little: it leaves a model and tells its arguments and variables."""

import json
import os
import sys
import tempfile

with open("/opt/ml/model/model.txt", "w") as model:
    model.write("trained")
with tempfile.TemporaryFile() as scratch:
    scratch.write(b"scratch")
with open("/opt/ml/output/data/probe.json", "w") as report:
    json.dump({"arguments": sys.argv[1:], "variables": dict(os.environ), "user": os.getuid()}, report)
