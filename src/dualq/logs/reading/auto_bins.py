"""Bins that are found: numbers of the state are cut where that predicts most, in rows that are not counted afterwards.

Which rows     the earliest fifth, and at most MOST of them; only later rows are counted, so that what is promised
               does not rest on bins that were chosen by the same rows
What is        the reward, the costs, whether the episode ended, and the next value of every number of the state:
predicted      y_1, ..., y_T, each by its mean, apart for every action a (those with few rows together)
The gain       of a cut of one bin into left and right, summed over actions and targets, with Var(y_t) over all rows:
                   sum_{a, t} [ S_L^2 / n_L + S_R^2 / n_R - S^2 / n ] / (N Var(y_t)),     S = sum of y_t, n = rows
Which cuts     the best one of all columns, again and again (greedy, best first), while
               - a column has at most MOST_BINS bins, and each has LEAST_SHARE of the rows
               - the gain is not noise: sum_{a, t} [...] / s^2, about chi^2 with K degrees where nothing depends on the
                 number, exceeds K + 4 sqrt(2 K) + 4 log(cuts tried), s^2 the variance within the bin and action, K the
                 number of (a, t)
               - states and actions leave at least ROWS_EACH later rows for each pair, on average
Edges          a round number near the cut: between the neighbouring numbers, where there are few of them
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dualq.base import LogError, count
from dualq.logs.reading.column_types import seconds
from dualq.logs.reading.columns import FEW, bins_words, numbers_in
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Table, rows_up_to
from dualq.logs.reading.options import BinsAsked, BinsOfColumn, Moment
from dualq.logs.reading.period import part_of
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW, Schema
from dualq.logs.reading.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

AUTO = "auto"
SHARE, MOST = 0.2, 200_000  # of the rows, the earliest ones
LEAST = 200  # rows in which bins can be found
MOST_BINS, LEAST_SHARE = 8, 0.02
ROWS_EACH = 10
BUCKETS = 256  # places between which a number may be cut
BESIDE = 2  # buckets beside a cut, in which its edge may lie
SLIP = 1e-9  # 3.913 / 0.001 is a little less than 3913
OWN = 50  # rows from which an action is looked at by itself


def asked_bins(opened: Source, schema: Schema, bins: BinsAsked | None) -> dict[str, BinsOfColumn]:
    """{column: what was asked for}; "auto" stands for every number of the state that has many values."""
    if bins is None:
        return {}
    if isinstance(bins, Mapping):
        return dict(bins)
    if bins != AUTO:
        right = 'it must be {column: number of bins, list of edges or "auto"}, or "auto" for all'
        raise LogError(f"{opened.name}: bins is {bins!r}; {right}", argument="bins", value=bins)
    with reading(opened.name):
        found = numbers_in(opened.table, schema.state)
    return {column: AUTO for column, x in found.items() if x.different > FEW}


def found_bins(
    opened: Source, q: Questions, bins: Mapping[str, BinsOfColumn]
) -> tuple[Source, dict[str, BinsOfColumn]]:
    """The rows that are to be counted, and the bins, with edges where "auto" was asked for."""
    columns = [column for column, wanted in bins.items() if isinstance(wanted, str) and wanted == AUTO]
    if not columns:
        return opened, dict(bins)
    for column in columns:
        if column not in q.schema.state:
            right = f"give a number of bins: {bins_words({column: 5})}"
            raise LogError(
                f"{opened.name}: bins are found for numbers of the state, and {column!r} is not one; {right}",
                argument="bins",
                column=column,
            )
    with reading(opened.name):
        clock, cut = _cut(opened, q)
    early, later = part_of(opened, q, None, cut), part_of(opened, q, cut, None)
    with reading(opened.name):
        rows = q.on(early.table).followed().limit(2 * MOST).to_pyarrow()
        left = int(later.table.count().to_pyarrow().as_py())
    seen = _Seen(rows, q, columns)
    if seen.rows < LEAST:
        raise LogError(
            f"{opened.name}: bins are found in the rows where {clock} < {cut}, and only {seen.rows} of them can be "
            f"used; {LEAST} are needed: give the bins yourself: {bins_words(dict.fromkeys(columns, 4))}",
            argument="bins",
        )
    edges = _edges(seen, left / ROWS_EACH / seen.others(bins))
    said = [_said(column, found) for column, found in edges.items()]
    where = f"found in the {count(seen.rows, 'row')} where {clock} < {cut}, which were then left out"
    later = replace(later, remarks=(*opened.remarks, f"bins {'; '.join(said)} ({where})"))
    return later, {**bins, **{column: found.edges for column, found in edges.items()}}


# ---- the earliest rows


def _cut(opened: Source, q: Questions) -> tuple[str, Moment]:
    """The clock, and its value up to which rows are early, as part_of takes it."""
    schema, table = q.schema, opened.table
    if schema.time is None:
        right = "name the time with --time (time=...), or give the bins yourself: --bins COLUMN=8"
        raise LogError(
            f"{opened.name}: bins are found in the earliest rows, and no column says which are; {right}",
            argument="bins",
        )
    rows = int(table.count().to_pyarrow().as_py())
    share = min(SHARE, MOST / max(rows, 1))
    if schema.time == ROW:
        return ROW, int(rows * share)
    by_episode = bool(q.e) and q.restarts()
    name = schema.episode[0] if by_episode else schema.time
    value = table[name] if by_episode else q.moment(table[name])
    dates = value.type().is_temporal()
    clock = seconds(value) if dates else value
    clocks = table.select(clock=clock)
    cut = _at(clocks.filter(clocks.clock.notnull()), int(rows * share))
    if cut is None:
        wrong = f"most rows have the first values of {name}"
        raise LogError(
            f"{opened.name}: bins are found in the earliest rows, but {wrong}; give the bins yourself", argument="bins"
        )
    if not dates:
        return name, cut
    moment = datetime.datetime.fromtimestamp(cut, datetime.UTC).replace(tzinfo=None)
    return name, moment.date().isoformat() if moment.time() == datetime.time() else moment.isoformat(" ")


def _at(table: Table, place: int) -> float | None:
    """The first value that at least `place` rows lie before; None where that would be most of the rows."""
    sizes = table.group_by("clock").agg(n=table.count())
    upto = sizes.n.sum().over(rows_up_to(sizes.clock))
    sizes = sizes.mutate(before=upto - sizes.n)
    sizes = sizes.filter(sizes.before >= max(place, 1))
    found = sizes.order_by("clock").limit(1).to_pyarrow().to_pylist()
    rows = int(table.count().to_pyarrow().as_py())
    return found[0]["clock"] if found and 2 * found[0]["before"] <= rows else None


# ---- what was seen in them


class _Seen:
    """The early rows as arrays: numbers of the state, groups of actions, and standardised targets."""

    def __init__(self, rows: pa.Table, q: Questions, columns: list[str]):
        ended = rows["ended"].fill_null(False).to_numpy().astype(bool) if "ended" in rows.column_names else None
        following = [x for x in (_numbers(rows[n]) for n in q.n) if x is not None]
        known = np.ones(len(rows), bool)
        for name in (*q.s, *q.a, *q.numbers):
            known &= rows[name].is_valid().to_numpy()
        going = np.logical_and.reduce([rows[n].is_valid().to_numpy() for n in q.n])
        known &= going | (False if ended is None else ended)
        self.rows = int(known.sum())
        self.states = {column: rows[s].filter(known) for s, column in zip(q.s, q.schema.state, strict=True)}
        self.actions = _codes([rows[a] for a in q.a])[known]
        targets = [rows[name].to_numpy() for name in q.numbers]
        targets += [ended.astype(float)] if ended is not None else []
        targets += following if ended is None else [np.where(ended, np.nan, x) for x in following]
        self.targets = _standardised(np.array([target[known] for target in targets]))
        raw = {column: _numbers(rows[s]) for s, column in zip(q.s, q.schema.state, strict=True) if column in columns}
        self.numbers = {column: x[known] for column, x in raw.items() if x is not None}
        self.group = _groups(self.actions)

    def others(self, bins: Mapping[str, BinsOfColumn]) -> float:
        """Pairs that the columns without "auto" make: their states, times the actions."""
        found = float(max(np.unique(self.actions).size, 1))
        for column, values in self.states.items():
            if column not in self.numbers:
                wanted = bins.get(column)
                size = wanted if isinstance(wanted, int) else len(wanted) + 1 if wanted is not None else None
                found *= size or max(len(values.unique()), 1)
        return found


def _numbers(column: pa.ChunkedArray) -> Array | None:
    """A column of numbers as an array, NaN where it has none; None where it holds no numbers."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _codes(columns: list[pa.ChunkedArray]) -> Array:
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found = column.combine_chunks().dictionary_encode()
        codes = codes * (len(found.dictionary) + 1) + found.indices.fill_null(len(found.dictionary)).to_numpy()
    return codes


