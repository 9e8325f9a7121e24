"""Documents of a ledger, for tests of what reads them."""

from __future__ import annotations

from typing import Any

from slipway.release.ledger import Entry, History

PACKAGES = {"pillow": "11.0.0", "torch": "2.13.0+cpu", "libc6 (Debian)": "2.36-9", "protoc (binary)": "1"}


def digest(digit: str) -> str:
    return "sha256:" + digit * 64


def released(number: int, image: str, digit: str, **changes: Any) -> Entry:
    body = {
        "image": image,
        "framework": "small",
        "version": "1.2.0",
        "scope": "training",
        "processor": "cpu",
        "python": "3.11",
        "tag": f"1.2.0-cpu-py311-debian12-v{number}",
        "aliases": [],
        "config_digest": digest(digit),
        "manifest_digest": digest(digit),
        "media_type": "application/vnd.oci.image.manifest.v1+json",
        "places": [{"registry": "registry.example", "region": "", "repository": "small-training"}],
        "size": 1,
        "compressed": 1,
        "input_hash": "1" * 64,
        "lock_hash": "2" * 64,
        "base": "scratch",
        "revision": "unknown",
        "verdict": {},
        "smoke": {},
        "packages": PACKAGES,
        **changes,
    }
    return Entry(number, "release", "2026-11-01T00:00:00+00:00", {"release": str(number), "images": [body]}, "")


def yanked(number: int, digit: str) -> Entry:
    body = {"config_digests": [digest(digit)], "reason": "bad"}
    return Entry(number, "yank", "2026-11-02T00:00:00+00:00", body, "")


def history(*entries: Entry) -> History:
    return History(entries)
