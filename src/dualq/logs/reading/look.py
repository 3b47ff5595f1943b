"""Look: what is in a file before anything is learned from it, and the `dualq learn` line that would learn from it.

Which part each column would play and why (roles.py), plain facts (profile.py), what is suspicious: the checks of
columns.py, and what `read_log` would refuse, since it is called with the columns that are proposed. Everything is asked
of the engine that holds the table, and answers are small.
"""

from __future__ import annotations

import datetime
import itertools
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dualq.base import LogError, count
from dualq.logs.reading.auto_bins import AUTO
from dualq.logs.reading.column_types import number
from dualq.logs.reading.columns import FEW, Numbers, dates_in, is_continuous, label_words, numbers_in, with_dates
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Expression, Table
from dualq.logs.reading.open_source import about_source, open_source
from dualq.logs.reading.options import BinsAsked, Columns
from dualq.logs.reading.profile import Clock, Column, Episodes, clock_of, columns_of, copies_of, episodes_of, labels_of
from dualq.logs.reading.read_log import read_log
from dualq.logs.reading.roles import Roles, roles_of
from dualq.logs.reading.schema import COMMON, ROW, as_names, no_names, option, parts_of
from dualq.logs.reading.sources import Source
from dualq.logs.reading.times import MOSTLY, text_time

WIDE = 50  # different whole numbers in a column of the state, from which bins are proposed
ROWS_EACH = 100  # rows for each of them, from which they are not
ENOUGH = 2000  # rows in which bins can be found
SENTINELS = (-99, -999, -9999, -99999, 999, 9999, 99999)  # numbers that often stand for a missing one
LAST = "last"  # terminal="last", truncated="last"
MANY = ("state", "action", "next_state", "episode", "costs")  # parts that may have several columns


