"""Look: what is in a file before anything is learned from it, and the `dualq learn` line that would learn from it.

Which part each column would play and why (roles.py), plain facts (profile.py), what is suspicious: the checks of
columns.py, and what `read_log` would refuse, since it is called with the columns that are proposed. Everything is asked
of the engine that holds the table, and answers are small.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualq.base import LogError, count, door
from dualq.logs.reading.auto_bins import AUTO, leave_out
from dualq.logs.reading.column_types import written_time
from dualq.logs.reading.columns import FEW, Numbers, dates_in, is_continuous, label_words, numbers_in, with_dates
from dualq.logs.reading.engines import reading
from dualq.logs.reading.expressions import Expression, Table
from dualq.logs.reading.looked import EARLY, LAST, Look, commands
from dualq.logs.reading.number_columns import numbers_among
from dualq.logs.reading.odd_values import far_words, reads, word_words
from dualq.logs.reading.open_source import about_source, open_source
from dualq.logs.reading.options import ActionBins, BinsAsked, Columns, OneColumn
from dualq.logs.reading.profile import (
    COPIES,
    Clock,
    Column,
    Episodes,
    clock_of,
    columns_of,
    copies_of,
    episodes_of,
    labels_of,
)
from dualq.logs.reading.read_log import read_log
from dualq.logs.reading.roles import Roles, roles_of
from dualq.logs.reading.schema import CASES, COMMON, ROW, as_names, no_names, parts_of
from dualq.logs.reading.sources import Source
from dualq.logs.reading.times import text_time

WIDE = 50  # different whole numbers in a column of the state, from which bins are proposed
ROWS_EACH = 100  # rows for each of them, from which they are not
ENOUGH = 2000  # rows in which bins can be found
SENTINELS = (-99, -999, -9999, -99999, 999, 9999, 99999)  # numbers that often stand for a missing one
WORDS = (("terminal", LAST), ("terminal", EARLY), ("truncated", LAST))  # what may be said of last rows
MANY = ("state", "action", "next_state", "episode", "costs")  # parts that may have several columns
SLIPS = 12  # columns with words among numbers of which every one is looked at


@door
@about_source
def look(
    source: object,
    *,
    state: Columns = None,
    action: Columns = None,
    reward: str | None = None,
    next_state: Columns = None,
    episode: Columns = None,
    time: OneColumn = None,
    terminal: OneColumn = None,
    truncated: OneColumn = None,
    costs: Columns = None,
    propensity: OneColumn = None,
    bins: BinsAsked | None = None,
    action_bins: ActionBins | None = None,
    numbers: Columns = None,
    table: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    day_first: bool | None = None,
) -> Look:
    """Look at a log: what its columns hold, which part each would play and why, and what is suspicious.

    What is not given is found, by names first and then by values. Nothing is learned, and nothing is refused but what
    cannot be opened: what `read_log` would refuse is among `suspicious`.

    Parameters
    ----------
    source, state, action, reward, next_state, episode, time, terminal, truncated, costs, propensity, bins, \
