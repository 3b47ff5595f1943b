"""States made of columns: numbers as they are, and categories as places of their labels.

    numbers       (n, N) one row per state
    categories    (n, C) places in the labels of each category; -1 for a label that the log never had

A table of labels (labels.py) needs a state to be seen again; here a state is a point, and what was learned is a
function of it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import LabelError
from dualq.base.labels import Label, LabelLike
from dualq.base.wording import few

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class States:
    """Some states, one per row."""

    numbers: Array
    categories: Array

    def __len__(self) -> int:
        return self.numbers.shape[0]

    def at(self, which: Array) -> States:
        """Those at these places, or where this mask holds."""
        return States(self.numbers[which], self.categories[which])


@dataclass(frozen=True, eq=False)
class StateColumns:
    """The columns of a state in the user's order; those that are no categories hold numbers.

    Examples
    --------
    >>> columns = StateColumns(("wear", "shift"), {"shift": ("day", "night")})
    >>> columns.coded({"wear": [0.5, 2.0], "shift": ["night", "day"]})
    States(numbers=array([[0.5],
           [2. ]]), categories=array([[1],
           [0]]))
    """

    names: tuple[str, ...]
    categories: Mapping[str, tuple[Label, ...]]  # {column: its labels}

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return tuple(name for name in self.names if name not in self.categories)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many labels each category has."""
        return tuple(len(labels) for labels in self.categories.values())

    @cached_property
    def _places(self) -> dict[str, dict[Label, int]]:
        return {name: {_plain(label): i for i, label in enumerate(labels)} for name, labels in self.categories.items()}

    def coded(self, table: Mapping[str, ArrayLike]) -> States:
        """The states of a table: {column: values}; a frame will do. Labels that are not known have the place -1."""
        known = table.column_names if isinstance(table, _ArrowTable) else table
        for name in self.names:
            if name not in known:
                raise LabelError(f"the state needs the columns {', '.join(self.names)}; {name} is missing", value=name)
        given = {name: np.asarray(table[name]) for name in self.names}
        rows = next(iter(given.values())).size
        numbers = np.empty((rows, len(self.numbers)))
        for j, name in enumerate(self.numbers):
            numbers[:, j] = _finite(name, given[name])
        places = [[self._places[name].get(_plain(v), -1) for v in _listed(given[name])] for name in self.categories]
        return States(numbers, np.array(places, np.int64).reshape(len(places), rows).T)

    def state(self, state: LabelLike) -> States:
        """One state as {column: value}, as a tuple in the order of the columns, or bare where there is one column."""
        if not isinstance(state, Mapping):
            parts = state if isinstance(state, tuple | list) else (state,)
            if len(parts) != len(self.names):
                wanted = f"{len(self.names)}: {', '.join(self.names)}"
                raise LabelError(f"the state {state!r} has {len(parts)} parts; it needs {wanted}", value=state)
            state = dict(zip(self.names, parts, strict=True))
        elif set(state) != set(self.names):
            got = ", ".join(map(str, state))
            raise LabelError(f"a state needs the columns {', '.join(self.names)}; got {got}", value=state)
        found = self.coded({name: _one(value) for name, value in state.items()})
        for name, place in zip(self.categories, found.categories[0], strict=True):
            if place < 0:
                known = few([str(label) for label in self.categories[name]], 5)
                raise LabelError(f"no {name} {state[name]!r}; known are {known}", value=state[name])
        return found

    def named(self, states: States, row: int) -> dict[str, Label]:
        """One of the states as {column: value}."""
        numbers = dict(zip(self.numbers, states.numbers[row].tolist(), strict=True))
        places = zip(self.categories.items(), states.categories[row].tolist(), strict=True)
        labels = {name: labels[place] for (name, labels), place in places}
        return {name: numbers.get(name, labels.get(name)) for name in self.names}


@runtime_checkable
class _ArrowTable(Protocol):
    """A table that iterates over columns, not over their names."""

    @property
    def column_names(self) -> list[str]: ...


def _one(value: Label) -> Array:
    column = np.empty(1, object)
    column[0] = value
    return column


def _listed(values: Array) -> list[Label]:
    """Values as Python has them; moments to the microsecond, since finer ones would be counts of nanoseconds."""
    return (values.astype("datetime64[us]") if values.dtype.kind == "M" else values).tolist()


def _plain(value: Label) -> Label:
    """A date as text, as which it may be written too; NumPy's scalars are Python's already."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def _finite(name: str, values: Array) -> Array:
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(values.size, math.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(bad.argmax())
        where = f" in row {row}" if values.size > 1 else ""
        raise LabelError(f"{name} is {values.tolist()[row]!r}{where}; it must be a finite number", value=name)
    return numbers
