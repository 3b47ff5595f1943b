"""Bins: what they lose is found, said first, and no error is printed where it would be wrong; rows set aside."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from situations import markov_logs, number_logs, offer, reference, stock, trace_of, wear

import dualq
from dualq.app.report.html import report_html
from dualq.logs.checks.bins import bins, upper_half
from dualq.logs.reading.schema import Bins


@pytest.mark.parametrize("step", [wear, stock, reference, offer])
def test_bins_that_lose_something_are_found(step):
    # 10,000 rows and 8 quantile bins; the planner sees the number.
    found = [bins(trace, 0.01) for trace in number_logs(step, 1, 20, 10_000)]
    assert sum(finding.found for finding in found) >= 19
    words = "inside the bins of x the number itself still predicts what "
    assert sum(f.words.startswith(words) and "(--bins x=16)" in f.words for f in found) >= 19


def test_bins_that_lose_nothing_raise_no_more_false_alarms_than_stated():
    # 300 logs, level .05; the number within its bin is drawn apart from all else, but the planner acts by it.
    rng, alarms = np.random.default_rng(0), 0
    for i, log in enumerate(markov_logs(5, 300, 400)):
        x = log["s"] + (rng.random(400) if i % 2 else rng.integers(0, 3, 400) / 3.0)
        trace = trace_of(log, raw={"x": x}, bins={"x": Bins((1.0, 2.0, 3.0))})
        alarms += bins(trace, 0.05).found
    assert alarms <= binom.isf(1e-4, 300, 0.05)  # a false alarm of this test: 1e-4


def test_halves_are_cut_at_the_median():
    group, x = np.array([0, 0, 0, 0, 1, 1, 1, 2]), np.array([3.0, 1.0, 2.0, 4.0, 5.0, 5.0, 1.0, 9.0])
    assert upper_half(group, x).tolist() == [True, False, False, True, True, True, False, True]


def machines(rows=8_000, seed=0):
    """Wear that grows, more of it with care for less; late repair. Rewards also depend on wear within its bin."""
    rng, x, kept = np.random.default_rng(seed), 0.0, []
    for day in range(rows):
        a = int(rng.random() < (0.9 if x > 0.8 else 0.1))
        x_next = 0.0 if a else min(x + 0.15 * rng.random(), 1.0)
        kept.append((day, x, a, -0.6 if a else 1.0 - 1.8 * x * x, x_next))
        x = x_next
    names = ("day", "wear", "do", "paid", "next_wear")
    return dict(zip(names, map(np.array, zip(*kept, strict=True)), strict=True))


READ = {"state": "wear", "action": "do", "reward": "paid", "time": "day", "next_state": "next_wear"}


@pytest.fixture(scope="module")
def binned():
    rows = machines()
    rows["late"] = (rows["wear"] > 0.9).astype(float)
    return dualq.learn(dualq.read_log(rows, bins={"wear": 5}, costs=["late"], **READ), discount=0.9)


def test_bins_are_told_first_and_what_follows_from_them_second(binned):
    assert binned.contradicted == ("bins",)
    assert binned.withheld[0] == "the bins lose information"
    assert binned.coverage.warnings[0].startswith("inside the bins of wear")
    assert not any("--since" in warning for warning in binned.coverage.warnings)
    told = [note for note in binned.coverage.notes if note.endswith("as can happen where bins lose information")]
    others = {finding.what for finding in binned.coverage.evidence if finding.found} - {"bins", "behaviour"}
    assert others  # the state before tells where in its bin the number is
    assert len(told) >= len(others)
    assert not any("--since" in note for note in told)


def test_no_error_is_given_where_bins_lose_information(binned, tmp_path):
    assert binned.expected.standard_error is None
    assert binned.logged.standard_error is None
    assert binned.costs["late"]["recommended"].standard_error is None
    assert binned.verdict == "do not use"
    text = json.dumps(binned.summary(), allow_nan=False, default=str)
    assert json.loads(text)["expected"] == {"value": binned.expected.value, "standard_error": None}
    binned.save(tmp_path / "run")
    assert dualq.load(tmp_path / "run").expected == binned.expected
    assert "NaN" not in report_html(binned)
    assert "nan" not in report_html(binned).split()


def test_the_wear_itself_has_an_error_where_it_is_known_in_full():
    # The same machines with wear in five steps: nothing is cut, and nothing is lost.
    rng, s, kept = np.random.default_rng(1), 0, []
    for day in range(4_000):
        a = int(rng.random() < 0.3)
        s_next = 0 if a else min(s + int(rng.random() < 0.4), 4)
        kept.append((day, s, a, -0.6 if a else 1.0 - 0.1 * s * s + 0.1 * rng.normal(), s_next))
        s = s_next
    rows = dict(
        zip(
            READ.values(),
            (np.array(x) for x in zip(*[(k[1], k[2], k[3], k[0], k[4]) for k in kept], strict=True)),
            strict=True,
        )
    )
    fit = dualq.learn(dualq.read_log(rows, bins={"wear": [0.5, 1.5, 2.5, 3.5]}, **READ), discount=0.9)
    assert fit.contradicted == ()  # a false alarm has 1% for each of some checks; the seed is fixed
    assert fit.expected.standard_error > 0.0


def test_an_open_bin_where_the_policy_goes_and_the_log_hardly_was_is_named():
    # Going up pays, and the log hardly ever did it: above 20 there are few rows.
    rng, x, kept = np.random.default_rng(0), 10.0, []
    for day in range(6_000):
        a = int(rng.random() < 0.25)
        following = max(0.0, x + (1.0 if a else -0.5) + 0.2 * rng.normal())
        kept.append((day, x, a, x, following))
        x = following
    rows = dict(zip(("day", "wear", "do", "paid", "next_wear"), map(np.array, zip(*kept, strict=True)), strict=True))
    fit = dualq.learn(dualq.read_log(rows, bins={"wear": [1, 2, 4]}, **READ), discount=0.9)
    share = float((rows["wear"] >= 4).mean())
    (warning,) = [warning for warning in fit.warnings if "this bin is open" in warning]
    assert f"of its time where wear is >= 4, and the log {share:.1%}" in warning
    assert not any("this bin is open" in warning for warning in fit.coverage.warnings)


# ---- rows set aside


def missing(share, seed=1, rows=3_000):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"t": np.arange(rows), "state": rng.integers(0, 3, rows), "action": rng.integers(0, 2, rows)})
    frame["reward"] = np.where(rng.random(rows) < share, np.nan, rng.random(rows))
    return frame


def test_what_was_set_aside_withholds_the_promise_until_somebody_vouches_for_it(tmp_path):
    read = {"time": "t", "skip_bad": True, "reward_range": (0, 1), "quarantine": tmp_path / "bad.csv"}
    log = dualq.read_log(missing(0.02), **read)
    fit, vouched = dualq.learn(log), dualq.learn(log, assume="set aside")
    share = log.skipped / 3_000
    assert fit.withheld == (f"{share:.1%} of the rows were set aside, and nothing says that they are like the others",)
    assert vouched.withheld == ()
    assert vouched.summary()["assumed"] == ["set aside"]
    few = dualq.learn(dualq.read_log(missing(0.002), **read))
    assert few.coverage.skipped > 0
    assert few.withheld == ()
    assert any("set aside are like the others" in condition for condition in few.conditions)


def test_only_what_can_be_assumed_is():
    with pytest.raises(dualq.LogError, match="assume is 'markov'; it must be one of 'set aside'"):
        dualq.learn(missing(0.0), time="t", assume=["markov"])


def test_rows_set_aside_by_their_action_contradict_and_cannot_be_assumed_away(tmp_path):
    frame = missing(0.0)
    lost = (frame["action"] == 1) & (np.random.default_rng(22).random(len(frame)) < 0.2)
    frame.loc[lost, "reward"] = np.nan
    log = dualq.read_log(frame, time="t", skip_bad=True, reward_range=(0, 1), quarantine=tmp_path / "bad.csv")
    fit = dualq.learn(log, assume="set aside")
    assert fit.contradicted == ("set aside",)
    assert fit.withheld == ("the rows set aside differ from the others",)
    assert "differ from the others in their actions (p" in fit.coverage.warnings[0]
