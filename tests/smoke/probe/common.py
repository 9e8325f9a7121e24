"""What the steps of all frameworks share."""

import ctypes
import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
import sys

LIMIT = 120  # seconds for a process that a step starts


class Absent(Exception):
    """What a step needs is not installed here, so it says nothing."""


def say(**found):
    print("smoke\t" + json.dumps(clean(found)), flush=True)


def clean(value):
    """JSON has no NaN and no infinity; they are shown by name, and no limit allows them."""
    if isinstance(value, dict):
        return {key: clean(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def has_gpu():
    """Whether a driver shows a GPU to this process; /dev/dxg is WSL's."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def driver_version():
    """Of the NVIDIA driver, from its own management library; empty where that cannot be asked."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, len(text)):
            return ""
        return text.value.decode()
    except (OSError, AttributeError):
        return ""


def driver_cuda():
    """The newest CUDA that the driver serves, as 13000 for 13.0; 0 where it cannot be asked."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        found = ctypes.c_int(0)
        return 0 if library.cuDriverGetVersion(ctypes.byref(found)) else found.value
    except (OSError, AttributeError):
        return 0


def processor():
    """The processor's model, as the kernel calls it."""
    try:
        with open("/proc/cpuinfo") as file:
            found = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
        return found[1] if found else platform.machine()
    except OSError:
        return platform.machine()


def packages():
    """Version by normalised name of everything that is installed; what comes first on the path counts.

    setuptools puts the packages that it brings along at the path's end.
    """
    found = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        found.setdefault(name, distribution.version)
    return found


def resident():
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_processes(script, count, *arguments):
    """Run `count` copies of a script of this folder side by side: what each printed as its last line, from JSON.

    They get their number, the count, and the arguments.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
    running = [
        subprocess.Popen(
            [sys.executable, path, str(number), str(count), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        ended = [(process.communicate(timeout=LIMIT), process.returncode) for process in running]
    finally:
        for process in running:
            process.kill()
    for (_, error), code in ended:
        if code:
            raise RuntimeError(f"{script} ended with exit code {code}:\n{error[-1500:]}")
    return [json.loads(out.splitlines()[-1]) for (out, _), _ in ended]


def noise(count, seed=1):
    """`count` numbers between -1 and 1, the same everywhere, whatever a framework's generators do."""
    numbers, state = [], seed
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2147483648
        numbers.append(state / 1073741824 - 1)
    return numbers
