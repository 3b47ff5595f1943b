"""What a policy may be expected to earn, when it was chosen for what the same log promised; and how sure that is.

Luck      `claimed` is the policy's value in the pooled model. It was chosen for being high: part of what it has above
          the logged value is luck. How much, the log itself tells: its rows are dealt at random to two halves (rows are
          independent given their pair), each half chooses a policy, and the other one is asked about it. Where both
          have seen the pairs, the asked half puts its own frequencies into the model of the half that chose; elsewhere
          the policy does as usual. In either model it gains something over what was usual, and
              reliability = gain found in the model with the other's rows / gain promised in the chooser's own
          both ways together, where pairs are few averaged over several deals: luck is not found again. Deals are drawn
          by the counts themselves: were they the same for all logs, so would be their luck. Counts are in the order of
          the states, so that another order of the state's columns is another deal.
          The whole policy is evaluated anew, not only its first step with
          the chooser's V: part of V is luck too, and the policy goes where it is high. With c the occupancy less the
          usual one, of the policy that a half was asked about and of the one that it chose itself, what was found has
              variance = sum (c_asked - c_chosen)^2 sigma^2 / n        over the rows of both halves
          beside what was promised: where both choose the same there is no luck of choice at all.
          Of gains that could not be asked about, pairs that only one half has seen, luck may be another part: if they
          are the part 1 - h of the claimed gain, (1/h - 1) (promised - found)^2 is added where less was found.
          Before, every value of it from 0 to 1 is alike, and more than 1 less and less so: pooling may have been
          too careful. No more is expected than is claimed; that there may be more is part of the error.
All rows  This is so with half of the rows. With all of them, unpooled claims would have the reliability k of
          a test of twice the length, 2 k / (1 + k) (Spearman; Brown; 1910); claims that are pooled as they should be
          keep the same part with any number of rows, as they are smaller where rows are fewer. What is true lies
          somewhere between the two, everywhere alike. Mean and deviation of that, and then
              expected = logged + reliability (claimed - logged)
          Costs of a policy that was chosen for what it earns are lucky too, and dealt with alike (limited/).
Error     of a value in a model, with the values V of that policy there and its occupancy: the squares of three parts
          are added. The model is the log's own, pairs apart, for what was logged, and the pooled one for the policy
          that was chosen: a pair that was seen once always leads to the same state, and a policy that leans on other
          rows for good reasons might go round in circles there.
            rows     sum_{s,a} occupancy(s,a)^2 sigma^2(s,a) / n(s,a);  sigma^2 as in `pooling`, and beside the squares
                     of all pairs one row's worth of the variance of y in the whole log: where no pair was seen twice
                     that is all there is, and where repeated pairs always did the same it is next to nothing.
            unseen   what never happened in N rows may still happen once in about N:
                     (how far rewards differ) sum occupancy / N.  Where all rewards of the log are alike, what they can
                     differ by is the range that was given; if none was, nothing is known of it and nothing is added.
            unknown  states that were never left are worth some state of the log, nobody knows which, nor whether the
                     policy does better there than what was logged, which is worth V_b: each adds
                     (chance to end there, discounted)^2 (variance of V over the log's rows + mean(V - V_b)^2)
          How much rows scatter is itself known from N rows only, so the root of the sum is multiplied by
              t / z,   the 97.5% quantiles of Student's t with N - 1 degrees and of the normal:   1.96 errors hold 95%
          which is 2.2 for three rows, 1.05 for 25, and nothing for hundreds. One row, or rows that all earned the same,
          do not tell how much others may differ: then there is no error.
          That of `expected` is the one of the two values, by 1 - sqrt(k) and sqrt(k), beside the deviation of
          the reliability k times the gain and half of what was taken off for luck: how lucky one log was is not known
          better than that. (Of means that scatter by t^2 and are seen with noise v, a part k = t^2 / (t^2 + v) of a
          difference is true, and what is not known of it has the variance k v, not k^2 v.) The
          error of pooled rows would be smaller, as far as their prior is right; this one does not rely on it.
The start is taken as given. An estimate with its standard error is no floor: that is the certificate's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri, stdtrit

from dualq.base import with_error
from dualq.logs import Counts
from dualq.model import MDP, TablePolicy, solve_chain
from dualq.offline.careful.fitting import Fitted
from dualq.offline.careful.pooling import ROUNDING, Moments, Rows, row_variance, squares_about_mean

Array = np.ndarray

PARTS = np.linspace(0.0, 2.0, 201)  # the values that a reliability can have
EVERY_PART_ALIKE = np.zeros(PARTS.size)  # a log prior
TOO_CAREFUL = 0.5  # how far beyond 1 it may well be
UPPER = 0.975  # the quantile that 1.96 errors reach
HOW_LUCKY = 0.5  # the deviation of what was taken off for luck, as a part of it


@dataclass(frozen=True)
class Estimate:
    """A value and its standard error; None where none can be given."""

    value: float
    standard_error: float | None

    @property
    def error_or_nan(self) -> float:
        """The standard error as a number; nan where none can be given."""
        return float("nan") if self.standard_error is None else self.standard_error

    def __str__(self) -> str:
        return with_error(self.value, self.standard_error)


def expect(
    rows: Rows,
    pooled: MDP,
    apart: MDP,
    policy: TablePolicy,
    behaviour: TablePolicy,
    start: Array,
    reliability: Estimate,
) -> tuple[Estimate, Estimate, float]:
    """What the policy is expected to earn, what the logged behaviour, and what the pooled model claims."""
    claimed = float(start @ policy.value(pooled))
    usual = behaviour.value(apart)
    logged = estimate(rows, apart, behaviour, start, usual)
    error = estimate(rows, pooled, policy, start, usual).error_or_nan
    gain = claimed - logged.value
    own = np.sqrt(reliability.value)
    of_rows = (1.0 - own) * logged.error_or_nan + own * error  # of the same rows: no cancelling
    parts = of_rows, reliability.error_or_nan * gain, HOW_LUCKY * (1.0 - reliability.value) * gain
    return Estimate(logged.value + reliability.value * gain, float(np.linalg.norm(parts))), logged, claimed


def estimate(rows: Rows, mdp: MDP, policy: TablePolicy, start: Array, usual: Array) -> Estimate:
    """Value of a policy from the start in a model of the log, and its error; `usual` is V of the logged behaviour."""
    known = sampled(rows, mdp, policy, start, usual)
    unseen = reward_spread(rows) * known.occupancy[rows.supported].sum() / rows.total.sum()
    error = np.sqrt(known.variance + unseen**2)
    return Estimate(known.value, float(error * of_few_rows(rows)) if error > 0.0 else None)


def of_few_rows(rows: Rows) -> float:
    """What an error is to be multiplied with, because its own size is known from so many rows only."""
    N = float(rows.total.sum())
    return float(stdtrit(N - 1.0, UPPER) / ndtri(UPPER)) if N > 1.0 else np.inf


class Sampled(NamedTuple):
    """What a sample of rows says of a policy."""

    value: float
    variance: float  # of the value: by rows, and by states that were never left
    occupancy: Array  # (S, A)


def sampled(rows: Rows, mdp: MDP, policy: TablePolicy, start: Array, usual: Array) -> Sampled:
    """Value of a policy from the start in a model of the log; what never happened is not allowed for."""
    V = policy.value(mdp)
    occupancy = policy.occupancy(mdp, np.maximum(start, np.finfo(float).tiny))  # its weights must be positive
    by_rows = (occupancy**2 * sigma2_of(rows, rows.moments(V)) / np.maximum(rows.n, 1.0)).sum()
    ended = (1.0 - mdp.discount) * occupancy[rows.unknown].sum(axis=1)
    N = rows.total.sum()
    mean = rows.total @ V / N
    doubt = rows.total @ (V - mean) ** 2 / N + (mean - rows.total @ usual / N) ** 2
    return Sampled(float(start @ V), float(by_rows + (ended**2).sum() * doubt), occupancy)


def sigma2_of(rows: Rows, moments: Moments) -> Array:
    """Variance of y within each pair (S, A), pairs apart."""
    return row_variance(rows, moments, rows.supported.astype(float), log_variance(rows, moments))


def log_variance(rows: Rows, moments: Moments) -> float:
    """Of y over all rows of the log."""
    N = rows.total.sum()
    centre = rows.total @ moments.state_mean / N
    squares = moments.squares.sum() + moments.between.sum() + rows.total @ (moments.state_mean - centre) ** 2
    return float(squares / max(N - 1.0, 1.0))


def reward_spread(rows: Rows) -> float:
    """How far the log's rewards differ; where they never do, how far they could."""
    low, high = rows.counts.reward_range
    return float(np.ptp(rows.reward_mean)) or high - low


