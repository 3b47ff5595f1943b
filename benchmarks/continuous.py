"""States of numbers: the true value of what `learn` recommends, what it expects, and peers on the same logs.

Every log is simulated: four problems of dualq (worlds/continuous.py) at 2,000 and 20,000 rows, and mixed logs of
Gymnasium's CartPole, Acrobot and MountainCar at 60,000, of LunarLander at 100,000 where Box2D is installed
(controls.py). Every policy's value is the mean of simulated
episodes under the same noise, from the problem's own start; what was expected is compared with the value from the log's
first states. The best known policy is exact for a fine grid of the states (worlds/gridded.py), in the control problems
it is made by hand. `gained` is the share of what lies between the log and the best known. Below a way of
dualq stand the policies that it chose among, as they are and in the same fit; `costs of the choice` is what the best of
them has, in hindsight, above the one that was chosen, as a share of the same.

    --only NAMES   problems                          --rows N ...   rows of each log
    --logs N       how many logs of each size        --first SEED   the first
    --jobs N       processes                         --methods      dualq's ways: auto light partition linear neural
                                                                    bins; light is auto where JAX is missing
    --peers        cloning FQI IQL; "none" for none  --peer-logs N  the first N logs only, for peers and bins
    --rules        linear neural: every rule that a learner offers, valued by `evaluated`, before one is chosen
    --chosen       only what is recommended, not the policies beside it: to count over many logs how often errors hold

Logs of all problems take turns, and every answer is printed as it comes. A run that is stopped (Ctrl-C, kill) makes its
tables of what was measured.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["NPROC"] = "1"  # of XLA, whose flags leave it threads that hand small pieces to each other

import argparse
import multiprocessing
import signal
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple
from unittest import mock

import numpy as np
from common import markdown, publish
from continuous_peers import PEERS
from controls import CONTROLS, added_up, agree

import dualq
from dualq.logs.reading.schema import Bins
from dualq.model import FunctionPolicy
from dualq.offline.approximate import learning
from dualq.worlds.continuous import PROBLEMS, columns_of, record, returns, to_table, true_gain

# What the log's rule is worth, by 200,000 episodes, and how much more the policy of a fine grid is, by 50,000 under
# the same noise; `--best` measures them again.
KNOWN = {
    "inventory": (93.557, 34.975),  # ± .033, ± .094
    "pricing": (84.646, 12.409),  # ± .078, ± .022
    "maintenance": (12.984, 8.427),  # ± .029, ± .057
    "dosing": (-10.330, 3.544),  # ± .017, ± .015
}
AXES = {
    "inventory": ({"stock": np.r_[0:14:43j, 15:30:8j], "level": 3 * np.exp(np.linspace(-1.2, 1.2, 15))}, 7),
    "pricing": ({"reference": np.linspace(2, 6, 41), "mood": np.linspace(-1.5, 1.5, 25)}, 7),
    "maintenance": (
        {"wear": np.r_[0:2.2:20j, 2.7, 3.5], "heat": np.linspace(0, 2.6, 12), "load": np.linspace(0.5, 1.5, 5)},
        11,
    ),
    "dosing": ({"severity": np.linspace(0, 10, 51), "concentration": np.linspace(0, 11, 56)}, 8),
}
EPISODES, TRUTH_SEED = 1_000, 10**6
SLOW = ("bins", *PEERS)  # what --peer-logs is for


class Answer(NamedTuple):
    truth: float
    here: float  # from the log's first states
    expected: float
    error: float
    verdict: str
    undiscounted: float  # rewards added up, in control problems
    lost: float  # what the best candidate has above the chosen one
    seconds: float


def made(name):
    return (PROBLEMS | CONTROLS)[name]()


def logged(name, rows, seed):
    problem = made(name)
    return problem.log(rows, seed) if name in CONTROLS else record(problem, rows, seed)


def references(name):
    """Values of the log's rule and of the best known."""
    problem = made(name)
    if name not in CONTROLS:
        low, gain = KNOWN[name]
        return low, low + gain
    assert not problem.anywhere or agree(problem) < 1e-5, f"{name} is not Gymnasium's"
    log, best = logged(name, problem.rows, 0), returns(problem, problem.good, TRUTH_SEED, problem.episodes)
    return earned(log, problem.discount), float(best.mean())


