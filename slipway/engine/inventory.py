"""What an engine holds on to: images by id, and the build cache. Used to clear away what Slipway made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slipway.engine.docker import Engine, _speaking
from slipway.errors import EngineError


@dataclass(frozen=True)
class HeldImage:
    """An image of the engine. `size` is in bytes, layers that other images share included."""

    id: str
    tags: tuple[str, ...]
    size: int


def images(engine: Engine, ids: Iterable[str]) -> list[HeldImage]:
    """Those of the named images that the engine still has."""
    wanted = set(ids)
    with _speaking("list images"):
        found = engine._api.images()
    return [
        HeldImage(item["Id"], tuple(item.get("RepoTags") or ()), int(item["Size"]))
        for item in found
        if item["Id"] in wanted
    ]


def remove_image(engine: Engine, name: str) -> str:
    """Remove a tag, and the image with its last one. Returns why it stays; empty when it is gone."""
    from docker.errors import APIError, NotFound

    with _speaking(f"remove {name}"):
        try:
            engine._api.remove_image(name)
        except NotFound:
            return ""
        except APIError as error:
            if error.status_code != 409:  # a container uses it
                raise
            return str(error.explanation)
    return ""


def build_cache_bytes(engine: Engine) -> int:
    """Bytes of the build cache that nothing uses at the moment."""
    with _speaking("measure its build cache"):
        records = engine._api.df().get("BuildCache") or []
    return sum(int(record["Size"]) for record in records if not record.get("InUse") and not record.get("Shared"))


def prune_build_cache(engine: Engine) -> int:
    """Empty the build cache. Returns the bytes that came free."""
    with _speaking("empty its build cache"):
        answer = engine._api._post(engine._api._url("/build/prune"), params={"all": "true"})
    if answer.status_code != 200:
        raise EngineError(f"the engine could not empty its build cache: {answer.text.strip()}", fix="see its log")
    return int(answer.json().get("SpaceReclaimed") or 0)
