"""Policies that a log can certify, where it can say little of the best one.

The best policy of the careful model may go where rows are few: its floor then says nothing, though the log knows other
policies well. Beside it stand

Well known   the best policy that keeps to pairs with at least k rows, in the model of these pairs alone; where a state
             has none such, to its pair with the most rows. Of all k on the ladder the one whose floor is highest.
Foreseen     what the first eighth of the rows alone takes for the best, on pairs with at least k of these rows
             (proof/prior.py): nothing of it was chosen from the rows that certify it, but for what was done most in
             states that the first rows never left, which is paid for. With many states, and some hundred rows of each,
             this is the one of which something can be proven.
Safest       the policy whose pairs have the highest floors (proof/costs.py)

Of the first two kinds the one with the highest floor is shown. All are chosen by looking at their bounds, and that is
allowed: the events of the certificate hold for all policies at once (docs/certificate.md), so that these bounds and the
certificate's hold together, on the same delta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dualq._version import __version__
from dualq.logs import Counts
from dualq.model import TablePolicy
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.solving import on_log
from dualq.offline.stages import Proven
from dualq.proof import (
    LADDER,
    AverageBounds,
    Certificate,
    Ledger,
    centre_of,
    paid_at_the_end,
    prior_of,
    says_something,
)
from dualq.solvers import solve

Array = np.ndarray

LARGE = 50_000  # entries of the counts, from which on only policies that were foreseen are tried ...
LARGEST = 200_000  # ... and from which on even that takes several times as long as learning


@dataclass(frozen=True, eq=False)
class Alternative:
    """A policy that can be certified better than the recommended one.

    rows       it keeps to pairs with at least so many rows; None for the safest policy
    first      of the log's first rows, so many, which alone it comes from; None where it comes from all
    policy     on the log's states
    expected   what it is expected to earn from the start
    lower, upper   its true value is between these, together with all that the certificate says
    less       what it is expected to earn less than the recommended policy
    """

    rows: int | None
    policy: TablePolicy = field(repr=False)
    expected: Estimate
    lower: float
    upper: float
    less: float
    first: int | None = None


def wanting(promise: Certificate) -> bool:
    """Whether the floor of the recommended policy says too little: next to nothing, or less than the log's own."""
    return promise.method == "proven" and (not promise.informative or promise.lower < promise.behaviour[0])


def alternatives_of(fit: Proven, expected: Estimate) -> tuple[Alternative, ...]:
    """The policies beside the recommended one, whose value is expected to be this; none where it has a floor."""
    solved, promise = fit.solved, fit.certificate
    counts = solved.modelled.counted.counts
    if promise is None or solved.asked or counts.n.size > LARGEST or not wanting(promise):
        return ()
    if fit.version != __version__ or centre_of(counts):  # the certificate's events are not those that follow
        return ()
    bounds, estimates, alpha = _bounds(fit), solved.modelled.estimates, solved.modelled.discount

    def judged(rows: int | None, policy: TablePolicy, first: int | None = None) -> Alternative:
        low, high = (end / (1.0 - alpha) for end in bounds.of(policy.matrix))
        earns = estimates.value(counts.support.policy_to_model(policy, solved.modelled.careful.policy))
        return Alternative(rows, policy, earns, low, high, expected.value - earns.value, first)

    known = [judged(rows, policy) for rows, policy in _well_known(counts, alpha)] if counts.n.size <= LARGE else []
    known += [judged(rows, policy, first) for rows, policy, first in _foreseen(counts, bounds)]
    safest = judged(None, TablePolicy(bounds.safest[0], counts.states, counts.actions))
    best = [max(known, key=lambda one: one.lower)] if known else []
    others = best if best and np.array_equal(best[0].policy.matrix, safest.policy.matrix) else [*best, safest]
    return tuple(
        one for one in others if one.lower > promise.lower and says_something(one.lower, one.upper, promise.value_range)
    )


def _bounds(fit: Proven) -> AverageBounds:
    """What is proven of any policy, on the events of the certificate: the same shares of the same delta."""
    modelled = fit.solved.modelled
    counted = modelled.counted
    ledger = Ledger((1.0 - fit.confidence) / fit.looks, "value")
    values = fit.value_range or paid_at_the_end(counted.counts)
    prior = prior_of(counted.blocks, counted.counts, modelled.discount, counted.available)
    words = {"prior": prior, "measured": counted.measured, "value_range": values, "beside": True}
    return AverageBounds(counted.blocks, modelled.discount, counted.start, ledger, **words)


def _foreseen(counts: Counts, bounds: AverageBounds) -> Iterator[tuple[int, TablePolicy, int]]:
    """(k, the policy of the first rows, on pairs with at least k of them, how many rows these are)."""
    if bounds.own is None or bounds.own.prior is None:
        return
    prior, never = bounds.own.prior, counts.visits.sum(axis=1) == 0
    usual = np.eye(counts.shape[1])[np.where(prior.allowed, counts.visits, -1).argmax(axis=1)]
    for rows, policy in prior.cheapest(usual).items():
        yield rows, TablePolicy(policy, counts.states, counts.actions, never), bounds.own.parts[0].total


def _well_known(counts: Counts, alpha: float) -> Iterator[tuple[int, TablePolicy]]:
    """(k, the best policy on pairs with at least k rows), for every k that leaves out more pairs."""
    n, before = counts.visits, counts.visits > 0
    for rows in LADDER[1:]:
        thick = n >= rows
        kept = np.where(thick.any(axis=1, keepdims=True), thick, (n > 0) & (n == n.max(axis=1, keepdims=True)))
        if np.array_equal(kept, before):
            continue
        before = kept
        yield rows, on_log(solve(counts.where(kept[counts.s, counts.a]).mdp(alpha)).primal_policy, counts)
