"""Credentials for registries: from named variables, from what `docker login` left, and fresh from ECR."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slipway import settings
from slipway.ecr import Ecr
from slipway.errors import AuthError, RegistryError
from slipway.registry import Credentials
from slipway.release.config import EcrRegistry, OciRegistry
from slipway.release.destinations import EcrDestination, OciDestination, engine_login, of

HOST = "registry.example.com"


def given(tmp_path: Path, **environment: str) -> settings.Settings:
    return settings.read(project=tmp_path, environment=environment)


def credentials(registry: OciRegistry, found: settings.Settings) -> Credentials | None:
    (destination,) = of(registry, found)
    assert isinstance(destination, OciDestination)
    return destination.credentials()


def login(tmp_path: Path, **config: object) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


def test_credentials_from_named_variables(tmp_path):
    registry = OciRegistry("team", HOST, "TEAM_USER", "TEAM_PASSWORD")
    found = credentials(registry, given(tmp_path, TEAM_USER="me", TEAM_PASSWORD="secret"))
    assert found == Credentials("me", "secret")


def test_every_variable_that_is_not_set_is_named(tmp_path):
    registry = OciRegistry("team", HOST, "TEAM_USER", "TEAM_PASSWORD")
    with pytest.raises(AuthError) as caught:
        credentials(registry, given(tmp_path, TEAM_PASSWORD=""))
    assert [fault.what for fault in caught.value.faults] == [
        "the variable TEAM_USER is not set",
        "the variable TEAM_PASSWORD is not set",
    ]


def test_a_login_in_the_file(tmp_path):
    pair = base64.b64encode(b"me:secret").decode()
    login(tmp_path, auths={HOST: {"auth": pair}, "other.example.com": {"auth": "eDp5"}})
    registry = OciRegistry("team", HOST)
    assert credentials(registry, given(tmp_path, DOCKER_CONFIG=str(tmp_path))) == Credentials("me", "secret")


def test_no_login(tmp_path):
    assert engine_login(HOST, login(tmp_path, auths={})) is None
    assert engine_login(HOST, tmp_path / "missing.json") is None


def test_a_login_in_a_helper(tmp_path, monkeypatch):
    helper = tmp_path / "docker-credential-testhelper"
    helper.write_text('#!/bin/sh\nread host\necho \'{"ServerURL": "x", "Username": "me", "Secret": "secret"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = login(tmp_path, credHelpers={HOST: "testhelper"})
    assert engine_login(HOST, path) == Credentials("me", "secret")
    helper.write_text('#!/bin/sh\nread host\necho \'{"ServerURL": "x", "Username": "<token>", "Secret": "idt"}\'\n')
    assert engine_login(HOST, path) == Credentials(identity_token="idt")


@pytest.mark.filterwarnings("ignore:docker-credential-no-such-helper")
def test_a_helper_that_is_missing(tmp_path):
    with pytest.raises(AuthError, match="cannot be read") as caught:
        engine_login(HOST, login(tmp_path, credHelpers={HOST: "no-such-helper"}))
    assert caught.value.fix == f"docker login {HOST}"


def test_an_ecr_registry_is_one_destination_a_region(tmp_path):
    registry = EcrRegistry("p", "123456789012", ("us-east-1", "cn-north-1"), role="arn:aws:iam::1:role/x")
    found = of(registry, given(tmp_path, AWS_ENDPOINT_URL_ECR="http://ecr", AWS_ENDPOINT_URL="http://all"))
    assert [(one.host, one.region) for one in found] == [
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com", "us-east-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ]
    first = found[0]
    assert isinstance(first, EcrDestination)
    assert first.ecr == Ecr("123456789012", "us-east-1", "arn:aws:iam::1:role/x", "http://ecr", "http://all")


@pytest.fixture
def refusing(monkeypatch) -> Iterator[tuple[dict[str, object], str]]:
    """An AWS endpoint that refuses every call with the error that the test puts into the dictionary."""
    state: dict[str, object] = {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps({"__type": state["code"], "message": state["message"]}).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("AccessDeniedException", AuthError),
        ("UnrecognizedClientException", AuthError),
        ("ExpiredTokenException", AuthError),
        ("InvalidSignatureException", AuthError),
        ("InvalidParameterException", RegistryError),
        ("ServerException", RegistryError),
    ],
)
def test_what_ecr_refuses(refusing, code, error):
    state, endpoint = refusing
    state.update(code=code, message="because")
    ecr = Ecr("123456789012", "us-east-1", endpoint=endpoint)
    for ask in (ecr.token, lambda: ecr.repository("ab"), lambda: ecr.create_repository("ab", ["*"])):
        with pytest.raises(error, match=rf"account 123456789012 in us-east-1 .*because \({code}\)"):
            ask()


def test_a_missing_repository_and_one_that_someone_else_just_made(refusing):
    state, endpoint = refusing
    ecr = Ecr("123456789012", "us-east-1", endpoint=endpoint)
    state.update(code="RepositoryNotFoundException", message="no")
    assert ecr.repository("ab") is None
    state.update(code="RepositoryAlreadyExistsException", message="yes")
    ecr.create_repository("ab", ["*"])


def test_no_aws_credentials(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(AuthError, match="no AWS credentials") as caught:
        Ecr("123456789012", "us-east-1", endpoint="http://127.0.0.1:9").token()
    assert "aws sso login" in caught.value.fix
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(AuthError, match="nobody"):
        Ecr("123456789012", "us-east-1", endpoint="http://127.0.0.1:9").token()


def test_a_region_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    ecr = Ecr("123456789012", "us-esat-1", endpoint="http://127.0.0.1:9")
    with pytest.raises(RegistryError, match="does not answer") as caught:
        ecr.token()
    assert "us-esat-1 a region? did you mean" in caught.value.fix and "us-east-1" in caught.value.fix


@pytest.mark.parametrize(("value", "mounts"), [("ENABLED", True), ("DISABLED", False), (None, None)])
def test_whether_an_account_mounts_layers(monkeypatch, value, mounts):
    from botocore.stub import Stubber

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    ecr = Ecr("123456789012", "us-east-1")
    with Stubber(ecr._client) as stub:
        if value is None:
            stub.add_client_error("get_account_setting", "AccessDeniedException")
        else:
            answer = {"name": "BLOB_MOUNTING", "value": value}
            stub.add_response("get_account_setting", answer, {"name": "BLOB_MOUNTING"})
        assert ecr.mounts_blobs is mounts


def test_a_tag_is_taken_away_from_an_image(monkeypatch):
    from botocore.stub import Stubber

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    ecr = Ecr("123456789012", "us-east-1")
    with Stubber(ecr._client) as stub:
        asked = {"registryId": "123456789012", "repositoryName": "ab", "imageIds": [{"imageTag": "t"}]}
        stub.add_response("batch_delete_image", {}, asked)
        ecr.remove_tag("ab", "t")
