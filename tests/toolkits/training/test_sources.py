"""The job's source: where it comes from, and what an archive may do."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sagemaker_training import archives, aws, errors

from .namespaces import namespace


def archive(path, entries, mode="w:gz"):
    """entries: (name, bytes) for files, or TarInfo as it is."""
    with tarfile.open(str(path), mode) as tar:
        for name, content in entries:
            member = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def entry(name, kind=tarfile.REGTYPE, link="", mode=0o644):
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, mode
    return member


SCRIPT = b"print('from the source')\n"


@pytest.mark.parametrize("form", ["folder", "archive", "file", "url"])
def test_local_sources(job, tmp_path, form):
    source = tmp_path / "given"
    source.mkdir()
    (source / "train.py").write_bytes(SCRIPT)
    address = {
        "folder": source,
        "archive": archive(tmp_path / "source.tar.gz", [("train.py", SCRIPT)]),
        "file": source / "train.py",
        "url": f"file://{source}",
    }[form]
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": str(address)})
    assert job.run().out == "from the source\n"


def test_submit_directory_by_variable(job, tmp_path):
    job.env["SAGEMAKER_SUBMIT_DIRECTORY"] = str(archive(tmp_path / "s.tar.gz", [("train.py", SCRIPT)]))
    job.hyperparameters({"sagemaker_program": "train.py"})
    assert job.run().out == "from the source\n"


def test_s3_source(job, tmp_path):
    archive(job.base / "home/object", [("train.py", SCRIPT)])
    job.fake_boto3(
        """
        import os, shutil
        class client:
            def __init__(self, service, region_name=None, endpoint_url=None):
                assert (service, region_name, endpoint_url) == ("s3", "eu-west-1", "http://local:9000")
            def download_file(self, bucket, key, path):
                assert (bucket, key) == ("bucket", "some/source.tar.gz")
                shutil.copy(os.environ["HOME"] + "/object", path)
        """
    )
    job.env.update(AWS_REGION="eu-west-1", SAGEMAKER_REGION="us-east-1", S3_ENDPOINT_URL="http://local:9000")
    job.hyperparameters(
        {"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://bucket/some/source.tar.gz"}
    )
    done = job.run()
    assert done.out == "from the source\n", done.failure


def test_s3_error_names_the_address(job):
    job.fake_boto3("class client:\n    def __init__(self, *a, **k): raise RuntimeError('access denied')\n")
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://bucket/key"})
    done = job.run()
    assert done.code == 1
    assert "s3://bucket/key cannot be downloaded: RuntimeError: access denied" in done.failure


def test_s3_without_boto3(job):
    job.fake_boto3("raise ImportError('not here')\n")
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://bucket/key"})
    assert "Fetching s3://bucket/key needs boto3" in job.run().failure


def test_address_that_is_nothing(job):
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": "/no/such/source"})
    done = job.run()
    assert done.code == 1
    assert "/no/such/source" in done.failure


def test_baked_code_wins_with_a_warning_that_names_both(job):
    job.script("print('baked')", sagemaker_submit_directory="s3://bucket/sourcedir.tar.gz")
    done = job.run()
    assert done.out == "baked\n"
    warning = next(line for line in done.err.splitlines() if "WARNING" in line)
    assert str(job.base / "code") in warning
    assert "s3://bucket/sourcedir.tar.gz" in warning


@pytest.mark.parametrize("content", [b"no archive at all", None])
def test_broken_archive_in_s3(job, tmp_path, content):
    whole = archive(tmp_path / "a.tar.gz", [("train.py", os.urandom(100000))]).read_bytes()
    (job.base / "home/object").write_bytes(whole[: len(whole) // 2] if content is None else content)
    job.fake_boto3(
        """
        import os, shutil
        class client:
            def __init__(self, *a, **k): pass
            def download_file(self, bucket, key, path): shutil.copy(os.environ["HOME"] + "/object", path)
        """
    )
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://b/k"})
    done = job.run()
    assert done.code == 1
    assert "s3://b/k is not a complete tar archive" in done.failure


def test_executable_bit_stays_and_set_id_bits_go(tmp_path):
    source = archive(tmp_path / "a.tar.gz", [(entry("run.sh", mode=0o6755), b"#!/bin/sh\n")])
    target = tmp_path / "out"
    target.mkdir()
    archives.extract(str(source), str(target))
    mode = (target / "run.sh").stat().st_mode
    assert stat.S_IMODE(mode) == 0o755
    assert (target / "run.sh").stat().st_uid == os.getuid()


HOSTILE = [
    ("absolute", entry("/etc/evil"), "etc/evil"),
    ("parent", entry("../../evil"), "evil"),
    ("inner_parent", entry("a/../../evil"), "a/evil"),
    ("drive", entry("C:\\evil\\x"), "evil/x"),
    ("device", entry("dev", tarfile.CHRTYPE), None),
    ("block", entry("dev", tarfile.BLKTYPE), None),
    ("fifo", entry("pipe", tarfile.FIFOTYPE), None),
    ("link_out", entry("link", tarfile.SYMTYPE, "../outside"), None),
    ("link_absolute", entry("link", tarfile.SYMTYPE, "/etc/passwd"), None),
    ("hard_out", entry("hard", tarfile.LNKTYPE, "../outside/secret"), None),
    ("hard_missing", entry("hard", tarfile.LNKTYPE, "not/there"), None),
]


@pytest.mark.parametrize("member, lands", [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_entry_is_left_out_or_made_relative(tmp_path, caplog, member, lands):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    target = tmp_path / "target"
    target.mkdir()
    source = archive(tmp_path / "a.tar.gz", [(member, b""), ("train.py", SCRIPT)])
    archives.extract(str(source), str(target))
    found = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert found == {"train.py"} | ({lands} if lands else set())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "outside", "target"]
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]


def test_file_is_not_written_through_a_link_of_the_same_name(tmp_path):
    (tmp_path / "outside").write_text("before")
    target = tmp_path / "target"
    target.mkdir()
    (target / "x").symlink_to(tmp_path / "outside")
    archives.extract(str(archive(tmp_path / "a.tar.gz", [("x", b"evil")])), str(target))
    assert (tmp_path / "outside").read_text() == "before"
    assert (target / "x").read_text() == "evil"


def test_hard_link_to_itself_is_left_out(tmp_path, caplog):
    target = tmp_path / "target"
    target.mkdir()
    entries = [("a", b"kept"), (entry("a", tarfile.LNKTYPE, "a"), b""), (entry("s", tarfile.SYMTYPE, "a"), b"")]
    entries.append((entry("a", tarfile.LNKTYPE, "s"), b""))
    archives.extract(str(archive(tmp_path / "a.tar.gz", entries)), str(target))
    assert (target / "a").read_bytes() == b"kept"
    assert caplog.text.count("it links to itself") == 2


def test_link_that_turns_hostile_later_is_taken_away(tmp_path, caplog):
    """x -> d/.. is harmless until d becomes a link to the target itself."""
    target = tmp_path / "target"
    target.mkdir()
    source = archive(
        tmp_path / "a.tar.gz",
        [
            (entry("x", tarfile.SYMTYPE, "d/.."), b""),
            (entry("d", tarfile.SYMTYPE, "."), b""),
            (entry("x/evil"), b"evil"),
        ],
    )
    archives.extract(str(source), str(target))
    assert not (target / "x").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "target"]


def test_links_inside_the_archive_work(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    source = archive(
        tmp_path / "a.tar.gz",
        [
            (entry("d", tarfile.DIRTYPE, mode=0o755), b""),
            ("d/file", b"content"),
            (entry("soft", tarfile.SYMTYPE, "d/file"), b""),
            (entry("hard", tarfile.LNKTYPE, "d/file"), b""),
        ],
    )
    archives.extract(str(source), str(target))
    assert (target / "soft").read_bytes() == (target / "hard").read_bytes() == b"content"


_NAMES = st.lists(st.sampled_from(["..", ".", "a", "b", "link", "", "C:"]), min_size=1, max_size=4).map("/".join)
_TYPES = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_NAMES, _TYPES, _NAMES, st.integers(0, 0o7777)), max_size=6))
def test_no_archive_reaches_outside_its_target(tmp_path_factory, entries):
    work = tmp_path_factory.mktemp("tar")
    (work / "sibling").mkdir()
    target = work / "target"
    target.mkdir()
    path = archive(work / "a.tar.gz", [(entry(name, kind, link, mode), b"") for name, kind, link, mode in entries])
    # A file where a folder must be is refused; nothing is outside all the same.
    with suppress(errors.ClientError, OSError):
        archives.extract(str(path), str(target))
    assert sorted(child.name for child in work.iterdir()) == ["a.tar.gz", "sibling", "target"]
    assert not list((work / "sibling").iterdir())
    root = os.path.realpath(str(target))
    for found in target.rglob("*"):
        assert os.path.realpath(str(found)).startswith(root)
        assert not os.lstat(str(found)).st_mode & 0o6000


def test_disk_full_is_not_the_archives_fault(job, tmp_path):
    """A code folder without room fails the job with the system's own number."""
    source = archive(tmp_path / "s.tar.gz", [("train.py", os.urandom(2000000))])
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": str(source)})
    command = (
        f"mount -t tmpfs -o size=64k none {job.base}/code && exec {sys.executable} -m sagemaker_training.cli.train"
    )
    done = subprocess.run([*namespace("--mount"), "sh", "-c", command], env=job.env, stderr=subprocess.PIPE)
    assert done.returncode == 28
    assert "No space left on device" in (job.base / "output/failure").read_text()


