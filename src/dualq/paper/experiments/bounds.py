"""How far the theorems are from what happens.

Claim     with probability 1 - delta, T1 steps bring the pseudo gap D below epsilon (theorem 1), and T2 steps bring the
          loss of the dual policy below epsilon (theorem 2)
Setting   Section 6.1 with gamma_0 = 2 and rows drawn independently, as the theorems ask; delta = 0.1; zeta = 0.08, the
          least probability of a pair at any step, which the paper's 0.0856 exceeds at k = 0. eta = sigma/|S| = 1.5, the
          theorems', and 0.1, where the method is faster; the lemmas hold for any eta, and give the bounds for it.
          T up to 1e6.
Bounds    Read the other way round, the theorems say what D and the loss stay below after T steps (dualq.theory:
          gap(T), policy_loss(T)): as printed and as corrected.
Certificate   what can be promised of the primal policy from the run's own rows (docs/certificate.md), looked at after
          1,024, 2,048, ... of them, with probability 1 - delta at all looks together
Measured  the 1 - delta quantile of D and of the loss over the seeds; and the first recorded step from which on a share
          of 1 - delta of the seeds stays at or below epsilon, the Q error and the primal policy's loss too, on which
          the theorems are silent
Checks    per theorem and reading: at every recorded step, the measured quantile is at or below the bound; and the
          certificate's promise was kept at all looks, in a share of 1 - delta of the seeds
"""

from __future__ import annotations

import math

import numpy as np

from dualq.online import FIRST_LOOK, SPDQ, Regret, train
from dualq.paper import theory
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import (
    Array,
    Curve,
    Measured,
    Results,
    Row,
    by_step,
    code_words,
    decades,
    exactly,
    source_words,
    trained,
)
from dualq.paper.experiments.two_state import choices, problem
from dualq.paper.experiments.verdicts import Check, Number, Verdict, shown, value_of

NAME = "bounds"
TITLE = "What the theorems promise, and what happens (two states)"
CLAIM = "T1 steps are enough for the pseudo gap and T2 for the dual policy, with probability 1 - delta."
STEPS = 1_000_000
MARKS = (10_000, 100_000, 1_000_000)
RECORD = tuple(decades(1_000, STEPS, 6))
LOOKS = tuple(FIRST_LOOK << j for j in range(11))  # 1,024 to 1,048,576 rows
DELTA = 0.1
ETAS = (1.5, 0.1)
EPSILONS = (5.0, 2.0, 0.9, 0.5, 0.2, 0.1)  # the theorems need them below 1
THEOREMS = {"theorem 1": "pseudo_gap", "theorem 2": "dual_value_loss"}
READINGS = ("printed", "corrected")
METRICS = ("pseudo_gap", "dual_value_loss", "primal_value_loss", "q_error")
WORDS = {"pseudo_gap": "pseudo gap D", "dual_value_loss": "value lost by the dual policy"}
SETTINGS = {
    "problem": "two_state (Section 6.1)",
    "steps": STEPS,
    "step_size": "2/sqrt(k + 1)",
    "weights": list(ETAS),
    "zeta": 0.08,
    "sampling": "iid",
    "delta": DELTA,
    "epsilon": list(EPSILONS),
}


def curves() -> list[Curve]:
    """Per eta one run in which all is measured, and one whose promises are looked at."""
    measured = [
        trained(f"eta={eta:g}", _algorithm(eta), problem(), STEPS, RECORD, METRICS, sampling="iid") for eta in ETAS
    ]
    return [*measured, *(certified(eta) for eta in ETAS)]


def _algorithm(eta: float) -> SPDQ:
    return SPDQ(**choices(2.0, weights=eta, zeta=0.08))


def certified(eta: float) -> Curve:
    """Per look: the regret that the certificate promises of the primal policy, and what that loses in truth."""
    simulator = problem()

    def measure(seed: int) -> dict[str, Array]:
        never = Regret(1e-12, confidence=1.0 - DELTA)
        run = train(
            _algorithm(eta), simulator, LOOKS[-1], seed=seed, record=LOOKS, sampling="iid", progress=False, stop=never
        )
        rows, regret = (np.array(column) for column in zip(*run.promises, strict=True))
        return {"step": rows, "promised": regret, "lost": run.history["primal_value_loss"].to_numpy()}

    words = {
        "code": code_words(__file__),
        "source": source_words(simulator, "iid"),
        "weights": eta,
        "looks": LOOKS,
        "delta": DELTA,
    }
    return Curve(f"certificate, eta={eta:g}", "", words, measure)


def _eta(name: str) -> str:
    """eta=1.5, of a curve's name."""
    return name.removeprefix("certificate, ")


def _bounds(eta: float, epsilon: float = 0.5) -> dict[str, theory.Constants]:
    found = theory.bounds(problem(), 2.0, epsilon, DELTA, weights=eta)
    return {"printed": found.printed, "corrected": found.corrected}


def promised(constants: theory.Constants, metric: str, step: float) -> float:
    """What the theorem says that the metric stays below after so many steps."""
    return constants.gap(step) if metric == "pseudo_gap" else constants.policy_loss(step)


