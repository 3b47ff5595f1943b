"""Property tests draw the same examples every time, and none fails because a machine is slow."""

import pytest
from hypothesis import settings

settings.register_profile("dualq", deadline=None, derandomize=True)
settings.load_profile("dualq")


@pytest.fixture(autouse=True)
def no_progress_on_slow_machines(monkeypatch):
    """Where a stage lasts it is named on standard error; what tests read there does not depend on the time it takes."""
    monkeypatch.setattr("dualq.cli.shared.SHOW_AFTER", 3600.0)
