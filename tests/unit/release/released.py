"""Released images for tests."""

from __future__ import annotations

import hashlib
from typing import Any

from slipway.release.ledger import Place, Released

TAG = "2.13.0-cpu-py311-debian12"
IMAGE = "pytorch-training-2.13.0-cpu-py311"


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def released(number: int = 1, **more: Any) -> Released:
    """The image of -v`number`; equal numbers, equal content."""
    given: dict[str, Any] = {
        "image": IMAGE,
        "framework": "pytorch",
        "version": "2.13.0",
        "scope": "training",
        "processor": "cpu",
        "python": "3.11",
        "tag": f"{TAG}-v{number}",
        "aliases": (TAG, "2.13-cpu-py311"),
        "config_digest": digest(f"config {number}"),
        "manifest_digest": digest(f"manifest {number}"),
        "media_type": "application/vnd.oci.image.manifest.v1+json",
        "places": (Place(registry="r.example.com", region="", repository="ml/pytorch-training"),),
        "size": 1000,
        "compressed": 500,
        "input_hash": "1" * 64,
        "lock_hash": "2" * 64,
        "base": "scratch",
        "revision": "3" * 40,
        "verdict": {"suite": "4" * 64, "at": "2026-01-01T00:00:00+00:00", "checks": 1},
        "smoke": {},
    }
    return Released(**{**given, **more})
