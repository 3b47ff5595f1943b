"""Expression types: a column as numbers, flags or moments, however it was written; and columns that cannot be."""

from __future__ import annotations

from collections.abc import Mapping

from dualq.base import LogError
from dualq.logs.reading.expressions import Expression, Kind, Table, cases, differ, null
from dualq.logs.reading.schema import ROW, Schema
from dualq.logs.reading.times import MOMENT, MOSTLY
from dualq.logs.reading.times import NUMBER as TEXT_NUMBER

TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")  # flags as text, in any case
FLAGS = "true or false, yes or no, 1 or 0"


def seconds(value: Expression) -> Expression:
    """A time as a number: itself, or the seconds of a date."""
    if value.type().is_date():
        value = value.cast("timestamp")
    if value.type().is_timestamp():
        return value.epoch_seconds().cast("float64")
    return value.cast("float64")


def number(value: Expression) -> Expression:
    """A column of numbers or flags as float64; of text, what of it is a number."""
    if value.type().is_string():
        import ibis.expr.operations as ops

        if value.get_backend().has_operation(ops.TryCast):
            return value.try_cast("float64")
        return value.re_search(TEXT_NUMBER).ifelse(value.cast("float64"), null("float64"))  # SQLite
    if value.type().is_boolean():
        return one_or_zero(value).cast("float64")
    return value.cast("float64")


def one_or_zero(flag: Expression) -> Expression:
    """A flag as a number; PostgreSQL knows only one type of numbers that a flag can be cast to."""
    return flag.cast("int32").cast("int64")


def written_time(value: Expression, kind: str) -> Expression:
    """A time written as text, as what it stands for (times.py); what is none, such as 30 February, is missing."""
    import ibis.expr.operations as ops

    if kind == MOSTLY:
        return number(value)
    if value.get_backend().has_operation(ops.TryCast):
        return value.try_cast(kind)
    return value.re_search(MOMENT if "timestamp" in kind else TEXT_NUMBER).ifelse(value.cast(kind), null(kind))


def flag(value: Expression) -> Expression:
    """A column of flags as true or false; of text, what of it is one."""
    if value.type().is_string():
        word = value.strip().lower()
        return cases((word.isin(TRUE), True), (word.isin(FALSE), False), otherwise=null("boolean"))
    return value if value.type().is_boolean() else differ(value, 0)


def check_types(name: str, table: Table, schema: Schema, bins: Mapping[str, object], skip_bad: bool) -> None:
    """Refuse columns that cannot play their part; text among the numbers is told by the caller, who knows its row."""
    types = table.schema()
    for part, columns in (("state", schema.state), ("action", schema.action), ("next_state", schema.next_state)):
        for column in columns:
            kind = types[column]
            if column in bins and not (kind.is_numeric() and not kind.is_boolean()):
                wrong = f"{name}: bins are given for {column!r}, which holds {_words(kind)}, not numbers"
                raise LogError(wrong, argument="bins", column=column)
            if _has_no_order(kind):
                right = "give its parts as columns, each a number or a label (images and text are not learned from)"
                right = "give them as numbers, such as seconds" if kind.is_interval() else right
                wrong = f"{name}: the {part} column {column!r} holds {_words(kind)}; {right}"
                raise LogError(wrong, argument=part, column=column)
    for part, columns in (("episode", schema.episode), ("time", (schema.time,))):
        for column in columns:
            if column not in (None, ROW) and _has_no_order(types[column]):
                right = "numbers, dates, moments or text" if part == "time" else "numbers, dates or text"
                wrong = f"{name}: the {part} column {column!r} holds {_words(types[column])}; it must hold {right}"
                raise LogError(wrong, argument=part, column=column)
    for column, following in zip(schema.state, schema.next_state, strict=False):
        if _family(types[column]) != _family(types[following]):
            raise LogError(
                f"{name}: the state column {column!r} holds {_words(types[column])} and {following!r} "
                f"{_words(types[following])}; both must be of one kind",
                column=following,
            )
    for part, column in (("terminal", schema.terminal), ("truncated", schema.truncated)):
        if column not in (None, ROW) and _family(types[column]) not in ("flags", "numbers", "text"):
            wrong = f"{name}: the {part} column {column!r} holds {_words(types[column])}; it must hold {FLAGS}"
            raise LogError(wrong, argument=part, column=column)
    for column in (schema.reward, *schema.costs, *((schema.propensity,) if schema.propensity else ())):
        kind = types[column]
        if not (kind.is_numeric() or kind.is_boolean() or kind.is_string()):
            wrong = f"{name}: the column {column!r} holds {_words(kind)}; it must hold numbers"
            raise LogError(wrong, column=column)


def _family(kind: Kind) -> str:
    if kind.is_boolean():
        return "flags"
    if kind.is_numeric():
        return "numbers"
    if kind.is_string():
        return "text"
    return "times" if kind.is_temporal() else str(kind)


def _has_no_order(kind: Kind) -> bool:
    """Neither a label nor a place in time: lists, structs, bytes, durations, what Ibis has no name for."""
    return kind.is_nested() or kind.is_binary() or kind.is_interval() or kind.is_unknown()


def _words(kind: Kind) -> str:
    if kind.is_interval():
        return "durations"
    family = _family(kind)
    return family if family != str(kind) else f"values of the type {getattr(kind, 'raw_type', kind)}"


def with_durations_as_text(table: Table) -> Table:
    """The same, to be shown: DuckDB hands durations over as Arrow has them and Ibis does not."""
    long = [column for column, kind in table.schema().items() if kind.is_interval()]
    return table.mutate(**{column: table[column].cast("string") for column in long}) if long else table
