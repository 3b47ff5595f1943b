"""`dualq update`: a run and the rows that have come since."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dualq.app.cli.columns import reading
from dualq.app.cli.logs import Run, print_fit_of, written
from dualq.app.cli.shared import Json, console, option, print_files, print_json, stages
from dualq.base import LogError

NewLog = Annotated[
    str, typer.Argument(metavar="LOG", help="The new rows: a file, folder, glob or database.", show_default=False)
]


def update(
    run: Run,
    log: NewLog,
    out: Annotated[Path | None, option("DIR", "Write the new run to this folder.")] = None,
    since: Annotated[
        str | None,
        option(
            "TIME", "Forget rows before this time; it must be later than all rows of RUN, or earlier than all of them."
        ),
    ] = None,
    table: Annotated[str | None, reading("table")] = None,
    skip_bad: Annotated[bool, reading("skip_bad")] = False,
    as_json: Json = False,
) -> None:
    """Update a run: learn from the rows of RUN, which keeps their counts, and those of a new log together.

    The result is that of learning from both logs at once; the old rows are not needed. The new log is read as the old
    one was: the same columns, the same bins. Discount, confidence and limits stay as they were.
    """
    if out is not None and out.resolve() == run.resolve():
        right = f"such as {str(run).rstrip('/')}-2, and rename it when you are content"
        raise LogError(f"--out {out}: is the run itself, and would be overwritten; give another folder, {right}")
    with stages("Loading") as begin:
        from dualq.offline import load
        from dualq.offline import update as learn_on

        fit = learn_on(load(run), log, since=since, table=table, skip_bad=skip_bad or None, progress=begin)
        files = [] if out is None else written(fit, out, begin)
    if as_json:
        print_json(fit.summary() | {"files": files})
        return
    page = console()
    print_fit_of(fit, page)
    print_files(page, [*files, *([fit.set_aside] if fit.set_aside else [])], "to keep the new run, add --out DIR.")
