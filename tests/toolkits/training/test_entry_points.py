"""Entry points: names, kinds, and how each is run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_training import errors, kinds


@pytest.mark.parametrize("name", ["train.py", "a/b/train.py", "run.sh", "my-train_2.py", "a+b.py", "bin/program"])
def test_good_names(name):
    assert kinds.check_name(name) == name


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("a b.py", "' '"), ("$(id).py", "'$' '(' ')'"), ("a;b.sh", "';'"), ("é.py", "'é'"), ("a\nb.py", "'\\n'"),
        ("/abs.py", "no leading"), ("-m.py", "no leading"), ("../x.py", ".. part"), ("a/./b.py", ".. part"),
        ("a//b.py", ".. part"), ("a/", ".. part"), ("", "names no entry point"), (None, "names no entry point"),
    ],
)  # fmt: skip
def test_bad_names(name, complaint):
    with pytest.raises(errors.ClientError) as caught:
        kinds.check_name(name)
    assert complaint in str(caught.value)


@given(st.text())
def test_accepted_names_are_harmless(name):
    try:
        kinds.check_name(name)
    except errors.ClientError:
        return
    assert not set(name) & set(" \t\n$`\"'\\;&|<>(){}*?[]~#!")
    assert not name.startswith("/")
    assert not os.path.normpath(name).startswith("..")


def test_bad_name_is_refused_before_anything_is_fetched(job):
    job.hyperparameters({"sagemaker_program": "a;b.py", "sagemaker_submit_directory": "s3://bucket/key"})
    done = job.run()
    assert done.code == 1
    assert "contains ';'" in done.failure


def test_link_out_of_the_code_folder(job, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("print('ran')")
    (job.base / "code/train.py").symlink_to(outside)
    job.hyperparameters({"sagemaker_program": "train.py"})
    done = job.run()
    assert (done.code, done.out) == (1, "")
    assert "leads out of" in done.failure


@pytest.mark.parametrize("name", ["train.py", "train.sh", "program"])
def test_missing_entry_point_lists_what_is_there(job, name):
    job.code("other.py", "")
    job.code("requirements.txt", "not-installed-first\n")
    job.hyperparameters({"sagemaker_program": name})
    done = job.run()
    assert done.code == 1
    assert f"The entry point {name} is not in {job.base}/code, which holds: other.py, requirements.txt." in done.failure


@pytest.mark.parametrize(
    "name, setup, kind",
    [
        ("train.py", None, kinds.Kind.PYTHON_PROGRAM), ("train.sh", None, kinds.Kind.COMMAND),
        ("program", None, kinds.Kind.COMMAND),
        ("train.py", "from setuptools import setup\nsetup()", kinds.Kind.PYTHON_PACKAGE),
        ("train.sh", "from setuptools import setup\nsetup()", kinds.Kind.COMMAND),
        ("train.py", "\n# nothing\n", kinds.Kind.PYTHON_PROGRAM),
    ],
)  # fmt: skip
def test_kinds(tmp_path, name, setup, kind):
    if setup is not None:
        (tmp_path / "setup.py").write_text(setup)
    assert kinds.kind_of(name, str(tmp_path)) is kind


@pytest.mark.parametrize(
    "name, module",
    [("train.py", "train"), ("src/pkg/train.py", "src.pkg.train"), ("a.b", "a.b"), ("my-dir/train.py", None)],
)
def test_module_names(name, module):
    assert kinds.module_name(name) == module


def fake_installer(job):
    job.env["SLIPWAY_INSTALLER"] = "uv"
    path = job.base / "bin/uv"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\necho "$PWD: $*" >> "$HOME/installs"\n')
    path.chmod(0o755)
    job.env["PATH"] = f"{path.parent}:{job.env['PATH']}"
    return job.base / "home/installs"


def test_package_in_folders_runs_as_a_module(job):
    installs = fake_installer(job)
    job.code("setup.py", "from setuptools import setup\nsetup()\n")
    job.code("requirements.txt", "six\n")
    job.code("src/pkg/train.py", "import sys; print(__spec__.name, sys.argv[1:])")
    job.hyperparameters({"sagemaker_program": "src/pkg/train.py", "x": "1"})
    done = job.run()
    assert done.out == "src.pkg.train ['-x', '1']\n"
    assert f"{job.base}/code: pip install --python {sys.executable} . -r requirements.txt" in installs.read_text()


def test_package_in_a_folder_that_is_no_module_runs_as_a_script(job):
    fake_installer(job)
    job.code("setup.py", "from setuptools import setup\nsetup()\n")
    job.code("my-dir/train.py", "print(__name__, __spec__)")
    job.hyperparameters({"sagemaker_program": "my-dir/train.py"})
    assert job.run().out == "__main__ None\n"


def test_script_in_a_folder(job):
    job.code("sub/train.py", "import os; print(os.getcwd())")
    job.hyperparameters({"sagemaker_program": "sub/train.py"})
    assert job.run().out == f"{job.base}/code\n"


def test_shell_requirements_are_opt_in_and_the_log_says_so(job):
    installs = fake_installer(job)
    job.code("train.sh", "echo ran\n")
    job.code("requirements.txt", "six\n")
    job.hyperparameters({"sagemaker_program": "train.sh"})
    done = job.run()
    assert done.out == "ran\n"
    assert "requirements.txt is not installed for the shell entry point train.sh" in done.err
    assert not installs.exists()
    job.env["SLIPWAY_SHELL_REQUIREMENTS"] = "true"
    job.run()
    assert "-r requirements.txt" in installs.read_text()


def test_shell_file_without_a_mode_or_first_line(job):
    job.code("train.sh", 'echo "$0 $1"\n').chmod(0o600)
    job.hyperparameters({"sagemaker_program": "train.sh", "a": "b c"})
    assert job.run().out == "./train.sh -a\n"


def test_program_without_a_suffix(job):
    job.code("program", f"#!{sys.executable}\nimport sys; print(sys.argv[1:])\n")
    job.hyperparameters({"sagemaker_program": "program", "a": "$(id)"})
    assert job.run().out == "['-a', '$(id)']\n"


@pytest.mark.parametrize("first, out", [("#!/bin/bash -e\n", "bash\n"), ("", "other\n")])
def test_file_that_cannot_be_made_executable(job, monkeypatch, first, out):
    """On a read-only mount the file's first line says what runs it, else the shell does."""
    job.code("train.sh", first + 'case "$BASH" in /bin/bash) echo bash;; *) echo other;; esac\n').chmod(0o644)
    monkeypatch.setattr(kinds, "_make_executable", lambda path: False)
    command = kinds.script_command("train.sh", [], str(job.base / "code"))
    assert subprocess.run(command, cwd=str(job.base / "code"), stdout=subprocess.PIPE).stdout.decode() == out
