"""Each campaign in small; by hand they are run in thousands (docs/robustness.md)."""

from __future__ import annotations

import subprocess
import sys

import command_lines
import hard_times
import kills
import pytest
import strange_logs


@pytest.mark.slow
def test_command_lines_that_nobody_should_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command_lines.prepare(tmp_path)
    assert [str(fault) for fault in command_lines.faults(40, seed=5)] == []


@pytest.mark.slow
def test_jobs_that_are_killed():
    """In a process of its own, which has started no engine: forks have no threads."""
    done = subprocess.run([sys.executable, kills.__file__, "3", "5", "learn"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["full output", "largest size of a file", "log that changes", "SIGINT while threads learn"]
)
def test_hard_times(case):
    assert dict(hard_times.faults([case])) == {}


@pytest.mark.slow
def test_logs_that_nobody_tidied(tmp_path):
    assert [str(fault) for fault in strange_logs.faults(8, seed=5, folder=tmp_path)] == []
