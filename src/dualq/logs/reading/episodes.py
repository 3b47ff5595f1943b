"""Episodes: where each begins and stops on its clock, and what that says of how the log must be read.

    clock   Time that is no date counts the steps of each episode if all of them begin at the same value, and is one
            clock for all of them if they do not. Where all stop at the same value too it can be either: the column's
            name decides, else whether there are more episodes than times. Nor is a day, an hour, ... a counter where
            there are no more episodes than times. clock="shared" or clock="episode" says which it is.
    step    A clock is regular where 95% of the steps from row to row are the same. Where a step is longer rows are
            missing, and nobody knows what followed the row before them: it is linked to none.
    places  Rows without a time or an episode, which skip_bad sets aside, stood between other rows. Gaps in a regular
            clock show where; else the order of the file does, if it is that of time; else their episodes have no links.
    flag    A column of flags that holds only in last rows of episodes is the flag of their end.

Each costs an aggregate over rows or episodes. Steps need a sort; none is made where the time from the first to the last
row of all episodes is that of a regular clock without gaps, or where a few episodes show that the clock is not regular.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dualq.base import LogError, count
from dualq.logs.reading.arrow import numbers_of
from dualq.logs.reading.column_types import FALSE, TRUE, flag, seconds
from dualq.logs.reading.engines import answer, reading, whole_number
from dualq.logs.reading.expressions import Expression, Kind, Table, differ, literal, same, window
from dualq.logs.reading.options import Columns, Value
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import COMMON, ROW, Schema
from dualq.logs.reading.sources import Source

CLOCKS = ("shared", "episode")
COUNTERS = {"step", "steps", "t", "timestep", "turn", "move", "k", "i", "j", "tick", "stage", "index", "seq", "frame"}
CALENDARS = {"day", "date", "week", "month", "quarter", "year", "hour", "minute", "second", "timestamp", "datetime"}
REGULAR = 0.95  # of the steps from row to row
FIRST_LOOK = 10_000  # rows
SHORT = 1_000_000  # rows; the steps of a longer log are looked at in a few episodes first
DAY = 86400.0  # seconds
SAMPLE = 20  # episodes
MOST_STEPS = 100_000  # different ones
CHECKED_ROWS = 10_000_000  # beyond these gaps are not looked for where nothing depends on them
BY_CHANCE = 0.001  # that a flag holds only in last rows
CUT_OFF = (*COMMON["truncated"], "censored", "censoring", "cut", "cutoff", "cut_off", "time_limit")


@dataclass(frozen=True)
class Episodes:
    """Of the rows that have a place in time; without an episode column all of them are one."""

    count: int
    rows: int
    unplaced: int  # rows without a time or an episode
    stray: int  # rows without an episode
    first: tuple[Value, Value]  # the least and the greatest first time of an episode; in seconds if it is a date
    last: tuple[Value, Value]
    lengths: tuple[int, int]  # rows
    paces: tuple[float | None, float | None]  # time from first to last row, per step; None where time is no number

    @property
    def balanced(self) -> bool:
        """Whether all begin at the same time, and all stop at the same time."""
        return self.first[0] == self.first[1] and self.last[0] == self.last[1]


def clock_of(t: Expression) -> Expression:
    """A time as a number where it is one or a date, else as it is."""
    kind = t.type()
    return seconds(t) if kind.is_numeric() or kind.is_date() or kind.is_timestamp() else t


def per_episode(q: Questions, **more: Callable[[Table], Expression]) -> Table:
    """A row per episode: its first and last time, its rows; `more`: {name: a function from the table to a column}."""
    table = q.plain.columns()
    table = table.filter(*(table[name].notnull() for name in (*q.e, "t")))
    clock = clock_of(table.t)
    asked = {"first": clock.min(), "last": clock.max(), "rows": table.count()}
    asked |= {name: column(table) for name, column in more.items()}
    return table.group_by(q.e).agg(**asked) if q.e else table.aggregate(**asked)


def episodes_of(q: Questions) -> Episodes | None:
    """The facts, in two questions; None where no row has a place in time."""
    per = per_episode(q)
    asked = {"count": per.count(), "rows": per["rows"].sum(), "least": per["rows"].min(), "most": per["rows"].max()}
    for name in ("first", "last"):
        asked |= {f"{name}_low": per[name].min(), f"{name}_high": per[name].max()}
    if per["first"].type().is_numeric():
        steps = per["rows"] - 1
        pace = (per["last"] - per["first"]) / (steps > 0).ifelse(steps, 1)
        asked |= {"slow": pace.min(where=steps > 0), "fast": pace.max(where=steps > 0)}
    found = q.row(per.aggregate(**asked))
    if not found["rows"]:
        return None
    unplaced = stray = 0
    if q.skip_bad and not q.schema.next_state:
        table = q.plain.columns()
        known = q.row(table.aggregate(n=table.count(), **{e: table[e].count() for e in q.e}))
        unplaced = known["n"] - found["rows"]
        stray = known["n"] - min((known[e] for e in q.e), default=known["n"])
    return Episodes(
        found["count"],
        found["rows"],
        unplaced,
        stray,
        (found["first_low"], found["first_high"]),
        (found["last_low"], found["last_high"]),
        (found["least"], found["most"]),
        (found.get("slow"), found.get("fast")),
    )


# ---- one clock, or a counter of steps


def with_clock(opened: Source, q: Questions, clock: str | None) -> tuple[Source, Questions]:
    """The decision whether time counts the steps of each episode, made once, on the whole log."""
    if clock is not None and clock not in CLOCKS:
        wrong = f"{opened.name}: clock is {clock!r}; it must be shared (one for all episodes) or episode"
        raise LogError(wrong, argument="clock", value=clock)
    if not q.e or q.schema.time in (None, ROW):
        if clock is not None:
            wrong = f"{opened.name}: clock is {clock!r}, which needs a time column and an episode column"
            raise LogError(wrong, argument="clock", value=clock)
        return opened, q
    if clock is not None:
        return opened, replace(q, counter=clock == "episode")
    with reading(opened.name):
        kind = q.plain.columns().t.type()
        found = None if kind.is_temporal() else episodes_of(q)
        if found is None or found.count < 2 or found.first[0] != found.first[1]:
            return opened, q
        many, word = found.count > _times(q), _named(str(q.schema.time))
    if found.balanced:
        counter, plain = many if word is None else word == "episode", word == ("episode" if many else "shared")
    else:
        counter, plain = many or word != "shared", word != "shared"
    if plain:
        return opened, replace(q, counter=counter)
    return replace(opened, remarks=(*opened.remarks, _decided(q, counter))), replace(q, counter=counter)


def _times(q: Questions) -> int:
    return whole_number(q.plain.columns().t.nunique())


def _named(column: str) -> str | None:
    """What the name of a time column says: "shared", "episode", or nothing."""
    words = set(re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", column).lower()))
    return "episode" if words & COUNTERS else "shared" if words & CALENDARS else None


def _decided(q: Questions, counter: bool) -> str:
    time, episode = q.schema.time, " and ".join(q.schema.episode)
    if counter:
        return f"{time} is read as a count of each {episode}'s own steps; --clock shared if it is one clock for all"
    return f"{time} is read as one clock for all; --clock episode if it counts each {episode}'s own steps"


# ---- gaps, and rows without a place


def with_gaps(opened: Source, q: Questions, facts: Episodes | None) -> tuple[Source, Questions]:
    """Links are broken at gaps in a regular clock, and where rows without a place in time stood."""
    if facts is None or q.schema.time is None:
        return opened, q
    remarks: list[str] = []
    with reading(opened.name):
        step, gaps = (None, 0) if q.schema.time == ROW else _steps(q, facts)
        if gaps:
            rows = "1 row is" if gaps == 1 else f"{gaps:,} rows are"
            cut = "" if q.schema.next_state else ", and counts as having no known successor"
            cut = cut if gaps == 1 else cut.replace("counts", "count")
            remarks.append(f"{rows} followed by a gap in {q.schema.time}{cut}")
        if not q.schema.next_state and (gaps or facts.unplaced):
            q = replace(q, step=step)
        if facts.unplaced and not q.schema.next_state:
            q, words = _unplaced(opened, q, facts)
            remarks.append(words)
    return replace(opened, remarks=(*opened.remarks, *remarks)), q


def _steps(q: Questions, facts: Episodes) -> tuple[float | None, int]:
    """The step of a regular clock, and how many steps are longer; None where it is not regular."""
    slow, fast = facts.paces
    if slow is None or fast is None or not fast > 0.0:
        return None, 0
    if q.schema.next_state and facts.rows > CHECKED_ROWS:
        return None, 0
    table = q.plain.columns()
    kind = table.t.type()
    least = 1.0 if kind.is_integer() else DAY if kind.is_date() else None
    if fast == least and not facts.unplaced:
        return least, 0  # no step is shorter, so none is longer
    table = table.filter(*(table[name].notnull() for name in (*q.e, "t")))
    if facts.rows > SHORT and q.e:
        step, regular, longer = _most(q, _few_episodes(q, table))
        if step is None or regular < 0.5:
            return None, 0
        if not longer and slow >= step * (1.0 - 1e-9) and fast <= step * (1.0 + 1e-9) and not facts.unplaced:
            return step, 0
    step, regular, longer = _most(q, table)
    irregular = (1.0 - regular) * (facts.rows - facts.count) - facts.unplaced
    if step is None or irregular > (1.0 - REGULAR) * (facts.rows - facts.count):
        return None, 0
    return step, longer


def _few_episodes(q: Questions, table: Table) -> Table:

    few = answer(table.select(*q.e).distinct().limit(SAMPLE)).to_pylist()
    among = literal(False)
    for row in few:
        this = literal(True)
        for e, value in row.items():
            this = this & same(table[e], value)
        among = among | this
    return table.filter(among)


def _most(q: Questions, table: Table) -> tuple[float | None, float, int]:
    """The commonest step from row to row, its share of all, and how many are longer."""
    clock = clock_of(table.t)
    before = clock.lag().over(window(group_by=[table[e] for e in q.e], order_by=[table.t]))
    steps = table.mutate(step=(clock - before).round(9))
    steps = steps.filter(steps.step.notnull())
    sizes = steps.group_by("step").agg(n=steps.count())
    found = answer(sizes.order_by(sizes.n.desc(), "step").limit(MOST_STEPS))
    if found.num_rows == 0:
        return None, 0.0, 0
    step, n = numbers_of(found["step"]), numbers_of(found["n"])
    if not step[0] > 0.0:
        return None, 0.0, 0
    return float(step[0]), float(n[0] / n.sum()), int(n[step > step[0] * (1.0 + 1e-6)].sum())


def _unplaced(opened: Source, q: Questions, facts: Episodes) -> tuple[Questions, str]:
    """How the rows without a place in time break links, and that in words."""
    missing = f"{count(facts.unplaced, 'row')} without {'an episode or a time' if q.e else 'a time'}"
    missing += " was" if facts.unplaced == 1 else " were"
    if q.step is not None:
        return q, f"{missing} set aside; the gaps in {q.schema.time} show where, and no row is linked across them"
    if opened.ordered and (q.schema.time == ROW or _file_in_order(q)):
        where = "the order of the rows shows where, and no row is linked across them"
        return replace(q, unplaced="file"), f"{missing} set aside; {where}"
    if facts.stray:
        why = "nothing tells between which rows they stood"
        right = "correct them, take them out of the table, or give next_state=..."
        raise LogError(f"{opened.name}: {count(facts.stray, 'row')} without an episode, and {why}; {right}")
    whose = "no row of their episodes has a known successor" if q.e else "no row has a known successor"
    return replace(q, unplaced="episode"), f"{missing} set aside; nothing tells where they stood, so {whose}"


def _file_in_order(q: Questions) -> bool:
    """Whether the rows of every episode stand in the order of time."""

    table = replace(q.plain, unplaced="file").columns()
    table = table.filter(*(table[name].notnull() for name in (*q.e, "t")))
    before = table.t.lag().over(window(group_by=[table[e] for e in q.e], order_by=[table.place]))
    table = table.mutate(falls=(before > table.t).fill_null(False))
    return not whole_number(table.filter(table.falls).limit(1).count())


# ---- a flag that nobody named


def with_flag(
    opened: Source, q: Questions, facts: Episodes | None, given: Mapping[str, Columns]
) -> tuple[Source, Questions]:
    """A column that holds only in last rows of episodes, and somewhere, is the flag of the end."""
    schema = q.schema
    wanted = given.get("terminal") is None and schema.terminal is None and q.last is None
    if facts is None or not wanted or not q.e or facts.count < 2:
        return opened, q
    with reading(opened.name):
        found = _flags(q, facts)
    ends, cuts = ([c for c in found if _cuts(c) == cuts] for cuts in (False, True))
    remarks = []
    if cuts and schema.truncated is None and given.get("truncated") is None:
        q = replace(q, schema=_with(schema, "truncated", cuts[0]))
        remarks.append(f"{cuts[0]} {_ONLY}, so it is taken as where recordings stopped: --truncated none if it is not")
    if len(ends) == 1 and found[ends[0]] == facts.count and (facts.last[0] == facts.last[1]):
        remarks.append(f"{ends[0]} is true in all last rows, and all episodes stop at the same time: --terminal "
                       f"{ends[0]} if they ended there")  # fmt: skip
    elif len(ends) == 1:
        q = replace(q, schema=_with(q.schema, "terminal", ends[0]))
        remarks.append(f"{ends[0]} {_ONLY}, so it is taken as the end: --terminal none if it is not")
    elif ends:
        few = " and ".join([", ".join(ends[:-1]), ends[-1]])
        remarks.append(f"{few} are each {_ONLY.removeprefix('is ')}: --terminal COLUMN if one of them is the end")
    return replace(opened, remarks=(*opened.remarks, *remarks)), q


_ONLY = "is true only in last rows of episodes"


def _cuts(column: str) -> bool:
    return column.lower() in CUT_OFF


def _with(schema: Schema, part: str, column: str) -> Schema:
    return replace(schema, **{part: column}, guessed={**schema.guessed, part: (column,)})


def _flags(q: Questions, facts: Episodes) -> dict[str, int]:
    """{unused column of flags that hold only in last rows: in how many}."""
    table = q.table
    free = [c for c in table.columns if c not in q.schema.columns and not c.startswith("dualq_")]
    free = [c for c in free if _may_be(table[c].type())]
    for looked in (table.limit(FIRST_LOOK), table):  # the first rows say no at once, mostly
        free = _of_flags(looked, free)
        if not free:
            return {}
    names = {f"f{i}": column for i, column in enumerate(free)}
    columns = replace(q.plain, table=table.mutate(**{name: flag(table[c]) for name, c in names.items()}))
    rows = columns.columns_with(list(names))
    rows = rows.filter(*(rows[name].notnull() for name in (*q.e, "t")))
    asked: dict[str, Expression] = {"last": rows.t.max()}
    for name in names:
        asked |= {f"{name}_n": rows.count(where=rows[name]), f"{name}_last": rows.t.max(where=rows[name])}
    per = rows.group_by(q.e).agg(**asked)
    sums: dict[str, Expression] = {}
    for name in names:
        inside = (per[f"{name}_n"] > 1) | differ(per[f"{name}_last"], per["last"]).fill_null(False)
        sums |= {f"{name}_n": per[f"{name}_n"].sum(), f"{name}_inside": per.count(where=inside)}
    found = answer(per.aggregate(**sums)).to_pylist()[0]
    chance = np.log(BY_CHANCE) / min(
        np.log(facts.count / facts.rows), -1e-9
    )  # so many flags are in last rows by chance
    held = {column: found[f"{name}_n"] for name, column in names.items() if not found[f"{name}_inside"]}
    return {column: n for column, n in held.items() if n >= max(chance, 1)}


def _may_be(kind: Kind) -> bool:
    return kind.is_boolean() or kind.is_integer() or kind.is_floating() or kind.is_string()


def _of_flags(table: Table, columns: list[str]) -> list[str]:
    """Those of the columns that hold flags, and nothing else."""
    if not columns:
        return []
    asked = {"n": table.count()}
    for i, column in enumerate(columns):
        value = table[column]
        kind = value.type()
        if kind.is_string():
            fits = value.strip().lower().isin((*TRUE, *FALSE))
        else:
            fits = value.notnull() if kind.is_boolean() else value.isin((0, 1))
        asked[f"c{i}"] = table.count(where=fits)
    found = answer(table.aggregate(**asked)).to_pylist()[0]
    return [column for i, column in enumerate(columns) if found[f"c{i}"] == found["n"]]
