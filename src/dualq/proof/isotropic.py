"""All directions at once: how far V^pi can be from the value of its rows, in states and in differences of states.

For rates theta(j, p) = x_j scale(p), x_j a discretised normal distribution, the event bounds sum_p L_p(Z_p) where

    L_p(Z) = log sum_j w_j exp(theta_j Z - phi_j)         phi_j = psi(|theta_j| R) Q / R^2, Q and R at most Q_, R_

Its conjugate is at most b_p(cap) + kappa_p y^2 / 2 for slopes |y| <= cap, with kappa = Q_ + 1 / scale^2: the table of
b_p is computed from chords, which are above a convex function. So for every linear map A of the noise and every t

    |A Z|  <=  t (level + sum_p b_p(|A_p| / t)) + |A kappa^(1/2)|^2 / 2t      |A_p| the columns' norms

(docs/certificate.md, all directions). Q_ and R_ are those of an unknown V^pi: they are bounded from the box that is
known already, the event makes the box smaller, and so on until it stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.base import kernel
from dualq.proof.own_rows import Fitted, OwnRows

Array = np.ndarray

NODES = np.arange(-4.5, 4.51, 0.5)  # x_j
LOG_WEIGHTS = -0.5 * NODES**2 - np.log(np.exp(-0.5 * NODES**2).sum())
STEPS = np.linspace(0.0, 1.0, 49)  # of Z, where the conjugate is computed
CAPS = 40  # of the slope, in the table of b
MANY = 60  # successors of a pair, from which on the trace stands for the largest eigenvalue
ALIVE = 1.0 - 1e-9  # of 1/R: rates nearer to it are left out
WIDER = 1.0 + 1e-9  # what rounding may do to an eigenvalue


class Ellipsoid(NamedTuple):
    """What the event says of the noise Z of the pairs, as a quadratic form with a table of what it leaves out."""

    level: float
    kappa: Array  # (K,)
    cap: Array  # (K,) the steepest slope of the table
    table: Array  # (K, CAPS) b_p at cap / CAPS, 2 cap / CAPS, ...


def psi_ratio(x: Array) -> Array:
    """psi(x) / x^2 with psi(x) = -log(1 - x) - x; infinite from 1 on."""
    small, safe = x < 1e-3, np.where((x < 1e-3) | (x >= 1.0), 0.5, x)
    series = 0.5 + x / 3.0 + x * x / 4.0 + x * x * x  # the last term is too large, on purpose
    return np.where(x < 1.0, np.where(small, series, (-np.log1p(-safe) - safe) / safe**2), np.inf)


def ellipsoid(scale: Array, spread: Array, reach: Array, level: float) -> Ellipsoid | None:
    """Of rates x_j scale (K,), where Q <= spread (K,) and R <= reach (2, K); None where a pair has no rate left."""
    theta = scale[:, None] * NODES
    x = np.abs(theta) * np.where(theta > 0.0, reach[0][:, None], reach[1][:, None])
    alive = x < ALIVE
    phi = np.where(alive, theta**2 * psi_ratio(np.where(alive, x, 0.0)) * spread[:, None], np.inf)
    logs, kappa = LOG_WEIGHTS - phi, spread + 1.0 / scale**2
    tops = [np.where((logs > -np.inf) & (sign * theta > 0.0), sign * theta, 0.0).max(axis=1) for sign in (1.0, -1.0)]
    if not (np.minimum(*tops) > 0.0).all():
        return None
    sides = [_conjugate(theta, logs, kappa, sign, top) for sign, top in zip((1.0, -1.0), tops, strict=True)]
    cap = np.minimum(sides[0][0][:, -1], sides[1][0][:, -1])
    if not (cap > 0.0).all():
        return None  # rates of one side are all but dead, and L falls there
    caps = cap[:, None] * np.arange(1, CAPS + 1) / CAPS
    table = np.maximum(*(_worst_up_to(slopes, values, kappa, caps) for slopes, values in sides))
    return Ellipsoid(level, kappa, cap, table)


def _conjugate(theta: Array, logs: Array, kappa: Array, sign: float, top: Array) -> tuple[Array, Array]:
    """Slopes y of L, times sign, and L*(y) - kappa y^2 / 2 there, exactly, for Z from 0 outwards."""
    Z = sign * (kappa * top)[:, None] * (STEPS * (1.0 + 4.0 * STEPS**3))
    terms = logs[:, None, :] + theta[:, None, :] * Z[:, :, None]
    largest = terms.max(axis=2, keepdims=True)
    shares = np.exp(terms - largest)
    mass = shares.sum(axis=2)
    slope = (shares * theta[:, None, :]).sum(axis=2) / mass
    value = slope * Z - (largest[:, :, 0] + np.log(mass)) - 0.5 * kappa[:, None] * slope**2
    return sign * slope, value


def _worst_up_to(slopes: Array, values: Array, kappa: Array, caps: Array) -> Array:
    """(K, CAPS) the largest of chord - kappa y^2 / 2 over slopes up to each cap."""
    ends = np.maximum(values[:, 1:], values[:, :-1]) + kappa[:, None] * np.diff(slopes, axis=1) ** 2 / 8.0
    so_far = np.maximum(np.maximum.accumulate(ends, axis=1), values[:, :1])
    place = (slopes[:, None, 1:-1] < caps[:, :, None]).sum(axis=2)
    return np.take_along_axis(so_far, place, axis=1)


def radii(found: Ellipsoid, rows: Array) -> Array:
    """How large |a' Z| can be, for each row a of a matrix (rows, K)."""
    rows = np.ascontiguousarray(rows)
    radius = np.empty(rows.shape[0])
    _radii(found.level, found.kappa, found.cap, found.table, rows, np.abs(rows), radius)
    return radius


