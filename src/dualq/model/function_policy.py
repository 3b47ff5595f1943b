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

from dualq.base import Label, LabelLike, Labels, StateColumns, States, column_of, door
from dualq.model.draws import Cases, Seed, cases_of, chosen, named_actions, one_case

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

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None, case: int | None = None) -> Label:
        """The label of an action; `default`, if given, where a label is not known.

        A random policy draws: by the number of the case, which gives the same action wherever it is asked (draws.py),
        or by a seed, or anew.
        """
        if default is not None and isinstance(state, Mapping) and set(state) == set(self.columns.names):
            known = self.columns.categories
            if any(state[name] not in labels for name, labels in known.items()):
                return default
        row = self.rule(self.columns.state(state))
        return self.actions[int(chosen(row, np.zeros(1, int), seed, one_case(case))[0])]

    def act_many(
        self, table: Mapping[str, ArrayLike], seed: Seed = None, default: Label = None, case: Cases = None
    ) -> list[Label]:
        """The label of an action for each row of a table or frame, as `act` says; None, or `default`, where unknown.

        case   of each row: a column of the table, or whole numbers; without one, the number of the row, from 0
        """
        cases = None if seed is not None else cases_of(table, case, _rows(table, self.columns.names))
        return named_actions(self.actions, self.act_at(table, seed, cases), default)

    def act_at(self, table: Mapping[str, ArrayLike], seed: Seed = None, cases: Array | None = None) -> Array:
        """(n,) the places of the actions for the rows of a table; -1 where a label or a number is not known."""
        states, known = self.columns.read(table)
        rows = np.where(known, np.cumsum(known) - 1, -1)
        if not known.any():
            return rows
        return chosen(self.rule(states.at(known)), rows, seed, cases)


def _rows(table: Mapping[str, ArrayLike], names: tuple[str, ...]) -> int:
    return np.asarray(column_of(table, names[0], names)).shape[0]
