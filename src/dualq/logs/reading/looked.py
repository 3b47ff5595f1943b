"""Looked: what `look` found, in words: facts, open questions, and the lines to copy, one for each answer."""

from __future__ import annotations

import datetime
import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dualq.base import count, door
from dualq.logs.reading.options import READING, BinsAsked, Columns
from dualq.logs.reading.profile import Clock, Column, Episodes
from dualq.logs.reading.schema import COMMON, ROW, as_names
from dualq.logs.reading.urls import without_password

LAST = "last"  # terminal="last", truncated="last"
EARLY = "early"  # terminal="early"


@door
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
    last: str = ""  # "terminal", "early" or "truncated", where the user says what last rows of episodes are
    unclear: Mapping[str, str] = field(default_factory=dict)  # {column: a date of it that may be read in two ways}
    stops: bool = False  # whether `dualq learn` would stop, whatever is answered and set aside
    numbers: tuple[str, ...] = ()  # columns of the state that are numbers rather than labels: they hardly come again
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
        said = [*_episode_words(self), *_clock_words(self), *([] if self.copies else ["No row is repeated"])]
        return [*said, *_number_words(self)]

    def doubts(self) -> list[str]:
        """What must be decided by somebody who knows the log."""
        missing = [part for part in ("state", "action", "reward") if not self.parts.get(part)]
        said = [f"no column looks like the {part}: name it with {READING[part].flag}" for part in missing]
        for part in self.unsure:
            if part not in missing:
                names = ", ".join(self.parts[part]) if self.parts[part] != (ROW,) else "the order of the rows"
                said.append(f"{part} is only a guess: {names}. {QUESTIONS[part]} Correct it with {READING[part].flag}")
        return [*said, *_date_question(self), *_end_question(self), *_alone_question(self)]

    @property
    def answers(self) -> list[list[tuple[str, Mapping[str, str | float]]]]:
        """What may be answered to each open question: (when it is right, the arguments that say so)."""
        return _answers(self)

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
            "numbers": list(self.numbers),
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
    "propensity": "Is it the probability with which the action was taken?",
    "time": "Does it say in which order things happened?",
}
HEADER = ("column", "type", "distinct", "missing", "values", "part", "why")


# ---- questions, and what can be answered

Said = Mapping[str, str | float]  # {argument: what it is}
Answer = tuple[str, Said]  # when it is right, and what to say then


def _answers(seen: Look) -> list[list[Answer]]:
    """The answers to each open question."""
    dates: list[Answer] = [
        ("dates begin with the day", {"day_first": True}),
        ("dates begin with the month", {"day_first": False}),
    ]
    time = seen.parts.get("time", (ROW,))[0]
    ends: list[Answer] = [
        ("the episodes ended with their last rows", {"terminal": LAST}),
        ("only the recording stopped there", {"truncated": LAST}),
    ]
    if time != ROW and seen.episodes and (seen.episodes.at_the_end or 0) > 1:
        ends.insert(
            1, (f"the episodes that stop before the last {time} ended there, and no others", {"terminal": EARLY})
        )
    case: Said = {"discount": 0} if "terminal" in seen.parts else {"terminal": ROW, "discount": 0}
    alone: list[Answer] = [("rows follow each other", {}), ("every row is a case of its own", case)]
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
    if time != ROW and "time" not in seen.unsure and "propensity" not in seen.parts:
        return []
    return ["do rows follow each other? If each is a case of its own (one decision), add --terminal row --discount 0"]


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
            "You said that "
            + ("the recording stopped" if seen.last == "truncated" else "they ended")
            + (f" where they stop before the last {time}" if seen.last == EARLY else " in their last rows")
        )
    return said


def _number_words(seen: Look) -> list[str]:
    if not seen.numbers:
        return []
    those = "is a number" if len(seen.numbers) == 1 else "are numbers"
    return [f"{', '.join(seen.numbers)} {those}, and no label: few values come again"]


