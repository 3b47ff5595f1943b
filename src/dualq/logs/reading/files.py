"""Files: text, JSON, Excel, Parquet and Arrow, counted by DuckDB inside of this process.

It reads files as it goes and never holds a whole one.
"""

from __future__ import annotations

import functools
import glob
import itertools
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualq.base import LogError, few, nearest
from dualq.logs.reading.engines import connect, import_or_say, reading
from dualq.logs.reading.expressions import Table, as_table, row_number, window
from dualq.logs.reading.frames import has_many_digits, of_arrays, readable, readable_type, without_a_type
from dualq.logs.reading.sources import (
    FILE,
    NUMBER,
    Metadata,
    Place,
    Rejected,
    Source,
    Told,
    in_order,
    metadata_in,
    short,
)
from dualq.logs.reading.text_files import (
    Head,
    check_fields,
    check_gzip,
    ends_differ,
    head_of,
    last_byte,
    records_in,
    rejected_lines,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from ibis.backends.duckdb import Backend as DuckDB

DATABASES = {".duckdb": "duckdb", ".ddb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
READERS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".xlsx": "excel",
}
DEEPEST = 20  # JSON within JSON whose kinds are told apart: no row is deeper, and Ibis follows a few hundred only
ARROW_STREAM = b"\xff\xff\xff\xff"  # how a file begins that holds Arrow's stream and not its file format


def files_of(path: str) -> list[str]:
    """The files that a path stands for, in the order of their names."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        found = sorted(str(f) for f in Path(path).rglob("*") if f.is_file() and not f.name.startswith((".", "_")))
        found = [file for file in found if _suffix(file) in READERS]
        if not found:
            raise LogError(f"{path}: the folder has no file that can be read ({', '.join(READERS)})")
        return found
    if os.path.exists(path):
        return [path]
    found = sorted(f for f in glob.glob(path, recursive=True) if os.path.isfile(f))
    if found:
        return found
    if glob.has_magic(path):
        raise LogError(f"{path}: no file matches")
    folder = os.path.dirname(path) or "."
    known = sorted(name for name in os.listdir(folder) if _suffix(name) in READERS) if os.path.isdir(folder) else []
    close = nearest(_stem(path), map(_stem, known))  # by their names alone: most files end alike
    if close is not None:
        meant = [name for name in known if _stem(name) == close]
        hint = f"; did you mean {next((name for name in meant if _suffix(name) == _suffix(path)), meant[0])!r}?"
    else:
        hint = f"; beside it there are {few(known, 5)}" if known else ""
    raise LogError(f"{path}: no such file{hint}")


def _stem(file: str) -> str:
    return os.path.basename(file).split(".")[0]


def _suffix(file: str) -> str:
    return Path(file.removesuffix(".gz").removesuffix(".zst")).suffix.lower()


def kind_of(file: str) -> str:
    """The kind of a file, by its name or its first bytes."""
    suffix = _suffix(file)
    if suffix in READERS:
        return READERS[suffix]
    if suffix in DATABASES:
        return DATABASES[suffix]
    with open(file, "rb") as stream:  # the first bytes tell, where the name does not
        start = stream.read(16)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"SQLite format 3"):
        return "sqlite"
    if start[8:12] == b"DUCK":
        return "duckdb"
    if start.startswith((b"ARROW1", ARROW_STREAM)):
        return "arrow"
    known = ", ".join((*READERS, *DATABASES))
    raise LogError(f"{file}: cannot tell what kind of file this is; the name must end in {known} or .csv.gz")


def open_parquet(files: list[str], name: str, told: Told) -> Source:
    """Parquet files, with what dualq kept beside the columns."""
    from pyarrow import parquet

    def numbered() -> Table:
        return _numbered_parquet(files)

    metadata, wide = Metadata(), False
    for file in files:
        with reading(short(file)):
            schema = parquet.read_schema(file)
            metadata = metadata if metadata.columns else metadata_in(schema, short(file))
            wide = wide or any(map(has_many_digits, schema.types))
    if wide:  # DuckDB 1.5 reads such numbers wrongly, most of them (its pull request 25058); Arrow reads them
        return replace(_open_dataset(files, name, told, "parquet"), metadata=metadata)
    with reading(name):
        read = as_table(connect().read_parquet(files))
    return Source(read, name, lambda: open_parquet(files, name, told), numbered, metadata=metadata)


def _numbered_parquet(files: list[str]) -> Table:
    read = as_table(connect().read_parquet(files, filename=FILE, file_row_number=True))
    return read.mutate(**{NUMBER: read.file_row_number + 1}).drop("file_row_number")


def open_csv(files: list[str], name: str, told: Told, text: frozenset[str] = frozenset()) -> Source:
    """Text files of one delimiter; the columns of `text` are not guessed to be numbers."""
    remarks = []
    heads: list[Head] = []
    for file in files:
        with reading(short(file)):
            check_gzip(file)
            if last_byte(file) not in (b"\n", b"\r"):
                remarks.append(f"{short(file)}: the last line has no line break; the file may be cut off")
            heads.append(head_of(file, told.delimiter, told.columns))
    if len({head.mark for head in heads}) > 1:
        raise LogError(f"{name}: the files use different delimiters; write them alike, or read them one by one")
    header = not told.columns
    mark, decimal = heads[0].mark, "," if any(head.decimal_comma for head in heads) else "."
    if decimal == ",":
        remarks.append("numbers are read with decimal commas: 0,5 is a half")

    def read(con: DuckDB, numbered: bool = False, ends: str = "alike") -> Table:
        # store_rejects: lines that are no rows are kept aside with their numbers, and not silently dropped.
        # sample_size: a type is decided by all of the rows, so that it does not depend on where the odd one stands.
        words: dict[str, Any] = {"types": dict.fromkeys(sorted(text), "VARCHAR")} if text else {}
        words |= {"decimal_separator": decimal} if decimal != "." else {}
        words |= {"filename": FILE} if numbered else {}
        words |= {"quote": '"', "escape": '"', "comment": "", "allow_quoted_nulls": False}
        words |= {"header": False, "names": list(told.columns)} if told.columns else {"header": True}
        words |= {} if ends == "alike" else {"strict_mode": False}
        with reading(name):
            return as_table(con.read_csv(files, delim=mark, sample_size=-1, store_rejects=True, **words))

    con, ends = connect(), "alike"
    try:
        rows = read(con)
    except LogError:
        if not ends_differ(files):
            raise
        for file in files:  # DuckDB reads such lines only if it is told not to mind how many fields they have
            check_fields(file, mark)
        con, ends = connect(), "mixed"
        rows = read(con, ends=ends)

    @functools.cache
    def aside() -> list[tuple[str, int, str, str]]:
        other = connect()  # of all rows: `con` may have been asked for some of them
        read(other, ends=ends).count().to_pyarrow()
        return rejected_lines(other)

    def places(file: str, numbers: Collection[int]) -> dict[int, Place]:
        records = frozenset(record for where, record, _, _ in aside() if where == file)
        every, wanted = records_in(file, mark, header, records), set(numbers)
        placed = ((row, Place(record - header, line)) for record, row, line in every if row in wanted)
        return dict(itertools.islice(placed, len(wanted)))

    def rejects() -> list[Rejected]:
        found: list[Rejected] = []
        for file, lines in itertools.groupby(rejected_lines(con), lambda line: line[0]):
            said = {record: (wrong, text) for _, record, wrong, text in lines}
            every = records_in(file, mark, header, said)
            placed = ((record, line) for record, _, line in every if record in said)
            first = dict(itertools.islice(placed, len(said)))
            found += [Rejected(file, record - header, first.get(record, record), *said[record]) for record in said]
        return found

    return Source(
        rows,
        name,
        lambda: open_csv(files, name, told, text),
        lambda: _by_file(read(connect(), numbered=True, ends=ends)),
        header=header,
        as_text=lambda columns: open_csv(files, name, told, text | columns),
        places=places,
        rejects=rejects,
        twice=frozenset(column for head in heads for column in head.twice),
        remarks=tuple(remarks),
    )


def _by_file(rows: Table) -> Table:
    """With the number of each row in its file, where the engine has only the order of all rows."""
    rows = rows.mutate(dualq_all=row_number())
    first = rows.dualq_all.min().over(window(group_by=FILE))
    return rows.mutate(**{NUMBER: rows.dualq_all - first + 1}).drop("dualq_all")


def open_json(files: list[str], name: str, told: Told) -> Source:
    """An object per row: one on each line, or a list of them. What is of several kinds is read as text."""
    types: dict[str, str] = {}

    def read(con: DuckDB, numbered: bool = False) -> Table:
        how: dict[str, Any] = {"columns": types} if types else {"sample_size": -1, "maximum_depth": DEEPEST}
        how |= {"filename": FILE} if numbered else {}
        with reading(name):
            return as_table(con.read_json(files, **how))

    for file in files:
        check_gzip(file)
    con = connect()
    rows = read(con)
    if list(rows.columns) == ["json"]:
        raise LogError(f'{name}: the rows are not objects; a row must look like {{"state": 3, "action": "wait", ...}}')
    mixed = [column for column, kind in rows.schema().items() if kind.is_json()]
    if mixed:
        found = con.con.table(rows.get_name())
        known = dict(zip(found.columns, map(str, found.types), strict=True))
        types |= {column: "VARCHAR" if column in mixed else kind for column, kind in known.items()}
        rows = read(connect())
    kinds = dict.fromkeys(mixed, "numbers and text, or the like")
    return Source(
        rows,
        name,
        lambda: open_json(files, name, told),
        lambda: _by_file(read(connect(), numbered=True)),
        mixed=kinds,
    )


def open_excel(files: list[str], name: str, told: Told) -> Source:
    """A sheet of a workbook; it holds a million rows at most, so it is read into memory."""
    import_or_say("python_calamine", "excel")
    from dualq.logs.reading.excel import columns_of

    file = only(files, name, "workbooks")
    with reading(name):
        found = columns_of(file, name, told.table, told.columns)
    opened = of_arrays(found, name)
    return replace(opened, first=1, header=not told.columns, numbered=lambda: in_order(opened.table, name))


def _is_stream(file: str) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == ARROW_STREAM


def _streamed(files: list[str]) -> pa.Table:
    """Arrow's streams as one table, which stays in the files."""
    import pyarrow as pa

    tables = []
    for file in files:
        with pa.memory_map(file) as stream, pa.ipc.open_stream(stream) as reader:
            tables.append(reader.read_all())
    return pa.concat_tables(tables)


def open_arrow(files: list[str], name: str, told: Told) -> Source:
    """Arrow files or streams, which stay in the files."""
    return _open_dataset(files, name, told, "ipc")


def _open_dataset(files: list[str], name: str, told: Told, kind: str) -> Source:
    """Files that Arrow reads for DuckDB."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    with reading(name):
        if kind == "ipc" and all(map(_is_stream, files)):
            data = readable(_streamed(files))
        else:
            data = ds.dataset(files, format=kind)
            odd = [field for field in data.schema if without_a_type(field.type)]
            if odd:
                right = [field.with_type(readable_type(field.type)) if field in odd else field for field in data.schema]
                data = ds.dataset(files, format=kind, schema=pa.schema(right))
            data.count_rows()
        con = connect()
        con.con.register("log", data)
        read = as_table(con.table("log"))
    return Source(read, name, lambda: _open_dataset(files, name, told, kind), lambda: in_order(read, name))


def only(files: list[str], name: str, kind: str = "databases") -> str:
    """The one file there is, where several would not do."""
    if len(files) != 1:
        raise LogError(f"{name}: there are {len(files)} {kind}; give one")
    return files[0]