def test_full_output_folder_is_no_success(job):
    """The script succeeds, and its marker has no room: not a success."""
    job.script("import os\nwith open(os.environ['SM_OUTPUT_DIR'] + '/big', 'wb') as f:\n    f.write(b'x' * 4096 * 14)")
    (job.base / "output").mkdir(exist_ok=True)
    command = (
        f"mount -t tmpfs -o nr_inodes=2 none {job.base}/output && exec {sys.executable} -m sagemaker_training.cli.train"
    )
    done = subprocess.run([*namespace("--mount"), "sh", "-c", command], env=job.env, stderr=subprocess.PIPE)
    assert done.returncode == 28
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize("url", ["s3:/bucket/key", "s3://", "s3:///key", "http://b/k", "bucket/key"])
def test_address_that_is_not_s3(url):
    with pytest.raises(ValueError, match="Expected s3://BUCKET/KEY"):
        aws.split(url)


def test_parts_of_an_s3_address():
    assert aws.split("s3://bucket/a/b.tar.gz") == ("bucket", "a/b.tar.gz")
    assert aws.split("s3://bucket") == ("bucket", "")


def test_s3_source_over_http(job, tmp_path):
    """With the real boto3 against a server that speaks S3."""
    boto3 = pytest.importorskip("boto3", reason="the toolkit's optional boto3 is not in this environment")
    server = pytest.importorskip("moto.server", reason="no S3 server in this environment").ThreadedMotoServer(
        "127.0.0.1", 0, verbose=False
    )
    server.start()
    try:
        host, port = server.get_host_and_port()
        job.env.update(
            S3_ENDPOINT_URL=f"http://{host}:{port}", AWS_REGION="us-east-1",
            AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test",
        )  # fmt: skip
        client = boto3.client(
            "s3", endpoint_url=job.env["S3_ENDPOINT_URL"], region_name="us-east-1",
            aws_access_key_id="test", aws_secret_access_key="test",
        )  # fmt: skip
        client.create_bucket(Bucket="bucket")
        client.upload_file(str(archive(tmp_path / "s.tar.gz", [("train.py", SCRIPT)])), "bucket", "deep/source.tar.gz")
        job.hyperparameters(
            {"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://bucket/deep/source.tar.gz"}
        )
        done = job.run()
        assert done.out == "from the source\n", done.failure
        job.hyperparameters({"sagemaker_program": "x.py", "sagemaker_submit_directory": "s3://bucket/missing"})
        (job.base / "code/train.py").unlink()
        failed = job.run()
    finally:
        server.stop()
    assert failed.code == 1
    assert failed.failure.startswith(
        "ClientError: s3://bucket/missing cannot be downloaded: ClientError: An error occurred (404)"
    )