# ---- what of a gain is luck


def gain_reliability(deals: Sequence[Sequence[Fitted]], start: Array, gain: float) -> Estimate:
    """The part of a claimed gain over the log that is there in rows which had no say in the choice."""
    answers = [_found(halves[0], halves[1], start, gain) for halves in deals if halves]
    if not answers:
        return reliability_of([])
    found, promised, variance = np.mean(answers, axis=0)  # of the same rows, so that no variance gets less by it
    return reliability_of([(float(found), float(promised), float(variance))])


def _found(one: Fitted, other: Fitted, start: Array, gain: float) -> tuple[float, float, float]:
    """Of one deal: what was found, what had been promised, and the variance of the former; both ways together."""
    there, back = _asked(one, other, start), _asked(other, one, start)
    variance, on_log = 0.0, one.rows.counts.support.to_log
    both = on_log(one.rows.n) * on_log(other.rows.n) > 0
    for half, chosen, asked in ((other, back, there), (one, there, back)):
        noise = np.divide(on_log(half.sigma2), on_log(half.rows.n), out=np.zeros(both.shape), where=both)
        variance += float(((asked.here - chosen.at_home) ** 2 * noise).sum())
    found, promised = there.found + back.found, max(there.promised + back.promised, 0.0)
    if 0.0 < promised < 2.0 * gain:  # of gains that could not be asked about, luck may be another part
        variance += (2.0 * gain / promised - 1.0) * min(found - promised, 0.0) ** 2
    return found, promised, variance


