"""Preview: a table before it is a log: its first rows, how its numbers are spread, which rows are bad, and why.

Answers are small whatever the size of the table, and all but the bad rows are asked of the engine at once: nothing is
counted, and nothing is refused but what cannot be opened.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dualq.base import LogError, count
from dualq.logs.reading.column_types import number, with_durations_as_text
from dualq.logs.reading.decisions import LARGEST
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import literal, same
from dualq.logs.reading.open_source import about_source, open_source
from dualq.logs.reading.options import Argument, Value
from dualq.logs.reading.profile import kind_of_column
from dualq.logs.reading.read_log import read_log
from dualq.logs.reading.sources import FILE, NUMBER

if TYPE_CHECKING:
    from dualq.base import LabelLike
    from dualq.logs.table_log import TableLog

FEW = 8  # bad rows of one kind that are named
KINDS = 12  # of bad rows that are told apart


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a table, as they stand."""

    source: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]  # "integer", "number", "text", "yes/no", "date", or the engine's own word
    rows: tuple[tuple[Value | None, ...], ...]


@about_source
def first_rows(
    source: object,
    rows: int = 50,
    *,
    table: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
) -> FirstRows:
    """The first rows of whatever may be a log; the arguments are those of `read_log`."""
    opened = open_source(source, table, delimiter, columns)
    with reading(opened.name):
        found = with_durations_as_text(opened.table.limit(rows)).to_pyarrow()
    kinds = [kind_of_column(kind) for kind in opened.table.schema().values()]
    return FirstRows(
        opened.name, tuple(found.column_names), tuple(kinds), tuple(zip(*found.to_pydict().values(), strict=True))
    )


@dataclass(frozen=True)
class Histogram:
    """How many rows have a number between two edges; the last interval has its upper edge too."""

    column: str
    edges: tuple[float, ...]
    rows: tuple[int, ...]  # one fewer than edges


@about_source
def histogram(
    source: object,
    column: str,
    intervals: int = 40,
    *,
    table: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
) -> Histogram | None:
    """How the numbers of a column are spread, over intervals of equal width; None where there are no two numbers."""
    opened = open_source(source, table, delimiter, columns)
    with reading(opened.name):
        every = opened.table.select(x=number(opened.table[column]).cast("float64"))
        finite = every.filter(every.x.abs() <= LARGEST)
        ends = finite.aggregate(low=finite.x.min(), high=finite.x.max()).to_pyarrow().to_pylist()[0]
        low, high = ends["low"], ends["high"]
        if low is None or not high > low:
            return None
        place = ((finite.x - low) / (high - low) * intervals).floor().cast("int64")
        placed = finite.mutate(place=(place < intervals).ifelse(place, intervals - 1))
        found = placed.group_by("place").agg(n=placed.count()).to_pyarrow().to_pylist()
    rows = {row["place"]: row["n"] for row in found}
    edges = tuple(low + (high - low) * i / intervals for i in range(intervals + 1))
    return Histogram(column, edges, tuple(rows.get(i, 0) for i in range(intervals)))


@dataclass(frozen=True)
class BadRows:
    """Rows that are bad in the same way."""

    reason: str  # `reward is missing; every row needs its reward`
    rows: int
    first: tuple[str, ...]  # the numbers of the first of them, as the file counts

    @property
    def words(self) -> str:
        """`17 rows: reward is missing; ...: rows 5, 91, ...`."""
        dots = ", ..." if self.rows > len(self.first) else ""
        where = f" (row{'s' if len(self.first) > 1 else ''} {', '.join(self.first)}{dots})" if self.first else ""
        return f"{count(self.rows, 'row')}{where}: {self.reason}"


def bad_rows(source: object, **columns: Argument) -> list[BadRows]:
    """Which rows `read_log` would set aside with skip_bad=True, those with the same fault together; most rows first.

    columns   the arguments of `read_log`
    """
    given = {name: value for name, value in columns.items() if name not in ("skip_bad", "quarantine")}
    with tempfile.TemporaryDirectory() as folder:
        aside = Path(folder) / "bad.csv"
        try:
            read_log(source, **given, skip_bad=True, quarantine=aside)
        except LogError:  # what else is wrong is said by whoever reads the log
            if not aside.exists():
                return []
        return _alike(aside) if aside.exists() else []


def _alike(aside: Path) -> list[BadRows]:
    """The rows of a quarantine by their reasons."""
    rows: dict[str, int] = {}
    first: dict[str, list[str]] = {}
    with aside.open(newline="") as file:
        for row in csv.DictReader(file):
            reason = row["reason"]
            rows[reason] = rows.get(reason, 0) + 1
            if row["row"] and len(first.setdefault(reason, [])) < FEW:
                first[reason].append(row["row"])
    found = [BadRows(reason, n, tuple(first.get(reason, ()))) for reason, n in rows.items()]
    found = sorted(found, key=lambda bad: -bad.rows)
    if len(found) <= KINDS:
        return found
    rest = found[KINDS - 1 :]
    where = [number for bad in rest for number in bad.first][:FEW]
    return [*found[: KINDS - 1], BadRows("and more, bad in other ways", sum(bad.rows for bad in rest), tuple(where))]


def rows_behind(log: TableLog, state: LabelLike, action: LabelLike | None = None, most: int = 20) -> FirstRows:
    """The rows of a log in which a state was met, and an action taken where one is given; as they stand, the first."""
    q = log.questions
    table = q.on(log.opened.table if log.opened.numbered is None else log.opened.numbered()).columns(raw=True)
    wanted = dict(zip(q.s, _places(log, state, "state"), strict=True))
    if action is not None:
        wanted |= dict(zip(q.a, _places(log, action, "action"), strict=True))
    here = literal(True)
    for name, value in wanted.items():
        here = here & same(table[name], value)
    names = list(dict.fromkeys(q.schema.columns))
    raw = [f"raw{list(q.schema.columns).index(name)}" for name in names]
    order = [name for name in (FILE, NUMBER) if name in table.columns]
    with reading(log.opened.name):
        held = table.filter(here)
        held = (held.order_by(order) if order else held).limit(most)
        found = held.select(**{f"c{i}": held[name] for i, name in enumerate(raw)}).to_pyarrow()
    kinds = [kind_of_column(log.opened.table.schema()[name]) for name in names]
    return FirstRows(log.source, tuple(names), tuple(kinds), tuple(zip(*found.to_pydict().values(), strict=True)))


def _places(log: TableLog, label: LabelLike, part: str) -> list[object]:
    """The values of a label's columns as the engine has them: a bin by its place."""
    labels = log.states if part == "state" else log.actions
    named = labels.named(labels.index(label))
    return [log.bins[name].labels.index(str(value)) if name in log.bins else value for name, value in named.items()]
