"""Column checks: what the columns of a log show to be wrong, said before anything is counted.

    dates      a CSV file with 03/04/2024: where no day is above 12 nobody knows which is the month; a LogError,
               unless the user says which stands first
    action     a number with so many values that hardly any was taken twice: a LogError with the bins to copy
    state      numbers with nearly as many states as rows: a LogError with the bins to copy, before the counting;
               long text that hardly comes again: a LogError, since it is no label
    labels     "n/a" or "null" as a label, "mid" beside "mid ": a warning each

They look at the first rows only, so they take a moment however long the log is; labels are taken from the counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dualq.base import LogError, count
from dualq.logs.counts import Counts
from dualq.logs.reading.engines import answer, reading, whole_number
from dualq.logs.reading.expressions import Expression, Table, differ
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW, Schema
from dualq.logs.reading.sources import Source

FIRST = 100_000  # rows that are looked at
MORE = 2_000_000  # rows that are looked at where the first ones are suspicious
FEW = 20  # different numbers that are always allowed
MANY = 200  # different whole numbers that are always allowed as actions
PER_ACTION = 100  # rows for each of them, from which more are allowed
LONG = 30  # characters: text that is longer on average, and hardly comes again, is no label
FEWEST = 100  # rows in which that can be seen
LEAST = 1_000  # rows, below which states that occur once are warned of and not refused
CROWDED = 2 / 3  # states per row from which a state is refused
EXACT = 2.0**53  # up to here every whole number is a float
MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "(null)", "nil", "none", "missing", "-", "--", "?")
)
PARTS = r"^ *([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{2,4})"  # of a date that does not begin with the year
NOTHING = "none"  # as an action it means to do nothing


def check_columns(opened: Source, q: Questions) -> None:
    """A LogError where the action is continuous, the state is free text, or nearly every row has a state of its own."""
    with reading(opened.name):
        loose = [column for column in (*q.schema.action, *q.schema.state) if column not in q.bins]
        facts = first_facts(q.table, dict.fromkeys(loose), ask=q.row)
        numbers = {column: x for column, x in facts.items() if x.length is None}
        action, state = crowded_action(opened.name, q, numbers), free_text(opened.name, q, facts)
        if wrong := action or state or crowded_state(opened.name, q, numbers):
            raise wrong


# ---- numbers


@dataclass(frozen=True)
class Numbers:
    """What the first rows say of a column of numbers, or of text."""

    rows: int
    different: int
    fractions: int  # of the rows, those that are no whole numbers
    length: int | None = None  # of a column of text: the letters of all its rows


def one_row(question: Table) -> dict[str, Any]:
    """The one row of an aggregate."""
    return answer(question).to_pylist()[0]


def numbers_in(table: Table, columns: Iterable[str], most: int = FIRST) -> dict[str, Numbers]:
    """{column: what its first rows say}, of those columns that hold numbers."""
    types = table.schema()
    return first_facts(table, [c for c in columns if types[c].is_numeric()], most)


def first_facts(
    table: Table, columns: Iterable[str], most: int = FIRST, ask: Callable[[Table], dict[str, Any]] = one_row
) -> dict[str, Numbers]:
    """{column: what its first rows say}, of those that hold numbers or text; ask: how the engine is asked."""
    types = table.schema()
    found = [c for c in columns if types[c].is_string() or (types[c].is_numeric() and not types[c].is_boolean())]
    if not found:
        return {}
    first, asked = table.limit(most), {}
    for i, column in enumerate(found):
        x = first[column]
        asked |= {f"rows{i}": x.count(), f"different{i}": x.nunique()}
        if types[column].is_string():
            asked[f"length{i}"] = x.length().sum()
        elif not types[column].is_integer():
            asked[f"fractions{i}"] = x.count(where=is_fraction(x))
    answer = ask(first.aggregate(**asked))
    return {
        column: Numbers(
            answer[f"rows{i}"],
            answer[f"different{i}"],
            answer.get(f"fractions{i}", 0),
            (answer[f"length{i}"] or 0) if types[column].is_string() else None,
        )
        for i, column in enumerate(found)
    }


def is_fraction(x: Expression) -> Expression:
    """Whether a number is no whole one; those that are not finite, or too large to tell, are none either."""
    x = x.cast("float64")
    x = (x.abs() <= EXACT).ifelse(x, 0.5)
    return differ(x, x.floor())


def is_continuous(x: Numbers) -> bool:
    """Whether a number has too many values for each to be an action."""
    if x.fractions:
        return x.different > MANY or (x.different > FEW and 5 * x.different > x.rows)
    return x.different > MANY and x.different * PER_ACTION > x.rows


def crowded_action(name: str, q: Questions, numbers: Mapping[str, Numbers]) -> LogError | None:
    """What to say where an action without bins has too many values."""
    for column, x in numbers.items():
        if column in q.schema.action and is_continuous(x):
            often = f"{x.different:,} different numbers in {_rows(x.rows)}"
            names = "" if x.fractions else "; if they are names and not amounts, write them as text, such as item 17"
            steps = "--action-bins 5 (action_bins=5)" if len(q.schema.action) == 1 else bins_words({column: 5})
            wrong = f"{name}: the action {column!r} has {often}; make steps of it: {steps}{names}"
            return LogError(wrong, argument="action", column=column)
    return None


def crowded_state(name: str, q: Questions, numbers: Mapping[str, Numbers]) -> LogError | None:
    """What to say where numbers without bins make nearly as many states as there are rows."""
    wide = [column for column, x in numbers.items() if column in q.schema.state and x.different > FEW]
    if not wide:
        return None
    found = are_crowded(lambda most: q.on(q.table.limit(most)).columns().select(*q.s))
    if found is None:
        return None
    different, rows = found
    auto = "" if q.schema.time is None else '; or let dualq find them: --bins auto (bins="auto")'
    right = f'cut the numbers into bins: {bins_words(dict.fromkeys(wide, 8))}{auto}; or keep them: numbers="auto"'
    wrong = f"{name}: {different:,} different states in {_rows(rows)}, so hardly any is seen twice; {right}"
    return LogError(wrong, argument="state", column=wide[0])


def are_crowded(states: Callable[[int], Table]) -> tuple[int, int] | None:
    """(different states, rows), where there are nearly as many of the one as of the other; from the first so many."""
    different = rows = 0
    for most in (FIRST, MORE):
        first = states(most)
        rows, different = (whole_number(asked.count()) for asked in (first, first.distinct()))
        if rows < LEAST or different <= CROWDED * rows:
            return None
        if rows < most:
            break
    return different, rows


def free_text(name: str, q: Questions, facts: Mapping[str, Numbers]) -> LogError | None:
    """What to say where a column of the state is text that hardly comes again, and long."""
    for column, x in ((column, facts[column]) for column in q.schema.state if column in facts):
        if x.length is None or x.rows < FEWEST:
            continue
        if x.different > CROWDED * x.rows and x.length > LONG * x.rows:
            often = f"{x.different:,} different texts in {_rows(x.rows)}"
            right = "dualq learns from numbers and labels, not from text or images; give what matters of it as columns"
            wrong = f"{name}: the state column {column!r} is free text, {often}; {right}"
            return LogError(wrong, argument="state", column=column)
    return None


def bins_words(bins: Mapping[str, int]) -> str:
    """Bins as options to copy, and as the argument."""
    options = " ".join(f"--bins {column}={value}" for column, value in bins.items())
    return f"{options} (bins={{{', '.join(f'{column!r}: {value}' for column, value in bins.items())}}})"


def _rows(rows: int) -> str:
    return f"the first {rows:,} rows" if rows in (FIRST, MORE) else count(rows, "row")


# ---- dates


class Written(NamedTuple):
    """How the dates of a column are written that do not begin with the year."""

    shown: str  # one of them
    one: int  # the largest first and second part, and the smallest year
    two: int
    year: int

    @property
    def clear(self) -> bool:
        """Whether some day is above 12, so that it can be told from the month."""
        return self.one > 12 or self.two > 12


def with_clear_dates(opened: Source, schema: Schema, day_first: bool | None = None) -> Source:
    """The source, with a remark on dates that begin with the day or the month; a LogError where they are not clear.

    day_first   whether the day stands before the month, where the user says so
    """
    if day_first is not None:
        texts = [] if schema.time in (None, ROW) else [schema.time]
        return with_dates(opened, schema.columns, day_first, texts)
    for column, written in dates_in(opened, schema.columns).items():
        order = _order(opened.name, column, written)
        opened = replace(opened, remarks=(*opened.remarks, f"{column}: {_read_as(written, order)}"))
    return opened


def dates_in(opened: Source, columns: Sequence[str], texts: Sequence[str] = ()) -> dict[str, Written]:
    """{column: how its dates are written}, of dates in a text file that do not begin with the year.

    texts   columns that are looked at though they were read as text
    """
    types = opened.table.schema()
    dates = [column for column in columns if types[column].is_temporal() and not types[column].is_time()]
    dates = dates if opened.as_text is not None else []
    with reading(opened.name):
        table = opened.as_text(frozenset(dates)).table if opened.as_text is not None and dates else opened.table
        asked = [*dates, *(column for column in texts if types[column].is_string())]
        return {column: found for column in asked if (found := _written(table, column)) is not None}


def with_dates(opened: Source, columns: Sequence[str], day_first: bool, texts: Sequence[str] = ()) -> Source:
    """The source with dates read as the user says: the day before the month, or after it."""
    written = dates_in(opened, columns, texts)
    if not written:
        return opened
    order = "day, month, year" if day_first else "month, day, year"
    said, other = ("--day-first", "--month-first") if day_first else ("--month-first", "--day-first")
    for column, found in written.items():
        _check_year(opened.name, column, found)
        if (found.two if day_first else found.one) > 12:
            raise LogError(
                f"{opened.name}: the column {column!r} has dates such as {found.shown!r}, in which some month would be "
                f"above 12 with {said}; leave it out, or use {other}",
                argument="day_first",
                column=column,
                value=found.shown,
            )
    source = opened if opened.as_text is None else opened.as_text(frozenset(written))

    def read(table: Table) -> Table:
        moments = {column: _moment(table[column], day_first) for column in written}
        return table.mutate(**{column: moment.try_cast("timestamp") for column, moment in moments.items()})

    with reading(opened.name):
        made = read(source.table)
        known = made.aggregate(**{column: made[column].count() for column in written}).to_pyarrow().to_pylist()[0]
    for column in [column for column in written if not known[column]]:  # 5pm, or more text after the date
        if not opened.table[column].type().is_string():
            wrong = (
                f"the column {column!r} has dates such as {written[column].shown!r}, which cannot be read with {said}"
            )
            raise LogError(
                f"{opened.name}: {wrong}; write them as 2024-02-29 13:00", argument="day_first", column=column
            )
        del written[column]  # it stays text, which is told of a time
    reopen, numbered = source.reopen, source.numbered
    return replace(
        source,
        table=read(source.table),
        reopen=None if reopen is None else lambda: replace(again := reopen(), table=read(again.table)),
        numbered=None if numbered is None else lambda: read(numbered()),
        remarks=(*opened.remarks, *(f"{column}: {_read_as(found, order)}" for column, found in written.items())),
        warnings=opened.warnings,
    )


def _written(table: Table, column: str) -> Written | None:
    text = table[column]
    first = table.filter(text.notnull()).select(column).limit(1).to_pyarrow()[column].to_pylist()
    if not first or not re.match(PARTS, first[0]):  # DuckDB reads all dates of a column alike
        return None
    parts = [text.re_extract(PARTS, i).nullif("").cast("int64") for i in (1, 2, 3)]
    asked = {"one": parts[0].max(), "two": parts[1].max(), "year": parts[2].min(), "low": text.min()}
    asked["shown"] = text.min(where=differ(parts[0], parts[1]))
    found = table.filter(text.re_search(PARTS)).aggregate(**asked).to_pyarrow().to_pylist()[0]
    return Written(found["shown"] or found["low"], found["one"], found["two"], found["year"])


def _moment(text: Expression, day_first: bool) -> Expression:
    """A date as 2024-02-29, what follows it as it is."""
    return text.re_replace(f"{PARTS}(.*)$", r"\3-\2-\1\4" if day_first else r"\3-\1-\2\4")


def _order(name: str, column: str, written: Written) -> str:
    """In which order a date's parts stand; a LogError where that is not clear."""
    _check_year(name, column, written)
    if not written.clear:
        doubt = "it may be day/month or month/day, since no day is above 12"
        said = "say --day-first (day_first=True) or --month-first (day_first=False), or write dates as 2024-02-29"
        raise LogError(f"{name}: {_date(column, written)}: {doubt}; {said}", column=column, value=written.shown)
    return "day, month, year" if written.one > 12 else "month, day, year"


