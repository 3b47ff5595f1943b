"""What the pairs of a thin log tell: rows by pair, how much a pair counts for itself, what is doubtful about it.

Rows      with values V, a row (s, a, r, s') is worth  y = r + alpha V(s').  Of each pair: the number of rows n, the
          mean of y, the sum of squares about it, the spread max y - min y.
Pooling   a pair's row of P and its reward are drawn toward the average over the state's rows, all actions together:
              P~(.|s,a) = w P(.|s,a) + (1 - w) P(.|s),   R~ alike,   w = n / (n + k)
          The model behind it is the one-way layout with random effects (credibility; Buehlmann and Straub, 1970): in a
          state the means of the actions scatter by tau^2, rows about their mean by sigma^2, and k = sigma^2 / tau^2.
          With sigma^2 integrated out (prior 1/sigma^2) a state says of k, with p_a = n_a k / (n_a + k),
              log L(k) = sum_a log(p_a)/2 - log(sum_a p_a)/2 - (n-1)/2 log(within + sum_a p_a (mean_a - m)^2)
          which has no unit. k lies on a grid; how frequent each k is among the states is estimated by maximum
          likelihood (empirical Bayes; EM), a state's own k has then a posterior, and w is the mean of n/(n+k). Where
          repeated pairs always do the same, k goes to nothing, and so does the pooling.
Effects   an action may do better than others wherever it is taken: a part q of tau^2 is then the action's own, in all
          states alike. With q given, effects e of the actions are normal with the variance t = q T, T being what tau^2
          is where pairs are thin, sum (1-w) w / sum (1-w)^2 n / sigma^2; what is left to the pair itself counts by
          w_q = (1-q) w / (1 - q w); means of pairs scatter by 1/v = sigma^2 / (n (1 - w_q)) about m_s + e_a, m_s free;
          and (mixed models and their restricted likelihood; Henderson, 1975; Patterson and Thompson, 1971)
              b_a = sum_s v (mean_a - m_s),    D = sum_s diag(v_s) - v_s v_s' / sum_a v_a(s),    e = (D + I/t)^-1 b
              log L(q) = (sum log v - sum_s log sum_a v_a - sum v (mean - m_s)^2 + b'e - log det(I + t D)) / 2
          where m_s is the state's mean by the weights v. All q of a short list are alike before; w and effects are
          means over what the log says of q. A pair then leans on m + e_a - sum_b e_b n_b/n in the place of m, which is
          the state's average mixed with the row of its best pair (of its worst, where that is less than m) by as much
          as it takes: what the state's own rows have shown is not left. q is small: a bet that is made in all states
          at once does not average out, and what is large shows in the pairs themselves.
Apart     a pair that stands out by t standard errors is pooled with k / (1 + (t/2)^4): shrinking what is plainly apart
          would cost a little at every step of a long way, always in the same direction (limited translation; Efron and
          Morris, 1972). Rare events are not normal, and a row or two of them are nothing plain: t is Bernstein's,
              t sqrt(sigma^2 / n) + t^2/6 (spread of the state's rows) / n = |mean - the state's mean|
Variance  of y in a pair: its own squares and one row's worth of its state's variance. That is
              (within + noise around + K everywhere) / (freedom + 1 + K)
          where `freedom` counts the state's rows that repeat a pair and `within` is their squares; `around` is the
          variance of all of the state's rows, and `noise` the part of such variances that repeated pairs leave;
          `everywhere` is the log's within / freedom, and stands for both where the state has one row. K is credibility
          once more, of squares z = (y - mean)^2: their variance inside states over that between states, by the usual
          moments over the J states that repeat pairs, f being the freedom of each, F of all, W `everywhere`,
              s^2 = sum (sum z^2 - f zbar^2) / (F - J),  a = (sum f (zbar - W)^2 - (J-1) s^2) / (F - sum f^2 / F)
          and K = s^2 / a, not less than one row. So a rare event, unseen in a thin state, is allowed for where other
          states have it, as far as states are alike.
Penalty   Bernstein's inequality with what was observed in the place of what is possible, at exp(-z^2/2):
              doubt = z sqrt(sigma^2 i) + z^2/6 spread i,     i = 1/(n_a + k) - 1/(n + k)
              penalty(s, a) = doubt(s, a) - min_b doubt(s, b)
          i is what is not known of the action because the log took others instead, and the action known best goes free:
          what is charged is the doubt that a choice adds. Where the log tried all actions alike, or only one, that is
          next to nothing, however long the way. No range of possible rewards or values enters: that belongs to a
          certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dualq.base import LogError, kernel
from dualq.logs import Counts
from dualq.model import MDP, TablePolicy

Array = np.ndarray

GRID = np.concatenate([[1e-6], 10.0 ** np.arange(-2.0, 4.25, 0.5)])  # the values that k can have
EM_STEPS = 30
PARTS = 0.0, 0.003, 0.01, 0.03  # the values that q can have
FEW_ACTIONS = 50  # up to here their products are quicker as full matrices
MANY_ACTIONS = 1_000  # from here on effects of single actions are not looked for
STANDS_OUT = 4.0  # squared standard errors from which on a pair is more and more left alone
ALIKE = 1e4  # rows of the log's variance beside a state's own, where states do not differ in it
ROUNDING = 1e-13  # squares below this part of what they were computed from are rounding
HIDDEN = 1e-6  # of the squared range of rewards: a variance that rounding must not hide


# ---- the log by pairs


class Moments(NamedTuple):
    """Of y = r + alpha V(s')."""

    mean: Array  # (S, A)
    squares: Array  # (S, A) sum of squares about the pair's mean
    spread: Array  # (S, A) max y - min y, where a successor's reward counts by its mean
    state_mean: Array  # (S,)
    state_spread: Array  # (S,) max y - min y of all its rows
    between: Array  # (S,) sum over the state's rows of squares of their pair's mean about the state's
    fourth: Array  # (S,) sum over the state's rows of the fourth power of y less the pair's mean


class Lean(NamedTuple):
    """What a pair's row is made of: w its own; of the rest, c the row of one pair of its state, 1 - c the average."""

    own: Array  # w (S, A)
    tilt: Array  # c (S, A)
    toward: Array  # (S, A) the action of that one pair


@dataclass(frozen=True, eq=False)
class Rows:
    """Counts by pair, in the states of the plug-in model."""

    counts: Counts
    plug_in: MDP
    n: Array  # (S, A)
    total: Array  # (S,)
    supported: Array  # (S, A)
    seen: Array  # (S,)
    unknown: Array  # (S,) states that were never left and are not the end of anything
    habit: Array  # (S, A) what the log did
    pair: Array  # (entries,) s*A + a
    successor: Array  # (entries,)
    reward_mean: Array  # (entries,)
    reward_squares: Array  # (entries,) sum of squares about the mean

    @classmethod
    def of(cls, counts: Counts, discount: float) -> Rows:
        """Counts, made ready."""
        if counts.total == 0:
            raise LogError("the log has no rows; there is nothing to learn from")
        plug_in = counts.mdp(discount)
        n = counts.support.to_model(counts.visits)
        total = n.sum(axis=1)
        seen = total > 0.0
        habit = np.where(seen[:, None], n / np.maximum(total, 1.0)[:, None], n.sum(axis=0) / n.sum())
        return cls(
            counts=counts,
            plug_in=plug_in,
            n=n,
            total=total,
            supported=n > 0.0,
            seen=seen,
            unknown=~seen & ~counts.over,
            habit=habit,
            pair=counts.s.astype(np.int64) * n.shape[1] + counts.a,
            successor=counts.successor,
            reward_mean=counts.reward_sum / counts.n,
            reward_squares=reward_squares(counts),
        )

    @cached_property
    def behaviour(self) -> TablePolicy:
        """What the log did, as a policy; undecided where it never was."""
        return TablePolicy(self.habit, self.plug_in.states, self.plug_in.actions, ~self.seen)

    def moments(self, V: Array) -> Moments:
        """What the rows of each pair, and of each state, are worth when states are worth V."""
        n_entry, shape = self.counts.n, self.n.shape
        y = self.reward_mean + self.plug_in.discount * V[self.successor]
        mean = np.bincount(self.pair, n_entry * y, self.n.size).reshape(shape) / np.maximum(self.n, 1.0)
        deviation = y - mean.ravel()[self.pair]
        deviation[np.abs(deviation) <= ROUNDING * np.abs(y)] = 0.0
        squares = np.bincount(self.pair, self.reward_squares + n_entry * deviation**2, self.n.size).reshape(shape)
        state, (S, A) = self.pair // self.n.shape[1], shape
        fourth = np.bincount(state, n_entry * (self.reward_squares / n_entry + deviation**2) ** 2, S)
        state_mean = (self.n * mean).sum(axis=1) / np.maximum(self.total, 1.0)
        apart = np.where(self.supported, mean - state_mean[:, None], 0.0)
        apart[np.abs(apart) <= ROUNDING * np.abs(mean)] = 0.0
        return Moments(
            mean=mean,
            squares=squares,
            spread=_spread(deviation, self.pair, S * A).reshape(shape),
            state_mean=state_mean,
            state_spread=_spread(y, state, S),
            between=(self.n * apart**2).sum(axis=1),
            fourth=fourth,
        )

    def pooled_model(self, lean: Lean, unknown_value: float) -> MDP:
        """(P~, R~); states without a known future are worth `unknown_value`."""
        return self.worth(self.pooled(lean), unknown_value)

    def pooled(self, lean: Lean) -> MDP:
        """(P~, R~), states without a known future worth nothing yet."""
        plug_in, (S, A) = self.plug_in, self.n.shape
        P, R = plug_in.transitions, plug_in.rewards
        own, average, one = self._parts(lean)
        mean_reward = (self.habit * R).sum(axis=1, keepdims=True)
        rewards = own * R + average * mean_reward + one * np.take_along_axis(R, lean.toward, axis=1)
        rewards = np.where(self.supported, rewards, R)
        if not (own < 1.0).any():
            return plug_in.paying(rewards)
        entries = np.diff(plug_in.indptr).reshape(S, A)
        most = int(np.where(self.supported, entries.sum(axis=1, keepdims=True, dtype=np.int64), entries).sum())
        integer = np.int32 if most < 2**31 else np.int64
        indptr, indices, probabilities = np.zeros(S * A + 1, integer), np.empty(most, integer), np.empty(most)
        parts = self.supported, self.habit, own, average, one, lean.toward
        longest = int(entries.sum(axis=1).max())
        room = np.full(S, -1, np.int64), np.empty(longest, np.int64), np.empty(longest), np.empty((A, longest))
        used = _mixed_rows(*plug_in.rows, *parts, *room, indptr, indices, probabilities)
        P = sp.csr_array((probabilities[:used], indices[:used], indptr), shape=(S * A, S))
        return MDP(
            P, rewards, plug_in.discount, states=plug_in.states, actions=plug_in.actions, available=plug_in.available
        )

    def worth(self, pooled: MDP, unknown_value: float) -> MDP:
        """The pooled model with states without a known future worth `unknown_value`."""
        rewards = pooled.rewards.copy()
        rewards[self.unknown] = (1.0 - pooled.discount) * unknown_value
        return pooled.paying(rewards)

    def _parts(self, lean: Lean) -> tuple[Array, Array, Array]:
        """How much of a row is the pair's own, its state's average and one other pair's."""
        own = np.where(self.supported, lean.own, 1.0)
        return own, (1.0 - own) * (1.0 - lean.tilt), (1.0 - own) * lean.tilt


@kernel
def _mixed_rows(
    indptr, indices, P, supported, habit, own, average, one, toward, place, successors, usual, rows,
    new_indptr, new_indices, new_P,
):  # fmt: skip
    """Each supported pair's row of P, its state's average and the row of one other pair, mixed; how many entries.

    All pairs of a state lead to the same states, in the order in which its rows name them.

    place     (S,) of a successor, among those of the state; -1 before and after
    successors, usual, rows   room for one state: where it leads, its average, its rows (A, longest)
    """
    S, A = supported.shape
    used = 0
    for s in range(S):
        length = 0
        for a in range(A):
            for j in range(indptr[s * A + a], indptr[s * A + a + 1]):
                if place[indices[j]] < 0:
                    place[indices[j]] = length
                    successors[length], usual[length] = indices[j], 0.0
                    for b in range(A):
                        rows[b, length] = 0.0
                    length += 1
                k = place[indices[j]]
                rows[a, k] = P[j]
                if supported[s, a]:
                    usual[k] += habit[s, a] * P[j]
        for a in range(A):
            for k in range(length):
                p = own[s, a] * rows[a, k]
                if supported[s, a]:
                    p = p + average[s, a] * usual[k] + one[s, a] * rows[toward[s, a], k]
                if p != 0.0:
                    new_indices[used], new_P[used] = successors[k], p
                    used += 1
            new_indptr[s * A + a + 1] = used
        for k in range(length):
            place[successors[k]] = -1
    return used


def reward_squares(counts: Counts) -> Array:
    """(entries,) of rewards about their mean."""
    return squares_about_mean(counts.n, counts.reward_sum, counts.reward_square_sum, counts.reward_range)


def squares_about_mean(n: Array, total: Array, square_sum: Array, known: tuple[float, float]) -> Array:
    """Of n numbers with these sums, in a known range: none where that is what rounding left of equal ones.

    Where numbers are so far from 0 that rounding would hide what they vary too, rounding is added, up to the most that
    their range allows.
    """
    (low, high), mean = known, total / n
    squares, rounding = square_sum - total * mean, ROUNDING * square_sum
    hides = (rounding > HIDDEN * n * (high - low) ** 2) & (n > 1)
    most = np.minimum(np.maximum(n * (high - mean) * (mean - low), 0.0), np.maximum(squares, 0.0) + rounding)
    return np.where(squares > rounding, squares, np.where(hides, most, 0.0))


def _spread(x: Array, group: Array, groups: int) -> Array:
    """max x - min x of each group; entries are sorted by group."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    spread = np.zeros(groups)
    spread[group[first]] = np.maximum.reduceat(x, first) - np.minimum.reduceat(x, first)
    return spread


# ---- pooling


def pooling_shares(rows: Rows, moments: Moments, k_scale: float) -> Array:
    """w (S, A): the mean of n / (n + k) under the posterior of a state's k, nearer to one where a pair stands out."""
    posterior = _posterior(rows.n, moments)
    w = np.zeros(rows.n.shape)
    for g, k in enumerate(GRID):
        w += posterior[:, g, None] * rows.n / (rows.n + k_scale * k)
    w = np.where(rows.total[:, None] == rows.n, rows.supported, w)  # one action: its average is itself
    k = rows.n * (1.0 / np.where(rows.supported, w, 1.0) - 1.0) / (1.0 + (_apart(rows, moments, w) / STANDS_OUT) ** 2)
    return np.where(rows.supported, rows.n / np.maximum(rows.n + k, 1.0), 0.0)


def _apart(rows: Rows, moments: Moments, w: Array) -> Array:
    """t^2 (S, A): by how many standard errors a pair stands out of its state."""
    n = np.maximum(rows.n, 1.0)
    deviation = np.abs(moments.mean - moments.state_mean[:, None])
    error, bound = np.sqrt(row_variance(rows, moments, w) / n), moments.state_spread[:, None] / (6.0 * n)
    root = error + np.sqrt(error**2 + 4.0 * bound * deviation)
    return (2.0 * deviation / np.maximum(root, 1e-6 * deviation + np.finfo(float).tiny)) ** 2


def _posterior(n: Array, moments: Moments) -> Array:
    """(S, grid): the posterior of k in each state, its prior fitted to all states."""
    within = moments.squares.sum(axis=1)
    total = n.sum(axis=1)
    informative = (total > (n > 0).sum(axis=1)) & ((n > 0).sum(axis=1) > 1) & (within + moments.between > 0.0)
    log_likelihood = np.zeros((n.shape[0], GRID.size))
    mine, mean, inside = n[informative], moments.mean[informative], within[informative]
    for g, k in enumerate(GRID):
        log_likelihood[informative, g] = _log_likelihood(mine, mean, inside, k)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    prior, posterior, mass = np.full(GRID.size, 1.0 / GRID.size), np.empty_like(likelihood), np.empty(GRID.size)
    for _ in range(EM_STEPS):
        _posteriors(likelihood, prior, informative, posterior, mass)
        # One state's worth of doubt keeps every k possible.
        prior = (mass + 1.0 / GRID.size) / (informative.sum() + 1.0)
    return posterior


@kernel
def _posteriors(likelihood, prior, informative, posterior, mass):
    """The posterior of k in each state, in place; mass: its sum over the informative ones."""
    states, grid = likelihood.shape
    for g in range(grid):
        mass[g] = 0.0
    for s in range(states):
        total = 0.0
        for g in range(grid):
            posterior[s, g] = likelihood[s, g] * prior[g]
            total += posterior[s, g]
        for g in range(grid):
            posterior[s, g] /= total
            if informative[s]:
                mass[g] += posterior[s, g]


def _log_likelihood(n: Array, mean: Array, within: Array, k: float) -> Array:
    """Of k in each state, sigma^2 integrated out; n and mean are (S, A)."""
    p = n * k / (n + k)
    mass = p.sum(axis=1)
    m = (p * mean).sum(axis=1) / mass
    between = (p * (mean - m[:, None]) ** 2).sum(axis=1)
    logs = np.log(np.where(p > 0.0, p, 1.0)).sum(axis=1) - np.log(mass)
    return 0.5 * (logs - (n.sum(axis=1) - 1.0) * np.log(within + between))


# ---- what an action does everywhere


def leaning(rows: Rows, moments: Moments, shares: Array, sigma2: Array) -> Lean:
    """Pooling by `shares`, where a part of what tells pairs apart is their action's in all states."""
    if rows.n.shape[1] > MANY_ACTIONS:
        return _tilted(rows, moments, shares, np.zeros(shares.shape))
    fits, own, beyond = [], [], []
    for part in PARTS:
        effects, fit = action_effects(rows, moments, shares, sigma2, part)
        own.append(_less_own(shares, part))
        beyond.append((1.0 - own[-1]) * (effects - (rows.habit @ effects)[:, None]))
        fits.append(fit)
    chances = np.exp(np.array(fits) - max(fits))
    chances /= chances.sum()
    w = np.minimum(np.tensordot(chances, own, 1), shares)  # no more than shares, by rounding either
    return _tilted(rows, moments, w, np.tensordot(chances, beyond, 1))


def action_effects(rows: Rows, moments: Moments, shares: Array, sigma2: Array, part: float) -> tuple[Array, float]:
    """e (A,) and log L, for one q."""
    thin = rows.supported & (sigma2 > 0.0) & (shares < 1.0)
    if not thin.any():
        return np.zeros(rows.n.shape[1]), 0.0
    precision = np.divide(rows.n, sigma2, out=np.zeros(sigma2.shape), where=thin)
    rest = 1.0 - shares
    t = part * (rest * shares)[thin].sum() / (precision * rest**2).sum()
    v = precision * (1.0 - _less_own(shares, part))
    told = thin.any(axis=1)
    v, mean, mass = v[told], moments.mean[told], v[told].sum(axis=1)
    apart = mean - ((v * mean).sum(axis=1) / mass)[:, None]
    b, D = (v * apart).sum(axis=0), np.diag(v.sum(axis=0)) - _together(v, mass)
    spread = np.eye(b.size) + t * D
    effects = np.linalg.solve(spread, t * b)
    fit = np.log(v[v > 0.0]).sum() - np.log(mass).sum() - (v * apart**2).sum()
    return effects, float(0.5 * (fit + b @ effects - np.linalg.slogdet(spread)[1]))


def _together(v: Array, mass: Array) -> Array:
    """v' diag(1 / mass) v (A, A); with many actions, of which a state has seen few, by sparse matrices."""
    if v.shape[1] <= FEW_ACTIONS:
        return v.T @ (v / mass[:, None])
    weights = sp.csr_array(v)
    return (weights.T @ sp.diags_array(1.0 / mass) @ weights).toarray()


def _less_own(shares: Array, part: float) -> Array:
    """w_q."""
    return (1.0 - part) * shares / (1.0 - part * shares)


def _tilted(rows: Rows, moments: Moments, shares: Array, beyond: Array) -> Lean:
    """The rest of a row, 1 - w, is worth the state's mean and `beyond` that, as far as the state's pairs go."""
    beyond = np.divide(beyond, 1.0 - shares, out=np.zeros(beyond.shape), where=rows.supported & (shares < 1.0))
    apart = np.where(rows.supported, moments.mean - moments.state_mean[:, None], 0.0)
    toward = np.where(beyond > 0.0, apart.argmax(axis=1)[:, None], apart.argmin(axis=1)[:, None])
    room = np.take_along_axis(apart, toward, axis=1)
    tilt = np.divide(beyond, room, out=np.zeros(room.shape), where=beyond * room > 0.0)
    return Lean(shares, np.minimum(tilt, 1.0), toward)


# ---- the penalty


def row_variance(rows: Rows, moments: Moments, shares: Array, beside: float = 0.0) -> Array:
    """sigma^2 (S, A): a pair's own, one row's worth of its state's beside it, drawn to the state's by 1 - w.

    beside   squares of one row more, beside those of all pairs
    """
    within, freedom = moments.squares.sum(axis=1), rows.total - rows.supported.sum(axis=1)
    around = (within + moments.between) / np.maximum(rows.total - 1.0, 1.0)  # the state's, actions told apart or not
    repeated = freedom > 0.0
    around_all = (around * freedom)[repeated].sum()
    noise = min(within[repeated].sum() / around_all, 1.0) if around_all > 0.0 else float(not repeated.any())
    everywhere = (within.sum() + beside) / max(freedom.sum() + float(beside > 0.0), 1.0)
    K = _alike(within[repeated], freedom[repeated], moments.fourth[repeated])
    one = np.where(rows.total > 1.0, noise * around, everywhere)
    state = ((within + one + K * everywhere) / (freedom + 1.0 + K))[:, None]
    own = (moments.squares + state) / np.maximum(rows.n, 1.0)
    return np.where(rows.supported, shares * own + (1.0 - shares) * state, 0.0)


def _alike(within: Array, freedom: Array, fourth: Array) -> float:
    """K: how many rows of the log's variance stand beside a state's own; of states with repeated pairs."""
    F = freedom.sum()
    if F == 0.0 or not within.any():
        return 1.0
    mean, everywhere = within / freedom, within.sum() / F
    inside = max(float((fourth - within * mean).sum()), 0.0) / max(F - freedom.size, 1.0)
    between = float((freedom * (mean - everywhere) ** 2).sum()) - (freedom.size - 1.0) * inside
    between /= max(F - float((freedom**2).sum()) / F, 1.0)
    return float(np.clip(inside / between, 1.0, ALIKE)) if between > inside / ALIKE else ALIKE


def bernstein_penalty(n: Array, total: Array, shares: Array, sigma2: Array, spread: Array, z: float) -> Array:
    """Empirical Bernstein (S, A), above the least of the state."""
    supported = n > 0.0
    effective = np.where(supported, n / np.where(supported, shares, 1.0), 1.0)  # n + k
    missing = np.where(supported, 1.0 / effective - 1.0 / (effective + total[:, None] - n), 0.0)
    doubt = z * np.sqrt(sigma2 * missing) + z**2 / 6.0 * spread * missing
    least = np.where(supported, doubt, np.inf).min(axis=1, keepdims=True)
    return np.where(supported, doubt - np.where(supported.any(axis=1, keepdims=True), least, 0.0), 0.0)
