"""Plan -> a folder that builds by itself. Pure: the same plan and sources give the same bytes.

    docker-bake.json     every stage as a target; `docker buildx bake` builds the images
    build.sh             makes what the stages need from outside (root filesystem, toolkit wheels), then bakes
    <stage>/Dockerfile   with the stage's lock.txt, host.env and wheels/ beside it
    toolkits/            the toolkits' sources
    empty/               what optional inputs stand for when nothing is given

Nothing of the host is written into it: wheel folders, settings and certificates enter as bake variables.
"""

from __future__ import annotations

import json
import re
import shlex
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway import cuda, toolkits
from slipway.base import EPOCH, Base, Pulled, Recipe, describe
from slipway.errors import Fault, SpecError
from slipway.plan import Plan
from slipway.spec.model import Image, Sources
from slipway.stages import Stage

if TYPE_CHECKING:
    from jinja2 import Environment

CA_VARIABLE = "HOST_CA"
WHEELS_VARIABLE = "WHEELS"
LICENCES = "Apache-2.0 AND LicenseRef-license.txt"
"""An SPDX expression: what is ours is under the one; which licences the packages are under, /license.txt says."""
CAPABILITY = "com.amazonaws.sagemaker.capabilities."
_FOLDER = "dockerfiles/"


@dataclass(frozen=True)
class Rendering:
    """Files by path relative to the folder, and those among them that are executable."""

    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset({"build.sh"})


def render(plan: Plan, sources: Sources, labels: Mapping[str, Mapping[str, str]]) -> Rendering:
    """Render a plan. `labels` holds the labels of each image by its ID."""
    templates = _environment(sources)
    files: dict[str, str | bytes] = {"empty/nothing": ""}
    for stage in plan.stages:
        files |= _stage_files(stage, templates, sources)
    for name in sorted({name for stage in plan.stages for name in stage.toolkits}):
        files |= {f"toolkits/{name}/{path}": content for path, content in sources.toolkits[name].items()}
    files["docker-bake.json"] = json.dumps(_bake(plan, labels), indent=2) + "\n"
    files["build.sh"] = _build_script(plan, templates)
    return Rendering({path: text.encode() if isinstance(text, str) else text for path, text in sorted(files.items())})


def target_name(stage: str) -> str:
    """A stage's name as bake allows it: without dots."""
    return stage.replace(".", "_")


def host_variable(stage: str) -> str:
    """The bake variable that names a stage's file of host settings."""
    return "HOST_ENV_" + _variable(stage)


def wheels_variable(stage: str) -> str:
    """The bake variable that names a stage's folder of wheels that the host already has."""
    return f"{WHEELS_VARIABLE}_{_variable(stage)}"


