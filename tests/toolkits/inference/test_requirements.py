"""code/requirements.txt, with the real pip, indexes on loopback ports, and Pythons of several kinds."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from sagemaker_inference import overlay, requirements

from . import disks
from .index import Index, wheel

SOURCE = Path(requirements.__file__).parents[1]


@dataclass
class Done:
    code: int
    log: str

    @property
    def reason(self) -> str:
        return self.log.splitlines()[-1]


class Model:
    """A model's code folder, and the program that installs its requirements."""

    def __init__(self, base: Path) -> None:
        self.code = base / "model" / "code"
        self.code.mkdir(parents=True)
        self.folder = base / "packages"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(base),
            "PYTHONPATH": str(SOURCE),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
            "PIP_RETRIES": "1",
        }

    def write(self, text: str, name: str = "requirements.txt") -> Path:
        path = self.code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            requirements.command(str(self.code), str(self.folder)),
            env=self.env, cwd="/", stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def install(self) -> Done:
        process = self.start()
        _, log = process.communicate(timeout=120)
        return Done(process.returncode, log)

    def run(self, text: str) -> str:
        """What a program prints that runs as the model's processes do."""
        environ = {**self.env, **overlay.environ(str(self.folder), self.env)}
        done = subprocess.run(
            [overlay.python(str(self.folder)), "-c", text],
            env=environ,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def model(tmp_path):
    return Model(tmp_path)


@pytest.fixture
def index(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "lovely-numbers", "1.2")
    served = Index(folder)
    served.folder = folder
    yield served
    served.close()


VERSION = "import lovely_numbers; print(lovely_numbers.VERSION)"


def test_installed_from_the_users_index_for_this_model_alone(model, index):
    model.env["PIP_INDEX_URL"] = index.url
    model.write("lovely-numbers==1.2\n")
    done = model.install()
    assert done.code == 0, done.log
    assert model.run(VERSION) == "1.2"
    assert "/simple/lovely-numbers/" in index.requests
    # Progress: what is lacking before, pip's own lines between, the time after.
    lines = done.log.splitlines()
    assert "installing, since these are not there: lovely-numbers==1.2 (missing)" in lines[0]
    assert "Successfully installed lovely-numbers-1.2" in done.log
    assert "installed in " in lines[-1]
    # Nothing reached the Python of the image.
    assert subprocess.run([sys.executable, "-c", VERSION], env=model.env, capture_output=True).returncode != 0


def test_satisfied_requirements_start_no_pip(model, index):
    model.env["PIP_INDEX_URL"] = index.url
    model.write(
        """\
        # a comment, and a line that goes on
        pytest \\
            >= 1
        PyTest>=1 ; python_version >= "3"  # by another spelling
        not-there ; python_version < "3"
        --index-url https://example.invalid/simple
        -r more/more.txt
        -c constraints.txt
        """
    )
    model.write("\ufeffpackaging --hash=sha256:00\n", "more/more.txt")
    model.write("packaging>=1\n", "constraints.txt")
    done = model.install()
    assert done.code == 0
    assert done.log.endswith("requirements.txt: everything is installed already\n")
    assert index.requests == []
    assert not model.folder.exists()
    assert overlay.python(str(model.folder)) == sys.executable
    assert overlay.environ(str(model.folder), model.env) == {}


@pytest.mark.parametrize(
    "line",
    [
        "packaging<1",
        "lovely-numbers",
        "needs-lovely",
        "needs-lovely[more]",
        "-r absent.txt",
        "packaging @ file:///x.whl",
    ],
)
def test_what_is_lacking_is_named(model, line, tmp_path):
    """The version, the package, what a package that is there needs, what its extra needs."""
    wheel(tmp_path, "needs-lovely", requires="lovely-numbers ; extra == 'more'" if "[" in line else "lovely-numbers")
    site = tmp_path / "site"
    model.env["PYTHONPATH"] += os.pathsep + str(site)
    model.env["PIP_NO_INDEX"] = "1"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "-t", site, *tmp_path.glob("*.whl")],
        check=True,
    )
    model.write(line + "\n")
    done = model.install()
    assert done.code == requirements.FAILED
    lacking = "lovely-numbers" if "lovely" in line else line.split()[0]
    assert lacking in done.log.splitlines()[0]


def test_constraint_that_is_not_met_starts_pip(model):
    model.env["PIP_NO_INDEX"] = "1"
    model.write("packaging\n-c constraints.txt\n")
    model.write("packaging<1\n", "constraints.txt")
    done = model.install()
    assert "packaging (" in done.log.splitlines()[0]
    assert done.code == requirements.FAILED


def test_local_wheels_and_relative_paths_without_a_network(model):
    wheel(model.code, "lovely-numbers", "9", requires="packaging")
    (model.code / "wheels").mkdir()
    wheel(model.code / "wheels", "other-numbers", "3")
    model.env["PIP_NO_INDEX"] = "1"
    model.write("lovely_numbers-9-py3-none-any.whl\n-r more/more.txt\n--find-links wheels\n")
    model.write("other-numbers\n", "more/more.txt")
    done = model.install()
    assert done.code == 0, done.log
    assert model.run(VERSION + "; import other_numbers; print(other_numbers.VERSION)") == "9\n3"


