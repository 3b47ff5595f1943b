"""Trace: the rows of a log one after another, for the checks that must see what came before and after a row.

Rows are sorted by episode, and by time within each. Labels are places; everything is held in arrays, so a long log is
read in part: whole episodes, drawn by a hash of their name, or the latest rows where there are no episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dualq.logs.reading.arrow import codes_of, numbers_of, picked
from dualq.logs.reading.column_types import seconds
from dualq.logs.reading.columns import EXACT
from dualq.logs.reading.counting import Counted, flags_of
from dualq.logs.reading.engines import batches
from dualq.logs.reading.expressions import Expression, Kind, Table, arrow_schema, null, same
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW, Bins

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

MOST_ROWS = 5_000_000
CHUNK = 1 << 17  # rows decoded at a time
ROWS = "the order of the rows"  # what early rows are told from late ones by, where there is no other clock


@dataclass(frozen=True, eq=False)
class Clock:
    """What tells early rows from late ones, throughout the log."""

    at: Array  # (rows,) a number, or the seconds of a date; nan where a row has none
    kind: str  # "whole" numbers, "numbers" or "dates"
    by: str  # its name for people, such as "time (day)"


@dataclass(frozen=True, eq=False)
class Trace:
    """Rows in order; (rows,) each."""

    s: Array  # places of states and actions; -1 where a bad row has none
    a: Array
    r: Array  # nan where a bad row has none
    s_next: Array  # -1 where nobody knows what followed
    ended: Array  # the episode ended here
    cut: Array  # the recording of the episode stopped here
    bad: Array  # set aside
    episode: Array  # 0, 1, 2, ... in the order of their names; all 0 where there are none
    t: Array  # the clock as a number (seconds of a date), or nan where it is text
    shape: tuple[int, int]  # how many states and actions
    costs: Mapping[str, Array] = field(default_factory=dict)
    propensity: Array | None = None  # with which probability the action was taken, where that was recorded
    raw: Mapping[str, Array] = field(default_factory=dict)  # {binned column of the state: its numbers}
    raw_next: Mapping[str, Array] = field(default_factory=dict)  # the same of the next state, where it has columns
    bins: Mapping[str, Bins] = field(default_factory=dict)  # of the state's columns
    dates: bool = False  # whether t is the seconds of a date
    has_episodes: bool = False  # whether a column says which rows belong together
    restarts: bool = False  # whether time counts the steps of each episode
    numbered: bool = True  # whether episodes have numbers or dates for names: then these may be in the order of time
    placed: Array | None = None  # whether it is known when a row was; None: of all rows
    gap: Array | None = None  # rows are missing after this one, by a regular clock; None: no next state is lost by it
    flagged: bool = False  # whether a column says where episodes ended, and some did
    early: bool = False  # whether episodes ended where they stop before the last time, which stopped all others
    whole: bool = True  # whether all rows of the log are here
    clock: Clock | None = None  # None where no column of numbers or dates is one
    names: Mapping[str, str] = field(default_factory=dict)  # {"time": its column, "episode": ..., "reward": ...}
    labels: pa.Table | None = None  # the names of the episodes, in the order of their numbers

    def __len__(self) -> int:
        return self.s.size

    @cached_property
    def first(self) -> Array:
        """Whether a row is the first of its episode: of the column's, or after an end."""
        first = np.ones(len(self), bool)
        first[1:] = (self.episode[1:] != self.episode[:-1]) | self.ended[:-1] | self.cut[:-1]
        return first

    @cached_property
    def last(self) -> Array:
        """Whether a row is the last of its episode."""
        return np.append(self.first[1:], True)

    @property
    def not_whole(self) -> str | None:
        """Why not all episodes are here from their first row to their end; None where they are."""
        if not self.whole:
            return "the log is too long to be read row by row"
        if self.bad.any():
            return "rows were set aside, so some episodes are not whole"
        return None if self.ended[self.last].all() else "some episodes were cut off before they ended"

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last moment of a clock that goes on from log to log; None where there is none."""
        clock = self.clock
        if clock is None or clock.by == ROWS or not np.isfinite(clock.at).any():
            return None
        return float(np.nanmin(clock.at)), float(np.nanmax(clock.at))

    @property
    def pair(self) -> Array:
        """The number of the pair (s, a)."""
        return self.s.astype(np.int64) * self.shape[1] + self.a

    @property
    def used(self) -> Array:
        """Whether a row is counted: not bad, and what followed is known."""
        return ~self.bad & (self.ended | (self.s_next >= 0))

    @cached_property
    def in_time(self) -> Array | None:
        """The places of the rows that are used, in the order of time; None where the rows do not tell it exactly."""
        rows = np.flatnonzero(self.used)
        if self.restarts or not self.has_episodes:
            return rows
        t = self.t[rows]
        exact = not self.dates and bool((np.abs(t) < EXACT).all())  # of dates there are whole seconds, of text nothing
        return rows[np.argsort(t, kind="stable")] if exact else None

    @property
    def outcome(self) -> Array:
        """The next state; |S| for the end, -1 where nobody knows."""
        return np.where(self.ended, self.shape[0], self.s_next)

    @cached_property
    def follows(self) -> Array:
        """Whether the row before led to this one: the same episode, and its next state is this state."""
        follows = ~self.first
        follows[1:] &= (self.s_next[:-1] == self.s[1:]) & (self.s[1:] >= 0) & ~self.bad[:-1]
        if self.placed is not None:
            follows[1:] &= self.placed[1:] & self.placed[:-1]
        return follows

    def numbers_after(self, column: str) -> Array:
        """A number of the next state, from its own column or from the next row; any where nobody knows it."""
        return self.raw_next[column] if column in self.raw_next else np.roll(self.raw[column], -1)

    def without(self, episodes: Array) -> Trace:
        """The rows of the other episodes, for what looks at whole episodes."""
        keep = ~np.isin(self.episode, episodes)
        names = ("s", "a", "r", "s_next", "ended", "cut", "bad", "episode", "t")
        rows = {name: getattr(self, name)[keep] for name in names}
        costs = {cost: values[keep] for cost, values in self.costs.items()}
        placed = None if self.placed is None else self.placed[keep]
        return replace(self, **rows, costs=costs, raw={}, raw_next={}, placed=placed, gap=None, clock=None, labels=None)

    @property
    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode."""
        known = self.first & (self.s >= 0)
        return np.bincount(self.s[known if self.placed is None else known & self.placed], minlength=self.shape[0])


