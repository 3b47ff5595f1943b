"""`check`: how often it is wrong in 500 daily looks, and how soon it finds a policy that earns a fifth less.

    python benchmarks/life_check.py [streams]

Every stream: a log of 20,000 rows of random decisions is recorded and learned from; the policy goes into use, 10 rows a
day for 500 days, and somebody looks every day. Streams with any look that says that it earns less than expected, or
that the system changed (at the rows where `check` tests it), are counted. Then the same with rewards lowered so that
the policy earns 20% less from the first day: the rows at the first look that says so by the earnings alone, and at the
first that says anything (all rewards are lower, so the test of change sees it too), beside a test of one fixed size
that knows the expectation exactly and looks once: the size at which it finds the loss in half of all cases, and in 90%.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import numpy as np
from common import markdown, publish
from scipy.special import ndtri

import dualq
from dualq.base import Rows
from dualq.logs import Counts, between
from dualq.model import TablePolicy
from dualq.offline.checking import CHANGE, FIRST, LOOKS, Earning, Seen, judged, parts_of
from dualq.worlds import sample_log

DAYS, A_DAY, OLD = 500, 10, 20_000
Z = -float(ndtri(LOOKS / 2.0))
WORLDS = {
    "two states": dualq.problems.two_state,
    "inventory": sample_log.truth,
    "queue": lambda: dualq.problems.queue(capacity=10),
    "garnet 20×4": lambda: dualq.problems.garnet(20, 4, 3, seed=3),
}


def in_use(world: dualq.Simulator, fit: dualq.Fit) -> dualq.Simulator:
    """The world with the policy of a fit in it; where the log never was, any action."""
    matrix = TablePolicy.uniform(world.mdp).matrix.copy()
    for s, label in enumerate(world.mdp.states):
        if label in fit.policy.states and not fit.policy.undecided[fit.policy.states.index(label)]:
            matrix[s] = 0.0
            row = fit.policy.matrix[fit.policy.states.index(label)]
            matrix[s, [world.mdp.actions.index(action) for action in fit.policy.actions]] = row
    return dataclasses.replace(world, behaviour=TablePolicy(matrix, world.mdp.states, world.mdp.actions))


def lowered(world: dualq.Simulator, loss: float) -> dualq.Simulator:
    ends = {} if world.reward_low is None else {n: getattr(world, n) - loss for n in ("reward_low", "reward_high")}
    return dataclasses.replace(world, mdp=world.mdp.moved(-loss), **ends)


def first_alarm(fit: dualq.Fit, earning: Earning, log: dualq.ArrayLog) -> tuple[float, float]:
    """The rows at the first look that says that too little is earned, and at the first that finds a change."""
    counts = log.counts()
    seen = Seen.of(fit, counts)
    s, a, s_next = seen.s[log.state], seen.a[log.action], seen.s[log.next_state]
    used = np.pad(np.isfinite(earning.Q), ((0, 1), (0, 1)))[s, a]
    after = np.where(s_next >= 0, np.minimum(earning.V[s_next], earning.best[s, a]), earning.best[s, a])
    X = log.reward + earning.discount * np.where(log.ended, 0.0, after) - earning.Q[s, a]
    X, pair = np.where(used, earning.weight[s, a] * X, 0.0), s * fit.counts.shape[1] + a
    looks = np.arange(A_DAY, len(log) + 1, A_DAY)
    day = np.repeat(np.arange(looks.size), A_DAY)
    cells, size = pair[used] * looks.size + day[used], fit.counts.visits.size * looks.size
    rows, squares = (
        np.cumsum(np.bincount(cells, x, size).reshape(-1, looks.size), axis=1) for x in (None, X[used] ** 2)
    )
    high = earning.upper.at_most(rows, np.cumsum(X)[looks - 1], squares)
    weight = np.cumsum(np.where(used, earning.weight[s, a], 0.0))[looks - 1] / rows.sum(axis=0)
    high = earning.start + high / weight / (1.0 - earning.discount)
    slack = np.array([Z * earning.allowed(fit, each.reshape(fit.counts.shape)).standard_error for each in rows.T])
    low = high < fit.expected.value - slack
    old, now, changed = seen.both[0].counts(fit.counts), seen.both[1], np.inf
    for k, until in enumerate(FIRST * 2**j for j in range(64) if FIRST * 2**j <= len(log)):
        part = Counts.from_rows(Rows(*(x[:until] for x in log.rows)), log.states, log.actions, log.reward_range)
        found = between(old, now.counts(part), CHANGE / ((k + 1) * (k + 2)))
        if found["dynamics"].found or found["rewards"].found:
            changed = min(changed, until)
    assert bool(low[-1]) == (judged(fit, parts_of(log)).interval[1] < fit.expected.value - slack[-1])  # the same code
    return float(looks[low.argmax()]) if low.any() else np.inf, changed


def measured(name: str, world: dualq.Simulator, streams: int) -> tuple[list[str], np.ndarray]:
    """A row of the table, and how many streams had false alarms: of earning, of change, of either."""
    began, wrong, rows, fixed = time.process_time(), np.zeros(3, int), [], []
    for seed in range(streams):
        old = dataclasses.replace(world, behaviour=TablePolicy.uniform(world.mdp)).record(OLD, seed=3 * seed)
        fit = dualq.learn(old, discount=world.mdp.discount, certificate=None, start="log")
        use, earning = in_use(world, fit), Earning.of(fit)
        alarms = np.isfinite(first_alarm(fit, earning, use.record(DAYS * A_DAY, seed=3 * seed + 1)))
        wrong += [*alarms, alarms.any()]
        loss = 0.2 * (1.0 - world.mdp.discount) * abs(fit.expected.value)
        rows.append(first_alarm(fit, earning, lowered(use, loss).record(DAYS * A_DAY, seed=3 * seed + 2)))
        fixed.append(earning.upper.variance / loss**2)
    sizes = [np.median(fixed) * (-ndtri(LOOKS) - ndtri(miss)) ** 2 for miss in (0.5, 0.1)]
    medians = np.median([at for at, _ in rows]), np.median([min(both) for both in rows])
    spent = time.process_time() - began
    shares = [f"{w / streams:.1%}" for w in wrong]
    return [name, str(streams), *shares, *(f"{size:,.0f}" for size in (*medians, *sizes, spent))], wrong


def main(streams: int) -> None:
    table, totals = [], np.zeros(3, int)
    for name, make in WORLDS.items():
        row, wrong = measured(name, make(), streams)
        table.append(row)
        totals += wrong
        print(*row, file=sys.stderr, flush=True)
    all_of_them = streams * len(WORLDS)
    table.append(["all", str(all_of_them), *(f"{w / all_of_them:.1%}" for w in totals), *[""] * 5])
    header = ["problem", "streams", "false: earning", "false: change", "false: any", "rows, earning", "rows, any"]
    header += ["fixed size, half", "fixed size, 90%", "CPU s"]
    publish("A policy in use", markdown(header, table))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 250)
