"""The cache of compiled kernels follows every file that has some: a changed helper elsewhere is never served stale."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import dualq
from dualq.base import kernels
from dualq.base.faces import names_of

CALLER = """
from dualq.base.kernels import kernel
from dualq.helper import step

@kernel
def walk(n):
    total = 0.0
    for _ in range(n):
        total += step()
    return total

print(walk(10))
"""


def test_a_changed_helper_in_another_file_is_compiled_anew(tmp_path):
    package = tmp_path / "dualq"
    shutil.copytree(Path(dualq.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "caller.py").write_text(CALLER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(value):
        helper = f"from dualq.base.kernels import kernel\n\n@kernel\ndef step():\n    return {value}\n"
        (package / "helper.py").write_text(helper)
        command = [sys.executable, "-B", "-c", "import dualq.caller"]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert [run(1.0), run(1.0), run(2.5)] == [10.0, 10.0, 25.0]
    assert len(list((tmp_path / "cache" / "dualq").iterdir())) == 2  # one folder per state of the sources


def double(x):
    return x + x


def test_processes_that_compile_at_the_same_time_do_not_mix_their_code(tmp_path, monkeypatch):
    """Two processes find the cache empty; the other one stores its code while this one is about to."""
    monkeypatch.setattr(kernels, "_CACHE_DIR", str(tmp_path))
    this, other, later = (kernels.kernel(double) for _ in range(3))
    files = this._cache._cache_file
    store = files._save_data
    monkeypatch.setattr(other._cache._cache_file, "_load_index", dict)
    monkeypatch.setattr(files, "_save_data", lambda name, data: (other(1.5), store(name, data)))
    assert this(2) == 4
    assert later(1.5) == 3.0  # with one name for both, this was the machine code for integers
    assert sum(later.stats.cache_hits.values()) == 1


def borrowed(source: str) -> set[tuple[str, str]]:
    """(module, name) of what the kernels of a source use of dualq's other files."""
    tree = ast.parse(source)
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "dualq" in (node.module or "")]
    homes = {alias.asname or alias.name: (line.module, alias.name) for line in lines for alias in line.names}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    kernels = [f for f in functions if any(getattr(d, "id", "") == "kernel" for d in f.decorator_list)]
    used = {n.id for f in kernels for line in f.body for n in ast.walk(line) if isinstance(n, ast.Name)}
    return {homes[name] for name in used & set(homes)}


def test_kernels_use_nothing_that_the_cache_does_not_follow():
    package = Path(dualq.__file__).parent
    files = {path: path.read_text() for path in package.rglob("*.py")}
    found = {home for text in files.values() if "@kernel" in text for home in borrowed(text)}
    assert len(found) > 10
    for module, name in found:
        path = package.parent / Path(*module.split("."))
        if path.is_dir():
            module, _ = names_of(files[path / "__init__.py"])[name]
            path = package.parent / Path(*module.split("."))
        assert "@kernel" in files[path.with_suffix(".py")], f"{name} of {module} is used in a kernel"


def test_borrowed_names_are_found():
    source = (
        "from dualq.model import SMALL, MDP\n@kernel\ndef f(n: MDP):\n    return n + SMALL\ndef g():\n    return MDP\n"
    )
    assert borrowed(source) == {("dualq.model", "SMALL")}
