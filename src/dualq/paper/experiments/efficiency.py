"""What a policy learned from N transitions loses: the paper's method beside those that use the same rows better.

Claim     Algorithm 1 makes as good use of transitions as its rivals (the paper compares it with SPD-RL and Q-learning)
Setting   two_state and Garnet (50 states, 4 actions, 5 successors, discounts .9 and .99) along one trajectory of their
          behaviour; FrozenLake (4 x 4, slippery) and Taxi, discount .95, from pairs drawn uniformly, because a walk
          would stay in their absorbing states. N = 500 to 20,000. methods.py says how each method is run and tuned: the
          tuned ones separately at each N, with the true model at hand.
Measured  max_s V*(s) - V^pi(s) of the policy learned (value_loss), its mean over the states (mean_loss), and
          sum_a max_s |Q*_a(s) - Q_a(s)| (q_error)
Checks    per rival: on no problem is Algorithm 1's median value_loss at N = 20,000 above the rival's by more than their
          uncertainty
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dualq.online import task_of
from dualq.paper.experiments import methods, plots
from dualq.paper.experiments.curves import Curve, Measured, Results, Row, code_words, median, source_words, summary_row
from dualq.paper.experiments.verdicts import Check, Verdict, below, listed
from dualq.solvers import solve
from dualq.worlds import Simulator, problems

NAME = "efficiency"
TITLE = "What a policy loses, learned from N transitions"
CLAIM = "Algorithm 1 makes as good use of transitions as its rivals."
SIZES = (500, 1_000, 2_000, 5_000, 20_000)
METRICS = ("value_loss", "mean_loss", "q_error")
OURS = "SPD-Q"
SETTINGS = {
    "problems": "two_state; garnet(50, 4, 5) with discounts .9 and .99; FrozenLake-v1 and Taxi-v4 with discount .95",
    "sampling": "trajectory; FrozenLake and Taxi: uniform pairs",
    "transitions": list(SIZES),
    "tuned": {name: list(how) for name, how in methods.METHODS.items() if len(how) > 1},
    "passes of the replayed": methods.PASSES,
}


@cache
def sources() -> dict[str, tuple[Simulator, str]]:
    """The problems, each with its sampling."""
    return {
        "two states": (problems.two_state(), "trajectory"),
        "Garnet .9": (problems.garnet(50, 4, 5, discount=0.9, seed=0), "trajectory"),
        "Garnet .99": (problems.garnet(50, 4, 5, discount=0.99, seed=0), "trajectory"),
        "FrozenLake": (problems.gym("FrozenLake-v1", discount=0.95), "uniform"),
        "Taxi": (problems.gym("Taxi-v4", discount=0.95), "uniform"),
    }


def curves() -> list[Curve]:
    """One per problem and method, with all of its settings."""
    return [_curve(problem, method) for problem in sources() for method in methods.METHODS]


def _curve(problem: str, method: str) -> Curve:
    source, sampling = sources()[problem]
    task, exact = task_of(source, sampling), solve(source.mdp)

    def measure(seed: int) -> dict[str, np.ndarray]:
        return methods.measured(method, task, exact, SIZES, seed)

    words = {"code": code_words(methods.__file__), "source": source_words(source, sampling)}
    return Curve(method, problem, {**words, "method": method, "sizes": list(SIZES)}, measure)


def tuned(measured: Measured, metric: str) -> np.ndarray | None:
    """(seeds, sizes): at each size, the setting whose median is lowest there."""
    tables = [values for name, values in measured.values.items() if name.split(" ")[0] == metric]
    if not tables:
        return None
    best = np.argmin([np.median(values, axis=0) for values in tables], axis=0)
    return np.stack([tables[setting][:, i] for i, setting in enumerate(best)], axis=1)


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    found = []
    for metric in METRICS:
        for (panel, curve), measured in results.items():
            values = tuned(measured, metric)
            if values is not None:
                found += [summary_row(panel, curve, metric, N, values[:, i]) for i, N in enumerate(SIZES)]
    return found


def verdict(results: Results) -> Verdict:
    """Where Algorithm 1 keeps up with its rivals."""
    numbers = {}
    for metric in METRICS:
        for (panel, curve), measured in results.items():
            values = tuned(measured, metric)
            if values is not None:
                for i, N in enumerate(SIZES):
                    numbers[f"{metric}/{panel}/{curve}/{N}"] = median(values[:, i])
    rivals = [name for name in dict.fromkeys(curve for _, curve in results) if name != OURS]
    panels = list(dict.fromkeys(panel for panel, _ in results))
    checks = []
    for rival in rivals:
        ours, theirs = (
            [numbers[f"value_loss/{panel}/{name}/{SIZES[-1]}"] for panel in panels] for name in (OURS, rival)
        )
        behind = [panel for panel, one, other in zip(panels, ours, theirs, strict=True) if below(other, one)]
        because = f"median loss at 20,000 on {', '.join(panels)}: {listed(ours)} against {listed(theirs)}"
        checks.append(Check(f"{OURS} is nowhere behind {rival}", not behind, because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """A panel per problem."""
    losses = [row for row in rows if row["metric"] == "value_loss"]
    axes = {"value_loss": "value lost in the worst state"}
    note = "SPD-Q, SPD-RL and Q-learning are tuned at each size."
    return plots.over_steps(losses, TITLE, axes, x="transitions used", columns=3, least=1e-3, subtitle=note)
