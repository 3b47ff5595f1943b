"""The policy's own value as one martingale: floor and ceiling of V^pi, for a policy that is paid for.

V = V^pi is one function, unknown but not chosen from the rows that certify it. With Z(p) the sum of r + alpha V(s') -
q(p) over the rows of a pair, and V^, lambda^ value and occupancy of pi in the model of those rows,

    eta' (V^ - V) = sum_p lambda^(p) Z(p) / n(p)

exactly. One nonnegative supermartingale M, a mixture over rates of all kinds, bounds every such sum
(docs/certificate.md, the policy's own value); a union over policies by the prior W (prior.py) pays log 1 / W(pi).

Kinds     all directions at once (isotropic.py), which makes the box of V^pi small; and one direction (directions.py)
          for each aim, which bounds the value at its start; where the box stays wide, by total_variance.py
Box       V^pi in [L, U] in every state, from the events of pairs, holds beside it; pairs without rows get its ends
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from dualq.proof.directions import CLOSER, KINDS, Direction, direction, expected, multiples, paid, rates, weigh
from dualq.proof.foresight import Foresight, foresee
from dualq.proof.isotropic import (
    LOG_WEIGHTS,
    NODES,
    Ellipsoid,
    differences,
    ellipsoid,
    norm,
    pair_norms,
    psi_ratio,
    radii,
)
from dualq.proof.own_rows import Fitted, OwnRows, errors_of, fitted
from dualq.proof.total_variance import ROUNDING, thin_end

Array = np.ndarray

SPREADS = ((1.0, 0.10), (0.3, 0.10), (0.03, 0.08))  # (c, weight): rates of size sqrt(c / Q foreseen), any direction
SLACK = 0.25  # of what a single row may do, at such a rate
ROUNDS = 8  # of the box getting smaller
STILL = 0.03  # relative: a box that shrinks by less is left as it is
TRIED = 2  # kinds on each side, the best by what is expected of them, that are computed with all terms
MANY = 200  # pairs of a policy, from which on a box that does not get smaller at first is left as it is
LARGEST = 4_000_000  # states x pairs: matrices beyond this are too large


class Box(NamedTuple):
    """Where V^pi and q^pi are known to be."""

    V: Array  # (2, S + 1) low, high; 0 at the end
    q: Array  # (2, K)
    reach: Array | None = None  # (2, K) how far r + alpha V(s') can be below q, and above, if known from differences


class Aim(NamedTuple):
    """Where a policy's value is wanted, and what its directions have of those of the event."""

    start: Array  # (S,) where value is measured
    foreseen: Array  # (S,) the same, as far as the first rows tell: what directions are foreseen from
    parts: tuple[float, float] = (1.0, 1.0)  # of the weights of floors, and of ceilings; 0: none is wanted


class OwnValue(NamedTuple):
    """Floor and ceiling of the policy's value at each start, and in every state."""

    ends: tuple[tuple[float, float], ...]
    states: Array  # (2, S)


class Known(NamedTuple):
    """What the event has said so far."""

    box: Box
    model: Fitted  # of all rows alike; pairs without rows are worth the middle of their box
    off: Array  # (blocks, entries)
    squares: Array  # (blocks, K)
    half: Array  # (K,) half the width of the box of pairs without rows, else 0
    beside: Array  # (entries,) what these can do to alpha h(s') - h_q(p)
    sets: tuple[Ellipsoid, ...]


def own_value(
    rows: OwnRows, aims: Sequence[Aim], reward_range: tuple[float, float], possible: Array, box: Box, level: float
) -> OwnValue | None:
    """Bounds at a level that has paid for the policy, all from one event.

    None where nothing can be said: too few blocks, or a problem too large.
    """
    S, K = rows.num_states, rows.pairs.size
    if len(rows.n) < 2 or S * K > LARGEST or not rows.visits[1:].any():
        return None
    seen = [foresee(rows, aim.foreseen, reward_range, possible) for aim in aims]
    known = _shrunk(rows, seen[0], reward_range, possible, box, level)
    ends = tuple(
        _ends(rows._replace(start=aim.start), one, aim, known, reward_range, possible, level)
        for aim, one in zip(aims, seen, strict=True)
    )
    return OwnValue(ends, known.box.V[:, :S])


def reach_of(rows: OwnRows, box: Box, reward_range: tuple[float, float], possible: Array) -> Array:
    """(2, K) how far r + alpha V(s') can be below q(p), and above it; nothing, where a pair has no rows."""
    low, high = reward_range
    down = box.q[1] - (low + rows.alpha * box.V[0][possible].min())
    up = high + rows.alpha * box.V[1][possible].max() - box.q[0]
    found = np.array([down, up]) if box.reach is None else np.minimum([down, up], box.reach)
    return np.where(rows.visits[1:].any(axis=0), found, 0.0)


