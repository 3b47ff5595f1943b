"""`dualq reproduce`: does the paper hold?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.shared import Json, console, print_json, working

if TYPE_CHECKING:
    from dualq.paper import Summed


def reproduce(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the tables, plots and summary.json.", show_default=False)
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="fig1 to fig4, drift, bounds, ablation, efficiency, networks, leak, approximation, rates; or all (the "
            "default), which leaves out rates, the longest.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each curve: the seeds 0 to N - 1.")] = 50,
    as_json: Json = False,
) -> None:
    """Measure whether the paper's claims hold: a table, a plot and a verdict for each, by simulation.

    If it is stopped, the same command goes on from there. The same seeds give the same files, stopped or not.
    """
    with working("Loading"):
        from dualq.paper import reproduce as run_all
    asked, terminal = names or ["all"], sys.stderr.isatty()
    said = None if as_json else _print_verdict
    try:
        summary = run_all(asked, out, seeds, progress=terminal, said=said)
    except KeyboardInterrupt:
        command = f"dualq reproduce {' '.join(asked)} --seeds {seeds} --out {out}"
        print(f"dualq: what is finished is kept in {out}; to go on: {command}", file=sys.stderr)
        raise
    if as_json:
        print_json(summary)
    else:
        console().print(f"Written: {out / 'summary.json'} and the tables and plots beside it", soft_wrap=True)


def _print_verdict(name: str, entry: Summed) -> None:
    page = console()
    page.print(f"{name}: {entry['verdict']}", style="bold", markup=False)
    page.print(entry["claim"], markup=False, soft_wrap=True)
    for check in entry["checks"]:
        answer = "yes" if check["holds"] else "no "
        page.print(f"  {answer}  {check['claim']} ({check['because']})", markup=False, soft_wrap=True)
    page.print()
