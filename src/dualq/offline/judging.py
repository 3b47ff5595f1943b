"""Judge: one log, made ready to say of any policy what it earns and costs, and what can be promised of it.

The log is counted and modelled once (stages.py); then each policy takes two linear systems for every number:

    earns       its value on the log's own frequencies, with its error (careful/given.py)
    differs     from what was logged, with the error of the difference: both rest on the same rows
    chosen      a policy that was learned from this very log was chosen for its luck: its value is the careful one, of
                which luck is taken off (careful/selection_bias.py, limited/estimates.py)
    costs       the same of every cost
    limits      kept or not: proven, or estimated
    certified   floor and ceiling of this policy. The events of the certificate know no policy (docs/certificate.md):
                on them the bounds of all policies hold at once, and of the one that is chosen among them too
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dualq.logs import Counts
from dualq.model import ActionCap, Limit, TablePolicy
from dualq.offline.careful.clusters import Groups
from dualq.offline.careful.given import Given, Valued
from dualq.offline.careful.pooling import Rows
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.given_policies import GivenPolicy
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.parsing import LimitsGiven, asked_for
from dualq.offline.limited.search import SHARE_OF_VALUE
from dualq.offline.stages import Modelled
from dualq.proof import (
    AverageBounds,
    Certificate,
    Ledger,
    certified,
    merged_counts,
    paid_at_the_end,
    paying_counts,
    prior_of,
    proven,
    question_of,
)

Array = np.ndarray

RARE = 0.05  # of the range of rewards: a mean that is nearer to one end is made of rare events
REACHED = 1e-6  # of the bound: how far beyond it is rounding


@dataclass(frozen=True)
class GivenLimit:
    """Whether a policy keeps a limit."""

    name: str
    text: str  # "stockout <= 0.02"
    sense: str
    bound: float
    estimate: Estimate
    logged: float  # what was logged reaches, as estimated
    low: float | None  # floor and ceiling, proven; None where none can be proven
    high: float | None
    kept: bool  # promised: the ceiling (for >= the floor) is within the bound, or it holds by itself
    basis: str  # "proven"; "exact": by itself; "model": on the log's model; "estimated"; "missed"


class CostOf(NamedTuple):
    """What a step costs on average, from the start."""

    policy: Estimate
    logged: Estimate
    difference: Estimate


@dataclass(frozen=True, eq=False)
class PolicyCertificate:
    """Floor and ceiling of one policy, and what they rest on."""

    whole: Certificate = field(repr=False)  # with the ceiling of every policy, and bounds in every state

    @property
    def lower(self) -> float:
        """The policy's true value is at least this."""
        return self.whole.lower

    @property
    def upper(self) -> float:
        """The policy's true value is at most this."""
        return self.whole.policy_upper

    @property
    def any_policy(self) -> float:
        """No policy's value is more."""
        return self.whole.upper

    @property
    def behaviour(self) -> tuple[float, float]:
        """Between these is the value of what was logged."""
        return self.whole.behaviour

    @property
    def improvement(self) -> tuple[float, float]:
        """Between these is what the policy earns more than what was logged."""
        return self.lower - self.behaviour[1], self.upper - self.behaviour[0]

    @property
    def informative(self) -> bool:
        """Whether the interval says clearly more than the range of rewards does."""
        return self.whole.informative

    @property
    def confidence(self) -> float:
        """With which all of these hold together."""
        return self.whole.confidence

    @property
    def ledger(self) -> Ledger | None:
        """What 1 - confidence was spent on."""
        return self.whole.ledger

    def __repr__(self) -> str:
        return f"PolicyCertificate({self.lower:.4g} to {self.upper:.4g}, {self.confidence:g})"


def rare_reward(counts: Counts) -> float:
    """The range of a reward that is nearly always at one end of it, as a click is; 0 where it is not.

    Pairs in which such an event was not seen would say by their own rows that it cannot happen there.
    """
    low, high = counts.reward_range
    share = (float(counts.reward_sum.sum()) / max(counts.total, 1) - low) / (high - low) if high > low else 0.5
    return high - low if min(share, 1.0 - share) < RARE else 0.0


