"""Parts of a log: what pandas leaves when it cuts the rows first."""

from __future__ import annotations

import functools
import sqlite3

import numpy as np
import pandas as pd
import pytest

import dualq
from dualq.base.errors import LogError
from dualq.base.transitions import Rows
from dualq.logs import all_counts

COLUMNS = {"state": "stock", "action": "order", "reward": "profit", "episode": "shop", "time": "day"}


def frame(days, shops=3):
    rng = np.random.default_rng(0)
    shop, day = (x.ravel() for x in np.meshgrid(np.arange(shops), np.arange(days)))
    values = {"stock": rng.integers(3, size=day.size), "order": rng.integers(2, size=day.size)}
    rows = pd.DataFrame({"shop": shop, "day": day, **values, "profit": rng.integers(9, size=day.size) / 2})
    return rows.sample(frac=1, random_state=1).reset_index(drop=True)


def written(rows, by, folder):
    """The rows as a source of this kind."""
    if by == "csv":
        rows.to_csv(folder / "log.csv", index=False)
    elif by == "parquet":
        rows.to_parquet(folder / "log.parquet")
    elif by == "sqlite":
        with sqlite3.connect(folder / "log.sqlite") as con:
            rows.to_sql("log", con, index=False)
        con.close()
    return rows if by == "pandas" else folder / f"log.{by}"


def streamed(log):
    stream, rows = log.stream(), Rows.empty(1000)
    count = stream.fill(stream.init(0), rows)
    return [column[:count].tolist() for column in rows]


@pytest.mark.parametrize("by", ["csv", "parquet", "sqlite", "pandas"])
@pytest.mark.parametrize(("since", "until"), [(20, None), (None, "20"), (7.5, 30), ("0", "99")])
def test_a_part_is_what_a_cut_table_is(by, since, until, tmp_path):
    rows = frame(40)
    day = rows["day"]
    inside = (day >= float(since or 0)) & (day < float(until or 99))
    part = dualq.read_log(written(rows, by, tmp_path), **COLUMNS, since=since, until=until, bins={"stock": [2]})
    cut = dualq.read_log(rows[inside], **COLUMNS, bins={"stock": [2]})
    assert part.digest() == cut.digest()
    assert part.starts().tolist() == cut.starts().tolist()
    assert streamed(part) == streamed(cut)
    said = [note for note in part.coverage().notes if note.startswith("a part of the log was read: day ")]
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["dates", "moments", "zoned", "text", "numbers as text"])
def test_every_kind_of_time_can_be_cut(kind, tmp_path):
    rows = frame(40)
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(rows["day"], "D")
    bound = "2024-01-21"
    times = {
        "dates": dates.dt.date,
        "moments": dates + pd.Timedelta("6h"),
        "zoned": (dates + pd.Timedelta("6h")).dt.tz_localize("UTC"),
        "text": dates.dt.strftime("%Y-%m-%d"),
        "numbers as text": rows["day"].astype(str),
    }[kind]
    bound = "20" if kind.startswith("numbers") else "2024-01-21"
    source = rows.assign(day=times)
    parts = [dualq.read_log(source, **COLUMNS, **{word: bound}) for word in ("since", "until")]
    for part, inside in zip(parts, (rows["day"] >= 20, rows["day"] < 20), strict=True):
        assert part.digest() == dualq.read_log(rows[inside], **COLUMNS).digest()


def test_where_time_begins_anew_the_episodes_are_cut():
    rows = frame(5, shops=40)  # a day of each shop's own: nothing but the user can say so
    part = dualq.read_log(rows, **COLUMNS, since=30, clock="episode")
    assert part.digest() == dualq.read_log(rows[rows["shop"] >= 30], **COLUMNS).digest()
    assert "a part of the log was read: shop >= 30" in part.coverage().notes