def test_other_version_stands_in_front_of_the_images(model, index):
    wheel(index.folder, "packaging", "99")
    model.env["PIP_INDEX_URL"] = index.url
    model.write("packaging==99\n")
    done = model.install()
    assert done.code == 0, done.log
    assert "lovely" not in done.log
    assert model.run("import packaging; print(packaging.VERSION); import pytest") == "99"
    # The image's own is as it was.
    assert subprocess.run([sys.executable, "-c", "import packaging.version"], env=model.env).returncode == 0


def test_programs_of_packages_are_found(model, index):
    files = {
        "tool.py": "def main(): print('from the tool')\n",
        "a_tool-1.0.dist-info/entry_points.txt": "[console_scripts]\na-tool = tool:main\n",
    }
    wheel(index.folder, "a-tool", files=files)
    model.env["PIP_INDEX_URL"] = index.url
    model.write("a-tool\n")
    assert model.install().code == 0
    assert model.run("import subprocess; print(subprocess.check_output(['a-tool']).decode())") == "from the tool"


def test_users_modules_do_not_stand_in_for_those_of_pip(model, index):
    model.env["PIP_INDEX_URL"] = index.url
    for name in ("logging.py", "email.py", "pip.py"):
        model.write("raise SystemExit('the wrong module')\n", name)
    model.write("lovely-numbers\n")
    assert model.install().code == 0


def test_no_index_answers(model, index):
    model.env["PIP_INDEX_URL"] = index.url
    index.close()
    model.write("lovely-numbers\n")
    done = model.install()
    assert done.code == requirements.FAILED
    assert "requirements.txt cannot be installed: No matching distribution found for lovely-numbers" in done.reason
    assert "PIP_INDEX_URL or CA_REPOSITORY_ARN" in done.reason
    assert "wheels into code/" in done.reason
    assert "exit code 1" in done.reason


def test_package_that_does_not_exist(model, index):
    model.env["PIP_INDEX_URL"] = index.url
    model.write("lovely-numbers==7\n")
    done = model.install()
    assert done.code == requirements.FAILED
    assert "No matching distribution found for lovely-numbers==7" in done.reason
    assert "PIP_INDEX_URL" not in done.reason  # The index did answer.


def test_credentials_are_in_no_log_and_no_process_list(model, index):
    private = Index(index.folder, password="p4ss-word-1")
    model.env["PIP_INDEX_URL"] = private.url.replace("://", "://aws:p4ss-word-1@")
    model.env["MY_TOKEN"] = "s3cret-t0ken"
    model.write("lovely-numbers\n")
    # A build prints what it likes, and pip passes it on when it fails.
    package = model.code / "package"
    package.mkdir()
    (package / "setup.py").write_text(
        "import os, subprocess\n"
        "ps = subprocess.check_output(['ps', '-eo', 'args']).decode()\n"
        "assert 'p4ss-word-1' not in ps\n"
        "raise SystemExit('token ' + os.environ['MY_TOKEN'] + ' of ' + os.environ['PIP_INDEX_URL'])\n"
    )
    assert model.install().code == 0
    model.write("./package\n")
    model.env["PIP_NO_BUILD_ISOLATION"] = "0"
    done = model.install()
    private.close()
    assert done.code == requirements.FAILED
    assert "token ****** of http://" in done.log
    assert "p4ss-word-1" not in done.log
    assert "s3cret-t0ken" not in done.log


BOTO3 = """
import errno
import os
class client:
    def __init__(self, service, region_name=None):
        assert (service, region_name) == ("codeartifact", "eu-west-1")
    def get_authorization_token(self, **given):
        assert given == {"domain": "dom", "domainOwner": "123456789012"}
        if "REFUSED" in os.environ:
            raise RuntimeError("AccessDeniedException")
        return {"authorizationToken": "tok3n-of-codeartifact"}
    def get_repository_endpoint(self, **given):
        assert given == {"domain": "dom", "domainOwner": "123456789012", "repository": "repo", "format": "pypi"}
        return {"repositoryEndpoint": os.environ["ENDPOINT"]}
"""


@pytest.fixture
def codeartifact(model, index, tmp_path):
    private = Index(index.folder, password="tok3n-of-codeartifact")
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "boto3.py").write_text(BOTO3)
    model.env["PYTHONPATH"] = f"{fake}{os.pathsep}{SOURCE}"
    model.env.update(
        CA_REPOSITORY_ARN="arn:aws:codeartifact:eu-west-1:123456789012:repository/dom/repo",
        ENDPOINT=f"http://127.0.0.1:{private.port}/",
        PIP_INDEX_URL="http://127.0.0.1:9/",
    )
    model.write("lovely-numbers\n")
    yield model
    private.close()


