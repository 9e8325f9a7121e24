"""Whether the shared objects of Python packages find what they need, without a job. Prints one line of JSON.

As `ldd` would look: the folders of RPATH and RUNPATH, LD_LIBRARY_PATH, the loader's cache and its own folders. What
lies elsewhere among the packages counts as found: packages load such libraries before those that need them. Libraries
that are packages of their own (nvidia/*/lib) are loaded as well, but for those that need a driver.

Standard library only.
"""

import ctypes
import fnmatch
import json
import os
import re
import struct
import subprocess
import sys

SHARED = re.compile(r".+\.so(\.\d+)*")
FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
DRIVER = ("libcuda.so.*", "libnvidia-*.so.*", "libcudadebugger.so.*", "libnvcuvid.so.*")  # it comes from the host
# (object, what it may lack, why).
OPTIONAL = (
    ("*/mpi4py/MPI.*", "libmpi*", "one build for each MPI; import takes that of the MPI which is there"),
    ("*/nvidia/*/libcufile_rdma.so.*", "*", "cuFile opens it itself on hosts that have RDMA"),
    ("*/nvidia/nvshmem/lib/nvshmem_transport_*", "*", "one for each network; NVSHMEM opens that which is there"),
    ("*/nvidia/nvshmem/lib/nvshmem_bootstrap_*", "*", "one for each launcher; NVSHMEM opens that which is asked for"),
)
LOADED = "*/nvidia/*/lib/*"
ELF = b"\x7fELF\2\1"
PT_LOAD, PT_DYNAMIC = 1, 2
NEEDED, STRTAB, STRSZ, SONAME, RPATH, RUNPATH = 1, 5, 10, 14, 15, 29


def main():
    if sys.argv[1:2] == ["load"]:
        print(json.dumps(load(sys.argv[2:])))
        return
    found = {path: read(path) for path in shared_objects()}
    objects = {path: dynamic for path, dynamic in found.items() if dynamic}
    known = {os.path.basename(path) for path in objects} | {dynamic["soname"] for dynamic in objects.values()}
    known |= system()
    absent = {path: missing(dynamic, known) for path, dynamic in objects.items()}
    lacking = {path: [name for name in names if not spared(path, name)] for path, names in absent.items()}
    alone = loadable([path for path in objects if fnmatch.fnmatch(path, LOADED) and not absent[path]], objects)
    code = [sys.executable, "-I", __file__, "load", *alone]
    loaded = subprocess.run(code, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60) if alone else None
    said = loaded.stdout.decode("utf-8", "replace") if loaded else "{}"
    facts = {
        "objects": len(objects),
        "lacking": {path: names for path, names in lacking.items() if names},
        "broken": [path for path, dynamic in found.items() if dynamic is None],
        "loaded": len(alone),
        "unloadable": json.loads(said) if not loaded or loaded.returncode == 0 else {"ended": said[-3000:]},
    }
    print(json.dumps(facts))


def shared_objects():
    """Paths of the shared objects of all installed packages, each once."""
    seen = set()
    for place in sys.path:
        if os.path.basename(place) not in ("site-packages", "dist-packages"):
            continue
        for folder, _, names in os.walk(place):
            for path in (os.path.join(folder, name) for name in names if SHARED.fullmatch(name)):
                real = os.path.realpath(path)
                if real not in seen:
                    seen.add(real)
                    yield path


def read(path):
    """{needed, soname, folders} of a shared object; empty: another machine's, or none; None: it is broken."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            # 64 bits, the lower byte first: what both architectures of SageMaker are.
            return dynamic_part(path, file, head) if head[:6] == ELF and head[18:20] == MACHINE else {}
    except (struct.error, ValueError, LookupError, OSError):
        return None


def dynamic_part(path, file, head):
    """The same, of the file behind its first 64 bytes."""
    (programs,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    file.seek(programs)
    table = file.read(size * count)
    segments = [struct.unpack_from("<IIQQQQ", table, size * at) for at in range(count)]
    pairs = []
    for kind, _, offset, _, _, length in segments:
        if kind == PT_DYNAMIC:
            file.seek(offset)
            pairs += struct.iter_unpack("<qQ", file.read(length))
    if os.fstat(file.fileno()).st_size < max(offset + length for kind, _, offset, _, _, length in segments):
        raise ValueError("it was cut short")
    if not pairs:
        return {}
    values = dict(pairs)
    # The string table's address, as a place in the file.
    (at, *_) = [
        offset + values[STRTAB] - address
        for kind, _, offset, address, _, length in segments
        if kind == PT_LOAD and address <= values[STRTAB] < address + length
    ]
    file.seek(at)
    strings = file.read(values[STRSZ])

    def text(start):
        return strings[start : strings.index(b"\0", start)].decode("utf-8", "replace")

    paths = ":".join(text(value) for tag, value in pairs if tag in (RPATH, RUNPATH))
    origin = os.path.dirname(os.path.realpath(path))
    return {
        "needed": [text(value) for tag, value in pairs if tag == NEEDED],
        "soname": text(values[SONAME]) if SONAME in values else os.path.basename(path),
        "folders": [re.sub(r"\$\{?ORIGIN\}?", lambda _: origin, one) for one in paths.split(":") if one],
    }


def system():
    """The names of all libraries that the loader finds for any object."""
    folders = [*FOLDERS, *("%s/%s-linux-gnu" % (one, os.uname().machine) for one in ("/lib", "/usr/lib"))]
    folders += [one for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one]
    found = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}
    try:
        cache = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    except OSError:
        return found
    return found | {line.split()[0] for line in cache.splitlines() if " => " in line}


def missing(dynamic, known):
    """What an object needs and nobody has."""
    found = []
    for name in dynamic["needed"]:
        there = os.path.exists(name) if "/" in name else name in known
        if not there and not any(os.path.exists(os.path.join(folder, name)) for folder in dynamic["folders"]):
            found.append(name)
    return found


def spared(path, name):
    """Whether an object may lack a library."""
    optional = any(fnmatch.fnmatch(path, one) and fnmatch.fnmatch(name, other) for one, other, _ in OPTIONAL)
    return optional or any(fnmatch.fnmatch(name, one) for one in DRIVER)


def loadable(paths, objects):
    """Those of the paths that need no driver, nor anything that does."""
    by_name = {name: one for one in objects for name in (os.path.basename(one), objects[one]["soname"])}

    def driven(path, above=()):
        below = objects[path]["needed"]
        return any(fnmatch.fnmatch(name, one) for name in below for one in DRIVER) or any(
            driven(by_name[name], (*above, path)) for name in below if name in by_name and by_name[name] not in above
        )

    return [path for path in paths if not driven(path)]


def load(paths):
    """{path: why} of those that cannot be loaded, each after those that it needs: as often as that gets on."""
    while True:
        failed = {path: why for path in paths for why in [refusal(path)] if why}
        if len(failed) in (0, len(paths)):
            return failed
        paths = list(failed)


def refusal(path):
    """Why a library cannot be loaded; empty: it is."""
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return ""


with open("/proc/self/exe", "rb") as interpreter:
    MACHINE = interpreter.read(20)[18:20]
main()
