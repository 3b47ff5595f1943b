"""A policy as a Python file without imports: `act(state, case)`, asked as a fit is asked."""

from __future__ import annotations

import datetime

from dualq._version import __version__
from dualq.base import Label
from dualq.model import PRIME, SHIFTS
from dualq.offline.exported.branches import Branch, Branches, Condition

FILE = '''"""What to do in which state: a policy that dualq {version} learned from {source}.{doubt}

    act({{{example}}}{case})

{unknown}Dates are text, as 2024-02-29, or have a method isoformat.{drawn}
"""

COLUMNS = {columns}
NUMBERS = {numbers}  # columns of numbers, and where they are cut
OTHERWISE = {otherwise}  # the action in a state that is not known
{table}

def act(state, case=None):
    """The action in a state, {{column: value}}; a state of one column may be its value alone."""
    if not isinstance(state, dict) and len(COLUMNS) == 1:
        state = {{COLUMNS[0]: state}}
    if not isinstance(state, dict) or set(state) != set(COLUMNS):
        raise ValueError("a state is {{column: value}} with the columns " + ", ".join(COLUMNS) + "; not " + repr(state))
    choices = _choices(tuple(_plain(name, state[name]) for name in COLUMNS))
    if choices is None:
        if OTHERWISE is None:
            raise LookupError("no such state: " + repr(state))
        return OTHERWISE
    if len(choices) == 1:
        return choices[0][0]
    if case is None:
        raise ValueError("this decision is drawn; give the number of the case")
    x = draw(case)
    return next(action for action, below in choices if x < below)


def draw(case):
    """A whole number from 0 to {last}, always the same for the same case."""
    if not isinstance(case, int):
        raise ValueError("a case is a whole number")
    x = case % {prime}
    for shift in {shifts}:
        x = pow(x + shift, 5, {prime})
    return x


def _plain(name, value):
    if hasattr(value, "isoformat"):
        value = value.isoformat()
    if name not in NUMBERS or isinstance(value, str) or value is None:
        return value
    if not abs(value) <= {largest!r}:
        return None  # no finite number
    return {number}


{choices}'''
LARGEST = 1.7976931348623157e308


def as_python(found: Branches) -> str:
    """The whole file."""
    example = ", ".join(f"{name!a}: ..." for name in found.columns)
    drawn = "\nA decision that is drawn is the same for the same case, wherever it is asked." if found.random else ""
    unknown = "A state that is not known is a LookupError. " if found.otherwise is None else ""
    return FILE.format(
        version=__version__,
        source=_comment(found.source),
        doubt=f" NOTE: {_comment(found.doubt)}." if found.doubt else "",
        example=_comment(example),
        case=", case=17" if found.random else "",
        unknown=unknown,
        drawn=drawn,
        columns=ascii(found.columns),
        numbers=ascii({name: tuple(map(float, edges)) for name, edges in found.edges.items()}),
        otherwise=_literal(found.otherwise),
        table=_table(found) if found.table else "",
        last=f"{PRIME - 1:,}",
        prime=PRIME,
        shifts=SHIFTS,
        largest=LARGEST,
        number="sum(value >= edge for edge in NUMBERS[name])" if found.table else "value",
        choices=_LOOK_UP if found.table else _questions(found),
    )


_LOOK_UP = """def _choices(state):
    return STATES.get(state)
"""


def _table(found: Branches) -> str:
    """{state: choices}; a number is known by its bin."""
    places = {name: {edge: i for i, edge in enumerate(edges)} for name, edges in found.edges.items()}

    def part(name: str, condition: Condition) -> str:
        if condition.values is not None:
            return _literal(condition.values[0])
        return str(0 if condition.low is None else places[name][condition.low] + 1)

    lines = [
        f"    ({' '.join(part(n, c) + ',' for n, c in zip(found.columns, b.when, strict=True))}): {_choices(found, b)},"
        for b in found.branches
    ]
    return "\n".join(["STATES = {", *lines, "}\n"])


def _choices(found: Branches, branch: Branch) -> str:
    """((action, below), ...)."""
    return "(" + " ".join(f"({_literal(found.actions[a])}, {t})," for a, t in branch.do) + ")"


def _questions(found: Branches) -> str:
    """A chain of conditions, a branch each."""
    lines = ["def _choices(state):"]
    for branch in found.branches:
        tests = [_test(f"state[{i}]", condition) for i, condition in enumerate(branch.when)]
        lines += [f"    if {' and '.join(tests)}:", f"        return {_choices(found, branch)}"]
    return "\n".join([*lines, "    return None", ""])


def _test(what: str, condition: Condition) -> str:
    if condition.values is not None:
        return f"{what} in ({' '.join(_literal(value) + ',' for value in condition.values)})"
    low = "" if condition.low is None else f"{condition.low!r} <= "
    high = "" if condition.high is None else f" < {condition.high!r}"
    return f"{low}{what}{high}" if low or high else f"{what} is not None"


def _literal(value: Label) -> str:
    """A label as Python writes it, in ASCII; dates as text."""
    if isinstance(value, tuple):
        return "(" + " ".join(_literal(part) + "," for part in value) + ")"
    if isinstance(value, datetime.date | datetime.time):
        return ascii(value.isoformat())
    return ascii(value) if isinstance(value, str | int | float | type(None)) else ascii(str(value))


def _comment(words: str) -> str:
    """Words that may stand in a docstring: one line, no quotes that end it."""
    return " ".join(words.split()).replace("\\", "/").replace('"""', "'''").encode("ascii", "replace").decode()
