"""The kernels against the same loops in C, and against other tabular Q-learning: steps per CPU second, all in one run.

dualq and C (kernels.c, compiled here) first take the same steps: all their arrays must be equal to the last bit. Then
they are timed, a chunk each in turn, with different seeds: on the same walk the second would find in the cache what the
first has just read. The stream draws a chunk of rows, the algorithm then reads it, as in `dualq.train`.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import ctypes
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mdptoolbox.mdp
import numpy as np
from common import cpu_seconds, markdown, publish

from dualq import problems
from dualq.online.q_learning import QLearning
from dualq.online.spd_q import SPDQ
from dualq.worlds.streams import Rows, Simulated

CHUNK = 32_768  # as the training loop
CHECKED = 5  # chunks
GCC = ["gcc", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]

CASES = {
    "2 × 2": problems.two_state,
    "500 × 6": lambda: problems.garnet(500, 6, 5),
    "100,000 × 10": lambda: problems.garnet(100_000, 10, 5),
}
SIZES = ((2, 2), (10, 10), (100, 10), (1_000, 10), (10_000, 10), (100_000, 10))


# ---- the same loops in C


def compiled_c():
    source = Path(__file__).with_name("kernels.c")
    library = Path(tempfile.mkdtemp()) / "kernels.so"
    subprocess.run([*GCC, "-o", library, source, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def as_struct(fields):
    """A NamedTuple of arrays and numbers as C reads it."""
    kinds = [ctypes.c_void_p if isinstance(x, np.ndarray) else type_of(x) for x in fields]
    values = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in fields]
    struct = type("Struct", (ctypes.Structure,), {"_fields_": [(f"_{i}", kind) for i, kind in enumerate(kinds)]})
    return ctypes.byref(struct(*values))


def type_of(number):
    return ctypes.c_double if isinstance(number, float) else ctypes.c_int64


class Ours:
    """One run of dualq."""

    def __init__(self, algorithm, simulator, zeta, seed=1):
        self.algorithm, self.stream, mdp = algorithm, Simulated(simulator), simulator.mdp
        self.problem, self.state = algorithm.problem(mdp, zeta), algorithm.init(mdp, seed, zeta)
        self.walk, self.rows, self.k = self.stream.init(seed), Rows.empty(CHUNK), 0

    def draw(self):
        self.stream.fill(self.walk, self.rows)

    def learn(self):
        self.algorithm.advance(self.state, self.problem, self.rows, self.k)
        self.k += CHUNK


class InC(Ours):
    """The same run in C, on arrays of its own."""

    def __init__(self, library, algorithm, simulator, zeta, seed=1):
        super().__init__(algorithm, simulator, zeta, seed)
        self.library, self.by_step = library, isinstance(algorithm, SPDQ)
        tables = self.stream._tables
        assert tables.indptr.itemsize == tables.indices.itemsize == 4
        self.sizes = [ctypes.c_int64(size) for size in simulator.mdp.rewards.shape]
        extra = (*simulator.mdp.rewards.shape, int(tables.low.size > 0), int(tables.ends.size > 0))
        self.c_tables, self.c_walk, self.c_rows = (
            as_struct((*tables, *extra)),
            as_struct(self.walk),
            as_struct(self.rows),
        )
        self.c_state, self.c_problem = as_struct(self.state), as_struct(self.problem)
        self.run = library.spd_q if self.by_step else library.q_learning

    def draw(self):
        self.library.walk(self.c_tables, self.c_walk, self.c_rows, ctypes.c_int64(CHUNK))

    def learn(self):
        gamma = self.algorithm.step_size.steps(self.k, CHUNK) if self.by_step else None
        at = ctypes.c_void_p(None if gamma is None else gamma.ctypes.data)
        self.run(self.c_state, self.c_problem, *self.sizes, self.c_rows, at, ctypes.c_int64(CHUNK))
        self.k += CHUNK


def clocked(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def rates(runs, chunks):
    """Median seconds per step of drawing and of learning, for each of the runs, which take turns."""
    seconds = {(name, part): [] for name in runs for part in ("draw", "learn")}
    for turn in range(chunks + 2):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            for part in ("draw", "learn"):
                took = clocked(getattr(runs[name], part))
                if turn >= 2:  # the first ones compile and fill the caches
                    seconds[name, part].append(took / CHUNK)
    return {key: statistics.median(values) for key, values in seconds.items()}


def check_equal(library, *what):
    runs = Ours(*what), InC(library, *what)
    for run in runs:
        for _ in range(CHECKED):
            run.draw()
            run.learn()
    for x, y in zip(*((*run.state, *run.walk, *run.rows) for run in runs), strict=True):
        assert np.array_equal(x, y), "dualq and C differ"


def algorithms(mdp):
    """By name, with zeta half of what uniform visits would give."""
    zeta = 0.5 / mdp.rewards.size
    return {"SPDQ": (SPDQ(), zeta), "Q-learning": (QLearning(), zeta)}


def measure(library, chunks):
    rows = []
    for case, build in CASES.items():
        simulator = build()
        for name, (algorithm, zeta) in algorithms(simulator.mdp).items():
            what = algorithm, simulator, zeta
            check_equal(library, *what)
            took = rates({"dualq": Ours(*what), "C": InC(library, *what, seed=2)}, chunks)
            alone = [1e-6 / took[run, "learn"] for run in ("dualq", "C")]
            whole = [1e-6 / (took[run, "learn"] + took[run, "draw"]) for run in ("dualq", "C")]
            shown = [[*(f"{rate:.1f}" for rate in pair), f"{pair[0] / pair[1]:.2f}"] for pair in (alone, whole)]
            rows.append([name, case, *shown[0], *shown[1]])
            print(rows[-1], flush=True)
    header = [
        "algorithm",
        "states × actions",
        "kernel, dualq",
        "kernel, C",
        "ratio",
        "with stream, dualq",
        "with stream, C",
    ]
    steps = CHECKED * CHUNK
    note = f"Million steps per CPU second. After {steps:,} steps dualq and C agree in every bit of every array."
    return markdown([*header, "ratio"], rows) + "\n\n" + note


def measure_growth(chunks):
    rows = []
    for states, actions in SIZES:
        simulator = problems.two_state() if states == 2 else problems.garnet(states, actions, 5)
        cells = []
        for algorithm, zeta in algorithms(simulator.mdp).values():
            run = Ours(algorithm, simulator, zeta)
            took = rates({"": run}, chunks)
            cells += [took["", "learn"] * 1e9, took["", "draw"] * 1e9]
        arrays = sum(x.nbytes for x in SPDQ().init(simulator.mdp, 0, 1e-9)) / 2**20
        shown = [f"{cell:.0f}" for cell in (cells[0], cells[2], cells[1])]
        rows.append([f"{states:,} × {actions}", f"{states * actions:,}", f"{arrays:.1f}", *shown])
    header = ["states × actions", "pairs", "SPDQ's arrays, MiB", "SPDQ", "Q-learning", "drawing the row"]
    note = (
        "CPU nanoseconds per step. What grows is the time to fetch entries that are in no cache; for SPDQ it also "
        "matters how many steps raise a row of lambda, which depends on how far the run has come."
    )
    return markdown(header, rows) + "\n\n" + note


# ---- peers


def python_loop(simulator, steps):
    """Tabular Q-learning as it is written first: lists and `random`."""
    mdp, actions = simulator.mdp, range(simulator.mdp.num_actions)
    pairs = [[mdp.P(s, a) for a in actions] for s in range(mdp.num_states)]
    successors = [[row[0].tolist() for row in rows] for rows in pairs]
    probabilities = [[row[1].tolist() for row in rows] for rows in pairs]
    theta, rewards, alpha = simulator.behaviour.matrix.tolist(), mdp.rewards.tolist(), mdp.discount
    Q = [[0.0] * len(actions) for _ in pairs]
    visits = [[0] * len(actions) for _ in pairs]
    rng = random.Random(0)

    def run():
        s = 0
        for _ in range(steps):
            a = rng.choices(actions, theta[s])[0]
            t = rng.choices(successors[s][a], probabilities[s][a])[0]
            visits[s][a] += 1
            Q[s][a] += visits[s][a] ** -0.8 * (rewards[s][a] + alpha * max(Q[t]) - Q[s][a])
            s = t

    return run


def numpy_loop(simulator, steps):
    """The same with arrays and a NumPy generator."""
    mdp, theta = simulator.mdp, np.cumsum(simulator.behaviour.matrix, axis=1)
    pairs = [[mdp.P(s, a) for a in range(mdp.num_actions)] for s in range(mdp.num_states)]
    rows = [[(row[0], np.cumsum(row[1])) for row in of_state] for of_state in pairs]
    Q, visits, rng = np.zeros(mdp.rewards.shape), np.zeros(mdp.rewards.shape), np.random.default_rng(0)

    def run():
        s = 0
        for _ in range(steps):
            a = min(np.searchsorted(theta[s], rng.random(), side="right"), theta.shape[1] - 1)
            successors, cumulated = rows[s][a]
            t = successors[min(np.searchsorted(cumulated, rng.random(), side="right"), successors.size - 1)]
            visits[s, a] += 1
            Q[s, a] += visits[s, a] ** -0.8 * (mdp.rewards[s, a] + mdp.discount * Q[t].max() - Q[s, a])
            s = t

    return run


def mdptoolbox_run(simulator, steps):
    """pymdptoolbox's QLearning, whose transitions are dense and which walks by itself."""
    mdp = simulator.mdp
    P = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, mdp.num_states).transpose(1, 0, 2)
    return mdptoolbox.mdp.QLearning(P, mdp.rewards, mdp.discount, n_iter=steps).run


