"""Bad rows: named, the first of them, or set aside in a file with what is wrong with each.

What is asked of the engine is in queries.py (`bad_rows`); here it becomes words: which file, which row, which value,
and what would be right.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dualq.base import LogError, write_whole
from dualq.logs.reading.queries import Condition, number
from dualq.logs.reading.sources import FILE, NUMBER, batches, reading
from dualq.logs.reading.times import MOSTLY

BATCH = 1 << 20  # rows fetched at a time


def stop_at_the_first(log: Any) -> None:
    """Raise a LogError that names the first bad row, if there is one."""
    table, conditions = _bad(log)
    order = [c for c in (FILE, NUMBER) if c in table.columns] or [
        f"raw{list(log.schema.columns).index(c)}" for c in (*log.schema.episode, log.schema.time) if c
    ]
    with reading(log.opened.name):
        rows = (table.order_by(order) if order else table).limit(1).to_pyarrow().to_pylist()
    if rows:
        advice = "correct it, or set bad rows aside with skip_bad=True (--skip-bad)"
        raise LogError(f"{_where(log, rows[0])}: {_wrong(log, rows[0], conditions)}; {advice}")
    if not all(np.isfinite(_sums(log))):
        raise LogError(f"{log.opened.name}: the rewards or costs are too large to be added up; use a larger unit")


def _sums(log: Any) -> list[float]:
    table = log.questions.columns()
    sums = table.aggregate(**{x: table[x].abs().sum() for x in log.questions.numbers}).to_pyarrow().to_pylist()
    return [float(x) if x is not None else 0.0 for x in sums[0].values()]


def _bad(log: Any) -> tuple[Any, list[Condition]]:
    with reading(log.opened.name):
        table = log.opened.numbered() if log.opened.numbered is not None else log.opened.table
        asked = log.questions.on(table)
        return asked.bad_rows(), asked.conditions(asked.followed(raw=True))


def _where(log: Any, row: Mapping[str, Any]) -> str:
    if NUMBER in row:
        file = os.path.basename(row[FILE]) if log.opened.first == 1 else row[FILE]
        line = f" (line {row[NUMBER] + 1})" if log.opened.header else ""
        start = " (counted from 0)" if log.opened.first == 0 else ""
        return f"{file}: row {row[NUMBER]}{line}{start}"
    columns = list(log.schema.columns)
    named = [(c, row[f"raw{columns.index(c)}"]) for c in (*log.schema.episode, log.schema.time) if c]
    known = ", ".join(f"{c} = {_shown(value)}" for c, value in named or list(zip(columns, _raw(row), strict=True)))
    return f"{log.opened.name}: the row with {known}"


def _raw(row: Mapping[str, Any]) -> list[Any]:
    return [row[name] for name in row if name.startswith("raw")]


def _wrong(log: Any, row: Mapping[str, Any], conditions: list[Condition]) -> str:
    columns, condition = list(log.schema.columns), conditions[row["reason"]]
    values = " and ".join(f"{c} is {_shown(row[f'raw{columns.index(c)}'])}" for c in condition.columns)
    return f"{values}{' in more rows than one' if condition.kind == 'repeat' else ''}; {condition.right}"


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:g}"
    return repr(value) if isinstance(value, str | int | bool) else str(value)


def quarantine_of(name: str) -> Path:
    """Where bad rows go, if nobody said so; a name that no glob for logs would take up again."""
    return Path(f"{Path(name.replace('::', '.').replace('/', '_')).name}.bad")


def set_aside(log: Any, rejected: list[tuple[str, int, str, str]]) -> int:
    """Write the bad rows to the quarantine, as CSV with file, row and reason; how many there are."""
    table, conditions = _bad(log)
    order = [c for c in (FILE, NUMBER) if c in table.columns]
    text, count = io.StringIO(), 0
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "row", "reason", *log.schema.columns])
    with reading(log.opened.name):
        for batch in batches(table.order_by(order) if order else table, BATCH):
            for row in batch.to_pylist():
                where = [os.path.basename(row.get(FILE, log.opened.name)), row.get(NUMBER, "")]
                writer.writerow([*where, _wrong(log, row, conditions), *_raw(row)])
                count += 1
    for file, line, message, line_text in rejected:
        writer.writerow([file, f"line {line}", message, line_text])
    if count or rejected:
        write_whole(log.quarantine, text.getvalue().encode())
    return count


def check_text(log: Any) -> None:
    """A reward, a cost or a time that is text: an error that shows one, unless such rows are to be skipped."""
    types, name = log.opened.table.schema(), log.opened.name
    parts = [("reward", log.schema.reward), *(("cost", c) for c in log.schema.costs)]
    if log.questions.time_as == MOSTLY:
        parts.append(("time", str(log.schema.time)))
    for part, column in parts:
        if not types[column].is_string() or log.questions.skip_bad:
            continue
        with reading(name):
            numbered = log.opened.numbered
            table = numbered() if numbered is not None else log.opened.table
            wrong = table.filter(table[column].notnull() & number(table[column]).isnull())
            order = [c for c in (FILE, NUMBER) if c in wrong.columns]
            rows = (wrong.order_by(order) if order else wrong).select(column, *order).limit(1).to_pyarrow().to_pylist()
            if not rows and not table.limit(1).count().to_pyarrow().as_py():
                raise LogError(f"{name}: there are no rows")
        if not rows and log.opened.as_text is not None:
            continue  # a file of text has no types: "-inf" in it makes text of a column of numbers
        if rows and NUMBER in rows[0]:
            first = f": row {rows[0][NUMBER]} has {rows[0][column]!r}"
        else:
            first = f": one row has {rows[0][column]!r}" if rows else ", although all of it could be read as numbers"
        advice = (
            "it must hold numbers, such as -1234.5; correct it, or set such rows aside with skip_bad=True (--skip-bad)"
        )
        raise LogError(f"{name}: the {part} column {column!r} is text{first}; {advice}")
