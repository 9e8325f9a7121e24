"""Archives of strangers, unpacked so that nothing lands outside the target folder.

Names are made relative, devices and pipes are left out, links may not leave the target, owners and set-id bits
are dropped; each with a warning, since a job should not fail for a stray entry. The rules are the same
on every Python, with and without the tar filters of the standard library, so they are written out here.
"""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from typing import Iterable, List, Optional

from sagemaker_training import errors
from sagemaker_training.logs import logger

_DRIVE = re.compile(r"^[A-Za-z]:")


def extract(archive: str, target: str, name: Optional[str] = None) -> None:
    """Unpacks a gzipped (or otherwise compressed) tar archive into a folder. name: what to call it in messages."""
    name = name or archive
    links: List[str] = []
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                links += _extract_member(tar, member, target)
    except (tarfile.TarError, zlib.error, EOFError, ValueError) as error:
        raise errors.ClientError(f"{name} is not a complete tar archive: {error}") from error
    except OSError as error:
        # Broken compression is an OSError without a number; a full disk has one and is not the archive's fault.
        if error.errno is not None:
            raise
        raise errors.ClientError(f"{name} is not a complete tar archive: {error}") from error
    finally:
        _remove_leaving(links, target)


def _extract_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> List[str]:
    """Unpacks an entry. Gives its path when it is a symbolic link."""
    original = member.name
    member.name = _relative(original)
    if not member.name:
        return []
    if member.name != os.path.normpath(original):
        logger.warning("archive: %r is unpacked as %r", original, member.name)
    reason = _refusal(member, target)
    if reason:
        logger.warning("archive: %r is left out: %s", original, reason)
        return []
    path = os.path.join(target, member.name)
    _make_room(path, member)
    if member.issym() or member.islnk():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Made here: the library, when a link fails, looks for what it points to and may do so for ever.
        if member.issym():
            os.symlink(member.linkname, path)
            return [path]
        os.link(os.path.join(target, member.linkname), path)
        return []
    member.mode = (member.mode & 0o777) | (0o700 if member.isdir() else 0o600)
    member.uid, member.gid = os.getuid(), os.getgid()
    member.uname = member.gname = ""
    if hasattr(tarfile, "data_filter"):
        # The checks above are ours; the trusted filter only tells newer Pythons that we made them.
        tar.extract(member, target, filter="fully_trusted")
    else:
        tar.extract(member, target)
    return []


def _remove_leaving(links: Iterable[str], target: str) -> None:
    """Takes away links that leave the target now: a later entry may have changed what stands before their ``..``."""
    for link in links:
        if os.path.islink(link) and not _inside(link, target):
            logger.warning("archive: %r is left out: it leads out of the target", os.path.relpath(link, target))
            os.unlink(link)


def _relative(name: str) -> str:
    """The name without drive, leading slashes, ``.`` and ``..``."""
    parts = _DRIVE.sub("", name).replace("\\", "/").split("/") if _DRIVE.match(name) else name.split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))


def _refusal(member: tarfile.TarInfo, target: str) -> str:
    """Why an entry must not be unpacked; empty when it may."""
    if not (member.isreg() or member.isdir() or member.islnk() or member.issym()):
        return "it is a device or a pipe"
    if not _inside(os.path.dirname(os.path.join(target, member.name)), target):
        return "a link before it leads out of the target"
    if member.issym():
        pointed = os.path.join(target, os.path.dirname(member.name), member.linkname)
        if os.path.isabs(member.linkname) or not _inside(pointed, target):
            return f"it links to {member.linkname!r}, outside the target"
    if member.islnk():
        member.linkname = _relative(member.linkname)
        if not _inside(os.path.join(target, member.linkname), target):
            return f"it links to {member.linkname!r}, outside the target"
        if not os.path.isfile(os.path.join(target, member.linkname)):
            return f"it links to {member.linkname!r}, which is not in the archive before it"
        source = os.path.realpath(os.path.join(target, member.linkname))
        if source == os.path.realpath(os.path.join(target, member.name)):
            return "it links to itself"
    return ""


def _inside(path: str, target: str) -> bool:
    root = os.path.realpath(target)
    real = os.path.realpath(path)
    return real == root or real.startswith(root + os.sep)


def _make_room(path: str, member: tarfile.TarInfo) -> None:
    """Takes away a link of the same name: writing through it would reach what it points to."""
    if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path) and not member.isdir()):
        os.unlink(path)
