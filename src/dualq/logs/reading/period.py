"""A part of a log: the rows since one moment and until another, as where the system changed in between.

The moment is a value of the time column; where time counts the steps of each episode, of the episode's, by which drift
is told then too; with time="row", the number of the row, from 0. `since` itself is in the part, `until` is not, so that
until=600 and since=600 share no row. The state after the last row of a part is not seen in it: where no next_state
column has it, that row has no successor.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

from dualq.base import LogError
from dualq.logs.reading.column_types import seconds
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Expression, Kind, Table, row_number
from dualq.logs.reading.options import Moment
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW
from dualq.logs.reading.sources import Source

PLACE = "dualq_place"


def part_of(opened: Source, q: Questions, since: Moment | None, until: Moment | None) -> Source:
    """The source with the rows from `since` on and before `until`; None: no bound."""
    if since is None and until is None:
        return opened
    if q.schema.time is None:
        raise LogError(f"{opened.name}: since and until need a time column; give time=...", argument="time")
    if q.schema.time == ROW and q.last is not None:
        wrong = f'{opened.name}: since and until with "last" need a time column; give time=...'
        raise LogError(wrong, argument="time")
    by_episode = q.restarts()
    if by_episode:
        _check_episode(opened, q)
    column = PLACE if q.schema.time == ROW else q.schema.episode[0] if by_episode else q.schema.time
    named = "row" if column == PLACE else column

    def clock(table: Table) -> Expression:
        value = table[column]
        value = value if column in (PLACE, *q.schema.episode) else q.moment(value)
        return seconds(value) if value.type().is_temporal() else value

    def cut(table: Table) -> Table:
        table = table.mutate(**{PLACE: row_number()}) if column == PLACE else table
        if q.last is not None:  # the last rows of the log, not of the part
            table = q.on(table).with_last()
        kind = table[column].type() if by_episode or column == PLACE else q.moment(table[column]).type()
        bounds = {
            word: _bound(opened.name, word, value, named, kind) for word, value in (("since", since), ("until", until))
        }
        if bounds["since"] is not None:
            table = table.filter((clock(table) >= bounds["since"]) | clock(table).isnull())
        if bounds["until"] is not None:
            table = table.filter((clock(table) < bounds["until"]) | clock(table).isnull())
        return table.drop(PLACE) if column == PLACE else table

    words = " and ".join(f"{named} {sign} {x}" for sign, x in ((">=", since), ("<", until)) if x is not None)
    with reading(opened.name):
        table = cut(opened.table)
        if not table.limit(1).count().to_pyarrow().as_py():
            raise _nothing_left(opened.name, words, named, since, until)
    reopen, numbered = opened.reopen, opened.numbered
    return replace(
        opened,
        table=table,
        reopen=None if reopen is None else lambda: replace(again := reopen(), table=cut(again.table)),
        numbered=None if numbered is None else lambda: cut(numbered()),
        remarks=(*opened.remarks, f"a part of the log was read: {words}"),
    )


def _nothing_left(name: str, words: str, column: str, since: Moment | None, until: Moment | None) -> LogError:
    given = {word: value for word, value in (("since", since), ("until", until)) if value is not None}
    wrong = f"{name}: no row has {words}; {' and '.join(given)} must leave some"
    first = next(iter(given))
    return LogError(wrong, argument=first, column=column, value=given[first])


def _check_episode(opened: Source, q: Questions) -> None:
    """A LogError where only the episode could say what came first, and does not."""
    column, time = q.schema.episode[0], q.schema.time
    kind = opened.table[column].type()
    if len(q.e) > 1 or not (kind.is_numeric() or kind.is_temporal()):
        why = f"{time} counts the steps of each episode, and {' and '.join(q.schema.episode)} is no number or date"
        right = "nothing tells early rows from late ones; --clock shared if it is one clock for all"
        raise LogError(f"{opened.name}: since and until: {why}, so {right}", argument="clock", column=column)


def _bound(name: str, word: str, value: Moment | None, column: str, kind: Kind) -> float | str | None:
    """A bound in the type of the clock: a number, the seconds of a moment, or text."""
    if value is None:
        return None
    if kind.is_string():
        return str(value)
    try:
        if kind.is_temporal():
            moment = datetime.datetime.fromisoformat(str(value))
            return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
        number = int(str(value)) if str(value).lstrip("+-").isdigit() else float(str(value))
        return number if abs(number) < 2**63 else float(number)  # engines have no whole numbers beyond
    except (TypeError, ValueError):
        right = "dates, such as 2024-02-29 or 2024-02-29 13:00" if kind.is_temporal() else "numbers, such as 600"
        raise LogError(f"{name}: {word} is {value!r}; {column} has {right}", argument=word, value=value) from None
