"""Counting and streaming logs: time and memory beside DuckDB alone and beside arrays.

    uv run --group bench python benchmarks/logs.py [--rows 10_000_000] [--repeats 3] [--times 1 ...] [--out table.md]

Counting: 20 Parquet shards (state, action, reward, next_state of a Garnet of 1,000 states and 8 actions, drawn from a
seed and called simulated) are counted by `dualq.read_log(...).counts()` and by the bare GROUP BY of DuckDB on the same
columns (n, sum r, sum r^2), in turn, each in a new process; wall and CPU time, best of the repeats, and peak memory.
`--times 1 10` reads the shards once, and then ten times in one count: a log ten times as long, with the same counts.

Streaming: Algorithm 1 on the rows of a Parquet file, and on the same rows in arrays, in turn in one process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SHARDS = 20
STATES, ACTIONS, BRANCHING = 1000, 8, 10


def write_shards(folder: Path, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from dualq import problems
    from dualq.base.transitions import Rows
    from dualq.worlds.streams import Simulated

    stream = Simulated(problems.garnet(STATES, ACTIONS, BRANCHING, seed=0))
    state, chunk = stream.init(0), Rows.empty(1 << 20)
    for shard in range(SHARDS):
        left, writer = rows // SHARDS, None
        while left:
            part = chunk.first(min(left, 1 << 20))
            stream.fill(state, part)
            columns = {"state": part.s, "action": part.a, "reward": part.r, "next_state": part.s_next}
            table = pa.table({name: column.copy() for name, column in columns.items()})
            writer = writer or parquet.ParquetWriter(folder / f"{shard:02}.parquet", table.schema)
            writer.write_table(table)
            left -= part.s.size
        if writer is not None:
            writer.close()


def count_bare(folder: str, times: int) -> int:
    import duckdb

    files = sorted(str(f) for f in Path(folder).glob("*.parquet")) * times
    sums = "count(*), sum(reward), sum(reward * reward)"
    query = f"SELECT state, action, next_state, {sums} FROM read_parquet(?) GROUP BY ALL"
    table = duckdb.connect().execute(query, [files]).to_arrow_table()
    return int(np.sum(table.column(3).to_numpy()))


def count_dualq(folder: str, times: int) -> int:
    import dualq

    if times == 1:
        return dualq.read_log(folder).counts().total
    import ibis

    con = ibis.duckdb.connect()
    files = sorted(str(f) for f in Path(folder).glob("*.parquet")) * times
    return dualq.read_log(con.read_parquet(files)).counts().total


def import_only(folder: str, times: int) -> int:
    """What the process takes before it counts anything."""
    import ibis

    import dualq

    dualq.read_log({"state": [0, 1], "action": [0, 0], "reward": [0.0, 1.0], "next_state": [1, 0]})
    ibis.duckdb.connect()
    return 0


COUNTERS = {"bare": count_bare, "dualq": count_dualq, "imports": import_only}


def measure(which: str, folder: Path, times: int) -> dict[str, float]:
    words = [sys.executable, __file__, "--one", which, "--folder", str(folder), "--times", str(times)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def one(which: str, folder: str, times: int) -> None:
    if which == "dualq":  # imports and compiled kernels are not counting
        import_only(folder, times)
    else:
        import duckdb

        duckdb.connect().execute("SELECT 1").to_arrow_table()
    wall, cpu = time.perf_counter(), time.process_time()
    rows = COUNTERS[which](folder, times)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": rows}
    print(json.dumps(took | {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def counting(rows: int, repeats: int, times: list[int]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder, rows)
        size = sum(f.stat().st_size for f in folder.iterdir()) / 1e9
        base = measure("imports", folder, 1)["peak_mb"]
        lines = [f"{SHARDS} Parquet shards, {size:.2f} GB, best of {repeats}:", ""]
        head = ("rows", "counted by", "wall s", "CPU s", "million rows/s (wall)", "speed beside bare (wall / CPU)")
        lines += [f"| {' | '.join(head)} | peak memory MB |", "|---" * (len(head) + 1) + "|"]
        for often in times:
            lines += compared(folder, repeats, often)
    return [*lines, "", f"Imports alone take {base:.0f} MB."]


def compared(folder: Path, repeats: int, times: int) -> list[str]:
    """The bare GROUP BY and dualq on the shards, read so many times in one count."""
    runs: dict[str, list[dict[str, float]]] = {"bare": [], "dualq": []}
    for _ in range(repeats):
        for which, found in runs.items():
            found.append(measure(which, folder, times))
            print(which, found[-1], file=sys.stderr, flush=True)
    best = {which: {k: min(run[k] for run in found) for k in found[0]} for which, found in runs.items()}
    assert best["bare"]["rows"] == best["dualq"]["rows"]
    lines = []
    for which, run in best.items():
        ratio = f"{best['bare']['wall'] / run['wall']:.2f} / {best['bare']['cpu'] / run['cpu']:.2f}"
        memory = max(r["peak_mb"] for r in runs[which])
        rate = run["rows"] / 1e6 / run["wall"]
        cells = (
            f"{run['rows']:,.0f} | {which} | {run['wall']:.2f} | {run['cpu']:.2f} | {rate:.1f} | {ratio} | {memory:.0f}"
        )
        lines.append(f"| {cells} |")
    return lines


def streaming(rows: int, repeats: int) -> list[str]:
    import dualq
    from dualq import problems
    from dualq.online.training import Task

    log = problems.garnet(100, 4, 5, seed=0).record(rows, seed=1)
    with tempfile.TemporaryDirectory() as name:
        log.to_parquet(Path(name) / "log.parquet")
        read = dualq.read_log(Path(name) / "log.parquet")
        mdp = read.counts().mdp(0.9)
        start, silent = np.full(mdp.num_states, 1.0 / mdp.num_states), np.zeros(mdp.num_states, bool)
        algorithm = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=0.1, zeta=1e-4)
        took: dict[str, list[tuple[float, float]]] = {"arrays": [], "Parquet": []}
        solutions = {}
        for _ in range(repeats + 1):  # the first compiles
            for which, stream in (("arrays", log.stream()), ("Parquet", read.stream())):
                task = Task(stream, mdp, False, 1e-3, start, which, silent)
                wall, cpu = time.perf_counter(), time.process_time()
                solutions[which] = dualq.train(algorithm, task, rows).solution.Q
                took[which].append((time.perf_counter() - wall, time.process_time() - cpu))
                print(which, took[which][-1], file=sys.stderr, flush=True)
    np.testing.assert_array_equal(solutions["arrays"], solutions["Parquet"])
    best = {which: np.min(found[1:], axis=0) for which, found in took.items()}
    lines = [f"Algorithm 1 on {rows:,} rows, best of {repeats} (both give the same Q, to the last bit):", ""]
    lines += ["| rows from | million steps/s (wall) | of arrays (wall / CPU) |", "|---|---|---|"]
    for which, (wall, cpu) in best.items():
        ratio = f"{best['arrays'][0] / wall:.2f} / {best['arrays'][1] / cpu:.2f}"
        lines.append(f"| {which} | {rows / 1e6 / wall:.1f} | {ratio} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text.replace("_", ""))), default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--times", type=int, nargs="+", default=[1])
    parser.add_argument("--part", choices=["counting", "streaming", "all"], default="all")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=list(COUNTERS))
    parser.add_argument("--folder")
    words = parser.parse_args()
    if words.one:
        one(words.one, words.folder, words.times[0])
        return
    lines = counting(words.rows, words.repeats, words.times) if words.part != "streaming" else []
    if words.part != "counting":
        lines += ["", *streaming(min(words.rows, 10_000_000), words.repeats)]
    text = "\n".join(lines)
    print(text)
    if words.out:
        words.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
