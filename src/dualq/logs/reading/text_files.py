"""How a text file (CSV) is written, read off its beginning, and what DuckDB says of lines that are no rows."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

from dualq.base import LogError

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend as DuckDB

DELIMITERS = ",\t;|"


@dataclass(frozen=True)
class Head:
    """What the first lines of a text file tell."""

    mark: str  # between fields
    twice: frozenset[str]  # names that several columns have
    decimal_comma: bool


HEAD = 1 << 16  # bytes
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"[-+]?[0-9]*,[0-9]+"), re.compile(r"[-+]?[0-9]*[.][0-9]+")


def head_of(file: str, delimiter: str | None, columns: tuple[str, ...] = ()) -> Head:
    """How a text file is written, read off its beginning; its first line has the names of the columns, or `columns`."""
    name = os.path.basename(file)
    with _opened(file) as stream:
        start = stream.read(HEAD)
    lines = re.split("\r\n|\n|\r", _text(name, start))
    lines = lines[:-1][:100] if len(start) == HEAD else lines[:100]  # the last one may be cut
    if not lines or not lines[0].strip():
        right = "a row" if columns else "the names of the columns"
        raise LogError(f"{name}: the first line is empty; it must hold {right}")
    bare = [re.sub(r'"[^"]*"', "", line) for line in lines]  # marks within quotes are none
    mark = delimiter or max(DELIMITERS, key=bare[0].count)
    wide = next((i for i, line in enumerate(bare) if max(map(line.count, mark if delimiter else DELIMITERS)) > 1), 0)
    if wide and not any(m in bare[0] for m in (mark if delimiter else DELIMITERS)):
        row = f"line {wide + 1} is {lines[wide][:60]!r}"
        raise LogError(
            f"{name}: the first line is {lines[0][:60]!r}, and {row}; the first line must hold the names of the "
            "columns: delete what stands above them",
            line=1,
            value=lines[0][:60],
        )
    fields = [row for _, row in _fields(name, lines, mark)]
    if columns and len(fields[0]) != len(columns):
        shown = f"the first line has {len(fields[0])} fields, {lines[0][:60]!r}"
        raise LogError(
            f"{name}: {shown}, and columns has {len(columns)} names; give a name for each field",
            argument="columns",
            value=len(columns),
        )
    names = [field.strip().lower() for field in columns or fields[0]]
    values = [value.strip() for row in fields[0 if columns else 1 :] for value in row]
    comma = mark != "," and any(map(DECIMAL_COMMA.fullmatch, values)) and not any(map(DECIMAL_POINT.fullmatch, values))
    return Head(mark, frozenset(name for name in names if name and names.count(name) > 1), comma)


def _fields(name: str, lines: Iterable[str], mark: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each line, the last of a row that has several, and its fields."""
    if len(mark) == 1 and mark not in '"\r\n':
        rows = csv.reader(lines, delimiter=mark)
        try:
            yield from ((rows.line_num, row) for row in rows)
        except csv.Error as error:
            line = rows.line_num
            raise LogError(f"{name}: line {line} is no row of the table ({error}); correct it", line=line) from None
    else:
        yield from ((i, line.split(mark)) for i, line in enumerate(lines, 1))


def ends_differ(files: Sequence[str]) -> bool:
    """Whether some lines end with \\r\\n and others with \\n."""
    ends: set[bytes] = set()
    for file in files:
        with _opened(file) as stream:
            for line in stream:
                ends.add(line[-2:] if line.endswith(b"\r\n") else line[-1:])
                if {b"\n", b"\r\n"} <= ends:
                    return True
    return False


def check_fields(file: str, mark: str) -> None:
    """A LogError that names the first line with more or fewer fields than the first has."""
    name = os.path.basename(file)
    with _opened(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as lines:
        needed = 0
        for line, row in _fields(name, lines, mark):
            needed = needed or len(row)
            if row and len(row) != needed:
                text = mark.join(row)[:60]
                wrong = f"line {line} is no row of the table, {text!r}: it has {len(row)} fields and not {needed}"
                raise LogError(f"{name}: {wrong}; correct it", line=line, value=text)


def _opened(file: str) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file, "rb")) if file.endswith(".gz") else open(file, "rb")


def _text(name: str, start: bytes) -> str:
    """The first bytes of a file as text, if they are."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(f"{name}: the text is UTF-16; save it as UTF-8")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(start)  # the last letter may be cut in two
    except UnicodeDecodeError as error:
        line = start[: error.start].count(b"\n") + 1
        if sum(byte < 9 for byte in start) > len(start) // 100:  # NUL and its like are rare in text
            raise LogError(f"{name}: this is not a text file; rename it if it is of another kind") from None
        byte = f"0x{start[error.start]:02x}"
        raise LogError(
            f"{name}: line {line} has the byte {byte}, which is not UTF-8; save it as UTF-8", line=line
        ) from None


def check_gzip(file: str) -> None:
    """A .gz file ends with the size of what it holds; DuckDB would read a cut one as far as it goes."""
    if not file.endswith(".gz"):
        return
    try:
        with gzip.open(file, "rb") as stream:
            while stream.read(1 << 22):
                pass
    except (EOFError, OSError, zlib.error) as error:
        raise LogError(f"{os.path.basename(file)}: the file is cut off in the middle, or damaged ({error})") from None


def last_byte(file: str) -> bytes:
    """Of a file that is not packed; a packed one that is cut off does not come this far."""
    if file.endswith((".gz", ".zst")):
        return b"\n"
    with open(file, "rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1)


def records_in(file: str, mark: str, header: bool, aside: Collection[int]) -> Iterator[tuple[int, int, int]]:
    """Of each record its own number, the one it has as a row of DuckDB's (0: it is none), and its first line.

    A record is a line, empty or not, or several where quotes hold line breaks; the names are the first. DuckDB counts
    so where it names those that are no rows (`aside`); it numbers the others that are not empty.
    Python's reader stops at what it does not take, such as a field of a million letters, and these records with it.
    """
    row, line = 0, 1
    with (
        _opened(file) as stream,
        io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="") as lines,
        contextlib.suppress(LogError),
    ):
        for record, (end, fields) in enumerate(_fields(os.path.basename(file), lines, mark), 1):
            kept = record > header and record not in aside and fields not in ([], [""])
            row += kept
            yield record, row if kept else 0, line
            line = end + 1


def rejected_lines(con: DuckDB) -> list[tuple[str, int, str, str]]:
    """(file, record, what is wrong, the line) of all that DuckDB kept aside."""
    query = (
        "SELECT s.file_path, e.line, min(e.error_message), min(e.csv_line) FROM reject_errors e "
        "JOIN reject_scans s USING (scan_id, file_id) GROUP BY 1, 2 ORDER BY 1, 2"
    )
    rows = con.con.execute(query).fetchall()
    return [
        (file, int(record), _rejected(message.splitlines()[0]), text.strip("\r\n"))
        for file, record, message, text in rows
    ]


def _rejected(message: str) -> str:
    """What DuckDB says of a line that is no row, and what that may come from."""
    found = re.match(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if found is None:
        return message
    needed, there = map(int, found.groups())
    if there < needed:
        return f"it has {there} fields and not {needed}; the file may be cut off"
    return f"it has more than {needed} fields; what holds a delimiter must stand in quotes"
