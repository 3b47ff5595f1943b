"""What to do, by a policy that was learned: in one state, for every row of a frame, for every row of a file.

    label     a state as the log has it: numbers find their bins, dates may be text
    known     every different value of a column is looked up once, numbers find their bins all at once
    unknown   a state that the log never had gets no decision, or the one that the user gives; nothing is guessed
    drawn     where the policy is random, by the number of the case (model/draws.py), or by a seed

It needs NumPy and Arrow, and nothing of what learned the policy.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import DualqError, Label, LabelLike, Labels, LogError, as_numbers, column_of, distinct
from dualq.logs import Bins
from dualq.model import Cases, FunctionPolicy, Seed, TablePolicy, cases_of, named_actions

if TYPE_CHECKING:
    import pyarrow as pa

    from dualq.offline.approximate.surroundings import Surroundings

Array = np.ndarray

UNDECIDED = "undecided"  # a column that says why a row has no decision of the policy: one of
UNKNOWN, MISSING = "unknown state", "missing value"
DECIDED = "decided_"  # what stands before the name of an action's column in a file of decisions


@dataclass(frozen=True, eq=False)
class Decider:
    """The recommended policy of a fit, asked in the log's own words."""

    policy: TablePolicy
    bins: Mapping[str, Sequence[float]]  # {column: edges}
    written: bool = False  # whether labels come from a text file, where a number may stand as text

    @property
    def actions(self) -> Labels:
        """The labels of the actions."""
        return self.policy.actions

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the state."""
        return self.policy.states.names

    # ---- one state

    def label(self, state: LabelLike) -> LabelLike:
        """A state as the log has it: numbers of columns that were cut into bins find their bins, dates may be text."""
        names, known = self.names, self.policy.states.named(0)
        dates = {name for name in names if isinstance(known[name], datetime.date)}
        if not (self.bins or dates):
            return state
        values = state if isinstance(state, Mapping) else dict(zip(names, _parts(state, names), strict=True))
        return {name: self._value(name, value, type(known.get(name))) for name, value in values.items()}

    def _value(self, name: str, value: Any, kind: type) -> Label:
        """A number finds its bin, and a date may be written as text."""
        if name in self.bins and not isinstance(value, str):
            return Bins(tuple(self.bins[name])).label(value)
        if isinstance(value, str) and issubclass(kind, datetime.date):
            try:
                return kind.fromisoformat(value)
            except ValueError:
                raise LogError(f"{name} is {value!r}; write a date as 2024-02-29") from None
        if self.written and isinstance(value, str) and kind in _READ:
            return _READ[kind](value)
        return value

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None, case: int | None = None) -> Label:
        """The label of an action in a state, drawn where the policy is random; numbers find their bins."""
        return self.policy.act(self.label(state), seed, default, case)

    def probabilities(self, state: LabelLike) -> dict[Label, float]:
        """{action label: probability} in a state."""
        return self.policy.probabilities(self.label(state))

    # ---- many states

    def act_many(
        self, table: Mapping[str, ArrayLike], seed: Seed = None, default: Label = None, case: Cases = None
    ) -> list[Label]:
        """The label of an action for each row of a table or frame, as `act` says; None, or `default`, where unknown.

        case   of each row: a column of the table, or whole numbers; without one, the number of the row, from 0
        """
        rows = self.places(table)
        places = self.policy.act_at(rows, seed, cases_of(table, case, rows.size))
        return named_actions(self.actions, places, default)

    def places(self, table: object) -> Array:
        """(n,) the places of the states in the rows of a table; -1 where the log never had the state."""
        return self.policy.places.find([self._codes(name, column_of(table, name, self.names)) for name in self.names])

    def _codes(self, name: str, column: object) -> Array:
        """(n,) the codes of a column's values; -1 for those that no state has."""
        known = self.policy.places
        numbers = as_numbers(column) if name in self.bins else None
        if numbers is not None:
            bins = Bins(tuple(self.bins[name]))
            where = np.searchsorted(bins.edges, numbers, side="right")
            return np.where(np.isfinite(numbers), known.codes(name, bins.labels)[where], -1)
        kind = type(self.policy.states.named(0)[name])
        values, which = distinct(column)
        return np.append(known.codes(name, [self._or_none(name, value, kind) for value in values]), -1)[which]

    def _or_none(self, name: str, value: Label, kind: type) -> Label:
        try:
            return self._value(name, value, kind)
        except (DualqError, ValueError):
            return None


