"""Rows: transitions as every algorithm reads them, five columns, a chunk at a time; and the stream of those in arrays.

A stream has a State (what a checkpoint holds) and fills a chunk in place; it draws from a generator of its own, so the
rows do not depend on the algorithm that reads them, nor on the size of the chunks. `streams.py` names every stream.

Rows where an episode has ended (a terminal state was entered) say so: nothing follows, V there is 0. An episode that
was cut off has not ended: its last state has a value like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import LogError

Array = np.ndarray

WALK_STREAM = 0  # which of a seed's generators draws the rows


class Rows(NamedTuple):
    """A chunk of transitions."""

    s: Array
    a: Array
    r: Array
    s_next: Array
    ended: Array

    @classmethod
    def empty(cls, size: int) -> Rows:
        """Room for `size` transitions."""
        s, a, s_next = (np.empty(size, np.int32) for _ in range(3))
        return cls(s, a, np.empty(size), s_next, np.zeros(size, bool))

    def first(self, count: int) -> Rows:
        """A view of the first rows."""
        return Rows(*(column[:count] for column in self))


class Arrays(Protocol):
    """A NamedTuple of arrays, such as where a stream of rows stands."""

    def _asdict(self) -> Mapping[str, Array]: ...


PlaceT = TypeVar("PlaceT", bound=Arrays)


class Stream(Protocol[PlaceT]):
    """Where rows come from."""

    def init(self, seed: int) -> PlaceT:
        """The state before the first row: a NamedTuple of arrays."""
        ...

    def fill(self, state: PlaceT, rows: Rows) -> int:
        """Fill the chunk, moving the state on in place; the number of rows, less than asked only at the end."""
        ...


class RecordedState(NamedTuple):
    """The next row to read."""

    k: Array  # (1,)


def as_whole(name: str, values: ArrayLike, kind: type[np.integer] | type[np.bool_]) -> Array:
    """A column as whole numbers, or flags; a LogError where a value is none: a fraction would be cut off unseen."""
    given = np.asarray(values)
    right = "true or false" if kind is np.bool_ else f"a whole number of {8 * kind().itemsize} bits"
    if given.dtype.kind not in "fiubOM":
        raise LogError(f"the column {name} is of the type {given.dtype}; each value must be {right}", column=name)
    try:
        with np.errstate(invalid="ignore"):
            found = np.ascontiguousarray(given, kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise LogError(
            f"the column {name} holds something else ({error}); each value must be {right}", column=name
        ) from None
    if given.dtype.kind != "M" and given.dtype != found.dtype and (wrong := given != found).any():
        row = int(np.flatnonzero(wrong)[0])
        raise LogError(f"row {row}: {name} is {given.flat[row]}; it must be {right}", row=row, column=name)
    return found


def _real(name: str, values: ArrayLike) -> Array:
    if np.iscomplexobj(values):
        raise LogError(f"the column {name} holds complex numbers; they must be real", column=name)
    return np.ascontiguousarray(values, float)


class Recorded:
    """Transitions held in arrays, in their order; it ends with them."""

    def __init__(self, s: ArrayLike, a: ArrayLike, r: ArrayLike, s_next: ArrayLike, ended: ArrayLike | None = None):
        s = np.asarray(s)
        ended = np.zeros(s.size, bool) if ended is None else ended
        self.rows = Rows(
            as_whole("state", s, np.int32),
            as_whole("action", a, np.int32),
            _real("reward", r),
            as_whole("next_state", s_next, np.int32),
            as_whole("ended", ended, np.bool_),
        )
        if len({column.size for column in self.rows}) != 1:
            raise LogError(
                f"the columns have {', '.join(str(c.size) for c in self.rows)} rows; they must have the same number"
            )

    def init(self, seed: int) -> RecordedState:
        """Before the first row; a recording has no use for a seed."""
        return RecordedState(np.zeros(1, np.int64))

    def fill(self, state: RecordedState, rows: Rows) -> int:
        """Copy the next rows."""
        begin = int(state.k[0])
        count = min(rows.s.size, self.rows.s.size - begin)
        for to, column in zip(rows, self.rows, strict=True):
            to[:count] = column[begin : begin + count]
        state.k[0] += count
        return count