def _shrunk(
    rows: OwnRows, seen: Foresight, reward_range: tuple[float, float], possible: Array, box: Box, level: float
) -> Known:
    """The box, made smaller by the event as long as that helps."""
    alpha, n = rows.alpha, rows.n[1:].sum(axis=0)
    model = fitted(rows, np.ones(rows.visits[1:].shape), box.q.mean(axis=0))
    off, squares = errors_of(rows, model)
    half = np.where(model.total > 0.0, 0.0, 0.5 * (box.q[1] - box.q[0]))
    none = np.flatnonzero(half)
    beside = np.abs(alpha * model.reach[:, none][rows.column] - model.reach_q[:, none][rows.pair]) @ half[none]
    up = alpha * (box.V[1] - model.V)[rows.column] - (box.q[0] - model.q)[rows.pair]
    down = (box.q[1] - model.q)[rows.pair] - alpha * (box.V[0] - model.V)[rows.column]
    error = np.sqrt(rows.per_pair(n * np.maximum(np.maximum(up, down), 0.0) ** 2))
    aside = np.sqrt(rows.per_pair(n * beside**2))
    found: tuple[Ellipsoid, ...] = ()
    for _ in range(ROUNDS):
        spread = (np.sqrt(squares.sum(axis=0)) + error) ** 2
        sets = _ellipsoids(seen, spread, reach_of(rows, box, reward_range, possible), level)
        if not sets:
            break
        cut = _cut(box, model, half, sets)
        if not found and rows.pairs.size > MANY and np.array_equal(cut.V, box.V):
            break  # so many pairs take long, and so wide an ellipsoid says nothing of them
        found = sets
        smaller = np.min([pair_norms(one, rows, model, n) + aside for one in sets], axis=0)
        box = cut._replace(reach=_reach(rows, model, half, sets, reward_range, possible))
        gained = bool((smaller < (1.0 - STILL) * error).any())
        error = np.minimum(error, smaller)
        if not gained:
            break
    return Known(box, model, off, squares, half, beside, found)


def _ellipsoids(seen: Foresight, spread: Array, reach: Array, level: float) -> tuple[Ellipsoid, ...]:
    found = (ellipsoid(_scale(seen, c), spread, reach, level - np.log(weight)) for c, weight in SPREADS)
    return tuple(one for one in found if one is not None)


def _scale(seen: Foresight, c: float) -> Array:
    """(K,) the size of rates in all directions, as foreseen before the second block."""
    foreseen, farthest = seen.variance[0] * seen.to_come[0], seen.reach[0].max(axis=0)
    return np.minimum(np.sqrt(c / np.maximum(foreseen, 1e-300)), SLACK / farthest)


def _reach(
    rows: OwnRows,
    model: Fitted,
    half: Array,
    sets: tuple[Ellipsoid, ...],
    reward_range: tuple[float, float],
    possible: Array,
) -> Array:
    """(2, K) as `reach_of`, from differences to one busy state: what all values have in common cancels."""
    (low, high), alpha = reward_range, rows.alpha
    s = rows.state[int(model.occupancy.argmax())]
    a, beside = model.G - model.G[s], np.abs(model.reach - model.reach[s]) @ half
    a_q, beside_q = model.G_q - alpha * model.G[s], np.abs(model.reach_q - alpha * model.reach[s]) @ half
    V_off = np.min([radii(one, a) for one in sets], axis=0) + beside
    q_off = np.min([radii(one, a_q) for one in sets], axis=0) + beside_q
    least, most = (model.V - V_off)[possible].min(), (model.V + V_off)[possible].max()
    return np.array([model.q - alpha * least - low + q_off, high + alpha * most - model.q + q_off])


def _cut(box: Box, model: Fitted, half: Array, sets: tuple[Ellipsoid, ...]) -> Box:
    """The box, as far as the ellipsoids leave it."""
    busy = model.total > 0.0
    rounding = ROUNDING * np.abs(model.V).max()
    V = np.min([radii(one, model.G) for one in sets], axis=0) + np.abs(model.reach) @ half + rounding
    q = np.min([radii(one, model.G_q) for one in sets], axis=0) + np.abs(model.reach_q) @ half + rounding
    lows, highs = np.maximum(box.V[0], model.V - V), np.minimum(box.V[1], model.V + V)
    q_low, q_high = np.maximum(box.q[0], model.q - q), np.minimum(box.q[1], model.q + q)
    return Box(np.array([lows, highs]), np.where(busy, np.array([q_low, q_high]), box.q))


def _ends(
    rows: OwnRows,
    seen: Foresight,
    aim: Aim,
    known: Known,
    reward_range: tuple[float, float],
    possible: Array,
    level: float,
) -> tuple[float, float]:
    """Floor and ceiling at a start: by its directions, or by the box of every state."""
    reach = reach_of(rows, known.box, reward_range, possible)
    ends = [float(rows.start @ end) for end in known.box.V[:, : rows.num_states]]
    for side, part in enumerate(aim.parts):
        if part > 0.0:
            ends[side] = _beyond(rows, seen, known, reach, level - np.log(part), side, ends[side])
    return ends[0], ends[1]


