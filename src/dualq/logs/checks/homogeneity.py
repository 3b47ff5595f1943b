"""Change: does a table of counts, or do means, differ between rows that should be alike?

Counts      For every group g a table n(i, j): rows i (periods, previous states), columns j (what followed). If the rows
            are alike, X^2 = (1 - 1/N) sum (n - e)^2 / e with e = n(i, .) n(., j) / N is about chi-square with
            (I - 1)(J - 1) degrees of freedom, also for a walk, and so are sums over groups (Anderson and Goodman 1957).
            Rows and columns with fewer than sqrt(5 N) counts are put together, and left out if they are still fewer:
            so every e is about 5 or more. Which ones these are depends on the margins alone, so the level is enough.
Means       For every group the numbers x of I rows: T = (N - 1) SSB / SST, the share of the variance that lies between
            the rows. If the rows are alike, every order of the numbers is equally likely, and T has the mean I - 1 and
            a variance that is known exactly from the sums of x^2 and x^4 (Pitman 1938). A gamma distribution with these
            two stands for that of T, whatever that of x, and another for the sum over groups.
Tables      Where rows are of very different size (the last days against all before) few of them would be left so. Given
            its margins a table is a random order of its columns, and X^2 = N (sum n^2 / (R C) - 1) has then the mean
            N (I-1)(J-1) / (N-1) and, with v_I = (I-1)(N-I)/(N-1) and w_I = (sum N/R - I^2)/(N-2), the variance
            2N/(N-3) (v_I - w_I)(v_J - w_J) + N^2/(N-1) w_I w_J (Haldane 1940; Dawson 1954): a gamma with these two.
Together    The sum over groups finds small changes everywhere, the largest of them a large change in one place:
            p = 2 min(p of the sum, number of groups * least p), at most 1. False alarms are at most the level, as far
            as the chi-square and gamma distributions hold; the tests of this project count them.
Logarithms  of p are kept: where a change is clear p itself is 0 in floating point, and one cut no better than another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammaln  # scipy.stats takes longer to import than all of dualq

Array = np.ndarray

LEAST = 5.0  # expected count of a cell
FEWEST_MEANS = 20  # numbers in a group, for its means to be compared
FEWEST_IN_ROW = 5
DENSE = 16  # times as many numbers as entries: fewer are counted rather than sorted
FULL, ALONE = 1.0, 2.0  # expected counts of the least cell: columns of less are put together; a table judged by itself
ROUNDING = 1e-9


@dataclass(frozen=True)
class Outcome:
    """What a test found."""

    log_p: float
    tested: int  # groups with counts enough
    group: int | None = None  # the group that differs most

    @property
    def p_value(self) -> float:
        """How often rows that are alike would look as different as these."""
        return float(np.exp(self.log_p))


def alike_counts(group: ArrayLike, row: ArrayLike, column: ArrayLike, n: ArrayLike) -> Outcome:
    """Whether the rows of each group's table of counts are alike; one entry per cell, in any order."""
    group, row, column = (np.asarray(x, np.int64) for x in (group, row, column))
    n = np.asarray(n, float)
    row, group, column, n = _pooled(group, row, column, n)
    column, group, row, n = _pooled(group, column, row, n)
    if n.size == 0:
        return Outcome(0.0, 0)
    (group, row, column), where = cells(group, row, column)
    n = np.bincount(where, n, group.size)
    (groups,), g = cells(group)
    (row_group, _), i = cells(g, row)
    (column_group, _), j = cells(g, column)
    N = np.bincount(g, n, groups.size)
    R, C = np.bincount(i, n), np.bincount(j, n)
    X2 = np.bincount(g, n * n * N[g] / (R[i] * C[j]), groups.size) - N
    df = (np.bincount(row_group, minlength=groups.size) - 1) * (np.bincount(column_group, minlength=groups.size) - 1)
    used = df > 0
    if not used.any():
        return Outcome(0.0, 0)
    X2, df = np.maximum(X2[used] * (1.0 - 1.0 / N[used]), 0.0), df[used]
    return together(log_tail(df.sum() / 2, X2.sum() / 2), log_tail(df / 2, X2 / 2), groups[used])


def _pooled(group: Array, row: Array, column: Array, n: Array) -> tuple[Array, Array, Array, Array]:
    """(row, group, column, n) with rows of few counts put together as row -1, and without it if that has few too."""
    for _ in range(2):
        if n.size == 0:
            break
        (groups,), g = cells(group)
        _, i = cells(g, row)
        few = np.bincount(i, n)[i] ** 2 < LEAST * np.bincount(g, n, groups.size)[g]
        if not few.any():
            break
        enough = ~few | (row >= 0)  # what is still too few once together goes
        row = np.where(few, -1, row)[enough]
        group, column, n = group[enough], column[enough], n[enough]
    return row, group, column, n


