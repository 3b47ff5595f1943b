"""What the arguments of `read_log` may be."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Literal

Value = bool | int | float | str | datetime.date | datetime.datetime  # a cell of a table
Columns = str | Sequence[str] | Literal[False] | None  # one or several; False: there is none; None: look for it
BinsOfColumn = int | str | Sequence[float]  # how many, "auto", or their edges
BinsAsked = Mapping[str, BinsOfColumn] | str  # of each column; "auto": of all numbers of the state
Moment = float | str | datetime.date  # a value of a clock: a number, a date, or text
