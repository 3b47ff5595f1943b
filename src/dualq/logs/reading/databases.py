"""Databases: a table in a DuckDB or SQLite file, or in PostgreSQL, counted where it lies."""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from dualq.base import LogError
from dualq.logs.reading.engines import by_itself, cut_off, first_line, import_or_say, reading
from dualq.logs.reading.expressions import Table, as_table
from dualq.logs.reading.files import only
from dualq.logs.reading.schema import near
from dualq.logs.reading.sources import Source, Told, in_order
from dualq.logs.reading.urls import hushed, without_password

if TYPE_CHECKING:
    from ibis.backends.postgres import Backend as Postgres


def open_duckdb(files: list[str], name: str, told: Told) -> Source:
    """A table of a DuckDB file, read only."""
    import ibis

    file = only(files, name)
    with reading(name):
        con = by_itself(ibis.duckdb.connect(file, read_only=True))
        con.raw_sql("SET enable_external_access = false")  # a view in somebody's file reads nothing beside it
        read = as_table(con.table(_table_name(name, told.table, con.list_tables())))
    return Source(read, f"{name}::{read.get_name()}", None, lambda: in_order(read, name))


def open_sqlite(files: list[str], name: str, told: Told) -> Source:
    """A table of a SQLite file; its rows have no order of their own."""
    import sqlite3

    import ibis

    file = only(files, name)
    try:
        with reading(name):
            con = ibis.sqlite.connect(file)
            read = as_table(con.table(_table_name(name, told.table, con.list_tables())))
            con.con.execute("PRAGMA quick_check(1)")
            read, label = _typed(read), f"{name}::{read.get_name()}"
    except sqlite3.Error as error:
        raise LogError(f"{name}: cannot be read{cut_off(error)} ({error})") from None
    return Source(read, label, lambda: open_sqlite(files, name, told))


def _typed(table: Table) -> Table:
    """Columns of numbers in which some value is text, as text: in SQLite every value has a type of its own."""
    numbers = [column for column, kind in table.schema().items() if kind.is_numeric()]
    asked = {f"c{i}": table.count(where=table[column].typeof() == "text") for i, column in enumerate(numbers)}
    found = table.aggregate(**asked).to_pyarrow().to_pylist()[0] if asked else {}
    mixed = [column for column, some in zip(numbers, found.values(), strict=True) if some]
    return table.mutate(**{column: table[column].cast("string") for column in mixed}) if mixed else table


def of_url(url: str, table: str | None) -> Source:
    """A table in PostgreSQL, counted there."""
    import ibis

    if url.startswith(("postgres://", "postgresql://")):
        import_or_say("psycopg", "postgres")
        url = url.replace("postgresql://", "postgres://", 1)
        shown = re.sub(r"//[^/]*@", "//", without_password(url)).split("?")[0]
        try:
            con = cast("Postgres", ibis.connect(url))
        except ValueError:  # its words may quote what stands where a port should
            right = "postgres://user@host:5432/database; in names and passwords / ? # @ : are written as %2F and so on"
            raise LogError(f"{shown}: is no URL; it must be like {right}") from None
        except Exception as error:
            raise LogError(f"{shown}: cannot connect ({hushed(first_line(error), url)})") from None
        weakref.finalize(con, con.con.close)  # Ibis itself leaves the connection open
        with reading(shown):
            read = as_table(con.table(_table_name(shown, table, con.list_tables())))
        return Source(read, f"{shown}::{read.get_name()}", lambda: of_url(url, table))
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
            f"{name}: which table is the log? The tables are {few}; {right}" if few else f"{name}: no tables",
            argument="table",
        )
    if table not in known:
        raise LogError(f"{name}: there is no table {table!r}{near(table, known)}", argument="table", value=table)
    return table