def alike_means(group: ArrayLike, row: ArrayLike, n: ArrayLike, sums: Iterable[ArrayLike]) -> Outcome:
    """Whether the means of each group's rows are alike; `sums` of x, x^2, x^3, x^4, an entry per (group, row)."""
    group, row = (np.asarray(x, np.int64) for x in (group, row))
    (group, row), where = cells(group, row)
    n, sums = np.bincount(where, n), np.array([np.bincount(where, x) for x in sums])
    enough = n >= FEWEST_IN_ROW
    group, n, sums = group[enough], n[enough], sums[:, enough]
    if n.size == 0:
        return Outcome(0.0, 0)
    (groups,), g = cells(group)
    size = groups.size
    N, rows = np.bincount(g, n, size), np.bincount(g, minlength=size)
    S1, S2, S3, S4 = (np.bincount(g, x, size) for x in sums)
    mean = S1 / N
    SST = S2 - N * mean**2
    SSB = np.bincount(g, sums[0] ** 2 / n, size) - N * mean**2
    fourth = S4 - 4 * mean * S3 + 6 * mean**2 * S2 - 3 * N * mean**4
    enough = (rows > 1) & (N >= FEWEST_MEANS)
    used = enough & (SST > 1e-10 * S2)
    if not used.any():
        return Outcome(0.0, int(enough.sum()))  # those groups whose numbers are all the same
    N, rows, SST, SSB, fourth = N[used], rows[used], SST[used], SSB[used], fourth[used]
    inverse = np.bincount(g, 1.0 / n, size)[used]
    m2 = SST / N
    m4 = np.clip(fourth / N, m2**2, N * m2**2)  # as it must be, whatever the rounding
    T = np.clip((N - 1) * SSB / SST, 0.0, N - 1)
    variance = _variance_over_orders(N, rows, inverse, m2, m4) / m2**2 * ((N - 1) / N) ** 2
    mean_T = rows - 1.0
    variance = np.maximum(variance, 1e-3 * mean_T)
    each = log_tail(mean_T**2 / variance, T * mean_T / variance)
    total, spread = mean_T.sum(), variance.sum()
    return together(log_tail(total**2 / spread, T.sum() * total / spread), each, groups[used])


def _variance_over_orders(N: Array, rows: Array, inverse: Array, m2: Array, m4: Array) -> Array:
    """Var of SSB over all orders of the numbers, of second and fourth central moment m2, m4; inverse: sum of 1/n_i.

    SSB = y'By with B = blocks of 1/n_i, less 1/N: its rows sum to 0, tr B = tr B^2 = I - 1, and sum B_ii^2 = d.
    """
    t = rows - 1.0
    d = inverse - (2.0 * rows - 1.0) / N
    E31 = -m4 / (N - 1)
    E22 = (N * m2**2 - m4) / (N - 1)
    E211 = (2 * m4 - N * m2**2) / ((N - 1) * (N - 2))
    E1111 = (3 * N * m2**2 - 6 * m4) / ((N - 1) * (N - 2) * (N - 3))
    second = d * m4 - 4 * d * E31 + (t**2 + 2 * t - 3 * d) * E22
    second += (12 * d - 2 * t**2 - 4 * t) * E211 + (t**2 + 2 * t - 6 * d) * E1111
    return second - (t * m2 * N / (N - 1)) ** 2


def scores(group: ArrayLike, x: ArrayLike) -> Array:
    """Numbers as their ranks within the group, between -1 and 1; what differs by rounding is equal.

    So one number that is far from all others says no more than that it is the largest.
    """
    x = np.asarray(x, float)
    if x.size == 0:
        return x
    _, where = cells(np.asarray(group, np.int64))
    N = np.bincount(where)
    x = np.ldexp(x, -np.frexp(np.abs(x).max())[1])  # no square is too large
    size = np.sqrt(np.bincount(where, x * x) / N)[where]
    x = np.round(x / np.where(size > 0.0, ROUNDING * size, 1.0))
    order = np.lexsort((x, where))
    same = np.concatenate([[False], (np.diff(where[order]) == 0) & (np.diff(x[order]) == 0)])
    tie = np.cumsum(~same) - 1
    begins, ties = np.flatnonzero(~same), np.bincount(tie)
    first = np.cumsum(N) - N
    rank = np.empty(x.size)
    rank[order] = (begins + 0.5 * (ties - 1))[tie]
    return (2.0 * (rank - first[where]) + 1.0) / N[where] - 1.0


def alike_scores(group: ArrayLike, row: ArrayLike, x: Array) -> Outcome:
    """Whether the means of each group's rows are alike; one entry per number, with `scores` of its group."""
    x2 = x * x
    return alike_means(group, row, np.ones(x.size), (x, x2, x2 * x, x2 * x2))


