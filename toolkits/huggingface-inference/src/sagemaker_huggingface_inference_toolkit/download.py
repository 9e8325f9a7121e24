"""The model of HF_MODEL_ID: downloaded once a container, before any worker starts.

A program of its own, since what it imports has no place in a server that idles for weeks::

    python -m sagemaker_huggingface_inference_toolkit.download LINK

LINK becomes a link to the model's folder in the library's cache. Everything is logged to stderr, secrets masked; on
failure the last line is the reason, and the exit code ``FAILED``.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sagemaker_inference import masking
from sagemaker_inference.settings import SettingsError

from sagemaker_huggingface_inference_toolkit import places, weights
from sagemaker_huggingface_inference_toolkit.settings import OFFLINE, HuggingFaceSettings

FAILED = 3

_TRIES = 3
_PAUSES = (1.0, 4.0)
_PROGRESS_SECONDS = 10.0
_MIB = 1 << 20


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
    folder = _cached(settings, environ) if settings.offline else _fetch(settings, environ)
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


def _cached(settings: HuggingFaceSettings, environ: Mapping[str, str]) -> str:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return str(snapshot_download(settings.repository, revision=settings.revision, local_files_only=True))
    except (LocalEntryNotFoundError, OSError) as error:
        switch = " and ".join(name for name in OFFLINE if environ.get(name))
        raise DownloadError(
            f"{_name(settings)} is not in {places.home(environ)}, and {switch} forbids to download it: unset the "
            "variable, mount a cache that has the model and name it by HF_HOME, or give the model as ModelDataUrl "
            "without HF_MODEL_ID."
        ) from error


def _fetch(settings: HuggingFaceSettings, environ: Mapping[str, str]) -> str:
    """Downloads, or completes what an earlier start has left; tried again after what may pass."""
    for pause in (*_PAUSES[: _TRIES - 1], None):
        try:
            return _fetch_once(settings, environ)
        except Exception as error:
            reason, passing = _explain(settings, environ, error)
            if reason is None:
                raise
            if not passing or pause is None:
                raise DownloadError(reason) from error
            _say(f"warning: {reason} Trying again in {pause:g} s.")
            time.sleep(pause)
    raise AssertionError


def _fetch_once(settings: HuggingFaceSettings, environ: Mapping[str, str]) -> str:
    from huggingface_hub import HfApi, snapshot_download

    # False, not None: the library would look for a token that somebody left in the image.
    token = settings.token or False
    info = HfApi().model_info(settings.repository, revision=settings.revision, files_metadata=True, token=token)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    skipped = weights.unwanted(sizes)
    wanted = sum(size for name, size in sizes.items() if name not in skipped)
    home = places.home(environ)
    _say(f"Downloading {_name(settings)}: {len(sizes) - len(skipped)} files, {_size(wanted)}, to {home}.")
    if skipped:
        _say(f"Left out, weights of other frameworks or the same ones again: {', '.join(skipped)}.")
    with _progress(home, wanted):
        return str(
            snapshot_download(
                settings.repository,
                revision=settings.revision,
                token=token,
                ignore_patterns=[glob.escape(name) for name in skipped] or None,
            )
        )


@contextmanager
def _progress(folder: str, wanted: int) -> Iterator[None]:
    """Says from time to time how much of a download has arrived."""
    ended = threading.Event()

    def report() -> None:
        before = _held(folder)
        while not ended.wait(_PROGRESS_SECONDS):
            _say(f"{_size(max(_held(folder) - before, 0))} of {_size(wanted)} have arrived.")

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


def _explain(settings: HuggingFaceSettings, environ: Mapping[str, str], error: Exception) -> tuple[str | None, bool]:
    """Why it failed, for users, and whether it may pass by itself; None for what is no failure of a download."""
    from huggingface_hub import errors

    name = f"HF_MODEL_ID={settings.repository}"
    hub = environ.get("HF_ENDPOINT") or "https://huggingface.co"
    said = _one_line(error)
    if isinstance(error, errors.GatedRepoError):
        return f"{name} is gated: accept its conditions at {hub}/{settings.repository}; give {_token(settings)}.", False
    if isinstance(error, errors.RevisionNotFoundError):
        return f"HF_MODEL_REVISION={settings.revision}: {settings.repository} has no such branch, tag or commit.", False
    if isinstance(error, errors.RepositoryNotFoundError):
        told = f"{name}: {hub} has no such model, or hides it: check the name, and give {_token(settings)}."
        return told, False
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if status is not None:
        if status in (401, 403):
            return f"{name}: {hub} refuses it with status {status}: give {_token(settings)}.", False
        return f"{name}: {hub} answers with status {status}: {said}", status in (408, 429) or status >= 500
    if _is_disk_full(error):
        home = places.home(environ)
        free = _size(shutil.disk_usage(home).free) if os.path.isdir(home) else "none"
        return f"{name} does not fit: {free} are free at {home}. Name a larger disk by HF_HOME.", False
    if isinstance(error, OSError) and isinstance(error, PermissionError):
        return f"{name} cannot be stored: {said}. Name a folder that can be written to by HF_HOME.", False
    if isinstance(error, (OSError, errors.LocalEntryNotFoundError)) or _is_transport(error):
        return (
            f"{name} could not be downloaded from {hub}: {said}. Without internet, give the model as ModelDataUrl, or "
            "a mirror by HF_ENDPOINT.",
            True,
        )
    return None, False


def _is_disk_full(error: BaseException | None) -> bool:
    import errno

    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_transport(error: Exception) -> bool:
    """Whether an HTTP library lost its connection; which library it is depends on the hub's version."""
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return any(name.startswith(("httpx", "httpcore", "requests", "urllib3")) for name in packages)


def _token(settings: HuggingFaceSettings) -> str:
    if settings.token:
        return f"another token than that of {settings.sources['token']}, which is not allowed to read it"
    return "a token that may read it by HF_TOKEN"


def _link(folder: str, link: str) -> None:
    os.makedirs(os.path.dirname(link), exist_ok=True)
    fresh = f"{link}.{os.getpid()}"
    os.symlink(folder, fresh)
    os.replace(fresh, link)


def _name(settings: HuggingFaceSettings) -> str:
    return f"{settings.repository}{f' at {settings.revision}' if settings.revision else ''}"


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / _MIB:.1f} MiB"


def _one_line(error: Any) -> str:
    return masking.text(" ".join(str(error).split())[:500]) or type(error).__name__


def _say(line: str) -> None:
    print(masking.text(line), file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
