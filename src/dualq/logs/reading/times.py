"""A time column that is text: what it must be read as, so that "10" comes after "9".

numbers      all of them are numbers, or most: as numbers (the others are bad rows)
moments      dates and times as 2024-02-29 13:00, with or without a zone, or most: as instants (the others are bad rows)
words        anything else is sorted as text, which is right only where all are equally long (week 01, week 02), and is
             said; else, and for dates that begin with the day or the month, or have names of months or weekdays, or
             am and pm, a LogError says what to write
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
TURNED = BACKWARD + r"([ T][0-9]{1,2}:[0-9]{2}[^a-zA-Z]*)?$"  # what can be read once it is known which part is the day
NAMES = (
    "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?"
    "|dec(ember)?|mon(day)?|tue(s|sday)?|wed(nesday)?|thu(rs|rsday)?|fri(day)?|sat(urday)?|sun(day)?"
)
NAMED = f"(^|[^a-z])({NAMES})([^a-z]|$)|[0-9] *[ap][.]?m([^a-z]|$)"  # in small letters


class TextTime(NamedTuple):
    """What a time column of text stands for."""

    kind: str | None = None  # int64, float64, MOSTLY numbers, timestamp, or None: itself
    remark: str = ""  # that it is sorted as text


def text_time(name: str, table: Table, column: str | None) -> TextTime:
    """What a time column stands for if it is text; a LogError where that cannot be put in order."""
    if column is None or column not in table.columns or not table[column].type().is_string():
        return TextTime()
    found = _looked_at(table, column)
    known = found["known"]
    if not known:
        return TextTime()
    if found["whole"] == known:
        return TextTime("int64")
    if 2 * found["number"] > known:
        return TextTime("float64" if found["number"] == known else MOSTLY)
    if 2 * (found["local"] + found["zoned"]) > known:
        return TextTime("timestamp('UTC')" if found["zoned"] else "timestamp")
    low, high, odd = found["low"], found["high"], found["odd"]
    rows = 'or use --time row (time="row") if the rows are in the order of time'
    right = f"write numbers, or dates as 2024-02-29; {rows}"
    if odd is not None and found["turned"] == found["backward"]:
        said = "if these are dates, say --day-first (day_first=True) or --month-first (day_first=False); or"
        wrong = f"the time column {column!r} is text such as {low!r}, which cannot be sorted"
        raise LogError(f"{name}: {wrong}; {said} {right}", column=column)
    if odd is not None:
        wrong = f"the time column {column!r} is text such as {odd!r}, and the order of this text is not that of time"
        raise LogError(f"{name}: {wrong}; write dates as 2024-02-29 13:00; {rows}", argument="time", column=column)
    order = f"sorted as text it would run from {low!r} to {high!r}"
    if found["shortest"] != found["longest"]:
        wrong = f"the time column {column!r} is text of several lengths"
        raise LogError(f"{name}: {wrong}; {order}; {right}", argument="time", column=column)
    doubt = "if that is not the order of time, write numbers, or dates as 2024-02-29 13:00"
    return TextTime(None, f"{column}: sorted as text, from {low!r} to {high!r}; {doubt}")


def _looked_at(table: Table, column: str) -> dict[str, Any]:
    t = table[column]
    patterns = {
        "whole": WHOLE,
        "number": NUMBER,
        "local": LOCAL,
        "zoned": ZONED,
        "turned": TURNED,
    }
    counts = {what: t.count(where=t.re_search(pattern)) for what, pattern in patterns.items()}
    sizes = {"shortest": t.length().min(), "longest": t.length().max(), "low": t.min(), "high": t.max()}
    backward = t.lower().re_search(f"{BACKWARD}|{NAMED}")
    counts |= {"backward": t.count(where=backward)}
    sizes |= {"odd": t.min(where=backward)}
    return table.aggregate(known=t.count(), **counts, **sizes).to_pyarrow().to_pylist()[0]
