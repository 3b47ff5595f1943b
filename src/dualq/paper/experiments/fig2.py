"""Figure 2: the error of the dual policy, Algorithm 1 beside the modified SPD-RL.

Claim     sum_s ||pi*_s - pihat^d_s,T||_inf of both methods converges similarly, and Algorithm 1's is smaller
Setting   Section 6.1 (two_state.py), T = 1e5. The norm is the caption's; the text has the 2-norm.
Checks    for every gamma_0 the median of each method falls from 1e3 to 1e5 steps; and at 1e5 Algorithm 1's is below
          SPD-RL's, for every gamma_0, for three of them, ... : one check per gamma_0
"""

from __future__ import annotations

from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Results, Row, by_step, median
from dualq.paper.experiments.two_state import MARKS, SCALES, SETTINGS, spd_q, spd_rl
from dualq.paper.experiments.verdicts import Check, Number, Verdict, below, listed, shown

__all__ = ["CLAIM", "NAME", "SETTINGS", "TITLE", "curves", "plot", "rows", "verdict"]

NAME = "fig2"
TITLE = "Figure 2: the error of the dual policy on two states"
CLAIM = "The dual policies of Algorithm 1 and of the modified SPD-RL converge similarly, and Algorithm 1's is better."
METHODS = ("SPD-Q", "SPD-RL")


def curves() -> list[Curve]:
    """One per method and gamma_0."""
    ours = [spd_q(f"gamma0={scale}", scale, "SPD-Q") for scale in SCALES]
    return ours + [spd_rl(f"gamma0={scale}", scale, "SPD-RL") for scale in SCALES]


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, ["dual_policy_error"])


def verdict(results: Results) -> Verdict:
    """Whether both fall, and which is lower."""
    numbers = {
        f"dual_policy_error/{method} {curve}/{mark}": median(measured.at("dual_policy_error", mark))
        for (method, curve), measured in results.items()
        for mark in MARKS
    }

    def at(method: str, scale: int, mark: int) -> Number:
        return numbers[f"dual_policy_error/{method} gamma0={scale}/{mark}"]

    checks = []
    for method in METHODS:
        ends = [(at(method, scale, MARKS[0]), at(method, scale, MARKS[-1])) for scale in SCALES]
        falls = all(below(late, early) for early, late in ends)
        because = f"{listed([e for e, _ in ends])} to {listed([e for _, e in ends])}, gamma0 = 1 to 4"
        checks.append(Check(f"the dual policy error of {method} falls from 1e3 to 1e5 steps", falls, because))
    for scale in SCALES:
        one, other = (at(method, scale, MARKS[-1]) for method in METHODS)
        because = f"{shown(one)} against {shown(other)}"
        checks.append(Check(f"at 1e5 SPD-Q is below SPD-RL with gamma0={scale}", below(one, other), because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """The two methods side by side."""
    return plots.over_steps(rows, TITLE, {"dual_policy_error": "dual policy error (0 to 2)"}, zero=True)
