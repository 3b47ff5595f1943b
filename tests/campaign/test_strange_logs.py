"""Logs that nobody tidied: an answer, or one line that names the row."""

from __future__ import annotations

import datetime

import pytest
from dualq.errors import LogError

import dualq

DAYS = [(datetime.date(2024, 1, 1) + datetime.timedelta(i)).isoformat() for i in range(60)]


def table(**columns):
    return {
        "state": [i % 3 for i in range(60)],
        "action": ["a", "b"] * 30,
        "reward": [float(i % 5) for i in range(60)],
    } | columns


@pytest.mark.parametrize(
    "impossible", ["2024-02-30", "2023-02-29", "2024-13-01", "2024-02-08 10:00:60", "2024-02-08 24:30"]
)
def test_a_moment_that_does_not_exist_is_named_with_its_row(tmp_path, impossible):
    days = [*DAYS[:30], impossible, *DAYS[31:]]
    columns = table(day=days)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path = tmp_path / "days.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(LogError, match=rf"days\.csv: row 31 \(line 32\): day is '{impossible}'") as refused:
        dualq.read_log(path, time="day")
    assert refused.value.row == 31


def test_a_state_may_be_a_time_of_day(tmp_path):
    log = dualq.read_log(table(state=[datetime.time(8 + i % 4) for i in range(60)], day=list(range(60))), time="day")
    fit = dualq.learn(log)
    fit.report(tmp_path / "report.html")
    assert "08:00:00" in (tmp_path / "report.html").read_text()
    fit.save(tmp_path / "run")
    assert dualq.load(tmp_path / "run").policy.probabilities(datetime.time(9)) == fit.policy.probabilities(
        datetime.time(9)
    )
