"""Marked rows beside the others: do they earn, cost or decide otherwise, in the same state and action?

Choices   (actions, states) are compared by their counts and by the shares of the commonest, within groups of rows.
Means     of rewards and costs are compared within every pair (s, a): `alike_means`, whatever their distribution.
Shocks    All shops may have a bad day, and all marked rows may lie on one day: then their rewards are not independent.
          On a shared clock the sum D of what marked rows earn beyond the means of their pairs has the variance
          sum sigma^2 (k + k^2 / n) + tau^2 sum k_m^2 for k marked and n other rows of a pair, k_m marked rows at moment
          m; tau^2 is that of the shock of a moment, estimated from the other rows by moments:
          E Z_m^2 = n_m sigma^2 + n_m (n_m - 1) tau^2 for the sum Z_m of moment m. Where shocks add half as much again
          to the variance, the larger p-value of both tests counts; D is compared with Student's t, as if tau^2 alone
          made its variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from dualq.base import p_value
from dualq.logs.checks.homogeneity import FEWEST_IN_ROW, Outcome, alike_counts, alike_means
from dualq.logs.checks.trace import Trace

Array = np.ndarray

COMMONEST = 8  # choices whose shares are compared
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
    size = trace.shape[0] * trace.shape[1]
    pair = np.where((trace.s >= 0) & (trace.a >= 0) & np.isfinite(values), trace.pair, -1)
    use, k, n = _compared(pair, marked, others, size)
    if not use.any():
        return Difference(1.0, 0)
    row, x, t = marked, values, trace.t
    if not use.all():  # most logs have no row to leave out: nothing need be copied then
        pair, row, x, t = (column[use] for column in (pair, row, x, t))
    found = _alike(pair, row, x, size)
    usual = _means(pair[~row], x[~row], size)
    p = found.p_value
    if not trace.restarts and np.isfinite(trace.t).all():
        p = max(p, _with_shocks(t, pair, row, x - usual[pair], k, n))
    return Difference(p, found.tested, float(x[row].mean()), float((k * usual).sum() / k.sum()))


def _compared(group: Array, marked: Array, others: Array, size: int) -> tuple[Array, Array, Array]:
    """(rows,) the rows of groups with enough of both; (size,) how many marked and other rows each of these has."""
    known = group >= 0
    k, n = (np.bincount(group[rows & known], minlength=size) for rows in (marked, others))
    enough = (k >= FEWEST_IN_ROW) & (n >= FEWEST_IN_ROW)
    use = known & enough[group] & (marked | others)  # a group of -1 is looked up too, and not known
    return use, np.where(enough, k, 0), n


def _alike(group: Array, marked: Array, x: Array, size: int) -> Outcome:
    key, centred = 2 * group + marked, x - x.mean()
    n = np.bincount(key, minlength=2 * size)
    cells = np.flatnonzero(n)
    sums = [np.bincount(key, centred**power, 2 * size)[cells] for power in (1, 2, 3, 4)]
    return alike_means(cells // 2, cells % 2, n[cells], sums)


def _means(group: Array, x: Array, size: int) -> Array:
    return np.bincount(group, x, size) / np.maximum(np.bincount(group, minlength=size), 1)


def _with_shocks(t: Array, pair: Array, marked: Array, beyond: Array, k: Array, n: Array) -> float:
    """The p-value where all rows of a moment may have a shock in common; 0 where they have none to speak of."""
    moment = np.unique(t, return_inverse=True)[1]
    there = ~marked
    variance = _means(pair[there], beyond[there] ** 2, k.size)
    alone = float((variance * (k + k**2 / np.maximum(n, 1))).sum())
    Z, rows = np.bincount(moment[there], beyond[there]), np.bincount(moment[there])
    pairs, M = float((rows.astype(float) * (rows - 1)).sum()), max(rows.size, 2)
    if not pairs or not alone > 0.0:
        return 0.0
    tau2 = max(float((Z**2).sum() - (beyond[there] ** 2).sum()) / pairs, 0.0) * (M + 1) / (M - 1)  # of M moments
    shared = tau2 * float((np.bincount(moment[marked]).astype(float) ** 2).sum())
    if alone + shared <= SHOCKS * alone:
        return 0.0
    return float(2.0 * stdtr(M - 1, -abs(beyond[marked].sum()) / np.sqrt(alone + shared)))


def other_choices(marked: Array, others: Array, group: Array, choice: Array, groups: int) -> float:
    """The p-value of the hypothesis that marked rows have the choices of others, in every group; 1: not tested.

    Tables of counts (`alike_counts`) see every choice, but need many marked rows; the share of each of the
    commonest choices needs few. Both are asked, and pay for each other.
    """
    use, _, _ = _compared(np.where(choice >= 0, group, -1), marked, others, groups)
    if not use.any():
        return 1.0
    group, row, choice = group[use].astype(np.int64), marked[use], choice[use]
    width = int(choice.max()) + 1
    cells, n = np.unique((group * 2 + row) * width + choice, return_counts=True)
    p = alike_counts(cells // width // 2, cells // width % 2, cells % width, n).p_value
    often = np.bincount(choice)
    common = np.argsort(-often, kind="stable")[: min(COMMONEST, np.count_nonzero(often))]
    least = min(_alike(group, row, (choice == one).astype(float), groups).p_value for one in common)
    return min(1.0, 2.0 * min(p, common.size * least))
