"""Accelerate's configuration file: every key read, every fault named, written so that it reads the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.clients import accelerate
from slipway.clients.accelerate import Config
from slipway.errors import InputError

from .conftest import CONFIG

LEAST = (
    "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: ml.m5.xlarge\niam_role_name: X\n"
)


def faults(text: str, name: str = "config.yaml") -> list[str]:
    return [str(fault) for fault in accelerate.parse(Path(name), text).faults]


def test_every_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    config = accelerate.load(path).config
    assert {key: getattr(config, key) for key in CONFIG} == CONFIG
    assert config.given == set(CONFIG)


@pytest.mark.parametrize("line", ["", "image_uri:", "image_uri: null", "image_uri: ''", 'image_uri: ""'])
def test_absent_null_and_empty_image_uri_all_mean_the_default(line: str) -> None:
    file = accelerate.parse(Path("config.yaml"), LEAST + line)
    assert not file.faults
    assert file.config.image_uri is None


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            "imgae_uri: x",
            "5: unknown key 'imgae_uri': accelerate stops at it (fix: did you mean image_uri? (accelerate 0.11",
        ),
        ("num_processes: 2", "5: unknown key 'num_processes'"),
        ("fsdp_config: {}", "configurations for one's own cluster"),
        ("num_machines: two", "5: num_machines: 'two' is not a whole number"),
        ("num_machines: true", "num_machines: True is not a whole number"),
        ("num_machines: 0", "give 1 or more"),
        ("mixed_precision: no", "write 'no' in quotes"),
        ("mixed_precision: FP16", "write 'fp16'"),
        ("mixed_precision: fp61", "did you mean fp16"),
        ("pytorch_version: 2.1", "2.1 is a number, not text (fix: put it in quotes)"),
        ("use_cpu: maybe", "'maybe' is not true or false"),
        ("additional_args: [1]", "[1] is not a mapping"),
        ("additional_args: {max_run: .nan}", "it holds what no request can carry"),
        ("additional_args: {max_run: 2020-01-01}", "it holds what no request can carry"),
        ("region: ' us-east-1'", "blanks around ' us-east-1'"),
        ("dynamo_backend: NO", "put it in quotes"),
        ("fp16: 3", "fp16: 3 is not true or false"),
    ],
)
def test_a_fault_names_line_value_and_fix(line: str, what: str) -> None:
    (told,) = faults(LEAST + line)
    assert told.startswith("config.yaml:5: ")
    assert what in told
    assert "(fix: " in told


def test_all_faults_are_told_at_once() -> None:
    told = faults("distributed_type: NO\nec2_instance_type: 3\nwhat: ever\n")
    assert len(told) == 5  # two missing keys, and one fault a line
    assert any("compute_environment is missing" in each for each in told)
    assert any("iam_role_name is missing" in each for each in told)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [", "not valid YAML"),
        ("- a\n", "has faults"),
        ("a: 1\na: 2\n", "has faults"),
    ],
)
def test_what_is_no_yaml_is_one_error(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        accelerate.parse(Path("config.yaml"), text)


def test_what_is_no_json_is_one_error() -> None:
    with pytest.raises(InputError) as caught:
        accelerate.parse(Path("config.json"), '{\n"a": 1,,\n}')
    assert caught.value.faults[0].line == 2


def test_json_keeps_the_lines_of_its_faults() -> None:
    (told,) = faults(
        '{\n\t"compute_environment": "AMAZON_SAGEMAKER", "distributed_type": "NO",\n'
        '\t"ec2_instance_type": "local", "iam_role_name": "X",\n\t"num_machines": "2"}',
        "config.json",
    )
    assert told.startswith("config.json:4: num_machines")


def test_a_file_that_is_missing() -> None:
    with pytest.raises(InputError, match="does not exist"):
        accelerate.load(Path("nowhere.yaml"))


@pytest.mark.parametrize(
    ("lines", "key", "value"),
    [
        ("fp16: true", "mixed_precision", "fp16"),
        ("fp16: false", "mixed_precision", "no"),
        ("fp16: true\nmixed_precision: bf16", "mixed_precision", "bf16"),
        ("dynamo_backend: 'NO'", "dynamo_config", {}),
        ("dynamo_backend: INDUCTOR", "dynamo_config", {"dynamo_backend": "INDUCTOR"}),
    ],
)
def test_keys_of_older_writers_are_converted(lines: str, key: str, value: Any) -> None:
    file = accelerate.parse(Path("config.yaml"), LEAST + lines)
    assert not file.faults
    assert getattr(file.config, key) == value


PLAIN = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=12)
VALUES = {
    "image_uri": PLAIN,
    "profile": PLAIN,
    "region": PLAIN,
    "pytorch_version": PLAIN,
    "sagemaker_inputs_file": PLAIN,
    "num_machines": st.integers(1, 99),
    "distributed_type": st.sampled_from(accelerate.DISTRIBUTED),
    "mixed_precision": st.sampled_from(accelerate.PRECISIONS),
    "debug": st.booleans(),
    "additional_args": st.dictionaries(
        PLAIN, st.one_of(PLAIN, st.integers(), st.booleans(), st.lists(PLAIN)), min_size=1
    ),
}


@given(st.fixed_dictionaries({}, optional=VALUES), st.sampled_from([".yaml", ".json"]))
def test_what_is_written_reads_the_same(values: dict[str, Any], suffix: str) -> None:
    made = Config(ec2_instance_type="ml.m5.xlarge", iam_role_name="X", given=frozenset(values), **values)
    file = accelerate.parse(Path("config" + suffix), accelerate.text(made, suffix))
    assert not file.faults
    same = {name: getattr(file.config, name) for name in values}
    assert same == values


def test_the_image_is_always_written() -> None:
    assert "image_uri: null\n" in accelerate.text(Config(), ".yaml")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num_machines", "2", 2),
        ("debug", "yes", True),
        ("debug", "no", False),
        ("additional_args", '{"max_run": 60}', {"max_run": 60}),
        ("image_uri", " Host/Repo:Tag ", "Host/Repo:Tag"),
        ("image_uri", "", None),
        ("mixed_precision", "no", "no"),
    ],
)
def test_what_a_person_writes(name: str, text: str, value: Any) -> None:
    assert accelerate.from_text(name, text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("num_machines", "0"), ("num_machines", "two"), ("debug", "perhaps"), ("additional_args", "{max_run}")],
)
def test_what_a_person_writes_wrong(name: str, text: str) -> None:
    with pytest.raises(InputError, match=name):
        accelerate.from_text(name, text)


def test_who_else_can_read_it() -> None:
    assert accelerate.read_by(accelerate.parse(Path("c.yaml"), LEAST).config) == ("0.5", "0.33")
    later = LEAST.replace("'NO'", "DATA_PARALLEL") + "enable_cpu_affinity: false\ngpu_ids: all\n"
    assert accelerate.read_by(accelerate.parse(Path("c.yaml"), later).config) == ("0.31", "1.9")
