"""A table before it is a log: first rows, histograms, bad rows, the rows behind a decision, a log over time."""

from __future__ import annotations

import csv
import random
import shlex
from pathlib import Path

import numpy as np
import pytest

import dualq
from dualq.logs import bad_rows, first_rows, histogram, lines_of, look, rows_behind

NAMES = ["shop", "day", "stock", "order", "profit"]
COLUMNS = {"state": ["stock"], "action": ["order"], "reward": "profit", "episode": ["shop"], "time": "day"}


@pytest.fixture(scope="module")
def rows() -> list[list[object]]:
    drawn = random.Random(3)
    return [
        [shop, day, drawn.uniform(0, 10), drawn.choice(["none", "some"]), round(drawn.gauss(1, 2), 2)]
        for shop in range(6)
        for day in range(80)
    ]


@pytest.fixture(scope="module")
def file(tmp_path_factory, rows) -> Path:
    return written(tmp_path_factory.mktemp("preview") / "orders.csv", rows)


def written(path: Path, rows) -> Path:
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([NAMES, *rows])
    return path


def test_the_first_rows_are_those_of_the_file(file, rows):
    found = first_rows(file, 7)
    assert found.names == tuple(NAMES)
    assert found.kinds == ("integer", "integer", "number", "text", "number")
    assert [list(row) for row in found.rows] == rows[:7]


def test_a_histogram_is_numpys(file, rows):
    found = histogram(file, "profit", 13)
    n, edges = np.histogram([row[4] for row in rows], 13)
    assert found is not None
    assert found.rows == tuple(n)
    assert np.allclose(found.edges, edges)
    assert histogram({"x": [3, 3, 3]}, "x") is None


def test_bad_rows_are_told_by_what_is_wrong_with_them(tmp_path, rows):
    broken = [list(row) for row in rows]
    missing, wordy = [4, 90, 91, 200], [7, 300]
    for i in missing:
        broken[i][4] = ""
    for i in wordy:
        broken[i][4] = "lots"
    found = bad_rows(written(tmp_path / "broken.csv", broken), **COLUMNS, bins={"stock": 2})
    assert {(bad.rows, bad.first) for bad in found} == {
        (4, tuple(str(i + 1) for i in missing)),
        (2, tuple(str(i + 1) for i in wordy)),
    }
    assert found[0].words.startswith("4 rows (rows 5, 91, 92, 201): profit is missing")
    odd = [[*row[:4], f"word {i}"] if i < 20 else row for i, row in enumerate(rows)]
    found = bad_rows(written(tmp_path / "odd.csv", odd), **COLUMNS, bins={"stock": 2})
    assert sum(bad.rows for bad in found) == 20  # of many faults none is left out silently
    assert found[-1].words.startswith("9 rows (rows ")
    assert found[-1].words.endswith(": and more, bad in other ways")
    assert bad_rows(written(tmp_path / "whole.csv", rows), **COLUMNS, bins={"stock": 2}) == []
    assert not list(tmp_path.glob("*.bad"))


def test_the_rows_behind_a_decision(file, rows):
    log = dualq.read_log(file, **COLUMNS, bins={"stock": [2.5, 7.0]})
    found = rows_behind(log, "[2.5, 7)", "some", most=5)
    wanted = [row for row in rows if 2.5 <= row[2] < 7.0 and row[3] == "some"]
    places = [found.names.index(name) for name in NAMES]
    assert [[row[i] for i in places] for row in found.rows] == wanted[:5]
    everything = rows_behind(log, "< 2.5", most=1000)
    assert len(everything.rows) == sum(row[2] < 2.5 for row in rows)


def test_a_log_over_time(file, rows):
    log = dualq.read_log(file, **COLUMNS, bins={"stock": 2})
    found = log.over_time(4)
    assert found is not None
    used = [row for row in rows if row[1] < 79]  # nobody saw what followed the last day
    period = [min(int(row[1] / 79 * 4), 3) for row in used]
    for i in range(4):
        here = [row for row, p in zip(used, period, strict=True) if p == i]
        assert found.rows[i] == len(here)
        assert found.reward[i] == pytest.approx(np.mean([row[4] for row in here]))
        assert list(found.actions[i]) == [sum(row[3] == a for row in here) for a in ("none", "some")]
    assert (
        dualq.read_log({"state": [0, 1], "action": [0, 0], "reward": [1, 1], "next_state": [1, 0]}).over_time() is None
    )


def test_the_lines_say_what_was_asked(file):
    columns = COLUMNS | {"bins": {"stock": [2.5, 7.0]}, "skip_bad": True}
    shell, python = lines_of(str(file), columns, {"discount": 0.9, "limits": ["late<=0.2"]})
    assert shlex.split(shell) == [
        *("dualq", "learn", str(file), "--state", "stock", "--action", "order", "--reward", "profit"),
        *("--episode", "shop", "--time", "day", "--bins", "stock=2.5,7", "--skip-bad"),
        *("--discount", "0.9", "--limit", "late<=0.2"),
    ]
    read, learn = eval(python, {"dualq": Said})
    assert read == ((str(file),), columns)
    assert learn == {"discount": 0.9, "limits": ["late<=0.2"]}


class Said:
    """What a line of Python would call."""

    @staticmethod
    def read_log(*source, **columns):
        return source, columns

    @staticmethod
    def learn(log, **learning):
        return log, learning


def test_looks_own_line_is_the_same(file):
    seen = look(file, **COLUMNS, bins={"stock": 2}, terminal="last")
    columns = COLUMNS | {"terminal": "last", "bins": {"stock": 2}}
    assert sorted(shlex.split(seen.command)) == sorted(shlex.split(lines_of(str(file), columns, {})[0]))


def test_open_questions_have_answers_that_close_them():
    rows = {"shop": [1, 1, 1, 2, 2], "day": [0, 1, 2, 0, 1], "stock": [0, 1, 0, 1, 0]}
    seen = look(rows | {"order": [1, 0, 1, 0, 1], "profit": [1.0, 2.0, 3.0, 1.5, 2.5]}, episode="shop", time="day")
    ends = next(ways for ways in seen.answers if {"terminal": "last"} in [said for _, said in ways])
    for _, said in ends:
        again = look(
            rows | {"order": [1, 0, 1, 0, 1], "profit": [1.0, 2.0, 3.0, 1.5, 2.5]}, episode="shop", time="day", **said
        )
        assert not any("stop before the last day" in words for words in again.doubts())
