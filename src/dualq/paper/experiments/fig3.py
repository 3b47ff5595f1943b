"""Figure 3: the error of the primal policy, Algorithm 1 beside Q-learning.

Claim     sum_s ||pi*_s - pitilde^p_s,T||_inf, pi^p greedy in Q: Algorithm 1's primal policy converges, much faster than
          its dual policy; Q-learning's converges faster still
Setting   Section 6.1 (two_state.py), T = 1e5; Q-learning has the same step sizes. (The figure's sides are swapped in
          the text.)
Checks    per gamma_0: at 1e5 most seeds have the right primal policy (median 0); for every gamma_0: the primal policy
          error is below the dual one at 1e5; Q-learning's median is 0 from a step on that is not later than
          Algorithm 1's, and its Q error at 1e5 is smaller
"""

from __future__ import annotations

import numpy as np

from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Measured, Results, Row, by_step, exactly, mean, median
from dualq.paper.experiments.two_state import MARKS, SCALES, SETTINGS, q_learning, spd_q
from dualq.paper.experiments.verdicts import Check, Number, Verdict, below, listed, shown

__all__ = ["CLAIM", "NAME", "SETTINGS", "TITLE", "curves", "plot", "rows", "verdict"]

NAME = "fig3"
TITLE = "Figure 3: the error of the primal policy on two states"
CLAIM = "Algorithm 1's primal policy converges much faster than its dual policy; Q-learning's faster still."


def curves() -> list[Curve]:
    """One per method and gamma_0."""
    ours = [spd_q(f"gamma0={scale}", scale, "SPD-Q") for scale in SCALES]
    return ours + [q_learning(f"gamma0={scale}", scale, "Q-learning") for scale in SCALES]


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, ["primal_policy_error", "dual_policy_error"])


def verdict(results: Results) -> Verdict:
    """Whether the primal policies are right, sooner than the dual ones, and later than Q-learning's."""
    numbers = {}
    for (method, curve), measured in results.items():
        for metric in ("primal_policy_error", "q_error") + ("dual_policy_error",) * (method == "SPD-Q"):
            for mark in MARKS:
                numbers[f"{metric}/{method} {curve}/{mark}"] = median(measured.at(metric, mark))
        wrong = measured.at("primal_policy_error", MARKS[-1]) > 0.0
        numbers[f"mean/wrong_policy/{method} {curve}/{MARKS[-1]}"] = mean(wrong.astype(float))
        numbers[f"right_from/{method} {curve}"] = exactly(_right_from(measured))

    def at(metric: str, method: str, scale: int) -> Number:
        return numbers[f"{metric}/{method} gamma0={scale}/{MARKS[-1]}"]

    checks = []
    for scale in SCALES:
        error = at("primal_policy_error", "SPD-Q", scale)
        share = numbers[f"mean/wrong_policy/SPD-Q gamma0={scale}/{MARKS[-1]}"]
        because = f"median error {shown(error)}, wrong in {share['value']:.0%} of the seeds"
        right = error["value"] == 0.0
        checks.append(Check(f"the primal policy is right at 1e5 with gamma0={scale}", right, because))
    primal, dual = ([at(f"{kind}_policy_error", "SPD-Q", s) for s in SCALES] for kind in ("primal", "dual"))
    faster = all(below(p, d) for p, d in zip(primal, dual, strict=True))
    because = f"at 1e5 {listed(primal)} against {listed(dual)}, gamma0 = 1 to 4"
    checks.append(Check("the primal policy error is below the dual one for every gamma0", faster, because))
    ours, theirs = ([numbers[f"right_from/{m} gamma0={s}"] for s in SCALES] for m in ("SPD-Q", "Q-learning"))
    not_later = all(
        q["value"] is not None and (p["value"] or np.inf) >= q["value"] for p, q in zip(ours, theirs, strict=True)
    )
    smaller = all(below(at("q_error", "Q-learning", s), at("q_error", "SPD-Q", s)) for s in SCALES)
    because = (
        f"median policy right from step {listed(theirs)} on against {listed(ours)}; Q error at 1e5 "
        f"{listed([at('q_error', 'Q-learning', s) for s in SCALES])} against "
        f"{listed([at('q_error', 'SPD-Q', s) for s in SCALES])}"
    )
    checks.append(Check("Q-learning is ahead for every gamma0", not_later and smaller, because))
    return Verdict(checks, numbers)


def _right_from(measured: Measured) -> float:
    """The first recorded step from which on the median error is zero."""
    wrong = np.flatnonzero(np.median(measured.values["primal_policy_error"], axis=0) > 0.0)
    last = -1 if wrong.size == 0 else int(wrong[-1])
    return float(measured.steps[last + 1]) if last + 1 < measured.steps.size else np.inf


def plot(rows: list[Row]) -> plots.Chart:
    """The two methods side by side."""
    primal = [row for row in rows if row["metric"] == "primal_policy_error"]
    return plots.over_steps(primal, TITLE, {"primal_policy_error": "primal policy error (0 to 2)"}, zero=True)
