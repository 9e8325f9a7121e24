"""A script that trains until it is stopped, and then saves what it has."""

import signal
import sys


def stop(number, frame):
    with open("/opt/ml/model/checkpoint.txt", "w") as model:
        model.write("saved on signal %d" % number)
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
print("ready to be stopped")
while True:
    signal.pause()
