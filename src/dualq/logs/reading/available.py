"""Available actions: which exist in which state, where the user says so, taken in the log or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dualq.base import Label, LogError, ModelError, count
from dualq.logs.counts import Counts
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import Schema, near

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray
Declared = tuple[tuple[Label, ...], ...]  # actions that exist, taken or not: a value for each of their columns


def listed_actions(schema: Schema, available: object) -> Declared:
    """Every action that is listed in `available`, a value for each of its columns."""
    names, right = schema.action, "it must be {state: [actions]}"
    if not isinstance(available, Mapping):
        raise LogError(f"available is {available!r}; {right}", argument="available", value=available)
    found = []
    for state, actions in available.items():
        if isinstance(actions, str | Mapping) or not isinstance(actions, Iterable):
            raise LogError(
                f"available: for {state!r} there is {actions!r}; {right}",
                argument="available",
                state=state,
                value=actions,
            )
        for action in actions:
            parts = [action.get(name) for name in names] if isinstance(action, Mapping) else action
            parts = tuple(parts) if isinstance(parts, list | tuple) else (parts,)
            if len(parts) != len(names) or any(part is None for part in parts):
                raise LogError(
                    f"available: an action needs {', '.join(names)}; got {action!r}", argument="available", value=action
                )
            found.append(parts)
    return tuple(found)


def declared_columns(q: Questions, declared: Declared, taken: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """The actions that were declared, a column for each of the log's, of its type."""
    import pyarrow as pa

    columns = []
    for i, (name, column) in enumerate(zip(q.schema.action, taken, strict=True)):
        values = [label[i] for label in declared]
        if name in q.bins:
            words = q.bins[name].labels
            wrong = [value for value in values if value not in words]
            if wrong:
                raise LogError(
                    f"available: {wrong[0]!r} is no bin of {name!r}{near(str(wrong[0]), words)}",
                    argument="available",
                    column=name,
                    value=wrong[0],
                )
            values = [words.index(value) for value in values]
        parts = []
        for value in values:
            try:
                parts.append(pa.array([value], column.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                raise LogError(
                    f"available: actions in {name!r} are {column.type} in the log; got {value!r}",
                    argument="available",
                    column=name,
                    value=value,
                ) from None
        columns.append(pa.chunked_array(parts, column.type))
    return columns


def available_pairs(counts: Counts, given: Mapping[Label, Iterable[Label]]) -> Array:
    """(S, A) which actions exist where: those listed; all, in states that are not."""
    mask = np.ones(counts.shape, bool)
    for state, actions in given.items():
        try:
            s = counts.states.index(state)
            places = [counts.actions.index(action) for action in actions]
        except ModelError as error:
            raise LogError(f"available: {error}", **{"argument": "available", **error.parts}) from None
        mask[s] = False
        mask[s, places] = True
    seen = np.argwhere((counts.visits > 0) & ~mask)
    if seen.size:
        s, a = map(int, seen[0])
        where = f"{counts.states.describe(s)}, {counts.actions.describe(a)}"
        rows = count(int(counts.visits[s, a]), "row")
        raise LogError(f"available: the log has {rows} with {where}, which is not listed there", argument="available")
    return mask
