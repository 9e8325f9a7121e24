"""What the MXNet toolkit makes of a job: roles, servers, the saved module. No MXNet is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from sagemaker_mxnet_container import parameter_server, training, training_utils
from sagemaker_training import errors

PS = {"sagemaker_parameter_server_enabled": "true"}

# Waits for the servers of its host, and shows them and itself.
SHOW = """\
import json, os, sys, time
base = os.environ["SAGEMAKER_BASE_DIR"]
roles = json.loads(sys.argv[sys.argv.index("--roles") + 1].replace("'", '"'))
for role in roles:
    while not os.path.exists(os.path.join(base, role + ".json")):
        time.sleep(0.02)
shown = {role: json.load(open(os.path.join(base, role + ".json"))) for role in roles}
print(json.dumps({**shown, "worker": dict(os.environ)}))
"""


def shown(job, roles, **hyperparameters):
    job.script(SHOW, roles=json.dumps(roles), **hyperparameters)
    done = job.run()
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_first_host_has_a_scheduler_a_server_and_the_worker(mx_job):
    mx_job.resources({"current_host": "localhost", "hosts": ["localhost", "127.0.0.2"]})
    roles = shown(mx_job, ["scheduler", "server"], **PS)
    for role, variables in roles.items():
        assert variables["DMLC_ROLE"] == role
        assert (variables["DMLC_NUM_WORKER"], variables["DMLC_NUM_SERVER"]) == ("2", "2")
        assert (variables["DMLC_PS_ROOT_URI"], variables["DMLC_PS_ROOT_PORT"]) == ("127.0.0.1", "8000")
        assert variables["PS_VERBOSE"] == "0"
    for role in ("scheduler", "server"):
        with pytest.raises(ProcessLookupError):
            os.kill(roles[role]["pid"], signal.SIG_DFL)


def test_another_host_has_no_scheduler(monkeypatch):
    started = []
    monkeypatch.setattr(parameter_server.process, "start_service", lambda argv, env: started.append((argv, env)))
    monkeypatch.setattr(os, "environ", {"KEPT": "1"})
    parameter_server.start(["a", "b"], "b", {"DMLC_NUM_WORKER": "2"})
    ((argv, env),) = started
    assert argv == [sys.executable, "-c", "import mxnet"]
    assert env == {"KEPT": "1", "DMLC_NUM_WORKER": "2", "DMLC_ROLE": "server"}
    assert os.environ["DMLC_ROLE"] == "worker"


def test_a_host_outside_the_distribution_runs_one_plain_process(mx_job):
    groups = [{"instance_group_name": name, "hosts": [f"{name}-1"], "instance_type": "x"} for name in ("cpu", "gpu")]
    config = {"current_host": "cpu-1", "hosts": ["cpu-1", "gpu-1"], "current_group_name": "cpu"}
    mx_job.env["SM_STUDIO_LOCAL_MODE"] = "true"
    mx_job.resources({**config, "instance_groups": groups})
    worker = shown(mx_job, [], **PS, sagemaker_distribution_instance_groups='["gpu"]')["worker"]
    assert not [name for name in worker if name.startswith("DMLC_")]


def test_port_and_verbosity_are_hyperparameters(mx_job):
    mx_job.resources({"current_host": "localhost", "hosts": ["localhost"]})
    server = shown(mx_job, ["server"], _ps_port="8123", _ps_verbose="2", **PS)["server"]
    assert (server["DMLC_PS_ROOT_PORT"], server["PS_VERBOSE"]) == ("8123", "2")


@pytest.mark.parametrize(
    ("key", "value"), [("_ps_port", "x"), ("_ps_port", 0), ("_ps_port", 70000), ("_ps_verbose", 3)]
)
def test_a_wrong_number_is_refused(key, value):
    with pytest.raises(errors.ClientError, match=f"{key} must be a whole number"):
        parameter_server.variables(["localhost"], {key: value})


def test_a_scheduler_without_an_address_is_named():
    with pytest.raises(errors.ClientError, match=r"no-such-host\.invalid"):
        parameter_server.variables(["no-such-host.invalid"], {})


def test_without_parameter_servers_nothing_is_set_or_started(mx_job):
    variables = shown(mx_job, [])["worker"]
    assert not [name for name in variables if name.startswith(("DMLC_", "PS_"))]
    assert not (mx_job.base / "server.json").exists()


def test_asked_for_by_variable(mx_job):
    mx_job.resources({"current_host": "localhost", "hosts": ["localhost"]})
    mx_job.env["SAGEMAKER_PARAMETER_SERVER_ENABLED"] = "true"
    assert shown(mx_job, ["server"])["worker"]["DMLC_ROLE"] == "worker"


def test_mpi_uses_the_mpi_launcher(mx_job):
    mx_job.env["PATH"] = str(mx_job.base)
    mx_job.script("print('never')", sagemaker_mpi_enabled="true")
    assert "mpirun is not on PATH" in mx_job.run().failure


def test_another_launcher_is_said_to_be_missing(mx_job):
    mx_job.script("pass", sagemaker_torch_distributed_enabled="true")
    done = mx_job.run()
    assert done.code == 0
    assert "sagemaker_torch_distributed_enabled is not acted upon: MXNet images have no such launcher" in done.err


def test_constants():
    assert training.LAUNCH_PS_ENV_NAME == training.SAGEMAKER_PARAMETER_SERVER_ENABLED
    assert training.LAUNCH_PS_ENV_NAME == "sagemaker_parameter_server_enabled"


def test_the_launcher_imports_no_mxnet():
    code = "import sys; sys.modules['mxnet'] = None; import sagemaker_mxnet_container.training, "
    code += "sagemaker_mxnet_container.training_utils; print('numpy' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# training_utils


class Module:
    """What a module of MXNet offers for saving."""

    data_shapes = (types.SimpleNamespace(name="data", shape=(1, 4)),)

    def __init__(self):
        self.symbol = types.SimpleNamespace(save=self.save_params)

    def save_params(self, path):
        Path(path).touch()


def test_scheduler_host_is_the_first():
    assert training_utils.scheduler_host(["algo-1", "algo-2"]) == "algo-1"


def test_save_writes_what_serving_reads(tmp_path):
    training_utils.save(str(tmp_path), Module(), "algo-1", ["algo-1", "algo-2"])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"model-symbol.json", "model-0000.params", "model-shapes.json"}
    assert json.loads((tmp_path / "model-shapes.json").read_text()) == [{"name": "data", "shape": [1, 4]}]


def test_only_the_first_host_saves(tmp_path, monkeypatch):
    monkeypatch.setenv("SM_HOSTS", '["algo-1", "algo-2"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-2")
    training_utils.save(str(tmp_path), Module())
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-1")
    training_utils.save(str(tmp_path), Module())
    assert len(list(tmp_path.iterdir())) == 3
