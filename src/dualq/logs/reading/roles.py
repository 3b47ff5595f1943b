"""Roles: which part each column of a table would play, where nobody said so and names alone do not tell.

First what is given, then what `read_log` itself finds by common names (schema.py), and then, each with its reason:

    next state   next_stock beside stock: both are of the state
    time         dates; or numbers whose name says so; or whole numbers without gaps that no episode repeats
    episode      a column within which no time repeats, if times repeat; or one whose name says so
    terminal     true only in the last rows of episodes
    propensity   by its name, and numbers above 0 and up to 1
    reward, action, costs   by words in their names; else what has the right kind of values, and is then not sure; nor
                 is an action whose name (price, mode) may be of what others set, nor one of several that are named so
    state        what is left, but for what has one value only, a value for each row, or too many labels
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dualq.base import count
from dualq.logs.reading.column_types import FALSE, TRUE
from dualq.logs.reading.expressions import Expression, Table
from dualq.logs.reading.profile import Column, are_different, counted_up, only_in_last_rows
from dualq.logs.reading.schema import ROW

WORDS = {
    "time": "time date day week month quarter year hour minute second period timestamp datetime step tick round visit",
    "episode": "id shop store machine customer client patient user session unit engine bus player game run trial"
    " subject account vehicle device case site plant line member household ward flight",
    "reward": "reward profit revenue income earning earnings earned gain return returns margin payoff pay payment score"
    " utility benefit sales net yield savings conversion converted click clicks clicked bought purchased sold spend",
    "costs": "cost costs penalty stockout failure failed fault breakdown defect late delay waste loss injury death"
    " complaint violation error overflow missed downtime accident",
    "action": "action decision decide do order ordered treatment treat dose price choice chosen choose arm offer bid"
    " move control intervention discount campaign maintain maintenance replace repair repaired assign allocation"
    " channel mode command setting bet promo promotion email message advert drug therapy staff staffing",
}
GIVEN = "price discount campaign promo promotion channel mode control setting staff staffing"  # as often as decided
PROPENSITY = ("propensity", "propensities", "pscore")  # words of a name that say it
CHANCE = ("p", "prob", "probability")  # so do these, beside a word that says whose it is
WHOSE = ("action", "logged", "logging", "behavior", "behaviour", "taken", "chosen")
PLAIN = {"number", "no", "nr", "num", "code", "name", "key", "index", "the", "of"}  # say no more of an episode
SHOWN = {"item", "article", "banner", "product", "ad", "page", "movie", "song"}  # decided on, beside a propensity
FEW, MANY = 20, 50  # different values of an action, and different labels of a column of the state
GAPS = 0.2  # of the rows that may lack a value of the state: the reading will name the first of them
MOST = 6  # columns that are proposed for the state
TRIED = 12  # columns that may be the episode, or the time


@dataclass
class Roles:
    """{part: columns}, why each column has its part or none, and which parts are not sure."""

    parts: dict[str, tuple[str, ...]]
    why: dict[str, str] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)

    def take(self, part: str, columns: Sequence[str], why: str, sure: bool = True) -> None:
        """Give a part to columns."""
        self.parts[part] = tuple(columns)
        self.why |= dict.fromkeys(columns, why)
        if not sure:
            self.unsure.append(part)

    def free(self, columns: Sequence[Column]) -> list[Column]:
        """The columns that have no part yet."""
        taken = {name for names in self.parts.values() for name in names}
        return [column for column in columns if column.name not in taken]


def said_by_name(name: str, part: str) -> bool:
    """Whether a word of the name is one that tells the part."""
    words = _words_of(name)
    if part == "episode":  # customer_id is one; customer_segment is something about it
        return any(word in WORDS[part].split() for word in words) and {*words} <= {*WORDS[part].split()} | PLAIN
    return any(word in WORDS[part].split() for word in words)


def _words_of(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower())


def roles_of(
    table: Table,
    rows: int,
    columns: Sequence[Column],
    found: Mapping[str, tuple[str, ...]],
    reasons: Mapping[str, str],
    refused: Sequence[str],
    moment: Callable[[str], Expression | None],
) -> Roles:
    """Which part each column would play.

    found     {part: columns} that were given, or found by common names; reasons: {part: why}
    refused   parts of which the user says that there is none
    moment    the time of a row, as an expression, from the name of its column; None where it cannot be ordered
    """
    roles = Roles({part: names for part, names in found.items() if names})
    for part, names in roles.parts.items():
        roles.why |= {name: reasons[part] for name in names if name != ROW}
    wanted = [part for part in found if part not in roles.parts and part not in refused]
    by_name = {column.name: column for column in columns}
    _following(roles, wanted, by_name)
    if "time" in wanted:
        _time(roles, table, rows, columns, "episode" in wanted)
    if "episode" in wanted and "episode" not in roles.parts:
        _episode(roles, table, rows, columns)
    if "terminal" in wanted:
        _terminal(roles, table, columns, moment)
    if "propensity" in wanted:
        _propensity(roles, columns)
    if "reward" in wanted:
        _reward(roles, columns)
    if "costs" in wanted:
        costs = [c.name for c in roles.free(columns) if _is_cost(c)]
        if costs:
            roles.take("costs", costs, "by its name: to be kept low")
    if "action" in wanted:
        _action(roles, columns)
    if "state" in wanted and "state" not in roles.parts:
        _state(roles, rows, columns)
    for column in roles.free(columns):
        roles.why.setdefault(column.name, _unused(column, rows))
    return roles


def _following(roles: Roles, wanted: Sequence[str], columns: Mapping[str, Column]) -> None:
    if "state" not in wanted or "next_state" not in wanted:
        return
    lower = {name.lower(): name for name in columns}
    pairs = [(name, lower[f"next_{name}".lower()]) for name in columns if f"next_{name}".lower() in lower]
    if pairs:
        roles.take("state", [name for name, _ in pairs], "next_... is beside it")
        roles.take("next_state", [following for _, following in pairs], "by its name")


def _time(roles: Roles, table: Table, rows: int, columns: Sequence[Column], episodes: bool) -> None:
    free = [column for column in roles.free(columns) if column.different > 1 and not column.missing]
    dates = [c for c in free if c.kind == "date"]
    named = [c for c in free if said_by_name(c.name, "time") and c.kind in ("integer", "text") and c.different > 2]
    if dates or named:
        chosen = (dates or named)[0]
        roles.take("time", [chosen.name], "dates" if dates else "by its name")
        return
    known = roles.parts.get("episode", ())
    whole = [c for c in free if c.kind == "integer" and _without_gaps(c)]
    counting = counted_up(table, [c.name for c in whole])
    whole = sorted(whole, key=lambda c: -counting[c.name])[:TRIED]
    alone = [column for column in whole if column.different == rows]
    clocks = [column for column in alone if not said_by_name(column.name, "episode")]
    clocks += [column for column in whole if known and are_different(table, [*known, column.name])]
    if clocks:
        roles.take("time", [clocks[0].name], "looks like a clock: integers without gaps, each once")
        return
    pairs = [(c, o) for c in whole if c not in alone for o in _groups(free, rows) if episodes and not known]
    for column, other in pairs:
        if other.name != column.name and are_different(table, [other.name, column.name]):
            why = f"looks like a clock: integers without gaps, each once per {other.name}"
            roles.take("time", [column.name], why)
            roles.take("episode", [other.name], f"{column.name} begins anew for each")
            return
    if alone:
        roles.take("time", [alone[0].name], "integers without gaps, each once", sure=False)


def _without_gaps(column: Column) -> bool:
    low, high = column.low, column.high
    return isinstance(low, int) and isinstance(high, int) and high - low + 1 == column.different > 2


def _groups(columns: Sequence[Column], rows: int) -> list[Column]:
    """Columns that may say which rows belong together: first those whose names say so, then those with few values."""
    may = [c for c in columns if c.kind in ("integer", "text") and 1 < c.different <= rows // 2 and not c.missing]
    return sorted(may, key=lambda c: (not said_by_name(c.name, "episode"), c.different))[:TRIED]


def _episode(roles: Roles, table: Table, rows: int, columns: Sequence[Column]) -> None:
    time = roles.parts.get("time", ())
    groups = _groups(roles.free(columns), rows)
    clock = next((c for c in columns if c.name in time), None)
    if clock is not None and clock.different < rows:
        for column in groups:
            if are_different(table, [column.name, clock.name]):
                roles.take("episode", [column.name], f"{clock.name} repeats, but never within it")
                return
    named = [column for column in groups if said_by_name(column.name, "episode")]
    if named:
        roles.take("episode", [named[0].name], "by its name")


def _terminal(
    roles: Roles, table: Table, columns: Sequence[Column], moment: Callable[[str], Expression | None]
) -> None:
    episode, time = roles.parts.get("episode", ()), roles.parts.get("time", ())
    t = moment(time[0]) if time and time[0] != ROW else None
    if not episode or t is None:
        return
    for column in roles.free(columns):
        found = only_in_last_rows(table, column.name, episode, t) if _is_flag(column) else None
        if found is not None:
            held, count = found
            roles.take("terminal", [column.name], f"true only in last rows of episodes ({held:,} of {count:,})")
            return


def _is_flag(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.examples}
    return column.different == 2 and (column.kind == "yes/no" or words <= {*TRUE, *FALSE, "1.0", "0.0"})


def _is_cost(column: Column) -> bool:
    return (column.is_number or column.kind == "yes/no") and said_by_name(column.name, "costs")


def _propensity(roles: Roles, columns: Sequence[Column]) -> None:
    """The probability with which the logged action was taken: by its name alone it is not sure."""
    for column in roles.free(columns):
        low, high, words = column.low, column.high, _words_of(column.name)
        if not (isinstance(low, int | float) and isinstance(high, int | float) and 0 < low <= high <= 1):
            continue
        sure = any(word in PROPENSITY for word in words) or ({*words} & {*CHANCE} and {*words} & {*WHOSE})
        if sure or (len(words) == 1 and words[0] in CHANCE):
            roles.take("propensity", [column.name], "by its name", sure=bool(sure))
            return


def _reward(roles: Roles, columns: Sequence[Column]) -> None:
    numbers = [c for c in roles.free(columns) if c.means_numbers and c.different > 1]
    named = [c for c in numbers if said_by_name(c.name, "reward")]
    if named:
        roles.take("reward", [named[0].name], "by its name")
        return
    left = [c for c in numbers if not _is_cost(c) and not said_by_name(c.name, "action")] or numbers
    if left:
        chosen = ([c for c in left if c.kind == "number"] or left)[-1]
        roles.take("reward", [chosen.name], "the last numbers", sure=False)


def _action(roles: Roles, columns: Sequence[Column]) -> None:
    free = [c for c in roles.free(columns) if c.different > 1 and c.kind != "date"]
    named = [c for c in free if said_by_name(c.name, "action")]
    decided = {*WORDS["action"].split()} - {*GIVEN.split()}
    plain = [c for c in named if decided & {*_words_of(c.name)}]
    if named:
        roles.take("action", [(plain or named)[0].name], "by its name", sure=len(plain) == 1)
        return
    shown = [c for c in free if "propensity" in roles.parts and {*_words_of(c.name)} & SHOWN and c.kind != "number"]
    if shown:
        roles.take("action", [shown[0].name], "by its name, beside a propensity", sure=False)
        return
    few = [c for c in free if c.different <= FEW and c.kind != "number"]
    if few:
        roles.take("action", [few[-1].name], "few values", sure=False)


def _state(roles: Roles, rows: int, columns: Sequence[Column]) -> None:
    left = [c for c in roles.free(columns) if not _unfit(c, rows)]
    if left:
        roles.take("state", [c.name for c in left[:MOST]], "left over", sure=False)


def _unfit(column: Column, rows: int) -> str:
    """Why a column is no good as part of a state; empty where it may be."""
    if column.different < 2:
        return "it has one value only" if column.different else "it has no values"
    if column.kind == "date":
        return "dates do not come again"
    if column.kind not in ("integer", "number", "text", "yes/no"):
        return f"values of the type {column.kind} cannot be used"
    if column.missing > GAPS * rows:
        return f"{column.missing:,} values are missing"
    if column.different == rows and column.kind != "number":
        return "every row has a value of its own"
    if column.kind == "text" and column.different > MANY:
        few = f"numbers but for {count(column.words, 'row')}" if column.words else ""
        return few or "too many different labels for a state"
    return ""


def _unused(column: Column, rows: int) -> str:
    return _unfit(column, rows) or "not needed"
