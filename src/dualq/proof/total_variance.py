"""How far a policy's value can be off at the start, where no state's value is known well: the law of total variance.

A direction (directions.py) bounds y'Z by what its rows vary, sum_p omega_p Q_p(V), and V is unknown. With weights
rho_p u >= omega of the rows, V^ and q^ of the rows weighted by u, h = V - V^ and h_q = q - q^, for each pair

    sum u (X - q)^2  =  sum u x^^2  +  2 alpha sum u x^ h(s')  +  alpha^2 sum u h(s')^2  -  N h_q^2  -  2 h_q Z

exactly (docs/certificate.md, where the box stays wide). What is unknown flows into the successors by alpha^2 h(s')^2,
and out of the pair by N h_q^2: what is left is a parabola in each h_q, at most its highest point where h_q can be. The
last term changes the slope of Z by something unknown, but small: the weights over rates are chosen for both its ends.
"""

from __future__ import annotations

import numpy as np

from dualq.base import kernel
from dualq.proof.directions import KINDS, Direction, direction
from dualq.proof.foresight import Foresight
from dualq.proof.own_rows import OwnRows

Array = np.ndarray

ROUNDING = 1e-10  # of values, relative: what the linear systems may be off
ROUNDS = 20  # until rho is enough for the rates that it asks for
MORE = 1.02  # times what was needed: so that it soon is
SHIFT = 0.18  # of a slope: more than a quarter would ask for ever larger rates
TRIES, LESS = 6, 0.7  # of the slope, where even that is too much; what is missing is paid for
TYPICAL = 1.1  # t, in units of what v is on the whole, divided by tau: to choose kinds by
TIMES = (0.75, 0.85, 0.93, 1.07, 1.25)  # of that, tried too
TRIED = 2  # kinds, the best at that t
FEW = 3  # kinds, after which it is given up where none comes near
HOPELESS = 1.0  # of the way from the value to what is known already: so far beyond the latter, no other t helps


def thin_end(
    rows: OwnRows, seen: Foresight, V: Array, q: Array, reach: Array, level: float, side: int, beyond: float
) -> float:
    """The floor (side 0) or the ceiling (side 1) at the start, by the best of the directions.

    V (2, S + 1) and q (2, K) are the ends of where they are; R <= reach (2, K); `beyond` is known already.
    """
    sign, kinds, screened = (1.0, -1.0)[side], [], []

    def ended(one: Direction, part: float) -> float:
        t = part * TYPICAL * one.short / one.theta[np.argmax(one.log_w)]
        return sign * one.value - spread_radius(rows, one, V, q, t, sign)

    for i, kind in enumerate(reversed(KINDS)):  # the smallest rates first: they say most, where rows are few
        kinds.append(direction(rows, seen, kind, side, reach[side], q[side], level))
        screened.append((ended(kinds[i], 1.0), i))
        best, at = max(screened)
        if i + 1 == FEW and not best > sign * beyond - HOPELESS * sign * (kinds[at].value - beyond):
            return -sign * np.inf
    screened.sort(reverse=True)
    return sign * max(screened[0][0], *(ended(kinds[i], part) for _, i in screened[:TRIED] for part in TIMES))


def spread_radius(rows: OwnRows, one: Direction, V: Array, q: Array, t: float, sign: float) -> float:
    """How far the value can be off, for V (2, S + 1) and q (2, K): the low and high ends of where they are."""
    model = one.model
    n = one.u[:, rows.pair] * rows.n[1:]
    rewards, n = rows.per_pair((n * rows.mean[1:]).sum(axis=0)), n.sum(axis=0)
    low, high = (rewards + rows.alpha * rows.per_pair(n * end[rows.column]) for end in V)
    noise = np.sort(sign * np.array([low - model.total * q[1], high - model.total * q[0]]), axis=0)
    h = q - model.q
    rates = one.theta, one.logs, one.log_w, one.u, one.omega
    settled, rho, paid = settle(one.v / t, np.sort(sign * h, axis=0), noise, model.total > 0.0, *rates)
    if not settled:
        return np.inf
    used, linear, square = varied(rows, one, rho)
    rounding = ROUNDING * float(np.abs(model.V).max())
    return float(t * (one.level + paid.sum() + used + _highest(linear, square, h).sum())) + rounding


