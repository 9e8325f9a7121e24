"""All four at once: a server that fails closed on a bad model, answers the request of a killed worker and is back soon,
loses no other request, and drains on SIGTERM. Whoever does not do one of them ends the bench.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.bench.serving import servers
from tests.bench.serving.servers import Contestant, Server

LOAD = "faults: load of a worker, s"
BACK = "faults: death to next answer, s"
OTHERS = 8
BOUND = 60.0


def all_at_once(one: Contestant) -> dict[str, float]:
    """The seconds that a worker's load took, and from its death to the next answer."""
    fails_closed(one)
    with servers.serving(one, "faults", first=(b'{"seconds": 0}', servers.JSON)) as server:
        url = f"http://{address(server)}:8080/invocations"
        victim = _Asked(url, 60)
        _wait(lambda: begun(server, 60))
        others = [_Asked(url, 0) for _ in range(OTHERS)]
        time.sleep(0.2)  # until they wait at the server
        worker = pids(server, "sagemaker_inference.server.worker")[0]
        died = time.perf_counter()
        servers.run("kill", "-9", str(worker))
        told = victim.answer()
        if told[0] != 500 or b"WorkerDied" not in told[1]:
            raise SystemExit(f"the request of the killed worker was answered by {told}")
        lost = [found for found in (other.answer() for other in others) if found[0] != 200]
        if lost:
            raise SystemExit(f"other requests were lost: {lost}")
        back = min(other.at for other in others) - died
        # The last load, not the first, which found nothing of it in memory.
        load = float(re.findall(r"worker 0: ready after ([\d.]+) s", logs(server.container))[-1])
        last = _Asked(url, 1.0)
        _wait(lambda: begun(server, 1.0))
        servers.run("docker", "kill", "--signal", "TERM", server.container)
        if last.answer()[0] != 200:
            raise SystemExit(f"SIGTERM lost a request that was running: {last.answer()}")
        code = servers.run("docker", "wait", server.container).strip()
        if code != "0":
            raise SystemExit(f"after SIGTERM the server ended with {code}")
    return {LOAD: load, BACK: back}


def fails_closed(one: Contestant) -> None:
    """Ends the bench unless a bad model ends the server, which is never healthy before."""
    name = f"slipway-bench-bad-{time.time_ns():x}"
    folder = ["-v", f"{servers.MODELS / 'faults'}:/opt/ml/model/code:ro"]
    servers.run("docker", "run", "-d", "--name", name, "-e", "BENCH_BAD=1", *folder, one.image, *one.command.split())
    try:
        limit = time.monotonic() + BOUND
        while time.monotonic() < limit:
            running, code, found = servers.run(
                *("docker", "inspect", "-f"),
                "{{.State.Running}} {{.State.ExitCode}} x{{.NetworkSettings.IPAddress}}",
                name,
            ).split()
            if running == "false":
                if code == "0":
                    raise SystemExit("with a bad model the server ended with 0")
                return
            if found != "x" and _status(f"http://{found[1:]}:8080/ping") == 200:
                raise SystemExit("with a bad model /ping said 200")
            time.sleep(0.1)
        raise SystemExit("with a bad model the server did not end")
    finally:
        servers.run("docker", "rm", "-f", name)


def wait_for_workers(server: Server, count: int) -> None:
    """Returns when so many workers are ready."""
    _wait(lambda: len(re.findall(r"worker \d+: ready after", logs(server.container))) >= count)


def address(server: Server) -> str:
    return servers.run("docker", "inspect", "-f", "{{.NetworkSettings.IPAddress}}", server.container).strip()


def logs(container: str) -> str:
    done = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def pids(server: Server, word: str) -> list[int]:
    """Processes of a server whose command line has a word."""
    lines = servers.run("docker", "top", server.container, "-eo", "pid,args").splitlines()[1:]
    return [int(line.split()[0]) for line in lines if word in line]


def begun(server: Server, seconds: float) -> bool:
    """Whether a request that takes so long is being handled."""
    return f'begun {{"seconds": {seconds}}}' in logs(server.container)


class _Asked:
    """A request that is under way."""

    def __init__(self, url: str, seconds: float) -> None:
        self.at = 0.0
        self._request = urllib.request.Request(
            url, json.dumps({"seconds": seconds}).encode(), {"Content-Type": servers.JSON}
        )
        self._found: Any = (0, b"no answer")
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            with urllib.request.urlopen(self._request, timeout=BOUND) as answer:
                self._found = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            self._found = error.code, error.read()
        except OSError as error:
            self._found = 0, str(error).encode()
        self.at = time.perf_counter()

    def answer(self) -> tuple[int, bytes]:
        self._thread.join()
        found: tuple[int, bytes] = self._found
        return found


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > limit:
            raise SystemExit("what the bench waits for did not come")
        time.sleep(0.02)
