"""A script that says why it fails, and is then killed."""

import os
import signal

with open("/opt/ml/output/failure", "w") as failure:
    failure.write("the script's own reason: no positive samples")
os.kill(os.getpid(), signal.SIGKILL)
