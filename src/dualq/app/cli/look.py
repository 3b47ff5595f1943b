"""`dualq look`: what is in a log, before anything is learned from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.columns import action_bins_of, bins_of, listed, numbers_of, or_none, reading
from dualq.app.cli.shared import Json, console, print_json, stages

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
    state: Annotated[str | None, reading("state")] = None,
    action: Annotated[str | None, reading("action")] = None,
    reward: Annotated[str | None, reading("reward")] = None,
    next_state: Annotated[str | None, reading("next_state")] = None,
    episode: Annotated[str | None, reading("episode")] = None,
    time: Annotated[str | None, reading("time")] = None,
    terminal: Annotated[str | None, reading("terminal")] = None,
    truncated: Annotated[str | None, reading("truncated")] = None,
    cost: Annotated[list[str] | None, reading("costs")] = None,
    propensity: Annotated[str | None, reading("propensity")] = None,
    bins: Annotated[list[str] | None, reading("bins")] = None,
    action_bins: Annotated[str | None, reading("action_bins")] = None,
    numbers: Annotated[str | None, reading("numbers")] = None,
    columns: Annotated[str | None, reading("columns")] = None,
    delimiter: Annotated[str | None, reading("delimiter")] = None,
    day_first: Annotated[bool | None, reading("day_first")] = None,
    table: Annotated[str | None, reading("table")] = None,
    as_json: Json = False,
) -> None:
    """Look at a log before learning from it.

    Shows what each column holds, which part it would play and why, how many episodes there are and how they end, what
    is suspicious, and the `dualq learn` command to copy. Name columns to correct what was guessed.
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
            propensity=or_none(propensity),
            bins=bins_of(bins) if bins else None,
            action_bins=action_bins_of(action_bins),
            numbers=numbers_of(numbers),
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
