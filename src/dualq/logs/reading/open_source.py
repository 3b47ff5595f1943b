"""Opening a log, whatever it is, as a Source.

path.csv, .csv.gz, .tsv       read by DuckDB; the delimiter is read off the first line
path.jsonl, .ndjson, .json    an object per row, read by DuckDB
path.xlsx                     a sheet of a workbook, with ::sheet at the end where there are several (extra `excel`)
path.parquet, a folder, a glob, .arrow, .feather, Arrow streams too
path.duckdb, path.sqlite, .db with ::table at the end (or table=...)
postgres://...::table         counted by PostgreSQL itself (extra `postgres`)
an Ibis table                 counted wherever it lies: Spark (extra `spark`), a warehouse
a pandas, Polars, Arrow or Spark frame, a dict of arrays, a Minari data set with discrete spaces
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from dualq.base import LogError, about
from dualq.logs.reading.databases import of_url, open_duckdb, open_sqlite
from dualq.logs.reading.engines import import_or_say
from dualq.logs.reading.files import files_of, kind_of, open_arrow, open_csv, open_excel, open_json, open_parquet
from dualq.logs.reading.frames import FRAMES, ArrowStream, of_arrays, of_arrow, of_minari
from dualq.logs.reading.sources import Source, Told, short, stamp_of
from dualq.logs.reading.urls import is_url, split_table, without_password

_ALL = (
    "a path, a glob, a URL, an Ibis table, a pandas, Polars, Arrow or Spark frame, "
    "a dict of arrays, or a Minari data set"
)

_KINDS: dict[str, Callable[[list[str], str, Told], Source]] = {
    "parquet": open_parquet,
    "csv": open_csv,
    "arrow": open_arrow,
    "json": open_json,
    "excel": open_excel,
    "duckdb": open_duckdb,
    "sqlite": open_sqlite,
}

Options = ParamSpec("Options")
Answer = TypeVar("Answer")


def about_source(
    read: Callable[Concatenate[object, Options], Answer],
) -> Callable[Concatenate[object, Options], Answer]:
    """A function that reads a source, whose errors name the file or database (`error.path`) where it is one."""

    @functools.wraps(read)
    def reading(source: object, *arguments: Options.args, **options: Options.kwargs) -> Answer:
        if not isinstance(source, str | os.PathLike):
            return read(source, *arguments, **options)
        with about(path=without_password(source)):
            return read(source, *arguments, **options)

    return reading


def open_source(
    source: object, table: str | None = None, delimiter: str | None = None, columns: Sequence[str] | None = None
) -> Source:
    """Open whatever a log may be; a LogError says what is wrong with it, and what would be right."""
    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        return _open_path(os.fspath(source), Told(table, delimiter, _names(columns)))
    if columns:
        raise LogError(
            "columns=... names the columns of a text file without a header; a frame has names of its own",
            argument="columns",
        )
    if isinstance(source, Mapping):
        return of_arrays(source)
    module = type(source).__module__.split(".")[0]
    opener = FRAMES.get(module)
    if opener is not None:
        return opener(source)
    if isinstance(source, ArrowStream):
        return of_arrow(source)
    raise LogError(f"cannot read a log from {type(source).__name__}; give {_ALL}")


def _names(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns, as they were given."""
    if isinstance(columns, str) or not all(isinstance(name, str) and name.strip() for name in columns or ()):
        raise LogError(
            f'columns is {columns!r}; it must be a list of names, such as ["state", "action", "reward"]',
            argument="columns",
            value=columns,
        )
    names = tuple(name.strip() for name in columns or ())
    twice = [name for name in names if sum(name.lower() == other.lower() for other in names) > 1]
    if twice:
        raise LogError(
            f"columns names {twice[0]!r} twice; give every column a name of its own", argument="columns", value=twice[0]
        )
    return names


def _open_path(path: str, told: Told) -> Source:
    path, inside = split_table(path)
    told = replace(told, table=inside or told.table)
    if path.startswith("minari:"):
        import_or_say("minari", "minari")
        import minari

        return of_minari(minari.load_dataset(path.removeprefix("minari:").removeprefix("//")))
    if is_url(path):
        return of_url(path, told.table)
    files = files_of(path)
    for file in files:
        if not os.path.isfile(file):
            raise LogError(f"{file}: is a pipe or a device; a log is read more than once, so write it to a file first")
    stamps = {file: stamp_of(file) for file in files}
    kinds = {kind_of(file) for file in files}
    if len(kinds) > 1:
        raise LogError(f"{path}: there are files of several kinds ({', '.join(sorted(kinds))}); give one kind")
    for file in files:
        if stamps[file].size == 0:
            raise LogError(f"{file}: the file is empty; a log needs column names and rows below them")
    kind = kinds.pop()
    if told.columns and kind not in ("csv", "excel"):
        raise LogError(
            f"{path}: columns=... (--columns) is for CSV and Excel files without a header; this has names",
            argument="columns",
        )
    return replace(_KINDS[kind](files, short(path), told), files=tuple(stamps.values()))
