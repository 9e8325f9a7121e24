"""What serving costs, against the same user functions on uvicorn and starlette, and against peers, in one run.

    python -m tests.bench.serving.bench --image REFERENCE [--peer litserve …] [--rounds 7] [--seconds 4] [--json FILE]

The image is one of ours with torch; floor and peers are installed on top of it, so that Python and torch are the same.
Needs root, wrk and nsenter: the load comes from within the server's own network. While the load runs, /ping of our
server is asked every half second and must answer within 2 seconds. Ends with 1 when a figure does not hold, with 2 and
without a verdict after fewer than 7 rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.bench import figures
from tests.bench.figures import Figure
from tests.bench.serving import servers
from tests.bench.serving.servers import Contestant, Server

MANY = 32
NO_VERDICT = 2
"""The exit status after too few rounds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--image", required=True)
    parser.add_argument("--peer", action="append", default=[], choices=list(servers.PEERS))
    parser.add_argument("--rounds", type=int, default=figures.ROUNDS)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", default="")
    given = parser.parse_args()
    contestants, made = servers.images(given.image, given.peer)
    values: dict[str, dict[str, list[float]]] = {one.name: {} for one in contestants}
    try:
        for number in range(given.rounds):
            turn = number % len(contestants)
            answers: dict[str, set[bytes]] = {}
            for one in (*contestants[turn:], *contestants[:turn]):
                for name, value in measured(one, given.seconds, answers).items():
                    values[one.name].setdefault(name, []).append(value)
                print(f"round {number + 1}: {one.name}", file=sys.stderr, flush=True)
            differing = [model for model, found in answers.items() if len(found) != 1]
            if differing:
                raise SystemExit(f"the answers differ: {differing}")
    finally:
        servers.remove(made)
    judged = given.rounds >= figures.ROUNDS
    found = verdicts(values) if judged else []
    report(values, found)
    if given.json:
        told = {"values": values, "figures": [vars(figure) for figure in found]}
        Path(given.json).write_text(json.dumps(told, indent=1))
    if not judged:
        print(f"no verdict: that takes {figures.ROUNDS} rounds, and these were {given.rounds}")
        return NO_VERDICT
    return 0 if all(figure.holds for figure in found) else 1


def measured(one: Contestant, seconds: float, answers: dict[str, set[bytes]]) -> dict[str, float]:
    """Every figure of one contestant, once."""
    values: dict[str, float] = {}
    for model, workers in (("noop", 1), ("mlp", 1), ("noop", 2)):
        key = model if workers == 1 else f"{model} x{workers}"
        with servers.serving(one, model, workers) as server:
            answers.setdefault(model, set()).add(server.answer)
            values[f"{key} first answer, s"] = server.seconds
            time.sleep(1.0)
            values[f"{key} idle, MB"] = server.memory()
            server.load(model, MANY, 1.0)  # warm
            with watched(server, one.name == "ours"):
                for name, value in server.load(model, MANY, seconds).items():
                    values[f"{key} c={MANY} {name}"] = value
            if workers == 1:
                values[f"{key} c=1 requests/s"] = server.load(model, 1, seconds / 2)["requests/s"]
    return values


class watched:
    """Asks /ping while a block runs, and fails when an answer takes longer than 2 seconds."""

    def __init__(self, server: Server, asked: bool) -> None:
        shown = servers.run("docker", "inspect", "-f", "{{.NetworkSettings.IPAddress}}", server.container)
        self._url = f"http://{shown.strip()}:8080/ping"
        self._over = threading.Event()
        self._late: list[str] = []
        self._thread = threading.Thread(target=self._watch, daemon=True) if asked else None

    def __enter__(self) -> None:
        if self._thread:
            self._thread.start()

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
        if self._late:
            raise SystemExit(f"/ping failed under load: {self._late}")

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self._late += _ping(self._url)


def _ping(url: str) -> list[str]:
    """What went wrong, if anything did."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return []
    except OSError as error:
        return [str(error)]


def verdicts(values: dict[str, dict[str, list[float]]]) -> list[Figure]:
    """The promised figures. More is better for requests/s, so there the floor is divided by ours."""
    ours, floor = values["ours"], values["floor"]
    found = []
    for key in ("noop", "mlp", "noop x2"):
        load = f"{key} c={MANY}"
        rate = f"{load} requests/s"
        found.append(figures.ratio(f"{load}: floor's requests/s over ours", floor[rate], ours[rate], 1.0))
        found.append(figures.ratio(f"{load}: CPU a request", ours[f"{load} cpu ms"], floor[f"{load} cpu ms"], 1.1))
        found.append(figures.ratio(f"{load}: p99", ours[f"{load} p99 ms"], floor[f"{load} p99 ms"], 1.5))
    first, idle = "mlp first answer, s", "mlp idle, MB"
    found.append(figures.difference("mlp: first good answer over the floor, s", ours[first], floor[first], 0.3))
    found.append(figures.difference("mlp: idle memory over the floor, MB", ours[idle], floor[idle], 30.0))
    return found


def report(values: dict[str, dict[str, list[float]]], found: list[Figure]) -> None:
    import statistics

    names = list(values)
    print(f"{'median':34}", *(f"{name:>12}" for name in names))
    for key in values["ours"]:
        print(f"{key:34}", *(f"{statistics.median(values[name][key]):12.2f}" for name in names))
    for figure in found:
        print(figure)


if __name__ == "__main__":
    sys.exit(main())
