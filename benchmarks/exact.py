"""Exact solving against QuantEcon, mdpsolver and SciPy with HiGHS: CPU seconds on one thread, all in one run.

Every answer is compared with V*, known to 1e-8 or so: our own V, whose Bellman residual is evaluated here once more,
in extended precision and with nothing but NumPy. A peer that is not right to 1e-6 is shown with its error and does not
count.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import time
import warnings
from functools import partial

import mdpsolver
import numpy as np
import quantecon
import scipy.optimize
import scipy.sparse as sp
from common import cpu_seconds, in_child, markdown, publish

from dualq import MDP, problems, solve

warnings.simplefilter("ignore")
TOLERANCE = 1e-6


def dualq_solve(mdp):
    return lambda: solve(mdp, tolerance=TOLERANCE).V


def quantecon_solve(method):
    def prepare(mdp):
        s, a = np.nonzero(mdp.available)
        rows = mdp.transitions[s * mdp.num_actions + a]
        model = quantecon.markov.DiscreteDP(mdp.rewards[s, a], rows, mdp.discount, s, a)
        return lambda: model.solve(method=method, epsilon=TOLERANCE, max_iter=10**6).v

    return prepare


def mdpsolver_solve(mdp):
    probabilities, columns, rewards = [], [], []
    for s in range(mdp.num_states):
        actions = np.flatnonzero(mdp.available[s])
        rows = [mdp.P(s, a) for a in actions]
        columns.append([row[0].tolist() for row in rows])
        probabilities.append([row[1].tolist() for row in rows])
        rewards.append(mdp.rewards[s, actions].tolist())
    model = mdpsolver.model()
    model.mdp(discount=mdp.discount, rewards=rewards, tranMatProbs=probabilities, tranMatColumns=columns)

    def run():
        model.solve(algorithm="mpi", tolerance=TOLERANCE, parallel=False)
        return np.array(model.getValueVector())

    return run


def scipy_highs(mdp):
    pairs = np.flatnonzero(mdp.available)
    E = sp.csr_array((np.ones(pairs.size), (np.arange(pairs.size), pairs // mdp.num_actions)))
    A = mdp.discount * mdp.transitions[pairs] - E
    R = mdp.rewards.ravel()[pairs]
    eta = np.ones(mdp.num_states)
    return lambda: scipy.optimize.linprog(eta, A_ub=A, b_ub=-R, bounds=(None, None), method="highs").x


SOLVERS = {
    "dualq": dualq_solve,
    "QuantEcon mpi": quantecon_solve("mpi"),
    "QuantEcon pi": quantecon_solve("pi"),
    "mdpsolver mpi": mdpsolver_solve,
    "SciPy+HiGHS": scipy_highs,
}


def proven_error(mdp, V):
    """max |T V - V| / (1 - alpha) in extended precision, which bounds |V - V*|."""
    wide = V.astype(np.longdouble)
    P = mdp.probabilities.astype(np.longdouble)
    starts = mdp.indptr[:-1]
    flow = np.add.reduceat(np.append(P * wide[mdp.indices], 0), starts)
    # Rows sum to one only up to rounding; at V = 1e5 and discount .99999 that would count for 1e-6.
    mean = flow / np.add.reduceat(np.append(P, 0), starts)
    Q = mdp.rewards + np.longdouble(mdp.discount) * mean.reshape(mdp.rewards.shape)
    residual = np.where(mdp.available, Q, -np.inf).max(axis=1) - wide
    return float(np.abs(residual).max() / (1 - np.longdouble(mdp.discount)))


def cases(quick):
    for states in (1_000, 10_000, 100_000):
        yield f"Garnet {states:,} × 5, 8 successors", 0.99, lambda a, n=states: problems.garnet(n, 5, 8, discount=a).mdp
    slow = {
        "maze 200 × 200": lambda a: problems.maze(200, discount=a).mdp,
        "maze 300 × 300": lambda a: problems.maze(300, discount=a).mdp,
        "chain 10,000": lambda a: problems.chain(10_000, discount=a).mdp,
        "queue 1,000": lambda a: problems.queue(1_000, discount=a).mdp,
        "queue 10,000": lambda a: problems.queue(10_000, discount=a).mdp,
    }
    for name, build in slow.items():
        for discount in (0.999,) if quick else (0.999, 0.9999, 0.99999):
            yield name, discount, build


def show(seconds, error):
    if isinstance(seconds, str):
        return seconds
    wrong = "" if error <= TOLERANCE else f" (off by {error:.1g})"
    return f"{seconds:.4f}{wrong}"


def measure(quick, limit):
    rows, losses = [], []
    for prepare in SOLVERS.values():  # compile what compiles
        prepare(problems.garnet(20, 5, 8, discount=0.9).mdp)()
        prepare(problems.chain(20, discount=0.9).mdp)()
    dualq_solve(problems.maze(30, discount=0.9999).mdp)()
    for name, discount, build in cases(quick):
        mdp = build(discount)
        truth = solve(mdp, tolerance=1e-9).V
        proof = proven_error(mdp, truth)
        found = {}
        for solver, prepare in SOLVERS.items():
            if solver == "SciPy+HiGHS" and mdp.num_states > 10_000:
                found[solver] = ("not tried", None)
                continue
            run = partial(prepare, mdp)
            seconds, V, _ = in_child(partial(cpu_seconds, run), limit)
            found[solver] = (seconds, None if V is None else float(np.abs(V - truth).max()))
        ours = found["dualq"][0]
        right = {s: t for s, (t, e) in found.items() if s != "dualq" and e is not None and e <= TOLERANCE + proof}
        best = min(right, key=lambda solver: right[solver], default=None)
        ratio = f"{ours / right[best]:.2f} × {best}" if best else "no peer is right"
        if best and ours > right[best]:
            losses.append(f"{name} at {discount}")
        rows.append([name, discount, *(show(t, e) for t, e in found.values()), f"{proof:.0e}", ratio])
        print(rows[-1], flush=True)
    header = ["model", "discount", *SOLVERS, "V* known to", "dualq / best right peer"]
    lost = "Cases where a peer that is right was faster: " + (", ".join(losses) if losses else "none") + "."
    return markdown(header, rows) + "\n\n" + lost


def measure_building():
    rows = []
    for states in (1_000, 10_000, 100_000):
        mdp = problems.garnet(states, 5, 8, discount=0.99).mdp
        data, indices, indptr = (np.array(x) for x in (mdp.probabilities, mdp.indices, mdp.indptr))
        R, shape = np.array(mdp.rewards), (states * 5, states)

        def ours(data=data, indices=indices, indptr=indptr, R=R, shape=shape):
            return MDP(sp.csr_array((data, indices, indptr), shape=shape), R, 0.99)

        def peer(data=data, indices=indices, indptr=indptr, R=R, shape=shape):
            s, a = np.repeat(np.arange(shape[1]), 5), np.tile(np.arange(5), shape[1])
            P = sp.csr_matrix((data, indices, indptr), shape=shape)
            return quantecon.markov.DiscreteDP(R.ravel(), P, 0.99, s, a)

        pair = [cpu_seconds(lambda build=build: build, most=50)[0] for build in (ours, peer)]
        rows.append([f"{states:,}", *(f"{t:.5f}" for t in pair), f"{pair[0] / pair[1]:.2f}"])
    return markdown(["states", "dualq (rows checked)", "QuantEcon (not checked)", "ratio"], rows)


def measure_million():
    def run():
        mdp = problems.garnet(1_000_000, 5, 8, discount=0.99).mdp
        rows, rewards = mdp.transitions.copy(), mdp.rewards.copy()
        del mdp
        start = time.process_time()
        mdp = MDP(rows, rewards, 0.99)
        built = time.process_time() - start
        own = sum(x.nbytes for x in (mdp.indptr, mdp.indices, mdp.probabilities, mdp.rewards)) / 2**30
        shared = np.shares_memory(mdp.probabilities, rows.data)
        start = time.process_time()
        solution = solve(mdp, tolerance=TOLERANCE)
        solved = time.process_time() - start
        return solved, (built, own, shared, solution.error_bound)

    solved, (built, own, shared, bound), peak = in_child(run, 600)
    return markdown(
        ["what", "measured"],
        [
            ["building the model, CPU seconds", f"{built:.2f}"],
            ["its arrays, GiB" + (" (shared with the caller, not copied)" if shared else ""), f"{own:.2f}"],
            ["solving to a proven 1e-6, CPU seconds", f"{solved:.2f} (bound {bound:.0e})"],
            ["peak memory of the whole process, generating included, GiB", f"{peak:.2f}"],
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one discount for the slow models")
    parser.add_argument("--limit", type=int, default=20, help="seconds after which a solver is stopped")
    parser.add_argument("--only", choices=["solving", "building", "million"], help="one of the three tables")
    arguments = parser.parse_args()
    if arguments.only in (None, "solving"):
        publish("Exact solving, CPU seconds to 1e-6, one thread", measure(arguments.quick, arguments.limit))
    if arguments.only in (None, "building"):
        publish("Building the model from arrays, CPU seconds", measure_building())
    if arguments.only in (None, "million"):
        publish("A million states, 5 actions, 8 successors each", measure_million())
