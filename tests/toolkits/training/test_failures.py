"""The failure text: cause first, within 1,024 characters, nothing secret, never over the script's own."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_training import cgroup, errors, failures, masking


def text_of(output, code=1, **kwargs):
    return failures.compose(
        errors.ExecuteUserScriptError(["python", "train.py"], code, output, kwargs.pop("info", None)), **kwargs
    )


def test_cause_comes_first_then_code_then_frames_then_command(job):
    job.script(
        """
        def load(path):
            raise ValueError(f"no rows in {path}")
        load("train.csv")
        """
    )
    lines = job.run().failure.splitlines()
    assert lines[0] == "ValueError: no rows in train.csv"
    assert lines[1] == "ExecuteUserScriptError: ExitCode 1"
    assert any('train.py", line 3, in load' in line for line in lines)
    assert lines[-1].startswith('Command "') and lines[-1].endswith('train.py"')


def test_long_text_is_composed_not_cut(job):
    job.script("print('n' * 50, file=__import__('sys').stderr)\n" * 300 + "raise RuntimeError('x' * 3000)")
    failure = job.run().failure
    assert len(failure) <= 1024
    assert failure.startswith("RuntimeError: xxx")
    assert "ExitCode 1" in failure
    assert 'Command "' in failure


def test_chained_exceptions_name_the_last():
    text = text_of(
        "Traceback (most recent call last):\n  File \"a\", line 1\nKeyError: 'x'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b", line 2\nTypeError: second\n'
    )
    assert text.startswith("TypeError: second\n")


def test_traceback_under_a_rank_prefix():
    text = text_of(
        "[rank1]: Traceback (most recent call last):\nother line\n"
        '[rank1]:   File "a", line 1\n[rank1]: ValueError: on one rank\n'
    )
    assert text.startswith("ValueError: on one rank\n")
    assert '  File "a", line 1' in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no exception groups")
def test_exception_group_names_its_last_exception(job):
    job.script(
        """
        found = []
        for error in (ValueError("one"), TypeError("two")):
            try:
                raise error
            except Exception as caught:
                found.append(caught)
        raise ExceptionGroup("several", found)
        """
    )
    assert job.run().failure.startswith("TypeError: two\n")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no exception groups")
def test_exception_group_of_exceptions_that_were_never_raised(job):
    job.script("raise ExceptionGroup('several', [ValueError('one')])")
    assert job.run().failure.startswith("ExceptionGroup: several (1 sub-exception)\n")


def test_remarks_after_the_cause_are_not_the_cause():
    output = "ERROR: No matching distribution found for x\n\n[notice] A new release of pip is available\n-----\n"
    assert text_of(output).startswith("ERROR: No matching distribution")


def test_nothing_is_cut_before_it_is_masked():
    """Half a secret, at the place where a command is shortened, would have no shape any more."""
    for start in range(100, 180):
        command = ["python", "x" * start, "https://user:sesame-sesame@host/", "--api-key", "abc"]
        text = failures.compose(errors.ExecuteUserScriptError(command, 1, "E: " + " ".join(command)))
        assert "sesame" not in text.split("Command")[1]
        assert "abc" not in text.split("Command")[1]
        assert "sesame" not in text


def test_launchers_own_traceback_is_not_the_cause():
    text = text_of(
        'Traceback (most recent call last):\n  File "t"\nValueError: real\n'
        'Traceback (most recent call last):\n  File "r"\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n===\n"
    )
    assert text.startswith("ValueError: real\n")


@pytest.mark.parametrize(
    "output, first",
    [
        ("usage: x\ntrain.py: error: the following arguments are required: --lr\n", "train.py: error: the following"),
        ("./train.sh: 3: nonsense: not found\n", "./train.sh: 3: nonsense: not found"),
        ("Traceback (most recent call last):\n  File", "File"),
        ("", "ExecuteUserScriptError: ExitCode 1"),
    ],
)
def test_without_a_whole_traceback_the_last_line_is_the_cause(output, first):
    assert text_of(output).startswith(first)


def test_failure_on_stdout_only(job):
    job.code("train.sh", "echo the disk is on fire\nexit 9\n")
    job.hyperparameters({"sagemaker_program": "train.sh"})
    done = job.run()
    assert done.code == 9
    assert done.failure.startswith("the disk is on fire\n")


def test_traceback_on_stdout_beside_warnings_on_stderr(job):
    job.script(
        """
        import sys, traceback
        print("a warning", file=sys.stderr)
        try:
            raise ValueError("printed by the script itself")
        except ValueError:
            traceback.print_exc(file=sys.stdout)
        sys.exit(1)
        """
    )
    assert job.run().failure.startswith("ValueError: printed by the script itself")


@pytest.mark.parametrize("written", ["my own reason", "x" * 5000])
def test_scripts_own_reason_is_kept(job, written):
    job.script(f"import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write({written!r}); 1/0")
    done = job.run()
    assert done.failure == written
    assert done.code == 1


def test_empty_failure_file_is_no_reason(job):
    job.script("import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').close(); 1/0")
    (job.base / "output").mkdir(exist_ok=True)
    assert job.run().failure.startswith("ZeroDivisionError")


def test_missing_channel_lists_those_that_exist(job):
    job.channels({"training": {"TrainingInputMode": "File"}})
    job.script("import os; os.environ['SM_CHANNEL_TRAIN']")
    failure = job.run().failure
    assert "no channel for SM_CHANNEL_TRAIN" in failure
    assert "Its channels: SM_CHANNEL_TRAINING." in failure


def test_unknown_option_gets_a_hint(job):
    job.script("import argparse; argparse.ArgumentParser().parse_args()", model_dir="s3://b/model")
    done = job.run()
    assert done.code == 2
    assert "error: unrecognized arguments: --model_dir s3://b/model" in done.failure
    assert "parse_known_args" in done.failure


def test_no_entry_point_names_both_ways(job):
    done = job.run()
    assert done.code == 1
    assert "sagemaker_program" in done.failure
    assert "SAGEMAKER_PROGRAM" in done.failure
    assert "Traceback" not in done.failure


@pytest.mark.parametrize(
    "returncode, kills, stopped, expected",
    [
        (-9, 2, None, "Out of memory: the kernel killed 2 process(es) at the container's limit of 2.0 GiB."),
        (1, 1, None, "Out of memory"),
        (-9, 0, None, "most often because the host ran out of memory"),
        (137, 0, None, "most often because the host ran out of memory"),
        (-15, 0, 15, "The platform asked the job to stop (SIGTERM)."),
        (-15, 0, None, "although the platform did not ask"),
        (-7, 0, None, "/dev/shm"),
        (1, 0, None, ""),
    ],
)
def test_hints_for_the_way_a_process_ended(returncode, kills, stopped, expected):
    hint = failures.end_hint(returncode, kills, stopped, 2 << 30)
    assert expected in hint if expected else hint == ""


@pytest.mark.parametrize(
    "files, kills, limit, cpus",
    [
        ({"memory.events": "low 0\noom_kill 3\n", "memory.max": "1048576", "cpu.max": "150000 100000"}, 3, 1048576, 2),
        ({"memory.events": "oom_kill 0\n", "memory.max": "max", "cpu.max": "max 100000"}, 0, None, None),
        (
            {
                "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
                "memory/memory.limit_in_bytes": "2097152",
                "cpu/cpu.cfs_quota_us": "400000",
                "cpu/cpu.cfs_period_us": "100000",
            },
            2, 2097152, 4,
        ),
        ({"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"}, 0, None, None),
        ({}, 0, None, None),
    ],
)  # fmt: skip
def test_control_groups_of_both_versions(tmp_path, files, kills, limit, cpus):
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    root = str(tmp_path)
    assert (cgroup.oom_kills(root), cgroup.memory_limit(root), cgroup.cpu_limit(root)) == (kills, limit, cpus)


def test_control_group_of_an_own_path_comes_first(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("3:memory:/docker/abc\n0::/x\n")
    own = tmp_path / "sys/fs/cgroup/memory/docker/abc"
    own.mkdir(parents=True)
    (own / "memory.oom_control").write_text("oom_kill 5")
    (own.parent.parent / "memory.oom_control").write_text("oom_kill 99")
    assert cgroup.oom_kills(str(tmp_path)) == 5


@given(st.text(max_size=3000), st.integers(-64, 300), st.text(max_size=600))
def test_any_output_gives_a_text_within_the_limit(output, code, command):
    text = failures.compose(errors.ExecuteUserScriptError(command, code, output))
    assert 0 < len(text) <= 1024
    assert f"ExitCode {code}" in masking.text(text)


@pytest.mark.parametrize("kind", [errors.ClientError, RuntimeError])
def test_every_other_error_is_within_the_limit_too(kind):
    text = failures.compose(kind("y" * 5000), "Traceback (most recent call last):\n" + "frame\n" * 1000)
    assert len(text) == 1024
    assert "yyy" in text


def test_error_reads_as_its_text():
    error = errors.InstallRequirementsError(["pip", "install"], 1, "ERROR: no such package\n")
    assert str(error).splitlines() == [
        "ERROR: no such package",
        "InstallRequirementsError: ExitCode 1",
        'Command "pip install"',
    ]
    assert isinstance(error, errors.ClientError)


def test_secrets_in_output_and_arguments_stay_out_of_the_text(job):
    job.env["DB_PASSWORD"] = "correct horse"
    job.script(
        "import os; raise ValueError('cannot log in with ' + os.environ['DB_PASSWORD'] + ' at https://me:pw@host/')",
        api_token="tok-0123456789",
    )
    done = job.run()
    assert "cannot log in with ****** at https://******@host/" in done.failure
    own = [line for line in done.err.splitlines() if "raise ValueError" not in line]
    assert "tok-0123456789" not in done.failure + "\n".join(own)
    assert "ValueError: cannot log in with correct horse" in done.err  # The script's own line is not touched.
