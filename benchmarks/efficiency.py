"""How much a transition is worth: PDHG on counts beside Q-learning tuned to each size, and PDHG beside HiGHS.

Learning: at 500 to 20,000 transitions, the Q error max_(s,a) |Q - Q*| and the value loss max_s V* - V^pi of the greedy
policy; medians over seeds. PDHG runs as it stands, `PDHG()`. Q-learning is tuned at each size and for each of the two
measures apart: of all step sizes listed in RULES the one with the least median on these very seeds, which favours it.
Replayed, it goes through the same transitions ten times, its step size going on, tuned likewise. The plug-in is the
exact optimum of the counts.

Solving: models of ten thousand states, to a gap of 1e-6 relative; CPU seconds on one thread, in one run.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings

import highspy
import numpy as np
from common import in_child, markdown, publish
from joblib import Parallel, delayed

from dualq import PDHG, QLearning, inverse_sqrt, linear, problems, solve, visits
from dualq.base.transitions import Rows
from dualq.logs.counts import Counts
from dualq.model.policy import TablePolicy
from dualq.online.training import task_of
from dualq.solvers.pdhg import solve_pdhg
from dualq.solvers.programs import METHODS, OPTIONS, _highs_lp, _scaled, primal

SIZES = (500, 1_000, 2_000, 5_000, 20_000)
REPLAYS = 10
KNOWN = 1e-8  # V* is known to less; a smaller loss is none
PROBLEMS = {  # name: simulator, how its rows are drawn, and how far PDHG may be above tuned Q-learning
    "Garnet .9": (lambda: problems.garnet(20, 4, 5, discount=0.9), "trajectory", 1.0),
    "Garnet .99": (lambda: problems.garnet(20, 4, 5, discount=0.99), "trajectory", 1.0),
    "two_state": (problems.two_state, "trajectory", 1.15),
    "FrozenLake": (lambda: problems.gym("FrozenLake-v1"), "uniform", 1.15),
}
RULES = {
    **{f"1/n^{w:g}": visits(w) for w in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)},
    **{f".5/n^{w:g}": visits(w, 0.5) for w in (0.3, 0.5, 0.7)},
    **{f"{c:g}": c for c in (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)},
    **{f"{c:g}/(1+(1-a)n)": linear(c) for c in (0.3, 0.6, 1.0)},
    **{
        f"{c:g}/sqrt(k+{o:g})": inverse_sqrt(c, o)
        for c, o in ((1, 1), (5, 25), (20, 400), (3, 1000), (30, 1000), (70, 5000), (140, 20000))
    },
}


# ---- learning


def measured(mdp, exact, Q):
    loss = (exact.V - TablePolicy.greedy(Q).value(mdp)).max()
    there = mdp.available
    return np.abs(Q - exact.Q)[there].max(), loss if loss > KNOWN else 0.0


def q_learning(mdp, exact, rows, rule, times):
    """(error, loss) at each size; the rows up to there are gone through so many times."""
    algorithm, found = QLearning(step_size=rule), []
    problem = algorithm.problem(mdp, 1.0)
    state, k = algorithm.init(mdp, 0, 1.0), 0
    for size in SIZES:
        if times > 1:
            state, k = algorithm.init(mdp, 0, 1.0), 0
            for _ in range(times):
                algorithm.advance(state, problem, rows.first(size), k)
                k += size
        else:
            algorithm.advance(state, problem, Rows(*(column[k:size] for column in rows)), k)
            k = size
        found.append(measured(mdp, exact, algorithm.solution(state, mdp).Q))
    return found


def pdhg(mdp, exact, rows):
    algorithm, found, k = PDHG(), [], 0
    problem, state = algorithm.problem(mdp), algorithm.init(mdp, 0, 1.0)
    for size in SIZES:
        algorithm.advance(state, problem, Rows(*(column[k:size] for column in rows)), k)
        found.append(measured(mdp, exact, algorithm.solution(state, mdp).Q))
        k = size
    return found


def plug_in(mdp, exact, rows):
    """The optimum of the counts; a pair never seen has the Q that PDHG gives it."""
    found = []
    for size in SIZES:
        counts = Counts.from_rows(rows.first(size), mdp.states, mdp.actions, mdp.reward_range)
        best = solve(counts.mdp(mdp.discount))
        unseen = mdp.reward_range[0] + mdp.discount * best.V.min()
        found.append(measured(mdp, exact, np.where(counts.visits > 0, best.Q, unseen)))
    return found


def one_seed(name, seed):
    build, sampling, _ = PROBLEMS[name]
    simulator = build()
    mdp, exact = simulator.mdp, solve(simulator.mdp)
    stream, rows = task_of(simulator, sampling).stream, Rows.empty(SIZES[-1])
    stream.fill(stream.init(seed), rows)
    start = time.process_time()
    ours = pdhg(mdp, exact, rows)
    seconds = time.process_time() - start
    tuned = {rule: q_learning(mdp, exact, rows, step, 1) for rule, step in RULES.items()}
    replayed = {rule: q_learning(mdp, exact, rows, step, REPLAYS) for rule, step in RULES.items()}
    return ours, plug_in(mdp, exact, rows), tuned, replayed, seconds


def least_median(runs, i, measure):
    """(median, rule) of the best rule at a size, over the seeds."""
    medians = {rule: np.median([run[rule][i][measure] for run in runs]) for rule in RULES}
    best = min(medians, key=lambda rule: medians[rule])
    return medians[best], best


def spread(values):
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def learning(seeds):
    rows, failed, seconds = [], [], []
    for name, (_, sampling, allowed) in PROBLEMS.items():
        print(f"{name}, {seeds} seeds", file=sys.stderr, flush=True)
        runs = Parallel(n_jobs=2)(delayed(one_seed)(name, seed) for seed in range(seeds))
        ours, plug, tuned, replayed, spent = zip(*runs, strict=True)
        seconds.append(f"{name} {np.median(spent):.2f}")
        for measure, label in enumerate(("Q error", "value loss")):
            for i, size in enumerate(SIZES):
                mine = [run[i][measure] for run in ours]
                best, rule = least_median(tuned, i, measure)
                again, rule_again = least_median(replayed, i, measure)
                holds = np.median(mine) <= allowed * best + 1e-9
                if not holds:
                    failed.append(f"{name}, {label}, {size:,} ({np.median(mine):.3g} against {best:.3g})")
                drawn = name if sampling == "trajectory" else f"{name} (i.i.d. uniform pairs)"
                theirs = f"{best:.3g} ({rule})", f"{again:.3g} ({rule_again})"
                plugged = f"{np.median([run[i][measure] for run in plug]):.3g}"
                rows.append([drawn, label, f"{size:,}", spread(mine), *theirs, plugged, f"≤ {allowed:g} ×", holds])
    table = markdown(
        [
            "problem",
            "measure",
            "transitions",
            "PDHG",
            "Q-learning, tuned",
            f"Q-learning, replayed {REPLAYS} ×, tuned",
            "plug-in",
            "bar, against tuned",
            "holds",
        ],
        rows,
    )
    text = (
        f"Medians over {seeds} seeds (PDHG: and quartiles). Q error is max over the pairs of |Q - Q*|; value loss is "
        "max over the states of V* - V^pi, pi greedy in Q. PDHG() takes 20 steps every 100 transitions, and needs no "
        "tuning. Q-learning's step size is chosen among "
        f"{len(RULES)} rules for each line, on the seeds it is measured on. Rows are one walk of the behaviour; "
        "FrozenLake's are drawn as i.i.d. uniform pairs, since a walk would stay in its absorbing states."
    )
    cost = f"CPU seconds of PDHG for 20,000 transitions, median: {', '.join(seconds)}."
    bars = "Bars that do not hold: " + ("; ".join(failed) if failed else "none") + "."
    return "\n\n".join([text, table, cost, bars])


# ---- solving


def ours(mdp, polish_every):
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            found = solve_pdhg(mdp, polish_every=polish_every)
            return time.process_time() - start, (found.bounds, found.iterations)

    return run


def highs(mdp, method):
    """HiGHS on the primal program of programs.py, at a tolerance of 1e-6; the bounds are what its V proves."""

    def run():
        program = primal(mdp, mdp.default_weights())
        scaled = _scaled(program)
        solver = highspy.Highs()
        solver.silent()
        options = {**OPTIONS, **METHODS[method], "kkt_tolerance": 1e-6, "threads": 1, "run_crossover": "off"}
        for option, value in options.items():
            solver.setOptionValue(option, value)
        solver.passModel(_highs_lp(program, scaled))
        start = time.process_time()
        solver.run()
        seconds = time.process_time() - start
        V = np.asarray(solver.getSolution().col_value) * scaled.x_unit
        d = mdp.q_values(V).max(axis=1) - V
        eta, alpha = mdp.default_weights(), mdp.discount
        ends = (eta @ (V + d + alpha / (1.0 - alpha) * end) for end in (d.min(), d.max()))
        info = solver.getInfo()
        return seconds, (tuple(ends), max(info.ipm_iteration_count, info.pdlp_iteration_count))

    return run


def solving(quick, limit):
    models = {
        "Garnet 10,000 × 4, 5 successors, .99": lambda: problems.garnet(10_000, 4, 5, discount=0.99).mdp,
        "empirical: 400,000 transitions of that at .99": empirical,
        "queue 10,000, .99": lambda: problems.queue(10_000, discount=0.99).mdp,
        "maze 110 × 110, .99": lambda: problems.maze(110, discount=0.99).mdp,
    }
    if quick:
        models = dict(list(models.items())[:1])
    solvers = {
        "PDHG": lambda mdp: ours(mdp, 20),
        "PDHG, never polished": lambda mdp: ours(mdp, None),
        "HiGHS IPM": lambda mdp: highs(mdp, "ipm"),
        "HiGHS PDLP": lambda mdp: highs(mdp, "pdlp"),
    }
    ours(problems.two_state().mdp, 20)()  # compile
    rows = []
    for name, build in models.items():
        mdp = build()
        value = abs(mdp.default_weights() @ solve(mdp).V)
        row = [name]
        for solver, prepare in solvers.items():
            print(f"{name}: {solver}", file=sys.stderr, flush=True)
            seconds, answer, _ = in_child(prepare(mdp), limit)
            if answer is None:
                row.append(seconds)
                continue
            (lower, upper), iterations = answer
            gap = (upper - lower) / value
            reached = "" if gap <= 1e-6 else " (not reached)"
            row.append(f"{seconds:.2f} s, {iterations:,} steps, gap {gap:.0e}{reached}")
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    text = (
        "CPU seconds on one thread until the gap is 1e-6 relative to eta'V*, and the gap proven. HiGHS stops by its "
        "own rule, at a tolerance of 1e-6, without crossover, on the primal program; the gap beside it is what its V "
        f"proves (MacQueen's bounds). A solver is stopped after {limit} seconds of wall time."
    )
    return text + "\n\n" + markdown(["model", *solvers], rows)


def empirical():
    simulator = problems.garnet(10_000, 4, 5, discount=0.99)
    return simulator.record(400_000).counts().mdp(0.99)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 seeds, one model")
    parser.add_argument("--limit", type=int, default=60, help="seconds after which a solver is stopped")
    parser.add_argument("--only", choices=["learning", "solving"], help="one of the two tables")
    arguments = parser.parse_args()
    if arguments.only in (None, "learning"):
        publish("Transitions used: PDHG on counts and tuned Q-learning", learning(4 if arguments.quick else 20))
    if arguments.only in (None, "solving"):
        publish("Time to a gap of 1e-6 at ten thousand states", solving(arguments.quick, arguments.limit))
