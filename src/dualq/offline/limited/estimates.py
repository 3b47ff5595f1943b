"""What a policy costs, from a log: an estimate with its standard error, and bounds that are proven.

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
Proven    by the certificate (docs/certificate.md) with the reward rho = -z c, z = 1 for "at most", -1 for "at least":
          the floor of rho's value is what the limit must reckon with. Of a cost that is known, only the successors are
          random: the noise of event 1 is that of alpha f(s'), and none where there is no reference f. The events of the
          certificate are about the rows of pairs, and no policy enters them: so on them the bounds of every policy
          hold at once, also of one that was chosen for its bounds.
Safest    The floor is the fixed point of V = max(pair floors, the worst) over the policy's actions, each pair's floor
          increasing in V: so the policy whose floor is highest is found by policy iteration, in every state at once.
Charged   Let V be the safest policy's floor and q(s, a) the pairs' floors at V. In the careful model with the reward
              rho' = q - alpha P~ V
          V is optimal, and the safest policy too: rho' is rho less what each pair's doubt takes off the floor. A
          program that limits -z rho' in the place of c keeps away from pairs of which little can be promised, and the
          tightest such limit that can be met has the safest policy.

    docs      here
    rho       reward of the counts that a Proven is made of
    d         average occupancy, (1 - alpha) lambda
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dualq.logs import Counts
from dualq.model import MDP, AnyLimit, Limit, TablePolicy
from dualq.offline.careful.model import Careful, Estimate, careful_model
from dualq.offline.careful.pooling import ROUNDING, Rows
from dualq.offline.careful.selection_bias import (
    EVERY_PART_ALIKE,
    HOW_LUCKY,
    found_again,
    halves,
    kept_of,
    sampled,
    sigma2_of,
)
from dualq.proof import (
    FACTORS,
    FIRST_ROWS,
    ROUNDS,
    SHARES,
    Bound,
    Model,
    Wanted,
    balls_of,
    evidence_of,
    floor_of,
    largest_gap,
    merged_counts,
    models_of,
    noise_of,
    paying_counts,
    plug_in_value,
    references_of,
    scaled_counts,
    sup_over_ball,
    turned_counts,
    undominated,
    value_range_of,
)
from dualq.solvers import solve

Array = np.ndarray

ONCE_OR_TWICE = 2.0  # 1.96 errors are then 2.8 events; where so many are expected none is seen in 6 % of logs


@dataclass(frozen=True, eq=False)
class Asked:
    """A limit on what is learned from a log; its cost is an array over the careful model's pairs."""

    limit: AnyLimit
    column: str | None = None  # of the log, where the cost is known by its rows alone
    scale: float = 1.0  # 1 / (1 - alpha) for a discounted total: bounds are this many times those of the average

    @property
    def name(self) -> str:
        """The limit's."""
        return self.limit.name

    @property
    def bounded(self) -> bool:
        """Whether it depends on how often states are visited, by a sum over pairs: then bounds can be proven."""
        return isinstance(self.limit, Limit)

    @property
    def span(self) -> float:
        """How far the costs of the pairs are apart; 1 where they are all equal, or the limit is on no cost."""
        return (float(np.ptp(self.limit.cost)) or 1.0) if isinstance(self.limit, Limit) else 1.0


# ---- estimates


