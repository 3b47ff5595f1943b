"""Support: the states of a log beside those of its model.

After a row that ended nothing follows: such rows lead to one state more, "(end)", the last of the model's and none of
the log's. It is there only where some row ended. Arrays over states, and over pairs of state and action, have the state
first; what stands here takes them from one to the other, and no other file needs to know which of the two is longer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualq.base import Labels
from dualq.model import TablePolicy

Array = np.ndarray

END = "(end)"


@dataclass(frozen=True, eq=False)
class Support:
    """Which states the log has, and which its model; `counts.support` is that of a log."""

    states: Labels  # of the log
    actions: Labels = field(repr=False)
    ends: bool  # whether some row ended: then the model has "(end)"

    @cached_property
    def model_states(self) -> Labels:
        """The log's states and, where some row ended, "(end)"."""
        return with_end(self.states) if self.ends else self.states

    @property
    def model_shape(self) -> tuple[int, int]:
        """(states, actions) of the model."""
        return len(self.states) + self.ends, len(self.actions)

    def to_log(self, array: Array) -> Array:
        """An array over the model's states, over those of the log."""
        return array[: len(self.states)]

    def to_model(self, array: Any, at_end: float = 0.0) -> Array:
        """Numbers over the log's states, over those of the model: `at_end` in "(end)"."""
        array = np.asarray(array, float)
        out = np.full((self.model_shape[0], *array.shape[1:]), float(at_end))
        out[: len(self.states)] = array
        return out

    def chain_to_log(self, P: sp.csr_array) -> sp.csr_array:
        """Rows (s, a) -> s' of the model between states of the log alone."""
        S, A = len(self.states), len(self.actions)
        return sp.csr_array(P[: S * A, :S])

    def policy_to_log(self, policy: TablePolicy, undecided: Array | None = None) -> TablePolicy:
        """A policy of the model's states on those of the log; undecided where it was, unless told."""
        undecided = self.to_log(policy.undecided) if undecided is None else undecided
        return TablePolicy(self.to_log(policy.matrix), self.states, self.actions, undecided)

    def policy_to_model(self, policy: TablePolicy, at_end: TablePolicy) -> TablePolicy:
        """A policy of the log's states on those of the model; at the end it does as the other one."""
        matrix = at_end.matrix.copy()
        matrix[: len(self.states)] = policy.matrix
        return TablePolicy(matrix, self.model_states, self.actions)


def with_end(states: Labels) -> Labels:
    """One state more, "(end)"; in more brackets, where the log has a state of that name."""
    word = END
    while (label := word if len(states.names) == 1 else (word,) * len(states.names)) in states:
        word = f"({word})"
    return Labels([*states, label], states.names)
