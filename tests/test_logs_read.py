"""Logs read from files, databases and frames: against a plain loop, and what is said of bad ones."""

from __future__ import annotations

import csv
import datetime
import gzip
import itertools
import re
import shutil
import sqlite3
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_tables import WORDS, counted, labelled, logs
from pyarrow import feather, parquet

import dualq
from dualq import problems
from dualq.base.errors import LogError
from dualq.base.transitions import Rows
from dualq.logs.blocks import counts_in_blocks
from dualq.logs.reading import coding as places
from dualq.logs.reading import counting
from dualq.logs.reading.schema import Bins
from dualq.logs.starts import start_weights

# ---- every engine counts what a loop counts


def to_typed_sqlite(table, folder):
    path = folder / "typed.sqlite"
    path.unlink(missing_ok=True)
    con = sqlite3.connect(path)
    pd.DataFrame(table).to_sql("log", con, index=False)
    con.close()
    return f"{path}::log"


def to_parquet(table, folder):
    parquet.write_table(pa.table(table), folder / "log.parquet")
    return folder / "log.parquet"


def to_folder(table, folder):
    shutil.rmtree(folder / "parts", ignore_errors=True)
    (folder / "parts").mkdir()
    half = len(table["day"]) // 2
    for name, rows in (("a", slice(None, half)), ("b", slice(half, None))):
        part = pa.table({column: pa.array(values[rows], pa.array(values).type) for column, values in table.items()})
        parquet.write_table(part, folder / "parts" / f"{name}.parquet")
    return folder / "parts"


def to_feather(table, folder):
    feather.write_feather(pa.table(table), folder / "log.feather")
    return folder / "log.feather"


