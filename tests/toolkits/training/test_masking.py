"""What counts as a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_training import masking


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(masking, "_values", [])


@pytest.mark.parametrize("word", ["SECRET", "PASSWORD", "KEY", "TOKEN", "PRIVATE", "CREDS", "CREDENTIALS"])
def test_values_of_secret_names(word):
    for name in (word, f"my_{word.lower()}", f"{word}_2"):
        assert masking.mapping({"a": [{name: "value"}]}) == {"a": [{name: masking.MASK}]}


def test_other_values_stay():
    value = {"epochs": 10, "name": "resnet", "none": None, "list": [1, "a"], "key_of_nothing": None, "key_empty": ""}
    assert masking.mapping(value) == value


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "hf_abcdefghijklmnopqrst", "ghp_0123456789abcdefghij", "sk-abcdefghijklmnop1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "IQoJ" + "a1B2" * 30,
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)  # fmt: skip
def test_secrets_by_shape(secret):
    assert masking.text(f"a {secret} b") == f"a {masking.MASK} b"


@pytest.mark.parametrize(
    "line, masked",
    [
        ("https://aws:abc@host/simple/", "https://******@host/simple/"),
        ("git+https://tok@github.com/a/b", "git+https://******@github.com/a/b"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer ******"),
        ("api_key=abcdef next", "api_key=****** next"),
        ('{"db_password": "abcdef"}', '{"db_password": "******"}'),
    ],
)
def test_secrets_beside_their_name(line, masked):
    assert masking.text(line) == masked


@pytest.mark.parametrize(
    "line",
    [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709", "loss=0.25 keyword=1", "s3://bucket/key/a.tar.gz",
        "https://host/path?a=b", "user@host", "epoch 10 of 20", "/opt/ml/input/data/train",
    ],
)  # fmt: skip
def test_ordinary_text_stays(line):
    assert masking.text(line) == line


def test_remembered_values_are_found_anywhere():
    masking.learn(
        {"DB_PASSWORD": "correct horse", "KEY_FILE": "/etc/key.pem", "SHORT_KEY": "abc", "other": "visible text"}
    )
    assert masking.text("x correct horse /etc/key.pem abc visible text") == "x ****** /etc/key.pem abc visible text"


def test_options_with_secret_names():
    argv = ["--lr", "1", "--api-key", "s3cret", "--token=abc", "--password", "--odd", "-k", "v"]
    assert masking.arguments(argv) == [
        "--lr",
        "1",
        "--api-key",
        "******",
        "--token=******",
        "--password",
        "******",
        "-k",
        "v",
    ]


@given(st.text(max_size=300))
def test_masking_is_stable(text):
    once = masking.text(text)
    assert masking.text(once) == once


def test_statement_of_the_job_holds_no_secret(job):
    job.env["AWS_SECRET_ACCESS_KEY"] = "topsecretvalue"
    job.script(
        "print('ran')",
        wandb_api_key="0123456789abcdef",
        url='"https://me:pass@host/x"',
        nested='{"token": "inner-secret"}',
    )
    done = job.run()
    assert done.code == 0
    for secret in ("topsecretvalue", "0123456789abcdef", "me:pass", "inner-secret"):
        assert secret not in done.err
