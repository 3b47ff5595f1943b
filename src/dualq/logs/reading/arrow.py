"""Columns of Arrow as arrays of NumPy, without pandas.

pyarrow's own `to_numpy`, `fill_null`, `array` and `scalar` import pandas where that is installed, which takes longer
than reading a short log. What stands here goes by DLPack, and leaves to pyarrow what is neither numbers nor flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray


def numbers_of(column: pa.Array | pa.ChunkedArray) -> Array:
    """Numbers or flags; nan where one is missing."""
    import pyarrow as pa

    array = _whole(column)
    kind = array.type
    if len(array) and pa.types.is_boolean(kind) and not array.null_count:
        return _raw(array.cast(pa.uint8())).view(bool)
    if not len(array) or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return array.to_numpy(zero_copy_only=False)
    return np.where(known_of(array), _raw(array), np.nan) if array.null_count else _raw(array)


def codes_of(column: pa.Array | pa.ChunkedArray, missing: int = -1) -> Array:
    """Whole numbers, with another in place of those that are missing."""
    array = _whole(column)
    if not array.null_count:
        return numbers_of(array)
    return np.where(known_of(array), _raw(array), missing)


def flags_in(column: pa.Array | pa.ChunkedArray) -> Array:
    """Flags; one that is missing does not hold."""
    import pyarrow as pa

    array = _whole(column).cast(pa.uint8())
    if not array.null_count:
        return numbers_of(array).astype(bool)
    return _raw(array).astype(bool) & known_of(array)


def known_of(column: pa.Array | pa.ChunkedArray) -> Array:
    """Whether a value is there."""
    return numbers_of(_whole(column).is_valid())


def picked(column: pa.Array, places: Array) -> pa.Array:
    """The values at these places."""
    import pyarrow as pa

    index = np.ascontiguousarray(places, np.int64)
    return column.take(pa.Array.from_buffers(pa.int64(), index.size, [None, pa.py_buffer(index)]))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _raw(array: pa.Array) -> Array:
    """The numbers as they lie there; whatever stands where one is missing."""
    import pyarrow as pa

    if array.null_count:
        array = pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset)
    return np.from_dlpack(array)
