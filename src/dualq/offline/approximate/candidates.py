"""Candidates: the policies that learners give, judged alike, and the rule by which one is recommended.

Judged   by the saddle's own dual, and on halves against the luck of choosing (evaluation.py)
Usable   a candidate whose expectation has an error: its features carry the values (misfit), and it goes where the log
         was (effective size of mu above LEAST_EFFECTIVE)
Better   than what was logged is a usable candidate whose gain is more than one error of the difference; clearly
         better, more than two
Vote     Where three or more are better they vote in every state, each with its gain less half an error as its weight,
         and the vote is one more candidate. What one learner gets wrong by the luck of its rows, or by what it can say,
         others seldom get wrong alike; and the vote was not picked because it looks best
Rule     the vote, if it is clearly better; else, of those that are, the one with the largest gain less half an error.
         Where there is none: the clone, which does what was logged
To try   Where nothing is usable, since features do not carry the values and for no other reason, errors are too small
         by a factor that is not known: in systems without noise, whose values bend. Of the policies whose gain is more
         than eight such errors, the one nearest to the log, of the largest effective size, is one to try: what features
         leave out misleads it least. Networks go first: the others were learned in features of the kind that was found
         wanting. The verdict is "cannot tell"
Why      Learning a function can fail without a sign; what was logged is known: so two errors to leave it. Among those
         that are better, a policy that stays near the log is told most exactly, and one that goes farther often has
         more: two errors taken off would always choose the first, none would choose by luck. Where errors can be told
         no learner is preferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dualq.model import Rule
from dualq.offline.approximate.evaluation import LEAST_EFFECTIVE, MOST_MISFIT, ActionValues
from dualq.offline.careful.selection_bias import Estimate

CLEARLY = 2.0  # errors: better than what was logged
MAJORITY = 3  # policies: of two, one that never draws would always have its way
VOTES = 1.0  # error: better, if not clearly
DOUBTED = 0.5  # errors that are taken off where such policies are compared
ROUGHLY = 8.0  # times a rough error: about as far off as these were, measured (benchmarks/RESULTS.md)
CLONE, NEURAL, VOTE = "clone", "neural", "vote"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy, and what may be said of it."""

    name: str  # the learner, and which of its policies
    rule: Rule = field(repr=False)
    expected: Estimate  # without an error where it may not be believed
    gain: Estimate  # over what was logged
    effective_size: float  # of the rows, those that count for this policy
    misfit: float  # R^2 of what the features leave over
    values: ActionValues = field(repr=False)  # what each action is worth, if the policy decides afterwards
    costs: dict[str, Estimate] = field(default_factory=dict)  # per step
    rough_error: float | None = None  # of the gain, where it has none because the features do not carry the values
    carried: bool = True  # whether they do

    @property
    def learner(self) -> str:
        """ "partition", "linear", "neural", "vote" (of several learners) or "clone"."""
        return self.name.partition(",")[0]

    @property
    def usable(self) -> bool:
        """Whether its expectation may be believed, with its error."""
        return self.expected.standard_error is not None

    @property
    def clearly_better(self) -> bool:
        """Than what was logged, by more than two errors; False where there is no error."""
        return self.gain.value - CLEARLY * self.gain.error_or_nan > 0.0

    @property
    def votes(self) -> bool:
        """Whether it is better than what was logged by more than one error."""
        return self.name != CLONE and self.gain.value - VOTES * self.gain.error_or_nan > 0.0

    @property
    def is_vote(self) -> bool:
        """Whether it is what others voted for."""
        return self.name.endswith(VOTE)

    @property
    def worth_trying(self) -> bool:
        """Whether the gain is larger than a rough error is likely to be off."""
        return self.rough_error is not None and self.gain.value > ROUGHLY * self.rough_error

    @property
    def worth(self) -> float:
        """What it is compared by: the gain less half an error. Not a number where there is none."""
        return self.gain.value - DOUBTED * self.gain.error_or_nan

    @property
    def doubt(self) -> str | None:
        """Why not, in a clause."""
        if self.effective_size < LEAST_EFFECTIVE:
            return "it goes where the log never was"
        if self.misfit > MOST_MISFIT or not self.carried:
            return "the features do not carry its values, or the state misses something"
        return None if self.usable else "the log has too few rows"


@dataclass(frozen=True)
class Choice:
    """Which candidate is recommended, and why."""

    place: int
    reason: str  # one sentence


def voters(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Who votes: the policies that are better, the best first; none where they are too few for a majority."""
    better = [one for one in candidates if one.votes]
    return sorted(better, key=lambda one: -one.worth) if len(better) >= MAJORITY else []


def name_of_vote(voting: Sequence[Candidate]) -> str:
    """Of policies of one learner it is one of that learner's."""
    first, *others = {one.learner for one in voting}
    return VOTE if others else f"{first}, {VOTE}"


def choose(candidates: Sequence[Candidate]) -> Choice:
    """The rule above; the clone is always among the candidates."""
    names = [one.name for one in candidates]
    clone = names.index(CLONE)
    usable = [i for i, one in enumerate(candidates) if one.usable and i != clone]
    if not usable and (tries := [i for i, one in enumerate(candidates) if one.worth_trying and i != clone]):
        networks = [i for i in tries if candidates[i].learner == NEURAL]
        best = max(networks or tries, key=lambda i: candidates[i].effective_size)
        why = "looks better than what was done so far by far, but how much cannot be told: try it on a small scale."
        return Choice(best, f"The {names[best]} policy {why}")
    if not usable:
        doubt = next((one.doubt for one in candidates if one.name != CLONE), None)
        why = f" ({doubt})" if doubt else ""
        return Choice(clone, f"No learned policy can be judged{why}, so what was done so far is recommended.")
    better = [i for i in usable if candidates[i].clearly_better]
    best = max(better or usable, key=lambda i: candidates[i].worth)
    if not better:
        return Choice(
            clone,
            f"The best learned policy ({names[best]}) is not clearly better than what was done so far, which is "
            "therefore recommended.",
        )
    if votes := [i for i in better if candidates[i].is_vote]:
        why = "is clearly better than what was done so far. In every state, the policies better by one error vote."
        return Choice(votes[0], f"The vote of several policies {why}")
    if better == [best]:
        return Choice(best, f"Only the {names[best]} policy is clearly better than what was done so far.")
    why = "has the largest gain, less half an error, of those that are clearly better than what was done so far."
    return Choice(best, f"The {names[best]} policy {why}")
