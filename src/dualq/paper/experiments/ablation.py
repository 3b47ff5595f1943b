"""What each choice of Algorithm 1 is worth: eta, zeta, the start, the averaging, the sampling.

Claim     the paper's choices (eta = sigma/|S|, its zeta, plain averages, a trajectory where its proofs need independent
          rows) are not decisive
Setting   Section 6.1 with gamma_0 = 2, one choice changed at a time, T = 1e5
Checks    per choice: the median Q error at 1e5 of each alternative is from half to twice that of the paper's choice
"""

from __future__ import annotations

from dualq.online import SPDQ
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Results, Row, by_step, decades, median, trained
from dualq.paper.experiments.two_state import ETA, STEPS, ZETA, Choices, choices, problem
from dualq.paper.experiments.verdicts import Check, Verdict, value_of

NAME = "ablation"
TITLE = "One choice of Algorithm 1 changed at a time, on two states"
CLAIM = "Algorithm 1 works alike whatever eta, zeta, the start, the averaging and the sampling are."
MARKS = (1_000, 10_000, 100_000)
RECORD = tuple(decades(100, STEPS, 5))
METRICS = ("q_error", "dual_policy_error")
FACTOR = 2.0
SETTINGS = {
    "problem": "two_state (Section 6.1)",
    "steps": STEPS,
    "step_size": "2/sqrt(k + 1)",
    "changed": "one of weights, zeta, start, averaging, sampling; all others as in the paper",
}
INDEPENDENT = "independent rows"
# panel: {curve: changed choices}; the first of each panel is the paper's
CHANGES: dict[str, dict[str, Choices]] = {
    "eta": {
        "1.5 (the paper's)": {},
        "0.01": {"weights": 0.01},
        "0.1": {"weights": 0.1},
        "15": {"weights": 10.0 * ETA},
    },
    "zeta": {
        "0.0856 (the paper's)": {},
        "10 times smaller": {"zeta": ZETA / 10.0},
        "10 times larger": {"zeta": ZETA * 10.0},
    },
    "start": {"zeros (ours)": {}, "random": {"start": "random"}},
    "averaging": {
        "all steps (the paper's)": {},
        "the second half": {"average_from": STEPS // 2},
        "weights k": {"average_power": 1.0},
        "weights k^3": {"average_power": 3.0},
    },
    "sampling": {"trajectory (the paper's)": {}, INDEPENDENT: {}},
}


def curves() -> list[Curve]:
    """One per change; the paper's own run is shared by all panels."""
    found = []
    for panel, changes in CHANGES.items():
        for name, changed in changes.items():
            sampling = "iid" if name == INDEPENDENT else None
            algorithm = SPDQ(**choices(2.0, **changed))
            found.append(trained(name, algorithm, problem(), STEPS, RECORD, METRICS, panel, sampling))
    return found


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, METRICS)


def verdict(results: Results) -> Verdict:
    """Which changes matter."""
    numbers = {
        f"{metric}/{panel}/{curve}/{mark}": median(measured.at(metric, mark))
        for metric in METRICS
        for (panel, curve), measured in results.items()
        for mark in MARKS
    }
    checks = []
    for panel, changes in CHANGES.items():
        ends = [value_of(numbers[f"q_error/{panel}/{name}/{STEPS}"]) for name in changes]
        alike = all(ends[0] / FACTOR <= end <= FACTOR * ends[0] for end in ends)
        because = "Q error at 1e5: " + ", ".join(f"{name}: {end:.3g}" for name, end in zip(changes, ends, strict=True))
        checks.append(Check(f"{panel} changes the Q error by no more than a factor of {FACTOR:g}", alike, because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """A panel per choice, each with its own legend."""
    return plots.own_legends(rows, TITLE, "q_error", "Q error (units of value)", columns=3)
