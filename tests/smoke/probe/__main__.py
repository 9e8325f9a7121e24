"""Runs the smoke steps of the framework that is installed, and prints one line of JSON for each.

    python3 tests/smoke/probe [--device cpu|cuda] [STEP …]

Standard library and framework only. It measures; what the numbers must be is decided outside.
"""

import argparse
import faulthandler
import importlib
import importlib.util
import os
import sys
import time
import traceback

from common import Absent, driver_version, has_gpu, processor, say

FRAMEWORKS = {"torch": "on_torch", "tensorflow": "on_tensorflow", "mxnet": "on_mxnet"}

LONGEST = 480  # seconds for all steps
NO_STEP = "there is no such step for "


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("steps", nargs="*")
    asked = parser.parse_args()
    if asked.device == "cuda" and not has_gpu():
        return say(no_device="there is no NVIDIA GPU here (no /dev/nvidiactl)")
    # Without one, the GPU itself can still be tried.
    without = "none" if asked.device == "cuda" else ""
    framework = next((name for name in FRAMEWORKS if importlib.util.find_spec(name)), without)
    say(framework=framework, device=asked.device, python=sys.version.split()[0])
    if not framework:
        return None
    started = time.monotonic()
    try:
        module = importlib.import_module(FRAMEWORKS.get(framework, "on_nothing"))
    except Exception:
        return report(asked.steps or ["device.toolkit"], {"error": told()}, started)
    about = {
        "framework": f"{framework} {module.VERSION}".strip(),
        "device": module.device_name(asked.device) if asked.device == "cuda" else processor(),
        "driver": driver_version() if asked.device == "cuda" else "",
    }
    for step in asked.steps or module.STEPS:
        started = time.monotonic()
        try:
            if step not in module.STEPS:
                raise Absent(
                    "without a framework there is no such step" if framework == "none" else NO_STEP + framework
                )
            report([step], {"numbers": {**module.STEPS[step](asked.device), **about}}, started)
        except Absent as reason:
            report([step], {"absent": str(reason)}, started)
        except Exception:
            report([step], {"error": told()}, started)
    return None


def report(steps, found, started):
    for step in steps:
        say(step=step, seconds=round(time.monotonic() - started, 3), **found)


def told():
    """The error that is being handled, with the end of where it came from."""
    return traceback.format_exc(limit=-4)[-3000:]


if __name__ == "__main__":
    faulthandler.enable()  # a crash of native code says where it was
    faulthandler.dump_traceback_later(LONGEST, exit=True)  # and so does a step that hangs
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
