"""Logs that nobody tidied, drawn at random: an answer, or one line.

`python tests/campaign/strange_logs.py 500 [seed]` looks at so many and learns from them, with a report and the saved
run read back, and prints what was answered wrongly. A log is a good one to which up to three strange things were done.
"""

from __future__ import annotations

import csv
import datetime
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dualq.errors import DualqError

import dualq

Columns = dict[str, list[object]]
ODD_NUMBERS = [
    "",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e308",
    "-0",
    "0x10",
    "1,5",
    "1.234,5",
    "٣",
    "NULL",
    " 3 ",
    "3%",
    "$3",
    "1_000",
]
ODD_TEXT = [
    "",
    " ",
    "None",
    "a\nb",
    'a"b',
    "a,b",
    "a;b",
    "\t",
    "é",
    "e\u0301",
    "😀",
    "\u202e",
    "\x00",
    "=1+1",
    "<script>",
    "x" * 5000,
    "\ufeff",
]
ODD_TIMES = [
    *("", "2024-02-30", "24:00:00", "yesterday", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+05:30", "1e18", "-1"),
    *("0001-01-01", "9999-12-31"),
]


@dataclass(frozen=True)
class Fault:
    """A log, and what was wrong with the answer."""

    what: tuple[str, ...]
    answer: str

    def __str__(self) -> str:
        return f"{' and '.join(self.what)}: {self.answer}"


def good(rng: random.Random) -> Columns:
    rows, states = rng.choice([1, 2, 3, 30, 200]), rng.choice([1, 2, 5])
    return {
        "state": [rng.randrange(states) for _ in range(rows)],
        "action": [rng.choice("ab") for _ in range(rows)],
        "reward": [float(rng.randrange(5)) for _ in range(rows)],
        "time": list(range(rows)),
    }


# ---- what can be strange


def odd_cells(columns: Columns, rng: random.Random) -> None:
    name = rng.choice(list(columns))
    for _ in range(rng.choice([1, 3])):
        place = rng.randrange(len(columns[name])) if columns[name] else None
        if place is not None:
            columns[name][place] = rng.choice([*ODD_NUMBERS, *ODD_TEXT, *ODD_TIMES])


def all_alike(columns: Columns, rng: random.Random) -> None:
    name = rng.choice(list(columns))
    columns[name] = [rng.choice([0, "x", "", 1e300, True, None])] * len(columns[name])


def all_different(columns: Columns, rng: random.Random) -> None:
    name = rng.choice(["state", "action"])
    columns[name] = [rng.random() * 10 ** rng.choice([-300, 0, 15]) for _ in columns[name]]


def times(columns: Columns, rng: random.Random) -> None:
    n, first = len(columns["time"]), datetime.datetime(rng.choice([1, 1970, 2024, 9998]), 1, 1)
    step = datetime.timedelta(seconds=rng.choice([0, 1, 3600, 86400]))
    columns["time"] = [(first + i * step).isoformat() for i in range(n)]


def shuffled(columns: Columns, rng: random.Random) -> None:
    rng.shuffle(columns[rng.choice(list(columns))])


def episodes(columns: Columns, rng: random.Random) -> None:
    n = len(columns["state"])
    columns["episode"] = [i // rng.choice([1, 3, 10**9]) for i in range(n)]
    columns["done"] = [rng.choice([True, False, "yes", "maybe", 0, 2, ""]) for _ in range(n)]


def names(columns: Columns, rng: random.Random) -> None:
    name = rng.choice(list(columns))
    columns[rng.choice(["", " state", "STATE", "état", "a b", "reward\n2", "dualq_row", "x" * 300, "0", "'"])] = (
        columns.pop(name)
    )


def more_columns(columns: Columns, rng: random.Random) -> None:
    for i in range(rng.choice([1, 40])):
        columns[f"c{i}"] = [rng.choice([i, rng.random(), "x", None]) for _ in columns[next(iter(columns))]]


def no_rows(columns: Columns, rng: random.Random) -> None:
    for name in columns:
        columns[name] = []


def next_states(columns: Columns, rng: random.Random) -> None:
    columns["next_state"] = [rng.choice([*columns["state"], None, "elsewhere"]) for _ in columns["state"]]


CELLS = (odd_cells, all_alike, all_different, times, shuffled, episodes, next_states, more_columns, no_rows, names)


def raw(text: bytes, rng: random.Random) -> bytes:
    """The file itself: its end, its bytes, its marks."""
    place = rng.randrange(len(text) + 1)
    before, after = text[:place], text[place:]
    inserted = [before + mark + after for mark in (bytes([rng.randrange(256)]), b'"', b"\x00", b"\n", b",")]
    ends = [before, text + before, text.rstrip(b"\n"), text + b"\xe9"]
    begins = [b"\xef\xbb\xbf" + text, b"\n\n" + text, b"# comment\n" + text, text.decode().encode("utf-16")]
    marks = [text.replace(b"\n", mark) for mark in (b"\r\n", b"\r")]
    marks += [text.replace(b",", mark) for mark in (b";", b"\t", b"|", b" ")]
    return rng.choice([*inserted, *ends, *begins, *marks])


def written(columns: Columns, path: Path) -> bytes:
    with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path.read_bytes()


def drawn(rng: random.Random, folder: Path) -> tuple[tuple[str, ...], object, dict[str, object]]:
    """What was done to a log, the log, and how it is read."""
    columns, done = good(rng), []
    for strange in sorted(rng.sample(CELLS, rng.choice([1, 1, 2, 3])), key=CELLS.index):  # names last
        strange(columns, rng)
        done.append(strange.__name__)
    told: dict[str, object] = rng.choice(
        [{}, {"time": "row"}, {"terminal": "row"}, {"skip_bad": True}, {"numbers": "auto"}, {"bins": {"state": 2}}]
    )
    told = told | ({"quarantine": folder / "bad.csv"} if "skip_bad" in told else {})
    kind = rng.choice(["csv", "csv", "raw", "columns", "json"])
    path = folder / f"log.{'json' if kind == 'json' else 'csv'}"
    if kind == "columns":
        return (*done, kind), columns, told
    if kind == "json":
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        text = written(columns, path)
        path.write_bytes(raw(text, rng) if kind == "raw" else text)
    return (*done, kind), path, told


def used(log: object, told: dict[str, object], folder: Path) -> None:
    """All that people do with a log."""
    fit = dualq.learn(log, **told)
    fit.report(folder / "report.html")
    fit.save(folder / "run")
    back = dualq.load(folder / "run")
    assert back.expected == fit.expected, "it came back otherwise"


def faults(number: int, seed: int, folder: Path) -> Iterator[Fault]:
    """All logs, of so many, that were answered wrongly."""
    rng = random.Random(seed)
    for _ in range(number):
        what, log, told = drawn(rng, folder)
        for use in (partial(dualq.look, log), partial(used, log, told, folder)):
            if (wrong := _wrong(use)) is not None:
                kept = folder / "log.csv"
                yield Fault((*what, str(told)), f"{wrong} {kept.read_bytes()[:200]!r}" if kept.exists() else wrong)
                break


def _wrong(use: Callable[[], object]) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            use()
    except DualqError as error:
        return f"several lines: {error}" if len(str(error).splitlines()) != 1 else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    number, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as place:
        found = []
        for fault in faults(number, seed, Path(place)):
            print(str(fault)[:600], flush=True)
            found.append(fault)
    print(f"{number:,} strange logs, {len(found)} of them answered wrongly")
