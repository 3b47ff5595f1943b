"""The rows of a table in time order, a chunk at a time: a Stream (base), for algorithms that read row by row.

order     by time, then episode; where time counts the steps of each episode (episodes.py), by episode, then time;
          the order of the rows themselves where there is no time
memory    bounded: a few chunks, whatever the length of the log. Rows that already stand in order are read as they
          stand; others the engine sorts, on disk if it must
ahead     a log that can be opened again is read by a thread of its own, some chunks ahead of whoever learns from them
state     the number of rows read. It can be resumed: the engine is asked for the rows after that
"""

from __future__ import annotations

import weakref
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from dualq.base import LogError, RecordedState, Rows
from dualq.logs.reading.arrow import flags_in, numbers_of
from dualq.logs.reading.counting import Counted
from dualq.logs.reading.engines import batches, reading
from dualq.logs.reading.expressions import Table
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW
from dualq.logs.reading.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

CHUNK = 1 << 15  # rows decoded at a time: they stay in the cache
AHEAD = 4  # chunks


class TableStream:
    """The rows of a TableLog, in time order."""

    def __init__(self, opened: Source, counted: Counted):
        q = counted.questions if opened.reopen is None else counted.questions.on(opened.table)
        if q.schema.time is None and not q.ordered:
            raise LogError(f"{opened.name}: the rows of this table have no order; give a time column")
        self.opened, self.counted = opened, counted
        with reading(opened.name):
            self.order = time_order(q)
        self._readers: dict[int, _Reader] = {}

    def init(self, seed: int) -> RecordedState:
        """Before the first row; a recording has no use for a seed."""
        return RecordedState(np.zeros(1, np.int64))

    def fill(self, state: RecordedState, rows: Rows) -> int:
        """Copy the next rows; every state has a reader of its own, and a new one where it was put elsewhere."""
        key, k = id(state.k), int(state.k[0])
        if key not in self._readers:
            weakref.finalize(state.k, self._readers.pop, key, None)
        if key not in self._readers or self._readers[key].position != k:
            self._readers[key] = _Reader(self.opened, self.counted, self.order, k)
        with reading(self.opened.name):
            count = self._readers[key].read(rows)
        state.k[0] += count
        return count


def time_order(q: Questions) -> list[str]:
    """The columns to sort by; none, where the rows stand in order already and are asked for as they stand."""
    if q.schema.time is None:
        return []
    by_row = q.schema.time == ROW
    order = ["t"] if by_row else [*q.e, "t"] if q.restarts() else ["t", *q.e]
    windows = q.repeats or q.last is not None or not q.schema.next_state
    moved = bool(q.e) and windows and not q.stands  # engines leave the rows of a window by its partitions
    if q.stands and order == [*q.e, "t"]:
        return []
    return [] if q.ordered and not moved and (by_row or q.in_order(order)) else order


class _Reader:
    """Rows from a place on; on a connection and a thread of its own where the log can be opened again."""

    def __init__(self, opened: Source, counted: Counted, order: list[str], position: int):
        self.position = position
        self.states, self.actions = counted.states, counted.actions
        self.chunk, self.used = Rows.empty(0), 0
        self.ahead: deque[Future[Rows | None]] = deque()
        self.worker = None if opened.reopen is None else ThreadPoolExecutor(1, "dualq reads a log")
        if self.worker is None:
            self._ask(opened, counted, order)
        else:  # whole connections are of one thread only, for SQLite
            self.worker.submit(self._ask, opened, counted, order).result()
            self.ahead.extend(self.worker.submit(self._next) for _ in range(AHEAD))

    def _ask(self, opened: Source, counted: Counted, order: list[str]) -> None:
        q = counted.questions
        self.q = q if opened.reopen is None else q.on(opened.reopen().table)
        expression = rows_in_order(self.q, order, some_dropped=counted.dropped > 0)
        self.batches = iter(
            batches(expression.limit(None, offset=self.position) if self.position else expression, CHUNK)
        )

    def read(self, rows: Rows) -> int:
        """Fill the rows, as far as there are some."""
        wanted, count = rows.s.size, 0
        while count < wanted:
            if self.used == self.chunk.s.size:
                chunk = self._following()
                if chunk is None:
                    break
                self.chunk, self.used = chunk, 0
            take = min(self.chunk.s.size - self.used, wanted - count)
            for to, column in zip(rows, self.chunk, strict=True):
                to[count : count + take] = column[self.used : self.used + take]
            count, self.used = count + take, self.used + take
        self.position += count
        return count

    def _following(self) -> Rows | None:
        if self.worker is None:
            return self._next()
        self.ahead.append(self.worker.submit(self._next))
        return self.ahead.popleft().result()

    def _next(self) -> Rows | None:
        batch = next(self.batches, None)
        return None if batch is None else self._decoded(batch)

    def _decoded(self, batch: pa.RecordBatch) -> Rows:
        """The labels' places."""
        q = self.q
        s, s_next = (self.states.find([batch[name] for name in names]) for names in (q.s, q.n))
        a = self.actions.find([batch[name] for name in q.a])
        ended = np.zeros(s.size, bool)
        if "ended" in batch.schema.names:
            ended = flags_in(batch["ended"])
            s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
        return Rows(s, a, numbers_of(batch["r"]), s_next, ended)


def rows_in_order(q: Questions, order: list[str], some_dropped: bool) -> Table:
    """The rows that have a successor, sorted by the columns of `order`, or as they stand where there are none."""
    table = q.used(some_dropped)
    if order:
        table = table.order_by([table[name] for name in order])
    return table.select(*q.s, *q.a, *q.n, "r", *(["ended"] if "ended" in table.columns else []))
