"""The certificate: a floor for one policy, a ceiling for every policy, from a log alone.

docs/certificate.md states the theorem and proves it. In short, for each pair (s, a) with n rows:

Split     the log, in time order, into blocks; before each block e the earlier ones give a function f_e of the states
          (a plug-in value; f_1 = 0) and a guess m_e(s, a) of r + alpha P f_e
Event 1   X = r + alpha f_e(s') over the n rows: the sum of X - E X stays within [-B', B], the empirical-Bernstein
          boundary of the known sum Q = sum (X - m_e)^2: mixture over rates, Fan's inequality
Event 2   n KL(P^ || P) <= beta at every n: Dirichlet mixture; beta is computed from the counts. Twice: for all rows,
          and for the last block, where the mixture begins with what the earlier ones have shown; the smaller is used
So        for any V, with X^ the mean of X and f^ = sum_e (n_e / n) f_e, both of the pair:
              r + alpha P V = E X^ + alpha P (V - f^) >= X^ - B / n + alpha inf {P (V - f^) : KL(P^ || P) <= beta / n}
Floor     V^pi >= the fixed point of V = sum_a pi (...), the right side
Ceiling   the same with + B' / n, sup, and the best action

Pairs that were never logged are worth the end of the value range. The policy may depend on the same log in any way.

    docs      here
    B, B'     noise
    lambda    rates
    X^        centre
    f^        anchor
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

from dualq.chains import solve_chain
from dualq.errors import LogError, ModelError
from dualq.exact import solve
from dualq.kernels import kernel
from dualq.logs.counts import Counts
from dualq.mdp import MDP
from dualq.policy import Policy

Array = np.ndarray

SHARES = {"optimal": 0.8, "behaviour": 0.1, "transitions": 0.1}  # of delta: the two references, and event 2
ENOUGH = 20  # rows per logged pair, on average, before a reference is tried
SPACING = 0.15  # between the logarithms of two rates
TYPICAL = 0.25  # of the rewards' range: the standard deviation of r + alpha V(s') that the rates suit best ...
SHARP = 0.6  # ... and how sharply, in the logarithm
DENSE = 300  # states up to which linear systems are solved as dense ones
PRECISION = 1e-7  # of values, relative; what is missing is subtracted
ROUNDS = 30  # of the iteration at most
FIRST_ROWS = 100  # asked for where there are hardly any
RESAMPLES = 200  # of the bootstrap
FIRST_LOOK = 1024  # rows of a run that is to stop when its promise is met
INFORMATIVE = 0.5  # of the value range: floor and ceiling further apart than this say too little to act on


# ---- what the log says


class Evidence(NamedTuple):
    """The counts of every block on one pattern: pairs in rows, successors and, as the last column, the end."""

    indptr: Array  # (pairs + 1,)
    columns: Array  # (entries,) S stands for the end
    n: Array  # (blocks, entries)
    r: Array  # (blocks, entries) sums of rewards
    scatter: Array  # (blocks, entries) sums of (r - mean of the entry and block)^2
    possible: Array  # (S + 1,) where a row can lead: not to states that were entered only to end
    shape: tuple[int, int]

    @property
    def pair(self) -> Array:
        """(entries,) the pair of each entry."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def per_pair(self, weights: Array) -> Array:
        """(..., pairs) sums over the successors."""
        sums = np.zeros((*weights.shape[:-1], self.indptr.size - 1))
        busy = np.flatnonzero(np.diff(self.indptr))
        if busy.size:
            sums[..., busy] = np.add.reduceat(weights, self.indptr[busy], axis=-1)
        return sums


def _evidence(blocks: Sequence[Counts], merged: Counts) -> Evidence:
    S, A = merged.shape
    ends = bool(merged.ended.any())

    def keys(counts: Counts) -> Array:
        pair = counts.s.astype(np.int64) * A + counts.a
        return pair * (S + 1) + np.where(counts.ended, S, counts.s_next)

    known = np.unique(keys(merged))
    n, r, squares = (np.zeros((len(blocks), known.size)) for _ in range(3))
    for e, counts in enumerate(blocks):
        place = np.searchsorted(known, keys(counts))
        for total, column in ((n, counts.n), (r, counts.reward_sum), (squares, counts.reward_square_sum)):
            np.add.at(total[e], place, column)  # several states where episodes end are one end
    scatter = np.maximum(squares - r * r / np.maximum(n, 1.0), 0.0)
    pair, columns = np.divmod(known, S + 1)
    indptr = np.searchsorted(pair, np.arange(S * A + 1))
    possible = np.append(~merged._over(S), ends)
    return Evidence(indptr, columns, n, r, scatter, possible, (S, A))


# ---- event 1: one boundary per pair for r + alpha f_e(s')


def _noise(
    evidence: Evidence, references: Array, alpha: float, reward_range: tuple[float, float], level: float, rows: int
) -> tuple[Array, Array]:
    """B and B' (2, pairs), and the rewards' part of them (pairs,); f_e (blocks, S + 1); delta = exp(-level) a side."""
    low, high = reward_range
    pair = evidence.pair
    num_blocks = len(references)
    n, r = evidence.n, evidence.r
    N = np.cumsum(evidence.per_pair(n), axis=0)
    spread, scatter_r, scales = [], [], []
    for e in range(num_blocks):
        f = alpha * references[e]
        reachable = f[evidence.possible]
        bottom, top = low + reachable.min(), high + reachable.max()
        middle = 0.5 * (bottom + top)
        if e == 0:
            m = np.full(N.shape[1], middle)
        else:
            past_n, past_r = n[:e].sum(axis=0), r[:e].sum(axis=0)
            m = (evidence.per_pair(past_r + past_n * f[evidence.columns]) + middle) / (N[e - 1] + 1.0)
            m = np.clip(m, bottom, top)
        scales.append((m - bottom, top - m))
        off = r[e] / np.maximum(n[e], 1.0) + f[evidence.columns] - m[pair]
        spread.append(evidence.per_pair(evidence.scatter[e] + n[e] * off**2))
        scatter_r.append(evidence.per_pair(evidence.scatter[e]))
    spread, scales = np.array(spread), np.array(scales)  # (blocks, pairs), (blocks, 2, pairs)
    rates, weights = _prior(level, rows, evidence, (low, high), alpha)
    sides = (np.ascontiguousarray(scales[:, side]) for side in range(2))
    noise = np.array([_boundary(evidence.per_pair(n), spread, scale, rates, weights, level) for scale in sides])
    part = np.array(scatter_r).sum(axis=0) / np.maximum(spread.sum(axis=0), 1e-300)
    return noise, np.minimum(part, 1.0)


