"""Every method that learns from transitions, run on the same rows and judged alike: how good after N of them?

A method takes the first N rows of a seed's stream and gives Q (or None) and a policy. Where it has settings to be
tuned, all of a grid are run, and the best of them at each N is found afterwards with the true model at hand: no user
could tune it as well.

    SPD-Q              Algorithm 1, the primal policy of the averages; gamma_0 = 1, 4; eta = 1, .1, .01 times sigma/|S|
    SPD-RL             the off-policy modification, its dual policy (it has no Q of its own); the same grid
    Q-learning         step sizes 1/n^p for p = .5, .65, .8, 1, 1/(1 + (1 - alpha) n), and .1 for ever
    Q-learning, replayed   the same, ten times through the rows, in a new random order each time
    PDHG               on the counts, every 500 rows 20 steps; nothing tuned
    plug-in            the empirical model solved exactly; pairs that were never seen are not chosen, their Q is 0
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dualq.base import Recorded, Rows
from dualq.logs import Counts
from dualq.model import Solution, TablePolicy
from dualq.online import (
    PDHG,
    SPDQ,
    SPDRL,
    Algorithm,
    ByVisits,
    ProblemT,
    QLearning,
    StateT,
    StepSize,
    Task,
    constant,
    inverse_sqrt,
    linear,
    train,
    visits,
)
from dualq.paper.experiments.two_state import Choices
from dualq.solvers import solve

Array = np.ndarray
Rule: TypeAlias = "ByVisits | StepSize"
Answer = tuple[Array | None, TablePolicy]  # Q, policy
Method = Callable[[Task, Recorded, int, int], Answer]  # task, rows, N, seed

PASSES = 10
EVERY, ITERATIONS = 500, 20
RULES = {
    "n^-0.5": visits(0.5),
    "n^-0.65": visits(0.65),
    "n^-0.8": visits(0.8),
    "1/n": visits(1.0),
    "linear": linear(1.0),
    "0.1": constant(0.1),
}
GRID = [(scale, part) for scale in (1.0, 4.0) for part in (1.0, 0.1, 0.01)]  # gamma_0, part of sigma/|S|


def rows_of(task: Task, seed: int, count: int) -> Recorded:
    """The first rows of a seed's stream."""
    rows, stream = Rows.empty(count), task.stream
    assert stream is not None, "a model alone has no rows"
    stream.fill(stream.init(seed), rows)
    return Recorded(*rows)


def _run(algorithm: Algorithm[StateT, ProblemT], task: Task, rows: Recorded, N: int, seed: int) -> Solution:
    part = dataclasses.replace(task, stream=Recorded(*rows.rows.first(N)))
    return train(algorithm, part, N, seed=seed, progress=False).solution


def spd_q(scale: float, part: float) -> Method:
    """Algorithm 1 with these settings."""

    def method(task: Task, rows: Recorded, N: int, seed: int) -> Answer:
        found = _run(SPDQ(**_choices(task, scale, part)), task, rows, N, seed)
        return found.Q, found.primal_policy

    return method


def spd_rl(scale: float, part: float) -> Method:
    """The modified SPD-RL with these settings."""

    def method(task: Task, rows: Recorded, N: int, seed: int) -> Answer:
        return None, _run(SPDRL(**_choices(task, scale, part)), task, rows, N, seed).dual_policy

    return method


def _choices(task: Task, scale: float, part: float) -> Choices:
    return {"step_size": inverse_sqrt(scale), "weights": part * task.mdp.reward_bound / task.mdp.num_states}


def q_learning(rule: Rule, passes: int = 1) -> Method:
    """Q-learning with this step size, so many times through the rows."""

    def method(task: Task, rows: Recorded, N: int, seed: int) -> Answer:
        order = np.arange(N)
        rng = np.random.default_rng([seed, 3])
        orders = [order, *(rng.permutation(order) for _ in range(passes - 1))]
        replayed = Recorded(*(column[np.concatenate(orders)] for column in rows.rows))
        found = _run(QLearning(step_size=rule), task, replayed, N * passes, seed)
        return found.Q, found.primal_policy

    return method


def pdhg(task: Task, rows: Recorded, N: int, seed: int) -> Answer:
    """PDHG on the counts as they grow."""
    found = _run(PDHG(every=EVERY, iterations=ITERATIONS), task, rows, N, seed)
    return found.Q, found.primal_policy


def plug_in(task: Task, rows: Recorded, N: int, seed: int) -> Answer:
    """The empirical model, solved exactly."""
    mdp = task.mdp
    counts = Counts.from_rows(rows.rows.first(N), mdp.states, mdp.actions, mdp.reward_range)
    found = solve(counts.mdp(mdp.discount))
    return np.where(counts.visits > 0, found.Q, 0.0), found.primal_policy


# method: {setting: how}; "" where nothing is tuned
METHODS: dict[str, Mapping[str, Method]] = {
    "SPD-Q": {f"gamma0={g:g}, eta={p:g} sigma/|S|": spd_q(g, p) for g, p in GRID},
    "SPD-RL": {f"gamma0={g:g}, eta={p:g} sigma/|S|": spd_rl(g, p) for g, p in GRID},
    "Q-learning": {name: q_learning(rule) for name, rule in RULES.items()},
    "Q-learning, replayed": {name: q_learning(rule, PASSES) for name, rule in RULES.items()},
    "PDHG": {"": pdhg},
    "plug-in": {"": plug_in},
}


def measured(method: str, task: Task, exact: Solution, sizes: Sequence[int], seed: int) -> dict[str, Array]:
    """What each setting of a method loses after each number of rows, and its Q error: "metric setting" -> (sizes,)."""
    rows, mdp = rows_of(task, seed, sizes[-1]), task.mdp
    found: dict[str, Array] = {"step": np.array(sizes)}
    for setting, how in METHODS[method].items():
        answers = [how(task, rows, N, seed) for N in sizes]
        # Rounding can put an exact policy's value above the best.
        losses = [np.maximum(exact.V - policy.value(mdp), 0.0) for _, policy in answers]
        found[f"value_loss {setting}"] = np.array([loss.max() for loss in losses])
        found[f"mean_loss {setting}"] = np.array([loss.mean() for loss in losses])
        errors = [np.abs(np.where(mdp.available, Q - exact.Q, 0.0)) for Q, _ in answers if Q is not None]
        if errors:
            found[f"q_error {setting}"] = np.array([error.max(axis=0).sum() for error in errors])
    return found
