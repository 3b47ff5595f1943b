"""Lines that promises rest on are broken one by one, in a copy of the package: the tests must notice (mutants.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import MUTANTS

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "dualq"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package, to be broken and mended again."""
    folder = tmp_path_factory.mktemp("copy") / "dualq"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def ran(copy: Path, tests) -> subprocess.CompletedProcess:
    """The tests with the copy in the place of the package; kernels as plain Python, which needs no compiling."""
    where = {"PYTHONPATH": str(copy.parent), "NUMBA_DISABLE_JIT": "1"}
    where |= {"PYTHONDONTWRITEBYTECODE": "1", "DUALQ_MUTANT": "1"}
    words = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*words, *tests], cwd=TESTS, env=os.environ | where, capture_output=True, text=True, timeout=600
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_the_line_is_still_there(mutant):
    text = (SOURCE / mutant.file).read_text()
    found = text.count(mutant.line)
    assert found == 1, f"{mutant.file} has {found} times {mutant.line!r}; tests/mutants.py must follow the code"
    assert mutant.broken != mutant.line


def test_there_are_enough_of_them():
    assert len(MUTANTS) >= 30
    assert len({mutant.what for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.slow
def test_what_is_not_broken_passes(copy):
    """Else a broken line would be noticed for nothing; and it is the copy that is tested."""
    done = ran(copy, sorted({test for mutant in MUTANTS for test in mutant.tests}))
    assert done.returncode == 0, done.stdout[-2000:]
    where = "import dualq; print(dualq.__file__)"
    env = os.environ | {"PYTHONPATH": str(copy.parent)}
    found = subprocess.run([sys.executable, "-c", where], cwd=TESTS, env=env, capture_output=True, text=True)
    assert Path(found.stdout.strip()).parent == copy


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_broken_line_is_noticed(copy, mutant):
    file = copy / mutant.file
    text = file.read_text()
    assert text.count(mutant.line) == 1
    file.write_text(text.replace(mutant.line, mutant.broken))
    try:
        done = ran(copy, mutant.tests)
    finally:
        file.write_text(text)
    assert done.returncode == 1, f"nobody noticed {mutant.what!r}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
