"""Iterates are not private: what the hub of a star rebuilds of a leaf's table.

Claim     the hub of a star can rebuild the table of a leaf from its iterates alone
Setting   Bellman tracking (docs/networks.md) by 5 agents on a star without loss, 400 rows each of Garnet problems with
          4, 8 and 16 states (2 actions, 3 successors, discount .9). The hub keeps the rules, and what one leaf sends;
          after 2 to 80 rounds it solves the equations of offline/together/leak.py for the leaf's counts and rewards.
Measured  the largest error of a difference between two counts of a pair, in rows (count_error), and of a sum of rewards
          (reward_error); the share of pairs of which all counts are right, rounded, where the hub takes the least of
          them for zero (pairs_right)
Checks    per problem: after 80 rounds, with every seed, no count is off by half a row (so that rounding finds it), and
          no sum of rewards by a millionth
"""

from __future__ import annotations

import numpy as np

from dualq.logs import ArrayLog
from dualq.offline import Leak, attack
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import (
    Array,
    Curve,
    Results,
    Row,
    by_step,
    code_words,
    decades,
    median,
    source_words,
)
from dualq.paper.experiments.verdicts import Check, Verdict, shown
from dualq.worlds import problems

NAME = "leak"
TITLE = "What a hub rebuilds of a leaf's table from its iterates"
CLAIM = "The hub of a star can rebuild the table of a leaf from its iterates alone."
AGENTS, LOG_ROWS, ROUNDS, DISCOUNT = 5, 400, 80, 0.9
STATES = (4, 8, 16)
RECORD = tuple(decades(2, ROUNDS, 10))
MARKS = (RECORD[0], ROUNDS)
METRICS = ("count_error", "reward_error", "pairs_right")
SETTINGS = {
    "problem": "garnet(S, 2, 3, discount=0.9), S = 4, 8, 16",
    "agents": AGENTS,
    "rows of each": LOG_ROWS,
    "rounds listened": ROUNDS,
}


def curves() -> list[Curve]:
    """One per number of states."""
    return [_curve(states) for states in STATES]


def _curve(states: int) -> Curve:
    source = problems.garnet(states, 2, 3, discount=DISCOUNT, seed=0)

    def measure(seed: int) -> dict[str, Array]:
        logs = [source.record(steps=LOG_ROWS, seed=1000 * seed + agent) for agent in range(AGENTS)]
        found = attack(logs, DISCOUNT, RECORD)
        right = [_right(leak, logs[1]) for leak in found]
        errors = [leak.error for leak in found], [leak.reward_error for leak in found]
        return {"step": np.array(RECORD), **dict(zip(METRICS, map(np.array, (*errors, right)), strict=True))}

    words = {"code": code_words(__file__), "source": source_words(source), "record": list(RECORD)}
    return Curve(f"{states} states", "", words, measure)


def _right(leak: Leak, log: ArrayLog) -> float:
    """The share of the leaf's pairs whose counts are right where the least is taken for zero."""
    S, A = len(log.states), len(log.actions)
    truth = np.zeros((S * A, S))
    np.add.at(truth, (log.state * A + log.action, log.next_state), 1.0)
    guess = np.rint(leak.counts - leak.counts.min(axis=1, keepdims=True))
    return float((guess == truth)[truth.any(axis=1)].all(axis=1).mean())


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, METRICS)


def verdict(results: Results) -> Verdict:
    """Whether anything was kept."""
    numbers = {
        f"{metric}/{curve}/{x}": median(measured.at(metric, x))
        for (_, curve), measured in results.items()
        for metric in METRICS
        for x in MARKS
    }
    checks = []
    for (_, curve), measured in results.items():
        count, _, right = (numbers[f"{metric}/{curve}/{ROUNDS}"] for metric in METRICS)
        found = bool((measured.at("count_error", ROUNDS) < 0.5).all())
        because = f"largest error {shown(count)} rows; all counts of a pair right: {100 * (right['value'] or 0):.0f}%"
        checks.append(Check(f"{curve}: the hub knows the counts", found, because))
        worst = float(measured.at("reward_error", ROUNDS).max())
        checks.append(Check(f"{curve}: the hub knows the sums of rewards", worst < 1e-6, f"largest error {worst:.1g}"))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """The error of the counts against the rounds listened."""
    errors = [row for row in rows if row["metric"] == "count_error"]
    axes = {"count_error": "largest error of a count (rows)"}
    note = "Below half a row, rounding finds the count."
    return plots.over_steps(errors, TITLE, axes, x="rounds listened", subtitle=note)
