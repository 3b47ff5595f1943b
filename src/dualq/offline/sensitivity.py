"""How strong a hidden cause would have to be for a gain to be gone: the marginal sensitivity model.

No test of a log sees what the decider knew and the state lacks. What can be said is how strong it would have to be.

Model     In state s the log took action a with frequency b. Whoever decided may have known more, so that the odds of a
          differed between rows by a factor of up to Gamma from b's (Tan 2006). The outcomes x = r + alpha V(s') that a
          brings to all, not only to those for whom it was chosen, are then those of the log with weights w on its rows:
              b + (1 - b)/Gamma  <=  w  <=  b + (1 - b) Gamma,        mean of w = 1
Worst     With l and u for the two ends, the least mean of w x puts u on the lowest rows and l on the others:
              T(x) = l mean(x) + (1 - l) mean of the lowest share (1 - l)/(u - l) of x
          One step: this is the answer. More steps: V = sum_a pi(a|s) T(r + alpha V(s')), the worst of every pair, by
          policy iteration on the weights: fixed weights make a chain, which is solved; its V sorts the rows anew
Rewards   of the rows that lead from s by a to one s' are stood for by two values with their mean and variance
Gives     the loss L(Gamma) = V(1) - V(Gamma) at the start, which grows with Gamma; and the Gamma at which it reaches
          the expected gain, and what is proven of it
What the log did itself earned what it earned, whatever was behind it: that stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dualq.logs import Counts
from dualq.model import solve_chain

Array = np.ndarray

LARGE = 50_000  # entries of counts beyond which a page does not ask
STRONGEST = 100.0  # beyond it a decision is practically foretold by what is hidden
ROUNDS = 50


@dataclass(frozen=True)
class Sensitivity:
    """By which factor a hidden cause must change the odds of decisions before it could explain a gain; None: above 100.

    gone       the expected gain could be nothing
    unproven   the gain could be less than what chance alone leaves open; None where nothing was proven, too
    """

    gone: float | None
    unproven: float | None


def sensitivity(
    counts: Counts, policy: Array, start: Array, discount: float, gain: float, proven: float | None
) -> Sensitivity:
    """Of a policy (S, A), which is expected to earn `gain` more than the log, and at least `proven`."""
    worst = Worst(counts, policy, start, discount)
    reached = worst.reached(gain) if gain > 0.0 else 1.0
    return Sensitivity(reached, None if proven is None or proven <= 0.0 else worst.reached(proven))


class Worst:
    """The least that a policy may be worth under a hidden cause of a given strength."""

    def __init__(self, counts: Counts, policy: Array, start: Array, discount: float):
        S, A = counts.shape
        self.start, self.alpha, self.shape = start, discount, (S, A)
        pair, s_next, n, r = _atoms(counts)
        used = policy.ravel()[pair] > 0.0
        self.pair, self.s_next, self.r = pair[used], s_next[used], r[used]
        visits = counts.visits.astype(float)
        self.share = n[used] / visits.ravel()[self.pair]  # of the rows of its pair
        chance = np.where(visits > 0, policy, 0.0)
        total = chance.sum(axis=1, keepdims=True)
        self.chance = (chance / np.where(total > 0.0, total, 1.0)).ravel()  # states never left are worth nothing more
        self.logged = (visits / np.maximum(visits.sum(axis=1, keepdims=True), 1.0)).ravel()

    def value(self, gamma: float) -> float:
        """At the start."""
        low = self.logged + (1.0 - self.logged) / gamma
        high = self.logged + (1.0 - self.logged) * gamma
        V, before = self._solved(np.ones(self.share.size)), np.inf
        for _ in range(ROUNDS):
            V = self._solved(self._weights(self.r + self.alpha * np.append(V, 0.0)[self.s_next], low, high))
            now = float(self.start @ V)
            if abs(before - now) <= 1e-12 * max(1.0, abs(now)):
                break
            before = now
        return float(self.start @ V)

    def loss(self, gamma: float) -> float:
        """What a hidden cause of this strength may take off."""
        return self.value(1.0) - self.value(gamma)

    def reached(self, loss: float) -> float | None:
        """The strength at which so much may be lost; to a hundredth."""
        if self.loss(STRONGEST) < loss:
            return None
        low, high = 0.0, float(np.log(STRONGEST))
        while high - low > 0.005:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.loss(float(np.exp(middle))) >= loss else (middle, high)
        return float(np.exp(high))

    def _weights(self, x: Array, low: Array, high: Array) -> Array:
        """w of each entry: the upper end for the lowest outcomes of a pair, as far as the mean of 1 allows."""
        order = np.lexsort((x, self.pair))
        pair, share = self.pair[order], self.share[order]
        before = np.cumsum(share) - share
        first = np.r_[True, pair[1:] != pair[:-1]]
        before -= np.repeat(before[first], np.diff(np.r_[np.flatnonzero(first), pair.size]))
        width = high[pair] - low[pair]
        most = np.where(width > 0.0, (1.0 - low[pair]) / np.where(width > 0.0, width, 1.0), 0.0)
        taken = np.clip(most - before, 0.0, share)
        w = np.empty(x.size)
        w[order] = low[pair] + width * taken / share + np.where(width > 0.0, 0.0, 1.0 - low[pair])
        return w

    def _solved(self, w: Array) -> Array:
        """V where the rows have these weights."""
        (S, A), weight = self.shape, self.chance[self.pair] * self.share * w
        s, stays = self.pair // A, self.s_next < S
        P = sp.csr_array((weight[stays], (s[stays], self.s_next[stays])), shape=(S, S))
        return solve_chain(P, self.alpha, np.bincount(s, weight * self.r, S))


def _atoms(counts: Counts) -> tuple[Array, Array, Array, Array]:
    """(pair, s' or |S| for the end, rows, reward): each entry twice, with two rewards of its mean and variance."""
    (S, A), (low, high) = counts.shape, counts.reward_range
    mean = counts.reward_sum / counts.n
    variance = np.maximum(counts.reward_square_sum / counts.n - mean**2, 0.0)
    variance = np.where(variance > 1e-12 * np.maximum(mean**2, 1.0), variance, 0.0)
    below = np.minimum(np.sqrt(variance), np.maximum(mean - low, 0.0))  # within the range of rewards
    above = np.where(below > 0.0, variance / np.where(below > 0.0, below, 1.0), 0.0)
    above = np.minimum(above, np.maximum(high - mean, 0.0))
    below = np.where(above > 0.0, variance / np.where(above > 0.0, above, 1.0), 0.0)
    down = np.where(variance > 0.0, above / np.where(above + below > 0.0, above + below, 1.0), 1.0)
    pair, s_next = counts.s * A + counts.a, np.where(counts.ended, S, counts.s_next)
    each = np.concatenate([counts.n * down, counts.n * (1.0 - down)])
    r = np.concatenate([mean - below, mean + above])
    some = each > 0.0
    return np.tile(pair, 2)[some], np.tile(s_next, 2)[some], each[some], r[some]
