"""Cells of numbers: rows that are nearly alike, and what their numbers say of them taken out.

A check compares rows of the same state and action. Where the state has numbers no two rows have the same, so

    cells       stand for states: rows with the same labels, halved at the median of the number that varies most, again
                and again (a k-d tree): GROUPS large ones, which are compared, and small ones of about CELL rows in them
    y           rewards, costs and next numbers become y - f_a(x) - g_ca(x): f_a a polynomial of second degree for every
                action, g_ca a plane for every small cell and action, both by least squares, and the mean of y in large
                cell and action beside it, so that y keeps its scale. Rows of a cell may then lie anywhere in it
    going       the same once more, fitted to the rows that did not end: rows that end earn otherwise, and end more
                often here than there, so that of a fit to all rows a part would be left in the others
    trust       what is left must be noise and no part of the function: near neighbours that are far apart in time must
                be no more correlated in it than in noise that went the same way: rho - rho_noise <= 0.01 + 3 sqrt(2 /
                pairs). Where they are, as in rewards without noise, nothing is said of y: `untested`. Asked of what is
                left as it is, and in deviations of each small cell, as it is compared: places of much noise, such as
                where legs touch the ground, would hide the shape everywhere else

What is left of the bend of a function within a cell is within that bound, and no proof covers it: a level that is
stated for labels holds here as far as noise hides the bend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualq.logs.checks.trace import Trace

Array = np.ndarray

MOST = 300_000  # rows
GROUPS = 8
CELL = 100  # rows, at least
PER_COEFFICIENT = 10  # rows of a cell, for each action and coefficient of a plane
MOST_CELLS = 2048
SECOND_DEGREE = 8  # numbers, up to which products of two are taken too
PAIRS = 20_000  # neighbours that are compared, about
NEAR = 12  # nearest rows, among which one is looked for that is
APART = 0.2  # of the log away in time: what changed with time is then no shape
SLACK = 0.01
SEED = 0


@dataclass(frozen=True, eq=False)
class Cells:
    """Traces whose states are cells, with what numbers say taken out of rewards, costs and next numbers."""

    trace: Trace  # next numbers are among its costs
    going: Trace  # rows that did not end, and what is left, fitted to them, in deviations of each small cell and action
    untested: tuple[str, ...]  # rewards, costs and next numbers of which nothing can be said


def cells_of(trace: Trace) -> Cells | None:
    """From a trace with raw numbers; None where too few rows can be used. Of a long one the last MOST rows."""
    trace = _end_of(trace)
    x = np.column_stack([np.asarray(column, float) for column in trace.raw.values()])
    known = np.isfinite(x).all(axis=1) & (trace.s >= 0) & (trace.a >= 0)
    good = known & trace.used
    least = 3 * (x.shape[1] + 1) + 5  # rows of a cell and action
    if good.sum() < 2 * least:
        return None
    scale = x[good].std(axis=0)
    x = (x[:, scale > 0.0] - x[good][:, scale > 0.0].mean(axis=0)) / scale[scale > 0.0]
    size = max(CELL, PER_COEFFICIENT * trace.shape[1] * (x.shape[1] + 1), int(good.sum()) // MOST_CELLS)
    large = _cells(x, np.where(known, trace.s, -1), good, max(size, int(good.sum()) // (2 * GROUPS)))
    small = _cells(x, large, good, size)
    pair = np.where(small >= 0, small * trace.shape[1] + trace.a, -1)
    many = np.bincount(pair[good], minlength=pair.max() + 1)
    pair = np.where((pair >= 0) & (many[pair] >= least), pair, -1)
    if not (pair >= 0).any():
        return None
    near = _neighbours(x, _clock(trace), pair, np.flatnonzero(good & (pair >= 0)))
    noise = np.random.default_rng(SEED).normal(size=len(trace))

    def taken_out(used: Array) -> tuple[dict[str, Array], set[str]]:
        """What numbers leave over of each target, fitted to these rows; and of which nothing can be said."""
        targets = _targets(trace)
        *rest, beside = _all_left(x, trace.a, pair, [*targets.values(), noise], used)
        left = dict(zip(targets, rest, strict=True))

        def bent(y: Array) -> bool:
            return any(_has_shape(np.where(used, e, np.nan), beside, *near) for e in (y, _in_deviations(y, pair, used)))

        return left, {name for name, y in left.items() if bent(y)}

    (left, bent), going = taken_out(good), good & ~trace.ended
    left_going, bent_going = taken_out(going) if trace.ended.any() else (left, bent)
    untested = tuple(name for name in left if name in bent | bent_going)
    cell = np.where(pair >= 0, large, -1)
    mean = {name: _means(cell * trace.shape[1] + trace.a, trace, cell, y) for name, y in _targets(trace).items()}
    made = _with_cells(trace, cell, {name: y + mean[name] for name, y in left.items()}, untested)
    even = {name: _in_deviations(y, pair, going) for name, y in left_going.items()}
    return Cells(made, _going(_with_cells(trace, cell, even, untested), trace.used), untested)


def _end_of(trace: Trace) -> Trace:
    """The last episodes, of MOST rows at most; the last rows, where one is longer."""
    if len(trace) <= MOST:
        return trace
    begins = np.flatnonzero(trace.first[-MOST:])
    here = slice(len(trace) - MOST + (int(begins[0]) if begins.size else 0), None)
    names = ("s", "a", "r", "s_next", "ended", "cut", "bad", "episode", "t")
    part: dict[str, Any] = {name: vars(trace)[name][here] for name in names}
    part |= {name: {c: y[here] for c, y in vars(trace)[name].items()} for name in ("costs", "raw", "raw_next")}
    return replace(trace, **part, gap=None if trace.gap is None else trace.gap[here], whole=False)


def _targets(trace: Trace) -> dict[str, Array]:
    """{what it is called: its numbers}, nan where nobody knows."""
    following = trace.used & ~trace.ended
    after = {f"the next {c}": np.where(following, trace.numbers_after(c), np.nan) for c in trace.raw}
    return {trace.names.get("reward", "reward"): trace.r, **trace.costs, **after}


def _with_cells(trace: Trace, cell: Array, left: Mapping[str, Array], untested: tuple[str, ...]) -> Trace:
    reward = trace.names.get("reward", "reward")
    tested = {name: y for name, y in left.items() if name not in untested}
    return replace(
        trace,
        s=cell,
        r=tested.pop(reward, np.zeros(len(trace))),
        costs=tested,
        shape=(int(cell.max()) + 1, trace.shape[1]),
        raw={},
        raw_next={},
        bins={},
    )


def _going(trace: Trace, used: Array) -> Trace:
    going = used & ~trace.ended & (trace.s >= 0)
    none = np.zeros(len(trace), bool)
    return replace(trace, s_next=np.where(going, 0, -1), ended=none, cut=trace.cut | trace.ended)


def _means(pair: Array, trace: Trace, cell: Array, y: Array) -> Array:
    """(rows,) the mean of y in each row's large cell and action."""
    used = trace.used & (cell >= 0) & np.isfinite(y)
    size = max(int(pair.max()), 0) + 1
    sums, many = np.bincount(pair[used], y[used], size), np.bincount(pair[used], minlength=size)
    return (sums / np.maximum(many, 1))[np.maximum(pair, 0)]


