"""Nouns as JSON and arrays, and back: what a saved fit is made of. Nothing is ever unpickled.

In the JSON an object with the key "is" stands for an array, for labels (an Arrow table, so that 3 stays 3 and a date a
date), for a policy, a model or a solution, or for a frozen dataclass, rebuilt from its fields. Whoever reads says which
classes may be named. What is heavy is imported where it is unpacked: a policy needs neither SciPy nor Numba.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dualq.base import Labels
from dualq.model import TablePolicy

if TYPE_CHECKING:
    from dualq.model import MDP, Solution

Array = np.ndarray


class Packer:
    """Values as JSON; their arrays by number, each once however often it is used."""

    def __init__(self):
        self.arrays: dict[str, Array] = {}
        self._trees: dict[int, tuple[Any, Any]] = {}  # id -> the value (kept alive, so that its id stays its own), tree

    def pack(self, value: Any) -> Any:
        """A value as JSON."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if id(value) not in self._trees:
            self._trees[id(value)] = value, self._new(value)
        return self._trees[id(value)][1]

    def _new(self, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            name = f"a{len(self.arrays)}"
            self.arrays[name] = value
            return {"is": "array", "name": name}
        if kind is dict:
            return {"is": "dict", "items": {key: self.pack(item) for key, item in value.items()}}
        if kind in _SEQUENCES.values():
            return {"is": kind.__name__, "items": [self.pack(item) for item in value]}
        if kind.__name__ not in _PARTS and not dataclasses.is_dataclass(kind):  # a date, a decimal: what a label may be
            return {"is": "value", "table": self.pack(_as_table([[value]], ["value"]))}
        parts = _PARTS.get(kind.__name__, _fields)(value)
        return {
            "is": _TAGS.get(kind.__name__, kind.__name__),
            "fields": {key: self.pack(item) for key, item in parts.items()},
        }


def unpacked(tree: Any, arrays: Mapping[str, Array], classes: Mapping[str, type]) -> Any:
    """The value that a tree stands for; `classes` are those that it may name, beside labels, policies and models."""
    if not isinstance(tree, dict):
        return tree
    kind = tree["is"]
    if kind == "array":
        return arrays[tree["name"]]
    if kind == "dict":
        return {key: unpacked(item, arrays, classes) for key, item in tree["items"].items()}
    if kind == "value":
        return _columns(arrays[tree["table"]["name"]])[0][0]
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](unpacked(item, arrays, classes) for item in tree["items"])
    fields = {key: unpacked(item, arrays, classes) for key, item in tree["fields"].items()}
    return {**_MAKERS, **classes}[kind](**fields)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}


def _labels_parts(labels: Labels) -> dict[str, Any]:
    if isinstance(labels.values, range):
        return {"names": labels.names, "count": len(labels)}
    return {"names": labels.names, "columns": [_by_type(column) for column in labels.columns().values()]}


def _labels(names: tuple[str, ...], count: int = 0, columns: list[Any] | None = None) -> Labels:
    if columns is None:
        return Labels(count, names)
    values = [_joined(parts) for parts in columns]
    return Labels(values[0] if len(values) == 1 else list(zip(*values, strict=True)), names)


def _by_type(column: list[Any]) -> list[tuple[Array, Array]]:
    """A column as (places, Arrow table) for each type in it: beside whole numbers there may be the word "(end)"."""
    places: dict[type, list[int]] = {}
    for i, value in enumerate(column):
        places.setdefault(type(value), []).append(i)
    return [(np.array(at), _as_table([[column[i] for i in at]], ["value"])) for at in places.values()]


def _joined(parts: list[tuple[Array, Array]]) -> list[Any]:
    """The column that `_by_type` took apart."""
    column: list[Any] = [None] * sum(len(at) for at, _ in parts)
    for at, table in parts:
        for i, value in zip(at.tolist(), _columns(table)[0], strict=True):
            column[i] = value
    return column


def _as_table(columns: list[list[Any]], names: list[str]) -> Array:
    """Columns of values as the bytes of an Arrow table."""
    import pyarrow as pa

    table = pa.table([pa.array(column) for column in columns], names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _columns(table: Array) -> list[list[Any]]:
    """The columns of an Arrow table from its bytes."""
    import pyarrow as pa

    return [column.to_pylist() for column in pa.ipc.open_stream(pa.py_buffer(table.tobytes())).read_all().columns]


def _mdp(shape: tuple[int, int], indptr: Array, indices: Array, probabilities: Array, **fields: Any) -> MDP:
    import scipy.sparse as sp

    from dualq.model import MDP

    P = sp.csr_array((probabilities, indices, indptr), shape=shape)
    return MDP(P, fields.pop("rewards"), fields.pop("discount"), fields.pop("reward_range"), **fields)


def _solution_parts(s: Solution) -> dict[str, Any]:
    arrays = ("mdp", "V", "Q", "occupancy", "ratio", "weights", "distribution", "error_bound", "bounds")
    return {name: getattr(s, name) for name in arrays} | {"method": s.method, "iterations": s.iterations}


_TAGS = {"TablePolicy": "Policy"}  # what stands in files, where a class was renamed
_SEQUENCES = {"tuple": tuple, "list": list, "frozenset": frozenset}
_PARTS: dict[str, Any] = {
    "Labels": _labels_parts,
    "TablePolicy": lambda p: {"matrix": p.matrix, "states": p.states, "actions": p.actions, "undecided": p.undecided},
    "MDP": lambda m: {
        "shape": m.transitions.shape,
        **{name: getattr(m, name) for name in ("indptr", "indices", "probabilities", "rewards", "discount")},
        **{name: getattr(m, name) for name in ("reward_range", "states", "actions", "available")},
    },
    "Solution": _solution_parts,
    "LimitedSolution": lambda s: _solution_parts(s) | {"limits": s.limits, "prices": s.prices, "policy": s.dual_policy},
}
_MAKERS = {"Labels": _labels, "Policy": TablePolicy, "MDP": _mdp}
