"""Variables in, values with their sources out."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_inference import environment, parameters
from sagemaker_inference.settings import Settings, SettingsError

ROOT = Path(__file__).parents[3]
MIB = 1024 * 1024

# value -> ({variable: text}, what becomes of it)
READ = {
    "base_dir": ({"SAGEMAKER_BASE_DIR": "/srv/"}, "/srv"),
    "program": ({"SAGEMAKER_PROGRAM": "serve_me.py"}, "serve_me"),
    "submit_directory": ({"SAGEMAKER_SUBMIT_DIRECTORY": "s3://b/k.tar.gz"}, "s3://b/k.tar.gz"),
    "bind_port": ({"SAGEMAKER_BIND_TO_PORT": "9001"}, 9001),
    "safe_port_range": ({"SAGEMAKER_SAFE_PORT_RANGE": "25000-25999"}, (25000, 25999)),
    "default_accept": ({"SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": "text/csv"}, "text/csv"),
    "workers": ({"SAGEMAKER_MODEL_SERVER_WORKERS": "3"}, 3),
    "timeout_seconds": ({"SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": "90"}, 90.0),
    "startup_timeout_seconds": ({"SAGEMAKER_STARTUP_TIMEOUT": "900"}, 900.0),
    "max_request_bytes": ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "20"}, 20 * MIB),
    "queue_size": ({"SLIPWAY_QUEUE_SIZE": "7"}, 7),
    "multi_model": ({"SAGEMAKER_MULTI_MODEL": "true"}, True),
    "handler": ({"SAGEMAKER_HANDLER": "pkg.handler:handle"}, "pkg.handler:handle"),
    "log_level": ({"SAGEMAKER_CONTAINER_LOG_LEVEL": "10"}, logging.DEBUG),
    "log_format": ({"SLIPWAY_LOG_FORMAT": "JSON"}, "json"),
    "metrics_path": ({"SLIPWAY_METRICS_PATH": "/metrics"}, "/metrics"),
    "metrics_log_seconds": ({"SLIPWAY_METRICS_LOG_SECONDS": "60"}, 60.0),
    "batch": ({"SAGEMAKER_BATCH": "True"}, True),
    "batch_strategy": ({"SAGEMAKER_BATCH_STRATEGY": "MultiRecord"}, "MULTI_RECORD"),
    "max_concurrent_transforms": ({"SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "4"}, 4),
    "max_payload_mb": ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "6"}, 6),
    "batch_size": ({"SLIPWAY_BATCH_SIZE": "8"}, 8),
    "max_batch_delay_ms": ({"SLIPWAY_MAX_BATCH_DELAY_MS": "5.5"}, 5.5),
    "drain_seconds": ({"SLIPWAY_DRAIN_SECONDS": "10"}, 10.0),
    "max_restarts": ({"SLIPWAY_MAX_RESTARTS": "0"}, 0),
    "preload": ({"SLIPWAY_PRELOAD": "yes"}, True),
    "sessions_enabled": ({"SAGEMAKER_ENABLE_STATEFUL_SESSIONS": "true"}, True),
    "sessions_expiration": ({"SAGEMAKER_SESSIONS_EXPIRATION": "60"}, 60),
    "sessions_path": ({"SAGEMAKER_SESSIONS_PATH": "/tmp/s"}, "/tmp/s"),
    "debug": ({"SLIPWAY_DEBUG": "1"}, True),
    "region": ({"SAGEMAKER_REGION": "eu-west-1", "AWS_REGION": "eu-west-3"}, "eu-west-3"),
    "ca_repository_arn": ({"CA_REPOSITORY_ARN": "arn:aws:codeartifact:r:1:repository/d/r"}, None),
}


@pytest.mark.parametrize("name", READ)
def test_each_variable_is_read_and_named_as_the_source(name):
    variables, value = READ[name]
    settings = Settings.read(variables)
    assert getattr(settings, name) == (value if value is not None else next(iter(variables.values())))
    assert settings.sources[name] in variables
    assert getattr(Settings.read({}), name) != getattr(settings, name)
    assert Settings.read({}).sources[name] == "default"


def test_no_value_is_forgotten_here():
    fields = {item.name for item in dataclasses.fields(Settings)}
    assert fields - {"sources", "notes", "model_dir"} == set(READ)


DEFAULTS = {
    "base_dir": "/opt/ml",
    "model_dir": "/opt/ml/model",
    "program": "inference",
    "bind_port": 8080,
    "default_accept": "application/json",
    "timeout_seconds": 60.0,
    "max_request_bytes": 1024 * MIB,
    "queue_size": 100,
    "multi_model": False,
    "log_level": logging.INFO,
    "log_format": "text",
    "metrics_log_seconds": 0.0,
    "batch": False,
    "batch_size": 1,
    "max_batch_delay_ms": 100.0,
    "drain_seconds": 25.0,
    "max_restarts": 5,
    "preload": False,
    "sessions_enabled": False,
    "sessions_expiration": 1200,
    "sessions_path": "/dev/shm",
    "debug": False,
}


def test_defaults():
    settings = Settings.read({})
    for item in dataclasses.fields(Settings):
        if item.name not in ("sources", "notes"):
            assert getattr(settings, item.name) == DEFAULTS.get(item.name), item.name
    assert settings.code_dir == "/opt/ml/model/code"
    assert settings.notes == ()


def test_several_models_have_a_folder_of_their_own():
    assert Settings.read({"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_BASE_DIR": "/x"}).model_dir == "/x/models"


def test_no_limit_of_size():
    assert Settings.read({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "0"}).max_request_bytes is None


@pytest.mark.parametrize("text", ["20", "INFO", "info"])
def test_log_level_by_number_or_name(text):
    assert Settings.read({"SAGEMAKER_CONTAINER_LOG_LEVEL": text}).log_level == logging.INFO


def test_empty_is_unset():
    assert Settings.read({"SAGEMAKER_PROGRAM": "", "SAGEMAKER_MODEL_SERVER_WORKERS": " "}) == Settings.read({})


# variable -> (wrong texts, what would be right)
WRONG = {
    "SAGEMAKER_BIND_TO_PORT": (["0", "65536", "x", "80 80", "1_0", "٣"], "a whole number from 1 to 65535"),
    "SAGEMAKER_SAFE_PORT_RANGE": (
        ["25000", "2-1", "0-5", "1-70000", "a-b"],
        "LOW-HIGH with ports from 1 to 65535, for example 25000-25999",
    ),
    "SAGEMAKER_MODEL_SERVER_WORKERS": (["0", "-1", "1.5", "auto", "1025"], "a whole number from 1 to 1024"),
    "SAGEMAKER_MODEL_SERVER_TIMEOUT": (["0", "-3", "nan", "inf", "1m"], "a number of seconds from 0.001 to 86400"),
    "SAGEMAKER_MULTI_MODEL": (["maybe", "2"], "true or false"),
    "SAGEMAKER_BATCH_STRATEGY": (["BOTH"], "MULTI_RECORD or SINGLE_RECORD"),
    "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": (
        ["json", "a/b, c/d", "*/*"],
        "one media type, for example application/json",
    ),
    "SAGEMAKER_CONTAINER_LOG_LEVEL": (["loud", "-1", "101"], "a number such as 20, or a name such as INFO"),
    "SAGEMAKER_PROGRAM": (
        ["../x.py", "/x.py", ".py", "a/../b.py"],
        "the name of a file inside the code folder, for example inference.py",
    ),
    "SAGEMAKER_BASE_DIR": (["opt"], "an absolute path"),
    "SLIPWAY_DRAIN_SECONDS": (["29"], "a number of seconds from 0 to 28"),
    "SLIPWAY_METRICS_LOG_SECONDS": (["-1", "often"], "a number of seconds from 0 to 86400"),
    "SLIPWAY_METRICS_PATH": (
        [
            "metrics",
            "/a b",
            "/",
            "/ping",
            "/models/x",
            "/invocations",
            "/execution-parameters",
            "/invocations-bidirectional-stream",
        ],
        "a path such as /metrics, which is not one of the platform's",
    ),
    "MMS_MAX_REQUEST_SIZE": (["6.5e6"], "a whole number from 0 to 1125899906842624"),
    "SAGEMAKER_MAX_PAYLOAD_IN_MB": (["-1", "1048577", "6MB"], "a whole number from 0 to 1048576"),
    "SLIPWAY_MAX_RESTARTS": (["1001"], "a whole number from 0 to 1000"),
    "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": (["1025", "-1"], "a whole number from 0 to 1024"),
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, (texts, _) in WRONG.items() for text in texts])
def test_wrong_values_name_variable_value_and_fix(name, text):
    with pytest.raises(SettingsError) as caught:
        Settings.read({name: text})
    assert str(caught.value) == f"{name}={text}: use {WRONG[name][1]}."


@pytest.mark.parametrize(
    ("texts", "value"), [(["1", "true", "TRUE", "yes", "on"], True), (["0", "false", "False", "no", "off"], False)]
)
def test_words_for_yes_and_no(texts, value):
    assert [Settings.read({"SAGEMAKER_MULTI_MODEL": text}).multi_model for text in texts] == [value] * 5


def test_all_wrong_values_at_once():
    with pytest.raises(SettingsError) as caught:
        Settings.read({name: texts[0] for name, (texts, _) in WRONG.items()})
    assert {line.partition("=")[0] for line in str(caught.value).splitlines()} == set(WRONG)


@given(st.dictionaries(st.sampled_from(sorted({name for given, _ in READ.values() for name in given})), st.text()))
def test_any_environment_is_read_or_refused_clearly(variables):
    try:
        settings = Settings.read(variables)
    except SettingsError as error:
        for line in str(error).split(".\n"):
            assert line.partition("=")[0] in variables
    else:
        assert len(settings.describe()) == len(READ) + 1


# (variables, value, result, part of the note)
ALIASES = [
    ({"MMS_DEFAULT_RESPONSE_TIMEOUT": "5"}, "timeout_seconds", 5.0, "seconds; Multi Model Server took minutes"),
    ({"TS_DEFAULT_RESPONSE_TIMEOUT": "5"}, "timeout_seconds", 5.0, None),
    ({"SAGEMAKER_TS_RESPONSE_TIMEOUT": "5"}, "timeout_seconds", 5.0, None),
    ({"SAGEMAKER_MODEL_SERVER_TIMEOUT": "5"}, "timeout_seconds", 5.0, "seconds; Multi Model Server took minutes"),
    ({"MMS_DEFAULT_WORKERS_PER_MODEL": "2"}, "workers", 2, None),
    ({"TS_DEFAULT_WORKERS_PER_MODEL": "2"}, "workers", 2, None),
    ({"SAGEMAKER_NUM_MODEL_WORKERS": "2"}, "workers", 2, None),
    ({"SAGEMAKER_TS_MAX_WORKERS": "4", "SAGEMAKER_TS_MIN_WORKERS": "4"}, "workers", 4, None),
    ({"MMS_JOB_QUEUE_SIZE": "9"}, "queue_size", 9, None),
    ({"TS_JOB_QUEUE_SIZE": "9"}, "queue_size", 9, None),
    ({"MMS_MAX_REQUEST_SIZE": "10"}, "max_request_bytes", 10, "in bytes"),
    ({"TS_MAX_REQUEST_SIZE": "10"}, "max_request_bytes", 10, "in bytes"),
    ({"SAGEMAKER_TS_BATCH_SIZE": "3"}, "batch_size", 3, None),
    ({"SAGEMAKER_TS_MAX_BATCH_DELAY": "20"}, "max_batch_delay_ms", 20.0, None),
]


@pytest.mark.parametrize(("variables", "name", "value", "note"), ALIASES, ids=lambda item: str(item)[:40])
def test_variables_of_other_servers(variables, name, value, note):
    settings = Settings.read(variables)
    assert getattr(settings, name) == value
    assert settings.sources[name] in variables
    if note:
        assert note in " ".join(settings.notes)
    else:
        assert settings.notes == ()


def test_of_two_variables_the_nearer_wins_and_the_other_is_named():
    settings = Settings.read({"SAGEMAKER_MODEL_SERVER_WORKERS": "2", "MMS_DEFAULT_WORKERS_PER_MODEL": "8"})
    assert settings.workers == 2
    assert settings.notes == ("MMS_DEFAULT_WORKERS_PER_MODEL=8 is not used: SAGEMAKER_MODEL_SERVER_WORKERS says 2.",)


@pytest.mark.parametrize(
    "name",
    ["MMS_NETTY_CLIENT_THREADS", "TS_INFERENCE_ADDRESS", "SAGEMAKER_MODEL_SERVER_VMARGS", "TS_MAX_RESPONSE_SIZE"],
)
def test_what_has_no_meaning_here_is_said(name):
    (note,) = Settings.read({name: "1"}).notes
    assert note.startswith(f"{name} is not used: ")


def test_misspelt_variable_is_said():
    assert Settings.read({"SAGEMAKER_MODEL_SERVER_WORKER": "2"}).notes == (
        "SAGEMAKER_MODEL_SERVER_WORKER is not read here; SAGEMAKER_MODEL_SERVER_WORKERS is.",
    )
    assert Settings.read({"SAGEMAKER_TFS_VERSION": "2", "PATH": "x"}).notes == ()


def test_more_than_an_hour_is_said():
    (note,) = Settings.read({"SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": "7200"}).notes
    assert note.startswith("SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS=7200 is in seconds")
    assert Settings.read({"SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": "3600"}).notes == ()


def test_batch_jobs_have_an_hour_unless_told_otherwise():
    assert Settings.read({"SAGEMAKER_BATCH": "true"}).timeout_seconds == 3600
    assert Settings.read({"SAGEMAKER_BATCH": "true", "SAGEMAKER_MODEL_SERVER_TIMEOUT": "30"}).timeout_seconds == 30


def test_description_has_every_value_with_its_source_and_no_secret():
    settings = Settings.read(
        {"SAGEMAKER_BIND_TO_PORT": "9001", "SAGEMAKER_SUBMIT_DIRECTORY": "https://user:hunter22@example.org/code"}
    )
    lines = settings.describe()
    assert "bind_port = 9001 (SAGEMAKER_BIND_TO_PORT)" in lines
    assert "workers = none (default)" in lines
    assert "model_dir = /srv/model (SAGEMAKER_BASE_DIR)" in Settings.read({"SAGEMAKER_BASE_DIR": "/srv"}).describe()
    assert "log_level = INFO (default)" in lines
    assert {line.partition(" =")[0] for line in lines} == set(READ) | {"model_dir"}
    assert "hunter22" not in "".join(lines)


def test_no_secret_in_a_fault():
    with pytest.raises(SettingsError) as caught:
        Settings.read({"SAGEMAKER_BASE_DIR": "https://user:hunter22@example.org/code"})
    assert "hunter22" not in str(caught.value)


def test_environment_of_user_code(monkeypatch, base):
    for name, value in {
        parameters.USER_PROGRAM_ENV: "serve.py",
        parameters.MODEL_SERVER_WORKERS_ENV: "2",
        parameters.MODEL_SERVER_TIMEOUT_ENV: "30",
        parameters.BIND_TO_PORT_ENV: "9000",
        parameters.SAFE_PORT_RANGE_ENV: "9000-9010",
        parameters.MAX_REQUEST_SIZE: "2",
        parameters.STARTUP_TIMEOUT_ENV: "5",
        parameters.DEFAULT_INVOCATIONS_ACCEPT_ENV: "text/csv",
    }.items():
        monkeypatch.setenv(name, value)
    made = environment.Environment()
    assert (made.module_name, made.model_server_workers, made.model_server_timeout) == ("serve", 2, 30)
    assert made.model_server_timeout_seconds is None
    assert (made.inference_http_port, made.management_http_port) == ("9000", "9000")
    assert (made.safe_port_range, made.max_request_size) == ("9000-9010", 2 * MIB)
    assert (made.startup_timeout, made.default_accept, made.vmargs) == (5, "text/csv", "")
    monkeypatch.setenv(parameters.MODEL_SERVER_TIMEOUT_SECONDS_ENV, "45")
    assert environment.Environment().model_server_timeout_seconds == 45
    assert (environment.base_dir, environment.model_dir) == (str(base.path), str(base.model))
    assert environment.code_dir == str(base.model / "code")


def test_environment_by_default(base):
    made = environment.Environment()
    assert (made.module_name, made.model_server_timeout, made.model_server_workers) == ("inference", 60, None)
    assert (made.startup_timeout, made.max_request_size, made.safe_port_range) == (600, None, None)


def test_every_variable_is_documented():
    from sagemaker_inference.settings import _FIELDS

    _, _, table = (ROOT / "docs" / "contract" / "inference.md").read_text().partition("## Variables")
    for item in _FIELDS.values():
        assert ", ".join(f"`{variable.name}`" for variable in item.variables) in table
