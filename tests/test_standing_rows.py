"""Rows that stand episode by episode in the order of time are linked without a sort: all that is read is the same."""

from __future__ import annotations

import dataclasses

import duckdb
import numpy as np
import pandas as pd
import pytest
from test_order_both_ways import LOGS, last_rows_ended, one_walk, shared, steps_with_flags

import dualq
from dualq.base.transitions import Rows
from dualq.logs import table_log
from dualq.logs.checks import trace as traces
from dualq.logs.reading import order

# Logs in which some row has no place in time, or in which nothing is linked by time, are never taken for standing.
NEVER = {"rows_without_a_place", "next_states_without_some_episodes", "next_states_and_a_missing_time"}
UNLINKED = {"in_the_order_of_rows"}
LATER = [made for made in LOGS if made.__name__ in NEVER | UNLINKED | {"dates", "halves_of_hours", "times_as_words"}]


def in_order(rows):
    """A frame sorted by episode and time; rewards are sums of few powers of two, so that any order adds up alike."""
    frame = pd.DataFrame(rows)
    for name in ("who", "t", "state", "action"):
        if name in frame and pd.api.types.is_float_dtype(frame[name]) and frame[name].isna().any():
            frame[name] = frame[name].astype("Int64")
    frame["reward"] = np.round(frame["reward"] * 256) / 256
    return frame.sort_values([name for name in ("who", "t") if name in frame], kind="stable", ignore_index=True)


def mixed_up(frame):
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


def read(source, long, monkeypatch, **words):
    monkeypatch.setattr(order, "LONG", long)
    return dualq.read_log(source, **words)


def both(source, monkeypatch, **words):
    """The same log, its rows linked as they stand, and after a sort."""
    return read(source, 0, monkeypatch, **words), read(source, 10**9, monkeypatch, **words)


