"""Marked rows beside the others: do they earn, cost or decide otherwise, in the same state and action?

Means     of rewards and costs are compared within every pair (s, a): `change.alike_means`, whatever their distribution.
Shocks    All shops may have a bad day, and all marked rows may lie on one day: then their rewards are not independent.
          On a shared clock the sum D of what marked rows earn beyond the means of their pairs has the variance
          sum sigma^2 (k + k^2 / n) + tau^2 sum k_m^2 for k marked and n other rows of a pair, k_m marked rows at moment
          m; tau^2 is that of the shock of a moment, estimated from the other rows by moments:
          E Z_m^2 = n_m sigma^2 + n_m (n_m - 1) tau^2 for the sum Z_m of moment m. Where shocks add half as much again
          to the variance, the larger p-value of both tests counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dualq.logs.change import FEWEST_IN_ROW, alike_counts, alike_means
from dualq.logs.trace import Trace
from dualq.plain import p_value

Array = np.ndarray

SHOCKS = 1.5  # times the variance without shocks


class Difference(NamedTuple):
    """What a comparison of marked rows with others says."""

    p_value: float
    tested: int  # pairs of state and action with rows enough
    marked: float = 0.0  # the mean over marked rows
    others: float = 0.0  # over others in the same pairs, each as often as marked rows have it

    def words(self, whose: str, column: str) -> str:
        """`last rows have -480 in profit on average, and the same decisions 5.1 elsewhere (p = 0.001)`."""
        means = f"{self.marked:.4g} in {column} on average, and the same decisions {self.others:.4g} elsewhere"
        return f"{whose} have {means} ({p_value(self.p_value)})"


def difference_in(trace: Trace, marked: Array, others: Array, values: Array) -> Difference:
    """Whether marked rows have other values than the others, in the same state and action."""
    pair, x = trace.pair, values
    size = trace.shape[0] * trace.shape[1]
    known = np.isfinite(x) & (trace.s >= 0) & (trace.a >= 0)
    k = np.bincount(pair[marked & known], minlength=size)
    n = np.bincount(pair[others & known], minlength=size)
    compared = (k >= FEWEST_IN_ROW) & (n >= FEWEST_IN_ROW)
    known &= compared[np.where(known, pair, 0)] & (marked | others)
    if not known.any():
        return Difference(1.0, 0)
    pair, row, x = pair[known], marked[known].astype(np.int64), x[known]
    centred = x - x.mean()
    key = 2 * pair + row
    cells = np.flatnonzero(np.bincount(key, minlength=2 * size))
    sums = [np.bincount(key, centred**power, 2 * size)[cells] for power in (1, 2, 3, 4)]
    found = alike_means(cells // 2, cells % 2, np.bincount(key, minlength=2 * size)[cells], sums)
    usual = _means(pair[row == 0], x[row == 0], size)
    beyond, k = x - usual[pair], np.where(compared, k, 0)
    p = found.p_value
    if not trace.restarts and np.isfinite(trace.t).all():
        p = max(p, _with_shocks(trace.t[known], pair, row == 1, beyond, k, n))
    return Difference(p, found.tested, float(x[row == 1].mean()), float((k * usual).sum() / k.sum()))


def _means(group: Array, x: Array, size: int) -> Array:
    return np.bincount(group, x, size) / np.maximum(np.bincount(group, minlength=size), 1)


def _with_shocks(t: Array, pair: Array, marked: Array, beyond: Array, k: Array, n: Array) -> float:
    """The p-value where all rows of a moment may have a shock in common; 0 where they have none to speak of."""
    moment = np.unique(t, return_inverse=True)[1]
    there = ~marked
    variance = _means(pair[there], beyond[there] ** 2, k.size)
    alone = float((variance * (k + k**2 / np.maximum(n, 1))).sum())
    Z, rows = np.bincount(moment[there], beyond[there]), np.bincount(moment[there])
    pairs = float((rows.astype(float) * (rows - 1)).sum())
    excess = float((Z**2).sum() - np.bincount(moment[there], beyond[there] ** 2).sum())
    shared = max(excess / pairs, 0.0) * float((np.bincount(moment[marked]).astype(float) ** 2).sum()) if pairs else 0.0
    if not alone > 0.0 or alone + shared <= SHOCKS * alone:
        return 0.0
    return float(2.0 * ndtr(-abs(beyond[marked].sum()) / np.sqrt(alone + shared)))


def other_choices(trace: Trace, marked: Array, others: Array, group: Array, choice: Array) -> float:
    """The p-value of the hypothesis that marked rows have the choices of others, in every group; 1: not tested."""
    use = (marked | others) & (group >= 0) & (choice >= 0)
    if not (use & marked).any():
        return 1.0
    width = int(choice[use].max()) + 1
    key = (group[use].astype(np.int64) * 2 + marked[use]) * width + choice[use]
    cells, n = np.unique(key, return_counts=True)
    return alike_counts(cells // width // 2, cells // width % 2, cells % width, n).p_value
