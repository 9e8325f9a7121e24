"""mpirun's command line, for both versions of Open MPI."""

from __future__ import annotations

import pytest
from sagemaker_training import errors, mpi_command
from sagemaker_training.mpi_command import Custom, Run

RUN = Run(("algo-1", "algo-2"), 2, 4, "eth0", "/run/ssh_config")
RANKS = ["python", "-m", "mpi4py", "train.py", "--name", "it's $(id)"]


def parameters(command: list[str], option: str) -> dict[str, str]:
    places = [index for index, word in enumerate(command) if word == option]
    return {command[index + 1]: command[index + 2] for index in places}


def test_open_mpi_4():
    command = mpi_command.build("mpirun", 4, RUN, RANKS)
    assert command[:7] == ["mpirun", "--host", "algo-1:2,algo-2:2", "-np", "4", "--allow-run-as-root", "--display-map"]
    assert command[7:12] == ["--tag-output", "-bind-to", "none", "-map-by", "slot"]
    assert command[-len(RANKS) :] == RANKS
    assert parameters(command, "-mca") == {
        "pml": "ob1",
        "btl": "^openib",
        "btl_tcp_if_include": "eth0",
        "btl_vader_single_copy_mechanism": "none",
        "oob_tcp_if_include": "eth0",
        "orte_abort_on_non_zero_status": "1",
        "plm_rsh_no_tree_spawn": "1",
        "plm_rsh_args": "-F /run/ssh_config",
    }


def test_open_mpi_5_takes_the_parameters_of_its_own_run_time():
    command = mpi_command.build("mpirun", 5, RUN, RANKS)
    assert command[6:14] == ["--display", "map", "--output", "tag", "--bind-to", "none", "--map-by", "slot"]
    assert parameters(command, "--mca") == {"pml": "ob1", "btl_tcp_if_include": "eth0", "smsc": "^cma"}
    assert parameters(command, "--prtemca") == {
        "prte_if_include": "eth0",
        "plm_ssh_no_tree_spawn": "1",
        "plm_ssh_args": "-F /run/ssh_config",
    }
    assert not [word for word in command if "orte_" in word or "rsh" in word or "vader" in word]


def test_one_process_per_host_needs_no_number():
    command = mpi_command.build("mpirun", 4, Run(("algo-1", "algo-2"), 1, 2), RANKS)
    assert command[1:5] == ["--host", "algo-1,algo-2", "-np", "2"]


def test_a_single_host_needs_no_name_and_no_ssh():
    command = mpi_command.build("mpirun", 4, Run(("algo-1",), 2, 2), RANKS)
    assert command[2] == "localhost:2"
    assert not [word for word in command if "rsh" in word or "if_include" in word]


def test_the_jobs_own_options_stand_verbatim_after_the_toolkits():
    custom = mpi_command.read_custom('-x A=1 --mca btl tcp,self -x "B=two words" --NCCL_DEBUG WARN --verbose')
    assert custom.words == ("-x", "A=1", "--mca", "btl", "tcp,self", "-x", "B=two words", "--verbose")
    assert custom.exports == ("A", "B")
    assert custom.nccl_debug == "WARN"
    command = mpi_command.build("mpirun", 4, Run(("a", "b"), 1, 2, custom=custom), RANKS)
    place = command.index("A=1") - 1
    assert tuple(command[place:]) == (*custom.words, *RANKS)


def test_a_parameter_that_the_job_sets_is_not_set_by_the_toolkit():
    """Open MPI joins the values of one that is given twice."""
    for major in (4, 5):
        run = Run(
            ("a", "b"), 1, 2, "eth0", custom=mpi_command.read_custom("-mca pml ucx --prtemca prte_if_include eth1")
        )
        command = mpi_command.build("mpirun", major, run, RANKS)
        assert command.count("pml") == command.count("prte_if_include") == 1


@pytest.mark.parametrize("text", ["--NCCL_DEBUG=TRACE", "--NCCL_DEBUG TRACE"])
def test_nccl_debug_is_an_option_of_the_toolkit(text):
    assert mpi_command.read_custom(text) == Custom(nccl_debug="TRACE")


def test_options_with_an_open_quote_are_refused():
    with pytest.raises(errors.ClientError, match="sagemaker_mpi_custom_mpi_options"):
        mpi_command.read_custom("-x 'A=1")


def program(tmp_path, text: str) -> str:
    path = tmp_path / "mpirun"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("answer", "major"),
    [("mpirun (Open MPI) 4.1.4", 4), ("mpirun (Open MPI) 5.0.11", 5), ("prterun (PRRTE) 3.0.8", 3)],
)
def test_version(tmp_path, answer, major):
    assert mpi_command.version(program(tmp_path, f"echo '{answer}'")) == major


def test_another_mpi_is_refused_by_name(tmp_path):
    with pytest.raises(errors.ClientError, match=r"is not Open MPI's.*HYDRA build details"):
        mpi_command.version(program(tmp_path, "echo HYDRA build details:"))


def test_mpirun_that_does_not_start(tmp_path):
    with pytest.raises(errors.ClientError, match="gives no answer"):
        mpi_command.version(str(tmp_path / "missing"))


def test_missing_mpirun_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.ClientError, match="apt-get install openmpi-bin"):
        mpi_command.program()
