"""The smoke steps of GPU images without a framework: CUDA's runtime, as users' own frameworks will find it."""

import ctypes
import glob
import os
import sys

from common import driver_cuda, packages

VERSION = ""
COUNT = 1000


def runtime():
    """CUDA's runtime from the wheel in this environment."""
    found = glob.glob(
        os.path.join(sys.prefix, "lib", "python3*", "site-packages", "nvidia", "*", "lib", "libcudart.so.*")
    )
    if not found:
        raise RuntimeError("no package of this environment holds libcudart")
    return ctypes.CDLL(found[0])


def must(library, name, *given):
    """Call a function of the runtime. Raises RuntimeError with its own words unless it returns 0."""
    code = getattr(library, name)(*given)
    if code:
        library.cudaGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{name}: {library.cudaGetErrorString(code).decode()}")


def device_name(device):
    try:
        library = ctypes.CDLL("libcuda.so.1")
        text, handle = ctypes.create_string_buffer(128), ctypes.c_int(0)
        failed = library.cuInit(0) or library.cuDeviceGet(ctypes.byref(handle), 0)
        return "" if failed or library.cuDeviceGetName(text, len(text), handle) else text.value.decode()
    except OSError:
        return ""


def toolkit(device):
    """Numbers, to the GPU and back."""
    library = runtime()
    count, version, place = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_void_p()
    must(library, "cudaRuntimeGetVersion", ctypes.byref(version))
    must(library, "cudaGetDeviceCount", ctypes.byref(count))
    there, back = (ctypes.c_float * COUNT)(*range(COUNT)), (ctypes.c_float * COUNT)()
    size = ctypes.c_size_t(ctypes.sizeof(there))
    must(library, "cudaMalloc", ctypes.byref(place), size)
    must(library, "cudaMemcpy", place, there, size, 1)  # host to device
    must(library, "cudaMemcpy", back, place, size, 2)  # device to host
    must(library, "cudaFree", place)
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return {"gpus": count.value, "cuda": cuda, "driver_cuda": driver_cuda(), "sum": float(sum(back))}


def libraries(device):
    return {"packages": packages(), "imported": {}}


STEPS = {"device.toolkit": toolkit, "libraries.locked": libraries}
