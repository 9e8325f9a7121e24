"""Stateful sessions: the client's requests carry an id, and each session has a folder that all workers share.

User code finds the id in the header ``X-Amzn-SageMaker-Session-Id`` of its context, and the folder by ``folder``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from contextlib import suppress
from typing import NamedTuple

from sagemaker_inference import errors
from sagemaker_inference.service import Headers, Reply, Request
from sagemaker_inference.settings import Settings

HEADER = b"x-amzn-sagemaker-session-id"
NEW_HEADER = b"x-amzn-sagemaker-new-session-id"
CLOSED_HEADER = b"x-amzn-sagemaker-closed-session-id"
NEW = "NEW_SESSION"
CLOSE = "CLOSE"

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,254}[A-Za-z0-9])?")
_FOLDER = "serve-sessions"
_EXPIRES = ".expires"
_SHORT_BODY = 256
"""Bytes: a body that only asks to open or to close is not longer."""


class Step(NamedTuple):
    """What a request means for its session: go on with ``request``, or send ``reply``; ``headers`` go with either."""

    request: Request
    reply: Reply | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


def folder(session_id: str) -> str:
    """The folder of an open session. Raises GenericInferenceToolkitError (400) when there is none, or no more."""
    settings = Settings.read()
    return Sessions(settings.sessions_path, settings.sessions_expiration).find(session_id)


class Sessions:
    """The open sessions of this container."""

    def __init__(self, path: str, seconds: int) -> None:
        """path: where the folders are; seconds: how long a session lives."""
        self._root = os.path.join(path, _FOLDER)
        self._seconds = seconds

    def step(self, request: Request) -> Step:
        """Opens, checks or closes the session of a request. Raises GenericInferenceToolkitError (400)."""
        named = request.headers.get("x-amzn-sagemaker-session-id")
        if named is None:
            return Step(request)
        asked = _asked(request.body)
        if named == NEW:
            session_id, expires = self.open()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
            headers = ((NEW_HEADER, f"{session_id}; Expires={stamp}".encode()),)
            if asked == NEW:
                return Step(request, _empty(), headers)
            raw = [(name, value) for name, value in request.headers.raw if name != HEADER]
            return Step(request._replace(headers=Headers([*raw, (HEADER, session_id.encode())])), None, headers)
        self.find(named)
        if asked == CLOSE:
            self.close(named)
            return Step(request, _empty(), ((CLOSED_HEADER, named.encode()),))
        return Step(request)

    def open(self) -> tuple[str, int]:
        """The id of a new session, and when it ends (seconds since 1970)."""
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        self._sweep()
        session_id, expires = str(uuid.uuid4()), int(time.time()) + self._seconds
        place = os.path.join(self._root, session_id)
        os.mkdir(place, 0o700)
        with open(os.path.join(place, _EXPIRES), "w") as file:
            file.write(str(expires))
        return session_id, expires

    def find(self, session_id: str) -> str:
        """The folder of an open session."""
        if not _ID.fullmatch(session_id):
            raise errors.GenericInferenceToolkitError(400, f"{session_id[:100]!r} is no session id.")
        place = os.path.join(self._root, session_id)
        if self._ends(place) <= time.time():
            raise errors.GenericInferenceToolkitError(
                400, f"There is no session {session_id}: it was never opened, is closed, or has expired."
            )
        return place

    def close(self, session_id: str) -> None:
        shutil.rmtree(os.path.join(self._root, session_id), ignore_errors=True)

    def _sweep(self) -> None:
        for name in os.listdir(self._root):
            place = os.path.join(self._root, name)
            # Half an hour old without a date: whoever made it is gone.
            with suppress(OSError):
                if self._ends(place, os.stat(place).st_mtime + 1800) <= time.time():
                    self.close(name)

    def _ends(self, place: str, unknown: float = 0.0) -> float:
        try:
            with open(os.path.join(place, _EXPIRES)) as file:
                return float(file.read())
        except (OSError, ValueError):
            return unknown


def _asked(body: bytes) -> str | None:
    """NEW or CLOSE, if that is all that a body says."""
    if len(body) > _SHORT_BODY:
        return None
    try:
        said = json.loads(body)
    except ValueError:
        return None
    return said.get("requestType") if isinstance(said, dict) and set(said) == {"requestType"} else None


def _empty() -> Reply:
    return Reply(200, ((b"content-type", b"application/json"),), b"{}")