def _prior(level: float, rows: int, evidence: Evidence, reward_range: tuple[float, float], alpha: float):
    """The rates lambda and the logarithms of their weights: Cauchy in log lambda; fixed before any row is seen."""
    S, A = evidence.shape
    unit = max(reward_range[1] - reward_range[0], 1e-3 * max(map(abs, reward_range)), 1e-300)
    centre = 0.5 * np.log(2.0 * (level + 2.0) * S * A / max(rows, 1)) - np.log(TYPICAL * unit)
    reach = np.log(4.0 / (1.0 - alpha)) + 0.5 * np.log(max(rows, 2))
    u = np.arange(-reach, reach + SPACING, SPACING)
    weights = -np.log1p((u / SHARP) ** 2)
    return np.exp(centre + u), weights - logsumexp(weights)


@kernel
def _boundary(n, spread, scales, rates, weights, level):
    """The sum that log sum_j w_j exp(lambda_j x - phi_j) = level allows, per pair; found from above by Newton."""
    num_blocks, num_pairs = spread.shape
    noise = np.full(num_pairs, np.inf)
    phi = np.empty(rates.size)
    alive = np.empty(rates.size, np.int64)
    for p in range(num_pairs):
        widest = 0.0
        for e in range(num_blocks):
            if n[e, p] > 0.0:
                widest = max(widest, scales[e, p])
        count, x = 0, np.inf
        for j in range(rates.size):
            if not rates[j] * widest < 1.0:
                continue
            total = 0.0
            for e in range(num_blocks):
                if n[e, p] > 0.0:
                    z = rates[j] * scales[e, p]
                    if z < 1e-3:
                        psi = rates[j] * rates[j] * (0.5 + z / 3.0 + z * z / 4.0 + z * z * z)
                    else:
                        psi = (-np.log1p(-z) - z) / (scales[e, p] * scales[e, p])
                    total += psi * spread[e, p]
            phi[count] = total - weights[j]
            alive[count] = j
            x = min(x, (level + phi[count]) / rates[j])
            count += 1
        if count == 0:
            continue
        for _ in range(50):
            top = -np.inf
            for k in range(count):
                top = max(top, rates[alive[k]] * x - phi[k])
            mass, slope = 0.0, 0.0
            for k in range(count):
                share = np.exp(rates[alive[k]] * x - phi[k] - top)
                mass += share
                slope += share * rates[alive[k]]
            step = (top + np.log(mass) - level) * mass / slope
            x -= step
            if not step > 1e-12 * x:
                break
        noise[p] = x * (1.0 + 1e-10)
    return noise


# ---- event 2: n KL(P^ || P) <= beta


def _divergence(evidence: Evidence, past: Array, n: Array, level: float) -> Array:
    """beta / n (pairs,) for rows n (entries,) that came after the rows `past`.

    The regret of a mixture of Dirichlet codes, plus the level. A code begins with what the past has shown, taken at its
    word or at a quarter of it; with no past these are the same.
    """
    m = float(evidence.possible.sum())
    total, before = evidence.per_pair(n), evidence.per_pair(past)
    logs = []
    for trust in (1.0, 0.25):
        for base in (0.5, 1.0 / m, 0.03 / m):
            a, sum_a = trust * past + base, trust * before + m * base
            seen = np.where(n > 0, gammaln(n + a) - gammaln(a), 0.0)
            logs.append(gammaln(sum_a) - gammaln(total + sum_a) + evidence.per_pair(seen))
    code = logsumexp(np.array(logs), axis=0) - np.log(len(logs))
    share = n / np.maximum(total, 1.0)[evidence.pair]
    best = evidence.per_pair(n * np.log(np.where(n > 0, share, 1.0)))
    return np.where(total > 0, (level + best - code) / np.maximum(total, 1.0), np.inf)


def _balls(ev: Evidence, delta: float) -> tuple[Array, Array]:
    """Centre (entries,) and radius (pairs,) of a ball of successors: of all rows, or of the last block if smaller."""
    begins = sorted({0, len(ev.n) - 1})
    level = np.log(ev.shape[0] * ev.shape[1] * len(begins) / delta)
    around, eps = np.zeros(ev.columns.size), np.full(ev.indptr.size - 1, np.inf)
    for begin in begins:
        past, n = ev.n[:begin].sum(axis=0), ev.n[begin:].sum(axis=0)
        radius = _divergence(ev, past, n, level)
        smaller = radius < eps
        eps = np.where(smaller, radius, eps)
        around = np.where(smaller[ev.pair], n / np.maximum(ev.per_pair(n), 1.0)[ev.pair], around)
    return around, eps


