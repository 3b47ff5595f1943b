"""FunctionPolicy: a policy over states of numbers, where the probabilities are a function of the state's columns.

A rule is that function, of many states at once: (n, A) probabilities. It is made of arrays, needs NumPy only, and is
saved as arrays; the policy around it speaks the log's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Label, LabelLike, Labels, StateColumns, States, door
from dualq.model.policy import Seed

Array = np.ndarray


class Rule(Protocol):
    """What to do in states of numbers."""

    def __call__(self, states: States) -> Array:
        """(n, A) the probability of each action in each state; rows sum to one."""
        ...


@door
@dataclass(frozen=True, eq=False)
class FunctionPolicy:
    """A rule, asked in the log's own words; it is a `Policy`."""

    columns: StateColumns
    actions: Labels
    rule: Rule

    def probabilities(self, state: LabelLike) -> dict[Label, float]:
        """{action label: probability} in a state."""
        row = self.rule(self.columns.state(state))[0]
        return {label: float(p) for label, p in zip(self.actions, row, strict=True) if p > 0.0}

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None) -> Label:
        """The label of an action, drawn where the policy is random; `default`, if given, where a label is not known."""
        if default is not None and isinstance(state, Mapping) and set(state) == set(self.columns.names):
            known = self.columns.categories
            if any(state[name] not in labels for name, labels in known.items()):
                return default
        row = self.rule(self.columns.state(state))
        return self.actions[int(drawn(row, seed)[0])]

    def act_many(self, table: Mapping[str, ArrayLike], seed: Seed = None) -> list[Label]:
        """The label of an action for each row of a table or frame: {column: values}."""
        places = drawn(self.rule(self.columns.coded(table)), seed)
        return [self.actions[place] for place in places.tolist()]


def drawn(probabilities: Array, seed: Seed = None) -> Array:
    """The place of an action for each row of probabilities; nothing is drawn where one has probability one."""
    sure = probabilities.max(axis=1) == 1.0
    if sure.all():
        return probabilities.argmax(axis=1)
    below = np.cumsum(probabilities, axis=1) < np.random.default_rng(seed).random((len(probabilities), 1))
    return np.where(sure, probabilities.argmax(axis=1), np.minimum(below.sum(axis=1), probabilities.shape[1] - 1))
