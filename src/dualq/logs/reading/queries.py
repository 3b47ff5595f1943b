"""Queries: what is asked of the engine that holds a log, as Ibis expressions; the same for every engine.

    s0 s1 ..  a0 ..  n0 ..     the state's columns, the action's, the next state's; numbers in bins as the bin's place
    r  c0 ..                   reward and costs
    ended                      the episode ended here: nothing follows
    cut                        the episode was cut off here
    e0 ..  t                   episode and time

Without columns for it the next state is that of the next row of the episode by time, `lead() over (partition by e order
by t)`, and NULL where there is none, the episode was cut off, or a gap in a regular clock follows. A number that is not
finite is no label: NULL.

With last="ended" (or "cut") every episode's last row ended it (or was where its recording stopped), unless a flag says
the other. Rows that have no place in time (`skip_bad`) are taken out, and no row is linked across them: `unplaced`.

Counting is one GROUP BY s, a, n, ended, and the range of the numbers beside it. Whether some row is bad is read off the
result (a NULL among the keys, a sum that is not finite, fewer rewards than rows), so that looking for bad rows costs
nothing where there are none.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dualq.base import LogError
from dualq.logs.reading.schema import ROW, Bins, Schema
from dualq.logs.reading.sources import FILE, NUMBER
from dualq.logs.reading.times import MOSTLY
from dualq.logs.reading.times import NUMBER as TEXT_NUMBER

if TYPE_CHECKING:
    import ibis

TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")  # flags as text, in any case
FLAGS = "true or false, yes or no, 1 or 0"
LAST = "dualq_last"  # a column that marks last rows, where the table is a part of a log
GAP = 1.01  # regular steps: more than that between two rows is a gap
LARGEST = 1.7976931348623157e308  # NaN and the infinities are greater, in every engine


@dataclass(frozen=True)
class Condition:
    """A way in which a row can be bad."""

    columns: tuple[str, ...]  # those whose values are shown
    right: str  # what would be right
    holds: Any  # a boolean expression
    kind: str = "value"


@dataclass(frozen=True)
class Questions:
    """A table with a schema, and everything that is asked of it."""

    table: ibis.Table
    schema: Schema
    bins: Mapping[str, Bins] = field(default_factory=dict)
    reward_range: tuple[float, float] | None = None
    cost_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    skip_bad: bool = False
    ordered: bool = True  # whether the rows of the table have an order of their own
    time_as: str | None = None  # the type that a time column of text stands for
    repeats: bool = False  # whether times repeat in a log that needs none for its next states
    last: str | None = None  # "ended" or "cut": what an episode's last row is
    counter: bool = False  # whether time counts the steps of each episode
    step: float | None = None  # of a regular clock, in seconds if it is a date: no row is linked across a gap
    unplaced: str | None = None  # how rows without a place in time break links: by their place in the "file", or all
    #                              links of their "episode"; None: there are none, or gaps in a regular clock tell

    # ---- the names of the columns

    @property
    def s(self) -> list[str]:
        """The state's columns."""
        return [f"s{i}" for i in range(len(self.schema.state))]

    @property
    def a(self) -> list[str]:
        """The action's columns."""
        return [f"a{i}" for i in range(len(self.schema.action))]

    @property
    def n(self) -> list[str]:
        """The next state's columns."""
        return [f"n{i}" for i in range(len(self.schema.state))]

    @property
    def e(self) -> list[str]:
        """The episode's columns."""
        return [f"e{i}" for i in range(len(self.schema.episode))]

    @property
    def c(self) -> list[str]:
        """The costs' columns."""
        return [f"c{i}" for i in range(len(self.schema.costs))]

    @property
    def numbers(self) -> dict[str, tuple[str, tuple[float, float] | None]]:
        """{r or c0 ..: (the column, the known range)}."""
        named = {"r": (self.schema.reward, self.reward_range)}
        return named | {
            c: (column, self.cost_ranges.get(column)) for c, column in zip(self.c, self.schema.costs, strict=True)
        }

    # ---- rows

    def on(self, table: Any) -> Questions:
        """The same questions to the same log, opened anew."""
        return replace(self, table=table)

    def columns(self, raw: bool = False) -> Any:
        """The table in the columns named above, and with `raw` the used columns as they are (raw0 ..), and numbers."""
        import ibis

        table, schema = self.table, self.schema
        if schema.time == ROW:
            table = table.mutate(dualq_time=ibis.row_number())
        if self.unplaced == "file":
            table = table.mutate(dualq_place=ibis.row_number())
        made: dict[str, Any] = {}
        for names, columns in ((self.s, schema.state), (self.a, schema.action), (self.n, schema.next_state)):
            made |= {name: self._label(table, column) for name, column in zip(names, columns, strict=False)}
        made |= {name: number(table[column]) for name, (column, _) in self.numbers.items()}
        made |= {name: table[column] for name, column in zip(self.e, schema.episode, strict=True)}
        if schema.time is not None:
            made["t"] = self.moment(table["dualq_time" if schema.time == ROW else schema.time])
        for name, column in (("ended", schema.terminal), ("cut", schema.truncated)):
            if column is not None:
                made[name] = ibis.literal(True) if column == ROW else flag(table[column])
        if self.unplaced == "file":
            made["place"] = table.dualq_place
        if LAST in table.columns:
            made[LAST] = table[LAST]
        if raw:
            made |= {f"raw{i}": table[column] for i, column in enumerate(schema.columns)}
            made |= {name: table[name] for name in (FILE, NUMBER) if name in table.columns}
        table = table.select(**made)
        return table if self.last is None else self._with_last(table)

    def columns_with(self, more: list[str]) -> Any:
        """Episode and time, and other columns of the table as they are."""
        import ibis

        table, schema = self.table, self.schema
        time: Any = ibis.row_number() if schema.time == ROW else self.moment(table[str(schema.time)])
        named = {name: table[column] for name, column in zip(self.e, schema.episode, strict=True)}
        return table.select(**named, t=time, **{name: table[name] for name in more})

    @property
    def plain(self) -> Questions:
        """The same without flags for last rows: nothing that moves rows, or that costs more than reading them."""
        return replace(self, last=None)

    def with_last(self) -> Any:
        """The table as it is, with a column that marks last rows."""
        import ibis

        kept: Any = self.table
        time = self.schema.time
        kept = kept.mutate(dualq_t=ibis.row_number() if time == ROW else self.moment(kept[str(time)]))
        latest = kept.dualq_t.max().over(ibis.window(group_by=[kept[c] for c in self.schema.episode]))
        return kept.mutate(**{LAST: (kept.dualq_t == latest).fill_null(False)}).drop("dualq_t")

    def is_last(self, table: Any) -> Any:
        """Whether a row of `columns` has the greatest time of its episode."""
        import ibis

        latest = table.t.max().over(ibis.window(group_by=[table[e] for e in self.e]))
        return (table.t == latest).fill_null(False)

    def _with_last(self, table: Any) -> Any:
        here = table[LAST] if LAST in table.columns else self.is_last(table)
        other = "cut" if self.last == "ended" else "ended"
        if other in table.columns:
            here = here & ~table[other].fill_null(False)
        return table.mutate(**{str(self.last): here})

    def moment(self, value: Any) -> Any:
        """A time as what it stands for, where it is text."""
        if self.time_as is None:
            return value
        return number(value) if self.time_as == MOSTLY else value.cast(self.time_as)

    def _label(self, table: Any, column: str) -> Any:
        import ibis

        value = table[column]
        kind = value.type()
        if column in self.bins:
            place: Any = ibis.literal(0)
            for edge in self.bins[column].edges:
                place = place + (value >= edge).cast("int64")
            return (value.abs() <= LARGEST).ifelse(place, ibis.null("int64")) if kind.is_floating() else place
        if kind.is_floating():
            return (value.abs() <= LARGEST).ifelse(value.cast("float64") + 0.0, ibis.null("float64"))  # one zero
        if kind.is_decimal():
            return value.cast("float64")
        return value

    def rows(self, raw: bool = False) -> Any:
        """One row per decision, with its next state; where bad rows are to be skipped, without them."""
        table = self.followed(raw)
        return table.filter(~self.bad(table)) if self.skip_bad else table

    def followed(self, raw: bool = False) -> Any:
        """All rows with their next states, and `again`, whether another row has the same place in time."""
        import ibis

        table = self.columns(raw)
        if self.schema.terminal == ROW:  # nothing follows a row
            return table.mutate(**{n: ibis.null(table[s].type()) for n, s in zip(self.n, self.s, strict=True)})
        if self.schema.next_state:
            if not self.repeats:
                return table
            many = table.count().over(ibis.window(group_by=[table[name] for name in (*self.e, "t")]))
            return table.mutate(again=many > 1)
        if self.skip_bad:
            table = self._placed(table)
        return self._with_next(table, careful=self.skip_bad or raw)

    def _placed(self, table: Any) -> Any:
        """The rows that have a place in time; `astray`, where the next row of the episode may be one that has none."""
        import ibis

        known = [table[name].notnull() for name in (*self.e, "t")]
        if self.unplaced is None:
            return table.filter(*known)
        episode = ibis.window(group_by=[table[e] for e in self.e])
        if self.unplaced == "episode":
            return table.mutate(astray=table.t.count().over(episode) < table.count().over(episode)).filter(*known)
        stray: Any = ibis.literal(False)  # of no episode: every link across its place in the file may be false
        for e in self.e:
            stray = stray | table[e].isnull()
        by_place = ibis.window(group_by=[table[e] for e in self.e], order_by=[table.place])
        upto = ibis.cumulative_window(order_by=[table.place])
        table = table.mutate(
            astray=table.t.isnull().lead().over(by_place).fill_null(False),
            crossed=stray.cast("int64").sum().over(upto),
        )
        if self.last is not None:
            table = table.mutate(**{self.last: table[self.last] & ~table.astray})
        return table.filter(*(table[name].notnull() for name in (*self.e, "t")))

    def _lost(self, table: Any) -> Any:
        """Whether what followed a row is not known, though there is a next one; None where that cannot be."""
        lost = [table.cut] if "cut" in table.columns else []
        if "astray" in table.columns:
            lost.append(table.astray)
        if "crossed" in table.columns:
            lost.append(self._over(table.crossed.lead(), table) > table.crossed)
        held = [one.fill_null(False) for one in lost]
        return functools.reduce(operator.or_, held) if held else None

    def _with_next(self, table: Any, careful: bool) -> Any:
        import ibis

        following = {name: self._over(table[own].lead(), table) for name, own in zip(self.n, self.s, strict=True)}
        after = self._over(table.t.lead(), table)
        lost = self._lost(table)
        if lost is not None:
            following["lost"] = lost
        if self.step is not None:
            following["gap"] = seconds(after) - seconds(table.t) > GAP * self.step
        if self.schema.time != ROW:
            following["again"] = table.t == after
            if careful:  # both rows of two are bad, and the one before has no known successor
                following["again"] |= (table.t == self._over(table.t.lag(), table)).fill_null(False)
                following["fork"] = after == self._over(table.t.lead(2), table)  # the next of two rows: which?
        table = table.mutate(**following)
        held = [table[name].fill_null(False) for name in ("lost", "fork", "gap") if name in table.columns]
        if not held:
            return table
        lost = functools.reduce(operator.or_, held)
        return table.mutate(**{name: lost.ifelse(ibis.null(table[name].type()), table[name]) for name in self.n})

    def _over(self, value: Any, table: Any) -> Any:
        import ibis

        if self.schema.time == ROW and not self.e:
            return value  # the rows as they come: nothing to sort
        return value.over(ibis.window(group_by=[table[e] for e in self.e], order_by=[table.t]))

    # ---- bad rows

    def conditions(self, table: Any) -> list[Condition]:
        """Every way in which a row of `followed` can be bad."""
        schema = self.schema
        found = [Condition((c,), "every row needs its state", table[s].isnull()) for s, c in self._named(self.s)]
        found += [Condition((c,), "every row needs its action", table[a].isnull()) for a, c in self._named(self.a)]
        for name, (column, known) in self.numbers.items():
            kind = "rewards" if name == "r" else "costs"
            value = table[name]
            found.append(Condition((column,), f"{kind} must be numbers", value.isnull()))
            found.append(Condition((column,), f"{kind} must be finite", ~(value.abs() <= LARGEST)))
            if known is not None:
                low, high = known
                words = f"the known range is [{low:g}, {high:g}]"
                found.append(Condition((column,), words, (value < low) | (value > high)))
        for name, column in (("ended", schema.terminal), ("cut", schema.truncated)):
            if column not in (None, ROW):
                found.append(Condition((column,), f"a flag must be {FLAGS}", table[name].isnull()))
        if schema.next_state:
            known = "every row that did not end needs its next state"
            if "cut" in table.columns:
                known = "every row that neither ended nor was cut off needs its next state"
            going = ~self._over_here(table)
            for n, column in zip(self.n, schema.next_state, strict=True):
                found.append(Condition((column,), known, table[n].isnull() & going))
            return [*found, self._repeated(table, table.again)] if self.repeats else found
        for e, column in zip(self.e, schema.episode, strict=True):
            found.append(Condition((column,), "every row needs its episode", table[e].isnull()))
        if schema.time != ROW and schema.time is not None:
            found.append(Condition((schema.time,), "every row needs its time", table.t.isnull()))
            found.append(self._repeated(table, table.again.fill_null(False)))
        return found

    def _repeated(self, table: Any, holds: Any) -> Condition:
        schema, kind = self.schema, table.t.type()
        right = "a time must not repeat within an episode"
        if not schema.episode:
            right = "a time must not repeat; if the rows are of several episodes, give episode=... (--episode)"
        if kind.is_timestamp() and kind.timezone is None:
            right += "; local clocks repeat an hour in autumn: write times in UTC, or with their zone (02:30:00+01:00)"
        return Condition((*schema.episode, str(schema.time)), right, holds, "repeat")

    def _over_here(self, table: Any) -> Any:
        import ibis

        flags = [table[name].fill_null(False) for name in ("ended", "cut") if name in table.columns]
        return flags[0] | flags[1] if len(flags) == 2 else flags[0] if flags else ibis.literal(False)

    def _named(self, names: list[str]) -> list[tuple[str, str]]:
        return list(zip(names, self.schema.state if names == self.s else self.schema.action, strict=True))

    def bad(self, table: Any) -> Any:
        """Whether a row of `followed` is bad."""
        first, *rest = (c.holds for c in self.conditions(table))
        for condition in rest:
            first = first | condition
        return first.fill_null(False)

    def bad_rows(self) -> Any:
        """The bad rows: which condition holds first, the used columns as they are, and their numbers."""
        import ibis

        strict = replace(self, skip_bad=False)
        table = strict.followed(raw=True)
        reasons = [(c.holds.fill_null(False), i) for i, c in enumerate(strict.conditions(table))]
        table = table.mutate(reason=ibis.cases(*reasons, else_=ibis.null("int64")))
        kept = [name for name in table.columns if name.startswith("raw") or name in (FILE, NUMBER)]
        return table.filter(table.reason.notnull()).select("reason", *kept)

    # ---- counts

    def counts(self) -> Any:
        """The one GROUP BY."""
        table = self.rows()
        keys, sums = self._grouping(table)
        if "cut" in table.columns:
            sums["cut_known"] = table.cut.count()
        if not self.schema.next_state:
            sums |= self._extremes(table)
        if not self.schema.next_state and not self.skip_bad:
            sums |= {f"{e}_known": table[e].count() for e in self.e}
            if "again" in table.columns:
                sums |= {"t_known": table.t.count(), "t_again": table.t.count(where=table.again)}
        return table.group_by(keys).agg(**sums)

    def _grouping(self, table: Any) -> tuple[list[str], dict[str, Any]]:
        """The keys of a transition, and what is added up over its rows."""
        keys = [*self.s, *self.a, *self.n, *(["ended"] if "ended" in table.columns else [])]
        sums: dict[str, Any] = {"n": table.count()}
        for name in self.numbers:
            value = table[name]
            sums |= {f"{name}_sum": value.sum(), f"{name}_squares": (value * value).sum()}
        return keys, sums

    def extremes(self) -> Any:
        """The range of every number, and how many are known, over all rows: far cheaper than for every group."""
        table = self.rows()
        return table.aggregate(n=table.count(), **self._extremes(table))

    def _extremes(self, table: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.numbers:
            value = table[name]
            found |= {f"{name}_known": value.count(), f"{name}_low": value.min(), f"{name}_high": value.max()}
        return found

    def repeated(self) -> Any:
        """Places in time that more than one row has, where time is not needed for the next state."""
        table = self.columns()
        places = table.group_by([*self.e, "t"]).agg(rows=table.count())
        return places.filter(places.rows > 1).count()

    # ---- order

    def used(self, some_dropped: bool) -> Any:
        """The rows that are counted: those that have a successor, or ended."""
        table = self.rows()
        if not some_dropped:
            return table
        going = table[self.n[0]].notnull()
        for n in self.n[1:]:
            going = going & table[n].notnull()
        return table.filter(going | table.ended if "ended" in table.columns else going)

    def by_block(self, order: list[str], cuts: list[int], some_dropped: bool) -> Any:
        """The counts of each block: of the rows, in this order, before the first cut, before the second, ..."""
        import ibis

        table = self.used(some_dropped)
        place = ibis.row_number()
        if order:
            place = place.over(ibis.window(order_by=[table[name] for name in order]))
        table = table.mutate(place=place)
        block: Any = ibis.literal(0)
        for cut in cuts:
            block = block + (table.place >= cut).cast("int64")
        table = table.mutate(block=block)
        keys, sums = self._grouping(table)
        return table.group_by(["block", *keys]).agg(**sums)

    def restarts(self) -> bool:
        """Whether time counts the steps of each episode, rather than days that all of them share."""
        return self.counter

    def in_order(self, order: list[str]) -> bool:
        """Whether the rows as they stand are sorted by these columns."""
        import ibis

        table = self.plain.columns().select(*order)
        before = table.mutate(**{f"before_{name}": table[name].lag() for name in order})
        falls: Any = ibis.literal(False)
        for name in reversed(order):  # less than the row before, by the first column that differs
            now, then = before[name], before[f"before_{name}"]
            falls = (now < then) | ((now == then) & falls)
        return not before.filter(falls.fill_null(False)).limit(1).count().to_pyarrow().as_py()

    def jumps(self) -> Any:
        """How many rows have a next_state that is not the state of the following row of their episode."""
        import ibis

        table = self.columns()
        table = table.mutate(over=self._over_here(table))
        after = {f"after_{s}": self._over(table[s].lead(), table) for s in self.s}
        table = table.mutate(**after)
        differs: Any = ibis.literal(False)
        for s, n in zip(self.s, self.n, strict=True):
            differs = differs | (table[f"after_{s}"] != table[n])
        return table.filter(~table.over & differs.fill_null(False)).count()

    # ---- periods

    def span(self, column: str) -> Any:
        """The least and the greatest of a clock."""
        table = self.plain.columns()
        value = seconds(table[column])
        return table.aggregate(low=value.min(), high=value.max())

    def by_period(self, column: str, low: float, high: float, periods: int, centre: float) -> Any:
        """The counts of each period of equal length, with sums of powers of the reward less its mean."""
        table = self.rows()
        place = ((seconds(table[column]) - low) / (high - low) * periods).floor().cast("int64")
        table = table.mutate(period=(place < periods).ifelse(place, periods - 1), x=table.r - centre)
        keys = ["period", *self.s, *self.a, *self.n, *(["ended"] if "ended" in table.columns else [])]
        x = table.x
        sums = {"x1": x.sum(), "x2": (x * x).sum(), "x3": (x * x * x).sum(), "x4": (x * x * x * x).sum()}
        return table.group_by(keys).agg(n=table.count(), **sums)

    def by_previous(self) -> Any:
        """How often each (previous state, s, a, s') occurs, where the previous row led to this one."""
        import ibis

        table = self.rows()
        table = table.mutate(over=self._over_here(table))
        before = {"before_over": self._over(table.over.lag(), table)}
        before |= {f"p{i}": self._over(table[s].lag(), table) for i, s in enumerate(self.s)}
        before |= {f"led{i}": self._over(table[n].lag(), table) for i, n in enumerate(self.n)}
        table = table.mutate(**before)
        linked: Any = ~table.before_over.fill_null(True)
        for i, s in enumerate(self.s):
            linked = linked & table[f"p{i}"].notnull() & (table[f"led{i}"] == table[s]).fill_null(False)
        if "ended" not in table.columns:
            table = table.mutate(ended=ibis.literal(False))
        going: Any = table.ended
        for_all: Any = ibis.literal(True)
        for n in self.n:
            for_all = for_all & table[n].notnull()
        table = table.filter(linked & (going | for_all))
        previous = [f"p{i}" for i in range(len(self.s))]
        return table.group_by([*previous, *self.s, *self.a, *self.n, "ended"]).agg(n=table.count())

    # ---- the beginnings of episodes

    @property
    def can_begin(self) -> bool:
        """Whether the log says where episodes begin: without an order nobody knows which of their rows is the first."""
        known = bool(self.schema.episode) or self.schema.terminal is not None or self.schema.truncated is not None
        return known and self.schema.time is not None

    def first_states(self) -> Any:
        """How often each state is the first of an episode: no row before it, or one where an episode was over."""
        table = self.columns()
        if self.skip_bad:
            table = table.filter(*(table[name].notnull() for name in (*self.e, "t")))
        table = table.mutate(over=self._over_here(table))
        before = self._over(table.over.lag(), table)
        table = table.mutate(first=before.fill_null(True))
        table = table.filter(table.first, *(table[s].notnull() for s in self.s))
        return table.group_by(self.s).agg(n=table.count())


def seconds(value: Any) -> Any:
    """A time as a number: itself, or the seconds of a date."""
    if value.type().is_date():
        value = value.cast("timestamp")
    if value.type().is_timestamp():
        return value.epoch_seconds().cast("float64")
    return value.cast("float64")


def number(value: Any) -> Any:
    """A column of numbers or flags as float64; of text, what of it is a number."""
    if value.type().is_string():
        import ibis
        import ibis.expr.operations as ops

        if value.get_backend().has_operation(ops.TryCast):
            return value.try_cast("float64")
        return value.re_search(TEXT_NUMBER).ifelse(value.cast("float64"), ibis.null("float64"))  # SQLite
    if value.type().is_boolean():
        return value.cast("int64").cast("float64")
    return value.cast("float64")


def flag(value: Any) -> Any:
    """A column of flags as true or false; of text, what of it is one."""
    import ibis

    if value.type().is_string():
        word = value.strip().lower()
        return ibis.cases((word.isin(TRUE), True), (word.isin(FALSE), False), else_=ibis.null("boolean"))
    return value if value.type().is_boolean() else value != 0


def check_types(name: str, table: Any, schema: Schema, bins: Mapping[str, Any], skip_bad: bool) -> None:
    """Refuse columns that cannot play their part; text among the numbers is told by the caller, who knows its row."""
    types = table.schema()
    for part, columns in (("state", schema.state), ("action", schema.action), ("next_state", schema.next_state)):
        for column in columns:
            kind = types[column]
            if column in bins and not (kind.is_numeric() and not kind.is_boolean()):
                raise LogError(f"{name}: bins are given for {column!r}, which holds {_words(kind)}, not numbers")
            if kind.is_nested() or kind.is_binary() or kind.is_unknown():
                raise LogError(f"{name}: the {part} column {column!r} holds {_words(kind)}; give its parts as columns")
    for column, following in zip(schema.state, schema.next_state, strict=False):
        if _family(types[column]) != _family(types[following]):
            raise LogError(
                f"{name}: the state column {column!r} holds {_words(types[column])} and {following!r} "
                f"{_words(types[following])}; both must be of one kind"
            )
    for part, column in (("terminal", schema.terminal), ("truncated", schema.truncated)):
        if column not in (None, ROW) and _family(types[column]) not in ("flags", "numbers", "text"):
            raise LogError(f"{name}: the {part} column {column!r} holds {_words(types[column])}; it must hold {FLAGS}")
    for column in (schema.reward, *schema.costs):
        kind = types[column]
        if not (kind.is_numeric() or kind.is_boolean() or kind.is_string()):
            raise LogError(f"{name}: the column {column!r} holds {_words(kind)}; it must hold numbers")


def _family(kind: Any) -> str:
    if kind.is_boolean():
        return "flags"
    if kind.is_numeric():
        return "numbers"
    if kind.is_string():
        return "text"
    return "times" if kind.is_temporal() else str(kind)


def _words(kind: Any) -> str:
    family = _family(kind)
    return family if family != str(kind) else f"values of the type {kind}"