@kernel
def _largest(n, V, references, possible, wanted, top, most):
    """max of f^ - V over all possible places, per pair, and where it is; n (blocks, pairs)."""
    for i in range(top.size):
        top[i], most[i] = 0, 0.0
        total = n[:, i].sum()
        if not wanted[i] or total == 0.0:
            continue
        most[i] = -np.inf
        for s in range(V.size):
            if possible[s]:
                d = -V[s]
                for e in range(n.shape[0]):
                    d += n[e, i] / total * references[e, s]
                if d > most[i]:
                    top[i], most[i] = s, d


@kernel
def _sup(indptr, columns, p, eps, anchor, V, wanted, largest, weights, rest):
    """sup {P (f^ - V) : KL(p || P) <= eps} per pair, by its dual, any point of which is a bound; the P that attains it.

    P is `weights` on the entries, and `rest` on the place where f^ - V is largest.
    """
    most = largest.copy()
    for i in range(indptr.size - 1):
        begin, end, M = indptr[i], indptr[i + 1], largest[i]
        rest[i] = 1.0
        least = M
        for j in range(begin, end):
            weights[j] = 0.0
            M = max(M, anchor[j] - V[columns[j]])  # the same as its largest, but for rounding
            least = min(least, anchor[j] - V[columns[j]])
        most[i] = M
        span = M - least
        if not wanted[i] or not eps[i] < np.inf or not span > 0.0:
            continue
        # The dual is M + t - exp(p log(M + t - d) - eps), convex in t >= 0; its slope's sign is that of eps - h(t).
        lower, upper = np.log(1e-13 * span), np.log(span * (2.0 + 2.0 / eps[i]))
        best, best_t, best_scale = M, 0.0, 0.0
        for step in range(48):
            u = lower if step == 0 else 0.5 * (lower + upper)
            t = np.exp(u)
            mean_log, mean_inverse = 0.0, 0.0
            for j in range(begin, end):
                x = M - anchor[j] + V[columns[j]] + t
                mean_log += p[j] * np.log(x)
                mean_inverse += p[j] / x
            scale = np.exp(mean_log - eps[i])
            if M + t - scale < best:
                best, best_t, best_scale = M + t - scale, t, scale
            if mean_log + np.log(mean_inverse) > eps[i]:
                lower = u
            elif step == 0:
                break
            else:
                upper = u
            if step > 0 and upper - lower < 1e-7:
                break
        # with what rounding may do to the dual's own terms
        most[i] = min(M, best + 4e-15 * (abs(M) + best_t + span) * (end - begin + 4))
        if best_t > 0.0:
            total = 0.0
            for j in range(begin, end):
                weights[j] = best_scale * p[j] / (M - anchor[j] + V[columns[j]] + best_t)
                total += weights[j]
            if total > 1.0:
                for j in range(begin, end):
                    weights[j] /= total
            rest[i] = max(0.0, 1.0 - total)
    return most


# ---- floor and ceiling


class Model(NamedTuple):
    """Everything that holds with probability 1 - delta, for one reference."""

    evidence: Evidence
    alpha: float
    n: Array  # (pairs,)
    visits: Array  # (blocks, pairs)
    p: Array  # (entries,) P^
    r: Array  # (pairs,) r^
    around: Array  # (entries,) the centre of the ball of successors ...
    eps: Array  # (pairs,) ... and its radius beta / n
    references: Array  # (blocks, S + 1) f_e
    anchor: Array  # (entries,) f^ of the pair at the successor
    centre: Array  # (pairs,) X^
    noise: Array  # (2, pairs) B, for floors, and B', for ceilings
    reward_part: Array  # (pairs,) of the noise


class Bound(NamedTuple):
    """A floor in every state, and what it is made of."""

    value: Array  # (S,)
    pairs: Array  # (pairs,) r + alpha P V is at least this
    choice: Array  # (S, A) actions and their weights
    noise: Array  # (pairs,) B / n


def _floor(model: Model, V: Array, worst: float, allowed: Array, policy: Array | None, sign: float) -> Bound:
    """The floor of sign * V^pi, of a policy, or with the worst of the allowed actions (policy None), from a guess V.

    For sign = -1 it is minus a ceiling: the guess and the range's end `worst` are those of -V already. A pair whose own
    floor is under the end of the range is given up for the latter. Policy iteration: the adversary chooses P (and
    actions) until nothing changes; then pairs are given up or taken back; each round raises the floor. The last step
    checks the inequality V <= T V itself and pays for what is missing.
    """
    ev, alpha = model.evidence, model.alpha
    S, A = ev.shape
    wanted = (allowed if policy is None else policy > 0.0).ravel()
    anchor, references = sign * model.anchor, sign * model.references
    noise = model.noise[0 if sign > 0.0 else 1] / np.maximum(model.n, 1.0)
    c = np.where(model.n > 0, sign * model.centre - noise, -np.inf)
    weights, rest = np.empty(ev.columns.size), np.empty(c.size)
    top, largest = np.empty(c.size, np.int64), np.empty(c.size)

    def backed_up(V: Array, wanted: Array) -> Array:
        _largest(model.visits, V, references, ev.possible, wanted, top, largest)
        return c - alpha * _sup(
            ev.indptr, ev.columns, model.around, model.eps, anchor, V, wanted, largest, weights, rest
        )

    lost = ~(backed_up(V, wanted) >= worst)
    for outer in range(ROUNDS + 1):
        for _ in range(ROUNDS):
            target, choice = _choose(np.where(lost, worst, backed_up(V, wanted & ~lost)), policy, allowed)
            if not np.abs(target - V[:S]).max() > PRECISION * (1.0 - alpha) * (np.abs(V).max() + abs(worst)):
                break
            chain = _mixed(ev, choice, weights, rest, top, lost)
            # what P (V - f^) takes off: f^ under the worst P, at the place of the rest too
            share = model.visits / np.maximum(model.n, 1.0)
            paid = ev.per_pair(weights * anchor) + rest * (share * references[:, top]).sum(axis=0)
            gain = np.where(lost, worst, c - alpha * paid)
            gain = np.where(choice > 0.0, choice * np.where(choice.ravel() > 0.0, gain, 0.0).reshape(S, A), 0.0)
            V = np.append(_solved(chain, alpha, gain.sum(axis=1)), 0.0)
        q = backed_up(V, wanted)
        give_up = ~(q >= worst)
        if (give_up == lost)[wanted].all() or outer == ROUNDS:
            q = np.maximum(q, worst)
            target, choice = _choose(q, policy, allowed)
            missing = max(float((V[:S] - target).max()), 0.0) + 1e-13 * (np.abs(V).max() + abs(worst))
            return Bound(np.maximum(V[:S] - missing / (1.0 - alpha), worst), q, choice, noise)
        lost = give_up
    raise AssertionError("unreachable")