def trace_of_table(counted: Counted, most: int = MOST_ROWS) -> Trace:
    """Of a log that lies in an engine; where that has no order, its rows episode by episode, or as they stand."""
    q, rows = counted.questions, counted.counts.total + counted.dropped
    table, states, actions = _in_part(q, rows, most), counted.states, counted.actions
    binned = [c for c in q.schema.state if c in q.bins]
    raw = {c: f"raw{list(q.schema.columns).index(c)}" for c in binned}
    after = dict(zip(q.schema.state, q.schema.next_state, strict=False))
    raw_next = {c: f"raw{list(q.schema.columns).index(after[c])}" for c in binned if c in after}
    flags = [x for x in ("ended", "cut", "gap", "bad", "placed") if x in table.columns]
    column, by = shared_clock(q) if "t" in table.columns else (None, "")
    clocks = {"t_number": _number(table.t) if "t" in table.columns else null("float64")}
    clocks |= {} if column in (None, "t") else {"clock": _number(table[column])}
    floats = [*raw.values(), *raw_next.values(), *(["p"] if "p" in table.columns else []), *clocks]
    begins = _Beginnings(q.e)

    def decoded(part: pa.Table) -> dict[str, Array]:
        """One part of the rows, in arrays."""
        found = {"s": states.found_in(part, q.s), "s_next": states.found_in(part, q.n)}
        found |= {"a": actions.found_in(part, q.a), "begins": begins.among(part)}
        found |= {name: numbers_of(part[name]) for name in q.numbers} | {name: flags_of(part, name) for name in flags}
        return found | {name: _floats(part[name]) for name in floats}

    names = [*q.s, *q.a, *q.n, *q.numbers, *q.e, *flags, *(x for x in floats if x not in clocks)]
    found = _read(table.select(*names, **clocks), decoded, min(rows, most))
    none = np.zeros(found["s"].size, bool)
    ended, at = found.get("ended", none), found.get("clock", found["t_number"])
    return Trace(
        s=found["s"],
        a=found["a"],
        r=found["r"],
        s_next=found["s_next"],
        ended=ended,
        cut=found.get("cut", none),
        bad=found.get("bad", none),
        episode=np.cumsum(found.pop("begins")) - 1 if q.e else np.zeros(none.size, np.int64),
        t=found["t_number"],
        shape=(len(states.labels), len(actions.labels)),
        costs={column: found[name] for name, column in zip(q.c, q.schema.costs, strict=True)},
        propensity=found.get("p"),
        raw={column: found[name] for column, name in raw.items()},
        raw_next={column: found[name] for column, name in raw_next.items()},
        bins={column: q.bins[column] for column in binned},
        dates="t" in table.columns and table.t.type().is_temporal(),
        has_episodes=bool(q.e),
        restarts=q.restarts(),
        numbered=len(q.e) == 1 and _runs(table[q.e[0]].type()),
        placed=None if found.get("placed", none[:0]).all() else found["placed"],
        gap=found.get("gap"),
        flagged=bool(ended.any()),
        early=q.early,
        whole=rows <= most,
        clock=None if column is None else Clock(at, kind_of_clock(q, column), by),
        names={
            "time": str(q.schema.time),
            "episode": " and ".join(q.schema.episode),
            "reward": q.schema.reward,
        },
        labels=begins.labels(table),
    )


