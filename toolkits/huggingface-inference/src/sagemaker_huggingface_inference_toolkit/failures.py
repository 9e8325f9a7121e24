"""Why a download failed, in a user's words."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from sagemaker_inference import masking

from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings

_MIB = 1 << 20
_GIB = 1 << 30
_PACKAGES_OF_CONNECTIONS = ("httpx", "httpcore", "requests", "urllib3")


@dataclass(frozen=True)
class Failure:
    """reason: one line, for the end of the log. passing: whether another try may succeed."""

    reason: str
    passing: bool = False


def of(error: Exception, settings: HuggingFaceSettings, environ: Mapping[str, str], cache: str) -> Failure | None:
    """The failure that an error means; None for an error that is our own."""
    name = f"HF_MODEL_ID={settings.repository}"
    hub = environ.get("HF_ENDPOINT") or "https://huggingface.co"
    answered = _of_answer(error, settings, name, hub)
    if answered is not None:
        return answered
    if _is_disk_full(error):
        free = size(shutil.disk_usage(cache).free)
        return Failure(f"{name} does not fit: {free} are free at {cache}. Name a larger disk by HF_HOME.")
    if isinstance(error, PermissionError):
        return Failure(f"{name} cannot be stored: {_line(error)}. Name a folder that can be written to by HF_HOME.")
    if isinstance(error, OSError) or _is_connection(error):
        told = f"{name} could not be downloaded from {hub}: {_line(error)}."
        return Failure(f"{told} Without internet, give the model as ModelDataUrl, or a mirror by HF_ENDPOINT.", True)
    return None


def size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.1f} MiB"


def _of_answer(error: Exception, settings: HuggingFaceSettings, name: str, hub: str) -> Failure | None:
    """What the hub has answered."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        page = f"{hub}/{settings.repository}"
        return Failure(f"{name} is gated: accept its conditions at {page}; give {_token(settings)}.")
    if isinstance(error, errors.RevisionNotFoundError):
        return Failure(
            f"HF_MODEL_REVISION={settings.revision}: {settings.repository} has no such branch, tag or commit."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        told = f"{name}: {hub} has no such model, or hides it: check the name, and give {_token(settings)}."
        return Failure(told)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is None:
        return None
    if isinstance(error, errors.EntryNotFoundError):
        return Failure(f"{name}: {hub} lists a file that it does not have: {_line(error)}")
    if status in (401, 403):
        return Failure(f"{name}: {hub} refuses it with status {status}: give {_token(settings)}.")
    return Failure(f"{name}: {hub} answers with status {status}: {_line(error)}", status in (408, 429) or status >= 500)


def _token(settings: HuggingFaceSettings) -> str:
    if settings.token:
        return f"another token than that of {settings.sources['token']}, which is not allowed to read it"
    return "a token that may read it by HF_TOKEN"


def _is_disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_connection(error: Exception) -> bool:
    """Whether a connection was lost or never made. Which library says so depends on the version of the hub's."""
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return any(name.startswith(_PACKAGES_OF_CONNECTIONS) for name in packages)


def _line(error: Exception) -> str:
    """The first line of what an error says, without its last stop."""
    lines = str(error).strip().splitlines()
    return masking.text(lines[0][:500]).rstrip(".") if lines else type(error).__name__