def _choose(q: Array, policy: Array | None, allowed: Array) -> tuple[Array, Array]:
    """The value in each state, and the weights of the actions: the policy's, or the worst allowed action."""
    q = q.reshape(allowed.shape)
    if policy is not None:
        return np.where(policy > 0.0, policy * np.where(policy > 0.0, q, 0.0), 0.0).sum(axis=1), policy
    q = np.where(allowed, q, np.inf)
    choice = np.zeros(q.shape)
    choice[np.arange(len(q)), q.argmin(axis=1)] = 1.0
    return q.min(axis=1), choice


def _mixed(ev: Evidence, choice: Array, weights: Array, rest: Array, top: Array, lost: Array) -> sp.csr_array:
    """The chain of the states under the chosen actions; the end, and pairs given up, lead nowhere."""
    S, A = ev.shape
    share = np.where(lost, 0.0, choice.ravel())
    pair, state = ev.pair, np.arange(S * A) // A
    inside = np.flatnonzero((ev.columns < S) & (share[pair] > 0.0))
    extra = np.flatnonzero((share * rest > 0.0) & (top < S))
    data = np.concatenate([share[pair[inside]] * weights[inside], share[extra] * rest[extra]])
    rows = np.concatenate([state[pair[inside]], state[extra]])
    return sp.csr_array((data, (rows, np.concatenate([ev.columns[inside], top[extra]]))), shape=(S, S))


def _solved(chain: sp.csr_array, alpha: float, b: Array, transpose: bool = False) -> Array:
    if b.size > DENSE:
        return solve_chain(chain, alpha, b, transpose)
    matrix = np.eye(b.size) - alpha * chain.toarray()
    return np.linalg.solve(matrix.T if transpose else matrix, b)


# ---- the parts put together


def _models(blocks: Sequence[Counts], merged: Counts, alpha: float, delta: float) -> dict[str, Model]:
    """One model per reference, all of them valid together with probability 1 - delta."""
    ev = _evidence(blocks, merged)
    S, A = ev.shape
    visits, n = ev.per_pair(ev.n), ev.n.sum(axis=0)
    N = visits.sum(axis=0)
    around, eps = _balls(ev, SHARES["transitions"] * delta)
    r = np.clip(ev.per_pair(ev.r.sum(axis=0)) / np.maximum(N, 1.0), *merged.reward_range)
    models = {}
    for name, references in _references(blocks, ev, alpha).items():
        level = np.log(2.0 * S * A / (SHARES[name] * delta))
        noise, part = _noise(ev, references, alpha, merged.reward_range, level, merged.total)
        share = visits / np.maximum(N, 1.0)
        anchor = (share[:, ev.pair] * references[:, ev.columns]).sum(axis=0)
        centre = r + alpha * ev.per_pair((ev.n * references[:, ev.columns]).sum(axis=0)) / np.maximum(N, 1.0)
        p = n / np.maximum(N, 1.0)[ev.pair]
        models[name] = Model(ev, alpha, N, visits, p, r, around, eps, references, anchor, centre, noise, part)
    return models


def _references(blocks: Sequence[Counts], ev: Evidence, alpha: float) -> dict[str, Array]:
    """f_e of every block, from the blocks before it: the plug-in value of the best policy, and of the behaviour."""
    S = ev.shape[0]
    best, behaviour = np.zeros((len(blocks), S + 1)), np.zeros((len(blocks), S + 1))
    past = None
    for e, counts in enumerate(blocks[:-1], 1):
        past = counts if past is None else past.merge(counts)
        if past.total < ENOUGH * (past.visits > 0).sum():
            continue  # plug-in values of so few rows are wild, and a wild reference costs more than none
        mdp = _plug_in(past, alpha)
        best[e, :S] = solve(mdp).V[:S]
        behaviour[e, :S] = Policy(_logged(past, mdp)).value(mdp)[:S]
    return {"optimal": best, "behaviour": behaviour}


def _plug_in(counts: Counts, alpha: float) -> MDP:
    """The empirical model; where nothing is known, the average reward."""
    return counts.mdp(alpha, never_left_reward=float(counts.reward_sum.sum() / max(counts.total, 1)))


def _logged(counts: Counts, mdp: MDP) -> Array:
    """n(s, a) / n(s), uniform where a state was never left, in the states of the empirical model."""
    n = np.ones((mdp.num_states, mdp.num_actions))
    seen = np.flatnonzero(counts.visits.any(axis=1))
    n[seen] = counts.visits[seen]
    return n / n.sum(axis=1, keepdims=True)


def _plug_in_value(model: Model, policy: Array, unknown: float) -> Array:
    """f (S + 1,): the value of a policy on the frequencies, where pairs never logged are worth `unknown`."""
    lost = model.n == 0
    nowhere = np.zeros(model.n.size, np.int64)
    chain = _mixed(model.evidence, policy, model.p, np.zeros(model.n.size), nowhere, lost)
    gain = (policy * np.where(lost, unknown, model.r).reshape(policy.shape)).sum(axis=1)
    return np.append(_solved(chain, model.alpha, gain), 0.0)


