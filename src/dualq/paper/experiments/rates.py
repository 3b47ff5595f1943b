"""How fast everything falls, up to ten million steps.

Claim     D falls like T^(-1/2) (proposition:duality-bound); and with it the loss of the dual policy
Setting   Section 6.1 with gamma_0 = 2, eta = 1.5 and 0.1, T = 1e7, Algorithm 1 and the modified SPD-RL; rows from one
          trajectory. SPD-RL has no Q: what is measured of its Q reads it off V with the true model.
Slopes    least squares of log(metric) on log(T), per seed, over the steps from 1e5 to 1e7; the median over the seeds
          with its interval. A metric that becomes zero (a policy that is right) has no slope.
Checks    per method and eta: D's slope is not above -1/2 by more than its uncertainty; per eta: Algorithm 1's dual
          policy error at 1e7 is below SPD-RL's
"""

from __future__ import annotations

import numpy as np

from dualq.online import SPDQ, SPDRL
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Measured, Results, Row, by_step, decades, median, trained
from dualq.paper.experiments.two_state import choices, problem
from dualq.paper.experiments.verdicts import Check, Verdict, below, shown

NAME = "rates"
TITLE = "Ten million steps on two states"
CLAIM = "The pseudo gap D falls like T^(-1/2)."
STEPS = 10_000_000
FIT_FROM = 100_000
MARKS = (10_000, 100_000, 1_000_000, 10_000_000)
RECORD = tuple(decades(1_000, STEPS, 5))
METRICS = (
    "q_error",
    "pseudo_gap",
    "true_gap",
    "primal_value_loss",
    "dual_value_loss",
    "dual_policy_error",
)
SETTINGS = {
    "problem": "two_state (Section 6.1)",
    "steps": STEPS,
    "step_size": "2/sqrt(k + 1)",
    "weights": [1.5, 0.1],
    "zeta": 0.0856,
    "start": "zeros, made feasible",
    "sampling": "trajectory",
    "slopes": f"least squares of log(metric) on log(step), per seed, from {FIT_FROM} to {STEPS} steps",
}
METHODS = {"SPD-Q": SPDQ, "SPD-RL": SPDRL}
ETAS = (1.5, 0.1)


def curves() -> list[Curve]:
    """One per method and eta."""
    return [
        trained(f"{name}, eta={eta:g}", method(**choices(2.0, weights=eta)), problem(), STEPS, RECORD, METRICS)
        for name, method in METHODS.items()
        for eta in ETAS
    ]


def slopes(measured: Measured, metric: str) -> np.ndarray:
    """Per seed, the slope over the last steps; minus infinity where the metric becomes zero."""
    late = measured.steps >= FIT_FROM
    x, values = np.log(measured.steps[late]), measured.values[metric][:, late]
    x = x - x.mean()
    found = np.full(values.shape[0], -np.inf)
    positive = (values > 0.0).all(axis=1)
    found[positive] = np.log(values[positive]) @ x / (x @ x)
    return found


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, METRICS)


def verdict(results: Results) -> Verdict:
    """The slopes, and who is ahead at the end."""
    numbers = {}
    for (_, curve), measured in results.items():
        for metric in METRICS:
            numbers[f"slope/{metric}/{curve}"] = median(slopes(measured, metric))
            for mark in MARKS:
                numbers[f"{metric}/{curve}/{mark}"] = median(measured.at(metric, mark))
    checks = []
    for _, curve in results:
        slope = numbers[f"slope/pseudo_gap/{curve}"]
        holds = slope["low"] is not None and slope["low"] <= -0.5
        because = f"slope {shown(slope)}" + (
            "" if slope["low"] is None else f" [{slope['low']:.3g}, {slope['high']:.3g}]"
        )
        checks.append(Check(f"{curve}: D falls at least like T^(-1/2)", holds, because))
    for eta in ETAS:
        one, other = (numbers[f"dual_policy_error/{method}, eta={eta:g}/{STEPS}"] for method in METHODS)
        because = f"dual policy error {shown(one)} against {shown(other)}"
        checks.append(Check(f"eta={eta:g}: at 1e7 SPD-Q is below SPD-RL", below(one, other), because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """A panel per metric."""
    axes = {
        "q_error": "Q error (units of value)",
        "pseudo_gap": "pseudo gap D (units of value)",
        "true_gap": "true gap (units of value)",
        "primal_value_loss": "value lost by the primal policy",
        "dual_value_loss": "value lost by the dual policy",
        "dual_policy_error": "dual policy error (0 to 2)",
    }
    return plots.over_steps(rows, TITLE, axes, columns=3, least=1e-3)