action_bins, numbers, table, delimiter, columns, day_first
        As in `read_log`.

    Returns
    -------
    Look
        To be printed, or asked: `parts`, `why`, `suspicious`, and `command`, the line to copy.

    Examples
    --------
    >>> import dualq
    >>> rows = {"stock": [0, 2, 1, 0] * 5, "order": [2, 0, 0, 2] * 5, "profit": [-1.0, 3.0, 3.5, -1.0] * 5}
    >>> seen = dualq.look(rows | {"day": list(range(20))})
    >>> seen.parts["time"], seen.parts["reward"]
    (('day',), ('profit',))
    >>> seen.command
    "dualq.learn(dualq.read_log(log, state=['stock'], action=['order'], reward='profit', time='day'))"
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
        "propensity": propensity,
    }
    last = {part: word for part, word in WORDS if given[part] == word and word not in opened.table.columns}
    given |= dict.fromkeys(last, False)
    with reading(opened.name):
        rows, held = columns_of(opened.table)
        if not rows:
            raise LogError(f"{opened.name}: there are no rows")
        copies = copies_of(opened.table, rows)
        roles = _roles(opened, rows - copies if copies <= COPIES * rows else rows, held, given)
        moment = _moment(opened)
        clock, runs = _clock(opened, roles, moment), _episodes(opened, roles, moment)
        clock = None if roles.parts.get("time", (ROW,))[0] in unclear else clock
        wrong = [*_odd(opened, roles, held), *_same_as_reward(opened, roles, held)]
        shown = _as_written(opened, held, unclear)
    if headless := no_names(opened.table.columns):
        wrong.append(headless.removeprefix("; "))
    if copies:
        said = "repeats another row exactly: was it" if copies == 1 else "repeat another row exactly: were they"
        cases = "" if {"episode", "next_state"} & roles.parts.keys() else f" {CASES[:1].upper()}{CASES[1:]}"
        wrong.append(f"{count(copies, 'row')} {said} recorded twice?{cases}")
    named: dict[str, Columns] = {}
    named.update({part: _one_or_all(part, names) for part, names in roles.parts.items()})
    named.update({part: False for part, wanted in given.items() if wanted is False and part in COMMON})
    named.update(last)
    more = {"table": table, "delimiter": delimiter, "columns": columns, "day_first": day_first}
    more |= {"action_bins": action_bins, "numbers": numbers}
    more = {word: value for word, value in more.items() if value is not None}
    proposed = bins if bins is not None else _bins(opened, rows, held, roles, more)
    kept = _numbers(opened, roles, numbers, bins)
    others = _without(proposed, roles.parts.get("state", ())) if kept and bins is None else proposed
    asked = more | ({"day_first": True} if unclear else {}) | ({"numbers": list(kept)} if kept else {})
    refused, notes = _refused(source, named, others, asked) if _complete(named) else _time_words(opened, roles)
    skips = bool(refused) and _readable_without_bad_rows(source, named, others, asked)
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
        next((EARLY if word == EARLY else part for part, word in last.items()), ""),
        unclear,
        bool(refused) and not skips,
        numbers=kept,
    )
    lines = commands(seen, source, named, others, more, skips)
    if others != proposed:
        in_bins = commands(replace(seen, numbers=()), source, named, proposed, more, skips)
        lines |= {f"{when or 'Or'}, with numbers cut into bins": line for when, line in in_bins.items()}
    if idle := _idle(roles, notes):
        left, rest = _left_out(named, others, idle)
        without = commands(seen, source, left, rest, more, skips)
        lines |= {f"{when or 'Or'}, without {', '.join(idle)}": line for when, line in without.items()}
    return replace(seen, commands=lines)


def _as_written(opened: Source, held: Sequence[Column], unclear: Mapping[str, str]) -> tuple[Column, ...]:
    """What columns hold, dates that may be read in two ways as they are written."""
    if not unclear or opened.as_text is None:
        return tuple(held)
    texts = opened.as_text(frozenset(unclear)).table
    written = {column.name: column for column in columns_of(texts.select(list(unclear)))[1]}
    return tuple(written.get(column.name, column) for column in held)


# ---- parts


def _roles(opened: Source, rows: int, held: Sequence[Column], given: Mapping[str, Columns]) -> Roles:
    """The parts of columns; rows: how many, without a few that repeat others exactly."""
    found, guessed = parts_of(opened.name, opened.table.columns, given, opened.metadata.columns)
    found["costs"] = found["costs"] or tuple(opened.metadata.costs)
    reasons = dict.fromkeys(found, "as given")
    reasons |= {part: "the file says so" if part in opened.metadata.columns else "by its name" for part in guessed}
    sizes = {column.name: column.different for column in held}
    if "episode" in guessed and sizes[guessed["episode"][0]] == rows:
        found["episode"] = ()  # as read_log does: no two rows belong together
    refused = [part for part, wanted in given.items() if wanted is False]
    roles = roles_of(opened.table, rows, held, found, reasons, refused, _moment(opened))
    if not (roles.parts.get("time") or roles.parts.get("next_state") or "time" in refused) and opened.ordered:
        roles.take("time", [ROW], "", sure=False)
    order = [*COMMON, "costs", "propensity"]
    roles.parts = {part: roles.parts[part] for part in order if roles.parts.get(part)}
    roles.unsure += [part for part in ("state", "action", "reward") if part not in roles.parts]
    return roles


def _moment(opened: Source) -> Callable[[str], Expression | None]:
    """The time of a row as what it stands for, from the name of its column; None where it cannot be ordered."""

    def moment(column: str) -> Expression | None:
        value = opened.table[column]
        try:
            kind = text_time(opened.name, opened.table, column).kind
        except LogError:
            return None
        return value if kind is None else written_time(value, kind)

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


def _numbers(opened: Source, roles: Roles, numbers: Columns, bins: BinsAsked | None) -> tuple[str, ...]:
    """The columns of the state that are numbers rather than labels, where nobody cuts them into bins."""
    state = roles.parts.get("state", ())
    if numbers not in (None, False, AUTO):
        return tuple(name for name in as_names("numbers", numbers) if name in state)
    free = [name for name in state if bins != AUTO and name not in (bins or ())]
    with reading(opened.name):
        return numbers_among(opened.table, free)


