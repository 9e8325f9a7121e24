"""A training job that needs no toolkit: it counts the lines of its channel."""

import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    values = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
    lines = sum(len(path.read_text().splitlines()) for path in Path(os.environ["SM_CHANNEL_TRAIN"]).glob("*"))
    weight = lines * float(values.get("factor", "1"))  # hyperparameters arrive as text
    print(f"weight: {weight}")
    (Path(os.environ["SM_MODEL_DIR"]) / "model.json").write_text(json.dumps({"weight": weight}))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # SageMaker shows what this file holds as the reason of the failure.
        Path("/opt/ml/output/failure").write_text(traceback.format_exc())
        sys.exit(1)
