"""Careful learning: from counts to a model that does not promise more than the log can tell, and its policy.

Problem   the plug-in model (frequencies for probabilities) has a best policy that is best at finding lucky pairs:
          of many thin pairs some look good by chance, and its value is a promise that nobody keeps.
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
          repeated pairs always do the same, k goes to nothing, and so does the pooling. A pair that stands out by t
          standard errors is pooled with k / (1 + (t/2)^4): shrinking what is plainly apart would cost a little at
          every step of a long way, always in the same direction (limited translation; Efron and Morris, 1972).
Penalty   Bernstein's inequality with what was observed in the place of what is possible, at exp(-z^2/2):
              doubt = z sqrt(sigma^2 i) + z^2/6 spread i,     i = 1/(n_a + k) - 1/(n + k)
              penalty(s, a) = doubt(s, a) - min_b doubt(s, b)
          i is what is not known of the action because the log took others instead, and the action known best goes free:
          what is charged is the doubt that a choice adds. Where the log tried all actions alike, or only one, that is
          next to nothing, however long the way. No range of possible rewards or values enters: that belongs to a
          certificate. sigma^2 of a thin pair leans on the state's, and that of a thin state on all.
Unknown   pairs never seen are not available. A state never left has no known future: it is worth what the states of the
          log are worth on average, so that nothing is drawn to it nor away from it.
Update    V -> pooling, penalty -> model (P~, R~ - penalty) -> its optimal V, until V does not move. Pooling is settled
          in the first rounds. The model of the last round is an ordinary MDP: its saddle point is what is reported.
Policy    optimal in that model. Where actions tie (where there was but one, always), as logged among them. Where the
          log never was, the log's actions over all states, and `undecided`.
Claims    `claimed` is the policy's value in (P~, R~), without the penalty. It was chosen for being high: part of what
          it has above the logged value is luck. How much, the log itself tells: its rows are dealt at random to two
          halves (rows are independent given their pair), each half chooses a policy, and the other one is asked about
          it. Over the pairs that both have seen, with V, occupancy and usual frequencies of the half that chose,
              kept = sum (occupancy - usual) mean_other / sum (occupancy - usual) mean~
          both ways together: luck is not found again. It is measured with an error and lies between 0 and 1, all of
          which is possible before. This is so with half of the rows; with all of them it is 2 kept / (1 + kept), the
          reliability of a test of twice the length (Spearman; Brown; 1910). Mean and deviation of that, and then
              expected = logged + kept (claimed - logged)
          an estimate, with its standard error, not a floor: that of the two values, whose variances are
          sum_{s,a} occupancy(s,a)^2 sigma^2 / (n + k), and the deviation of `kept` times the gain. The start is taken
          as given, and what is unknown of states that were never left is not in it.

`pessimism` multiplies z and k. 0 is the plug-in; 1 the default, which needs no tuning (benchmarks/offline.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dualq.algorithms.dynamic import solve_dynamic
from dualq.errors import LogError
from dualq.logs.counts import Counts
from dualq.mdp import MDP
from dualq.policy import Policy

Array = np.ndarray

STRENGTH = 0.5  # z at pessimism 1
GRID = np.concatenate([[1e-6], 10.0 ** np.arange(-2.0, 4.25, 0.5)])  # the values that k can have
EM_STEPS = 30
STANDS_OUT = 4.0  # squared standard errors from which on a pair is more and more left alone
POOLING_ROUNDS = 2  # rounds in which the pooling still follows V
ROUNDS = 12
SETTLED = 1e-5  # movement of V, relative to how far values differ, at which the rounds end
ROUNDING = 1e-13  # squares below this part of what they were computed from are rounding


@dataclass(frozen=True)
class Estimate:
    """A value and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.error:.2g}"


