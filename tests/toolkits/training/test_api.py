"""The Python API that users' scripts import."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_training import content_types, encoders, errors, files, functions, modules, params, recordio, timeout

from .conftest import SOURCE

NAMES = {
    "environment": "Environment read_hyperparameters read_resource_config read_input_data_config "
    "channel_path num_gpus num_cpus num_neurons write_env_vars "
    "code_dir model_dir input_dir input_config_dir output_dir output_data_dir "
    "output_intermediate_dir base_dir",
    "entry_point": "run install",
    "runner": "get ProcessRunnerType MPIRunnerType SMDataParallelRunnerType PyTorchXLARunnerType "
    "TorchDistributedRunnerType",
    "mapping": "to_env_vars to_cmd_args split_by_criteria MappingMixin",
    "params": "LAUNCH_MPI_ENV_NAME LAUNCH_PYTORCH_DDP_ENV_NAME LAUNCH_TORCH_DISTRIBUTED_ENV_NAME "
    "LAUNCH_SMDATAPARALLEL_ENV_NAME LAUNCH_PYTORCH_XLA_ENV_NAME LAUNCH_PS_ENV_NAME SAGEMAKER_PARAMETER_SERVER_ENABLED "
    "SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED",
    "files": "write_success_file write_failure_file download_and_extract s3_download tmpdir read_json read_file "
    "write_file",
    "modules": "import_module install install_requirements prepare exists",
    "timeout": "timeout TimeoutError",
    "encoders": "decode encode array_to_npy npy_to_numpy array_to_json json_to_numpy array_to_csv csv_to_numpy",
    "content_types": "JSON CSV NPY OCTET_STREAM ANY UTF8_TYPES",
    "recordio": "_read_recordio _write_recordio _write_numpy_to_dense_tensor _write_spmatrix_to_sparse_tensor",
    "functions": "matching_args error_wrapper",
    "intermediate_output": "start_sync",
    "trainer": "train",
    "errors": "ClientError InstallModuleError InstallRequirementsError ExecuteUserScriptError ImportModuleError "
    "SMTrainingCompilerConfigurationError ChannelDoesNotExistError UnsupportedFormatError",
    "cli.train": "main",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_there_with_the_standard_library_alone(job, module):
    """In an interpreter without any installed package (-S)."""
    names = NAMES[module].split()
    code = f"from sagemaker_training.{module} import {', '.join(names)}"
    subprocess.run([sys.executable, "-S", "-c", code], env=job.env, check=True)


def test_client_errors():
    for name in ("InstallModuleError", "InstallRequirementsError", "ExecuteUserScriptError", "ImportModuleError"):
        assert issubclass(getattr(errors, name), errors.ClientError)
    for name in ("SMTrainingCompilerConfigurationError", "ChannelDoesNotExistError", "UnsupportedFormatError"):
        assert not issubclass(getattr(errors, name), errors.ClientError)


def test_launcher_names_are_the_hyperparameter_keys():
    assert params.LAUNCH_SMDATAPARALLEL_ENV_NAME == "sagemaker_distributed_dataparallel_enabled"
    assert params.LAUNCH_PYTORCH_XLA_ENV_NAME == "sagemaker_pytorch_xla_multi_worker_enabled"


def test_matching_args():
    def plain(a, b=1, *, c=2):
        pass

    def keywords(a, **rest):
        pass

    given = {"a": 1, "c": 3, "d": 4}
    assert functions.matching_args(plain, given) == {"a": 1, "c": 3}
    assert functions.matching_args(keywords, given) == given


def test_error_wrapper():
    wrapped = functions.error_wrapper(lambda: 1 / 0, errors.ClientError)
    with pytest.raises(errors.ClientError, match="division by zero"):
        wrapped()


def test_timeout_ends_the_block_and_puts_the_handler_back():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(timeout.TimeoutError, match=r"after 0\.05 seconds"), timeout.timeout(seconds=0.05):
        signal.pause()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    with timeout.timeout(hours=1):
        pass


def test_small_files(tmp_path):
    path = str(tmp_path / "x")
    files.write_file(path, "é")
    assert files.read_file(path) == "é"
    files.write_file(path, b"\xff", "wb")
    assert files.read_file(path, "rb") == b"\xff"
    files.write_json({"a": [1]}, path)
    assert files.read_json(path) == {"a": [1]}
    with files.tmpdir() as folder:
        assert Path(folder).is_dir()
    assert not Path(folder).exists()


def test_import_module(tree, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", sys.path[:])
    source = tmp_path / "source"
    source.mkdir()
    (source / "users_module_a.py").write_text("ANSWER = 42")
    (source / "users_module_b.py").write_text("import no_such_thing")
    assert modules.import_module(str(source), "users_module_a").ANSWER == 42
    with pytest.raises(errors.ImportModuleError, match=r"users_module_b cannot be imported: ModuleNotFoundError"):
        modules.import_module(str(source), "users_module_b")


def test_prepare_makes_a_folder_installable_and_leaves_a_setup_py_alone(tmp_path):
    modules.prepare(str(tmp_path), "my_module")
    text = (tmp_path / "setup.py").read_text()
    assert "py_modules=['my_module']" in text
    compile(text, "setup.py", "exec")
    (tmp_path / "setup.py").write_text("mine")
    modules.prepare(str(tmp_path), "my_module")
    assert (tmp_path / "setup.py").read_text() == "mine"


def test_exists():
    assert modules.exists("json")
    assert not modules.exists("no_such_module")
    assert not modules.exists("no_such_package.module")


def test_unknown_content_type():
    with pytest.raises(errors.UnsupportedFormatError, match="image/png"):
        encoders.encode([1], "image/png")


def test_json_encoder_needs_no_numpy():
    assert encoders.array_to_json([[1, 2]]) == "[[1, 2]]"
    assert encoders.encode([1], content_types.JSON + "; charset=utf-8") == "[1]"


@given(st.lists(st.binary(max_size=70)))
def test_recordio_frames_come_back(payloads):
    stream = io.BytesIO()
    for payload in payloads:
        recordio._write_recordio(stream, payload)
    assert len(stream.getvalue()) % 4 == 0
    stream.seek(0)
    assert list(recordio._read_recordio(stream)) == payloads


@pytest.mark.parametrize("cut", [3, 9, 13])
def test_recordio_stream_that_is_cut_off(cut):
    stream = io.BytesIO()
    recordio._write_recordio(stream, b"12345")
    with pytest.raises(ValueError, match="ends inside"):
        list(recordio._read_recordio(io.BytesIO(stream.getvalue()[:cut])))


def test_recordio_stream_that_is_none():
    with pytest.raises(ValueError, match="where a frame begins"):
        list(recordio._read_recordio(io.BytesIO(b"not a frame here")))


class Array:
    """As much of a float32 numpy array as a record needs."""

    class dtype:
        name = "float32"

    def __init__(self, values):
        self._values = values
        self.shape = (len(values),)

    def tobytes(self):
        return struct.pack(f"<{len(self._values)}f", *self._values)


def test_dense_record_on_the_wire():
    """Checked byte by byte against the protobuf encoding: field numbers and wire types of Record, Value and tensor."""
    features = recordio._value(Array([1.0, 2.0]), "float32")
    record = recordio._record(features, recordio._value(Array([3.0]), "float32"))
    tensor = b"\x0a\x08" + struct.pack("<2f", 1, 2)
    label = b"\x0a\x04" + struct.pack("<f", 3)

    def entry(field, value):
        value = b"\x12" + bytes([len(value)]) + value
        pair = b"\x0a\x06values\x12" + bytes([len(value)]) + value
        return bytes([field << 3 | 2, len(pair)]) + pair

    assert record == entry(1, tensor) + entry(2, label)


def test_sparse_parts_on_the_wire():
    value = recordio._value([1, -1], "int32", keys=[0, 300], shape=[1000])
    tensor = (
        b"\x0a\x0b\x01" + b"\xff" * 9 + b"\x01"  # values: 1 and -1, packed varints
        + b"\x12\x03\x00\xac\x02"  # keys: 0, 300
        + b"\x1a\x02\xe8\x07"  # shape: 1000
    )  # fmt: skip
    assert value == bytes([7 << 3 | 2, len(tensor)]) + tensor


def test_metadata_of_the_distribution():
    """Nothing is installed beside it, and the console script is the one that the platform calls."""
    text = (SOURCE.parent / "pyproject.toml").read_text()
    assert "dependencies = []" in text
    assert 'train = "sagemaker_training.cli.train:main"' in text
    assert json.dumps("slipway-training") in text


def test_wheel_is_pure_and_the_same_on_every_build(tmp_path):
    pytest.importorskip("flit_core", reason="the toolkit's build backend is not in this environment")
    built = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, flit_core.buildapi as b; b.build_wheel(sys.argv[1])",
                str(tmp_path / name),
            ],
            cwd=str(SOURCE.parent),
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
            check=True,
        )
        built.append(next((tmp_path / name).iterdir()))
    assert built[0].name == built[1].name
    assert built[0].name.endswith("-py3-none-any.whl")
    assert built[0].read_bytes() == built[1].read_bytes()
    assert built[0].stat().st_size < 1000000
