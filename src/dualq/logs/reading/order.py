"""Order: whether the rows of a long log stand episode by episode in the order of time, and a copy that does.

Every question on what came before or after a row needs that order. Rows that stand in it are linked as they stand
(decisions.py). Others are put into it once: the columns that are used, in a table of DuckDB inside of this process, of
which all further questions are asked. So are rows of a text file, which every question would take apart again.

Only rows of files and frames are copied, and not too many: a copy takes some 10 bytes a value. Where rows have no place
in time, or two have the same, nothing is copied, and the engine sorts for each question as it always can.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from dualq.logs.reading.engines import duckdb_of, reading
from dualq.logs.reading.episodes import Episodes
from dualq.logs.reading.expressions import as_table
from dualq.logs.reading.progress import progress
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW
from dualq.logs.reading.sources import Source

if TYPE_CHECKING:
    import ibis.expr.types as ir

LONG = 100_000  # rows; of a shorter log nobody feels whether it is sorted
MOST_COPIED = 20_000_000  # rows
COPY = "dualq_rows"


def with_order(opened: Source, q: Questions, facts: Episodes | None) -> Questions:
    """The same questions, of rows that stand in their order where that can be had; only DuckDB keeps one."""
    con = duckdb_of(q.table)
    if con is None or facts is None or facts.rows < LONG or not opened.ordered:
        return q
    with reading(opened.name):
        if not con.con.sql("SELECT current_setting('preserve_insertion_order')").fetchall()[0][0]:
            return q
        q = replace(q, stands=q.rises())
        return _copied(opened, q) if _worth_a_copy(opened, q, facts) else q


def _worth_a_copy(opened: Source, q: Questions, facts: Episodes) -> bool:
    """Whether rows of files or frames are linked by their time, and either out of order or in text."""
    linked = not q.schema.next_state and q.schema.time != ROW and not facts.unplaced
    text = opened.rejects is not None
    return linked and opened.reopen is not None and facts.rows <= MOST_COPIED and (text or not q.stands)


def _copied(opened: Source, q: Questions) -> Questions:
    """The same questions of a copy in order; of the rows themselves, where they cannot be put into one."""
    con = duckdb_of(q.table)
    assert con is not None
    table = q.table.select(*dict.fromkeys([*q.schema.columns, *q.marks]))
    if not q.stands:
        time = q.moment(table[str(q.schema.time)])
        table = table.order_by([*(table[column] for column in q.schema.episode), time])
    with progress(opened, "putting in order"):
        con.raw_sql(f"CREATE OR REPLACE TEMP TABLE {COPY} AS {con.compile(cast('ir.Table', table))}")
        copy = replace(q, table=as_table(con.table(COPY)), copied=True, stands=True)
        if q.stands or copy.rises():
            return copy
    con.raw_sql(f"DROP TABLE {COPY}")
    return q
