"""One direction: the value of a policy at the start, as one weighted sum of the noise of its own rows.

Rates theta = tau g_j u(e, p): u the quota of the pair (foresight.py), tau the rate that suits the foreseen error, g_j
around 1, so that pairs may be weighted otherwise in the end. For any weights a_pj over the g_j that have the mean
y_p = sum_j a_pj tau g_j, on the event, by the variational formula of log-sum-exp,

    y' Z  <=  level + sum_pj a_pj log(a_pj / w_j) + sum_pe omega_pe Q_pe(V)      omega = sum_j a_pj psi(theta R) / R^2

With h = V - V^ = -G Z, Q(V) = sum (x^_i + alpha h(s') - h_q)^2 = Q^ + d' Z + N: the middle term is linear in the same
noise. So the weights are chosen for y = v / t + d, and for every t (docs/certificate.md, one direction)

    v' Z  <=  t (level + sum a log(a / w) + omega' Q^ + N)                       N <= |A h|^2, from isotropic.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.base import kernel
from dualq.proof.foresight import Foresight, quotas, standard_error
from dualq.proof.isotropic import ALIVE, psi_ratio
from dualq.proof.own_rows import Fitted, OwnRows, errors_of, fitted

Array = np.ndarray

# (tau in units of the foreseen best, spread of g, weight): what was tried on simulated logs
KINDS = (
    (3.0, 0.35, 0.05),
    (2.0, 0.35, 0.08),
    (1.3, 0.35, 0.10),
    (0.8, 0.35, 0.06),
    (0.4, 0.35, 0.04),
    (0.15, 0.35, 0.02),
    (0.06, 0.35, 0.01),
)
NARROW, FLAT = np.arange(-3.0, 3.01, 0.5), np.array([0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
FLAT_SHARE = 0.03  # of the weight of g, spread over FLAT
INFLATED = 1.6  # what Q(V) is expected to be, of Q^, where t is chosen
TIMES = np.exp(np.linspace(-1.0, 1.5, 16))  # what v is on the whole, divided by tau, times these is tried for t
CLOSER = (0.9, 1.0, 1.1)  # times the best of them, with all terms
ROUNDS = 40  # until the weights fit their own d


class Direction(NamedTuple):
    """A kind of rates, and the model that its weights of rows give."""

    u: Array  # (blocks, K)
    model: Fitted
    off: Array  # (blocks, entries) mean of x^_i
    squares: Array  # (blocks, K) Q^
    theta: Array  # (J,) tau g_j
    log_w: Array  # (J,)
    omega: Array  # (J, blocks, K) psi(theta R) / R^2
    logs: Array  # (K, J) log w - phi, with the phi that is expected; -inf where a rate is dead
    level: float
    value: float  # eta' V^
    v: Array  # (K,) lambda^ / sum n u
    short: float  # the same of all pairs together: how many times fewer rows came than were planned for


def direction(
    rows: OwnRows,
    seen: Foresight,
    kind: tuple[float, float, float],
    side: int,
    reach: Array,
    worth: Array,
    level: float,
) -> Direction:
    """A kind on one side: 0 for floors, 1 for ceilings; R <= reach (K,); pairs without rows are worth (K,)."""
    level = level - np.log(kind[2])
    tau, u = rates(seen, kind[0], side, level)
    model = fitted(rows, u, worth)
    off, squares = errors_of(rows, model)
    g, log_w = multiples(kind[1])
    theta = tau * g
    each = theta[:, None, None] * u
    x = each * reach
    alive = x < ALIVE
    omega = each**2 * np.where(alive, psi_ratio(np.where(alive, x, 0.0)), 0.0)
    phi = INFLATED * (omega * squares).sum(axis=1).T
    logs = np.where(alive.all(axis=1).T, log_w - phi, -np.inf)
    v = np.where(model.total > 0.0, model.occupancy / np.where(model.total > 0.0, model.total, 1.0), 0.0)
    value, short = float(rows.start @ model.V[:-1]), float(model.occupancy[model.total > 0.0].sum())
    short = short / float(model.total.sum()) if short > 0.0 else 1.0  # it never comes to a pair with rows: any will do
    return Direction(u, model, off, squares, theta, log_w, omega, logs, level, value, v, short)


def rates(seen: Foresight, part: float, side: int, level: float) -> tuple[float, Array]:
    """tau and u (blocks, K) of a kind, `part` of the best: all that must be foreseen."""
    tau = part * np.sqrt(2.0 * level) / standard_error(seen)
    return tau, quotas(seen, tau, side)


def multiples(width: float) -> tuple[Array, Array]:
    """g_j and log w_j: normal around 1, and a little flat; none negative."""
    g = np.concatenate([1.0 + width * NARROW, FLAT])
    w = np.concatenate([(1.0 - FLAT_SHARE) * np.exp(-0.5 * NARROW**2) / np.exp(-0.5 * NARROW**2).sum(),
                        np.full(FLAT.size, FLAT_SHARE / FLAT.size)])  # fmt: skip
    return g[g >= 0.0], np.log(w[g >= 0.0])


def expected(one: Direction) -> tuple[float, float]:
    """(bound, t): about how far the value can be off, and the t that makes it so; no bound, to choose by."""
    best = np.inf, 1.0
    for t in one.short * TIMES / one.theta[np.argmax(one.log_w)]:
        a = np.zeros(one.logs.shape)
        if _shares(one.v / t, one.theta, one.logs, one.model.total > 0.0, a):
            used = (np.einsum("pj,jep->ep", a, one.omega) * one.squares).sum()
            best = min(best, (t * (one.level + paid(a, one.log_w) + INFLATED * used), t))
    return best


def paid(a: Array, log_w: Array) -> float:
    """sum a log(a / w)."""
    return float(np.where(a > 0.0, a * (np.log(np.where(a > 0.0, a, 1.0)) - log_w), 0.0).sum())


class Weighed(NamedTuple):
    """Weights over the g_j that fit their own d, at one t."""

    a: Array  # (K, J)
    omega: Array  # (blocks, K)
    missing: Array  # (K,) v - t (y - d): nothing, but for rounding, which is paid for
    crossed: Array  # (entries,) sum_e omega n x^


def weigh(rows: OwnRows, one: Direction, t: float, sign: float) -> Weighed | None:
    """The weights a for which y = v / t + d(a); None where some slope is out of reach. sign -1 for ceilings."""
    d, a = np.zeros(one.v.size), np.zeros(one.logs.shape)
    omega, crossed, missing = np.zeros(0), np.zeros(0), one.v
    for _ in range(ROUNDS):
        y = one.v / t + d
        if not _shares(y, one.theta, one.logs, one.model.total > 0.0, a):
            return None
        omega = np.einsum("pj,jep->ep", a, one.omega)
        crossed = (omega[:, rows.pair] * rows.n[1:] * one.off).sum(axis=0)
        # alpha h(s') - h_q = -(alpha G - G_q) Z
        into = np.bincount(rows.column, crossed, minlength=rows.num_states + 1)
        new = -2.0 * sign * (rows.alpha * into @ one.model.G - rows.per_pair(crossed) @ one.model.G_q)
        missing = one.v - t * (np.where(one.model.total > 0.0, a @ one.theta, 0.0) - new)
        if np.abs(new - d).max() <= 1e-13 * np.abs(y).max():
            break
        d = new
    return Weighed(a, omega, missing, crossed)


@kernel
def _shares(y, theta, logs, busy, a):
    """Weights a (K, J) with mean slope y: those of L at two places that enclose y, mixed; False where none are."""
    num_pairs, num_rates = logs.shape
    for p in range(num_pairs):
        a[p] = 0.0
        if not busy[p]:
            continue
        low, high, steepest = np.inf, -np.inf, 0.0
        for j in range(num_rates):
            if logs[p, j] > -np.inf:
                low, high = min(low, theta[j]), max(high, theta[j])
                steepest = max(steepest, abs(theta[j]))
        if not low <= y[p] <= high:
            return False
        left, right = -1.0 / steepest, 1.0 / steepest
        y_left, y_right = _slope(theta, logs[p], left), _slope(theta, logs[p], right)
        for _ in range(80):
            if y_left <= y[p]:
                break
            left *= 2.0
            y_left = _slope(theta, logs[p], left)
        for _ in range(80):
            if y_right >= y[p]:
                break
            right *= 2.0
            y_right = _slope(theta, logs[p], right)
        if y_left > y[p] or y_right < y[p]:
            return False
        for _ in range(60):
            if y_right - y_left <= 1e-9 * steepest:
                break
            middle = 0.5 * (left + right)
            found = _slope(theta, logs[p], middle)
            if found < y[p]:
                left, y_left = middle, found
            else:
                right, y_right = middle, found
        mixed = (y[p] - y_left) / (y_right - y_left) if y_right > y_left else 0.0
        _add_shares(theta, logs[p], left, 1.0 - mixed, a[p])
        _add_shares(theta, logs[p], right, mixed, a[p])
    return True


@kernel
def _slope(theta, logs, Z):
    top = -np.inf
    for j in range(theta.size):
        top = max(top, logs[j] + theta[j] * Z)
    mass, slope = 0.0, 0.0
    for j in range(theta.size):
        share = np.exp(logs[j] + theta[j] * Z - top)
        mass += share
        slope += share * theta[j]
    return slope / mass


@kernel
def _add_shares(theta, logs, Z, part, a):
    top = -np.inf
    for j in range(theta.size):
        top = max(top, logs[j] + theta[j] * Z)
    mass = 0.0
    for j in range(theta.size):
        mass += np.exp(logs[j] + theta[j] * Z - top)
    for j in range(theta.size):
        a[j] += part * np.exp(logs[j] + theta[j] * Z - top) / mass
