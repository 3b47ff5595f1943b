"""`dualq export`: a policy that other systems run without dualq."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dualq.app.cli.columns import label_of
from dualq.app.cli.logs import Run
from dualq.app.cli.shared import option


def export(
    run: Run,
    to: Annotated[str, option("FORM", "json, sql, python, or schema (the JSON Schema of the JSON).")],
    dialect: Annotated[
        str, typer.Option(metavar="ENGINE", help="The SQL dialect: duckdb, postgres or sqlite.")
    ] = "duckdb",
    table: Annotated[
        str, typer.Option(metavar="NAME", help="In SQL: the table with a state in each row; the view is NAME_decided.")
    ] = "cases",
    case: Annotated[
        str | None, option("COLUMN", "In SQL: the column with the number of each case, if the policy is random.")
    ] = None,
    default: Annotated[str | None, option("JSON", "The action in a state that is not in the log.")] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="If the policy is a function of numbers: write rules that sum it up.")
    ] = False,
    out: Annotated[Path | None, option("FILE", "Write to this file instead of the terminal.")] = None,
) -> None:
    """Write the policy of RUN so that another system can follow it without dualq.

    JSON for programs; SQL that makes a view of decisions beside a table of states; a Python file without imports.
    A state that is not in the log has no action (NULL in SQL, an error in Python), unless --default gives one.
    """
    from dualq.base import write_whole
    from dualq.offline import doubt_of
    from dualq.offline import export as written

    otherwise = None if default is None else label_of(default)
    text = written(run, to, dialect=dialect, table=table, case=case, otherwise=otherwise, approximate=approximate)
    if doubt := doubt_of(run):
        print(f"dualq: {doubt}", file=sys.stderr)
    if out is None:
        print(text, end="")
        return
    write_whole(out, text.encode())
    print(f"Written: {out}")
