"""Large: what `learn` costs as states and rows grow, what starting costs, and how large a saved fit is.

uv run --group bench python benchmarks/scale.py [--only learn exact rows start report] [--long] [--beside SRC]

learn     CPU seconds of the stages of `learn` with a certificate, on as many threads as there are cores, and the wall
          seconds of all; ten rows a state, beside one exact solve of the true model; a Garnet (5 actions, 4 successors)
          and a queue, every state as likely. `slope` is that of log time over log states between the smallest and the
          largest. The saved fit in megabytes. `Ctrl-C` is how long a signal waited for Python at the most, twenty of
          them a second: what Ctrl-C would have waited. --long: a million states too
exact     solving known models: mazes, with the number of passes over the model or over the chain of a policy
          (products); a Garnet of a million states on one thread and on two (wall time, bits compared). --long: a
          Garnet of ten million too
rows      ten million rows of 14 states, in the order of time and in none: read_log, coverage, starts, blocks; beside
          one bare GROUP BY of the same rows with their next states. --long: a hundred million too
start     CPU seconds of commands, files in the cache of the disk and kernels compiled, as many threads as users have:
          the median of seven; and what of it the libraries take that `learn` loads, with one empty chart drawn.
          --beside: the same of another version, whose src/ is given, in turns
report    the same of a log of 500 states with a limit: learning, learning with a report and its trade-off, the
          trade-off alone; libraries and all

Every size is a process of its own, so that its peak memory can be told.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import markdown, publish

import dualq
from dualq import problems
from dualq.offline import stages
from dualq.solvers import solve_dynamic

SIZES, LONG_SIZE = (1_000, 10_000, 100_000), 1_000_000
ROWS_A_STATE = 10
MAZES = (200, 500, 1_000, 1_115)  # cells a side; the largest has about a million states
TOLERANCE = 1e-8


def simulated(kind, states):
    return problems.garnet(states, 5, 4, discount=0.9, seed=1) if kind == "Garnet" else problems.queue(states - 1)


def recorded(mdp, rows, path):
    """Rows from every pair alike, with their next states, as a Parquet file."""
    rng, A = np.random.default_rng(0), mdp.num_actions
    pairs = np.flatnonzero(mdp.available.ravel())[rng.integers(mdp.available.sum(), size=rows)]
    P = mdp.transitions.tocsr()
    ends = np.cumsum(P.data)
    below = np.where(P.indptr[pairs] > 0, ends[P.indptr[pairs] - 1], 0.0)
    drawn = np.searchsorted(ends, below + rng.random(rows) * (ends[P.indptr[pairs + 1] - 1] - below), side="right")
    drawn = np.clip(drawn, P.indptr[pairs], P.indptr[pairs + 1] - 1)
    columns = {"s": pairs // A, "a": pairs % A, "r": mdp.rewards.ravel()[pairs], "n": P.indices[drawn]}
    pq.write_table(pa.table(columns), path)


def timed(function):
    """What a function gives, and its CPU seconds."""
    began = time.process_time()
    return function(), time.process_time() - began


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


class Waits:
    """How long a signal waits for Python at the most, and where it was heard at last."""

    EVERY = 0.05

    def __enter__(self):
        self.longest, self.where, self.last = 0.0, "", time.perf_counter()
        signal.signal(signal.SIGALRM, self.heard)
        signal.setitimer(signal.ITIMER_REAL, self.EVERY, self.EVERY)
        return self

    def heard(self, _, frame):
        now = time.perf_counter()
        if now - self.last - self.EVERY > self.longest:
            places = [f for f, _ in traceback.walk_stack(frame) if "dualq" in f.f_code.co_filename]
            self.longest = now - self.last - self.EVERY
            self.where = " < ".join(f"{Path(f.f_code.co_filename).name}:{f.f_lineno}" for f in places[:3])
        self.last = now

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def learn_once(kind, states):
    """CPU seconds of the stages of one `learn`, the wall's of all, the process's peak memory, the saved fit's size."""
    mdp = simulated(kind, states).mdp
    dualq.solve(mdp)
    _, exact = timed(lambda: dualq.solve(mdp))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        recorded(mdp, ROWS_A_STATE * states, path)
        low, high = float(mdp.rewards.min()), float(mdp.rewards.max())
        discount, mdp = mdp.discount, None
        os.environ["OMP_NUM_THREADS"] = str(os.cpu_count())  # of dualq's own threads; OpenBLAS has read its own before
        began = time.perf_counter()
        options = {"state": "s", "action": "a", "reward": "r", "next_state": "n", "reward_range": (low, high)}
        with Waits() as waits:
            read, reading = timed(lambda: stages.read(path, **options, approximation="table"))
            counted, counting = timed(lambda: stages.count(read))
            modelled, modelling = timed(lambda: stages.model(counted, discount=discount))
            solved, solving = timed(lambda: stages.solve(modelled))
            proven, proving = timed(lambda: stages.prove(solved))
            wall, memory = time.perf_counter() - began, peak()
            dualq.Fit(proven).save(Path(folder) / "run")
        size = (Path(folder) / "run" / "solution.npz").stat().st_size / 1e6
    print(f"{kind} {states:,}: a signal waited {waits.longest:.2f} s at the most, {waits.where}", file=sys.stderr)
    return [exact, reading + counting, modelling + solving, proving, wall, memory, size, waits.longest]


