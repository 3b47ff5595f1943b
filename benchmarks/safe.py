"""Limits: how often policies learned from logs break a true limit, and how fast limits are kept on large known models.

uv run --all-extras --group bench python benchmarks/safe.py [--logs 56] [--only logs|sepsis|scale|steps] [--limit 300]

logs    Each replication records a new log of a problem with a known truth, learns from it under limits, with the margin
        ("certified") and without ("none"), and asks the true model what the policy costs. A limit lies part of the way
        from what the best policy without limits costs to the least that any policy costs, so that it binds.
scale   PDHG with a multiplier per limit, mixtures of policies, and HiGHS on the same model in the same run.
steps   Algorithm 1 with limits beside Algorithm 1 without: CPU nanoseconds a step.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import functools
import importlib.util
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
from common import cpu_seconds, in_child, markdown, publish
from scipy.stats import beta, binom

import dualq
from dualq import limits as L
from dualq import problems
from dualq.base.errors import InfeasibleError
from dualq.online.spd_q import SPDQ
from dualq.online.spd_q_limited import SafeSPDQ
from dualq.solvers.limited.program import solve_limited
from dualq.worlds.streams import Rows, Simulated

DELTA = 0.05
ALARM = 1e-3  # one-sided binomial


# ---- problems with a known truth


@dataclass(frozen=True, eq=False)
class Problem:
    """A simulator, what is recorded as costs, and limits on their averages."""

    simulator: dualq.Simulator
    recorded: dict  # {name: (S, A) or (S, A, S)}
    drawn: bool  # costs are 1 with the recorded number as the chance, else 0
    limits: dict  # {name: bound}
    best: float  # the value of the best policy under the limits, from the start
    free: float  # and without them
    usual: float  # and of the behaviour

    def record(self, rows, seed):
        log = self.simulator.record(rows, seed, self.recorded)
        if not self.drawn:
            return log
        rng = np.random.default_rng([seed, 11])
        costs = {name: (rng.random(rows) < cost).astype(float) for name, cost in log.costs.items()}
        return replace(log, costs=costs, cost_ranges=dict.fromkeys(costs, (0.0, 1.0)))

    def truth(self, policy):
        """(value, {name: cost}) of a policy in the true model; uniform where it says nothing, or what cannot be."""
        mdp, nu = self.simulator.mdp, self.simulator.start
        matrix = np.where(mdp.available, policy.matrix, 0.0)
        matrix = np.where(matrix.sum(axis=1, keepdims=True) > 0.0, matrix, mdp.available)
        policy = dualq.TablePolicy(matrix / matrix.sum(axis=1, keepdims=True))
        d = (1.0 - mdp.discount) * policy.occupancy(mdp, nu)
        costs = {name: float(np.sum(d * expected(mdp, cost))) for name, cost in self.recorded.items()}
        return float(np.sum(d * mdp.rewards)) / (1.0 - mdp.discount), costs


def expected(mdp, cost):
    return L.average(mdp, cost, "<=", 0.0).on(mdp)


def made(simulator, recorded, part, drawn=False):
    """The limit of each cost lies `part` of the way from the unlimited optimum to the least that it can be."""
    mdp, nu = simulator.mdp, simulator.start
    free = dualq.solve(mdp).primal_policy
    d = (1.0 - mdp.discount) * free.occupancy(mdp, nu)
    limits = {}
    for name, cost in recorded.items():
        cost = expected(mdp, cost)
        least = dualq.MDP(mdp.transitions, np.where(mdp.available, -cost, 0.0), mdp.discount, available=mdp.available)
        low = -(1.0 - mdp.discount) * float(nu @ dualq.solve(least).V)
        limits[name] = round(low + (1.0 - part) * (float(np.sum(d * cost)) - low), 4)
    wanted = [L.average(mdp, recorded[name], "<=", bound, name) for name, bound in limits.items()]
    best = dualq.solve(mdp, nu, limits=wanted).objective
    usual = float(nu @ simulator.behaviour.value(mdp))
    return Problem(simulator, recorded, drawn, limits, best, float(nu @ free.value(mdp)), usual)


@functools.cache
def inventory():
    """Empty shelves in the evening."""
    simulator = problems.inventory(capacity=4, lot=2, demand={"low": 1.0, "high": 3.0}, discount=0.9)
    mdp = simulator.mdp
    empty = np.array([label[0] == 0 for label in mdp.states])
    return made(simulator, {"stockout": np.broadcast_to(1.0 * empty, (*mdp.rewards.shape, mdp.num_states))}, 0.5)


@functools.cache
def queue():
    """The wait: customers in the queue, as a part of its room."""
    simulator = problems.queue(capacity=5, discount=0.9, arrival=0.5, service=0.4, holding_cost=0.2)
    mdp = simulator.mdp
    return made(simulator, {"delay": np.repeat(np.arange(6.0)[:, None] / 5.0, mdp.num_actions, axis=1)}, 0.5)


@functools.cache
def garnet():
    """Two costs of 0 or 1, with random chances."""
    simulator = problems.garnet(8, 3, 3, discount=0.9, seed=1)
    chances = np.random.default_rng(0).random((2, 8, 3))
    return made(simulator, {"one": chances[0], "other": chances[1]}, 0.3, drawn=True)


@functools.cache
def icu_sepsis():
    """The mean SOFA score (0 to 24) of the patient's cluster, as the package has it; nothing after the end."""
    package = importlib.util.find_spec("icu_sepsis")
    path = Path(package.submodule_search_locations[0], "envs", "assets", "dynamics.npz")
    with np.load(path, allow_pickle=False) as data:
        sofa = data["sofa_scores"] / 24.0
    simulator = problems.icu_sepsis()
    sofa = np.where(np.arange(sofa.size) >= sofa.size - 3, 0.0, sofa)  # death, survival, the end
    return made(simulator, {"sofa": np.repeat(sofa[:, None], simulator.mdp.num_actions, axis=1)}, 0.3)


