"""Behaviours that change with time: what the paper proves, and never shows.

Claim     Algorithm 1 converges although the distribution of the pairs changes, if it settles as fast as 1/k
          (||M_k^-1 - M_{k+1}^-1|| <= beta_0/(k+1), assump:time-varying-distribution)
Setting   Two states (Section 6.1), gamma_0 = 2, eta = 0.1, with which the method is fastest, T = 3e5, rows from one
          trajectory. The behaviour starts as the paper's theta and turns to (.8 .2; .3 .7) with the weight 1/(k+1)
          (settling at 1/k), (k+1)^(-1/4) (slower than the assumption allows), or back and forth with log k for ever
          (never settles). "stationary" has the final behaviour from the start. Last, an action that is taken ever
          more rarely: its probability in state 0 goes to zero like (k+1)^(-1/4) (visits ~ k^(3/4)) or 1/(k+1)
          (visits ~ log k), against the assumption that every pair keeps a probability of zeta.
Checks    settling at 1/k: the median Q error at T is not above 1.25 times the stationary one; the same of the slower
          and of the never settling drift, which the theorem does not cover; and that convergence is lost (the Q error
          is more than five times the stationary one) where a pair dies out, which the assumption excludes
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dualq.model import TablePolicy
from dualq.online import SPDQ
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Results, Row, by_step, decades, median, trained
from dualq.paper.experiments.two_state import choices, problem
from dualq.paper.experiments.verdicts import Check, Number, Verdict, shown, value_of
from dualq.worlds import Simulator, settling, wandering

NAME = "drift"
TITLE = "Behaviours that change with time: the Q error of Algorithm 1 on two states"
CLAIM = "Algorithm 1 converges although the behaviour changes, where it settles like 1/k."
STEPS = 300_000
MARKS = (10_000, 100_000, 300_000)
RECORD = tuple(sorted({*decades(100, 100_000, 6), 170_000, *MARKS}))
METRICS = ("q_error", "dual_value_loss", "primal_value_loss")
SETTINGS = {
    "problem": "two_state (Section 6.1), the behaviour turning from the paper's to (.8 .2; .3 .7)",
    "steps": STEPS,
    "step_size": "2/sqrt(k + 1)",
    "weights": 0.1,
    "zeta": "0.08, or 0.01 where a pair dies out",
    "start": "zeros, made feasible",
    "sampling": "trajectory",
}
STATIONARY, FAST, SLOW, NEVER = "stationary", "settling as 1/k", "settling as k^(-1/4)", "never settling"
RARE, GONE = "a pair dying out as k^(-1/4)", "a pair dying out as 1/k"
BOUND, LOST = 1.25, 5.0
WANTED = {FAST: "kept", SLOW: "kept", NEVER: "kept", RARE: "lost", GONE: "lost"}


def curves() -> list[Curve]:
    """One per behaviour."""
    two, to = problem(), TablePolicy(np.array([[0.8, 0.2], [0.3, 0.7]]))
    without = TablePolicy(np.array([[0.0, 1.0], [0.3, 0.7]]))  # the best action of state 0 dies out
    behaviours = {
        STATIONARY: (dataclasses.replace(two, behaviour=to), 0.08),
        FAST: (dataclasses.replace(two, drift=settling(to, 1.0)), 0.08),
        SLOW: (dataclasses.replace(two, drift=settling(to, 0.25)), 0.08),
        NEVER: (dataclasses.replace(two, drift=wandering(to)), 0.08),
        RARE: (dataclasses.replace(two, behaviour=to, drift=settling(without, 0.25)), 0.01),
        GONE: (dataclasses.replace(two, behaviour=to, drift=settling(without, 1.0)), 0.01),
    }
    return [_curve(name, *behaviour) for name, behaviour in behaviours.items()]


def _curve(name: str, source: Simulator, zeta: float) -> Curve:
    return trained(name, SPDQ(**choices(2.0, weights=0.1, zeta=zeta)), source, STEPS, RECORD, METRICS)


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, METRICS)


def verdict(results: Results) -> Verdict:
    """Whether drifts that settle do no harm, and vanishing pairs do."""
    numbers = {
        f"{metric}/{curve}/{mark}": median(measured.at(metric, mark))
        for metric in METRICS
        for (_, curve), measured in results.items()
        for mark in MARKS
    }

    def at_end(name: str) -> Number:
        return numbers[f"q_error/{name}/{STEPS}"]

    still = at_end(STATIONARY)
    checks = []
    for name, wanted in WANTED.items():
        ratio = value_of(at_end(name)) / value_of(still)
        holds = ratio > LOST if wanted == "lost" else ratio <= BOUND
        claim = (
            "convergence is lost, as the assumption says"
            if wanted == "lost"
            else f"within {BOUND} times the stationary error"
        )
        because = f"median Q error at 3e5 {shown(at_end(name))} against {shown(still)}, {ratio:.2g} times"
        checks.append(Check(f"{name}: {claim}", holds, because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """The Q error over time, and what the dual policy loses."""
    axes = {"q_error": "Q error (units of value)", "dual_value_loss": "value lost by the dual policy (units of value)"}
    return plots.over_steps(rows, TITLE, axes)
