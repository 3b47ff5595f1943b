"""The rows of a log whose state has numbers, beside a twin in pandas: sorted, shifted within episodes, and filtered."""

from __future__ import annotations

import datetime
import gc
import weakref

import numpy as np
import pandas as pd
import pytest

import dualq
from dualq.logs import NumberRows, table_log

STATE = ["wear", "shift", "load"]
WORDS = {"state": STATE, "action": "do", "reward": "paid", "episode": "machine", "time": "hour"}


def machines(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """Rows of twenty machines in any order: two numbers and a category, a cost, and a flag of the end."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "wear": rng.normal(size=rows).round(6),
            "shift": rng.choice(["day", "night", "swing"], rows),
            "load": rng.integers(0, 5000, rows),
            "do": rng.choice([7, 3], rows),
            "paid": rng.normal(size=rows).round(6),
            "late": rng.integers(0, 2, rows),
            "machine": np.arange(rows) % 20,
            "hour": np.arange(rows) // 20,
            "done": rng.random(rows) < 0.05,
        }
    )
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def followed(frame: pd.DataFrame, state: list[str]) -> pd.DataFrame:
    """One row after another with what followed in its episode: the twin. Columns `done`, `cut` are flags, if there."""
    frame = frame.sort_values(["machine", "hour"], kind="stable").reset_index(drop=True)
    over = frame.get("done", pd.Series(False, frame.index)) | frame.get("cut", pd.Series(False, frame.index))
    runs = frame.groupby("machine", sort=False)
    frame["first"] = runs.cumcount().eq(0) | over.shift(fill_value=False)
    for name in state:
        frame[f"next_{name}"] = runs[name].shift(-1).where(~over, None)
    return frame


def used(frame: pd.DataFrame, state: list[str]) -> pd.DataFrame:
    """Those that ended, or of which the next state is known."""
    known = frame[[f"next_{name}" for name in state]].notna().all(axis=1)
    return frame[frame.get("done", False) | known].reset_index(drop=True)


def same(rows: NumberRows, twin: pd.DataFrame, costs: tuple[str, ...] = ()) -> None:
    """Every array of the rows is that of the twin."""
    ended = twin["done"].to_numpy(bool) if "done" in twin else np.zeros(len(twin), bool)
    np.testing.assert_array_equal(rows.ended, ended)
    np.testing.assert_array_equal([rows.actions[a] for a in rows.a], twin["do"])
    np.testing.assert_array_equal(rows.r, twin["paid"])
    np.testing.assert_array_equal(rows.first, twin["first"])
    for cost in costs:
        np.testing.assert_array_equal(rows.costs[cost], twin[cost])
    for states, prefix in ((rows.state, ""), (rows.next_state, "next_")):
        live = np.ones(len(twin), bool) if prefix == "" else ~ended
        for j, name in enumerate(rows.columns.numbers):
            np.testing.assert_array_equal(states.numbers[live, j], twin[prefix + name][live].astype(float))
        for j, (name, labels) in enumerate(rows.columns.categories.items()):
            assert [labels[place] for place in states.categories[live, j]] == twin[prefix + name][live].tolist()
    if ended.any():
        np.testing.assert_array_equal(rows.next_state.numbers[ended], rows.state.numbers[ended])
    borders = np.diff(rows.episode) != 0
    np.testing.assert_array_equal(borders, twin["first"][1:].to_numpy() | borders)


# ---- sources


def as_csv(frame, folder):
    frame.to_csv(folder / "log.csv", index=False)
    return str(folder / "log.csv")


def as_parquet(frame, folder):
    frame.to_parquet(folder / "log.parquet")
    return str(folder / "log.parquet")


def as_duckdb(frame, folder):
    import duckdb

    with duckdb.connect(str(folder / "log.duckdb")) as base:
        base.register("frame", frame)
        base.execute("create table log as select * from frame")
    return f"{folder / 'log.duckdb'}::log"


def as_sqlite(frame, folder):
    import sqlite3

    with sqlite3.connect(folder / "log.sqlite") as base:
        frame.to_sql("log", base, index=False)
    base.close()
    return f"{folder / 'log.sqlite'}::log"


@pytest.mark.parametrize(
    "made", [as_csv, as_parquet, as_duckdb, as_sqlite, lambda f, _: f, lambda f, _: {c: f[c].to_numpy() for c in f}]
)
def test_rows_of_every_source_are_those_of_the_twin(made, tmp_path):
    frame = machines()
    log = dualq.read_log(
        made(frame, tmp_path), **WORDS, terminal="done", truncated="last", costs=["late"], numbers="auto"
    )
    assert log.numbers == ("wear", "load")
    rows = log.number_rows()
    assert rows.columns.names == tuple(STATE)
    assert dict(rows.columns.categories) == {"shift": ("day", "night", "swing")}
    assert all(isinstance(label, int) for label in rows.actions)
    twin = used(followed(frame, STATE), STATE)
    same(rows, twin, ("late",))
    assert len(log) == len(rows) == len(twin)
    assert rows.has_episodes
    start = twin[twin["first"]]
    np.testing.assert_array_equal(rows.starts.numbers[:, 0], start["wear"])


def test_next_state_columns_are_read_from_their_own_row_without_an_order():
    frame = machines()
    twin = used(followed(frame.drop(columns="done"), STATE), STATE)
    shuffled = twin.sample(frac=1.0, random_state=1).reset_index(drop=True)
    words = {"state": STATE, "next_state": [f"next_{n}" for n in STATE], "action": "do", "reward": "paid"}
    log = dualq.read_log(
        shuffled.drop(columns=["first", "hour", "machine", "late"]), **words, time=False, numbers="auto"
    )
    assert not log.has_order
    assert log.trace() is None
    rows = log.number_rows()
    same(rows, shuffled.assign(first=np.arange(len(shuffled)) == 0))
    assert not rows.has_episodes
    timed = dualq.read_log(
        shuffled, **words, episode="machine", time="hour", truncated="last", numbers=["wear", "load"]
    )
    same(timed.number_rows(), twin)


def test_every_row_may_be_a_case_of_its_own():
    frame = machines()
    words = {"state": STATE, "action": "do", "reward": "paid", "terminal": "row", "numbers": "auto"}
    rows = dualq.read_log(frame.drop(columns=["machine", "hour", "done", "late"]), **words).number_rows()
    assert rows.ended.all()
    assert len(rows) == len(frame)
    np.testing.assert_array_equal(rows.r, frame["paid"])
    np.testing.assert_array_equal(rows.state.numbers[:, 1], frame["load"])


def test_bad_rows_are_set_aside_and_no_number_crosses_them(tmp_path):
    frame = machines().drop(columns="done").sort_values(["machine", "hour"]).reset_index(drop=True)
    frame["load"] = frame["load"].astype(float)
    frame.loc[40, "wear"] = np.nan  # no state: the row before has no successor
    frame.loc[100, "wear"] = np.inf
    frame.loc[170, "paid"] = np.nan  # its state is known, so the row before it can be used
    frame.loc[220, "load"] = np.nan
    frame.loc[300, "do"] = np.nan
    log = dualq.read_log(
        frame, **WORDS, truncated="last", numbers="auto", skip_bad=True, quarantine=tmp_path / "bad.csv"
    )
    assert log.skipped == 5
    assert all(isinstance(label, int | float) for label in log.actions)
    with pytest.raises(dualq.LogError, match="wear"):
        dualq.read_log(frame, **WORDS, truncated="last", numbers="auto")
    whole = frame.replace([np.inf, -np.inf], np.nan)
    twin = used(followed(whole, STATE), STATE)
    twin = twin[twin[["wear", "load", "paid", "do"]].notna().all(axis=1)].reset_index(drop=True)
    same(log.number_rows(), twin)


def test_whole_numbers_that_are_missing_are_bad_too(tmp_path):
    frame = machines().drop(columns="done")
    frame["load"] = frame["load"].astype("Int64")
    frame.loc[5, "load"] = pd.NA
    words = {**WORDS, "truncated": "last", "numbers": ["load", "wear"]}
    with pytest.raises(dualq.LogError, match="load"):
        dualq.read_log(frame, **words)
    log = dualq.read_log(frame, **words, skip_bad=True, quarantine=tmp_path / "bad.csv")
    twin = used(followed(frame, STATE), STATE)
    same(log.number_rows(), twin[twin["load"].notna()].reset_index(drop=True))


def test_rows_without_a_time_break_their_episode(tmp_path):
    frame = machines().drop(columns="done").sort_values(["machine", "hour"]).reset_index(drop=True)
    frame["hour"] = frame["hour"].astype(float) ** 2  # no regular clock, so that no gap shows which row is missing
    frame.loc[45, "hour"] = np.nan
    log = dualq.read_log(
        frame, **WORDS, truncated="last", numbers="auto", skip_bad=True, quarantine=tmp_path / "bad.csv"
    )
    labels = dualq.read_log(
        frame, **{**WORDS, "state": "shift"}, truncated="last", skip_bad=True, quarantine=tmp_path / "b.csv"
    )
    rows = log.number_rows()
    assert len(rows) == len(labels)
    twin = used(followed(frame[frame["hour"].notna()], STATE), STATE)
    kept = dict(zip(zip(twin["wear"], twin["load"], strict=True), twin["next_wear"], strict=True))
    for x, y in zip(rows.state.numbers, rows.next_state.numbers, strict=True):
        assert kept[tuple(x)] == y[0]
    before = frame.loc[44, "wear"]  # nobody knows what followed it
    assert before not in rows.state.numbers[:, 0]


def test_no_number_crosses_a_gap_in_a_regular_clock():
    frame = machines().drop(columns="done")
    frame = frame[~((frame["machine"] == 3) & frame["hour"].between(10, 12))]
    log = dualq.read_log(frame, **WORDS, truncated="last", numbers="auto")
    twin = followed(frame, STATE)
    gap = (twin["machine"] == 3) & (twin["hour"] == 9)
    twin = twin[~gap]
    same(log.number_rows(), used(twin, STATE))


def test_dates_and_flags_are_categories_with_their_own_types():
    frame = machines()
    frame["since"] = [datetime.date(2024, 1, 1 + k % 3) for k in range(len(frame))]
    frame["open"] = frame["load"] % 2 == 0
    words = {**WORDS, "state": ["since", "wear", "open"]}
    rows = dualq.read_log(frame, **words, terminal="done", truncated="last", numbers="auto").number_rows()
    assert rows.columns.numbers == ("wear",)
    since, is_open = rows.columns.categories["since"], rows.columns.categories["open"]
    assert [str(day)[:10] for day in since] == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert is_open == (False, True)
    found = rows.columns.coded({"since": frame["since"], "wear": frame["wear"], "open": frame["open"]})
    assert (found.categories >= 0).all()
    one = rows.columns.state({"since": "2024-01-02", "wear": 1.5, "open": True})
    assert one.categories.tolist() == [[1, 1]]


# ---- other logs


def test_a_log_in_bins_hands_out_its_raw_numbers():
    frame = machines()
    log = dualq.read_log(frame, **WORDS, terminal="done", truncated="last", bins={"wear": 3, "load": [1000.0, 2500.0]})
    assert log.numbers == ()
    twin = used(followed(frame, STATE), STATE)
    same(log.number_rows(), twin)
    labels = log.number_rows(numbers=()).columns.categories
    assert labels["load"] == ("< 1000", "[1000, 2500)", ">= 2500")
    assert log.counts().total == len(twin)


def test_labels_are_categories_unless_they_are_many_numbers():
    frame = machines()
    frame["load"], frame["wear"] = frame["load"] % 40, frame["wear"].round() % 3
    log = dualq.read_log(frame, **WORDS, terminal="done", truncated="last")
    twin = used(followed(frame, STATE), STATE)
    for numbers, names in ((None, ("load",)), ((), ()), (["wear", "load"], ("wear", "load")), ("wear", ("wear",))):
        rows = log.number_rows(numbers)
        assert rows.columns.numbers == names
        same(rows, twin)
    with pytest.raises(dualq.LogError, match="numbers names 'shift', whose labels are no numbers; leave it out"):
        log.number_rows(["shift"])
    with pytest.raises(dualq.LogError, match="'wears', which is not in the state; did you mean 'wear'"):
        log.number_rows("wears")


def test_array_logs_have_number_rows_too():
    labels = dualq.base.Labels([(0.5 * k, word) for k in range(30) for word in ("a", "b")], ("x", "word"))
    rng = np.random.default_rng(1)
    s, s_next, a = rng.integers(0, 60, 500), rng.integers(0, 60, 500), rng.integers(0, 2, 500)
    ended = rng.random(500) < 0.1
    log = dualq.ArrayLog(s, a, np.arange(500.0), s_next, labels, 2, ended)
    rows = log.number_rows()
    assert rows.columns.numbers == ("x",)
    np.testing.assert_array_equal(rows.state.numbers[:, 0], 0.5 * (s // 2))
    np.testing.assert_array_equal(rows.state.categories[:, 0], s % 2)
    np.testing.assert_array_equal(rows.next_state.categories[~ended, 0], s_next[~ended] % 2)
    np.testing.assert_array_equal(rows.first, np.append(True, ended[:-1]))
    walk = dualq.problems.grid_world(size=5).record(steps=300, seed=0)
    assert walk.number_rows().columns.numbers == ()  # 0, 1, 2, ... are names


# ---- which columns stay numbers


@pytest.mark.parametrize(
    ("column", "kept"),
    [
        (lambda rng: rng.normal(size=4000), True),
        (lambda rng: rng.integers(0, 900, 4000), True),  # 4 rows for each
        (lambda rng: rng.integers(0, 300, 4000), False),  # 13 rows for each: labels
        (lambda rng: rng.integers(0, 300, 4000) / 10, False),
        (lambda rng: rng.integers(0, 15, 4000) / 10, False),
        (lambda rng: rng.choice(["a", "b"], 4000), False),
    ],
)
def test_auto_keeps_numbers_that_hardly_come_again(column, kept):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": column(rng), "a": rng.integers(0, 2, 4000), "r": rng.normal(size=4000)})
    log = dualq.read_log(frame, state="x", action="a", reward="r", time="row", numbers="auto")
    assert log.numbers == (("x",) if kept else ())


def test_auto_keeps_several_whole_numbers_that_make_every_state_new():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.integers(0, 60, 2000) for i in range(3)})
    frame = frame.assign(few=rng.integers(0, 5, 2000), a=rng.integers(0, 2, 2000), r=1.0)
    words = {"state": ["x0", "x1", "x2", "few"], "action": "a", "reward": "r", "time": "row"}
    with pytest.raises(dualq.LogError, match=r"hardly any is seen twice; .*; or keep them: numbers=\"auto\""):
        dualq.read_log(frame, **words)
    assert dualq.read_log(frame, **words, numbers="auto").numbers == ("x0", "x1", "x2")
    mixed = dualq.read_log(frame, **words, numbers=["x0", "x1"], bins={"x2": 4})
    assert mixed.numbers == ("x0", "x1")
    assert list(mixed.bins) == ["x2"]


def test_what_speaks_of_labels_is_not_offered():
    log = dualq.read_log(machines(), **WORDS, terminal="done", truncated="last", numbers="auto")
    right = r"'wear', 'load' stay numbers, so states cannot be counted; read it with bins=\{'wear': 8, 'load': 8\}, or"
    for asked in (log.counts, log.coverage, log.stream, log.starts, log.markov_test, log.digest):
        with pytest.raises(dualq.LogError, match=right):
            asked()
    with pytest.raises(dualq.LogError, match=right):
        log.counts_between([0, 10, 20])
    assert isinstance(log, dualq.Log)
    assert "states with numbers (wear, load)" in repr(log)
    assert log.reward_range == (machines()["paid"].min(), machines()["paid"].max())


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ({"numbers": ["wears"]}, "'wears' is to stay a number, and is not in the state; did you mean 'wear'"),
        ({"numbers": ["shift"]}, "'shift' is to stay a number, and holds values of the type string"),
        ({"numbers": ["wear"], "bins": {"wear": 3}}, "'wear' is to stay a number, and bins are given for it"),
        ({"numbers": "auto", "available": {"day": [3]}}, "available speaks of labels of states, and 'wear' stays"),
        ({"numbers": "auto", "action": ["do", "late"], "action_bins": 2}, "the action has 2 columns; say which with"),
        ({"numbers": "auto", "bins": {"do": 2}, "action_bins": 2}, "given for the action 'do' twice"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words, wrong):
    with pytest.raises(dualq.LogError, match=wrong) as error:
        dualq.read_log(machines(), **{**WORDS, **words}, terminal="done", truncated="last")
    assert "\n" not in str(error.value)


# ---- actions, text


def test_an_action_of_numbers_becomes_steps():
    frame = machines().assign(do=np.random.default_rng(5).normal(size=600))
    words = {**WORDS, "terminal": "done", "truncated": "last", "numbers": "auto"}
    with pytest.raises(dualq.LogError, match=r"make steps of it: --action-bins 5 \(action_bins=5\)"):
        dualq.read_log(frame, **words)
    rows = dualq.read_log(frame, **words, action_bins=[-0.5, 0.5]).number_rows()
    twin = used(followed(frame, STATE), STATE)
    np.testing.assert_array_equal(rows.a, np.digitize(twin["do"], [-0.5, 0.5]))
    assert list(rows.actions) == ["< -0.5", "[-0.5, 0.5)", ">= 0.5"]
    assert len(dualq.read_log(frame, **words, action_bins=4).actions) == 4


def test_text_and_lists_are_out_of_scope_and_say_so():
    frame = machines()
    words = {**WORDS, "terminal": "done", "truncated": "last"}
    frame["shift"] = [f"the customer wrote for the {k}th time that nothing works" for k in range(len(frame))]
    with pytest.raises(
        dualq.LogError, match="'shift' is free text, 600 different texts in 600 rows; dualq learns from"
    ):
        dualq.read_log(frame, **words, numbers="auto")
    frame["shift"] = [[1.0, 2.0]] * len(frame)
    with pytest.raises(dualq.LogError, match=r"'shift' holds values of the type array.*; give its parts as columns"):
        dualq.read_log(frame, **words, numbers="auto")


def test_rows_one_after_another_are_read_once_and_held_no_longer_than_somebody_needs_them(monkeypatch):
    """Beside the rows that are learned from they would be the most that is held; labels need them again and again."""
    reads, read = [], table_log.trace_of_table
    monkeypatch.setattr(table_log, "trace_of_table", lambda *given: reads.append(given) or read(*given))
    words = {**WORDS, "terminal": "done"}
    log = dualq.read_log(machines(), **words, numbers="auto")
    trace = log.trace()
    gone = weakref.ref(trace)
    rows = log.number_rows()
    assert log.trace() is trace
    assert len(reads) == 1
    del trace
    gc.collect()
    assert gone() is None
    again = log.number_rows()
    assert len(reads) == 2
    for one, other in ((rows.state.numbers, again.state.numbers), (rows.next_state.numbers, again.next_state.numbers)):
        assert (one == other).all()
    labels = dualq.read_log(machines(), **words | {"state": ["shift"]})
    assert labels.trace() is labels.trace()