def _check_year(name: str, column: str, written: Written) -> None:
    if written.year < 100:
        doubt = "its year has two digits, so its order is not clear; write dates as 2024-02-29"
        raise LogError(f"{name}: {_date(column, written)}: {doubt}", column=column, value=written.shown)


def _date(column: str, written: Written) -> str:
    return f"the date {written.shown!r} in the column {column!r}"


def _read_as(written: Written, order: str) -> str:
    return f"dates such as {written.shown} were read as {order}"


# ---- labels


def label_warnings(opened: Source, q: Questions, counts: Counts) -> tuple[str, ...]:
    """What is odd among the labels of a log that was counted."""
    found: list[str] = []
    for part, labels in (("state", counts.states), ("action", counts.actions)):
        if isinstance(labels.values, range):
            continue
        for column, values in labels.columns().items():
            texts = {value for value in values if isinstance(value, str)}
            odd = [] if column in q.bins else sorted(odd_labels(texts, part))
            if odd:
                found += label_words(column, _rows_of(opened, column, odd), part)
    return tuple(found)


def odd_labels(labels: Iterable[str], part: str) -> set[str]:
    """Those that may mean that a value is missing, and those that differ only in case or in spaces at their ends."""
    labels = set(labels)
    alike = {label for group in _alike(labels) for label in group}
    return alike | {label for label in labels if _means_missing(label, part)}


