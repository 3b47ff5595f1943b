"""Progress: a word on the terminal where an engine takes its time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dualq.logs.reading.engines import duckdb_of
from dualq.logs.reading.sources import Source

SHOW_AFTER = 2.0  # seconds without a word


@contextmanager
def progress(opened: Source, doing: str) -> Iterator[None]:
    """A word on standard error, where that is a terminal, once something has taken two seconds."""
    import sys
    import threading

    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    console, done = Console(stderr=True), threading.Event()

    def show() -> None:
        if done.wait(SHOW_AFTER):
            return
        with console.status(f"{doing} {opened.name} ...") as status:
            while not done.wait(0.5):
                share = _share(opened)
                if share > 0.0:
                    status.update(f"{doing} {opened.name}: {share:.0f}%")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _share(opened: Source) -> float:
    """How much of the running query DuckDB has done, in percent; 0 where nobody knows."""
    backend = duckdb_of(opened.table)
    return 0.0 if backend is None else float(backend.con.query_progress())
