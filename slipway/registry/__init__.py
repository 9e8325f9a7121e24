"""OCI registries over HTTP: what they hold, and a client that checks every digest."""

from slipway.registry.client import Registry
from slipway.registry.model import Credentials, Manifest, ecr_region, is_loopback, login_command

__all__ = ["Credentials", "Manifest", "Registry", "ecr_region", "is_loopback", "login_command"]
