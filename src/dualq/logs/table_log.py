"""TableLog: a log that stays where it lies; `read_log` opens one.

It is a `Log` (log.py) in which everything is computed by the engine that holds the table. `read_log` counts at once, so
that whatever is wrong with the table is said there: which file, which row, which value, and what would be right.

What becomes of a row

    used       it has a state, an action, a finite reward and a next state, or it ended its episode
    dropped    it has no successor: the last of an episode that was cut off or never finished, where no next_state
               column says what followed. Not an error; counted in `dropped`
    bad        anything else: an error, or with skip_bad=True written to a file (`quarantine`) and counted in `skipped`

Sums are float64; an engine adds in the order its threads come by, so sums of one log may differ in the last digits.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualq.base import Labels, LogError, ModelError, count
from dualq.logs.checks.coverage import Coverage, coverage_of_table, markov_test_of_table
from dualq.logs.checks.ends import check_said
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.trace import Trace, trace_of_table
from dualq.logs.counts import Counts
from dualq.logs.reading.auto_bins import asked_bins, found_bins
from dualq.logs.reading.bad_rows import check_text, quarantine_of, set_aside, stop_at_the_first
from dualq.logs.reading.coding import MOST, Coder, too_many
from dualq.logs.reading.columns import check_columns, label_warnings, with_clear_dates
from dualq.logs.reading.episodes import Episodes, episodes_of, with_clock, with_flag, with_gaps
from dualq.logs.reading.period import part_of
from dualq.logs.reading.queries import LARGEST, Questions, check_types
from dualq.logs.reading.schema import ROW, Bins, Schema, checked_bins, near, schema_of, without_guess
from dualq.logs.reading.sources import Source, batches, open_source, reading, with_whole_labels
from dualq.logs.reading.times import text_time
from dualq.logs.stream import TableStream, time_order

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

BATCH = 1 << 20  # groups fetched at a time
CHECKED_ROWS = 10_000_000  # up to here a time that repeats is looked for even where nothing depends on it
FIRST_LOOK = 10_000  # rows
SHOW_AFTER = 2.0  # seconds without a word


def read_log(
    source: Any,
    *,
    state: Any = None,
    action: Any = None,
    reward: str | None = None,
    next_state: Any = None,
    episode: Any = None,
    time: Any = None,
    terminal: Any = None,
    truncated: Any = None,
    costs: Any = None,
    bins: Mapping[str, Any] | str | None = None,
    reward_range: tuple[float, float] | None = None,
    cost_ranges: Mapping[str, tuple[float, float]] | None = None,
    available: Mapping[Any, Any] | None = None,
    skip_bad: bool = False,
    quarantine: str | os.PathLike | None = None,
    table: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    since: Any = None,
    until: Any = None,
    clock: str | None = None,
) -> TableLog:
    """Read a log: which columns of a table are the state, the action, the reward, and what followed.

    source        a path, a glob, a URL, an Ibis table, a pandas, Polars, Arrow or Spark frame, a dict of arrays, or a
                  Minari data set; a table in a database as "shop.duckdb::orders" or with table="orders"
    state, action, next_state, episode   a column, or a list of columns
    reward, time, terminal, truncated    a column; time="row" where the order of the rows is the order of time.
                  Columns that are not given are looked for by common names (`guessed`); False: there is none
                  terminal="last": every episode ended with its last row; truncated="last": recordings stopped there;
                  terminal="row": every row is a case of its own, and nothing follows it (discount 0)
    costs         columns whose average a policy may be told to keep below a limit
    bins          {column: number of quantile bins, a list of edges, or "auto"} for numbers in the state or the action;
                  "auto": for all numbers of the state. They are found in the earliest rows, and the others are counted
    reward_range, cost_ranges   what rewards and costs can be, if that is known; else it is what they were
    available     {state label: action labels} that exist there, for states where not all do; there may be actions among
                  them that the log never took: nothing is known of them, but "any policy" may take them
    skip_bad      set bad rows aside, in the file `quarantine`, rather than stop at the first
    delimiter     of a CSV file, if it is none of comma, tab, semicolon and bar
    columns       the names of the columns, for a CSV or Excel file whose first line is a row already
    since, until  read the rows from this time on, and before that one: the part that holds, where the system changed
    clock         "shared": time is one clock for all episodes; "episode": it counts the steps of each; else dualq sees
    """
    opened = open_source(source, table, delimiter, columns)
    given = {
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
        "episode": episode,
        "time": time,
        "terminal": terminal,
        "truncated": truncated,
        "costs": opened.kept.get("costs", ()) if costs is None else costs,
    }
    opened, given, last = _last_rows(opened, given)
    listed = [names for names in given.values() if isinstance(names, list | tuple)]
    single = [name for name in given.values() if isinstance(name, str)]
    _check_once(opened, itertools.chain(single, *listed))
    schema = schema_of(opened.name, opened.table.columns, given, opened.kept)
    _check_once(opened, schema.columns)
    _check_alike(opened, schema)
    if _guess_is_unique(opened, schema):
        guess = schema.guessed["episode"][0]
        opened = replace(opened, remarks=(*opened.remarks, f"{guess}: no two rows have the same, so it is no episode"))
        schema = without_guess(schema, "episode")
    if schema.time == "row" and not opened.ordered:
        raise LogError(f"{opened.name}: the rows of this table have no order of their own; give a time column")
    bins = asked_bins(opened, schema, bins)
    opened = with_clear_dates(with_whole_labels(opened, _labels(schema, bins)), schema)
    check_types(opened.name, opened.table, schema, bins, skip_bad)
    time_as = _time_as(opened, schema)
    _check_last(opened.name, schema, last)
    asked = Questions(opened.table, schema, skip_bad=skip_bad, ordered=opened.ordered, time_as=time_as, last=last)
    opened, asked = with_clock(opened, asked, clock)
    opened = part_of(opened, asked, since, until)
    opened, bins = found_bins(opened, asked.on(opened.table), bins)
    opened, asked = _understood(opened, asked.on(opened.table), given)
    schema = asked.schema
    made = checked_bins(opened.name, bins, schema, lambda c, q: _quantiles(opened, c, q))
    if reward_range is None:
        reward_range = opened.kept.get("reward_range")
    questions = replace(
        asked,
        bins=made,
        reward_range=None if reward_range is None else _range(opened.name, "reward", reward_range),
        cost_ranges=_cost_ranges(opened, schema, cost_ranges),
    )
    check_columns(opened, questions)
    declared = _listed_actions(schema, available or {})
    log = TableLog(opened, questions, quarantine_of(opened.name) if quarantine is None else Path(quarantine), declared)
    check_text(log)
    log.counts()
    return log if available is None else replace(log, available=_available(log, available))


def _last_rows(opened: Source, given: dict[str, Any]) -> tuple[Source, dict[str, Any], str | None]:
    """What terminal="last" or truncated="last" says of last rows, unless a column has that name."""
    said = [part for part in ("terminal", "truncated") if given[part] == "last"]
    if not said:
        return opened, given, None
    if "last" in opened.table.columns:
        remark = f"{said[0]}: the column last, since there is one of that name"
        return replace(opened, remarks=(*opened.remarks, remark)), given, None
    if len(said) == 2:
        wrong = 'terminal and truncated are both "last"'
        raise LogError(
            f"{opened.name}: {wrong}; episodes ended with their last rows, or their recordings stopped there"
        )
    return opened, given | {said[0]: False}, "ended" if said[0] == "terminal" else "cut"


def _check_last(name: str, schema: Schema, last: str | None) -> None:
    if last is None or (schema.episode and schema.time is not None):
        return
    part = "terminal" if last == "ended" else "truncated"
    needed = "which rows belong together: give episode=..." if schema.time is not None else "an order: give time=..."
    raise LogError(f'{name}: {part}="last" needs {needed}')


def _understood(opened: Source, asked: Questions, given: Mapping[str, Any]) -> tuple[Source, Questions]:
    """What the clock and the ends of episodes say of how rows are linked, and which column flags the end."""
    if asked.schema.time is None or asked.schema.terminal == ROW or (asked.schema.time == ROW and not asked.e):
        return opened, asked
    with reading(opened.name):
        facts = episodes_of(asked)
    opened, asked = with_flag(opened, asked, facts, given)
    return with_gaps(opened, asked, facts)


def _check_once(opened: Source, columns: Iterable[Any]) -> None:
    """A LogError where several columns of the file have one of these names: an engine would rename the second."""
    for column in columns:
        if str(column).lower() in opened.twice:
            raise LogError(f"{opened.name}: several columns have the name {column!r}; give them different ones")


def _check_alike(opened: Source, schema: Schema) -> None:
    """A LogError where labels are of several types: as text, 3 and "3" would be one."""
    parts = {part: getattr(schema, part) for part in ("state", "action", "next_state", "episode")}
    for part, column in ((part, column) for part, columns in parts.items() for column in columns):
        if column in opened.mixed:
            kinds = f"holds values of several types ({opened.mixed[column]})"
            raise LogError(f"{opened.name}: the {part} column {column!r} {kinds}; write them alike")


def _guess_is_unique(opened: Source, schema: Schema) -> bool:
    """Whether every row has its own value in the column that was taken for the episode, because of its name."""
    if "episode" not in schema.guessed or schema.time is None:
        return False
    with reading(opened.name):
        for table in (opened.table.limit(FIRST_LOOK), opened.table):  # the first rows say no at once, mostly
            column: Any = table[schema.guessed["episode"][0]]
            found = table.aggregate(known=column.count(), kinds=column.nunique()).to_pyarrow().to_pylist()[0]
            if found["known"] < 2 or found["kinds"] < found["known"]:
                return False
    return True


def _labels(schema: Schema, bins: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The columns that hold labels, a state's beside its next state's; numbers in bins are none."""
    following = schema.next_state or ((),) * len(schema.state)
    pairs = [(s, *([n] if n else [])) for s, n in zip(schema.state, following, strict=True)]
    return [part for part in (*pairs, *((c,) for c in (*schema.action, *schema.episode))) if part[0] not in bins]