# ---- cells


def _cells(x: Array, labels: Array, good: Array, size: int) -> Array:
    """(rows,) the cell of each row, -1 where it has none; halved at medians of good rows."""
    cell = np.full(labels.size, -1)
    rows = np.flatnonzero(labels >= 0)
    waiting = _split(rows, labels[rows])
    found = 0
    while waiting:
        rows = waiting.pop()
        halves = _halves(x, rows, rows[good[rows]], size)
        if halves is None:
            cell[rows] = found
            found += 1
        else:
            waiting += halves
    return cell


def _halves(x: Array, rows: Array, good: Array, size: int) -> list[Array] | None:
    """The rows below and above the median of the number that varies most; None where they are few, or all alike."""
    if good.size < 2 * size or x.shape[1] == 0:
        return None
    column = int(x[good].std(axis=0).argmax())
    middle = np.median(x[good, column])
    above = x[rows, column] > middle
    if not above.any() or (x[good, column] > middle).sum() < size // 4:
        return None
    return [rows[above], rows[~above]]


# ---- what numbers do not say


def _all_left(x: Array, a: Array, pair: Array, targets: Sequence[Array], good: Array) -> list[Array]:
    """(rows,) each, less what numbers say of it; targets that are known in the same rows are fitted together."""
    alike: dict[bytes, list[int]] = {}
    for place, y in enumerate(targets):
        alike.setdefault(np.isfinite(y).tobytes(), []).append(place)
    left = list(targets)
    for places in alike.values():
        together = _left(x, a, pair, np.column_stack([targets[place] for place in places]), good)
        for place, y in zip(places, together.T, strict=True):
            left[place] = np.ascontiguousarray(y)
    return left


