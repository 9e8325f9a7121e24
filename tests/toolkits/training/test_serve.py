"""What ``serve`` says in an image that only trains."""

from sagemaker_training.cli import serve


def test_serve_explains_itself_in_one_line(capsys):
    assert serve.main() == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "no model server" in printed.err
    assert "inference image" in printed.err
