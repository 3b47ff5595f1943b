"""Engines: DuckDB in this process, and how any engine is asked; what it complains of becomes one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from dualq.base import LogError, pip_install
from dualq.logs.reading.expressions import Expression, Table, arrow_schema

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.backends.duckdb import Backend as DuckDB


def connect() -> DuckDB:
    """DuckDB in this process, in memory; time zones as UTC, and what does not fit into memory on disk."""
    import ibis

    con = by_itself(ibis.duckdb.connect())
    con.raw_sql("SET enable_progress_bar = false")
    return con


def by_itself(con: DuckDB) -> DuckDB:
    """The same; it loads no extension, from the network or from disk, and times are UTC."""
    con.raw_sql("SET autoinstall_known_extensions = false")
    con.raw_sql("SET autoload_known_extensions = false")
    con.raw_sql("SET TimeZone = 'UTC'")
    return con


def duckdb_of(table: Table | Expression) -> DuckDB | None:
    """DuckDB, where it is that which answers."""
    from ibis.backends.duckdb import Backend

    backend = table.get_backend()
    return backend if isinstance(backend, Backend) else None


def batches(table: Table, size: int) -> pa.RecordBatchReader:
    """The engine's answer as it comes, at most about `size` rows at a time."""
    backend = duckdb_of(table)
    if backend is None:
        return table.to_pyarrow_batches(chunk_size=size)
    found = _asked(backend, table)
    return (getattr(found, "to_arrow_reader", None) or found.fetch_record_batch)(size)


def answer(table: Table) -> pa.Table:
    """The engine's whole answer."""
    backend = duckdb_of(table)
    if backend is None:
        return table.to_pyarrow()
    found = _asked(backend, table)
    return (getattr(found, "to_arrow_table", None) or found.fetch_arrow_table)().cast(arrow_schema(table))


def whole_number(value: Expression) -> int:
    """The engine's answer where that is one whole number."""
    backend = duckdb_of(value)
    if backend is None:
        return int(value.to_pyarrow().as_py())
    expression = cast("ir.Scalar", value)
    backend._run_pre_execute_hooks(expression)
    found = backend.con.sql(backend.compile(expression)).fetchone()
    return 0 if found is None else int(found[0])


def _asked(backend: DuckDB, table: Table) -> duckdb.DuckDBPyRelation:
    """Asked of DuckDB itself: Ibis 12 calls a method that DuckDB retires, and imports pandas."""
    expression = cast("ir.Table", table)
    backend._run_pre_execute_hooks(expression)
    return backend.con.sql(backend.compile(expression))


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What an engine complains of, as a LogError in one line."""
    import sqlite3

    import duckdb
    import pyarrow as pa
    from ibis.common.exceptions import IbisError

    postgres = (sys.modules["psycopg"].Error,) if "psycopg" in sys.modules else ()
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.Error, pa.ArrowException, IbisError, OSError, UnicodeError, sqlite3.Error, *postgres) as error:
        raise LogError(f"{name}: cannot be read{cut_off(error)} ({first_line(error)})") from None
    except RuntimeError as error:  # DuckDB's, after Ctrl-C; some of Arrow's are one too
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise


def first_line(error: BaseException) -> str:
    """What an engine says first; it may say a page."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def cut_off(error: BaseException) -> str:
    """A clause where an engine's words are those of a file that was cut off."""
    text = str(error).lower()
    if "out of memory" in text:
        return "; there is not enough memory"
    words = ("magic", "footer", "too small", "truncat", "unexpected end", "gzip", "malformed", "corrupt", "thrift")
    words += ("unquoted", "not a database", "buffer", "enough bytes", "not an arrow", "snappy", "zstd")
    return "; it may be cut off in the middle, or damaged" if any(w in text for w in words) else ""


def import_or_say(module: str, extra: str) -> None:
    """A LogError that says which extra is missing."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        package = module.replace("_", "-")
        raise LogError(f"this needs the package {package}; install it with: {pip_install(extra)}")
