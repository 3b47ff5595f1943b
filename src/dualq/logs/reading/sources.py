"""Source: a log wherever it lies, as an Ibis table, and all that messages and a second reading need.

A Source can be opened again, on a connection of its own, with the number of each row (`numbered`), for messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dualq.base import LogError
from dualq.logs.counts import Range
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Table, literal, row_number

if TYPE_CHECKING:
    import pyarrow as pa

METADATA = b"dualq"  # the key of what a Parquet file keeps beside its columns: JSON
FILE, NUMBER = "dualq_file", "dualq_row"  # columns of `numbered`


@dataclass(frozen=True)
class Told:
    """What the user says of a file, since the file does not."""

    table: str | None = None  # of a database, or the sheet of a workbook
    delimiter: str | None = None
    columns: tuple[str, ...] = ()  # their names, where the first line is a row already


@dataclass(frozen=True)
class Metadata:
    """What dualq wrote beside the columns of a file: the parts they play, and what numbers can be."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str | None = None
    reward_range: Range | None = None
    costs: Sequence[str] = ()
    cost_ranges: Mapping[str, Range] = field(default_factory=dict)


class Stamp(NamedTuple):
    """A file, as it was at one moment."""

    file: str
    size: int
    changed: int  # nanoseconds
    place: int  # on the disk: a file that took the name of another is another


class Place(NamedTuple):
    """Where a person finds a row."""

    row: int  # as a spreadsheet counts, below the names; lines that are no rows count too
    line: int | None  # of a text file; the first of a row that has several


class Rejected(NamedTuple):
    """A line of a text file that is no row."""

    file: str
    row: int
    line: int
    wrong: str
    text: str


@dataclass(frozen=True)
class Source:
    """A table, and all that messages and a second reading need."""

    table: Table
    name: str  # one line, for people
    reopen: Callable[[], Source] | None = None  # the same on a connection of its own
    numbered: Callable[[], Table] | None = None  # with the columns FILE and NUMBER; None where rows have no order
    first: int = 1  # the number of the first row
    header: bool = False  # whether the first line holds names
    places: Callable[[str, Collection[int]], dict[int, Place]] | None = None  # of rows of a text file, by NUMBER
    as_text: Callable[[frozenset[str]], Source] | None = None  # the same with these columns as text; None: has types
    rejects: Callable[[], list[Rejected]] | None = None  # what is set aside already
    metadata: Metadata = field(default_factory=Metadata)  # what dualq wrote beside the columns
    twice: frozenset[str] = frozenset()  # names that several columns of a text file have, whatever their case
    remarks: tuple[str, ...] = ()  # how the file was understood, where that is not plain
    warnings: tuple[str, ...] = ()  # what in the columns may be wrong
    mixed: Mapping[str, str] = field(default_factory=dict)  # {column of values of several types, as text here: which}
    files: tuple[Stamp, ...] = ()  # of which it is made, as they were when it was opened

    @property
    def ordered(self) -> bool:
        """Whether the rows have an order of their own."""
        return self.numbered is not None

    def check_unchanged(self) -> None:
        """A LogError where a file is not what it was: several questions are asked of it, of which each must see one."""
        for stamp in self.files:
            if stamp_of(stamp.file) != stamp:
                wrong = "was changed while it was read, or since then"
                raise LogError(f"{short(stamp.file)}: {wrong}; read it when it is whole, or read a copy")


@contextmanager
def asking(opened: Source) -> Generator[None, None, None]:
    """A question to the engine, of a log that is still the same; what it complains of, as a LogError in one line."""
    with reading(opened.name):
        yield
    opened.check_unchanged()


def stamp_of(file: str) -> Stamp:
    """What tells whether a file has been changed."""
    try:
        now = os.stat(file)
    except OSError:
        return Stamp(file, -1, -1, -1)
    return Stamp(file, now.st_size, now.st_mtime_ns, now.st_ino)


def in_order(table: Table, name: str) -> Table:
    """The table with the number of each row as it stands, from 1 on."""

    return table.mutate(**{FILE: literal(name), NUMBER: row_number() + 1})


def row_words(opened: Source, row: Mapping[str, object]) -> str:
    """`row 5 (line 6)`, of a row of the numbered table; `one row` where rows have no numbers."""
    if NUMBER not in row:
        return "one row"
    place = place_of(opened, row)
    line = "" if place.line in (None, place.row) else f" (line {place.line})"
    start = " (counted from 0)" if opened.first == 0 else ""
    return f"row {place.row}{line}{start}"


def place_of(opened: Source, row: Mapping[str, object]) -> Place:
    """Where a row of the numbered table stands."""
    return places_of(opened, str(row[FILE]), [int(str(row[NUMBER]))])[int(str(row[NUMBER]))]


def places_of(opened: Source, file: str, numbers: Collection[int]) -> dict[int, Place]:
    """Where rows of one file stand, by their numbers."""
    plain = {number: Place(number, number + 1 if opened.header else None) for number in numbers}
    return plain if opened.places is None else plain | opened.places(file, numbers)


def short(path: str) -> str:
    """A path as messages name it."""
    return os.path.basename(path.rstrip(os.sep)) or path


def metadata_in(schema: pa.Schema, name: str) -> Metadata:
    """What `ArrayLog.to_parquet` keeps beside the columns."""
    if METADATA not in (schema.metadata or {}):
        return Metadata()
    try:
        words = json.loads(schema.metadata[METADATA])
        columns = {part: tuple(names) for part, names in words.get("columns", {}).items()}
    except (ValueError, TypeError, AttributeError):
        raise LogError(f"{name}: what dualq wrote beside the columns was changed; it may be damaged") from None
    columns |= {"reward": ("reward",), "time": ("time",)}
    columns |= {"terminal": ("ended",)} if "ended" in schema.names else {}
    more = {word: words[word] for word in ("source", "reward_range", "costs", "cost_ranges") if word in words}
    return Metadata(columns, **more)


def with_whole_labels(opened: Source, alike: Sequence[tuple[str, ...]]) -> Source:
    """Labels of a text file as they are written, where numbers would not keep them.

    DuckDB reads a column with 007 in it as text. So must be the column beside it, of the state or the next
    state, though it happens to have none; and whole numbers with more digits than fit, which would be rounded.
    alike   columns of labels; those of one tuple are of one kind (a state's and its next state's)
    """
    if opened.as_text is None:
        return opened
    types = opened.table.schema()
    doubtful = [part for part in alike if any(types[c].is_floating() for c in part)]
    doubtful += [part for part in alike if {types[c].is_string() for c in part} == {True, False}]
    if not doubtful:
        return opened
    with reading(opened.name):
        written = opened.as_text(frozenset(column for part in doubtful for column in part)).table
        lost = frozenset(column for part in doubtful if _loses(written, part) for column in part)
    return opened.as_text(lost) if lost else opened


def _loses(written: Table, columns: tuple[str, ...]) -> bool:
    """Whether these columns of text are whole numbers, and some of them would not be kept by a number."""
    asked = {}
    for i, column in enumerate(columns):
        text = written[column]
        asked |= {f"known{i}": text.count(), f"whole{i}": text.count(where=text.re_search("^[-+]?[0-9]+$"))}
        asked[f"lost{i}"] = text.count(where=text.re_search("^[-+]?(0[0-9]+|[0-9]{16,})$"))
    found = written.aggregate(**asked).to_pyarrow().to_pylist()[0]
    places = range(len(columns))
    return all(found[f"known{i}"] == found[f"whole{i}"] for i in places) and any(found[f"lost{i}"] for i in places)
