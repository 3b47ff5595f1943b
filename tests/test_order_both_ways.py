"""What depends on the order of rows is the same from the engine that holds a log and from its rows in arrays."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

import dualq
from dualq.logs import table_log
from dualq.logs.checks.drift import periods_of_table, periods_of_trace
from dualq.logs.checks.markov import markov_of_table, markov_of_trace
from dualq.logs.reading.counting import first_states

DAY, FIRST = datetime.timedelta(days=1), datetime.date(2021, 3, 1)


def walks(lengths, seed=0):
    """Rows of several walks in three states, which pay more as time goes by, in an order that is not that of time."""
    rng = np.random.default_rng(seed)
    who, t, s, a, r, s_next = [], [], [], [], [], []
    for episode, length in enumerate(lengths):
        state = int(rng.integers(3))
        for step in range(length):
            action = int(rng.integers(2))
            after = int((state + action + rng.integers(2)) % 3)
            for column, value in zip(
                (who, t, s, a, r, s_next),
                (episode, step, state, action, state + action * rng.random() + 0.02 * step, after),
                strict=True,
            ):
                column.append(value)
            state = after
    mixed = rng.permutation(len(s)).tolist()
    named = {"who": who, "t": t, "state": s, "action": a, "reward": r, "next_state": s_next}
    return {name: [column[i] for i in mixed] for name, column in named.items()}


PARTS = {"state": "state", "action": "action", "reward": "reward", "next_state": False}


def shared():
    return {**PARTS, "episode": "who", "time": "t", "clock": "shared"}, walks([40] * 12)


def one_walk():
    rows = walks([400])
    return {**PARTS, "time": "t"}, {name: column for name, column in rows.items() if name != "who"}


def in_the_order_of_rows():
    rows = walks([300])
    order = np.argsort(rows["t"])
    return {**PARTS, "time": "row"}, {name: [column[i] for i in order] for name, column in rows.items()}


def next_states():
    words, rows = shared()
    return {**words, "next_state": "next_state"}, rows


def next_states_without_some_episodes():
    words, rows = next_states()
    rows["who"] = [None if i % 40 == 3 else who for i, who in enumerate(rows["who"])]
    return {**words, "skip_bad": True}, rows


def next_states_and_a_missing_time():
    words, rows = one_walk()
    return {**words, "next_state": "next_state"}, {**rows, "t": [None if t == 200 else t for t in rows["t"]]}


def steps_with_flags():
    lengths = np.random.default_rng(5).integers(4, 20, size=40).tolist()
    rows = walks(lengths)
    last = [t == lengths[who] - 1 for who, t in zip(rows["who"], rows["t"], strict=True)]
    rows["done"] = [x and who % 3 > 0 for x, who in zip(last, rows["who"], strict=True)]
    rows["stopped"] = [x and who % 3 == 0 for x, who in zip(last, rows["who"], strict=True)]
    words = {"episode": "who", "time": "t", "terminal": "done", "truncated": "stopped", "clock": "episode"}
    return {**PARTS, **words}, rows


def steps_of_dated_visits():
    words, rows = steps_with_flags()
    rows["who"] = [FIRST + who * DAY for who in rows["who"]]
    return words, rows


def steps_of_named_patients():
    words, rows = steps_with_flags()
    rows["who"] = [f"patient {who}" for who in rows["who"]]
    return words, rows


def flags_within_one_walk():
    words, rows = one_walk()
    rows["done"] = [t % 17 == 16 for t in rows["t"]]
    return {**words, "terminal": "done"}, rows


def last_rows_ended():
    words, rows = steps_with_flags()
    del rows["done"], rows["stopped"], words["truncated"]
    return {**words, "terminal": "last"}, rows


def dates():
    words, rows = shared()
    rows["t"] = [FIRST + t * DAY for t in rows["t"]]
    return {**words, "clock": None}, rows


def moments():
    words, rows = one_walk()
    rows["t"] = [datetime.datetime(2021, 3, 1) + datetime.timedelta(minutes=7.5 * t) for t in rows["t"]]
    return words, rows


def halves_of_hours():
    words, rows = one_walk()
    return words, {**rows, "t": [0.5 * t for t in rows["t"]]}


def times_as_text():
    words, rows = one_walk()
    return words, {**rows, "t": [f"{FIRST + t * DAY:%Y-%m-%d}" for t in rows["t"]]}


def times_as_words():
    words, rows = one_walk()
    return words, {**rows, "t": [f"turn {t:05d}" for t in rows["t"]]}


def gaps():
    words, rows = shared()
    some = [i for i, (who, t) in enumerate(zip(rows["who"], rows["t"], strict=True)) if (who * 40 + t) % 97 != 11]
    return words, {name: [column[i] for i in some] for name, column in rows.items()}


def bad_rows():
    # Some rows have no reward, and some of these come between two of the same state; some have a state of their own.
    words, rows = shared()
    rows["reward"] = [None if i % 13 == 2 else r for i, r in enumerate(rows["reward"])]
    rows["state"] = [7 if i % 39 == 2 else s for i, s in enumerate(rows["state"])]
    rows["action"] = [None if i % 31 == 5 else a for i, a in enumerate(rows["action"])]
    return {**words, "skip_bad": True}, rows


def rows_without_a_place():
    words, rows = shared()
    latest = max(range(len(rows["t"])), key=lambda i: rows["t"][i])
    rows["t"] = [None if i % 61 == 3 else t + 100 * (i == latest) for i, t in enumerate(rows["t"])]
    rows["who"][latest] = None
    order = sorted(range(len(rows["t"])), key=lambda i: -1 if rows["t"][i] is None else rows["t"][i])
    rows = {name: [column[i] for i in order] for name, column in rows.items()}
    return {**words, "skip_bad": True}, rows


def bins():
    words, rows = shared()
    rows["state"] = [s + 0.9 * np.sin(i) for i, s in enumerate(rows["state"])]
    return {**words, "bins": {"state": 4}}, rows


LOGS = [
    shared,
    one_walk,
    in_the_order_of_rows,
    next_states,
    next_states_without_some_episodes,
    next_states_and_a_missing_time,
    steps_with_flags,
    steps_of_dated_visits,
    steps_of_named_patients,
    flags_within_one_walk,
    last_rows_ended,
    dates,
    moments,
    halves_of_hours,
    times_as_text,
    times_as_words,
    gaps,
    bad_rows,
    rows_without_a_place,
    bins,
]


@pytest.fixture(params=LOGS, ids=lambda made: made.__name__)
def log(request, tmp_path):
    words, rows = request.param()
    types = {name: "Int64" for name in ("who", "t", "state", "action") if any(x is None for x in rows.get(name, []))}
    types = {name: kind for name, kind in types.items() if all(x is None or isinstance(x, int) for x in rows[name])}
    return dualq.read_log(pd.DataFrame(rows).astype(types), quarantine=tmp_path / "bad.csv", **words)


def in_cells(periods):
    """{(period, s, a, outcome): n and powers, added up}, where the periods begin, and by what they are cut."""
    if periods is None:
        return None
    found = {}
    keys = zip(*(x.tolist() for x in (periods.period, periods.s, periods.a, periods.outcome)), strict=True)
    for key, numbers in zip(keys, np.vstack([periods.n, periods.powers]).T, strict=True):
        found[key] = found.get(key, 0.0) + numbers
    return found, periods.edges, periods.by


@pytest.mark.parametrize("periods", [4, 40])
def test_periods(log, periods):
    here, there = in_cells(periods_of_trace(log.trace(), periods)), in_cells(periods_of_table(log.counted, periods))
    if there is None:
        assert here is None
        return
    assert here is not None
    assert here[0].keys() == there[0].keys()
    for key, numbers in there[0].items():
        np.testing.assert_allclose(here[0][key], numbers, rtol=1e-9, atol=1e-9)
    assert here[1:] == there[1:]


def test_the_state_before(log):
    here, there = markov_of_trace(log.trace(), 0.01), markov_of_table("log", log.counted, 0.01)
    assert here.p_value == pytest.approx(there.p_value, rel=1e-9)
    assert (here.tested, here.found, here.words) == (there.tested, there.found, there.words)
    assert here.tested


def test_first_states(log):
    if not log.has_episodes:
        return
    assert log.trace().starts.tolist() == first_states(log.counted).tolist()


def rows_of(counts):
    """{(s, a, s', ended): n and sums}."""
    keys = zip(*(x.tolist() for x in (counts.s, counts.a, counts.s_next, counts.ended)), strict=True)
    sums = (counts.n, counts.reward_sum, counts.reward_square_sum, *counts.cost_sums.values())
    return dict(zip(keys, np.vstack(sums).T.tolist(), strict=True))


def test_blocks(log, monkeypatch):
    cuts = [3, 50, 51, len(log) // 2]  # rows before the first and after the last are in none
    here = log.counts_between(cuts)
    with monkeypatch.context() as patched:
        patched.setattr(table_log, "MOST_ROWS", 10)
        there = log.counts_between(cuts)
    assert [one.total for one in here] == [one.total for one in there] == [47, 1, len(log) // 2 - 51]
    for mine, theirs in zip(here, there, strict=True):
        assert rows_of(mine).keys() == rows_of(theirs).keys()
        for key, sums in rows_of(theirs).items():
            assert rows_of(mine)[key] == pytest.approx(sums, rel=1e-12)


def test_a_long_log_is_asked_of_its_engine(monkeypatch):
    words, rows = steps_with_flags()
    short, long = (dualq.read_log(rows, **words) for _ in range(2))
    found = short.coverage().summary(), short.starts().tolist()
    asked = []

    def noted(name, old):
        monkeypatch.setattr(table_log, name, lambda *args: (asked.append(name), old(*args))[1])

    for name in ("periods_of_table", "markov_of_table", "first_states"):
        noted(name, getattr(table_log, name))
    again = dualq.read_log(rows, **words)
    assert (again.coverage().summary(), again.starts().tolist(), asked) == (*found, [])
    monkeypatch.setattr(table_log, "MOST_ROWS", 10)
    theirs = long.coverage().summary()
    assert long.starts().tolist() == found[1]
    assert set(asked) == {"periods_of_table", "markov_of_table", "first_states"}
    for what in ("behaviour", "dynamics", "rewards"):
        assert theirs["drift"][what]["p_value"] == pytest.approx(found[0]["drift"][what]["p_value"], rel=1e-9)
    assert theirs["memory"]["p_value"] == pytest.approx(found[0]["memory"]["p_value"], rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_nobody_can_place_are_before_and_after_none(seed, tmp_path):
    words, rows = next_states_without_some_episodes()
    order = np.random.default_rng(seed).permutation(len(rows["t"])).tolist()
    rows = {name: [column[i] for i in order] for name, column in rows.items()}
    frame = pd.DataFrame({**rows, "who": pd.array(rows["who"], "Int64")})
    log = dualq.read_log(frame, quarantine=tmp_path / "bad.csv", **words)
    at = {(who, t): i for i, (who, t) in enumerate(zip(rows["who"], rows["t"], strict=True)) if who is not None}
    jumps, starts, walk = 0, [0, 0, 0], {}
    for who, t in sorted(at):  # one row after another of each episode that has a name
        s, s_next = rows["state"][at[who, t]], rows["next_state"][at[who, t]]
        jumps += who in walk and walk[who] != s
        starts[s] += who not in walk
        walk[who] = s_next
    assert log.coverage().jumps == jumps
    assert log.starts().tolist() == first_states(log.counted).tolist() == starts
