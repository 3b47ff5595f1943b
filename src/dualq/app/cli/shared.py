"""What the commands share: consoles, a spinner, and the options that several have."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from typer.models import OptionInfo


def option(metavar: str, what: str, panel: str | None = None) -> OptionInfo:
    """An option that has no default worth showing."""
    return typer.Option(metavar=metavar, help=what, show_default=False, rich_help_panel=panel)


Out = Annotated[
    Path | None,
    option("DIR", "Write solution.npz and policy.csv to this folder."),
]
WIDE = 10_000  # columns of a page that goes into a file
SHOW_AFTER = 2.0  # seconds, after which a stage is named where there is no terminal
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text for people.")]


def print_files(page: Console, files: list[str], otherwise: str) -> None:
    """What was written; where nothing was, how to have it written."""
    page.print()
    if files:
        page.print(f"Written: {', '.join(files)}", markup=False, soft_wrap=True)
    else:
        page.print(f"Nothing was written; {otherwise}", markup=False)


class Kept(Protocol):
    """What can be kept in a folder."""

    def save(self, folder: Path) -> list[str]:
        """Write it; the paths."""
        ...

    def report(self, path: Path) -> None:
        """Write its page."""
        ...


def written(found: Kept, out: Path, begin: Callable[[str], None]) -> list[str]:
    """What was found, kept in a folder with its page; the paths."""
    begin("Writing")
    if out.is_dir():  # a report of another run must not stand beside this one, if it is stopped halfway
        (out / "report.html").unlink(missing_ok=True)
    files = found.save(out)
    found.report(out / "report.html")
    return [str(out / "report.html"), *files]


def print_json(value: Mapping[str, object]) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def console() -> Console:
    """Where a page is printed; numbers are not coloured. Into a file or a pipe lines are as long as they are."""
    from rich.console import Console

    page = Console(highlight=False)
    if page.is_terminal or "COLUMNS" in os.environ:
        return page
    return Console(highlight=False, width=WIDE, file=_Trimmed(sys.stdout))


class _Trimmed(io.StringIO):
    """Standard output without the spaces that fill a line of a table up to its width."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self.file = file

    def write(self, text: str, /) -> int:
        self.file.write(re.sub(r" +(?=\n|$)", "", text))
        return len(text)

    def flush(self) -> None:
        self.file.flush()


@contextmanager
def working(what: str) -> Generator[None, None, None]:
    """A spinner on standard error while something may take long; nothing where that is not a terminal."""
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield


@contextmanager
def stages(first: str) -> Generator[Callable[[str], None], None, None]:
    """A spinner on standard error that names the stage; call what is yielded when the next one begins.

    Where that is not a terminal: a plain line for each stage that lasts.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{first} ...") as status:
            yield lambda stage: status.update(f"{stage} ...")
        return
    waiting: list[threading.Timer] = []

    def begin(stage: str) -> None:
        for timer in waiting:
            timer.cancel()
        waiting[:] = [threading.Timer(SHOW_AFTER, lambda: print(f"dualq: {stage} ...", file=sys.stderr, flush=True))]
        waiting[0].daemon = True
        waiting[0].start()

    begin(first)
    try:
        yield begin
    finally:
        waiting[0].cancel()
