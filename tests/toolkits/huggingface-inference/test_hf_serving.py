"""What happens before the server starts: places, variables, and what is to be downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest
from sagemaker_huggingface_inference_toolkit import neuron, places, serving
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings
from sagemaker_inference import model_server

ENVIRONMENT = {"HF_MODEL_ID": "org/name", "HF_MODEL_REVISION": "v/1", "TMPDIR": "/scratch"}


def read(environ):
    return HuggingFaceSettings.read(environ)


def test_hf_home_is_honoured():
    assert places.home({"HF_HOME": "/models/hf"}) == "/models/hf"


def test_a_cache_that_an_image_brings_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places.home({"TMPDIR": "/scratch"}) == "/scratch/huggingface"
    (tmp_path / ".cache/huggingface/hub").mkdir(parents=True)
    assert places.home({"TMPDIR": "/scratch"}) == str(tmp_path / ".cache/huggingface")
    assert places.home({"XDG_CACHE_HOME": "/other", "TMPDIR": "/scratch"}) == "/scratch/huggingface"


def test_nothing_is_ever_below_the_model():
    assert places.home({}).startswith(tempfile.gettempdir())


def test_code_of_models_goes_where_it_can_be_written(monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != "/read/only" and not path.startswith("/read"))
    assert "HF_MODULES_CACHE" not in places.variables({"HF_HOME": tempfile.gettempdir()})
    monkeypatch.setattr(places, "writable", lambda folder: folder != "/read/only")
    found = places.variables({"HF_HOME": "/read/only", "TMPDIR": "/scratch"})
    assert found["HF_MODULES_CACHE"] == "/scratch/huggingface-modules"
    assert "HF_MODULES_CACHE" not in places.variables({"HF_HOME": "/read/only", "HF_MODULES_CACHE": "/mine"})


def test_writable_looks_at_the_nearest_folder_that_is_there(tmp_path):
    assert places.writable(str(tmp_path / "a/b/c"))
    (tmp_path / "file").touch()
    assert not places.writable(str(tmp_path / "file"))


def test_a_folder_without_the_right_is_not_writable(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not places.writable(str(tmp_path))


def test_the_download_is_a_program_of_its_own_and_its_folder_is_told_to_workers():
    environ = dict(ENVIRONMENT)
    (command,) = serving.preparation(read(environ), environ)
    link = "/scratch/huggingface-models/org__name.v__1"
    assert command == [sys.executable, "-m", "sagemaker_huggingface_inference_toolkit.download", link]
    assert environ[places.LOADED_FOLDER] == link


@pytest.mark.parametrize("environ", [{}, {**ENVIRONMENT, "SAGEMAKER_MULTI_MODEL": "true"}])
def test_nothing_is_downloaded_without_a_repository_or_with_many_models(environ):
    assert serving.preparation(read(environ), environ) == []


def test_a_local_folder_is_not_downloaded(tmp_path):
    assert serving.preparation(read({"HF_MODEL_ID": str(tmp_path)}), {}) == []


def test_variables_are_defaults_and_nothing_phones_home():
    environ = {"HF_HUB_DISABLE_TELEMETRY": "0", "HF_HOME": "/tmp"}
    serving.prepare_environment(read({}), environ)
    assert environ["HF_HUB_DISABLE_TELEMETRY"] == "0"
    assert environ["DISABLE_TELEMETRY"] == "1"
    assert "SAGEMAKER_MODEL_SERVER_WORKERS" not in environ


def test_a_model_over_all_gpus_has_one_worker():
    environ = {"HF_DEVICE_MAP": "auto", "HF_HOME": "/tmp"}
    serving.prepare_environment(read(environ), environ)
    assert environ["SAGEMAKER_MODEL_SERVER_WORKERS"] == "1"
    environ = {"HF_DEVICE_MAP": "auto", "HF_HOME": "/tmp", "SAGEMAKER_MODEL_SERVER_WORKERS": "2"}
    serving.prepare_environment(read(environ), environ)
    assert environ["SAGEMAKER_MODEL_SERVER_WORKERS"] == "2"


def test_code_of_the_hub_on_gpus_has_one_worker(monkeypatch):
    given = {"HF_MODEL_ID": "org/name", "HF_TRUST_REMOTE_CODE": "1", "HF_HOME": "/tmp"}
    for gpus, workers in (([], None), (["/dev/nvidia0"], "1")):
        monkeypatch.setattr(serving.glob, "glob", lambda pattern, gpus=gpus: gpus)
        environ = dict(given)
        serving.prepare_environment(read(environ), environ)
        assert environ.get("SAGEMAKER_MODEL_SERVER_WORKERS") == workers


def test_main_serves_with_the_handler_of_hugging_face(monkeypatch):
    started = {}
    monkeypatch.setattr(model_server, "start_model_server", lambda **named: started.update(named))
    for name in ("HF_MODEL_ID", "HF_MODEL_REVISION"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    monkeypatch.setenv(places.LOADED_FOLDER, "")
    serving.main()
    assert started["handler_service"] == "sagemaker_huggingface_inference_toolkit.handler_service"
    assert len(started["prepare"]) == 1


def test_wrong_variables_end_the_start_with_their_own_status(monkeypatch, capsys):
    monkeypatch.setenv("HF_TRUST_REMOTE_CODE", "maybe")
    with pytest.raises(SystemExit) as caught:
        serving.main()
    assert caught.value.code == 2
    assert "HF_TRUST_REMOTE_CODE=maybe" in capsys.readouterr().err


def test_the_supervisor_imports_no_library_of_models():
    program = (
        "import sys, sagemaker_huggingface_inference_toolkit.serving\n"
        "print(sorted({'torch', 'numpy', 'transformers', 'huggingface_hub', 'PIL', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_one_worker_for_each_neuron_core(monkeypatch):
    monkeypatch.setattr(neuron.os, "listdir", lambda folder: ["neuron0", "neuron1", "neuronx", "null"])
    assert neuron.cores({}) == 4
    assert neuron.cores({"NEURON_RT_NUM_CORES": "3"}) == 3
    assert neuron.worker_variables({}) == {"NEURON_RT_NUM_CORES": "1", "SAGEMAKER_MODEL_SERVER_WORKERS": "4"}
    assert neuron.worker_variables({"SAGEMAKER_MODEL_SERVER_WORKERS": "1"}) == {"NEURON_RT_NUM_CORES": "1"}
    monkeypatch.setattr(neuron, "is_there", lambda: True)
    environ = {"HF_HOME": "/tmp"}
    serving.prepare_environment(read({}), environ)
    assert environ["SAGEMAKER_MODEL_SERVER_WORKERS"] == "4"
