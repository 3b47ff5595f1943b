"""The setting of the paper's Section 6.1, which Figures 1 to 3 and most experiments beyond them share.

Two states, two actions, T = 1e5, gamma_k = gamma_0/sqrt(k + 1) with gamma_0 = 1..4, eta = sigma/|S| = 1.5 each,
zeta = 0.0856, a zero start made feasible, rows from one trajectory. (At k = 0 the least probability of a pair is 0.08:
the paper's own zeta fails there; it is used all the same.)
"""

from __future__ import annotations

from functools import cache
from typing import TypedDict, Unpack

from dualq.online import SPDQ, SPDRL, QLearning, StepSize, inverse_sqrt
from dualq.paper.experiments.curves import Curve, decades, trained
from dualq.worlds import Simulator, problems

STEPS = 100_000
SCALES = (1, 2, 3, 4)
MARKS = (1_000, 10_000, 100_000)
ETA, ZETA = 1.5, 0.0856
RECORD = tuple(decades(100, STEPS))
METRICS = ("q_error", "primal_policy_error", "dual_policy_error")
SETTINGS = {
    "problem": "two_state (Section 6.1)",
    "steps": STEPS,
    "step_size": "gamma0/sqrt(k + 1), gamma0 = 1..4",
    "weights": ETA,
    "zeta": ZETA,
    "start": "zeros, made feasible",
    "sampling": "trajectory",
}


@cache
def problem() -> Simulator:
    """The problem, made once."""
    return problems.two_state()


class Choices(TypedDict, total=False):
    """What the primal-dual methods let the user choose."""

    step_size: StepSize
    weights: float
    zeta: float
    start: str
    average_power: float
    average_from: int


def choices(scale: float, **others: Unpack[Choices]) -> Choices:
    """The paper's choices, or others."""
    paper: Choices = {"step_size": inverse_sqrt(scale), "weights": ETA, "zeta": ZETA}
    return paper | others


def spd_q(name: str, scale: int, panel: str = "") -> Curve:
    """Algorithm 1. The three figures share its runs: the words are the same."""
    return trained(name, SPDQ(**choices(scale)), problem(), STEPS, RECORD, METRICS, panel)


def spd_rl(name: str, scale: int, panel: str = "") -> Curve:
    """The modified SPD-RL."""
    metrics = ("primal_policy_error", "dual_policy_error")
    return trained(name, SPDRL(**choices(scale)), problem(), STEPS, RECORD, metrics, panel)


def q_learning(name: str, scale: int, panel: str = "") -> Curve:
    """Standard Q-learning with the same step sizes."""
    algorithm = QLearning(step_size=inverse_sqrt(scale))
    return trained(name, algorithm, problem(), STEPS, RECORD, ("q_error", "primal_policy_error"), panel)