def maze_once(size, discount):
    """States, CPU seconds, products and the proven bound of one maze; the process's peak memory."""
    solve_dynamic(problems.maze(200, discount=0.9999).mdp, TOLERANCE)  # kernels are compiled then
    mdp = problems.maze(size, discount=discount).mdp
    found, spent = timed(lambda: solve_dynamic(mdp, TOLERANCE))
    return [mdp.num_states, spent, found.products, found.error_bound, peak()]


def garnet_once(states):
    """Seconds of wall time on one thread and on two, the least of three; products, bound, whether bits agree; peak."""
    solve_dynamic(problems.garnet(1_000, 5, 4, discount=0.9, seed=1).mdp, TOLERANCE)
    mdp, spent, answers = problems.garnet(states, 5, 4, discount=0.9, seed=1).mdp, {1: [], 2: []}, {}
    for _ in range(3):
        for threads, walls in spent.items():
            os.environ["OMP_NUM_THREADS"], began = str(threads), time.perf_counter()
            answers[threads] = solve_dynamic(mdp, TOLERANCE)
            walls.append(time.perf_counter() - began)
    same = bool((answers[1].V == answers[2].V).all())
    return [min(spent[1]), min(spent[2]), answers[1].products, answers[1].error_bound, same, peak()]


def walked(path, rows, mixed):
    """Rows of 14 states in episodes of a thousand, one after another or in no order, as a Parquet file."""
    order = " order by hash(i)" if mixed else ""
    duckdb.sql(
        f"copy (select i // 1000 as episode, i % 1000 as t, (hash(i) % 14)::int as s,"
        f" (hash(7 * i + 1) % 4)::int as a, (hash(3 * i) % 100) / 10.0 as r"
        f" from range({rows}) t(i){order}) to '{path}' (format parquet)"
    )


def bare_once(path):
    """CPU seconds and peak memory of one GROUP BY of all rows with their next states."""
    followed = f"select s, a, r, lead(s) over (partition by episode order by t) as n from '{path}'"
    bare = f"select s, a, n, count(*), sum(r), sum(r * r), min(r), max(r) from ({followed}) group by s, a, n"
    _, group_by = timed(lambda: duckdb.sql(bare).fetchall())
    return [group_by, peak()]


