"""Intermediate output: uploaded while the script runs, and complete when it has ended."""

from __future__ import annotations

import json

import pytest
from sagemaker_training import intermediate_output, layout

RECORDS = """
import json, os
class client:
    def __init__(self, *a, **k):
        open(os.environ["HOME"] + "/pid", "w").write(str(os.getpid()))
    def upload_file(self, path, bucket, key):
        content = open(path).read()
        if content == "refused":
            raise RuntimeError("no access")
        with open(os.environ["HOME"] + "/log", "a") as log:
            log.write(json.dumps([bucket, key, content]) + "\\n")
"""


def uploads(job):
    path = job.base / "home/log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def syncing(job):
    job.fake_boto3(RECORDS)
    job.env["TRAINING_JOB_NAME"] = "job-1"
    return job


def start(job, script):
    job.script(script, sagemaker_s3_output="s3://bucket/some/prefix")


def test_files_reach_the_jobs_prefix_before_the_job_ends(syncing):
    start(
        syncing,
        """
        import os
        folder = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"]
        os.makedirs(folder + "/sub/deep")
        for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
            open(f"{folder}/{name}", "w").write(name)
        """,
    )
    assert syncing.run().code == 0
    prefix = "some/prefix/job-1/output/intermediate/"
    assert sorted(map(tuple, uploads(syncing))) == [
        ("bucket", prefix + name, name) for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt")
    ]


def test_each_close_is_uploaded_in_order_while_the_script_runs(syncing):
    start(
        syncing,
        """
        import os, time
        path = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"] + "/state"
        log = os.environ["HOME"] + "/log"
        for step in range(3):
            open(path, "w").write(str(step))
            for _ in range(500):
                if os.path.exists(log) and len(open(log).readlines()) > step:
                    break
                time.sleep(0.02)
            else:
                raise SystemExit(f"{step} was not uploaded while the script ran")
        """,
    )
    done = syncing.run()
    assert done.code == 0, done.failure
    assert [content for _, _, content in uploads(syncing)] == ["0", "1", "2"]


def test_last_file_of_a_job_that_ends_at_once(syncing):
    """The file's event and the end of the job reach the helper in the same moment."""
    start(
        syncing,
        """
        import os, signal, subprocess, time
        folder, home = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"], os.environ["HOME"]
        open(folder + "/first", "w").write("first")
        while not os.path.exists(home + "/log"):
            time.sleep(0.02)
        helper = open(home + "/pid").read()
        os.kill(int(helper), signal.SIGSTOP)
        open(folder + "/last", "w").write("last")
        subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {helper}"], start_new_session=True)
        """,
    )
    assert syncing.run().code == 0
    assert [content for _, _, content in uploads(syncing)] == ["first", "last"]


def test_moved_file_counts_and_failed_jobs_upload_too(syncing):
    start(
        syncing,
        """
        import os
        folder = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"]
        open("part", "w").write("whole")
        os.rename("part", folder + "/whole")
        1/0
        """,
    )
    assert syncing.run().code == 1
    assert [content for _, _, content in uploads(syncing)] == ["whole"]


def test_upload_error_is_logged_and_not_fatal(syncing):
    start(
        syncing,
        """
        import os
        folder = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"]
        open(folder + "/1", "w").write("refused")
        open(folder + "/2", "w").write("accepted")
        """,
    )
    done = syncing.run()
    assert done.code == 0
    assert "intermediate output: 1 is not uploaded: no access" in done.err
    assert [content for _, _, content in uploads(syncing)] == ["accepted"]


def test_copies_are_taken_away(syncing):
    start(syncing, "import os; open(os.environ['SM_OUTPUT_INTERMEDIATE_DIR'] + '/x', 'w').write('x')")
    syncing.run()
    assert list((syncing.base / "output/intermediate/.tmp.sagemaker_s3_sync").iterdir()) == []


def test_nothing_without_a_location_or_with_the_folder_there(tree):
    assert intermediate_output.start_sync(None) is None
    (tree.base / "output/intermediate").mkdir(parents=True)
    assert intermediate_output.start_sync("s3://b/p") is None


def test_file_location_makes_the_folders_only(tree):
    assert intermediate_output.start_sync("file:///somewhere") is None
    assert (tree.base / "output/intermediate/.tmp.sagemaker_s3_sync").is_dir()


def test_other_schemes_are_refused(tree):
    with pytest.raises(ValueError, match="Expected s3:// or file://"):
        intermediate_output.start_sync("http://host/x")
    assert not (tree.base / "output/intermediate").exists()
    assert layout.output_intermediate_dir.startswith(str(tree.base))
