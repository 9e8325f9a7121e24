"""What the PyTorch toolkit makes of a job: its launcher, its variables, its refusals. No PyTorch is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"

TORCHRUN = "sagemaker_torch_distributed_enabled"
DDP = "sagemaker_pytorch_ddp_enabled"
SMDDP = "sagemaker_distributed_dataparallel_enabled"
XLA = "sagemaker_pytorch_xla_multi_worker_enabled"
MPI = "sagemaker_mpi_enabled"


def variables(job, **hyperparameters):
    """The environment that the script has."""
    job.script(SHOW, **hyperparameters)
    done = job.run()
    assert done.code == 0, done.err
    return json.loads(done.out)


# The launcher


def test_a_plain_job_is_one_process(torch_job):
    assert "LOCAL_RANK" not in variables(torch_job)


@pytest.mark.parametrize("key", [TORCHRUN, DDP, SMDDP])
def test_distributed_jobs_run_under_torchrun(torch_job, key):
    assert variables(torch_job, **{key: "true"})["WORLD_SIZE"] == "1"


@pytest.mark.parametrize("key", [TORCHRUN, DDP, SMDDP])
def test_the_name_in_capitals_works_as_variable(torch_job, key):
    torch_job.env[key.upper()] = "true"
    assert variables(torch_job)["WORLD_SIZE"] == "1"


def test_the_hyperparameter_wins_over_the_variable(torch_job):
    torch_job.env[SMDDP.upper()] = "true"
    assert "LOCAL_RANK" not in variables(torch_job, **{SMDDP: "false"})


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ([MPI, DDP, TORCHRUN, SMDDP, XLA], "MPI"),
        ([DDP, SMDDP, XLA], "TorchDistributed"),
        ([TORCHRUN, SMDDP, XLA], "TorchDistributed"),
        ([SMDDP, XLA], "SMDataParallel"),
        ([XLA], "PyTorchXLA"),
        ([], "Process"),
    ],
)
def test_precedence(asked, name):
    from sagemaker_pytorch_container import training
    from sagemaker_training.environment import Environment

    env = Environment({"current_host": "algo-1", "hosts": ["algo-1"]}, {}, dict.fromkeys(asked, "true"))
    assert training.choose_runner(env).name == name


def test_a_launcher_that_is_not_used_is_named(torch_job):
    torch_job.script("pass", sagemaker_torch_distributed_enabled="true", sagemaker_parameter_server_enabled="true")
    done = torch_job.run()
    assert "sagemaker_parameter_server_enabled is not acted upon" in done.err


def test_a_group_that_takes_no_part_runs_one_process(torch_job):
    torch_job.resources(
        {
            "current_host": "algo-1",
            "current_group_name": "cpu",
            "hosts": ["algo-1", "algo-2"],
            "instance_groups": [
                {"instance_group_name": "cpu", "instance_type": "x", "hosts": ["algo-1"]},
                {"instance_group_name": "gpu", "instance_type": "x", "hosts": ["algo-2"]},
            ],
        }
    )
    torch_job.env["SM_STUDIO_LOCAL_MODE"] = "true"  # algo-2 has no address.
    found = variables(torch_job, **{TORCHRUN: "true", "sagemaker_distribution_instance_groups": '["gpu"]'})
    assert "LOCAL_RANK" not in found
    assert found["MASTER_ADDR"] == "algo-2"


def test_launcher_names():
    from sagemaker_pytorch_container import training

    assert (
        training.LAUNCH_MPI_ENV_NAME,
        training.LAUNCH_PYTORCH_DDP_ENV_NAME,
        training.LAUNCH_TORCH_DISTRIBUTED_ENV_NAME,
        training.LAUNCH_SMDATAPARALLEL_ENV_NAME,
        training.LAUNCH_PYTORCH_XLA_ENV_NAME,
    ) == (MPI, DDP, TORCHRUN, SMDDP, XLA)
    assert SMDDP.upper() == training.SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED
    assert training.SAGEMAKER_PARAMETER_SERVER_ENABLED == "SAGEMAKER_PARAMETER_SERVER_ENABLED"
    assert (
        training.SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED == "SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED"
    )


# Variables


def test_variables_of_every_job(torch_job):
    torch_job.resources({"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"})
    found = variables(torch_job)
    expected = {
        "MASTER_ADDR": "algo-1",
        "MASTER_PORT": "7777",
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
        "SM_DLC_TORCH_VERSION": "9.8.7+cpu",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "RANK" not in found
    assert "WORLD_SIZE" not in found


def test_what_the_user_set_holds(torch_job):
    torch_job.resources({"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"})
    chosen = {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "1234",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_DISABLE": "0",
        "NCCL_SOCKET_IFNAME": "ib0",
    }
    torch_job.env.update(chosen)
    found = variables(torch_job)
    assert {name: found[name] for name in chosen} == chosen


def test_torch_is_not_imported_by_train(torch_job, installed):
    installed("torch/__init__.py", "raise SystemError('imported')")
    installed("torch/version.py", "__version__ = '1.2.3'\n")
    assert variables(torch_job)["SM_DLC_TORCH_VERSION"] == "1.2.3"


def test_an_image_without_torch_runs_plain_jobs(torch_job):
    torch_job.env["PYTHONPATH"] = torch_job.env["PYTHONPATH"].partition(os.pathsep)[2]
    torch_job.script("import os; print('SM_DLC_TORCH_VERSION' in os.environ)")
    assert torch_job.run().out == "False\n"


def test_the_toolkit_needs_the_base_toolkit_only(torch_job):
    code = (
        "import os, sys, sagemaker_pytorch_container.training; library = os.path.dirname(os.__file__)\n"
        "modules = {n.partition('.')[0]: m for n, m in sys.modules.items() if n != '__main__'}\n"
        "files = {n: getattr(m, '__file__', None) for n, m in modules.items()}\n"
        "print(*(name for name, file in files.items() if file and not file.startswith(library)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], env=torch_job.env, capture_output=True, check=True)
    assert set(done.stdout.decode().split()) == {"sagemaker_training", "sagemaker_pytorch_container"}


# Refusals


def test_model_parallel_is_refused_with_its_replacement(torch_job):
    torch_job.script("pass", mp_parameters='{"partitions": 2}', sagemaker_mpi_enabled="true")
    done = torch_job.run()
    assert done.code == 1
    assert "torch.distributed.fsdp" in done.failure


def test_xla_without_torch_xla_is_refused(torch_job):
    torch_job.script("pass", **{XLA: "true"})
    done = torch_job.run()
    assert done.code != 0
    assert "torch_xla is not installed in this image" in done.failure


def test_xla_of_before_pjrt_is_refused(torch_job, installed):
    installed("torch_xla/__init__.py")
    torch_job.script("pass", **{XLA: "true"})
    assert "no PJRT runtime" in torch_job.run().failure


def test_xla_with_pjrt_runs_under_torchrun(torch_job, installed):
    installed("torch_xla/__init__.py")
    installed("torch_xla/runtime.py")
    found = variables(torch_job, **{XLA: "true"})
    assert (found["WORLD_SIZE"], found["PJRT_DEVICE"]) == ("1", "CPU")


# gloo at the end of a finished script

GLOO = r"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:1]"


@pytest.mark.parametrize("launcher", [{}, {TORCHRUN: "true"}])
def test_gloo_at_exit_is_success(torch_job, launcher):
    torch_job.script(f'import os, sys; print("{GLOO}", file=sys.stderr); os.abort()', **launcher)
    done = torch_job.run()
    assert done.code == 0
    assert done.success
    assert "counts as successful" in done.err


@pytest.mark.parametrize(
    "text",
    [
        f'import sys; print("{GLOO}", file=sys.stderr); sys.exit(3)',
        f"import sys, os, traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\n"
        f'print("{GLOO}", file=sys.stderr); os.abort()',
        "import os; os.abort()",
    ],
)
def test_any_other_failure_stays_one(torch_job, text):
    torch_job.script(text)
    assert torch_job.run().code != 0
