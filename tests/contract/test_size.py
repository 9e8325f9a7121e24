"""What an image weighs, against what SageMaker takes and against the ceilings of its own cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipway import size
from slipway.engine.docker import Engine
from slipway.errors import SizeError
from slipway.spec import load
from slipway.verify.inspection import Inspection

PROJECT = Path(__file__).parents[2]
TITLE = "org.opencontainers.image.title"


def test_size_fits(engine: Engine, image: str, config: dict[str, Any], looked: Inspection, kind: str) -> None:
    held = size.weigh(engine, image)
    cuda = any(name.startswith("nvidia-cuda-runtime") for name in looked.facts.get("packages", {}))
    wrong = size.refused(held, kind.rpartition("-")[2], "gpu" if cuda else "cpu")
    cells = [cell for cell in load.load(PROJECT).images if cell.id == config["Labels"].get(TITLE)]
    try:
        size.refuse_over(cells, {cell.id: held for cell in cells}, {})
    except SizeError as over:
        wrong += [fault.what for fault in over.faults]
    assert not wrong, "\n".join(wrong)
