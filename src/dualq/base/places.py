"""Places of many labels at once: every different value of a column is looked up once, whatever holds the column.

codes    of the values of one column among those that the labels have there; -1: none of them
places   a state has one code per column. Column by column the codes so far and the next one make a key, which is
         sought among the keys of the labels: no number grows beyond labels times values
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from dualq.base.errors import LabelError
from dualq.base.labels import Label, Labels

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

FEW = 64  # values that are looked up one by one: Arrow imports pandas, where there is one


@runtime_checkable
class _ArrowTable(Protocol):
    """A table that iterates over columns, not over their names."""

    @property
    def column_names(self) -> list[str]: ...


@runtime_checkable
class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Places:
    """Where labels stand, asked for many at a time."""

    def __init__(self, labels: Labels):
        self.labels = labels
        columns = labels.columns() if len(labels) else {name: [] for name in labels.names}
        self._known = {name: {v: i for i, v in enumerate(dict.fromkeys(values))} for name, values in columns.items()}
        own = [self.codes(name, values) for name, values in columns.items()]
        self._steps: list[tuple[int, Array]] = []  # for each column: how many values, and the keys of the labels so far
        at = np.zeros(len(labels), np.int64)
        for known, code in zip(self._known.values(), own, strict=True):
            keys, at = np.unique(at * len(known) + code, return_inverse=True)
            self._steps.append((len(known), keys))
        self._order = np.append(np.argsort(at), -1)  # labels are distinct: the last step has one key for each

    def codes(self, name: str, values: Sequence[Label]) -> Array:
        """The codes of some values of a column; -1 where no label has it."""
        known = self._known[name]
        return np.array([known.get(value, -1) if _hashable(value) else -1 for value in values], np.int64)

    def find(self, codes: Sequence[Array]) -> Array:
        """(n,) the places of labels with these codes, a column each; -1 where there is none."""
        place = np.zeros(codes[0].size, np.int64)
        for code, (size, keys) in zip(codes, self._steps, strict=True):
            if not keys.size:
                return np.full(place.size, -1)
            key = place * size + code
            at = np.minimum(np.searchsorted(keys, key), keys.size - 1)
            place = np.where((keys[at] == key) & (code >= 0) & (place >= 0), at, -1)
        return self._order[place]


def column_of(table: object, name: str, names: Sequence[str]) -> object:
    """A column of a frame, an Arrow table or {column: values}; a LabelError where it is missing."""
    known = table.column_names if isinstance(table, _ArrowTable) else table
    if name not in known:  # pyright: ignore[reportOperatorIssue]
        raise LabelError(f"the state needs the columns {', '.join(names)}; {name} is missing", value=name)
    return table[name]  # pyright: ignore[reportIndexIssue]


def distinct(column: object) -> tuple[list[Label], Array]:
    """The different values of a column, and (n,) which of them each row has; -1 where a row has none."""
    if isinstance(column, np.ndarray) and column.size <= FEW:
        return _distinct(column.tolist())
    import pyarrow as pa

    try:
        array = _as_arrow(column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # values of several types
        return _distinct(list(np.asarray(column, object)))
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
    encoded = array.dictionary_encode()
    which = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), which


def as_numbers(column: object) -> Array | None:
    """(n,) a column of numbers as floats, nan where one is missing; None where it holds anything else."""
    if isinstance(column, np.ndarray) and (column.dtype.kind in "iuf" or column.size <= FEW):
        return column.astype(float) if column.dtype.kind in "iuf" else None
    import pyarrow as pa

    try:
        array = _as_arrow(column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return array.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _as_arrow(column: object) -> pa.Array:
    """Any column as an Arrow array, categories as the values that they stand for."""
    import pyarrow as pa

    array: pa.Array | pa.ChunkedArray
    if isinstance(column, pa.Array | pa.ChunkedArray):
        array = column
    elif isinstance(column, _ArrowStream):
        array = pa.chunked_array(column)  # pyright: ignore[reportArgumentType, reportCallIssue]
    else:
        array = pa.array(column, from_pandas=True)  # pyright: ignore[reportArgumentType, reportCallIssue]
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def _distinct(values: list[Label]) -> tuple[list[Label], Array]:
    """The same value by value; 1 and True are two."""
    place: dict[tuple[type, Label], int] = {}
    which = [place.setdefault((type(v), v), len(place)) if _hashable(v) else -1 for v in values]
    return [value for _, value in place], np.array(which, np.int64)


def _hashable(value: object) -> bool:
    return not isinstance(value, list | dict | set | np.ndarray)
