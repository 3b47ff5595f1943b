"""Labels of states and actions, and their places 0, 1, 2, ...

Models, policies and logs all speak in the user's own labels: a plain value (3, "winter", True) or, where several
columns make up a state, one value per column. Labels keep their types: 3 stays 3 and "3" stays "3".
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import SupportsIndex, SupportsInt, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import LabelError, ModelError
from dualq.base.front_door import door
from dualq.base.wording import few, nearest

Label: TypeAlias = Hashable  # int, float, str, bool, a date, or a tuple of them with one entry per column
LabelLike: TypeAlias = Label | Mapping[str, Label]  # bare, as a tuple, or as a mapping from column to value


@door
class Labels:
    """An ordered set of distinct labels; `labels[i]` is the label at place i, `labels.index(label)` the place."""

    def __init__(self, values: Iterable[Label] | int, names: str | tuple[str, ...] = "state"):
        self.names: tuple[str, ...] = (names,) if isinstance(names, str) else tuple(names)
        # A count stands for the labels 0, 1, 2, ...: a million states then cost nothing.
        self.values = range(values) if isinstance(values, int | np.integer) else [_plain(v) for v in values]
        if isinstance(self.values, list):
            self._check()

    def _check(self) -> None:
        for place, label in enumerate(self.values):
            if not _is_plain(label):
                right = "it must be a plain value such as 3 or 'winter'"
                raise ModelError(f"label {label!r} at place {place}: {right}", value=label)
            width = len(label) if isinstance(label, tuple) else 1
            if width != len(self.names):
                raise ModelError(
                    f"label {label!r} at place {place} has {width} entries; "
                    f"{len(self.names)} are needed, one per column {', '.join(self.names)}",
                    value=label,
                )
        if len(self._places) != len(self.values):
            repeated = next(v for i, v in enumerate(self.values) if self._places[v] != i)
            raise ModelError(
                f"{self.names[0]} label {repeated!r} appears twice; labels must be distinct", value=repeated
            )

    @cached_property
    def _places(self) -> dict[Label, int]:
        return {label: place for place, label in enumerate(self.values)}

    def index(self, label: LabelLike) -> int:
        """Place of a label, given bare, as a tuple, or as a mapping from column to value."""
        key = self.key(label)
        places = self.values if isinstance(self.values, range) else self._places
        if key not in places:
            raise LabelError(f"no {' and '.join(self.names)} {key!r}{self._hint(key)}", value=key)
        if isinstance(self.values, range) and isinstance(key, SupportsInt):
            return self.values.index(int(key))
        return self._places[key]

    def key(self, label: LabelLike) -> Label:
        """A label given bare, as a tuple, or as a mapping, as it stands among these."""
        if isinstance(label, Mapping):
            if set(label) != set(self.names):
                got = ", ".join(map(str, label))
                raise LabelError(f"give {' and '.join(self.names)}, and nothing else; got {got}", value=label)
            label = tuple(label[name] for name in self.names)
        label = _plain(label)
        if not _is_plain(label):
            right = "give a value such as 3 or 'winter', or one for each column"
            raise LabelError(f"no {' and '.join(self.names)} can be {label!r}; {right}", value=label)
        return label[0] if isinstance(label, tuple) and len(label) == len(self.names) == 1 else label

    def _hint(self, key: Label) -> str:
        if not len(self):
            return ""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(self.names):
            return f"; give {len(self.names)} values: {' and '.join(self.names)}"
        for name, value in zip(self.names, parts, strict=True):
            known = dict.fromkeys(self.columns()[name])
            if value in known:
                continue
            if value is None:
                return f"; {name} is missing"
            whose = f" {name}" if len(self.names) > 1 else ""
            if isinstance(value, int | float) and all(isinstance(k, str) and _BIN.fullmatch(k) for k in known):
                return f"; {name} was cut into bins such as {next(iter(known))!r}: fit.act takes the number itself"
            near = _meant(value, known)
            if near is not None:
                return f"; did you mean{whose} {near!r}?"
            numbers = [x for x in known if _is_number(x)]
            if _is_number(value) and len(numbers) == len(known) > FEW:
                near = min(numbers, key=lambda x: abs(x - value))
                return f"; {name} is known from {min(numbers)!r} to {max(numbers)!r}, and {near!r} is the nearest"
            return f"; known are {few(known, FEW)}{f' for{whose}' if whose else ''}"
        near = sorted(self.values, key=lambda label: _apart(label, key))  # every value is known, and not together
        return f"; known are {few(near[: FEW + 1], FEW)}"

    def columns(self) -> dict[str, list[Label]]:
        """The labels as a table: one list per column."""
        if len(self.names) == 1:
            return {self.names[0]: list(self.values)}
        rows = [label for label in self.values if isinstance(label, tuple)]  # all are
        return {name: [label[i] for label in rows] for i, name in enumerate(self.names)}  # zip(*) of a million: seconds

    def named(self, place: SupportsIndex) -> dict[str, Label]:
        """The label at a place as {column: value}."""
        label = self.values[place]
        return dict(zip(self.names, label if isinstance(label, tuple) else (label,), strict=True))

    def picked(self, places: ArrayLike) -> dict[str, list[Label]]:
        """The labels at these places as a table: one list per column."""
        picked = {}
        for name, values in self.columns().items():
            column = np.empty(len(values), object)
            column[:] = values
            picked[name] = column[np.asarray(places)].tolist()
        return picked

    def describe(self, place: int) -> str:
        """`state=3` or `stock=3, season='winter'`: how messages and reports name the label at a place."""
        label = self.values[place]
        parts = label if isinstance(label, tuple) else (label,)
        return ", ".join(f"{name}={part!r}" for name, part in zip(self.names, parts, strict=True))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Label:
        return self.values[place]

    def __iter__(self) -> Iterator[Label]:
        return iter(self.values)

    def __contains__(self, label: object) -> bool:
        return _plain(label) in (self.values if isinstance(self.values, range) else self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.names == other.names and list(self.values) == list(other.values)

    def __hash__(self) -> int:
        return hash((self.names, len(self.values)))

    def __repr__(self) -> str:
        few = ", ".join(repr(v) for v in self.values[:4])
        return f"Labels({len(self)} of {' × '.join(self.names)}: {few}{', ...' if len(self) > 4 else ''})"


LabelsLike: TypeAlias = Labels | Iterable[Label] | None  # None for 0, 1, 2, ...

FEW = 5  # known labels that a message names
_BIN = re.compile(r"(<|>=) \S+|\[\S+, \S+\)")  # the label of an interval of numbers


def as_labels(labels: LabelsLike, count: int, name: str) -> Labels:
    """Labels as the caller gave them, or 0, 1, 2, ... where none were given; their number must be `count`."""
    if labels is None:
        return Labels(count, name)
    labels = labels if isinstance(labels, Labels) else Labels(labels, name)
    if len(labels) != count:
        raise ModelError(f"{len(labels)} {name} labels were given for {count} {name}s")
    return labels


def _plain(label: Label) -> Label:
    """NumPy scalars become Python's, lists become tuples, so that equal labels hash equally."""
    if isinstance(label, np.generic):
        return label.item()
    if isinstance(label, list | tuple):
        return tuple(_plain(part) for part in label)
    return label


def _is_plain(label: Label) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _is_number(value: Label) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(one: Label, other: Label) -> int:
    """In how many columns two labels differ."""
    both = (one, other) if isinstance(one, tuple) and isinstance(other, tuple) else ((one,), (other,))
    return sum(x != y for x, y in zip(*both, strict=False))


def _meant(value: Label, known: Iterable[Label]) -> Label:
    """The label that was probably meant: of another type (3, not "3"), or text that is nearly the same."""
    same = [label for label in known if str(label) == str(value)]
    if same or not isinstance(value, str):
        return same[0] if same else None
    return nearest(value, [label for label in known if isinstance(label, str)])
