"""Queries: what is asked of the engine that holds a log, as Ibis expressions; the same for every engine.

Counting is one GROUP BY s, a, n, ended, and the range of the numbers beside it. Whether some row is bad is read off the
result (a NULL among the keys, a sum that is not finite, fewer rewards than rows), so that looking for bad rows costs
nothing where there are none. The names of the columns are those of decisions.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from dualq.logs.reading.column_types import seconds
from dualq.logs.reading.decisions import Decisions
from dualq.logs.reading.engines import whole_number
from dualq.logs.reading.expressions import Expression, Table, cases, differ, literal, row_number, same, window


@dataclass(frozen=True)
class Questions(Decisions):
    """A table with a schema, and everything that is asked of it."""

    # ---- counts

    def counts(self) -> Table:
        """The one GROUP BY."""
        table = self.rows()
        keys, sums = self._grouping(table)
        if "cut" in table.columns:
            sums["cut_known"] = table.cut.count()
        if not self.schema.next_state:
            sums |= self._extremes(table)
        if not self.schema.next_state and not self.skip_bad and not self.stands:
            sums |= {f"{e}_known": table[e].count() for e in self.e}
            if "again" in table.columns:
                sums |= {"t_known": table.t.count(), "t_again": table.t.count(where=table.again)}
        return table.group_by(keys).agg(**sums)

    def _grouping(self, table: Table) -> tuple[list[str], dict[str, Expression]]:
        """The keys of a transition, and what is added up over its rows."""
        keys = [*self.s, *self.a, *self.n, *(["ended"] if "ended" in table.columns else [])]
        sums: dict[str, Expression] = {"n": table.count()}
        for name in self.numbers:
            value = table[name]
            sums |= {f"{name}_sum": value.sum(), f"{name}_squares": (value * value).sum()}
        return keys, sums

    def extremes(self) -> Table:
        """The range of every number, and how many are known, over all rows: far cheaper than for every group."""
        table = self.rows()
        return table.aggregate(n=table.count(), **self._extremes(table))

    def _extremes(self, table: Table) -> dict[str, Expression]:
        found: dict[str, Expression] = {}
        for name in (*self.numbers, *(["p"] if "p" in table.columns else [])):
            value = table[name]
            found |= {f"{name}_known": value.count(), f"{name}_low": value.min(), f"{name}_high": value.max()}
        return found

    def repeated(self) -> Expression:
        """Places in time that more than one row has, where time is not needed for the next state."""
        table = self.columns()
        places = table.group_by([*self.e, "t"]).agg(rows=table.count())
        return places.filter(places.rows > 1).count()

    # ---- order

    def used(self, some_dropped: bool) -> Table:
        """The rows that are counted: those that have a successor, or ended."""
        table = self.rows()
        if not some_dropped:
            return table
        going = table[self.n[0]].notnull()
        for n in self.n[1:]:
            going = going & table[n].notnull()
        return table.filter(going | table.ended if "ended" in table.columns else going)

    def by_block(self, order: list[str], cuts: list[int], some_dropped: bool) -> Table:
        """The counts of each block: of the rows, in this order, before the first cut, from there to the second, ..."""
        table = self.used(some_dropped)
        place = row_number()
        if order:
            place = place.over(window(order_by=[table[name] for name in order]))
        table = table.mutate(place=place)
        before = [(table.place < cut, block) for block, cut in enumerate(cuts)]
        table = table.mutate(block=cases(*before, otherwise=len(cuts)))
        keys, sums = self._grouping(table)
        return table.group_by(["block", *keys]).agg(**sums)

    def restarts(self) -> bool:
        """Whether time counts the steps of each episode, rather than days that all of them share."""
        return self.counter

    def in_order(self, order: list[str]) -> bool:
        """Whether the rows as they stand are sorted by these columns."""
        table = self.plain.columns().select(*order)
        before = table.mutate(**{f"before_{name}": table[name].lag() for name in order})
        falls = literal(False)
        for name in reversed(order):  # less than the row before, by the first column that differs
            now, then = before[name], before[f"before_{name}"]
            falls = (now < then) | (same(now, then) & falls)
        return not whole_number(before.filter(falls.fill_null(False)).limit(1).count())

    def rises(self) -> bool:
        """Whether the rows as they stand are sorted by episode and time; each must have both, and no two the same."""
        order = [*self.e, "t"]
        table = self.plain.columns().select(*order)
        table = table.mutate(**{f"before_{name}": table[name].lag() for name in order})
        rises, unknown = literal(False), literal(False)
        for name in reversed(order):
            now, then = table[name], table[f"before_{name}"]
            rises, unknown = (now > then) | (same(now, then) & rises), unknown | now.isnull()
        wrong = unknown | (table.before_t.notnull() & ~rises.fill_null(False))
        return not whole_number(table.filter(wrong).limit(1).count())

    def jumps(self) -> Expression:
        """How many rows have a next_state that is not the state of the following row of their episode."""
        table = self.in_place(self.columns())
        table = table.mutate(over=self._over_here(table))
        after = {f"after_{s}": self._beside(table, table[s], 1) for s in self.s}
        table = table.mutate(**after)
        differs = literal(False)
        for s, n in zip(self.s, self.n, strict=True):
            differs = differs | differ(table[f"after_{s}"], table[n])
        return table.filter(~table.over & differs.fill_null(False)).count()

    # ---- periods

    def span(self, column: str) -> Table:
        """The least and the greatest of a clock."""
        table = self._with_a_place(self.plain.columns())
        value = seconds(table[column])
        return table.aggregate(low=value.min(), high=value.max())

    def by_period(self, column: str, low: float, high: float, periods: int, centre: float) -> Table:
        """The counts of each period of equal length, with sums of powers of the reward less its mean."""
        table = self.rows()
        table = table.filter(table[column].notnull())
        place = ((seconds(table[column]) - low) / (high - low) * periods).floor().cast("int64")
        table = table.mutate(period=(place < periods).ifelse(place, periods - 1), x=table.r - centre)
        keys = ["period", *self.s, *self.a, *self.n, *(["ended"] if "ended" in table.columns else [])]
        x = table.x
        sums = {"x1": x.sum(), "x2": (x * x).sum(), "x3": (x * x * x).sum(), "x4": (x * x * x * x).sum()}
        return table.group_by(keys).agg(n=table.count(), **sums)

    def by_previous(self) -> Table:
        """How often each (previous state, s, a, s') occurs, where the previous row led to this one."""
        table = self.in_place(self.followed())
        table = table.mutate(bad=self.bad(table) if self.skip_bad else literal(False))
        table = table.mutate(over=self._over_here(table) | table.bad)
        before = {"before_over": self._beside(table, table.over, -1)}
        before |= {f"p{i}": self._beside(table, table[s], -1) for i, s in enumerate(self.s)}
        before |= {f"led{i}": self._beside(table, table[n], -1) for i, n in enumerate(self.n)}
        table = table.mutate(**before)
        linked = ~table.before_over.fill_null(True)
        for i, s in enumerate(self.s):
            linked = linked & table[f"p{i}"].notnull() & same(table[f"led{i}"], table[s]).fill_null(False)
        if "ended" not in table.columns:
            table = table.mutate(ended=literal(False))
        going = table.ended
        for_all = literal(True)
        for n in self.n:
            for_all = for_all & table[n].notnull()
        table = table.filter(linked & ~table.bad & (going | for_all))
        previous = [f"p{i}" for i in range(len(self.s))]
        return table.group_by([*previous, *self.s, *self.a, *self.n, "ended"]).agg(n=table.count())

    # ---- the beginnings of episodes

    @property
    def can_begin(self) -> bool:
        """Whether the log says where episodes begin: without an order nobody knows which of their rows is the first."""
        known = bool(self.schema.episode) or self.schema.terminal is not None or self.schema.truncated is not None
        return known and self.schema.time is not None

    def first_states(self) -> Table:
        """How often each state is the first of an episode: no row before it, or one where an episode was over."""
        table = self.in_place(self._with_a_place(self.columns()))
        table = table.mutate(over=self._over_here(table))
        before = self._beside(table, table.over, -1)
        table = table.mutate(first=before.fill_null(True))
        table = table.filter(table.first, *(table[s].notnull() for s in self.s))
        return table.group_by(self.s).agg(n=table.count())

    def _with_a_place(self, table: Table) -> Table:
        """Without the rows that are set aside because nobody knows when they were."""
        if not self.skip_bad or self.schema.next_state or self.schema.time is None:
            return table
        return table.filter(*(table[name].notnull() for name in (*self.e, "t")))
