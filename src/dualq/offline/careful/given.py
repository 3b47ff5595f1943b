"""What a policy earns that was not chosen from this log: no luck of choice, and a paired error of differences.

Model     the log's own frequencies, pairs apart, as for what was logged (`selection_bias`). A state that was never left
          is worth what it is there.
Filled    A decision that the log never saw in a state it knows is given the state's average over what was done there,
          P(.|s) and R(s). That is a guess, and the log cannot tell how good: means of y = r + alpha V(s') scatter by
          tau between the actions of a state (over the whole log; where it has no state with two actions, by the
          deviation of y). An action may be better or worse than others wherever it is taken, so these doubts are added
          and not squared:
              unsupported = sum over decisions never seen of occupancy(s, a) tau
          Where the policy spends more than MOST_UNSUPPORTED of its time there, no error is given.
Error     of one value: rows, unseen and unknown as for what was logged, and `unsupported` beside them. Few rows make
          errors larger, as there.
Paired    Two values of one log rest on the same rows, and err together. To first order a row moves their difference by
              z = lambda_1 y_1 - lambda_2 y_2,   y_i = r + alpha V_i(s'),   lambda_i(s, a) / n(s, a) its weight
          so that a pair adds, with sigma_12^2 the variance of y_1 - y_2 = alpha (V_1 - V_2)(s'),
              Var z / n = [(lambda_1 - lambda_2)(lambda_1 sigma_1^2 - lambda_2 sigma_2^2)
                           + lambda_1 lambda_2 sigma_12^2] / n
          which is nothing where both do the same. The other parts are those of the differences of occupancies.
Elsewhere A pair with n rows may lead where it never led, once in n + 1: to some state of the log, nobody knows which.
          That adds the squares of alpha occupancy / (n + 1), times the variance of V over the states that the log has
          seen, each alike: what is rare leads to rare states. By how often states were seen it is too little (60 logs
          of a queue that hardly ever was long: differences within two errors in .90 of them, and in .97 so). Of what
          lies beyond the states of the log nobody can tell: a policy that goes there is valued as if there were none.
Costs     are valued alike, in the place of rewards; one that is rare as in limited/estimates.py, and so are rewards
          that are rare events (judging.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dualq.model import MDP, TablePolicy
from dualq.offline.careful.clusters import Groups
from dualq.offline.careful.pooling import Rows
from dualq.offline.careful.selection_bias import Estimate, log_variance, of_few_rows, reward_spread, sigma2_of

Array = np.ndarray

ONCE_OR_TWICE = 2.0  # events of a rare cost (limited/estimates.py)
MOST_UNSUPPORTED = 0.2  # of a policy's time, in decisions that the log never saw: with more no error is given


class Valued(NamedTuple):
    """What the rows say of a policy."""

    value: float
    V: Array  # (S,) in the states of the model
    occupancy: Array  # (S, A)
    sigma2: Array  # (S, A) variance of y in a pair
    tau: float  # how far the actions of a state are apart in what they are worth
    share: float  # of its time, in decisions that were never seen


@dataclass(frozen=True, eq=False)
class Given:
    """What a log says of policies that were not chosen from it; all in the states of the model."""

    rows: Rows
    start: Array = field(repr=False)  # (S,) where value is measured
    unknown_value: float = 0.0  # of states that were never left
    groups: Groups | None = field(default=None, repr=False)  # rows that err together, where there are some
    known: Array | None = field(
        default=None, repr=False
    )  # (S, A) what pairs pay, where that is known and not estimated
    rare: float = (
        0.0  # the range of a cost or a reward that may be rare: once or twice in as many rows it may still happen
    )

    def model(self, policy: TablePolicy) -> MDP:
        """The log's frequencies; decisions of the policy that were never seen, as the state's average."""
        rows = self.rows
        plug_in = rows.worth(rows.plug_in, self.unknown_value)
        s, a = np.nonzero((policy.matrix > 0.0) & ~plug_in.available)
        if s.size == 0:
            return plug_in
        (S, A), P = rows.n.shape, plug_in.transitions
        known_s, known_a = np.nonzero(rows.supported)
        usual = sp.csr_array((rows.habit[known_s, known_a], (known_s, known_s * A + known_a)), shape=(S, S * A)) @ P
        filled = sp.csr_array((np.ones(s.size), (s * A + a, s)), shape=(S * A, S)) @ usual
        rewards, available = plug_in.rewards.copy(), plug_in.available.copy()
        rewards[s, a] = (rows.habit * plug_in.rewards).sum(axis=1)[s] if self.known is None else self.known[s, a]
        available[s, a] = True
        words = {"states": plug_in.states, "actions": plug_in.actions, "available": available}
        return MDP(sp.csr_array(P + filled), rewards, plug_in.discount, plug_in.reward_range, **words)

    def valued(self, policy: TablePolicy) -> Valued:
        """What the rows say of a policy."""
        rows, mdp = self.rows, self.model(policy)
        V = policy.value(mdp)
        occupancy = policy.occupancy(mdp, np.maximum(self.start, np.finfo(float).tiny))
        moments = rows.moments(V)
        never = np.where(rows.supported | ~rows.seen[:, None], 0.0, occupancy)
        N, choices = rows.total, rows.supported.sum(axis=1) > 1
        told = N[choices].sum()
        tau2 = moments.between[choices].sum() / told if told > 0.0 else log_variance(rows, moments)
        share = never.sum() / max(occupancy[~rows.counts.over].sum(), np.finfo(float).tiny)
        sigma2 = sigma2_of(rows, moments)
        return Valued(float(self.start @ V), V, occupancy, sigma2, float(np.sqrt(tau2)), float(share))

    def estimate(self, one: Valued, usual: Valued) -> Estimate:
        """The value with its error; `usual` is of what was logged."""
        rows, x = self.rows, one.occupancy
        by_rows = (x**2 * one.sigma2 / np.maximum(rows.n, 1.0)).sum() * self._shared(x, one.V) ** 2
        N, alike = self.rows.total, self.rows.seen.astype(float)
        mean = float(N @ (one.V - usual.V) / N.sum())
        unknown = (self._ended(x) ** 2).sum() * (_covariance(N, one.V, one.V) + mean**2)
        elsewhere = (self._thin(x) ** 2).sum() * _covariance(alike, one.V, one.V)
        error = np.sqrt(by_rows + unknown + elsewhere + self._unseen(x)) + one.tau * self._never(x)
        return Estimate(one.value, self._stated(error or np.inf, one))  # all rows alike: nothing tells what others are

    def difference(self, one: Valued, other: Valued) -> Estimate:
        """one - other, with the error of the difference: both rest on the same rows."""
        rows, x, y = self.rows, one.occupancy, other.occupancy
        apart = replace(rows, reward_mean=np.zeros(rows.pair.size), reward_squares=np.zeros(rows.pair.size))
        between = sigma2_of(apart, apart.moments(one.V - other.V))
        most = np.sqrt(one.sigma2 * other.sigma2)
        together = np.clip(0.5 * (one.sigma2 + other.sigma2 - between), -most, most)
        variance = x**2 * one.sigma2 + y**2 * other.sigma2 - 2.0 * x * y * together
        by_rows = (np.maximum(variance, 0.0) / np.maximum(rows.n, 1.0)).sum()
        by_rows *= self._shared(x, one.V, y, other.V) ** 2
        unknown = _apart(rows.total, self._ended(x), self._ended(y), one.V, other.V)
        elsewhere = _apart(rows.seen.astype(float), self._thin(x), self._thin(y), one.V, other.V)
        error = np.sqrt(by_rows + unknown + elsewhere + self._unseen(x - y))
        error += one.tau * self._never(np.maximum(x - y, 0.0)) + other.tau * self._never(np.maximum(y - x, 0.0))
        alike = np.inf if (x != y).any() else 0.0
        return Estimate(one.value - other.value, self._stated(error or alike, one, other))

    def _ended(self, visits: Array) -> Array:
        """The discounted chance to end in each state that was never left."""
        return (1.0 - self.rows.plug_in.discount) * visits[self.rows.unknown].sum(axis=1)

    def _thin(self, visits: Array) -> Array:
        """Visits that may lead where the pair never led: once in n + 1."""
        alpha = self.rows.plug_in.discount
        return alpha * np.where(self.rows.supported, visits / (self.rows.n + 1.0), 0.0)

    def _unseen(self, visits: Array) -> float:
        """Variance: what never happened in all rows may still happen once in as many, and a rare cost once or twice."""
        rows, visits = self.rows, np.abs(visits)[self.rows.supported]
        unseen = 0.0 if self.known is not None else reward_spread(rows) * visits.sum() / rows.total.sum()
        rare = (1.0 - rows.plug_in.discount) * self.rare**2 * (visits**3 / rows.n[rows.supported] ** 2).sum()
        return float(unseen**2 + ONCE_OR_TWICE * rare)

    def _never(self, visits: Array) -> float:
        """Visits to decisions that were never seen: an action's add up, and actions are apart from each other."""
        never = np.where(self.rows.supported | ~self.rows.seen[:, None], 0.0, visits)
        return float(np.linalg.norm(never.sum(axis=0)))

    def _shared(self, x: Array, V: Array, y: Array | None = None, W: Array | None = None) -> float:
        """What an error is to be multiplied with, because rows of a moment or an episode err together."""
        if self.groups is None:
            return 1.0
        psi = self.groups.influences(V, x, self.rows.plug_in.discount)
        if y is not None and W is not None:
            psi = psi - self.groups.influences(W, y, self.rows.plug_in.discount)
        return self.groups.shared(psi)

    def _stated(self, error: float, *of: Valued) -> float | None:
        known = all(one.share <= MOST_UNSUPPORTED for one in of)
        return float(error * of_few_rows(self.rows)) if known and error < np.inf else None


def _covariance(weights: Array, V: Array, W: Array) -> float:
    """Of what states are worth, drawn by these weights."""
    w = weights / weights.sum()
    return float(w @ ((V - w @ V) * (W - w @ W)))


def _apart(weights: Array, e: Array, f: Array, V: Array, W: Array) -> float:
    """Variance of e V(s') - f W(s'), summed, where each s' is any state, drawn by these weights."""
    squares = (e**2).sum() * _covariance(weights, V, V) + (f**2).sum() * _covariance(weights, W, W)
    return max(float(squares - 2.0 * (e * f).sum() * _covariance(weights, V, W)), 0.0)
