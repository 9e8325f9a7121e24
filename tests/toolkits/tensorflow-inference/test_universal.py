"""The code that all models of a multi-model endpoint share, from a bucket."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import zipfile

import pytest
from sagemaker_tensorflow_serving_container import universal
from sagemaker_tensorflow_serving_container.universal import UniversalCodeError


class Bucket:
    """A client with two pages of objects."""

    def __init__(self, objects=None, error=None):
        self.objects = objects or {}
        self.error = error
        self.downloads = []

    def get_paginator(self, name):
        assert name == "list_objects_v2"
        return self

    def paginate(self, Bucket, Prefix):
        if self.error:
            raise self.error
        keys = [key for key in self.objects if key.startswith(Prefix)]
        yield {"Contents": [{"Key": key} for key in keys[:1]]}
        yield {"Contents": [{"Key": key} for key in keys[1:]]}
        yield {}

    def download_file(self, bucket, key, path):
        self.downloads.append((bucket, key))
        with open(path, "w") as file:  # noqa: PTH123 - as the real client takes a text
            file.write(self.objects[key])


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_buckets_code_is_fetched_once(temporary):
    client = Bucket({"p/inference.py": "x", "p/lib/helper.py": "y", "p/": "", "other/inference.py": "z"})
    folder = universal.fetched("bucket", "/p/", client)
    assert universal.fetched("bucket", "p", client) == folder
    assert client.downloads == [("bucket", "p/inference.py"), ("bucket", "p/lib/helper.py")]
    assert folder.startswith(str(temporary))
    with open(f"{folder}/lib/helper.py") as file:  # noqa: PTH123
        assert file.read() == "y"


@pytest.mark.parametrize(
    ("client", "named"),
    [
        (Bucket(), "s3://bucket/p holds no code"),
        (Bucket(error=RuntimeError("denied")), "s3://bucket/p cannot be read: denied"),
    ],
)
def test_what_cannot_be_fetched_is_named(client, named):
    with pytest.raises(UniversalCodeError, match=named):
        universal.fetched("bucket", "p", client)
    fetched = universal.fetched("bucket", "p", Bucket({"p/inference.py": ""}))
    assert fetched


def test_a_key_that_leads_out_of_the_folder_is_refused():
    with pytest.raises(UniversalCodeError, match="leads out"):
        universal.fetched("bucket", "p", Bucket({"p/../../inference.py": ""}))


def wheel(folder, name):
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "VALUE = 42")
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "models" / "code"
    folder.mkdir(parents=True)
    return folder


def test_the_requirements_of_the_shared_code_are_installed_once(code):
    wheel(code, "only_of_this_test")
    (code / "requirements.txt").write_text("./only_of_this_test-1.0-py3-none-any.whl\n")
    universal.install(str(code))
    assert importlib.import_module("only_of_this_test").VALUE == 42
    (code / "requirements.txt").write_text("./gone-1.0-py3-none-any.whl\n")
    universal.install(str(code))


def test_requirements_that_cannot_be_installed_are_named(code):
    (code / "requirements.txt").write_text("./gone-1.0-py3-none-any.whl\n")
    with pytest.raises(UniversalCodeError, match=r"requirements.txt cannot be installed.*gone"):
        universal.install(str(code))


def test_a_folder_of_packages_takes_the_place_of_requirements(code, monkeypatch, capfd):
    from sagemaker_inference import requirements

    (code / "requirements.txt").write_text("./gone-1.0-py3-none-any.whl\n")
    environ = {**os.environ, requirements.VENDORED: "lib"}
    with pytest.raises(requirements.RequirementsError):
        requirements.install(str(code), str(code / "packages"), environ)
    (code / "lib").mkdir()
    requirements.install(str(code), str(code / "packages"), environ)
    assert f"{code}/requirements.txt is not installed: {code}/lib holds the packages instead" in capfd.readouterr().err
