"""Log: what every log offers, wherever its rows lie.

A log is a table with a row per decision: what was seen, done and earned, and what was seen next. Whatever learns from a
log, checks it or proves something from it asks for no more than `Log` says here, and never for the kind.

    ArrayLog   the rows are held in arrays (array_log.py)
    TableLog   the rows stay in the engine that holds them and are counted there (table_log.py); `read_log` makes one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from dualq.base import Labels, Stream
from dualq.logs.checks.coverage import Coverage
from dualq.logs.checks.trace import Trace
from dualq.logs.counts import Counts
from dualq.logs.number_rows import NumberRows
from dualq.logs.reading.schema import Bins

Array = np.ndarray


@runtime_checkable
class Log(Protocol):
    """What a log must offer. Few need a kind of their own: `read_log` reads tables, `ArrayLog` takes arrays.

    A class is a log if it has these members; it inherits from nothing. Here is a whole one, a log of which the counts
    are all that is left. It has no order, so nothing is asked of it that needs one, and `dualq.learn` takes it as any
    other:

    >>> import dualq
    >>> from dualq.logs import Coverage
    >>> class CountedLog:
    ...     source = "counts"
    ...     has_order = has_episodes = False
    ...     left_out = (0, 0)
    ...     bins, numbers, guessed, available, quarantine = {}, (), {}, None, None
    ...
    ...     def __init__(self, counts):
    ...         self._counts = counts
    ...         self.states, self.actions = counts.states, counts.actions
    ...         self.columns = {"state": self.states.names, "action": self.actions.names, "next_state": ()}
    ...
    ...     def __len__(self):
    ...         return self._counts.total
    ...
    ...     def counts(self):
    ...         return self._counts
    ...
    ...     def coverage(self, level=0.01):
    ...         return Coverage(self._counts, rows=len(self), level=level)
    ...
    ...     def trace(self):
    ...         return None
    ...
    ...     def check_ends(self):
    ...         pass
    ...
    ...     def stream(self):
    ...         raise dualq.LogError("these rows have no order")
    ...
    ...     starts = number_rows = stream
    ...
    ...     def counts_between(self, cuts):
    ...         raise dualq.LogError("these rows have no order")
    >>> log = CountedLog(dualq.problems.two_state().record(steps=1000).counts())
    >>> isinstance(log, dualq.Log)
    True
    >>> dualq.learn(log, discount=0.9).policy.act(0)
    0
    """

    @property
    def source(self) -> str:
        """One line: where the rows come from."""
        ...

    @property
    def states(self) -> Labels:
        """The labels of the states, in order: everything else speaks of their places 0, 1, 2, ..."""
        ...

    @property
    def actions(self) -> Labels:
        """The labels of the actions, in order."""
        ...

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """{"state": its columns, "action": ..., "next_state": ..., none where the next row says it}."""
        ...

    @property
    def bins(self) -> Mapping[str, Bins]:
        """{column: its Bins} of the numbers that were cut into intervals."""
        ...

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of the state that stay numbers: then there are no counts, and `number_rows` has the rows."""
        ...

    @property
    def guessed(self) -> Mapping[str, tuple[str, ...]]:
        """{part: columns} that nobody named, and that were found by their names."""
        ...

    @property
    def available(self) -> Array | None:
        """(S, A) which pairs exist; None where nobody said so."""
        ...

    @property
    def quarantine(self) -> Path | None:
        """The file in which bad rows are set aside; None where there can be none."""
        ...

    @property
    def has_order(self) -> bool:
        """Whether the rows can be read in the order in which they happened."""
        ...

    @property
    def has_episodes(self) -> bool:
        """Whether the log says where episodes begin."""
        ...

    @property
    def left_out(self) -> tuple[int, int]:
        """How many rows have no successor, and how many were set aside."""
        ...

    def __len__(self) -> int:
        """The number of rows that are used."""
        ...

    def counts(self) -> Counts:
        """How often each transition occurs, and what it paid."""
        ...

    def counts_between(self, cuts: Sequence[int]) -> list[Counts]:
        """The counts of the rows cuts[0] to cuts[1], cuts[1] to cuts[2], ... in time order; needs an order."""
        ...

    def stream(self) -> Stream:
        """The rows in their order, a chunk at a time."""
        ...

    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode; needs episodes."""
        ...

    def trace(self) -> Trace | None:
        """The rows one after another, episode by episode; None where they have no order."""
        ...

    def number_rows(self) -> NumberRows:
        """The rows with the state's numbers as they are, for learners that need no state to be seen twice."""
        ...

    def coverage(self, level: float = 0.01) -> Coverage:
        """What the log can tell and what it cannot: support, drift, what is missing."""
        ...

    def check_ends(self) -> None:
        """Raise a LogError where episodes stop early and nothing says whether they ended there."""
        ...
