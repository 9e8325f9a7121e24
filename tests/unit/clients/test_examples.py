"""What is shipped ready for use reads what it says it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.emulator import metrics
from slipway.emulator.meter import Meter

EXAMPLES = Path(__file__).parents[3] / "examples"
# As transformers' Trainer prints: floats up to its release 4, quoted text in its newest.
FLOATS = """\
{'loss': 0.6931, 'grad_norm': 2.125, 'learning_rate': 4.5e-05, 'epoch': 0.5}
{'eval_loss': 0.25, 'eval_accuracy': 0.91, 'eval_f1': 0.9, 'eval_runtime': 1.2, 'epoch': 1.0}
{'train_runtime': 12.3, 'train_samples_per_second': 81.1, 'train_loss': 0.4, 'epoch': 1.0}
"""
TEXT = """\
{'loss': '0.6931', 'grad_norm': '2.125', 'learning_rate': '4.5e-05', 'epoch': '0.5'}
{'eval_loss': '0.25', 'eval_accuracy': '0.91', 'eval_f1': '0.9', 'eval_runtime': '1.2', 'epoch': '1'}
{'train_runtime': '12.3', 'train_samples_per_second': '81.1', 'train_loss': '0.4', 'epoch': '1'}
"""


@pytest.mark.parametrize("log", [FLOATS, TEXT], ids=["floats", "text"])
def test_the_metrics_of_trainer(log: str) -> None:
    defined = metrics.read(EXAMPLES / "transformers-trainer-metrics.tsv")
    assert not defined.warnings
    meter = Meter(defined.definitions)
    meter.feed(log)
    assert not meter.problems()
    assert {summary.name: summary.last for summary in meter.summaries()} == {
        "loss": 0.6931,
        "grad_norm": 2.125,
        "learning_rate": 4.5e-05,
        "epoch": 1.0,
        "eval_loss": 0.25,
        "eval_accuracy": 0.91,
        "eval_f1": 0.9,
        "eval_runtime": 1.2,
        "train_runtime": 12.3,
        "train_samples_per_second": 81.1,
        "train_loss": 0.4,
    }
