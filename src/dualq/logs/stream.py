"""The rows of a table in time order, a chunk at a time: a Stream (rows.py), for algorithms that read row by row.

    order     by time, then episode; where time begins anew with every episode (more episodes than times), by episode,
              then time; the order of the rows themselves where there is no time
    memory    bounded: a few chunks, whatever the length of the log. Rows that already stand in order are read as they
              stand; others the engine sorts, on disk if it must
    state     the number of rows read. It can be resumed: the engine is asked for the rows after that

A thread of its own reads ahead, so that the engine works while the algorithm does.
"""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from dualq.errors import LogError
from dualq.logs.queries import Questions
from dualq.logs.sources import reading
from dualq.rows import RecordedState, Rows

if TYPE_CHECKING:
    from dualq.logs.places import Coder
    from dualq.logs.tables import TableLog

Array = np.ndarray

CHUNK = 1 << 17  # rows decoded at a time
AHEAD = 4  # chunks


class TableStream:
    """The rows of a log that lies in a table, in time order."""

    def __init__(self, log: TableLog):
        q = log.questions
        if q.schema.time is None and not q.ordered:
            raise LogError(
                f"{log.opened.name}: the rows of this table have no order; give a time column to stream them"
            )
        self.log = log
        with reading(log.opened.name):
            self.order = _order(q)
        self._readers: dict[int, _Reader] = {}

    def init(self, seed: int) -> RecordedState:
        """Before the first row; a recording has no use for a seed."""
        return RecordedState(np.zeros(1, np.int64))

    def fill(self, state: RecordedState, rows: Rows) -> int:
        """Copy the next rows; a state that stands elsewhere than its reader (it was resumed) gets a new one."""
        key, k = id(state.k), int(state.k[0])
        reader = self._readers.get(key)
        if reader is None or reader.position != k:
            if reader is not None:
                reader.close()
            else:
                weakref.finalize(state.k, _forget, weakref.ref(self), key)
            reader = self._readers[key] = _Reader(self, k)
        count = reader.read(rows)
        state.k[0] += count
        return count


def rows_in_order(log: TableLog, q: Questions, order: list[str]) -> Any:
    """The rows that have a successor, sorted by the columns of `order`, or as they stand where there are none."""
    table = q.rows()
    known = [name for name in ("ended",) if name in table.columns]
    if log.dropped:
        going = table[q.n[0]].notnull()
        for n in q.n[1:]:
            going = going & table[n].notnull()
        table = table.filter(going | table.ended if known else going)
    if order:
        table = table.order_by([table[name] for name in order])
    return table.select(*q.s, *q.a, *q.n, "r", *known)


def _forget(stream: Any, key: int) -> None:
    alive = stream()
    reader = alive._readers.pop(key, None) if alive is not None else None
    if reader is not None:
        reader.close()


def _order(q: Questions) -> list[str]:
    """The columns to sort by; none, where the rows stand in order already."""
    if q.schema.time in (None, "row"):
        return []
    order = [*q.e, "t"] if q.restarts() else ["t", *q.e]
    return [] if q.ordered and q.in_order(order) else order


class _Reader:
    """Rows from a place on, read ahead by a thread."""

    def __init__(self, stream: TableStream, position: int):
        self.position = position
        self.chunk, self.used = Rows.empty(0), 0
        self.ready: queue.Queue[Any] = queue.Queue(AHEAD)
        self.closed = threading.Event()
        words = (stream.log, stream.order, position, self.ready, self.closed)
        self.thread = threading.Thread(target=_read, args=words, daemon=True)
        self.thread.start()
        _OPEN.add(self)

    def read(self, rows: Rows) -> int:
        wanted, count = rows.s.size, 0
        while count < wanted:
            left = self.chunk.s.size - self.used
            if left == 0:
                if not self._next():
                    break
                continue
            take = min(left, wanted - count)
            for to, column in zip(rows, self.chunk, strict=True):
                to[count : count + take] = column[self.used : self.used + take]
            count, self.used = count + take, self.used + take
        self.position += count
        return count

    def _next(self) -> bool:
        if self.closed.is_set():
            return False
        chunk = self.ready.get()
        if chunk is None:
            self.closed.set()
            return False
        if isinstance(chunk, BaseException):
            self.closed.set()
            raise chunk
        self.chunk, self.used = chunk, 0
        return True

    def close(self) -> None:
        self.closed.set()


_OPEN: weakref.WeakSet[_Reader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A thread inside the engine must not outlive the interpreter."""
    for reader in list(_OPEN):
        reader.close()
        reader.thread.join()


def _read(log: TableLog, order: list[str], position: int, ready: queue.Queue, closed: threading.Event) -> None:
    """Ask the engine for the rows from a place on, and hand them over in places of labels."""
    try:
        with reading(log.opened.name):
            q = log.questions if log.opened.reopen is None else log.questions.on(log.opened.reopen().table)
            expression = rows_in_order(log, q, order)
            if position:
                expression = expression.limit(None, offset=position)
            for batch in _batches(expression):
                if not _hand_over(ready, closed, _decoded(batch, q, *log.coders)):
                    return
        _hand_over(ready, closed, None)
    except BaseException as error:
        _hand_over(ready, closed, error)


def _batches(expression: Any) -> Any:
    """The engine's answer as it comes; DuckDB is asked directly, which costs half as much as through Ibis."""
    backend = expression.get_backend()
    if backend.name != "duckdb":
        return expression.to_pyarrow_batches(chunk_size=CHUNK)
    answer = backend.con.sql(backend.compile(expression))
    return (getattr(answer, "to_arrow_reader", None) or answer.fetch_record_batch)(CHUNK)


def _hand_over(ready: queue.Queue, closed: threading.Event, chunk: Any) -> bool:
    while not closed.is_set():
        try:
            ready.put(chunk, timeout=0.2)
            return True
        except queue.Full:
            continue
    return False


def _decoded(batch: Any, q: Questions, states: Coder, actions: Coder) -> Rows:
    s = states.find([batch[name] for name in q.s])
    s_next = states.find([batch[name] for name in q.n])
    if "ended" in batch.schema.names:
        ended = batch["ended"].to_numpy(zero_copy_only=False).astype(bool)
    else:
        ended = np.zeros(s.size, bool)
    if (s_next < 0).any():
        s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
    return Rows(s, actions.find([batch[name] for name in q.a]), batch["r"].to_numpy(), s_next, ended)
