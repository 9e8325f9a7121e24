"""Looks at an image from inside, as root: packages, versions, files. Prints one line of JSON. Standard library only."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ANYBODY = 4711
LIBRARIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libraries.py")
PLACES = ("/proc", "/sys", "/dev", "/run/slipway-probe")
HISTORIES = re.compile(
    r"\.(bash|sh|zsh|ash|python|psql|node_repl|mysql|sqlite)_history|\.lesshst|\.wget-hsts|\.viminfo"
)
CREDENTIALS = re.compile(
    r"\.netrc|\.pypirc|\.git-credentials|\.dockercfg|\.npmrc|credentials|id_(rsa|dsa|ecdsa|ed25519)"
)
KEY_FILES = re.compile(r".*\.(pem|key|p12|pfx|env|conf|cfg|ini|toml|json|txt|sh)")
KEYS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bA(?:KIA|SIA)[A-Z0-9]{16}\b|://[^/\s:@]+:[^/\s:@${}<>]+@|"
    rb"\bgh[pousr]_[A-Za-z0-9]{36}\b"
)
REPOSITORIES = (".git", ".hg", ".svn")
# Where a build leaves things that no job needs. A folder that is there and empty is nobody's concern.
EMPTY = ("/tmp", "/var/tmp", "/root/.cache", "/var/cache/apt/archives", "/var/lib/apt/lists", "/opt/ml")
STRAY = re.compile(
    r".*(\.(whl|deb|orig|rej|swp|bak|pyc\.\d+)|~)|core(\.\d+)?|\.coverage|\.DS_Store|Dockerfile|\.dockerignore"
)

FRAMEWORKS = ("torch", "tensorflow", "mxnet")
# Prints what a framework's CUDA code was compiled for. TensorFlow is not imported for it: that takes seconds.
COMPILED_FOR = {
    "torch": "import torch\nprint(getattr(torch._C, '_cuda_getArchFlags', str)() or '')",
    "tensorflow": (
        "import importlib.util as util, os, runpy\n"
        "folder = util.find_spec('tensorflow').submodule_search_locations[0]\n"
        "built = runpy.run_path(os.path.join(folder, 'python', 'platform', 'build_info.py'))['build_info']\n"
        "print(*built.get('cuda_compute_capabilities', ()))"
    ),
}
# What images advertise, and is there to be imported where it is installed.
ADVERTISED = (
    *FRAMEWORKS,
    *("torchvision", "torchaudio", "transformers", "sentence_transformers", "accelerate", "peft", "safetensors"),
    *("datasets", "evaluate", "pandas", "sklearn", "cv2", "PIL", "boto3", "paramiko", "mpi4py.MPI", "soundfile"),
    *("uvicorn", "httptools", "uvloop", "websockets"),
)


def main():
    packages = {
        re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower(): distribution.version
        for distribution in importlib.metadata.distributions()
    }
    remains = [path for place in EMPTY for path in listing(place) if not os.path.isdir(path) or listing(path)]
    # Imports take longest, and may leave caches of their own: the rest is looked at beside them.
    with ThreadPoolExecutor(3) as pool:
        imported = pool.submit(imports, [name for name in ADVERTISED if found(name.partition(".")[0])])
        checked = pool.submit(run, [sys.executable, "-m", "pip", "check", "--disable-pip-version-check"])
        needs = pool.submit(libraries)
        leftovers, secrets = walk()
        facts = {
            "python": ".".join(map(str, sys.version_info[:3])),
            "interpreters": {name: interpreter(name) for name in ("python", "python3", "pip", "pip3")},
            "machine": platform.machine(),
            "os": os_release(),
            "packages": packages,
            "cuda_architectures": cuda_architectures(packages),
            "train": executable(shutil.which("train")),
            "serve": executable(shutil.which("serve")),
            "leftovers": sorted({*remains, *leftovers}),
            "secrets": secrets,
            "pip_check": checked.result(),
            "libraries": needs.result(),
            "imports": imported.result(),
        }
    print("facts\t" + json.dumps(facts), flush=True)


def found(name):
    """Whether a package of this name is there to import, without importing it."""
    return importlib.util.find_spec(name) is not None


def imports(names):
    """[exit code, what it printed] of the import of each, in one process as long as all goes well."""
    code = "import sys\nfor name in sys.argv[1:]:\n    __import__(name)"
    if run([sys.executable, "-c", code, *names], limit=300)[0] == 0:
        return {name: [0, ""] for name in names}
    return {name: run([sys.executable, "-c", "import " + name]) for name in names}


def libraries():
    """What libraries.py finds, or that it `failed`."""
    try:
        done = subprocess.run([sys.executable, "-I", LIBRARIES], stdout=subprocess.PIPE, timeout=120, check=True)
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"failed": str(error)}


def cuda_architectures(packages):
    """`["sm_80", "compute_90"]`; none where no CUDA comes along."""
    if not any(name.startswith("nvidia-cuda-runtime") for name in packages):
        return []
    codes = [code for name, code in COMPILED_FOR.items() if found(name)]
    return [word for code in codes for word in run([sys.executable, "-c", code])[1].split()]


def run(command, limit=60, **options):
    """[exit code, what it printed]."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [126, str(error)]
    return [done.returncode, done.stdout.decode("utf-8", "replace")[-3000:]]


