"""The rows of a trace as NumberRows: the state's numbers as they are, its other columns as places of their labels.

x         a number that was kept as it is, or cut into bins, from the trace; of labels that are numbers, the label
x'        from its own column, from the row that follows, or of the next label; where the episode ended, x
category  places in the labels of one column, sorted, with their own types
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualq.base import Label, Labels, LogError, StateColumns, States
from dualq.logs.checks.trace import Trace
from dualq.logs.number_rows import NumberRows
from dualq.logs.reading.columns import FEW
from dualq.logs.reading.options import Columns
from dualq.logs.reading.schema import as_names, near

Array = np.ndarray


def rows_of_trace(
    trace: Trace, states: Labels, actions: Labels, numbers: Columns = None, has_episodes: bool = True
) -> NumberRows:
    """The rows that can be used.

    numbers        columns that are to be numbers; by default those with raw numbers, and labels of many numbers
    has_episodes   whether the log says where episodes begin
    """
    labels = {name: [] for name in states.names} if not len(states) else states.columns()
    chosen = (
        _by_default(trace, states, labels) if numbers is None or numbers is False else _named(numbers, labels, trace)
    )
    known = {name: _distinct(values, name, trace) for name, values in labels.items() if name not in chosen}
    columns = StateColumns(states.names, {name: tuple(found) for name, found in known.items()})
    rows = np.flatnonzero(trace.used)
    s, over = trace.s[rows], trace.ended[rows]
    s_next = np.where(over, s, trace.s_next[rows])
    x, x_next = (np.empty((rows.size, len(columns.numbers))) for _ in range(2))
    for j, name in enumerate(columns.numbers):
        if name in trace.raw:
            x[:, j] = trace.raw[name][rows]
            x_next[:, j] = np.where(over, x[:, j], trace.numbers_after(name)[rows])
        else:
            values = np.array(labels[name], float)
            x[:, j], x_next[:, j] = values[s], values[s_next]
    places = _places(labels, known, len(states))
    return NumberRows(
        columns,
        actions,
        States(x, places[s]),
        trace.a[rows],
        trace.r[rows],
        States(x_next, places[s_next]),
        over,
        (np.cumsum(trace.first) - 1)[rows],
        {cost: values[rows] for cost, values in trace.costs.items()},
        has_episodes,
        trace.first[rows],
        propensity=None if trace.propensity is None else trace.propensity[rows],
        not_whole=trace.not_whole,
    )


def _by_default(trace: Trace, states: Labels, labels: dict[str, list[Label]]) -> list[str]:
    if isinstance(states.values, range):  # 0, 1, 2, ... are names
        return []
    return [name for name in labels if name in trace.raw or (_all_numbers(v := labels[name]) and len(set(v)) > FEW)]


def _named(numbers: Columns, labels: dict[str, list[Label]], trace: Trace) -> tuple[str, ...]:
    """The columns that were asked for; a LogError where one is no number, or one that stayed a number is not named."""
    named = as_names("numbers", numbers)
    for name in named:
        if name not in labels:
            raise LogError(f"numbers names {name!r}, which is not in the state{near(name, labels)}", value=name)
        if name not in trace.raw and not _all_numbers(labels[name]):
            raise LogError(f"numbers names {name!r}, whose labels are no numbers; leave it out", value=name)
    for name, bins in trace.bins.items():
        if not bins.edges and name not in named:
            raise LogError(f"{name!r} was read as a number, and cannot be a category; name it too", value=name)
    return named


def _all_numbers(values: Sequence[Label]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _distinct(values: Sequence[Label], name: str, trace: Trace) -> dict[Label, int]:
    """{label: its place}, in order."""
    if name in trace.bins:
        order = trace.bins[name].labels
        return {label: i for i, label in enumerate(sorted(set(values), key=order.index))}
    return {label: i for i, label in enumerate(sorted(set(values), key=lambda v: (type(v).__name__, v)))}


def _places(labels: dict[str, list[Label]], known: dict[str, dict[Label, int]], states: int) -> Array:
    """(S, C) the place of each state's label in every category."""
    found = [[places[label] for label in labels[name]] for name, places in known.items()]
    return np.array(found, np.int64).reshape(len(found), states).T
