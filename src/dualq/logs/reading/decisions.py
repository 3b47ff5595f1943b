"""Decisions: the rows of a log as an engine sees them, one per decision with its next state, and which of them are bad.

    s0 s1 ..  a0 ..  n0 ..     the state's columns, the action's, the next state's; numbers in bins as the bin's place
    r  c0 ..                   reward and costs
    p                          with which probability the action was taken, where that was recorded
    ended                      the episode ended here: nothing follows
    cut                        the episode was cut off here
    e0 ..  t                   episode and time

Without columns for it the next state is that of the next row of the episode by time, `lead() over (partition by e order
by t)`, and NULL where there is none, the episode was cut off, or a gap in a regular clock follows. Where the rows stand
in that order already (`stands`) it is that of the row below, and nothing is sorted: a sixth of the time, and no memory.
A number that is not finite is no label: NULL.

With last="ended" (or "cut") every episode's last row ended it (or was where its recording stopped), unless a flag says
the other. Rows that have no place in time (`skip_bad`) are taken out, and no row is linked across them: `unplaced`.

Where times must not repeat, a row that repeats another one exactly, in every column of the table, was recorded twice:
it is a `copy`, and with `skip_bad` the first of them stays, unless it is bad. Other rows with the same time contradict
each other.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dualq.logs.reading.column_types import FLAGS, flag, number, one_or_zero, seconds, written_time
from dualq.logs.reading.engines import answer
from dualq.logs.reading.expressions import (
    Expression,
    Kind,
    Table,
    cases,
    differ,
    literal,
    null,
    row_number,
    rows_up_to,
    same,
    window,
    zone_of,
)
from dualq.logs.reading.schema import CASES, ROW, Bins, Schema
from dualq.logs.reading.sources import FILE, NUMBER

WRITTEN = "dualq_written_"  # before the name of a column that was made numbers of: what was written there
LAST = "dualq_last"  # a column that marks last rows, where the table is a part of a log
COPY, BEFORE = "dualq_copy", ("dualq_file_before", "dualq_row_before")  # marks copies; the row that each repeats
GAP = 1.01  # regular steps: more than that between two rows is a gap
SQUARED = 1e100  # numbers of which squares are added up are not larger
LARGEST = 1.7976931348623157e308  # NaN and the infinities are greater, in every engine


@dataclass(frozen=True)
class Condition:
    """A way in which a row can be bad."""

    columns: tuple[str, ...]  # those whose values are shown
    right: str  # what would be right
    holds: Expression  # a boolean expression
    kind: str = "value"


@dataclass(frozen=True)
class Decisions:
    """A table with a schema, as rows that have a next state."""

    table: Table
    schema: Schema
    bins: Mapping[str, Bins] = field(default_factory=dict)
    reward_range: tuple[float, float] | None = None
    cost_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    skip_bad: bool = False
    ordered: bool = True  # whether the rows of the table have an order of their own
    time_as: str | None = None  # the type that a time column of text stands for
    repeats: bool = False  # whether times repeat in a log that needs none for its next states
    copies: bool = False  # whether rows may repeat others exactly, and are told from them
    last: str | None = None  # "ended" or "cut": what an episode's last row is
    early: bool = False  # whether last="ended" leaves out episodes that go on to the last time of the log
    counter: bool = False  # whether time counts the steps of each episode
    stands: bool = False  # whether the rows stand episode by episode, in the order of time, no time twice
    copied: bool = False  # whether the table is a copy that was put into this order (order.py)
    step: float | None = None  # of a regular clock, in seconds if it is a date: no row is linked across a gap
    unplaced: str | None = None  # how rows without a place in time break links: by their place in the "file", or all
    #                              links of their "episode"; None: there are none, or gaps in a regular clock tell
    answers: dict[Hashable, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)  # given already

    def row(self, question: Table) -> dict[str, Any]:
        """The one row of an aggregate; the engine is asked each question once, whoever of these asks again."""
        key = question.op()
        if key not in self.answers:
            self.answers[key] = answer(question).to_pylist()[0]
        return self.answers[key]

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
    def kept(self) -> tuple[str, ...]:
        """The state's columns that stay numbers: they have one bin."""
        return tuple(c for c in self.schema.state if c in self.bins and not self.bins[c].edges)

    @property
    def written(self) -> list[str]:
        """What was written in columns that were made numbers of."""
        return [name for c in self.schema.columns if (name := WRITTEN + c) in self.table.columns]

    @property
    def numbers(self) -> dict[str, tuple[str, tuple[float, float] | None]]:
        """{r or c0 ..: (the column, the known range)}."""
        named = {"r": (self.schema.reward, self.reward_range)}
        return named | {
            c: (column, self.cost_ranges.get(column)) for c, column in zip(self.c, self.schema.costs, strict=True)
        }

    # ---- rows

    def on(self, table: Table) -> Self:
        """The same questions to the same log, opened anew: its rows, as they stand there."""
        return replace(self, table=table, stands=self.stands and not self.copied, copied=False)

    def columns(self, raw: bool = False) -> Table:
        """The table in the columns named above, and with `raw` the used columns as they are (raw0 ..), and numbers."""
        table, schema = self.table, self.schema
        if schema.time == ROW:
            table = table.mutate(dualq_time=row_number())
        if self.unplaced == "file":
            table = table.mutate(dualq_place=row_number())
        if self.copies:
            table = self._with_copies(table)
        made: dict[str, Expression] = {}
        for names, columns in ((self.s, schema.state), (self.a, schema.action), (self.n, schema.next_state)):
            made |= {name: self._label(table, column) for name, column in zip(names, columns, strict=False)}
        made |= {name: number(table[column]) for name, (column, _) in self.numbers.items()}
        if schema.propensity is not None:
            made["p"] = number(table[schema.propensity])
        made |= {name: table[column] for name, column in zip(self.e, schema.episode, strict=True)}
        if schema.time is not None:
            made["t"] = self.moment(table["dualq_time" if schema.time == ROW else schema.time])
        for name, column in (("ended", schema.terminal), ("cut", schema.truncated)):
            if column is not None:
                made[name] = literal(True) if column == ROW else flag(table[column])
        if self.unplaced == "file":
            made["place"] = table.dualq_place
        made |= {name: table[name] for name in (LAST, COPY) if name in table.columns}
        if raw:
            made |= {f"raw{i}": table[column] for i, column in enumerate(schema.columns)}
            made |= {name: table[name] for name in (FILE, NUMBER, *BEFORE, *self.written) if name in table.columns}
        table = table.select(**made)
        return table if self.last is None else self._with_last(table)

    def _with_copies(self, table: Table) -> Table:
        """Which rows repeat earlier ones exactly, and the numbers of these; with `skip_bad`, without such rows."""
        own = [c for c in self.table.columns if c not in (FILE, NUMBER, LAST) and _comparable(table[c].type())]
        numbers = [name for name in (FILE, NUMBER) if name in table.columns]
        alike = window(group_by=[table[c] for c in own], order_by=[table[c] for c in numbers or own[:1]])
        before = {to: table[name].lag().over(alike) for to, name in zip(BEFORE, numbers, strict=False)}
        table = table.mutate(**{COPY: row_number().over(alike) > 0}, **before)
        return table.filter(~table[COPY]).drop(COPY) if self.skip_bad else table

    def columns_with(self, more: list[str]) -> Table:
        """Episode and time, and other columns of the table as they are."""
        table, schema = self.table, self.schema
        time = row_number() if schema.time == ROW else self.moment(table[str(schema.time)])
        named = {name: table[column] for name, column in zip(self.e, schema.episode, strict=True)}
        return table.select(**named, t=time, **{name: table[name] for name in more})

    @property
    def plain(self) -> Self:
        """The same without flags for last rows: nothing that moves rows, or that costs more than reading them."""
        return replace(self, last=None)

    @property
    def marks(self) -> list[str]:
        """Columns of the table that play no part of their own, and are needed all the same."""
        return [LAST] if LAST in self.table.columns else []

    @property
    def apart(self) -> bool:
        """Whether the rows of an episode are linked, timed and ended as if there were no other episodes."""
        return bool(self.e) and self.schema.time != ROW and not self.early and self.unplaced is None

    def with_last(self) -> Table:
        """The table as it is, with a column that marks last rows."""
        table = self.table
        time = self.schema.time
        table = table.mutate(dualq_t=row_number() if time == ROW else self.moment(table[str(time)]))
        latest = table.dualq_t.max().over(window(group_by=[table[c] for c in self.schema.episode]))
        return table.mutate(**{LAST: self._at(table.dualq_t, latest)}).drop("dualq_t")

    def is_last(self, table: Table) -> Expression:
        """Whether a row of `columns` has the greatest time of its episode."""
        if self.stands and not self.early:
            return self._beside(table, table.t, 1).isnull()
        latest = table.t.max().over(window(group_by=[table[e] for e in self.e]))
        return self._at(table.t, latest)

    def _at(self, t: Expression, latest: Expression) -> Expression:
        """Whether the time of a row is the latest of its episode; with `early`, and not the latest of all."""
        here = same(t, latest).fill_null(False)
        return here & differ(t, t.max().over(window())).fill_null(False) if self.early else here

    def _with_last(self, table: Table) -> Table:
        here = table[LAST] if LAST in table.columns else self.is_last(table)
        other = "cut" if self.last == "ended" else "ended"
        if other in table.columns:
            here = here & ~table[other].fill_null(False)
        return table.mutate(**{str(self.last): here})

    def moment(self, value: Expression) -> Expression:
        """A time as what it stands for, where it is text."""
        if self.time_as is None:
            return value
        return written_time(value, self.time_as)

    def _label(self, table: Table, column: str) -> Expression:
        value = table[column]
        kind = value.type()
        if column in self.bins:
            place = literal(0)
            for edge in self.bins[column].edges:
                place = place + one_or_zero(value >= edge)
            known = value.abs() <= LARGEST if kind.is_floating() else value.notnull()
            return known.ifelse(place, null("int64" if self.bins[column].edges else "int8"))
        if kind.is_floating():
            return (value.abs() <= LARGEST).ifelse(value.cast("float64") + 0.0, null("float64"))  # one zero
        if kind.is_decimal():
            return value.cast("float64")
        return value

    def rows(self, raw: bool = False) -> Table:
        """One row per decision, with its next state; where bad rows are to be skipped, without them."""
        table = self.followed(raw)
        return table.filter(~self.bad(table)) if self.skip_bad else table

    def followed(self, raw: bool = False) -> Table:
        """All rows with their next states, and `again`, whether another row has the same place in time; no copies."""
        table = self.columns(raw)
        if COPY in table.columns:
            table = table.filter(~table[COPY])
        if self.schema.terminal == ROW:  # nothing follows a row
            return table.mutate(**{n: null(table[s].type()) for n, s in zip(self.n, self.s, strict=True)})
        if self.schema.next_state:
            if not self.repeats:
                return table
            many = table.count().over(window(group_by=[table[name] for name in (*self.e, "t")]))
            return table.mutate(again=many > 1)
        if self.skip_bad:
            table = self._placed(table)
        return self._with_next(table, careful=self.skip_bad or raw)

    def _placed(self, table: Table) -> Table:
        """The rows that have a place in time; `astray`, where the next row of the episode may be one that has none."""
        known = [table[name].notnull() for name in (*self.e, "t")]
        if self.unplaced is None:
            return table.filter(*known)
        episode = window(group_by=[table[e] for e in self.e])
        if self.unplaced == "episode":
            return table.mutate(astray=table.t.count().over(episode) < table.count().over(episode)).filter(*known)
        stray = table.place.isnull()  # none is; of no episode: every link across its place in the file may be false
        for e in self.e:
            stray = stray | table[e].isnull()
        by_place = window(group_by=[table[e] for e in self.e], order_by=[table.place])
        upto = rows_up_to([table.place])
        table = table.mutate(
            astray=table.t.isnull().lead().over(by_place).fill_null(False),
            crossed=one_or_zero(stray).sum().over(upto),
        )
        if self.last is not None:
            table = table.mutate(**{self.last: table[self.last] & ~table.astray})
        return table.filter(*(table[name].notnull() for name in (*self.e, "t")))

    def placed(self, table: Table) -> Expression | None:
        """Where next states have columns: whether it is known when a row was. None: of all of them."""
        if not self.schema.next_state or self.schema.time in (None, ROW) or self.stands:
            return None
        return functools.reduce(operator.and_, [table[name].notnull() for name in (*self.e, "t")])

    def in_place(self, table: Table) -> Table:
        """The rows of which it is known when they were: no other was before or after another one."""
        placed = self.placed(table)
        return table if placed is None else table.filter(placed)

    def _lost(self, table: Table) -> Expression | None:
        """Whether what followed a row is not known, though there is a next one; None where that cannot be."""
        lost = [table.cut] if "cut" in table.columns else []
        if "astray" in table.columns:
            lost.append(table.astray)
        if "crossed" in table.columns:
            lost.append(self._beside(table, table.crossed, 1) > table.crossed)
        held = [one.fill_null(False) for one in lost]
        return functools.reduce(operator.or_, held) if held else None

    def _with_next(self, table: Table, careful: bool) -> Table:
        following = {name: self._beside(table, table[own], 1) for name, own in zip(self.n, self.s, strict=True)}
        following |= self._numbers_follow(table)
        after = self._beside(table, table.t, 1)
        lost = self._lost(table)
        if lost is not None:
            following["lost"] = lost
        if self.step is not None:
            following["gap"] = seconds(after) - seconds(table.t) > GAP * self.step
        if self.schema.time != ROW and self.stands:
            following["again"] = literal(False)
        elif self.schema.time != ROW:
            following["again"] = same(table.t, after)
            if careful:  # both rows of two are bad, and the one before has no known successor
                following["again"] |= same(table.t, self._beside(table, table.t, -1)).fill_null(False)
                following["fork"] = same(after, self._beside(table, table.t, 2))  # the next of two rows: which?
        table = table.mutate(**following)
        held = [table[name].fill_null(False) for name in ("lost", "fork", "gap") if name in table.columns]
        if not held:
            return table
        lost = functools.reduce(operator.or_, held)
        return table.mutate(**{name: lost.ifelse(null(table[name].type()), table[name]) for name in self.n})

    def _numbers_follow(self, table: Table) -> dict[str, Expression]:
        """Of columns that stay numbers it is only asked whether all of them are known in the next row: once for all."""
        pairs = [(n, s) for n, s, c in zip(self.n, self.s, self.schema.state, strict=True) if c in self.kept]
        if not pairs:
            return {}
        known = functools.reduce(operator.and_, [table[s].notnull() for _, s in pairs])
        first = self._beside(table, known.ifelse(literal(0), null("int8")), 1)
        return {n: first for n, _ in pairs[:1]} | {n: literal(0).cast("int8") for n, _ in pairs[1:]}

    def _beside(self, table: Table, value: Expression, by: int) -> Expression:
        """The value so many rows later in the same episode, or before where `by` is less than 0; NULL past its ends."""

        def moved(column: Expression) -> Expression:
            return column.lead(by) if by > 0 else column.lag(-by)

        if not self.stands and (self.e or self.schema.time != ROW):
            return moved(value).over(window(group_by=[table[e] for e in self.e], order_by=[table.t]))
        if not self.e:
            return moved(value)  # the rows as they come: nothing to sort
        inside = functools.reduce(operator.and_, [same(moved(table[e]), table[e]) for e in self.e])
        return inside.ifelse(moved(value), null(value.type()))

    # ---- bad rows

    @property
    def once(self) -> bool:
        """Whether a time must not repeat within an episode."""
        timed = self.schema.time not in (None, ROW) and self.schema.terminal != ROW
        return timed and (self.repeats or not self.schema.next_state)

    def conditions(self, table: Table) -> list[Condition]:
        """Every way in which a row of `followed` can be bad."""
        schema = self.schema
        made = {name.removeprefix(WRITTEN): ", a number" for name in self.written}
        right = {c: f"every row needs its state{made.get(c, '')}" for c in schema.state}
        found = [Condition((c,), right[c], table[s].isnull()) for s, c in self._named(self.s)]
        found += [Condition((c,), "every row needs its action", table[a].isnull()) for a, c in self._named(self.a)]
        for name, (column, known) in self.numbers.items():
            kind = "rewards" if name == "r" else "costs"
            value = table[name]
            found.append(Condition((column,), f"{kind} must be numbers", value.isnull()))
            found.append(Condition((column,), f"{kind} must be finite, and within 1e100", ~(value.abs() <= SQUARED)))
            if known is not None:
                low, high = known
                words = f"the known range is [{low:g}, {high:g}]"
                found.append(Condition((column,), words, (value < low) | (value > high)))
        if schema.propensity is not None:
            outside = (table.p.isnull() | ~((table.p > 0.0) & (table.p <= 1.0))).fill_null(True)
            words = "the probability of an action that was taken must be more than 0, and at most 1"
            found.append(Condition((schema.propensity,), words, outside))
        for name, column in (("ended", schema.terminal), ("cut", schema.truncated)):
            if column not in (None, ROW):
                found.append(Condition((column,), f"a flag must be {FLAGS}", table[name].isnull()))
        if schema.next_state:
            known = "every row that did not end needs its next state"
            if "cut" in table.columns:
                known = "every row that neither ended nor was cut off needs its next state"
            going = ~self._over_here(table)
            for n, column in zip(self.n, schema.next_state, strict=True):
                found.append(Condition((column,), known + made.get(column, ""), table[n].isnull() & going))
            return [*found, self._repeated(table, table.again)] if self.repeats else found
        for e, column in zip(self.e, schema.episode, strict=True):
            found.append(Condition((column,), "every row needs its episode", table[e].isnull()))
        if schema.time != ROW and schema.time is not None:
            dates = ", a date as 2024-02-29" if "timestamp" in (self.time_as or "") else ""
            found.append(Condition((schema.time,), f"every row needs its time{dates}", table.t.isnull()))
            if "again" in table.columns:  # many cases of which nothing follows may be decided at one moment
                found.append(self._repeated(table, table.again.fill_null(False)))
        return found

    def _repeated(self, table: Table, holds: Expression) -> Condition:
        schema = self.schema
        right = "a time must not repeat within an episode"
        if not schema.episode:
            right = "a time must not repeat; if the rows are of several episodes, give episode=... (--episode)"
            right = f"{right}; {CASES}"
        if table.t.type().is_timestamp() and zone_of(table.t) is None:
            right += "; local clocks repeat an hour in autumn: write times in UTC, or with their zone (02:30:00+01:00)"
        return Condition((*schema.episode, str(schema.time)), right, holds, "repeat")

    def _over_here(self, table: Table) -> Expression:
        flags = [table[name].fill_null(False) for name in ("ended", "cut") if name in table.columns]
        return flags[0] | flags[1] if len(flags) == 2 else flags[0] if flags else literal(False)

    def _named(self, names: list[str]) -> list[tuple[str, str]]:
        return list(zip(names, self.schema.state if names == self.s else self.schema.action, strict=True))

    def bad(self, table: Table) -> Expression:
        """Whether a row of `followed` is bad."""
        first, *rest = (c.holds for c in self.conditions(table))
        for condition in rest:
            first = first | condition
        return first.fill_null(False)

    def bad_rows(self) -> tuple[Table, list[Condition]]:
        """The bad rows: which condition holds first, the used columns as they are, and their numbers; all conditions.

        Of rows that are the same all but the first are bad, and nothing else is said of them.
        """
        strict = replace(self, skip_bad=False, copies=self.copies or self.once)
        table = strict._as_written(strict.followed(raw=True))
        conditions = strict.conditions(table)
        reasons = [(c.holds.fill_null(False), i) for i, c in enumerate(conditions)]
        table = table.mutate(reason=cases(*reasons, otherwise=null("int64")))
        shown = [name for name in table.columns if name.startswith("raw") or name in (FILE, NUMBER, *BEFORE)]
        bad = table.filter(table.reason.notnull()).select("reason", *shown)
        if not strict.copies:
            return bad, conditions
        every = strict._as_written(strict.columns(raw=True))
        copies = every.filter(every[COPY]).mutate(reason=literal(len(conditions)).cast("int64"))
        place = (*self.schema.episode, str(self.schema.time))
        right = "the row is the same as an earlier one, which stands for all of them"
        again = Condition(place, right, every[COPY], "copy")
        return bad.union(copies.select("reason", *shown)), [*conditions, again]

    def _as_written(self, table: Table) -> Table:
        """Rows with the used columns as somebody wrote them, those too that were made numbers of."""
        names = {f"raw{i}": WRITTEN + column for i, column in enumerate(self.schema.columns)}
        return table.mutate(**{raw: table[name] for raw, name in names.items() if name in self.written})


def _comparable(kind: Kind) -> bool:
    """Whether an engine can say that two values are the same."""
    return not (kind.is_nested() or kind.is_json() or kind.is_unknown() or kind.is_binary())
