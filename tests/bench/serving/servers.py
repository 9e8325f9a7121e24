"""Servers as containers, and what is measured of one: start, memory, requests per second, CPU, latency."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MODELS = HERE / "models"

BODIES = {
    "noop": json.dumps({"inputs": "x" * 1000}).encode(),
    "mlp": json.dumps({"inputs": [[round(n / 64, 3) for n in range(64)] for _ in range(2)]}).encode(),
}
JSON = "application/json"

FLOOR = (
    "uvicorn --app-dir /bench floor:app --host 0.0.0.0 --port 8080 --no-access-log --log-level warning "
    "--workers {workers}"
)
PEERS = {"litserve": "python /bench/litserve_peer.py"}

_LUA = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "{kind}"
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
file:close()
"""


@dataclass(frozen=True)
class Contestant:
    """An image, and what is run in it: words with blanks between them."""

    name: str
    image: str
    command: str


@dataclass(frozen=True)
class Server:
    """A container that serves. `seconds`: from `docker run` to the first good answer."""

    container: str
    pid: int
    seconds: float
    answer: bytes

    def memory(self) -> float:
        """MB (10^6) that all its processes have to themselves, shared pages divided."""
        listed = run("docker", "top", self.container, "-eo", "pid").split()[1:]
        return sum(pss(int(pid)) for pid in listed) / 1e6

    def cpu(self) -> float:
        """Seconds of CPU that the container has used."""
        found = Path(f"/proc/{self.pid}/cgroup").read_text()
        for line in found.splitlines():
            _, kinds, path = line.split(":", 2)
            if "cpuacct" in kinds.split(","):
                return int(Path(f"/sys/fs/cgroup/cpuacct{path}/cpuacct.usage").read_text()) / 1e9
        path = found.split("::", 1)[1].strip()
        usage = Path(f"/sys/fs/cgroup{path}/cpu.stat").read_text()
        return int(re.search(r"usage_usec (\d+)", usage)[1]) / 1e6  # type: ignore[index]

    def load(self, model: str, connections: int, seconds: float) -> dict[str, float]:
        """Requests per second, CPU ms a request, and latency in ms, with that many connections."""
        return self.send(BODIES[model], connections, seconds)

    def send(self, data: bytes, connections: int, seconds: float, kind: str = JSON) -> dict[str, float]:
        """The same with any body."""
        with tempfile.TemporaryDirectory() as scratch:
            body, script = Path(scratch) / "body", Path(scratch) / "post.lua"
            body.write_bytes(data)
            script.write_text(_LUA.format(body=body, kind=kind))
            before = self.cpu()
            # In the server's own network, so that nothing stands in between.
            told = run(
                *("nsenter", "-t", str(self.pid), "-n", "wrk", "-t1", f"-c{connections}"),
                *(
                    f"-d{max(1, round(seconds))}s",
                    "--timeout",
                    "60s",
                    "--latency",
                    "-s",
                    str(script),
                    "http://127.0.0.1:8080/invocations",
                ),
            )
            spent = self.cpu() - before
        if "Non-2xx" in told or "Socket errors" in told:
            raise SystemExit(f"{self.container} lost requests:\n{told}")
        requests = int(re.search(r"(\d+) requests in", told)[1])  # type: ignore[index]
        if not requests:
            raise SystemExit(f"{self.container} answered nothing in {seconds:g} s: give it more")
        return {
            "requests/s": float(re.search(r"Requests/sec:\s*([\d.]+)", told)[1]),  # type: ignore[index]
            "cpu ms": 1000 * spent / requests,
            "p50 ms": _milliseconds(told, "50"),
            "p99 ms": _milliseconds(told, "99"),
        }


def _milliseconds(told: str, percentile: str) -> float:
    found = re.search(rf"^\s*{percentile}%\s+([\d.]+)(us|ms|s)\s*$", told, re.MULTILINE)
    assert found is not None, told
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found[2]]


@contextlib.contextmanager
def serving(
    contestant: Contestant,
    model: str,
    workers: int = 1,
    *,
    folder: Path | None = None,
    first: tuple[bytes, str] | None = None,
    **environment: str,
) -> Iterator[Server]:
    """A container that has given its first good answer.

    folder: what it has as /opt/ml/model, instead of the model's code alone; first: the body of the first request and
    its type, where that is not in BODIES.
    """
    name = f"slipway-bench-{secrets.token_hex(4)}"
    variables = {"SAGEMAKER_MODEL_SERVER_WORKERS": str(workers), **environment}
    settings = [word for key, value in variables.items() for word in ("-e", f"{key}={value}")]
    place = f"{folder}:/opt/ml/model:ro" if folder else f"{MODELS / model}:/opt/ml/model/code:ro"
    folders = ["-v", place, "-v", f"{HERE}:/bench:ro"]
    began = time.perf_counter()
    run(
        "docker",
        "run",
        "-d",
        "--name",
        name,
        *settings,
        *folders,
        contestant.image,
        *contestant.command.format(workers=workers).split(),
    )
    try:
        address, pid = run("docker", "inspect", "-f", "{{.NetworkSettings.IPAddress}} {{.State.Pid}}", name).split()
        body, kind = first or (BODIES[model], JSON)
        answer = _first_answer(f"http://{address}:8080/invocations", body, kind, name)
        yield Server(name, int(pid), time.perf_counter() - began, answer)
    finally:
        run("docker", "rm", "-f", name)


def _first_answer(url: str, body: bytes, kind: str, name: str) -> bytes:
    limit = time.monotonic() + 120
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    while time.monotonic() < limit:
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())
        time.sleep(0.01)
    raise SystemExit(f"{name} gave no answer:\n" + run("docker", "logs", name))


def images(base: str, peers: Sequence[str]) -> tuple[list[Contestant], list[str]]:
    """Ours, the floor and the peers, all on one image; and the names of the images that were made."""
    made: list[str] = []
    found = [Contestant("ours", base, "serve")]
    for name, packages, command in (("floor", ["starlette"], FLOOR), *((peer, [peer], PEERS[peer]) for peer in peers)):
        made.append(image(base, name, packages))
        found.append(Contestant(name, made[-1], command))
    return found, made


def image(base: str, name: str, packages: Sequence[str]) -> str:
    """The name of a new image: the base with packages of PyPI."""
    made = f"slipway-bench/{name}:{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch) / "wheels"
        download = [sys.executable, "-m", "pip", "download", "-q", "-d", str(wheels), *packages]
        subprocess.run(download, check=True)
        (Path(scratch) / "Dockerfile").write_text(
            f"FROM {base}\n"
            "RUN --mount=type=bind,target=/context pip install -q --no-index --no-cache-dir "
            f"--find-links /context/wheels {' '.join(packages)}\n"
        )
        run("docker", "buildx", "build", "-q", "--provenance=false", "--load", "-t", made, scratch)
    return made


def remove(made: Sequence[str]) -> None:
    for image in made:
        subprocess.run(["docker", "image", "rm", "-f", image], stdout=subprocess.DEVNULL, check=False)


def pss(pid: int) -> int:
    """Bytes that a process has to itself; nothing for one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def run(*command: str, environment: Mapping[str, str] | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not installed: on Debian, apt-get install {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
