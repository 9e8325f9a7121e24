"""What a registry holds and how it is addressed, as plain values."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from slipway.errors import RegistryError
from slipway.files import sha256_bytes

IMAGE_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ECR_HOST = re.compile(r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\..+")


@dataclass(frozen=True)
class Credentials:
    """A user and its password, or an identity token that is traded for a bearer token. Never shown."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry keeps it. `digest` is computed from `body`, not taken from a header."""

    media_type: str
    body: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        return "sha256:" + sha256_bytes(self.body)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise RegistryError(f"the manifest {self.digest} is not a JSON object")
        return document

    @property
    def is_image(self) -> bool:
        """Whether this is one image, not an index of several."""
        return self.media_type in IMAGE_TYPES and "config" in self.document

    @property
    def config_digest(self) -> str:
        return str(self.document.get("config", {}).get("digest", ""))

    @property
    def blobs(self) -> dict[str, int]:
        """Config and layers: digest -> bytes as stored (compressed)."""
        parts = [self.document.get("config", {}), *self.document.get("layers", [])]
        return {str(part["digest"]): int(part["size"]) for part in parts if "digest" in part}


def is_loopback(host: str) -> bool:
    """Whether `host[:port]` is this machine. Only such a registry is spoken to without TLS."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def ecr_region(host: str) -> str:
    """The region in an ECR address; empty for any other registry."""
    match = _ECR_HOST.fullmatch(host)
    return match["region"] if match else ""


def login_command(host: str) -> str:
    """What a person types to log in to a registry."""
    region = ecr_region(host)
    if region:
        password = f"aws ecr get-login-password --region {region}"
        return f"{password} | docker login --username AWS --password-stdin {host}"
    return f"docker login {host}"