PEERS = {"plain Python": python_loop, "plain NumPy": numpy_loop, "pymdptoolbox": mdptoolbox_run}


def measure_peers(chunks):
    steps, rows = 20_000, []
    for case in ("2 × 2", "500 × 6"):
        simulator = CASES[case]()
        ours = rates({"": Ours(QLearning(), simulator, 0.1)}, chunks)
        rate = 1 / (ours["", "draw"] + ours["", "learn"])
        peers = [steps / cpu_seconds(lambda p=peer, s=simulator: p(s, steps), most=5)[0] for peer in PEERS.values()]
        rows.append([case, f"{rate:,.0f}", *(f"{peer:,.0f} ({rate / peer:,.0f} ×)" for peer in peers)])
    note = "Q-learning, drawing included, steps per CPU second; in brackets how many times as fast dualq is."
    return markdown(["states × actions", "dualq", *PEERS], rows) + "\n\n" + note


# ---- the first call

FIRST = """
import time
start = time.perf_counter()
from dualq import problems
from dualq.online.{module} import {name}
from dualq.worlds.streams import Rows, Simulated
imported = time.perf_counter()
simulator = problems.two_state()
stream, rows, algorithm = Simulated(simulator), Rows.empty(100), {name}()
state = algorithm.init(simulator.mdp, 1, 0.1)
stream.fill(stream.init(1), rows)
algorithm.advance(state, algorithm.problem(simulator.mdp, 0.1), rows, 0)
print(imported - start, time.perf_counter() - imported)
"""


def measure_first(times=3):
    rows = []
    for module, name in (("spd_q", "SPDQ"), ("q_learning", "QLearning")):
        seconds = {"cold": [], "warm": []}
        for _ in range(times):
            with tempfile.TemporaryDirectory() as folder:
                for cache in ("cold", "warm"):
                    command = [sys.executable, "-c", FIRST.format(module=module, name=name)]
                    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
                    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
                    seconds[cache].append([float(word) for word in out.split()])
        cells = [statistics.median(column) for cache in seconds.values() for column in zip(*cache, strict=True)]
        rows.append([name, *(f"{cell:.2f}" for cell in cells)])
    header = ["", "import, cold", "first chunk, cold", "import, warm", "first chunk, warm"]
    return markdown(header, rows) + "\n\nSeconds, in a new process; cold: nothing compiled is on disk."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer chunks")
    chunks = 20 if parser.parse_args().quick else 100
    publish("Kernels against the same loops in C", measure(compiled_c(), chunks))
    publish("Cost of a step as the model grows", measure_growth(chunks // 5))
    publish("Tabular Q-learning against peers", measure_peers(chunks))
    publish("The first call", measure_first())
