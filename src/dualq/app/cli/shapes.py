"""What `--json` prints, command by command: one object, with the keys that programs read.

learn       the summary of the fit (`dualq.offline.FitSummary`) and the files written
evaluate    the summary of the evaluation (`EvaluationSummary` of offline/shapes.py) and the files written
compare     the summary of the comparison (`ComparisonSummary`) and the files written
explain     `dualq.offline.StateFacts`
look        `dualq.logs.Look.summary()`
reproduce   summary.json, as `dualq.paper.reproduce` writes it
frontier, solve, simulate   below
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dualq.base import Label


class FrontierFacts(TypedDict):
    """`dualq frontier`."""

    cost: str
    sense: str
    confidence: float
    blocks: int
    ledger: list[dict[str, object]]  # what 1 - confidence was spent on
    recommended: dict[str, float]  # value, error, cost, cost_error of the fit's own policy
    points: list[dict[str, float]]
    files: list[str]


class Seconds(TypedDict):
    """How long it took."""

    read: float
    solve: float


class SolveFacts(TypedDict):
    """`dualq solve`."""

    model: str
    states: int
    actions: int
    discount: float
    method: str
    iterations: int
    error_bound: float | None
    mean_value: float
    weighted_value: float
    weight: float  # of every state, as in the paper: the default
    seconds: Seconds
    files: list[str]
    first_states: list[dict[str, Label]]  # the columns of the state and of the action, and the value


class SimulateFacts(TypedDict):
    """`dualq simulate`."""

    problem: str
    simulated: bool
    source: str
    seed: int
    rows: int
    states: int
    actions: int
    states_seen: int
    pairs: int
    pairs_seen: int
    mean_reward: float
    reward_range: list[float]
    columns: dict[str, list[str]]
    episodes_ended: int | None
    absorbed_at: int | None
    files: list[str]
