"""Profile: plain facts of a table that may be a log, asked of the engine that holds it.

    column     its kind, how many different values, how many are missing, its range, some values
    episodes   how many, how long, and how they end
    clock      its usual step, and where steps are missing
    copies     rows that are exact copies of others

Answers are small whatever the size of the table. Of tables beyond LONG rows, the engine estimates how many different
numbers a column has, where they are no integers, and copies are looked for in the first LONG rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dualq.base import visible
from dualq.logs.reading.column_types import flag, one_or_zero, seconds
from dualq.logs.reading.columns import is_fraction, odd_labels
from dualq.logs.reading.expressions import Expression, Kind, Table, same, window
from dualq.logs.reading.odd_values import are_few, words_among_numbers
from dualq.logs.reading.options import Value

LONG = 2_000_000  # rows
EXAMPLES, SEEN = 4, 1000  # values that are shown, and rows in which they are looked for
FIRST = 10_000  # rows in which counters are looked for
COPIES = 0.01  # of the rows: up to so many may be copies of others
LABELS = 2000  # labels of a column that are compared with each other
REGULAR = 0.9  # of the steps of a clock that are alike, from which it is called regular
GAP = 1.5  # usual steps
AT_ONCE = 200  # questions: with more of them the engine's plan takes longer than the rows


@dataclass(frozen=True)
class Column:
    """What a column holds."""

    name: str
    kind: str  # "integer", "number", "text", "yes/no", "date", or the engine's own word
    different: int
    missing: int
    low: Value | None = None  # of numbers and dates
    high: Value | None = None
    examples: tuple[Value, ...] = ()
    estimated: bool = False  # whether `different` is
    words: int = 0  # of text that is numbers but for a few rows: these

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.kind in ("integer", "number")

    @property
    def means_numbers(self) -> bool:
        """Whether it holds numbers, but for a few rows perhaps."""
        return self.is_number or self.words > 0

    @property
    def values(self) -> str:
        """Its range, or some of its values."""
        if self.low is not None and self.different > EXAMPLES:
            return f"{_short(self.low)} to {_short(self.high)}"
        return ", ".join(map(_short, self.examples)) + (", ..." if self.different > len(self.examples) else "")


def _short(value: Value | None) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.6g}"
    word = visible(value)
    return word if len(word) <= 24 else f"{word[:21]}..."


def columns_of(table: Table) -> tuple[int, list[Column]]:
    """How many rows there are, and what each column holds."""
    kinds = {name: kind_of_column(kind) for name, kind in table.schema().items()}
    rows = int(table.count().to_pyarrow().as_py())
    asked: dict[str, Expression] = {}
    for i, (name, kind) in enumerate(kinds.items()):
        x = table[name]
        asked[f"known{i}"] = x.count()
        if kind in PLAIN:
            asked[f"different{i}"] = x.approx_nunique() if _guessed(kind, rows) else x.nunique()
        if kind in RANGED:
            asked |= {f"low{i}": x.min(), f"high{i}": x.max()}
        if kind == "number":
            asked[f"parts{i}"] = x.count(where=is_fraction(x))
        if kind == "text":
            asked[f"words{i}"] = words_among_numbers(x)
    found, questions = {}, list(asked.items())
    for at in range(0, len(questions), AT_ONCE):
        found |= table.aggregate(**dict(questions[at : at + AT_ONCE])).to_pyarrow().to_pylist()[0]
    plain = [name for name, kind in kinds.items() if kind in PLAIN]
    first = table.select(*plain).limit(SEEN).to_pyarrow() if plain else {}
    made = []
    for i, (name, kind) in enumerate(kinds.items()):
        seen = list(dict.fromkeys(x for x in first[name].to_pylist() if x is not None)) if kind in PLAIN else []
        kind = "integer" if kind == "number" and found[f"parts{i}"] == 0 else kind
        few = sorted(seen, key=str) if kind == "text" else sorted(seen)
        different = min(found.get(f"different{i}", 0), rows)
        facts = (different, rows - found[f"known{i}"], found.get(f"low{i}"), found.get(f"high{i}"))
        words = found.get(f"words{i}", 0)
        words = words if are_few(words, found[f"known{i}"], different) else 0
        made.append(Column(name, kind, *facts, tuple(few[:EXAMPLES]), _guessed(kind, rows), words))
    return rows, made


def _guessed(kind: str, rows: int) -> bool:
    """Whether different values are too many to be counted: of numbers with fractions, in a long table."""
    return kind == "number" and rows > LONG


PLAIN = ("integer", "number", "text", "yes/no", "date")
RANGED = ("integer", "number", "date")


def kind_of_column(kind: Kind) -> str:
    """The kind of a column in a word."""
    if kind.is_boolean():
        return "yes/no"
    if kind.is_integer():
        return "integer"
    if kind.is_numeric():
        return "number"
    if kind.is_string():
        return "text"
    if kind.is_interval():
        return "duration"
    return "date" if kind.is_date() or kind.is_timestamp() else str(getattr(kind, "raw_type", kind))


def labels_of(table: Table, column: str, part: str) -> dict[str, int]:
    """{label: rows} of the labels of a text column that are odd, among its most frequent ones."""
    texts = table.filter(table[column].notnull()).select(label=table[column])
    common = texts.group_by("label").agg(n=texts.count())
    found = common.order_by([common.n.desc(), common.label]).limit(LABELS).to_pyarrow().to_pylist()
    rows = {row["label"]: row["n"] for row in found}
    return {label: rows[label] for label in sorted(odd_labels(rows, part))}


def copies_of(table: Table, rows: int) -> int:
    """How many rows are exact copies of others."""
    looked = table if rows <= LONG else table.limit(LONG)
    return min(rows, LONG) - int(looked.distinct().count().to_pyarrow().as_py())


def are_different(table: Table, columns: Sequence[str]) -> bool:
    """Whether no two rows have the same values in these columns, as far as the first LONG rows tell; copies are one."""
    known = table.limit(LONG).select(*columns)
    sizes = (known.count(), known.distinct().count())
    rows, different = (int(size.to_pyarrow().as_py()) for size in sizes)
    if different == rows or rows - different > COPIES * rows:
        return different == rows
    each_once = table.limit(LONG).distinct().select(*columns)  # a few rows may have been recorded twice
    return int(each_once.count().to_pyarrow().as_py()) == different


def counted_up(table: Table, columns: Sequence[str]) -> dict[str, float]:
    """{column: how often the next row has the next whole number}, in the first rows as they stand."""
    first = table.limit(FIRST).select(*columns).to_pyarrow() if columns else {}
    found = {}
    for name in columns:
        x = first[name].to_numpy()
        found[name] = float((x[1:] - x[:-1] == 1).mean()) if len(x) > 1 else 0.0
    return found


# ---- episodes


@dataclass(frozen=True)
class Episodes:
    """How many episodes there are, how long they are, and how they end."""

    count: int
    shortest: int
    median: float
    longest: int
    flagged: int | None = None  # those with a flag of an end in some row; None where there is no such column
    at_the_end: int | None = None  # of the others, those that go on to the last time of all; None without a clock


def episodes_of(table: Table, episode: Sequence[str], moment: Expression | None, flags: Sequence[str]) -> Episodes:
    """The episodes of a table; moment: of a row, as an expression of the table, or None."""
    facts: dict[str, object] = {f"e{i}": table[name] for i, name in enumerate(episode)}
    if moment is not None:
        facts["t"] = moment
    over: Expression | None = None
    for name in flags:
        over = flag(table[name]).fill_null(False) if over is None else over | flag(table[name]).fill_null(False)
    if over is not None:
        facts["over"] = one_or_zero(over)
    rows = table.select(**facts)
    each: dict[str, Expression] = {"n": rows.count()}
    each |= {"over": rows.over.max()} if over is not None else {}
    each |= {"last": rows.t.max()} if moment is not None else {}
    made = rows.group_by([f"e{i}" for i in range(len(episode))]).agg(**each)
    sizes = made.group_by("n").agg(episodes=made.count()).order_by("n").to_pyarrow().to_pylist()
    count = sum(row["episodes"] for row in sizes)
    flagged = int(made.over.sum().to_pyarrow().as_py() or 0) if over is not None else None
    at_the_end = None
    if moment is not None:
        left = made.filter(made.over == 0) if over is not None else made
        at_the_end = int(left.filter(left["last"] == rows.t.max().as_scalar()).count().to_pyarrow().as_py())
    return Episodes(count, sizes[0]["n"], _median(sizes, count), sizes[-1]["n"], flagged, at_the_end)


def _median(sizes: list[dict[str, int]], count: int) -> float:
    """Of lengths, given as how many episodes have each."""
    places, found, seen = {(count - 1) // 2, count // 2}, [], 0
    for row in sizes:
        found += [row["n"] for place in places if seen <= place < seen + row["episodes"]]
        seen += row["episodes"]
    return sum(found) / len(found)


def only_in_last_rows(table: Table, column: str, episode: Sequence[str], moment: Expression) -> tuple[int, int] | None:
    """(rows where the flag holds, episodes), if it holds only in last rows of episodes, and in some; else None."""
    names = [f"e{i}" for i in range(len(episode))]
    rows = table.select(**{f"e{i}": table[name] for i, name in enumerate(episode)}, t=moment, on=flag(table[column]))
    last = rows.t.max().over(window(group_by=names)) if names else rows.t.max().over(window())
    rows = rows.mutate(is_last=same(rows.t, last))
    on = rows.on.fill_null(False)
    asked = {"held": rows.count(where=on), "early": rows.count(where=on & ~rows.is_last)}
    found = rows.aggregate(**asked, episodes=rows.count(where=rows.is_last)).to_pyarrow().to_pylist()[0]
    return (found["held"], found["episodes"]) if found["held"] and not found["early"] else None


# ---- clocks


@dataclass(frozen=True)
class Clock:
    """The usual step of a clock, and the steps that are longer."""

    step: float  # in seconds, of dates
    gaps: int
    longest: float


def clock_of(table: Table, episode: Sequence[str], moment: Expression) -> Clock | None:
    """The clock, if it is regular: if most of its steps are alike."""
    if not (moment.type().is_numeric() or moment.type().is_temporal()):
        return None
    rows = table.select(**{f"e{i}": table[name] for i, name in enumerate(episode)}, t=seconds(moment))
    steps_of = window(group_by=[f"e{i}" for i in range(len(episode))], order_by="t")
    rows = rows.mutate(step=rows.t - rows.t.lag().over(steps_of))
    rows = rows.filter(rows.step > 0)
    steps = rows.group_by("step").agg(n=rows.count())
    most = steps.order_by(steps.n.desc()).limit(1).to_pyarrow().to_pylist()
    if not most:
        return None
    usual = most[0]["step"]
    asked = {"n": rows.count(), "gaps": rows.count(where=rows.step > GAP * usual), "longest": rows.step.max()}
    found = rows.aggregate(**asked).to_pyarrow().to_pylist()[0]
    if most[0]["n"] < REGULAR * found["n"]:
        return None
    return Clock(float(usual), found["gaps"], float(found["longest"]))
