"""CSV for people, who open it in a spreadsheet: text there never becomes a formula, and comes back as it was.

A cell that begins with = + - @ or a control character is a formula to a spreadsheet, and a formula can send what
stands beside it to anybody. Such text is written with an apostrophe before it, the spreadsheets' own mark for text;
so is text that has such marks already, so that taking one away gives back what was there. Numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import TypeVar, cast

Cell = TypeVar("Cell")
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_MARKED = re.compile(r"'+[=+\-@\t\r\n]")


def csv_text(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV, safe to open in a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(guarded, header))
    writer.writerows(map(guarded, row) for row in rows)
    return text.getvalue()


def guarded(cell: object) -> object:
    """A cell, with an apostrophe before text that a spreadsheet would run."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) and not _is_number(cell) else cell


def unguarded(cell: Cell) -> Cell:
    """A cell that `guarded` wrote, as it was."""
    return cast(Cell, cell[1:]) if isinstance(cell, str) and _MARKED.match(cell) else cell


def _is_number(text: str) -> bool:
    try:
        return bool(text.strip() == text and abs(float(text)) < float("inf"))
    except ValueError:
        return False
