"""read_log: from any source to a TableLog.

It counts at once, so that whatever is wrong with the table is said there: which file, which row, which value, and what
would be right.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dualq.base import Label, LogError, checked_range, door
from dualq.logs.counts import Range
from dualq.logs.reading.auto_bins import asked_bins, found_bins
from dualq.logs.reading.available import available_pairs, listed_actions
from dualq.logs.reading.bad_rows import check_text, quarantine_of
from dualq.logs.reading.column_types import check_types
from dualq.logs.reading.columns import check_columns, with_clear_dates
from dualq.logs.reading.counting import count_table
from dualq.logs.reading.decisions import LARGEST
from dualq.logs.reading.engines import reading
from dualq.logs.reading.episodes import episodes_of, with_clock, with_flag, with_gaps
from dualq.logs.reading.expressions import Table, row_number, window
from dualq.logs.reading.number_columns import asked_numbers, named_numbers, with_action_bins
from dualq.logs.reading.odd_values import with_numbers
from dualq.logs.reading.open_source import about_source, open_source
from dualq.logs.reading.options import ActionBins, BinsAsked, Columns, Moment, OneColumn
from dualq.logs.reading.order import with_order
from dualq.logs.reading.period import part_of
from dualq.logs.reading.profile import are_different
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW, Schema, checked_bins, schema_of, without_guess
from dualq.logs.reading.sources import Source, with_whole_labels
from dualq.logs.reading.times import TextTime, text_time
from dualq.logs.table_log import TableLog

FIRST_LOOK = 10_000  # rows


@door
@about_source
def read_log(
    source: object,
    *,
    state: Columns = None,
    action: Columns = None,
    reward: str | None = None,
    next_state: Columns = None,
    episode: Columns = None,
    time: OneColumn = None,
    terminal: OneColumn = None,
    truncated: OneColumn = None,
    costs: Columns = None,
    propensity: str | None = None,
    bins: BinsAsked | None = None,
    action_bins: ActionBins | None = None,
    numbers: Columns = None,
    reward_range: Range | None = None,
    cost_ranges: Mapping[str, Range] | None = None,
    available: Mapping[Label, Iterable[Label]] | None = None,
    skip_bad: bool = False,
    quarantine: str | os.PathLike[str] | None = None,
    table: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    clock: str | None = None,
    day_first: bool | None = None,
) -> TableLog:
    """Read a log: which columns of a table are the state, the action, the reward, and what followed.

    The rows stay where they lie, and are counted there, at once: whatever is wrong with the table is said here.

    Parameters
    ----------
    source : path, URL, frame, table or dict of arrays
        A path, a glob, a URL, an Ibis table, a pandas, Polars, Arrow or Spark frame, a dict of arrays, or a Minari
        data set; a table in a database as "shop.duckdb::orders" or with table="orders".
    state, action : str or list of str, optional
        The columns of what was known when deciding, and of what was decided. Columns that are not given, here and
        below, are looked for by common names (`log.guessed`); False says that there is none.
    reward : str, optional
        The column of what was earned.
    next_state : str or list of str, optional
        The columns of the state afterwards. Without them it is the state of the next row of the episode.
    episode : str or list of str, optional
        Which rows belong together, such as shop or patient.
    time : str, optional
        The order of the rows; "row" where it is the order in which they stand.
    terminal : str, optional
        True where an episode ended. "last": every episode ended with its last row. "early": so did those that stop
        before the last time of the log; of the others the recording stopped. "row": every row is a case of its own,
        and nothing follows it (discount 0).
    truncated : str, optional
        True where a recording stopped. "last": recordings stopped with the last rows.
    costs : list of str, optional
        Columns whose average a policy may be told to keep below a limit.
    propensity : str, optional
        With which probability the logged action was taken, where that was recorded: between 0 and 1, and not 0.
        `evaluate` then weighs the log's own returns too.
    bins : {column: int, list of edges or "auto"} or "auto", optional
        How numbers in the state or the action become labels: so many bins with equally many rows, or between these
        edges. "auto" finds them in the earliest rows, and counts the others.
    action_bins : int or list of edges, optional
        The same for an action of one column: so many steps, or between these edges.
    numbers : list of str or "auto", optional
        Columns of the state that stay numbers, for learners that need no state to be seen twice (`log.number_rows`).
        "auto" takes the numbers with more than 20 values, if those of one hardly come again or states do not.
    reward_range : (float, float), optional
        What rewards can be, if that is known; else it is what they were.
    cost_ranges : {cost: (float, float)}, optional
        The same of costs.
    available : {state: actions}, optional
        The actions that exist in states where not all do. There may be some among them that the log never took:
        nothing is known of them, but "any policy" may take them.
    skip_bad : bool, default False
        Set bad rows aside rather than stop at the first.
    quarantine : path, optional
        The file in which they are set aside; the log's name with .bad, if not given.
    table : str, optional
        The table of a database, or the sheet of a workbook.
    delimiter : str, optional
        Of a CSV file, if it is none of comma, tab, semicolon and bar.
    columns : list of str, optional
        The names of the columns, for a CSV or Excel file whose first line is a row already.
    since, until : number, date or str, optional
        Read the rows from this time on, and before that one: the part that holds, where the system changed.
    clock : {"shared", "episode"}, optional
        Whether time is one clock for all episodes, or counts the steps of each; else dualq sees.
    day_first : bool, optional
        Whether dates such as 03/04/2024 begin with the day, or with the month; else dualq sees, or asks.

    Returns
    -------
    TableLog
        A `Log`.

    Raises
    ------
    LogError
        What is wrong, with its file, row, column and value, and what would be right.

    Examples
    --------
    >>> import dualq
    >>> rows = {
    ...     "stock": [0, 2, 1, 0],
    ...     "order": [2, 0, 0, 2],
    ...     "profit": [-1.0, 3.0, 3.0, -1.0],
    ...     "day": [1, 2, 3, 4],
    ... }
    >>> log = dualq.read_log(rows, state="stock", action="order", reward="profit", time="day")
    >>> log
    TableLog(arrays: 3 rows, 3 states, 2 actions)
    >>> log.dropped  # the last row: nobody saw what followed
    1
    >>> dualq.read_log(rows, state="stock", action="order", reward="profits", time="day")
    Traceback (most recent call last):
    dualq.base.errors.LogError: arrays: reward is 'profits', but there is no such column; did you mean 'profit'?
    """
    opened = open_source(source, table, delimiter, columns)
    files = opened.files
    given: Mapping[str, Columns] = {
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
        "episode": episode,
        "time": time,
        "terminal": terminal,
        "truncated": truncated,
        "costs": opened.metadata.costs if costs is None else costs,
        "propensity": propensity,
    }
    opened, given, last = _last_rows(opened, given)
    listed = [names for names in given.values() if isinstance(names, list | tuple)]
    single = [name for name in given.values() if isinstance(name, str)]
    _check_once(opened, itertools.chain(single, *listed))
    schema = schema_of(opened.name, opened.table.columns, given, opened.metadata.columns)
    _check_once(opened, schema.columns)
    _check_alike(opened, schema)
    if _guess_is_unique(opened, schema):
        guess = schema.guessed["episode"][0]
        opened = replace(opened, remarks=(*opened.remarks, f"{guess}: no two rows have the same, so it is no episode"))
        schema = without_guess(schema, "episode")
    if schema.time == "row" and not opened.ordered:
        raise LogError(
            f"{opened.name}: the rows of this table have no order of their own; give a time column",
            argument="time",
            value="row",
        )
    named = [*(bins if isinstance(bins, Mapping) else ()), *named_numbers(numbers)]
    opened = with_numbers(opened, schema, named, skip_bad)
    bins = with_action_bins(opened.name, schema, asked_bins(opened, schema, bins), action_bins)
    first = Questions(opened.table, schema)
    kept = asked_numbers(opened, numbers, bins, first)
    bins |= dict.fromkeys(kept, ())
    opened = with_clear_dates(with_whole_labels(opened, _labels(schema, bins)), schema, day_first)
    check_types(opened.name, opened.table, schema, bins, skip_bad)
    time_as, remark = _time_as(opened, schema)
    opened = replace(opened, remarks=(*opened.remarks, remark)) if remark else opened
    _check_last(opened.name, schema, last)
    asked = replace(first, table=opened.table, skip_bad=skip_bad, ordered=opened.ordered, time_as=time_as)
    asked = replace(asked, last="ended" if last == "early" else last, early=last == "early")
    asked = replace(asked, copies=_may_have_copies(opened, asked))
    opened, asked = with_clock(opened, asked, clock)
    opened = part_of(opened, asked, since, until)
    opened, bins = found_bins(opened, asked.on(opened.table), bins)
    opened, asked = _understood(opened, asked.on(opened.table), given)
    schema = asked.schema
    made = checked_bins(opened.name, bins, schema, lambda c, q: _quantiles(opened, c, q), kept)
    if reward_range is None:
        reward_range = opened.metadata.reward_range
    questions = replace(
        asked,
        bins=made,
        reward_range=None if reward_range is None else _range(opened, "reward_range", schema.reward, reward_range),
        cost_ranges=_cost_ranges(opened, schema, cost_ranges),
    )
    check_columns(opened, questions)
    if kept and available is not None:
        raise LogError(
            f"{opened.name}: available speaks of labels of states, and {kept[0]!r} stays a number; cut it into bins"
        )
    declared = listed_actions(schema, available or {})
    aside = quarantine_of(opened.name) if quarantine is None else Path(quarantine)
    check_text(opened, questions)
    counted = count_table(opened, questions, aside, declared)
    exists = None if available is None else available_pairs(counted.counts, available)
    opened = replace(opened, files=files)
    opened.check_unchanged()
    return TableLog(opened, counted, aside, exists)


def _last_rows(opened: Source, given: Mapping[str, Columns]) -> tuple[Source, Mapping[str, Columns], str | None]:
    """What "last" or "early" says of last rows (`ended`, `early` or `cut`), unless a column has that name."""
    words = {part: given[part] for part in ("terminal", "truncated")}
    said = [part for part, word in words.items() if word == "last" or (part, word) == ("terminal", "early")]
    if not said:
        return opened, given, None
    if words[said[0]] in opened.table.columns:
        remark = f"{said[0]}: the column {words[said[0]]}, since there is one of that name"
        return replace(opened, remarks=(*opened.remarks, remark)), given, None
    if len(said) == 2:
        wrong = f'terminal is "{words["terminal"]}" and truncated "last"'
        raise LogError(
            f"{opened.name}: {wrong}; episodes ended with their last rows, or their recordings stopped there",
            argument="terminal",
            value="last",
        )
    what = "early" if words[said[0]] == "early" else "ended" if said[0] == "terminal" else "cut"
    return opened, {**given, said[0]: False}, what


def _may_have_copies(opened: Source, asked: Questions) -> bool:
    """Whether copies of rows must be told from the rows: some times repeat, bad rows are set aside."""
    if not asked.skip_bad or not replace(asked, repeats=bool(asked.e)).once:
        return False
    with reading(opened.name):
        return bool(asked.plain.repeated().to_pyarrow().as_py())


def _check_last(name: str, schema: Schema, last: str | None) -> None:
    if last == "early" and schema.time == ROW:
        raise LogError(f'{name}: terminal="early" needs a time column, to see which episodes go on to its end')
    if last is None or (schema.episode and schema.time is not None):
        return
    said = {"ended": 'terminal="last"', "early": 'terminal="early"', "cut": 'truncated="last"'}[last]
    needed = "which rows belong together: give episode=..." if schema.time is not None else "an order: give time=..."
    part = "truncated" if last == "cut" else "terminal"
    raise LogError(f"{name}: {said} needs {needed}", argument=part, value="early" if last == "early" else "last")


def _understood(opened: Source, asked: Questions, given: Mapping[str, Columns]) -> tuple[Source, Questions]:
    """What the clock and the ends of episodes say of how rows are linked, and which column flags the end."""
    if asked.schema.time is None or asked.schema.terminal == ROW or (asked.schema.time == ROW and not asked.e):
        return opened, asked
    with reading(opened.name):
        facts = episodes_of(asked)
    opened, asked = with_flag(opened, asked, facts, given)
    opened, asked = with_gaps(opened, asked, facts)
    return opened, with_order(opened, asked, facts)


def _check_once(opened: Source, columns: Iterable[str]) -> None:
    """A LogError where several columns of the file have one of these names: an engine would rename the second."""
    for column in columns:
        if str(column).lower() in opened.twice:
            raise LogError(
                f"{opened.name}: several columns have the name {column!r}; give them different ones", column=column
            )


def _check_alike(opened: Source, schema: Schema) -> None:
    """A LogError where labels are of several types: as text, 3 and "3" would be one."""
    parts = {part: getattr(schema, part) for part in ("state", "action", "next_state", "episode")}
    for part, column in ((part, column) for part, columns in parts.items() for column in columns):
        if column in opened.mixed:
            kinds = f"holds values of several types ({opened.mixed[column]})"
            wrong = f"{opened.name}: the {part} column {column!r} {kinds}; write them alike"
            raise LogError(wrong, argument=part, column=column)


def _guess_is_unique(opened: Source, schema: Schema) -> bool:
    """Whether every row has its own value in the column that was taken for the episode, because of its name."""
    if "episode" not in schema.guessed or schema.time is None:
        return False
    with reading(opened.name):
        for table in (opened.table.limit(FIRST_LOOK), opened.table):  # the first rows say no at once, mostly
            name = schema.guessed["episode"][0]
            known = table.filter(table[name].notnull())
            if int(known.limit(2).count().to_pyarrow().as_py()) < 2 or not are_different(known, [name]):
                return False
    return True


def _labels(schema: Schema, bins: Mapping[str, object]) -> list[tuple[str, ...]]:
    """The columns that hold labels, a state's beside its next state's; numbers in bins are none."""
    following = schema.next_state or ((),) * len(schema.state)
    pairs = [(s, *([n] if n else [])) for s, n in zip(schema.state, following, strict=True)]
    return [part for part in (*pairs, *((c,) for c in (*schema.action, *schema.episode))) if part[0] not in bins]


def _time_as(opened: Source, schema: Schema) -> TextTime:
    with reading(opened.name):
        return text_time(opened.name, opened.table, None if schema.time == ROW else schema.time)


def _cost_ranges(opened: Source, schema: Schema, given: Mapping[str, Range] | None) -> dict[str, Range]:
    if given is None:
        given = {cost: pair for cost, pair in opened.metadata.cost_ranges.items() if cost in schema.costs}
    for cost in given:
        if cost not in schema.costs:
            known = ", ".join(schema.costs) or "none"
            raise LogError(
                f"{opened.name}: a range is given for {cost!r}, which is no cost; the costs are {known}",
                argument="cost_ranges",
                value=cost,
            )
    return {cost: _range(opened, "cost_ranges", cost, pair) for cost, pair in given.items()}


def _range(opened: Source, argument: str, column: str, given: Range) -> Range:
    return checked_range(f"{opened.name}: the range of {column}", given, LogError, argument=argument, column=column)


def _quantiles(opened: Source, column: str, levels: list[float]) -> list[float]:
    from ibis.common.exceptions import OperationNotDefinedError

    with reading(opened.name):
        values = opened.table[column].cast("float64")
        finite = opened.table.filter(values.abs() <= LARGEST)
        values = finite[column].cast("float64")
        asked = finite.aggregate(**{f"q{i}": values.quantile(q) for i, q in enumerate(levels)})
        try:
            edges = [edge for edge in asked.to_pyarrow().to_pylist()[0].values() if edge is not None]
        except OperationNotDefinedError:  # SQLite
            edges = _ranked(finite.select(value=values), levels)
    if len(edges) < len(levels):
        raise LogError(
            f"{opened.name}: the column {column!r} has no numbers to put into bins", argument="bins", column=column
        )
    return [float(edge) for edge in edges]


def _ranked(table: Table, levels: list[float]) -> list[float]:
    """Quantiles of the column `value`, where the engine has no word for them: between the two nearest rows by rank."""
    places = np.array(levels) * (int(table.count().to_pyarrow().as_py()) - 1)
    near = sorted({int(place) for place in (*np.floor(places), *np.ceil(places))})
    ranked = table.mutate(rank=row_number().over(window(order_by=table.value)))
    found = ranked.filter(ranked["rank"].isin(near)).order_by("rank").to_pyarrow()
    if len(found) == 0:
        return []
    return np.interp(places, found["rank"].to_numpy(), found["value"].to_numpy()).tolist()