def varied(rows: OwnRows, one: Direction, rho: Array) -> tuple[float, Array, Array]:
    """What rows weighted by rho u vary, but for 2 rho h_q Z: what is known, and the terms in h_q and h_q^2 (K,)."""
    alpha, places = rows.alpha, rows.num_states + 1
    weights = rho[rows.pair] * one.u[:, rows.pair] * rows.n[1:]

    def entering(x: Array) -> Array:
        return np.bincount(rows.column, x.sum(axis=0), minlength=places)[rows.state] * rows.chance

    used = float((rho * (one.u * one.squares).sum(axis=0)).sum())
    linear, into = 2.0 * alpha * entering(weights * one.off), alpha**2 * entering(weights)
    return used, linear, into - rho * one.model.total


def _highest(b: Array, c: Array, h: Array) -> Array:
    """(K,) the largest of b h + c h^2 for h between h[0] and h[1]."""
    top = np.clip(np.where(c < 0.0, -b / (2.0 * np.where(c < 0.0, c, 1.0)), h[0]), h[0], h[1])
    return np.max([b * x + c * x * x for x in (h[0], h[1], top)], axis=0)


@kernel
def settle(y, h, noise, busy, theta, logs, log_w, u, omega):
    """rho (K,) that is enough, and what the weights cost: the dearer of both ends of the slope y - 2 rho h."""
    num_pairs = y.size
    rho, paid = np.zeros(num_pairs), np.zeros(num_pairs)
    for p in range(num_pairs):
        if not busy[p]:
            continue
        a, slope = _weights(y[p], theta, logs[p], noise[0, p], noise[1, p])
        first = _needed(a, u[:, p], omega[:, :, p])
        shift = 2.0 * first * max(abs(h[0, p]), abs(h[1, p]))
        part = 1.0 if shift <= SHIFT * y[p] else SHIFT * y[p] / shift
        enough = False
        for _ in range(TRIES):
            rho[p] = MORE * part**2 * first
            for _ in range(ROUNDS):
                needed, paid[p] = 0.0, -np.inf
                for end in range(2):
                    moved = 2.0 * rho[p] * h[end, p]
                    a, slope = _weights(part * y[p] - moved, theta, logs[p], noise[0, p], noise[1, p])
                    missing = y[p] - moved - slope
                    paid[p] = max(paid[p], _cost(a, log_w) + max(missing * noise[0, p], missing * noise[1, p]))
                    needed = max(needed, _needed(a, u[:, p], omega[:, :, p]))
                if needed <= rho[p]:
                    enough = True
                    break
                rho[p] = MORE * needed
            if enough:
                break
            part *= LESS
        if not enough:
            return False, rho, paid
    return True, rho, paid


@kernel
def _needed(a, u, omega):
    """The largest omega / u of the blocks."""
    most = 0.0
    for e in range(u.size):
        if u[e] > 0.0:
            total = 0.0
            for j in range(a.size):
                total += a[j] * omega[j, e]
            most = max(most, total / u[e])
    return most


@kernel
def _cost(a, log_w):
    total = 0.0
    for j in range(a.size):
        if a[j] > 0.0:
            total += a[j] * (np.log(a[j]) - log_w[j])
    return total


@kernel
def _weights(y, theta, logs, low, high):
    """Weights over the rates with mean slope y, as far as a Z in [low, high] asks for it; and their slope."""
    a = np.zeros(theta.size)
    left, right, slope = low, high, 0.0
    for _ in range(50):
        Z = 0.5 * (left + right)
        slope = _tilted(theta, logs, Z, a)
        if abs(slope - y) <= 1e-7 * abs(y):
            break
        if slope < y:
            left = Z
        else:
            right = Z
    return a, slope


@kernel
def _tilted(theta, logs, Z, a):
    """The mean of theta under weights exp(logs + theta Z), which are left in a."""
    top = -np.inf
    for j in range(theta.size):
        top = max(top, logs[j] + theta[j] * Z)
    mass, slope = 0.0, 0.0
    for j in range(theta.size):
        a[j] = np.exp(logs[j] + theta[j] * Z - top)
        mass += a[j]
    for j in range(theta.size):
        a[j] /= mass
        slope += a[j] * theta[j]
    return slope
