"""Bad rows: named, the first of them, or set aside in a file with what is wrong with each.

What is asked of the engine is in queries.py (`bad_rows`); here it becomes words: which file, which row, which value,
and what would be right.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualq.base import ErrorParts, LogError, csv_text, write_whole
from dualq.logs.reading.column_types import number
from dualq.logs.reading.decisions import BEFORE, Condition
from dualq.logs.reading.engines import batches, reading
from dualq.logs.reading.expressions import Table
from dualq.logs.reading.options import Value
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import CASES
from dualq.logs.reading.sources import FILE, NUMBER, Place, Rejected, Source, place_of, places_of, row_words
from dualq.logs.reading.times import MOSTLY

Row = Mapping[str, Any]  # of an engine's answer: a cell may hold anything

BATCH = 1 << 20  # rows fetched at a time


def stop_at_the_first(opened: Source, q: Questions) -> None:
    """Raise a LogError that names the first bad row, if there is one."""
    table, conditions = _bad(opened, q)
    order = [c for c in (FILE, NUMBER) if c in table.columns] or [
        f"raw{list(q.schema.columns).index(c)}" for c in (*q.schema.episode, q.schema.time) if c
    ]
    with reading(opened.name):
        rows = (table.order_by(order) if order else table).limit(1).to_pyarrow().to_pylist()
    if rows and conditions[rows[0]["reason"]].kind == "copy":
        advice = "remove one, or set copies aside with skip_bad=True (--skip-bad), which keeps the first"
        advice += "" if q.schema.episode else f"; {CASES}"
        raise LogError(f"{_both(opened, q, rows[0])}; {advice}", **_parts(opened, q, rows[0], conditions))
    if rows:
        advice = "correct it, or set bad rows aside with skip_bad=True (--skip-bad)"
        wrong = f"{_where(opened, q, rows[0])}: {_wrong(q, rows[0], conditions)}; {advice}"
        raise LogError(wrong, **_parts(opened, q, rows[0], conditions))
    if not all(np.isfinite(_sums(q))):
        raise LogError(f"{opened.name}: the rewards or costs are too large to be added up; use a larger unit")


def _sums(q: Questions) -> list[float]:
    table = q.columns()
    sums = table.aggregate(**{x: table[x].abs().sum() for x in q.numbers}).to_pyarrow().to_pylist()
    return [float(x) if x is not None else 0.0 for x in sums[0].values()]


def _bad(opened: Source, q: Questions) -> tuple[Table, list[Condition]]:
    with reading(opened.name):
        table = opened.numbered() if opened.numbered is not None else opened.table
        return q.on(table).bad_rows()


def _where(opened: Source, q: Questions, row: Row) -> str:
    if NUMBER in row:
        file = os.path.basename(row[FILE]) if opened.first == 1 else row[FILE]
        return f"{file}: {row_words(opened, row)}"
    columns = list(q.schema.columns)
    named = [(c, row[f"raw{columns.index(c)}"]) for c in (*q.schema.episode, q.schema.time) if c]
    known = ", ".join(f"{c} = {_shown(value)}" for c, value in named or list(zip(columns, _raw(row), strict=True)))
    return f"{opened.name}: the row with {known}"


def _both(opened: Source, q: Questions, row: Row) -> str:
    """Two rows that are the same."""
    if NUMBER not in row:
        return f"{_where(opened, q, row)} is there more than once, the same in all columns"
    first, second = ({FILE: row[file], NUMBER: row[number]} for file, number in (BEFORE, (FILE, NUMBER)))
    if first[FILE] != second[FILE]:
        return (
            f"{_where(opened, q, second)} is the same as {row_words(opened, first)} of {os.path.basename(first[FILE])}"
        )
    file = os.path.basename(row[FILE]) if opened.first == 1 else row[FILE]
    one, other = place_of(opened, first), place_of(opened, second)
    lines = "" if one.line in (None, one.row) else f" (lines {one.line} and {other.line})"
    start = " (counted from 0)" if opened.first == 0 else ""
    return f"{file}: rows {one.row} and {other.row}{lines}{start} are the same"


def _parts(opened: Source, q: Questions, row: Row, conditions: list[Condition]) -> ErrorParts:
    """The same as fields of the error."""
    column = conditions[row["reason"]].columns[-1]
    parts: ErrorParts = {"column": column, "value": row[f"raw{list(q.schema.columns).index(column)}"]}
    if NUMBER in row:
        place = place_of(opened, row)
        parts["row"] = place.row
        if opened.first == 1:
            parts["path"] = row[FILE]
        if place.line is not None:
            parts["line"] = place.line
    return parts


def _raw(row: Row) -> list[Value]:
    return [row[name] for name in row if name.startswith("raw")]


def _wrong(q: Questions, row: Row, conditions: list[Condition]) -> str:
    columns, condition = list(q.schema.columns), conditions[row["reason"]]
    if condition.kind == "copy":
        return condition.right
    values = " and ".join(f"{c} is {_shown(row[f'raw{columns.index(c)}'])}" for c in condition.columns)
    return f"{values}{' in more rows than one' if condition.kind == 'repeat' else ''}; {condition.right}"


def _shown(value: Value) -> str:
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:g}"
    return repr(value) if isinstance(value, str | int | bool) else str(value)


def quarantine_of(name: str) -> Path:
    """Where bad rows go, if nobody said so; a name that no glob for logs would take up again."""
    return Path(f"{Path(name.replace('::', '.').replace('/', '_')).name}.bad")


def set_aside(opened: Source, q: Questions, quarantine: Path, rejected: list[Rejected]) -> int:
    """Write the bad rows to the quarantine, as CSV with file, row and reason; how many there are beside `rejected`."""
    table, conditions = _bad(opened, q)
    order = [c for c in (FILE, NUMBER) if c in table.columns]
    lines = opened.places is not None  # a text file: there a row may have several, and some may be empty
    rows: list[tuple[str, Place | None, Sequence[object]]] = []
    with reading(opened.name):
        for batch in batches(table.order_by(order) if order else table, BATCH):
            found = batch.to_pylist()
            numbers: dict[str, list[int]] = {}
            for row in found if order else ():
                numbers.setdefault(row[FILE], []).append(row[NUMBER])
            places = {file: places_of(opened, file, those) for file, those in numbers.items()}
            for row in found:
                file = row.get(FILE, opened.name)
                place = places[file][row[NUMBER]] if order else None
                rows.append((file, place, [_wrong(q, row, conditions), *_raw(row)]))
    bad = len(rows)
    rows += [(file, Place(row, line), [wrong, text]) for file, row, line, wrong, text in rejected]
    if rejected:
        rows.sort(key=lambda row: (row[0], row[1] or ()))
    if rows:
        names = ["file", "row", *(["line"] if lines else []), "reason", *q.schema.columns]
        cells = [[os.path.basename(file), *_place_cells(place, lines), *rest] for file, place, rest in rows]
        write_whole(quarantine, csv_text(names, cells).encode())
    return bad


def _place_cells(place: Place | None, lines: bool) -> list[object]:
    if place is None:
        return [""]
    return list(place) if lines else [place.row]


def check_text(opened: Source, q: Questions) -> None:
    """A reward, a cost or a time that is text: an error that shows one, unless such rows are to be skipped."""
    types, name = opened.table.schema(), opened.name
    parts = [("reward", q.schema.reward), *(("cost", c) for c in q.schema.costs)]
    parts += [("propensity", q.schema.propensity)] if q.schema.propensity is not None else []
    if q.time_as == MOSTLY:
        parts.append(("time", str(q.schema.time)))
    for part, column in parts:
        if not types[column].is_string() or q.skip_bad:
            continue
        with reading(name):
            numbered = opened.numbered
            table = numbered() if numbered is not None else opened.table
            wrong = table.filter(table[column].notnull() & number(table[column]).isnull())
            order = [c for c in (FILE, NUMBER) if c in wrong.columns]
            rows = (wrong.order_by(order) if order else wrong).select(column, *order).limit(1).to_pyarrow().to_pylist()
            if not rows and not table.limit(1).count().to_pyarrow().as_py():
                raise LogError(f"{name}: there are no rows")
        if not rows and opened.as_text is not None:
            continue  # a file of text has no types: "-inf" in it makes text of a column of numbers
        if rows and NUMBER in rows[0]:
            first = f": row {place_of(opened, rows[0]).row} has {rows[0][column]!r}"
        else:
            first = f": one row has {rows[0][column]!r}" if rows else ", although all of it could be read as numbers"
        advice = (
            "it must hold numbers, such as -1234.5; correct it, or set such rows aside with skip_bad=True (--skip-bad)"
        )
        found: ErrorParts = {"column": column}
        if rows:
            found["value"] = rows[0][column]
            if NUMBER in rows[0]:
                found["row"] = place_of(opened, rows[0]).row
        raise LogError(f"{name}: the {part} column {column!r} is text{first}; {advice}", **found)
