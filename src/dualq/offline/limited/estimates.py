"""What a policy costs, from a log: an estimate with its standard error. What is proven of it: proof/costs.py.

A cost c(s, a) is averaged over d, the discounted occupancy from the start as probabilities: what a step costs. It is a
column of the log, known by its rows alone, or an array that is known exactly (a share of time, of an action).

Estimate  on the plug-in model: frequencies P^ and mean costs c^, nothing pooled and nothing penalised. A state that was
          never left costs what a row of the log costs on average, and the end nothing. With W the discounted cost from
          each state, y = c + alpha W(s') has the variance sigma^2 within a pair (`pooling`: its own squares and one
          row's worth of its state's), and the standard error of the average is sqrt( sum d^2 sigma^2 / n ), as for
          values (`selection_bias`); states that were never left add to it as they do there.
          The start is taken as given.
Rare      A cost that is rare was not seen in most pairs; their own squares would say that it cannot happen there. An
          event in a pair moves the average by w = d/n: this is the directly standardised rate of epidemiology, whose
          intervals allow for one more event (Fay and Feuer, 1997). Here two more events fall where the policy spends
          its time, and add
              2 range^2 sum d w^2
          Rows of pairs that it does not take say nothing of those that it takes: an action that the log avoids may be
          avoided because it is dangerous. A variance that leaned on other pairs of the state had the truth within 1.96
          errors in three of four logs only.
Luck      A policy that was chosen for what this log says of it looks cheaper than it is: on ICU-Sepsis at 20,000 rows
          one of .0208 was put at .0112 +- .0004, where the log's behaviour has .0218. So of what it is cheaper than
          what was logged only a part is taken for true, as of a gain (`selection_bias`): two halves of the rows choose
          policies, the best and the cheapest, and each half is asked what the other's cost. Only that in which the two
          choices differ makes the answer noisy. A policy that is dearer than what was logged was not chosen for that:
          its claim stands, and what the halves find of the best policy's, more or less, is part of the error.
          The careful model pools pairs by what they earn. Pooled so, costs were wrong: on an inventory log a policy of
          5.7 % was estimated at 4.7 +- 0.2 %, and at 5.7 % by the frequencies.
Moved     The program has the careful model's P~ all the same, to choose a policy. With W as above, of some policy pi,
              c~ = c^ + alpha (P^ - P~) W
          gives pi in the careful model what it costs in the plug-in model, exactly, and others that differ from it in
          few places nearly so.

    docs      here
    d         average occupancy, (1 - alpha) lambda
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dualq.logs import Counts
from dualq.model import MDP, Limit, TablePolicy
from dualq.offline.careful.fitting import Fitted
from dualq.offline.careful.model import Careful, Estimate, fitted_halves
from dualq.offline.careful.pooling import ROUNDING, Rows
from dualq.offline.careful.selection_bias import (
    EVERY_PART_ALIKE,
    HOW_LUCKY,
    found_again,
    reliability_of,
    sampled,
    sigma2_of,
)
from dualq.offline.limited.asked import Asked
from dualq.solvers import solve

Array = np.ndarray

ONCE_OR_TWICE = 2.0  # 1.96 errors are then 2.8 events; where so many are expected none is seen in 6 % of logs


@dataclass(frozen=True, eq=False)
class Costs:
    """What some rows, all or a half of them, say of costs on their own."""

    counts: Counts = field(repr=False)
    careful: Careful | Fitted = field(repr=False)  # the model of these rows, and the policy that they would choose
    start: Array = field(repr=False)  # (S,) in the states of the log

    @cached_property
    def nu(self) -> Array:
        """The start in the states of the model."""
        return self.counts.support.to_model(self.start)

    @cached_property
    def rows(self) -> Rows:
        """The log by pairs."""
        return Rows.of(self.counts, self.careful.mdp.discount)

    @property
    def plug_in(self) -> MDP:
        """The log's own frequencies, on the states of the careful model."""
        return self.rows.plug_in

    def costs(self, asked: Asked) -> Rows:
        """The log by pairs, with what a row costs in the place of what it earned."""
        counts, limit = self.counts, asked.limit
        assert isinstance(limit, Limit)
        if asked.column is None:
            known = limit.on(self.careful.mdp)[counts.s, counts.a]
            return dataclasses.replace(self.rows, reward_mean=known, reward_squares=np.zeros(known.size))
        paid, square_sum = counts.cost_sums[asked.column], counts.cost_square_sums[asked.column]
        mean = paid / counts.n
        squares = np.where(square_sum - paid * mean > ROUNDING * square_sum, square_sum - paid * mean, 0.0)
        scale = asked.scale
        return dataclasses.replace(self.rows, reward_mean=scale * mean, reward_squares=scale**2 * squares)

    def means(self, column: str) -> Array:
        """c^ (S, A) of a column of the log, in the states of the model."""
        counts = self.counts
        sums, n = counts.per_pair(counts.cost_sums[column]), counts.visits
        low, high = counts.cost_ranges[column]
        costs = counts.support.to_model(np.where(n > 0, np.clip(sums / np.maximum(n, 1), low, high), 0.0))
        costs[counts.never_left] = sums.sum() / max(counts.total, 1)
        return costs

    def own(self, asked: Asked) -> tuple[Asked, Limit]:
        """The same limit with the mean costs of these rows, on the states of their model."""
        limit, support = asked.limit, self.counts.support
        assert isinstance(limit, Limit)
        if asked.column is None:
            costs = support.to_model(support.to_log(limit.cost))
        else:
            costs = asked.scale * self.means(asked.column)
        limit = Limit(limit.name, costs, limit.sense, limit.bound)
        return dataclasses.replace(asked, limit=limit), limit

    def paying(self, limit: Limit) -> MDP:
        """The plug-in model with costs for rewards."""
        return self.plug_in.paying(limit.on(self.plug_in))

    def totals(self, limit: Limit, policy: TablePolicy) -> Array:
        """W (S,): the discounted cost from each state."""
        return policy.value(self.paying(limit))

    def chosen(self, asked: Asked) -> tuple[TablePolicy, TablePolicy]:
        """Policies that these rows would choose: for what they earn, and for the limited cost alone."""
        mdp, limit = self.plug_in, self.own(asked)[1]
        return self.careful.policy, solve(mdp.paying(-limit.sign * limit.on(mdp))).primal_policy


