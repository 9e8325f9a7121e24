"""The model of HF_MODEL_ID: downloaded once a container, before any worker starts.

A program of its own, since what it imports has no place in a server that idles for weeks::

    python -m sagemaker_huggingface_inference_toolkit.download LINK

LINK becomes a link to the model's folder in the library's cache. Everything is logged to stderr, secrets masked; on
failure the last line is the reason, and the exit code ``FAILED``.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sagemaker_inference import masking
from sagemaker_inference.settings import SettingsError

from sagemaker_huggingface_inference_toolkit import failures, places, weights
from sagemaker_huggingface_inference_toolkit.settings import OFFLINE, HuggingFaceSettings

FAILED = 3

#: Seconds before the second try and the third.
_PAUSES = (1.0, 4.0)
_PROGRESS_SECONDS = 10.0


class DownloadError(Exception):
    """The model cannot be had; the text says why, in one line."""


def command(link: str) -> list[str]:
    """The command that downloads the model and makes LINK point to it."""
    return [sys.executable, "-m", "sagemaker_huggingface_inference_toolkit.download", link]


def download(settings: HuggingFaceSettings, link: str, environ: Mapping[str, str]) -> None:
    """Has the model of the settings in the library's cache, and LINK point to it. Raises DownloadError."""
    if settings.repository is None:
        raise DownloadError("HF_MODEL_ID names no repository of the hub.")
    started = time.monotonic()
    folder = _cached(settings) if settings.offline or not places.writable(_cache()) else None
    if folder is None:
        folder = _download(settings, environ)
    _link(folder, link)
    _say(f"{_name(settings)} is at {folder}, after {time.monotonic() - started:.1f} s.")


def main(argv: Sequence[str]) -> int:
    """Runs the program; its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    masking.learn(os.environ)
    try:
        download(HuggingFaceSettings.read(), argv[0], os.environ)
    except (DownloadError, SettingsError) as error:
        _say(str(error))
        return FAILED
    return 0


def _download(settings: HuggingFaceSettings, environ: Mapping[str, str]) -> str:
    if settings.offline:
        switch = " and ".join(name for name in OFFLINE if environ.get(name))
        raise DownloadError(
            f"{_name(settings)} is not in {_cache()}, and {switch} forbids to download it: unset the variable, mount a "
            "cache that has the model and name it by HF_HOME, or give the model as ModelDataUrl without HF_MODEL_ID."
        )
    try:
        os.makedirs(_cache(), exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"{_name(settings)} cannot be stored in {_cache()}: {error.strerror}. Name a folder that can be written to "
            "by HF_HOME."
        ) from error
    return _fetch(settings, environ)


def _cached(settings: HuggingFaceSettings) -> str | None:
    """The model's folder, as an earlier start or the image's maker left it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return str(snapshot_download(settings.repository, revision=settings.revision, local_files_only=True))
    except (LocalEntryNotFoundError, OSError):
        return None


def _fetch(settings: HuggingFaceSettings, environ: Mapping[str, str]) -> str:
    """Downloads, or completes what an earlier start has left; tried again after what may pass."""
    for pause in (*_PAUSES, None):
        try:
            return _fetch_once(settings)
        except DownloadError:
            raise
        except Exception as error:
            failure = failures.of(error, settings, environ, _cache())
            if failure is None:
                raise
            if failure.passing and pause is not None:
                _say(f"warning: {failure.reason} Trying again in {pause:g} s.")
                time.sleep(pause)
                continue
            cached = _cached(settings) if failure.passing else None
            if cached is None:
                raise DownloadError(failure.reason) from error
            _say(f"warning: {failure.reason} The copy in the cache is served.")
            return cached
    raise AssertionError


def _fetch_once(settings: HuggingFaceSettings) -> str:
    from huggingface_hub import HfApi, snapshot_download

    # False, not None: the library would look for a token that somebody left in the image.
    token = settings.token or False
    info = HfApi().model_info(settings.repository, revision=settings.revision, files_metadata=True, token=token)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    skipped = weights.unwanted(sizes, tensorflow=importlib.util.find_spec("torch") is None)
    wanted = sum(size for name, size in sizes.items() if name not in skipped)
    _say(f"Downloading {_name(settings)}: {len(sizes) - len(skipped)} files, {failures.size(wanted)}, to {_cache()}.")
    if skipped:
        _say(f"Left out, weights of other frameworks or the same ones again: {', '.join(skipped)}.")
    own = os.path.join(_cache(), f"models--{str(settings.repository).replace('/', '--')}")
    _check_space(settings, wanted - _held(own))
    with _progress(own, wanted):
        return str(
            snapshot_download(
                settings.repository,
                revision=settings.revision,
                token=token,
                ignore_patterns=[glob.escape(name) for name in skipped] or None,
            )
        )


def _check_space(settings: HuggingFaceSettings, needed: int) -> None:
    free = shutil.disk_usage(_cache()).free
    if needed > free:
        told = (
            f"{_name(settings)} does not fit: it needs {failures.size(needed)} more, and {failures.size(free)} are free"
        )
        raise DownloadError(f"{told} at {_cache()}. Name a larger disk by HF_HOME.")


@contextmanager
def _progress(folder: str, wanted: int) -> Iterator[None]:
    """Says from time to time how much of a download has arrived."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(_PROGRESS_SECONDS):
            _say(f"{failures.size(_held(folder))} of {failures.size(wanted)} have arrived.")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def _held(folder: str) -> int:
    """Bytes of the cache; links are not followed, as they point back into it."""
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except OSError:
                continue  # the library has just renamed it
    return found


def _link(folder: str, link: str) -> None:
    os.makedirs(os.path.dirname(link), exist_ok=True)
    fresh = f"{link}.{os.getpid()}"
    os.symlink(folder, fresh)
    os.replace(fresh, link)


def _cache() -> str:
    """The library's folder of models."""
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _name(settings: HuggingFaceSettings) -> str:
    return f"{settings.repository}{f' at {settings.revision}' if settings.revision else ''}"


def _say(line: str) -> None:
    print(masking.text(line), file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
