"""Config files in, SM_* variables out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_training import configs, environment, errors, mapping

ENVIRON = """
import json, os
print(json.dumps(dict(os.environ)))
"""

CLUSTER = {
    "current_host": "algo-2",
    "current_instance_type": "ml.g5.xlarge",
    "current_group_name": "gpu",
    "hosts": ["algo-1", "algo-10", "algo-2"],
    "network_interface_name": "ethwe",
    "instance_groups": [
        {"instance_group_name": "gpu", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1", "algo-2"]},
        {"instance_group_name": "cpu", "instance_type": "ml.m5.xlarge", "hosts": ["algo-10"]},
    ],
    "topology": [{"hostName": "algo-1", "capacityUnitId": "u1"}],
}


@pytest.fixture
def variables(job):
    """The environment of a script in a job with everything."""
    job.resources(CLUSTER)
    job.channels({"train": {"TrainingInputMode": "File"}, "my-chan.v1": {"TrainingInputMode": "Pipe"}})
    job.env.update(SM_STUDIO_LOCAL_MODE="True", TRAINING_JOB_NAME="job-1", AWS_REGION="eu-west-1")
    job.script(
        ENVIRON,
        epochs="10",
        lr="0.001",
        name='"resnet"',
        raw="plain text",
        **{
            "batch-size": "64",
            "sagemaker_job_name": '"named"',
            "sagemaker_torch_distributed_enabled": "true",
            "_tuning_objective_metric": '"loss"',
        },
    )
    done = job.run()
    assert done.code == 0, done.err
    return json.loads(done.out), job


def test_every_variable_of_the_contract(variables):
    found, job = variables
    base = str(job.base)
    expected = {
        "SM_MODEL_DIR": f"{base}/model",
        "SM_INPUT_DIR": f"{base}/input",
        "SM_INPUT_CONFIG_DIR": f"{base}/input/config",
        "SM_OUTPUT_DIR": f"{base}/output",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{base}/output/intermediate",
        "SM_CHANNELS": '["my-chan.v1","train"]',
        "SM_CHANNEL_TRAIN": f"{base}/input/data/train",
        "SM_CHANNEL_MY-CHAN.V1": f"{base}/input/data/my-chan.v1",
        "SM_CHANNEL_MY_CHAN_V1": f"{base}/input/data/my-chan.v1",
        "SM_HPS": '{"batch-size":64,"epochs":10,"lr":0.001,"name":"resnet","raw":"plain text"}',
        "SM_HP_BATCH-SIZE": "64",
        "SM_HP_BATCH_SIZE": "64",
        "SM_HP_NAME": "resnet",
        "SM_USER_ARGS": '["--batch-size","64","--epochs","10","--lr","0.001","--name","resnet","--raw","plain text"]',
        "SM_USER_ENTRY_POINT": "train.py",
        "SM_MODULE_NAME": "train",
        "SM_MODULE_DIR": f"{base}/code",
        "SM_FRAMEWORK_MODULE": "",
        "SM_FRAMEWORK_PARAMS": '{"sagemaker_torch_distributed_enabled":true}',
        "SM_LOG_LEVEL": "20",
        "SM_CURRENT_HOST": "algo-2",
        "SM_HOSTS": '["algo-1","algo-10","algo-2"]',
        "SM_NETWORK_INTERFACE_NAME": "ethwe",
        "SM_CURRENT_INSTANCE_TYPE": "ml.g5.xlarge",
        "SM_CURRENT_INSTANCE_GROUP": "gpu",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-1","algo-2"]',
        "SM_INSTANCE_GROUPS": '["gpu","cpu"]',
        "SM_DISTRIBUTION_INSTANCE_GROUPS": '["gpu"]',
        "SM_IS_HETERO": "true",
        "SM_NUM_GPUS": "0",
        "SM_NUM_NEURONS": "0",
        "SM_TOPOLOGY": '[{"capacityUnitId":"u1","hostName":"algo-1"}]',
        "CURRENT_HOST": "algo-2",
        "SAGEMAKER_JOB_NAME": "named",
        "SAGEMAKER_REGION": "eu-west-1",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert int(found["SM_NUM_CPUS"]) >= 1
    assert json.loads(found["SM_RESOURCE_CONFIG"]) == CLUSTER
    assert json.loads(found["SM_INPUT_DATA_CONFIG"])["train"] == {"TrainingInputMode": "File"}
    assert list(json.loads(found["SM_INSTANCE_GROUPS_DICT"])) == ["cpu", "gpu"]
    promised = {name for name in found if name.startswith("SM_")} - set(expected)
    assert promised == {
        "SM_NUM_CPUS", "SM_RESOURCE_CONFIG", "SM_INPUT_DATA_CONFIG", "SM_INSTANCE_GROUPS_DICT", "SM_TRAINING_ENV",
        "SM_HP_EPOCHS", "SM_HP_LR", "SM_HP_RAW", "SM_STUDIO_LOCAL_MODE",
    }  # fmt: skip


def test_training_env_holds_every_property(variables):
    found, _ = variables
    properties = json.loads(found["SM_TRAINING_ENV"])
    assert sorted(properties) == PROPERTIES
    assert properties["job_name"] == "job-1"
    assert properties["master_hostname"] == "algo-1"
    assert properties["is_master"] is False


PROPERTIES = [
    "additional_framework_parameters",
    "channel_input_dirs",
    "current_host",
    "current_instance_group",
    "current_instance_group_hosts",
    "current_instance_type",
    "distribution_hosts",
    "distribution_instance_groups",
    "framework_module",
    "hosts",
    "hyperparameters",
    "input_config_dir",
    "input_data_config",
    "input_dir",
    "instance_groups",
    "instance_groups_dict",
    "is_hetero",
    "is_master",
    "is_modelparallel_enabled",
    "is_smddpmprun_installed",
    "is_smddprun_installed",
    "job_name",
    "log_level",
    "master_hostname",
    "model_dir",
    "module_dir",
    "module_name",
    "network_interface_name",
    "num_cpus",
    "num_gpus",
    "num_neurons",
    "output_data_dir",
    "output_dir",
    "output_intermediate_dir",
    "resource_config",
    "topology",
    "user_entry_point",
]


def test_environment_is_a_mapping_of_its_properties(tree):
    env = environment.Environment()
    assert sorted(env) == PROPERTIES
    assert env["current_host"] == env.current_host == "algo-1"
    with pytest.raises(KeyError):
        env["to_cmd_args"]
    with pytest.raises(KeyError):
        env["nonsense"]


def test_defaults_of_a_small_resource_config(tree):
    env = environment.Environment(resource_config={"current_host": "h", "hosts": ["h"]})
    assert (env.network_interface_name, env.current_instance_type) == ("eth0", "local")
    assert (env.current_instance_group, env.instance_groups, env.current_instance_group_hosts) == (
        "homogeneousCluster", [], [],
    )  # fmt: skip
    assert env.topology is None
    assert "SM_TOPOLOGY" not in env.to_env_vars()
    assert env.to_env_vars()["SM_INSTANCE_GROUPS_DICT"] == "{}"


def test_missing_resource_config_is_named(job):
    (job.base / "input/config/resourceconfig.json").unlink()
    job.script("print(1)")
    done = job.run()
    assert done.code == 1
    assert str(job.base / "input/config/resourceconfig.json") in done.failure
    assert "SLIPWAY_DEFAULT_RESOURCE_CONFIG" in done.failure


def test_missing_resource_config_by_setting(job):
    (job.base / "input/config/resourceconfig.json").unlink()
    job.env["SLIPWAY_DEFAULT_RESOURCE_CONFIG"] = "true"
    job.script("import os; print(os.environ['SM_HOSTS'])")
    assert job.run().out == '["algo-1"]\n'


def test_other_config_files_may_be_missing(job):
    (job.base / "input/config/inputdataconfig.json").unlink()
    (job.base / "input/config/hyperparameters.json").unlink()
    job.code("train.py", "import os; print(os.environ['SM_CHANNELS'], os.environ['SM_HPS'])")
    job.env["SAGEMAKER_PROGRAM"] = "train.py"
    assert job.run().out == "[] {}\n"


@pytest.mark.parametrize(
    "content, complaint",
    [
        ("{", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ({"hosts": [], "current_host": ""}, "hosts must be a list of host names"),
        ({"hosts": ["a"], "current_host": "b"}, "is not one of hosts"),
        ({"hosts": ["a"], "current_host": "a", "instance_groups": [{}]}, "instance_groups[0]"),
    ],
)
def test_wrong_resource_config(job, content, complaint):
    job.resources(content)
    job.script("print(1)")
    done = job.run()
    assert done.code == 1
    assert "resourceconfig.json" in done.failure
    assert complaint in done.failure


def test_all_faults_of_a_resource_config_at_once():
    with pytest.raises(errors.ClientError) as caught:
        configs.check_resource_config({"instance_groups": {}})
    assert all(word in str(caught.value) for word in ("hosts must", "current_host must", "instance_groups must"))


@pytest.mark.parametrize(
    "raw, value",
    [
        ("10", 10), ("0.001", 0.001), ("true", True), ("null", None), ("[1, 2]", [1, 2]), ('{"a": 1}', {"a": 1}),
        ('"x"', "x"), ("True", "True"), ("False", "False"), ("None", "None"), ("0123", "0123"), ("hello", "hello"),
        ("two words", "two words"), ("", ""), (7, 7), ([1], [1]), (None, None), ("[" * 100000, "[" * 100000),
    ],
)  # fmt: skip
def test_decoding(raw, value):
    assert configs.decode(raw) == value


def test_both_encodings_of_a_string_arrive_alike(job):
    job.script("import sys; print(sys.argv[1:])", a='"text here"', b="text here")
    done = job.run()
    assert done.out == "['-a', 'text here', '-b', 'text here']\n"
    assert "fail" not in done.err.lower()


@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans() | st.none()))
def test_encoded_hyperparameters_come_back(values):
    assert {key: configs.decode(json.dumps(value)) for key, value in values.items()} == values


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_decoding_never_fails(value):
    configs.decode(value)
    configs.decode(str(value))


@given(
    st.dictionaries(
        st.sampled_from(["hosts", "current_host", "instance_groups", "network_interface_name", "topology"]),
        st.none() | st.text() | st.lists(st.text()) | st.lists(st.dictionaries(st.text(), st.text())) | st.integers(),
    )
)
def test_any_resource_config_is_taken_or_refused_clearly(config):
    try:
        env = environment.Environment(resource_config=config, input_data_config={}, hyperparameters={})
        assert env.to_env_vars()["SM_CURRENT_HOST"] in config["hosts"]
    except errors.ClientError as error:
        assert "resourceconfig.json" in str(error)


def test_reserved_keys_leave_the_users(tree):
    env = environment.Environment(
        hyperparameters={
            "sagemaker_program": "a.py", "sagemaker_mpi_enabled": True, "sagemaker_future_key": 1, "lr": 1,
            "_tuning_objective_metric": "m", "default_user_module_name": "x", "mp_parameters": {},
        }
    )  # fmt: skip
    assert env.hyperparameters == {"lr": 1, "mp_parameters": {}}
    assert env.additional_framework_parameters == {"sagemaker_mpi_enabled": True, "sagemaker_future_key": 1}


def test_program_variable_wins_over_the_hyperparameter(job):
    job.script("print('hyperparameter')")
    job.code("other.py", "print('variable')")
    job.env["SAGEMAKER_PROGRAM"] = "other.py"
    assert job.run().out == "variable\n"


def test_submit_directory_hyperparameter_wins_and_variable_is_honoured(tree, monkeypatch):
    monkeypatch.setenv("SAGEMAKER_SUBMIT_DIRECTORY", "/from/variable")
    assert environment.Environment(hyperparameters={}).module_dir == "/from/variable"
    given = environment.Environment(hyperparameters={"sagemaker_submit_directory": "s3://b/k"})
    assert given.module_dir == "s3://b/k"


@pytest.mark.parametrize(
    "hyperparameters, environ, region",
    [
        ({"sagemaker_region": "us-west-2"}, {"AWS_REGION": "eu-west-1"}, "us-west-2"),
        ({}, {"AWS_DEFAULT_REGION": "x"}, "x"),
        ({}, {}, ""),
    ],
)
def test_region(tree, monkeypatch, hyperparameters, environ, region):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "SAGEMAKER_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert environment.Environment(hyperparameters=hyperparameters).to_env_vars()["SAGEMAKER_REGION"] == region


@pytest.mark.parametrize("value, on", [("", False), ("{}", False), ('{"partitions":2}', True)])
def test_model_parallel(tree, monkeypatch, value, on):
    monkeypatch.setenv("SM_HP_MP_PARAMETERS", value)
    assert environment.Environment(hyperparameters={}).is_modelparallel_enabled is on


def test_alias_never_takes_another_values_name():
    variables = mapping.to_env_vars({"hyperparameters": {"batch-size": 1, "batch_size": 2}})
    assert variables["SM_HP_BATCH_SIZE"] == "2"
    assert variables["SM_HP_BATCH-SIZE"] == "1"


def test_probes_and_configs_are_read_once(job):
    probe = job.base / "bin" / "nvidia-smi"
    probe.parent.mkdir()
    probe.write_text("#!/bin/sh\necho x >> \"$HOME/probes\"\necho 'GPU 0: a'\necho 'GPU 1: b'\necho noise\n")
    probe.chmod(0o755)
    job.env["PATH"] = f"{probe.parent}:{job.env['PATH']}"
    job.script("import os; print(os.environ['SM_NUM_GPUS'])")
    assert job.run().out == "2\n"
    assert (job.base / "home/probes").read_text() == "x\n"


def test_channel_folders_exist_as_given(job):
    (job.base / "input/data/train").mkdir()
    job.channels({"train": {"TrainingInputMode": "File"}, "stream": {"TrainingInputMode": "Pipe"}})
    job.script("import os; print(os.listdir(os.environ['SM_INPUT_DIR'] + '/data'), os.environ['SM_CHANNEL_STREAM'])")
    assert job.run().out == f"['train'] {job.base}/input/data/stream\n"


@pytest.mark.parametrize("key, value", [("a=b", "1"), ("a", '"x\\u0000y"'), ("a", '"\\ud800"')])
def test_value_that_cannot_be_a_variable_is_named(job, key, value):
    job.script("print('must not run')", **{key: value})
    done = job.run()
    assert (done.code, done.out) == (1, "")
    assert done.failure.startswith(f"ClientError: SM_HP_{key.upper()}=")
    assert "cannot be an environment variable" in done.failure