# ---- what users get


@dataclass(frozen=True)
class Wanted:
    """A pair that the floor suffers from, and what more rows of it would bring."""

    state: Any
    action: Any
    visits: int  # rows in the log
    rows: int  # more rows, which would about halve what the pair costs
    raises: float  # the floor, about


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds that hold together with the given confidence; the numbers are at the start.

    lower             the policy's true value is at least this
    upper             no policy's value is more, over all actions (or the available ones)
    upper_supported   no policy's value is more that keeps to pairs in the log
    behaviour         (low, high): between these is the value of n(s, a) / n(s), the logged frequencies as a policy
    estimate          the policy's value on the log's own frequencies: no bound
    per_state         the same bounds in every state, as columns
    causes            {cause: its part of the regret}; the parts add up
    assumptions       what all of it rests on, one sentence each
    """

    lower: float
    upper: float
    upper_supported: float
    behaviour: tuple[float, float]
    estimate: float
    confidence: float
    method: str
    rows: int
    value_range: tuple[float, float]
    per_state: dict[str, Any] = field(repr=False)
    causes: dict[str, float] = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    _pairs: tuple[Wanted, ...] = field(repr=False)
    rows_needed: int | None = None  # about how many rows like these would promise something; None where none would

    @property
    def regret(self) -> float:
        """No policy is better than the certified one by more than this."""
        return self.upper - self.lower

    @property
    def improvement(self) -> float:
        """The policy is better than the logged behaviour by at least this; a promise only where it is positive."""
        return self.lower - self.behaviour[1]

    @property
    def informative(self) -> bool:
        """Whether the log says clearly more than the range of rewards does.

        True where no policy that keeps to logged pairs can be better by more than half of the value range. Pairs that
        were never logged do not count: no number of rows like these would tell anything of them.
        """
        low, high = self.value_range
        return bool(self.upper_supported - self.lower <= INFORMATIVE * (high - low))

    def wanted(self, most: int = 10) -> list[Wanted]:
        """The pairs where more data would raise the floor most."""
        return list(self._pairs[:most])


def certificate_of(
    counts: Counts | Sequence[Counts],
    policy: Policy,
    discount: float,
    start: Any,
    confidence: float = 0.95,
    available: Any = None,
    method: str = "proven",
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> Certificate:
    """Floor, ceiling and the behaviour's interval, jointly valid with the given confidence.

    counts        of the whole log, or of its blocks in time order (`counts_in_blocks`): about half as wide
    policy        any policy, chosen from the same log or not
    start         where value is measured: weights per state, or {state label: weight}
    available     {state label: [action labels]} or (S, A) booleans: what "any policy" may do; every action if not given
    method        "proven" (docs/certificate.md) or "bootstrap" (approximate: it may break its promise)
    value_range   what values can be, if more is known than the rewards' range says: (0, 1) where only the end pays 1
    seed          of the bootstrap
    """
    blocks = [counts] if isinstance(counts, Counts) else list(counts)
    merged = _merged(blocks)
    if method not in METHODS:
        raise ModelError(f"no method {method!r}; there are {', '.join(METHODS)}")
    _check_numbers(confidence, discount)
    question = Question(
        _checked_policy(policy, merged),
        float(discount),
        _checked_start(start, merged),
        float(confidence),
        _checked_available(available, merged),
        _checked_value_range(value_range, merged, discount),
        value_range is not None,
        seed,
    )
    found = METHODS[method](blocks, merged, question)
    return dataclasses.replace(found, rows_needed=_rows_needed(found, blocks, question))


def cost_bounds(
    counts: Counts | Sequence[Counts],
    policy: Policy,
    cost: str,
    discount: float,
    start: Any,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """(low, high) of what a policy costs a step on average: (1 - discount) times the discounted total, from the start.

    A cost is a reward with a range of its own; the policy may be chosen from the same log. Several intervals, or an
    interval and a certificate, hold together with the sum of what each leaves open: give each its part.
    """
    blocks = [counts] if isinstance(counts, Counts) else list(counts)
    blocks = [_paying(block, cost) for block in blocks]
    merged = _merged(blocks)
    _check_numbers(confidence, discount)
    pi, eta = _checked_policy(policy, merged), _checked_start(start, merged)
    low, high = _checked_value_range(None, merged, discount)
    models = _models(blocks, merged, float(discount), 1.0 - confidence)
    everything = np.ones(merged.shape, bool)
    f = _plug_in_value(models["behaviour"], pi, 0.5 * (low + high))
    floors = [_floor(m, f, low, everything, pi, 1.0).value for m in models.values()]
    ceilings = [-_floor(m, -f, -high, everything, pi, -1.0).value for m in models.values()]
    floor, ceiling = np.max(floors, axis=0), np.min(ceilings, axis=0)
    return (1.0 - discount) * float(eta @ floor), (1.0 - discount) * float(eta @ ceiling)


def _paying(counts: Counts, cost: str) -> Counts:
    """The counts with a cost in the place of the reward."""
    if cost not in counts.cost_sums:
        there = ", ".join(map(repr, counts.cost_sums)) or "none"
        raise LogError(f"the log has no cost {cost!r}; its costs: {there}")
    return dataclasses.replace(
        counts,
        reward_sum=counts.cost_sums[cost],
        reward_square_sum=counts.cost_square_sums[cost],
        reward_range=counts.cost_ranges[cost],
        range_known=cost in counts.cost_ranges_known,
    )


def _rows_needed(found: Certificate, blocks: Sequence[Counts], ask: Question) -> int | None:
    """An estimate: the least of 4, 16, 64, ... times the same rows that would say something."""
    if found.informative:
        return found.rows
    for factor in 4 ** np.arange(1, 9):
        scaled = [_scaled(block, int(factor)) for block in blocks]
        if METHODS[found.method](scaled, _merged(scaled), ask).informative:
            return int(factor) * found.rows
    return None


class Question(NamedTuple):
    """What is asked, checked."""

    policy: Array  # (S, A)
    alpha: float
    start: Array  # (S,)
    confidence: float
    allowed: Array  # (S, A)
    value_range: tuple[float, float]
    range_given: bool
    seed: int


def _proven(blocks: list[Counts], merged: Counts, ask: Question) -> Certificate:
    models = _models(blocks, merged, ask.alpha, 1.0 - ask.confidence)
    model = models["optimal"]
    low, high = ask.value_range
    eta = ask.start
    logged = _logged(merged, _plug_in(merged, ask.alpha))[: len(merged.states)]
    supported = merged.visits > 0
    supported = np.where(supported.any(axis=1, keepdims=True), supported, ask.allowed)

    best = np.append(solve(_plug_in(merged, ask.alpha)).V[: len(merged.states)], 0.0)
    unknown = float(eta @ best[:-1])
    f, usual = (_plug_in_value(model, policy, unknown) for policy in (ask.policy, logged))
    floor = max(
        (_floor(m, f, low, ask.allowed, ask.policy, 1.0) for m in models.values()), key=lambda b: float(eta @ b.value)
    )
    ceiling = _floor(model, -best, -high, ask.allowed, None, -1.0)
    ceiling_supported = _floor(model, -best, -high, supported, None, -1.0)
    # Whichever reference is the better one: all of them hold together.
    behaviour_low = np.max([_floor(m, usual, low, ask.allowed, logged, 1.0).value for m in models.values()], axis=0)
    behaviour_high = np.min(
        [-_floor(m, -usual, -high, ask.allowed, logged, -1.0).value for m in models.values()], axis=0
    )
    upper, upper_supported = -ceiling.value, -ceiling_supported.value
    table = _table(merged, floor.value, upper, upper_supported, behaviour_low, behaviour_high)

    return Certificate(
        lower=float(eta @ floor.value),
        upper=float(eta @ upper),
        upper_supported=float(eta @ upper_supported),
        behaviour=(float(eta @ behaviour_low), float(eta @ behaviour_high)),
        estimate=float(eta @ f[:-1]),
        confidence=ask.confidence,
        method="proven",
        rows=merged.total,
        value_range=ask.value_range,
        per_state=table,
        causes=_causes(model, eta, unknown, (f, floor), (best, ceiling_supported), ceiling),
        assumptions=_assumptions(merged, ask),
        _pairs=_wanted(merged, _costs(model, eta, unknown, floor, 1.0)[0]),
    )


def _costs(model: Model, eta: Array, unknown: float, bound: Bound, sign: float) -> tuple[Array, Array]:
    """What each pair takes off the plug-in value, and the rewards' part of it (pairs,).

    A floor V falls short of the empirical model by d = r^ + alpha P^ V - (its own bound) in every pair; so it is below
    the plug-in value of the same policy by the sum of d over the empirical occupancy, exactly.
    """
    ev = model.evidence
    V = np.append(bound.value, 0.0)
    expected = np.where(
        model.n > 0, sign * model.r + model.alpha * ev.per_pair(model.p * V[ev.columns]), sign * unknown
    )
    nothing, nowhere = np.zeros(model.n.size), np.zeros(model.n.size, np.int64)
    chain = _mixed(ev, bound.choice, model.p, nothing, nowhere, model.n == 0)
    weight = (_solved(chain, model.alpha, eta, transpose=True)[:, None] * bound.choice).ravel()
    short = np.where(weight > 0.0, expected - bound.pairs, 0.0)
    from_rewards = np.where(weight > 0.0, np.clip(short, 0.0, bound.noise), 0.0) * model.reward_part
    return weight * short, weight * from_rewards * (model.n > 0)


def _causes(
    model: Model, eta: Array, unknown: float, floor: tuple[Array, Bound], best: tuple[Array, Bound], ceiling: Bound
) -> dict[str, float]:
    """The regret by cause: how far floor and ceiling are from their plug-in values, and these from each other."""
    causes: dict[str, float] = dict.fromkeys(("thin pairs", "reward noise", "unsupported pairs"), 0.0)
    for (plug_in, bound), sign in ((floor, 1.0), (best, -1.0)):
        costs, rewards = _costs(model, eta, unknown, bound, sign)
        unseen = float(costs[model.n == 0].sum())
        shares = np.array([float(costs.sum() - rewards.sum()) - unseen, float(rewards.sum()), unseen])
        width = float(eta @ (sign * plug_in[:-1] - bound.value))
        # the ceiling may belong to a policy that the empirical model thinks worse
        shares *= width / total if (total := float(shares.sum())) > 0.0 else 0.0
        for cause, share in zip(causes, shares, strict=True):
            causes[cause] += float(share)
    causes["unsupported pairs"] += float(eta @ (best[1].value - ceiling.value))
    causes["estimated distance to the best policy"] = float(eta @ (best[0] - floor[0])[:-1])
    return causes


def _wanted(counts: Counts, costs: Array) -> tuple[Wanted, ...]:
    """Pairs by what they cost the floor; four times the rows about halve it."""
    A, n = counts.shape[1], counts.visits.ravel()
    return tuple(
        Wanted(
            counts.states[int(i) // A],
            counts.actions[int(i) % A],
            int(n[i]),
            int(max(3 * n[i], FIRST_ROWS)),
            0.5 * float(costs[i]),
        )
        for i in np.argsort(-costs, kind="stable")[:1000]
        if costs[i] > 0.0
    )


def _assumptions(counts: Counts, ask: Question) -> tuple[str, ...]:
    low, high = counts.reward_range
    known = "known" if counts.range_known else "as observed: nothing outside it can happen"
    value = f"[{ask.value_range[0]:g}, {ask.value_range[1]:g}]"
    ends = "they end where the log says so" if counts.ended.any() else "none of them ends: no row of the log did"
    return (
        f"floor, ceiling, the behaviour's interval and every state's hold together with probability {ask.confidence:g}",
        "given state and action, next state and reward do not depend on what happened before (Markov), nor on time",
        f"there are the {len(counts.states)} states and {len(counts.actions)} actions of the log, and no others",
        f"rewards are in [{low:g}, {high:g}] ({known})",
        f"values are in {value} ({'given' if ask.range_given else 'from the rewards'})",
        f"episodes: {ends}",
        "the number of rows, and where the log was cut into blocks, were not chosen by looking at it",
        "start weights and available actions are as given",
    )


def _table(counts: Counts, *columns: Array) -> dict[str, Any]:
    names = ("lower", "upper", "upper_supported", "behaviour_low", "behaviour_high")
    table: dict[str, Any] = counts.states.columns()
    table["rows"] = counts.visits.sum(axis=1)
    return table | dict(zip(names, columns, strict=True))


# ---- a run that stops when the promise is met


@dataclass(frozen=True)
class Regret:
    """When to stop a training run: as soon as the certificate of its policy promises a regret of at most `most`.

    The run is looked at after FIRST_LOOK, twice, four times, ... as many rows, which are its blocks. The j-th look
    spends delta / (j (j + 1)) of delta = 1 - confidence, together delta: so the promise at the stop holds, whenever
    that is.
    """

    most: float
    confidence: float = 0.95

    def __post_init__(self):
        if not self.most > 0.0:
            raise ModelError(f"the regret to stop at is {self.most!r}; it must be positive")
        _check_numbers(self.confidence, 0.0)

    def watch(self, mdp: MDP, start: Array) -> Watch:
        """One run, from its first row."""
        return Watch(self, mdp, start)


class Watch:
    """The rows of one run, counted in blocks, and the certificate of the last look."""

    def __init__(self, stop: Regret, mdp: MDP, start: Array):
        self.stop, self.mdp, self.start = stop, mdp, start
        self.due = FIRST_LOOK  # the rows after which the next look is due
        self.rows = self.looks = 0
        self.blocks: list[Counts] = []
        self.fresh = True  # whether the next rows begin a block
        self.certificate: Certificate | None = None
        self.promises: list[tuple[int, float]] = []  # (rows, the regret that was promised then) of every look

    def see(self, rows: Any) -> None:
        """Count the next rows, none of them beyond `due`."""
        mdp = self.mdp
        counts = Counts.from_rows(rows, mdp.states, mdp.actions, mdp.reward_range)
        if self.fresh:
            self.blocks.append(counts)
        else:
            self.blocks[-1] = self.blocks[-1].merge(counts)
        self.fresh = False
        self.rows += counts.total

    def met(self, policy: Policy) -> bool:
        """Look, where a look is due: whether the policy's regret is small enough for sure."""
        if self.rows < self.due:
            return False
        self.looks += 1
        self.due, self.fresh = 2 * self.due, True
        delta = (1.0 - self.stop.confidence) / (self.looks * (self.looks + 1))
        merged, alpha = _merged(self.blocks), self.mdp.discount
        values = _checked_value_range(None, merged, alpha)
        start, allowed = _checked_start(self.start, merged), _checked_available(self.mdp.available, merged)
        ask = Question(_checked_policy(policy, merged), alpha, start, 1.0 - delta, allowed, values, False, 0)
        found = _proven(self.blocks, merged, ask)
        # All looks together keep the confidence that was asked for, and no single one is chosen beforehand.
        ask = ask._replace(confidence=self.stop.confidence)
        self.certificate = dataclasses.replace(found, confidence=ask.confidence, assumptions=_assumptions(merged, ask))
        self.promises.append((self.rows, self.certificate.regret))
        return self.certificate.regret <= self.stop.most