def _time_as(opened: Source, schema: Schema) -> str | None:
    with reading(opened.name):
        return text_time(opened.name, opened.table, None if schema.time == ROW else schema.time)


def _range(name: str, what: str, given: Any) -> tuple[float, float]:
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not -np.inf < low <= high < np.inf:
        raise LogError(
            f"{name}: the range of {what} is {given!r}; it must be two finite numbers, the smaller one first"
        )
    return low, high


def _cost_ranges(opened: Source, schema: Schema, given: Mapping[str, Any] | None) -> dict[str, tuple[float, float]]:
    if given is None:
        kept = opened.kept.get("cost_ranges", {})
        given = {cost: pair for cost, pair in kept.items() if cost in schema.costs}
    for cost in given:
        if cost not in schema.costs:
            known = ", ".join(schema.costs) or "none"
            raise LogError(f"{opened.name}: a range is given for {cost!r}, which is no cost; the costs are {known}")
    return {cost: _range(opened.name, cost, pair) for cost, pair in given.items()}


def _quantiles(opened: Source, column: str, levels: list[float]) -> list[float]:
    from ibis.common.exceptions import OperationNotDefinedError

    with reading(opened.name):
        values: Any = opened.table[column].cast("float64")
        finite = opened.table.filter(values.abs() <= LARGEST)  # pyright: ignore[reportArgumentType]
        values = finite[column].cast("float64")
        asked = finite.aggregate(**{f"q{i}": values.quantile(q) for i, q in enumerate(levels)})
        try:
            edges: list[Any] = list(asked.to_pyarrow().to_pylist()[0].values())
        except OperationNotDefinedError:  # SQLite
            edges = _ranked(finite.select(value=values), levels)
    if any(edge is None for edge in edges):
        raise LogError(f"{opened.name}: the column {column!r} has no numbers to put into bins")
    return [float(edge) for edge in edges]