def interpreter(name):
    """The prefix of the Python behind a program, and its version."""
    path = shutil.which(name)
    if not path:
        return ""
    if name.startswith("python"):
        return run([path, "-I", "-c", "import sys; print(sys.prefix)"])[1].strip()
    # "pip 23.0 from /opt/venv/lib/python3.11/site-packages/pip (python 3.11)"
    found = re.search(r" from (.*)/lib/python[0-9.]+/", run([path, "--version"])[1])
    return found[1] if found else "unknown"


def executable(path):
    """For root and for anybody else: empty, or why the program cannot be run."""
    if not path:
        return {}
    code = "import os, sys; print(os.access(sys.argv[1], os.X_OK) and os.access(sys.argv[1], os.R_OK))"
    found = {}
    for who, identity in (("root", 0), ("any user", ANYBODY)):
        problems = []
        for needed in [path, *shebang(path)]:
            answer = run([sys.executable, "-I", "-c", code, needed], user=identity, group=identity, extra_groups=[])
            if answer[1].strip() != "True":
                problems.append(f"{needed} cannot be executed: {answer[1].strip()[-200:]}")
        found[who] = "; ".join(problems)
    return found


def shebang(path):
    """The interpreter that a script names, as the kernel would look for it."""
    with open(path, "rb") as script:
        first = script.readline(256)
    return [first[2:].split()[0].decode()] if first.startswith(b"#!") and first[2:].split() else []


def os_release():
    """`debian12`."""
    values = {}
    with open("/etc/os-release") as file:
        for line in file:
            key, _, value = line.strip().partition("=")
            values[key] = value.strip('"')
    return values.get("ID", "") + values.get("VERSION_ID", "")


def walk():
    """Files that no image should hold, and those that hold a secret or are there to hold one."""
    leftovers, secrets = [], []
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in PLACES]
        leftovers += [os.path.join(folder, name) for name in folders if name in REPOSITORIES]
        library = "/site-packages/" in folder + "/" or "/dist-packages/" in folder + "/" or folder.startswith("/usr/")
        for name in names:
            path = os.path.join(folder, name)
            if HISTORIES.fullmatch(name) or (STRAY.fullmatch(name) and not library):
                leftovers.append(path)
            if CREDENTIALS.fullmatch(name) and not library:
                secrets.append(f"{path} is a file for credentials")
            elif KEY_FILES.fullmatch(name) and not library and holds_key(path):
                secrets.append(f"{path} holds a key or a password")
    return leftovers, secrets


def listing(folder):
    """The paths in a folder, without apt's own lock."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name != "lock"]
    except OSError:
        return []


def holds_key(path):
    try:
        if os.path.islink(path) or os.path.getsize(path) > 1 << 20:
            return False
        with open(path, "rb") as file:
            return KEYS.search(file.read()) is not None
    except OSError:
        return False


main()
