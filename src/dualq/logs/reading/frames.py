"""Frames: a pandas, Polars, Arrow, Ibis or Spark frame, a dict of arrays, a Minari data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dualq.base import LogError
from dualq.logs.reading.engines import connect, first_line, import_or_say, reading
from dualq.logs.reading.expressions import Table, as_table
from dualq.logs.reading.sources import NUMBER, Source, in_order, metadata_in

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    from minari import MinariDataset
    from pyspark.sql import DataFrame as SparkFrame


@runtime_checkable
class ArrowStream(Protocol):
    """A frame of any library that hands its columns over as Arrow does."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of batches, without a copy."""
        ...


def of_table(table: pa.Table, name: str, mixed: Mapping[str, str] | None = None) -> Source:
    """An Arrow table, counted by DuckDB where it lies in memory."""
    with reading(name):
        table = readable(table)
        con = connect()
        con.con.register("log", table)
        read = as_table(con.table("log"))

    def numbered() -> Table:
        rows = in_order(read, name)
        return rows.mutate(**{NUMBER: rows[NUMBER] - 1})

    metadata = metadata_in(table.schema, name)
    return Source(read, name, lambda: of_table(table, name), numbered, first=0, metadata=metadata, mixed=mixed or {})


def readable(table: pa.Table) -> pa.Table:
    """The same with types that DuckDB reads."""
    for i, part in enumerate(table.schema):
        if (right := readable_type(part.type)) != part.type:
            table = table.set_column(i, part.name, table.column(i).cast(right))
    return table


def readable_type(kind: pa.DataType) -> pa.DataType:
    """What DuckDB reads in place of a type of Arrow.

    Categories are the values they stand for, columns of nothing but nulls are numbers, and so is what it has no type
    for.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return readable_type(kind.value_type)
    return pa.float64() if pa.types.is_null(kind) or without_a_type(kind) else kind


def without_a_type(kind: pa.DataType) -> bool:
    """Whether DuckDB has no type for it: numbers of 16 bits, decimals of 256."""
    import pyarrow as pa

    return pa.types.is_float16(kind) or pa.types.is_decimal256(kind)


def has_many_digits(kind: pa.DataType) -> bool:
    """Whether it is a decimal of more digits than DuckDB's have."""
    import pyarrow as pa

    return pa.types.is_decimal(kind) and kind.precision > 38


