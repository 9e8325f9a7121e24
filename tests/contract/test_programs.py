"""Programs that SageMaker and users call."""

from __future__ import annotations

from slipway.verify.inspection import Inspection


def test_programs_shell(looked: Inspection) -> None:
    needed = ["bash", *(["torchrun"] if "torch" in looked.facts.get("packages", {}) else [])]
    missing = [name for name in needed if not looked.programs[name]]
    assert not missing, f"not on PATH: {', '.join(missing)}"


def test_programs_interpreter(looked: Inspection) -> None:
    found = looked.programs["python3"] or looked.programs["python"]
    assert found, "neither python3 nor python is on PATH"
    assert looked.facts, f"{found} could not look around:\n{looked.said}"


def test_programs_python(looked: Inspection) -> None:
    missing = [name for name in ("python", "python3", "pip", "pip3") if not looked.programs[name]]
    assert not missing, f"not on PATH: {', '.join(missing)}"
    prefixes = looked.facts["interpreters"]
    shown = ", ".join(f"{looked.programs[name]} belongs to {prefix}" for name, prefix in prefixes.items())
    assert len(set(prefixes.values())) == 1, f"not of one interpreter: {shown}"


def test_programs_packages(looked: Inspection) -> None:
    code, said = looked.facts["pip_check"]
    assert code == 0, said.strip()


def test_programs_libraries(looked: Inspection) -> None:
    found = looked.facts["libraries"]
    assert "failed" not in found, found["failed"]
    problems = [f"{path} is not a whole shared object" for path in found["broken"]]
    problems += [f"{path} needs {', '.join(names)}, which nothing brings" for path, names in found["lacking"].items()]
    problems += [f"{path} cannot be loaded: {why}" for path, why in found["unloadable"].items()]
    assert not problems, "\n".join(problems)


def test_programs_framework(looked: Inspection) -> None:
    problems = [
        f"import {name} fails:\n{said.strip()}" for name, (code, said) in looked.facts["imports"].items() if code
    ]
    assert not problems, "\n".join(problems)