CASES = [
    (inventory, (1_000, 10_000, 100_000), 1),
    (queue, (1_000, 10_000, 100_000), 1),
    (garnet, (1_000, 10_000, 100_000), 1),
]
SEPSIS = [(icu_sepsis, (20_000,), 14)]


# ---- logs


def replication(problem, rows, seed):
    """Per margin: (did it recommend, did it promise, is a true limit broken, value), from one log."""
    known = problem()
    log, start = known.record(rows, seed), known.simulator.start
    mdp = known.simulator.mdp
    weights = {mdp.states[s]: float(start[s]) for s in np.flatnonzero(start)}
    found = []
    for margin in ("certified", "none"):
        try:
            fit = dualq.learn(
                log, discount=mdp.discount, start=weights, limits=known.limits, margin=margin, certificate=None
            )
        except InfeasibleError:
            found.append((False, False, False, np.nan))
            continue
        value, costs = known.truth(fit.policy)
        broken = any(costs[name] > bound + 1e-9 for name, bound in known.limits.items())
        found.append((True, fit.limits_kept, broken, value))
    return found


def logs(cases, count, title):
    rows, begun, all_n, all_k = [], time.time(), 0, 0
    for problem, sizes, fewer in cases:
        known, many = problem(), max(count // fewer, 1)
        for size in sizes:
            print(f"{time.time() - begun:5.0f} s: {problem.__name__} at {size:,} rows", file=sys.stderr, flush=True)
            jobs = (joblib.delayed(replication)(problem, size, seed) for seed in range(many))
            outcomes = joblib.Parallel(n_jobs=2, batch_size=5, backend="multiprocessing")(jobs)
            (there, promised, broken, value), (plain_there, _, plain_broken, plain_value) = np.moveaxis(
                np.array(outcomes, dtype=float), 1, 0
            ).transpose(0, 2, 1)
            n, k = int(there.sum()), int(broken.sum())
            kept = promised > 0
            all_n, all_k = all_n + n, all_k + k
            rows.append(
                (
                    problem.__name__,
                    f"{size:,}",
                    f"{n} of {many}",
                    *verdict(k, n),
                    f"{int(kept.sum())}, of which {int(broken[kept].sum())} broke one",
                    f"{int(broken[~kept].sum())} of {int(there[~kept].sum())}",
                    ratio(value, known.best),
                    f"{int(plain_broken.sum())} ({plain_broken.sum() / max(plain_there.sum(), 1):.0%})",
                    ratio(plain_value, known.best),
                    f"{known.usual / known.best:.3f}, {known.free / known.best:.3f}",
                )
            )
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    rows.append(("all", "", f"{all_n}", *verdict(all_k, all_n), *[""] * 6))
    header = (
        "problem",
        "rows",
        "policies",
        "broke a true limit",
        f"allowed at delta = {DELTA}",
        "promised",
        "broken among the others",
        "value",
        "no margin: broke a limit",
        "no margin: value",
        "value of behaviour, of no limits",
    )
    text = (
        "Simulated logs with a known truth, confidence .95 for the limits alone (`certificate=None`), with the\n"
        "margin (`certified`, the default) and beside it without (`none`, the plug-in). In brackets the share of\n"
        "policies that break a true limit, and its one-sided 95% Clopper-Pearson bound; `allowed` is how many a\n"
        "one-sided binomial test at 1e-3 would accept. Policies that are not `promised` (`fit.limits_kept` is\n"
        "False) carry no promise, and are counted apart too. Logs whose own model has no policy that keeps the\n"
        "limits recommend none (InfeasibleError). Values: median (first and last decile) of the true value, over\n"
        "that of the best policy under the true limits; likewise the behaviour's, and that of the best policy\n"
        "without limits.\n\n" + markdown(header, rows)
    )
    publish(title, text)


def verdict(broken, policies):
    """The share that broke a limit with its bound, and whether that is compatible with delta."""
    most = int(binom.isf(ALARM, policies, DELTA))
    high = beta.ppf(0.95, broken + 1, policies - broken) if broken < policies else 1.0
    told = "too few to tell" if most >= policies else f"{most}: {'kept' if broken <= most else 'BROKEN'}"
    return f"{broken} ({broken / policies:.1%}; at most {high:.1%})", told


def ratio(values, best):
    values = values[np.isfinite(values)] / best
    if not values.size:
        return "-"
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


# ---- large known models


def with_limits(simulator, count=3, seed=0, below=0.05):
    """Costs uniform on [0, 1], each limited so far below what the best policy without limits costs; a uniform start."""
    mdp = simulator.mdp
    start = np.full(mdp.num_states, 1.0 / mdp.num_states)
    d = (1.0 - mdp.discount) * dualq.solve(mdp).primal_policy.occupancy(mdp, start)
    costs = np.random.default_rng([seed, 7]).random((count, *mdp.rewards.shape))
    return mdp, start, [L.average(mdp, c, "<=", float(np.sum(c * d)) - below, f"c{i}") for i, c in enumerate(costs)]


LARGE = {
    "Garnet 1,000 × 4, 5 successors, .99": lambda: with_limits(problems.garnet(1_000, 4, 5, discount=0.99)),
    "queue 10,000, .99": lambda: with_limits(problems.queue(9_999, discount=0.99), below=0.01),
    "maze 110 × 110, .99": lambda: with_limits(problems.maze(110, discount=0.99), below=0.01),
    "Garnet 10,000 × 4, 5 successors, .99": lambda: with_limits(problems.garnet(10_000, 4, 5, discount=0.99)),
}


def highs(mdp, start, limits, method):
    begun = time.process_time()
    answer = solve_limited(mdp, limits, start, method=method)
    return time.process_time() - begun, (answer.objective, beyond(answer, limits, mdp))


def beyond(answer, limits, mdp):
    """How far the policy is beyond its limits at most, in units of how far costs are apart."""
    return max(limit.sign * (answer.values[limit.name] - limit.bound) / limit.span(mdp) for limit in limits)


def scale(seconds):
    small = with_limits(problems.garnet(50, 3, 3))
    for method in ("pdhg", "mixtures"):  # compile
        dualq.solve(small[0], small[1], limits=small[2], method=method)
    rows = []
    for name, build in LARGE.items():
        mdp, start, limits = build()
        print(name, file=sys.stderr, flush=True)
        took, answers = {}, {}
        for method in ("pdhg", "mixtures"):
            ask = functools.partial(dualq.solve, mdp, start, limits=limits, method=method)
            took[method], answers[method] = cpu_seconds(lambda ask=ask: ask, most=3)
        pdhg, exact = answers["pdhg"], answers["mixtures"]
        row = [name]
        proven = (pdhg.bounds[1] - pdhg.bounds[0]) / abs(pdhg.bounds[1])
        row.append(f"{took['pdhg']:.2f} s, {pdhg.iterations:,} steps, gap proven {proven:.0e}")
        row.append(f"{took['mixtures']:.2f} s, {exact.iterations} policies")
        for method in ("ipm", "pdlp"):
            used, answer, _ = in_child(functools.partial(highs, mdp, start, limits, method), seconds)
            if answer is None:
                row.append(str(used))
                continue
            off = pdhg.objective / answer[0] - 1.0
            row.append(f"{used:.1f} s, PDHG's objective off by {off:.0e}, limits missed by {max(answer[1], 0.0):.0e}")
        row.append(f"{pdhg.objective / exact.objective - 1.0:.0e}")
        row.append(f"{max(beyond(pdhg, limits, mdp), 0.0):.0e}")
        rows.append(row)
        print(*row, sep=" | ", file=sys.stderr, flush=True)
    header = (
        "model",
        "PDHG",
        "mixtures",
        "HiGHS IPM",
        "HiGHS PDLP",
        "PDHG - mixtures, relative",
        "PDHG misses limits by",
    )
    text = (
        "Three limits that bind. CPU seconds on one thread; PDHG at its tolerance of 1e-6, relative; HiGHS at 1e-10\n"
        f"(IPM with crossover) and 1e-9 (PDLP), stopped after {seconds} seconds of wall time. How far a limit is\n"
        "missed is in units of how far its costs are apart.\n\n" + markdown(header, rows)
    )
    publish("Limits on large models", text)


# ---- steps of Algorithm 1 with limits


def per_step(algorithms, simulator, zeta, chunks=40, size=32_768):
    """Median CPU nanoseconds a step of each; they take turns, as it matters how far a run has come."""
    stream, mdp, rows = Simulated(simulator), simulator.mdp, Rows.empty(size)
    runs = [(one, one.problem(mdp, zeta), one.init(mdp, 1, zeta)) for one in algorithms]
    walk, seconds = stream.init(1), np.empty((chunks, len(algorithms)))
    for turn in range(chunks):
        stream.fill(walk, rows)
        for i, (algorithm, problem, state) in enumerate(runs):
            begun = time.process_time()
            algorithm.advance(state, problem, rows, turn * size)
            seconds[turn, i] = time.process_time() - begun
    return 1e9 * np.median(seconds[2:], axis=0) / size


def steps():
    rows = []
    for S, A in ((2, 2), (500, 6), (10_000, 10)):
        simulator = problems.two_state() if S == 2 else problems.garnet(S, A, 5)
        costs = np.random.default_rng(0).random((3, S, A))
        wanted = [L.average(simulator.mdp, c, "<=", 0.5, f"c{i}") for i, c in enumerate(costs)]
        kinds = SPDQ(), *(SafeSPDQ(limits=wanted[:k], price_bound=5.0) for k in (1, 3))
        rows.append((f"{S:,} × {A}", *(f"{x:.0f}" for x in per_step(kinds, simulator, 0.5 / (S * A)))))
    publish(
        "A step of Algorithm 1 with limits",
        "CPU nanoseconds a step, the median of 38 chunks, taken in turns; the row is drawn before.\n\n"
        + markdown(("states × actions", "no limits", "one limit", "three limits"), rows),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=56, help="of each problem and size")
    parser.add_argument("--only", choices=("logs", "sepsis", "scale", "steps"))
    parser.add_argument("--limit", type=int, default=300, help="seconds for HiGHS")
    options = parser.parse_args()
    if options.only in (None, "logs"):
        logs(CASES, options.logs, "Limits on policies learned from logs")
    if options.only in (None, "sepsis"):
        logs(SEPSIS, options.logs, "Limits on policies learned from logs of ICU-Sepsis")
    if options.only in (None, "scale"):
        scale(options.limit)
    if options.only in (None, "steps"):
        steps()
