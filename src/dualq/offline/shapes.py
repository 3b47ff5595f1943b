"""What a fit says of itself in plain values: the shapes that `--json` prints and fit.json keeps.

`Fit.changes`, `Fit.explain`, `Fit.settings` and `Fit.summary` give these; keys are the ones that programs read.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from dualq.base import Label


class Settings(TypedDict):
    """How a fit was learned."""

    source: str
    columns: dict[str, list[str]]  # {part: columns}
    discount: float
    pessimism: float
    start: str  # "episodes", "log", "uniform" or "as given"
    set_aside: str | None  # the file with the bad rows, where there were some
    bins: dict[str, list[float]]  # {column: edges}
    assumed: list[str]  # what the user vouched for
    returns_filled: float  # the share of the episodes' returns that the model had to fill in
    guessed: dict[str, list[str]]  # {part: columns} recognised by name
    solver: str
    gap: float | None
    margin: str | None  # of the limits, where there are some
    version: str


class Change(TypedDict):
    """A state where the policy decides otherwise than the log did."""

    state: dict[str, Label]
    time_share: float  # of the policy's decisions
    share: float  # of the decisions in this state that change
    logged: dict[str, Label]  # the most frequent action of the log
    logged_share: float
    recommended: dict[str, Label]  # the most probable action of the policy
    probability: float
    recommended_rows: int
    gain: float  # of one decision, over what the log did here on average
    gain_error: float
    worth: float  # gain times time_share


class StateFacts(TypedDict):
    """All that is known of one state."""

    state: dict[str, Label]
    rows: int
    time_share: float
    undecided: bool
    intervals: str  # what they are of
    actions: list[dict[str, Any]]  # the action's columns, rows, logged_share, value, low, high, recommended


class EstimateNumbers(TypedDict):
    """An estimate; standard_error is None where none can be given."""

    value: float
    standard_error: float | None


class PolicyChange(TypedDict):
    """A state where the policy decides otherwise than the one before it did."""

    state: dict[str, Label]
    time_share: float  # of the new policy's decisions
    before: dict[str, Label] | None  # the most probable action then; None: the state is new
    after: dict[str, Label]  # and now
    rows_before: int  # of the action that is taken now, in this state: among the old rows
    rows_after: int  # and among all
    gain_before: float | None  # what it is worth over the action that was taken before, as estimated then
    gain: float | None  # and now
    state_rows_before: int
    state_rows_after: int


class Updated(TypedDict):
    """What an update added, and what it changed."""

    before: str  # where the old rows came from
    after: str  # and the new ones
    old_rows: int
    new_rows: int
    linked_rows: NotRequired[int]  # old rows that count only now: what followed them stands in the new log
    expected_before: EstimateNumbers
    changes: list[PolicyChange]  # at most 20, those first that matter most
    num_changes: int


class Elsewhere(TypedDict):
    """A state where a policy in use was not followed."""

    state: dict[str, Label]
    rows: int
    not_followed: int  # of these
    policy: dict[str, Label]  # the most probable action of the policy
    instead: dict[str, Label]  # the most frequent of the others


class CheckSummary(TypedDict):
    """What `dualq check --json` prints."""

    verdict: str  # "keep", "learn again" or "stop"
    reasons: list[str]
    rows: int
    followed: float
    elsewhere: list[Elsewhere]
    unknown: float
    judged: int
    expected: EstimateNumbers
    slack: float
    earned: float | None
    interval: list[float] | None
    floor: float | None
    logged: float
    drift: dict[str, dict[str, object]]
    gain: EstimateNumbers | None
    false_alarms: float
    warnings: list[str]


class FitSummary(Settings):
    """The settings and the numbers of a fit."""

    rows: int
    states: int
    actions: int
    reason: str
    expected: EstimateNumbers
    logged: EstimateNumbers
    confidence: float
    certificate: dict[str, object] | None
    ledger: list[dict[str, object]] | None  # what 1 - confidence was spent on
    verdict: str
    returns: EstimateNumbers | None
    promised: bool
    withheld: list[str]
    conditions: list[str]
    contradicted: list[str]
    warnings: list[str]
    limits: list[dict[str, object]]  # the fields of LimitOutcome
    limits_kept: bool
    limits_wanted: list[dict[str, object]]  # the fields of Wanted
    costs: dict[str, dict[str, EstimateNumbers]]
    costs_per_row: dict[str, float]
    changes: list[Change]
    num_changes: int
    share_changed: float
    coverage: dict[str, object]
    updated: Updated | None  # what `update` added and changed; None where all rows were learned from at once
    sensitivity: dict[str, float | None] | None  # the fields of Sensitivity; None for large logs
    alternatives: list[dict[str, object]]  # policies that can be certified, where this one cannot


class Unseen(TypedDict):
    """A decision of a policy that the log never saw."""

    state: dict[str, Label]
    action: dict[str, Label]
    time_share: float  # of the policy's decisions
    probability: float  # with which it is taken there
    rows_of_state: int


class Otherwise(TypedDict):
    """A state where a given policy decides otherwise than the log did."""

    state: dict[str, Label]
    time_share: float  # of the policy's decisions
    share: float  # of the decisions in this state that differ
    logged: dict[str, Label]  # the most frequent action of the log
    logged_share: float
    policy: dict[str, Label]  # the most probable action of the policy
    probability: float
    rows: int  # that the log has of it


class EvaluationSummary(TypedDict):
    """The settings and the numbers of an evaluation."""

    policy: str  # where it came from
    name: str
    source: str
    columns: dict[str, list[str]]
    discount: float
    start: str
    confidence: float
    version: str
    rows: int
    states: int
    actions: int
    expected: EstimateNumbers
    logged: EstimateNumbers
    difference: EstimateNumbers
    returns: EstimateNumbers | None
    certificate: dict[str, object] | None
    weighted: dict[str, object] | None  # the fields of Weighted
    not_weighted: str | None  # why not, where propensities were recorded
    verdict: str
    promised: bool
    withheld: list[str]
    conditions: list[str]
    contradicted: list[str]
    warnings: list[str]
    learned_here: bool
    otherwise: str | None
    filled_states: list[dict[str, Label]]  # those that the policy does not name
    unsupported: float
    never_seen: list[Unseen]
    changes: list[Otherwise]
    num_changes: int
    share_changed: float
    limits: list[dict[str, object]]  # the fields of GivenLimit
    limits_kept: bool
    costs: dict[str, dict[str, EstimateNumbers]]
    coverage: dict[str, object]


class Standing(TypedDict):
    """A policy in a comparison."""

    name: str
    expected: EstimateNumbers
    over_so_far: EstimateNumbers  # what it earns more than what was logged
    behind_best: EstimateNumbers | None  # what the best earns more; None for the best itself
    behind_at_least: float | None  # at least so much, for all together, approximately
    lower: float | None  # floor and ceiling, which hold for all together
    upper: float | None
    promised: bool
    unsupported: float | None  # the share of its time in decisions that the log never saw; None for numbers
    limits_kept: bool
    costs: dict[str, EstimateNumbers]
    verdict: str  # beside what was logged


class ComparisonSummary(TypedDict):
    """Several policies on one log."""

    best: str
    safest: str | None
    verdict: str  # "clear", "cannot tell" or "do not use"
    clear: bool
    alike: list[str]
    behind: float | None
    behind_proven: float | None
    confidence: float
    promised: bool
    withheld: list[str]
    ledger: list[dict[str, object]] | None
    table: list[Standing]
    policies: list[dict[str, object]]  # the summary of each
