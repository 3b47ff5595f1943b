"""Logs that nobody tidied, drawn at random: an answer, or one line.

`python tests/campaign/strange_logs.py 500 [seed [first]]` looks at so many and learns from them, with a report, the
saved run read back and something else that is done with it, and prints what was answered wrongly. A log is a good one
to which up to three strange things were done, as a file or frame of any kind; each is drawn from the seed and its own
number, so that one of them can be tried again. Wrong is a traceback, a message of several lines or of more than a
thousand letters, more than a minute of work; and a number of rows that is not that of the file, or counts that are not
those of the same columns as they are.
"""

from __future__ import annotations

import datetime
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

from dualq.errors import DualqError
from strange_files import TIDY, UNTIDY, Columns, as_text

import dualq

LIMIT = 60  # seconds that a log may take
LONGEST = 1000  # letters of a message
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
    "ﬁ",
    "\u200b",
    "\ud800",
    "😀",
    "\u202e",
    "\x00",
    "=1+1",
    "<script>",
    "x" * 5000,
    "\ufeff",
]
READ = ("time", "terminal", "truncated", "skip_bad", "quarantine", "numbers", "bins", "state", "episode", "clock",
        "costs", "action_bins", "until", "day_first", "next_state", "reward_range")  # fmt: skip
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


def numbers_in_state(columns: Columns, rng: random.Random) -> None:
    """Nearly as many states as rows; some of them beyond all others, missing, or all alike."""
    n = len(columns["state"])
    columns["state"] = [rng.gauss(0.0, 10.0 ** rng.choice([-12, 0, 12])) for _ in range(n)]
    columns["load"] = [rng.choice([rng.random(), 0.0]) for _ in range(n)]
    for odd in rng.sample([None, 1e200, -1e-300, 5e15, "?", 0.1 + 0.2], rng.choice([0, 0, 1])):
        columns["load"][rng.randrange(n)] = odd