@dataclass(frozen=True)
class Look:
    """What is in a table that may be a log; `look` makes one."""

    source: str
    rows: int
    columns: tuple[Column, ...]
    parts: Mapping[str, tuple[str, ...]]  # {part: its columns}
    why: Mapping[str, str]  # {column: why it has its part, or none}
    unsure: tuple[str, ...]  # parts that are a guess from the values alone, or that no column can play
    episodes: Episodes | None
    clock: Clock | None
    copies: int  # rows that are exact copies of others
    suspicious: tuple[str, ...]
    notes: tuple[str, ...]  # how the file was understood, where that is not plain
    bins: BinsAsked
    last: str = ""  # "terminal" or "truncated", where the user says what last rows of episodes are
    unclear: Mapping[str, str] = field(default_factory=dict)  # {column: a date of it that may be read in two ways}
    stops: bool = False  # whether `dualq learn` would stop, whatever is answered and set aside
    commands: Mapping[str, str] = field(default_factory=dict)  # {when: a line to copy}; none where a part is missing

    @property
    def command(self) -> str:
        """The line to copy, the first of them where a question is open; empty where parts are missing."""
        return next(iter(self.commands.values()), "")

    @property
    def heading(self) -> str:
        """What the lines to copy are for."""
        return "To learn from it, once that is mended" if self.stops else "To learn from it"

    def part(self, column: str) -> str:
        """The part that a column would play: `state`, with a question mark where that is not sure; empty: none."""
        found = [part for part, names in self.parts.items() if column in names]
        return ", ".join(("cost" if part == "costs" else part) + ("?" if part in self.unsure else "") for part in found)

    def facts(self) -> list[str]:
        """Of episodes and clock, a sentence each."""
        return [*_episode_words(self), *_clock_words(self), *([] if self.copies else ["No row is repeated"])]

    def doubts(self) -> list[str]:
        """What must be decided by somebody who knows the log."""
        missing = [part for part in ("state", "action", "reward") if not self.parts.get(part)]
        said = [f"no column looks like the {part}: name it with {option(part)}" for part in missing]
        for part in self.unsure:
            if part not in missing:
                names = ", ".join(self.parts[part]) if self.parts[part] != (ROW,) else "the order of the rows"
                said.append(f"{part} is only a guess: {names}. {QUESTIONS[part]} Correct it with {option(part)}")
        return [*said, *_date_question(self), *_end_question(self), *_alone_question(self)]

    def summary(self) -> dict[str, object]:
        """All of it, as plain values."""
        columns = [asdict(c) | {"part": self.part(c.name), "why": self.why.get(c.name, "")} for c in self.columns]
        return {
            "source": self.source,
            "rows": self.rows,
            "columns": columns,
            "parts": {part: list(names) for part, names in self.parts.items()},
            "unsure": list(self.unsure),
            "episodes": asdict(self.episodes) if self.episodes else None,
            "clock": asdict(self.clock) if self.clock else None,
            "last": self.last,
            "copies": self.copies,
            "suspicious": list(self.suspicious),
            "notes": list(self.notes),
            "bins": self.bins if isinstance(self.bins, str) else dict(self.bins),
            "command": self.command,
            "commands": dict(self.commands),
        }

    def table(self) -> list[tuple[str, ...]]:
        """A line for each column: its name, kind, different and missing values, values, part, and why."""
        return [
            (
                c.name,
                c.kind,
                f"{'~' if c.estimated else ''}{c.different:,}",
                f"{c.missing:,}",
                c.values,
                self.part(c.name),
                self.why.get(c.name, ""),
            )
            for c in self.columns
        ]

    def __str__(self) -> str:
        lines = [HEADER, *self.table()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        facts = [*self.facts(), *(f"note: {note}" for note in self.notes)]
        wrong = [
            *(f"unsure: {words}" for words in self.doubts()),
            *(f"suspicious: {words}" for words in self.suspicious),
        ]
        lines = [line for when, command in self.commands.items() for line in ([f"{when}:"] if when else []) + [command]]
        return "\n".join([f"{self.source}: {count(self.rows, 'row')}", "", *shown, "", *facts, *wrong, "", *lines])


QUESTIONS = {
    "state": "Is all of it known before the decision?",
    "action": "Is it what was decided?",
    "reward": "Is it what was earned?",
    "time": "Does it say in which order things happened?",
}
HEADER = ("column", "type", "distinct", "missing", "values", "part", "why")


@about_source
def look(
    source: object,
    *,
    state: Columns = None,
    action: Columns = None,
    reward: str | None = None,
    next_state: Columns = None,
    episode: Columns = None,
    time: str | Literal[False] | None = None,
    terminal: str | Literal[False] | None = None,
    truncated: str | Literal[False] | None = None,
    costs: Columns = None,
    bins: BinsAsked | None = None,
    table: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    day_first: bool | None = None,
) -> Look:
    """Look at a log: what its columns hold, which part each would play and why, and what is suspicious.

    The arguments are those of `read_log`; what is not given is found, by names first and then by values. Nothing is
    learned, and nothing is refused but what cannot be opened: what `read_log` would refuse is among `suspicious`.
    """
    opened = open_source(source, table, delimiter, columns)
    every = opened.table.columns
    written = dates_in(opened, every) if day_first is None else {}
    unclear = {column: found.shown for column, found in written.items() if not found.clear}
    if day_first is not None:
        opened = with_dates(opened, every, day_first, every)
    given: dict[str, Columns] = {
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
        "episode": episode,
        "time": time,
        "terminal": terminal,
        "truncated": truncated,
        "costs": costs,
    }
    last = [part for part in ("terminal", "truncated") if given[part] == LAST and LAST not in opened.table.columns]
    given |= dict.fromkeys(last, False)
    with reading(opened.name):
        rows, held = columns_of(opened.table)
        if not rows:
            raise LogError(f"{opened.name}: there are no rows")
        roles = _roles(opened, rows, held, given)
        moment = _moment(opened)
        clock, runs = _clock(opened, roles, moment), _episodes(opened, roles, moment)
        clock = None if roles.parts.get("time", (ROW,))[0] in unclear else clock
        wrong = [*_odd(opened, roles, held), *_same_as_reward(opened, roles, held)]
        copies = copies_of(opened.table, rows)
        shown = _as_written(opened, held, unclear)
    if headless := no_names(opened.table.columns):
        wrong.append(headless.removeprefix("; "))
    if copies:
        wrong.append(f"{count(copies, 'row')} repeat another row exactly: were they recorded twice?")
    named: dict[str, Columns] = {}
    named.update({part: _one_or_all(part, names) for part, names in roles.parts.items()})
    named.update({part: False for part, wanted in given.items() if wanted is False})
    named.update(dict.fromkeys(last, LAST))
    more = {"table": table, "delimiter": delimiter, "columns": columns, "day_first": day_first}
    more = {word: value for word, value in more.items() if value is not None}
    proposed = bins if bins is not None else _bins(opened, rows, held, roles)
    asked = more | ({"day_first": True} if unclear else {})
    refused, notes = _refused(source, named, proposed, asked)
    skips = bool(refused) and _readable_without_bad_rows(source, named, proposed, asked)
    seen = Look(
        opened.name,
        rows,
        shown,
        roles.parts,
        roles.why,
        tuple(roles.unsure),
        runs,
        clock,
        copies,
        (*refused, *wrong),
        () if unclear else notes,
        proposed,
        last[0] if last else "",
        unclear,
        bool(refused) and not skips,
    )
    if any(not roles.parts.get(part) for part in ("state", "action", "reward")):
        return seen
    aside: list[list[Answer]] = [[("bad rows may be set aside", {"skip_bad": True})]] if skips else []
    ways = itertools.product(*_answers(seen), *aside)
    lines = {" and ".join(when for when, _ in way): [said for _, said in way] for way in ways}
    lines = {f"If {when}" if when else "": said for when, said in lines.items()}
    return replace(seen, commands={w: _command(source, named, proposed, more, said) for w, said in lines.items()})


def _as_written(opened: Source, held: Sequence[Column], unclear: Mapping[str, str]) -> tuple[Column, ...]:
    """What columns hold, dates that may be read in two ways as they are written."""
    if not unclear or opened.as_text is None:
        return tuple(held)
    texts = opened.as_text(frozenset(unclear)).table
    written = {column.name: column for column in columns_of(texts.select(list(unclear)))[1]}
    return tuple(written.get(column.name, column) for column in held)


# ---- parts


def _roles(opened: Source, rows: int, held: Sequence[Column], given: Mapping[str, Columns]) -> Roles:
    found, guessed = parts_of(opened.name, opened.table.columns, given, opened.kept.columns)
    found["costs"] = found["costs"] or tuple(opened.kept.costs)
    reasons = dict.fromkeys(found, "as you say")
    reasons |= {part: "the file says so" if part in opened.kept.columns else "by its name" for part in guessed}
    sizes = {column.name: column.different for column in held}
    if "episode" in guessed and sizes[guessed["episode"][0]] == rows:
        found["episode"] = ()  # as read_log does: no two rows belong together
    refused = [part for part, wanted in given.items() if wanted is False]
    roles = roles_of(opened.table, rows, held, found, reasons, refused, _moment(opened))
    if not (roles.parts.get("time") or roles.parts.get("next_state") or "time" in refused) and opened.ordered:
        roles.take("time", [ROW], "", sure=False)
    order = [*COMMON, "costs"]
    roles.parts = {part: roles.parts[part] for part in order if roles.parts.get(part)}
    roles.unsure += [part for part in ("state", "action", "reward") if part not in roles.parts]
    return roles


def _moment(opened: Source) -> Callable[[str], Expression | None]:
    """The time of a row as what it stands for, from the name of its column; None where it cannot be ordered."""

    def moment(column: str) -> Expression | None:
        value = opened.table[column]
        try:
            kind = text_time(opened.name, opened.table, column)
        except LogError:
            return None
        return value if kind is None else number(value) if kind == MOSTLY else value.cast(kind)

    return moment


def _episodes(opened: Source, roles: Roles, moment: Callable[[str], Expression | None]) -> Episodes | None:
    time = roles.parts.get("time", (ROW,))[0]
    if not roles.parts.get("episode"):
        return None
    flags = [name for part in ("terminal", "truncated") for name in roles.parts.get(part, ())]
    return episodes_of(opened.table, roles.parts["episode"], None if time == ROW else moment(time), flags)


def _clock(opened: Source, roles: Roles, moment: Callable[[str], Expression | None]) -> Clock | None:
    time = roles.parts.get("time", (ROW,))[0]
    t = None if time == ROW else moment(time)
    return None if t is None else clock_of(opened.table, roles.parts.get("episode", ()), t)


def _bins(opened: Source, rows: int, held: Sequence[Column], roles: Roles) -> BinsAsked:
    """Bins for numbers that have too many values, as far as somebody must propose some."""
    found: dict[str, int | str] = {}
    numbers = {column.name: column for column in held if column.is_number}
    state = [numbers[name] for name in roles.parts.get("state", ()) if name in numbers]
    wide = [c.name for c in state if c.different > FEW and c.kind == "number"]
    wide += [c.name for c in state if c.kind == "integer" and c.different > WIDE and rows < ROWS_EACH * c.different]
    if wide:
        timed = rows >= ENOUGH and roles.parts.get("time")
        found = dict.fromkeys(wide, AUTO if timed else 4)
    every = set(wide) == {c.name for c in state if c.different > FEW}
    for name, x in numbers_in(opened.table, roles.parts.get("action", ())).items():
        if is_continuous(Numbers(x.rows, x.different, x.fractions)):
            found[name] = 5
    return AUTO if found and every and set(found.values()) == {AUTO} else found


# ---- what is suspicious


def _odd(opened: Source, roles: Roles, held: Sequence[Column]) -> list[str]:
    """Labels that may mean missing, or differ in spaces; numbers that may; columns with one value only."""
    said = []
    for column in held:
        parts = [part for part, names in roles.parts.items() if column.name in names]
        labels = [part for part in parts if part in ("state", "action", "next_state")]
        if labels and column.kind == "text":
            said += label_words(column.name, labels_of(opened.table, column.name, labels[0]), labels[0])
        if parts and column.is_number:
            said += _sentinel(opened.table, column)
        if set(parts) & {"state", "action", "reward"} and column.different == 1:
            said.append(f"{column.name}: it has one value only, {column.values}")
        if parts and column.missing:
            said.append(f"{column.name}: values are missing in {count(column.missing, 'row')}")
    return said


def _sentinel(table: Table, column: Column) -> list[str]:
    """A number such as -999 that lies far from all others, and may stand for a missing one."""
    x, said = table[column.name], []
    for end in {column.low, column.high} & set(SENTINELS):
        others = table.filter(x != end).aggregate(low=x.min(), high=x.max()).to_pyarrow().to_pylist()[0]
        if others["low"] is None:
            continue
        away = others["low"] - end if end == column.low else end - others["high"]
        if away > others["high"] - others["low"]:
            n = int(table.count(where=x == end).to_pyarrow().as_py())
            said.append(
                f"{column.name}: it is {end:g} in {count(n, 'row')}, far from all others; does that mean missing?"
            )
    return said


def _same_as_reward(opened: Source, roles: Roles, held: Sequence[Column]) -> list[str]:
    """Columns of the state that hold the reward under another name."""
    if not roles.parts.get("reward"):
        return []
    table = opened.table
    numbers = [c.name for c in held if c.is_number and c.different > 2]
    reward = roles.parts["reward"][0]
    if reward not in numbers:
        return []
    said = []
    for name in (name for name in roles.parts.get("state", ()) if name in numbers and name != reward):
        if not table.filter(table[name] != table[reward]).limit(1).count().to_pyarrow().as_py():
            said.append(
                f"{name}: it is the same as {reward} in every row; a state is what is known before the decision"
            )
    return said


def _refused(
    source: object, named: Mapping[str, Columns], bins: BinsAsked, more: Mapping[str, Any]
) -> tuple[list[str], tuple[str, ...]]:
    """What read_log would refuse, and how it understands the file."""
    if not all(named.get(part) for part in ("state", "action", "reward")):
        return [], ()
    try:
        log = read_log(source, **named, bins=bins, **more)
    except LogError as error:
        return [f"dualq learn would stop here: {error}"], ()
    return [], log.remarks


def _readable_without_bad_rows(
    source: object, named: Mapping[str, Columns], bins: BinsAsked, more: Mapping[str, Any]
) -> bool:
    """Whether read_log would go on if bad rows were set aside."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            read_log(source, **named, bins=bins, **more, skip_bad=True, quarantine=Path(folder) / "bad")
        except LogError:
            return False
    return True


# ---- questions, and what can be answered

Said = Mapping[str, str | float]  # {argument: what it is}
Answer = tuple[str, Said]  # when it is right, and what to say then


def _answers(seen: Look) -> list[list[Answer]]:
    """The answers to each open question."""
    dates: list[Answer] = [
        ("dates begin with the day", {"day_first": True}),
        ("dates begin with the month", {"day_first": False}),
    ]
    ends: list[Answer] = [
        ("the episodes ended with their last rows", {"terminal": LAST}),
        ("only the recording stopped there", {"truncated": LAST}),
    ]
    alone: list[Answer] = [
        ("rows follow each other", {}),
        ("every row is a case of its own", {"discount": 0}),
    ]
    asked = ((dates, _date_question(seen)), (ends, _end_question(seen)), (alone, _alone_question(seen)))
    return [answers for answers, question in asked if question]


def _date_question(seen: Look) -> list[str]:
    """Whether dates begin with the day or the month, where none shows it."""
    return [
        f"{column} may be day/month or month/day, such as {date}: no day is above 12. Say --day-first or --month-first"
        for column, date in seen.unclear.items()
    ]


def _alone_question(seen: Look) -> list[str]:
    """Whether rows follow each other at all, where no column says when they happened or a time is a row's own name."""
    time = seen.parts.get("time", (ROW,))[0]
    if seen.parts.get("next_state") or (seen.parts.get("episode") and time != ROW):
        return []
    if time != ROW and "time" not in seen.unsure:
        return []
    return ["do rows follow each other? If every row is a case of its own (one decision each), add --discount 0"]


def _episode_words(seen: Look) -> list[str]:
    runs, time = seen.episodes, seen.parts.get("time", (ROW,))[0]
    if runs is None:
        return ["All rows are one episode: no column says which rows belong together"]
    if runs.shortest == runs.longest:
        long = f"of {count(runs.longest, 'row')} each"
    else:
        long = f"of {runs.shortest:,} to {count(runs.longest, 'row')} (median {runs.median:,.0f})"
    said = [f"{count(runs.count, 'episode')} {long}, by {', '.join(seen.parts['episode'])}"]
    left = runs.count - (runs.flagged or 0)
    flags = " and ".join(name for part in ("terminal", "truncated") for name in seen.parts.get(part, ()))
    if runs.flagged:
        said.append(f"{runs.flagged:,} of them end with a flag ({flags})")
    if left and runs.at_the_end == left and not seen.last:
        others = f"the other {left:,}" if runs.flagged else "all of them" if left > 1 else "it"
        said.append(f"{others[0].upper()}{others[1:]} go on to the last {time}, where the recording stopped")
    if left and seen.last:
        said.append(
            "As you say, "
            + ("they ended" if seen.last == "terminal" else "the recording stopped")
            + " in their last rows"
        )
    return said


def _end_question(seen: Look) -> list[str]:
    """How episodes without a flag end, where nobody said so."""
    runs, time = seen.episodes, seen.parts.get("time", (ROW,))[0]
    left = 0 if runs is None else runs.count - (runs.flagged or 0)
    if runs is None or runs.at_the_end in (None, left) or seen.last:
        return []
    right = "Say --terminal last if they ended there, --truncated last if only the recording did"
    return [
        f"{left - (runs.at_the_end or 0):,} of {left:,} episodes without a flag stop before the last {time}. {right}"
    ]


def _clock_words(seen: Look) -> list[str]:
    time = seen.parts.get("time", (ROW,))[0]
    if seen.clock is None:
        return []
    dates = next((not c.is_number for c in seen.columns if c.name == time), False)
    step, longest = (_span(x, dates) for x in (seen.clock.step, seen.clock.longest))
    if not seen.clock.gaps:
        return [f"{time} goes on by {step}, without gaps"]
    return [f"{time} goes on by {step}, with {count(seen.clock.gaps, 'gap')}; the longest is {longest}"]


def _span(length: float, dates: bool) -> str:
    if not dates:
        return f"{length:g}"
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if length >= size and length % size == 0:
            return count(int(length // size), unit)
    return str(datetime.timedelta(seconds=length))


def _one_or_all(part: str, names: tuple[str, ...]) -> list[str] | str:
    return list(names) if part in MANY else names[0]


def _command(
    source: object, named: Mapping[str, Columns], bins: BinsAsked, more: Mapping[str, Any], answers: Sequence[Said]
) -> str:
    """The line to copy: of the command line for a file, of Python for anything else."""
    said = {word: value for answer in answers for word, value in answer.items()}
    learning = {word: said.pop(word) for word in ("discount",) if word in said}
    wanted = dict(named) | {part: value for part, value in said.items() if part in COMMON}
    more = dict(more) | {word: value for word, value in said.items() if word not in COMMON}
    names = [name for names in wanted.values() if isinstance(names, list) for name in names]
    if not isinstance(source, str | os.PathLike) or any("," in name for name in names):
        words = {**wanted, **({"bins": bins} if bins else {}), **more}
        first = repr(str(source)) if isinstance(source, str | os.PathLike) else "log"
        how = "".join(f", {word}={value!r}" for word, value in learning.items())
        return f"dualq.learn(dualq.read_log({first}, {', '.join(f'{k}={v!r}' for k, v in words.items())}){how})"
    line = ["dualq", "learn", str(source) if isinstance(source, str) else str(Path(source))]
    for part, value in wanted.items():
        if part == "costs":
            line += [word for cost in as_names(part, value) for word in ("--cost", cost)]
        else:
            line += [option(part), "none" if value is False else ",".join(as_names(part, value))]
    for column, value in bins.items() if isinstance(bins, Mapping) else [("", bins)] if bins else []:
        edges = ",".join(f"{edge:g}" for edge in value) if isinstance(value, list | tuple) else value
        line += ["--bins", f"{column}={edges}" if column else edges]
    if more.pop("skip_bad", False):
        line.append("--skip-bad")
    if "day_first" in more:
        line.append("--day-first" if more.pop("day_first") else "--month-first")
    for word, value in more.items():
        line += [f"--{word}", value if isinstance(value, str) else ",".join(value)]
    for word, value in learning.items():
        line += [f"--{word}", str(value)]
    return shlex.join(str(word) for word in line)
