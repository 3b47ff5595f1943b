"""Figure 4: the average reward of the primal policy on the 2 x 2 grid.

Claim     the average reward of Algorithm 1's primal policy over eight steps converges to that of Q-learning
Setting   Section 6.2: T = 5000, gamma_k = 2/sqrt(k + 10000), eta = sigma/|S|, uniform behaviour. The paper is silent on
          three things, and all readings are run: the reward "at the goal" is that of arriving there (next) or of
          leaving it (current); the start is zero or random in the sets; zeta is half the least frequency, 1/32.
          The expected reward of the policy stands for the paper's average over one walk of eight steps.
Checks    one per reading and start: at T = 5000 the mean over the seeds is within a tenth of Q-learning's, and higher
          than at T = 1000. The reward is nearly two-valued (the goal is found or not), so the mean says more than the
          median.
"""

from __future__ import annotations

import numpy as np

from dualq.online import SPDQ, QLearning, inverse_sqrt
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import (
    Curve,
    Results,
    Row,
    by_step,
    code_words,
    decades,
    mean,
    source_words,
    trained,
)
from dualq.paper.experiments.verdicts import Check, Verdict, shown, value_of
from dualq.solvers import solve
from dualq.worlds import Simulator, problems

NAME = "fig4"
TITLE = "Figure 4: the average reward of the primal policy on the 2 x 2 grid"
CLAIM = "The average reward of Algorithm 1's primal policy converges to that of Q-learning."
STEPS = 5_000
MARKS = (1_000, 2_000, 5_000)
RECORD = tuple(sorted({*decades(50, STEPS, 6), *MARKS}))
READINGS, STARTS = ("next", "current"), {"zero": "zeros", "random": "random"}
SETTINGS = {
    "problem": "grid_world(size=2) (Section 6.2), reward on the next or the current state",
    "steps": STEPS,
    "step_size": "2/sqrt(k + 10000), Q-learning's too",
    "weights": "sigma/|S| = 0.3",
    "zeta": "half the least frequency, 1/32",
    "start": "zeros (made feasible) or random in the sets; Q-learning from zeros",
    "sampling": "trajectory, uniform behaviour",
}


def curves() -> list[Curve]:
    """Algorithm 1, Q-learning and the optimum, per reading and start."""
    found = []
    for reading in READINGS:
        grid, step_size = problems.grid_world(2, reward_on=reading), inverse_sqrt(2.0, 10_000)
        for start, word in STARTS.items():
            panel, metrics = f"reward on {reading} state, {start} start", ["average_reward"]
            ours, theirs = SPDQ(step_size=step_size, start=word), QLearning(step_size=step_size)
            found.append(trained("SPD-Q", ours, grid, STEPS, RECORD, metrics, panel))
            found.append(trained("Q-learning", theirs, grid, STEPS, RECORD, metrics, panel))
            found.append(_optimal(grid, panel))
    return found


def _optimal(grid: Simulator, panel: str) -> Curve:
    """What the best policy gets: a line, the same for every seed."""
    words = {"code": code_words(__file__), "source": source_words(grid), "record": list(RECORD)}

    def measure(seed: int) -> dict[str, np.ndarray]:
        policy, v, total = solve(grid.mdp).primal_policy, grid.start, 0.0
        P, R = policy.chain(grid.mdp)
        for _ in range(8):
            total, v = total + v @ R, P.T @ v
        return {"step": np.array(RECORD), "average_reward": np.full(len(RECORD), total / 8.0)}

    return Curve("optimal", panel, words, measure)


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, ["average_reward"])


def verdict(results: Results) -> Verdict:
    """Whether the mean comes near Q-learning's, in each reading and with each start."""
    numbers = {
        f"mean/average_reward/{panel}/{curve}/{mark}": mean(measured.at("average_reward", mark))
        for (panel, curve), measured in results.items()
        for mark in MARKS
    }
    checks = []
    for panel in dict.fromkeys(panel for panel, _ in results):
        first, *_, ours = (numbers[f"mean/average_reward/{panel}/SPD-Q/{mark}"] for mark in MARKS)
        theirs, best = (
            numbers[f"mean/average_reward/{panel}/{name}/{MARKS[-1]}"] for name in ("Q-learning", "optimal")
        )
        near = value_of(ours) > 0.9 * value_of(theirs) and value_of(ours) > value_of(first)
        interval = "" if ours["low"] is None else f" [{ours['low']:.3g}, {ours['high']:.3g}]"
        because = f"mean {shown(ours)}{interval} at 5000 steps, Q-learning {shown(theirs)}, optimal {shown(best)}"
        checks.append(Check(f"{panel}: the mean average reward comes within a tenth of Q-learning's", near, because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """A panel per reading and start; lines are medians, points are means."""
    axis = {"average_reward": "average reward per step, over eight steps"}
    return plots.over_steps(rows, TITLE, axis, zero=True, points="mean", columns=2)
