"""A client of any OCI registry: tags, manifests and blobs, with every digest checked.

Follows the OCI distribution specification 1.1 and, for bearer tokens, Docker's registry token authentication. The
engine uploads layers; this client reads back what arrived and names it. `blobs` takes images on to other registries.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urljoin, urlsplit

from slipway.errors import RegistryError, SlipwayError
from slipway.files import sha256_bytes
from slipway.registry.model import IMAGE_TYPES, INDEX_TYPES, Credentials, Manifest, is_loopback
from slipway.registry.transport import ATTEMPTS, BODY_LIMIT, Answer, Transport, refusal

_CHALLENGE_PART = re.compile(r'(\w+)="([^"]*)"')


class Registry:
    """One registry, asked as one user. Nothing is sent before the first question.

    `renew` gives fresh credentials when those at hand are refused, as tokens are that ended meanwhile. `untag` takes a
    tag of a repository away, where the registry has an interface of its own for that.
    """

    def __init__(
        self,
        host: str,
        credentials: Credentials | None = None,
        *,
        renew: Callable[[], Credentials | None] | None = None,
        untag: Callable[[str, str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.host = host
        self.credentials = credentials
        self.untag = untag
        self._renew = renew
        self._transport = Transport(host, sleep=sleep)
        self._authorization: dict[str, str] = {}  # by repository

    def ping(self) -> None:
        """Ask whether a registry answers here and accepts the credentials. Raises RegistryError or AuthError."""
        self._ask("GET", "/v2/", doing="say whether it is a registry")

    def tags(self, repository: str) -> list[str]:
        """Every tag of a repository; none where it does not exist (most registries make it at the first push)."""
        found: list[str] = []
        pages = set()
        path = f"/v2/{repository}/tags/list?n=1000"
        while path and path not in pages:
            pages.add(path)
            answer = self._find("GET", path, doing=f"list the tags of {repository}", repository=repository)
            if answer is None:
                break
            found.extend(answer.json().get("tags") or [])
            path = self._next_page(answer)
        return found

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """The manifest under a tag or digest, or None. Raises RegistryError when its bytes have another digest."""
        for attempt in range(1, ATTEMPTS + 1):
            answer = self._find(
                "GET",
                f"/v2/{repository}/manifests/{reference}",
                doing=f"show {repository} {reference}",
                repository=repository,
                headers={"Accept": ", ".join((*IMAGE_TYPES, *INDEX_TYPES))},
            )
            if answer is None:
                return None
            manifest = Manifest(answer.headers.get("Content-Type", "").partition(";")[0].strip(), answer.body)
            promised = reference if ":" in reference else answer.headers.get("Docker-Content-Digest", "")
            if promised in ("", manifest.digest):
                return manifest
            if attempt < ATTEMPTS:
                self._transport.wait(attempt)
        raise RegistryError(
            f"{self.host} gives bytes with the digest {manifest.digest} for {repository} {reference}, "
            f"which should be {promised}",
            fix="something between here and the registry changes what is sent: a proxy or a broken cache",
        )

    def put_manifest(self, repository: str, reference: str, manifest: Manifest) -> None:
        """Store a manifest, byte for byte, under a tag or its own digest.

        Raises TagConflictError when the registry itself keeps the tag from moving.
        """
        self._ask(
            "PUT",
            f"/v2/{repository}/manifests/{reference}",
            doing=f"store {repository} {reference}",
            repository=repository,
            headers={"Content-Type": manifest.media_type},
            body=manifest.body,
        )

    def has_blob(self, repository: str, digest: str) -> bool:
        path = f"/v2/{repository}/blobs/{digest}"
        return self._find("HEAD", path, doing=f"find {digest} in {repository}", repository=repository) is not None

    def part(self, repository: str, digest: str, offset: int, size: int, *, whole: bool) -> bytes:
        """`size` bytes of a blob from `offset`. `whole`: these are all of it."""
        answer = self._ask(
            "GET",
            f"/v2/{repository}/blobs/{digest}",
            doing=f"give {digest} of {repository}",
            repository=repository,
            headers={} if whole else {"Range": f"bytes={offset}-{offset + size - 1}"},
            limit=size,
        )
        if len(answer.body) != size:
            raise RegistryError(
                f"{self.host} gives {len(answer.body)} bytes of {digest} where {size} were asked for",
                fix="something between here and the registry changes what is sent: a proxy or a broken cache",
            )
        return answer.body

    def blob(self, repository: str, digest: str, size: int) -> bytes:
        """A small blob, such as an image's configuration. Raises RegistryError when its bytes have another digest."""
        data = self.part(repository, digest, 0, size, whole=True)
        if f"sha256:{sha256_bytes(data)}" != digest:
            raise RegistryError(f"{self.host} gives other bytes for {digest} of {repository}")
        return data

    def request(
        self,
        method: str,
        address: str,
        *,
        doing: str,
        repository: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        attempts: int = ATTEMPTS,
    ) -> Answer:
        """One question at a path or a URL that the registry gave, authorised; whatever is answered is returned."""
        return self._authorised(
            method, urljoin(self._transport.root, address), doing, repository, headers or {}, body, attempts=attempts
        )

    def refusal(self, answer: Answer, doing: str) -> SlipwayError:
        """The error for an answer that is a refusal."""
        return refusal(self.host, self._user, answer, doing)

    def wait(self, attempt: int, answer: Answer | None = None) -> None:
        """Pause after a failed attempt, counted from 1, as an answer asks for or longer and longer."""
        self._transport.wait(attempt, answer.headers.get("Retry-After", "") if answer else "")

    def renew(self) -> bool:
        """Take fresh credentials in the place of those that were refused; whether there were others."""
        if self._renew is None:
            return False
        fresh = self._renew()
        if fresh == self.credentials:
            return False
        self.credentials = fresh
        self._authorization.clear()
        return True

    def _next_page(self, answer: Answer) -> str:
        link = answer.links.get("next", {}).get("url", "")
        if not link:
            return ""
        url = urlsplit(urljoin(answer.url, link))
        # Credentials go to the registry alone, so a page elsewhere is not followed.
        if url.netloc != self.host:
            raise RegistryError(f"{self.host} sends the next page of tags to another host, {url.netloc}")
        return f"{url.path}?{url.query}"

    def _ask(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        repository: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: int = BODY_LIMIT,
    ) -> Answer:
        """One question, authorised as the registry demands. Raises the error that fits a refusal."""
        url = self._transport.root + path
        answer = self._authorised(method, url, doing, repository, headers or {}, body, limit=limit)
        if answer.ok:
            return answer
        raise refusal(self.host, self._user, answer, doing)

    def _find(
        self, method: str, path: str, *, doing: str, repository: str, headers: Mapping[str, str] | None = None
    ) -> Answer | None:
        """Like `_ask`, for what may not exist: None for 404."""
        answer = self._authorised(method, self._transport.root + path, doing, repository, headers or {}, None)
        if answer.status == 404:
            return None
        if answer.ok:
            return answer
        raise refusal(self.host, self._user, answer, doing)

    def _authorised(
        self,
        method: str,
        url: str,
        doing: str,
        repository: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        limit: int = BODY_LIMIT,
        attempts: int = ATTEMPTS,
    ) -> Answer:
        def send(authorization: str) -> Answer:
            # Credentials go to the registry alone: an address elsewhere, for an upload, carries its own leave.
            known = authorization and urlsplit(url).netloc == self.host
            given = {**headers, "Authorization": authorization} if known else headers
            return self._transport.send(method, url, given, body, limit=limit, attempts=attempts)

        answer = send(self._authorization.get(repository, ""))
        if answer.status != 401:
            return answer
        # Once more with what the challenge asks for; a token may also have expired since the last question.
        challenge = answer.headers.get("WWW-Authenticate", "")
        for renewed in (False, True):
            if renewed and not self.renew():
                break
            granted = self._answer_challenge(challenge, repository, doing)
            if not granted:
                break
            answer = send(granted)
            if answer.status != 401:
                self._authorization[repository] = granted
                break
        return answer

    def _answer_challenge(self, challenge: str, repository: str, doing: str) -> str:
        """The Authorization that a challenge asks for; empty when there is nothing to answer with."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            return self.credentials.basic if self.credentials and self.credentials.username else ""
        if kind.lower() != "bearer":
            return ""
        parts = dict(_CHALLENGE_PART.findall(rest))
        query = {"service": parts.get("service", ""), "scope": parts.get("scope", "")}
        if repository:
            query["scope"] = f"repository:{repository}:pull,push"
        return "Bearer " + self._bearer_token(parts.get("realm", ""), query, doing)

    def _bearer_token(self, realm: str, query: Mapping[str, str], doing: str) -> str:
        address = urlsplit(realm)
        local = is_loopback(self.host) and is_loopback(address.netloc)
        if address.scheme != "https" and not (address.scheme == "http" and local):
            raise RegistryError(f"{self.host} wants its token fetched from {realm!r}, which is not https")
        asked = {name: value for name, value in query.items() if value}
        given = self.credentials
        if given and given.identity_token:
            trade = {"grant_type": "refresh_token", "refresh_token": given.identity_token, "client_id": "slipway"}
            form = urlencode({**asked, **trade}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = self._transport.send("POST", realm, headers, form)
        else:
            headers = {"Authorization": given.basic} if given and given.username else {}
            joint = "&" if address.query else "?"
            answer = self._transport.send("GET", realm + joint + urlencode(asked), headers)
        if not answer.ok:
            raise refusal(self.host, self._user, answer, doing)
        document = answer.json()
        token = document.get("token") or document.get("access_token")
        if not token:
            raise RegistryError(f"{realm} gave no token for {self.host}")
        return str(token)

    @property
    def _user(self) -> str:
        if self.credentials is None:
            return ""
        return self.credentials.username or "the identity token"
