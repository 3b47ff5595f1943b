"""Nouns as JSON and arrays, and back: the one format of what dualq saves. Nothing is ever unpickled.

In the JSON an object with the key "is" stands for an array, for labels, or for a noun, made again from its parts. "is"
is a tag: it stays in files whatever the class is called. Whoever writes or reads says which kinds may occur. An array
is named by the way to it, and is written once however often it is used. Labels that are numbers or words are JSON once
more; anything else is an Arrow table, so that a date stays a date. (In format 2 all labels were.) What is heavy is
imported where it is made: a policy needs neither SciPy nor Numba, and seldom Arrow.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dualq.base import CheckpointError, Label, Labels, as_json_array, from_json_array, load_arrays, save_arrays
from dualq.model.policy import TablePolicy

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from dualq.model.mdp import MDP

Array = np.ndarray

FORMAT = 3
Tree: TypeAlias = Any  # JSON as this file nests it; each tag says what its parts are
TREE = "tree"  # the array that holds the JSON
PLAIN = (int, float, str, bool)  # what JSON gives back as it was


@dataclass(frozen=True)
class Kind:
    """How one class is kept: the tag that stands for it, its parts, and what makes it from them."""

    tag: str
    name: str  # of the class, today
    parts: Callable[[Any], dict[str, object]]
    make: Callable[..., Any]


def dataclass_kind(tag: str, cls: type) -> Kind:
    """A frozen dataclass, whose parts are its fields."""
    return Kind(tag, cls.__name__, fields_of, cls)


def fields_of(value: DataclassInstance) -> dict[str, object]:
    """{field: value} of a dataclass."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}


def write_saved(path: str | os.PathLike[str], kinds: Iterable[Kind], **roots: object) -> None:
    """Write nouns by name, with all that they hold; what comes first names the arrays that it shares with others."""
    packer = Packer(kinds)
    trees = {name: packer.pack(value, "" if i == 0 else name) for i, (name, value) in enumerate(roots.items())}
    save_arrays(path, {**packer.arrays, TREE: as_json_array({"format": FORMAT, **trees})}, small=True)


def read_saved(path: str | os.PathLike[str]) -> tuple[dict[str, Tree], dict[str, Array]]:
    """{name: tree} and the arrays of a file that `write_saved` wrote; its SHA-256 is checked."""
    arrays = load_arrays(path)
    if TREE not in arrays:
        raise CheckpointError(f"{path}: holds no nouns of dualq")
    trees = from_json_array(arrays.pop(TREE))
    if trees["format"] not in (1, 2, FORMAT):
        raise CheckpointError(f"{path}: is of the format {trees['format']}; this version of dualq reads up to {FORMAT}")
    return trees, arrays


