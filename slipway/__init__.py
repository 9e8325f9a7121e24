"""Slipway: deep-learning container images for Amazon SageMaker, built, proved and released.

`slipway.image_uri(framework, region, …)` finds the URI of an image that was pushed, by the arguments of the SageMaker
SDK's `image_uris.retrieve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipway.clients.retrieve import image_uri

__all__ = ["__version__", "image_uri"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # On demand: most who import the package never ask for an image.
    if name == "image_uri":
        from slipway.clients.retrieve import image_uri

        return image_uri
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
