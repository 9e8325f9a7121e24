"""The rendering: the same bytes every time, nothing of the host, templates that name only what exists."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slipway import base, build, plan, render, settings, toolkits
from slipway.errors import SpecError
from slipway.render import Rendering
from slipway.spec import load
from slipway.spec.model import Image, Sources

from .conftest import ROOT, image_of, lock_all

IMAGE = "small-training-1.2.0-cpu-py311"
DIGEST = "sha256:" + "0123456789abcdef" * 4
PROGRAMS = Path(sys.executable).parent

Write = Callable[[str, str], Path]


def rendered(project: Path, **given: str) -> Rendering:
    sources = load.read_sources(project)
    made = plan.plan(load.load(project).buildable, sources, {"debian12": base.of("debian12", **given)})
    rendering, _ = build.rendering(made, sources, settings.read(project=project))
    return rendering


def bake_of(rendering: Rendering) -> dict[str, dict[str, dict[str, object]]]:
    found: dict[str, dict[str, dict[str, object]]] = json.loads(rendering.files["docker-bake.json"])
    return found


def test_the_same_project_gives_the_same_bytes_in_every_process(project: Path) -> None:
    script = (
        "import hashlib, sys\n"
        "from pathlib import Path\n"
        "from slipway import base, build, plan, settings\n"
        "from slipway.spec import load\n"
        "root = Path(sys.argv[1])\n"
        "sources = load.read_sources(root)\n"
        "made = plan.plan(load.load(root).buildable, sources, {'debian12': base.of('debian12')})\n"
        "rendering, _ = build.rendering(made, sources, settings.read(project=root, environment={}))\n"
        "print(hashlib.sha256(repr(sorted(rendering.files.items())).encode()).hexdigest())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script, project],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "4242")
    }
    here = hashlib.sha256(repr(sorted(rendered(project).files.items())).encode()).hexdigest()
    assert found == {here}


def test_every_stage_has_its_folder(project: Path) -> None:
    files = rendered(project).files
    assert f"{IMAGE}/Dockerfile" in files
    assert (
        files["small-1.2.0-cpu-py311/lock.txt"]
        == (project / "buildspec/locks/small-1.2.0-cpu-py311/common.txt").read_bytes()
    )
    assert files["toolkits/training/small_toolkit.py"] == (project / "toolkits/training/small_toolkit.py").read_bytes()
    assert files["small-1.2.0-cpu-py311/host.env"].endswith(b"UV_INDEX=https://wheels.example/cpu\n")
    assert b"small_toolkit" in files[f"{IMAGE}/Dockerfile"]


def test_it_is_written_as_it_stands_and_only_what_changed(project: Path, tmp_path: Path) -> None:
    rendering, folder = rendered(project), tmp_path / "out"
    render.write(rendering, folder)
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == dict(rendering.files)
    assert os.access(folder / "build.sh", os.X_OK)
    before = (folder / "docker-bake.json").stat().st_ino
    (folder / "build.sh").write_text("other")
    render.write(rendering, folder)
    assert (folder / "docker-bake.json").stat().st_ino == before
    assert (folder / "build.sh").read_bytes() == rendering.files["build.sh"]


def test_bake_gets_names_that_it_takes_and_paths_inside_the_folder(project: Path) -> None:
    bake = bake_of(rendered(project))
    names = [*bake["target"], *bake["variable"], *bake["group"]]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in names)
    assert bake["group"]["default"]["targets"] == [render.target_name(IMAGE), "small-training-1_1_0-cpu-py311"]
    text = json.dumps(bake)
    assert set(re.findall(r"\$\{(\w+)\}", text)) <= set(bake["variable"])
    assert all(not str(value["default"]).startswith(("/", "~")) for value in bake["variable"].values())
    for target in bake["target"].values():
        assert not str(target["context"]).startswith("/")
        contexts = target.get("contexts", {})
        assert isinstance(contexts, dict)
        for where in contexts.values():
            kind, _, name = where.partition(":")
            assert (kind == "target" and name in bake["target"]) or re.fullmatch(r"\$\{WHEELS_\w+\}", where)


def test_only_images_are_handed_to_the_engine(project: Path) -> None:
    targets = bake_of(rendered(project))["target"]
    handed = {name for name, target in targets.items() if "output" in target or "tags" in target}
    assert handed == {render.target_name(IMAGE), "small-training-1_1_0-cpu-py311"}
    assert targets[render.target_name(IMAGE)]["tags"] == ["small-training:1.2.0-cpu-py311-debian12-dev"]


def test_nothing_of_the_host_is_in_it(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = rendered(project)
    text = b"\n".join(content for path, content in plain.files.items() if not path.startswith("toolkits/"))
    for word in (str(project), str(tmp_path), str(Path.home()), os.uname().nodename, os.environ.get("USER", "-")):
        if len(word) > 5:
            assert word.encode() not in text
    pip_conf = tmp_path / "pip.conf"
    pip_conf.write_text("[global]\nindex-url = https://me:hidden-word@index.example\nfind-links = /some/wheels\n")
    for name, value in {
        "PIP_CONFIG_FILE": str(pip_conf),
        "HTTPS_PROXY": "http://me:hidden-word@proxy.example",
        "SLIPWAY_WHEEL_INDEX": "https://me:hidden-word@wheels.example",
    }.items():
        monkeypatch.setenv(name, value)
    assert rendered(project) == plain


def test_what_the_host_hands_over_is_a_private_file(project: Path) -> None:
    """The other half of the promise above: it does reach the build, as shell assignments that survive any value."""
    pip = settings.PipSettings(
        index_url="https://me:it's $(a) secret@index.example",
        extra_index_urls=("file:///here", "https://extra.example"),
        find_links=("/here", "https://links.example"),
        cert="/etc/ca.pem",
        trusted_hosts=("index.example",),
    )
    text = build.host_settings(pip, {"https_proxy": "http://p:1"}, "https://framework.example")
    names = re.findall(r"^(\w+)=", text, re.MULTILINE)
    script = text + "".join(f'printf "%s\\n" "{name} ${name}"\n' for name in names)
    read = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True).stdout
    assert dict(line.split(" ", 1) for line in read.splitlines()) == {
        "PIP_CERT": "/run/secrets/ca",
        "PIP_EXTRA_INDEX_URL": "https://extra.example",
        "PIP_FIND_LINKS": "https://links.example",
        "PIP_INDEX_URL": "https://me:it's $(a) secret@index.example",
        "PIP_TRUSTED_HOST": "index.example",
        "REQUESTS_CA_BUNDLE": "/run/secrets/ca",
        "SSL_CERT_FILE": "/run/secrets/ca",
        "UV_DEFAULT_INDEX": "https://me:it's $(a) secret@index.example",
        "UV_FIND_LINKS": "https://links.example",
        "UV_INDEX": "https://framework.example https://extra.example",
        "UV_INSECURE_HOST": "index.example",
        "https_proxy": "http://p:1",
    }
    assert build.host_settings(settings.PipSettings(index_url="file:///here"), {}, "") == ""


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "training.Dockerfile.j2",
            "FROM parent\n{{ unheard_of }}\n",
            "dockerfiles/training.Dockerfile.j2:2: 'unheard_of' is undefined",
        ),
        (
            "training.Dockerfile.j2",
            "FROM parent\n\n{% if %}\n",
            "dockerfiles/training.Dockerfile.j2:3: Expected an expression",
        ),
        ("build.sh.j2", "{{ recipes.unheard_of }}", "dockerfiles/build.sh.j2:1:"),
        ("base.Dockerfile.j2", '{% import "other.j2" as other %}', "dockerfiles/base.Dockerfile.j2:1: other.j2"),
    ],
)
def test_a_template_that_is_wrong_is_told_with_its_line(
    project: Path, write: Write, name: str, text: str, told: str
) -> None:
    write(f"dockerfiles/{name}", text)
    with pytest.raises(SpecError, match="a template is wrong") as caught:
        rendered(project)
    assert told in str(caught.value)


def test_a_macro_that_is_wrong_is_told_where_it_stands(project: Path, write: Write) -> None:
    text = (project / "dockerfiles/install.j2").read_text()
    write("dockerfiles/install.j2", text.replace("touch /tmp/.mark", "{{ unheard_of }}"))
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if "touch /tmp/.mark" in line)
    with pytest.raises(SpecError) as caught:
        rendered(project)
    assert f"dockerfiles/install.j2:{line}: 'unheard_of' is undefined" in str(caught.value)


def test_a_toolkit_without_a_project_file_is_told(project: Path) -> None:
    sources = load.read_sources(project)
    broken = replace(sources, toolkits={"training": {"x.py": b""}})
    with pytest.raises(SpecError, match=r"toolkits/training has no pyproject\.toml"):
        plan.plan(load.load(project).buildable, broken, {"debian12": base.of("debian12")})


def test_templates_read_like_dockerfiles() -> None:
    for path in sorted((ROOT / "dockerfiles").glob("*.j2")):
        depth = deepest = 0
        for word in re.findall(r"{%-?\s*(if|endif)\b", path.read_text()):
            depth += 1 if word == "if" else -1
            deepest = max(deepest, depth)
        assert deepest <= 2, f"{path.name} nests its conditions {deepest} deep"


def programs_output(name: str, *words: str | Path) -> str:
    """Run a linter of the development set; one that is missing is a failure."""
    program = PROGRAMS / name
    assert program.is_file(), f"install the development packages: {name} is missing"
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def sources_of_all() -> tuple[Sources, tuple[Image, ...]]:
    return load.read_sources(ROOT), load.load(ROOT).buildable


@pytest.mark.parametrize("given", [{}, {"base": f"debian@{DIGEST}"}], ids=["bootstrap", "pulled"])
def test_linters_find_nothing_in_any_rendering(given: dict[str, str], tmp_path: Path, project: Path) -> None:
    (project / "buildspec" / "small.yml").write_text(
        (project / "buildspec" / "small.yml")
        .read_text()
        .replace("cpu: {}", 'gpu: {cuda: "13.0", cuda-architectures: [sm_80]}')
        .replace("small==1.1.0]", "small==1.1.0, nvidia-cuda-runtime==13.0.96]")
    )
    lock_all(project)
    sources, images = sources_of_all()
    bases = {image.os: base.of(image.os, **given) for image in images}
    all_cells = render.render(plan.plan(images, sources, bases), sources, {image.id: {} for image in images})
    render.write(all_cells, tmp_path / "all")
    render.write(rendered(project, **given), tmp_path / "small")
    dockerfiles = sorted(tmp_path.glob("*/*/Dockerfile"))
    assert len(dockerfiles) > 10
    assert programs_output("hadolint", *dockerfiles, *(ROOT / "examples").glob("*/Dockerfile")) == ""
    assert programs_output("shellcheck", *tmp_path.glob("*/build.sh")) == ""


def test_every_ignored_rule_says_why() -> None:
    for path in sorted((ROOT / "dockerfiles").glob("*.Dockerfile.j2")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if "hadolint ignore" in line:
                rules = line.split("=")[1]
                if rules not in WELL_KNOWN:
                    assert lines[number - 1].startswith("#"), (
                        f"{path.name}:{number + 1} ignores {rules} without a reason"
                    )


# DL3006 wants a tag on FROM, which a stage's name has not; SC1091 cannot follow a file that exists only in the build.
WELL_KNOWN = {"DL3006", "SC1091"}


def test_labels_are_those_that_users_query(project: Path) -> None:
    image = replace(image_of(project), version="2.1.0+cu130", processor="gpu", cuda="13.0", python="3.12")
    found = render.labels(image, revision="abc", created="2026-01-01T00:00:00+00:00", base=base.of("debian12"))
    dlc = "com.amazonaws.ml.engines.sagemaker.dlc."
    ours = {name.removeprefix(dlc) for name in found if name.startswith(dlc)}
    assert {"framework.small.2-1-0-cu130", "device.gpu.cu130", "arch.x86", "python.py312", "job.training"} <= ours
    assert len(ours) <= 10
    assert all(found[dlc + name] == "true" for name in ours)
    assert found["org.opencontainers.image.revision"] == "abc"
    assert found["org.opencontainers.image.licenses"] == "Apache-2.0 AND LicenseRef-license.txt"
    assert found["org.opencontainers.image.created"] == "2026-01-01T00:00:00+00:00"
    assert all(found.values()), "a label that says nothing is left out"


def test_an_inference_image_says_what_its_toolkit_can_do(project: Path) -> None:
    held = [toolkits.Toolkit("inference", "slipway_inference", "1.2.0", "", ("multi-models",))]
    image = replace(image_of(project), scope="inference")
    found = render.labels(image, revision="", created="", base=base.of("debian12"), held=held)
    assert found["com.amazonaws.sagemaker.capabilities.multi-models"] == "true"
    assert found["com.amazonaws.ml.engines.sagemaker.dlc.inference-toolkit.1-2-0"] == "true"
    assert not any(name.endswith("bidirectional-streaming") for name in found)