class Packer:
    """Values as JSON, and their arrays."""

    def __init__(self, kinds: Iterable[Kind]):
        self.arrays: dict[str, Array] = {}
        self._kinds = {kind.name: kind for kind in (*NOUNS, *kinds)}
        self._trees: dict[
            int, tuple[object, Tree]
        ] = {}  # id -> the value (kept alive, so that its id stays its own), tree

    def pack(self, value: object, path: str) -> Tree:
        """A value as JSON; path: the way to it, by which its arrays are named."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if id(value) not in self._trees:
            self._trees[id(value)] = value, self._new(value, path)
        return self._trees[id(value)][1]

    def _new(self, value: Any, path: str) -> Tree:
        cls = type(value)
        if cls is np.ndarray:
            name = path if path not in self.arrays else f"{path}.{len(self.arrays)}"
            self.arrays[name] = value
            return {"is": "array", "name": name}
        if cls is dict:
            return {"is": "dict", "items": self._each(value, path)}
        if cls in _SEQUENCES.values():
            each = self._each({str(i): item for i, item in enumerate(value)}, path)
            return {"is": cls.__name__, "items": list(each.values())}
        kind = self._kinds.get(cls.__name__)
        if kind is None:  # a date, a decimal: what a label may be
            return {"is": "value", "table": self.pack(_as_table([value]), path)}
        return {"is": kind.tag, "fields": self._each(kind.parts(value), path)}

    def _each(self, items: Mapping[str, object], path: str) -> dict[str, Tree]:
        return {name: self.pack(item, f"{path}.{name}".lstrip(".")) for name, item in items.items()}


def unpacked(tree: Tree, arrays: Mapping[str, Array], kinds: Iterable[Kind] = ()) -> Any:
    """The value that a tree stands for; `kinds` are those that it may name, beside labels, policies and models."""
    makers = {kind.tag: kind.make for kind in (*NOUNS, *kinds)}

    def made(tree: Tree) -> Any:
        if not isinstance(tree, dict):
            return tree
        tag = tree["is"]
        if tag == "array":
            return arrays[tree["name"]]
        if tag == "dict":
            return {name: made(item) for name, item in tree["items"].items()}
        if tag == "value":
            return _column(arrays[tree["table"]["name"]])[0]
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](made(item) for item in tree["items"])
        if tag not in makers:
            raise CheckpointError(f"{tag!r} is nothing that this version of dualq can read")
        return makers[tag](**{name: made(item) for name, item in tree["fields"].items()})

    return made(tree)


# ---- labels, policies, models


def _labels_parts(labels: Labels) -> dict[str, object]:
    if isinstance(labels.values, range):
        return {"names": labels.names, "count": len(labels)}
    return {"names": labels.names, "columns": [_by_type(column) for column in labels.columns().values()]}


def _labels(names: tuple[str, ...], count: int = 0, columns: list[list[tuple[Array, Array]]] | None = None) -> Labels:
    if columns is None:
        return Labels(count, names)
    values = [_joined(parts) for parts in columns]
    return Labels(values[0] if len(values) == 1 else list(zip(*values, strict=True)), names)


def _by_type(column: list[Label]) -> list[tuple[Array, Array]]:
    """A column as (places, values as bytes) for each type in it: beside whole numbers there may be the word "(end)"."""
    places: dict[type, list[int]] = {}
    for i, value in enumerate(column):
        places.setdefault(type(value), []).append(i)
    return [(np.array(at), _as_table([column[i] for i in at])) for at in places.values()]


def _joined(parts: list[tuple[Array, Array]]) -> list[Label]:
    """The column that `_by_type` took apart."""
    column: list[Label] = [None] * sum(len(at) for at, _ in parts)
    for at, table in parts:
        for i, value in zip(at.tolist(), _column(table), strict=True):
            column[i] = value
    return column


def _as_table(column: list[Label]) -> Array:
    """Values of one type as the bytes of JSON, or of an Arrow table."""
    if type(column[0]) in PLAIN:
        return as_json_array(column)
    import pyarrow as pa

    table = pa.table([pa.array(column)], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _column(table: Array) -> list[Label]:
    """The values from their bytes; a stream of Arrow begins with four bytes of ones, and a list in JSON never."""
    if table[0] == ord("["):
        return from_json_array(table)
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(table.tobytes())).read_all().column(0).to_pylist()


def _policy_parts(policy: TablePolicy) -> dict[str, object]:
    return {name: getattr(policy, name) for name in ("matrix", "states", "actions", "undecided")}


def _mdp_parts(mdp: MDP) -> dict[str, object]:
    arrays = ("indptr", "indices", "probabilities", "rewards", "discount", "reward_range", "states", "actions")
    return {"shape": mdp.transitions.shape, **{name: getattr(mdp, name) for name in (*arrays, "available")}}


def _mdp(shape: tuple[int, int], indptr: Array, indices: Array, probabilities: Array, **fields: Any) -> MDP:
    import scipy.sparse as sp

    from dualq.model.mdp import MDP

    P = sp.csr_array((probabilities, indices, indptr), shape=shape)
    return MDP(P, fields.pop("rewards"), fields.pop("discount"), fields.pop("reward_range"), **fields)


_SEQUENCES = {"tuple": tuple, "list": list, "frozenset": frozenset}
NOUNS = (
    Kind("labels", "Labels", _labels_parts, _labels),
    Kind("policy", "TablePolicy", _policy_parts, TablePolicy),
    Kind("model", "MDP", _mdp_parts, _mdp),
)
