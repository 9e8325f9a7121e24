"""Programs of an image that trains, and those that it must not have."""

from __future__ import annotations

from slipway.verify.inspection import Inspection

# aiohttp is not among them: it is the HTTP client of fsspec, through which datasets are read.
SERVERS = {
    *("bentoml", "bottle", "cherrypy", "fastapi", "flask", "gevent", "granian", "gunicorn", "hypercorn"),
    *(
        "litserve",
        "multi-model-server",
        "starlette",
        "torchserve",
        "tornado",
        "twisted",
        "uvicorn",
        "waitress",
        "werkzeug",
    ),
}
TOOLKIT = "slipway-training"
DRIVER_MODULES = ("boto3", "mpi4py.MPI", "paramiko")


def test_programs_train(looked: Inspection) -> None:
    path = looked.programs["train"]
    installed = "is installed without its program" if TOOLKIT in looked.facts["packages"] else "is not installed"
    assert path, f"train is not on PATH: the toolkit package {TOOLKIT} {installed}"
    problems = [f"as {who}: {what}" for who, what in looked.facts["train"].items() if what]
    assert not problems, f"{path} cannot be executed " + "; ".join(problems)


def test_programs_drivers(looked: Inspection) -> None:
    problems = [f"{name} is not on PATH" for name in ("mpirun", "ssh", "sshd") if not looked.programs[name]]
    if looked.programs["sshd"] not in ("", "/usr/sbin/sshd"):
        problems.append(f"sshd is {looked.programs['sshd']}, and is started as /usr/sbin/sshd")
    problems += [f"there is no {name} to import" for name in DRIVER_MODULES if name not in looked.facts["imports"]]
    assert not problems, "; ".join(problems)


def test_programs_no_server(looked: Inspection) -> None:
    packages = looked.facts["packages"].keys()
    found = SERVERS & packages
    if "tensorboard" in packages:
        found -= {"werkzeug"}  # the viewer of logs, which TensorFlow 2.15 requires, is made with it; nothing starts it
    assert not found, f"web servers are installed: {', '.join(sorted(found))}"