def _in_part(q: Questions, rows: int, most: int) -> Table:
    """The rows in order; of a log with more than `most`, whole episodes drawn by a hash, or the latest."""
    parts = -(-rows // most)

    def drawn(table: Table, column: str) -> Table:
        return table.filter(same(table[column].hash() % parts, 0))

    before = parts > 1 and q.apart  # then the other episodes need not be linked first
    q = replace(q, table=drawn(q.table, q.schema.episode[0])) if before else q
    table = q.followed(raw=bool(q.bins))
    placed = q.placed(table)
    table = table if placed is None else table.mutate(placed=placed)
    table = table.mutate(bad=q.bad(table)) if q.skip_bad else table
    order = [*q.e, *(["t"] if "t" in table.columns else [])]
    if parts > 1 and q.e and not before:
        table = drawn(table, q.e[0])
    elif parts > 1 and not q.e:
        table = (table.order_by(table.t.desc()) if order else table).limit(most)
        return table.order_by(order) if order else table
    return table.order_by(order) if order and not q.stands else table


def _read(table: Table, decoded: Callable[[pa.Table], dict[str, Array]], rows: int) -> dict[str, Array]:
    """All rows, about so many, decoded a part at a time: the engine's own words for them are never there together."""
    import pyarrow as pa

    found: dict[str, Array] = {}
    reader, filled = batches(table, CHUNK), 0
    for batch in reader:
        for name, array in decoded(pa.Table.from_batches([batch])).items():
            found[name] = _with_room(found.get(name), filled, array, rows)
            found[name][filled : filled + array.size] = array
        filled += batch.num_rows
    return {name: array[:filled] for name, array in found.items()} or decoded(reader.schema.empty_table())


def _with_room(held: Array | None, filled: int, more: Array, rows: int) -> Array:
    """An array with room for more entries than are filled; the same one, where it has."""
    if held is None:
        return np.empty(max(rows, more.size), more.dtype)
    kind, size = np.promote_types(held.dtype, more.dtype), filled + more.size
    if size <= held.size and kind == held.dtype:
        return held
    new = np.empty(held.size if size <= held.size else 2 * size, kind)
    new[:filled] = held[:filled]
    return new


class _Beginnings:
    """Where another label begins among sorted rows, which come part by part."""

    def __init__(self, columns: list[str]):
        self.columns, self.found, self.last = columns, [], None

    def among(self, part: pa.Table) -> Array:
        """(rows,) whether the label of a row is not that of the row before."""
        import pyarrow as pa

        if not self.columns:
            return np.zeros(part.num_rows, bool)
        rows = part.select(self.columns)
        known = 0 if self.last is None else 1
        both = pa.concat_tables([self.last, rows]) if self.last is not None else rows
        begins = np.zeros(both.num_rows, bool)
        begins[:1] = True
        for column in both.columns:
            codes = codes_of(column.combine_chunks().dictionary_encode().indices)
            begins[1:] |= np.diff(codes) != 0
        begins = begins[known:]
        self.found.append(pa.table([picked(column, np.flatnonzero(begins)) for column in rows.columns], self.columns))
        self.last = rows.slice(part.num_rows - 1) if part.num_rows else self.last
        return begins

    def labels(self, table: Table) -> pa.Table:
        """The labels that begin, in the order of the rows; in the types that Ibis has for them."""
        import pyarrow as pa

        if not self.columns:
            return pa.table({})
        return pa.concat_tables(self.found).cast(arrow_schema(table.select(*self.columns)))


def _floats(column: pa.ChunkedArray) -> Array:
    """Numbers as float64, nan where one is missing."""
    return numbers_of(column).astype(float, copy=False)


def _runs(kind: Kind) -> bool:
    """Whether a type is one of numbers or dates."""
    return (kind.is_numeric() and not kind.is_boolean()) or kind.is_temporal()


def shared_clock(q: Questions) -> tuple[str | None, str]:
    """The column that tells early rows from late ones, None where there is none, and its name for people."""
    types, schema = q.columns().schema(), q.schema
    if schema.time is None:
        return None, ""
    if q.restarts():  # time begins anew: the episodes themselves are in order
        return (q.e[0], f"episode ({schema.episode[0]})") if len(q.e) == 1 and _counts(types[q.e[0]]) else (None, "")
    return ("t", ROWS if schema.time == ROW else f"time ({schema.time})") if _counts(types["t"]) else (None, "")


def kind_of_clock(q: Questions, column: str) -> str:
    """ "whole" numbers, "numbers" or "dates"."""
    kind = q.columns()[column].type()
    return "whole" if kind.is_integer() else "numbers" if kind.is_numeric() else "dates"


def _counts(kind: Kind) -> bool:
    return kind.is_numeric() or kind.is_date() or kind.is_timestamp()


def _number(time: Expression) -> Expression:
    return seconds(time) if _counts(time.type()) else null("float64")