def _groups(actions: Array) -> Array:
    """0 for actions with few rows, and a number for each of the others."""
    labels, places, sizes = np.unique(actions, return_inverse=True, return_counts=True)
    own = sizes >= OWN
    return np.where(own, np.cumsum(own), 0)[places] if labels.size else actions


def _standardised(targets: Array) -> Array:
    """(T, n) with mean 0 and variance 1; those that do not vary are left out."""
    with np.errstate(invalid="ignore", divide="ignore"):
        varying = [(y - np.nanmean(y)) / np.nanstd(y) for y in targets if np.isfinite(y).any() and np.nanstd(y) > 0.0]
    return np.array(varying).reshape(len(varying), targets.shape[1])


# ---- cuts


@dataclass(frozen=True)
class _Found:
    edges: list[float]
    helps: bool  # whether some cut told more than noise


class _Column:
    """One number: its buckets in order, and what was seen in each, for every group of actions and every target."""

    def __init__(self, x: Array, seen: _Seen):
        values = np.unique(x)
        self.few = values.size <= BUCKETS
        self.starts = values if self.few else np.unique(np.quantile(x, np.arange(BUCKETS) / BUCKETS, method="lower"))
        place = np.searchsorted(self.starts, x, side="right") - 1
        self.lows, self.highs = self.starts, np.append(values[np.searchsorted(values, self.starts[1:]) - 1], values[-1])
        groups, T = int(seen.group.max()) + 1, len(seen.targets)
        cell = place * groups + seen.group
        shape = (self.starts.size, groups)
        self.sums = np.zeros((3, T, *shape))  # rows, sum and squares, in each bucket and group
        for t, y in enumerate(seen.targets):
            known = np.isfinite(y)
            for i, weight in enumerate((None, y[known], y[known] ** 2)):
                self.sums[i, t] = np.bincount(cell[known], weight, math.prod(shape)).reshape(shape)
        self.rows = np.bincount(place, minlength=self.starts.size)
        self.total = x.size
        self.cuts = [0, self.starts.size]

    def best(self, a: int, b: int) -> tuple[float, int] | None:
        """The gain and the place of the best cut of the buckets a to b - 1; None where none tells more than noise."""
        n, s, q = np.cumsum(self.sums[:, :, a:b], axis=2)
        left = np.cumsum(self.rows[a:b])[:-1]
        least = LEAST_SHARE * self.total
        allowed = (left >= least) & (self.rows[a:b].sum() - left >= least)
        if not allowed.any():
            return None
        N, S, Q = n[:, -1:], s[:, -1:], q[:, -1:]
        n, s = n[:, :-1], s[:, :-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            drop = s**2 / n + (S - s) ** 2 / (N - n) - S**2 / N
            noise = (Q - S**2 / N) / (N - 1)
            told = np.nan_to_num(drop / noise, nan=0.0, posinf=0.0)
        drop = np.nan_to_num(drop, nan=0.0)
        K = int(((N > 1) & (noise > 0.0)).sum())
        bar = K + 4.0 * math.sqrt(2.0 * K) + 4.0 * math.log(max(int(allowed.sum()), 2))
        gain = np.where(allowed & (told.sum(axis=(0, 2)) > bar), drop.sum(axis=(0, 2)) / self.total, -1.0)
        k = int(gain.argmax())
        return (float(gain[k]), a + k + 1) if gain[k] > 0.0 else None

    def next_cut(self) -> tuple[float, int] | None:
        """The best cut of all bins that the column has."""
        if len(self.cuts) > MOST_BINS:
            return None
        found = [self.best(a, b) for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True)]
        return max((f for f in found if f is not None), default=None)

    def edges(self) -> list[float]:
        """A round number for each cut."""
        return [self._round(k) for k in self.cuts[1:-1]]

    def _round(self, k: int) -> float:
        low, high = self.highs[k - 1], self.lows[k]
        if self.few:
            return roundest(low, high, high)
        near = self.cuts.index(k)  # a round number may lie a little beside the cut, and not beyond the next one
        below = max(k - 1 - BESIDE, self.cuts[near - 1])
        above = min(k + BESIDE, self.cuts[near + 1] - 1)
        return roundest(self.lows[below], self.highs[above], (low + high) / 2.0)