def assert_same_counts(here, there):
    for name in ("s", "a", "s_next", "ended", "n", "reward_sum", "reward_square_sum"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
    assert here.reward_range == there.reward_range
    assert {c: x.tolist() for c, x in here.cost_sums.items()} == {c: x.tolist() for c, x in there.cost_sums.items()}


def assert_same_trace(here, there):
    for part in dataclasses.fields(traces.Trace):
        mine, other = getattr(here, part.name), getattr(there, part.name)
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(mine, other)
        elif part.name == "clock":
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_array_equal(mine.at, other.at)
                assert (mine.kind, mine.by) == (other.kind, other.by)
        elif part.name in ("costs", "raw", "raw_next"):
            assert mine.keys() == other.keys()
            for name, values in mine.items():
                np.testing.assert_array_equal(values, other[name])
        elif part.name == "labels":
            assert mine.equals(other)
        else:
            assert mine == other


def plain(summary):
    """The figures of a coverage without p-values, and these: they are sums of cubes, rounded in the engine's order."""
    drift, memory, checks = (summary.pop(name) for name in ("drift", "memory", "checks"))
    told = [*drift.values(), *checks.values(), *([memory] if memory else [])]
    return summary, [(one["found"], one.get("period")) for one in told], [one["p_value"] for one in told]


def assert_same_log(here, there):
    assert (here.dropped, here.skipped, here.remarks) == (there.dropped, there.skipped, there.remarks)
    assert_same_counts(here.counts(), there.counts())
    N = len(here)
    cuts = sorted({0, N // 16, N // 5, N // 2 + 1, N})
    for one, other in zip(here.counts_between(cuts), there.counts_between(cuts), strict=True):
        assert_same_counts(one, other)
    if here.has_episodes:
        np.testing.assert_array_equal(here.starts(), there.starts())
    assert_same_trace(here.trace(), there.trace())
    (mine, found, p), (other, told, q) = plain(here.coverage().summary()), plain(there.coverage().summary())
    assert (mine, found) == (other, told)
    np.testing.assert_allclose(p, q, rtol=1e-9)


CASES = [(made, 60) for made in LOGS if made not in LATER] + [(made, 10**9) for made in (one_walk, steps_with_flags)]
CASES += [pytest.param(made, 60, marks=pytest.mark.slow) for made in LATER]


@pytest.mark.parametrize(("made", "most"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_all_is_the_same_without_a_sort(made, most, monkeypatch, tmp_path):
    words, rows = made()
    for module in (table_log, traces):  # what a long log does: the engine is asked, and a part is read row by row
        monkeypatch.setattr(module, "MOST_ROWS", most)
    monkeypatch.setattr(traces.trace_of_table, "__defaults__", (most,))
    monkeypatch.setattr(traces, "CHUNK", 50)
    words["quarantine"] = tmp_path / "bad.csv"
    here, there = both(in_order(rows), monkeypatch, **words)
    assert here.questions.stands == (made.__name__ not in NEVER | UNLINKED)
    assert not there.questions.stands
    assert_same_log(here, there)


def written(frame, kind, folder):
    path = folder / f"log.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path, row_group_size=64)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "arrow":
        frame.to_feather(path)
    else:
        with duckdb.connect(path) as con:
            con.execute("create table log as select * from frame")
    return path


@pytest.mark.parametrize("mixed", [False, True], ids=["in order", "mixed"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "arrow", "duckdb"])
def test_of_every_kind_of_file(kind, mixed, monkeypatch, tmp_path):
    """Rows of files that do not stand in their order are copied into it, and so are those of text; not of databases."""
    words, rows = steps_with_flags()
    rows["work"] = [abs(r) // 0.25 * 0.25 for r in rows["reward"]]
    rows["idle"] = rows["who"]  # a column that plays no part
    frame = in_order(rows)
    path = written(mixed_up(frame) if mixed else frame, kind, tmp_path)
    here, there = both(path, monkeypatch, costs=["work"], **words)
    of_database = kind == "duckdb"
    assert here.questions.stands == (not mixed or not of_database)
    assert here.questions.copied == (kind == "csv" or (mixed and not of_database))
    assert_same_log(here, there)
    assert streamed(here) == streamed(there)


def test_a_part_of_a_log_whose_last_rows_ended_is_copied_with_them(monkeypatch, tmp_path):
    words, rows = last_rows_ended()
    path = written(mixed_up(in_order(rows)), "parquet", tmp_path)
    here, there = both(path, monkeypatch, until=25, **words)
    assert here.questions.copied
    assert_same_log(here, there)
    assert here.counts().ended.sum() > 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_wrong_with_a_copied_row_is_said_of_the_row_in_the_file(kind, monkeypatch, tmp_path):
    words, rows = shared()
    frame = mixed_up(in_order(rows))
    frame.loc[123, "reward"] = float("inf")
    path = written(frame, kind, tmp_path)
    said = []
    for long in (0, 10**9):
        with pytest.raises(dualq.LogError, match="row 124") as error:
            read(path, long, monkeypatch, **words)
        said.append(str(error.value))
    assert said[0] == said[1]
    words["skip_bad"] = True
    here, there = (
        read(path, long, monkeypatch, quarantine=tmp_path / f"bad{long}.csv", **words) for long in (0, 10**9)
    )
    assert here.questions.copied
    assert_same_log(here, there)
    assert here.quarantine.read_text() == there.quarantine.read_text()


def streamed(log):
    stream, rows = log.stream(), Rows.empty(1000)
    count = stream.fill(stream.init(0), rows)
    return [column[:count].tolist() for column in rows]


def broken():
    """Ways in which rows do not stand in their order; those of the last three cannot be put into it."""
    frame = in_order(shared()[1])
    last = len(frame) - 1
    yield "all rows", mixed_up(frame)
    yield "the last two rows", frame.iloc[[*range(last - 1), last, last - 1]]
    yield "an episode in two pieces", pd.concat([frame.iloc[5:], frame.iloc[:5]])
    yield "a time twice", frame.assign(t=frame["t"].where(frame.index != 7, frame["t"][6]))
    yield "no time", frame.assign(t=frame["t"].astype("Int64").where(frame.index != 0))
    yield "no episode", frame.assign(who=frame["who"].astype("Int64").where(frame.index != last))


@pytest.mark.parametrize(("what", "frame"), [pytest.param(*found, id=found[0]) for found in broken()])
def test_one_row_out_of_place_is_seen(what, frame, monkeypatch, tmp_path):
    words = {**shared()[0], "skip_bad": True, "quarantine": tmp_path / "bad.csv"}
    here, there = both(frame.reset_index(drop=True), monkeypatch, **words)
    assert here.questions.stands == here.questions.copied == (what not in ("a time twice", "no time", "no episode"))
    assert here.digest() == there.digest()


def test_a_table_whose_engine_keeps_no_order_is_sorted(monkeypatch):
    ibis = pytest.importorskip("ibis")
    words, rows = shared()
    for kept in (True, False):
        con = ibis.duckdb.connect()
        con.raw_sql(f"SET preserve_insertion_order = {kept}")
        con.con.register("log", in_order(rows))
        assert read(con.table("log"), 0, monkeypatch, **words).questions.stands == kept
