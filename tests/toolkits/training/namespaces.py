"""Linux namespaces for what would otherwise need a container."""

from __future__ import annotations

import os


def namespace(*what: str) -> list[str]:
    """The start of a command line that runs the rest in namespaces of its own, without being root if need be."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *what]