# ---- the second opinion


def _bootstrap(blocks: list[Counts], merged: Counts, ask: Question) -> Certificate:
    """Percentiles over resampled models (Bayesian bootstrap of each pair's rows): approximate, and often too sure."""
    ev = _evidence([merged], merged)
    S, A = ev.shape
    n, delta = ev.n[0], 1.0 - ask.confidence
    total, sums = ev.per_pair(n), ev.r[0]
    rng = np.random.default_rng(ask.seed)
    deviation = np.sqrt(ev.scatter[0]) / np.maximum(n, 1.0)
    low, high = ask.value_range
    logged = _logged(merged, _plug_in(merged, ask.alpha))[:S]
    supported = merged.visits > 0
    anything = np.where(supported.any(axis=1, keepdims=True), supported, ask.allowed)
    values, behaviours, uppers, uppers_supported = ([] for _ in range(4))
    nothing = np.zeros(S * A)
    for _ in range(RESAMPLES):
        p = rng.gamma(np.maximum(n, 1e-3))
        p /= ev.per_pair(p)[ev.pair]
        means = sums / np.maximum(n, 1.0) + deviation * rng.standard_normal(n.size)
        r = np.clip(ev.per_pair(p * means), *merged.reward_range)
        model = Model(ev, ask.alpha, total, ev.n, p, r, p, nothing, ev.n, nothing, nothing, nothing, nothing)
        values.append(_plug_in_value(model, ask.policy, low)[:-1])
        behaviours.append(_plug_in_value(model, logged, 0.5 * (low + high))[:-1])
        uppers.append(_best_value(model, ask.allowed, high))
        uppers_supported.append(_best_value(model, anything, high))
    lower = np.quantile(values, delta / 2.0, axis=0)
    upper, upper_supported = (np.quantile(u, 1.0 - delta / 2.0, axis=0) for u in (uppers, uppers_supported))
    behaviour_low, behaviour_high = np.quantile(behaviours, [delta / 2.0, 1.0 - delta / 2.0], axis=0)
    eta = ask.start
    ends = [float(np.quantile(np.array(x) @ eta, q)) for x, q in (
        (values, delta / 2.0), (uppers, 1.0 - delta / 2.0), (uppers_supported, 1.0 - delta / 2.0),
        (behaviours, delta / 2.0), (behaviours, 1.0 - delta / 2.0),
    )]  # fmt: skip
    return Certificate(
        lower=ends[0],
        upper=ends[1],
        upper_supported=ends[2],
        behaviour=(ends[3], ends[4]),
        estimate=float(np.mean(values, axis=0) @ eta),
        confidence=ask.confidence,
        method="bootstrap",
        rows=merged.total,
        value_range=ask.value_range,
        per_state=_table(merged, lower, upper, upper_supported, behaviour_low, behaviour_high),
        causes={},
        assumptions=("bootstrap: approximate, it holds less often than it says", *_assumptions(merged, ask)[1:]),
        _pairs=(),
    )