def _ranked(table: Any, levels: list[float]) -> list[Any]:
    """Quantiles of the column `value`, where the engine has no word for them: between the two nearest rows by rank."""
    import ibis

    places = np.array(levels) * (int(table.count().to_pyarrow().as_py()) - 1)
    near = sorted({int(place) for place in (*np.floor(places), *np.ceil(places))})
    ranked = table.mutate(rank=ibis.row_number().over(order_by=table.value))
    found = ranked.filter(ranked["rank"].isin(near)).order_by("rank").to_pyarrow()
    if len(found) == 0:
        return [None] * len(levels)
    return np.interp(places, found["rank"].to_numpy(), found["value"].to_numpy()).tolist()


@dataclass(frozen=True, eq=False)
class TableLog:
    """A log in the engine that holds it; `read_log` makes one."""

    opened: Source = field(repr=False)
    questions: Questions = field(repr=False)
    quarantine: Path  # where bad rows go, once there are some
    declared: tuple[tuple[Any, ...], ...] = ()  # actions that exist, taken or not: a value for each of their columns
    available: Array | None = field(default=None, repr=False)  # (S, A) which pairs exist, where the user said so

    # ---- what was read

    @property
    def source(self) -> str:
        """One line: where the rows come from."""
        return self.opened.kept.get("source") or self.opened.name

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
        return self.questions.bins

    @property
    def remarks(self) -> tuple[str, ...]:
        """What became of columns when they were read, where it is not what was asked for."""
        own = {column: self.bins[column] for column in (*self.schema.state, *self.schema.action) if column in self.bins}
        return (*self.opened.remarks, *(f"{column}: {bins.remark}" for column, bins in own.items() if bins.remark))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What in the columns may be wrong, though it could be read."""
        return (*self.opened.warnings, *label_warnings(self))

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """{"state": its columns, "next_state": ..., "action": ...}."""
        return {"state": self.schema.state, "next_state": self.schema.next_state, "action": self.schema.action}

    def __len__(self) -> int:
        return self.counts().total

    def __repr__(self) -> str:
        states, actions = len(self.states), len(self.actions)
        return f"TableLog({self.source}: {len(self):,} rows, {states:,} states, {actions:,} actions)"

    # ---- counts

    def counts(self) -> Counts:
        """How often each transition occurs, and what it paid; counted once and kept."""
        return self._counted.counts

    def counts_between(self, cuts: Sequence[int]) -> list[Counts]:
        """The counts of the rows cuts[0] to cuts[1], ... in time order: one GROUP BY with the block among the keys."""
        q, counts = self.questions, self.counts()
        with progress(self, "putting in order"), reading(self.opened.name):
            groups = q.by_block(time_order(q), list(cuts[1:-1]), self.dropped > 0).to_pyarrow()
        states, actions = self.coders
        s, s_next = (states.find([groups[name] for name in names]) for names in (q.s, q.n))
        a = actions.find([groups[name] for name in q.a])
        ended = _flags(groups, "ended")
        s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
        block = groups["block"].to_numpy()
        sums = [
            groups[name].to_numpy()
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
            for here in (block == e for e in range(len(cuts) - 1))
        ]

    @property
    def states(self) -> Labels:
        """The labels of the states, in order."""
        return self._counted.states.labels

    @property
    def actions(self) -> Labels:
        """The labels of the actions, in order."""
        return self._counted.actions.labels

    @property
    def reward_range(self) -> tuple[float, float]:
        """What rewards can be; where nobody said so, what they were."""
        return self.counts().reward_range

    @property
    def range_known(self) -> bool:
        """Whether somebody said what rewards can be."""
        return self.counts().range_known

    @property
    def cost_ranges(self) -> Mapping[str, tuple[float, float]]:
        """{cost: what it can be, or what it was}."""
        return self.counts().cost_ranges

    @property
    def dropped(self) -> int:
        """Rows that have no successor."""
        return self._counted.dropped

    @property
    def skipped(self) -> int:
        """Bad rows that were set aside."""
        return self._counted.skipped

    @cached_property
    def _counted(self) -> _Counted:
        return _count(self)

    # ---- rows and episodes

    def stream(self) -> TableStream:
        """The rows in time order, a chunk at a time, in bounded memory."""
        return TableStream(self)

    @property
    def coders(self) -> tuple[Coder, Coder]:
        """Of the states and of the actions: from the columns of the table to places."""
        return self._counted.states, self._counted.actions

    @property
    def has_order(self) -> bool:
        """Whether the rows can be read in the order in which they happened."""
        return self.schema.time is not None

    @property
    def has_episodes(self) -> bool:
        """Whether the log says where episodes begin: flags that never hold say nothing."""
        return self.questions.can_begin and bool(self.schema.episode or self.counts().ended.any())

    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode."""
        return self._starts

    @cached_property
    def _starts(self) -> Array:
        if not self.has_episodes:
            raise LogError(
                f"{self.opened.name}: the log does not say where episodes begin; give episode=... and time=..."
            )
        q = self.questions
        with progress(self, "looking for first states in"), reading(self.opened.name):
            found = q.first_states().to_pyarrow()
        places = self._counted.states.find([found[s].combine_chunks() for s in q.s])
        return np.bincount(places[places >= 0], found["n"].to_numpy()[places >= 0], len(self.states)).astype(np.int64)

    # ---- what it cannot tell

    def coverage(self, level: float = 0.01) -> Coverage:
        """What the log can tell and what it cannot: support, drift, what is missing; computed once for each level."""
        if level not in self._coverages:
            with progress(self, "looking for drift in"), reading(self.opened.name):
                _check_repeats(self)
                self._coverages[level] = coverage_of_table(self, level)
        return self._coverages[level]

    @cached_property
    def _coverages(self) -> dict[float, Coverage]:
        return {}

    @cached_property
    def episodes(self) -> Episodes | None:
        """How many episodes there are, how long, and where they begin and stop; None where rows have no order."""
        with reading(self.opened.name):
            return episodes_of(self.questions) if self.has_order else None

    def trace(self) -> Trace | None:
        """The rows one after another, episode by episode; None where they have no order."""
        return self._trace

    @cached_property
    def _trace(self) -> Trace | None:
        with progress(self, "reading row by row"), reading(self.opened.name):
            return trace_of_table(self) if self.has_order else None

    def check_ends(self) -> None:
        """A LogError where episodes stop early and nothing says whether they ended there."""
        check_said(self)

    def markov_test(self, level: float = 0.01) -> Finding:
        """Does the state before help to predict the next? If so, the state misses something."""
        with progress(self, "looking at the states before in"), reading(self.opened.name):
            return markov_test_of_table(self, level)

    def digest(self) -> str:
        """A SHA-256 of the counts: other logs have others, and the order of the rows plays no part."""
        return self.counts().digest()


