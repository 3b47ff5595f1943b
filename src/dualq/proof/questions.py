"""What is asked of a log, checked at the border: a policy, where value is measured, what is allowed, how sure to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from dualq.base import Label, ModelError, Weights, as_distribution, checked_weights
from dualq.logs import Counts
from dualq.model import TablePolicy
from dualq.proof.evidence import value_range_of
from dualq.proof.ledger import Ledger

Array = np.ndarray
Available: TypeAlias = Mapping[Label, Sequence[Label]] | Array | None  # {state: [actions]}, or (S, A) booleans


class Question(NamedTuple):
    """What is asked, checked."""

    policy: Array  # (S, A)
    alpha: float
    start: Array  # (S,)
    confidence: float
    allowed: Array  # (S, A)
    value_range: tuple[float, float]
    range_given: bool
    seed: int
    measured: str = "given"  # `start` was given beforehand, or is that of the rows: first states of "episodes", "log"
    fixed: bool = False  # the policy was chosen before the rows were seen
    looks: int = 1  # at the log, of which this is one


def question_of(
    merged: Counts,
    policy: TablePolicy,
    discount: float,
    start: Weights,
    confidence: float,
    available: Available = None,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
    measured: str = "given",
    fixed: bool = False,
    looks: int = 1,
) -> Question:
    """What is asked of a log, its parts checked."""
    return Question(
        checked_policy(policy, merged),
        float(discount),
        checked_start(start, merged),
        float(confidence),
        _checked_available(available, merged),
        value_range_of(value_range, merged, discount),
        value_range is not None,
        seed,
        measured,
        fixed,
        looks,
    )


def check_confidence(confidence: object) -> None:
    """A ModelError where it is none."""
    if not (isinstance(confidence, int | float | np.floating) and 0.0 < confidence < 1.0):
        raise ModelError(f"confidence is {confidence!r}; it must be between 0 and 1, such as 0.95")


def one_of(looks: object, ledger: Ledger) -> Ledger:
    """What one of several looks at a log has of delta: all of them hold together; the ledger itself, for one look."""
    if not isinstance(looks, int | np.integer) or isinstance(looks, bool) or looks < 1:
        raise ModelError(f"looks is {looks!r}; it must be a whole number, 1 or more: how often the log is looked at")
    if looks == 1:
        return ledger
    name = f"one of {looks} looks"
    return next((account for account in ledger.accounts if account.what == name), None) or ledger.take(
        name, 1.0 / looks
    )


def checked_policy(policy: TablePolicy, counts: Counts) -> Array:
    """The policy (S, A) over the states of the log."""
    S, A = counts.shape
    matrix = policy.matrix
    if matrix.shape not in ((S, A), (S + 1, A)):  # the empirical model has "(end)" as a last state
        raise ModelError(f"the policy is for {matrix.shape} states and actions, the log has {counts.shape}")
    return counts.support.to_log(matrix)


def checked_start(start: Weights, counts: Counts) -> Array:
    """Where value is measured (S,), as a distribution."""
    if not isinstance(start, Mapping) and np.shape(start) == (len(counts.states) + 1,):
        start = counts.support.to_log(np.asarray(start))  # "(end)" is the last state of the empirical model
    return as_distribution("start", checked_weights("start", start, counts.states))


def _checked_available(available: Available, counts: Counts) -> Array:
    if available is None:
        return np.ones(counts.shape, bool)
    if isinstance(available, Mapping):
        allowed = np.ones(counts.shape, bool)
        for state, actions in available.items():
            s = counts.states.index(state)
            allowed[s] = False
            allowed[s, [counts.actions.index(action) for action in actions]] = True
    else:
        allowed = np.array(available, dtype=bool)
    if allowed.shape != counts.shape:
        raise ModelError(f"available has shape {allowed.shape}; it must be {counts.shape}, states and actions")
    if (none := ~allowed.any(axis=1)).any():
        raise ModelError(f"no action is available in {counts.states.describe(int(none.argmax()))}; name at least one")
    if (taken := (counts.visits > 0) & ~allowed).any():
        s, a = (int(i) for i in np.argwhere(taken)[0])
        where = f"{counts.actions.describe(a)} in {counts.states.describe(s)}"
        raise ModelError(f"the log has {where}, which is not available; add it")
    return allowed