def _idle(roles: Roles, notes: Sequence[str]) -> list[str]:
    """The columns of the state that a note advises to leave out, as long as others are left."""
    state = roles.parts.get("state", ())
    idle = [name for name in state if any(leave_out(name) in note for note in notes)]
    return idle if len(idle) < len(state) else []


def _left_out(
    named: Mapping[str, Columns], bins: BinsAsked, idle: Sequence[str]
) -> tuple[dict[str, Columns], BinsAsked]:
    """The same parts and bins without some columns of the state, and without what follows them in the next state."""
    state, after = (as_names(part, named.get(part) or ()) for part in ("state", "next_state"))
    kept = [i for i, name in enumerate(state) if name not in idle]
    left = dict(named) | {"state": [state[i] for i in kept]}
    if after:
        left["next_state"] = [after[i] for i in kept]
    return left, bins if isinstance(bins, str) else _without(bins, idle)


def _without(bins: BinsAsked, columns: Sequence[str]) -> BinsAsked:
    """The bins of other columns than these."""
    return {} if isinstance(bins, str) else {name: wanted for name, wanted in bins.items() if name not in columns}


def _bins(opened: Source, rows: int, held: Sequence[Column], roles: Roles, more: Mapping[str, Any]) -> BinsAsked:
    """Bins for numbers that have too many values, as far as somebody must propose some."""
    found: dict[str, int | str] = {}
    numbers = {column.name: column for column in held if column.is_number}
    names = roles.parts.get("state", ()) if "numbers" not in more else ()
    state = [numbers[name] for name in names if name in numbers]
    wide = [c.name for c in state if c.different > FEW and c.kind == "number"]
    wide += [c.name for c in state if c.kind == "integer" and c.different > WIDE and rows < ROWS_EACH * c.different]
    if wide:
        timed = rows >= ENOUGH and roles.parts.get("time")
        found = dict.fromkeys(wide, AUTO if timed else 4)
    every = set(wide) == {c.name for c in state if c.different > FEW}
    for name, x in numbers_in(opened.table, roles.parts.get("action", ()) if "action_bins" not in more else ()).items():
        if is_continuous(Numbers(x.rows, x.different, x.fractions)):
            found[name] = 5
    return AUTO if found and every and set(found.values()) == {AUTO} else found


# ---- what is suspicious


def _odd(opened: Source, roles: Roles, held: Sequence[Column]) -> list[str]:
    """Labels that may mean missing, or differ in spaces; numbers that may; values that stand apart; single values."""
    played = {name for names in roles.parts.values() for name in names}
    slips = sorted((column.name for column in held if column.words), key=lambda name: name not in played)
    said = [f"{len(slips)} columns hold words among numbers, of which {SLIPS} are shown"] if len(slips) > SLIPS else []
    for column in held:
        parts = [part for part, names in roles.parts.items() if column.name in names]
        if column.name in slips[:SLIPS] and set(parts) <= {"state", "action", "next_state"}:
            said += word_words(opened, column.name)
        if set(parts) & {"reward", "costs"} and column.means_numbers and column.different > 2:
            said += far_words(opened, column.name, "--reward-range" if "reward" in parts else "--cost-range")
        labels = [part for part in parts if part in ("state", "action", "next_state")]
        if labels and column.kind == "text":
            odd = labels_of(opened.table, column.name, labels[0])
            odd = {label: n for label, n in odd.items() if reads(label)} if column.words else odd  # the others are said
            said += label_words(column.name, odd, labels[0])
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
    try:
        log = read_log(source, **named, bins=bins, **more)
    except LogError as error:
        return [f"dualq learn would stop here: {error}"], ()
    return [], log.remarks


def _complete(named: Mapping[str, Columns]) -> bool:
    """Whether every part is known that a log must have."""
    return all(named.get(part) for part in ("state", "action", "reward"))


def _time_words(opened: Source, roles: Roles) -> tuple[list[str], tuple[str, ...]]:
    """What read_log would refuse of the time, and how it is understood, where the other parts are not known yet."""
    try:
        with reading(opened.name):
            remark = text_time(opened.name, opened.table, roles.parts.get("time", (None,))[0]).remark
    except LogError as error:
        return [f"dualq learn would stop here: {error}"], ()
    return [], (remark,) if remark else ()


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


def _one_or_all(part: str, names: tuple[str, ...]) -> list[str] | str:
    return list(names) if part in MANY else names[0]