class _Counted:
    """The engine's answer, in places."""

    def __init__(self, log: TableLog, groups: pa.Table, extremes: pa.Table, skipped: int):
        q, name = log.questions, log.opened.name
        self.skipped = skipped
        bins = [q.bins.get(column) for column in q.schema.state]
        sides = [[groups[c] for c in q.s], [groups[c] for c in q.n]]
        self.states = Coder(name, "state", q.schema.state, sides, bins)
        bins = [q.bins.get(column) for column in q.schema.action]
        taken = [groups[c] for c in q.a]
        self.actions = Coder(name, "action", q.schema.action, [taken, _declared(log, taken)], bins)
        s, s_next = self.states.places
        ended = _flags(groups, "ended")
        n = groups["n"].to_numpy()
        kept = ended | (s_next >= 0)
        self.dropped = int(n[~kept].sum())
        s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
        sums = [n, *(groups[f"{x}_{sum_}"].to_numpy() for x in q.numbers for sum_ in ("sum", "squares"))]
        seen = {x: _seen(extremes, x) for x in q.numbers}  # of all rows, those without a successor too
        self.counts = Counts.from_groups(
            s[kept],
            self.actions.places[0][kept],
            s_next[kept],
            ended[kept],
            [weight[kept] for weight in sums],
            q.schema.costs,
            states=self.states.labels,
            actions=self.actions.labels,
            reward_range=q.reward_range or seen["r"],
            range_known=q.reward_range is not None,
            cost_ranges={column: known or seen[x] for x, (column, known) in q.numbers.items() if x != "r"},
            cost_ranges_known=frozenset(q.cost_ranges),
        )


