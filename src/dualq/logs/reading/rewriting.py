"""A table written again with more columns, a part at a time: whole or not at all, whatever its length."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dualq.base import LogError, written_aside
from dualq.logs.reading.column_types import with_durations_as_text
from dualq.logs.reading.engines import batches, reading
from dualq.logs.reading.open_source import about_source, open_source
from dualq.logs.reading.schema import near

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 17  # rows


class Writer(Protocol):
    """Where tables of one schema go, one after another."""

    def write_table(self, table: pa.Table) -> None:
        """The next rows."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


@about_source
def rewrite(
    source: object,
    out: str | os.PathLike[str],
    needed: Sequence[str],
    words: Sequence[str],
    more: Callable[[Any], Any],
    table: str | None = None,
) -> None:
    """Write a table to a .csv or .parquet file as `more` makes it of each of its parts, in the order of its rows.

    needed   the columns that must be there
    words    those whose labels are text: 007 stays 007 though it looks like a number
    """
    import pyarrow as pa

    opened, out = open_source(source, table), Path(out)
    new = WRITERS.get(out.suffix.lower())
    if new is None:
        raise LogError(f"--out {out}: must end in {' or '.join(WRITERS)}", argument="out", value=str(out))
    for name in needed:
        if name not in opened.table.columns:
            hint = near(name, opened.table.columns)
            raise LogError(f"{opened.name}: there is no column {name!r}{hint}", column=name)
    types = opened.table.schema()
    if opened.as_text is not None and any(not types[name].is_string() for name in words):
        opened = opened.as_text(frozenset(words))
    writer: Writer | None = None
    with written_aside(out) as part, reading(opened.name):
        reader = batches(with_durations_as_text(opened.table), CHUNK)
        for batch in reader:
            made = more(pa.Table.from_batches([batch]))
            writer = writer or new(str(part), made.schema)
            writer.write_table(made)
        if writer is None:
            made = more(reader.schema.empty_table())
            writer = new(str(part), made.schema)
        writer.close()


def _csv(path: str, schema: pa.Schema) -> Writer:
    from pyarrow import csv

    return csv.CSVWriter(path, schema, write_options=csv.WriteOptions(quoting_style="needed"))


def _parquet(path: str, schema: pa.Schema) -> Writer:
    from pyarrow import parquet

    return parquet.ParquetWriter(path, schema)


WRITERS: dict[str, Callable[[str, pa.Schema], Writer]] = {".csv": _csv, ".parquet": _parquet}
