"""How far a state is from the rows of a log, beside how far the log's own states are. NumPy only: `act` asks it too.

distance    of the farthest of the nearest hundred rows, in standard deviations of the inputs
usual       for all but one in a hundred of the log's own states it is at most this
far         it is more: what was learned there is a guess
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import LARGEST, LabelError, LabelLike, StateColumns, States
from dualq.logs import NumberRows
from dualq.offline.approximate.inputs import Inputs

Array = np.ndarray

NEAREST = 100  # rows that say something of a state
ASKED = 400  # rows by which it is known how near they usually are
BLOCK = 1_000  # states at once
ROUNDING = 1e-9  # of a squared distance that is a difference of squares


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The states of some rows, as inputs that are not cut off: a learner sees less of those far away."""

    columns: StateColumns
    inputs: Inputs
    Z: Array  # (n, d)
    asked: Array  # (m, d) some of them
    own: Array  # (m,) the distance of each of those
    usual: float

    @classmethod
    def of(cls, rows: NumberRows) -> Surroundings:
        """Those of a log, by some of its rows."""
        inputs = Inputs.of(rows)
        Z = inputs(rows.state, LARGEST)
        asked, last = Z[:: max(1, len(Z) // ASKED)], min(NEAREST, len(Z)) - 1
        own = np.sqrt(np.partition(_squares(asked, Z), last, axis=1)[:, last])
        return cls(rows.columns, inputs, Z, asked, own, float(np.sort(own)[math.ceil(0.99 * own.size) - 1]))

    def is_far(self, state: LabelLike) -> bool:
        """Whether one state is far; not where a label is unknown, since no policy decides there."""
        try:
            return bool(self._far(self.columns.state(state))[0])
        except LabelError:
            return False

    def far(self, table: Mapping[str, ArrayLike]) -> int:
        """How many rows of a table or frame are far, of those whose state is known."""
        states, known = self.columns.read(table)
        rows = np.flatnonzero(known)
        return sum(int(self._far(states.at(rows[i : i + BLOCK])).sum()) for i in range(0, rows.size, BLOCK))

    def _far(self, states: States) -> Array:
        """(n,) whether each state is far."""
        z = self.inputs(states, LARGEST)
        # A state near to a row that has its own nearest rows close by has them close by, too (the triangle inequality).
        far = np.asarray((np.sqrt(_squares(z, self.asked)) + self.own > self.usual).all(axis=1))
        near = _squares(z[far], self.Z) <= self.usual**2 + ROUNDING
        far[far] = near.sum(axis=1) < min(NEAREST, len(self.Z))
        return far


def _squares(x: Array, y: Array) -> Array:
    """(n, m) squared distances; 0 where nothing but rounding tells two points apart."""
    found = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2.0 * x @ y.T
    return np.where(found > ROUNDING, found, 0.0)
