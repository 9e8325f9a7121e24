"""The code that all models of a multi-model endpoint share, from a bucket."""

from __future__ import annotations

import tempfile

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
