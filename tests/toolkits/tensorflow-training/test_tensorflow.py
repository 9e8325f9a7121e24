"""What the TensorFlow toolkit makes of a job: clusters, servers, places of the model. No TensorFlow is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from sagemaker_tensorflow_container import cluster, model_dir, storage, training
from sagemaker_training import params

SHOW = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"
TWO = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]}

# Two names of this machine, the second of which is this host.
LOCAL = {"current_host": "localhost", "hosts": ["localhost", "127.0.0.2"]}

PS = "sagemaker_parameter_server_enabled"
MWMS = "sagemaker_multi_worker_mirrored_strategy_enabled"


def shown(job, **hyperparameters):
    """The environment and the arguments of the script."""
    job.script(SHOW, **hyperparameters)
    done = job.run()
    assert done.code == 0, done.err
    return json.loads(done.out)


# TF_CONFIG


def test_cluster_of_parameter_servers():
    hosts = ["algo-1", "algo-2", "algo-3"]
    expected = {
        "master": ["algo-1:2222"],
        "worker": ["algo-2:2222", "algo-3:2222"],
        "ps": ["algo-1:2223", "algo-2:2223", "algo-3:2223"],
    }
    tasks = [cluster.parameter_server(hosts, host)["task"] for host in hosts]
    assert tasks == [{"index": 0, "type": "master"}, {"index": 0, "type": "worker"}, {"index": 1, "type": "worker"}]
    assert cluster.parameter_server(hosts, "algo-1") == {"cluster": expected, "environment": "cloud", "task": tasks[0]}


def test_cluster_of_mirrored_workers():
    assert cluster.mirrored(["algo-1", "algo-2"], "algo-2") == {
        "cluster": {"worker": ["algo-1:8890", "algo-2:8890"]},
        "environment": "cloud",
        "task": {"index": 1, "type": "worker"},
    }


@pytest.mark.parametrize("how", ["hyperparameter", "variable"])
def test_mirrored_workers_are_told_their_cluster(tf_job, how):
    if how == "variable":
        tf_job.env[training.params.SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED] = "true"
    variables, _ = shown(tf_job, **({MWMS: "true"} if how == "hyperparameter" else {}))
    assert json.loads(variables["TF_CONFIG"])["cluster"] == {"worker": ["algo-1:8890"]}


def test_the_hyperparameter_wins_over_the_variable(tf_job):
    tf_job.env[params.SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED] = "true"
    assert "TF_CONFIG" not in shown(tf_job, **{MWMS: "false"})[0]


def test_constants():
    assert training.SAGEMAKER_PARAMETER_SERVER_ENABLED == PS
    assert training.SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED == MWMS
    assert training.SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED == "sagemaker_distributed_dataparallel_enabled"


def test_a_host_outside_the_distribution_runs_one_plain_process(tf_job):
    groups = [{"instance_group_name": name, "hosts": [f"{name}-1"], "instance_type": "x"} for name in ("cpu", "gpu")]
    config = {"current_host": "cpu-1", "hosts": ["cpu-1", "gpu-1"], "current_group_name": "cpu"}
    tf_job.env["SM_STUDIO_LOCAL_MODE"] = "true"
    tf_job.resources({**config, "instance_groups": groups})
    assert "TF_CONFIG" not in shown(tf_job, **{MWMS: "true", "sagemaker_distribution_instance_groups": '["gpu"]'})[0]


# Parameter servers


def test_a_single_host_needs_no_parameter_server(tf_job):
    variables, _ = shown(tf_job, **{PS: "true"})
    assert "TF_CONFIG" not in variables
    assert not (tf_job.base / "server.json").exists()


def test_parameter_server_serves_beside_the_script_and_ends_with_it(tf_job):
    tf_job.resources(LOCAL)
    text = """
        import json, os, time
        path = os.path.join(os.environ["SAGEMAKER_BASE_DIR"], "server.json")
        while not os.path.exists(path):
            time.sleep(0.02)
        print(json.dumps(json.load(open(path))))
        print(os.environ["TF_CONFIG"])
    """
    tf_job.script(text, **{PS: "true"})
    done = tf_job.run()
    assert done.code == 0, done.err
    server, config = map(json.loads, done.out.splitlines())
    assert (server["job"], server["index"], server["devices"]) == ("ps", 0, "-1")
    assert server["config"] == {"device_count": {"GPU": 0}}
    assert server["cluster"] == config["cluster"]
    assert config["task"] == {"index": 0, "type": "master"}
    with pytest.raises(ProcessLookupError):
        os.kill(server["pid"], signal.SIG_DFL)


def test_parameter_servers_port_is_checked_before_anything_runs(tf_job):
    import socket

    tf_job.resources(LOCAL)
    tf_job.script("print('never')", **{PS: "true"})
    with socket.create_server(("", cluster.PS_PORT)):
        done = tf_job.run()
    assert done.code == 1
    assert "Port 2223" in done.failure
    assert "never" not in done.out


def test_the_launcher_imports_no_tensorflow():
    """Not even with parameter servers: theirs is a process of its own."""
    code = "import sys; sys.modules['tensorflow'] = None; import sagemaker_tensorflow_container.training as t; "
    code += "print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy', 'boto3', 'botocore', 'keras')))"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


# Other launchers


def test_smdistributed_is_refused_with_what_to_use_instead(tf_job):
    tf_job.script("print('never')", sagemaker_distributed_dataparallel_enabled="true")
    done = tf_job.run()
    assert done.code == 1
    assert "multi_worker_mirrored_strategy" in done.failure


def test_model_parallel_is_refused_with_what_to_use_instead(tf_job):
    tf_job.script("print('never')", mp_parameters='{"partitions": 2}')
    done = tf_job.run()
    assert done.code == 1
    assert "smdistributed.modelparallel" in done.failure
    assert "never" not in done.out


def test_mpi_has_no_tf_config(tf_job):
    """mpirun is what is missing here, so the launcher was the one that was asked for."""
    tf_job.env["PATH"] = str(tf_job.base)
    tf_job.script("print('never')", sagemaker_mpi_enabled="true")
    assert "mpirun is not on PATH" in tf_job.run().failure


@pytest.mark.parametrize("key", ["sagemaker_torch_distributed_enabled", PS])
def test_what_is_not_acted_upon_is_said(tf_job, key):
    tf_job.script("pass", **{key: "true"})
    done = tf_job.run()
    assert done.code == 0
    assert f"{key} is not acted upon" in done.err


# The script's variables


def test_defaults_of_variables(tf_job):
    tf_job.env["AWS_REGION"] = "eu-north-1"
    variables, _ = shown(tf_job)
    assert variables["TF_CPP_MIN_LOG_LEVEL"] == "1"
    assert variables["S3_USE_HTTPS"] == "1"
    assert variables["S3_REGION"] == "eu-north-1"


def test_the_users_variables_win(tf_job):
    own = {"TF_CPP_MIN_LOG_LEVEL": "3", "S3_USE_HTTPS": "0", "S3_REGION": "mars-1"}
    tf_job.env.update(own, AWS_REGION="eu-north-1")
    variables, _ = shown(tf_job)
    assert {name: variables[name] for name in own} == own


def test_no_region_is_no_fault(tf_job):
    assert "S3_REGION" not in shown(tf_job)[0]


LOCATION = """\
def client(service, region_name, endpoint_url, config):
    class Client:
        def get_bucket_location(self, Bucket):
            assert (service, Bucket, region_name) == ("s3", "bucket", "eu-north-1")
            {answer}
    return Client()
