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

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import LabelError
from dualq.base.labels import Label, LabelLike
from dualq.base.places import as_numbers, column_of, distinct
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
        found, _ = self.read(table)
        bad = ~np.isfinite(found.numbers)
        if bad.any():
            row, j = (int(i) for i in np.argwhere(bad)[0])
            name, where = self.numbers[j], f" in row {row}" if len(found) > 1 else ""
            value = np.asarray(column_of(table, name, self.names), object).tolist()[row]
            raise LabelError(f"{name} is {value!r}{where}; it must be a finite number", value=name)
        return found

    def read(self, table: Mapping[str, ArrayLike]) -> tuple[States, Array]:
        """The states of a table, and (n,) which of them are known: finite numbers, and labels that the log has."""
        given = {name: column_of(table, name, self.names) for name in self.names}
        numbers = np.array([_numbers(given[name]) for name in self.numbers])
        places = np.array([self._codes(name, given[name]) for name in self.categories], np.int64)
        rows = (numbers if self.numbers else places).shape[1]
        found = States(numbers.reshape(-1, rows).T.astype(float), places.reshape(-1, rows).T)
        strange = np.c_[~np.isfinite(found.numbers), found.categories < 0]
        return found, np.asarray(~strange.any(axis=1))

    def _codes(self, name: str, column: object) -> Array:
        """(n,) the places of a category's labels; -1 for one that is not known."""
        values, which = distinct(column)
        known = self._places[name]
        return np.array([*(known.get(_plain(value), -1) for value in values), -1], np.int64)[which]

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


def _one(value: Label) -> Array:
    column = np.empty(1, object)
    column[0] = value
    return column


def _plain(value: Label) -> Label:
    """A date as text, as which it may be written too; NumPy's scalars are Python's already."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def _numbers(column: object) -> Array:
    """(n,) as floats; nan where it is no number."""
    numbers = as_numbers(column)
    if numbers is not None:
        return numbers
    values = np.asarray(column)
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        return np.array([_number(value) for value in values.tolist()])


def _number(value: object) -> float:
    try:
        return float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return math.nan
