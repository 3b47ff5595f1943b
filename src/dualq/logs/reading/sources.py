"""Sources: a log wherever it lies, as an Ibis table.

    path.csv, .csv.gz, .tsv       read by DuckDB; the delimiter is read off the first line
    path.jsonl, .ndjson, .json    an object per row, read by DuckDB
    path.xlsx                     a sheet of a workbook, with ::sheet at the end where there are several (extra `excel`)
    path.parquet, a folder, a glob, .arrow, .feather, Arrow streams too
    path.duckdb, path.sqlite, .db with ::table at the end (or table=...)
    postgres://...::table         counted by PostgreSQL itself (extra `postgres`)
    an Ibis table                 counted wherever it lies: Spark (extra `spark`), a warehouse
    a pandas, Polars, Arrow or Spark frame, a dict of arrays, a Minari data set with discrete spaces

Files and frames are counted by DuckDB inside of this process. It reads files as it goes and never holds a whole one.
A Source can be opened again, on a connection of its own, with the number of each row (`numbered`), for messages.
"""

from __future__ import annotations

import glob
import json
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualq.base import LogError
from dualq.logs.reading.text_files import Head, check_gzip, head_of, last_byte, rejected_lines

if TYPE_CHECKING:
    import ibis
    import pyarrow as pa

METADATA = b"dualq"  # the key of what a Parquet file keeps beside its columns: JSON
FILE, NUMBER = "dualq_file", "dualq_row"  # columns of `numbered`
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
ARROW_STREAM = b"\xff\xff\xff\xff"  # how a file begins that holds Arrow's stream and not its file format


@dataclass(frozen=True)
class Told:
    """What the user says of a file, since the file does not."""

    table: str | None = None  # of a database, or the sheet of a workbook
    delimiter: str | None = None
    columns: tuple[str, ...] = ()  # their names, where the first line is a row already


@dataclass(frozen=True)
class Source:
    """A table, and all that messages and a second reading need."""

    table: ibis.Table
    name: str  # one line, for people
    reopen: Callable[[], Source] | None = None  # the same on a connection of its own
    numbered: Callable[[], ibis.Table] | None = None  # with the columns FILE and NUMBER; None where rows have no order
    first: int = 1  # the number of the first row
    header: bool = False  # whether row n is line n + 1 of a text file
    as_text: Callable[[frozenset[str]], Source] | None = None  # the same with these columns as text; None: has types
    rejects: Callable[[], list[tuple[str, int, str, str]]] | None = None  # (file, line, what is wrong, the line)
    kept: Mapping[str, Any] = field(default_factory=dict)  # what dualq wrote beside the columns
    twice: frozenset[str] = frozenset()  # names that several columns of a text file have, whatever their case
    remarks: tuple[str, ...] = ()  # how the file was understood, where that is not plain
    warnings: tuple[str, ...] = ()  # what in the columns may be wrong
    mixed: Mapping[str, str] = field(default_factory=dict)  # {column of values of several types, as text here: which}

    @property
    def ordered(self) -> bool:
        """Whether the rows have an order of their own."""
        return self.numbered is not None


