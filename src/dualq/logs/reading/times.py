"""A time column that is text: what it must be read as, so that "10" comes after "9".

numbers      all of them are numbers, or most: as numbers (the others are bad rows)
moments      dates and times as 2024-02-29 13:00, with or without a zone, or most: as instants (the others are bad rows)
words        anything else is sorted as text, which is right only where all are equally long (week 01, week 02);
             else, and for dates that begin with the day or the month, a LogError says what to write
"""

from __future__ import annotations

from typing import Any

from dualq.base import LogError
from dualq.logs.reading.expressions import Table

MOSTLY = "mostly float64"
WHOLE = r"^ *[-+]?[0-9]{1,18} *$"
NUMBER = r"^ *[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)? *$"
DATE, CLOCK = "^[0-9]{4}-[0-9]{2}-[0-9]{2}", "[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?"
LOCAL = f"{DATE}({CLOCK}|[ T][0-9]{{2}}:[0-9]{{2}})?$"
ZONED = f"{DATE}{CLOCK}(Z|[+-][0-9]{{2}}(:[0-9]{{2}})?)$"
MOMENT = f"({LOCAL})|({ZONED})"
BACKWARD = r"^[0-9]{1,2}[/.-][0-9]{1,2}[/.-][0-9]{2,4}"


def text_time(name: str, table: Table, column: str | None) -> str | None:
    """The type that a time column of text stands for: int64, float64, MOSTLY numbers, timestamp, or None, itself."""
    if column is None or column not in table.columns or not table[column].type().is_string():
        return None
    found = _looked_at(table, column)
    known = found["known"]
    if not known:
        return None
    if found["whole"] == known:
        return "int64"
    if 2 * found["number"] > known:
        return "float64" if found["number"] == known else MOSTLY
    if 2 * (found["local"] + found["zoned"]) > known:
        return "timestamp('UTC')" if found["zoned"] else "timestamp"
    low, high = found["low"], found["high"]
    right = 'write numbers, or dates as 2024-02-29; or use --time row (time="row") if the rows are in the order of time'
    if found["backward"]:
        said = "if these are dates, say --day-first (day_first=True) or --month-first (day_first=False); or"
        wrong = f"the time column {column!r} is text such as {low!r}, which cannot be sorted"
        raise LogError(f"{name}: {wrong}; {said} {right}", column=column)
    if found["shortest"] != found["longest"]:
        order = f"sorted as text it would run from {low!r} to {high!r}"
        raise LogError(
            f"{name}: the time column {column!r} is text of several lengths; {order}; {right}",
            argument="time",
            column=column,
        )
    return None


def _looked_at(table: Table, column: str) -> dict[str, Any]:
    t = table[column]
    patterns = {
        "whole": WHOLE,
        "number": NUMBER,
        "local": LOCAL,
        "zoned": ZONED,
        "backward": BACKWARD,
    }
    counts = {what: t.count(where=t.re_search(pattern)) for what, pattern in patterns.items()}
    sizes = {"shortest": t.length().min(), "longest": t.length().max(), "low": t.min(), "high": t.max()}
    return table.aggregate(known=t.count(), **counts, **sizes).to_pyarrow().to_pylist()[0]
