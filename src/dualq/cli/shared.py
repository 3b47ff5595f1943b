"""What the commands share: consoles, a spinner, and the options that several have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write solution.npz and policy.csv into this folder.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text for people.")]


def print_files(page: Console, files: list[str], otherwise: str) -> None:
    """What was written; where nothing was, how to have it written."""
    page.print()
    if files:
        page.print(f"Written: {', '.join(files)}", markup=False, soft_wrap=True)
    else:
        page.print(f"Nothing was written; {otherwise}", markup=False)


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def console() -> Console:
    """Where a page is printed; numbers are not coloured."""
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on standard error while something may take long; nothing where that is not a terminal."""
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