def ids(columns: Columns, rng: random.Random) -> None:
    """Episodes whose ids come again, or differ by their case, their type, their form."""
    n, size = len(columns["state"]), rng.choice([1, 4, 10])
    known = rng.choice(
        [["A", "a", "B"], [1, "1", 1.0, "01"], ["é", "e\u0301"], [None, "x"], list(range(n)), [0.5, 1.5]]
    )
    columns["episode"] = [known[i // size % len(known)] for i in range(n)]
    columns["time"] = [i % size for i in range(n)] if rng.random() < 0.5 else columns["time"]


def zones(columns: Columns, rng: random.Random) -> None:
    """Moments of several zones, some of them without one."""
    first, marks = (
        datetime.datetime(2024, 3, 31),
        rng.choice([["Z", "+05:30"], ["", "Z"], ["+02:00"], [" UTC", "-00:00"]]),
    )
    moments = [first + datetime.timedelta(minutes=30 * i) for i in range(len(columns["time"]))]
    columns["time"] = [moment.isoformat(rng.choice(" T")) + rng.choice(marks) for moment in moments]


def wide(columns: Columns, rng: random.Random) -> None:
    for i in range(500):
        columns[f"w{i}"] = [rng.choice([i % 7, i / 3]) for _ in columns["state"]]


def nothing_known(columns: Columns, rng: random.Random) -> None:
    columns[rng.choice([*columns, "more"])] = [None] * len(columns["state"])


def alike_names(columns: Columns, rng: random.Random) -> None:
    """Names that differ by their case, by a space, by how an accent is written."""
    one, other = rng.choice([("state", "State"), ("reward", "REWARD"), ("action", "action "), ("é", "e\u0301")])
    columns.setdefault(one, [rng.randrange(2) for _ in columns["state"]])
    columns[other] = rng.choice([columns[one], [0] * len(columns[one])])


def alike_labels(columns: Columns, rng: random.Random) -> None:
    name = rng.choice(["state", "action"])
    pairs = [
        ["é", "e\u0301"],
        ["ﬁ", "fi"],
        ["a", "A"],
        ["a", "a "],
        ["a", "a\u200b"],
        ["1", "1.0", "01"],
        ["\u212b", "Å"],
    ]
    known = rng.choice(pairs)
    columns[name] = [known[rng.randrange(len(known))] for _ in columns[name]]


def long_cell(columns: Columns, rng: random.Random) -> None:
    name = rng.choice(list(columns))
    columns[name][rng.randrange(len(columns[name]))] = rng.choice(["x", "9", '"', "ab,"]) * 10**6


CELLS = (
    *(odd_cells, all_alike, all_different, numbers_in_state, alike_labels, times, zones, shuffled, ids, episodes),
    *(next_states, long_cell, nothing_known, more_columns, wide, alike_names, no_rows, names),
)
TOLD: list[dict[str, object]] = [
    *({}, {}, {"time": "row"}, {"terminal": "row"}, {"skip_bad": True}, {"numbers": "auto"}, {"bins": {"state": 2}}),
    *({"bins": "auto"}, {"state": ["state", "time"]}, {"episode": "episode", "terminal": "last"}, {"clock": "episode"}),
    *({"truncated": "last"}, {"discount": 0.0}, {"costs": ["reward"]}, {"action_bins": 3}, {"until": 10}),
    *({"approximation": "table"}, {"certificate": None, "start": "uniform"}, {"episode": False, "next_state": False}),
    *({"day_first": True}, {"limits": "action=a<=0.5"}, {"reward_range": (0, 4)}, {"solver": "pdhg"}),
]


def raw(text: bytes, rng: random.Random) -> bytes:
    """The file itself: its end, its bytes, its marks."""
    place = rng.randrange(len(text) + 1)
    before, after = text[:place], text[place:]
    inserted = [before + mark + after for mark in (bytes([rng.randrange(256)]), b'"', b"\x00", b"\n", b",")]
    ends = [before, text + before, text.rstrip(b"\n"), text + b"\xe9"]
    wide = text.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass")
    begins = [b"\xef\xbb\xbf" + text, b"\n\n" + text, b"# comment\n" + text, wide]
    marks = [text.replace(b"\n", mark) for mark in (b"\r\n", b"\r")]
    marks += [text.replace(b",", mark) for mark in (b";", b"\t", b"|", b" ")]
    return rng.choice([*inserted, *ends, *begins, *marks])


@dataclass(frozen=True)
class Drawn:
    """A log, what was done to it, and how it is read."""

    what: tuple[str, ...]
    log: object
    told: dict[str, object]
    columns: Columns | None  # what it says, where that is known; None: nobody knows


def drawn(rng: random.Random, folder: Path) -> Drawn:
    columns, done = good(rng), []
    for strange in sorted(rng.sample(CELLS, rng.choice([0, 1, 1, 1, 2, 3])), key=CELLS.index):  # names last
        if strange is not long_cell or columns["state"]:
            strange(columns, rng)
            done.append(strange.__name__)
    told = rng.choice(TOLD)
    told = told | ({"quarantine": folder / "bad.csv"} if "skip_bad" in told else {})
    kind = rng.choice(["columns", "raw", "tidy", "tidy", "tidy", "untidy"])
    if kind == "columns":
        return Drawn((*done, kind), columns, told, columns)
    if kind == "raw":
        path = folder / "log.csv"
        path.write_bytes(raw(as_text(columns), rng))
        return Drawn((*done, kind), path, told, None)
    write = rng.choice(TIDY if kind == "tidy" else UNTIDY)
    return Drawn((*done, write.__name__), write(columns, folder, rng), told, columns if kind == "tidy" else None)


def used(one: Drawn, folder: Path, rng: random.Random) -> None:
    """All that people do with a log."""
    fit = dualq.learn(one.log, **one.told)
    log = fit.read.log
    if one.columns is not None and log is not None and "until" not in one.told and one.told.get("bins") != "auto":
        number = len(next(iter(one.columns.values())))
        known = len(log.number_rows()) if log.numbers else log.counts().total
        assert known + sum(log.left_out) == number, f"{known} rows and {log.left_out} left out of {number}"
    fit.report(folder / "report.html")
    fit.save(folder / "run")
    back = dualq.load(folder / "run")
    assert back.expected == fit.expected, "it came back otherwise"
    read = {name: value for name, value in one.told.items() if name in READ}
    more: list[Callable[[], object]] = [
        lambda: dualq.export(back, rng.choice(["json", "sql", "python"]), approximate=True),
        lambda: dualq.check(back, one.log, **read),
        lambda: dualq.update(back, one.log, **read),
        lambda: dualq.evaluate(one.log, folder / "run" / "policy.csv", **read),
        lambda: dualq.evaluate(one.log, "a", **read),
        lambda: json.dumps(back.summary(), allow_nan=False),
    ]
    rng.choice(more)()


def same_as_columns(one: Drawn) -> None:
    """The same columns as they are, and as a file or frame of whatever kind, are counted alike."""
    right = dualq.read_log(one.columns).counts()
    try:
        found = dualq.read_log(one.log).counts()
    except DualqError as error:
        raise AssertionError(f"its columns can be read, and it cannot: {error}") from None
    assert found.digest() == right.digest(), f"{found} and not {right}"


def faults(number: int, seed: int, folder: Path, first: int = 0) -> Iterator[Fault]:
    """All logs, of so many, that were answered wrongly. Networks are not tried: they take their time."""
    with mock.patch("dualq.offline.approximate.learning.NEURAL", ("nothing_of_that_name",)):
        for i in range(first, first + number):
            rng, place = random.Random(f"{seed} {i}"), folder / f"{i}"
            place.mkdir()
            one = drawn(rng, place)
            uses: list[Callable[[], object]] = [partial(dualq.look, one.log), partial(used, one, place, rng)]
            if len(one.what) == 1 and one.columns is not None:  # nothing was done to it: it can be read
                uses.append(partial(same_as_columns, one))
            wrong = next((wrong for wrong in map(_wrong, uses) if wrong is not None), None)
            if wrong is not None:
                yield Fault((f"log {i}", *one.what, str(one.told)), wrong)
            shutil.rmtree(place)


def _wrong(use: Callable[[], object]) -> str | None:
    before = [(sign, signal.signal(sign, _stop)) for sign in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, LIMIT)  # of work; of waiting more, where others work too
    signal.alarm(5 * LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            use()
    except DualqError as error:
        return f"no short line: {error}" if len(str(error).splitlines()) != 1 or len(str(error)) > LONGEST else None
    except (_TooLong, KeyboardInterrupt):  # DuckDB calls every signal an interrupt
        return f"no answer in {LIMIT} seconds"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for sign, handler in before:
            signal.signal(sign, handler)
    return None


class _TooLong(BaseException):
    pass


def _stop(*_: object) -> None:
    raise _TooLong


if __name__ == "__main__":
    number, seed, start = (int(word) for word in [*sys.argv[1:], "0", "0"][:3])
    with tempfile.TemporaryDirectory() as place:
        found, began = 0, time.process_time()
        for first in range(start, start + number, 25):
            part = min(25, start + number - first)
            for fault in faults(part, seed, Path(place), first):
                print(str(fault)[:600], flush=True)
                found += 1
            lasted = time.process_time() - began
            print(f"{first + part - start} of {number}: {found} wrong, {lasted:.0f} CPU seconds", flush=True)
    print(f"{number:,} strange logs, {found} of them answered wrongly")
