"""A script that fails as scripts do: a long traceback after much output, and an exit code of its own."""

import sys
import traceback


def load(path):
    raise FileNotFoundError("the vocabulary " + path + " is not in the channel")


print("\n".join("epoch %d" % epoch for epoch in range(2000)))
try:
    load("vocab-7f3a.json")
except FileNotFoundError:
    traceback.print_exc()
    sys.exit(3)