@dataclass(frozen=True, eq=False)
class Judge:
    """A log, ready."""

    modelled: Modelled
    asked: tuple[Asked, ...] = ()
    confidence: float = 0.95
    method: str | None = "proven"
    value_range: tuple[float, float] | None = None
    ledger: Ledger = field(default_factory=lambda: Ledger(0.05), repr=False)
    how_many: bool = True  # whether to ask how many rows a useful promise would need, which takes as long again

    @classmethod
    def of(
        cls,
        modelled: Modelled,
        limits: LimitsGiven | None,
        confidence: float,
        method: str | None,
        value_range: tuple[float, float] | None,
        how_many: bool = True,
    ) -> Judge:
        """With limits as a user gives them."""
        asked = () if limits is None else asked_for(limits, modelled.estimates)
        return cls(modelled, asked, confidence, method, value_range, Ledger(1.0 - confidence), how_many)

    @property
    def counts(self) -> Counts:
        """Of the log."""
        return self.modelled.counted.counts

    @property
    def _discount(self) -> float:
        return self.modelled.discount

    @cached_property
    def start(self) -> Array:
        """Where value is measured, in the states of the model."""
        return self.counts.support.to_model(self.modelled.counted.start)

    @cached_property
    def _groups(self) -> Groups | None:
        log = self.modelled.counted.read.log
        trace = None if log is None else log.trace()
        return Groups.of(trace) if trace is not None and trace.has_episodes else None

    @cached_property
    def known(self) -> Given:
        """What the log says of what policies earn."""
        rows, careful = Rows.of(self.counts, self._discount), self.modelled.careful
        worth = careful.mdp.rewards[rows.unknown][:1, 0] / (1.0 - self._discount)  # as in the careful model
        return Given(rows, self.start, float(worth.sum()), self._groups, rare=rare_reward(self.counts))

    @cached_property
    def usual(self) -> Valued:
        """What was logged, on the same rows."""
        return self.known.valued(self.modelled.careful.behaviour)

    def everywhere(self, policy: TablePolicy) -> TablePolicy:
        """A policy of the log's states on those of the model."""
        return self.counts.support.policy_to_model(policy, self.modelled.careful.policy)

    def valued(self, policy: TablePolicy) -> Valued:
        """What the rows say of a policy of the log's states."""
        return self.known.valued(self.everywhere(policy))

    # ---- what it earns

    def learned_here(self, given: GivenPolicy) -> bool:
        """Whether a policy was learned from this log: it says so, or it is what is learned from it."""
        learned = self.counts.support.to_log(self.modelled.careful.policy.matrix)
        acted: Array = self.counts.visits.sum(axis=1) > 0
        same = np.array_equal(given.table.matrix[acted], learned[acted])
        return not self._as_logged(given.table) and (same or given.digest == self.counts.digest())

    def _as_logged(self, policy: TablePolicy) -> bool:
        acted: Array = self.counts.visits.sum(axis=1) > 0
        usual = self.counts.support.to_log(self.modelled.careful.behaviour.matrix)
        return np.array_equal(policy.matrix[acted], usual[acted])

    def expected(self, policy: TablePolicy, one: Valued, learned_here: bool) -> Estimate:
        """What a policy is expected to earn; without the luck of having been chosen where it was learned here."""
        if self._as_logged(policy):
            return self.modelled.careful.logged
        if not learned_here:
            return self.known.estimate(one, self.usual)
        everywhere, careful = self.everywhere(policy), self.modelled.careful
        if np.array_equal(everywhere.matrix, careful.policy.matrix):
            return careful.expected
        return self.modelled.estimates.value(everywhere)

    def difference(self, one: Valued, expected: Estimate, learned_here: bool) -> Estimate:
        """What it earns more than what was logged."""
        known, usual = self.known, self.usual
        alone = known.estimate(one, usual) if learned_here else expected
        return _beside(expected, self.modelled.careful.logged, known.difference(one, usual), alone)

    # ---- what it costs

    @cached_property
    def _costs(self) -> dict[str, tuple[Given, Valued]]:
        """Of each cost what the log says, and what was logged."""
        return {name: self._given(paying_counts(self.counts, name), None) for name in self.counts.cost_sums}

    def _of_pairs(self, one: Asked) -> tuple[Given, Valued]:
        """The same of a limit, whose cost is one of these, or known."""
        assert isinstance(one.limit, Limit)
        if one.column is not None:
            return self._costs[one.column]
        return self._given(_known(self.counts, one.limit.cost), one.limit.cost)

    def _given(self, counts: Counts, known: Array | None) -> tuple[Given, Valued]:
        per_row = float(counts.reward_sum.sum() / max(counts.total, 1))
        low, high = counts.reward_range
        worth, rare = per_row / (1.0 - self._discount), 0.0 if known is not None else high - low
        given = Given(Rows.of(counts, self._discount), self.start, worth, None, known, rare)
        return given, given.valued(self.modelled.careful.behaviour)

    def costs(self, given: GivenPolicy) -> dict[str, CostOf]:
        """What a policy costs a step, and what was logged does."""
        asked = (self.modelled.estimates.asked(name) for name in self.counts.cost_sums)
        return {one.name: self._cost(one, given) for one in asked}

    def _cost(self, one: Asked, policy: GivenPolicy) -> CostOf:
        """By the rows; what was logged, and what was learned here, as `learn` estimates them (limited/estimates.py)."""
        given, usual = self._of_pairs(one)
        estimates, everywhere = self.modelled.estimates, self.everywhere(policy.table)
        step, mine = one.scale * (1.0 - self._discount), given.valued(everywhere)
        alone, paired = (scaled(e, step) for e in (given.estimate(mine, usual), given.difference(mine, usual)))
        logged, expected = estimates.claimed(one, self.modelled.careful.behaviour), alone
        if self._as_logged(policy.table):
            expected = alone = logged
        elif self.learned_here(policy):
            expected = estimates.of(one, everywhere)
        return CostOf(expected, logged, _beside(expected, logged, paired, alone))

    # ---- limits

    @cached_property
    def _bounds(self) -> dict[str, AverageBounds]:
        """Of the limits that can be proven; they hold for all policies at once."""
        bounded = [one for one in self.asked if one.bounded]
        if not bounded or self.method is None:
            return {}
        accounts = self.ledger.take("limits", 1.0 - SHARE_OF_VALUE).alike(*(one.name for one in bounded))
        counted = self.modelled.counted
        prior = prior_of(counted.blocks, counted.counts, self._discount)
        return {
            one.name: one.bounds(counted.blocks, self._discount, counted.start, account, prior, counted.measured)
            for one, account in zip(bounded, accounts, strict=True)
        }

    def limits(self, given: GivenPolicy) -> tuple[GivenLimit, ...]:
        """Which of the limits a policy keeps."""
        return tuple(self._limit(one, given) for one in self.asked)

    def _limit(self, one: Asked, given: GivenPolicy) -> GivenLimit:
        limit, policy = one.limit, given.table
        found, logged = self._reaches(one, given)
        beyond = limit.sign * (found.value - limit.bound)
        reached = beyond <= REACHED * max(1.0, abs(limit.bound))
        low = high = None
        kept, basis = False, "estimated" if reached else "missed"
        if one.name in self._bounds:
            low, high = (one.scale * end for end in self._bounds[one.name].of(policy.matrix))
            kept = limit.sign * (high if limit.sign > 0.0 else low) <= limit.sign * limit.bound + 1e-12
            basis = "proven" if kept else basis
        elif isinstance(limit, ActionCap):
            chance = (self.everywhere(policy).matrix * limit.pairs).sum(axis=1)
            kept = bool(chance.max() <= limit.bound + REACHED)
            basis = "exact" if kept else "missed"
        elif not one.bounded:
            basis = "model" if reached else "missed"
        return GivenLimit(one.name, str(limit), limit.sense, limit.bound, found, logged, low, high, kept, basis)

    def _reaches(self, one: Asked, given: GivenPolicy) -> tuple[Estimate, float]:
        """What a policy reaches in a limit, and what was logged."""
        limit = one.limit
        if isinstance(limit, Limit):
            cost = self._cost(one, given)
            return cost.policy, cost.logged.value
        step, everywhere = 1.0 - self._discount, self.everywhere(given.table)
        mdp = self.known.model(everywhere)
        pairs = (v.occupancy * step for v in (self.known.valued(everywhere), self.usual))
        mine, usual = (limit.value(mdp, d, self.start) for d in pairs)
        return Estimate(mine, None), usual

    # ---- what is proven

    def certificate(self, policy: TablePolicy) -> Certificate | None:
        """Floor and ceiling of a policy, on the events of this log, which are the same for every policy."""
        if self.method is None:
            return None
        counted = self.modelled.counted
        blocks, merged = list(counted.blocks), merged_counts(counted.blocks)
        account = Ledger((SHARE_OF_VALUE if self.asked else 1.0) * (1.0 - self.confidence), "value")
        values = self.value_range or paid_at_the_end(counted.counts)
        ask = question_of(
            merged,
            policy,
            self._discount,
            counted.start,
            1.0 - account.delta,
            counted.available,
            values,
            measured=counted.measured,
        )
        if not self.how_many and self.method == "proven":
            return proven(blocks, merged, ask, account)
        return certified(blocks, merged, ask, self.method, account)