def norm(found: Ellipsoid, square: Array) -> float:
    """How large |A Z| can be, given A'A (K, K)."""
    root = np.sqrt(found.kappa)
    largest = WIDER * max(float(np.linalg.eigvalsh(root[:, None] * square * root)[-1]), 0.0)
    columns = np.sqrt(np.maximum(np.diag(square), 0.0))
    return float(_supremum(found.level, found.cap, found.table, columns, largest))


def differences(rows: OwnRows, model: Fitted, weights: Array) -> Array:
    """A'A (K, K) of sum over entries of weights (entries,) x (alpha h(s') - h_q(p))^2, h = -G Z and h_q = -G_q Z."""
    S, K = model.G.shape[0], rows.pairs.size
    W = np.zeros((S, K))
    np.add.at(W, (rows.column, rows.pair), weights)
    G, alpha = model.G, rows.alpha
    crossed = alpha * G.T @ (W @ model.G_q)
    own = model.G_q.T @ (W.sum(axis=0)[:, None] * model.G_q)
    return alpha**2 * G.T @ (W.sum(axis=1)[:, None] * G) - crossed - crossed.T + own


def pair_norms(found: Ellipsoid, rows: OwnRows, model: Fitted, weights: Array) -> Array:
    """(K,) how large the root of sum weights (alpha h(s') - h_q(p))^2 over a pair's own entries can be."""
    order = np.argsort(rows.pair, kind="stable")
    indptr = np.searchsorted(rows.pair[order], np.arange(rows.pairs.size + 1))
    column, weights = rows.column[order], weights[order]
    G, G_q, K = np.ascontiguousarray(model.G), np.ascontiguousarray(model.G_q), rows.pairs.size
    squares, largest = np.zeros((K, K)), np.zeros(K)
    _add_squares(found.kappa, indptr, column, weights, rows.alpha, G, G_q, squares, largest)
    root = np.sqrt(found.kappa)
    for p in np.flatnonzero((np.diff(indptr) > 1) & (np.diff(indptr) <= MANY)):
        own = slice(indptr[p], indptr[p + 1])
        A = np.sqrt(weights[own])[:, None] * (rows.alpha * G[column[own]] - G_q[p]) * root
        largest[p] = min(largest[p], WIDER * np.linalg.eigvalsh(A @ A.T)[-1])
    norms = np.empty(K)
    _suprema(found.level, found.cap, found.table, np.sqrt(squares), np.maximum(largest, 0.0), norms)
    return norms


# Kernels that neither make arrays nor call LAPACK: with these Numba brings SciPy's linear algebra to every certificate.


@kernel
def _supremum(level, cap, table, columns, largest):
    """The least over t of t (level + sum_p b_p(columns_p / t)) + largest / 2t; every t is a bound."""
    num_pairs, num_caps = table.shape
    begin = 0.3 * np.sqrt(0.5 * largest / level)
    for p in range(num_pairs):
        begin = max(begin, columns[p] / cap[p])
    if begin == 0.0:
        return 0.0
    best, t = np.inf, begin * (1.0 + 1e-12)
    for _ in range(36):
        total = level
        for p in range(num_pairs):
            place = int(np.ceil(columns[p] / (t * cap[p]) * num_caps)) - 1
            total += table[p, min(max(place, 0), num_caps - 1)]
        best = min(best, t * total + 0.5 * largest / t)
        t *= 1.12
    return best


@kernel
def _suprema(level, cap, table, columns, largest, found):
    for i in range(found.size):
        found[i] = _supremum(level, cap, table, columns[i], largest[i])


@kernel
def _radii(level, kappa, cap, table, rows, columns, found):
    for i in range(found.size):
        largest = 0.0
        for k in range(kappa.size):
            largest += kappa[k] * rows[i, k] * rows[i, k]
        found[i] = _supremum(level, cap, table, columns[i], largest)


@kernel
def _add_squares(kappa, indptr, column, weights, alpha, G, G_q, squares, traces):
    """Of the entries of each pair p: |A_p|^2 of all columns, and |A kappa^(1/2)|^2, which no eigenvalue exceeds."""
    for p in range(kappa.size):
        for i in range(indptr[p], indptr[p + 1]):
            for k in range(kappa.size):
                x = np.sqrt(weights[i]) * (alpha * G[column[i], k] - G_q[p, k])
                squares[p, k] += x * x
                traces[p] += kappa[k] * x * x