def test_codeartifact(codeartifact):
    done = codeartifact.install()
    assert done.code == 0, done.log
    assert codeartifact.run(VERSION) == "1.2"
    assert "tok3n-of-codeartifact" not in done.log


def test_codeartifact_that_gives_no_access(codeartifact):
    codeartifact.env["REFUSED"] = "yes"
    done = codeartifact.install()
    assert done.code == requirements.FAILED
    assert "repository/dom/repo gives no access: RuntimeError: AccessDeniedException" in done.reason


def test_codeartifact_with_a_malformed_arn(codeartifact):
    codeartifact.env["CA_REPOSITORY_ARN"] = "arn:aws:s3:::bucket"
    done = codeartifact.install()
    assert done.code == requirements.FAILED
    assert "CA_REPOSITORY_ARN='arn:aws:s3:::bucket' is no repository ARN" in done.reason


def test_codeartifact_is_not_asked_when_nothing_is_lacking(codeartifact):
    codeartifact.env["REFUSED"] = "yes"
    codeartifact.write("packaging\n")
    assert codeartifact.install().code == 0


def test_replaced_toolkits_are_left_out(model, index):
    wheel(index.folder, "sagemaker-inference", "1.10.1")
    model.env["PIP_INDEX_URL"] = index.url
    model.write("sagemaker_inference>=1.5 \\\n  ; python_version > '3'\nmulti-model-server\n-r more/more.txt\n")
    model.write("lovely-numbers\n", "more/more.txt")
    done = model.install()
    assert done.code == 0, done.log
    assert "'sagemaker_inference>=1.5 ; python_version > '3'' is left out" in done.log.replace('"', "'")
    assert "'multi-model-server' is left out" in done.log
    assert "/simple/sagemaker-inference/" not in index.requests
    assert model.run(VERSION) == "1.2"


def test_package_that_brings_a_replaced_toolkit_is_refused(model, index):
    wheel(index.folder, "sagemaker-inference", "1.10.1")
    wheel(index.folder, "handler", requires="sagemaker-inference")
    model.env["PIP_INDEX_URL"] = index.url
    model.write("handler\n")
    done = model.install()
    assert done.code == requirements.FAILED
    assert "sagemaker-inference" in done.log


@pytest.mark.parametrize("place", ["lib/requirements.txt", "../requirements.txt"])
def test_file_in_a_wrong_place_is_named_with_the_right_one(model, place):
    assert not requirements.present(str(model.code))
    wrong = model.write("lovely-numbers\n", place)
    assert requirements.present(str(model.code))
    done = model.install()
    assert done.code == 0
    assert os.path.normpath(wrong) in done.log
    assert str(model.code / "requirements.txt") in done.log


def test_no_requirements(model):
    assert not requirements.present(str(model.code))
    assert model.install() == Done(0, "")


def test_stop_ends_pip(model, tmp_path):
    """A stop in the middle of an installation leaves no process behind."""
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    package = model.code / "package"
    package.mkdir()
    (package / "setup.py").write_text(
        f"import os, time\nopen({str(fifo)!r}, 'w').write(str(os.getppid()))\ntime.sleep(600)\n"
    )
    model.env["PIP_NO_BUILD_ISOLATION"] = "0"
    model.write("./package\n")
    process = model.start()
    fifo.read_text()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    marks = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(model.folder) not in marks


def test_temporary_folder_that_cannot_be_written(model, index, tmp_path):
    model.env["PIP_INDEX_URL"] = index.url
    model.write("lovely-numbers\n")
    model.folder.write_text("in the way")
    done = model.install()
    assert done.code == requirements.FAILED
    assert str(model.folder) in done.reason


def test_a_disk_that_is_full_is_named(model, index, tmp_path):
    """A real one: the environment fits, the package does not."""
    wheel(index.folder, "large-numbers", files={"large_numbers.py": "#" * (8 << 20)})
    model.env["PIP_INDEX_URL"] = index.url
    model.write("large-numbers\n")
    with disks.small(tmp_path / "disk", "size=2m") as disk:
        model.folder = disk / "packages"
        done = model.install()
    assert done.code == requirements.FAILED
    assert "No space left on device" in done.reason
    assert f"MB are free at {disk}/packages: name a folder on a larger disk by TMPDIR" in done.reason


@pytest.mark.parametrize("step", ["environment", "pip"])
def test_a_step_that_finds_the_disk_full_says_where(model, monkeypatch, step):
    full = OSError(errno.ENOSPC, "No space left on device", str(model.folder))

    def make(folder):
        if step == "environment":
            raise full
        Path(folder).mkdir()

    monkeypatch.setattr(requirements.overlay, "make", make)
    monkeypatch.setattr(requirements, "_run", lambda *_: (1, [f"ERROR: Could not install packages: {full}"]))
    model.write("lovely-numbers\n")
    with pytest.raises(requirements.RequirementsError, match="No space left on device") as raised:
        requirements.install(str(model.code), str(model.folder), model.env)
    assert str(model.folder) in str(raised.value)
    assert ("by TMPDIR" in str(raised.value)) == (step == "pip")
