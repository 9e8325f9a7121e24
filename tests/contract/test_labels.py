"""Labels and tags: what an image says of itself, and whether it is so."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from slipway.verify.inspection import Inspection

FAMILY = "com.amazonaws.ml.engines.sagemaker.dlc."
OCI = "org.opencontainers.image."
MOST = 10
DISTRIBUTIONS = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "mxnet": ("mxnet",),
    # An image without a framework has the version of its toolkit.
    "base": ("slipway-training", "slipway-inference"),
}
CUDA_ARCHITECTURES = "io.slipway.cuda.architectures"
NO_FRAMEWORK = "base"  # the name of images that bring none; their version is the toolkits'
MACHINES = {"x86": "x86_64", "arm64": "aarch64"}
TAG = re.compile(
    r"(?P<version>\d[^-]*)(?:-(?P<library>[a-z]+)(?P<of_library>\d[^-]*))?-(?P<device>cpu|gpu)-py(?P<python>\d+)(?:-cu(?P<cuda>\d+))?-(?P<os>[a-z]+[\d.]+)\b.*"
)


def family(config: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of the labels of AWS's family, as (`os`, `debian12`)."""
    names = [label.removeprefix(FAMILY) for label in config["Labels"] if label.startswith(FAMILY)]
    return [(kind, fact) for kind, _, fact in (name.partition(".") for name in sorted(names))]


def test_labels_present(config: dict[str, Any]) -> None:
    labels = config["Labels"]
    missing = [
        OCI + name for name in ("title", "description", "version", "revision", "created") if not labels.get(OCI + name)
    ]
    kinds = {kind for kind, _ in family(config)}
    missing += [
        f"{FAMILY}{kind}.*" for kind in ("framework", "device", "arch", "python", "os", "job") if kind not in kinds
    ]
    assert not missing, f"there is no label {', '.join(missing)}"
    try:
        datetime.fromisoformat(labels[OCI + "created"].replace("Z", "+00:00"))
    except ValueError:
        raise AssertionError(f"{OCI}created is no time: {labels[OCI + 'created']!r}") from None


def test_labels_few(config: dict[str, Any]) -> None:
    found = family(config)
    assert len(found) <= MOST, f"{len(found)} labels: {', '.join(f'{kind}.{fact}' for kind, fact in found)}"


def test_labels_true(config: dict[str, Any], looked: Inspection, reference: str, kind: str) -> None:
    facts = looked.facts
    labels = config["Labels"]
    named = {(name, fact.partition(".")[0]) for name, fact in family(config)}
    wrong = [
        f"the label {FAMILY}{name}.{fact} says {name} {fact}, the image holds {held}"
        for name, fact in family(config)
        if (held := contradiction(name, fact, facts, kind))
    ]
    # `2.13.0-cpu-py311-debian12`: both the label and the name that the image goes by.
    for where, tag in ((f"the label {OCI}version", labels[OCI + "version"]), ("the tag", reference.rpartition(":")[2])):
        parts = TAG.fullmatch(tag)
        if parts is None:
            continue
        versions = {framework_version(facts, name) for name in DISTRIBUTIONS} - {""}
        library = parts["library"]
        if library and not same_version(parts["of_library"], framework_version(facts, library)):
            held = framework_version(facts, library) or f"no {library}"
            wrong.append(f"{where} {tag} says {library} {parts['of_library']}, the image holds {held}")
        if ("framework", NO_FRAMEWORK) not in named and not any(
            same_version(parts["version"], version) for version in versions
        ):
            wrong.append(
                f"{where} {tag} says version {parts['version']}, the image holds {', '.join(sorted(versions))}"
            )
        on = parts["device"] + (f".cu{parts['cuda']}" if parts["cuda"] else "")
        for name, fact in (("python", f"py{parts['python']}"), ("os", parts["os"]), ("device", on)):
            held = contradiction(name, fact, facts, kind)
            if held:
                wrong.append(f"{where} {tag} says {name} {fact.removeprefix('py')}, the image holds {held}")
    if CUDA_ARCHITECTURES in labels:
        said, held = labels[CUDA_ARCHITECTURES].split(), facts["cuda_architectures"]
        if sorted(said) != sorted(held):
            shown = f"the framework is compiled for {' '.join(held) or 'no GPU'}"
            wrong.append(f"the label {CUDA_ARCHITECTURES} says {' '.join(said)}, {shown}")
    assert not wrong, "\n".join(wrong)


def contradiction(name: str, fact: str, facts: dict[str, Any], kind: str) -> str:
    """What the image holds in place of what it says; empty where that is so, or where it cannot be told."""
    if name in ("framework", "lib"):
        framework, _, version = fact.partition(".")
        if framework == NO_FRAMEWORK:
            return ""
        held = framework_version(facts, framework)
        return "" if same_version(version.replace("-", "."), held) else held or "no such package"
    if name == "python":
        held = "py" + "".join(facts["python"].split(".")[:2])
    elif name == "os":
        held = facts["os"]
    elif name == "arch":
        held, fact = facts["machine"], MACHINES.get(fact, fact)
    elif name == "device":
        said, _, cuda = fact.partition(".")
        held = device(facts)
        if said == held and cuda and (runtime := cuda_runtime(facts)):
            held = f"{held}.{runtime}"
        else:
            fact = said
    elif name == "job":
        held = kind.rpartition("-")[2]
    else:
        return ""
    return "" if held == fact else str(held)


def device(facts: dict[str, Any]) -> str:
    """`gpu` when the framework brings CUDA's libraries along."""
    return (
        "gpu" if any(name.startswith(("nvidia-cuda-runtime", "nvidia-cublas")) for name in facts["packages"]) else "cpu"
    )


def cuda_runtime(facts: dict[str, Any]) -> str:
    """`cu130`, by the runtime that comes as a wheel; empty where none does."""
    versions = (v for name, v in facts["packages"].items() if re.fullmatch(r"nvidia-cuda-runtime(-cu\d+)?", name))
    return next(("cu" + "".join(version.split(".")[:2]) for version in versions), "")


def framework_version(facts: dict[str, Any], framework: str) -> str:
    """The installed version of a framework, under whichever name its builds have; empty when there is none."""
    names = DISTRIBUTIONS.get(framework, (framework,))
    return next((str(facts["packages"][name]) for name in names if name in facts["packages"]), "")


def same_version(said: str, held: str) -> bool:
    """Whether a version is the one that was said, which may leave out the local part (`+cpu`)."""
    return said in (held, held.partition("+")[0], held.replace("+", "."))
