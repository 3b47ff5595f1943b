"""Bounds of an average per step, of a reward or of a cost: for any number of policies, all valid at once.

Proven    A cost c is a reward rho = -z c with a range of its own, z = 1 where it must be small ("<="), -1 where large:
          the floor of rho's value is what a limit must reckon with. The events of the certificate are about the rows of
          pairs, and no policy enters them: so on them the bounds of every policy hold at once, also of one that was
          chosen for its bounds (docs/certificate.md). Of the two references the better one is taken, at the start.
Own       The event of the policy's own value, with a cost for the reward, holds for all policies, each at its price.
Known     Of a cost that is known exactly (a share of time, of an action) only the successors are random: the noise of
          event 1 is that of alpha f(s'), and none where there is no reference f.
Safest    The floor is the fixed point of V = max(pair floors, the worst) over the policy's actions, each pair's floor
          increasing in V: so the policy whose floor is highest is found by policy iteration, in every state at once.
Charged   Let V be the safest policy's floor and q(s, a) the pairs' floors at V. In a model with P~ and the reward
              rho' = q - alpha P~ V
          V is optimal, and the safest policy too: rho' is rho less what each pair's doubt takes off the floor. A
          program that limits -z rho' in the place of c keeps away from pairs of which little can be promised, and the
          tightest such limit that can be met has the safest policy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dualq.base import ModelError, door
from dualq.logs import Counts
from dualq.model import MDP, SIGNS, TablePolicy, checked_discount
from dualq.proof.certificate import Wanted, rows_needed, wanted_pairs
from dualq.proof.confidence_sets import ConfidenceSet, confidence_sets, known_confidence_sets
from dualq.proof.evidence import merged_counts, paying_counts, scaled_counts, turned_counts, value_range_of
from dualq.proof.floors import ROUNDS, Bound, floor_of, pair_floors, plug_in_value
from dualq.proof.ledger import Ledger
from dualq.proof.own_value import OwnEvent, coarse, foresighted, prior_of, shared_out
from dualq.proof.prior import Prior
from dualq.proof.questions import Question, Weights, check_confidence, checked_policy, checked_start

Array = np.ndarray


@door
def cost_bounds(
    counts: Counts | Sequence[Counts],
    policy: TablePolicy,
    cost: str,
    discount: float,
    start: Weights,
    confidence: float = 0.95,
    sense: str = "<=",
) -> tuple[float, float]:
    """(low, high) of what a policy costs a step on average: (1 - discount) times the discounted total, from the start.

    sense   which end is to be close: the high one for "<=", the low one for ">="

    A cost is a reward with a range of its own; the policy may be chosen from the same log. Several intervals, or an
    interval and a certificate, hold together with the sum of what each leaves open: give each its part.
    """
    blocks = [counts] if isinstance(counts, Counts) else list(counts)
    if sense not in SIGNS:
        raise ModelError(f"sense is {sense!r}; it must be '<=' or '>='")
    check_confidence(confidence)
    discount, merged = checked_discount(discount), merged_counts(blocks)
    eta, ledger = checked_start(start, merged), Ledger(1.0 - confidence)
    prior = prior_of(blocks, merged, discount)
    return cost_column(blocks, cost, sense, discount, eta, ledger, prior).of(checked_policy(policy, merged))


def cost_column(
    blocks: Sequence[Counts],
    cost: str,
    sense: str,
    discount: float,
    start: Array,
    ledger: Ledger,
    prior: Prior | None = None,
    measured: str = "given",
) -> AverageBounds:
    """The bounds of a column of the log: a cost that is known by its rows alone.

    prior, measured   for those of a policy's own value: the price of policies, and where the start comes from
    """
    turned = [turned_counts(paying_counts(block, cost), -SIGNS[sense]) for block in blocks]
    return AverageBounds(turned, discount, start, ledger, -SIGNS[sense], prior=prior, measured=measured)


def known_cost(
    blocks: Sequence[Counts], cost: Array, sense: str, discount: float, start: Array, ledger: Ledger
) -> AverageBounds:
    """The bounds of a cost (S, A) that is known exactly."""
    rho = -SIGNS[sense] * cost
    return AverageBounds([_paying(block, rho) for block in blocks], discount, start, ledger, -SIGNS[sense], rho)


def _paying(counts: Counts, rho: Array) -> Counts:
    """The counts with a known reward (S, A) in the place of theirs."""
    r = rho[counts.s, counts.a]
    return dataclasses.replace(
        counts,
        reward_sum=counts.n * r,
        reward_square_sum=counts.n * r * r,
        reward_range=(float(rho.min()), float(rho.max())),
        range_known=True,
    )


class AverageBounds:
    """Bounds of the average per step of a reward rho, or of a cost c = sign * rho, of all policies at once.

    beside   the event is that of a certificate, which has directions for one start more
    """

    def __init__(
        self,
        blocks: Sequence[Counts],
        discount: float,
        start: Array,
        ledger: Ledger,
        sign: float = 1.0,
        known: Array | None = None,
        prior: Prior | None = None,
        measured: str = "given",
        value_range: tuple[float, float] | None = None,
        beside: bool = False,
    ):
        self.blocks, self.alpha, self.start, self.known = list(blocks), float(discount), start, known
        self.sign, self.delta = sign, ledger.delta
        self.merged = merged_counts(self.blocks)
        self.low, self.high = value_range_of(value_range, self.merged, self.alpha)
        pairs, own = (ledger, None) if prior is None else shared_out(self.blocks, ledger)
        few = coarse(self.blocks)
        if known is None:
            self.sets = confidence_sets(few, self.merged, self.alpha, pairs)
        else:
            self.sets = known_confidence_sets(few, self.merged, self.alpha, pairs, known)
        parts = foresighted(self.blocks)
        self.own = None if own is None or parts is None else OwnEvent(parts, self.merged, prior, own, beside)
        self.measured = measured
        self.found: dict[bytes, tuple[float, float]] = {}  # intervals of policies that were asked for
        self.everything = np.ones(self.merged.shape, bool)
        self.supported = self.merged.visits > 0

    def of(self, policy: Array) -> tuple[float, float]:
        """(low, high) of what a policy (S, A) costs."""
        ends = [self.sign * (1.0 - self.alpha) * end for end in self._interval(policy)]
        return min(ends), max(ends)

    def end(self, policy: Array) -> float:
        """The end that is close, which a limit reckons with: of a cost that must be small its ceiling."""
        return self.sign * self.floor(policy)

    def floor(self, policy: Array) -> float:
        """Of rho, which is to be large."""
        return (1.0 - self.alpha) * self._interval(policy)[0]

    def _interval(self, policy: Array) -> tuple[float, float]:
        """Of the value of rho: by the events of pairs, and by the policy's own value where it has a price."""
        if (key := policy.tobytes()) not in self.found:
            lows, highs = self._bounds(policy, 1.0), self._bounds(policy, -1.0)
            low = max(float(self.start @ bound.value) for bound in lows)
            high = -max(float(self.start @ bound.value) for bound in highs)
            own = None if self.own is None else self.own.interval(self._question(policy), lows, highs)
            self.found[key] = (low, high) if own is None else (max(low, own.ends[0][0]), min(high, own.ends[0][1]))
        return self.found[key]

    def _question(self, policy: Array) -> Question:
        confidence, values = 1.0 - self.delta, (self.low, self.high)
        return Question(policy, self.alpha, self.start, confidence, self.everything, values, False, 0, self.measured)

    @property
    def worst(self) -> float:
        """The cost of which nothing worse is possible."""
        return self.sign * (1.0 - self.alpha) * self.low

    def _bounds(self, policy: Array, sign: float) -> list[Bound]:
        f = sign * plug_in_value(self.sets["optimal"], policy, 0.5 * (self.low + self.high))
        worst = self.low if sign > 0.0 else -self.high
        return [floor_of(one, f, worst, self.everything, policy, sign) for one in self.sets.values()]

    @cached_property
    def safest(self) -> tuple[Array, Array, Array]:
        """(policy (S, A), V (S,), q (S, A)): the highest floor that a policy has, and the pairs' floors at V."""
        found = [self._best(one) for one in self.sets.values()]
        return max(found, key=lambda one: float(self.start @ one[1]))

    def _best(self, model: ConfidenceSet) -> tuple[Array, Array, Array]:
        """Policy iteration: each round takes the actions whose pairs have the highest floors at the last V."""
        some = np.asarray(self.supported.any(axis=1))
        policy = np.where(some[:, None], self.supported, 1.0)
        policy /= policy.sum(axis=1, keepdims=True)
        V, q = np.zeros(0), np.zeros(0)
        for _ in range(ROUNDS):
            f = plug_in_value(model, policy, 0.5 * (self.low + self.high))
            V = floor_of(model, f, self.low, self.everything, policy, 1.0).value
            q = pair_floors(model, V, self.low)
            now = (policy * np.where(policy > 0.0, q, 0.0)).sum(axis=1)
            better = some & (q.max(axis=1) > now + 1e-9 * (self.high - self.low))
            if not better.any():
                break
            policy = np.where(better[:, None], np.eye(q.shape[1])[q.argmax(axis=1)], policy)
        return policy, V, q

    def charged(self, mdp: MDP) -> Array:
        """-z rho' (S, A) over the pairs of a model: what the safest policy's floor reckons each pair to cost."""
        _, V, q = self.safest
        support = self.merged.support
        V_all = support.to_model(V)
        # states never left stay where they are
        q_all = support.to_model(np.where(self.supported, q, V[:, None]))
        rho = q_all - self.alpha * (mdp.transitions @ V_all).reshape(mdp.rewards.shape)
        return self.sign * np.where(mdp.available, rho, 0.0)

    def wanted(self, policy: Array, occupancy: Array, most: int) -> tuple[Wanted, ...]:
        """The pairs that a policy's floor suffers from most: what their doubt takes off the average."""
        floors = [bound.value for bound in self._bounds(policy, 1.0)]
        V, model = max(zip(floors, self.sets.values(), strict=True), key=lambda pair: float(self.start @ pair[0]))
        ev, V_all = model.evidence, np.append(V, 0.0)
        expected = model.r + model.alpha * ev.per_pair(model.p * V_all[ev.columns])
        short = expected.reshape(policy.shape) - pair_floors(model, V, self.low)
        takes = (1.0 - self.alpha) * np.where(self.supported, occupancy * short, 0.0)
        return wanted_pairs(self.merged, takes.ravel(), most)

    def rows_needed(self, bound: float) -> int | None:
        """About how many rows like these would let some policy keep to a bound; None where 4^8 times do not."""

        def enough(factor: int) -> bool:
            scaled = [scaled_counts(block, factor) for block in self.blocks]
            ledger = Ledger(self.delta, "with more rows")
            more = AverageBounds(scaled, self.alpha, self.start, ledger, self.sign, self.known)
            return (1.0 - self.alpha) * float(self.start @ more.safest[1]) >= self.sign * bound

        return rows_needed(self.merged.total, enough)