def earned(rows, discount):
    """What the episodes of a log earned, cut off where they were."""
    begun = np.flatnonzero(rows.first)
    step = np.arange(len(rows)) - np.repeat(begun, np.diff(np.append(begun, len(rows))))
    return float(np.add.reduceat(discount**step * rows.r, begun).mean())


# ---- dualq's ways


def learned(rows, discount, seed, **how):
    """A fit, by the table that a person would have."""
    state, costs = list(rows.columns.names), list(rows.costs)
    roles = {"state": state, "action": "action", "reward": "reward", "episode": "episode", "time": "step"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyarrow as pa

        table = pa.table(to_table(rows))
        return dualq.learn(table, discount=discount, terminal="done", costs=costs, **roles, **how)


def by_function(fit, rule):
    """The rule of a candidate, a function of the numbers."""
    return FunctionPolicy(fit.columns, fit.actions, rule)


def by_table(fit, rows):
    """The rule of a fit whose numbers were cut into bins; where the log never was, as the log does over all states."""
    known, bins = fit.counts.states, {name: Bins(tuple(edges)) for name, edges in fit.settings["bins"].items()}
    labels = {tuple(known.named(s).values()): s for s in range(len(known))}
    columns = [rows.actions.index(label) for label in fit.counts.actions]
    matrix = np.vstack([fit.policy.matrix[: len(known)], fit.counts.visits.sum(axis=0) / fit.counts.visits.sum()])

    def part(name, values):
        if name not in bins:
            return values.tolist()
        return np.array(bins[name].labels, object)[np.searchsorted(bins[name].edges, values, side="right")].tolist()

    def rule(states):
        table = columns_of(rows.columns, states)
        cells = zip(*(part(name, table[name]) for name in known.names), strict=True)
        p = np.zeros((len(states), len(rows.actions)))
        p[:, columns] = matrix[[labels.get(cell, -1) for cell in cells]]
        return p

    return rule


def approximated(rows, discount, seed, approximation):
    """[(name, rule, expected, error, verdict)] of a fit, and of the candidates that it chose among."""
    fit = learned(rows, discount, seed, approximation=approximation)
    rules = {one.name: by_function(fit, one.rule) for one in fit.candidates}
    chosen = (approximation, fit.chosen, f"{fit.verdict}: {fit.chosen.name}")
    every = [chosen, *((f"{approximation}, {one.name}", one, "") for one in fit.candidates)]
    return [
        (label, rules[one.name], one.expected.value, one.expected.standard_error, word) for label, one, word in every
    ]


def light(rows, discount, seed):
    """What `auto` does where JAX is missing: every learner but the networks."""
    with mock.patch.object(learning, "NEURAL", ("a package that is not there",)):
        return [(name.replace("auto", "light"), *rest) for name, *rest in approximated(rows, discount, seed, "auto")]


def binned(rows, discount, seed, bins=8):
    fit = learned(rows, discount, seed, bins=dict.fromkeys(rows.columns.numbers, bins), approximation="table")
    return [("bins", by_table(fit, rows), fit.expected.value, fit.expected.standard_error, fit.verdict)]


WAYS = {name: partial(approximated, approximation=name) for name in ("auto", "partition", "linear", "neural")}
WAYS |= {"light": light, "bins": binned}


def offered(rows, discount, seed, learner):
    """{name: (rule, its evaluation)} of all that a learner offers, before one of them is chosen."""
    from dualq.offline.approximate.evaluation import evaluated

    module = import_module(f"dualq.offline.approximate.{learner}")
    rules = getattr(module, f"learned_{learner}")(rows, discount, seed)
    return {name: (rule, evaluated(rows, rule, discount, rows.starts, seed)) for name, rule in rules.items()}


# ---- one cell


def promised(rows, discount, seed, method):
    """[(name, rule, what it is expected to earn, the error of that, verdict)]: what a method makes of a log."""
    if method in PEERS:
        return [(method, *PEERS[method](rows, discount, seed), None, "")]
    if method in WAYS:
        return WAYS[method](rows, discount, seed)
    learner = method.removeprefix("rules of ")
    rules = offered(rows, discount, seed, learner)
    return [(f"{learner}: {name}", rule, e.value, e.standard_error, "") for name, (rule, e) in rules.items()]


def answered(name, rows, seed, method, chosen=False):
    """{name: Answer}; what a method raises is a result too."""
    problem, log = made(name), logged(name, rows, seed)
    begun = time.process_time()
    try:
        (first, *_), *others = found = promised(log, problem.discount, seed, method)
    except Exception as failure:
        return {method: f"{type(failure).__name__}: {failure}"}
    seconds, answers = time.process_time() - begun, {}
    if chosen:
        found, others = found[:1], []
    true = {rule: simulated(name, problem, rule, log.starts) for rule in dict.fromkeys(rule for _, rule, *_ in found)}
    for label, rule, expected, error, verdict in found:
        numbers = [np.nan if x is None else float(x) for x in (expected, error)]
        answers[label] = Answer(*true[rule], *numbers, verdict, undiscounted(name, problem, rule), np.nan, seconds)
    if others and method in WAYS:
        best = max(answers[label].truth for label, *_ in others)
        answers[first] = answers[first]._replace(lost=best - answers[first].truth)
    return answers


def simulated(name, problem, rule, starts):
    """The value of a rule from the problem's start, and from a log's first states.

    Only differences under common noise are taken from few episodes: to the log's rule, whose value is known well.
    """
    if name in CONTROLS:
        places = (None, starts) if problem.anywhere else (None,)
        found = [float(returns(problem, rule, TRUTH_SEED, problem.episodes, start=x).mean()) for x in places]
        return found[0], found[-1]
    own, there = (returns(problem, rule, TRUTH_SEED, EPISODES, start=start) for start in (None, starts))
    truth = KNOWN[name][0] + float((own - behaved(name)).mean())
    return truth, truth + float((there - own).mean())


@cache
def behaved(name):
    """What the log's rule earns in each of the episodes."""
    problem = made(name)
    return returns(problem, problem.behaviour, TRUTH_SEED, EPISODES)


def undiscounted(name, problem, rule, episodes=200):
    """The mean of the rewards of an episode, added up to Gymnasium's horizon; nothing where that is no custom."""
    return float(added_up(problem, rule, TRUTH_SEED, episodes).mean()) if name in CONTROLS else np.nan


def summed(method, rows, answers, low, best):
    """A row of the table: over logs."""
    good = [answer for answer in answers if isinstance(answer, Answer)]
    if not good:
        return [f"{rows:,}", "0", method, str(answers[0])[:80], *[""] * (len(HEADER) - 4)]
    truth, here, expected, error, _, total, lost, seconds = (np.array(column) for column in zip(*good, strict=True))
    spread = f" ± {truth.std(ddof=1) / np.sqrt(truth.size):.2f}" if truth.size > 1 else ""
    told = np.isfinite(error)
    within = f"{(np.abs(expected - here)[told] <= 2.0 * error[told]).sum()} of {told.sum()}" if told.any() else ""
    verdicts = ", ".join(f"{word} {n}" for word, n in Counter(a.verdict for a in good if a.verdict).most_common())
    failed = f" ({len(answers) - len(good)} failed)" if len(good) < len(answers) else ""
    return [
        f"{rows:,}",
        str(len(good)),
        method + failed,
        f"{truth.mean():.2f}{spread}",
        f"{(truth.mean() - low) / (best - low):.0%}",
        f"{truth.min():.2f} ({(truth < low).sum()})",
        f"{total.mean():.0f}" if np.isfinite(total).all() else "",
        f"{np.nanmean(expected - here):+.2f}" if np.isfinite(expected).any() else "",
        f"{error[told].mean():.2f}" if told.any() else "",
        within,
        verdicts,
        f"{lost.mean() / (best - low):.1%}" if np.isfinite(lost).all() else "",
        f"{seconds.mean():.1f}",
    ]


HEADER = [
    "rows", "logs", "method", "true value", "gained", "worst (below the log)", "added up", "expected too much",
    "its error", "within two", "verdicts", "cost of the choice", "CPU s",
]  # fmt: skip


class Cell(NamedTuple):
    """One log and one method: what is measured at a time."""

    name: str
    rows: int
    method: str
    seed: int


def measure(cells, pool, chosen):
    """{problem: {(rows, label): answers}}, each printed as it comes; Ctrl-C or a kill keeps what was measured."""
    jobs = {cell: pool.submit(answered, cell.name, cell.rows, cell.seed, cell.method, chosen) for cell in cells}
    found = {}
    try:
        for (name, rows, _, seed), job in jobs.items():
            for label, answer in job.result().items():
                found.setdefault(name, {}).setdefault((rows, label), []).append(answer)
                print(name, rows, seed, label, answer, sep="  ", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)  # what is at work ends first
    return found


def tables(found, first, chosen):
    """A section for each problem."""
    for name, ways in found.items():
        low, best = references(name)
        table = [summed(label, rows, answers, low, best) for (rows, label), answers in ways.items()]
        note = (
            f"The log earns {low:.2f}, the best known policy {best:.2f}; simulated logs from seed {first}, mean ± "
            f"standard error; values by {getattr(made(name), 'episodes', EPISODES):,} episodes under common noise."
        )
        title = f"States of numbers: how often errors hold, {name}" if chosen else f"States of numbers: {name}"
        publish(title, markdown(HEADER, table) + "\n\n" + note)


def best_known(names):
    """Measure the best known values again."""
    from dualq.worlds.gridded import Grid

    for name in names:
        problem, (axes, log2_draws) = made(name), AXES[name]
        grid = Grid.of(problem, axes)
        rule = grid.greedy(dualq.solve(grid.model(problem, log2_draws)).Q)
        low, gain = (
            returns(problem, problem.behaviour, 1, 200_000),
            true_gain(problem, rule, problem.behaviour, 2, 50_000),
        )
        error = low.std() / np.sqrt(low.size)
        print(f"{name}: log {low.mean():.3f} ± {error:.3f}, best known {gain[0]:+.3f} ± {gain[1]:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [name for name in (*PROBLEMS, *CONTROLS) if name != "LunarLander" or find_spec("Box2D")]
    parser.add_argument("--only", nargs="+", choices=[*PROBLEMS, *CONTROLS], default=every)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--peer-logs", type=int, default=10**9)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--methods", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--peers", nargs="*", choices=[*PEERS, "none"], default=list(PEERS))
    parser.add_argument("--best", action="store_true", help="measure the best known values again, and nothing else")
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--rules", nargs="*", choices=["linear", "neural"], default=[])
    options = parser.parse_args()
    if options.best:
        return best_known([name for name in options.only if name in PROBLEMS])
    rules = [f"rules of {learner}" for learner in options.rules]
    methods = [*options.methods, *rules, *(peer for peer in options.peers if peer != "none")]
    sizes = {n: options.rows or ([made(n).rows] if n in CONTROLS else [2_000, 20_000]) for n in options.only}
    last = options.first + options.peer_logs  # of the slow ones
    cells = [  # one log of every problem after another: a run that is stopped is balanced
        Cell(name, rows, method, seed)
        for seed in range(options.first, options.first + options.logs)
        for name in options.only
        for rows in sizes[name]
        for method in methods
        if method not in SLOW or seed < last
    ]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        found = measure(cells, pool, options.chosen)
    tables(found, options.first, options.chosen)


if __name__ == "__main__":
    main()
