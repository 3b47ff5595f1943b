"""`dualq look`: what is in a log, before anything is learned from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.columns import bins_of, listed, or_none
from dualq.app.cli.shared import Json, console, option, print_json, stages

if TYPE_CHECKING:
    from dualq.logs import Look


def look(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="[LOG]",
            help="A file, folder, glob or database; without one, the log that ships with dualq.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[str | None, option("COLUMNS", "What was seen; several columns as stock,season.")] = None,
    action: Annotated[str | None, option("COLUMNS", "What was done.")] = None,
    reward: Annotated[str | None, option("COLUMN", "What was earned.")] = None,
    next_state: Annotated[str | None, option("COLUMNS", "What was seen next, or `none`.")] = None,
    episode: Annotated[str | None, option("COLUMNS", "Which rows belong together, or `none`.")] = None,
    time: Annotated[str | None, option("COLUMN", "Their order; `row` for the order in the file, or `none`.")] = None,
    terminal: Annotated[
        str | None, option("COLUMN", "Whether the episode ended here; `last`: in its last row; or `none`.")
    ] = None,
    truncated: Annotated[
        str | None, option("COLUMN", "Whether the recording stopped here; `last`: in the last row; or `none`.")
    ] = None,
    cost: Annotated[list[str] | None, option("COLUMN", "A cost beside the reward; may be repeated.")] = None,
    bins: Annotated[list[str] | None, option("COLUMN=N", "Bins for numbers, as in `dualq learn`.")] = None,
    columns: Annotated[str | None, option("A,B,C", "Names, where the first line of the file is a row.")] = None,
    delimiter: Annotated[str | None, option("MARK", "Between the fields of a CSV file.")] = None,
    day_first: Annotated[
        bool | None,
        typer.Option(
            "--day-first/--month-first", help="Which stands first in dates such as 03/04/2024.", show_default=False
        ),
    ] = None,
    table: Annotated[str | None, option("NAME", "The table of a database, or the sheet of a workbook.")] = None,
    as_json: Json = False,
) -> None:
    """Look at a log before learning from it.

    Shows what each column holds, which part it would play and why, how many episodes there are and how they end, what
    is suspicious, and the `dualq learn` line to copy. Name columns to correct what was guessed.
    """
    with stages("Looking at the log"):
        from dualq.logs import look as look_at

        if log is None:
            from dualq.worlds import sample_log as shipped

            log = str(shipped.path())
        seen = look_at(
            log,
            state=listed(state),
            action=listed(action),
            reward=reward,
            next_state=or_none(listed(next_state)),
            episode=or_none(listed(episode)),
            time=or_none(time),
            terminal=or_none(terminal),
            truncated=or_none(truncated),
            costs=cost,
            bins=bins_of(bins) if bins else None,
            table=table,
            delimiter=delimiter,
            columns=listed(columns),
            day_first=day_first,
        )
    if as_json:
        print_json(seen.summary())
        return
    _print(seen)


def _print(seen: Look) -> None:
    from rich.markup import escape

    from dualq.app.report.terminal import plain_table
    from dualq.base import count
    from dualq.logs import HEADER

    page = console()
    page.print(f"{escape(seen.source)}: {count(seen.rows, 'row')}\n", style="bold", soft_wrap=True)
    shown = plain_table(1)
    for i, name in enumerate(HEADER):
        shown.add_column(name, justify="right" if name in ("distinct", "missing") else "left", no_wrap=i in (0, 5))
    for line in seen.table():
        shown.add_row(*map(escape, line))
    page.print(shown)
    page.print()
    for words in seen.facts():
        page.print(f"{words}.", markup=False)
    for title, lines in (("How it was read", seen.notes), ("Decide", seen.doubts()), ("Suspicious", seen.suspicious)):
        if lines:
            page.print(f"\n{title}\n", style="bold")
        for words in lines:
            page.print(f"- {words}", markup=False)
    if not seen.suspicious:
        page.print("\nNothing suspicious was found.")
    if not seen.commands:
        page.print("\nName the columns that are missing, and look again.")
        return
    page.print(f"\n{seen.heading}\n", style="bold")
    for when, command in seen.commands.items():
        if when:
            page.print(f"{when}:", markup=False)
        page.print(command, markup=False, soft_wrap=True)
