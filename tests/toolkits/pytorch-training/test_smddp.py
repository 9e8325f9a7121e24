"""The stand-in for Amazon's smdistributed: found where theirs is absent, out of its way where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
import venv

from sagemaker_pytorch_container import smddp

SMDDP = {"sagemaker_distributed_dataparallel_enabled": "true"}
WHERE = "import smdistributed.dataparallel.torch.torch_smddp as found; print(found.__file__)"

THEIRS = "smdistributed/dataparallel/torch/torch_smddp.py"
PACKAGES = ("smdistributed", "smdistributed/dataparallel", "smdistributed/dataparallel/torch")

# Enough of torch.distributed for the module to register itself.
DISTRIBUTED = """\
class Backend:
    @staticmethod
    def register_backend(name, creator, devices=None):
        print("registered", name, devices)
"""


def test_a_job_finds_the_stand_in(torch_job, installed):
    installed("torch/__init__.py")
    installed("torch/distributed.py", DISTRIBUTED)
    torch_job.script(WHERE)
    done = torch_job.run()
    assert done.out.splitlines() == ["registered smddp ['cpu', 'cuda']", f"{smddp.FOLDER}/{THEIRS}"], done.err


def test_the_proprietary_package_is_used_where_it_is(torch_job, installed):
    for package in PACKAGES:
        installed(f"{package}/__init__.py")
    installed(THEIRS)
    torch_job.script("import os; " + WHERE + "; print(os.environ['PYTHONPATH'])")
    done = torch_job.run()
    module, path = done.out.splitlines()
    assert module == f"{torch_job.base}/installed/{THEIRS}"
    assert smddp.FOLDER not in path


def test_a_proprietary_package_that_the_job_installs_wins_over_it(torch_job, tmp_path):
    """Installed by requirements.txt, after the search path was chosen, and behind it on the path."""
    site = tmp_path / "site"
    for package in PACKAGES:
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text("")
    (site / THEIRS).write_text("")
    torch_job.script(f"import sys; sys.path.append({str(site)!r}); {WHERE}")
    assert torch_job.run().out == f"{site}/{THEIRS}\n"


def test_install_makes_it_known_to_every_program(tmp_path):
    venv.create(str(tmp_path), with_pip=False, symlinks=True)
    python = str(tmp_path / "bin" / "python")
    environment = {"PYTHONPATH": smddp.FOLDER.partition("/sagemaker_pytorch_container")[0]}
    written = subprocess.run(
        [python, "-m", "sagemaker_pytorch_container.smddp"], env=environment, capture_output=True, check=True
    )
    assert written.stdout.decode().strip().endswith(smddp.PATH_FILE)
    find = "import importlib.util as u, sys; print(u.find_spec('smdistributed.dataparallel.torch.torch_smddp').origin)"
    found = subprocess.run([python, "-c", find], env={}, capture_output=True, check=True)
    assert found.stdout.decode().strip() == f"{smddp.FOLDER}/{THEIRS}"


def test_the_path_file_counts_as_no_proprietary_package(torch_job):
    code = f"import sys; sys.path.append({smddp.FOLDER!r}); " + (
        "from sagemaker_pytorch_container import smddp; print(smddp.is_proprietary_there())"
    )
    done = subprocess.run([sys.executable, "-c", code], env=torch_job.env, capture_output=True, check=True)
    assert done.stdout == b"False\n"


def accelerate(job, **chosen):
    """A job that accelerate launched with DATA_PARALLEL."""
    names = ("ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE", "ACCELERATE_USE_CPU", "CHOSEN")
    job.env.update(ACCELERATE_USE_SAGEMAKER="true", ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE="DATA_PARALLEL")
    job.script(f"import json, os; print(json.dumps([os.environ.get(name) for name in {names}]))", **SMDDP, **chosen)
    return job.run()


def test_accelerate_runs_on_hosts_without_gpu(torch_job):
    done = accelerate(torch_job)
    assert json.loads(done.out)[:2] == ["NO", "true"]
    assert done.err.count("no GPU on this host: accelerate runs as under torchrun, on the CPU, over gloo") == 1


def test_accelerate_keeps_its_type_on_gpus(torch_job):
    tool = torch_job.base / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'GPU 0: Test'\n")
    tool.chmod(0o755)
    torch_job.env["PATH"] = f"{tool.parent}:{torch_job.env['PATH']}"
    done = accelerate(torch_job)
    assert json.loads(done.out)[:2] == ["DATA_PARALLEL", None]
    assert "no GPU" not in done.err


def test_variables_among_the_options_for_mpirun_hold_and_the_rest_is_named(torch_job):
    done = accelerate(
        torch_job, sagemaker_distributed_dataparallel_custom_mpi_options="-verbose -x CHOSEN=yes -x PATH --tag"
    )
    assert json.loads(done.out)[2] == "yes"
    assert "not used, since the job runs under torchrun and not mpirun: -verbose --tag" in done.err


def test_without_torch_it_is_refused_before_anything_is_installed(torch_job):
    torch_job.env["PYTHONPATH"] = torch_job.env["PYTHONPATH"].partition(":")[2]
    torch_job.code("requirements.txt", "no-such-package")
    done = accelerate(torch_job)
    assert done.code == 1
    assert "needs PyTorch" in done.failure
    assert "multi_worker_mirrored_strategy" in done.failure
    assert "installing" not in done.err