def reliability_of(asked: Sequence[tuple[float, float, float]]) -> Estimate:
    """The reliability of a gain, with all rows, from what a half found, what the other had promised, and a variance."""
    reliability, error = found_again(asked, -np.maximum(PARTS - 1.0, 0.0) / TOO_CAREFUL)
    return Estimate(min(reliability, 1.0), float(np.hypot(error, max(reliability - 1.0, 0.0))))


def found_again(asked: Sequence[tuple[float, float, float]], log_prior: Array) -> tuple[float, float]:
    """Mean and deviation of the part that is found again with all rows; `log_prior` is over PARTS."""
    fits = log_prior.copy()
    for found, promised, variance in asked:
        if promised != 0.0:
            fits -= 0.5 * (found - PARTS * promised) ** 2 / max(variance, (1e-4 * promised) ** 2)
    chances = np.exp(fits - fits.max())
    chances /= chances.sum()
    more = np.maximum(2.0 * PARTS / (1.0 + PARTS) - PARTS, 0.0)
    full = PARTS + 0.5 * more
    reliability = float(chances @ full)
    return reliability, float(np.sqrt(chances @ ((full - reliability) ** 2 + more**2 / 12.0)))


class Asked(NamedTuple):
    """What one half says of the policy that the other one chose: gains over the log, on pairs that both have seen."""

    found: float
    promised: float  # by the half that chose
    here: Array  # (S, A) how much more often it takes each pair than the log, in the half that was asked
    at_home: Array  # and in the half that chose


def _asked(half: Fitted, asked: Fitted, start: Array) -> Asked:
    chose, other, policy, fit = half.rows, asked.rows, half.policy, half
    support = chose.counts.support
    on_log = support.to_log
    both = on_log(chose.supported) & on_log(other.supported)
    n = np.where(both, on_log(chose.n), 0.0)
    some = n.sum(axis=1, keepdims=True)
    usual = np.where(some > 0.0, n / np.maximum(some, 1.0), on_log(chose.habit))
    taken = np.where(both, on_log(policy.matrix), 0.0)
    taken += (1.0 - taken.sum(axis=1, keepdims=True)) * usual
    # The end is worth nothing, so that it can be left out.
    mine, theirs = (support.chain_to_log(mdp.transitions) for mdp in (fit.pooled, other.plug_in))
    seen = both.ravel() * 1.0
    theirs = sp.csr_array(sp.diags_array(seen) @ theirs + sp.diags_array(1.0 - seen) @ mine)
    pay = on_log(fit.pooled.rewards)
    alpha, nu = chose.plug_in.discount, on_log(start)
    at_home = _visits(mine, taken, alpha, nu) - _visits(mine, usual, alpha, nu)
    here = _visits(theirs, taken, alpha, nu) - _visits(theirs, usual, alpha, nu)
    promised = (at_home * pay).sum()
    if abs(promised) <= ROUNDING * np.abs(pay).max() / (1.0 - alpha):  # where it goes it does as the log did
        promised = 0.0
    found = (here * np.where(both, on_log(other.plug_in.rewards), pay)).sum()
    return Asked(float(found), float(promised), here, at_home)


