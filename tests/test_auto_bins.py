"""Bins that are found: planted edges, an exhaustive search, rows that are left out, and logs without any."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualq
from dualq.app import cli
from dualq.logs.reading.auto_bins import roundest

WORDS = {"state": "x", "action": "do", "reward": "pay", "time": "day"}


def steps(n=5000, seed=0):
    """The reward steps at 3 and at 7, for action 1 only at 7; the next number does not depend on anything."""
    rng = np.random.default_rng(seed)
    x, do = rng.uniform(0, 10, n), rng.integers(0, 2, n)
    pay = np.where(do == 0, 2.0 * (x >= 3), 0.0) + 2.0 * (x >= 7) + 0.3 * rng.normal(size=n)
    return {"day": np.arange(n), "x": x, "do": do, "pay": pay}


def test_planted_edges_are_found_and_they_are_round():
    for seed in range(5):  # an edge that is noise: less than 1 log in 1,000, by the bar of the test
        assert dualq.read_log(steps(seed=seed), **WORDS, bins="auto").bins["x"].edges == (3.0, 7.0)


def test_only_the_rows_after_those_in_which_bins_were_found_are_counted():
    log = dualq.read_log(steps(), **WORDS, bins="auto")
    same = dualq.read_log(steps(), **WORDS, bins={"x": [3, 7]}, since=1000)
    assert len(log) == 3999  # of 5,000 rows; the last has no successor
    assert log.digest() == same.digest()
    assert any("x=3, 7 (found in the 999 rows where day < 1000, which were then left out)" in r for r in log.remarks)


def test_later_rows_have_no_say_in_the_bins():
    changed = steps()
    late = changed["day"] >= 1000
    changed["pay"] = np.where(late, changed["x"] >= 5, changed["pay"])
    assert dualq.read_log(changed, **WORDS, bins="auto").bins["x"].edges == (3.0, 7.0)


def best_cut(x, do, targets):
    """The neighbouring values of the cut that explains most, by trying them all: a plain loop over the definition."""
    best = (-1.0, 0.0, 0.0)
    values = np.unique(x)
    for low, high in itertools.pairwise(values):
        left = x < high
        if min(left.mean(), 1 - left.mean()) < 0.02:
            continue
        gain = 0.0
        for y in targets:
            for a in np.unique(do):
                parts = [y[(do == a) & side] for side in (left, ~left)]
                both = np.concatenate(parts)
                within = sum(((part - part.mean()) ** 2).sum() for part in parts if part.size)
                gain += (((both - both.mean()) ** 2).sum() - within) / y.var() / y.size
        best = max(best, (gain, low, high))
    return best[1:]


@pytest.mark.parametrize("seed", range(6))
def test_the_first_cut_is_the_best_of_all(seed, monkeypatch):
    monkeypatch.setattr("dualq.logs.reading.auto_bins.MOST_BINS", 2)
    rng = np.random.default_rng(seed)
    n = 3000
    x, do = np.zeros(n), rng.integers(0, 3, n)
    for k in range(1, n):  # whole numbers that wander, pushed by the action
        x[k] = np.clip(x[k - 1] + rng.integers(-2, 3) + do[k - 1] - 1, 0, 60)
    pay = np.sin(x / 9.0) * (1 + do) + rng.normal(size=n)
    log = dualq.read_log({"day": np.arange(n), "x": x, "do": do, "pay": pay}, **WORDS, bins="auto")
    early = slice(0, n // 5 - 1)
    low, high = best_cut(x[early], do[early], [pay[early], x[1:][early]])
    (edge,) = log.bins["x"].edges
    assert low < edge <= high


def test_a_failure_that_a_number_tells_is_an_edge():
    rng = np.random.default_rng(4)
    rows = []
    for machine in range(800):
        wear = 0.0
        for t in range(40):
            failed = wear >= 6 and rng.random() < 0.4
            rows.append((machine, t, wear, "run", 1.0, failed))
            if failed:
                break
            wear += rng.exponential(0.7)
    log = dict(zip(("machine", "t", "wear", "do", "pay", "failed"), map(list, zip(*rows, strict=True)), strict=True))
    words = {"state": "wear", "action": "do", "reward": "pay", "episode": "machine", "time": "t", "terminal": "failed"}
    read = dualq.read_log(log, **words, bins="auto")
    assert 6.0 in read.bins["wear"].edges
    first = int(next(r for r in read.remarks if "machine <" in r).split("machine < ")[1].split(",")[0])
    assert len(read) == sum(row[0] >= first and (row[5] or row[1] < 39) for row in rows)  # whole machines are left out


@pytest.mark.parametrize(("logs", "most"), [(20, 2), pytest.param(60, 3, marks=pytest.mark.slow)])
def test_where_nothing_depends_on_the_number_that_is_said(logs, most):
    found = 0
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        log = {"day": np.arange(2000), "x": rng.normal(size=2000), "do": rng.integers(0, 3, 2000)}
        log["pay"] = rng.exponential(size=2000) ** 2
        remarks = dualq.read_log(log, **WORDS, bins="auto").remarks
        found += not any("leave x out of the state" in remark for remark in remarks)
    # A cut is noise with probability under 1% (about 4 standard deviations, beyond the number of cuts): 3 or more of 20
    # happen with probability under 0.2%, 4 or more of 60 under 0.4%.
    assert found <= most


def test_states_stay_few_where_rows_are_few():
    rng = np.random.default_rng(7)
    n = 3000
    walk = np.cumsum(rng.normal(size=(n, 4)), axis=0) * 0.1
    log = {"day": np.arange(n), "do": rng.integers(0, 2, n), "pay": walk.sum(axis=1)}
    log |= {f"x{i}": walk[:, i] for i in range(4)}
    read = dualq.read_log(log, **WORDS | {"state": ["x0", "x1", "x2", "x3"]}, bins="auto")
    pairs = 2 * math.prod(len(read.bins[f"x{i}"].labels) for i in range(4))
    assert pairs <= len(read) / 10


def test_columns_may_be_found_beside_others_that_are_given():
    log = steps() | {"y": np.random.default_rng(1).uniform(0, 1, 5000), "few": np.arange(5000) % 4}
    words = WORDS | {"state": ["x", "y", "few"]}
    read = dualq.read_log(log, **words, bins={"x": "auto", "y": [0.5]})
    assert read.bins["x"].edges == (3.0, 7.0)
    assert read.bins["y"].edges == (0.5,)
    both = dualq.read_log(log, **words, bins="auto")
    assert set(both.bins) == {"x", "y"}  # four whole numbers need no bins


def test_moments_and_the_order_of_rows_are_clocks_too():
    log = steps()
    dated = log | {"day": np.datetime64("2024-01-01", "s") + 3600 * log["day"]}
    first, second = (
        dualq.read_log(dated, **WORDS, bins="auto"),
        dualq.read_log(log, **WORDS | {"time": "row"}, bins="auto"),
    )
    assert first.bins["x"].edges == second.bins["x"].edges == (3.0, 7.0)
    assert len(first) == len(second) == 3999
    assert any("day < 2024-02-11 16:00:00" in remark for remark in first.remarks)  # 1,000 hours later


@pytest.mark.parametrize(
    ("log", "words", "bins", "message"),
    [
        (steps() | {"next_x": steps()["x"]}, {"time": False, "next_state": "next_x"}, "auto", "no column says which"),
        (steps(400), {}, "auto", "only 79 of them can be used; 200 are needed: .*--bins x=4"),
        (steps(), {}, {"do": "auto"}, "bins are found for numbers of the state, and 'do' is not one"),
        (steps() | {"day": np.zeros(5000, int)}, {}, "auto", "most rows have the first values of day"),
        (steps(), {}, "quantiles", "bins is 'quantiles'; it must be"),
        (steps(), {}, {"x": "many"}, "bins for 'x' are 'many'; they must be"),
    ],
)
def test_where_none_can_be_found_that_is_said(log, words, bins, message):
    with pytest.raises(dualq.LogError, match=message):
        dualq.read_log(log, **WORDS | words, bins=bins)


def test_the_command_line_finds_bins_and_the_policy_knows_them(tmp_path, capsys):
    log = steps()
    lines = [",".join(log), *(",".join(map(str, row)) for row in zip(*log.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    words = ["--state", "x", "--action", "do", "--reward", "pay", "--time", "day", "--certificate", "none"]
    assert cli.run(["learn", str(tmp_path / "log.csv"), *words, "--bins", "auto", "--out", str(tmp_path / "run")]) == 0
    assert "x=3, 7" in " ".join(capsys.readouterr().out.split())
    assert dualq.load(tmp_path / "run").act({"x": 5.0}) == 0  # only action 0 earns between 3 and 7


# ---- round numbers


def digits(number):
    return len(f"{abs(number):.15g}".replace(".", "").strip("0"))


@given(st.integers(-(10**6), 10**6), st.integers(1, 3000))
def test_the_roundest_number_has_the_fewest_digits(start, width):
    low, high = start / 1000, (start + width) / 1000
    found = roundest(low, high, (low + high) / 2)
    assert low < found <= high
    assert digits(found) <= min(digits(k / 1000) for k in range(start + 1, start + width + 1))


@pytest.mark.parametrize(
    ("low", "high", "near", "wanted"),
    [
        (4.87, 5.03, 4.95, 5.0),
        (0.31, 0.36, 0.33, 0.35),
        (6, 7, 7, 7.0),
        (-1.2, 0.4, -0.5, 0.0),
        (980, 1030, 1004, 1000.0),
    ],
)
def test_round_numbers(low, high, near, wanted):
    assert roundest(low, high, near) == wanted
