"""`dualq check`: is the policy that is in use still the right one?"""

from __future__ import annotations

from typing import Annotated

import typer

from dualq.app.cli.columns import reading
from dualq.app.cli.logs import Run
from dualq.app.cli.shared import Json, console, print_json, stages
from dualq.app.cli.update import NewLog
from dualq.base import sentence

LOOK = 3  # the exit code where the policy should not just be kept


def check(
    run: Run,
    log: NewLog,
    since: Annotated[str | None, reading("since")] = None,
    table: Annotated[str | None, reading("table")] = None,
    skip_bad: Annotated[bool, reading("skip_bad")] = False,
    as_json: Json = False,
) -> None:
    """Check a policy in use by the rows that came since: keep it, learn again, or stop and look.

    LOG has all rows since the policy of RUN was put to use. Look as often as you like: the chance of a false alarm is
    at most 5% for all looks together. The exit code is 0 to keep it, and 3 otherwise.
    """
    with stages("Loading"):
        from dualq.offline import Fit, load
        from dualq.offline import check as check_use

        fit = load(run)
        found = check_use(fit, log, since=since, table=table, skip_bad=skip_bad or None)
    if as_json:
        print_json(found.summary())
    else:
        from dualq.app.report.check_words import checked_lines, checked_table
        from dualq.app.report.terminal import columns

        page = console()
        page.print(found.line, style="bold", markup=False)
        for line in found.warnings:
            page.print(f"Warning: {sentence(line)}", style="bold", markup=False)
        page.print()
        for line in checked_lines(found):
            page.print(line, markup=False)
        if found.elsewhere:
            page.print()
            names = fit.counts.states.names if isinstance(fit, Fit) else ()
            page.print(columns(*checked_table(names, found)))
    if found.verdict != "keep":
        raise typer.Exit(LOOK)