def _left(x: Array, a: Array, pair: Array, y: Array, good: Array) -> Array:
    """(rows, k) y less what numbers say of it; nan where that is not known, of all k alike."""
    known = (pair >= 0) & np.isfinite(y).all(axis=1)
    fit, rest = good & known, np.where(known[:, None], y, np.nan)
    for action in np.unique(a[fit]):
        mine = np.flatnonzero((a == action) & (pair >= 0))
        _take_out(rest, mine, fit, _curved(x[mine]))
    rows = np.flatnonzero(pair >= 0)
    for mine in _split(rows, pair[rows]):
        _take_out(rest, mine, fit, np.column_stack([np.ones(mine.size), x[mine]]))
    spread = np.std(y[fit], axis=0) if fit.any() else 0.0
    return np.where(np.abs(rest) <= 1e-9 * spread, 0.0, rest)  # rounding would look like something


def _in_deviations(e: Array, pair: Array, used: Array) -> Array:
    """(rows,) what is left, in standard deviations of its small cell and action."""
    known = used & (pair >= 0) & np.isfinite(e)
    many = np.bincount(pair[known], minlength=pair.max() + 1)
    square = np.bincount(pair[known], e[known] ** 2, pair.max() + 1) / np.maximum(many, 1)
    return e / np.sqrt(np.where(square > 0.0, square, 1.0))[np.maximum(pair, 0)]


def _take_out(rest: Array, rows: Array, fit: Array, features: Array) -> None:
    """Subtract, from these rows, what a least-squares fit of those that may be used says; in place."""
    used = fit[rows]
    if used.sum() <= 2 * features.shape[1]:
        return
    coefficients = np.linalg.lstsq(features[used], rest[rows[used]], rcond=None)[0]
    rest[rows] -= features @ coefficients


def _curved(x: Array) -> Array:
    """1, x and its products of two; of many numbers only 1 and x."""
    products = (
        [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i + 1)] if x.shape[1] <= SECOND_DEGREE else []
    )
    return np.column_stack([np.ones(len(x)), x, *products])


def _has_shape(e: Array, noise: Array, i: Array, j: Array) -> bool:
    """Whether neighbours have more in common, in what is left, than in noise to which the same planes were fitted."""
    known = np.isfinite(e[i]) & np.isfinite(e[j])
    i, j = i[known], j[known]
    if i.size < CELL or not all(x[k].std() > 0.0 for x in (e, noise) for k in (i, j)):
        return False
    more = np.corrcoef(e[i], e[j])[0, 1] - np.corrcoef(noise[i], noise[j])[0, 1]
    return bool(more > SLACK + 3.0 * np.sqrt(2.0 / i.size))


def _neighbours(x: Array, clock: Array, pair: Array, rows: Array) -> tuple[Array, Array]:
    """Rows of one small cell and action next to each other in their numbers and far apart in time, each pair once."""
    from scipy.spatial import KDTree

    rng, found = np.random.default_rng(SEED), []
    for mine in _split(rows, pair[rows]):
        asked = mine if rows.size <= PAIRS else mine[rng.random(mine.size) < PAIRS / rows.size]
        if mine.size < NEAR or not asked.size:
            continue
        near = mine[KDTree(x[mine]).query(x[asked], k=NEAR)[1]]
        apart = np.abs(clock[near] - clock[asked][:, None]) > APART
        first = near[np.arange(asked.size), apart.argmax(axis=1)]
        found.append(np.sort(np.stack([asked, first], 1)[apart.any(axis=1)], axis=1))
    pairs = np.unique(np.concatenate(found), axis=0) if found else np.zeros((0, 2), int)
    return pairs[:, 0], pairs[:, 1]


def _clock(trace: Trace) -> Array:
    """(rows,) when a row was written, as a share of the rows: by the clock, or by the order of episodes."""
    by_time = not trace.restarts and np.isfinite(trace.t).all()
    place = np.empty(len(trace))
    place[np.argsort(trace.t if by_time else trace.episode, kind="stable")] = np.arange(len(trace))
    return place / len(trace)


def _split(rows: Array, label: Array) -> list[Array]:
    """The rows of each label."""
    order = np.argsort(label, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(label[order])) + 1)
