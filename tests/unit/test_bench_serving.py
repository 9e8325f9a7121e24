"""The serving benches: what they compare stays the same, and too little of it gives no verdict."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import figures
from tests.bench.serving import bench, costs, servers

# A floor that changes makes the figures of other days worthless: measure the peers again when one of these must change.
FROZEN = {
    "floor.py": "0bc90deba9e365888fec110edfaf94d0d3716a08aceea361494987cc80a6195b",
    "raw_floor.py": "ea4fbbc0388b7ef4401450ae1ecc13395d0981d7a7eefd620e9ea4c19644959e",
    "bare_load.py": "c8ce8ce4c7339448d83cb6aeded6fbee764999003a8505563b9bbe08c2a66a3a",
}


@pytest.mark.parametrize("name", FROZEN)
def test_the_floor_is_frozen(name: str) -> None:
    assert hashlib.sha256((servers.HERE / name).read_bytes()).hexdigest() == FROZEN[name]


def run(monkeypatch: pytest.MonkeyPatch, program: Any, rounds: int, slower: float = 1.0) -> int:
    """A bench's exit status where every measure is 1, but ours `slower`."""
    ours, floor = SimpleNamespace(name="ours"), SimpleNamespace(name="floor")

    def measured(one: Any, *_: Any) -> dict[str, float]:
        load = [f"{key} c={bench.MANY} {what}" for key in ("noop", "mlp", "noop x2") for what in ("cpu ms", "p99 ms")]
        rates = [f"{key} c={bench.MANY} requests/s" for key in ("noop", "mlp", "noop x2")]
        names = [*load, *rates, "mlp first answer, s", "mlp idle, MB"]
        return dict.fromkeys(names, slower if one is ours else 1.0)

    monkeypatch.setattr(servers, "images", lambda *_: ([ours, floor], []))
    monkeypatch.setattr(servers, "image", lambda *_: "image")
    monkeypatch.setattr(servers, "remove", lambda _: None)
    monkeypatch.setattr(bench, "measured", measured)
    monkeypatch.setitem(costs.PARTS, "stream", lambda _: {"stream: us a chunk": 49.0 * slower})
    part = ["--part", "stream"] if program is costs else []
    monkeypatch.setattr(sys, "argv", ["bench", "--image", "image", "--rounds", str(rounds), *part])
    return int(program.main())


@pytest.mark.parametrize("program", [bench, costs])
def test_too_few_rounds_give_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: Any
) -> None:
    assert run(monkeypatch, program, figures.ROUNDS - 1) == 2
    assert "no verdict" in capsys.readouterr().out
    assert run(monkeypatch, program, figures.ROUNDS) == 0
    assert "no verdict" not in capsys.readouterr().out
    assert run(monkeypatch, program, figures.ROUNDS, slower=1.6) == 1


@pytest.mark.parametrize("other", [b"[1.0]", b"[2.0]"])
def test_large_bodies_are_compared_by_their_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, other: bytes
) -> None:
    @contextlib.contextmanager
    def serving(one: servers.Contestant, *_: Any, **__: Any) -> Iterator[Any]:
        answer = b"[1.0]" if one.name == "ours" else other
        yield SimpleNamespace(answer=answer, send=lambda *_: {"requests/s": 1.0, "cpu ms": 1.0})

    monkeypatch.setattr(servers, "serving", serving)
    monkeypatch.setattr(costs, "_array", lambda *_: b"")
    measures = costs.Bench("image", tmp_path, 1.0)
    if other == b"[1.0]":
        assert costs.npy(measures)["npy, ours: requests/s"] == 1.0
        return
    with pytest.raises(SystemExit, match="the answers differ"):
        costs.npy(measures)
