"""Ways to misread a log: simulated logs with a known truth, each wrong in one way that a reader may miss.

A `Situation` is a log as a table, how a user would read it, what the learned policy is really worth, and the words by
which the right warning is known: among what the log speaks against, the conditions of the promise, the reasons why it
is withheld, or the line that stops and asks.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dualq
from dualq.logs.reading.schema import Bins

Array = np.ndarray

ALPHA = 0.9
S, A = 6, 3


class Situation(NamedTuple):
    columns: Mapping[str, Any]  # the log
    read: Mapping[str, Any]  # how it is read
    truth: Callable[[Any], float]  # from a Fit to what its policy is worth from its start
    words: tuple[str, ...]  # one of them must be found where a reader looks
    testable: bool = True  # whether a test can see it; else a condition of the promise names it


class Outcome(NamedTuple):
    floor: float | None  # promised, or None
    truth: float | None
    conditional: bool  # whether the promise names, as its condition, what is wrong here
    named: bool  # the right warning
    expected: float | None = None  # what the policy is expected to earn, where an error is given
    error: float | None = None


def outcome(situation: Situation) -> Outcome:
    """What a user is told of the log, and what is true."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            aside = {"quarantine": Path(folder) / "bad"} if situation.read.get("skip_bad") else {}
            fit = dualq.learn(dict(situation.columns), discount=ALPHA, **situation.read, **aside)
    except dualq.LogError as error:
        return Outcome(None, None, False, any(word in str(error) for word in situation.words))
    expected = fit.expected
    told = [*fit.contradicted, *fit.withheld, *fit.coverage.warnings, str(fit.coverage.drift_by)]
    told += [] if situation.testable else fit.conditions  # they always stand there: no warning where a test has power
    named = any(word in line for word in situation.words for line in told)
    conditional = not situation.testable and any(word in line for word in situation.words for line in fit.conditions)
    floor = fit.certificate.lower if fit.promised and fit.certificate.informative else None
    truth = situation.truth(fit)
    return Outcome(floor, truth, conditional, named, expected.value, expected.standard_error)


# ---- the world that all of them disturb


class World(NamedTuple):
    P: Array  # (S, A, S)
    r: Array  # (S, A) mean rewards; rewards are these +- .1


def world(rng: np.random.Generator) -> World:
    return World(rng.dirichlet(np.full(S, 0.7), (S, A)), rng.uniform(0.3, 0.9, (S, A)))


def habit(rng: np.random.Generator) -> Array:
    """(S, A) what the planner does, every action at least now and then."""
    return 0.85 * rng.dirichlet(np.ones(A), S) + 0.05


def policy_of(fit: Any) -> tuple[Array, Array]:
    """(S, A) the policy and (S,) the start in the world's own states and actions."""
    states, actions = [int(s) for s in fit.counts.states], [int(a) for a in fit.counts.actions]
    matrix, start = np.full((S, A), 1.0 / A), np.zeros(S)
    matrix[states] = 0.0
    matrix[np.ix_(states, actions)] = fit.policy.matrix
    start[states] = fit.start
    return matrix, start


def value(P: Array, r: Array, policy: Array, alpha: float = ALPHA) -> Array:
    """(S,) of a policy in a model: a dense solve."""
    chain = np.einsum("sa,sat->st", policy, P)
    return np.linalg.solve(np.eye(len(P)) - alpha * chain, (policy * r).sum(axis=1))


def true_value(w: World) -> Callable[[Any], float]:
    def truth(fit: Any) -> float:
        policy, start = policy_of(fit)
        return float(start @ value(w.P, w.r, policy))

    return truth


def walk(
    rng: np.random.Generator,
    rows: int,
    act: Callable[[int, int], int],
    step: Callable[[int, int, int], tuple[float, int]],
    s: int = 0,
) -> tuple[Array, Array, Array]:
    """States, actions and rewards of one walk; act(k, s) and step(k, s, a) -> (r, s') may remember what they like."""
    states, actions, rewards = np.empty(rows, int), np.empty(rows, int), np.empty(rows)
    for k in range(rows):
        a = act(k, s)
        r, s_next = step(k, s, a)
        states[k], actions[k], rewards[k] = s, a, r
        s = s_next
    return states, actions, rewards


