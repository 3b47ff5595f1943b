"""The certificate: a floor for one policy, a ceiling for every policy, and what these rest on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from dualq.base import Label, count, door
from dualq.logs import Counts
from dualq.proof.evidence import cut_beforehand
from dualq.proof.ledger import Ledger
from dualq.proof.questions import Question

Array = np.ndarray
Column: TypeAlias = Array | list[Label]

FACTORS = [4**k for k in range(1, 9)]  # times the rows, tried when it is asked how many would do
FIRST_ROWS = 100  # asked for where there are hardly any
INFORMATIVE = 0.5  # of the value range: floor and ceiling further apart than this say too little to act on
ABOVE = 1e-3  # of the value range: a floor no further than this above the least that rewards allow says nothing
USEFUL = 0.25  # of the value range: a ceiling over all policies that is this far from the floor tells something


@dataclass(frozen=True)
class Wanted:
    """A pair that the floor suffers from, and what more rows of it would bring."""

    state: Label
    action: Label
    visits: int  # rows in the log
    rows: int  # more rows, which would about halve what the pair costs
    raises: float  # the floor, about


@door
@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds that hold together with the given confidence; the numbers are at the start.

    lower             the policy's true value is at least this
    upper             no policy's value is more, over all actions (or the available ones)
    upper_supported   no policy's value is more that keeps to pairs in the log
    policy_upper      the policy's own true value is at most this: with `lower`, its interval
    ceilings          {k: no policy's value is more that keeps to pairs with at least k rows}; all hold together
    behaviour         (low, high): between these is the value of n(s, a) / n(s), the logged frequencies as a policy
    earned            what the log itself earned, from where its decisions were taken; no bound: it is known
    lower_decided     the policy's true value from the same states is at least this
    estimate          the policy's value on the log's own frequencies: no bound
    per_state         the same bounds in every state, as columns
    causes            {cause: its part of the regret}; the parts add up
    assumptions       what all of it rests on, one sentence each
    ledger            what delta = 1 - confidence was spent on: `print(certificate.ledger)`
    """

    lower: float
    upper: float
    upper_supported: float
    behaviour: tuple[float, float]
    estimate: float
    confidence: float
    method: str
    rows: int
    value_range: tuple[float, float]
    per_state: dict[str, Column] = field(repr=False)
    causes: dict[str, float] = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    _pairs: tuple[Wanted, ...] = field(repr=False)
    policy_upper: float = np.inf
    earned: float | None = None  # None, with lower_decided, where much of what the log entered was not left again
    lower_decided: float | None = None
    ceilings: Mapping[str, float] = field(default_factory=dict, repr=False)
    ledger: Ledger | None = field(default=None, repr=False)  # None in fits that were saved before there was one
    rows_needed: int | None = None  # about how many rows like these would promise something; None where none would

    @property
    def regret(self) -> float:
        """No policy is better than the certified one by more than this."""
        return self.upper - self.lower

    @property
    def improvement(self) -> float:
        """The policy is better than the logged behaviour by at least this; a promise only where it is positive."""
        return self.lower - self.behaviour[1]

    @property
    def gain(self) -> float | None:
        """From where the log's decisions were taken, the policy earns at least this more than the log itself did."""
        return None if self.earned is None or self.lower_decided is None else self.lower_decided - self.earned

    @property
    def proven_more(self) -> float:
        """The larger of `improvement` and `gain`: what is proven of how much more the policy earns."""
        return self.improvement if self.gain is None else max(self.improvement, self.gain)

    @property
    def informative(self) -> bool:
        """Whether the policy's interval says clearly more than the range of rewards does.

        True where it is at most half as wide as the value range, and its floor is above the least that rewards allow:
        with rewards in [0, 1], "at least 0" is no promise.
        """
        return says_something(self.lower, self.policy_upper, self.value_range)

    @property
    def useful_ceiling(self) -> tuple[int, float] | None:
        """(k, ceiling over pairs with at least k rows): the first that is clearly below what rewards allow."""
        low, high = self.value_range
        for rows, ceiling in self.ceilings.items():
            if ceiling - self.lower <= USEFUL * (high - low):
                return int(rows), ceiling
        return None

    def wanted(self, most: int = 10) -> list[Wanted]:
        """The pairs where more data would raise the floor most."""
        return list(self._pairs[:most])


