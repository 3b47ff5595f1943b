"""The house: ten rooms, arrows between them as docs/architecture.md draws them, and each room entered by its face."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from dualq.base.faces import names_of

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dualq"
MAP = (ROOT / "docs" / "architecture.md").read_text()
AT_THE_ROOT = {"__init__.py", "__main__.py", "_version.py", "py.typed"}

# What a fit shows of itself is written by the report: the one arrow that points up, inside functions only.
LATE = {("offline", "app")}


def arrows() -> dict[str, set[str]]:
    """{room: rooms it may import from}, as the table of the map says."""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", MAP, flags=re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", those)) for room, those in rows}


ARROWS = arrows()


def modules() -> dict[str, Path]:
    """{dotted name below dualq: file} of every module, without the package's own door."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


def imported(source: str, known: set[str]) -> set[tuple[str, bool]]:
    """(module of dualq, whether at the top of the file) for every import of a source."""
    tree = ast.parse(source)
    inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports say where from, in full"
            # `from dualq.x import y`: y may be a module too
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [t if t.removeprefix("dualq.") in known else node.module or "" for t in whole]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            targets = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        else:
            continue
        top = node not in inside
        found |= {(t.removeprefix("dualq."), top) for t in targets if t.split(".")[0] == "dualq"}
    return found


def room_of(name: str) -> str:
    return name.split(".")[0]


def against_the_map(name: str, targets: set[tuple[str, bool]]) -> list[str]:
    """Imports of a module that no arrow allows. `dualq` itself, the door, is above everything."""
    room, wrong = room_of(name), []
    for target, top in targets:
        other = room_of(target)
        late = not top and (room, other) in LATE
        if other not in {room, "_version", "base"} and other not in ARROWS[room] and not late:
            wrong.append(f"{name} imports {target}")
    return sorted(wrong)


def past_the_face(name: str, targets: set[tuple[str, bool]], faces: dict[str, set[str]]) -> list[str]:
    """Imports from inside another room, where its face should be asked."""
    deep = [t for t, _ in targets if "." in t and room_of(t) != room_of(name) and t != "base.faces"]
    return sorted(f"{name} imports {t}" for t in deep if t.split(".", 1)[1] not in faces[room_of(t)])


@cache
def graph() -> dict[str, set[tuple[str, bool]]]:
    files = modules()
    return {name: imported(path.read_text(), set(files)) for name, path in files.items()}


def inner() -> dict[str, set[tuple[str, bool]]]:
    """The graph without the faces themselves and what starts the program."""
    return {name: targets for name, targets in graph().items() if name not in {*ARROWS, "_version", "__main__"}}


def test_the_root_holds_ten_rooms_and_the_door():
    here = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert here == AT_THE_ROOT | set(ARROWS)
    assert len(ARROWS) <= 10


def test_imports_follow_the_arrows():
    assert [line for name, targets in inner().items() for line in against_the_map(name, targets)] == []


def test_rooms_are_entered_by_their_faces():
    faces = {room: set(names_of((PACKAGE / room / "__init__.py").read_text())) for room in ARROWS}
    assert [line for name, targets in inner().items() for line in past_the_face(name, targets, faces)] == []


def test_a_face_names_what_exists_and_no_more_than_what_is_used():
    """A name on a face that nobody outside the room asks for is no joint."""
    text = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    for room in ARROWS:
        own = PACKAGE / room
        outside = "\n".join(t for path, t in text.items() if own not in path.parents)
        asked = set(
            re.findall(r"\w+", "\n".join(re.findall(rf"from dualq\.{room} import ([^\n(]+|\([^)]*\))", outside)))
        )
        for name, (home, there) in names_of((own / "__init__.py").read_text()).items():
            file = PACKAGE.parent / Path(*home.split(".")) / f"{there}.py"
            assert file.exists() or re.search(rf"^(def|class) {there}\b|^{there}\b", text[module_file(home)], re.M)
            assert name in asked, f"nobody outside {room} asks for {name}"


def module_file(dotted: str) -> Path:
    path = PACKAGE.parent / Path(*dotted.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_no_file_is_too_long_and_few_annotations_allow_anything():
    sources = [path.read_text() for path in modules().values()]
    assert max(len(source.splitlines()) for source in sources) <= 500
    names = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    assert sum(node.id == "Any" for node in names) < 60


def test_the_arrows_have_no_cycles():
    TopologicalSorter(ARROWS).prepare()


def test_there_are_no_cycles_within_the_rooms():
    known = modules()
    # a face only names things; what is asked of it is loaded later
    TopologicalSorter({n: {t for t, _ in ts if t in known} - set(ARROWS) for n, ts in inner().items()}).prepare()


def test_the_map_names_every_module():
    lines = [line.split() for line in MAP.splitlines()]
    named = {word for line in lines for word in line}
    for path in modules().values():
        if path.name != "__init__.py" and path.name not in AT_THE_ROOT:
            assert path.name in named, f"docs/architecture.md does not name {path.relative_to(PACKAGE)}"


def test_the_check_itself_sees_what_it_should():
    known = {"model.mdp", "model.models", "proof.floors", "base.errors", "app.report"}
    lazy = "def f():\n    from dualq.model.models import read_model\nimport dualq.base.errors\n"
    assert imported(lazy, known) == {("model.models", False), ("base.errors", True)}
    assert imported("from dualq.model import models, MDP", known) == {("model.models", True), ("model", True)}
    assert imported("import_module('dualq.app.report')", known) == {("app.report", True)}
    assert against_the_map("model.mdp", {("proof.floors", True)}) == ["model.mdp imports proof.floors"]
    assert against_the_map("model.mdp", {("dualq", True)}) == ["model.mdp imports dualq"]
    assert against_the_map("offline.fit", {("app.report", True)}) == ["offline.fit imports app.report"]
    assert against_the_map("offline.fit", {("app.report", False), ("base.errors", True)}) == []
    faces = {"model": {"MDP", "models"}, "proof": {"certificate_of"}}
    assert past_the_face("offline.fit", {("model", True), ("model.models", True)}, faces) == []
    assert past_the_face("offline.fit", {("proof.floors", True)}, faces) == ["offline.fit imports proof.floors"]
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