def drawn(rng: np.random.Generator, p: Array) -> int:
    return int(np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right").clip(0, p.size - 1))


def one_walk(rng: np.random.Generator, w: World, rows: int, **changes: Any) -> dict[str, Any]:
    """The world as it is, a row per step."""
    theta = habit(rng)
    act = changes.get("act", lambda k, s: drawn(rng, theta[s]))
    pay = changes.get("pay", lambda k, s, a: w.r[s, a] + rng.uniform(-0.1, 0.1))
    s, a, r = walk(rng, rows, act, lambda k, s, a: (pay(k, s, a), drawn(rng, w.P[s, a])))
    return {"t": np.arange(rows), "state": s, "action": a, "reward": r}


# ---- ways to misread a log


def failure_ends(seed: int, said: str | None = None) -> Situation:
    """A failure ends the episode, and no column says so; said: what the user answers when asked."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    theta, fails = habit(rng), rng.uniform(0.01, 0.05, (S, A))
    rows = []
    for machine in range(400):
        s = int(rng.integers(S))
        for t in itertools.count():
            a = drawn(rng, theta[s])
            failed = rng.random() < fails[s, a]
            rows.append((machine, t, s, a, -8.0 if failed else w.r[s, a] + rng.uniform(-0.1, 0.1)))
            if failed:
                break
            s = drawn(rng, w.P[s, a])
    machine, t, s, a, r = map(np.array, zip(*rows, strict=True))

    def truth(fit: Any) -> float:
        policy, start = policy_of(fit)
        return float(start @ value(w.P * (1.0 - fails[..., None]), (1.0 - fails) * w.r - 8.0 * fails, policy))

    columns = {"machine": machine, "t": t, "state": s, "action": a, "reward": r}
    read = {"episode": "machine", "time": "t"}
    if said is not None:
        return Situation(columns, read | {said: "last"}, truth, ("ends", "last rows"))
    return Situation(columns, read, truth, ("--terminal last",))


def failure_called_a_cut(seed: int) -> Situation:
    """The same, and the user says that the recording stopped there."""
    return failure_ends(seed, "truncated")


def switching_cost(seed: int, rows: int = 10_000) -> Situation:
    """Another action than the one before costs something."""
    rng = np.random.default_rng(seed)
    w, cost, before = world(rng), 0.4, [0]

    def pay(k: int, s: int, a: int) -> float:
        r = w.r[s, a] - cost * (a != before[0]) + rng.uniform(-0.1, 0.1)
        before[0] = a
        return r

    def truth(fit: Any) -> float:  # in the states (s, action before)
        policy, start = policy_of(fit)
        P, r = np.zeros((S * A, A, S * A)), np.zeros((S * A, A))
        for s in range(S):
            for b in range(A):
                for a in range(A):
                    P[s * A + b, a, np.arange(S) * A + a] = w.P[s, a]
                    r[s * A + b, a] = w.r[s, a] - cost * (a != b)
        V = value(P, r, np.repeat(policy, A, axis=0)).reshape(S, A)
        return float(start @ (V * policy).sum(axis=1))  # as if it had done what it does before

    return Situation(one_walk(rng, w, rows, pay=pay), {"time": "t"}, truth, ("memory",))


def hidden_cycle(seed: int, rows: int = 10_000) -> Situation:
    """Every five rows another action is good, the planner knows it, and the state does not."""
    rng = np.random.default_rng(seed)
    w, good = world(rng), rng.integers(A, size=5)
    theta = habit(rng)

    def act(k: int, s: int) -> int:
        return int(good[k % 5]) if rng.random() < 0.7 else drawn(rng, theta[s])

    def pay(k: int, s: int, a: int) -> float:
        return w.r[s, a] - 0.3 + 0.5 * (a == good[k % 5]) + rng.uniform(-0.1, 0.1)

    def truth(fit: Any) -> float:  # in the states (s, phase), each phase alike
        policy, start = policy_of(fit)
        P, r = np.zeros((S * 5, A, S * 5)), np.zeros((S * 5, A))
        for s in range(S):
            for k in range(5):
                for a in range(A):
                    P[s * 5 + k, a, np.arange(S) * 5 + (k + 1) % 5] = w.P[s, a]
                    r[s * 5 + k, a] = w.r[s, a] - 0.3 + 0.5 * (a == good[k])
        V = value(P, r, np.repeat(policy, 5, axis=0)).reshape(S, 5)
        return float(start @ V.mean(axis=1))

    return Situation(one_walk(rng, w, rows, act=act, pay=pay), {"time": "t"}, truth, ("cycle", "memory"))


def changed_at_the_end(seed: int, rows: int = 10_000) -> Situation:
    """Rewards fell in the last 4% of the rows: that is the system in which the policy will live."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    fallen = World(w.P, w.r - 0.25)

    def pay(k: int, s: int, a: int) -> float:
        return (fallen if k >= 0.96 * rows else w).r[s, a] + rng.uniform(-0.1, 0.1)

    words = ("recent", "rewards", "dynamics")
    return Situation(one_walk(rng, w, rows, pay=pay), {"time": "t"}, true_value(fallen), words)


def bad_rewards_missing(seed: int, rows: int = 10_000) -> Situation:
    """Rewards are missing where they were bad, and the user sets such rows aside."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    columns = one_walk(rng, w, rows, pay=lambda k, s, a: float(rng.random() < w.r[s, a]))
    lost = (columns["reward"] < 0.5) & (rng.random(rows) < 0.5)
    columns["reward"] = np.where(lost, np.nan, columns["reward"])
    columns["next_state"] = np.append(columns["state"][1:], 0)
    read = {"time": "t", "next_state": "next_state", "skip_bad": True, "reward_range": (0.0, 1.0)}
    return Situation(columns, read, true_value(w), ("set aside",))


def rows_lost_by_outcome(seed: int, rows: int = 10_000) -> Situation:
    """Rows are missing because of what they showed."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    columns = one_walk(rng, w, rows, pay=lambda k, s, a: float(rng.random() < w.r[s, a]))
    columns["next_state"] = np.append(columns["state"][1:], 0)
    kept = (columns["reward"] > 0.5) | (rng.random(rows) < 0.6)
    columns = {name: column[kept] for name, column in columns.items()}
    read = {"time": "t", "next_state": "next_state", "reward_range": (0.0, 1.0)}
    return Situation(columns, read, true_value(w), ("row is missing", "gaps"), testable=False)


def hidden_cause(seed: int, rows: int = 10_000) -> Situation:
    """The planner saw something that the state lacks, and that decides what is good."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    theta, cause = habit(rng), rng.integers(A, size=rows)

    def act(k: int, s: int) -> int:
        return int(cause[k]) if rng.random() < 0.7 else drawn(rng, theta[s])

    def pay(k: int, s: int, a: int) -> float:
        return w.r[s, a] - 0.2 + 0.4 * (a == cause[k]) + rng.uniform(-0.1, 0.1)

    columns = one_walk(rng, w, rows, act=act, pay=pay)
    blind = World(w.P, w.r - 0.2 + 0.4 / A)
    return Situation(columns, {"time": "t"}, true_value(blind), ("everything",), testable=False)


def rare_loss(seed: int, rows: int = 10_000) -> Situation:
    """A large loss, so rare that the log hardly ever shows it; nobody says what rewards can be."""
    rng = np.random.default_rng(seed)
    w, chance, loss = world(rng), 1e-4, 1000.0

    def pay(k: int, s: int, a: int) -> float:
        return -loss if rng.random() < chance else w.r[s, a] + rng.uniform(-0.1, 0.1)

    true = World(w.P, (1.0 - chance) * w.r - chance * loss)
    return Situation(
        one_walk(rng, w, rows, pay=pay), {"time": "t"}, true_value(true), ("no reward lies",), testable=False
    )


class Numbers(NamedTuple):
    """A problem whose state is made of numbers; all of it works on many walks at once."""

    names: tuple[str, ...]
    actions: int
    begin: Callable[[np.random.Generator, int], Array]  # -> (walks, columns)
    habit: Callable[[np.random.Generator, Array], Array]  # -> (walks,)
    step: Callable[[np.random.Generator, Array, Array], tuple[Array, Array]]  # -> rewards, next states
    bins: Mapping[str, int]


def _wear(rng: np.random.Generator, x: Array, a: Array) -> tuple[Array, Array]:
    u = rng.random(len(x))
    worn = np.where(a == 1, 0.05 * u, np.minimum(x[:, 0] + 0.12 * u, 1.0))
    return np.where(a == 1, -0.6, 1.0 - 1.8 * x[:, 0] ** 2), worn[:, None]


def _sell(rng: np.random.Generator, x: Array, a: Array) -> tuple[Array, Array]:
    price = np.array([0.6, 0.9, 1.2, 1.5])[a]
    sold = np.exp(1.2 * x[:, 0] - 1.6 * price) * rng.uniform(0.8, 1.2, len(x))
    return price * sold, (0.8 * x[:, 0] + 0.2 * price + 0.02 * rng.standard_normal(len(x)))[:, None]


def _order(rng: np.random.Generator, x: Array, a: Array) -> tuple[Array, Array]:
    stock, level = x.T
    there = np.minimum(stock + 2.0 * a, 8.0)
    sold = np.minimum(there, rng.poisson(np.exp(level)))
    following = 0.9 * level + 0.1 * np.log(2.0) + 0.25 * rng.standard_normal(len(x))
    return 2.0 * sold - 0.2 * there - 0.8 * (a > 0) - 0.5 * a, np.stack([there - sold, following], axis=1)


PROBLEMS = {
    "maintenance": Numbers(
        ("wear",),
        2,
        lambda rng, n: 0.5 * rng.random((n, 1)),
        lambda rng, x: (rng.random(len(x)) < np.where(x[:, 0] > 0.72, 0.9, 0.05)).astype(int),
        _wear,
        {"wear": 8},
    ),
    "pricing": Numbers(
        ("reference",),
        4,
        lambda rng, n: rng.uniform(0.7, 1.3, (n, 1)),
        lambda rng, x: np.clip(np.rint(3.0 * (x[:, 0] - 0.6) / 0.9 + rng.normal(0, 1.2, len(x))), 0, 3).astype(int),
        _sell,
        {"reference": 6},
    ),
    "inventory": Numbers(
        ("stock", "level"),
        4,
        lambda rng, n: np.stack([rng.integers(0, 9, n).astype(float), rng.normal(np.log(2.0), 0.5, n)], axis=1),
        lambda rng, x: np.where(
            rng.random(len(x)) < 0.3, rng.integers(0, 4, len(x)), np.clip(np.exp(x[:, 1]) * 2 - x[:, 0], 0, 6) // 2
        ).astype(int),
        _order,
        {"level": 4},
    ),
}


def numbers(problem: Numbers, seed: int, rows: int = 10_000, walks: int = 20) -> Situation:
    """A log of a problem with numbers in the state, read with quantile bins; the planner saw the numbers."""
    rng = np.random.default_rng(seed)
    x = first = problem.begin(rng, walks)
    taken = []
    for day in range(rows // walks):
        a = problem.habit(rng, x)
        r, x_next = problem.step(rng, x, a)
        taken.append((np.arange(walks), np.full(walks, day), *x.T, a, r, *x_next.T))
        x = x_next
    names = ("unit", "day", *problem.names, "do", "paid", *(f"next_{name}" for name in problem.names))
    columns = {name: np.concatenate(column) for name, column in zip(names, zip(*taken, strict=True), strict=True)}
    read = {"state": list(problem.names), "action": "do", "reward": "paid", "episode": "unit", "time": "day"}
    read |= {"next_state": [f"next_{name}" for name in problem.names], "bins": dict(problem.bins)}

    def truth(fit: Any) -> float:
        draws = np.random.default_rng(seed + 10**6)
        labels = {tuple(fit.counts.states.named(s).values()): s for s in range(len(fit.counts.states))}
        actions = np.array([int(a) for a in fit.counts.actions])
        bins = {name: Bins(tuple(edges)) for name, edges in fit.settings["bins"].items()}
        x, total = first[draws.integers(walks, size=4000)], np.zeros(4000)
        for k in range(120):
            parts = []
            for i, name in enumerate(problem.names):
                if name in bins:
                    place = np.searchsorted(bins[name].edges, x[:, i], side="right")
                    parts.append(np.array(bins[name].labels, object)[place])
                else:
                    parts.append(x[:, i])
            s = np.array([labels.get(label, -1) for label in zip(*parts, strict=True)])
            chances = np.where(s[:, None] >= 0, fit.policy.matrix[s], 1.0 / actions.size).cumsum(axis=1)
            a = actions[(draws.random((4000, 1)) * chances[:, -1:] > chances).sum(axis=1)]
            r, x = problem.step(draws, x, a)
            total += ALPHA**k * r
        return float(total.mean())

    return Situation(columns, read, truth, ("bins",))


def quantile_bins(seed: int) -> Situation:
    """A machine wears continuously; the planner sees the number and repairs late, the log has 8 quantile bins."""
    return numbers(PROBLEMS["maintenance"], seed)


def counter_for_a_clock(seed: int) -> Situation:
    """Steps are counted from 0 in every episode, there are fewer episodes than steps, and the planner learns."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    first, last, rows = habit(rng), habit(rng), []
    for run in range(60):
        s = int(rng.integers(S))
        theta = first + (last - first) * run / 59
        for t in range(int(rng.integers(100, 300))):
            a = drawn(rng, theta[s])
            s_next = drawn(rng, w.P[s, a])
            rows.append((run, t, s, a, w.r[s, a] + rng.uniform(-0.1, 0.1), s_next, False))
            s = s_next
        rows[-1] = (*rows[-1][:-1], True)
    names = ("run", "step", "state", "action", "reward", "next_state", "stopped")
    columns = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    read = {"episode": "run", "time": "step", "truncated": "stopped"}
    return Situation(columns, read, true_value(w), ("episode (run)",))


def few_rows(seed: int) -> Situation:
    """A handful of rows, and nobody says what rewards can be."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    columns = one_walk(rng, w, int(rng.integers(2, 40)))
    return Situation(columns, {"time": "t"}, true_value(w), ("too few rows", "no reward lies"))


def customers_with_days(seed: int) -> Situation:
    """600 customers with whole-numbered days, who come and go; the system changed halfway."""
    rng = np.random.default_rng(seed)
    w, after = world(rng), world(rng)
    theta, rows = habit(rng), []
    for customer in range(600):
        s, day = int(rng.integers(S)), int(rng.integers(380))
        for t in range(day, day + 20):
            a = drawn(rng, theta[s])
            now = after if t >= 200 else w
            rows.append((customer, t, s, a, now.r[s, a] + rng.uniform(-0.1, 0.1), drawn(rng, now.P[s, a])))
            s = rows[-1][-1]
    names = ("customer", "day", "state", "action", "reward", "next_state")
    columns = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    read = {"episode": "customer", "time": "day", "next_state": "next_state", "truncated": "last"}
    return Situation(columns, read, true_value(after), ("dynamics", "rewards"))


def times_missing(seed: int) -> Situation:
    """Some rows have no time, and the user sets them aside: the rows around them are not neighbours."""
    rng = np.random.default_rng(seed)
    w = world(rng)
    columns = one_walk(rng, w, 10_000)
    t = columns["t"].astype(float)
    t[rng.random(t.size) < 0.1] = np.nan
    columns["t"] = t
    read = {"time": "t", "skip_bad": True, "reward_range": (0.0, 1.0)}
    return Situation(columns, read, true_value(w), ("set aside",))


WAYS = {
    way.__name__: way
    for way in (
        failure_ends,
        failure_called_a_cut,
        switching_cost,
        hidden_cycle,
        changed_at_the_end,
        bad_rewards_missing,
        rows_lost_by_outcome,
        hidden_cause,
        rare_loss,
        quantile_bins,
        counter_for_a_clock,
        few_rows,
        customers_with_days,
        times_missing,
    )
}