def of_arrays(columns: Mapping[str, object], source: str = "arrays") -> Source:
    """A dict of arrays or lists."""
    import numpy as np
    import pyarrow as pa

    made, mixed = {}, {}
    for name, values in columns.items():
        if str(name) != str(name).encode(errors="replace").decode():
            raise LogError(f"{source}: a column is called {name!r}, which is no text of Unicode; call it otherwise")
        if isinstance(values, pa.Array | pa.ChunkedArray):
            made[str(name)] = values
            continue
        array = values if isinstance(values, list | tuple) else np.asarray(values)  # NumPy makes text of [1, "a"]
        if isinstance(array, np.ndarray) and array.ndim != 1:
            shape = "×".join(map(str, array.shape))
            raise LogError(
                f"{source}: the column {name!r} has the shape {shape}; give one array of rows per column",
                column=str(name),
                value=shape,
            )
        try:
            made[str(name)] = pa.array(array)
        except (pa.ArrowException, TypeError, ValueError):
            made[str(name)], mixed[str(name)] = _as_text(array, source, str(name))
    sizes = {name: len(column) for name, column in made.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise LogError(f"{source}: the columns have different numbers of rows: {listed}")
    return of_table(pa.table(made), source, mixed)


def _as_text(values: Iterable[object], source: str, column: str) -> tuple[pa.Array, str]:
    """Values of several types as text, and the types: numbers and an "n/a" become a column with one bad row."""
    import numpy as np
    import pyarrow as pa

    values = list(values)
    if any(isinstance(value, np.ndarray) for value in values):
        right = "give their parts as columns, each a number or a label (images and text are not learned from)"
        raise LogError(f"a column holds arrays; {right}")
    known = [None if value is None or value != value else value for value in values]
    kinds = sorted({type(value).__name__ for value in known if value is not None})
    texts = [None if value is None else str(value) for value in known]
    try:
        return pa.array(texts, pa.string()), ", ".join(kinds)
    except UnicodeEncodeError as error:
        row = texts.index(error.object)
        wrong = f"{source}: row {row} (counted from 0): {column} is {error.object!r}, which is no text of Unicode"
        raise LogError(f"{wrong}; correct it", row=row, column=column, value=error.object) from None


def of_pandas(frame: pd.DataFrame) -> Source:
    """A pandas frame."""
    import pyarrow as pa

    mixed = {}
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if values.dtype == object:
            try:
                pa.Array.from_pandas(values)
            except (pa.ArrowException, TypeError, ValueError):
                frame = frame.copy(deep=False) if not mixed else frame
                text, mixed[str(column)] = _as_text(
                    values.astype(object).where(values.notna(), None), "pandas frame", str(column)
                )
                frame.isetitem(place, text.to_pandas())
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(f"pandas frame: cannot be read ({first_line(error)})") from None
    return of_table(table.replace_schema_metadata(), "pandas frame", mixed)


def of_polars(frame: pl.DataFrame | pl.LazyFrame) -> Source:
    """A Polars frame, lazy or not."""
    import polars as pl

    found = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    return of_table(found.to_arrow(), "Polars frame")


def of_arrow(source: ArrowStream) -> Source:
    """Whatever gives an Arrow stream."""
    import pyarrow as pa

    return of_table(source if isinstance(source, pa.Table) else pa.table(source), "Arrow table")


def of_pyarrow(source: pa.Table | pa.RecordBatch | pa.RecordBatchReader | ds.Dataset) -> Source:
    """An Arrow table, batch, reader or data set."""
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif isinstance(source, pa.RecordBatchReader):
        source = source.read_all()
    elif not isinstance(source, pa.Table):
        source = source.to_table()
    return of_arrow(source)


def of_ibis(table: ir.Expr) -> Source:
    """An Ibis table, counted wherever it lies."""
    import ibis.expr.types as ir

    if not isinstance(table, ir.Table):
        raise LogError(f"an Ibis {type(table).__name__} is not a table; give the table")
    import ibis.expr.operations as ops

    name = table.get_name() if isinstance(table.op(), ops.DatabaseTable) else "Ibis table"
    in_process = table.get_backend().name == "duckdb" and not table.op().find(_reordering())
    read = as_table(table)
    return Source(read, name, None, (lambda: in_order(read, name)) if in_process else None)


def _reordering() -> tuple[type, ...]:
    import ibis.expr.operations as ops

    return (ops.Aggregate, ops.JoinChain, ops.Set, ops.Distinct)


def of_spark(frame: SparkFrame) -> Source:
    """A Spark frame, counted by Spark."""
    import_or_say("pyspark", "spark")
    import ibis

    con = ibis.pyspark.connect(frame.sparkSession)
    view = f"dualq_{id(frame):x}"
    frame.createOrReplaceTempView(view)
    return Source(as_table(con.table(view)), "Spark frame")


def of_minari(data: MinariDataset) -> Source:
    """One row per step: observation, action, reward, next observation, the flags, episode and time."""
    import numpy as np
    import pyarrow as pa
    from gymnasium.spaces import Discrete

    name = f"minari:{data.spec.dataset_id}"
    for kind, space in (("observation", data.spec.observation_space), ("action", data.spec.action_space)):
        if not isinstance(space, Discrete):
            raise LogError(
                f"{name}: the {kind} space is {space}; it must be discrete; for numbers, give a table and bins"
            )
    batches = []
    for episode in data.iterate_episodes():
        seen, count = np.asarray(episode.observations), len(episode.rewards)
        batches.append(
            pa.record_batch(
                {
                    "state": seen[:count],
                    "action": np.asarray(episode.actions),
                    "reward": np.asarray(episode.rewards, float),
                    "next_state": seen[1 : count + 1],
                    "terminated": np.asarray(episode.terminations, bool),
                    "truncated": np.asarray(episode.truncations, bool),
                    "episode": np.full(count, episode.id, np.int64),
                    "time": np.arange(count),
                }
            )
        )
    return of_table(pa.Table.from_batches(batches), name)


FRAMES: dict[str, Callable[[Any], Source]] = {
    "pandas": of_pandas,
    "polars": of_polars,
    "pyarrow": of_pyarrow,
    "ibis": of_ibis,
    "pyspark": of_spark,
    "minari": of_minari,
}