@dataclass(frozen=True, eq=False)
class Careful:
    """What a log supports: a model, the policy that is best in it, and what that policy may be expected to earn.

    Arrays are (S, A) in the model's states: those of the log, and "(end)" where some row ended.
    """

    mdp: MDP  # pairs that were logged; pooled, less the penalty
    policy: Policy  # the recommended one
    behaviour: Policy  # n(s, a) / n(s); over all states' actions, and undecided, where the log never was
    V: Array = field(repr=False)  # optimal in mdp
    penalty: Array = field(repr=False)  # taken off the rewards of mdp
    weight: Array = field(repr=False)  # w: what the pair's own rows count for; the rest is the state's average
    error: Array = field(repr=False)  # standard error of r + alpha V(s') of a pair; inf where it was never seen
    expected: Estimate  # value of the policy from the start, without what is luck in `claimed`
    logged: Estimate  # value of the logged behaviour from the start
    claimed: float  # value of the policy from the start in the pooled model
    careful: float  # the same with the penalties taken off
    kept: (
        float  # the part of claimed - logged that is not luck, by asking one half of the rows about the other's choices
    )
    pessimism: float
    moved: float  # how far V still moved in the last round
    reason: str


def careful_model(
    counts: Counts, discount: float, start: Any = None, pessimism: float | None = None, *, pooling: float = 1.0
) -> Careful:
    """A model that is careful where the log is thin, and the policy that is best in it.

    start       (S,) weights of the states where value is measured; how often the log left each state, if not given
    pessimism   0: the plug-in; 1: the default; more: closer to what the log did
    pooling     multiplies k once more; 0 leaves pairs apart (for studies: there is no need to set it)
    """
    pessimism = 1.0 if pessimism is None else _not_negative("pessimism", pessimism)
    k_scale, z = pessimism * _not_negative("pooling", pooling), pessimism * STRENGTH
    rows = Rows.of(counts, discount)
    start = _checked_start(start, rows)
    fit, policy, moved = _fit(rows, z, k_scale)
    behaviour = Policy(rows.habit, rows.plug_in.states, rows.plug_in.actions, ~rows.seen)
    n = np.maximum(rows.n, 1.0)
    own = fit.shares / n  # 1 / (n + k)
    claimed = _estimate(fit.pooled, policy, start, fit.sigma2 * own)
    apart = rows.pooled_model(rows.supported.astype(float), fit.unknown_value)  # on average the log needs no pooling
    logged = _estimate(apart, behaviour, start, fit.sigma2 / n)
    kept = _kept(counts, discount, start, z, k_scale)
    gain = claimed.value - logged.value
    rows_error = (1.0 - kept.value) * logged.error + kept.value * claimed.error  # of the same rows: no cancelling
    expected = Estimate(logged.value + kept.value * gain, float(np.hypot(rows_error, kept.error * gain)))
    return Careful(
        mdp=fit.mdp,
        policy=policy,
        behaviour=behaviour,
        V=fit.V,
        penalty=fit.penalty,
        weight=fit.shares,
        error=np.where(rows.supported, np.sqrt(fit.sigma2 * own), np.inf),
        expected=expected,
        logged=logged,
        claimed=claimed.value,
        careful=float(start @ policy.value(fit.mdp)),
        kept=kept.value,
        pessimism=pessimism,
        moved=moved,
        reason=_reason(rows, policy, expected, logged, pessimism),
    )


class Fitted(NamedTuple):
    """One round's outcome."""

    mdp: MDP  # pooled, less the penalty
    pooled: MDP  # without the penalty
    V: Array  # optimal in mdp
    penalty: Array
    shares: Array  # w (S, A)
    sigma2: Array  # variance of y (S, A)
    unknown_value: float  # of states never left


def _fit(rows: Rows, z: float, k_scale: float) -> tuple[Fitted, Policy, float]:
    """The model, the policy, and how far V still moved; with nothing to pool nor to charge, the plug-in."""
    if z == 0.0 and k_scale == 0.0:
        mdp, V = rows.plug_in, _optimal(rows.plug_in)[0]
        shares = rows.supported.astype(float)
        sigma2 = _sigma2(rows, rows.moments(V), shares)
        fit = Fitted(mdp, mdp, V, np.zeros(shares.shape), shares, sigma2, 0.0)
        return fit, Policy.greedy(mdp.q_values(V), mdp.states, mdp.actions), 0.0
    fit, moved = _rounds(rows, z, k_scale)
    return fit, _policy(rows, fit), moved