@pytest.mark.parametrize("by", ["csv", "parquet", "pandas"])
def test_the_order_of_the_rows_can_be_cut(by, tmp_path):
    rows = frame(30)
    words = COLUMNS | {"time": "row", "episode": False}
    part = dualq.read_log(written(rows, by, tmp_path), **words, since=10, until=60)
    assert part.digest() == dualq.read_log(rows.iloc[10:60], **words).digest()


def test_what_a_drift_warning_names_can_be_cut_at(tmp_path):
    # Effects turn round at t = 600: the warning names it, and in either part nothing changed (false alarms 1% each).
    rng = np.random.default_rng(5)
    t = np.repeat(np.arange(1000), 10)
    a = rng.integers(2, size=t.size)
    s_next = (rng.random(t.size) < np.where((a == 0) != (t >= 600), 0.9, 0.1)).astype(int)
    rows = pd.DataFrame({"episode": np.tile(np.arange(10), 1000), "t": t, "action": a, "reward": 1.0})
    rows = rows.assign(state=rng.integers(2, size=t.size), next_state=s_next)
    begin, _ = dualq.read_log(rows, clock="shared").coverage().drift["dynamics"].period
    assert begin == "600"
    assert not dualq.read_log(rows, since=begin, clock="shared").coverage().warnings
    assert not dualq.read_log(rows, until=begin, clock="shared").coverage().warnings


def test_rows_keep_their_numbers_and_bins_are_of_the_part(tmp_path):
    rows = frame(30).sort_values("day", ignore_index=True)
    rows.loc[80, "profit"] = np.nan
    path = written(rows, "csv", tmp_path)
    with pytest.raises(LogError, match=r"log.csv: row 81 \(line 82\): profit is missing"):
        dualq.read_log(path, **COLUMNS, since=20)
    assert len(dualq.read_log(path, **COLUMNS, until=20)) == 57  # the bad row is not in it; three have no successor
    log = dualq.read_log(rows.assign(stock=rows["day"]), **COLUMNS, until=10, bins={"stock": 2})
    assert log.bins["stock"].edges == (4.5,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"since": "soon"}, "since is 'soon'; day has numbers, such as 600"),
        ({"since": 99}, "no row has day >= 99"),
        ({"since": 5, "until": 5}, "no row has day >= 5 and day < 5"),
        ({"since": 5, "time": False, "next_state": "next"}, "since and until need a time column"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(words, message):
    rows = frame(30)
    with pytest.raises(LogError, match=message):
        dualq.read_log(rows.assign(next=rows["stock"]), **(COLUMNS | words))
    with pytest.raises(LogError, match="until is 'x'; day has dates"):
        dualq.read_log(rows.assign(day=pd.to_datetime(rows["day"], unit="D")), **COLUMNS, until="x")


@pytest.mark.parametrize(("by", "row"), [("csv", 8), ("pandas", 7)])  # files count from 1
@pytest.mark.parametrize("time", ["oops", None])
def test_a_row_without_a_time_is_not_lost_with_the_part(by, row, time, tmp_path):
    rows = frame(40)
    rows["day"] = rows["day"].astype(object)
    rows.loc[7, "day"] = time
    with pytest.raises(LogError, match=f"row {row} "):
        dualq.read_log(written(rows, by, tmp_path), **COLUMNS, since=10)
    read = dualq.read_log(
        written(rows, by, tmp_path), **COLUMNS, since=10, skip_bad=True, quarantine=tmp_path / "bad.csv"
    )
    assert read.skipped == 1


def test_all_blocks_together_are_the_blocks_merged_one_after_another():
    """To the last bit: the sums are taken in the same order."""
    blocks = dualq.counts_in_blocks(dualq.problems.garnet(6, 3, 3, seed=1).record(4_000, seed=2))
    one_by_one = functools.reduce(lambda before, block: before.merge(block), blocks)
    together = all_counts(blocks)
    for name in ("s", "a", "s_next", "ended", "n", "reward_sum", "reward_square_sum"):
        np.testing.assert_array_equal(getattr(together, name), getattr(one_by_one, name))
    assert together.reward_range == one_by_one.reward_range
    assert together.total == 4_000