def _beyond(rows: OwnRows, seen: Foresight, known: Known, reach: Array, level: float, side: int, end: float) -> float:
    """An end of the box, or what directions say beyond it: with the box made smaller, or, failing that, as it is."""
    better = (max, min)[side]
    found = better(end, _end(rows, seen, known, reach, level, side)) if known.sets else end
    if found != end:
        return found
    return better(end, thin_end(rows, seen, known.box.V, known.box.q, reach, level, side, end))


def _end(rows: OwnRows, seen: Foresight, known: Known, reach: Array, level: float, side: int) -> float:
    """The floor (side 0) or the ceiling (side 1) at the start, by the best of the directions."""
    sign, worth = (1.0, -1.0)[side], known.box.q[side]
    kinds = [direction(rows, seen, kind, side, reach[side], worth, level) for kind in KINDS]
    ordered = sorted(((one, *expected(one)) for one in kinds), key=lambda found: found[1] - sign * found[0].value)
    ends = [-np.inf]
    for one, off, t in ordered[:TRIED]:
        if np.isfinite(off):
            ends += [sign * one.value - _radius(rows, known, one, reach, factor * t, sign) for factor in CLOSER]
    return sign * max(ends)


def _radius(rows: OwnRows, known: Known, one: Direction, reach: Array, t: float, sign: float) -> float:
    """t (level + sum a log(a / w) + omega' Q^ + N), and what is missing: how far the value can be off."""
    found = weigh(rows, one, t, sign)
    if found is None:
        return np.inf
    alpha, model = rows.alpha, one.model
    weights = (found.omega[:, rows.pair] * rows.n[1:]).sum(axis=0)
    moved = alpha * (known.model.V - model.V)[rows.column] - (known.model.q - model.q)[rows.pair]
    aside = np.sqrt((weights * known.beside**2).sum()) + np.sqrt((weights * moved**2).sum())
    square = differences(rows, known.model, weights)
    N = (min(norm(ellipse, square) for ellipse in known.sets) + aside) ** 2
    # pairs without rows are worth more than the end of their box: what that does to the linear term
    unknown = np.where(model.total > 0.0, 0.0, known.box.q[1] - known.box.q[0])
    linear = 2.0 * sign * (found.crossed @ (alpha * model.reach[rows.column] - model.reach_q[rows.pair]))
    most = (np.maximum(linear, 0.0) * unknown).sum()
    used = (found.omega * one.squares).sum()
    rounding = (np.abs(found.missing) * (one.u * rows.visits[1:]).sum(axis=0) * reach.sum(axis=0)).sum()
    rounding += ROUNDING * float(np.abs(model.V).max())
    return float(t * (one.level + paid(found.a, one.log_w) + used + most + N) + rounding)


# ---- the martingale itself, where the truth is known


def log_martingale(
    rows: OwnRows,
    aims: Sequence[Aim],
    reward_range: tuple[float, float],
    possible: Array,
    V: Array,
    q: Array,
    level: float,
) -> float:
    """log M at a value V (S + 1,) and q (K,) of the policy: at the true ones the mean of M is at most 1."""
    seen = [foresee(rows, aim.foreseen, reward_range, possible) for aim in aims]
    off = rows.mean[1:] + rows.alpha * V[rows.column] - q[rows.pair]
    Z = np.array([rows.per_pair(one) for one in rows.n[1:] * off])
    Q = np.array([rows.per_pair(one) for one in rows.scatter[1:] + rows.n[1:] * off**2])
    low, high = reward_range
    reach = np.array([q - low - rows.alpha * V[possible].min(), high + rows.alpha * V[possible].max() - q])
    kinds = []
    for c, weight in SPREADS:
        theta = np.broadcast_to(NODES[:, None, None] * _scale(seen[0], c), (NODES.size, *Z.shape))
        kinds.append(np.log(weight) + _log_product(theta, LOG_WEIGHTS, Z, Q, reach))
    wanted = [(i, side) for i, aim in enumerate(aims) for side in (0, 1) if aim.parts[side] > 0.0]
    for (i, side), (part, width, weight) in product(wanted, KINDS):
        weight *= aims[i].parts[side]
        tau, u = rates(seen[i], part, side, level - np.log(weight))
        g, log_w = multiples(width)
        theta = (1.0, -1.0)[side] * tau * g[:, None, None] * u
        kinds.append(np.log(weight) + _log_product(theta, log_w, Z, Q, reach))
    return float(np.logaddexp.reduce(kinds))


def _log_product(theta: Array, log_w: Array, Z: Array, Q: Array, reach: Array) -> float:
    """log prod_p sum_j w_j exp(sum_e ...) for rates theta (J, blocks, K), frozen from where they are too large."""
    x = np.abs(theta) * np.where(theta > 0.0, reach[0], reach[1])
    alive = np.logical_and.accumulate(x < 1.0, axis=1)
    psi = theta**2 * psi_ratio(np.where(alive, x, 0.0))
    exponent = np.where(alive, theta * Z - psi * Q, 0.0).sum(axis=1)
    return float(np.logaddexp.reduce(log_w[:, None] + exponent, axis=0).sum())
