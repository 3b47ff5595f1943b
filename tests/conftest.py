"""Property tests draw the same examples every time, and none fails because a machine is slow.

Tests run in several processes. They share the cache of dualq's kernels, so that what one has compiled the others load.
Other packages that compile (QuantEcon) have a cache for each process: two that write into one at the same time can
leave a file behind that crashes whoever loads it (seen on a fresh machine).

Where Python is told to write no bytecode, as in many containers, every process would compile the sources of all that it
imports, for seconds: then they are kept beside the kernels. Where sources are broken on purpose (test_mutants.py),
bytecode could outlive its source, and nothing is kept.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

for library in ("OMP", "OPENBLAS", "MKL"):  # there are as many processes as cores: more threads would only wait
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

CACHE = Path(__file__).parent.parent / ".pytest_cache"
KERNELS = CACHE / "numba"
os.environ.setdefault("NUMBA_CACHE_DIR", str(KERNELS / "shared"))  # processes that tests start inherit it

settings.register_profile("dualq", deadline=None, derandomize=True)
settings.load_profile("dualq")


def pytest_configure(config):
    """Once dualq's kernels have their folder, what others compile goes elsewhere."""
    if sys.dont_write_bytecode and "DUALQ_MUTANT" not in os.environ:
        keep_bytecode()
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):  # else others run the tests
        import_module("dualq.base.kernels")
        import_module("numba.core.config").CACHE_DIR = str(KERNELS / os.environ.get("PYTEST_XDIST_WORKER", "alone"))


def pytest_collection_modifyitems(items):
    """What waits for a browser begins first: the others fill the time."""
    items.sort(key=lambda item: "browser" not in item.nodeid)


def keep_bytecode():
    """This process, and all that it starts, keep the bytecode of what they import in the cache of the tests."""
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(CACHE / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True)
def no_progress_on_slow_machines(monkeypatch):
    """Where a stage lasts it is named on standard error; what tests read there does not depend on the time it takes."""
    monkeypatch.setattr("dualq.app.cli.shared.SHOW_AFTER", 3600.0)
