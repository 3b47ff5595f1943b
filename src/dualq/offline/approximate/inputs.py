"""Inputs: the columns of a state as a matrix that learners read.

z = clip((x - mean) / deviation, -6, 6) of each number;   1{label} of each category, all 0 for one that is not known
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dualq.base import States
from dualq.logs import NumberRows

Array = np.ndarray

FARTHEST = 6.0  # deviations: a number farther out is taken to be there


@dataclass(frozen=True, eq=False)
class Inputs:
    """How numbers are scaled, and how many labels each category has."""

    mean: Array  # (N,)
    deviation: Array  # (N,) 1 where a number never changes
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, rows: NumberRows) -> Inputs:
        """Scaled by the states of these rows."""
        columns = rows.state.numbers.T  # one at a time: a deviation takes a copy
        mean, deviation = np.array([x.mean() for x in columns]), np.array([x.std() for x in columns])
        return cls(mean, np.where(deviation > 0.0, deviation, 1.0), rows.columns.sizes)

    @property
    def width(self) -> int:
        """How many inputs there are."""
        return self.mean.size + sum(self.sizes)

    def columns(self, states: States) -> Iterator[Array]:
        """The inputs of some states, (n,) each: one at a time where rows are many."""
        for x, mean, deviation in zip(states.numbers.T, self.mean, self.deviation, strict=True):
            yield _scaled(x, mean, deviation)
        for places, size in zip(states.categories.T, self.sizes, strict=True):
            yield from ((places == label).astype(float) for label in range(size))

    def __call__(self, states: States, farthest: float = FARTHEST) -> Array:
        """(n, d) the inputs of some states."""
        z = _scaled(states.numbers, self.mean, self.deviation, farthest)
        hot = [states.categories[:, [j]] == np.arange(size) for j, size in enumerate(self.sizes)]
        return np.hstack([z, *hot]).astype(float, copy=False)


def _scaled(x: Array, mean: Array, deviation: Array, farthest: float = FARTHEST) -> Array:
    """In deviations from the mean, and never far; a number near the largest there is overflows on its way there."""
    with np.errstate(over="ignore"):
        return np.clip((x - mean) / deviation, -farthest, farthest)
