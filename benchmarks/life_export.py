"""Decisions for a million rows: `act_many`, `dualq act --log`, and the policy exported to SQL, run by DuckDB.

    python benchmarks/life_export.py [rows]

10,000 states of two columns and one in bins, 5 actions, half of the states random. All answers are compared with each
other, and some of them with `act`. Seconds are of the clock, and of the processor.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from common import markdown, publish

from dualq.base import Labels
from dualq.model import TablePolicy
from dualq.offline import decide_file
from dualq.offline.deciding import Decider
from dualq.offline.exported.branches import _of_table
from dualq.offline.exported.sql_form import DIALECTS, as_sql

BINS = ["< 1", "[1, 2)", "[2, 3)", ">= 3"]


def policy() -> Decider:
    rng = np.random.default_rng(0)
    labels = [(i, f"place {j}", b) for i in range(50) for j in range(50) for b in BINS]
    P = rng.dirichlet(np.ones(5), len(labels))
    P[::2] = np.eye(5)[rng.integers(0, 5, len(P[::2]))]
    table = TablePolicy(P, Labels(labels, ("stock", "place", "wear")), Labels(["a", "b", "c", "d", "e"], "do"))
    return Decider(table, {"wear": [1.0, 2.0, 3.0]})


def rows(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    places = np.array([f"place {j}" for j in range(51)], object)  # one of them is unknown
    numbers = {"stock": rng.integers(0, 50, n), "wear": rng.uniform(0, 4, n), "id": rng.permutation(n)}
    return pd.DataFrame(numbers | {"place": places[rng.integers(0, 51, n)]})


def timed(name: str, do: Callable[[], object], n: int, found: list) -> object:
    best = (np.inf, np.inf)
    for _ in range(3):
        clock, cpu = time.perf_counter(), time.process_time()
        answer = do()
        best = min(best, (time.perf_counter() - clock, time.process_time() - cpu))
    found.append([name, f"{best[0]:.2f}", f"{best[1]:.2f}", f"{n / best[1] / 1e6:.1f}"])
    return answer


def main(n: int) -> None:
    decider, frame, found = policy(), rows(n), []
    arrow = pa.Table.from_pandas(frame)
    decided = timed("act_many, pandas frame", lambda: decider.act_many(frame, case="id"), n, found)
    assert timed("act_many, Arrow table", lambda: decider.act_many(arrow, case="id"), n, found) == decided
    for k in range(0, n, n // 500):
        state = {name: frame[name][k] for name in decider.names}
        assert decided[k] == (decider.act(state, default="?", case=int(frame["id"][k])).replace("?", "") or None)
    with tempfile.TemporaryDirectory() as folder:
        for ending, write in ((".parquet", pa.parquet.write_table), (".csv", pa.csv.write_csv)):
            source, out = Path(folder) / f"new{ending}", Path(folder) / f"out{ending}"
            write(arrow, source)
            timed(
                f"a {ending} file, read and written", lambda s=source, o=out: decide_file(decider, s, o, "id"), n, found
            )
            again = pa.csv.read_csv(out) if ending == ".csv" else pa.parquet.read_table(out)
            assert [a or None for a in again["decided_do"].to_pylist()] == decided
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.register("cases", arrow)
    con.execute(
        as_sql(_of_table(decider, "benchmark", "", None), DIALECTS["duckdb"], case="id").replace("VIEW", "TEMP VIEW")
    )
    ask = "SELECT id, decided_do FROM cases_decided"
    answer = timed("exported to SQL, DuckDB, one thread", lambda: pa.table(con.sql(ask).arrow()), n, found)
    by_id = dict(zip(*answer.to_pydict().values(), strict=True))
    assert [by_id[i] for i in frame["id"].tolist()] == decided
    unknown = decided.count(None) / n
    text = (
        f"{n:,} rows, 10,000 states, half of them random; {unknown:.1%} of the rows have an unknown state. The answers "
    )
    text += "are the same in all of them."
    header = ["how", "seconds", "CPU seconds", "million rows a CPU second"]
    publish("Decisions for many rows", f"{text}\n\n{markdown(header, found)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
