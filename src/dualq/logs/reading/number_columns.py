"""Number columns: which columns of the state stay numbers, and how an action of numbers becomes steps.

numbers     those that are named, or with "auto": every column of numbers with more than FEW different values, if one of
            them is continuous, or if nearly every row has a state of its own (`check_columns` would refuse it)
continuous  `is_continuous`, and fewer than PER_VALUE rows for each value: where values come again that often, a table
            of labels learns from them, and promises more
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dualq.base import LogError
from dualq.logs.reading.auto_bins import AUTO
from dualq.logs.reading.columns import (
    FEW,
    FIRST,
    MORE,
    Numbers,
    are_crowded,
    bins_words,
    first_facts,
    is_continuous,
    numbers_in,
)
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Table
from dualq.logs.reading.options import ActionBins, BinsOfColumn, Columns
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import Schema, as_names, near
from dualq.logs.reading.sources import Source

PER_VALUE = 10  # rows for each value of a column, from which they are labels


def named_numbers(numbers: Columns) -> tuple[str, ...]:
    """The columns of which somebody says that they stay numbers."""
    return () if numbers in (None, False, AUTO) else as_names("numbers", numbers)


def asked_numbers(opened: Source, numbers: Columns, bins: Mapping[str, BinsOfColumn], q: Questions) -> tuple[str, ...]:
    """The columns of the state that stay numbers; those in bins do not."""
    schema = q.schema
    if numbers is None or numbers is False:
        return ()
    if numbers == AUTO and AUTO not in schema.state:
        free = [column for column in schema.state if column not in bins]
        with reading(opened.name):
            facts = first_facts(q.table, dict.fromkeys([*schema.action, *free]), ask=q.row)  # as `check_columns` asks
            found = {column: x for column, x in facts.items() if column in free and x.length is None}
            return numbers_among(opened.table, free, found)
    named = as_names("numbers", numbers)
    for column in named:
        if column not in schema.state:
            wrong = f"{opened.name}: {column!r} is to stay a number, and is not in the state"
            raise LogError(f"{wrong}{near(column, schema.state)}", argument="numbers", value=column)
        if column in bins:
            wrong = f"{opened.name}: {column!r} is to stay a number, and bins are given for it; give one of both"
            raise LogError(wrong, argument="numbers", value=column)
        kind = opened.table.schema()[column]
        if not kind.is_numeric() or kind.is_boolean():
            wrong = f"{opened.name}: {column!r} is to stay a number, and holds values of the type {kind}"
            raise LogError(f"{wrong}; leave it out, and it is a category", argument="numbers", column=column)
    return tuple(column for column in schema.state if column in named)


def numbers_among(table: Table, state: Iterable[str], found: Mapping[str, Numbers] | None = None) -> tuple[str, ...]:
    """Those columns of a state that are numbers rather than labels, as "auto" has it; found: what is known of them."""
    state = list(state)
    found = numbers_in(table, state) if found is None else found
    wide = tuple(column for column, x in found.items() if x.different > FEW)
    if not wide:
        return ()
    loose = [column for column in wide if hardly_again(found[column])]
    if loose:
        most = max(loose, key=lambda column: found[column].different)
        longer = numbers_in(table, [most], MORE) if found[most].rows == FIRST else found
        if hardly_again(longer[most]):
            return wide
    return wide if are_crowded(lambda most: table.limit(most).select(*state)) else ()


def hardly_again(x: Numbers) -> bool:
    """Whether the values of a column are so many that a table of them would learn little."""
    return is_continuous(x) and x.different * PER_VALUE > x.rows


def with_action_bins(
    name: str, schema: Schema, bins: dict[str, BinsOfColumn], steps: ActionBins | None
) -> dict[str, BinsOfColumn]:
    """The bins, with those of the action."""
    if steps is None:
        return bins
    column, *more = schema.action
    if more:
        right = f"say which with {bins_words(dict.fromkeys(schema.action, 5))}"
        raise LogError(f"{name}: the action has {len(schema.action)} columns; {right}", argument="action_bins")
    if column in bins:
        wrong = f"{name}: bins are given for the action {column!r} twice, by bins and by action_bins"
        raise LogError(f"{wrong}; give one of both", argument="action_bins")
    return bins | {column: steps}
