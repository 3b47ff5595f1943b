"""Candidates: the policies that learners give, judged alike, and the rule by which one is recommended.

Judged   by the saddle's own dual, and on halves against the luck of choosing (evaluation.py)
Usable   a candidate whose expectation has an error: its features carry the values (misfit), and it goes where the log
         was (effective size of mu above LEAST_EFFECTIVE)
Rule     1. the first of PREFERRED that is there and usable
         2. unless another usable one is better by more than two joint errors: then the best of those
         3. unless that is not better than what was logged by more than two errors of the difference: then the clone,
            which does what was logged
Why      Learning a function can fail without a sign; what was logged is known. A candidate that is only luckier than
         the preferred one is not worth the change of method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dualq.model import Rule
from dualq.offline.approximate.evaluation import LEAST_EFFECTIVE, MOST_MISFIT, ActionValues
from dualq.offline.careful.selection_bias import Estimate

CLEARLY = 2.0  # errors
CLONE = "clone"
PREFERRED = ("neural, supported", "linear", "partition", CLONE)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy, and what may be said of it."""

    name: str  # the learner, and which of its policies
    rule: Rule
    expected: Estimate  # without an error where it may not be believed
    gain: Estimate  # over what was logged
    effective_size: float  # of the rows, those that speak for this policy
    misfit: float  # R^2 of what the features leave over
    values: ActionValues = field(repr=False)  # what each action is worth, if the policy decides afterwards
    costs: dict[str, Estimate] = field(default_factory=dict)  # per step

    @property
    def learner(self) -> str:
        """ "partition", "linear", "neural" or "clone"."""
        return self.name.partition(",")[0]

    @property
    def usable(self) -> bool:
        """Whether its expectation may be believed, with its error."""
        return self.expected.standard_error is not None

    @property
    def doubt(self) -> str | None:
        """Why not, in a clause."""
        if self.effective_size < LEAST_EFFECTIVE:
            return "it goes where the log never was"
        if self.misfit > MOST_MISFIT:
            return "the features do not carry its values"
        return None if self.usable else "the log has too few rows"


@dataclass(frozen=True)
class Choice:
    """Which candidate is recommended, and why."""

    place: int
    reason: str  # one sentence


def choose(candidates: Sequence[Candidate]) -> Choice:
    """The rule above; the clone is always among the candidates."""
    names = [one.name for one in candidates]
    clone = names.index(CLONE)
    usable = [i for i, one in enumerate(candidates) if one.usable and i != clone]
    if not usable:
        doubt = next((one.doubt for one in candidates if one.name != CLONE), None)
        why = f" ({doubt})" if doubt else ""
        return Choice(clone, f"No learned policy can be judged{why}, so what was done so far is recommended.")
    order = sorted(usable, key=lambda i: PREFERRED.index(names[i]) if names[i] in PREFERRED else len(PREFERRED))
    first = order[0]
    better = [i for i in usable if _clearly_above(candidates[i].expected, candidates[first].expected)]
    best = max(better, key=lambda i: candidates[i].expected.value) if better else first
    gain = candidates[best].gain
    if not gain.value > CLEARLY * gain.error_or_nan:
        return Choice(
            clone,
            f"The best learned policy ({names[best]}) is not clearly better than what was done so far, which is "
            "therefore recommended.",
        )
    if best != first:
        return Choice(best, f"The {names[best]} policy is better than the {names[first]} one by more than two errors.")
    return Choice(best, f"No other candidate is better than the {names[best]} policy by more than two errors.")


def _clearly_above(one: Estimate, other: Estimate) -> bool:
    return one.value - other.value > CLEARLY * math.hypot(one.error_or_nan, other.error_or_nan)