@dataclass(frozen=True, eq=False)
class Estimates:
    """What policies cost on average, as estimated."""

    counts: Counts = field(repr=False)
    careful: Careful = field(repr=False)
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
        paid = paying_counts(counts, asked.column)
        mean = paid.reward_sum / paid.n
        squares = paid.reward_square_sum - paid.reward_sum * mean
        squares = np.where(squares > ROUNDING * paid.reward_square_sum, squares, 0.0)
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
        mdp = self.plug_in
        return MDP(mdp.transitions, limit.on(mdp), mdp.discount, available=mdp.available)

    def totals(self, limit: Limit, policy: TablePolicy) -> Array:
        """W (S,): the discounted cost from each state."""
        return TablePolicy(policy.matrix).value(self.paying(limit))

    def moved(self, limit: Limit, policy: TablePolicy) -> Limit:
        """The limit with costs that give the policy in the careful model what it costs in the plug-in model."""
        W, mdp = self.totals(limit, policy), self.careful.mdp
        difference = ((self.plug_in.transitions - mdp.transitions) @ W).reshape(limit.cost.shape)
        return Limit(limit.name, limit.on(mdp) + mdp.discount * difference, limit.sense, limit.bound)

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
        kept = self.kept(asked, apart)
        own = np.sqrt(kept.value)
        rows = (1.0 - own) * logged.error_or_nan + own * claimed.error_or_nan  # of the same rows: no cancelling
        parts = rows, kept.error_or_nan * apart, HOW_LUCKY * (1.0 - kept.value) * apart
        return Estimate(logged.value + kept.value * apart, float(np.linalg.norm(parts)))

    def kept(self, asked: Asked, apart: float) -> Estimate:
        """The part of a difference from the logged cost that is found again in rows which had no say in the choice."""
        if asked.name not in self._answers:
            ways = (self._halves, self._halves[::-1]) if self._halves else ()
            asks = [[_found(one, other, asked, policy) for policy in one.chosen(asked)] for one, other in ways]
            self._answers[asked.name] = [_both_ways(*both) for both in zip(*asks, strict=True)]
        answers = self._answers[asked.name]
        if asked.limit.sign * apart < 0.0:
            return kept_of(answers)
        kept, error = found_again(answers[:1], EVERY_PART_ALIKE)
        return Estimate(1.0, float(np.hypot(error, kept - 1.0)))

    def chosen(self, asked: Asked) -> tuple[TablePolicy, TablePolicy]:
        """Policies that these rows would choose: for what they earn, and for the limited cost alone."""
        mdp, limit = self.plug_in, self.own(asked)[1]
        alone = MDP(mdp.transitions, -limit.sign * limit.on(mdp), mdp.discount, available=mdp.available)
        return self.careful.policy, solve(alone).primal_policy

    @cached_property
    def _answers(self) -> dict[str, list[tuple[float, float, float]]]:
        return {}

    @cached_property
    def _halves(self) -> tuple[Estimates, ...]:
        """What each half of the rows would have learned and estimated; none where a half has no rows."""
        careful, start = self.careful, self.start
        dealt = halves(self.counts, np.random.default_rng(0))
        if min(half.total for half in dealt) == 0:
            return ()
        learned = [careful_model(half, careful.mdp.discount, start, careful.pessimism) for half in dealt]
        return tuple(Estimates(half, own, start) for half, own in zip(dealt, learned, strict=True))

    def claimed(self, asked: Asked, policy: TablePolicy) -> Estimate:
        """What a limit on an average reaches on the log's own frequencies."""
        limit, alpha = asked.limit, self.careful.mdp.discount
        assert isinstance(limit, Limit)
        usual = self.totals(limit, self.careful.behaviour)
        known = sampled(self.costs(asked), self.paying(limit), TablePolicy(policy.matrix), self.nu, usual)
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
        best_gain, kept, own = best - careful.logged.value, careful.kept, np.sqrt(careful.kept)
        rows = (1.0 - own) * careful.logged.error_or_nan + own * best_error
        luck = np.sqrt(max(careful.expected.error_or_nan**2 - rows**2, 0.0)) / best_gain if best_gain > 0.0 else 0.0
        rows = (1.0 - own) * careful.logged.error_or_nan + own * error
        return Estimate(careful.logged.value + kept * gain, float(np.hypot(rows, luck * gain)))

    def _claimed(self, policy: TablePolicy) -> tuple[float, float]:
        """The value in the pooled model without the penalty, and the error that the rows of each pair leave."""
        careful = self.careful
        occupancy = TablePolicy(policy.matrix).occupancy(careful.mdp, self.nu)
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


def _found(one: Estimates, other: Estimates, asked: Asked, policy: TablePolicy) -> Found:
    """On the pairs that both have seen, with W, occupancy and usual frequencies of the half that chose."""
    mine, limit = one.own(asked)
    W = one.totals(limit, policy)
    rows, others = one.costs(mine), other.costs(other.own(asked)[0])
    moments, found = rows.moments(W), other.counts.support.to_log(others.moments(np.append(W, 0.0)).mean)
    mean, variance = map(one.counts.support.to_log, (moments.mean, sigma2_of(rows, moments)))
    both = (one.counts.visits > 0) & (other.counts.visits > 0)
    occupancy = TablePolicy(policy.matrix).occupancy(one.plug_in, one.nu)
    chosen = np.where(both, one.counts.support.to_log(occupancy), 0.0)
    n = np.where(both, one.counts.visits, 0.0)
    usual = n / np.maximum(n.sum(axis=1, keepdims=True), 1.0)
    contrast = chosen - chosen.sum(axis=1, keepdims=True) * usual  # sums to nothing in every state
    noise = np.where(both, variance / np.maximum(other.counts.visits, 1), 0.0)
    return Found(float((contrast * found).sum()), float((contrast * mean).sum()), contrast, noise)