BOUNDS = ("lower", "upper", "upper_supported", "behaviour_low", "behaviour_high")


def moved_back(found: Certificate, values: float) -> Certificate:
    """The certificate of rewards that were moved: all values larger by `values`, all differences the same."""
    low, high = found.behaviour
    table = {
        name: np.asarray(column) + values if name in BOUNDS else column for name, column in found.per_state.items()
    }
    return replace(
        found,
        lower=found.lower + values,
        upper=found.upper + values,
        upper_supported=found.upper_supported + values,
        policy_upper=found.policy_upper + values,
        behaviour=(low + values, high + values),
        estimate=found.estimate + values,
        earned=None if found.earned is None else found.earned + values,
        lower_decided=None if found.lower_decided is None else found.lower_decided + values,
        value_range=(found.value_range[0] + values, found.value_range[1] + values),
        ceilings={rows: ceiling + values for rows, ceiling in found.ceilings.items()},
        per_state=table,
    )


def says_something(lower: float, upper: float, value_range: tuple[float, float]) -> bool:
    """Whether an interval of values says clearly more than the range of rewards does."""
    low, high = value_range
    return bool(upper - lower <= INFORMATIVE * (high - low) and lower - low > ABOVE * (high - low))


def wanted_pairs(counts: Counts, costs: Array, most: int) -> tuple[Wanted, ...]:
    """The pairs that cost most (pairs,), first; four times the rows about halve what a pair costs."""
    A, n = counts.shape[1], counts.visits.ravel()
    return tuple(
        Wanted(
            counts.states[int(i) // A],
            counts.actions[int(i) % A],
            int(n[i]),
            int(max(3 * n[i], FIRST_ROWS)),
            0.5 * float(costs[i]),
        )
        for i in np.argsort(-costs, kind="stable")[:most]
        if costs[i] > 0.0
    )


def rows_needed(rows: int, enough: Callable[[int], bool]) -> int | None:
    """An estimate: the least of 4, 16, 64, ... times the same rows that is enough; None where 4^8 times are not."""
    first = bisect_left(FACTORS, True, key=enough)
    return FACTORS[first] * rows if first < len(FACTORS) else None


def assumptions_of(blocks: Sequence[Counts], counts: Counts, ask: Question) -> tuple[str, ...]:
    """What the numbers rest on, one sentence each."""
    low, high = counts.reward_range
    states, actions = count(len(counts.states), "state"), count(len(counts.actions), "action")
    known = "known" if counts.range_known else "as observed: no other can ever happen"
    value = f"[{ask.value_range[0]:g}, {ask.value_range[1]:g}]"
    ends = "episodes end where the log says so" if counts.ended.any() else "no episode ends: none in the log did"
    later = (
        "what happens next depends on the state and the action only: not on what came before, nor on the time",
        f"what is earned over time is in {value} ({'given' if ask.range_given else 'from the rewards'})",
        ends,
    )
    beforehand = cut_beforehand(np.cumsum([block.total for block in blocks]))
    at_once = (
        "what an action earns depends on the state and the action only: not on what came before, nor on the time",
    )
    return (
        f"all bounds hold together with probability {ask.confidence:g}",
        *(later if ask.alpha > 0.0 else at_once),
        f"the {states} and {actions} of the log are all there are",
        f"rewards are in [{low:g}, {high:g}] ({known})",
        "rows were cut off independently of what happened, and none is missing because of what it showed",
        "the state includes everything that matters and that the decisions were based on",
        "no decision was based on later rows of the log",
        *(
            ()
            if beforehand
            else ("nobody chose the log's length, or where to cut it into blocks, by looking at its rows",)
        ),
        "the starting states and the available actions are as given",
        "this is the only look at the log: every other discount, period, column or bin that was tried is another look"
        if ask.looks == 1
        else f"the log is looked at {ask.looks} times at most, this look among them: all of them hold together",
    )


def per_state(counts: Counts, *columns: Array) -> dict[str, Column]:
    """The bounds in every state, as columns beside the labels and the number of rows."""
    table: dict[str, Column] = {**counts.states.columns(), "rows": counts.visits.sum(axis=1)}
    return table | dict(zip(BOUNDS, columns, strict=True))
