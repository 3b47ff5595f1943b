"""Places: the labels of an engine's answer, in order, and where each row's label stands among them.

Numbers are in the order of their values, text in the order of code points, bins in theirs; labels of several columns
are in the order of the first, then the second, ... So the same log has the same places whatever engine counted it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dualq.base import Labels, LogError
from dualq.logs.reading.arrow import codes_of, picked
from dualq.logs.reading.schema import Bins

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray
Part = list[Any]  # the distinct values of a column, all of one type, in order

MOST = 1_000_000  # states
DENSE = 1 << 16  # numbers for which a table of places is always worth its room


class Coder:
    """The labels of one kind (states or actions), and the place of every row's label."""

    def __init__(
        self,
        name: str,
        kind: str,
        columns: Sequence[str],
        values: Sequence[Sequence[pa.ChunkedArray]],
        bins: Sequence[Bins | None],
    ):
        """From the values of one or several tables: `values[j][i]` is column i of table j; NULL has no place."""
        self.columns, self.bins = tuple(columns), tuple(bins)
        ranks = [_ranked(name, column, [table[i] for table in values]) for i, column in enumerate(columns)]
        self.parts = [part for part, _, _ in ranks]  # the distinct values of each column, in order
        self.known = [known for _, known, _ in ranks]
        keys = self._keys([codes for _, _, codes in ranks])
        self.keys = np.unique(keys)  # of the labels
        self.keys = self.keys[self.keys >= 0]
        if kind == "state" and self.keys.size > MOST:
            raise LogError(too_many(name, columns, self.keys.size), argument="state", value=self.keys.size)
        self.labels = self._labels()
        ends = np.cumsum([0, *(len(table[0]) for table in values)])
        places = self._places(keys)
        self.places = [places[a:b] for a, b in itertools.pairwise(ends)]

    def _keys(self, codes: Sequence[Array]) -> Array:
        """One number per row for its codes in every column, in their order; -1 where one is missing."""
        key = np.zeros(codes[0].size, np.int64)
        missing = np.zeros(key.size, bool)
        for part, code in zip(self.parts, codes, strict=True):
            key = key * max(len(part), 1) + code
            missing |= code < 0
        key[missing] = -1
        return key

    def _places(self, keys: Array) -> Array:
        places = np.searchsorted(self.keys, keys).astype(np.int32)
        places[keys < 0] = -1
        return places

    def _labels(self) -> Labels:
        named = [_in_words(part, bins) for part, bins in zip(self.parts, self.bins, strict=True)]
        if len(named) == 1:
            return Labels([named[0][i] for i in self.keys.tolist()], self.columns)
        codes, rest = [], self.keys
        for part in reversed(named):
            rest, code = np.divmod(rest, max(len(part), 1))
            codes.append([part[i] for i in code.tolist()])
        return Labels(zip(*reversed(codes), strict=True), self.columns)

    def find(self, values: Sequence[pa.ChunkedArray]) -> Array:
        """The places of other rows' labels, column by column; -1 for what is not among the labels."""
        codes = [find(column) for find, column in zip(self._finders, values, strict=True)]
        if len(codes) == 1:
            return codes[0]  # every value of the one column is a label
        keys = self._keys(codes)
        if self._table is not None:
            return np.take(self._table, keys)  # the last place, for the key -1, is -1
        places = np.minimum(np.searchsorted(self.keys, keys), max(self.keys.size - 1, 0)).astype(np.int32)
        places[self.keys[places] != keys] = -1
        return places

    def found_in(self, table: pa.Table, names: Sequence[str]) -> Array:
        """The places of the labels in these columns of a table."""
        return self.find([table[name].combine_chunks() for name in names])

    @cached_property
    def _finders(self) -> list[Callable[[pa.ChunkedArray], Array]]:
        return [_finder(part, known) for part, known in zip(self.parts, self.known, strict=True)]

    @cached_property
    def _table(self) -> Array | None:
        """The place of every key, where there are not too many keys."""
        size = int(np.prod([max(len(part), 1) for part in self.parts], dtype=float))
        if size > max(8 * self.keys.size, DENSE) or self.keys.size == 0:
            return None
        table = np.full(size + 1, -1, np.int32)
        table[self.keys] = np.arange(self.keys.size)
        return table


def too_many(name: str, columns: Sequence[str], count: int) -> str:
    """What to say of more states than can be told apart from a log."""
    few = ", ".join(repr(c) for c in columns)
    advice = f'put its numbers into bins, such as bins={{"{columns[0]}": 10}}, or leave columns out'
    return f"{name}: the state ({few}) has {count:,} or more distinct values, over a million; {advice}"


def _ranked(name: str, column: str, values: Sequence[pa.ChunkedArray]) -> tuple[Part, pa.Array, Array]:
    """The distinct values in their order, the same as Arrow has them, and the rank of every row's; -1 for NULL."""
    import pyarrow as pa

    together = pa.chunked_array([c for part in _alike(name, column, values) for c in part.chunks] or values[0])
    encoded = together.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    distinct = encoded.dictionary.to_pylist()
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    rank = np.empty(len(distinct) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(distinct)), -1  # the last stands for the index -1
    known = picked(encoded.dictionary, np.array(order, np.int64))
    return [distinct[i] for i in order], known, rank[codes_of(encoded.indices)]


def _alike(name: str, column: str, values: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Columns of one type: text as text, whole numbers as whole numbers, also where NULLs made floats of them."""
    import pyarrow as pa

    kinds = [part.type for part in values]
    if any(pa.types.is_string(k) or pa.types.is_large_string(k) or pa.types.is_string_view(k) for k in kinds):
        return [part.cast(pa.large_string()) for part in values]
    if any(map(pa.types.is_integer, kinds)):
        try:
            return [part.cast(pa.int64()) for part in values]
        except pa.ArrowInvalid:
            if all(map(pa.types.is_integer, kinds)):  # beyond int64
                return [part.cast(pa.uint64()) for part in values]
            raise LogError(
                f"{name}: the column {column!r} holds whole numbers, and its next state others; write both alike",
                column=column,
            ) from None
    common = kinds[0]
    return [part if part.type == common else part.cast(common) for part in values]


def _finder(part: Part, known: pa.Array) -> Callable[[pa.ChunkedArray], Array]:
    """A function from a column to the places of its values among distinct sorted ones; -1 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(known.type) and part and part[-1] - part[0] < max(8 * len(part), DENSE):
        first = part[0]
        table = np.full(part[-1] - first + 3, -1, np.int32)  # room for what is too small or too large
        table[np.array(part) - first + 1] = np.arange(len(part))

        def look_up(values: pa.ChunkedArray) -> Array:
            numbers = codes_of(values.cast(pa.int64()), missing=first - 1)
            return np.take(table, numbers - (first - 1), mode="clip")

        return look_up

    def search(values: pa.ChunkedArray) -> Array:
        return codes_of(pc.call_function("index_in", [values.cast(known.type)], pc.SetLookupOptions(known)))

    return search


def _in_words(part: Part, bins: Bins | None) -> Part:
    return part if bins is None else [bins.labels[i] for i in part]