def quantile(values: Array) -> Number:
    """The 1 - DELTA quantile over the seeds: an order statistic, and two more for a normal 95% interval of its rank."""
    ordered, n = np.sort(values), values.size
    half = 1.96 * math.sqrt(DELTA * (1.0 - DELTA) / n)
    ranks = [min(n, max(1, math.ceil((1.0 - DELTA + shift) * n - 1e-9))) for shift in (0.0, -half, half)]
    found = [float(ordered[rank - 1]) for rank in ranks]
    value, low, high = (x if math.isfinite(x) else None for x in found)
    return {"value": value, "low": low, "high": high}


def settled(measured: Measured, metric: str, epsilon: float) -> Array:
    """Per seed, the first recorded step from which on the metric is at or below epsilon; infinite if there is none."""
    above = measured.values[metric] > epsilon
    first = above.shape[1] - np.argmax(above[:, ::-1], axis=1)  # one past the last that is above
    return np.append(measured.steps.astype(float), np.inf)[np.where(above.any(axis=1), first, 0)]


def rows(results: Results) -> list[Row]:
    """The tidy table: what was measured, and beside it the bounds, which no seed changes."""
    found: list[Row] = []
    for (_, name), measured in results.items():
        if name != _eta(name):
            panel = f"{WORDS['dual_value_loss']}, {_eta(name)}"
            found += by_step({(panel, "certificate, of the primal policy"): measured}, ["promised"])
            continue
        for theorem, metric in THEOREMS.items():
            panel = f"{WORDS[metric]}, {name}"
            own = by_step({(panel, "measured"): measured}, [metric])
            found += own
            for reading, constants in _bounds(float(name.removeprefix("eta="))).items():
                for row in own:
                    bound = promised(constants, metric, row["x"])
                    line = row.copy()
                    line["curve"] = f"{theorem}, {reading}"
                    line["median"] = line["low"] = line["high"] = line["mean"] = bound
                    found.append(line)
    for row in found:
        row["curve"] = row["curve"].replace("theorem 1, ", "").replace("theorem 2, ", "")
    return found


def verdict(results: Results) -> Verdict:
    """Whether what was promised was kept, and how far off it is."""
    numbers: dict[str, Number] = {}
    checks = []
    for (_, name), measured in results.items():
        if name != _eta(name):
            checks.append(_certificate(measured, _eta(name), numbers))
            continue
        eta = float(name.removeprefix("eta="))
        for epsilon in EPSILONS:
            for metric in METRICS:
                numbers[f"steps/{metric} measured/{name}/eps={epsilon:g}"] = quantile(
                    settled(measured, metric, epsilon)
                )
            for reading, constants in (_bounds(eta, epsilon) if epsilon < 1.0 else {}).items():
                numbers[f"steps/theorem 1 {reading}/{name}/eps={epsilon:g}"] = exactly(
                    _either(constants.T1, constants.T_gap)
                )
                numbers[f"steps/theorem 2 {reading}/{name}/eps={epsilon:g}"] = exactly(
                    _either(constants.T2, constants.T_policy)
                )
        for theorem, metric in THEOREMS.items():
            for mark in MARKS:
                numbers[f"{metric} measured/{name}/{mark}"] = quantile(measured.at(metric, mark))
                for reading, constants in _bounds(eta).items():
                    numbers[f"{metric} {reading}/{name}/{mark}"] = exactly(promised(constants, metric, mark))
            for reading, constants in _bounds(eta).items():
                checks.append(_check(measured, constants, theorem, metric, reading, name, numbers))
    return Verdict(checks, numbers)


def _certificate(measured: Measured, name: str, numbers: dict[str, Number]) -> Check:
    for epsilon in EPSILONS:
        numbers[f"steps/certificate/{name}/eps={epsilon:g}"] = quantile(settled(measured, "promised", epsilon))
    kept = (measured.values["lost"] <= measured.values["promised"]).all(axis=1).mean()
    asked, needed = numbers[f"steps/theorem 2 corrected/{name}/eps=0.5"], numbers[f"steps/certificate/{name}/eps=0.5"]
    because = f"in {kept:.0%} of the seeds; for epsilon = 0.5 it needs {shown(needed)} rows, theorem 2 {shown(asked)}"
    return Check(f"the certificate, {name}, is kept at all looks", bool(kept >= 1.0 - DELTA), because)


def _either(theorem: float, lemmas: float) -> float:
    """The theorem's number of steps, or that of the lemmas under other weights than the theorem's."""
    return lemmas if math.isnan(theorem) else theorem


def _check(
    measured: Measured,
    constants: theory.Constants,
    theorem: str,
    metric: str,
    reading: str,
    name: str,
    numbers: dict[str, Number],
) -> Check:
    kept = all(
        value_of(quantile(column)) <= promised(constants, metric, step)
        for step, column in zip(measured.steps, measured.values[metric].T, strict=True)
    )
    end, bound = numbers[f"{metric} measured/{name}/{STEPS}"], numbers[f"{metric} {reading}/{name}/{STEPS}"]
    asked, needed = (numbers[f"steps/{what}/{name}/eps=0.5"] for what in (f"{theorem} {reading}", f"{metric} measured"))
    because = (
        f"after 1e6 steps {shown(end)} against {shown(bound)}; for epsilon = 0.5 {shown(asked)} steps are asked for, "
        f"measured: {shown(needed)}"
    )
    return Check(f"{theorem} as {reading}, {name}, is kept", kept, because)


def plot(rows: list[Row]) -> plots.Chart:
    """A panel per theorem and eta."""
    axes = {metric: f"{words} (units of value)" for metric, words in WORDS.items()}
    return plots.by_panel(rows, TITLE, axes, columns=2)
