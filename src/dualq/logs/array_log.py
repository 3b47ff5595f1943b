"""ArrayLog: a log held in arrays, a row per decision.

    state, action, reward, next_state   what was seen, done, earned, and seen next
    time                                the order of the rows
    episode                             which episode the row belongs to, where that is known
    ended                               whether the row ended an episode: nothing follows, the value of next_state is 0

States and actions are places 0, 1, 2, ..., and `states` and `actions` have their labels.
A table or a file has the labels themselves; where a state has several parts (stock, season), each part has a column
(stock, season, next_stock, next_season) instead of `state` and `next_state`. A column `ended` is there if some row
ended.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Label, Labels, LogError, Recorded, Rows, as_whole, door, write_whole
from dualq.logs.checks.battery import checks_of
from dualq.logs.checks.coverage import Coverage
from dualq.logs.checks.drift import drift_of, periods_of_trace
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.markov import if_not_too_long, markov_of_trace
from dualq.logs.checks.trace import Clock, Trace
from dualq.logs.counts import Counts, Range, check_costs, check_rows
from dualq.logs.number_rows import NumberRows
from dualq.logs.reading.options import Columns
from dualq.logs.reading.schema import Bins
from dualq.logs.reading.sources import METADATA
from dualq.logs.rows_of_trace import rows_of_trace

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

TABLE_CHUNK = 1 << 20  # rows


@door
@dataclass(frozen=True, eq=False, init=False)
class ArrayLog:
    """Recorded transitions, checked once and read-only after.

    Parameters
    ----------
    state, action, reward, next_state : array_like, (rows,)
        Places of labels 0, 1, 2, ..., and rewards.
    states, actions : Labels, int or sequence
        Labels, or how many there are: 0, 1, 2, ...
    ended : array_like of bool, optional
        Whether an episode ended with the row; nowhere, if not given.
    time : array_like of int, optional
        0, 1, 2, ... if not given. Rows are kept in its order (see stream.py).
    reward_range : (float, float), optional
        What rewards can be, if that is known. If not, it is what they were, and `range_known` is False.
    source : str
        One line: where the rows come from.
    episode : array_like of int, optional
        Which episode each row belongs to.
    costs : {cost: array_like}
        What each row cost, and `cost_ranges` what costs can be, for those where that is known.

    Examples
    --------
    >>> import dualq
    >>> log = dualq.ArrayLog([0, 1, 1], [0, 0, 1], [1.0, 2.0, 3.0], [1, 1, 0], states=2, actions=["wait", "go"])
    >>> len(log), log.reward_range
    (3, (1.0, 3.0))
    >>> log.counts().visits
    array([[1, 0],
           [1, 1]])
    """

    state: Array = field(repr=False)
    action: Array = field(repr=False)
    reward: Array = field(repr=False)
    next_state: Array = field(repr=False)
    states: Labels
    actions: Labels
    ended: Array = field(repr=False)
    time: Array = field(repr=False)
    reward_range: Range
    source: str
    episode: Array | None = field(repr=False)
    costs: Mapping[str, Array] = field(repr=False)
    cost_ranges: Mapping[str, Range]
    range_known: bool
    cost_ranges_known: frozenset[str]
    restarts: bool = field(repr=False)  # whether time counts the steps of each episode

    def __init__(
        self,
        state: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        next_state: ArrayLike,
        states: Labels | Sequence[Label] | int,
        actions: Labels | Sequence[Label] | int,
        ended: ArrayLike | None = None,
        time: ArrayLike | None = None,
        reward_range: Range | None = None,
        source: str = "arrays",
        episode: ArrayLike | None = None,
        costs: Mapping[str, ArrayLike] | None = None,
        cost_ranges: Mapping[str, Range] | None = None,
    ):
        states = states if isinstance(states, Labels) else Labels(states, "state")
        actions = actions if isinstance(actions, Labels) else Labels(actions, "action")
        rows = Recorded(state, action, reward, next_state, ended).rows
        seen = check_rows(rows, states, actions, reward_range)
        low, high = seen if reward_range is None else reward_range
        columns: dict[str, Array] = dict(zip(("state", "action", "reward", "next_state", "ended"), rows, strict=True))
        columns["time"] = np.arange(rows.s.size) if time is None else _whole_numbers("time", time, rows.s.size)
        if episode is not None:
            columns["episode"] = _whole_numbers("episode", episode, rows.s.size)
        paid, ranges = check_costs(costs or {}, rows.s.size, cost_ranges or {})
        restarts = time is not None and _restarts(columns["time"], columns.get("episode"))
        order = None if time is None else _time_order(columns["time"], columns.get("episode"), restarts)
        for name, column in columns.items():
            columns[name] = column.view() if order is None else column[order]
            columns[name].flags.writeable = False
        vars(self).update(
            {"episode": None, **columns},
            states=states,
            actions=actions,
            reward_range=(float(low), float(high)),
            source=source,
            costs=paid if order is None else {name: x[order] for name, x in paid.items()},
            cost_ranges=ranges,
            range_known=reward_range is not None,
            cost_ranges_known=frozenset(cost_ranges or {}),
            restarts=restarts,
        )

    def having_seen(self, reward_range: Range, cost_ranges: Mapping[str, Range]) -> ArrayLog:
        """The same rows, where others that are not here paid and cost so much: what was seen, not what is known."""
        other = copy.copy(self)
        if not self.range_known:
            vars(other).update(reward_range=_both(self.reward_range, reward_range))
        seen = {cost: cost_ranges[cost] for cost in cost_ranges if cost not in self.cost_ranges_known}
        wider = {cost: _both(self.cost_ranges[cost], found) for cost, found in seen.items()}
        vars(other).update(cost_ranges={**self.cost_ranges, **wider})
        return other

    @classmethod
    def from_rows(
        cls,
        rows: Rows,
        states: Labels,
        actions: Labels,
        reward_range: Range | None = None,
        source: str = "rows",
        episode: ArrayLike | None = None,
    ) -> ArrayLog:
        """A log of rows as streams give them, in their order; the rows are shared, not copied."""
        s, a, r, s_next, ended = rows
        return cls(s, a, r, s_next, states, actions, ended, reward_range=reward_range, source=source, episode=episode)

    quarantine = None  # nothing is set aside
    left_out = (0, 0)  # and every row has a successor
    has_order = True  # rows are kept in the order in which they happened

    @property
    def bins(self) -> dict[str, Bins]:
        """Nothing was cut into bins."""
        return {}

    @property
    def numbers(self) -> tuple[str, ...]:
        """None: every state is a label."""
        return ()

    @property
    def guessed(self) -> dict[str, tuple[str, ...]]:
        """Nothing: the columns are what they were given as."""
        return {}

    @property
    def available(self) -> None:
        """Nobody said which pairs exist."""
        return None

    def __len__(self) -> int:
        return len(self.state)

    # ---- what algorithms read

    @property
    def rows(self) -> Rows:
        """The columns that algorithms read."""
        return Rows(self.state, self.action, self.reward, self.next_state, self.ended)

    def stream(self) -> Recorded:
        """The rows in their order, a chunk at a time."""
        return Recorded(*self.rows)

    def counts(self) -> Counts:
        """How often each transition occurs, and what it paid."""
        costs = self.costs, self.cost_ranges, self.cost_ranges_known
        return Counts.from_rows(self.rows, self.states, self.actions, self.reward_range, self.range_known, *costs)

    def counts_between(self, cuts: Sequence[int]) -> list[Counts]:
        """The counts of the rows cuts[0] to cuts[1], cuts[1] to cuts[2], ..."""
        return [
            Counts.from_rows(
                Rows(*(column[begin:end] for column in self.rows)),
                self.states,
                self.actions,
                self.reward_range,
                self.range_known,
                {cost: column[begin:end] for cost, column in self.costs.items()},
                self.cost_ranges,
                self.cost_ranges_known,
            )
            for begin, end in pairwise(cuts)
        ]

    @property
    def has_episodes(self) -> bool:
        """Whether the log says where episodes begin: they are numbered, or some row ended one."""
        return self.episode is not None or bool(self.ended.any())

    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode."""
        if not self.has_episodes:
            raise LogError("no row of the log ends an episode, so it does not say where episodes begin")
        return self.trace().starts

    def by_episode(self) -> tuple[Array, Array]:
        """(rows,) an order of the rows, one episode after another and each by time; and where in it episodes begin."""
        first = np.zeros(len(self), bool)
        first[:1] = True
        if self.episode is None:
            return np.argsort(self.time, kind="stable"), first
        order = np.lexsort((self.time, self.episode))
        first[1:] = np.diff(self.episode[order]) != 0
        return order, first

    def coverage(self, level: float = 0.01) -> Coverage:
        """What the log can tell and what it cannot: support, drift, what is missing."""
        counts, trace = self.counts(), self.trace()
        jumps = int((~trace.first[1:] & ~trace.follows[1:]).sum())
        drift, by = drift_of(lambda periods: periods_of_trace(trace, periods), counts.shape, level)
        memory = if_not_too_long(counts, lambda: markov_of_trace(trace, level))
        checks = checks_of(trace, level)
        return Coverage(counts, len(self), 0, 0, jumps, drift, by, level, memory, checks=checks)

    def trace(self) -> Trace:
        """The rows one after another, episode by episode."""
        order, first = self.by_episode()
        rows = Rows(*(column[order] for column in self.rows))
        clock, by = (self.time, "time") if self.episode is None or not self.restarts else (self.episode, "episode")
        return Trace(
            s=rows.s,
            a=rows.a,
            r=rows.r,
            s_next=rows.s_next,
            ended=rows.ended,
            cut=np.zeros(len(self), bool),
            bad=np.zeros(len(self), bool),
            episode=np.cumsum(first) - 1,
            t=self.time[order].astype(float),
            shape=(len(self.states), len(self.actions)),
            costs={cost: values[order] for cost, values in self.costs.items()},
            has_episodes=self.episode is not None,
            restarts=self.restarts,
            numbered=self.episode is not None and self.episode.dtype.kind in "biufM",
            clock=Clock(clock[order].astype(float), "whole", by),
        )

    def number_rows(self, numbers: Columns = None) -> NumberRows:
        """The rows with labels that are numbers as numbers; numbers: the columns, by default those with many values."""
        rows = rows_of_trace(self.trace(), self.states, self.actions, numbers, self.has_episodes)
        costs = {cost: found for cost, found in self.cost_ranges.items() if cost in self.cost_ranges_known}
        return replace(rows, reward_range=self.reward_range if self.range_known else None, cost_ranges=costs)

    def check_ends(self) -> None:
        """Nothing to ask: `ended` says of every row whether it ended its episode."""

    def markov_test(self, level: float = 0.01) -> Finding:
        """Does the state before help to predict the next? If so, the state misses something."""
        return markov_of_trace(self.trace(), level)

    def digest(self) -> str:
        """A SHA-256 of the counts: other logs have others, and the order of the rows plays no part."""
        return self.counts().digest()

    # ---- what people read

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """{"state": its columns in a table, "next_state": ..., "action": ...}."""
        columns: dict[str, tuple[str, ...]] = {}
        taken = {"reward", "time", "ended", "episode"}
        for name, labels, prefix in (
            ("action", self.actions, ""),
            ("state", self.states, ""),
            ("next_state", self.states, "next_"),
        ):
            parts = (name,) if len(labels.names) == 1 else tuple(prefix + part for part in labels.names)
            columns[name] = tuple(f"{name}_{part}" if part in taken else part for part in parts)
            taken |= set(columns[name])
        return columns

    def table(self) -> pa.Table:
        """The log as an Arrow table, in labels, with the reward range among the schema's metadata."""
        import pyarrow as pa

        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        columns |= _labelled(self.columns["state"], self.states, self.state)
        columns |= _labelled(self.columns["action"], self.actions, self.action)
        columns["reward"] = pa.array(self.reward)
        columns |= _labelled(self.columns["next_state"], self.states, self.next_state)
        columns["time"] = pa.array(self.time)
        if self.episode is not None:
            columns["episode"] = pa.array(self.episode)
        if self.ended.any():
            columns["ended"] = pa.array(self.ended)
        for cost, values in self.costs.items():
            if cost in columns:
                raise LogError(
                    f"the cost {cost!r} has the name of another column; call it otherwise",
                    argument="costs",
                    column=cost,
                    value=cost,
                )
            columns[cost] = pa.array(values)
        beside: dict[str, object] = {"source": self.source, "columns": self.columns}
        if self.range_known:
            beside["reward_range"] = self.reward_range
        if self.costs:
            beside["costs"] = list(self.costs)
            beside["cost_ranges"] = {cost: self.cost_ranges[cost] for cost in sorted(self.cost_ranges_known)}
        return pa.table(columns, metadata={METADATA: json.dumps(beside).encode()})

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as a Parquet file, whole or not at all; rewards are exact."""
        import pyarrow as pa
        from pyarrow import parquet

        sink = pa.BufferOutputStream()
        parquet.write_table(self.table(), sink)
        write_whole(path, sink.getvalue().to_pybytes())


def _both(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _whole_numbers(name: str, values: ArrayLike, rows: int) -> Array:
    column = as_whole(name, values, np.int64)
    if column.shape != (rows,):
        raise LogError(f"the column {name} has {column.size} rows; the others have {rows}", column=name)
    return column


def _restarts(time: Array, episode: Array | None) -> bool:
    """Whether time counts the steps of each episode, rather than days that all of them share (episodes.py)."""
    if episode is None or episode.size == 0:
        return False
    order = np.lexsort((time, episode))
    begins = np.flatnonzero(np.diff(episode[order], prepend=episode[order[0]] - 1))
    first, last = time[order][begins], time[order][np.append(begins[1:], time.size) - 1]
    if first.size < 2 or first.min() < first.max():
        return False
    return last.min() < last.max() or first.size > np.unique(time).size


def _time_order(time: Array, episode: Array | None, restarts: bool) -> Array | None:
    """The rows in time order; None where they stand in it already."""
    keys = [time] if episode is None else [time, episode] if restarts else [episode, time]  # the last comes first
    order = np.lexsort(keys)
    return None if (np.diff(order) == 1).all() else order


def _labelled(names: tuple[str, ...], labels: Labels, places: Array) -> dict[str, pa.ChunkedArray]:
    """{column: the labels at these places}, one column for each of their parts; types as the labels have them."""
    import pyarrow as pa

    parts = labels.columns().values() if len(labels) else [[] for _ in names]
    columns = {}
    for name, part in zip(names, parts, strict=True):
        kinds = sorted({type(value).__name__ for value in part})
        if len(kinds) > 1:  # Arrow would make 1.0 of 1 beside 0.5
            several = f"labels of the column {name!r} are of several types, {' and '.join(kinds)}"
            raise LogError(f"{several}; a column must have one", column=name)
        try:
            values = pa.array(part)
        except (pa.ArrowException, OverflowError) as error:
            raise LogError(f"labels of the column {name!r} cannot be kept in a table ({error})", column=name) from None
        chunks = [values.take(pa.array(places[i : i + TABLE_CHUNK])) for i in range(0, len(places), TABLE_CHUNK)]
        columns[name] = pa.chunked_array(chunks, values.type)
    return columns
