"""Property tests draw the same examples every time, and none fails because a machine is slow.

Tests run in several processes. They share the cache of dualq's kernels, so that what one has compiled the others load.
Other packages that compile (QuantEcon) have a cache for each process: two that write into one at the same time can
leave a file behind that crashes whoever loads it (seen on a fresh machine).
"""

import os
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

for library in ("OMP", "OPENBLAS", "MKL"):  # there are as many processes as cores: more threads would only wait
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

CACHE = Path(__file__).parent.parent / ".pytest_cache" / "numba"
os.environ.setdefault("NUMBA_CACHE_DIR", str(CACHE / "shared"))  # processes that tests start inherit it

settings.register_profile("dualq", deadline=None, derandomize=True)
settings.load_profile("dualq")


def pytest_configure():
    """Once dualq's kernels have their folder, what others compile goes elsewhere."""
    import_module("dualq.base.kernels")
    import_module("numba.core.config").CACHE_DIR = str(CACHE / os.environ.get("PYTEST_XDIST_WORKER", "alone"))


@pytest.fixture(autouse=True)
def no_progress_on_slow_machines(monkeypatch):
    """Where a stage lasts it is named on standard error; what tests read there does not depend on the time it takes."""
    monkeypatch.setattr("dualq.app.cli.shared.SHOW_AFTER", 3600.0)