def _known(counts: Counts, cost: Array) -> Counts:
    """The counts with a known cost of each pair in the place of rewards."""
    paid = counts.support.to_log(cost)[counts.s, counts.a]
    return dataclasses.replace(
        counts,
        reward_sum=counts.n * paid,
        reward_square_sum=counts.n * paid * paid,
        reward_range=(float(cost.min()), float(cost.max())),
        range_known=True,
    )


def _beside(expected: Estimate, logged: Estimate, paired: Estimate, alone: Estimate) -> Estimate:
    """How far a policy is from what was logged, with the paired error, and what is not known of its luck.

    alone   the estimate by its rows: that of a policy that was learned here has a larger error, for its luck
    """
    apart = expected.value - logged.value
    if paired.standard_error is None:
        return Estimate(apart, None)
    luck = max(expected.error_or_nan**2 - alone.error_or_nan**2, 0.0)
    return Estimate(apart, float(np.hypot(paired.standard_error, np.sqrt(luck))))


def scaled(estimate: Estimate, by: float) -> Estimate:
    """An estimate in another unit."""
    error = estimate.standard_error
    return Estimate(by * estimate.value, None if error is None else by * error)


def limits_kept(limits: Sequence[GivenLimit], doubtful: bool) -> bool:
    """Whether all of them are promised; nothing is by a proof whose assumptions are in doubt."""
    return all(limit.kept and not (limit.basis == "proven" and doubtful) for limit in limits)