def _end_question(seen: Look) -> list[str]:
    """How episodes without a flag end, where nobody said so."""
    runs, time = seen.episodes, seen.parts.get("time", (ROW,))[0]
    left = 0 if runs is None else runs.count - (runs.flagged or 0)
    if runs is None or runs.at_the_end in (None, left) or seen.last:
        return []
    early = " (--terminal early if the others did not)" if time != ROW else ""
    right = f"Say --terminal last if they ended there{early}, --truncated last if only the recording did"
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


def commands(
    seen: Look, source: object, named: Mapping[str, Columns], bins: BinsAsked, more: Mapping[str, Any], skips: bool
) -> dict[str, str]:
    """{when: the line to copy}, for each answer to what is open; none where a part is missing.

    skips   whether bad rows must be set aside
    """
    if any(not seen.parts.get(part) for part in ("state", "action", "reward")):
        return {}
    aside: list[list[Answer]] = [[("bad rows may be set aside", {"skip_bad": True})]] if skips else []
    ways = itertools.product(*_answers(seen), *aside)
    lines = {" and ".join(when for when, _ in way): [said for _, said in way] for way in ways}
    lines = {f"If {when}" if when else "": said for when, said in lines.items()}
    more = dict(more) | ({"numbers": "auto"} if seen.numbers and not isinstance(source, str | os.PathLike) else {})
    return {when: _command(source, named, bins, more, said) for when, said in lines.items()}


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
        return _python(source, {**wanted, **({"bins": bins} if bins else {}), **more}, learning)
    return _shell(source, wanted, bins, more, learning)


def lines_of(source: str, columns: Mapping[str, Any], learning: Mapping[str, object]) -> tuple[str, str]:
    """The line of the command line, and that of Python, that learn from a file with these arguments.

    columns    of `read_log`;  learning  of `learn`: both without what is as it is by default
    """
    named = {part: value for part, value in columns.items() if part in (*COMMON, "costs")}
    more = {word: value for word, value in columns.items() if word not in named and word != "bins"}
    return _shell(source, named, columns.get("bins") or {}, more, learning), _python(source, columns, learning)


def _python(source: object, columns: Mapping[str, object], learning: Mapping[str, object]) -> str:
    first = repr(without_password(source)) if isinstance(source, str | os.PathLike) else "log"
    how = "".join(f", {word}={value!r}" for word, value in learning.items())
    return f"dualq.learn(dualq.read_log({first}, {', '.join(f'{k}={v!r}' for k, v in columns.items())}){how})"


def _shell(
    source: str | os.PathLike[str],
    named: Mapping[str, object],
    bins: BinsAsked,
    more: Mapping[str, object],
    learning: Mapping[str, object],
) -> str:
    more = dict(more)
    line = ["dualq", "learn", without_password(source)]
    for part, value in named.items():
        if part == "costs":
            line += [word for cost in as_names(part, value) for word in (READING[part].flag, cost)]
        else:
            line += [READING[part].flag, "none" if value is False else ",".join(as_names(part, value))]
    for column, value in bins.items() if isinstance(bins, Mapping) else [("", bins)] if bins else []:
        edges = ",".join(f"{edge:g}" for edge in value) if isinstance(value, list | tuple) else value
        line += ["--bins", f"{column}={edges}" if column else edges]
    if more.pop("skip_bad", False):
        line.append("--skip-bad")
    if "day_first" in more:
        line.append("--day-first" if more.pop("day_first") else "--month-first")
    for word, value in more.items():
        values = value if isinstance(value, list | tuple) else [value]
        line += [READING[word].flag, ",".join(f"{x:g}" if isinstance(x, float) else str(x) for x in values)]
    for word, value in learning.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            line += [f"--{'limit' if word == 'limits' else word.replace('_', '-')}", str(one)]
    return shlex.join(str(word) for word in line)
