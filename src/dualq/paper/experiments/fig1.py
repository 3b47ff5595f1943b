"""Figure 1: the Q error of Algorithm 1.

Claim     sum_a ||Q*_a - Qhat_a,T||_inf of the averaged iterates converges to zero, for gamma_0 = 1, 2, 3, 4
Setting   Section 6.1 (two_state.py), T = 1e5
Checks    for every gamma_0 the median falls from 1e3 to 1e4 and from 1e4 to 1e5 steps, and ends below a quarter of
          the error of Q = 0
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Results, Row, by_step, median
from dualq.paper.experiments.two_state import MARKS, SCALES, SETTINGS, problem, spd_q
from dualq.paper.experiments.verdicts import Check, Verdict, below, listed
from dualq.solvers import solve

__all__ = ["CLAIM", "NAME", "SETTINGS", "TITLE", "curves", "plot", "rows", "verdict"]

NAME = "fig1"
TITLE = "Figure 1: the Q error of Algorithm 1 on two states"
CLAIM = "The Q error of the averaged iterates converges, for step scales gamma0 = 1 to 4."


def curves() -> list[Curve]:
    """One per gamma_0."""
    return [spd_q(f"gamma0={scale}", scale) for scale in SCALES]


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, ["q_error"])


def verdict(results: Results) -> Verdict:
    """Whether the error falls for every gamma_0, and far enough."""
    numbers = {
        f"q_error/{curve}/{mark}": median(measured.at("q_error", mark))
        for (_, curve), measured in results.items()
        for mark in MARKS
    }
    marks = [[numbers[f"q_error/{curve}/{mark}"] for mark in MARKS] for _, curve in results]
    falls = all(below(late, early) for row in marks for early, late in pairwise(row))
    first = float(np.abs(solve(problem().mdp).Q).max(axis=0).sum())  # the error of Q = 0
    ends = [row[-1] for row in marks]
    small = all(end["high"] is not None and end["high"] < first / 4.0 for end in ends)
    checks = [
        Check(
            "the median Q error falls from 1e3 to 1e4 to 1e5 steps for every gamma0",
            falls,
            "; ".join(f"{curve}: {listed(row)}" for (_, curve), row in zip(results, marks, strict=True)),
        ),
        Check(
            "at 1e5 steps it is below a quarter of the error of Q = 0",
            small,
            f"{listed(ends)} for gamma0 = 1 to 4, against {first:.3g}",
        ),
    ]
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """The error over time."""
    return plots.over_steps(rows, TITLE, {"q_error": "Q error, sum over actions of the largest (units of value)"})
