"""The image that tests build on where no framework is needed: the bootstrapped root filesystem alone.

python -m tests.base_image      makes it when the engine lacks it
"""

from __future__ import annotations

from slipway import base, process, settings
from slipway.console import Console
from slipway.engine import rootfs
from slipway.engine.docker import Engine
from slipway.errors import NotFoundError

NAME = "slipway-dev/base:bookworm"


def ensure(engine: Engine) -> str:
    """Its name, after it was made where it was missing."""
    try:
        engine.image(NAME)
    except NotFoundError:
        recipe = base.of("debian12")
        assert isinstance(recipe, base.Recipe)
        tar = rootfs.ensure(recipe, settings.read(), Console(), drift=False).tar
        process.run(["docker", "import", tar, NAME])
    return NAME


if __name__ == "__main__":
    ensure(Engine.connect(settings.read().environment))