def _declared(log: TableLog, taken: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """The actions that were declared, a column for each of the log's, of its type."""
    import pyarrow as pa

    columns = []
    for i, (name, column) in enumerate(zip(log.schema.action, taken, strict=True)):
        values = [label[i] for label in log.declared]
        if name in log.bins:
            words = log.bins[name].labels
            wrong = [value for value in values if value not in words]
            if wrong:
                raise LogError(f"available: {wrong[0]!r} is no bin of {name!r}{near(str(wrong[0]), words)}")
            values = [words.index(value) for value in values]
        parts = []
        for value in values:
            try:
                parts.append(pa.array([value], column.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                raise LogError(f"available: actions in {name!r} are {column.type} in the log; got {value!r}") from None
        columns.append(pa.chunked_array(parts, column.type))
    return columns


def _flags(groups: pa.Table, name: str) -> Array:
    if name not in groups.column_names:
        return np.zeros(groups.num_rows, bool)
    return groups[name].fill_null(False).to_numpy().astype(bool)


def _seen(groups: pa.Table, name: str) -> tuple[float, float]:
    low, high = (groups[f"{name}_{end}"].to_numpy() for end in ("low", "high"))
    return (float(low.min()), float(high.max())) if low.size else (0.0, 0.0)


def _count(log: TableLog) -> _Counted:
    """One GROUP BY; a second question only where its answer shows that some row is bad."""
    name, q = log.opened.name, log.questions
    with progress(log, "counting"):
        groups, extremes = _answers(log)
    rejected = log.opened.rejects() if log.opened.rejects is not None else []
    skipped = len(rejected)
    if rejected and not q.skip_bad:
        file, line, message, text = rejected[0]
        advice = "correct it, or set such lines aside with skip_bad=True (--skip-bad)"
        raise LogError(f"{file}: line {line} is no row of the table, {text!r}: {message}; {advice}")
    if groups.num_rows == 0 and not q.skip_bad:
        raise LogError(f"{name}: there are no rows")
    if not q.skip_bad and _some_bad(groups, extremes, q):
        stop_at_the_first(log)
    if _repeats(log, int(np.sum(groups["n"].to_numpy()))):
        log = replace(log, questions=replace(q, repeats=True))
        if not q.skip_bad:
            stop_at_the_first(log)
        groups, extremes = _answers(log)
    if q.skip_bad:
        skipped += set_aside(log, rejected)
        if groups.num_rows == 0:
            raise LogError(f"{name}: no row is left; all {skipped:,} are bad, see {log.quarantine}")
    counted = _Counted(log, groups, extremes, skipped)
    if counted.counts.total == 0:
        few = f"{count(counted.dropped, 'row')} without a successor, and no other"
        advice = "is every row an episode of its own? Check episode=... and time=..., or give next_state=..."
        if "episode" in log.guessed:
            taken = f"the column {log.schema.episode[0]!r} was taken for the episode, because of its name"
            advice = f"{taken}: if it is none, say episode=False (--episode none); else give time=... or next_state=..."
        raise LogError(f"{name}: {few}; {advice}")
    return counted


def _fetch(log: TableLog, expression: Any) -> pa.Table:
    """The groups, a batch at a time, stopping when there are too many states."""
    import pyarrow as pa

    q, found, fetched, next_look = log.questions, [], 0, 2 * MOST
    with reading(log.opened.name):
        reader = batches(expression, BATCH)
        for batch in reader:
            found.append(batch)
            fetched += batch.num_rows
            if fetched > next_look:
                states = pa.Table.from_batches(found).select(q.s).group_by(q.s).aggregate([]).num_rows
                if states > MOST:
                    raise LogError(too_many(log.opened.name, q.schema.state, states))
                next_look = 2 * fetched
        return pa.Table.from_batches(found) if found else reader.schema.empty_table()


def _answers(log: TableLog) -> tuple[pa.Table, pa.Table]:
    """The groups, and the table that has the ranges of the numbers: the groups themselves, or one row for all."""
    groups = _fetch(log, log.questions.counts())
    return groups, groups if "r_low" in groups.column_names else _fetch(log, log.questions.extremes())


def _some_bad(groups: pa.Table, extremes: pa.Table, q: Questions) -> bool:
    """Whether some row is bad, by the sums alone."""
    keys = [*q.s, *q.a, *(["ended"] if "ended" in groups.column_names else [])]
    if any(groups[key].null_count for key in keys):
        return True
    n = groups["n"].to_numpy()
    for name, (_, known) in q.numbers.items():
        if (extremes[f"{name}_known"].to_numpy() != extremes["n"].to_numpy()).any():
            return True
        if not np.isfinite(groups[f"{name}_sum"].to_numpy()).all():
            return True
        if known is not None:
            low, high = _seen(extremes, name)
            if low < known[0] or high > known[1]:
                return True
    for column in ("t_known", "cut_known", *(f"{e}_known" for e in q.e)):
        if column in groups.column_names and (groups[column].to_numpy() != n).any():
            return True
    if "t_again" in groups.column_names and groups["t_again"].to_numpy().any():
        return True
    if q.schema.next_state:
        missing = np.zeros(n.size, bool)
        for column in q.n:
            missing |= groups[column].is_null().to_numpy()
        return bool((missing & ~_flags(groups, "ended")).any())
    return False


def _repeats(log: TableLog, rows: int, at_once: bool = True) -> bool:
    """Whether some time repeats in a log that has next states; looked for at once unless the log is long."""
    q = log.questions
    if not (q.schema.next_state and q.schema.episode and q.schema.time not in (None, "row")):
        return False
    if at_once != (rows <= CHECKED_ROWS):
        return False
    with reading(log.opened.name):
        return bool(q.repeated().to_pyarrow().as_py())


def _check_repeats(log: TableLog) -> None:
    """A LogError where some time repeats in a long log with next states: its counts were made without looking."""
    if _repeats(log, len(log), at_once=False):
        stop_at_the_first(replace(log, questions=replace(log.questions, repeats=True)))


# ---- small things


def _listed_actions(schema: Schema, available: Any) -> tuple[tuple[Any, ...], ...]:
    """Every action that is listed in `available`, a value for each of its columns."""
    names, right = schema.action, "it must be {state: [actions]}"
    if not isinstance(available, Mapping):
        raise LogError(f"available is {available!r}; {right}")
    found = []
    for state, actions in available.items():
        if isinstance(actions, str | Mapping) or not isinstance(actions, Iterable):
            raise LogError(f"available: for {state!r} there is {actions!r}; {right}")
        for action in actions:
            parts = [action.get(name) for name in names] if isinstance(action, Mapping) else action
            parts = tuple(parts) if isinstance(parts, list | tuple) else (parts,)
            if len(parts) != len(names) or any(part is None for part in parts):
                raise LogError(f"available: an action needs {', '.join(names)}; got {action!r}")
            found.append(parts)
    return tuple(found)


def _available(log: TableLog, given: Mapping[Any, Any]) -> Array:
    """(S, A) which actions exist where: those listed; all, in states that are not."""
    counts = log.counts()
    mask = np.ones(counts.shape, bool)
    for state, actions in given.items():
        try:
            s = log.states.index(state)
            places = [log.actions.index(action) for action in actions]
        except ModelError as error:
            raise LogError(f"available: {error}") from None
        mask[s] = False
        mask[s, places] = True
    seen = np.argwhere((counts.visits > 0) & ~mask)
    if seen.size:
        s, a = map(int, seen[0])
        where = f"{log.states.describe(s)}, {log.actions.describe(a)}"
        rows = count(int(counts.visits[s, a]), "row")
        raise LogError(f"available: the log has {rows} with {where}, which is not listed there")
    return mask


@contextmanager
def progress(log: TableLog, doing: str) -> Iterator[None]:
    """A word on standard error, where that is a terminal, once something has taken two seconds."""
    import sys
    import threading

    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    console, done = Console(stderr=True), threading.Event()

    def show() -> None:
        if done.wait(SHOW_AFTER):
            return
        with console.status(f"{doing} {log.opened.name} ...") as status:
            while not done.wait(0.5):
                share = _share(log)
                if share > 0.0:
                    status.update(f"{doing} {log.opened.name}: {share:.0f}%")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _share(log: TableLog) -> float:
    """How much of the running query DuckDB has done, in percent; 0 where nobody knows."""
    con: Any = getattr(log.opened.table.get_backend(), "con", None)
    return float(con.query_progress()) if hasattr(con, "query_progress") else 0.0
