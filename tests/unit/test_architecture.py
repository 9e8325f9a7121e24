"""The house's rules, held to the code: what may import what, who may print, run programs or read the environment.

docs/architecture.md describes the layers for people; `LAYERS` is the same for this test.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT

# From the bottom up. A module imports from layers below its own, or from its own layer.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("files", "console", "process", "registry"),
    ("documents", "tables", "records", "base", "toolkits"),
    ("settings",),
    ("spec",),
    ("engine",),
    ("lock", "additions", "cuda"),
    ("plan", "stages"),
    ("render", "revision", "size", "preflight", "ecr", "local_registry"),
    ("build", "clean", "doctor", "emulator", "steps", "supply"),
    ("verify",),
    ("release",),
    ("clients",),
    ("commands",),
)
ALONE = {  # what only one module may use
    "print": {"console"},
    "subprocess": {"process"},
    "environ": {"settings", "process"},  # a child's environment is this process's and more
}
HEAVY = ("boto3", "docker", "jinja2", "pydantic", "rich", "uv")
SOURCES = sorted((ROOT / "slipway").rglob("*.py"))
IDS = [path.relative_to(ROOT).as_posix() for path in SOURCES]


def module(path: Path) -> str:
    """slipway/engine/bake.py -> engine.bake; the package itself -> nothing."""
    parts = path.relative_to(ROOT / "slipway").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def layer(name: str) -> int:
    top = name.split(".")[0]
    found = [height for height, names in enumerate(LAYERS) if top in names]
    assert found, f"slipway.{top} has no layer: give it one in {Path(__file__).name}"
    return found[0]


def imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each module that is imported, with its line; `from slipway import x` counts as slipway.x."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "slipway":
            yield from ((f"slipway.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield node.module or "", node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_imports_run_downward(path: Path) -> None:
    own = module(path)
    if not own:
        return
    for name, line in imports(ast.parse(path.read_text())):
        if name.startswith("slipway."):
            used = name.removeprefix("slipway.")
            assert used == "__version__" or layer(used) <= layer(own), f"line {line}: {own} imports {used} from above"
        assert name not in ("tasks", "tests"), f"line {line}"


def test_the_layers_hold_no_ring() -> None:
    """Modules of one layer may import one another, but not in a ring."""
    below: dict[str, set[str]] = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        typed = {id(node) for test in ast.walk(tree) if _type_checking(test) for node in ast.walk(test)}
        used = below.setdefault(module(path).split(".")[0], set())
        for node in tree.body:
            if id(node) in typed:
                continue
            for name, _ in imports(ast.Module([node], [])):
                if name.startswith("slipway."):
                    used.add(name.split(".")[1])
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above[above.index(name) :], name))
        if name not in done:
            for other in below.get(name, set()) - {name}:
                visit(other, (*above, name))
            done.add(name)

    for name in sorted(below):
        visit(name, ())


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_one_place_for_each_touch_of_the_machine(path: Path) -> None:
    own = module(path)
    for node in ast.walk(ast.parse(path.read_text())):
        used = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            used = "print"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            used = "subprocess" if "subprocess" in names else ""
        elif isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"):
            used = "environ"
        assert not used or own in ALONE[used], f"line {getattr(node, 'lineno', 0)}: {used} outside {ALONE[used]}"


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_modules_stay_readable(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "say in a docstring what the module is"
    assert "shell=True" not in text


TOOLKITS = sorted(path for path in (ROOT / "toolkits").rglob("*.py") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("path", TOOLKITS, ids=[path.relative_to(ROOT).as_posix() for path in TOOLKITS])
def test_toolkits_stand_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert not [name for name in names if name.split(".")[0] == "slipway"]


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import slipway", HEAVY),
        ("import tasks", HEAVY),
        (
            "import tasks; from invoke.context import Context; tasks.list_.body(Context())",
            ("boto3", "docker", "jinja2", "rich", "uv"),
        ),
        (
            "import tasks; from invoke.context import Context; tasks.plan.body(Context())",
            ("boto3", "docker", "jinja2", "rich", "uv"),
        ),
    ],
    ids=["import", "--list", "list", "plan"],
)
def test_what_is_heavy_is_imported_only_when_needed(code: str, absent: tuple[str, ...]) -> None:
    script = f"{code}\nimport sys\nsys.exit(' '.join(n for n in {absent!r} if n in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"imported: {done.stderr.splitlines()[-1]}"


def test_the_front_door_has_no_logic() -> None:
    """Bodies of tasks hand their options on: no loops, no conditions."""
    for node in ast.walk(ast.parse((ROOT / "tasks.py").read_text())):
        assert not isinstance(node, (ast.For, ast.While, ast.If, ast.Try, ast.With, ast.comprehension)), node.lineno
