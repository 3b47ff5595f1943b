"""Imports go downward only, without cycles, and docs/architecture.md names every module."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dualq"

# From the ground up. A room may import from the rooms before it; within a room (a folder) there are no cycles.
LAYERS = [
    "_version",
    "errors",
    "plain",
    "kernels",
    "labels",
    "files",
    "mdp",
    "chains",
    "policy",
    "limits",
    "solution",
    "rows",
    "logs",
    "walks",
    "simulator",
    "streams",
    "problems",
    "shipped",
    "saddle",
    "algorithms",
    "exact",
    "checkpoints",
    "tasks",
    "metrics",
    "proof",
    "certificate",
    "stopping",
    "costs",
    "margins",
    "training",
    "models",
    "experiments",
    "packing",
    "saved",
    "report",
    "frontiers",
    "trust",
    "fit",
    "learning",
    "learner",
    "cli",
    "__main__",
]


def modules() -> dict[str, Path]:
    """{dotted name below dualq: file} of every module, without the package's own door."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


def imported(source: str, name: str, known: set[str], is_package: bool = False) -> set[str]:
    """The modules of dualq that a module imports, anywhere in it: at the top or inside a function."""
    package = ["dualq", *name.split(".")] if is_package else ["dualq", *name.split(".")][:-1]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            # `from dualq.x import y`: y may be a module too
            targets = [
                t if t.removeprefix("dualq.") in known else base for t in (f"{base}.{a.name}" for a in node.names)
            ]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            targets = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        else:
            continue
        found |= {target.removeprefix("dualq.") for target in targets if target.split(".")[0] == "dualq"}
    return found - {name}


def upward(name: str, targets: set[str]) -> list[str]:
    """The imports that do not go down. `dualq` itself, the door, is above everything."""
    allowed = LAYERS[: LAYERS.index(name.split(".")[0]) + 1]
    return sorted(f"{name} imports {target}" for target in targets if target.split(".")[0] not in allowed)


def graph() -> dict[str, set[str]]:
    files = modules()
    return {n: imported(p.read_text(), n, set(files), p.name == "__init__.py") for n, p in files.items()}


def test_every_module_has_a_layer():
    rooms = {name.split(".")[0] for name in modules()}
    assert rooms == set(LAYERS)


def test_imports_go_downward():
    assert [line for name, targets in graph().items() for line in upward(name, targets)] == []


def test_there_are_no_cycles():
    TopologicalSorter(graph()).prepare()


def test_the_map_names_every_module():
    text = (ROOT / "docs" / "architecture.md").read_text()
    wanted = [path.relative_to(PACKAGE) for path in modules().values() if path.name != "__init__.py"]
    wanted = [path for path in wanted if not path.name.startswith("_")]
    lines = [line.split() for line in text.splitlines()]
    rooms = {line[0] for line in lines if line}
    named = {line[i] for line in lines for i in range(len(line))}
    for path in wanted:
        if len(path.parts) > 1:
            assert f"{path.parts[0]}/" in rooms
        assert path.name in named, f"docs/architecture.md does not name {path}"


def test_the_check_itself_sees_what_it_should():
    known = {"mdp", "models", "saddle", "saddle.gaps", "saddle.sets", "errors"}
    lazy = "def f():\n    from dualq.models import read_model\n    import dualq.errors\n"
    assert imported(lazy, "mdp", known) == {"models", "errors"}
    assert upward("mdp", {"models", "errors"}) == ["mdp imports models"]
    assert imported("from dualq import models, MDP", "mdp", known) == {"models", "dualq"}
    assert upward("mdp", {"dualq"}) == ["mdp imports dualq"]
    assert imported("from . import sets\nfrom ..mdp import MDP\nimport numpy", "saddle.gaps", known) == {
        "saddle.sets",
        "mdp",
    }
    assert imported("import_module('dualq.models')", "mdp", known) == {"models"}
    assert upward("saddle.gaps", {"saddle.sets", "mdp"}) == []
    with pytest.raises(CycleError):
        TopologicalSorter({"saddle.gaps": {"saddle.sets"}, "saddle.sets": {"saddle.gaps"}}).prepare()