ENGINES = {
    "dict": lambda table, _: table,
    "arrow": lambda table, _: pa.table(table),
    "pandas": lambda table, _: pd.DataFrame(table),
    "pandas categories": lambda table, _: pd.DataFrame(table).astype({"season": "category"}),
    "polars": lambda table, _: pl.DataFrame(table),
    "sqlite": to_typed_sqlite,
    "parquet": to_parquet,
    "folder": to_folder,
    "feather": to_feather,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("next_state", [False, True])
@settings(max_examples=4)
@given(data=st.data())
def test_counts_are_those_of_a_loop(engine, next_state, tmp_path_factory, data):
    table = data.draw(logs(next_state))
    expected, dropped = counted(table)
    source = ENGINES[engine](table, tmp_path_factory.getbasetemp())
    if not expected:
        with pytest.raises(LogError, match="without a successor"):
            dualq.read_log(source, **WORDS)
        return
    log = dualq.read_log(source, **WORDS)
    assert labelled(log.counts()) == expected
    assert (log.dropped, log.skipped) == (dropped, 0)
    assert list(log.states) == sorted(log.states)
    assert log.reward_range == (min(table["profit"]), max(table["profit"]))  # rows without a successor have one too


@settings(max_examples=8)
@given(logs(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_plays_no_part(table, random):
    order = list(range(len(table["day"])))
    random.shuffle(order)
    shuffled = {name: [values[i] for i in order] for name, values in table.items()}
    if not counted(table)[0]:
        return
    one, other = dualq.read_log(table, **WORDS), dualq.read_log(shuffled, **WORDS)
    assert one.digest() == other.digest()
    assert labelled(one.counts()) == labelled(other.counts())
    np.testing.assert_array_equal(one.starts(), other.starts())


@settings(max_examples=8)
@given(logs(next_state=True))
def test_csv_keeps_what_quotes_keep(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "quoted.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    # A file of text has no types: a column of nothing but "3" and "" is read as text here because "" is text.
    kinds = {name: {type(v) for v in table[name]} for name in ("season", "next_season", "order", "shop")}
    assert all(kind == {str} for kind in kinds.values())
    try:
        log = dualq.read_log(path, **WORDS)
    except LogError:  # "3" and "3" in one column, "é" in the other: numbers and text
        return
    expected, _ = counted(table)
    n = Counter({_as_text(key): sums[0] for key, sums in labelled(log.counts()).items()})
    assert n == Counter({_as_text(key): sums[0] for key, sums in expected.items()})


def _as_text(value):
    if isinstance(value, tuple):
        return tuple(map(_as_text, value))
    if hasattr(value, "isoformat"):
        return "time"
    return "time" if str(value).startswith("2024-") else str(value)


@pytest.mark.parametrize("labels", [[3, 5], ["3", "5"], [True, False], [0.5, 2.0]])
def test_labels_keep_their_types(labels):
    log = dualq.read_log({"state": labels, "action": [0, 0], "reward": [1.0, 2.0], "next_state": labels[::-1]})
    assert list(log.states) == sorted(labels)
    assert {type(label) for label in log.states} == {type(labels[0])}


def test_times_with_zones_are_the_same_instants():
    day = pd.to_datetime(["2024-03-30 23:30", "2024-03-31 00:30", "2024-03-31 03:30"]).tz_localize("Europe/Berlin")
    frame = pd.DataFrame({"state": [1, 2, 3], "action": 0, "reward": 1.0, "time": day})
    local, utc = dualq.read_log(frame), dualq.read_log(frame.assign(time=day.tz_convert("UTC")))
    assert local.digest() == utc.digest()
    assert local.counts().s_next.tolist() == [1, 2]
    states = dualq.read_log(frame.assign(state=day), time="row").states
    assert list(states) == [d.to_pydatetime() for d in day]


def test_whole_numbers_that_nulls_made_floats_are_whole_numbers():
    frame = pd.DataFrame({"state": [1, 2, 3], "action": 0, "reward": 1.0, "done": [False, False, True]})
    log = dualq.read_log(frame.assign(next_state=frame.state.shift(-1)))
    assert list(log.states) == [1, 2, 3]
    assert (log.counts().n.tolist(), log.counts().ended.tolist()) == ([1, 1, 1], [False, False, True])


# ---- where else logs come from


def test_a_recorded_log_is_read_back(tmp_path):
    log = problems.grid_world(3).record(3000, seed=1)
    log.to_parquet(tmp_path / "log.parquet")
    read = dualq.read_log(tmp_path / "log.parquet")
    mine, theirs = log.counts(), read.counts()
    assert (read.reward_range, read.range_known, read.source) == (log.reward_range, True, log.source)
    assert _in_labels(mine) == _in_labels(theirs)
    np.testing.assert_allclose(mine.reward_sum.sum(), theirs.reward_sum.sum(), rtol=1e-12)


def _in_labels(c):
    keys = zip(c.s.tolist(), c.a.tolist(), c.s_next.tolist(), c.ended.tolist(), strict=True)
    named = [(c.states[s], c.actions[a], c.states[t], ended) for s, a, t, ended in keys]
    return dict(zip(named, c.n.tolist(), strict=True))


def test_costs_are_written_and_read_back(tmp_path):
    costs = {"late": [0.0, 1.0, 1.0]}
    log = dualq.ArrayLog(
        [0, 1, 0], [0, 0, 0], [1.0, 2.0, 3.0], [1, 0, 1], 2, 1, costs=costs, cost_ranges={"late": (0, 2)}
    )
    log.to_parquet(tmp_path / "log.parquet")
    counts = dualq.read_log(tmp_path / "log.parquet").counts()
    assert counts.cost_sums["late"].tolist() == log.counts().cost_sums["late"].tolist() == [1.0, 1.0]
    assert counts.cost_ranges == {"late": (0.0, 2.0)}
    assert counts.cost_ranges_known == {"late"}
    merged = counts.merge(log.counts()) if counts.states == log.states else None
    assert merged is not None
    assert merged.cost_sums["late"].tolist() == [2.0, 2.0]


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for a description of the data set
@pytest.mark.parametrize(
    ("name", "words"),
    [("FrozenLake-v1", {"is_slippery": True}), ("Taxi-v4", {}), ("CliffWalking-v1", {})],
)
def test_what_minaris_recorder_writes_is_a_log(tmp_path, monkeypatch, name, words):
    # Gymnasium's own wrappers record returns and films, no rows; DataCollector, of the same makers, records the rows.
    gym, minari = pytest.importorskip("gymnasium"), pytest.importorskip("minari")
    pytest.importorskip("jax", reason="Minari's recorder needs JAX (the group `recorder`)")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    recorder = minari.DataCollector(gym.make(name, max_episode_steps=30, **words))
    steps, paid, first, rng = Counter(), 0.0, Counter(), np.random.default_rng(0)
    for episode in range(25):
        s, _ = recorder.reset(seed=episode)
        first[int(s)] += 1
        over = False
        while not over:
            a = int(rng.integers(recorder.action_space.n))
            s_next, r, terminated, truncated, _ = recorder.step(a)
            steps[int(s), a, int(s_next), bool(terminated)] += 1
            s, over, paid = s_next, terminated or truncated, paid + float(r)
    data = recorder.create_dataset(dataset_id=f"dualq/{name.lower()}", eval_env=name)
    recorder.close()
    for source in (data, f"minari:dualq/{name.lower()}"):
        log = dualq.read_log(source)
        assert _in_labels(log.counts()) == dict(steps)
        assert log.counts().reward_sum.sum() == paid
        assert {log.states[s]: n for s, n in enumerate(log.starts().tolist()) if n} == dict(first)
        assert (log.dropped, log.coverage().jumps) == (0, 0)  # every step but the last of an episode leads to the next


def test_an_ibis_table_and_databases_are_logs(tmp_path):
    ibis = pytest.importorskip("ibis")
    rows = {"state": [1, 2, 1], "action": ["a", "b", "a"], "reward": [1.0, 2.0, 3.0], "next_state": [2, 1, 2]}
    con = ibis.duckdb.connect(tmp_path / "log.duckdb")
    for name, table in (("moves", pa.table(rows)), ("other", pa.table({"x": [1]}))):
        con.con.register("given", table)
        con.raw_sql(f"CREATE TABLE {name} AS SELECT * FROM given")
        con.con.unregister("given")
    expected = dualq.read_log(rows).digest()
    assert dualq.read_log(con.table("moves")).digest() == expected
    assert dualq.read_log(con.table("moves").filter(con.table("moves").reward > 1)).counts().total == 2
    con.disconnect()
    assert dualq.read_log(f"{tmp_path}/log.duckdb::moves").digest() == expected
    with pytest.raises(LogError, match=r'which table is the log\? The tables are .*; name it as "log.duckdb::TABLE"'):
        dualq.read_log(tmp_path / "log.duckdb")
    with pytest.raises(LogError, match="no table 'move'; did you mean 'moves'"):
        dualq.read_log(tmp_path / "log.duckdb", table="move")


def test_text_of_other_tools_is_read(tmp_path):
    frame = pd.DataFrame({"State": [1, 2, 1, 2], "Action": list("abab"), "Reward": [1.0, 2.0, 3.0, 4.5], "T": range(4)})
    expected = dualq.read_log(frame).digest()
    frame.to_csv(tmp_path / "comma.csv", index=False)
    frame.to_csv(tmp_path / "packed.csv.gz", index=False)
    frame.to_csv(tmp_path / "tab.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "semicolon.csv", index=False, sep=";")
    frame.to_csv(tmp_path / "bom.csv", index=False, encoding="utf-8-sig")
    pl.from_pandas(frame).write_csv(tmp_path / "polars.csv")
    for path in tmp_path.iterdir():
        log = dualq.read_log(path)
        assert log.digest() == expected, path
    assert log.guessed == {"state": ("State",), "action": ("Action",), "reward": ("Reward",), "time": ("T",)}


def test_decimal_commas_are_read_and_said(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("state;action;reward;t\n1;a;0,5;1\n2;b;-1,25;2\n1;a;3;3\n")
    log = dualq.read_log(path)
    assert sorted(log.counts().reward_sum.tolist()) == [-1.25, 0.5]
    assert any("decimal commas" in note for note in log.coverage().notes)
    path.write_text(path.read_text().replace(",", "."))
    assert dualq.read_log(path).digest() == log.digest()
    assert dualq.read_log(path).remarks == ()


def test_text_of_other_systems_is_read(tmp_path):
    text = HEAD + GOOD
    (tmp_path / "log.csv").write_text(text)
    expected = dualq.read_log(tmp_path / "log.csv", **COLUMNS).digest()
    for other in (text.replace("\n", "\r\n"), "\ufeff" + text, text.replace(",", ";")):
        (tmp_path / "log.csv").write_bytes(other.encode())
        assert dualq.read_log(tmp_path / "log.csv", **COLUMNS).digest() == expected


# ---- columns


def test_the_next_state_follows_the_states_columns():
    rows = {"x": [0, 1], "y": [0, 1], "next_x": [1, 0], "next_y": [1, 0], "act": [0, 1], "r": [1.0, 2.0]}
    log = dualq.read_log(rows, state=["x", "y"])
    assert log.schema.next_state == ("next_x", "next_y")
    assert log.guessed["next_state"] == ("next_x", "next_y")
    assert log.states.describe(0) == "x=0, y=0"


def test_truncated_rows_have_no_successor_unless_a_column_says_so():
    rows = {"state": [0, 1, 0, 1], "action": [0] * 4, "reward": [1.0] * 4, "t": range(4), "truncated": [0, 1, 0, 0]}
    log = dualq.read_log({**rows, "t": list(range(4))})
    assert (log.counts().total, log.dropped) == (2, 2)  # the cut row and the last; 1 -> 0 across the cut is not counted
    assert [(int(s), int(t)) for s, t in zip(log.counts().s, log.counts().s_next, strict=True)] == [(0, 1)]
    known = dualq.read_log({**rows, "t": list(range(4)), "next_state": [1, 0, 1, 0]})
    assert (known.counts().total, known.dropped) == (4, 0)


def test_bins_are_those_of_numpy(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=500), rng.normal(size=500)
    table = {"state": x, "action": np.zeros(500, int), "reward": np.ones(500), "next_state": y}
    log = dualq.read_log(table, bins={"state": [-1.0, 0.0, 1.5]})
    assert list(log.states) == ["< -1", "[-1, 0)", "[0, 1.5)", ">= 1.5"]
    np.testing.assert_array_equal(log.counts().visits[:, 0], np.bincount(np.digitize(x, [-1.0, 0.0, 1.5])))
    to = np.bincount(log.counts().s_next, log.counts().n)
    np.testing.assert_array_equal(to, np.bincount(np.digitize(y, [-1.0, 0.0, 1.5])))
    assert log.bins["state"].label(0.2) == "[0, 1.5)"
    for source in (table, to_typed_sqlite(table, tmp_path)):
        five = dualq.read_log(source, bins={"state": 5})
        np.testing.assert_allclose(five.bins["state"].edges, np.quantile(x, [0.2, 0.4, 0.6, 0.8]), rtol=1e-9)
        assert five.counts().visits.ravel().tolist() == [100] * 5
    assert Bins((1.0, 2.0)).label(2.0) == ">= 2"


def test_fewer_bins_than_asked_are_said():
    x = np.array([0.0] * 60 + [1.0, 2.0, 3.0, 4.0] * 10)
    table = {"state": x, "action": np.zeros(100, int), "reward": np.ones(100), "t": np.arange(100)}
    log = dualq.read_log(table, bins={"state": 4})  # the quantiles are 0, 0 and 2: nothing lies below 0
    assert log.bins["state"].edges == (2.0,)
    assert list(log.states) == ["< 2", ">= 2"]
    assert "state: 2 bins and not 4, because many rows have the same value" in log.coverage().notes
    assert dualq.read_log({**table, "state": np.arange(100.0)}, bins={"state": 4}).remarks == ()
    with pytest.raises(LogError, match=r"cannot be cut into 2 bins .* 50% of the rows or more have the value 0; give"):
        dualq.read_log(table, bins={"state": 2})


@pytest.mark.parametrize(
    ("times", "order"),
    [
        (["10", "9", "11", "8"], [3, 1, 0, 2]),
        (["1.5", "1e1", "-2", "2"], [2, 0, 3, 1]),
        (["2024-01-01T01:30:00+02:00", "2024-01-01", "2023-12-31T23:45:00Z", "2024-01-01 00:30"], [0, 2, 1, 3]),
        (["week 02", "week 01", "week 10", "week 09"], [1, 0, 3, 2]),
    ],
)
def test_times_that_are_text_are_in_the_order_of_what_they_mean(times, order, tmp_path):
    rows = {"state": [0, 1, 2, 3], "action": [0] * 4, "reward": [1.0] * 4, "t": times}
    for source in (to_typed_sqlite(rows, tmp_path), rows):
        log = dualq.read_log(source)
        following = dict(zip(log.counts().s.tolist(), log.counts().s_next.tolist(), strict=True))
        assert following == dict(itertools.pairwise(order))
    chunk, stream = Rows.empty(10), log.stream()
    assert chunk.s[: stream.fill(stream.init(0), chunk)].tolist() == order[:3]
    log.coverage()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["day 9", "day 10", "day 11"], "is text of several lengths; sorted as text it would run from 'day 10'"),
        (
            ["31/01/2024", "01/02/2024", "02/02/2024"],
            r"is text such as '01/02/2024', which cannot be sorted; if these are dates, say --day-first "
            r"\(day_first=True\) or --month-first \(day_first=False\); or write numbers, or dates as 2024-02-29",
        ),
        (["1", "2", "soon"], "the time column 't' is text: row 2 has 'soon'; it must hold numbers"),
    ],
)
def test_times_that_nobody_can_order_are_refused(times, message, tmp_path):
    rows = {"state": [0, 1, 2], "action": [0] * 3, "reward": [1.0] * 3, "t": times}
    with pytest.raises(LogError, match=message):
        dualq.read_log(rows)
    if "soon" in times:
        log = dualq.read_log(rows, skip_bad=True, quarantine=tmp_path / "bad.csv")
        assert (log.counts().total, log.skipped, log.dropped) == (1, 1, 1)


@pytest.mark.parametrize(
    "written",
    [
        "%d/%m/%Y %I%p",
        "%I:%M p.m.",
        "%b %d %Y",
        "%d%b%Y",
        "%d %B %Y %H:%M",
        "%a %H:%M",
        "%A",
        "%d.%m.%Y um %H:%M",
        "%d-%m-%y %H.%M",
    ],
)
def test_dates_whose_text_has_another_order_than_time_are_refused(written, tmp_path):
    """Whatever the engine, and whoever says which part is the day; `look` says the same."""
    moments = [datetime.datetime(2024, 3, 1, 11) + datetime.timedelta(days=29, hours=13) * k for k in range(8)]
    times = [moment.strftime(written) for moment in moments]
    assert sorted(times) != times
    rows = {"state": [0, 1] * 4, "action": [0, 0, 1, 1] * 2, "reward": np.arange(8.0), "t": times}
    said = f"the time column 't' is text such as '{min(times)}', and the order of this text is not that of time; write "
    for source in (to_typed_sqlite(rows, tmp_path), rows):
        with pytest.raises(LogError, match=re.escape(said)):
            dualq.read_log(source)
    if "%y" not in written:
        with pytest.raises(LogError, match=re.escape(said)):
            dualq.read_log(rows, day_first=True)
    assert said in str(dualq.look(rows, time="t"))
    assert said in str(dualq.look({"t": times, "note": times}, time="t"))  # where no log can be read yet
    assert not dualq.read_log(rows, time="row").remarks  # nobody asks for its order


@pytest.mark.parametrize("times", [["week 02", "week 01", "week 10"], ["2024/05/17", "2024/06/01", "2023/12/31"]])
def test_that_a_time_is_sorted_as_text_is_said(times, tmp_path):
    rows = {"state": [0, 1, 2], "action": [0] * 3, "reward": [1.0] * 3, "t": times}
    said = f"t: sorted as text, from '{min(times)}' to '{max(times)}'; if that is not the order of time, write "
    for source in (to_typed_sqlite(rows, tmp_path), rows):
        assert any(said in remark for remark in dualq.read_log(source).remarks)
    assert said in str(dualq.look(rows))
    assert said in str(dualq.look({"t": times}, time="t"))
    for plain in (["2", "1", "10"], ["2024-05-17", "2024-06-01", "2023-12-31"], [2, 1, 10]):
        assert not any("sorted as text" in remark for remark in dualq.read_log(rows | {"t": plain}).remarks)


def test_dates_that_nobody_can_read_as_the_user_says_are_named(tmp_path):
    """DuckDB reads the clock of twelve hours by itself, and not with the date turned round."""
    path = tmp_path / "log.csv"
    path.write_text(
        "t,state,action,reward\n" + "".join(f"01/{k:02}/2024 09:00:00 AM,1,{k % 2},1\n" for k in range(1, 9))
    )
    with pytest.raises(
        LogError, match=r"'t' has dates such as '01/02/2024 09:00:00 AM', which cannot be read with --day-f"
    ):
        dualq.read_log(path, day_first=True)
    path.write_text(
        "t,state,action,reward,note\n" + "".join(f"{k},1,{k % 2},1,01/{k:02}/2024 sent\n" for k in range(1, 9))
    )
    seen = dualq.look(path, day_first=True)  # a date is not all of that text
    assert next(column for column in seen.columns if column.name == "note").different == 8


def with_words(whole: bool, following: bool) -> tuple[dict[str, list], dict[str, list], list[int]]:
    """Columns of 400 rows, of which some have words for the wear; the same with nothing there; and where that is."""
    rng = np.random.default_rng(5)
    wear = rng.integers(-900, 900, 401).tolist() if whole else rng.normal(size=401).round(4).tolist()
    bad = sorted(rng.choice(400, 9, replace=False).tolist())
    rows = {"day": [f"{k % 28 + 1:02}/{k // 28 % 12 + 1:02}/{2000 + k // 336}" for k in range(400)]}
    rows |= {"wear": wear[:400], "kind": rng.choice(["a", "b"], 400).tolist(), "order": (np.arange(400) % 2).tolist()}
    rows |= {"profit": rng.normal(size=400).tolist()}
    words, empty = ({name: list(column) for name, column in rows.items()} for _ in range(2))
    for k, row in enumerate(bad):
        words["wear"][row], empty["wear"][row] = ("n/a", "broken", "nan")[k % 3], None
    if following:
        words["wear_next"], words["kind_next"] = wear[1:], [*rows["kind"][1:], "a"]
        empty |= {name: list(words[name]) for name in ("wear_next", "kind_next")}
        words["wear_next"][7], empty["wear_next"][7] = "n/a", None
        bad = sorted({*bad, 7})
    return words, empty, bad


@pytest.mark.parametrize("source", ["csv", "pandas", "sqlite"])
@pytest.mark.parametrize("following", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("more", [{"numbers": "auto"}, {"numbers": ["wear"]}, {"bins": {"wear": [-1.0, 0.0, 0.5]}}])
def test_rows_with_words_among_the_numbers_of_a_state_are_bad(source, following, whole, more, tmp_path):
    """Set aside as rows are in which nothing stands there, and named as they are written; the others are numbers."""
    words, empty, bad = with_words(whole, following)
    state = {"state": ["wear", "kind"], "action": "order", "reward": "profit", "time": "day", "day_first": True}
    state |= {"next_state": ["wear_next", "kind_next"]} if following else {}

    def read(rows, name, **more):
        texts = {column: [None if x is None else str(x) for x in values] for column, values in rows.items()}
        if source == "csv":
            made = tmp_path / f"{name}.csv"
            pd.DataFrame(rows).astype({"wear": object}).to_csv(made, index=False)
        elif source == "pandas":
            made = pd.DataFrame(rows).assign(**{c: texts[c] for c in texts if name == "words" and c.startswith("wear")})
        else:
            (tmp_path / name).mkdir()
            typed = {c: texts[c] if name == "words" and c.startswith("wear") else rows[c] for c in rows}
            made = to_typed_sqlite(typed | {"day": list(range(400))}, tmp_path / name)
        return dualq.read_log(made, **{**state, **({"day_first": None} if source == "sqlite" else {})}, **more)

    named = tmp_path / "words.bad"
    log = read(words, "words", **more, skip_bad=True, quarantine=named)
    right = read(empty, "empty", **more, skip_bad=True, quarantine=tmp_path / "empty.bad")
    assert log.skipped == right.skipped == len(bad)
    assert log.numbers == right.numbers == (() if "bins" in more else ("wear",))
    if log.numbers:
        found, known = log.number_rows(), right.number_rows()
        for one in ("a", "r", "ended", "episode"):
            np.testing.assert_array_equal(getattr(found, one), getattr(known, one))
        for one in ("state", "next_state"):
            for part in ("numbers", "categories"):
                np.testing.assert_array_equal(getattr(getattr(found, one), part), getattr(getattr(known, one), part))
        assert len(found) > 350
    else:
        assert log.digest() == right.digest()
    with named.open() as file:
        written = list(csv.DictReader(file))
    columns = ["wear", "wear_next"][: 1 + following]
    assert [[row[c] for c in columns] for row in written] == [[str(words[c][k]) for c in columns] for k in bad]
    for row, k in zip(written, bad, strict=True):
        assert "a number" in row["reason"]
        assert any(f"is {words[c][k]!r}" in row["reason"] for c in columns)


def test_words_among_numbers_that_are_to_stay_numbers_are_named(tmp_path):
    words, _, bad = with_words(whole=False, following=False)
    pd.DataFrame(words).to_csv(tmp_path / "log.csv", index=False)
    state = {"state": ["wear", "kind"], "action": "order", "reward": "profit", "time": "day"}
    row = rf"row {bad[0] + 1} \(line {bad[0] + 2}\) has 'n/a'"
    said = f"log.csv: in wear, {row}, .* 6 rows more, which are no numbers, .*--skip-bad"
    for more in ({"numbers": ["wear"]}, {"bins": {"wear": 3}}):
        with pytest.raises(LogError, match=said):
            dualq.read_log(tmp_path / "log.csv", **state, **more)
    with pytest.raises(
        LogError, match=r"in [89] rows it holds words, such as 'broken', and else numbers; .*--skip-bad"
    ):
        dualq.learn(tmp_path / "log.csv", **state, approximation="linear")


@pytest.mark.parametrize(
    "labels",
    [
        [*(str(k % 20) for k in range(399)), "none"],  # a rare label: each comes again and again
        [*(f"{k % 300:05}" for k in range(398)), "none", "none"],  # 00017 is a name
        [*(str(k % 300) for k in range(250)), *(f"k{k}" for k in range(150))],  # names, of which many are numbers
    ],
)
def test_words_among_labels_stay_labels(labels, tmp_path):
    rows = {"wear": labels, "order": [0, 1] * 200, "profit": [1.0] * 400, "day": range(400)}
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    words = {"state": "wear", "action": "order", "reward": "profit", "time": "day", "numbers": "auto"}
    log = dualq.read_log(tmp_path / "log.csv", **words, skip_bad=True)
    assert (log.skipped, log.numbers, set(log.states)) == (0, (), set(labels))


def test_labels_of_a_text_file_stay_as_they_are_written(tmp_path):
    path = tmp_path / "log.csv"
    for states, following, kind in (
        (["007", "010", "100"], ["010", "100", "007"], str),
        (["100", "101", "100"], ["007", "100", "101"], str),  # the state alone looks like a number
        (["12345678901234567890", "12345678901234567891", "5"], ["5", "5", "12345678901234567890"], str),
        (["0", "-5", "3"], ["3", "0", "-5"], int),
        (["0.5", "1", "2"], ["1", "2", "0.5"], float),
    ):
        rows = zip(states, following, strict=True)
        path.write_text("state,action,reward,next_state\n" + "".join(f"{s},1,1,{n}\n" for s, n in rows))
        log = dualq.read_log(path)
        assert set(log.states) == {kind(label) for label in (*states, *following)}
    path.write_text("state,action,reward,next_state\n1,1,1,2\n2,1,1,oops\n")
    with pytest.raises(LogError, match="'state' holds numbers and 'next_state' text; both must be of one kind"):
        dualq.read_log(path)


def test_where_value_is_measured():
    rows = {"state": list("abab"), "action": [0] * 4, "reward": [1.0] * 4, "t": [0, 1, 0, 1], "episode": [1, 1, 2, 2]}
    log = dualq.read_log({**rows, "done": [False, True, False, True]})
    assert log.starts().tolist() == [2, 0]
    assert start_weights(log).tolist() == [1.0, 0.0]
    assert start_weights(log, "log").tolist() == [0.5, 0.5]
    assert start_weights(log, "uniform").tolist() == [0.5, 0.5]
    assert start_weights(log, {"a": 1, "b": 3}).tolist() == [0.25, 0.75]
    assert start_weights(log.counts()).tolist() == [0.5, 0.5]
    for start in ("first", {"c": 1.0}, {"a": -1.0}):
        with pytest.raises(LogError, match="start"):
            start_weights(log, start)
    alone = dualq.read_log({"state": [0, 1], "action": [0, 0], "reward": [1.0, 1.0], "next_state": [1, 0]})
    with pytest.raises(LogError, match="does not say where episodes begin"):
        start_weights(alone, "episodes")


def test_what_is_available_is_checked():
    rows = {"state": ["a", "b"], "action": ["x", "y"], "reward": [1.0, 1.0], "next_state": ["b", "a"]}
    assert dualq.read_log(rows, available={"a": ["x"]}).available.tolist() == [[True, False], [True, True]]
    with pytest.raises(LogError, match="available: the log has 1 row with state='a', action='x'"):
        dualq.read_log(rows, available={"a": ["y"]})
    with pytest.raises(LogError, match="available: no state 'c'"):
        dualq.read_log(rows, available={"c": ["y"]})
    with pytest.raises(LogError, match=r"available: for 'a' there is 'x'; it must be {state: "):
        dualq.read_log(rows, available={"a": "x"})
    with pytest.raises(LogError, match="available: actions in 'action' are string in the log; got 3"):
        dualq.read_log(rows, available={"a": ["x", 3]})


def test_an_action_that_was_never_taken_may_exist():
    rows = {"state": ["a", "b"] * 2000, "action": ["x", "y"] * 2000, "reward": [1.0, 0.0] * 2000}
    rows |= {"next_state": ["b", "a"] * 2000}
    words = {"reward_range": (0, 1), "available": {"a": ["x"], "b": ["y"]}}
    without = dualq.learn(dualq.read_log(rows, **words), discount=0.5)
    # By hand: 1 in a and 0 in b, in turn, is worth 4/3 in a and 2/3 in b, and 1 at the start, both alike.
    assert without.certificate.upper == pytest.approx(1.0, abs=0.2)
    log = dualq.read_log(rows, **(words | {"available": {"a": ["x"], "b": ["y", "z"]}}))
    assert list(log.actions) == ["x", "y", "z"]
    assert log.counts().visits.tolist() == [[2000, 0, 0], [0, 2000, 0]]
    assert log.available.tolist() == [[True, False, False], [False, True, True]]
    with_z = dualq.learn(log, discount=0.5)
    # z in b may pay 1 each time and lead anywhere: any policy may be worth up to 2, and the logged ones still 1.
    assert with_z.certificate.upper == pytest.approx(2.0, abs=0.2)
    assert with_z.certificate.upper_supported == pytest.approx(1.0, abs=0.2)
    assert with_z.policy.act("b") == "y"


# ---- hostile rows, each with its message

HEAD = "shop,day,stock,order,profit\n"
GOOD = "1,1,3,a,1.5\n1,2,2,b,2.5\n1,3,1,a,-1\n2,1,3,a,0\n2,2,3,b,1\n"
COLUMNS = {"state": "stock", "action": "order", "reward": "profit", "episode": "shop", "time": "day"}

HOSTILE = {
    "nan": (HEAD + GOOD + "2,3,3,b,nan\n", r"log.csv: row 6 \(line 7\): profit is nan; rewards must be finite"),
    "inf": (HEAD + "2,3,3,b,-inf\n" + GOOD, r"log.csv: row 1 \(line 2\): profit is '?-inf'?; rewards must be finite"),
    "no reward": (HEAD + GOOD + "2,3,3,b,\n", r"row 6 \(line 7\): profit is missing; rewards must be numbers"),
    "no action": (HEAD + GOOD + "2,3,3,,4\n", r"row 6 \(line 7\): order is missing; every row needs its action"),
    "no state": (HEAD + GOOD + "2,3,,b,4\n", r"row 6 \(line 7\): stock is missing; every row needs its state"),
    "no time": (HEAD + GOOD + "2,,3,b,4\n", r"row 6 \(line 7\): day is missing; every row needs its time"),
    "no episode": (HEAD + GOOD + ",3,3,b,4\n", r"row 6 \(line 7\): shop is missing; every row needs its episode"),
    "time twice": (HEAD + GOOD + "2,2,3,b,4\n", "shop is 2 and day is 2 in more rows than one; a time must not repeat"),
    "text": (HEAD + GOOD + "2,3,3,b,n/a\n", "the reward column 'profit' is text: row 6 has 'n/a'"),
    "empty": ("", "the file is empty"),
    "no rows": (HEAD, "there are no rows"),
    "cut off": (HEAD + GOOD + "2,3,3", "line 7 is no row of the table, '2,3,3'.*the file may be cut off"),
    "delimiter": ((HEAD + GOOD).replace(",", "~"), "the only column is 'shop~day~stock~order~profit'; the fields"),
    "no names": (
        GOOD,
        r"state is 'stock', but .*: is the first line of the file a row already\? Then name .* --columns",
    ),
    "title": ("Orders of 2024\n\n" + HEAD + GOOD, "the first line is 'Orders of 2024', and line 3 is 'shop,day,stock"),
    "blank": ("\n\n", "the first line is empty; it must hold the names of the columns"),
    "names twice": (HEAD.replace("shop", "Profit") + GOOD, "several columns have the name 'profit'; give them diff"),
    "too many fields": (
        HEAD + GOOD + "2,3,3,b,1,5\n",
        "line 7 is no row .*it has more than 5 fields; what holds a del",
    ),
    "latin": ((HEAD + GOOD).replace("b", "é").encode("latin-1"), "line 3 has the byte 0xe9, which is not UTF-8; save"),
    "utf-16": ((HEAD + GOOD).encode("utf-16"), "the text is UTF-16; save it as UTF-8"),
    "no text": (bytes(range(256)) * 20, "this is not a text file"),
    "no successor": (
        HEAD + "1,1,3,a,1\n2,1,3,a,1\n",
        "2 rows without a successor, and no other; is every row an episode of its own",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_rows_stop_with_what_to_do(tmp_path, case):
    text, message = HOSTILE[case]
    (tmp_path / "log.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(LogError, match=message) as caught:
        dualq.read_log(tmp_path / "log.csv", **(COLUMNS | ({"episode": False} if case == "names twice" else {})))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": "profits"}, "reward is 'profits', but there is no such column; did you mean 'profit'"),
        ({"time": False}, 'nothing says what followed a row; name the time with --time .*time="row"'),
        ({"state": None}, r"no column is called state. Name it with --state \(state=...\); the columns are 'shop'"),
        ({"action": "stock"}, "the column 'stock' is given as state and as action; it can only be one"),
        ({"next_state": "stock"}, "the column 'stock' is given as state and as next_state"),
        ({"terminal": "shop", "truncated": "shop"}, "the column 'shop' is given as terminal and as truncated"),
        (
            {"reward": "gain"},
            "'gain', but there is no such column; there are 'shop', 'day', 'stock', 'order', 'profit'",
        ),
        ({"episode": False}, r"a time must not repeat; if the rows are of several episodes, .* \(--episode\)"),
        ({"state": 3}, "state is 3; it must be the name of a column"),
        ({"bins": {"order": 3}}, "bins are given for 'order', which holds text, not numbers"),
        (
            {"bins": {"stok": 3}},
            "bins are given for 'stok', which is not in the state .*; did you mean 'stock'",
        ),
        ({"bins": {"stock": [3, 1]}}, "bins for 'stock' are .*edges in rising order"),
        ({"reward_range": (0, 1)}, r"row 1 \(line 2\): profit is 1.5; the known range is \[0, 1\]"),
        ({"reward_range": (1, 0)}, r"the range of profit is \(1, 0\); .* the smaller one first"),
        ({"cost_ranges": {"x": (0, 1)}}, "a range is given for 'x', which is no cost"),
        ({"terminal": "order"}, r"row 1 \(line 2\): order is 'a'; a flag must be true or false, yes or no"),
    ],
)
def test_wrong_words_are_said_with_what_is_right(tmp_path, change, message):
    (tmp_path / "log.csv").write_text(HEAD + GOOD)
    with pytest.raises(LogError, match=message):
        dualq.read_log(tmp_path / "log.csv", **(COLUMNS | change))


@pytest.mark.parametrize("packed", [False, True])
def test_line_ends_may_differ_within_a_file(tmp_path, packed):
    """Line ends are no damage; a line with another number of fields is named all the same."""
    lines = (HEAD + GOOD + '3,1,1,"a\nb",2\n3,2,2,b,2\n').splitlines(keepends=True)
    mixed = "".join(line.replace("\n", "\r\n") if i in (2, 3, 8) else line for i, line in enumerate(lines))
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")

    def write(text):
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return path

    twin = dualq.read_log(write("".join(lines)), **COLUMNS).counts()
    assert dualq.read_log(write(mixed), **COLUMNS).counts().digest() == twin.digest()
    with pytest.raises(LogError, match=r"line 10 is no row of the table, '3,3,3,b,1,5': it has 6 fields and not 5"):
        dualq.read_log(write(mixed + "3,3,3,b,1,5\n"), **COLUMNS)
    with pytest.raises(LogError, match=r"row 8 \(line 10\): profit is missing"):
        dualq.read_log(write(mixed + "3,3,3,b,\n"), **COLUMNS)


def test_the_shard_with_the_bad_row_is_named(tmp_path):
    good = pa.table({"state": [0, 1], "action": [0, 0], "reward": [1.0, 2.0], "next_state": [1, 0]})
    parquet.write_table(good, tmp_path / "a.parquet")
    parquet.write_table(good.set_column(2, "reward", [[1.0, float("nan")]]), tmp_path / "b.parquet")
    with pytest.raises(LogError, match=r"^b.parquet: row 2: reward is nan"):
        dualq.read_log(tmp_path)
    with pytest.raises(LogError, match=r"^b.parquet: row 2: reward is nan"):
        dualq.read_log(f"{tmp_path}/*.parquet")


def test_files_cut_off_in_the_middle_are_said_to_be(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"state": rng.integers(0, 5, 5000), "action": 0, "reward": rng.random(5000), "t": range(5000)})
    frame.to_parquet(tmp_path / "log.parquet")
    frame.to_csv(tmp_path / "log.csv.gz", index=False)
    frame.to_feather(tmp_path / "log.feather")
    with sqlite3.connect(tmp_path / "log.sqlite") as con:
        frame.to_sql("log", con, index=False)
    con.close()
    for path in list(tmp_path.iterdir()):
        assert dualq.read_log(path).counts().total == 4999
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(LogError, match="cut off in the middle"):
            dualq.read_log(path)
    (tmp_path / "log.csv").write_bytes(gzip.compress(b"x")[:5])
    with pytest.raises(LogError):
        dualq.read_log(tmp_path / "log.csv")
    with pytest.raises(LogError, match=r"no such file; did you mean 'log.parquet'"):
        dualq.read_log(tmp_path / "logs.parquet")
    with pytest.raises(LogError, match=r"no such file; beside it there are 'log.csv', 'log.csv.gz', 'log.feather', "):
        dualq.read_log(tmp_path / "xy.parquet")  # ends like log.parquet, and is not like it


@pytest.mark.parametrize("declared", ["REAL", "INTEGER", "NUMERIC", "TEXT", ""])
def test_sqlite_sets_text_among_rewards_aside_as_csv_does(declared, tmp_path):
    # SQLite keeps a type with every value; "oops" in a column of whole numbers would be added up as 0
    rewards = [1.5, "oops", -2.0, "7", None, 0.25, "1e1", "3 apples", 4.0, 1.0]
    rows = [(i % 3, i % 2, reward, i) for i, reward in enumerate(rewards)]
    pd.DataFrame(rows, columns=["state", "action", "reward", "t"]).to_csv(tmp_path / "log.csv", index=False)
    con = sqlite3.connect(tmp_path / "log.sqlite")
    con.execute(f"CREATE TABLE log (state INTEGER, action INTEGER, reward {declared}, t INTEGER)")
    con.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
    con.commit()
    con.close()
    logs = [
        dualq.read_log(tmp_path / name, skip_bad=True, quarantine=tmp_path / f"{name}.bad")
        for name in ("log.csv", "log.sqlite")
    ]
    assert [log.skipped for log in logs] == [3, 3]
    assert logs[1].digest() == logs[0].digest()
    reasons = [pd.read_csv(log.quarantine).sort_values("t")["reason"].tolist() for log in logs]
    assert reasons[1] == reasons[0] != []
    with pytest.raises(LogError, match=r"the reward column 'reward' is text: one row has 'oops'; it must hold numbers"):
        dualq.read_log(tmp_path / "log.sqlite")


@pytest.mark.parametrize("next_state", [False, True])
@pytest.mark.parametrize("where", ["csv", "two files", "sqlite"])
def test_a_row_that_was_recorded_twice_is_named_and_only_the_copy_is_set_aside(tmp_path, where, next_state):
    """The log without its copies is the twin; a row that differs in a column that is not read is no copy."""
    rng = np.random.default_rng(3)
    once = pd.DataFrame({"state": rng.integers(0, 3, 30), "action": rng.integers(0, 2, 30), "reward": rng.random(30)})
    once = once.assign(episode=np.repeat([1, 2, 3], 10), t=np.tile(range(10), 3), note="x")
    if next_state:
        once["next_state"] = rng.integers(0, 3, 30)
    twice = pd.concat([once[:8], once[7:8], once[8:], once[29:], once[7:8]], ignore_index=True)  # 8, 31, 32 are copies
    path = tmp_path / "log"
    if where == "csv":
        twice.to_csv(path := tmp_path / "log.csv", index=False)
        named = r"log.csv: rows 8 and 9 \(lines 9 and 10\) are the same; remove one, or set copies aside"
    elif where == "two files":
        path.mkdir()
        once.to_csv(path / "a.csv", index=False)
        twice[31:].to_csv(path / "b.csv", index=False)
        named = r"b.csv: row 1 \(line 2\) is the same as row 30 \(line 31\) of a.csv"
    else:
        with sqlite3.connect(path := tmp_path / "log.sqlite") as con:
            twice.to_sql("log", con, index=False)
        con.close()
        named = r"the row with episode = 1, t = 7 is there more than once, the same in all columns; remove one"
    with pytest.raises(LogError, match=named) as caught:
        dualq.read_log(path)
    assert "\n" not in str(caught.value)
    log = dualq.read_log(path, skip_bad=True, quarantine=tmp_path / "bad.csv")
    twin = dualq.read_log(once)
    assert log.counts().digest() == twin.counts().digest()
    np.testing.assert_array_equal(log.starts(), twin.starts())
    assert [one.digest() for one in counts_in_blocks(log)] == [one.digest() for one in counts_in_blocks(twin)]
    aside = pd.read_csv(tmp_path / "bad.csv")
    assert log.skipped == len(aside) == len(twice) - len(once) - (where == "two files")
    assert set(aside["reason"]) == {"the row is the same as an earlier one, which stands for all of them"}
    if where == "csv":
        assert aside["row"].tolist() == [9, 32, 33]
    other = pd.concat([once, once[7:8].assign(note="y")], ignore_index=True)  # two decisions at one moment
    with pytest.raises(LogError, match=r"row 7 .*: episode is 1 and t is 7 in more rows than one"):
        dualq.read_log(other)


def test_cases_decided_on_the_same_day_are_told_from_rows_of_one_episode(tmp_path):
    """All rows of a day are bad where rows follow each other, copies or not; the way out is named, and keeps all."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"segment": rng.integers(0, 2, 60), "offer": rng.integers(0, 2, 60), "bought": rng.random(60)})
    rows = rows.assign(bought=rows["bought"].round(), day=np.arange(60) // 20)
    rows.to_csv(tmp_path / "offers.csv", index=False)
    words = {"state": "segment", "action": "offer", "reward": "bought", "time": "day"}
    cure = r"if every row is a case of its own, say terminal=\"row\" \(--terminal row\)"
    with pytest.raises(LogError, match=cure):
        dualq.read_log(tmp_path / "offers.csv", **words)
    twice = {name: [*values[:1], *values[:1]] for name, values in rows.to_dict("list").items()}
    with pytest.raises(LogError, match=rf"rows 0 and 1 \(counted from 0\) are the same.*{cure}"):
        dualq.read_log(twice, **words)
    with pytest.raises(LogError, match="no row is left; all 60 are bad"):
        dualq.read_log(tmp_path / "offers.csv", **words, skip_bad=True, quarantine=tmp_path / "bad.csv")
    aside = pd.read_csv(tmp_path / "bad.csv")
    assert not aside["reason"].str.contains("kept").any()  # none is
    first = ~rows.duplicated().to_numpy()
    assert aside["reason"].str.contains(cure).tolist() == first.tolist()
    assert dualq.read_log(tmp_path / "offers.csv", **words, terminal="row").counts().total == 60
    said = [words for words in dualq.look(tmp_path / "offers.csv").suspicious if "repeat another row exactly" in words]
    assert re.search(cure, said[0], re.IGNORECASE)


def test_a_time_that_repeats_is_found_where_next_states_are_given(tmp_path, monkeypatch):
    rows = {"state": [0, 1, 0], "action": [0] * 3, "reward": [1.0] * 3, "next_state": [1, 0, 1], "episode": [1, 1, 1]}
    rows["t"] = [0, 1, 1]
    message = r"arrays: row 1 \(counted from 0\): episode is 1 and t is 1 in more rows than one"
    with pytest.raises(LogError, match=message):
        dualq.read_log(rows)
    skipping = dualq.read_log(rows, skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert (skipping.counts().total, skipping.skipped) == (1, 2)
    assert sum(block.total for block in counts_in_blocks(skipping)) == 1  # all that is asked later leaves them out too
    monkeypatch.setattr(counting, "CHECKED_ROWS", 2)  # in a long log it is looked for later
    long = dualq.read_log(rows)
    with pytest.raises(LogError, match=message):
        long.coverage()


def test_too_many_states_ask_for_bins(monkeypatch):
    monkeypatch.setattr(places, "MOST", 100)
    x = np.random.default_rng(0).random(200)
    table = {"state": x, "action": np.zeros(200, int), "reward": x, "t": np.arange(200)}
    with pytest.raises(LogError, match=r"distinct values, over a million; put its numbers into bins, such as bins="):
        dualq.read_log(table)
    assert len(dualq.read_log(table, bins={"state": 4}).states) == 4


@pytest.mark.parametrize("states", [45, 60])
def test_states_are_counted_while_groups_come_and_each_once(states, monkeypatch):
    real = counting.batches

    def in_order(table, size):  # of each look's groups ten states
        groups = real(table, size).read_all()
        groups = groups.sort_by("s0") if "s0" in groups.column_names else groups
        return pa.RecordBatchReader.from_batches(groups.schema, groups.to_batches(max_chunksize=20))

    monkeypatch.setattr(counting, "batches", in_order)
    monkeypatch.setattr(counting, "MOST", 50)
    s, after = (x.ravel() for x in np.meshgrid(np.arange(states), np.arange(12)))
    table = {"state": s, "action": 0 * s, "reward": 1.0 * s, "next_state": (s + after) % states}
    if states <= 50:
        assert len(dualq.read_log(table).states) == states
        return
    with pytest.raises(LogError, match="distinct values, over a million") as found:
        dualq.read_log(table)
    assert 50 < found.value.value <= states


def test_bad_rows_are_set_aside_and_counted(tmp_path):
    bad = "2,3,3,b,\n2,4,,a,3\n2,5,3,a,7\n2,6,1\n2,7,2,a,inf\n2,8,2,a,1\n"
    (tmp_path / "log.csv").write_text(HEAD + GOOD + bad)
    log = dualq.read_log(tmp_path / "log.csv", **COLUMNS, skip_bad=True, quarantine=tmp_path / "bad.txt")
    # Shop 2, by day: 1 -> 2 -> (3, no reward) -> (4, no state) -> 5 -> (6 is no row) 7 (infinite) -> 8, the last.
    # Day 2 knows its next state, the stock of day 3; day 5 that of day 7, the next row that there is.
    c = log.counts()
    entries = zip(c.s, c.a, c.s_next, c.n, strict=True)
    found = Counter({(log.states[s], log.actions[a], log.states[t]): int(n) for s, a, t, n in entries})
    assert found == {(3, "a", 2): 2, (2, "b", 1): 1, (3, "a", 3): 1, (3, "b", 3): 1}
    assert (log.dropped, log.skipped) == (2, 4)
    with open(tmp_path / "bad.txt", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][:4] == ["file", "row", "line", "reason"]
    assert [row[1:3] for row in rows[1:]] == [["6", "7"], ["7", "8"], ["9", "10"], ["10", "11"]]
    assert "profit is missing" in rows[1][3]


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "bare.csv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_bad_row_is_found_at_its_line(tmp_path, name, end):
    """Lines that are no rows, empty lines and line breaks in quotes stand before it; a text editor counts them all."""
    rng = np.random.default_rng(5)
    kinds = rng.choice(["good", "bad", "short", "long", "empty", "broken", "broken and bad"], 400, p=[0.7, *[0.05] * 6])
    kinds[0] = "good"
    rows = {"good": "{},0,0,1,x", "bad": "{},0,0,abc,x", "short": "{},0,0", "long": "{},0,0,1,x,y", "empty": ""}
    rows |= {"broken": '{},0,0,1,"x\n\ny"', "broken and bad": '{},0,0,abc,"x\ny"'}
    names = ["t", "state", "action", "reward", "note"]
    head = [] if name == "bare.csv" else [",".join(names)]
    records = [*head, *(rows[kind].format(1000 + i) for i, kind in enumerate(kinds))]
    text = "".join(record.replace("\n", end) + end for record in records)
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    words = {"time": "t", **({} if head else {"columns": names})}
    log = dualq.read_log(tmp_path / name, **words, skip_bad=True, quarantine=tmp_path / "bad.csv")
    wrong = [i for i, kind in enumerate(kinds) if "bad" in kind or kind in ("short", "long")]
    with open(tmp_path / "bad.csv", newline="") as file:
        found = list(csv.DictReader(file))
    lines = text.replace("\r\n", "\n").split("\n")
    begins = {line[:4]: number for number, line in enumerate(lines, 1)}
    assert [int(row["line"]) for row in found] == [begins[str(1000 + i)] for i in wrong]
    assert [int(row["row"]) for row in found] == [i + 1 for i in wrong]  # as a spreadsheet has them, below the names
    assert log.skipped == len(wrong)
    first = next(i for i in wrong if "bad" in kinds[i])
    with pytest.raises(LogError, match=f"row {first + 1} has 'abc'") as caught:
        dualq.read_log(tmp_path / name, **words)
    assert caught.value.row == first + 1
    with pytest.raises(LogError, match=r"line \d+ is no row of the table") as caught:
        dualq.read_log(tmp_path / name, **{**words, "reward": "action", "action": "reward"})
    assert caught.value.line == begins[str(1000 + next(i for i in wrong if kinds[i] in ("short", "long")))]


def test_a_log_of_nothing_but_bad_rows_is_no_log(tmp_path):
    rows = {"state": [0, 1], "action": [0, 0], "reward": [float("nan")] * 2, "next_state": [1, 0]}
    with pytest.raises(LogError, match="no row is left; all 2 are bad"):
        dualq.read_log(rows, skip_bad=True, quarantine=tmp_path / "bad.csv")


def test_an_unknown_source_lists_the_known_ones():
    with pytest.raises(LogError, match="cannot read a log from int; give a path, a glob"):
        dualq.read_log(3)
    with pytest.raises(LogError, match="have different numbers of rows: state 2, action 1"):
        dualq.read_log({"state": [1, 2], "action": [1], "reward": [1.0, 2.0]})
    with pytest.raises(LogError, match="this kind of URL cannot be opened"):
        dualq.read_log("mysql://host/db::log")


def test_without_a_time_the_order_of_the_rows_tells_nothing():
    rng = np.random.default_rng(0)
    rows = {"state": rng.integers(3, size=60), "action": rng.integers(2, size=60), "reward": rng.normal(size=60)}
    rows |= {"next_state": rng.integers(3, size=60), "episode": np.repeat(np.arange(10), 6)}
    log = dualq.read_log(rows)
    assert not log.has_episodes
    np.testing.assert_allclose(start_weights(log), np.bincount(rows["state"]) / 60)  # as the rows left them
    coverage = log.coverage()
    assert (coverage.drift, coverage.memory) == ({}, None)
    assert any('no time column (time="row", --time row, if the order' in note for note in coverage.notes)
    with pytest.raises(LogError, match="no row has a state before it: the log has no time column"):
        log.markov_test()
    said = dualq.read_log(rows, time="row")
    assert said.starts().tolist() == np.bincount(rows["state"][::6], minlength=3).tolist()
    assert set(said.coverage().drift) == {"behaviour", "dynamics", "rewards"}
    assert "as they stand (the log has no time column)" in dualq.learn(log, solver="online", certificate=None).reason


def test_a_name_is_not_enough_for_an_episode():
    rows = {"id": np.arange(40), "t": np.arange(40), "state": [0, 1] * 20, "action": [0] * 40, "reward": [1.0] * 40}
    log = dualq.read_log(rows)
    assert (len(log), log.schema.episode, set(log.guessed) & {"episode"}) == (39, (), set())
    assert "id: no two rows have the same, so it is no episode" in log.coverage().notes
    with pytest.raises(LogError, match="40 rows without a successor, and no other; is every row an episode"):
        dualq.read_log(rows, episode="id")  # what is given is taken
    assert dualq.read_log(rows | {"id": [0] * 20 + [1] * 20}).schema.episode == ("id",)
    alone = rows | {"id": [*range(39), 38], "done": [False] * 40, "truncated": [True] * 40}
    with pytest.raises(
        LogError, match=r"the column 'id' was taken for the episode, .*episode=False \(--episode none\)"
    ):
        dualq.read_log(alone)


@pytest.mark.parametrize("words", [("Y", "n"), ("yes", "No"), ("TRUE", "false"), ("t", "F"), ("1", "0"), (" y", "N ")])
@pytest.mark.parametrize("by", ["csv", "pandas", "polars"])
def test_flags_may_be_words(words, by, tmp_path):
    yes, no = words
    rows = {"t": list(range(6)), "state": [0, 1, 0, 1, 0, 1], "action": [0] * 6, "reward": [1.0] * 6}
    rows |= {"done": [no, yes, no, no, no, no], "truncated": [no, no, no, yes, no, no]}

    def opened(rows):
        if by == "csv":
            pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
        return tmp_path / "log.csv" if by == "csv" else (pd if by == "pandas" else pl).DataFrame(rows)

    log = dualq.read_log(opened(rows))
    assert log.counts().ended.sum() == 1
    assert log.dropped == 2  # the fourth row was cut off, and nothing follows the last
    for column in ("done", "truncated"):
        wrong = rows | {column: [*rows[column][:2], "perhaps", *rows[column][3:]]}
        row = r"row 3 \(line 4\)" if by == "csv" else r"row 2 \(counted from 0\)"
        with pytest.raises(LogError, match=f"{row}: {column} is 'perhaps'; a flag must be true or false, yes or no"):
            dualq.read_log(opened(wrong))
        skipped = dualq.read_log(opened(wrong), skip_bad=True, quarantine=tmp_path / "bad.csv")
        assert skipped.skipped == 1


@pytest.mark.parametrize("by", ["pandas", "lists"])
def test_one_word_among_numbers_is_one_bad_row(by, tmp_path):
    rows = {"t": list(range(6)), "state": [0, 1] * 3, "action": [0] * 6, "reward": [1.5, 2, "n/a", 0.25, -1e-9, 4.0]}
    source = pd.DataFrame(rows) if by == "pandas" else rows
    with pytest.raises(LogError, match="the reward column 'reward' is text: row 2 has 'n/a'; it must hold numbers"):
        dualq.read_log(source)
    log = dualq.read_log(source, skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert log.skipped == 1
    assert log.counts().reward_sum.sum() == 1.5 + 2 + 0.25 - 1e-9  # the last row has no successor
    labels = {**rows, "reward": [1.0] * 6, "state": [0, 1, "1", 0, 1, 0]}  # 1 and "1" are not the same
    with pytest.raises(LogError, match=r"the state column 'state' holds values of several types \(int, str\)"):
        dualq.read_log(pd.DataFrame(labels) if by == "pandas" else labels)
    if by == "pandas":
        assert source["reward"].tolist() == rows["reward"]  # the frame itself stays as it was
        source["reward"] = [*rows["reward"][:3], pd.NA, float("nan"), 4.0]
        assert dualq.read_log(source, skip_bad=True, quarantine=tmp_path / "bad.csv").skipped == 3


@pytest.mark.parametrize("edges", [[1.7e12 + 3, 1.7e12 + 5, 1.7e12 + 9], [0.1, np.nextafter(0.1, 1)], [1.0, 1 + 1e-13]])
def test_edges_that_are_close_have_labels_of_their_own(edges):
    labels = Bins(tuple(map(float, edges))).labels
    assert len(set(labels)) == len(edges) + 1
    assert [float(label.split()[-1]) for label in (labels[0], labels[-1])] == [edges[0], edges[-1]]
    values = [edges[0] - 1, *edges, edges[0]]
    rows = {"stock": values, "action": [0] * len(values), "reward": [1.0] * len(values), "t": range(len(values))}
    log = dualq.read_log({k: list(v) for k, v in rows.items()}, state="stock", bins={"stock": edges})
    assert sorted(log.states) == sorted(labels)


def test_a_last_line_without_an_end_is_noted(tmp_path):
    for text, cut in ((HEAD + GOOD, False), ((HEAD + GOOD).replace("\n", "\r\n"), False), ((HEAD + GOOD)[:-1], True)):
        (tmp_path / "log.csv").write_bytes(text.encode())
        notes = dualq.read_log(tmp_path / "log.csv", **COLUMNS).coverage().notes
        assert ("log.csv: the last line has no line break; the file may be cut off" in notes) is cut


def test_arrow_streams_are_read_as_arrow_files_are(tmp_path):
    rows = pa.table({"state": [0, 1, 0, 1], "action": [0] * 4, "reward": [1.0, 2.0, 3.0, 4.0], "t": [3, 1, 2, 0]})
    for name in ("a.arrow", "b.arrows", "c"):
        with pa.ipc.new_stream(tmp_path / name, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=2)
        log = dualq.read_log(tmp_path / name)
        assert log.digest() == dualq.read_log(rows).digest()
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:300])
    with pytest.raises(LogError, match=r"a\.arrow: cannot be read"):
        dualq.read_log(tmp_path / "a.arrow")


@pytest.mark.parametrize("zone", ["", "+02:00"])
def test_an_hour_that_repeats_in_autumn_asks_for_zones(zone, tmp_path):
    clock = ["01:30:00", "02:00:00", "02:30:00", "02:00:00", "02:30:00", "03:00:00"]
    zones = ["+02:00"] * 3 + ["+01:00"] * 3 if zone else [""] * 6
    times = [f"2025-10-26 {hour}{z}" for hour, z in zip(clock, zones, strict=True)]
    rows = pd.DataFrame({"state": [0, 1] * 3, "action": [0] * 6, "reward": range(6), "time": times})
    rows.to_csv(tmp_path / "log.csv", index=False)
    if zone:
        assert len(dualq.read_log(tmp_path / "log.csv")) == 5
        return
    for source in (tmp_path / "log.csv", rows):
        with pytest.raises(
            LogError, match=r"a time must not repeat; .*local clocks repeat an hour in autumn: write times"
        ):
            dualq.read_log(source)


def test_errors_are_caught_by_names_at_the_door():
    with pytest.raises(dualq.LogError, match="no such file"):
        dualq.read_log("nowhere.csv")
    assert issubclass(dualq.LogError, dualq.DualqError)
    assert issubclass(dualq.ModelError, dualq.DualqError)
    assert issubclass(dualq.InfeasibleError, dualq.DualqError)


# ---- errors as fields


def test_errors_carry_their_parts(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("state,action,reward,t\n0,0,1,0\n1,0,inf,1\n0,0,1,2\n")
    with pytest.raises(LogError, match=r"log.csv: row 2 \(line 3\): reward is inf") as found:
        dualq.read_log(file)
    assert found.value.parts == {"path": str(file), "row": 2, "line": 3, "column": "reward", "value": float("inf")}
    with pytest.raises(LogError) as found:
        dualq.read_log(file, action="do")
    assert found.value.parts == {"path": str(file), "argument": "action", "value": "do"}
    with pytest.raises(LogError) as found:
        dualq.read_log({"state": [0, 1], "action": [0, 0], "reward": ["1", "much"], "t": [0, 1]})
    assert found.value.parts == {"column": "reward", "row": 1, "value": "much"}
    with pytest.raises(LogError) as found:
        dualq.ArrayLog([0, 2], [0, 0], [1.0, 2.0], [1, 0], 2, 1)
    assert found.value.parts == {"row": 1, "column": "state", "value": 2}