def alike_tables(group: ArrayLike, row: ArrayLike, column: ArrayLike) -> Outcome:
    """Whether the rows of each group's table are alike, whatever their sizes; one entry per count of 1."""
    group, row, column = (np.asarray(x, np.int64) for x in (group, row, column))
    group, row, column, n = _thinned(group, row, column)
    if n.size == 0:
        return Outcome(0.0, 0)
    (groups,), g = cells(group)
    (row_group, _), i = cells(g, row)
    (column_group, _), j = cells(g, column)
    N, R, C = np.bincount(g, n), np.bincount(i, n), np.bincount(j, n)
    rows, columns = np.bincount(row_group), np.bincount(column_group)
    used = (rows > 1) & (columns > 1) & (N >= FEWEST_MEANS)
    if not used.any():
        return Outcome(0.0, 0)
    X2 = N * (np.bincount(g, n * n / (R[i] * C[j])) - 1.0)
    by_row = (rows, np.bincount(row_group, 1.0 / R))
    by_column = (columns, np.bincount(column_group, 1.0 / C))
    (v_I, w_I), (v_J, w_J) = (((k - 1) * (N - k) / (N - 1), (N * u - k * k) / (N - 2)) for k, u in (by_row, by_column))
    mean = N * (rows - 1) * (columns - 1) / (N - 1)
    variance = 2 * N / (N - 3) * (v_I - w_I) * (v_J - w_J) + N * N / (N - 1) * w_I * w_J
    full = least_of(row_group, R, N.size) * least_of(column_group, C, N.size) >= ALONE * N
    X2, mean, variance = np.maximum(X2[used], 0.0), mean[used], np.maximum(variance, 1e-3 * mean)[used]
    each = np.where(full[used], log_tail(mean**2 / variance, X2 * mean / variance), 0.0)
    total, spread = mean.sum(), variance.sum()
    return together(log_tail(total**2 / spread, X2.sum() * total / spread), each, groups[used])


def least_of(group: Array, x: Array, groups: int) -> Array:
    """(groups,) the least number of each."""
    least = np.full(groups, np.inf)
    np.minimum.at(least, group, x)
    return least


def _thinned(group: Array, row: Array, column: Array) -> tuple[Array, Array, Array, Array]:
    """Cells and their counts, without rows of few; columns that the least row cannot show are put together (-1)."""
    (group, row, column), where = cells(group, row, column)
    n = np.bincount(where).astype(float)
    _, i = cells(group, row)
    R = np.bincount(i, n)
    enough = (R >= FEWEST_IN_ROW)[i]
    if not enough.any():
        return group[:0], row[:0], column[:0], n[:0]
    _, g = cells(group[enough])
    least = least_of(g, R[i][enough], int(g.max()) + 1)[g]
    group, row, column, n = group[enough], row[enough], column[enough], n[enough]
    _, j = cells(group, column)
    few = np.bincount(j, n)[j] * least < FULL * np.bincount(g, n)[g]
    (group, row, column), where = cells(group, row, np.where(few, -1, column))
    return group, row, column, np.bincount(where, n)


def log_tail(a: ArrayLike, x: ArrayLike) -> Array:
    """Log of P(X >= x) for X with the gamma distribution of shape a; chi-square with 2a degrees of freedom is 2X.

    Where the probability is 0 in floating point x is far above a, and the first convergent of the continued fraction,
    x^a e^-x / (Gamma(a) (x + 1 - a)), is right but for a factor 1 + O(a / (x - a)^2) (DLMF 8.9.2).
    """
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    p = gammaincc(a, x)
    far = p < np.finfo(float).tiny
    z, shape = np.where(far, x, a + 1.0), np.asarray(a)
    return np.where(
        far, shape * np.log(z) - z - gammaln(shape) - np.log(z + 1.0 - shape), np.log(np.where(far, 1.0, p))
    )


def together(log_sum: Array, log_each: Array, groups: Array) -> Outcome:
    """The sum over groups and the largest of them, as one test."""
    log_p = np.log(2.0) + min(float(log_sum), np.log(log_each.size) + float(log_each.min()))
    return Outcome(min(0.0, float(log_p)), int(log_each.size), int(groups[int(log_each.argmin())]))


def cells(*keys: Array) -> tuple[tuple[Array, ...], Array]:
    """The distinct tuples of keys, and which of them each entry has."""
    codes, size = np.zeros(keys[0].size, np.int64), 1  # codes are below size, and changed in place
    for key in keys:
        low, span = _range(key)
        if span > DENSE * key.size:
            (key, span), low = _places(key, low, span), 0
        if size * span > DENSE * max(key.size, 1):
            codes, size = _places(codes, 0, size)
        codes *= span
        codes += key
        codes -= low
        size *= span
    codes, size = _places(codes, 0, size)
    first = np.empty(size, np.int64)
    first[codes[::-1]] = np.arange(codes.size)[::-1]
    return tuple(key[first] for key in keys), codes


def _places(key: Array, low: int, span: int) -> tuple[Array, int]:
    """Which of the distinct numbers from low on each is, in order, and how many; unsorted where there can be few."""
    if key.size == 0:
        return key, 0
    if span > DENSE * key.size:
        distinct, place = np.unique(key, return_inverse=True)
        return place, distinct.size
    key = key - low if low else key
    seen = np.zeros(span, bool)
    seen[key] = True
    place = np.cumsum(seen) - 1
    return place[key], int(place[-1]) + 1


def _range(key: Array) -> tuple[int, int]:
    """The least number, and how many there may be from it to the largest."""
    if key.size == 0:
        return 0, 1
    low = int(key.min())
    return low, int(key.max()) - low + 1
