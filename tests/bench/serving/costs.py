"""What particular uses of the server cost: large bodies, large weights, streams, batches, several workers, faults.

    python -m tests.bench.serving.costs --image REFERENCE [--part npy …] [--rounds 7] [--seconds 4] [--json FILE]

The image is one of ours with PyTorch; what the floor and the models need is installed on top of it. Needs root, wrk and
nsenter. In each round every part runs once, with its contestants one after the other. Ends with 1 when a figure does
not hold, with 2 and without a verdict after fewer than 7 rounds.

| part | what is compared | bound |
|---|---|---|
| npy | requests/s with a body of 25 MB, the floor's over ours | 1 / 0.9 |
| weights | first answer of a model of 1 GB in safetensors, over a bare load | 1.1 |
| stream | µs a chunk, in one stream of many | 50 |
| batch | requests/s without batches over with them, where 8 cost 1.2 times one; p99 over one request alone | 1 / 3; 2 |
| workers | memory of four workers over one, on 500 MB, with preload; with mapped weights the MB are shown | 1.5 |
| faults | seconds from a worker's death to the next answer, over a load; what else holds is in faults.py | 0.5 |
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench import figures
from tests.bench.figures import Figure
from tests.bench.serving import faults, servers
from tests.bench.serving.bench import NO_VERDICT
from tests.bench.serving.servers import JSON, Contestant

Values = dict[str, float]

NPY = "application/x-npy"
COLUMNS = 1024
CHUNKS = 1000
INPUTS = json.dumps({"inputs": [[1.0] * COLUMNS]}).encode()
RAW_FLOOR = servers.FLOOR.replace("floor:app", "raw_floor:app")


@dataclass(frozen=True)
class Bench:
    """What all parts share. turn: the number of the round, by which the order of contestants changes."""

    image: str
    scratch: Path
    seconds: float
    turn: int = 0

    @property
    def ours(self) -> Contestant:
        return Contestant("ours", self.image, "serve")

    def in_turn(self, *measures: Callable[[], Values]) -> Values:
        """Every measure once, in an order that turns; their values together."""
        turn = self.turn % len(measures)
        found: Values = {}
        for measure in (*measures[turn:], *measures[:turn]):
            found |= measure()
        return found


def npy(bench: Bench) -> Values:
    body = _array(6250, 1000)
    answers: set[bytes] = set()

    def rate(one: Contestant) -> Values:
        with servers.serving(one, "npy", first=(body, NPY)) as server:
            answers.add(server.answer)
            server.send(body, 4, bench.seconds, NPY)
            found = server.send(body, 4, bench.seconds, NPY)
            return {_NPY.format(one.name): found["requests/s"], f"npy, {one.name}: cpu ms": found["cpu ms"]}

    floor = Contestant("floor", bench.image, RAW_FLOOR)
    found = bench.in_turn(lambda: rate(bench.ours), lambda: rate(floor))
    same("npy", answers)
    return found


def same(part: str, answers: set[bytes]) -> None:
    """Ends the bench where contestants gave different answers: their figures would compare different things."""
    if len(answers) != 1:
        raise SystemExit(f"{part}: the answers differ: {sorted(answer[:100] for answer in answers)}")


def weights(bench: Bench) -> Values:
    folder = _model(bench, 1000)

    def served() -> Values:
        with servers.serving(bench.ours, "weights", folder=folder, first=(INPUTS, JSON)) as server:
            return {_WEIGHTS.format("ours"): server.seconds}

    def bare() -> Values:
        began = time.perf_counter()
        words = ["docker", "run", "--rm", "-v", f"{folder}:/opt/ml/model:ro", "-v", f"{servers.HERE}:/bench:ro"]
        command = [*words, bench.image, "python", "/bench/bare_load.py", INPUTS.decode()]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit("the bare load failed")
            return {_WEIGHTS.format("bare"): time.perf_counter() - began}

    return bench.in_turn(served, bare)


def stream(bench: Bench) -> Values:
    def milliseconds(chunks: int) -> float:
        return server.send(json.dumps({"chunks": chunks}).encode(), 1, bench.seconds / 2)["p50 ms"]

    with servers.serving(bench.ours, "stream", first=(b'{"chunks": 1}', JSON)) as server:
        milliseconds(CHUNKS)
        each = (milliseconds(CHUNKS) - milliseconds(1)) / (CHUNKS - 1)
    return {"stream: us a chunk": 1000 * each}


def batch(bench: Bench) -> Values:
    body = b'{"x": 1}'

    def plain() -> Values:
        with servers.serving(bench.ours, "batch", first=(body, JSON)) as server:
            alone = server.send(body, 1, bench.seconds)
            many = server.send(body, 8, bench.seconds)
        return {"batch, alone: p99 ms": alone["p99 ms"], "batch, without: requests/s": many["requests/s"]}

    def batched() -> Values:
        settings = {"SLIPWAY_BATCH_SIZE": "8", "SLIPWAY_MAX_BATCH_DELAY_MS": "5"}
        with servers.serving(bench.ours, "batch", first=(body, JSON), **settings) as server:
            many = server.send(body, 8, bench.seconds)
        return {"batch, with: p99 ms": many["p99 ms"], "batch, with: requests/s": many["requests/s"]}

    return bench.in_turn(plain, batched)


def workers(bench: Bench) -> Values:
    folder = _model(bench, 500)

    def memory(how: str, count: int, **settings: str) -> Values:
        with servers.serving(bench.ours, "weights", count, folder=folder, first=(INPUTS, JSON), **settings) as server:
            faults.wait_for_workers(server, count)
            # So that each has read all of its weights.
            server.send(INPUTS, 4 * count, bench.seconds)
            return {f"workers, {how}, {count}: MB": server.memory()}

    return bench.in_turn(
        *(lambda count=count: memory("mapped", count) for count in (1, 4)),  # type: ignore[misc]
        *(lambda count=count: memory("preload", count, SLIPWAY_PRELOAD="true") for count in (1, 4)),  # type: ignore[misc]
    )


def with_faults(bench: Bench) -> Values:
    return faults.all_at_once(bench.ours)


PARTS: dict[str, Callable[[Bench], Values]] = {
    "npy": npy,
    "weights": weights,
    "stream": stream,
    "batch": batch,
    "workers": workers,
    "faults": with_faults,
}


_NPY = "npy, {}: requests/s"
_WEIGHTS = "weights, {}: first answer, s"
_RATIOS = (
    ("npy: floor's requests/s over ours", _NPY.format("floor"), _NPY.format("ours"), 1 / 0.9),
    ("weights: first answer over a bare load", _WEIGHTS.format("ours"), _WEIGHTS.format("bare"), 1.1),
    ("batch: requests/s without over with", "batch, without: requests/s", "batch, with: requests/s", 1 / 3),
    ("batch: p99 over one request alone", "batch, with: p99 ms", "batch, alone: p99 ms", 2.0),
    ("workers: memory of 4 over 1, preload", "workers, preload, 4: MB", "workers, preload, 1: MB", 1.5),
)


def verdicts(values: dict[str, list[float]]) -> list[Figure]:
    """The figures of the parts that ran."""
    found = []
    for name, ours, floor, bound in _RATIOS:
        if ours in values:
            found.append(figures.ratio(name, values[ours], values[floor], bound))
    if chunk := values.get("stream: us a chunk"):
        found.append(figures.difference("stream: us a chunk", chunk, [0.0] * len(chunk), 50.0))
    if faults.BACK in values:
        found.append(
            figures.difference("faults: back after a load and, s", values[faults.BACK], values[faults.LOAD], 0.5)
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--image", required=True)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    parser.add_argument("--rounds", type=int, default=figures.ROUNDS)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", default="")
    given = parser.parse_args()
    image = servers.image(given.image, "costs", ["starlette", "safetensors"])
    values: dict[str, list[float]] = {}
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for number in range(given.rounds):
                for part in given.part or list(PARTS):
                    bench = Bench(image, Path(scratch), given.seconds, number)
                    for name, value in PARTS[part](bench).items():
                        values.setdefault(name, []).append(value)
                    print(f"round {number + 1}: {part}", file=sys.stderr, flush=True)
    finally:
        servers.remove([image])
    for name, measured in values.items():
        print(f"{name:44} {statistics.median(measured):12.2f}")
    judged = given.rounds >= figures.ROUNDS
    found = verdicts(values) if judged else []
    for figure in found:
        print(figure)
    if given.json:
        told = {"values": values, "figures": [vars(figure) for figure in found]}
        Path(given.json).write_text(json.dumps(told, indent=1))
    if not judged:
        print(f"no verdict: that takes {figures.ROUNDS} rounds, and these were {given.rounds}")
        return NO_VERDICT
    return 0 if all(figure.holds for figure in found) else 1


def _array(rows: int, columns: int) -> bytes:
    """An array of float32 as NPY; written by hand, so that the bench needs no numpy."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    head = head.ljust((len(head) + 10 + 1 + 63) // 64 * 64 - 10 - 1) + "\n"
    out = io.BytesIO()
    out.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
    out.write(b"\0\0\x80\x3f" * (rows * columns))
    return out.getvalue()


def _model(bench: Bench, megabytes: int) -> Path:
    """A model of so many MB (10^6 bytes) in safetensors, with its code; made once."""
    folder = bench.scratch / f"weights-{megabytes}"
    if folder.exists():
        return folder
    (folder / "code").mkdir(parents=True)
    folder.chmod(0o755)
    source = servers.MODELS / "weights" / "inference.py"
    (folder / "code" / "inference.py").write_text(source.read_text())
    row = b"\0\0\x80\x3f" * COLUMNS
    rows = megabytes * 10**6 // len(row)
    described = {"layer.weight": {"dtype": "F32", "shape": [rows, COLUMNS], "data_offsets": [0, rows * len(row)]}}
    head = json.dumps(described).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for _ in range(rows):
            file.write(row)
    return folder


if __name__ == "__main__":
    sys.exit(main())