def _variable(stage: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", stage.upper())


def _environment(sources: Sources) -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def source(name: str) -> tuple[str, str, None] | None:
        return (sources.templates[name], _FOLDER + name, None) if name in sources.templates else None

    return Environment(
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _text(templates: Environment, name: str, **values: object) -> str:
    """One template's text. Raises SpecError that names file and line when it is wrong, or names what is not known."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        return templates.get_template(name).render(**values)
    except TemplateError as error:
        place = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        place = [(file, line) for file, line in place if file.startswith(_FOLDER)] or [(_FOLDER + name, None)]
        if isinstance(error, TemplateSyntaxError):
            place.append((error.filename or _FOLDER + name, error.lineno))
        file, line = place[-1]
        raise SpecError("a template is wrong", faults=[Fault(error.message or str(error), "", file, line)]) from None


def _stage_files(stage: Stage, templates: Environment, sources: Sources) -> dict[str, str | bytes]:
    held = toolkits_of(stage.toolkits, sources)
    values = {
        **stage.values,
        "toolkits": [toolkit.distribution for toolkit in held],
        "setups": [toolkit.setup for toolkit in held if toolkit.setup],
        "extras": stage.extras,
    }
    files: dict[str, str | bytes] = {
        f"{stage.name}/Dockerfile": _text(templates, stage.template, **values, stage=stage.name, epoch=EPOCH).lstrip(
            "\n"
        )
    }
    for name in stage.extras:
        files[f"{stage.name}/files/{name.removesuffix('.j2')}"] = _text(templates, name)
    if stage.needs_host:
        files[f"{stage.name}/host.env"] = _default_host_settings(stage)
    if stage.lock:
        files[f"{stage.name}/lock.txt"] = stage.pins
    if stage.toolkits:
        files[f"{stage.name}/wheels/.keep"] = ""
    return files


def _default_host_settings(stage: Stage) -> str:
    lines = [
        "# Read by the stage's RUN as shell variables; never part of a layer. Add the network's own settings here."
    ]
    if stage.wheel_index:
        lines.append(f"UV_INDEX={shlex.quote(stage.wheel_index)}")
    return "".join(f"{line}\n" for line in lines)


def _bake(plan: Plan, labels: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    variables: dict[str, Any] = {
        CA_VARIABLE: {"default": "empty/nothing"},
        WHEELS_VARIABLE: {"default": "empty"},
    }
    for stage in plan.stages:
        if stage.needs_host:
            variables[host_variable(stage.name)] = {"default": f"{stage.name}/host.env"}
        if stage.takes_wheels:
            variables[wheels_variable(stage.name)] = {"default": f"${{{WHEELS_VARIABLE}}}"}
    return {
        "variable": variables,
        "group": {"default": {"targets": [target_name(image.id) for image in plan.images]}},
        "target": {target_name(stage.name): _target(stage, plan, labels) for stage in plan.stages},
    }


# BuildKit may run a step on behalf of any target that stands on it, and then asks that target for the step's secrets:
# each target can give those of every stage below it.
def _target(stage: Stage, plan: Plan, labels: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    target: dict[str, Any] = {
        "context": stage.name,
        "platforms": [stage.platform],
        "args": {"SOURCE_DATE_EPOCH": str(EPOCH)},
    }
    contexts = {name: f"target:{target_name(parent)}" for name, parent in stage.parents.items()}
    if stage.takes_wheels:
        contexts["wheels"] = f"${{{wheels_variable(stage.name)}}}"
    if contexts:
        target["contexts"] = contexts
    asking = [below.name for below in plan.below(stage) if below.needs_host]
    if asking:
        target["secret"] = [
            *(f"id=host-{name},src=${{{host_variable(name)}}}" for name in asking),
            f"id=ca,src=${{{CA_VARIABLE}}}",
        ]
    if stage.image is not None:
        target["tags"] = [stage.image.reference]
        target["labels"] = dict(sorted(labels[stage.image.id].items()))
        target["output"] = ["type=docker"]
    return target


def _build_script(plan: Plan, templates: Environment) -> str:
    recipes = {}
    for stage in plan.stages:
        base = plan.bases[stage.os]
        if stage.template.startswith("base") and isinstance(base, Recipe):
            target = f"{stage.name}/{stage.values['rootfs']}"
            recipes[target] = base.script(f"{target}.part")
    folders = {stage.name: [f"./toolkits/{name}" for name in stage.toolkits] for stage in plan.stages if stage.toolkits}
    return _text(templates, "build.sh.j2", recipes=recipes, toolkits=folders, epoch=EPOCH)


def toolkits_of(names: Iterable[str], sources: Sources) -> list[toolkits.Toolkit]:
    return [toolkits.read(name, sources.toolkits[name].get("pyproject.toml")) for name in names]


def write(rendering: Rendering, folder: Path) -> None:
    """Write a rendering into a folder. What else lies there stays: other renderings' files, and what builds made."""
    from slipway.files import write_whole

    for path, content in rendering.files.items():
        target = folder / path
        mode = 0o755 if path in rendering.executable else 0o644
        if not target.is_file() or target.read_bytes() != content:
            write_whole(target, content, mode=mode)


def labels(
    image: Image, *, revision: str, created: str, base: Base, held: Sequence[toolkits.Toolkit] = ()
) -> dict[str, str]:
    """The labels of an image: OCI's annotations, the family that users of AWS's images query, and what SageMaker may
    ask of it: the capabilities of the toolkits that it holds.

    Only what is true of every image of the cell is claimed. `created` is ISO 8601.
    """
    dlc = "com.amazonaws.ml.engines.sagemaker.dlc"
    machine = {"amd64": "x86", "arm64": "arm64"}[image.architecture]
    device = f"gpu.cu{image.cuda.replace('.', '')}" if image.cuda else image.processor
    facts = [
        f"framework.{image.ground[0].framework}.{_dashed(image.version)}",
        f"device.{device}",
        f"arch.{machine}",
        f"python.py{image.python.replace('.', '')}",
        f"os.{image.os}",
        f"job.{image.scope}",
        "contributor.slipway",
    ]
    if image.library:
        facts.append(f"lib.{image.library}.{_dashed(image.library_version)}")
    if image.scope == "inference":
        facts += [f"inference-toolkit.{_dashed(toolkit.version)}" for toolkit in held if toolkit.folder == "inference"]
    found = {f"{dlc}.{fact}": "true" for fact in facts}
    found |= {f"{CAPABILITY}{name}": "true" for toolkit in held for name in toolkit.capabilities}
    if image.cuda and (driver := cuda.minimum_driver(image.cuda)):
        found[cuda.DRIVER] = driver
    if image.cuda_architectures:
        found[cuda.ARCHITECTURES] = " ".join(image.cuda_architectures)
    name, _, digest = base.reference.partition("@") if isinstance(base, Pulled) else (describe(base), "", "")
    opencontainers = {
        "title": image.id,
        "description": f"{image.framework} {image.release} for SageMaker {image.scope} on {image.processor}",
        "version": image.tag,
        "revision": revision,
        "created": created,
        "base.name": name,
        "base.digest": digest,
        "licenses": LICENCES,
    }
    found |= {f"org.opencontainers.image.{name}": value for name, value in opencontainers.items() if value}
    return found


def _dashed(version: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", version)
