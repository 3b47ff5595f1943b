"""What each block of a log can expect of a policy's rows, from the rows before it; no bound rests on its being right.

From the model of the past blocks: the occupancy lambda of the policy, the variance of r + alpha V(s') of each pair, how
far it can fall below and rise above its mean, and how many of the rows to come each pair will have (later blocks count
more, as behaviour drifts).

Plan     how many rows there will be nobody knows: HORIZON times the first part, and MORE than there are already
Quota    a pair's rows are weighted so that their weights add up to its occupancy at HORIZON, and in proportion to more
         beyond: what is left of it, spread over the rows that are still foreseen, and never so much that one row alone
         could matter (CAUTION / rate / reach).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.proof.own_rows import OwnRows, chain_of, weighted

Array = np.ndarray

HORIZON = 16.0  # times the first part: so many rows are planned for at first
MORE = 1.25  # times the rows so far: at least so many are planned for
FADING = 0.6  # what a block counts when the next one is over, where rows to come are foreseen
CAUTION = 0.4  # of what a single row may do: rate x weight x reach at most
PSEUDO_ROWS = 2.0  # at the average variance, for pairs of which little was seen


class Foresight(NamedTuple):
    """Foreseen before each block but the first."""

    occupancy: Array  # (blocks - 1, K)
    variance: Array  # (blocks - 1, K) of r + alpha V(s')
    reach: Array  # (blocks - 1, 2, K) its mean less the least it can be; the most it can be less its mean
    to_come: Array  # (blocks - 1, K) rows of the pair, in this block and after, as planned
    quota: Array  # (blocks - 1,) of the occupancy, at the end of the plan: 1, and more beyond the first plan
    visits: Array  # (blocks - 1, K) rows of the pair in this block: not foreseen, known when it is over


def foresee(rows: OwnRows, start: Array, reward_range: tuple[float, float], possible: Array) -> Foresight:
    """What blocks expect; `start` (S,) must itself be known before the second block begins."""
    anywhere = np.append(np.ones(rows.num_states, bool), possible[-1])  # which states only end may show later
    found = [_from_past(rows, e, start, reward_range, anywhere) for e in range(1, len(rows.n))]
    recent, size = rows.visits[0], rows.sizes[0]
    so_far, at_first, to_come, quota = size, HORIZON * size, [], []
    for e in range(1, len(rows.n)):
        plan = max(at_first, MORE * so_far)
        to_come.append(np.maximum((recent + 0.5) / max(size, 1.0) * (plan - so_far), 1.0))
        quota.append((plan - rows.sizes[0]) / max(at_first - rows.sizes[0], 1.0))
        recent, size = FADING * recent + rows.visits[e], FADING * size + rows.sizes[e]
        so_far = so_far + rows.sizes[e]
    occupancy, variance, reach = (np.array(one) for one in zip(*found, strict=True))
    return Foresight(occupancy, variance, reach, np.array(to_come), np.array(quota), rows.visits[1:])


def _from_past(
    rows: OwnRows, e: int, start: Array, reward_range: tuple[float, float], possible: Array
) -> tuple[Array, Array, Array]:
    total, r, P = weighted(rows._replace(n=rows.n[:e], mean=rows.mean[:e]), np.ones((e, rows.pairs.size)))
    known, alpha, (low, high) = total > 0.0, rows.alpha, reward_range
    middle = float((total * r).sum() / max(total.sum(), 1.0)) / (1.0 - alpha)  # of pairs that were never seen
    matrix = chain_of(rows, P)
    gain = np.bincount(rows.state, rows.chance * np.where(known, r, middle), minlength=rows.num_states)
    V = np.append(np.linalg.solve(matrix, gain), 0.0)
    occupancy = np.linalg.solve(matrix.T, start)[rows.state] * rows.chance
    q = np.where(known, r + alpha * P @ V, middle)
    off = rows.mean[:e] + alpha * V[rows.column] - q[rows.pair]
    squares = rows.per_pair((rows.scatter[:e] + rows.n[:e] * off**2).sum(axis=0))
    pooled = squares.sum() / max(total.sum(), 1.0)
    variance = (squares + PSEUDO_ROWS * pooled) / (total + PSEUDO_ROWS)
    reach = np.array([q - low - alpha * V[possible].min(), high + alpha * V[possible].max() - q])
    least = 1e-9 * max(high - low, 1e-6 * float(np.abs(V).max()), 1e-20)  # where all rows were alike
    return occupancy, variance, np.maximum(reach, least)


def standard_error(seen: Foresight) -> float:
    """Of the policy's value, as foreseen before the second block; not quite nothing, where no row ever varied."""
    error = np.sqrt((seen.occupancy[0] ** 2 * seen.variance[0] / seen.to_come[0]).sum())
    return max(float(error), 1e-9 * float(seen.reach[0].max()))


def quotas(seen: Foresight, rate: float, side: int) -> Array:
    """u (blocks - 1, K): the occupancy as a quota; side 0 for floors, whose rows may fall short, 1 for ceilings."""
    given = np.zeros(seen.occupancy.shape[1])
    u = np.zeros(seen.occupancy.shape)
    for e, (occupancy, quota, reach, to_come, visits) in enumerate(
        zip(seen.occupancy, seen.quota, seen.reach[:, side], seen.to_come, seen.visits, strict=True)
    ):
        u[e] = np.minimum(np.maximum(quota * occupancy - given, 0.0) / to_come, CAUTION / (rate * reach))
        given += u[e] * visits
    return u
