"""Requirements and packages, with the real pip against an index on a loopback port."""

from __future__ import annotations

import os
import re
import sys

import pytest
from sagemaker_training import requirements

from .index import Index, wheel


@pytest.fixture
def pip(job):
    """A job whose pip installs into a folder of its own, and knows no index but the test's."""
    site = job.base / "site"
    job.env.update(
        PIP_CONFIG_FILE=os.devnull, PIP_TARGET=str(site), PIP_NO_CACHE_DIR="1", PIP_RETRIES="0", PIP_TIMEOUT="5",
        PIP_NO_BUILD_ISOLATION="0", PIP_TRUSTED_HOST="127.0.0.1",
    )  # fmt: skip
    job.env["PYTHONPATH"] += os.pathsep + str(site)
    return job


@pytest.fixture
def index(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "lovely-numbers", "1.2")
    served = Index(folder)
    served.folder = folder
    yield served
    served.close()


USES_IT = "import lovely_numbers; print(lovely_numbers.VERSION)"


def test_users_index_is_honoured(pip, index):
    pip.env["PIP_INDEX_URL"] = index.url
    pip.code("requirements.txt", "lovely-numbers==1.2\n")
    pip.script(USES_IT)
    done = pip.run()
    assert done.code == 0, done.err
    assert done.out.endswith("1.2\n")
    assert "/simple/lovely-numbers/" in index.requests
    assert "Successfully installed lovely-numbers-1.2" in done.out  # pip's own output is in the log.


def test_pip_runs_in_the_code_folder(pip, index):
    wheel(pip.base / "code", "lovely-numbers", "9")
    pip.code("more.txt", "./lovely_numbers-9-py3-none-any.whl\n")
    pip.code("requirements.txt", "-r more.txt\n")
    pip.script(USES_IT)
    done = pip.run()
    assert done.out.endswith("9\n"), done.failure


# A Python that pip takes for the distribution's own.
EXTERNALLY_MANAGED = """\
import site, sys, sysconfig
sys.prefix = sys.base_prefix
site.ENABLE_USER_SITE = True
path = sysconfig.get_path
sysconfig.get_path = lambda name, *rest, **options: {!r} if name == "stdlib" else path(name, *rest, **options)
"""


