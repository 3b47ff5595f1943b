"""Candidates: the policies that learners give, judged alike, and the rule by which one is recommended.

Judged   by the saddle's own dual, and on halves against the luck of choosing (evaluation.py)
Usable   a candidate whose expectation has an error: its features carry the values (misfit), and it goes where the log
         was (effective size of mu above LEAST_EFFECTIVE)
Rule     of the usable candidates the one with the largest lower end: gain over what was logged, less two errors of the
         difference. Where no lower end is above 0, nothing is clearly better than what was logged: then the clone,
         which does that
Why      Learning a function can fail without a sign; what was logged is known. All candidates are judged by the same
         rows and share most of their luck; what sets them apart is how far their values can be told, and a gain that
         is surely there is worth more than a larger one that may not be. No learner is preferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dualq.model import Rule
from dualq.offline.approximate.evaluation import LEAST_EFFECTIVE, MOST_MISFIT, ActionValues
from dualq.offline.careful.selection_bias import Estimate

CLEARLY = 2.0  # errors
CLONE = "clone"


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
    def lower_end(self) -> float:
        """The gain that is nearly sure: less two errors. Not a number where there is no error."""
        return self.gain.value - CLEARLY * self.gain.error_or_nan

    @property
    def doubt(self) -> str | None:
        """Why not, in a clause."""
        if self.effective_size < LEAST_EFFECTIVE:
            return "it goes where the log never was"
        if self.misfit > MOST_MISFIT:
            return "the features do not carry its values, or the state misses something"
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
    best = max(usable, key=lambda i: candidates[i].lower_end)
    if not candidates[best].lower_end > 0.0:
        return Choice(
            clone,
            f"The best learned policy ({names[best]}) is not clearly better than what was done so far, which is "
            "therefore recommended.",
        )
    if not any(candidates[i].lower_end > 0.0 for i in usable if i != best):
        return Choice(best, f"Only the {names[best]} policy is clearly better than what was done so far.")
    return Choice(best, f"The {names[best]} policy has the largest gain once two standard errors are taken off.")