def label_words(column: str, rows: Mapping[str, int], part: str) -> list[str]:
    """A sentence for each kind of odd label, with the rows that have it."""
    found = []
    lost = {label: n for label, n in rows.items() if _means_missing(label, part)}
    if lost:
        listed = ", ".join(f"{label!r} in {count(n, 'row')}" for label, n in list(lost.items())[:5])
        right = "if it means that the value is missing, leave the field empty or remove these rows"
        found.append(f"{column}: {listed} was read as a label like any other; {right}")
    for group in _alike(set(rows)):
        listed = " and ".join(f"{label!r} ({count(rows[label], 'row')})" for label in group)
        found.append(f"{column}: {listed} were read as different labels; if they mean the same, write them alike")
    return found


def _means_missing(label: str, part: str) -> bool:
    word = label.strip().lower()
    return word in MISSING and not (part == "action" and word == NOTHING)


def _alike(labels: set[str]) -> list[list[str]]:
    """The groups of labels that differ only in case or in spaces at their ends."""
    groups: dict[str, list[str]] = {}
    for label in sorted(labels):
        groups.setdefault(label.strip().casefold(), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def _rows_of(opened: Source, column: str, labels: list[str]) -> dict[str, int]:
    table = opened.table
    with reading(opened.name):
        found = table.filter(table[column].isin(labels)).select(label=table[column])
        answer = found.group_by("label").agg(n=found.count()).to_pyarrow().to_pylist()
        rows = {row["label"]: row["n"] for row in answer}
    return {label: rows.get(label, 0) for label in labels}
