"""Event 1: how far the mean of r + alpha f_e(s') of each pair can be from its expectation, at every number of rows.

X = r + alpha f_e(s') over the n rows of a pair; m_e a guess of its mean, made before block e. The sum of X - E X stays
within [-B', B], the empirical-Bernstein boundary of the known sum Q = sum (X - m_e)^2: a mixture over rates lambda_j of
the supermartingales of Fan, Grama and Liu (docs/certificate.md, event 1).

    docs      here
    B, B'     noise
    lambda    rates
    Q         spread
    R_e       scales
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from dualq.base import kernel
from dualq.proof.evidence import Evidence

Array = np.ndarray

AT_A_TIME = 50_000  # pairs: between two of these somebody may stop the program
SPACING = 0.15  # between the logarithms of two rates
TYPICAL = 0.25  # of the rewards' range: the standard deviation of r + alpha V(s') that the rates suit best ...
ROWS = 700.0  # ... of a pair with so many rows ...
SHARP = 1.0  # ... and how sharply, in the logarithm
MOST_ROWS = 1e7  # of a pair, from which on no smaller rates are tried


def noise_of(
    evidence: Evidence,
    references: Array,
    alpha: float,
    reward_range: tuple[float, float],
    level: float,
    shown: Array | None = None,
) -> tuple[Array, Array]:
    """B and B' (2, pairs), and the rewards' part of them (pairs,); f_e (blocks, S + 1); delta = exp(-level) a side.

    shown   (2, pairs) which of them are computed, all if not given; the others are infinite
    """
    low, high = reward_range
    pair = evidence.pair
    num_blocks = len(references)
    n, r = evidence.n, evidence.r
    N = np.cumsum(evidence.per_pair(n), axis=0)
    spread, scatter_r, scales = [], [], []
    for e in range(num_blocks):
        f = alpha * references[e]
        reachable = f[evidence.anywhere]
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
    spread, sides = np.array(spread), np.array(scales).transpose(1, 0, 2)  # (blocks, pairs), (2, blocks, pairs)
    rates, weights = _prior(level, (low, high), alpha)
    visits = evidence.per_pair(n)
    noise = np.full((2, N.shape[1]), np.inf)
    for side, scale in enumerate(sides):
        pairs = np.arange(N.shape[1]) if shown is None else np.flatnonzero(shown[side])
        for begin in range(0, pairs.size, AT_A_TIME):
            some = pairs[begin : begin + AT_A_TIME]
            rows_of, off, wide = (x[:, some] for x in (visits, spread, scale))
            noise[side, some] = boundary(rows_of, off, wide, rates, weights, level)
    part = np.array(scatter_r).sum(axis=0) / np.maximum(spread.sum(axis=0), 1e-300)
    return noise, np.minimum(part, 1.0)


def _prior(level: float, reward_range: tuple[float, float], alpha: float):
    """The rates lambda and the logarithms of their weights: Cauchy in log lambda; fixed before any row is seen."""
    unit = max(reward_range[1] - reward_range[0], 1e-3 * max(map(abs, reward_range))) or 1.0
    centre = 0.5 * np.log(2.0 * (level + 2.0) / ROWS) - np.log(TYPICAL * unit)
    reach = np.log(4.0 / (1.0 - alpha)) + 0.5 * np.log(MOST_ROWS / ROWS)
    u = np.arange(-reach, reach + SPACING, SPACING)
    weights = -np.log1p((u / SHARP) ** 2)
    return np.exp(centre + u), weights - logsumexp(weights)


@kernel
def _psi(rates, scale, psi):
    """(-log(1 - z) - z) / scale^2 with z = rate * scale, in place; nothing is known of rates with z of 1 or more."""
    for j in range(rates.size):
        z = rates[j] * scale
        if z < 1e-3:
            psi[j] = rates[j] * rates[j] * (0.5 + z / 3.0 + z * z / 4.0 + z * z * z)
        elif z < 1.0:
            psi[j] = (-np.log1p(-z) - z) / (scale * scale)


def boundary(n: Array, spread: Array, scales: Array, rates: Array, weights: Array, level: float) -> Array:
    """The sum that log sum_j w_j exp(lambda_j x - phi_j) = level allows, per pair; found from above by Newton."""
    num_blocks, num_pairs = spread.shape
    noise, phi, alive = np.full(num_pairs, np.inf), np.empty(rates.size), np.empty(rates.size, np.int64)
    psi, known = np.empty((num_blocks, rates.size)), np.full(num_blocks, np.nan)  # of the scales that pairs share
    _boundary(n, spread, scales, rates, weights, level, phi, alive, psi, known, noise)
    return noise


@kernel
def _boundary(n, spread, scales, rates, weights, level, phi, alive, psi, known, noise):
    num_blocks, num_pairs = spread.shape
    for p in range(num_pairs):
        widest = 0.0
        for e in range(num_blocks):
            if n[e, p] > 0.0:
                widest = max(widest, scales[e, p])
                if scales[e, p] != known[e]:
                    known[e] = scales[e, p]
                    _psi(rates, known[e], psi[e])
        count, x = 0, np.inf
        for j in range(rates.size):
            if not rates[j] * widest < 1.0:
                continue
            total = 0.0
            for e in range(num_blocks):
                if n[e, p] > 0.0:
                    total += psi[e, j] * spread[e, p]
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
                under = rates[alive[k]] * x - phi[k] - top
                if under > -40.0:  # else it is nothing beside the largest, to the last digit
                    share = np.exp(under)
                    mass += share
                    slope += share * rates[alive[k]]
            step = (top + np.log(mass) - level) * mass / slope
            x -= step
            if not step > 1e-7 * x:  # the next step would be of the order of its square
                break
        noise[p] = x * (1.0 + 1e-10)
