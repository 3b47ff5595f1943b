"""A policy as SQL: a script that makes a view of decisions beside a table of states.

few branches    CASE WHEN "stock" = 3 AND "season" = 'winter' THEN 2 ... END
many states     a table of the policy, a row for each state and action, and a LEFT JOIN
random          "dualq_draw" is x of model/draws.py, in whole numbers of 64 bits: no function of the engine is needed

Names stand in double quotes and text in single ones, each doubled where it occurs inside: that is how all three
engines read them. An unknown state has NULL, or the action that was asked for.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dualq._version import __version__
from dualq.base import Label, LogError
from dualq.model import PRIME, SHIFTS
from dualq.offline.deciding import DECIDED
from dualq.offline.exported.branches import Branch, Branches, Condition

FEW = 200  # branches that are written as CASE
AT_ONCE = 500  # rows of one INSERT
DRAW = "dualq_draw"
LARGEST = "1.7976931348623157e308"


@dataclass(frozen=True)
class Dialect:
    """How one engine writes types and dates."""

    double: str
    text: str
    dates: bool  # whether it has types for dates; else they are text
    once: str = ""  # what makes it compute the draw once for each row, and not wherever it is asked for


DIALECTS = {
    "duckdb": Dialect("DOUBLE", "VARCHAR", True),
    "postgres": Dialect("DOUBLE PRECISION", "TEXT", True, " OFFSET 0"),
    "sqlite": Dialect("REAL", "TEXT", False, " LIMIT -1"),
}


def as_sql(found: Branches, dialect: Dialect, table: str = "cases", case: str | None = None) -> str:
    """The whole script."""
    if found.random and case is None:
        raise LogError(
            "the policy is random: say which column has the number of the case (--case COLUMN)", argument="case"
        )
    words = [f"-- What to do in which state: a policy that dualq {__version__} learned from {found.source}."]
    words += [f"-- NOTE: {found.doubt}."] if found.doubt else []
    words.append(
        f"-- The view {name(table + '_decided')} has the rows of {name(table)} and what to do in each of them."
    )
    head = "\n".join(" ".join(line.split()) for line in words)
    body = _cases(found, dialect, table, case) if _is_short(found) else _joined(found, dialect, table, case)
    return f"{head}\n{body}\n"


def _is_short(found: Branches) -> bool:
    return len(found.branches) <= FEW or not found.table


def name(word: str) -> str:
    """A name in double quotes."""
    _check_text(word)
    return '"' + word.replace('"', '""') + '"'


def literal(value: Label, dialect: Dialect) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | decimal.Decimal):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise LogError(f"the label {value!r} is no finite number; SQL has no word for it that all engines know")
        return repr(value)
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
        return f"TIMESTAMP '{text}'" if dialect.dates else f"'{text}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'" if dialect.dates else f"'{value.isoformat()}'"
    text = str(value)
    _check_text(text)
    return "'" + text.replace("'", "''") + "'"


def _check_text(word: str) -> None:
    if "\0" in word:
        raise LogError(f"{word!r} has a character 0 in it, which SQL cannot hold")


# ---- few branches


def _cases(found: Branches, dialect: Dialect, table: str, case: str | None) -> str:
    lines = [f"CREATE VIEW {name(table + '_decided')} AS", "SELECT c.*"]
    for part, column in enumerate(found.actions.names):
        lines[-1] += ","
        lines.append("  CASE")
        lines += [line for branch in found.branches for line in _when(found, branch, part, dialect)]
        lines.append(f"    ELSE {_part(found.otherwise, part, dialect)}")
        lines.append(f"  END AS {name(DECIDED + column)}")
    return "\n".join([*lines, f"{_from(found, dialect, table, case)};"])


def _when(found: Branches, branch: Branch, part: int, dialect: Dialect) -> list[str]:
    """A line for each action of a branch: the first whose t is above the draw is taken."""
    pairs = zip(found.columns, branch.when, strict=True)
    tests = [test for column, condition in pairs for test in _tests(f"c.{name(column)}", condition, dialect)]
    lines = []
    for place, t in branch.do:
        drawn = [f"c.{DRAW} < {t}"] if t < PRIME else []
        action = _part(found.actions[place], part, dialect)
        lines.append(f"    WHEN {' AND '.join([*tests, *drawn]) or 'TRUE'} THEN {action}")
    return lines


def _tests(column: str, condition: Condition, dialect: Dialect) -> list[str]:
    if condition.values is not None:
        written = [literal(value, dialect) for value in condition.values]
        return [f"{column} = {written[0]}"] if len(written) == 1 else [f"{column} IN ({', '.join(written)})"]
    low = f"{column} >= {-float(LARGEST)!r}" if condition.low is None else f"{column} >= {condition.low!r}"
    # NaN is above all numbers where an engine has one: every interval needs its end.
    high = f"{column} <= {LARGEST}" if condition.high is None else f"{column} < {condition.high!r}"
    return [low, high]


def _part(label: Label, part: int, dialect: Dialect) -> str:
    return literal(label[part] if isinstance(label, tuple) else label, dialect)


def _from(found: Branches, dialect: Dialect, table: str, case: str | None) -> str:
    if not found.random or case is None:
        return f"FROM {name(table)} AS c"
    return f"FROM (SELECT t.*, {_draw(f't.{name(case)}')} AS {DRAW} FROM {name(table)} AS t{dialect.once}) AS c"


def _draw(case: str) -> str:
    """X of a case."""
    x = f"(((CAST({case} AS BIGINT) % {PRIME}) + {PRIME}) % {PRIME})"
    for k in SHIFTS:
        y = f"(({x} + {k}) % {PRIME})"
        square = f"(({y} * {y}) % {PRIME})"
        x = f"(((({square} * {square}) % {PRIME}) * {y}) % {PRIME})"
    return x


# ---- many states


def _joined(found: Branches, dialect: Dialect, table: str, case: str | None) -> str:
    policy, columns = name(table + "_policy"), [name(column) for column in found.columns]
    decided = [name(DECIDED + column) for column in found.actions.names]
    types = [
        "BIGINT" if column in found.edges else _type(found.kinds(i), dialect) for i, column in enumerate(found.columns)
    ]
    kinds = [_type({type(value) for value in values}, dialect) for values in found.actions.columns().values()]
    made = [f"  {column} {kind}" for column, kind in zip([*columns, *decided], [*types, *kinds], strict=True)]
    made += ["  dualq_from BIGINT", "  dualq_below BIGINT"] if found.random else []
    rows = [row for branch in found.branches for row in _rows(found, branch, dialect)]
    lines = [f"CREATE TABLE {policy} (", ",\n".join(made), ");"]
    for i in range(0, len(rows), AT_ONCE):
        lines += [f"INSERT INTO {policy} VALUES", ",\n".join(rows[i : i + AT_ONCE]) + ";"]
    on = [f"p.{name(c)} = {_bin(c, found.edges[c]) if c in found.edges else 'c.' + name(c)}" for c in found.columns]
    on += [f"c.{DRAW} >= p.dualq_from", f"c.{DRAW} < p.dualq_below"] if found.random else []
    shown = [_or_default(found, part, column, dialect) for part, column in enumerate(decided)]
    lines += [f"CREATE VIEW {name(table + '_decided')} AS", f"SELECT c.*, {', '.join(shown)}"]
    return "\n".join([*lines, _from(found, dialect, table, case), f"LEFT JOIN {policy} AS p ON {' AND '.join(on)};"])


def _rows(found: Branches, branch: Branch, dialect: Dialect) -> list[str]:
    """A row for each action of a state."""
    state = [_value(found, column, c, dialect) for column, c in zip(found.columns, branch.when, strict=True)]
    rows, begin = [], 0
    for place, t in branch.do:
        label = found.actions[place]
        action = [_part(label, part, dialect) for part in range(len(found.actions.names))]
        rows.append(f"  ({', '.join([*state, *action, *([str(begin), str(t)] if found.random else [])])})")
        begin = t
    return rows


def _value(found: Branches, column: str, condition: Condition, dialect: Dialect) -> str:
    """A value of a state in the policy's table; of a number, the number of its bin."""
    if condition.values is not None:
        return literal(condition.values[0], dialect)
    return str(0 if condition.low is None else found.edges[column].index(condition.low) + 1)


def _bin(column: str, edges: Sequence[float]) -> str:
    """The number of the bin that a number is in; NULL where it is not finite."""
    what = f"c.{name(column)}"
    whens = [f"WHEN {what} < {edge!r} THEN {i}" for i, edge in enumerate(edges)]
    low = f"WHEN NOT ({what} >= {-float(LARGEST)!r} AND {what} <= {LARGEST}) THEN NULL"
    return f"CASE {low} {' '.join(whens)} WHEN {what} >= {edges[-1]!r} THEN {len(edges)} END"


def _or_default(found: Branches, part: int, column: str, dialect: Dialect) -> str:
    if found.otherwise is None:
        return f"p.{column}"
    return f"COALESCE(p.{column}, {_part(found.otherwise, part, dialect)}) AS {column}"


def _type(kinds: set[type], dialect: Dialect) -> str:
    """The type of a column that holds values of these types."""
    known = {bool: "BOOLEAN", int: "BIGINT", float: dialect.double}
    known |= {datetime.date: "DATE", datetime.datetime: "TIMESTAMP"} if dialect.dates else {}
    if kinds == {int, float}:
        return dialect.double
    return known.get(next(iter(kinds)), dialect.text) if len(kinds) == 1 else dialect.text
