"""Changes in a folder tree, from Linux's inotify through ctypes."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Dict, Iterator, List, Tuple

_CLOSE_WRITE = 0x008
_MOVED_TO = 0x080
_CREATE = 0x100
_IS_DIR = 0x40000000
_ONLY_DIR = 0x01000000
_HEADER = struct.Struct("iIII")


class Watcher:
    """Reports files that were closed after writing, or moved in, below a folder, in order."""

    def __init__(self, root: str, skip: str) -> None:
        """root: the folder, with those that appear in it later. skip: a folder to leave out."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._skip = skip
        self._folders: Dict[int, str] = {}
        # The script may have been quicker than this watcher.
        self._found = list(self._watch(root))

    def changed(self) -> List[str]:
        """Paths of files that are complete now; empty when there are none. A path may come twice."""
        found, self._found = self._found, []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return list(dict.fromkeys(found))
            for path, mask in self._events(data):
                if mask & _IS_DIR:
                    found += self._watch(path)
                elif mask & (_CLOSE_WRITE | _MOVED_TO):
                    found.append(path)

    def _events(self, data: bytes) -> Iterator[Tuple[str, int]]:
        offset = 0
        while offset < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length
            if name and number in self._folders:
                yield os.path.join(self._folders[number], name), mask

    def _watch(self, root: str) -> Iterator[str]:
        """Watches a folder and those in it, and gives the files that were written before that."""
        for folder, names, _ in os.walk(root):
            if folder == self._skip:
                names.clear()
                continue
            mask = _CLOSE_WRITE | _MOVED_TO | _CREATE | _ONLY_DIR
            number = self._libc.inotify_add_watch(self.fd, os.fsencode(folder), mask)
            if number >= 0:
                self._folders[number] = folder
            # Listed after the watch began: a file may have come before it.
            yield from (entry.path for entry in os.scandir(folder) if entry.is_file())

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
