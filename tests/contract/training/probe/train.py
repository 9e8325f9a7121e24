"""The training script that a job of the checks runs. It tells what it sees, and prints values that metrics must find.

What it sees goes to a file, because the log is itself under test. Standard library only: it runs in any image.
"""

import hashlib
import json
import os
import sys
import time

REPORT = "/opt/ml/output/data/probe.json"
FAST = 10000
SLOW = ((0, "0.", "25"), (1, "-1.5e", "-05"))
PAUSE = 0.5
EDGE = b"--- the next lines must arrive as they are, byte for byte ---\n"
ODD = (
    b"    four blanks before\n"
    b"\tand a tab, and blanks after   \n"
    b"\n"
    b"\n"
    b"10%|#         |\r50%|#####     |\r100%|##########|\n"
    b"windows\r\n"
    b"caf\xc3\xa9 \xe2\x9c\x93 \xff\xfe not utf-8\n"
    b"\x1b[32mgreen\x1b[0m\n" + b"x" * 200000 + b"\n"
)


def fast(step):
    """The values of one fast line."""
    return 1.0 / (step + 1), step / FAST - 0.5, (step + 1) * 1e-7


def main():
    report = see()
    with open(REPORT, "w") as file:
        json.dump(report, file)
    # Several writes to a line, as print does without a buffer: that is where relays tear them.
    for step in range(FAST):
        loss, score, rate = fast(step)
        print("step=", step, " loss=", loss, ", 'eval_score': ", score, " lr=", rate, ";", sep="")
    for step in range(100):
        print("validation:", "stderr_loss=%d.5" % step, "step", step, file=sys.stderr)
    for step, first, rest in SLOW:
        sys.stdout.write("slow %d slow_loss=%s" % (step, first))
        sys.stdout.flush()
        time.sleep(PAUSE)
        sys.stdout.write(rest + "\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(EDGE + ODD + EDGE)
    sys.stdout.buffer.flush()


def see():
    return {
        "arguments": sys.argv[1:],
        "variables": dict(os.environ),
        "folder": os.getcwd(),
        "channels": {name: channel(path) for name, path in channel_variables()},
    }


def channel_variables():
    return [(name, path) for name, path in sorted(os.environ.items()) if name.startswith("SM_CHANNEL_")]


def channel(path):
    """The files of a folder with their hashes; None where it is no folder that can be read."""
    if not os.path.isdir(path) or not os.access(path, os.R_OK | os.X_OK):
        return None
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            with open(full, "rb") as file:
                found[os.path.relpath(full, path)] = hashlib.sha256(file.read()).hexdigest()
    return found


if __name__ == "__main__":
    main()
