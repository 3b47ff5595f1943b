"""What it costs to certify a policy that was found in the same log: the prior over policies, and its price.

The first part of the rows says which actions look best; a policy pi that does much the same is cheap. In every state
alone, with q the value of an action there less its error, s the error of a difference of two, and S states,

    W(pi) = prod_s [ (1 - e) w(pi(s)) + e / 2A ]       w(a) ~ exp(-SHARP (max q - q(a)) / s)       e = 1 / (S + 10)

for actions that are taken for sure, and W the mean of several such, of which all but one know only pairs that had so
and so many of the first rows, or have all of w on its largest: so policies that keep to well-known pairs are cheap too,
and what the first rows alone take for the best costs about 8, however many states there are (and log A more for each
that they never left). The other half of e is for those at random: k actions with chances that are multiples of
1 / GRID, all k alike, all sets of k alike, all such chances alike. Other chances have no price. W adds up to 1 at most
over all policies, so that all of them are certified at once if each pays log 1 / W(pi).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from dualq.logs import Counts
from dualq.proof.confidence_sets import plug_in
from dualq.proof.evidence import evidence_of
from dualq.solvers import solve

Array = np.ndarray

GRID = 32  # chances of actions are multiples of 1 / GRID
SHARP = 1.5  # how much an action that is one error worse is trusted less
PSEUDO_ROWS = 2.0
LEAST = (4, 12, 40, 125, 400, 1250)  # of the first rows: what a well-known pair may be
WELL_KNOWN = 0.14  # of W, for policies that keep to such, all kinds alike
FORESEEN = 0.01  # of W, for those that the first rows alone give: a share so small costs them little more than others


class Prior:
    """W, from the first rows of a log; `allowed` (S, A) are the actions that there are."""

    def __init__(self, first: Counts, merged: Counts, alpha: float, allowed: Array):
        self.allowed, self.actions = allowed, allowed.sum(axis=1)
        kept = _kinds_of_pairs(first.visits)
        seen = np.any(first.visits, axis=1, keepdims=True)
        likely = np.array([likely_actions(_of_pairs(first, some), merged, alpha, allowed) for some in kept.values()])
        best = np.eye(allowed.shape[1])[likely.argmax(axis=2)]
        self.likely = np.concatenate([likely, np.where(seen, best, likely)])
        self.foreseen, self.seen = dict(zip(kept, best, strict=True)), seen
        shares = [WELL_KNOWN / max(len(kept) - 1, 1)] * (len(kept) - 1) + [FORESEEN / len(kept)] * len(kept)
        self.log_shares = np.log([1.0 - sum(shares), *shares])
        # where there is one action, or where rows only ever ended, there is nothing to choose; an end that the first
        # rows did not show is paid for, or else the price would depend on later rows
        shown, still = (counts.support.to_log(counts.over) for counts in (first, merged))
        ends = shown & still & ~merged.visits.any(axis=1)
        self.choices = (self.actions > 1) & ~ends

    def cheapest(self, otherwise: Array) -> dict[int, Array]:
        """{rows: (S, A)} what the first rows alone take for the best, on pairs with at least so many of them.

        otherwise   (S, A) where the first rows have nothing: there all actions cost the same
        """
        return {rows: np.where(self.seen, policy, otherwise) for rows, policy in self.foreseen.items()}

    def price(self, policy: Array) -> float:
        """log 1 / W(pi) of a policy (S, A); infinite where its chances are not on the grid."""
        e, sure = 1.0 / (len(policy) + 10.0), policy >= 1.0 - 1e-12
        for_sure = (1.0 - e) * (self.likely * sure).sum(axis=2) + 0.5 * e / self.actions
        mixed = np.log(0.5 * e) - _log_mixtures(policy, self.actions)
        logs = np.where(sure.any(axis=1), np.log(for_sure), mixed)[:, self.choices].sum(axis=1)
        on_grid = np.abs(GRID * policy - np.round(GRID * policy)) <= 1e-9
        priced = bool((on_grid & (self.allowed | (policy == 0.0)))[self.choices].all())
        return float(-np.logaddexp.reduce(logs + self.log_shares)) if priced else float(np.inf)


def on_grid(policy: Array) -> Array:
    """The nearest policy (S, A) that has a price: chances as multiples of 1 / GRID, those most cut off rounded up."""
    down = np.floor(GRID * policy + 1e-9)
    missing = np.round(GRID - down.sum(axis=1)).astype(int)
    rank = np.argsort(np.argsort(down - GRID * policy, axis=1, kind="stable"), axis=1, kind="stable")
    return (down + (rank < missing[:, None])) / GRID


def _kinds_of_pairs(visits: Array) -> dict[int, Array]:
    """{rows: (S, A)}: all pairs, and those with more and more rows; where a state has none, the one it has most of."""
    kept, most = {1: visits > 0}, (visits > 0) & (visits == visits.max(axis=1, keepdims=True))
    for rows in LEAST:
        thick = visits >= rows
        some = np.where(thick.any(axis=1, keepdims=True), thick, most)
        if not np.array_equal(some, list(kept.values())[-1]):
            kept[rows] = some
    return kept


def _of_pairs(first: Counts, kept: Array) -> Counts:
    """The rows of some pairs."""
    return first.where(kept[first.s, first.a])


def _log_mixtures(policy: Array, actions: Array) -> Array:
    """(S,) log of how many ways there are to choose at random among as many actions as the policy does."""
    used = np.maximum((policy > 0.0).sum(axis=1), 2)
    among = np.maximum(actions, used)
    supports = gammaln(among + 1) - gammaln(used + 1) - gammaln(among - used + 1)
    chances = gammaln(GRID) - gammaln(used) - gammaln(GRID - used + 1)
    return np.log(np.maximum(among - 1, 1)) + supports + chances


def likely_actions(first: Counts, merged: Counts, alpha: float, allowed: Array) -> Array:
    """(S, A) how likely each action is to be the one, judged by the first rows; each row sums to 1."""
    S, A = merged.shape
    V = np.append(first.support.to_log(solve(plug_in(first, alpha)).V), 0.0)
    ev = evidence_of([first], merged)
    n, total = ev.n[0], ev.per_pair(ev.n[0])
    q = ev.per_pair(ev.r[0] + alpha * n * V[ev.columns]) / np.maximum(total, 1.0)
    off = ev.r[0] / np.maximum(n, 1.0) + alpha * V[ev.columns] - q[ev.pair]
    squares = ev.per_pair(ev.scatter[0] + n * off**2)
    pooled = squares.sum() / max(total.sum(), 1.0)
    error = np.sqrt((squares + PSEUDO_ROWS * pooled) / (total + PSEUDO_ROWS) / np.maximum(total, 1.0)).reshape(S, A)
    seen = (total > 0.0).reshape(S, A) & allowed
    careful = q.reshape(S, A) - error
    best = np.where(seen, careful, -np.inf).argmax(axis=1)[:, None]
    both = np.hypot(error, np.take_along_axis(error, best, axis=1))
    gap = np.maximum(np.take_along_axis(careful, best, axis=1) - careful, 0.0)
    weight = np.where(seen, np.exp(-SHARP * gap / np.maximum(both, 1e-300)), 0.0)
    weight = np.where(seen.any(axis=1, keepdims=True), weight, allowed)
    return weight / weight.sum(axis=1, keepdims=True)