# ---- what is proven


class Proven:
    """Bounds of the average of one reward rho per step, of any number of policies, all valid at once."""

    def __init__(
        self, blocks: Sequence[Counts], discount: float, start: Array, delta: float, known: Array | None = None
    ):
        self.blocks, self.alpha, self.start, self.delta, self.known = list(blocks), float(discount), start, delta, known
        self.merged = merged_counts(self.blocks)
        self.low, self.high = value_range_of(None, self.merged, self.alpha)
        if known is None:
            self.models = models_of(self.blocks, self.merged, self.alpha, delta)
        else:
            self.models = _known_models(self.blocks, self.merged, self.alpha, delta, known)
        self.everything = np.ones(self.merged.shape, bool)
        self.supported = self.merged.visits > 0

    def of(self, policy: Array) -> tuple[float, float]:
        """(low, high) of a policy (S, A)."""
        floor = max(float(self.start @ bound.value) for bound in self._bounds(policy, 1.0))
        ceiling = min(-float(self.start @ bound.value) for bound in self._bounds(policy, -1.0))
        return (1.0 - self.alpha) * floor, (1.0 - self.alpha) * ceiling

    def floor(self, policy: Array) -> float:
        """The low end alone."""
        return (1.0 - self.alpha) * max(float(self.start @ bound.value) for bound in self._bounds(policy, 1.0))

    def _bounds(self, policy: Array, sign: float) -> list[Bound]:
        f = sign * plug_in_value(self.models["behaviour"], policy, 0.5 * (self.low + self.high))
        worst = self.low if sign > 0.0 else -self.high
        return [floor_of(model, f, worst, self.everything, policy, sign) for model in self.models.values()]

    @cached_property
    def safest(self) -> tuple[Array, Array, Array]:
        """(policy (S, A), V (S,), q (S, A)): the highest floor that a policy has, and the pairs' floors at V."""
        found = [self._best(model) for model in self.models.values()]
        return max(found, key=lambda one: float(self.start @ one[1]))

    def _best(self, model: Model) -> tuple[Array, Array, Array]:
        """Policy iteration: each round takes the actions whose pairs have the highest floors at the last V."""
        some = np.asarray(self.supported.any(axis=1))
        policy = np.where(some[:, None], self.supported, 1.0)
        policy /= policy.sum(axis=1, keepdims=True)
        V, q = np.zeros(0), np.zeros(0)
        for _ in range(ROUNDS):
            f = plug_in_value(model, policy, 0.5 * (self.low + self.high))
            V = floor_of(model, f, self.low, self.everything, policy, 1.0).value
            q = self.pairs(model, V)
            now = (policy * np.where(policy > 0.0, q, 0.0)).sum(axis=1)
            better = some & (q.max(axis=1) > now + 1e-9 * (self.high - self.low))
            if not better.any():
                break
            policy = np.where(better[:, None], np.eye(q.shape[1])[q.argmax(axis=1)], policy)
        return policy, V, q

    def pairs(self, model: Model, V: Array) -> Array:
        """(S, A) the floors of rho + alpha P V: of logged pairs; the worst, where nothing is known."""
        ev, wanted = model.evidence, self.supported.ravel()
        V = np.append(V, 0.0)
        weights, rest = np.empty(ev.columns.size), np.empty(wanted.size)
        share = model.visits / np.maximum(model.n, 1.0)
        _, largest = largest_gap(share, V, model.references, undominated(V, model.references, ev.possible))
        sup = sup_over_ball(
            ev.indptr, ev.columns, model.around, model.eps, model.anchor, V, wanted, largest, weights, rest
        )
        q = np.where(wanted, model.centre - model.noise[0] / np.maximum(model.n, 1.0) - model.alpha * sup, self.low)
        return np.maximum(q, self.low).reshape(self.supported.shape)

    def charged(self, mdp: MDP) -> Array:
        """rho' (S, A) over the pairs of the careful model: what the safest policy's floor reckons each pair with."""
        _, V, q = self.safest
        support = self.merged.support
        V_all = support.to_model(V)
        # states never left stay where they are
        q_all = support.to_model(np.where(self.supported, q, V[:, None]))
        rho = q_all - self.alpha * (mdp.transitions @ V_all).reshape(mdp.rewards.shape)
        return np.where(mdp.available, rho, 0.0)

    def wanted(self, policy: Array, occupancy: Array, most: int) -> tuple[Wanted, ...]:
        """The pairs that a policy's floor suffers from most: what their doubt takes off the average."""
        floors = [bound.value for bound in self._bounds(policy, 1.0)]
        V, model = max(zip(floors, self.models.values(), strict=True), key=lambda pair: float(self.start @ pair[0]))
        ev, V_all = model.evidence, np.append(V, 0.0)
        expected = model.r + model.alpha * ev.per_pair(model.p * V_all[ev.columns])
        short = expected.reshape(policy.shape) - self.pairs(model, V)
        takes = (1.0 - self.alpha) * np.where(self.supported, occupancy * short, 0.0).ravel()
        A, n = policy.shape[1], self.merged.visits.ravel()
        order = [int(i) for i in np.argsort(-takes, kind="stable")[:most] if takes[i] > 0.0]
        states, actions = self.merged.states, self.merged.actions
        return tuple(
            Wanted(states[i // A], actions[i % A], int(n[i]), int(max(3 * n[i], FIRST_ROWS)), 0.5 * float(takes[i]))
            for i in order
        )

    def rows_needed(self, least: float) -> int | None:
        """About how many rows like these would let some policy's floor reach `least`; None where 4^8 times do not."""

        def enough(factor: int) -> bool:
            scaled = [scaled_counts(block, factor) for block in self.blocks]
            more = Proven(scaled, self.alpha, self.start, self.delta, self.known)
            return (1.0 - self.alpha) * float(self.start @ more.safest[1]) >= least

        first = bisect_left(FACTORS, True, key=enough)
        return FACTORS[first] * self.merged.total if first < len(FACTORS) else None


def _known_models(blocks: Sequence[Counts], merged: Counts, alpha: float, delta: float, rho: Array) -> dict[str, Model]:
    """As the certificate's, for a reward that is known: only the successors are noise."""
    ev = evidence_of(blocks, merged)
    quiet = ev._replace(r=np.zeros_like(ev.r), scatter=np.zeros_like(ev.scatter))
    visits, n = ev.per_pair(ev.n), ev.n.sum(axis=0)
    N = visits.sum(axis=0)
    around, eps = balls_of(ev, SHARES["transitions"] * delta)
    half = 0.5 * float(np.ptp(rho)) or 1.0
    models = {}
    for name, references in references_of(blocks, ev, alpha).items():
        level = np.log(2.0 * rho.size / (SHARES[name] * delta))
        noise = np.zeros((2, N.size))
        if references.any():
            noise, _ = noise_of(quiet, references, alpha, (-half, half), level, merged.total)
        share = visits / np.maximum(N, 1.0)
        anchor = (share[:, ev.pair] * references[:, ev.columns]).sum(axis=0)
        future = alpha * ev.per_pair((ev.n * references[:, ev.columns]).sum(axis=0)) / np.maximum(N, 1.0)
        p, r = n / np.maximum(N, 1.0)[ev.pair], rho.ravel()
        none = np.zeros(N.size)
        models[name] = Model(ev, alpha, N, visits, p, r, around, eps, references, anchor, r + future, noise, none)
    return models


def proven_of(asked: Asked, blocks: Sequence[Counts], discount: float, start: Array, delta: float) -> Proven:
    """The bounds of a limit's cost, as those of rho = -z c."""
    limit = asked.limit
    assert isinstance(limit, Limit)
    if asked.column is not None:
        return Proven(
            [turned_counts(paying_counts(block, asked.column), -limit.sign) for block in blocks], discount, start, delta
        )
    rho = -limit.sign * blocks[0].support.to_log(limit.cost) / asked.scale
    paying = [_known(block, rho) for block in blocks]
    return Proven(paying, discount, start, delta, rho)


def cost_interval(asked: Asked, low: float, high: float) -> tuple[float, float]:
    """Bounds of the cost, in the limit's units, from those of rho."""
    ends = (-asked.limit.sign * asked.scale * low, -asked.limit.sign * asked.scale * high)
    return min(ends), max(ends)


def _known(counts: Counts, rho: Array) -> Counts:
    r = rho[counts.s, counts.a]
    return dataclasses.replace(
        counts,
        reward_sum=counts.n * r,
        reward_square_sum=counts.n * r * r,
        reward_range=(float(rho.min()), float(rho.max())),
        range_known=True,
    )