@pytest.mark.parametrize("allowed", [True, False])
def test_a_python_of_the_distribution_takes_packages(pip, index, allowed):
    stdlib = pip.base / "stdlib"
    stdlib.mkdir()
    (stdlib / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=ask the administrator\n")
    (pip.base / "hook").mkdir()
    (pip.base / "hook/sitecustomize.py").write_text(EXTERNALLY_MANAGED.format(str(stdlib)))
    # pip looks at this only where it installs beside the interpreter or for the user.
    del pip.env["PIP_TARGET"]
    site = f"{pip.base}/user/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    pip.env["PYTHONPATH"] += f"{os.pathsep}{pip.base}/hook{os.pathsep}{site}"
    pip.env.update(PIP_USER="1", PYTHONUSERBASE=f"{pip.base}/user", PIP_INDEX_URL=index.url)
    if not allowed:
        pip.env["PIP_BREAK_SYSTEM_PACKAGES"] = "0"
    pip.code("requirements.txt", "lovely-numbers==1.2\n")
    pip.script(USES_IT)
    done = pip.run()
    if allowed:
        assert done.out.endswith("1.2\n"), done.err + done.failure
    else:
        assert done.code == 1
        assert "externally-managed-environment" in done.failure


def test_index_that_is_down(pip, index):
    pip.env["PIP_INDEX_URL"] = index.url
    index.close()
    pip.code("requirements.txt", "lovely-numbers\n")
    pip.script("print('must not run')")
    done = pip.run()
    assert done.code == 1
    assert "must not run" not in done.out
    first = done.failure.splitlines()[0]
    assert first.startswith("ERROR: No matching distribution found for lovely-numbers")
    assert "InstallRequirementsError: ExitCode 1" in done.failure
    assert "Could not find a version" in done.failure


def test_editable_requirement_without_git(pip):
    pip.code("requirements.txt", "-e git+file:///no/such/repository#egg=x\n")
    pip.script("print('must not run')")
    done = pip.run()
    assert done.code == 1
    assert "InstallRequirementsError" in done.failure
    assert len(done.failure.splitlines()) > 2
    assert "must not run" not in done.out


def test_empty_setup_py_beside_requirements(pip, index):
    pip.env["PIP_INDEX_URL"] = index.url
    pip.code("setup.py", "\n")
    pip.code("requirements.txt", "lovely-numbers\n")
    pip.script(USES_IT)
    done = pip.run()
    assert done.out.endswith("1.2\n"), done.failure


def test_package_that_cannot_be_installed(pip):
    pip.env["PIP_NO_BUILD_ISOLATION"] = "0"
    pip.env["PIP_NO_INDEX"] = "1"
    pip.code("setup.py", "raise SystemExit('broken on purpose')\n")
    pip.script("print('must not run')")
    done = pip.run()
    assert done.code == 1
    assert "InstallModuleError: ExitCode" in done.failure
    assert "must not run" not in done.out


def test_index_credentials_are_in_no_log_and_no_process_list(pip, tmp_path):
    (tmp_path / "w").mkdir()
    wheel(tmp_path / "w", "lovely-numbers", "1.2")
    private = Index(tmp_path / "w", password="p4ss-word-1")
    pip.env["PIP_INDEX_URL"] = private.url.replace("://", "://aws:p4ss-word-1@")
    pip.code("requirements.txt", "lovely-numbers\n")
    pip.script(USES_IT)
    done = pip.run()
    private.close()
    assert done.out.endswith("1.2\n"), done.failure
    assert "p4ss-word-1" not in done.out + done.err


CODEARTIFACT = """
import os
class client:
    def __init__(self, service, region_name=None, endpoint_url=None):
        assert (service, region_name, endpoint_url) == ("codeartifact", "eu-west-1", None)
    def get_authorization_token(self, **given):
        assert given == {"domain": "dom", "domainOwner": "123456789012"}
        return {"authorizationToken": "tok3n-of-codeartifact"}
    def get_repository_endpoint(self, **given):
        assert given == {"domain": "dom", "domainOwner": "123456789012", "repository": "repo", "format": "pypi"}
        return {"repositoryEndpoint": os.environ["ENDPOINT"]}
"""


@pytest.mark.parametrize("kind", ["requirements", "package"])
def test_codeartifact(pip, tmp_path, kind):
    (tmp_path / "w").mkdir()
    wheel(tmp_path / "w", "lovely-numbers", "1.2")
    private = Index(tmp_path / "w", password="tok3n-of-codeartifact")
    pip.fake_boto3(CODEARTIFACT)
    pip.env["PYTHONPATH"] += os.pathsep + str(pip.base / "site")
    pip.env.update(
        CA_REPOSITORY_ARN="arn:aws:codeartifact:eu-west-1:123456789012:repository/dom/repo",
        ENDPOINT=f"http://127.0.0.1:{private.port}/",
        PIP_INDEX_URL="http://127.0.0.1:9/",
    )
    pip.code("requirements.txt", "lovely-numbers\n")
    pip.script(USES_IT)
    if kind == "package":
        # What pip is told is what counts here; building a package would need an index with setuptools.
        pip.code("setup.py", "from setuptools import setup\nsetup()\n")
        uv = pip.base / "bin/uv"
        uv.parent.mkdir()
        uv.write_text('#!/bin/sh\ncat /proc/$$/cmdline | tr "\\0" " "; echo; echo "index $UV_DEFAULT_INDEX"\n')
        uv.chmod(0o755)
        pip.env.update(PATH=f"{uv.parent}:{pip.env['PATH']}", SLIPWAY_INSTALLER="uv")
        done = pip.run()
        assert f"index http://******@127.0.0.1:{private.port}/simple/" in done.out
        assert " . -r requirements.txt" in done.out
    else:
        done = pip.run()
        assert done.out.endswith("1.2\n"), done.failure
    private.close()
    assert "tok3n" not in done.out + done.err + done.failure


@pytest.mark.parametrize("arn", ["arn:aws:s3:::bucket", "nonsense", "arn:aws:codeartifact:r:1:repository/only"])
def test_codeartifact_arn_that_is_none(pip, arn):
    pip.env["CA_REPOSITORY_ARN"] = arn
    pip.code("requirements.txt", "x\n")
    pip.script("print('must not run')")
    done = pip.run()
    assert done.code == 1
    assert f"CA_REPOSITORY_ARN='{arn}' is no repository ARN" in done.failure


def test_unknown_installer(pip):
    pip.env["SLIPWAY_INSTALLER"] = "conda"
    pip.code("requirements.txt", "x\n")
    pip.script("print(1)")
    assert "SLIPWAY_INSTALLER='conda': use pip or uv." in pip.run().failure


def test_installer_that_is_missing(pip):
    pip.env.update(SLIPWAY_INSTALLER="uv", PATH="/usr/bin:/bin")
    pip.code("requirements.txt", "x\n")
    pip.script("print('must not run')")
    done = pip.run()
    assert done.code == 1
    assert "The installer cannot be started." in done.failure


@pytest.mark.parametrize(
    "line", ["sagemaker-training", "sagemaker_training==4.2.0", "SageMaker.Training[x]>=1 ; python_version>'3'"]
)
def test_reference_toolkit_in_requirements_is_left_out(pip, index, line):
    """It would be written over the running toolkit, which has the same import name."""
    wheel(
        index.folder,
        "sagemaker-training",
        "5.1.4",
        files={"sagemaker_training/__init__.py": "raise SystemExit('mixed')"},
    )
    pip.env["PIP_INDEX_URL"] = index.url
    pip.code("requirements.txt", f"{line} \\\n  --hash=sha256:{'0' * 64}\nlovely-numbers\n")
    pip.script(USES_IT + "; import sagemaker_training as s; print(s.__file__)")
    done = pip.run()
    assert done.code == 0, done.failure
    assert f"requirements.txt: {re.escape(line)}".split("\\")[0] in done.err.replace("'", "").replace('"', "")
    assert "is left out, this image's toolkit provides the same import name" in done.err
    assert not (pip.base / "site/sagemaker_training").exists()
    assert sorted(path.name for path in (pip.base / "code").iterdir() if path.name.startswith(".")) == []


def test_reference_toolkit_behind_another_package_is_refused(pip, index):
    """pip names the package that asks for it; nothing is written over the running toolkit."""
    wheel(
        index.folder,
        "sagemaker-training",
        "5.1.4",
        files={"sagemaker_training/__init__.py": "raise SystemExit('mixed')"},
    )
    wheel(index.folder, "wants-it", "1", requires="sagemaker-training>=4")
    pip.env["PIP_INDEX_URL"] = index.url
    pip.code("requirements.txt", "wants-it\n")
    pip.script("print('must not run')")
    done = pip.run()
    assert done.code == 1
    assert "wants-it" in done.out + done.err
    assert "sagemaker-training<0" in done.out + done.err
    assert not (pip.base / "site/sagemaker_training").exists()


def test_left_out_line_goes_with_its_continuation():
    text = "a==1 \\\n --hash=x\nsagemaker-training \\\n --hash=y \\\n --hash=z\nb\n"
    assert requirements._split(text) == ("a==1 \\\n --hash=x\nb\n", ["sagemaker-training"])


def test_other_requirements_are_read_as_they_are(tmp_path):
    (tmp_path / "requirements.txt").write_text(
        "sagemaker\nsagemaker-training-extras\n# sagemaker-training\nsagemaker-mxnet-training\n"
    )
    with requirements.effective(str(tmp_path)) as name:
        assert name == "requirements.txt"
    with requirements.effective(str(tmp_path / "nowhere")) as name:
        assert name == ""
