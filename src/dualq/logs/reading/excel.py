"""A sheet of an Excel workbook, as columns.

DuckDB's own reader of .xlsx is an extension that must be downloaded, so the sheet is read by python-calamine (extra
`excel`). Excel holds every number as a fraction: a column of nothing but whole ones is read as whole numbers. A cell
that is empty is missing. A column with values of several kinds (numbers and "n/a") becomes text, as in frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from dualq.base import LogError
from dualq.logs.reading.schema import near

Cell = bool | float | str | date | datetime | time | timedelta | None  # None: it is empty

EXACT = 2.0**53  # above this not every whole number is a number in Excel


def columns_of(file: str, name: str, sheet: str | None, names: Sequence[str] = ()) -> dict[str, list[Cell]]:
    """{column: values} of a sheet; its first row has the names, unless `names` has them."""
    rows = _rows(file, name, sheet)
    while rows and not any(_known(value) for value in rows[-1]):
        rows.pop()
    if not rows:
        raise LogError(f"{name}: the sheet is empty; it needs a row of column names and rows below it")
    width = max(max((i + 1 for i, value in enumerate(row) if _known(value)), default=0) for row in rows)
    header = list(names) or [str(value).strip() for value in rows.pop(0)[:width]]
    if len(header) != width or not all(header):
        if names:
            raise LogError(
                f"{name}: the sheet has {width} columns, and columns has {len(names)} names; give as many",
                argument="columns",
                value=len(names),
            )
        place = next(i for i, title in enumerate([*header, ""]) if not title)
        raise LogError(
            f"{name}: column {_letter(place)} has no name in the first row; give it one, or delete it",
            column=_letter(place),
        )
    twice = [title for title in header if sum(title.lower() == other.lower() for other in header) > 1]
    if twice:
        raise LogError(f"{name}: several columns have the name {twice[0]!r}; give them different ones", column=twice[0])
    cells = ([row[i] if i < len(row) and _known(row[i]) else None for row in rows] for i in range(width))
    return {title: _whole(values) for title, values in zip(header, cells, strict=True)}


def _rows(file: str, name: str, sheet: str | None) -> list[list[Cell]]:
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError  # pyright: ignore[reportMissingImports]

    try:
        with CalamineWorkbook.from_path(file) as book:
            known = book.sheet_names
            if sheet is None and len(known) > 1:
                right = f'give "{name}::{known[0]}" or table=... (--table)'
                raise LogError(
                    f"{name}: which sheet is the log? There are {', '.join(known)}; {right}", argument="table"
                )
            if sheet is not None and sheet not in known:
                raise LogError(
                    f"{name}: there is no sheet {sheet!r}{near(sheet, known)}", argument="table", value=sheet
                )
            return book.get_sheet_by_name(sheet or known[0]).to_python(skip_empty_area=False)
    except PasswordError:
        raise LogError(f"{name}: the workbook is locked with a password; save it without") from None
    except CalamineError as error:
        raise LogError(f"{name}: cannot be read as an Excel workbook; it may be damaged ({error})") from None


def _known(value: Cell) -> bool:
    return value is not None and value != ""


def _whole(values: list[Cell]) -> list[Cell]:
    """Whole numbers as such, where the column has no others."""
    numbers = [value for value in values if isinstance(value, float)]
    if numbers and all(value == value // 1 and abs(value) <= EXACT for value in numbers):
        return [int(value) if isinstance(value, float) else value for value in values]
    return values


def _letter(place: int) -> str:
    """The name that Excel itself gives to a column: A, B, ... Z, AA."""
    letters = ""
    place += 1
    while place:
        place, left = divmod(place - 1, 26)
        letters = chr(ord("A") + left) + letters
    return letters