def _parts(state: Label, names: tuple[str, ...]) -> tuple[Label, ...]:
    parts = state if isinstance(state, tuple | list) else (state,)
    if len(parts) != len(names):
        raise LogError(f"the state {state!r} has {len(parts)} parts; it needs {len(names)}: {', '.join(names)}")
    return tuple(parts)


_FLAGS = {"true": True, "false": False}
_READ: dict[type, Callable[[str], Label]] = {  # text as what it is, where the labels are no text
    int: int,
    float: float,
    bool: lambda word: _FLAGS.get(word.strip().lower()),
}


# ---- files


@dataclass(frozen=True)
class Decided:
    """What became of the rows of a file."""

    rows: int
    unknown: int  # whose state the log never had
    missing: int  # that lack a value of the state
    far: int  # farther from the log than its own states are, where these are made of numbers
    first_unknown: dict[str, Label] | None  # the first state that the log never had
    columns: tuple[str, ...]  # that hold what to do; UNDECIDED stands beside them


def decide_file(
    policy: Decider | FunctionPolicy,
    source: object,
    out: str | os.PathLike[str],
    case: str | None = None,
    default: Label = None,
    table: str | None = None,
    around: Surroundings | None = None,
) -> Decided:
    """Write a table again with what to do in every row, and why not where that is so, to a .csv or .parquet file.

    case      the column with the number of each row's case, where the policy is random; the number of the row, if None
    default   the action where the state is not known; else nothing stands there
    around    by what a state is told that is far from the log
    """
    from dualq.logs import rewrite

    if isinstance(policy, Decider):
        policy, states = Decider(policy.policy, policy.bins, written=True), policy.policy.states.named(0)
        names, words = (
            policy.names,
            [n for n, label in states.items() if isinstance(label, str) and n not in policy.bins],
        )
    else:
        names, words = policy.columns.names, [*policy.columns.categories]
    added = tuple(DECIDED + name for name in policy.actions.names)
    actions = _action_columns(policy.actions, default)
    found = {"rows": 0, "unknown": 0, "missing": 0, "far": 0}
    first: list[dict[str, Label]] = []

    def more(part: pa.Table) -> pa.Table:
        import pyarrow as pa

        for name in (*added, UNDECIDED):
            if name in part.column_names:
                raise LogError(f"the table has a column {name!r} already, which is to be added; rename it", column=name)
        cases = cases_of(part, case, part.num_rows) + (found["rows"] if case is None else 0)
        places = _placed(policy, part, cases)
        without = np.logical_or.reduce([part[n].is_null(nan_is_null=True).to_numpy() for n in names])
        missing, unknown = (places < 0) & without, (places < 0) & ~without
        if unknown.any() and not first:
            first.append({name: part[name][int(unknown.argmax())].as_py() for name in names})
        found["rows"] += part.num_rows
        found["unknown"] += int(unknown.sum())
        found["missing"] += int(missing.sum())
        found["far"] += around.far(part) if around is not None else 0
        at = pa.array(np.where(places < 0, len(policy.actions), places))
        for name, values in zip(added, actions, strict=True):
            part = part.append_column(name, values.take(at))
        why = pa.array([MISSING, UNKNOWN, None]).take(pa.array(np.where(missing, 0, np.where(unknown, 1, 2))))
        return part.append_column(UNDECIDED, why)

    rewrite(source, out, [*names, *([case] if case else [])], words, more, table)
    return Decided(**found, first_unknown=first[0] if first else None, columns=added)


def _placed(policy: Decider | FunctionPolicy, part: pa.Table, cases: Array) -> Array:
    """(n,) the places of the actions; -1 where the state is not known."""
    if isinstance(policy, Decider):
        return policy.policy.act_at(policy.places(part), None, cases)
    return policy.act_at(part, None, cases)


def _action_columns(actions: Labels, default: Label) -> list[pa.Array]:
    """The labels of the actions, a column for each of their parts, and last what stands where none is known."""
    import pyarrow as pa

    last = actions.key(default) if default is not None else None
    parts = last if isinstance(last, tuple) else (last,) * len(actions.names)
    return [pa.array([*values, part]) for values, part in zip(actions.columns().values(), parts, strict=True)]
