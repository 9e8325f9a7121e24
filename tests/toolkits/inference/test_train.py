"""What ``train`` says in an image that only serves."""

from __future__ import annotations

from sagemaker_inference.cli import train


def test_train_explains_itself_in_one_line(capsys):
    assert train.main() == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "no training toolkit" in printed.err
    assert "training image" in printed.err
