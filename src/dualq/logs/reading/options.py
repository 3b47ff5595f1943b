"""Options: what the arguments of `read_log` are, and what each may be.

One list serves `read_log`, `look`, `PolicyLearner` and the command line: a test compares their names, defaults and
help with it, so that they cannot drift apart. An option that is added here must be added there too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Value = bool | int | float | str | datetime.date | datetime.datetime  # a cell of a table
Argument: TypeAlias = Any  # of read_log: what each may be stands in this list, and is checked there
Columns = str | Sequence[str] | Literal[False] | None  # one or several; False: there is none; None: look for it
OneColumn = str | Literal[False] | None
BinsOfColumn = int | str | Sequence[float]  # how many, "auto", or their edges
BinsAsked = Mapping[str, BinsOfColumn] | str  # of each column; "auto": of all numbers of the state
ActionBins = int | Sequence[float]  # of the one column of the action
Moment = float | str | datetime.date  # a value of a clock: a number, a date, or text


@dataclass(frozen=True)
class Option:
    """An argument of `read_log`, in Python and at the command line."""

    name: str
    metavar: str | None  # what stands for its value at the command line, None: it is for Python only; "": a switch
    help: str  # one line
    default: object = None
    spelling: str | None = None  # at the command line, where it is not the name with dashes
    looks: bool = False  # whether `look` has it too
    is_column: bool = False  # whether it says which part columns play

    @property
    def flag(self) -> str:
        """As the command line has it: --next-state."""
        return self.spelling or "--" + self.name.replace("_", "-")


def _columns(name: str, words: str) -> Option:
    return Option(name, "COLUMNS", words, looks=True, is_column=True)


def _listed(options: Iterable[Option]) -> dict[str, Option]:
    return {option.name: option for option in options}


READING = _listed(
    [
        _columns("state", "What was known when deciding; several columns: stock,season."),
        _columns("action", "What was decided."),
        _columns("reward", "What was earned."),
        _columns(
            "next_state", "The state afterwards. Without it: the next row of the episode. `none`: no such column."
        ),
        _columns("episode", "Which rows belong together, such as shop or patient. `none`: no such column."),
        _columns("time", "The order of the rows. `row`: as in the file. `none`: no order is known."),
        _columns(
            "terminal",
            "True where an episode ended. `last`: every last row ended its episode. `early`: those before the "
            "last time of the log did. `row`: every row is a case of its own. `none`: no such column.",
        ),
        _columns(
            "truncated",
            "True where a recording stopped. `last`: every last row is such a stop. `none`: no such column.",
        ),
        Option(
            "costs",
            "COLUMN",
            "A cost to count beside the reward, for --limit and frontier; may be repeated.",
            spelling="--cost",
            looks=True,
        ),
        Option(
            "propensity",
            "COLUMN",
            "The probability with which the logged action was taken, if it was recorded; for evaluate.",
            looks=True,
            is_column=True,
        ),
        Option(
            "bins",
            "COLUMN=N",
            "Cut numbers into N bins with equally many rows, or at edges: COLUMN=0,10,50. `auto` finds bins.",
            looks=True,
        ),
        Option(
            "action_bins",
            "N",
            "Cut a numeric action into N steps with equally many rows, or at edges: 0,10,50.",
            looks=True,
        ),
        Option(
            "numbers",
            "COLUMNS",
            "Columns of the state that stay numbers: wear,load. `auto`: those whose values rarely repeat.",
            looks=True,
        ),
        Option(
            "reward_range",
            "LO,HI",
            "The lowest and highest possible reward, such as --reward-range=-10,50. Without it: the range in the log.",
        ),
        Option(
            "cost_ranges",
            "COLUMN=LO,HI",
            "The lowest and highest possible cost, such as --cost-range late=0,1. Without it: the range in the log; "
            "may be repeated.",
            spelling="--cost-range",
        ),
        Option("available", None, "{state: actions} that exist there, for states where not all do."),
        Option("skip_bad", "", "Write bad rows to a file and go on, instead of stopping at the first.", default=False),
        Option("quarantine", "FILE", "Where --skip-bad writes bad rows. Without it: the log's name with .bad."),
        Option("table", "NAME", "The table, if LOG is a database, or the sheet of a workbook.", looks=True),
        Option("delimiter", "MARK", "What separates the fields of a CSV, if it is unusual.", looks=True),
        Option("columns", "A,B,C", "The names of the columns, if the file has no header.", looks=True),
        Option("since", "TIME", "Use only rows from this time on, for example after a change."),
        Option("until", "TIME", "Use only rows before this time."),
        Option(
            "clock",
            "KIND",
            "Whether the time column is `shared` by all episodes, or counts the steps of each `episode`.",
        ),
        Option(
            "day_first",
            "",
            "Which comes first in dates such as 03/04/2024.",
            spelling="--day-first/--month-first",
            looks=True,
        ),
    ]
)
