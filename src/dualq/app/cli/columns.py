"""The options of `read_log`, as the command line names them: made from the one list, logs/reading/options.py."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import typer
from typer.models import OptionInfo

from dualq.base import LogError
from dualq.logs import READING

if TYPE_CHECKING:
    from dualq.base import Label

BINS = "write COLUMN=8 for 8 bins, COLUMN=0,10,50 for edges, COLUMN=auto, or auto alone"
BinsOf = int | list[float] | str  # how many, the edges, or "auto"
Column = TypeVar("Column", str | None, list[str] | None)


def reading(name: str) -> OptionInfo:
    """The option of the command line for an argument of `read_log`."""
    option = READING[name]
    panel = "Columns" if option.is_column else None
    return typer.Option(
        option.flag, metavar=option.metavar or None, help=option.help, show_default=False, rich_help_panel=panel
    )


def listed(columns: str | None) -> list[str] | None:
    """The names in `stock,season`."""
    return None if columns is None else [name.strip() for name in columns.split(",")]


def numbers_of(words: str | None) -> list[str] | str | None:
    """The names in `wear,load`, or the word auto."""
    return words if words == "auto" else listed(words)


def or_none(column: Column) -> Column | Literal[False]:
    """False for the word `none`: there is no such column, and none is looked for."""
    return False if column in ("none", ["none"]) else column


def bins_of(words: list[str]) -> dict[str, BinsOf] | str:
    """{column: bins} from COLUMN=N, COLUMN=EDGE,EDGE,... or COLUMN=auto; several of them may stand in one word."""
    bins: dict[str, BinsOf] = {}
    for word in (part for given in words for part in re.split(r",(?=[^,=]+=)", given)):
        column, _, value = word.rpartition("=")
        if value.strip() == "auto":
            bins[column.strip()] = "auto"
            continue
        try:
            numbers = [float(part) for part in value.split(",")]
        except ValueError:
            numbers = []
        whole = len(numbers) > 1 or (numbers and numbers[0] == numbers[0] // 1)
        if not column.strip() or not whole or not all(abs(x) < float("inf") for x in numbers):
            raise LogError(f"--bins {word}: cannot be understood; {BINS}")
        bins[column.strip()] = numbers if len(numbers) > 1 else int(numbers[0])
    if "" not in bins:
        return bins
    if len(bins) > 1:
        raise LogError(
            "--bins auto is for all columns; with other bins, name the columns it is for: --bins COLUMN=auto"
        )
    return "auto"


def action_bins_of(word: str | None) -> int | list[float] | None:
    """How many, or the edges, from N or EDGE,EDGE,...; None where nothing was said."""
    if word is None:
        return None
    found = {} if "=" in word else bins_of([f"action={word}"])
    bins = "auto" if isinstance(found, str) else found.get("action", "auto")
    if isinstance(bins, str):
        raise LogError(f"--action-bins {word}: cannot be understood; write 5 for 5 steps, or 0,10,50 for edges")
    return bins


def ranges_of(words: list[str]) -> dict[str, tuple[float, float]] | None:
    """{cost: (low, high)} from COLUMN=LO,HI; None where nothing was said."""
    ranges: dict[str, tuple[float, float]] = {}
    for word in words:
        cost, _, ends = word.rpartition("=")
        try:
            low, high = (float(end) for end in ends.split(","))
        except ValueError:
            cost, low, high = "", 0.0, 0.0
        if not cost.strip():
            raise LogError(f"--cost-range {word}: cannot be understood; write COLUMN=LO,HI, such as late=0,1")
        ranges[cost.strip()] = low, high
    return ranges or None


def label_of(words: str) -> Label:
    """A label as JSON, or a bare word."""
    try:
        label = json.loads(words)
    except ValueError:
        if words.lstrip().startswith(("{", "[", '"')):
            raise LogError(f"the state {words} is not JSON; write it as '{{\"stock\": 3}}'") from None
        return words
    return tuple(cast("list[Label]", label)) if isinstance(label, list) else label


def range_of(option: str, words: str | None) -> tuple[float, float] | None:
    """Two numbers from LO,HI."""
    if words is None:
        return None
    try:
        low, high = map(float, words.split(","))
    except ValueError:
        raise LogError(
            f"{option} {words}: must be two numbers, LO,HI, such as {option}=-10,50", argument=option, value=words
        ) from None
    return low, high