def open_source(
    source: Any, table: str | None = None, delimiter: str | None = None, columns: Sequence[str] | None = None
) -> Source:
    """Open whatever a log may be; a LogError says what is wrong with it, and what would be right."""
    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        return _open_path(os.fspath(source), Told(table, delimiter, _names(columns)))
    if columns:
        raise LogError("columns=... names the columns of a text file without a header; a frame has names of its own")
    if isinstance(source, Mapping):
        return _of_arrays(source)
    module = type(source).__module__.split(".")[0]
    opener = _FRAMES.get(module)
    if opener is not None:
        return opener(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _of_arrow(source)
    raise LogError(f"cannot read a log from {type(source).__name__}; give {_ALL}")


def _names(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns, as they were given."""
    if isinstance(columns, str) or not all(isinstance(name, str) and name.strip() for name in columns or ()):
        raise LogError(f'columns is {columns!r}; it must be a list of names, such as ["state", "action", "reward"]')
    names = tuple(name.strip() for name in columns or ())
    twice = [name for name in names if sum(name.lower() == other.lower() for other in names) > 1]
    if twice:
        raise LogError(f"columns names {twice[0]!r} twice; give every column a name of its own")
    return names


_ALL = (
    "a path, a glob, a URL, an Ibis table, a pandas, Polars, Arrow or Spark frame, "
    "a dict of arrays, or a Minari data set"
)

# ---- files


def _open_path(path: str, told: Told) -> Source:
    path, _, inside = path.partition("::")
    told = replace(told, table=inside or told.table)
    if path.startswith("minari:"):
        import_or_say("minari", "minari")
        import minari

        return _of_minari(minari.load_dataset(path.removeprefix("minari:").removeprefix("//")))
    if re.match(r"^[a-z]+://", path):
        return _of_url(path, told.table)
    files = _files(path)
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise LogError(f"{path}: there are files of several kinds ({', '.join(sorted(kinds))}); give one kind")
    for file in files:
        if os.path.getsize(file) == 0:
            raise LogError(f"{file}: the file is empty; a log needs column names and rows below them")
    kind = kinds.pop()
    if told.columns and kind not in ("csv", "excel"):
        raise LogError(f"{path}: columns=... (--columns) is for CSV and Excel files without a header; this has names")
    return _KINDS[kind](files, _short(path), told)


def _files(path: str) -> list[str]:
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
    from dualq.base import few, nearest

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


def _kind(file: str) -> str:
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


def _short(path: str) -> str:
    return os.path.basename(path.rstrip(os.sep)) or path


def connect() -> Any:
    """DuckDB in this process, in memory; time zones as UTC, and what does not fit into memory on disk."""
    import ibis

    con = ibis.duckdb.connect()
    con.raw_sql("SET TimeZone = 'UTC'")
    con.raw_sql("SET enable_progress_bar = false")
    return con


def batches(expression: Any, size: int) -> pa.RecordBatchReader:
    """The engine's answer as it comes, at most about `size` rows at a time."""
    backend = expression.get_backend()
    if backend.name != "duckdb":
        return expression.to_pyarrow_batches(chunk_size=size)
    # Asked of DuckDB itself: it costs less than through Ibis 12, which calls a method that DuckDB retires.
    backend._run_pre_execute_hooks(expression)
    answer = backend.con.sql(backend.compile(expression))
    return (getattr(answer, "to_arrow_reader", None) or answer.fetch_record_batch)(size)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What an engine complains of, as a LogError in one line."""
    import duckdb
    import pyarrow as pa
    from ibis.common.exceptions import IbisError

    try:
        yield
    except (duckdb.Error, pa.ArrowException, IbisError, OSError, UnicodeError) as error:
        raise LogError(f"{name}: cannot be read{_cut_off(error)} ({_first_line(error)})") from None


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _cut_off(error: BaseException) -> str:
    text = str(error).lower()
    words = ("magic", "footer", "too small", "truncat", "unexpected end", "gzip", "malformed", "corrupt", "thrift")
    words += ("unquoted", "not a database", "buffer", "enough bytes", "not an arrow", "snappy", "zstd")
    return "; it may be cut off in the middle, or damaged" if any(w in text for w in words) else ""


def _parquet(files: list[str], name: str, told: Told) -> Source:
    from pyarrow import parquet

    def numbered() -> Any:
        return _numbered_parquet(files)

    kept: dict[str, Any] = {}
    for file in files:
        with reading(_short(file)):
            schema = parquet.read_schema(file)
            kept = kept or _kept(schema)
    with reading(name):
        read = connect().read_parquet(files)
    return Source(read, name, lambda: _parquet(files, name, told), numbered, kept=kept)


def _numbered_parquet(files: list[str]) -> Any:
    read = connect().read_parquet(files, filename=FILE, file_row_number=True)
    return read.mutate(**{NUMBER: read.file_row_number + 1}).drop("file_row_number")


def _kept(schema: pa.Schema) -> dict[str, Any]:
    """What `Log.to_parquet` keeps beside the columns: the parts they play, and the range of rewards."""
    if METADATA not in (schema.metadata or {}):
        return {}
    kept = json.loads(schema.metadata[METADATA])
    columns = {part: tuple(names) for part, names in kept.get("columns", {}).items()}
    columns |= {"reward": ("reward",), "time": ("time",)}
    columns |= {"terminal": ("ended",)} if "ended" in schema.names else {}
    more = ("reward_range", "source", "costs", "cost_ranges")
    return {**columns, **{word: kept[word] for word in more if word in kept}}


def _csv(files: list[str], name: str, told: Told, text: frozenset[str] = frozenset()) -> Source:
    remarks = []
    heads: list[Head] = []
    for file in files:
        with reading(_short(file)):
            check_gzip(file)
            if last_byte(file) not in (b"\n", b"\r"):
                remarks.append(f"{_short(file)}: the last line has no line break; the file may be cut off")
            heads.append(head_of(file, told.delimiter, told.columns))
    if len({head.mark for head in heads}) > 1:
        raise LogError(f"{name}: the files use different delimiters; write them alike, or read them one by one")
    mark, decimal = heads[0].mark, "," if any(head.decimal_comma for head in heads) else "."
    if decimal == ",":
        remarks.append("numbers are read with decimal commas: 0,5 is a half")

    def read(con: Any, **more: Any) -> Any:
        # store_rejects: lines that are no rows are kept aside with their numbers, and not silently dropped.
        # sample_size: a type is decided by all of the rows, so that it does not depend on where the odd one stands.
        more |= {"types": dict.fromkeys(sorted(text), "VARCHAR")} if text else {}
        words: dict[str, Any] = {"decimal_separator": decimal} if decimal != "." else {}
        words |= {"quote": '"', "escape": '"', "comment": "", "allow_quoted_nulls": False}
        words |= {"header": False, "names": list(told.columns)} if told.columns else {"header": True}
        with reading(name):
            return con.read_csv(files, delim=mark, sample_size=-1, store_rejects=True, **words, **more)

    con = connect()
    rows = read(con)
    return Source(
        rows,
        name,
        lambda: _csv(files, name, told, text),
        lambda: _by_file(read(connect(), filename=FILE)),
        header=not told.columns,
        as_text=lambda columns: _csv(files, name, told, text | columns),
        rejects=lambda: rejected_lines(con),
        twice=frozenset(column for head in heads for column in head.twice),
        remarks=tuple(remarks),
    )


def _by_file(rows: Any) -> Any:
    """With the number of each row in its file, where the engine has only the order of all rows."""
    import ibis

    rows = rows.mutate(dualq_all=ibis.row_number())
    first = rows.dualq_all.min().over(ibis.window(group_by=FILE))
    return rows.mutate(**{NUMBER: rows.dualq_all - first + 1}).drop("dualq_all")


def _json(files: list[str], name: str, told: Told) -> Source:
    """An object per row: one on each line, or a list of them. What is of several kinds is read as text."""
    types: dict[str, str] = {}

    def read(**more: Any) -> Any:
        with reading(name):
            return connect().read_json(files, **({"columns": types} if types else {"sample_size": -1}), **more)

    for file in files:
        check_gzip(file)
    rows = read()
    if list(rows.columns) == ["json"]:
        raise LogError(f'{name}: the rows are not objects; a row must look like {{"state": 3, "action": "wait", ...}}')
    mixed = [column for column, kind in rows.schema().items() if kind.is_json()]
    if mixed:
        found = rows.get_backend().con.table(rows.get_name())
        known = dict(zip(found.columns, map(str, found.types), strict=True))
        types |= {column: "VARCHAR" if column in mixed else kind for column, kind in known.items()}
        rows = read()
    kinds = dict.fromkeys(mixed, "numbers and text, or the like")
    return Source(rows, name, lambda: _json(files, name, told), lambda: _by_file(read(filename=FILE)), mixed=kinds)


def _excel(files: list[str], name: str, told: Told) -> Source:
    """A sheet of a workbook; it holds a million rows at most, so it is read into memory."""
    import_or_say("python_calamine", "excel")
    from dualq.logs.reading.excel import columns_of

    file = _one(files, name, "workbooks")
    with reading(name):
        found = columns_of(file, name, told.table, told.columns)
    opened = _of_arrays(found, name)
    return replace(opened, first=1, header=not told.columns, numbered=lambda: _in_order(opened.table, name))


def with_whole_labels(opened: Source, alike: Sequence[tuple[str, ...]]) -> Source:
    """Labels of a text file as they are written, where numbers would not keep them.

    DuckDB reads a column with 007 in it as text. So must be the column beside it, of the state or the next
    state, though it happens to have none; and whole numbers with more digits than fit, which would be rounded.
    alike   columns of labels; those of one tuple are of one kind (a state's and its next state's)
    """
    if opened.as_text is None:
        return opened
    types = opened.table.schema()
    doubtful = [part for part in alike if any(types[c].is_floating() for c in part)]
    doubtful += [part for part in alike if {types[c].is_string() for c in part} == {True, False}]
    if not doubtful:
        return opened
    with reading(opened.name):
        written = opened.as_text(frozenset(column for part in doubtful for column in part)).table
        lost = frozenset(column for part in doubtful if _loses(written, part) for column in part)
    return opened.as_text(lost) if lost else opened


def _loses(written: Any, columns: tuple[str, ...]) -> bool:
    """Whether these columns of text are whole numbers, and some of them would not be kept by a number."""
    asked = {}
    for i, column in enumerate(columns):
        text = written[column]
        asked |= {f"known{i}": text.count(), f"whole{i}": text.count(where=text.re_search("^[-+]?[0-9]+$"))}
        asked[f"lost{i}"] = text.count(where=text.re_search("^[-+]?(0[0-9]+|[0-9]{16,})$"))
    found = written.aggregate(**asked).to_pyarrow().to_pylist()[0]
    places = range(len(columns))
    return all(found[f"known{i}"] == found[f"whole{i}"] for i in places) and any(found[f"lost{i}"] for i in places)


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


def _arrow(files: list[str], name: str, told: Told) -> Source:
    import pyarrow.dataset as ds

    with reading(name):
        if all(map(_is_stream, files)):
            data = _streamed(files)
        else:
            data = ds.dataset(files, format="ipc")
            data.count_rows()
        con = connect()
        con.con.register("log", data)
        read = con.table("log")
    return Source(read, name, lambda: _arrow(files, name, told), lambda: _in_order(read, name))


def _in_order(table: Any, name: str) -> Any:
    import ibis

    return table.mutate(**{FILE: ibis.literal(name), NUMBER: ibis.row_number() + 1})


# ---- databases


def _duckdb(files: list[str], name: str, told: Told) -> Source:
    import ibis

    file = _one(files, name)
    with reading(name):
        con = ibis.duckdb.connect(file, read_only=True)
        con.raw_sql("SET TimeZone = 'UTC'")
        read = con.table(_table_name(name, told.table, con.list_tables()))
    return Source(read, f"{name}::{read.get_name()}", None, lambda: _in_order(read, name))


def _sqlite(files: list[str], name: str, told: Told) -> Source:
    import sqlite3

    import ibis

    file = _one(files, name)
    try:
        with reading(name):
            con = ibis.sqlite.connect(file)
            read = con.table(_table_name(name, told.table, con.list_tables()))
            con.con.execute("PRAGMA quick_check(1)")
            read, label = _typed(read), f"{name}::{read.get_name()}"
    except sqlite3.Error as error:
        raise LogError(f"{name}: cannot be read{_cut_off(error)} ({error})") from None
    return Source(read, label, lambda: _sqlite(files, name, told))


def _typed(table: Any) -> Any:
    """Columns of numbers in which some value is text, as text: in SQLite every value has a type of its own."""
    numbers = [column for column, kind in table.schema().items() if kind.is_numeric()]
    asked = {f"c{i}": table.count(where=table[column].typeof() == "text") for i, column in enumerate(numbers)}
    found = table.aggregate(**asked).to_pyarrow().to_pylist()[0] if asked else {}
    mixed = [column for column, some in zip(numbers, found.values(), strict=True) if some]
    return table.mutate(**{column: table[column].cast("string") for column in mixed}) if mixed else table


def _of_url(url: str, table: str | None) -> Source:
    import ibis

    if url.startswith(("postgres://", "postgresql://")):
        import_or_say("psycopg", "postgres")
        url = url.replace("postgresql://", "postgres://", 1)
        shown = re.sub(r"//[^/]*@", "//", url).split("?")[0]  # no password in a message
        try:
            con: Any = ibis.connect(url)
        except Exception as error:
            raise LogError(f"{shown}: cannot connect ({_first_line(error)})") from None
        weakref.finalize(con, con.con.close)  # Ibis itself leaves the connection open
        read = con.table(_table_name(shown, table, con.list_tables()))
        return Source(read, f"{shown}::{read.get_name()}", lambda: _of_url(url, table))
    scheme = url.split("://")[0]
    raise LogError(
        f"{scheme}://: this kind of URL cannot be opened; give postgres://..., or connect with Ibis and give the table"
    )


def _table_name(name: str, table: str | None, known: Sequence[str]) -> str:
    if table is None:
        if len(known) == 1:
            return known[0]
        few = ", ".join(list(known)[:8])
        right = f'name it as "{name}::TABLE" or with --table (table=...)'
        raise LogError(
            f"{name}: which table is the log? The tables are {few}; {right}" if few else f"{name}: no tables"
        )
    if table not in known:
        from dualq.logs.reading.schema import near

        raise LogError(f"{name}: there is no table {table!r}{near(table, known)}")
    return table


def _one(files: list[str], name: str, kind: str = "databases") -> str:
    if len(files) != 1:
        raise LogError(f"{name}: there are {len(files)} {kind}; give one")
    return files[0]


_KINDS: dict[str, Callable[[list[str], str, Told], Source]] = {
    "parquet": _parquet,
    "csv": _csv,
    "arrow": _arrow,
    "json": _json,
    "excel": _excel,
    "duckdb": _duckdb,
    "sqlite": _sqlite,
}

# ---- frames


def _frame(table: pa.Table, name: str, mixed: Mapping[str, str] | None = None) -> Source:
    table = _without_dictionaries(table)
    with reading(name):
        con = connect()
        con.con.register("log", table)
        read = con.table("log")

    def numbered() -> Any:
        rows = _in_order(read, name)
        return rows.mutate(**{NUMBER: rows[NUMBER] - 1})

    kept = _kept(table.schema) if table.schema.metadata else {}
    return Source(read, name, lambda: _frame(table, name), numbered, first=0, kept=kept, mixed=mixed or {})


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Categories as the values they stand for; columns of nothing but nulls as numbers."""
    import pyarrow as pa

    for i, part in enumerate(table.schema):
        if pa.types.is_dictionary(part.type):
            table = table.set_column(i, part.name, table.column(i).cast(part.type.value_type))
        elif pa.types.is_null(part.type):
            table = table.set_column(i, part.name, table.column(i).cast(pa.float64()))
    return table


def _of_arrays(columns: Mapping[str, Any], source: str = "arrays") -> Source:
    import numpy as np
    import pyarrow as pa

    made, mixed = {}, {}
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else _listed(values)
        if isinstance(array, np.ndarray) and array.ndim != 1:
            shape = "×".join(map(str, array.shape))
            raise LogError(f"{source}: the column {name!r} has the shape {shape}; give one array of rows per column")
        try:
            made[str(name)] = pa.array(array) if not isinstance(array, pa.Array | pa.ChunkedArray) else array
        except (pa.ArrowException, TypeError, ValueError):
            made[str(name)], mixed[str(name)] = _as_text(array)
    sizes = {name: len(column) for name, column in made.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise LogError(f"{source}: the columns have different numbers of rows: {listed}")
    return _frame(pa.table(made), source, mixed)


def _as_text(values: Any) -> tuple[pa.Array, str]:
    """Values of several types as text, and the types: numbers and an "n/a" become a column with one bad row."""
    import pyarrow as pa

    known = [None if value is None or value != value else value for value in values]
    kinds = sorted({type(value).__name__ for value in known if value is not None})
    return pa.array([None if value is None else str(value) for value in known], pa.string()), ", ".join(kinds)


def _listed(values: Any) -> Any:
    """Lists stay lists: NumPy would make text of [1, "a"] without a word."""
    import numpy as np

    return values if isinstance(values, list | tuple) else np.asarray(values)


def _of_pandas(frame: Any) -> Source:
    import pyarrow as pa

    mixed = {}
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if values.dtype == object:
            try:
                pa.Array.from_pandas(values)
            except (pa.ArrowException, TypeError, ValueError):
                frame = frame.copy(deep=False) if not mixed else frame
                text, mixed[str(column)] = _as_text(values.astype(object).where(values.notna(), None))
                frame.isetitem(place, text.to_pandas())
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(f"pandas frame: cannot be read ({_first_line(error)})") from None
    return _frame(table.replace_schema_metadata(), "pandas frame", mixed)


def _of_polars(frame: Any) -> Source:
    frame = frame.collect() if hasattr(frame, "collect") else frame
    return _frame(frame.to_arrow(), "Polars frame")


def _of_arrow(source: Any) -> Source:
    import pyarrow as pa

    return _frame(source if isinstance(source, pa.Table) else pa.table(source), "Arrow table")


def _of_pyarrow(source: Any) -> Source:
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not isinstance(source, pa.Table):
        source = source.read_all() if hasattr(source, "read_all") else source.to_table()
    return _of_arrow(source)


def _of_ibis(table: Any) -> Source:
    if not hasattr(table, "columns"):
        raise LogError(f"an Ibis {type(table).__name__} is not a table; give the table")
    import ibis.expr.operations as ops

    name = table.get_name() if isinstance(table.op(), ops.DatabaseTable) else "Ibis table"
    in_process = table.get_backend().name == "duckdb" and not table.op().find(_reordering())
    return Source(table, name, None, (lambda: _in_order(table, name)) if in_process else None)


def _reordering() -> Any:
    import ibis.expr.operations as ops

    return (ops.Aggregate, ops.JoinChain, ops.Set, ops.Distinct)


def _of_spark(frame: Any) -> Source:
    import_or_say("pyspark", "spark")
    import ibis

    con = ibis.pyspark.connect(frame.sparkSession)
    view = f"dualq_{id(frame):x}"
    frame.createOrReplaceTempView(view)
    return Source(con.table(view), "Spark frame")


def _of_minari(data: Any) -> Source:
    """One row per step: observation, action, reward, next observation, the flags, episode and time."""
    import numpy as np
    import pyarrow as pa

    name = f"minari:{data.spec.dataset_id}"
    for kind, space in (("observation", data.spec.observation_space), ("action", data.spec.action_space)):
        if not isinstance(getattr(space, "n", None), int | np.integer) or getattr(space, "shape", ()) != ():
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
    return _frame(pa.Table.from_batches(batches), name)


_FRAMES: dict[str, Callable[[Any], Source]] = {
    "pandas": _of_pandas,
    "polars": _of_polars,
    "pyarrow": _of_pyarrow,
    "ibis": _of_ibis,
    "pyspark": _of_spark,
    "minari": _of_minari,
}


def import_or_say(module: str, extra: str) -> None:
    """A LogError that says which extra is missing."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        package = module.replace("_", "-")
        raise LogError(f"this needs the package {package}; install it with: pip install 'dualq[{extra}]'")