@dataclass(frozen=True, eq=False)
class Estimates(Costs):
    """What policies earn and cost on average, as estimated: of a difference from the log only what is not luck."""

    careful: Careful = field(repr=False)

    def moved(self, limit: Limit, policy: TablePolicy) -> Limit:
        """The limit with costs that give the policy in the careful model what it costs in the plug-in model."""
        W, mdp = self.totals(limit, policy), self.careful.mdp
        difference = ((self.plug_in.transitions - mdp.transitions) @ W).reshape(limit.cost.shape)
        return Limit(limit.name, limit.on(mdp) + mdp.discount * difference, limit.sense, limit.bound)

    def asked(self, column: str) -> Asked:
        """A cost of the log, to ask what a step costs; the bound is not looked at."""
        return Asked(Limit(column, self.means(column), "<=", 0.0), column)

    def of(self, asked: Asked, policy: TablePolicy) -> Estimate:
        """What a policy (of the model's states) is estimated to reach in a limit, with the standard error.

        Of a cap and a distance there is no error: a cap holds in every state, and a distance is one on the careful
        model.
        """
        limit, alpha = asked.limit, self.careful.mdp.discount
        if not isinstance(limit, Limit):
            mdp = self.careful.mdp
            return Estimate(limit.value(mdp, (1.0 - alpha) * policy.occupancy(mdp, self.nu), self.nu), 0.0)
        claimed, logged = self.claimed(asked, policy), self.claimed(asked, self.careful.behaviour)
        apart = claimed.value - logged.value
        reliability = self.reliability(asked, apart)
        own = np.sqrt(reliability.value)
        rows = (1.0 - own) * logged.error_or_nan + own * claimed.error_or_nan  # of the same rows: no cancelling
        parts = rows, reliability.error_or_nan * apart, HOW_LUCKY * (1.0 - reliability.value) * apart
        return Estimate(logged.value + reliability.value * apart, float(np.linalg.norm(parts)))

    def reliability(self, asked: Asked, apart: float) -> Estimate:
        """The part of a difference from the logged cost that is found again in rows which had no say in the choice."""
        if asked.name not in self._answers:
            ways = (self._halves, self._halves[::-1]) if self._halves else ()
            asks = [[_found(one, other, asked, policy) for policy in one.chosen(asked)] for one, other in ways]
            self._answers[asked.name] = [_both_ways(*both) for both in zip(*asks, strict=True)]
        answers = self._answers[asked.name]
        if asked.limit.sign * apart < 0.0:
            return reliability_of(answers)
        reliability, error = found_again(answers[:1], EVERY_PART_ALIKE)
        return Estimate(1.0, float(np.hypot(error, reliability - 1.0)))

    @cached_property
    def _answers(self) -> dict[str, list[tuple[float, float, float]]]:
        return {}

    @cached_property
    def _halves(self) -> tuple[Costs, ...]:
        """The halves of the rows, each with what it would have learned; none where a half has no rows."""
        careful, dealt = self.careful, self.careful.halves
        if dealt is None:  # a fit that was loaded
            dealt = fitted_halves(self.counts, careful.mdp.discount, careful.pessimism)
        return tuple(Costs(half.rows.counts, half, self.start) for half in dealt)

    def claimed(self, asked: Asked, policy: TablePolicy) -> Estimate:
        """What a limit on an average reaches on the log's own frequencies."""
        limit, alpha = asked.limit, self.careful.mdp.discount
        assert isinstance(limit, Limit)
        usual = self.totals(limit, self.careful.behaviour)
        known = sampled(self.costs(asked), self.paying(limit), policy, self.nu, usual)
        error = np.hypot((1.0 - alpha) * np.sqrt(known.variance), self._unseen(asked, (1.0 - alpha) * known.occupancy))
        return Estimate((1.0 - alpha) * known.value, float(error))

    def _unseen(self, asked: Asked, d: Array) -> float:
        """What did not happen in the rows that a policy relies on may still happen, once or twice in as many."""
        if asked.column is None:
            return 0.0
        low, high = self.counts.cost_ranges[asked.column]
        w = np.where(self.rows.supported, d / np.maximum(self.rows.n, 1.0), 0.0)
        return asked.scale * (high - low) * float(np.sqrt(ONCE_OR_TWICE * (d * w**2).sum()))

    def value(self, policy: TablePolicy) -> Estimate:
        """What a policy may be expected to earn from the start, as the careful policy's value is estimated.

        Its value in the pooled model, without the penalty; of a gain over the log the part that is luck is taken off,
        as it was found for the careful policy.
        """
        careful = self.careful
        claimed, error = self._claimed(policy)
        gain = claimed - careful.logged.value
        if not gain > 0.0:
            return Estimate(claimed, error)
        best, best_error = self._claimed(careful.policy)
        best_gain, reliability, own = best - careful.logged.value, careful.reliability, np.sqrt(careful.reliability)
        rows = (1.0 - own) * careful.logged.error_or_nan + own * best_error
        luck = np.sqrt(max(careful.expected.error_or_nan**2 - rows**2, 0.0)) / best_gain if best_gain > 0.0 else 0.0
        rows = (1.0 - own) * careful.logged.error_or_nan + own * error
        return Estimate(careful.logged.value + reliability * gain, float(np.hypot(rows, luck * gain)))

    def _claimed(self, policy: TablePolicy) -> tuple[float, float]:
        """The value in the pooled model without the penalty, and the error that the rows of each pair leave."""
        careful = self.careful
        occupancy = policy.occupancy(careful.mdp, self.nu)
        error = np.where(np.isfinite(careful.error), careful.error, 0.0)
        paid = np.where(careful.mdp.available, careful.mdp.rewards + careful.penalty, 0.0)
        return float((occupancy * paid).sum()), float(np.sqrt((occupancy**2 * error**2).sum()))


