"""A model's artefacts brought to where a hosting container finds them, as the platform brings them.

Source of the rules: the SageMaker developer guide, "Use Your Own Inference Code with Hosting Services": one gzip'd tar
archive, unpacked below /opt/ml/model, without links.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath

from slipway.emulator import layout, s3
from slipway.errors import Fault, InputError
from slipway.files import naming_full_disk

_SUFFIXES = (".tar.gz", ".tgz")


def place(location: str, folder: Path, endpoint: str | None) -> Path:
    """The folder with a model's files: `location` itself where it is a folder, else what `folder` was filled with.

    `location`: a folder, a model.tar.gz, or s3:// of an archive or of a prefix of plain files. `endpoint` as for
    s3.download. Raises InputError for what the platform would refuse, AuthError, DiskError.
    """
    if location.startswith("s3://"):
        return _from_s3(location, folder, endpoint)
    path = Path(location.removeprefix("file://"))
    if path.is_dir():
        return path.resolve()
    if not path.is_file():
        raise InputError(f"there is no model at {path}", fix="name a folder, a model.tar.gz, or its s3:// location")
    if not path.name.endswith(_SUFFIXES):
        raise InputError(f"{path} is no model archive", fix="name a model.tar.gz, or the folder that it would hold")
    unpack(path, folder)
    return folder


def copy(source: Path, target: Path) -> None:
    """A model's files once more, so that code can be put beside them."""
    with naming_full_disk(target):
        shutil.copytree(source, target, symlinks=False, dirs_exist_ok=True)
    layout.open_to_all(target)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a model archive into a new folder, or nothing of it. Raises InputError with every fault."""
    try:
        with tarfile.open(archive, "r:gz") as tar, naming_full_disk(folder):
            members = tar.getmembers()
            faults = [fault for member in members for fault in _faults(member, archive)]
            if faults:
                raise InputError(f"SageMaker would not unpack {archive.name}", faults=faults)
            folder.mkdir(parents=True)
            for member in members:
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                tar.extract(member, folder, set_attrs=True, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{archive} cannot be unpacked: {error}", fix="pack it as tar and gzip: tar -czf") from None
    layout.open_to_all(folder)


def _faults(member: tarfile.TarInfo, archive: Path) -> list[Fault]:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        return [Fault(f"{member.name} would land outside of the model's folder", "pack relative names", str(archive))]
    if member.issym() or member.islnk():
        return [Fault(f"{member.name} is a link", "pack the file that it leads to", str(archive))]
    if not (member.isreg() or member.isdir()):
        return [Fault(f"{member.name} is neither file nor folder", "leave it out", str(archive))]
    return []


def _from_s3(location: str, folder: Path, endpoint: str | None) -> Path:
    if not location.endswith(_SUFFIXES):
        s3.download(location, folder, endpoint)
        layout.open_to_all(folder)
        return folder
    fetched = folder.with_name(f"{folder.name}.tar.gz")
    try:
        s3.download_object(location, fetched, endpoint)
        unpack(fetched, folder)
    finally:
        fetched.unlink(missing_ok=True)
    return folder
