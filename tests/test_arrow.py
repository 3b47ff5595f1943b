"""Columns of Arrow as arrays: what pyarrow itself makes of them, and without pandas."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from dualq.logs.reading.arrow import codes_of, flags_in, known_of, numbers_of, picked
from dualq.model.packing import _as_table, _column

COLUMNS = {
    "whole": pa.array([3, -1, 2**40, 0, 7], pa.int64()),
    "small": pa.array([3, 0, 255], pa.uint8()),
    "32 bits": pa.array([3, -4, 5], pa.int32()),
    "floats": pa.array([0.5, float("nan"), float("inf"), -0.0]),
    "float32": pa.array([0.5, None, 1.5], pa.float32()),
    "missing": pa.array([None, 5, None, 6, None, 1, 2, 3, 4], pa.int64()),
    "missing floats": pa.array([0.5, None, 2.5]),
    "all missing": pa.array([None, None], pa.float64()),
    "flags": pa.array([True, False, True]),
    "none": pa.array([], pa.int64()),
    "text": pa.array(["a", "b"]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("form", ["array", "slice", "chunks"])
def test_numbers_are_those_of_pyarrow(name, form):
    column = COLUMNS[name]
    column = column[1:] if form == "slice" else column
    column = pa.chunked_array([column, column[1:]]) if form == "chunks" else column
    wanted = column.to_numpy() if form == "chunks" else column.to_numpy(zero_copy_only=False)
    found = numbers_of(column)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype
    assert known_of(column).tolist() == [value is not None for value in column.to_pylist()]
    if pa.types.is_integer(column.type):
        assert codes_of(column, -7).tolist() == [-7 if value is None else value for value in column.to_pylist()]


@pytest.mark.parametrize("flags", [[True, False, True], [None, True, False, None, True], [], [None]])
def test_a_missing_flag_does_not_hold(flags):
    column = pa.array(flags, pa.bool_())
    for one in (column, column[1:], pa.chunked_array([column, column], pa.bool_())):
        assert flags_in(one).tolist() == [bool(flag) for flag in one.to_pylist()]
        assert flags_in(one).dtype == bool


def test_values_are_picked_by_their_places():
    places = np.array([2, 0, 2], np.int32)
    assert picked(pa.array(["a", None, "c"]), places).to_pylist() == ["c", "a", "c"]


LABELS = {
    "whole": [3, -(2**63)],
    "floats": [0.5, float("inf"), 0.1 + 0.2, -0.0],
    "words": ["a", "", "ü \N{SNOWMAN}", "[3]"],
    "flags": [True, False],
    "dates": [datetime.date(2024, 2, 29)],
    "decimals": [decimal.Decimal("1.10")],
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_kept_as_they_are(name):
    values = LABELS[name]
    assert [repr(value) for value in _column(_as_table(values))] == [repr(value) for value in values]


def test_whole_numbers_that_arrow_cannot_hold_are_kept_too():
    assert _column(_as_table([2**200, -1])) == [2**200, -1]


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_format_2_are_read(name):
    table, sink = pa.table({"value": LABELS[name]}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    kept = np.frombuffer(sink.getvalue(), np.uint8)
    assert [repr(value) for value in _column(kept)] == [repr(value) for value in LABELS[name]]


@pytest.mark.slow
def test_learning_from_a_file_imports_only_what_it_needs(tmp_path):
    code = """
        import sys
        from dualq.app.cli import run
        assert run(["learn", "--json"]) == 0
        unused = {"pandas", "altair", "vl_convert", "jsonschema", "highspy", "scipy.stats", "scipy.optimize"}
        unused |= {"scipy.sparse.linalg", "scipy.sparse.csgraph", "dualq.online", "dualq.worlds.simulator"}
        unused |= {"scipy.linalg", "numba.np.arrayobj"}  # which kernels that make arrays bring, or call LAPACK
        print(sorted(unused & set(sys.modules)))
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    for _ in range(2):  # the first may compile kernels, for which Numba needs more
        done = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
