"""The cache of compiled kernels follows every file that has some: a changed helper elsewhere is never served stale."""

import ast
import hashlib
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import dualq
from dualq.base import kernel, kernel_cache
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


KEPT = """
import sys
import numpy as np
from dualq.base.kernels import kernel

@kernel
def ramp(n):
    x = np.empty(n)
    for i in range(n):
        x[i] = i
    return x

@kernel
def total(n):
    return ramp(n).sum()

print(ramp(4).tolist(), sum(ramp.stats.cache_hits.values()), "numba.misc.gdb_hook" in sys.modules)
if sys.argv[1:]:
    print(total(4), sum(total.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_kept_code_runs_without_what_compiles_and_new_code_may_call_it(tmp_path):
    (tmp_path / "kept.py").write_text(KEPT)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(*words):
        command = [sys.executable, "-B", "kept.py", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert run() == ["[0.0, 1.0, 2.0, 3.0] 0 True"]
    assert run() == ["[0.0, 1.0, 2.0, 3.0] 1 False"]
    assert run("total") == ["[0.0, 1.0, 2.0, 3.0] 1 False", "6.0 0"]
    assert run("total") == ["[0.0, 1.0, 2.0, 3.0] 1 False", "6.0 1"]


def double(x):
    return x + x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel_cache.cache_folder.cache_clear()
    yield kernel_cache.cache_folder()
    kernel_cache.cache_folder.cache_clear()


def hits(compiled) -> int:
    return sum(compiled.stats.cache_hits.values())


def test_code_is_kept_for_each_kind_of_argument(folder):
    first, later = kernel(double), kernel(double)
    assert (first(2), first(1.5), hits(first)) == (4, 3.0, 0)
    assert (later(1.5), later(2), hits(later)) == (3.0, 4, 2)


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_damaged_code_is_compiled_anew_and_replaced(folder):
    assert kernel(double)(2) == 4
    (path,) = folder.iterdir()
    whole, rng = path.read_bytes(), random.Random(0)
    places = [0, 31, 32, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(16))]
    flipped = [whole[:i] + bytes([whole[i] ^ 1 << rng.randrange(8)]) + whole[i + 1 :] for i in places]
    for damaged in (*flipped, b"", whole[:40], whole[:-1], whole + b"x", pickle.dumps(Bomb())):
        path.write_bytes(damaged)
        compiled = kernel(double)
        assert (compiled(2), hits(compiled)) == (4, 0)
        assert kernel_cache._content(path) is not None  # whole again
    again = kernel(double)
    assert (again(2), hits(again)) == (4, 1)


def test_whole_code_of_something_else_is_not_run(folder):
    """A file under the name of another: what it was compiled from stands inside."""
    assert kernel(double)(2) == 4
    (integers,) = folder.iterdir()
    assert kernel(double)(1.5) == 3.0
    (floats,) = set(folder.iterdir()) - {integers}
    shutil.copy(integers, floats)
    compiled = kernel(double)
    assert (compiled(1.5), hits(compiled)) == (3.0, 0)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_code_is_kept_only_where_nobody_else_can_write(folder, tmp_path, monkeypatch):
    assert folder.is_relative_to(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    kernel_cache.cache_folder.cache_clear()
    assert kernel_cache.cache_folder().is_relative_to(tmp_path / "xdg")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)  # whoever that is, these folders and files are not theirs
    path = tmp_path / "x"
    path.write_bytes(hashlib.sha256(b"code").digest() + b"code")
    assert kernel_cache._content(path) is None
    kernel_cache.cache_folder.cache_clear()
    assert kernel_cache.cache_folder() is None


def test_a_user_without_a_home_has_a_cache_too(tmp_path, monkeypatch):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    kernel_cache.cache_folder.cache_clear()
    assert kernel_cache.cache_folder().is_relative_to(tmp_path)
    kernel_cache.cache_folder.cache_clear()


def test_what_flows_in_from_outside_is_not_kept(folder):
    def shifted(by):
        return kernel(lambda x: x + by)

    assert [shifted(by)(1) for by in (1, 2)] == [2, 3]
    assert list(folder.iterdir()) == []


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