def _chain(P: sp.csr_array, matrix: Array) -> sp.csr_array:
    """(S, S): where a policy goes."""
    s, a = np.nonzero(matrix)
    S, A = matrix.shape
    return sp.csr_array(sp.csr_array((matrix[s, a], (s, s * A + a)), shape=(S, S * A)) @ P)


def _visits(P: sp.csr_array, matrix: Array, alpha: float, nu: Array) -> Array:
    """(S, A): the occupancy."""
    return solve_chain(_chain(P, matrix), alpha, nu, transpose=True)[:, None] * matrix


def halves(counts: Counts, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """The rows, each dealt to one of two; numbers that differ within an entry by what is known of them."""
    n = counts.n
    n_1 = rng.binomial(n, 0.5)
    sums = [(counts.reward_sum, counts.reward_square_sum, counts.reward_range)]
    sums += [(counts.cost_sums[c], counts.cost_square_sums[c], counts.cost_ranges[c]) for c in counts.cost_sums]
    drawn = [_drawn(n, n_1, *each, rng) for each in sums]
    one, other = ([(half[side], half[2 + side]) for half in drawn] for side in range(2))
    return _dealt(counts, n_1, one), _dealt(counts, n - n_1, other)


def _drawn(
    n: Array, n_1: Array, total: Array, square_sum: Array, known: tuple[float, float], rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Of n numbers with these sums n_1 are drawn: the sums of both parts, and their squares about the means."""
    n_2, mean = n - n_1, total / n
    squares = squares_about_mean(n, total, square_sum, known)
    # Their sum is off by x sqrt(squares n_1 n_2 / n), where x has the variance 1 / (n - 1) and lies in [-1, 1]; for
    # normal numbers it is a coordinate of a direction in n - 1 dimensions.
    x = np.sqrt(np.where(n > 2, rng.beta(0.5, np.maximum(n - 2, 1) / 2.0), 1.0)) * rng.choice([-1.0, 1.0], n.size)
    apart = x * np.sqrt(squares * n_1 * n_2 / n)
    # Where all are at the ends of the range (a success or none) the drawing is known exactly.
    low, high = known
    inside = n * (high - mean) * (mean - low) - squares
    two = (inside <= 1e-9 * n * (high - low) ** 2) & (n < 1e9) & (high > low)
    good = np.clip(np.rint((total[two] - n[two] * low) / (high - low)), 0, n[two]).astype(np.int64)
    found = rng.hypergeometric(good, n[two] - good, n_1[two])
    apart[two] = n_1[two] * low + found * (high - low) - n_1[two] * mean[two]
    left = np.maximum(squares - apart**2 * n / np.maximum(n_1 * n_2, 1), 0.0)
    return n_1 * mean + apart, n_2 * mean - apart, left * n_1 / n, left * n_2 / n


def _dealt(counts: Counts, n: Array, sums: list[tuple[Array, Array]]) -> Counts:
    """Counts with n rows of each entry, and these sums and squares about means: of the reward, then of each cost."""
    some = n > 0
    n = n[some]
    totals = [total[some] for total, _ in sums]
    square_sums = [squares[some] + total**2 / n for total, (_, squares) in zip(totals, sums, strict=True)]
    costs = list(counts.cost_sums)
    return replace(
        counts,
        s=counts.s[some],
        a=counts.a[some],
        s_next=counts.s_next[some],
        ended=counts.ended[some],
        n=n,
        reward_sum=totals[0],
        reward_square_sum=square_sums[0],
        cost_sums=dict(zip(costs, totals[1:], strict=True)),
        cost_square_sums=dict(zip(costs, square_sums[1:], strict=True)),
    )
