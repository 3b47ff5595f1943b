"""Odd values: one row that stands apart from all others, and may be a slip of whoever wrote it.

    far      a number further from all others than FAR times the distance between those: with the FEW outermost rows on
             either side left out, [low, high] holds the rest, and  max(x - high, low - x) > FAR (high - low)
    words    text in a few rows of a column whose other values are numbers (RARE of the rows, or MOST of them if there
             are too many values for labels): it makes text of the whole column, where 10 comes
             before 9 and no rule can ask for stock <= 1

Each is said with its row. Neither is refused: a rare value may be right, and only who knows the log can tell. But where
the numbers of a column of the state hardly come again, text of them is no label: with `skip_bad` it is a column of
numbers, and rows with words are bad.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dualq.base import LogError, count
from dualq.logs.counts import Counts
from dualq.logs.reading.column_types import number
from dualq.logs.reading.columns import Numbers, is_fraction
from dualq.logs.reading.decisions import WRITTEN
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Expression, Table, null
from dualq.logs.reading.number_columns import hardly_again
from dualq.logs.reading.options import Value
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import Schema
from dualq.logs.reading.sources import FILE, NUMBER, Source, row_words
from dualq.logs.reading.times import NUMBER as TEXT_NUMBER
from dualq.logs.reading.times import WHOLE

Row = Mapping[str, Value | None]

FAR = 10.0
FEW = 5  # rows on one side that may stand apart: more are no slip
LEAST = 100  # rows, below which nobody can tell what is far
RARE = 0.01  # of the rows: words that are more frequent are labels
MANY, MOST = 200, 0.25  # more values than that are no labels: of such a column a quarter of the rows may hold words
SHOWN = 3  # rows that are named
NAME = "^[-+]?(0[0-9]+|[0-9]{16,})$"  # whole numbers that a number would not keep as they are written


def value_warnings(opened: Source, q: Questions, counts: Counts) -> tuple[str, ...]:
    """What stands apart in a log that was counted: in the reward and in the labels of state and action."""
    found = []
    if not counts.range_known and may_be_far(counts):
        found += far_words(opened, q.schema.reward)
    for labels in (counts.states, counts.actions):
        if isinstance(labels.values, range):
            continue
        for column, values in labels.columns().items():
            texts = {value for value in values if isinstance(value, str)} if column not in q.bins else set()
            if texts and any(map(reads, texts)) and not all(map(reads, texts)):
                found += word_words(opened, column)
    return tuple(found)


def reads(text: str) -> bool:
    """Whether a text is a number."""
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


# ---- numbers far from all others


def may_be_far(counts: Counts) -> bool:
    """Whether some reward can be far from all others, by sums alone; True at least where one is.

    With w the width of the others, at most 2 FEW of n rows are D > FAR w away; the variance is at most
    2 FEW D^2 / n + w^2 / 4, so that D is more than 1 / sqrt(2 FEW / n + 1 / (4 FAR^2)) deviations.
    """
    n = float(counts.total)
    if n < LEAST:
        return False
    mean, square = counts.reward_sum.sum() / n, counts.reward_square_sum.sum() / n
    deviation = np.sqrt(max(float(square - mean * mean), 0.0))
    away = max(counts.reward_range[1] - mean, mean - counts.reward_range[0])
    return bool(away * np.sqrt(2.0 * FEW / n + 0.25 / FAR**2) >= 0.9 * deviation > 0.0)


def far_words(opened: Source, column: str, flag: str = "--reward-range") -> list[str]:
    """A sentence where some numbers of a column are far from all others, with their rows; flag: what allows for it."""
    with reading(opened.name):
        table = opened.table
        every = table.select(x=number(table[column]))
        x = every.filter(every.x.notnull())
        low, high = (_outermost(x, down) for down in (False, True))
        if len(low) <= FEW or int(x.limit(LEAST).count().to_pyarrow().as_py()) < LEAST:
            return []
        inner = low[FEW], high[FEW]
        reach = FAR * (inner[1] - inner[0])
        if reach <= 0.0 or not any(v - inner[1] > reach for v in high) | any(inner[0] - v > reach for v in low):
            return []
        rest = [v for v in (*low, *high) if v - inner[1] <= reach and inner[0] - v <= reach]
        rows = _rows(opened, column, lambda v: (number(v) > inner[1] + reach) | (number(v) < inner[0] - reach))
    many = sum(v - inner[1] > reach for v in high) + sum(inner[0] - v > reach for v in low)
    said = _listed(rows, column, opened, many)
    return [
        f"in {column}, {said}, far from all others ({min(rest):.6g} to {max(rest):.6g}); is it a slip? Correct it, or "
        "remove the row: it can decide everything that is learned. If it is right, say what such numbers can be "
        f"({flag})"
    ]


def _outermost(x: Table, down: bool) -> list[float]:
    """The FEW + 1 smallest or largest numbers, from the end on."""
    order = x.x.desc() if down else x.x
    return [float(v) for v in x.order_by(order).limit(FEW + 1).to_pyarrow()["x"].to_pylist()]


# ---- words among numbers


def words_among_numbers(text: Expression) -> Expression:
    """How many rows of a column of text hold no number."""
    return text.count(where=~text.re_search(TEXT_NUMBER))


def are_few(words: int, known: int, different: int) -> bool:
    """Whether so many rows with words among numbers, of so many different values, are slips rather than labels."""
    return 0 < words <= max(1.0, (MOST if different > MANY else RARE) * known) and words < known


class Words(NamedTuple):
    """Words among the numbers of a column of text."""

    rows: int
    numbers: Numbers  # what the column holds beside them, and of what kind
    whole: bool

    def said(self, opened: Source, column: str) -> str:
        """In which rows they stand."""
        rows = _rows(opened, column, lambda v: ~v.re_search(TEXT_NUMBER))
        others = "which is no number" if self.rows == 1 else "which are no numbers"
        return f"in {column}, {_listed(rows, column, opened, self.rows)}, {others}, as all others are"


def _words(table: Table, column: str, labels: bool = True) -> Words | None:
    """The words of a column of text that would hold numbers but for a few rows; None of any other.

    labels   whether its values may be labels, if they are not too many
    """
    only = table.select(column)  # of a wide table the engine would plan all of it
    text = only[column]
    asked = {"known": text.count(), "words": words_among_numbers(text), "different": text.nunique()}
    asked |= {"whole": text.count(where=text.re_search(WHOLE)), "names": text.count(where=text.re_search(NAME))}
    asked["fractions"] = text.count(where=text.re_search(TEXT_NUMBER) & is_fraction(_number(text)))
    found = only.aggregate(**asked).to_pyarrow().to_pylist()[0]
    if found["names"] or not are_few(found["words"], found["known"], found["different"] if labels else MANY + 1):
        return None
    left = found["known"] - found["words"]
    return Words(found["words"], Numbers(left, found["different"], found["fractions"]), found["whole"] == left)


def word_words(opened: Source, column: str) -> list[str]:
    """A sentence where a column of text would hold numbers but for a few rows."""
    with reading(opened.name):
        found = _words(opened.table, column)
        if found is None:
            return []
        said = found.said(opened, column)
    right = "set such rows aside" if hardly_again(found.numbers) else "leave the field empty and set the row aside"
    text = "so the whole column is text, and nothing can be counted with it"
    return [f"{said}; {text}. Correct it, or {right} (--skip-bad)"]


def with_numbers(opened: Source, schema: Schema, named: Collection[str], skip_bad: bool) -> Source:
    """The source, with columns of the state as numbers that are text for a few words only, which then are missing.

    named   columns that are numbers in any case, because the user says so: a LogError that names the rows with words
    """
    types, found = opened.table.schema(), dict[str, Words]()
    for column, *following in zip(schema.state, *([schema.next_state] if schema.next_state else []), strict=True):
        for one in (column, *following):
            if not types[one].is_string() or not (skip_bad or column in named):
                continue
            with reading(opened.name):
                words = _words(opened.table, one, labels=column not in named)
                if words is not None and not skip_bad:
                    right = "correct it, or set such rows aside with skip_bad=True (--skip-bad)"
                    raise LogError(f"{opened.name}: {words.said(opened, one)}; {right}", argument="state", column=one)
            if words is not None and (column in named or hardly_again(words.numbers)):
                found[one] = words
    return _read_as_numbers(opened, {column: words.whole for column, words in found.items()})


def _read_as_numbers(opened: Source, columns: Mapping[str, bool]) -> Source:
    """The source with some columns of text as numbers, whole ones or not, and beside them what was written there."""
    if not columns:
        return opened

    def read(table: Table) -> Table:
        made = {c: _number(table[c]).cast("int64" if whole else "float64") for c, whole in columns.items()}
        return table.mutate(**{WRITTEN + column: table[column] for column in columns}, **made)

    def again(texts: frozenset[str]) -> Source:
        assert as_text is not None
        return _read_as_numbers(as_text(texts), {c: whole for c, whole in columns.items() if c not in texts})

    reopen, numbered, as_text = opened.reopen, opened.numbered, opened.as_text
    return replace(
        opened,
        table=read(opened.table),
        reopen=None if reopen is None else lambda: _read_as_numbers(reopen(), columns),
        numbered=None if numbered is None else lambda: read(numbered()),
        as_text=None if as_text is None else again,
    )


def _number(text: Expression) -> Expression:
    """The numbers of a column of text, as `words_among_numbers` tells them: nan is a word."""
    return text.re_search(TEXT_NUMBER).ifelse(number(text), null("float64"))


# ---- rows


def _rows(opened: Source, column: str, condition: Callable[[Expression], Expression]) -> list[Row]:
    """The first rows in which a column meets a condition, with their numbers where they have some."""
    table = opened.numbered() if opened.numbered is not None else opened.table
    met = table.filter(condition(table[column]))
    order = [c for c in (FILE, NUMBER) if c in met.columns]
    return (met.order_by(order) if order else met).select(column, *order).limit(SHOWN).to_pyarrow().to_pylist()


def _listed(rows: Sequence[Row], column: str, opened: Source, many: int) -> str:
    """`row 5 (line 6) has 'x'`, and how many more there are."""
    named = [f"{row_words(opened, row)} has {_shown(row[column])}" for row in rows]
    left = many - len(named)
    return ", ".join(named) + (
        f", and so {'has' if left == 1 else 'have'} {count(left, 'row')} more" if left > 0 else ""
    )


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
