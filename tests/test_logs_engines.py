"""The same log on a real local Spark session, and on a real PostgreSQL server."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pandas as pd
import postgres_server
import pytest
from log_tables import ODD, WORDS, counted, labelled

import dualq
from dualq.base.errors import LogError
from dualq.base.transitions import Rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets between Python and the JVM
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def table(rows=400, next_state=False):
    rng = np.random.default_rng(7)
    columns = {
        "shop": rng.choice(["a,b", "é", "3"], rows),
        "stock": rng.integers(-2, 3, rows),
        "season": rng.choice(ODD, rows),
        "order": rng.choice(["3", "two", ""], rows),
        "profit": rng.integers(-6, 7, rows) / 2,
        "done": rng.random(rows) < 0.1,
        "stockout": rng.integers(0, 2, rows).astype(float),
    }
    frame = pd.DataFrame(columns)
    frame["day"] = frame.groupby("shop").cumcount()
    if next_state:
        frame["next_stock"], frame["next_season"] = rng.integers(-2, 3, rows), rng.choice(ODD, rows)
    return frame.sample(frac=1, random_state=0).to_dict("list")


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Java compiles for minutes to come; these tests take seconds
    builder = builder.config("spark.driver.extraJavaOptions", quick)
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.parametrize("next_state", [False, True])
def test_spark_counts_as_duckdb_and_a_loop_do(spark, next_state):
    rows = table(next_state=next_state)
    frame = spark.createDataFrame(pd.DataFrame(rows).to_dict("records"))
    there, here = dualq.read_log(frame, **WORDS), dualq.read_log(rows, **WORDS)
    expected, dropped = counted(rows)
    assert labelled(there.counts()) == labelled(here.counts()) == expected
    assert there.digest() == here.digest()
    assert there.dropped == here.dropped == dropped
    np.testing.assert_array_equal(there.starts(), here.starts())
    mine, theirs = here.coverage().summary(), there.coverage().summary()
    assert mine["drift"]["behaviour"]["p_value"] == pytest.approx(theirs["drift"]["behaviour"]["p_value"], rel=1e-9)
    columns = []
    for log in (here, there):
        chunk, stream = Rows.empty(1000), log.stream()
        count = stream.fill(stream.init(0), chunk)
        columns.append([column[:count] for column in chunk])
    for one, other in zip(*columns, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_bad_row_on_spark_is_named_by_its_episode_and_time(spark):
    rows = table(rows=40)
    rows["profit"][3] = float("nan")
    frame = spark.createDataFrame(pd.DataFrame(rows).to_dict("records"))
    where = f"the row with shop = '{rows['shop'][3]}', day = {rows['day'][3]}: profit is (nan|missing); rewards must be"
    with pytest.raises(LogError, match=where):
        dualq.read_log(frame, **WORDS)
    twice = pd.DataFrame({name: [*column, column[0]] for name, column in table(rows=40).items()}).to_dict("records")
    with pytest.raises(LogError, match="is there more than once, the same in all columns; remove one"):
        dualq.read_log(spark.createDataFrame(twice), **WORDS)
    with pytest.raises(LogError, match="have no order of their own; give a time column"):
        dualq.read_log(frame, **(WORDS | {"time": "row"}))


@pytest.fixture(scope="module")
def postgres():
    """The URL of a server that may be written to: the one that DUALQ_TEST_POSTGRES names, or one of our own."""
    pytest.importorskip("psycopg")
    given = os.environ.get("DUALQ_TEST_POSTGRES")
    if given is not None:
        yield given
    elif postgres_server.programs() is None:
        pytest.skip("PostgreSQL is not installed, and DUALQ_TEST_POSTGRES names no server")
    else:
        with postgres_server.server() as url:
            yield url


def to_postgres(url, rows):
    import psycopg

    with psycopg.connect(url) as con:
        con.execute("DROP TABLE IF EXISTS dualq_log")
        kinds = dict.fromkeys(("stock", "next_stock", "day"), "bigint")
        kinds |= {"profit": "float8", "stockout": "float8", "done": "boolean"}
        columns = ", ".join(f'"{name}" {kinds.get(name, "text")}' for name in rows)
        con.execute(f"CREATE TABLE dualq_log ({columns})")
        marks = ", ".join(["%s"] * len(rows))
        with con.cursor() as cursor:
            plain = [[x.item() if hasattr(x, "item") else x for x in row] for row in zip(*rows.values(), strict=True)]
            cursor.executemany(f"INSERT INTO dualq_log VALUES ({marks})", plain)
    return f"{url}::dualq_log"


@pytest.mark.parametrize("next_state", [False, True])
def test_postgres_counts_as_a_loop_does(postgres, next_state):
    rows = table(next_state=next_state)
    there, here = dualq.read_log(to_postgres(postgres, rows), **WORDS), dualq.read_log(rows, **WORDS)
    expected, dropped = counted(rows)
    assert labelled(there.counts()) == expected
    assert (there.digest(), there.dropped) == (here.digest(), dropped)
    np.testing.assert_array_equal(there.starts(), here.starts())
    drift, same = there.coverage().drift, here.coverage().drift
    assert {k: c.p_value for k, c in drift.items()} == pytest.approx({k: c.p_value for k, c in same.items()})
    assert there.markov_test().p_value == pytest.approx(here.markov_test().p_value)


def test_postgres_cuts_blocks_and_bins_as_duckdb_does(postgres):
    """What a certificate needs of a log, and states that are made of bins."""
    rows = table()
    url, bins = to_postgres(postgres, rows), {"stock": [1, 3]}
    there, here = (dualq.read_log(source, **WORDS, bins=bins) for source in (url, rows))
    assert labelled(there.counts()) == labelled(here.counts())
    for mine, same in zip(there.counts_between([20, 50]), here.counts_between([20, 50]), strict=True):
        assert labelled(mine) == labelled(same)


def test_what_is_wrong_on_postgres_is_one_line(postgres, tmp_path):
    rows = table(rows=40)
    rows["profit"][3] = float("nan")
    url = to_postgres(postgres, rows)
    where = f"the row with shop = '{rows['shop'][3]}', day = {rows['day'][3]}: profit is nan; rewards must be finite"
    with pytest.raises(LogError, match=where):
        dualq.read_log(url, **WORDS)
    log = dualq.read_log(url, **WORDS, skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert log.skipped == 1
    twice = {name: [*column, column[0]] for name, column in table(rows=40).items()}
    log = dualq.read_log(to_postgres(postgres, twice), **WORDS, skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert (log.skipped, log.digest()) == (1, dualq.read_log(table(rows=40), **WORDS).digest())
    with pytest.raises(LogError, match="no table 'dualq_logs'; did you mean 'dualq_log'"):
        dualq.read_log(f"{postgres}::dualq_logs", **WORDS)
    with pytest.raises(LogError, match=r"127\.0\.0\.1:1/x: cannot connect") as caught:
        dualq.read_log("postgres://someone:secret@127.0.0.1:1/x::log", **WORDS)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