def _rounds(rows: Rows, z: float, k_scale: float) -> tuple[Fitted, float]:
    """Iterate V -> pooling and penalty -> model -> V; the last round, and how far V moved in it."""
    V = Policy(rows.habit).value(rows.plug_in)
    shares, fit, moved = rows.supported.astype(float), None, np.inf
    for round_ in range(ROUNDS):
        moments = rows.moments(V)
        if round_ < POOLING_ROUNDS and k_scale > 0.0:
            shares = _shares(rows, moments, k_scale)
        sigma2 = _sigma2(rows, moments, shares)
        penalty = _penalty(rows.n, rows.total, shares, sigma2, moments.spread, z)
        unknown_value = float(rows.total @ V) / rows.total.sum()
        pooled = rows.pooled_model(shares, unknown_value)
        mdp = _less(pooled, penalty)
        V_before, (V, _) = V, _optimal(mdp)
        fit = Fitted(mdp, pooled, V, penalty, shares, sigma2, unknown_value)
        moved = float(np.abs(V - V_before).max())
        if round_ + 1 >= POOLING_ROUNDS and moved <= SETTLED * np.ptp(V):
            break
    assert fit is not None
    return fit, moved


# ---- the log by pairs


class Moments(NamedTuple):
    """Of y = r + alpha V(s')."""

    mean: Array  # (S, A)
    squares: Array  # (S, A) sum of squares about the pair's mean
    spread: Array  # (S, A) max y - min y, where a successor's reward counts by its mean
    state_mean: Array  # (S,)
    between: Array  # (S,) sum over the state's rows of squares of their pair's mean about the state's


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
        S, A = counts.shape
        n = np.zeros((plug_in.num_states, A))
        n[:S] = counts.visits
        total = n.sum(axis=1)
        seen = total > 0.0
        unknown = ~seen
        unknown[S:] = False
        entered_to_end, entered = np.zeros(S, bool), np.zeros(S, bool)
        entered_to_end[counts.s_next[counts.ended]] = True
        entered[counts.s_next[~counts.ended]] = True
        unknown[:S] &= entered | ~entered_to_end
        habit = np.where(seen[:, None], n / np.maximum(total, 1.0)[:, None], n.sum(axis=0) / n.sum())
        reward_mean = counts.reward_sum / counts.n
        squares = counts.reward_square_sum - counts.reward_sum * reward_mean
        return cls(
            counts=counts,
            plug_in=plug_in,
            n=n,
            total=total,
            supported=n > 0.0,
            seen=seen,
            unknown=unknown,
            habit=habit,
            pair=counts.s.astype(np.int64) * A + counts.a,
            successor=np.where(counts.ended, S, counts.s_next),
            reward_mean=reward_mean,
            reward_squares=np.where(squares > ROUNDING * counts.reward_square_sum, squares, 0.0),
        )

    def moments(self, V: Array) -> Moments:
        """What the rows of each pair, and of each state, are worth when states are worth V."""
        n_entry, shape = self.counts.n, self.n.shape
        y = self.reward_mean + self.plug_in.discount * V[self.successor]
        mean = np.bincount(self.pair, n_entry * y, self.n.size).reshape(shape) / np.maximum(self.n, 1.0)
        deviation = y - mean.ravel()[self.pair]
        deviation[np.abs(deviation) <= ROUNDING * np.abs(y)] = 0.0
        squares = np.bincount(self.pair, self.reward_squares + n_entry * deviation**2, self.n.size).reshape(shape)
        first = np.flatnonzero(np.diff(self.pair, prepend=-1))  # entries are sorted by pair
        spread = np.zeros(self.n.size)
        spread[self.pair[first]] = np.maximum.reduceat(deviation, first) - np.minimum.reduceat(deviation, first)
        state_mean = (self.n * mean).sum(axis=1) / np.maximum(self.total, 1.0)
        apart = np.where(self.supported, mean - state_mean[:, None], 0.0)
        apart[np.abs(apart) <= ROUNDING * np.abs(mean)] = 0.0
        return Moments(mean, squares, spread.reshape(shape), state_mean, (self.n * apart**2).sum(axis=1))

    def pooled_model(self, shares: Array, unknown_value: float) -> MDP:
        """(P~, R~); states without a known future are worth `unknown_value`."""
        plug_in, (S, A) = self.plug_in, self.n.shape
        P = plug_in.transitions
        own = np.where(self.supported, shares, 1.0)
        mean_reward = (self.habit * plug_in.rewards).sum(axis=1, keepdims=True)
        rewards = np.where(self.supported, own * plug_in.rewards + (1.0 - own) * mean_reward, plug_in.rewards)
        rewards[self.unknown] = (1.0 - plug_in.discount) * unknown_value
        if (own < 1.0).any():
            s, a = np.nonzero(self.supported)
            average = sp.csr_array((self.habit[s, a], (s, s * A + a)), shape=(S, S * A)) @ P
            rest = sp.csr_array(((1.0 - own)[s, a], (s * A + a, s)), shape=(S * A, S))
            P = sp.csr_array(sp.diags_array(own.ravel()) @ P + rest @ average)
        return MDP(
            P, rewards, plug_in.discount, states=plug_in.states, actions=plug_in.actions, available=plug_in.available
        )