def rows_once(path, rows):
    """CPU seconds of what is asked of a log, and the peak memory; imports are made before."""
    options = {"state": "s", "action": "a", "reward": "r", "episode": "episode", "time": "t"}
    with tempfile.TemporaryDirectory() as folder:
        walked(f"{folder}/short.parquet", 10_000, False)
        dualq.read_log(f"{folder}/short.parquet", **options).coverage()
    log, reading = timed(lambda: dualq.read_log(path, **options))
    _, covering = timed(log.coverage)
    memory = peak()
    _, beginning = timed(log.starts)
    _, cutting = timed(lambda: log.counts_between([rows * i // 17 for i in range(18)]))
    return [reading, covering, memory, beginning, cutting, peak()]


LIBRARIES = """
import gc; gc.set_threshold(1_000_000)
import altair, duckdb, ibis, numba, numpy, pyarrow.compute, rich.console, scipy.linalg, scipy.sparse, scipy.special
import typer, vl_convert
ibis.duckdb.connect()
vl_convert.vegalite_to_svg({"mark": "point"})
gc.freeze()
"""


OURS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE")  # what users do not set


def started(arguments, folders):
    """The medians of the CPU seconds of seven runs in each folder, in turns; {folder: src/ of a version, or None}."""
    spent = {folder: [] for folder in folders}
    for _ in range(8):
        for folder, src in folders.items():
            environment = {k: v for k, v in os.environ.items() if k not in OURS}
            environment |= {} if src is None else {"PYTHONPATH": src}
            began = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, check=True)
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[folder].append(ended.ru_utime - began.ru_utime + ended.ru_stime - began.ru_stime)
    return [statistics.median(seconds[1:]) for seconds in spent.values()]  # without the first: what it caches


def apart(what, *arguments):
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, "--once", what, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{what} failed")
    return json.loads(done.stdout.splitlines()[-1])


def learn_table(long):
    lines = []
    for kind in ("Garnet", "queue"):
        sizes = [*SIZES, *([LONG_SIZE] if long else [])]
        found = [apart("learn", kind, states) for states in sizes]
        for states, (exact, reading, modelling, proving, wall, memory, size, wait) in zip(sizes, found, strict=True):
            whole = reading + modelling + proving
            times = [f"{x:.2f}" for x in (reading, modelling, proving, whole, wall, exact)]
            others = f"{whole / exact:.0f}", f"{memory:.2f}", f"{size:.1f}", f"{wait:.2f}"
            lines.append([kind, f"{states:,}", *times, *others])
        ratio = np.log(sizes[-1] / sizes[0])
        slopes = [np.log(found[-1][i] / found[0][i]) / ratio for i in (1, 2, 3)]
        lines.append([kind, "slope", *(f"{x:.2f}" for x in slopes), *[""] * 7])
    names = "problem|states|read, count|model, solve|certificate|together|wall|one exact solve|CPU, times that"
    return markdown([*names.split("|"), "peak GB", "saved MB", "Ctrl-C, s"], lines)


def exact_table(long):
    lines = []
    for size, discount in product(MAZES, (0.99, 0.999, 0.9999)):
        states, spent, products, bound, memory = apart("maze", size, discount)
        known = [f"maze {size:,} × {size:,}, {discount:g}", f"{states:,}", f"{products:.0f}", f"{spent:.2f}", ""]
        lines.append([*known, "", f"{bound:.0e}", f"{memory:.2f}"])
    for states in (LONG_SIZE, *([10 * LONG_SIZE] if long else [])):
        one, two, products, bound, same, memory = apart("garnet", states)
        known = ["Garnet, .9", f"{states:,}", f"{products:.0f}", f"{one:.2f} (wall)", f"{two:.2f} (wall)"]
        idle = os.getloadavg()[0] < 0.5 * os.cpu_count() + 2  # these threads themselves are a load of two
        gain = f"{one / two:.2f} ×" if idle else "the machine was busy"
        lines.append([*known, f"{gain}; bits {'the same' if same else 'DIFFER'}", f"{bound:.0e}", f"{memory:.2f}"])
    names = "model|states|products|seconds, one thread|two threads|gain by the second|proven bound|peak GB"
    return markdown(names.split("|"), lines)


def rows_table(long):
    lines = []
    for rows, mixed in ((10**7, False), (10**7, True), *([(10**8, False)] if long else [])):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            walked(path, rows, mixed)
            group_by, bare_memory = apart("bare", path)
            reading, covering, memory, beginning, cutting, later = apart("rows", path, rows)
        times = [f"{x:.1f}" for x in (reading, covering, beginning, cutting, group_by)]
        ratio, memories = (reading + covering) / group_by, [f"{x:.2f}" for x in (memory, later, bare_memory)]
        lines.append([f"{rows:,}", "none" if mixed else "time", *times, f"{ratio:.1f}", *memories])
    names = "rows|in order of|read_log|coverage|starts|blocks|bare GROUP BY|read and coverage, times that"
    return markdown([*names.split("|"), "peak GB", "with blocks", "of the GROUP BY"], lines)


def spent_table(commands, beside, prepared=lambda folder: None):
    """CPU seconds of commands, {name: (arguments, bar)}, in folders that were prepared."""
    with tempfile.TemporaryDirectory() as now, tempfile.TemporaryDirectory() as then:
        folders = {now: None} if beside is None else {now: None, then: str(Path(beside).resolve())}
        for folder in folders:
            prepared(Path(folder))
        lines = [
            [name, *(f"{seconds:.2f}" for seconds in started(one, folders)), bar]
            for name, (one, bar) in commands.items()
        ]
    return markdown(["command", "CPU s", *([] if beside is None else ["before, in turns"]), "bar"], lines)


DUALQ = ("-m", "dualq")


def start_table(beside):
    commands = {
        "dualq --help": ([*DUALQ, "--help"], 0.15),
        "dualq learn (the shipped log)": ([*DUALQ, "learn"], 1.5),
        "dualq learn --out run (a report too)": ([*DUALQ, "learn", "--out", "run"], 1.5),
        "dualq learn --json": ([*DUALQ, "learn", "--json"], ""),
        "dualq act run": ([*DUALQ, "act", "run", "--state", '{"stock": 1, "season": "summer"}'], 0.3),
        "the libraries of dualq learn alone": (["-c", LIBRARIES], ""),
    }
    return spent_table(commands, beside)


def with_a_fault(folder, states=500, rows=200_000):
    """A log of a Garnet, in which every pair has a probability of its own that a fault is recorded."""
    recorded(simulated("Garnet", states).mdp, rows, folder / "log.parquet")
    table, rng = pq.read_table(folder / "log.parquet"), np.random.default_rng(1)
    risk = 0.4 * rng.random((states, 5))[table["s"], table["a"]]
    pq.write_table(table.append_column("fault", pa.array(rng.random(rows) < risk)), folder / "log.parquet")


def report_table(beside):
    roles = "--state s --action a --reward r --next-state n --cost fault --discount 0.9 --limit fault<=0.15"
    learn = [*DUALQ, "learn", "log.parquet", *roles.split()]
    commands = {
        "dualq learn --limit (500 states)": (learn, ""),
        "dualq learn --limit --out run (report and trade-off too)": ([*learn, "--out", "run"], "2 more"),
        "dualq frontier run": ([*DUALQ, "frontier", "run", "--limit", "fault", "--out", "curve.svg"], 2),
    }
    return spent_table(commands, beside, with_a_fault)


ONCE = {
    "learn": lambda kind, states: learn_once(kind, int(states)),
    "maze": lambda size, discount: maze_once(int(size), float(discount)),
    "garnet": lambda states: garnet_once(int(states)),
    "rows": lambda path, rows: rows_once(path, int(rows)),
    "bare": lambda path: bare_once(path),
}
TABLES = {"learn": learn_table, "exact": exact_table, "rows": rows_table}
COMMANDS = {"start": start_table, "report": report_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*TABLES, *COMMANDS], default=[*TABLES, *COMMANDS])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--beside", metavar="SRC")
    parser.add_argument("--once", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        what, *arguments = given.once
        if what == "learn":
            learn_once(arguments[0], SIZES[0])  # kernels are compiled then
        print(json.dumps(ONCE[what](*arguments)))
        return
    load = f"Load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores. CPU seconds.\n\n"
    for what in given.only:
        table = COMMANDS[what](given.beside) if what in COMMANDS else TABLES[what](given.long)
        publish(f"Large: {what} (benchmarks/scale.py)", load + table)


if __name__ == "__main__":
    main()