"""


@pytest.mark.parametrize(
    ("answer", "region"),
    [
        ("return {'LocationConstraint': 'ap-south-1'}", "ap-south-1"),
        ("return {'LocationConstraint': None}", "us-east-1"),
        ("return {'LocationConstraint': 'EU'}", "eu-west-1"),
        ("raise OSError('no way to S3')", "eu-north-1"),
    ],
)
def test_region_of_the_models_bucket(tf_job, answer, region):
    folder = tf_job.base / "installed"
    (folder / "boto3.py").write_text(LOCATION.format(answer=answer))
    (folder / "botocore").mkdir()
    (folder / "botocore/__init__.py").touch()
    (folder / "botocore/config.py").write_text("Config = dict\n")
    tf_job.env["AWS_REGION"] = "eu-north-1"
    tf_job.script(SHOW, model_dir="s3://bucket/job/model")
    done = tf_job.run()
    assert done.code == 0
    assert json.loads(done.out)[0]["S3_REGION"] == region
    assert ("region of s3://bucket/job/model cannot be looked up" in done.err) == ("raise" in answer)


# The two places of a model


def test_model_dir_is_the_scripts_and_sm_model_dir_the_local_folder(tf_job):
    variables, arguments = shown(tf_job, model_dir="/opt/ml/shared/model")
    assert arguments == ["--model_dir", "/opt/ml/shared/model"]
    assert variables["SM_HP_MODEL_DIR"] == "/opt/ml/shared/model"
    assert variables["SM_MODEL_DIR"] == str(tf_job.base / "model")


def test_no_model_dir_is_made_up(tf_job):
    assert shown(tf_job, _tuning_objective_metric="loss")[1] == []


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("s3://bucket/tuning", "s3://bucket/tuning/job-7/model"),
        ("s3://bucket/tuning/", "s3://bucket/tuning/job-7/model"),
        ("/opt/ml/model", "/opt/ml/model"),
    ],
)
def test_each_job_of_a_tuning_job_has_a_model_dir_of_its_own(given, made):
    tuned = {"_tuning_objective_metric": "loss", "model_dir": given}
    assert model_dir.of_job(tuned, "job-7")["model_dir"] == made
    assert model_dir.of_job({"model_dir": given}, "job-7")["model_dir"] == given


def test_tuning_reaches_arguments_and_variables(tf_job):
    tf_job.env.update(TRAINING_JOB_NAME="job-7", S3_REGION="eu-north-1")
    variables, arguments = shown(tf_job, model_dir="s3://bucket/t", _tuning_objective_metric="loss")
    assert arguments == ["--model_dir", "s3://bucket/t/job-7/model"]
    assert variables["SM_HP_MODEL_DIR"] == "s3://bucket/t/job-7/model"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is empty: the job leaves no model"),
        ("weights.h5", "holds no saved_model.pb"),
        ("export/saved_model.pb", "is in no folder with a number as its name"),
        ("export/1/saved_model.pb", ""),
        ("1/saved_model.pbtxt", ""),
    ],
)
def test_what_serving_will_miss_is_said(tf_job, name, words):
    line = f"path = os.path.join(os.environ['SM_MODEL_DIR'], {name!r}); "
    line += "os.makedirs(os.path.dirname(path), exist_ok=True); open(path, 'w')" if name else "pass"
    tf_job.script("import os; " + line)
    done = tf_job.run()
    assert done.code == 0, done.err
    assert ("TensorFlow Serving" in done.err) == bool(words)
    assert words in done.err


def test_a_script_without_that_option_is_told_what_to_do(tf_job):
    tf_job.env["S3_REGION"] = "eu-north-1"
    tf_job.script("import argparse; argparse.ArgumentParser().parse_args()", model_dir="s3://bucket/m")
    done = tf_job.run()
    assert done.code == 2
    assert "every hyperparameter becomes an option" in done.failure


def test_storage_ignores_what_is_no_address(monkeypatch):
    monkeypatch.delenv("S3_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    for value in (None, False, 3, "/opt/ml/model"):
        storage.configure(value)
    assert os.environ["S3_REGION"] == "eu-north-1"
    monkeypatch.delenv("S3_REGION")
    monkeypatch.delenv("S3_USE_HTTPS")