# ---- pooling


def _shares(rows: Rows, moments: Moments, k_scale: float) -> Array:
    """w (S, A): the mean of n / (n + k) under the posterior of a state's k, nearer to one where a pair stands out."""
    posterior = _posterior(rows.n, moments)
    shares = np.zeros(rows.n.shape)
    for g, k in enumerate(GRID):
        shares += posterior[:, g, None] * rows.n / (rows.n + k_scale * k)
    shares = np.where(rows.total[:, None] == rows.n, rows.supported, shares)  # one action: its average is itself
    deviation = rows.n * (moments.mean - moments.state_mean[:, None]) ** 2
    t_squared = deviation / np.maximum(_sigma2(rows, moments, shares), 1e-12 * deviation + np.finfo(float).tiny)
    k = rows.n * (1.0 / np.where(rows.supported, shares, 1.0) - 1.0) / (1.0 + (t_squared / STANDS_OUT) ** 2)
    return np.where(rows.supported, rows.n / np.maximum(rows.n + k, 1.0), 0.0)


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
    prior = np.full(GRID.size, 1.0 / GRID.size)
    posterior = likelihood * prior
    for _ in range(EM_STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        # One state's worth of doubt keeps every k possible.
        prior = (posterior[informative].sum(axis=0) + 1.0 / GRID.size) / (informative.sum() + 1.0)
    return posterior


def _log_likelihood(n: Array, mean: Array, within: Array, k: float) -> Array:
    """Of k in each state, sigma^2 integrated out; n and mean are (S, A)."""
    p = n * k / (n + k)
    mass = p.sum(axis=1)
    m = (p * mean).sum(axis=1) / mass
    between = (p * (mean - m[:, None]) ** 2).sum(axis=1)
    logs = np.log(np.where(p > 0.0, p, 1.0)).sum(axis=1) - np.log(mass)
    return 0.5 * (logs - (n.sum(axis=1) - 1.0) * np.log(within + between))


# ---- the penalty


def _sigma2(rows: Rows, moments: Moments, shares: Array) -> Array:
    """Variance of y (S, A): a pair's own, one row's worth of its state's beside it, drawn to the state's by 1 - w."""
    within, freedom = moments.squares.sum(axis=1), rows.total - rows.supported.sum(axis=1)
    around = (within + moments.between) / np.maximum(rows.total - 1.0, 1.0)  # the state's, actions told apart or not
    repeated = freedom > 0.0
    everywhere = (around * freedom)[repeated].sum()
    noise = min(within[repeated].sum() / everywhere, 1.0) if everywhere > 0.0 else float(not repeated.any())
    state = ((within + noise * around) / (freedom + 1.0))[:, None]
    own = (moments.squares + state) / np.maximum(rows.n, 1.0)
    return np.where(rows.supported, shares * own + (1.0 - shares) * state, 0.0)


def _penalty(n: Array, total: Array, shares: Array, sigma2: Array, spread: Array, z: float) -> Array:
    """Empirical Bernstein (S, A), above the least of the state."""
    supported = n > 0.0
    effective = np.where(supported, n / np.where(supported, shares, 1.0), 1.0)  # n + k
    missing = np.where(supported, 1.0 / effective - 1.0 / (effective + total[:, None] - n), 0.0)
    doubt = z * np.sqrt(sigma2 * missing) + z**2 / 6.0 * spread * missing
    least = np.where(supported, doubt, np.inf).min(axis=1, keepdims=True)
    return np.where(supported, doubt - np.where(supported.any(axis=1, keepdims=True), least, 0.0), 0.0)


def _less(mdp: MDP, penalty: Array) -> MDP:
    return MDP(
        mdp.transitions,
        mdp.rewards - penalty,
        mdp.discount,
        states=mdp.states,
        actions=mdp.actions,
        available=mdp.available,
    )


# ---- the answer


def _optimal(mdp: MDP) -> tuple[Array, float]:
    """V* and the proven bound on its error."""
    differences = float(np.ptp(mdp.rewards[mdp.available])) / (1.0 - mdp.discount) or 1.0
    V, error_bound, *_ = solve_dynamic(mdp, 1e-8 * min(1.0, differences))
    return V, error_bound


def _policy(rows: Rows, fit: Fitted) -> Policy:
    """Optimal in the careful model; as logged among actions that tie."""
    Q = fit.mdp.q_values(fit.V)
    best = Q.max(axis=1, keepdims=True)
    ties = best - Q <= 1e-7 * (np.ptp(fit.V) or 1.0)
    matrix = np.where(rows.seen[:, None], rows.habit * ties, rows.habit)
    return Policy(matrix / matrix.sum(axis=1, keepdims=True), fit.mdp.states, fit.mdp.actions, ~rows.seen)


def _estimate(mdp: MDP, policy: Policy, start: Array, variance: Array) -> Estimate:
    """Value of a policy from the start, and its error when the mean of y of each pair has this variance."""
    tiny = np.finfo(float).tiny  # weights of occupancies must be positive
    occupancy = policy.occupancy(mdp, np.maximum(start, tiny))
    return Estimate(float(start @ policy.value(mdp)), float(np.sqrt((occupancy**2 * variance).sum())))


# ---- what of a gain is luck


def _kept(counts: Counts, discount: float, start: Array, z: float, k_scale: float) -> Estimate:
    """The part of a promised gain over the log that is there in rows which had no say in the choice."""
    parts = np.linspace(0.0, 1.0, 101)
    fits = np.zeros(parts.size)
    halves = _halves(counts, np.random.default_rng(0))
    if min(half.total for half in halves) > 0:
        one, other = (Rows.of(half, discount) for half in halves)
        there, back = _asked(one, other, start, z, k_scale), _asked(other, one, start, z, k_scale)
        found, promised, variance = np.add(there, back).tolist()
        if promised > 0.0:
            error = max(np.sqrt(variance) / promised, 1e-4)
            fits = -0.5 * ((found / promised - parts) / error) ** 2
    chances = np.exp(fits - fits.max())
    chances /= chances.sum()
    full = 2.0 * parts / (1.0 + parts)
    mean = float(chances @ full)
    return Estimate(mean, float(np.sqrt(chances @ (full - mean) ** 2)))


def _asked(chose: Rows, other: Rows, start: Array, z: float, k_scale: float) -> tuple[float, float, float]:
    """Gain over the log, on pairs that both have seen: what `other` finds, what was promised, the first's variance."""
    fit, policy, _ = _fit(chose, z, k_scale)
    S = chose.counts.shape[0]
    V = np.zeros(other.total.size)
    V[:S] = fit.V[:S]
    ours, theirs = chose.moments(fit.V), other.moments(V)
    weights = np.full(chose.total.size, np.finfo(float).tiny)
    weights[:S] = np.maximum(start[:S], weights[:S])
    both = chose.supported[:S] & other.supported[:S]
    chosen = np.where(both, policy.occupancy(fit.pooled, weights)[:S], 0.0)
    n_1, n_2 = np.where(both, chose.n[:S], 0.0), np.where(both, other.n[:S], 1.0)
    usual = n_1 / np.maximum(n_1.sum(axis=1, keepdims=True), 1.0)
    contrast = chosen - chosen.sum(axis=1, keepdims=True) * usual  # sums to nothing in every state
    pooled = ours.state_mean[:, None] + fit.shares * (ours.mean - ours.state_mean[:, None])
    found = (contrast * theirs.mean[:S]).sum()
    promised = (contrast * pooled[:S]).sum()
    variance = (contrast**2 * fit.sigma2[:S] / n_2).sum()
    return float(found), float(promised), float(variance)


def _halves(counts: Counts, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """The rows, each dealt to one of two; rewards that differ within an entry by what is known of them."""
    n = counts.n
    n_1 = rng.binomial(n, 0.5)
    n_2 = n - n_1
    mean = counts.reward_sum / n
    squares = np.maximum(counts.reward_square_sum - counts.reward_sum * mean, 0.0)
    squares[squares <= ROUNDING * counts.reward_square_sum] = 0.0
    # Of n numbers n_1 are drawn: their sum is off by x sqrt(squares n_1 n_2 / n), where x has the variance 1 / (n - 1)
    # and lies in [-1, 1]; for normal numbers it is a coordinate of a direction in n - 1 dimensions.
    x = np.sqrt(np.where(n > 2, rng.beta(0.5, np.maximum(n - 2, 1) / 2.0), 1.0)) * rng.choice([-1.0, 1.0], n.size)
    apart = x * np.sqrt(squares * n_1 * n_2 / n)
    # Where all are at the ends of the range (a success or none) the drawing is known exactly.
    low, high = counts.reward_range
    inside = (low + high) * counts.reward_sum - counts.reward_square_sum - n * low * high
    two = (inside <= 1e-9 * n * (high - low) ** 2) & (n < 1e9) & (high > low)
    good = np.clip(np.rint((counts.reward_sum[two] - n[two] * low) / (high - low)), 0, n[two]).astype(np.int64)
    drawn = rng.hypergeometric(good, n[two] - good, n_1[two])
    apart[two] = n_1[two] * low + drawn * (high - low) - n_1[two] * mean[two]
    left = np.maximum(squares - apart**2 * n / np.maximum(n_1 * n_2, 1), 0.0)
    return (
        _dealt(counts, n_1, n_1 * mean + apart, left * n_1 / n),
        _dealt(counts, n_2, n_2 * mean - apart, left * n_2 / n),
    )


def _dealt(counts: Counts, n: Array, reward_sum: Array, squares: Array) -> Counts:
    """Counts with n rows of each entry; costs are left out."""
    some = n > 0
    n, reward_sum = n[some], reward_sum[some]
    return replace(
        counts,
        s=counts.s[some],
        a=counts.a[some],
        s_next=counts.s_next[some],
        ended=counts.ended[some],
        n=n,
        reward_sum=reward_sum,
        reward_square_sum=squares[some] + reward_sum**2 / n,
        cost_sums={},
        cost_square_sums={},
    )


def _reason(rows: Rows, policy: Policy, expected: Estimate, logged: Estimate, pessimism: float) -> str:
    choices = rows.supported.sum(axis=1) > 1
    chosen, usual = policy.matrix.argmax(axis=1), rows.n.argmax(axis=1)
    changed = int((choices & (chosen != usual)).sum())
    how = "the plug-in, with no pessimism" if pessimism == 0.0 else "optimal where thin pairs are pooled and penalised"
    return (
        f"The policy is {how}: of {int(rows.seen.sum())} states in the log {int(choices.sum())} saw more than one "
        f"action, and in {changed} of them it prefers another than the most frequent; "
        f"its expected value is {expected}, that of the log {logged}."
    )


# ---- checks at the border


def _not_negative(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 <= number < np.inf:
        raise LogError(f"{name} is {value!r}; it must be a finite number, not negative (1 is the default)")
    return number


def _checked_start(start: Any, rows: Rows) -> Array:
    """Weights of the model's states, summing to one."""
    if start is None:
        return rows.total / rows.total.sum()
    given = np.asarray(start, dtype=float)
    S = rows.counts.shape[0]
    if given.shape != (S,):
        raise LogError(f"start has shape {given.shape}; it must have a weight for each of {S} states")
    if not (np.isfinite(given).all() and (given >= 0.0).all() and given.sum() > 0.0):
        raise LogError("start must be weights that are finite and not negative, some of them positive")
    weights = np.zeros(rows.total.size)
    weights[:S] = given / given.sum()
    return weights
