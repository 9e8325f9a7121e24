"""Requests to one registry: bounded, repeated where a failure may pass, and refused in plain words."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from slipway.errors import AuthError, RegistryError, SlipwayError, TagConflictError
from slipway.registry.model import ecr_region, is_loopback, login_command

if TYPE_CHECKING:
    import requests

BODY_LIMIT = 4 << 20  # bytes; the specification asks registries to take manifests of at least this size
ATTEMPTS = 5
LONGEST_WAIT = 30.0  # seconds, whatever Retry-After says
TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two reads

PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Answer:
    """A response, read whole. `headers` are found under any case, `links` are those of its Link header."""

    method: str
    url: str
    status: int
    headers: Mapping[str, str]
    links: Mapping[str, Mapping[str, str]]
    body: bytes = field(repr=False)

    @property
    def ok(self) -> bool:
        # A blob may be kept on another host; that it is kept is all that HEAD asks.
        return self.status < 300 or (self.method == "HEAD" and self.status < 400)

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises RegistryError when it is something else."""
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            host = urlsplit(self.url).netloc
            raise RegistryError(f"{host} answered with something that is not JSON", fix="check that it is a registry")
        return document

    def told(self) -> tuple[set[str], str]:
        """The codes and the text of a registry's error document; empty when it is none."""
        try:
            errors = json.loads(self.body)["errors"]
            codes = {str(item.get("code", "")) for item in errors}
            text = "; ".join(str(item.get("message") or item.get("code", "")) for item in errors)
        except (ValueError, KeyError, TypeError, AttributeError):
            return set(), ""
        return codes, text[:300]


class Transport:
    """The way to one registry. `sleep` takes seconds; tests hand in their own."""

    def __init__(self, host: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.host = host
        self._sleep = sleep

    @property
    def root(self) -> str:
        return f"{'http' if is_loopback(self.host) else 'https'}://{self.host}"

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit: int = BODY_LIMIT,
        attempts: int = ATTEMPTS,
    ) -> Answer:
        """Send one request, again after a failure that may pass. Raises RegistryError when none was answered.

        `limit`: bytes that are read of an answer; `attempts`: 1 for what must not be sent twice.
        """
        import requests

        for attempt in range(1, attempts + 1):
            last = attempt == attempts
            try:
                answer = self._once(method, url, headers, body, limit)
            except (
                requests.exceptions.ConnectionError,
                requests.exceptions.Timeout,
                requests.exceptions.ChunkedEncodingError,
            ) as error:
                if last or self._is_lasting(error):
                    raise self._unreachable(error) from None
                self.wait(attempt)
            except requests.exceptions.RequestException as error:
                raise self._unreachable(error) from None
            else:
                if last or answer.status not in PASSING:
                    return answer
                self.wait(attempt, answer.headers.get("Retry-After", ""))
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    def wait(self, attempt: int, asked: str = "") -> None:
        """Pause after an attempt (counted from 1): for the seconds that were asked for, or longer and longer."""
        # Jitter keeps clients that were refused at the same moment from coming back at the same moment.
        wait = float(asked) if asked.isdigit() else random.uniform(0.25, 0.5) * 2 ** (attempt - 1)
        self._sleep(min(wait, LONGEST_WAIT))

    @cached_property
    def _session(self) -> requests.Session:
        import requests

        session = requests.Session()
        # A proxy for the world outside, or a password from ~/.netrc, is not for this machine's own registry.
        session.trust_env = not is_loopback(self.host)
        return session

    def _once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, limit: int) -> Answer:
        with self._session.request(
            method,
            url,
            headers=dict(headers),
            data=body,
            timeout=TIMEOUT,
            stream=True,
            allow_redirects=method == "GET",
        ) as response:
            parts, size = [], 0
            for part in response.iter_content(1 << 16):
                parts.append(part)
                size += len(part)
                if size > max(limit, BODY_LIMIT):
                    most = f"{max(limit, BODY_LIMIT) >> 20} MiB"
                    raise RegistryError(f"{self.host} answers with more than {most} to {method} {url}")
            return Answer(method, response.url, response.status_code, response.headers, response.links, b"".join(parts))

    def _is_lasting(self, error: Exception) -> bool:
        """Whether asking again would change nothing."""
        import requests

        nobody_listens = is_loopback(self.host) and isinstance(_innermost(error), ConnectionRefusedError)
        return isinstance(error, requests.exceptions.SSLError) or _unknown_host(error) or nobody_listens

    def _unreachable(self, error: Exception) -> RegistryError:
        import requests

        region = ecr_region(self.host)
        if _unknown_host(error):
            fix = f"check the region {region} and the account" if region else "check the registry's name"
            return RegistryError(f"there is no host {self.host}", fix=fix)
        if isinstance(error, requests.exceptions.SSLError):
            return RegistryError(
                f"{self.host} does not speak TLS that is trusted here: {_in_words(error)}",
                fix="name the CA bundle in REQUESTS_CA_BUNDLE; only a loopback registry is spoken to without TLS",
            )
        return RegistryError(
            f"{self.host} does not answer: {_in_words(error)}", fix="check that it runs and can be reached"
        )


def refusal(host: str, user: str, answer: Answer, doing: str) -> SlipwayError:
    """The error for an answer that is a refusal. `doing` completes "asked to"; `user` is empty without credentials."""
    codes, detail = answer.told()
    said = f": {detail}" if detail else ""
    status = answer.status
    if status == 401:
        who = f"the credentials of {user}" if user else "a request without credentials"
        return AuthError(f"{host} does not accept {who} to {doing}{said}", fix=login_command(host))
    if status in (413, 507) or "quota" in detail.lower() or "LimitExceeded" in detail:
        return RegistryError(
            f"{host} has no room for what it was asked to do, to {doing}{said}",
            fix="raise the quota, or delete images that nobody uses; the same command goes on where it stopped",
        )
    if status == 403:
        region = ecr_region(host)
        hint = f"; check that {region} is the repository's region" if region else ""
        return AuthError(
            f"{host} does not allow {user or 'a request without credentials'} to {doing}{said}",
            fix=f"log in as someone who may: {login_command(host)}{hint}",
        )
    if status == 404 and "NAME_UNKNOWN" in codes:
        return RegistryError(
            f"{host} has no repository to {doing}{said}", fix="check its name and region, or create it"
        )
    # ECR answers 400 TAG_INVALID, others 409 or 412, when a tag may not move.
    immutable = "immutable" in detail.lower() or "already exists" in detail.lower()
    if answer.method == "PUT" and (status in (409, 412) or (status == 400 and immutable)):
        return TagConflictError(
            f"{host} keeps that tag from moving; it was asked to {doing}{said}",
            fix="push again: the next free number is taken",
        )
    if status in PASSING:
        return RegistryError(
            f"{host} answered {status} to each of {ATTEMPTS} attempts to {doing}{said}", fix="try again later"
        )
    return RegistryError(f"{host} answered {status} when asked to {doing}{said}")


def _unknown_host(error: Exception) -> bool:
    return "NameResolutionError" in repr(error)


def _innermost(error: BaseException) -> BaseException:
    """The cause under the layers that HTTP libraries wrap around it."""
    while True:
        beneath = (getattr(error, "reason", None), error.__cause__, *error.args[-1:])
        cause = next((one for one in beneath if isinstance(one, BaseException)), None)
        if cause is None:
            return error
        error = cause


def _in_words(error: BaseException) -> str:
    cause = _innermost(error)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
