"""OpenEnds: the last row of every episode that may go on in a later log; so that the two logs can be put together.

An episode is open where its last row neither ended it nor stopped its recording. Where no column has the next state,
that row was not counted: what followed it is the first row of the same episode in the later log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dualq.base import Label
from dualq.logs.checks.trace import Trace
from dualq.logs.reading.arrow import picked

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

SAME = 1e-6  # of a step: times that are less apart are equal


@dataclass(frozen=True, eq=False)
class OpenEnds:
    """One entry for each open episode."""

    names: Sequence[tuple[Label, ...]] = field(repr=False)  # of the episode, a value per column; () where there is one
    s: Array = field(repr=False)  # places in the log's own labels
    a: Array = field(repr=False)
    r: Array = field(repr=False)
    t: Array = field(repr=False)
    uncounted: Array = field(repr=False)  # whether the row was left out, because nothing followed it
    costs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    step: float | None = None  # of a regular clock: rows are linked by it only

    @classmethod
    def of(cls, trace: Trace | None, step: float | None) -> OpenEnds | None:
        """Of the rows of a log; None where they do not say which episode they belong to."""
        if trace is None or not trace.whole or trace.labels is None:
            return None
        last = np.flatnonzero(np.append(np.diff(trace.episode) != 0, True)[: len(trace)])
        last = last[~(trace.ended | trace.cut | trace.bad)[last]]
        names = list(
            zip(
                *(picked(column.combine_chunks(), trace.episode[last]).to_pylist() for column in trace.labels.columns),
                strict=True,
            )
        )
        return cls(
            names if trace.labels.num_columns else [()] * last.size,
            trace.s[last],
            trace.a[last],
            trace.r[last],
            trace.t[last],
            trace.s_next[last] < 0,
            {cost: values[last] for cost, values in trace.costs.items()},
            step,
        )

    def going_on(self, later: Trace | None) -> tuple[Array, Array]:
        """Which of these go on in a later log (places here), and the rows there with which they do."""
        if later is None or later.labels is None or not self.names:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        begins = np.flatnonzero(np.append(True, np.diff(later.episode) != 0)[: len(later)])
        places = {name: i for i, name in enumerate(self.names)}
        columns = [column.to_pylist() for column in later.labels.columns]
        names = list(zip(*columns, strict=True)) if columns else [()] * begins.size
        found = [(places[name], row) for name, row in zip(names, begins.tolist(), strict=True) if name in places]
        mine, there = (
            (np.array(x, np.int64) for x in zip(*found, strict=True)) if found else (np.zeros(0, np.int64),) * 2
        )
        later_than = ~(later.t[there] < self.t[mine])
        return mine[later_than], there[later_than]

    def linked(self, mine: Array, later: Trace, there: Array) -> Array:
        """Whether the row here is followed by the row there: it was not counted, and no row is missing between."""
        at_once = np.ones(mine.size, bool)
        if self.step is not None:
            at_once = np.abs(later.t[there] - self.t[mine] - self.step) <= SAME * self.step
        return self.uncounted[mine] & at_once & ~later.bad[there] & (later.s[there] >= 0)


def _rows(names: pa.Table, rows: int) -> list[tuple[Label, ...]]:
    """The rows of a table as tuples; it may have no column."""
    return (
        list(zip(*(column.to_pylist() for column in names.columns), strict=True)) if names.num_columns else [()] * rows
    )
