"""TableLog: a log that stays where it lies; `read_log` makes one (reading/read_log.py).

It is a `Log` (log.py) in which the engine that holds the table counts. What depends on the order of rows is read off
them, one after another in arrays (checks/trace.py), where the log is not too long for that; else the engine is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from dualq.base import Labels, LogError, Rows, door
from dualq.logs.checks.battery import checks_of
from dualq.logs.checks.coverage import UNCLOCKED, Coverage
from dualq.logs.checks.drift import OverTime, Periods, drift_of, over_time, periods_of_table, periods_of_trace
from dualq.logs.checks.ends import check_said
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.markov import if_not_too_long, markov_of_table, markov_of_trace, unordered
from dualq.logs.checks.trace import MOST_ROWS, Trace, trace_of_table
from dualq.logs.counts import Counts
from dualq.logs.number_rows import NumberRows
from dualq.logs.reading.arrow import numbers_of
from dualq.logs.reading.coding import Coder
from dualq.logs.reading.columns import label_warnings
from dualq.logs.reading.counting import Counted, check_repeats, first_states, flags_of
from dualq.logs.reading.engines import answer, whole_number
from dualq.logs.reading.episodes import Episodes, episodes_of
from dualq.logs.reading.odd_values import value_warnings
from dualq.logs.reading.options import Columns
from dualq.logs.reading.progress import progress
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import Bins, Schema
from dualq.logs.reading.sources import Source, asking
from dualq.logs.rows_of_trace import rows_of_trace
from dualq.logs.stream import TableStream, time_order

Array = np.ndarray


@door
@dataclass(frozen=True, eq=False)
class TableLog:
    """A log in the engine that holds it; `read_log` makes one.

    Attributes
    ----------
    states, actions : Labels
        In the log's own values and types.
    dropped : int
        Rows that have no successor.
    skipped : int
        Bad rows that were set aside, in the file `quarantine`.
    guessed : {part: columns}
        What nobody named, and was found by its name.
    remarks, warnings : tuple of str
        How columns were read where that is not plain, and what in them may be wrong.

    Examples
    --------
    >>> import dualq
    >>> log = dualq.read_log({"state": [0, 1, 0], "action": ["go", "go", "stay"], "reward": [1, 2, 4], "t": [0, 1, 2]})
    >>> log.guessed["time"], list(log.actions)
    (('t',), ['go', 'stay'])
    >>> log.counts().total, log.dropped
    (2, 1)
    """

    opened: Source = field(repr=False)
    counted: Counted = field(repr=False)
    quarantine: Path  # where bad rows go, once there are some
    available: Array | None = field(default=None, repr=False)  # (S, A) which pairs exist, where the user said so

    # ---- what was read

    @property
    def source(self) -> str:
        """One line: where the rows come from."""
        return self.opened.metadata.source or self.opened.name

    @property
    def questions(self) -> Questions:
        """What can be asked of the engine."""
        return self.counted.questions

    @property
    def schema(self) -> Schema:
        """Which columns play which part."""
        return self.questions.schema

    @property
    def guessed(self) -> Mapping[str, tuple[str, ...]]:
        """{part: columns} that were not given, and found by their names."""
        return self.schema.guessed

    @property
    def bins(self) -> Mapping[str, Bins]:
        """{column: its Bins}: `log.bins["stock"].label(7.5)` is the label of a number."""
        return {column: bins for column, bins in self.questions.bins.items() if bins.edges}

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of the state that stay numbers: then there are no counts, and `number_rows` has the rows."""
        return self.questions.kept

    @property
    def remarks(self) -> tuple[str, ...]:
        """What became of columns when they were read, where it is not what was asked for."""
        own = {column: self.bins[column] for column in (*self.schema.state, *self.schema.action) if column in self.bins}
        return (*self.opened.remarks, *(f"{column}: {bins.remark}" for column, bins in own.items() if bins.remark))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What in the columns may be wrong, though it could be read."""
        asked = self.opened, self.questions, self.counted.counts
        return (*self.opened.warnings, *label_warnings(*asked), *value_warnings(*asked))

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """{"state": its columns, "next_state": ..., "action": ...}."""
        return {"state": self.schema.state, "next_state": self.schema.next_state, "action": self.schema.action}

    def __len__(self) -> int:
        return self.counted.counts.total

    def __repr__(self) -> str:
        actions = f"{len(self.actions):,} actions"
        states = f"states with numbers ({', '.join(self.numbers)})" if self.numbers else f"{len(self.states):,} states"
        return f"TableLog({self.source}: {len(self):,} rows, {states}, {actions})"

    # ---- counts

    def counts(self) -> Counts:
        """How often each transition occurs, and what it paid; counted once and kept."""
        self._check_labels()
        return self.counted.counts

    def _check_labels(self) -> None:
        """A LogError where columns of the state stay numbers: what speaks of labels would leave them out."""
        if self.numbers:
            stays = (
                f"{', '.join(map(repr, self.numbers))} {'stays a number' if len(self.numbers) == 1 else 'stay numbers'}"
            )
            right = f"read it with bins={dict.fromkeys(self.numbers, 8)}, or learn with approximation=..."
            raise LogError(f"{self.opened.name}: {stays}, so states cannot be counted; {right}")

    def counts_between(self, cuts: Sequence[int]) -> list[Counts]:
        """The counts of the rows cuts[0] to cuts[1], ... in time order."""
        counts, trace = self.counts(), self._whole_trace
        if trace is not None and (order := trace.in_time) is not None:
            return [_counts_of(trace, order[begin:end], counts) for begin, end in pairwise(cuts)]
        return self._blocks(cuts)

    def _blocks(self, cuts: Sequence[int]) -> list[Counts]:
        """The same from the engine: one GROUP BY with the block among the keys."""
        q, counts = self.questions, self.counts()
        with progress(self.opened, "putting in order"), asking(self.opened):
            groups = answer(q.by_block(time_order(q), list(cuts), self.dropped > 0))
        states, actions = self.coders
        s, s_next = (states.find([groups[name] for name in names]) for names in (q.s, q.n))
        a = actions.find([groups[name] for name in q.a])
        ended = flags_of(groups, "ended")
        s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
        block = numbers_of(groups["block"])
        sums = [
            numbers_of(groups[name])
            for name in ("n", *(f"{x}_{what}" for x in q.numbers for what in ("sum", "squares")))
        ]
        return [
            Counts.from_groups(
                s[here],
                a[here],
                s_next[here],
                ended[here],
                [column[here] for column in sums],
                q.schema.costs,
                states=counts.states,
                actions=counts.actions,
                reward_range=counts.reward_range,
                range_known=counts.range_known,
                cost_ranges=counts.cost_ranges,
                cost_ranges_known=counts.cost_ranges_known,
            )
            for here in (block == e for e in range(1, len(cuts)))
        ]

    @property
    def states(self) -> Labels:
        """The labels of the states, in order."""
        return self.counted.states.labels

    @property
    def actions(self) -> Labels:
        """The labels of the actions, in order."""
        return self.counted.actions.labels

    @property
    def reward_range(self) -> tuple[float, float]:
        """What rewards can be; where nobody said so, what they were."""
        return self.counted.counts.reward_range

    @property
    def range_known(self) -> bool:
        """Whether somebody said what rewards can be."""
        return self.counted.counts.range_known

    @property
    def cost_ranges(self) -> Mapping[str, tuple[float, float]]:
        """{cost: what it can be, or what it was}."""
        return self.counted.counts.cost_ranges

    @property
    def dropped(self) -> int:
        """Rows that have no successor."""
        return self.counted.dropped

    @property
    def skipped(self) -> int:
        """Bad rows that were set aside."""
        return self.counted.skipped

    @property
    def left_out(self) -> tuple[int, int]:
        """How many rows have no successor, and how many were set aside."""
        return self.dropped, self.skipped

    # ---- rows and episodes

    def stream(self) -> TableStream:
        """The rows in time order, a chunk at a time, in bounded memory."""
        self._check_labels()
        return TableStream(self.opened, self.counted)

    @property
    def coders(self) -> tuple[Coder, Coder]:
        """Of the states and of the actions: from the columns of the table to places."""
        return self.counted.states, self.counted.actions

    @property
    def has_order(self) -> bool:
        """Whether the rows can be read in the order in which they happened."""
        return self.schema.time is not None

    @property
    def has_episodes(self) -> bool:
        """Whether the log says where episodes begin: flags that never hold say nothing."""
        return self.questions.can_begin and bool(self.schema.episode or self.counted.counts.ended.any())

    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode."""
        return self._starts

    @cached_property
    def _starts(self) -> Array:
        self._check_labels()
        if not self.has_episodes:
            raise LogError(
                f"{self.opened.name}: the log does not say where episodes begin; give episode=... and time=..."
            )
        if (trace := self._whole_trace) is not None:
            return trace.starts
        with progress(self.opened, "looking for first states in"), asking(self.opened):
            return first_states(self.counted)

    # ---- what it cannot tell

    def coverage(self, level: float = 0.01) -> Coverage:
        """What the log can tell and what it cannot: support, drift, what is missing; computed once for each level."""
        self._check_labels()
        if level not in self._coverages:
            with progress(self.opened, "looking for drift in"), asking(self.opened):
                check_repeats(self.opened, self.questions, len(self))
                self._coverages[level] = self._coverage(level)
        return self._coverages[level]

    def _coverage(self, level: float) -> Coverage:
        counts, q = self.counts(), self.questions
        timed = q.schema.next_state and q.schema.time is not None
        jumps = whole_number(q.jumps()) if timed else None
        drift, by = drift_of(self._periods, counts.shape, level)
        memory, remarks = None, self.remarks
        if self.has_order:
            memory = if_not_too_long(counts, lambda: self.markov_test(level))
            remarks = remarks if by is not None else (*remarks, UNCLOCKED)
        else:
            untested = "whether the system changed, or earlier states matter, was not tested"
            remarks = (*remarks, f"{untested}: {unordered(q)}")
        checks = checks_of(self.trace(), level)
        used = len(self), self.dropped, self.skipped
        return Coverage(counts, *used, jumps, drift, by, level, memory, remarks, checks, self.warnings)

    def over_time(self, periods: int = 24) -> OverTime | None:
        """Rows, rewards and actions, period by period; None where no clock tells early rows from late ones."""
        cut, counts = self._periods(periods), self.counts()
        if cut is None:
            return None
        return over_time(cut, len(self.actions), float(counts.reward_sum.sum() / counts.total))

    def _periods(self, periods: int) -> Periods | None:
        trace = self._whole_trace
        return periods_of_table(self.counted, periods) if trace is None else periods_of_trace(trace, periods)

    @cached_property
    def _coverages(self) -> dict[float, Coverage]:
        return {}

    @cached_property
    def episodes(self) -> Episodes | None:
        """How many episodes there are, how long, and where they begin and stop; None where rows have no order."""
        with asking(self.opened):
            return episodes_of(self.questions) if self.has_order else None

    def trace(self) -> Trace | None:
        """The rows one after another, episode by episode; None where they have no order.

        Where states have numbers they are as large as the rows that are learned from: then the log has them only as
        long as somebody else does.
        """
        if not self.numbers:
            return self._trace
        trace = self._lent.get("trace") or self._read_trace()
        if trace is not None:
            self._lent["trace"] = trace
        return trace

    @cached_property
    def _lent(self) -> WeakValueDictionary[str, Trace]:
        return WeakValueDictionary()

    @cached_property
    def _trace(self) -> Trace | None:
        return self._read_trace()

    def _read_trace(self) -> Trace | None:
        with progress(self.opened, "reading row by row"), asking(self.opened):
            return trace_of_table(self.counted) if self.has_order else None

    def number_rows(self, numbers: Columns = None) -> NumberRows:
        """The rows with the state's numbers as they are, and its other columns as places of their labels.

        numbers   columns that are to be numbers; by default those that stayed numbers, those in bins, and those whose
                  labels are many different numbers. () makes a category of every column.
        """
        trace = self.trace()
        if trace is None:
            with progress(self.opened, "reading row by row"), asking(self.opened):
                trace = trace_of_table(self.counted)
        rows, said = rows_of_trace(trace, self.states, self.actions, numbers, self.has_episodes), self.questions
        return replace(rows, reward_range=said.reward_range, cost_ranges=dict(said.cost_ranges))

    def propensity_rows(self) -> Trace | None:
        """The rows one after another, as they stand where they have no order; None without recorded propensities."""
        if self.schema.propensity is None:
            return None
        trace = self.trace()
        if trace is None:
            with progress(self.opened, "reading row by row"), asking(self.opened):
                trace = trace_of_table(self.counted)
        return trace

    @property
    def _whole_trace(self) -> Trace | None:
        """The rows one after another, where all of them are read: then the engine need not be asked of their order."""
        return self.trace() if len(self) + self.dropped <= MOST_ROWS else None

    def check_ends(self) -> None:
        """A LogError where episodes stop early and nothing says whether they ended there."""
        check_said(self.opened.name, self.counted, self.episodes, self.trace)

    def markov_test(self, level: float = 0.01) -> Finding:
        """Does the state before help to predict the next? If so, the state misses something."""
        self._check_labels()
        with progress(self.opened, "looking at the states before in"), asking(self.opened):
            if (trace := self._whole_trace) is not None:
                return markov_of_trace(trace, level)
            return markov_of_table(self.opened.name, self.counted, level)

    def digest(self) -> str:
        """A SHA-256 of the counts: other logs have others, and the order of the rows plays no part."""
        return self.counts().digest()


def _counts_of(trace: Trace, rows: Array, like: Counts) -> Counts:
    """The counts of some rows, which have a next state or ended; labels and ranges as others have them."""
    s, s_next = trace.s[rows], trace.s_next[rows]
    s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
    return Counts.from_rows(
        Rows(s, trace.a[rows], trace.r[rows], s_next, trace.ended[rows]),
        like.states,
        like.actions,
        like.reward_range,
        like.range_known,
        {cost: values[rows] for cost, values in trace.costs.items()},
        like.cost_ranges,
        like.cost_ranges_known,
    )
