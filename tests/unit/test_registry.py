"""The registry client against a server that misbehaves on cue."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from slipway.errors import AuthError, RegistryError, SlipwayError, TagConflictError
from slipway.registry import Credentials, Manifest, Registry, ecr_region, is_loopback, login_command
from slipway.registry.transport import ATTEMPTS, BODY_LIMIT, LONGEST_WAIT, Answer, refusal

TYPE = "application/vnd.oci.image.manifest.v1+json"
BODY = json.dumps({"config": {"digest": "sha256:" + "c" * 64, "size": 2}, "layers": []}).encode()
DIGEST = "sha256:" + hashlib.sha256(BODY).hexdigest()


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0  # bytes that are promised and not sent


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """Answers each request with what `answer` says, and keeps what was asked."""

    host: str = ""
    asked: list[Asked] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    answer: Callable[[Asked], Reply] = lambda asked: Reply()

    def in_turn(self, *replies: Reply) -> None:
        """Give these replies, the last one for ever."""
        left = list(replies)
        self.answer = lambda asked: left.pop(0) if len(left) > 1 else left[0]

    def client(self, credentials: Credentials | None = None) -> Registry:
        return Registry(self.host, credentials, sleep=self.slept.append)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet a reply

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers), body)
            state.asked.append(asked)
            reply = state.answer(asked)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + reply.cut))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
            self.close_connection = bool(reply.cut)

        do_GET = do_HEAD = do_PUT = do_POST = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state.host = f"127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def manifest_reply(body: bytes = BODY, digest: str = DIGEST, **more: int) -> Reply:
    return Reply(200, body, {"Content-Type": TYPE, "Docker-Content-Digest": digest}, **more)


def problem(status: int, code: str, message: str = "") -> Reply:
    return Reply(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode())


def test_a_manifest_with_its_digest(server):
    server.in_turn(manifest_reply())
    found = server.client().manifest("a/b", "v1")
    assert (found.digest, found.media_type, found.body) == (DIGEST, TYPE, BODY)
    assert found.is_image and found.config_digest == "sha256:" + "c" * 64
    assert server.asked[0].path == "/v2/a/b/manifests/v1"
    assert TYPE in server.asked[0].headers["Accept"] and "index" in server.asked[0].headers["Accept"]


def test_what_is_not_there(server):
    server.in_turn(problem(404, "MANIFEST_UNKNOWN"))
    client = server.client()
    assert client.manifest("a", "v1") is None
    assert client.tags("a") == []
    assert not client.has_blob("a", DIGEST)


def test_a_blob_kept_on_another_host_is_there(server):
    server.in_turn(Reply(307, b"", {"Location": "https://elsewhere.invalid/blob"}))
    assert server.client().has_blob("a", DIGEST)


@pytest.mark.parametrize("reference", ["v1", DIGEST])
def test_a_wrong_digest_is_asked_for_again_and_then_refused(server, reference):
    server.in_turn(manifest_reply(BODY + b" "))
    with pytest.raises(RegistryError, match=f"which should be {DIGEST}"):
        server.client().manifest("a", reference)
    assert len(server.asked) == ATTEMPTS
    server.in_turn(manifest_reply(BODY + b" "), manifest_reply())
    assert server.client().manifest("a", reference).digest == DIGEST


def test_a_cut_body_is_asked_for_again(server):
    server.in_turn(manifest_reply(BODY[:20], cut=len(BODY) - 20), manifest_reply())
    assert server.client().manifest("a", "v1").body == BODY
    server.in_turn(manifest_reply(BODY[:20], cut=len(BODY) - 20))
    with pytest.raises(RegistryError, match="does not answer"):
        server.client().manifest("a", "v1")


def test_an_answer_without_end_is_not_read_to_its_end(server):
    server.in_turn(manifest_reply(b"x" * (BODY_LIMIT + 1)))
    with pytest.raises(RegistryError, match="more than 4 MiB"):
        server.client().manifest("a", "v1")


def test_500_twice_and_then_fine(server):
    server.in_turn(Reply(500), Reply(503), manifest_reply())
    assert server.client().manifest("a", "v1").digest == DIGEST
    assert len(server.slept) == 2 and 0.25 <= server.slept[0] <= 0.5 <= server.slept[1] <= 1.0


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_does_not_pass_is_given_up(server, status):
    server.in_turn(problem(status, "X", "come back later"))
    with pytest.raises(RegistryError, match=f"answered {status} to each of {ATTEMPTS} attempts.*come back later"):
        server.client().tags("a")
    assert len(server.asked) == ATTEMPTS and len(server.slept) == ATTEMPTS - 1


def test_retry_after_is_heeded_within_bounds(server):
    server.in_turn(
        Reply(429, b"", {"Retry-After": "7"}),
        Reply(429, b"", {"Retry-After": "86400"}),
        Reply(429, b"", {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        manifest_reply(),
    )
    server.client().manifest("a", "v1")
    assert server.slept[:2] == [7, LONGEST_WAIT] and server.slept[2] <= 2.0


def test_waits_differ(server):
    server.in_turn(Reply(503))
    for _ in range(4):
        with pytest.raises(RegistryError):
            server.client().ping()
    assert len(set(server.slept)) == len(server.slept)


def test_a_registry_that_is_down():
    slept: list[float] = []
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1:9 does not answer: Connection refused"):
        Registry("127.0.0.1:9", sleep=slept.append).ping()
    assert slept == [], "nobody listens on this machine: asking again is of no use"


def test_basic_credentials_are_sent_once_asked_for(server):
    def answer(asked: Asked) -> Reply:
        if "Authorization" not in asked.headers:
            return Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
        return manifest_reply()

    server.answer = answer
    client = server.client(Credentials("me", "secret"))
    client.manifest("a", "v1")
    client.manifest("a", "v2")
    sent = [asked.headers.get("Authorization") for asked in server.asked]
    right = "Basic " + base64.b64encode(b"me:secret").decode()
    assert sent == [None, right, right]


@pytest.mark.parametrize("credentials", [None, Credentials("me", "wr0ng")])
def test_401_is_not_repeated_and_names_the_login(server, credentials):
    server.in_turn(Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'}))
    with pytest.raises(AuthError) as caught:
        server.client(credentials).ping()
    assert caught.value.fix == f"docker login {server.host}"
    assert ("of me" if credentials else "without credentials") in caught.value.message
    assert "wr0ng" not in str(caught.value)
    assert len(server.asked) == (2 if credentials else 1)


def test_403(server):
    server.in_turn(problem(403, "DENIED", "not yours"))
    with pytest.raises(AuthError, match=r"does not allow me to list the tags of a: not yours"):
        server.client(Credentials("me", "x")).tags("a")
    assert len(server.asked) == 1


def bearer(server: Server, token_reply: Reply) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/token"):
            return token_reply
        if asked.headers.get("Authorization") != "Bearer t1":
            challenge = f'Bearer realm="http://{server.host}/token",service="reg"'
            return Reply(401, headers={"WWW-Authenticate": challenge})
        return manifest_reply()

    server.answer = answer


def test_a_bearer_token_is_fetched_and_kept(server):
    bearer(server, Reply(200, b'{"token": "t1"}'))
    client = server.client(Credentials("me", "secret"))
    client.manifest("a/b", "v1")
    client.manifest("a/b", "v2")
    tokens = [asked for asked in server.asked if asked.path.startswith("/token")]
    assert len(tokens) == 1
    assert parse_qs(urlsplit(tokens[0].path).query) == {"service": ["reg"], "scope": ["repository:a/b:pull,push"]}
    assert tokens[0].headers["Authorization"].startswith("Basic ")


def test_an_identity_token_is_traded(server):
    bearer(server, Reply(200, b'{"access_token": "t1"}'))
    server.client(Credentials(identity_token="idt")).manifest("a", "v1")
    (trade,) = [asked for asked in server.asked if asked.path.startswith("/token")]
    assert trade.method == "POST" and "secret" not in trade.path
    assert parse_qs(trade.body.decode())["refresh_token"] == ["idt"]


def test_an_expired_bearer_token_is_fetched_anew(server):
    bearer(server, Reply(200, b'{"token": "t1"}'))
    client = server.client()
    client._authorization["a"] = "Bearer t0"
    assert client.manifest("a", "v1").digest == DIGEST


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(401), AuthError),
        (Reply(200, b"{}"), RegistryError),
        (Reply(200, b"<html>"), RegistryError),
        (Reply(500), RegistryError),
    ],
)
def test_a_token_that_is_not_given(server, reply, error):
    bearer(server, reply)
    with pytest.raises(error):
        server.client(Credentials("me", "x")).ping()


@pytest.mark.parametrize("realm", ["http://elsewhere.invalid/token", "ftp://127.0.0.1/x", ""])
def test_credentials_go_to_no_realm_without_tls(server, realm):
    server.in_turn(Reply(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'}))
    with pytest.raises(RegistryError, match="not https"):
        server.client(Credentials("me", "x")).ping()


def test_tags_come_in_pages(server):
    def answer(asked: Asked) -> Reply:
        last = parse_qs(urlsplit(asked.path).query).get("last", [""])[0]
        page = {"": ["1", "2"], "2": ["3"]}[last]
        link = {} if last else {"Link": '</v2/a/tags/list?n=2&last=2>; rel="next"'}
        return Reply(200, json.dumps({"tags": page}).encode(), link)

    server.answer = answer
    assert server.client().tags("a") == ["1", "2", "3"]


def test_pages_that_go_in_a_circle_end(server):
    server.answer = lambda asked: Reply(200, b'{"tags": ["1"]}', {"Link": f'<{asked.path}>; rel="next"'})
    assert server.client().tags("a") == ["1"]


def test_a_page_on_another_host_is_not_followed(server):
    server.in_turn(Reply(200, b'{"tags": []}', {"Link": '<http://elsewhere.invalid/x>; rel="next"'}))
    with pytest.raises(RegistryError, match="another host"):
        server.client().tags("a")


def test_a_repository_whose_tags_are_null(server):
    server.in_turn(Reply(200, b'{"tags": null}'))
    assert server.client().tags("a") == []


def test_something_that_is_no_registry(server):
    server.in_turn(Reply(200, b"<html>"))
    with pytest.raises(RegistryError, match="not JSON"):
        server.client().tags("a")


def test_a_manifest_is_put_byte_for_byte(server):
    server.in_turn(Reply(503), Reply(201, b""))
    server.client().put_manifest("a", "v1", Manifest(TYPE, BODY))
    assert [(asked.method, asked.path, asked.body) for asked in server.asked] == [
        ("PUT", "/v2/a/manifests/v1", BODY),
        ("PUT", "/v2/a/manifests/v1", BODY),
    ]
    assert server.asked[-1].headers["Content-Type"] == TYPE


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(400, "TAG_INVALID", "The image tag 'v1' already exists and cannot be overwritten because the "), 1),
        (problem(409, "CONFLICT"), 1),
        (problem(412, "IMMUTABLE"), 1),
        (problem(400, "MANIFEST_INVALID", "no"), 0),
        (problem(404, "NAME_UNKNOWN", "no such repository"), 0),
        (problem(413, "SIZE_INVALID", "quota"), 0),
    ],
)
def test_a_tag_that_the_registry_keeps(server, reply, error):
    server.in_turn(reply)
    with pytest.raises(TagConflictError if error else RegistryError):
        server.client().put_manifest("a", "v1", Manifest(TYPE, BODY))


def test_a_repository_that_does_not_exist(server):
    server.in_turn(problem(404, "NAME_UNKNOWN", "unknown"))
    with pytest.raises(RegistryError, match="has no repository to store a v1"):
        server.client().put_manifest("a", "v1", Manifest(TYPE, BODY))


def test_ecr_answers_name_region_and_login():
    host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    answer = Answer("GET", f"https://{host}/v2/", 403, {}, {}, b"")
    error: SlipwayError = refusal(host, "AWS", answer, "list tags")
    assert "aws ecr get-login-password --region eu-west-1 | docker login" in error.fix
    assert "eu-west-1 is the repository's region" in error.fix
    assert ecr_region("registry.example.com") == ""
    assert login_command("registry.example.com") == "docker login registry.example.com"


def test_a_host_that_does_not_exist():
    with pytest.raises(RegistryError, match=r"there is no host") as caught:
        Registry("123456789012.dkr.ecr.us-esat-1.amazonaws.invalid", sleep=lambda _: None).ping()
    assert "check the region us-esat-1" in caught.value.fix


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1:5000", True),
        ("127.9.9.9", True),
        ("[::1]:5000", True),
        ("localhost:5000", True),
        ("registry.example.com", False),
        ("10.0.0.1:5000", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_only_this_machine_is_spoken_to_without_tls(host, loopback):
    assert is_loopback(host) == loopback


def test_a_secret_is_in_no_text():
    shown = repr(Credentials("me", "secret", "token"))
    assert "me" in shown and "secret" not in shown and "token=" not in shown


@pytest.mark.parametrize("body", [b"[]", b"x", b"\xff"])
def test_a_manifest_that_is_no_object(body):
    with pytest.raises(RegistryError, match="not a JSON object"):
        assert Manifest(TYPE, body).is_image