def _edges(seen: _Seen, room: float) -> dict[str, _Found]:
    """Cut the columns, the best cut first, as long as there is room for more states."""
    columns = {column: _Column(x, seen) for column, x in seen.numbers.items()}
    nexts = {column: made.next_cut() for column, made in columns.items()}
    while any(nexts.values()):
        column = max((c for c in nexts if nexts[c] is not None), key=lambda c: nexts[c] or (0.0, 0))
        made, best = columns[column], nexts[column]
        bins = math.prod(len(c.cuts) - 1 for c in columns.values())
        grown = bins * len(made.cuts) / (len(made.cuts) - 1)
        if best is None or (grown > room and len(made.cuts) > 2):
            nexts[column] = None
            continue
        made.cuts = sorted((*made.cuts, best[1]))
        nexts[column] = made.next_cut()
    return {column: _of(made, seen.numbers[column]) for column, made in columns.items()}


def _of(made: _Column, x: Array) -> _Found:
    if made.edges():
        return _Found(made.edges(), True)
    a, b = np.quantile(x, (0.45, 0.55))  # no cut tells anything: about two halves, since some edge is needed
    low, high = (a, b) if x.min() <= a < b else (x.min(), np.append(x[x > x.min()], x.min()).min())
    return _Found([roundest(low, high, (low + high) / 2.0)], False)


def _said(column: str, found: _Found) -> str:
    edges = ", ".join(f"{edge:.10g}" for edge in found.edges)
    if found.helps:
        return f"{column}={edges}"
    return f"{column}={edges} (about the middle, since no cut predicts anything: {leave_out(column)})"


def leave_out(column: str) -> str:
    """What is said of a number that predicts nothing; `look` writes the line that does it."""
    return f"leave {column} out of the state"


def roundest(low: float, high: float, near: float) -> float:
    """The number above `low` and up to `high` with the fewest digits; of those, the one nearest to `near`."""
    if not low < high:
        return float(high)
    if low < 0.0 <= high:
        return 0.0
    power = math.floor(math.log10(max(abs(low), abs(high)))) + 1
    for exponent in range(power, power - 18, -1):
        for step in (1.0, 0.5, 0.2):
            size = step * 10.0**exponent
            least, most = math.floor(low / size + SLIP) + 1, math.floor(high / size + SLIP)
            k = min(max(round(near / size), least), most)
            number = float(f"{k * size:.15g}")
            if least <= most and low < number <= high:
                return number
    return float(high)
