"""Turns: does what differs between the phases of a period come back in turn after turn?

Where states have numbers, e is what they leave over of a reward, a cost or a next number (number_cells.py). A little of
their function is always left in it, and states wander along an episode: means of e then differ between steps, and so
between phases, without any rhythm. But what wanders does not come back, and a rhythm does.

    trend       the mean of e over one whole period around each row, which has no rhythm in it, is taken out; rows of
                the first and the last half of a period have none, and are left out
    m           the mean of what is left over a phase, in which a row's own turn counts as 0
    A_k         sum of e m / sum of m^2 over the rows of turn k: above 0 if it goes as the others do, 1 if as far;
                its variance by noise alone is v_k = var e / sum of m^2
    A           mean of the A_k with weights w_k = 1 / (v_k + between), `between` what turns differ by beyond their
                noise (DerSimonian and Laird, 1986: random effects)
    t           A / sqrt(2 sum w (A_k - A)^2 / ((K - 1) sum w)): every two turns meet twice in A, hence 2. Student's,
                with K - 1 degrees of freedom
Asked once of each group by itself (a cell and an action) and once of all rows as one group, since most rhythms are the
same everywhere: p = 2 min of the two. What has fewer than three turns is no rhythm yet.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from dualq.logs.checks.homogeneity import cells

Array = np.ndarray

FEWEST = 3  # turns


def comes_again(group: Array, clock: Array, period: int, x: Array) -> float:
    """How often turns that have nothing in common would agree as much as these (p value)."""
    clock = clock - clock.min()
    return min(1.0, 2.0 * min(_agreement(each, clock, period, x) for each in (group, np.zeros_like(group))))


def _agreement(group: Array, clock: Array, period: int, x: Array) -> float:
    e = x - _trend(group, clock, period, x)
    known = np.isfinite(e)
    if not known.any():
        return 1.0
    e, turn = e[known], clock[known] // period
    _, phase = cells(group[known], clock[known] % period)
    _, own = cells(phase, turn)
    _, turn = cells(turn)
    m = (np.bincount(phase, e)[phase] - np.bincount(own, e)[own]) / np.bincount(phase)[phase]
    a, b = np.bincount(turn, e * m), np.bincount(turn, m * m)
    a, b = a[b > 0.0], b[b > 0.0]
    if b.size < FEWEST:
        return 1.0
    A, noise = a / b, e.var() / b
    w = 1.0 / (noise + _between(A, noise))
    mean = (w * A).sum() / w.sum()
    error = np.sqrt(2.0 * (w * (A - mean) ** 2).sum() / ((b.size - 1) * w.sum()))
    if error == 0.0:  # all turns go exactly as far as the others: with them, or against them
        return float(mean <= 0.0)
    return float(stdtr(b.size - 1.0, -mean / error))


def _between(A: Array, noise: Array) -> float:
    """How much amplitudes vary beyond their noise (DerSimonian and Laird 1986)."""
    w = 1.0 / noise
    Q = (w * (A - (w * A).sum() / w.sum()) ** 2).sum()
    return max(0.0, float((Q - (A.size - 1)) / (w.sum() - (w * w).sum() / w.sum())))


def _trend(group: Array, clock: Array, period: int, x: Array) -> Array:
    """(n,) the mean over a period around each row of its group; nan where the clock does not reach so far.

    Of an even period the ends count half: two windows, one unit apart.
    """
    trend = np.full(x.size, np.nan)
    inside = (clock >= period // 2) & (clock <= clock.max() - period // 2)
    order = np.lexsort((clock, group))
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        t, total = clock[rows], np.concatenate([[0.0], np.cumsum(x[rows])])
        sums, many = np.zeros(rows.size), np.zeros(rows.size)
        for low in (t - period // 2, t - (period - 1) // 2):
            begin, end = np.searchsorted(t, low, "left"), np.searchsorted(t, low + period, "left")
            sums, many = sums + total[end] - total[begin], many + end - begin
        trend[rows] = sums / many
    return np.where(inside, trend, np.nan)
