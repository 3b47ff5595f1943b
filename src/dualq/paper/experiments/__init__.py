"""The paper's figures and ours, one file each: what is claimed, how it is measured, and whether it holds.

Every experiment is a module of one shape:

    NAME, TITLE     fig1, and the title of its plot
    CLAIM           the claim that is put to the test, in a sentence
    SETTINGS        the choices in words, for summary.json
    curves()        the curves to measure (curves.py): each is run with every seed
    rows(measured)  the tidy table: one row per panel, curve, metric and step; written as NAME.csv
    verdict(measured)   the checks that the numbers pass or fail, and the numbers (verdicts.py)
    plot(rows)      a chart of the table, and of nothing else (plots.py)

`runner.reproduce(names, seeds, out)` runs them and writes, into the folder `out`:

    fig1.csv, fig1.svg, fig1.png, ...   of every experiment
    summary.json                        all settings, numbers and verdicts; the same bytes for the same seeds
    curves/*.npz                        every seed's numbers, kept curve by curve: a stopped run goes on from them

The tidy table has the columns

    panel, curve, metric      words
    x                         the step: how many transitions were used
    median, low, high         over the seeds: the median and the quartiles
    mean                      over the seeds
    seeds                     how many

summary.json:

    {"format": 1, "dualq": "0.1.0", "versions": {"python": ..., "numpy": ..., "numba": ..., "scipy": ...},
     "seeds": 50, "confidence": 0.95,
     "experiments": {"fig1": {
         "title", "claim", "settings": {...},
         "verdict": "reproduced" | "in part" | "not",    all checks hold, some do, none does
         "sentence": one line of text with the numbers,
         "checks": [{"claim": text, "holds": true | false, "because": text}, ...],
         "numbers": {key: {"value": x, "low": a, "high": b}, ...},
         "files": ["fig1.csv", "fig1.svg", "fig1.png"]}}}

A key is words joined by slashes, `metric/curve/step` or `panel/metric/curve/step`, such as
`q_error/gamma0=2/100000`. `value` is the median over the seeds (where the key begins with `mean`, the mean), and
[low, high] holds the true one with the stated confidence: between two order statistics for a median, whatever the
distribution (the whole range where there are fewer than six seeds), by Student's t for a mean. A number that is not
estimated (a bound of a theorem, an exact optimum) has low = value = high. A number that was not reached within the
steps taken is null, and so is the side of an interval that was not. Keys by experiment:

    fig1      q_error/gamma0=G/T                                  G = 1..4, T = 1000, 10000, 100000
    fig2      dual_policy_error/SPD-Q gamma0=G/T, dual_policy_error/SPD-RL gamma0=G/T
    fig3      primal_policy_error/SPD-Q gamma0=G/T, .../Q-learning gamma0=G/T, dual_policy_error/SPD-Q gamma0=G/T,
              q_error/SPD-Q gamma0=G/T, q_error/Q-learning gamma0=G/T
              right_from/METHOD gamma0=G, mean/wrong_policy/METHOD gamma0=G/100000
    fig4      mean/average_reward/reward on R state, S start/CURVE/T      R = next | current, S = zero | random,
              CURVE = SPD-Q | Q-learning | optimal, T = 1000, 2000, 5000
    drift     q_error/CURVE/T and dual_value_loss/CURVE/T
    rates     slope/METRIC/CURVE (log-log, over the last two decades), METRIC/CURVE/T
    bounds    steps/WHAT/eta=H/eps=E                              WHAT = theorem 1 printed | theorem 2 corrected | ... |
              METRIC measured (a share of 0.9 of the seeds stays below E) | certificate (promises E);
              METRIC measured/eta=H/T, METRIC printed/eta=H/T, METRIC corrected/eta=H/T: the 0.9 quantile, the bounds
    ablation  q_error/PANEL/CURVE/T, dual_policy_error/PANEL/CURVE/T
    efficiency   value_loss/PROBLEM/METHOD/N (of the worst state), mean_loss/..., q_error/..., N transitions
    networks  disagreement/GRAPH/LOSS/R, q_error/..., value_loss/... (LOSS also: pooled log, alone), R = 10, 100, 400
              rounds; rounds/GRAPH/LOSS: those to a Q error of 1e-6
    leak      count_error/CURVE/R, reward_error/..., pairs_right/..., R = 2, 80 rounds listened
    approximation   value_loss/FEATURES/CURVE/N, N rows; value_loss/what was done
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from dualq.base import Json
    from dualq.paper.experiments.curves import Curve, Results, Row
    from dualq.paper.experiments.plots import Chart
    from dualq.paper.experiments.verdicts import Verdict

PAPER = ("fig1", "fig2", "fig3", "fig4")
BEYOND = ("drift", "bounds", "ablation", "efficiency", "networks", "leak", "approximation")
LONG = ("rates",)  # asked for by name only: it takes longer than all others together
NAMES = (*PAPER, *BEYOND, *LONG)


class Experiment(Protocol):
    """What the module of an experiment has."""

    NAME: str
    TITLE: str
    CLAIM: str
    SETTINGS: Mapping[str, Json]

    def curves(self) -> list[Curve]:
        """The curves to measure."""
        ...

    def rows(self, results: Results, /) -> list[Row]:
        """The tidy table."""
        ...

    def verdict(self, results: Results, /) -> Verdict:
        """The checks that the numbers pass or fail."""
        ...

    def plot(self, rows: list[Row], /) -> Chart:
        """A chart of the table."""
        ...


def experiment(name: str) -> Experiment:
    """The module of an experiment."""
    return cast(Experiment, import_module(f"dualq.paper.experiments.{name}"))
