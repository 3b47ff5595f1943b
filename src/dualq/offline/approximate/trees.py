"""Regression trees over columns of numbers and categories, and whether anything can be predicted at all.

Problem    rows x in R^d with targets y_1, ..., y_T and weights w_1, ..., w_T (0 where a row says nothing of a target)
Tree       grown best first (CART; Breiman, Friedman, Olshen, Stone, 1984): of all leaves and all questions the one with
           the largest gain is asked next. Over the targets that at least `least` rows speak of on either side,
               sum_t [ S_L^2 / W_L + S_R^2 / W_R - S^2 / W ],     W = sum of w_t, S = sum of w_t y_t
Questions  x_j < c of a number, c between two of its at most 64 quantiles; x_j = c of a category. Yes is left
Order      question k made the nodes 2k + 1 and 2k + 2, so the first 2L - 1 nodes are the tree with L leaves
Cost       O(rows d T) for each level

Held out   R^2 = 1 - sum (y - f(x))^2 / sum (y - mean)^2 of a forest of random trees (Geurts, Ernst, Wehenkel, 2006: one
           cut per column, drawn at random; the best of them is taken), which saw half of the groups, on the other half;
           both ways, averaged. Not above 0: nothing was found. On noise it is a little below 0: a forest pays for
           looking. Of 400 logs of 1,000 rows of noise 30 were above 0, none above 0.015.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dualq.base import LogError, advance, below, generator_state, kernel
from dualq.offline.approximate.tree import Tree, tree_of

Array = np.ndarray

CUTS = 64  # of a number, in a tree
FINE_CUTS = 255  # of a number, in a forest: its codes are bytes
TREES, LEAST_ROWS = 30, 20  # of a forest, and in each of its leaves
TOGETHER = 8  # columns that a processor compares at once: it is as soon done with eight as with seven


def leaf_means(leaves: Array, Y: Array, weights: Array, count: int) -> Array:
    """(count, T) the mean of each target in each leaf; NaN where no row speaks of it."""
    sums = [np.bincount(leaves, w * y, count) for y, w in zip(Y.T, weights.T, strict=True)]
    rows = [np.bincount(leaves, w, count) for w in weights.T]
    with np.errstate(invalid="ignore"):
        return np.divide(sums, rows).T


# ---- growing


def grown_tree(
    X: Array,
    Y: Array,
    weights: Array | None = None,
    *,
    categories: int = 0,
    max_leaves: int = 16,
    min_rows: int = 20,
    least: int = 1,
    min_gain: float = 0.0,
    cuts: int = CUTS,
) -> Tree:
    """The tree of rows X (n, d), the last `categories` columns of which are places of labels, and targets Y (n, T)."""
    Y = np.asarray(Y, float).reshape(len(X), -1)
    W = np.ones_like(Y) if weights is None else np.asarray(weights, float).reshape(Y.shape)
    mean = (W * Y).sum(axis=0) / np.maximum(W.sum(axis=0), 1e-300)  # no sum of squares much larger than the gains
    columns = _Codes.of(np.asarray(X, float), categories, cuts)
    rows = _Rows(columns, np.where(W > 0.0, Y - mean, 0.0), W, min_rows, least)
    return _best_first(rows, max_leaves, min_gain)


class _Codes(NamedTuple):
    """Columns as small numbers: where each lies between the cuts of its column, or which label it is."""

    code: Array  # (n, d)
    sizes: Array  # (d,) codes of each column
    equal: Array  # (d,) a category
    cuts: list[Array]  # between code k and k + 1 of a number

    @classmethod
    def of(cls, X: Array, categories: int, most: int) -> _Codes:
        d = X.shape[1]
        equal = np.arange(d) >= d - categories
        cuts = [np.arange(x.max(initial=0.0)) if e else cuts_of(x, most) for x, e in zip(X.T, equal, strict=True)]
        code = np.empty(X.shape, np.uint8 if most < 256 and not categories else np.uint16)
        for j, x in enumerate(X.T):
            # a label that is not known comes after all others, and is never asked for
            code[:, j] = np.where(x < 0.0, cuts[j].size + 1, x) if equal[j] else np.searchsorted(cuts[j], x, "right")
        return cls(code, np.array([c.size + 1 for c in cuts]), equal, cuts)


def cuts_of(x: Array, most: int) -> Array:
    """Where a number may be cut: between any two of its values, or between quantiles where it has many values."""
    values = np.unique(x)
    if values.size > most:
        starts = np.unique(np.quantile(x, np.arange(1, most) / most, method="lower"))
        starts = starts[starts > values[0]]
        before = values[np.searchsorted(values, starts) - 1]
    else:
        before, starts = values[:-1], values[1:]
    middle = before + (starts - before) / 2.0
    return np.where(middle > before, middle, starts)  # neighbours in floating point have no middle


class _Rows(NamedTuple):
    columns: _Codes
    Y: Array
    W: Array
    min_rows: int
    least: int

    def best(self, rows: Array) -> tuple[float, int, int]:
        """The gain, the column and the code of the best question; a gain of -1 where there is none."""
        code, sizes, equal, _ = self.columns
        return _best_question(code, sizes, equal, rows, self.Y, self.W, self.min_rows, self.least)


def _best_first(rows: _Rows, max_leaves: int, min_gain: float) -> Tree:
    """Split the leaf with the largest gain, again and again."""
    inside = [np.arange(len(rows.Y))]
    best = [rows.best(inside[0])]
    feature, threshold, left = [-1], [0.0], [-1]
    for _ in range(max_leaves - 1):
        node = max(range(len(best)), key=lambda k: best[k][0])
        gain, column, k = best[node]
        if gain <= min_gain:
            break
        codes, equal = rows.columns.code[inside[node], column], rows.columns.equal[column]
        yes = codes == k if equal else codes <= k
        feature[node], threshold[node] = column, float(k) if equal else rows.columns.cuts[column][k]
        left[node] = len(best)
        for side in (inside[node][yes], inside[node][~yes]):
            inside.append(side)
            best.append(rows.best(side))
        best[node] = (-1.0, -1, -1)
        feature, threshold, left = [*feature, -1, -1], [*threshold, 0.0, 0.0], [*left, -1, -1]
    first = np.array(left)
    asked = np.array(feature)
    equal = (asked >= 0) & rows.columns.equal[asked]
    return tree_of(asked, np.array(threshold), equal, first, np.where(first < 0, -1, first + 1))


@kernel
def _best_question(
    code: Array, sizes: Array, equal: Array, rows: Array, Y: Array, W: Array, min_rows: int, least: int
) -> tuple[float, int, int]:
    T = Y.shape[1]
    best, column, cut = -1.0, -1, -1
    if rows.size < 2 * min_rows:
        return best, column, cut
    most = sizes.max() + 1
    n, w, s = np.zeros((most, T + 1)), np.zeros((most, T)), np.zeros((most, T))
    N, total, S = np.zeros(T + 1), np.zeros(T), np.zeros(T)
    for i in rows:
        for t in range(T):
            total[t] += W[i, t]
            S[t] += W[i, t] * Y[i, t]
            N[t] += W[i, t] > 0.0
    N[T] = rows.size
    left, u, v = np.empty(T + 1), np.empty(T), np.empty(T)  # rows, weights and sums to the left
    for j in range(sizes.size):
        n[:] = 0.0
        w[:] = 0.0
        s[:] = 0.0
        for i in rows:
            k = code[i, j]
            n[k, T] += 1.0
            for t in range(T):
                if W[i, t] > 0.0:
                    n[k, t] += 1.0
                    w[k, t] += W[i, t]
                    s[k, t] += W[i, t] * Y[i, t]
        left[:] = 0.0
        u[:] = 0.0
        v[:] = 0.0
        for k in range(sizes[j] if equal[j] else sizes[j] - 1):
            if equal[j]:
                left[:] = 0.0
                u[:] = 0.0
                v[:] = 0.0
            left += n[k]
            u += w[k]
            v += s[k]
            if left[T] < min_rows or N[T] - left[T] < min_rows:
                continue
            if n[k, T] == 0.0:  # the same as the question before
                continue
            gain = 0.0
            for t in range(T):
                if left[t] >= least and N[t] - left[t] >= least:
                    gain += v[t] ** 2 / u[t] + (S[t] - v[t]) ** 2 / (total[t] - u[t]) - S[t] ** 2 / total[t]
            if gain > best:
                best, column, cut = gain, j, k
    return best, column, cut


# ---- is there anything to be found?


class Halved(NamedTuple):
    """Rows as codes, in two halves of whole groups: in either, what was fitted in the other is tested."""

    code: Array  # (n, d) and columns of 0, up to a multiple of TOGETHER
    first: Array  # (n,)
    seed: int


def halved(columns: Iterable[Array], groups: Array, seed: int = 0) -> Halved:
    """Columns (n,) of numbers, which are made one at a time where there are many; rows of one group stay together."""
    places = np.unique(groups, return_inverse=True)[1]
    if places.size == 0 or places.max() == 0:
        raise LogError("a fit is tested on groups of rows that it did not see; it needs two groups, and there is one")
    first = (np.random.default_rng(seed).permutation(places.max() + 1) % 2 == 0)[places]
    codes = [np.searchsorted(cuts_of(x, FINE_CUTS), x, "right").astype(np.uint8) for x in columns]
    codes += [np.zeros(first.size, np.uint8)] * (-len(codes) % TOGETHER)  # of these nothing is asked
    return Halved(np.stack(codes, axis=1), first, seed)


def held_out_r2(X: Array, y: Array, groups: Array, seed: int = 0) -> float:
    """R^2 of a forest on groups that it did not see; X (n, d) numbers, y (n,), rows of one group stay together."""
    return foretold(halved(np.asarray(X, float).T, groups, seed), y)


def foretold(rows: Halved, y: Array) -> float:
    """The same of rows that stand ready, for one y after another."""
    y = np.asarray(y, float)
    ways = enumerate((rows.first, ~rows.first))
    return float(np.mean([_r2(rows.code, y, np.flatnonzero(fit), rows.seed, way) for way, fit in ways]))


def _r2(code: Array, y: Array, fitted: Array, seed: int, way: int) -> float:
    """The forest of the fitted rows, on all others."""
    others = np.setdiff1d(np.arange(y.size), fitted)
    mean = y[fitted].mean()
    train, test = y[fitted] - mean, y[others] - mean
    variance = float(test @ test)
    if variance <= 1e-24 * y.size * float(np.abs(y).max()) ** 2:  # nothing varies, beyond rounding
        return 0.0
    predicted, seen, asked = np.zeros(others.size), code[fitted], code[others]
    for state in _streams(seed, way):
        _random_tree(seen, train, LEAST_ROWS, state, asked, predicted)
    error = test - predicted / TREES
    return 1.0 - float(error @ error) / variance


def _streams(seed: int, way: int) -> Iterator[np.uint64]:
    for tree in range(TREES):
        yield generator_state(seed, 2 * tree + way)[0]


@kernel
def _random_tree(code: Array, y: Array, min_rows: int, x: np.uint64, asked: Array, predicted: Array) -> None:
    """Grow one random tree of the rows `code`, and add what it predicts for the rows `asked`; depth first."""
    m, d = code.shape
    rows, where = np.arange(m), np.arange(len(asked))
    # the pieces of both that are still to be split: [begin, end) of rows, [begin, end) of where
    todo = np.empty((m // min_rows + 2, 4), np.int64)
    todo[0] = 0, m, 0, len(asked)
    size = 1
    low, high, cuts = np.empty(d, np.uint8), np.empty(d, np.uint8), np.empty(d, np.int16)
    n, s = np.empty(d, np.int32), np.empty(d)
    while size > 0:
        size -= 1
        begin, end, first, last = todo[size]
        S = 0.0
        for i in rows[begin:end]:
            S += y[i]
        best, column = -1.0, -1
        if end - begin >= 2 * min_rows and last > first:
            _range_of(code, rows[begin:end], low, high)
            for j in range(d):
                least, most = np.int64(low[j]), np.int64(high[j])
                cuts[j] = most
                if most > least + 1:
                    x = advance(x)
                    cuts[j] = least + 1 + below(x, most - least)
            _sums_below(code, y, rows[begin:end], cuts, n, s)
            for j in range(d):
                if n[j] >= min_rows and end - begin - n[j] >= min_rows:
                    score = s[j] ** 2 / n[j] + (S - s[j]) ** 2 / (end - begin - n[j])
                    if score > best:
                        best, column = score, j
        if column < 0:
            for i in where[first:last]:
                predicted[i] += S / (end - begin)
            continue
        middle = _parted(rows, begin, end, code, column, cuts[column])
        half = _parted(where, first, last, asked, column, cuts[column])
        todo[size] = begin, middle, first, half
        todo[size + 1] = middle, end, half, last
        size += 2


# Of every column at once, four rows at a time: what was found of the rows before is then read and written a quarter as
# often, and sums are still made in the order of the rows.


@kernel
def _range_of(code: Array, rows: Array, low: Array, high: Array) -> None:
    """The least and the largest code of each column."""
    low[:] = 255
    high[:] = 0
    fours = len(rows) - len(rows) % 4
    for i in range(0, fours, 4):
        a, b, c, d = code[rows[i]], code[rows[i + 1]], code[rows[i + 2]], code[rows[i + 3]]
        for j in range(low.size):
            low[j] = min(low[j], min(min(a[j], b[j]), min(c[j], d[j])))
            high[j] = max(high[j], max(max(a[j], b[j]), max(c[j], d[j])))
    for i in rows[fours:]:
        for j in range(low.size):
            low[j] = min(low[j], code[i, j])
            high[j] = max(high[j], code[i, j])


@kernel
def _sums_below(code: Array, y: Array, rows: Array, cuts: Array, n: Array, s: Array) -> None:
    """How many codes of each column are below its cut, and the sum of y over these rows."""
    n[:] = 0
    s[:] = 0.0
    fours = len(rows) - len(rows) % 4
    for i in range(0, fours, 4):
        a, b, c, d = code[rows[i]], code[rows[i + 1]], code[rows[i + 2]], code[rows[i + 3]]
        p, q, r, t = y[rows[i]], y[rows[i + 1]], y[rows[i + 2]], y[rows[i + 3]]
        for j in range(cuts.size):
            in_a, in_b, in_c, in_d = a[j] < cuts[j], b[j] < cuts[j], c[j] < cuts[j], d[j] < cuts[j]
            n[j] += np.int32(in_a) + np.int32(in_b) + np.int32(in_c) + np.int32(in_d)
            s[j] = s[j] + p * in_a + q * in_b + r * in_c + t * in_d
    for i in rows[fours:]:
        for j in range(cuts.size):
            yes = code[i, j] < cuts[j]
            n[j] += yes
            s[j] += y[i] * yes


@kernel
def _parted(rows: Array, begin: int, end: int, code: Array, column: int, cut: int) -> int:
    """Put rows below the cut first; where the others begin."""
    middle = begin
    for k in range(begin, end):  # without a branch: which side a row is on cannot be guessed
        row = rows[k]
        rows[k] = rows[middle]
        rows[middle] = row
        middle += code[row, column] < cut
    return middle