def _both_ways(there: Found, back: Found) -> tuple[float, float, float]:
    """Found, promised, and the variance of what was found: of that in which the two choices differ."""
    variance = ((there.contrast - back.contrast) ** 2 * (there.noise + back.noise)).sum()
    return there.found + back.found, there.promised + back.promised, float(variance)


class Found(NamedTuple):
    """How a policy that one half chose differs from the log in a cost."""

    found: float  # by the other half
    promised: float
    contrast: Array  # (S, A) how much more often it takes each pair
    noise: Array  # (S, A) variance of a pair's mean in the other half


def _found(one: Costs, other: Costs, asked: Asked, policy: TablePolicy) -> Found:
    """On the pairs that both have seen, with W, occupancy and usual frequencies of the half that chose."""
    mine, limit = one.own(asked)
    W = one.totals(limit, policy)
    rows, others = one.costs(mine), other.costs(other.own(asked)[0])
    moments, found = rows.moments(W), other.counts.support.to_log(others.moments(np.append(W, 0.0)).mean)
    mean, variance = map(one.counts.support.to_log, (moments.mean, sigma2_of(rows, moments)))
    both = (one.counts.visits > 0) & (other.counts.visits > 0)
    occupancy = policy.occupancy(one.plug_in, one.nu)
    chosen = np.where(both, one.counts.support.to_log(occupancy), 0.0)
    n = np.where(both, one.counts.visits, 0.0)
    usual = n / np.maximum(n.sum(axis=1, keepdims=True), 1.0)
    contrast = chosen - chosen.sum(axis=1, keepdims=True) * usual  # sums to nothing in every state
    noise = np.where(both, variance / np.maximum(other.counts.visits, 1), 0.0)
    return Found(float((contrast * found).sum()), float((contrast * mean).sum()), contrast, noise)
