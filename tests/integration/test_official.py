"""AWS's own images as we know them, held against the SDK that accelerate asks."""

from __future__ import annotations

import json

import pytest

from slipway import process
from slipway.clients import official
from slipway.clients.accelerate import Config

from .clients import sdk

pytestmark = [pytest.mark.integration, pytest.mark.slow]

# Every training image for PyTorch that the SDK lists, in every region where it has it, as the SDK names it.
ASK = """
import json
from sagemaker import image_uris

found = []
listed = image_uris.config_for_framework("huggingface")["training"]
for transformers, rows in listed["versions"].items():
    for base, row in rows.items():
        if not base.startswith("pytorch"):
            continue
        for region in row["registries"]:
            for python in row["py_versions"]:
                uri = image_uris.retrieve(
                    "huggingface", region, version=transformers, py_version=python, instance_type="ml.p3.2xlarge",
                    image_scope="training", base_framework_version=base,
                )
                found.append((transformers, base.removeprefix("pytorch"), python, region, uri))
print(json.dumps(found))
"""


def test_the_official_images_are_those_of_the_sdk() -> None:
    done = process.run([sdk.environment("v2"), "-c", ASK], timeout=300)
    listed = json.loads(done.stdout.splitlines()[-1])
    given = frozenset({"transformers_version", "pytorch_version", "py_version"})
    assert len(listed) > 400
    for transformers, pytorch, python, region, uri in listed:
        config = Config(
            transformers_version=transformers, pytorch_version=pytorch, py_version=python, region=region, given=given
        )
        if config.versions_are_chosen:
            assert official.image_uri(config) == uri
    assert {uri.partition(":")[2] for *_, uri in listed} == {image.tag for image in official._IMAGES}
    newest = official.image_uri(Config())
    assert newest == [uri for *_, region, uri in listed if region == "us-east-1"][-1]