def _best_value(model: Model, allowed: Array, unknown: float) -> Array:
    """V* (S,) on the frequencies over the allowed actions, where pairs never logged are worth `unknown`."""
    S, A = model.evidence.shape
    policy = np.zeros((S, A))
    policy[np.arange(S), allowed.argmax(axis=1)] = 1.0
    V = np.zeros(S + 1)
    for _ in range(ROUNDS):
        V = _plug_in_value(model, policy, unknown)
        backed = model.r + model.alpha * model.evidence.per_pair(model.p * V[model.evidence.columns])
        q = np.where(allowed, np.where(model.n == 0, unknown, backed).reshape(S, A), -np.inf)
        better = q.max(axis=1) > (policy * np.where(allowed, q, 0.0)).sum(axis=1) + 1e-10 * (1.0 + np.abs(V[:-1]))
        if not better.any():
            return V[:-1]
        policy[better] = np.arange(A) == q[better].argmax(axis=1)[:, None]
    return V[:-1]


METHODS = {"proven": _proven, "bootstrap": _bootstrap}


# ---- checks at the border


def _merged(blocks: Sequence[Counts]) -> Counts:
    if not blocks:
        raise LogError("no counts were given; a certificate needs at least one block of rows")
    merged = blocks[0]
    for block in blocks[1:]:
        merged = merged.merge(block)
    return merged


