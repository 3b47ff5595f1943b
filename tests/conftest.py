"""Property tests draw the same examples every time, and none fails because a machine is slow.

Tests run in several processes, each with a cache of compiled kernels of its own: two that write into one at the same
time can leave a file behind that crashes whoever loads it (seen with QuantEcon's on a fresh machine).
"""

import os
from pathlib import Path

if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # before anything imports Numba
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache" / "numba" / worker)

import pytest
from hypothesis import settings

settings.register_profile("dualq", deadline=None, derandomize=True)
settings.load_profile("dualq")


@pytest.fixture(autouse=True)
def no_progress_on_slow_machines(monkeypatch):
    """Where a stage lasts it is named on standard error; what tests read there does not depend on the time it takes."""
    monkeypatch.setattr("dualq.app.cli.shared.SHOW_AFTER", 3600.0)