def _check_numbers(confidence: float, discount: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ModelError(f"confidence is {confidence!r}; it must be between 0 and 1, such as 0.95")
    if not 0.0 <= discount < 1.0:
        raise ModelError(f"discount is {discount!r}; it must be at least 0 and less than 1")


def _scaled(counts: Counts, factor: int) -> Counts:
    """The counts of as many times the same rows."""
    columns = ("n", "reward_sum", "reward_square_sum")
    return dataclasses.replace(counts, **{name: getattr(counts, name) * factor for name in columns})


def _checked_policy(policy: Policy, counts: Counts) -> Array:
    S, A = counts.shape
    matrix = policy.matrix
    if matrix.shape not in ((S, A), (S + 1, A)):  # the empirical model has "(end)" as a last state
        raise ModelError(f"the policy is for {matrix.shape} states and actions, the log has {counts.shape}")
    return matrix[:S]


def _checked_start(start: Any, counts: Counts) -> Array:
    S = len(counts.states)
    if isinstance(start, Mapping):
        weights = np.zeros(S)
        for label, weight in start.items():
            weights[counts.states.index(label)] += weight
    else:
        weights = np.array(start, dtype=float)
    if weights.shape not in ((S,), (S + 1,)):
        raise ModelError(f"start has shape {weights.shape}; it must be {(S,)}, one weight per state")
    weights = weights[:S]
    if not ((weights >= 0.0).all() and 0.0 < weights.sum() < np.inf):
        raise ModelError("start has a negative weight, or no positive one; weights must be a distribution over states")
    return weights / weights.sum()


def _checked_available(available: Any, counts: Counts) -> Array:
    if available is None:
        return np.ones(counts.shape, bool)
    if isinstance(available, Mapping):
        allowed = np.ones(counts.shape, bool)
        for state, actions in available.items():
            s = counts.states.index(state)
            allowed[s] = False
            allowed[s, [counts.actions.index(action) for action in actions]] = True
    else:
        allowed = np.array(available, dtype=bool)
    if allowed.shape != counts.shape:
        raise ModelError(f"available has shape {allowed.shape}; it must be {counts.shape}, states and actions")
    if (none := ~allowed.any(axis=1)).any():
        raise ModelError(f"no action is available in {counts.states.describe(int(none.argmax()))}; name at least one")
    if (taken := (counts.visits > 0) & ~allowed).any():
        s, a = (int(i) for i in np.argwhere(taken)[0])
        where = f"{counts.actions.describe(a)} in {counts.states.describe(s)}"
        raise ModelError(f"the log has {where}, which is not available; add it")
    return allowed


def _checked_value_range(value_range: Any, counts: Counts, alpha: float) -> tuple[float, float]:
    low, high = (end / (1.0 - alpha) for end in counts.reward_range)
    if counts.ended.any():
        low, high = min(low, 0.0), max(high, 0.0)
    if value_range is None:
        return low, high
    given_low, given_high = (float(end) for end in value_range)
    if not given_low <= given_high:
        raise ModelError(f"the value range is [{given_low:g}, {given_high:g}]; the smaller end must come first")
    return max(low, given_low), min(high, given_high)
