"""Schema: which columns of a table are the log, and how a column of numbers becomes a few labels.

    state, action       one column or several; several are kept as readable labels, one value per column
    reward, costs       numbers
    next_state          as many columns as the state has; where there are none, the next row of the episode by time
    episode, time       which rows belong together, and their order; time="row": the order of the rows in the file
    terminal, truncated flags: the episode ended here (nothing follows), or was cut off here (it went on unseen)
    bins                {column: number of quantile bins, their edges, or "auto"}; "auto" for all (auto_bins.py)

What is not given is looked for among common names, and what was found is kept in `guessed`, so that it can be printed.
A column may be given as False: it is then not looked for. A guessed episode that every row has its own of is not taken.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dualq.base import LogError, few, nearest
from dualq.logs.reading.options import READING, BinsOfColumn, Columns

CASES = 'if every row is a case of its own, say terminal="row" (--terminal row)'
ROW = "row"  # time="row": the order of the rows; terminal="row": every row is a case of its own

COMMON = {
    "state": ("state", "obs", "observation", "states", "observations", "s"),
    "action": ("action", "act", "actions", "a"),
    "reward": ("reward", "rewards", "r"),
    "next_state": ("next_state", "next_obs", "next_observation", "new_state", "s_next"),
    "terminal": ("done", "terminated", "terminal", "terminals", "ended"),
    "truncated": ("truncated", "truncation", "timeout", "timeouts"),
    "episode": ("episode", "trajectory", "episode_id", "trajectory_id", "id"),
    "time": ("t", "step", "time", "timestep", "time_step", "timestamp"),
}


# Parts that one column cannot play together. Others may share one: a day can be the time and part of the state.
TWICE = (("state", "action"), ("state", "next_state"), ("action", "next_state"), ("terminal", "truncated"))
BESIDE = ("costs", "propensity")  # parts that are never guessed
BEFORE, AFTER = ("state", "action"), ("reward", "costs")  # what is known when the decision is made, and what is not


@dataclass(frozen=True)
class Schema:
    """The columns of a log, by the part they play."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
    next_state: tuple[str, ...] = ()
    episode: tuple[str, ...] = ()
    time: str | None = None  # a column, or ROW
    terminal: str | None = None
    truncated: str | None = None
    costs: tuple[str, ...] = ()
    propensity: str | None = None  # the probability with which the action was taken
    guessed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is used, each once."""
        single = (self.reward, *(None if c == ROW else c for c in (self.time, self.terminal)), self.truncated)
        used = (*self.state, *self.action, *self.next_state, *self.episode, *(c for c in single if c), *self.costs)
        used = (*used, *((self.propensity,) if self.propensity else ()))
        return tuple(dict.fromkeys(used))


def schema_of(
    name: str, columns: Sequence[str], given: Mapping[str, Columns], written: Mapping[str, tuple[str, ...]]
) -> Schema:
    """The schema of a table with these columns: as given, else as the file itself says, else guessed by name.

    name    of the table, for messages
    given   {part: column, columns, None (look for it) or False (there is none)}
    written {part: columns} that dualq wrote beside the table
    """
    found, guessed = parts_of(name, columns, given, written)
    for part in ("state", "action", "reward"):
        if not found[part]:
            raise _missing(name, part, columns)
    _check(name, found)
    time, terminal, truncated = (next(iter(found[part]), None) for part in ("time", "terminal", "truncated"))
    return Schema(
        found["state"],
        found["action"],
        found["reward"][0],
        found["next_state"],
        found["episode"],
        time,
        terminal,
        truncated,
        found["costs"],
        next(iter(found["propensity"]), None),
        guessed,
    )


def parts_of(
    name: str, columns: Sequence[str], given: Mapping[str, Columns], written: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """{part: its columns}, none where there is no such column; and those of them that were not given."""
    found: dict[str, tuple[str, ...]] = {}
    guessed: dict[str, tuple[str, ...]] = {}
    for part in COMMON:
        wanted = given.get(part)
        if part in ("time", "terminal") and wanted == ROW:
            found[part] = (ROW,)
        elif wanted is False:
            found[part] = ()
        elif wanted is not None:
            found[part] = _existing(name, part, as_names(part, wanted), columns)
    costs, chances = (_existing(name, part, as_names(part, given.get(part) or ()), columns) for part in BESIDE)
    taken = {column for part in found.values() for column in part} | set(costs) | set(chances)
    for part in COMMON:
        if part in found:
            continue
        guess = _written(part, written, columns, taken) or _guess(part, columns, found, taken)
        if guess:
            guessed[part] = guess
            taken |= set(guess)
        found[part] = guess
    return found | {"costs": costs, "propensity": chances}, guessed


def without_guess(schema: Schema, part: str) -> Schema:
    """The schema without a part that was guessed wrongly."""
    left = {other: names for other, names in schema.guessed.items() if other != part}
    return replace(schema, **{part: ()}, guessed=left)


def as_names(part: str, wanted: object) -> tuple[str, ...]:
    """The columns of a part, given as a name or as a list of names."""
    if isinstance(wanted, str):
        return (wanted,)
    if isinstance(wanted, Iterable) and not isinstance(wanted, Mapping):
        names = tuple(wanted)
        if all(isinstance(name, str) for name in names):
            return names
    wrong = f"{part} is {wanted!r}; it must be the name of a column or a list of names"
    raise LogError(wrong, argument=part, value=wanted)


def _existing(name: str, part: str, wanted: tuple[str, ...], columns: Sequence[str]) -> tuple[str, ...]:
    for column in wanted:
        if column not in columns:
            if len(columns) == 1 and column in columns[0]:
                raise _one_column(name, columns[0])
            which = f"{part} is {column!r}, but there is no such column"
            hint = no_names(columns) or near(column, columns)
            raise LogError(f"{name}: {which}{hint}", argument=part, value=column)
    if len(set(wanted)) != len(wanted):
        twice = f"{name}: {part} names a column twice: {', '.join(wanted)}"
        raise LogError(twice, argument=part, value=wanted)
    return wanted


def near(word: str, known: Iterable[str]) -> str:
    """A hint for a name that does not exist: the one that is near, else those that there are."""
    known = [str(k) for k in known]
    close = nearest(word, known)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; there are {few(known)}" if known else ""


def _one_column(name: str, column: str) -> LogError:
    wrong = f"{name}: the only column is {column!r}; the fields are divided by no comma, tab, semicolon or bar"
    right = "say what divides them with --delimiter (delimiter=...)"
    return LogError(f"{wrong}: {right}", argument="delimiter", column=column)


def no_names(columns: Sequence[str]) -> str:
    """What to say where the names of the columns look like values: text files without a header."""
    numbers = [column for column in columns if re.fullmatch(r"[-+]?[0-9]+([.][0-9]+)?(_[0-9]+)?", column)]
    if 2 * len(numbers) < len(columns) or not numbers:
        return ""
    doubt = f"; the columns are called {few(columns, 5)}: is the first line of the file a row already?"
    return f"{doubt} Then name the columns with --columns A,B,C (columns=[...])"


def _missing(name: str, part: str, columns: Sequence[str]) -> LogError:
    if len(columns) == 1 and any(mark in columns[0] for mark in ",;\t|: ~^"):
        return _one_column(name, columns[0])
    wrong = f"{name}: no column is called {part}"
    there = f"the columns are {few(columns)}. `dualq look` shows what they hold"
    named = f". Name it with {READING[part].flag} ({part}=...); {there}"
    return LogError(wrong + (no_names(columns) or named), argument=part)


def _written(
    part: str, written: Mapping[str, tuple[str, ...]], columns: Sequence[str], taken: set[str]
) -> tuple[str, ...]:
    names = tuple(written.get(part, ()))
    return names if names and all(n in columns and n not in taken for n in names) else ()


def _guess(part: str, columns: Sequence[str], found: Mapping[str, tuple[str, ...]], taken: set[str]) -> tuple[str, ...]:
    """The column with a common name, whatever its case; the next state's follow the state's."""
    free = {column.lower(): column for column in reversed(columns) if column not in taken}
    if part == "next_state":
        following = tuple(free.get(f"next_{column}".lower(), "") for column in found["state"])
        if all(following):
            return following
        if len(found["state"]) != 1:
            return ()
    return next(((free[word],) for word in COMMON[part] if word in free), ())


def _check(name: str, found: Mapping[str, tuple[str, ...]]) -> None:
    for part in ("reward", "time", "terminal", "truncated", "propensity"):
        if len(found[part]) > 1:
            raise LogError(
                f"{name}: {part} is given as {', '.join(found[part])}; it must be one column",
                argument=part,
                value=found[part],
            )
    for one, other in TWICE:
        both = [column for column in found[one] if column in found[other]]
        if both:
            raise LogError(
                f"{name}: the column {both[0]!r} is given as {one} and as {other}; it can only be one",
                argument=other,
                column=both[0],
            )
    for one, other in ((one, other) for one in BEFORE for other in AFTER):
        both = [column for column in found[one] if column in found[other]]
        if both:
            what = "reward" if other == "reward" else "cost"
            known = (
                "a state is what is known before the decision" if one == "state" else "an action is what was decided"
            )
            right = f"leave it out of {READING[one].flag}, or give a copy under another name if it is known before"
            raise LogError(
                f"{name}: the column {both[0]!r} is the {what} and in the {one}; {known}: {right}", column=both[0]
            )
    state, following = found["state"], found["next_state"]
    if following and len(following) != len(state):
        raise LogError(
            f"{name}: next_state has {len(following)} columns ({', '.join(following)}) and state has {len(state)} "
            f"({', '.join(state)}); give one for each, in the same order",
            argument="next_state",
            value=following,
        )
    if not following and not found["time"] and found["terminal"] != (ROW,):
        raise LogError(
            f"{name}: nothing says what followed a row; name the time with --time (time=...) or the next state with "
            '--next-state (next_state=...); --time row (time="row") if the rows are in the order of time; '
            '--terminal row (terminal="row") if every row is a case of its own'
        )


# ---- bins


@dataclass(frozen=True)
class Bins:
    """Intervals of a number: below the first edge, between two edges (the lower one belongs to it), above the last.

    Without an edge there is one interval: the number is known only to be one, and its rows keep it as it is.
    """

    edges: tuple[float, ...]
    asked: int | None = None  # how many were asked for, where quantiles made the edges

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each interval, in their order; with as many digits as tell the edges apart."""
        if not self.edges:
            return ("any number",)
        words = next(words for digits in (10, 12, 14, 17) if len(set(words := self._words(digits))) == len(words))
        between = [f"[{low}, {high})" for low, high in itertools.pairwise(words)]
        return (f"< {words[0]}", *between, f">= {words[-1]}")

    def _words(self, digits: int) -> list[str]:
        return [f"{edge:.{digits}g}" for edge in self.edges]

    @property
    def remark(self) -> str | None:
        """What to say where there are fewer bins than were asked for."""
        if self.asked is None or len(self.edges) + 1 == self.asked:
            return None
        return f"{len(self.edges) + 1} bins and not {self.asked}, because many rows have the same value"

    def label(self, number: float) -> str:
        """The label of the interval that holds a number."""
        if not (isinstance(number, int | float) and math.isfinite(number)):
            raise LogError(f"{number!r} has no bin; it must be a finite number", value=number)
        return self.labels[bisect_right(self.edges, number)]


def checked_bins(
    name: str,
    bins: Mapping[str, BinsOfColumn] | None,
    schema: Schema,
    quantiles: Callable[[str, list[float]], list[float]],
    numbers: Sequence[str] = (),
) -> dict[str, Bins]:
    """{column: Bins}, with quantiles asked from the engine; the next state's columns have the bins of the state's.

    numbers   columns of the state that stay numbers: one interval each
    """
    made = {column: Bins(()) for column in numbers}
    for column, wanted in (bins or {}).items():
        if column in made:
            continue
        if column not in (*schema.state, *schema.action):
            known = near(column, (*schema.state, *schema.action))
            wrong = f"bins are given for {column!r}, which is not in the state or the action"
            raise LogError(f"{name}: {wrong}{known}", argument="bins", value=column)
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            if wanted < 2:
                few_bins = f"{name}: {wanted} bins for {column!r}; at least 2 are needed"
                raise LogError(few_bins, argument="bins", column=column, value=wanted)
            least, *edges = quantiles(column, [i / wanted for i in range(wanted)])
            edges = sorted({edge for edge in edges if edge > least})  # at the least value there is nothing to cut
            if not edges:
                most = f"{100 * (wanted - 1) / wanted:.3g}% of the rows or more have the value {least:.10g}"
                raise LogError(
                    f"{name}: {column!r} cannot be cut into {wanted} bins of equal size: {most}; "
                    f'give edges, such as bins={{"{column}": [...]}} (--bins {column}=EDGE,EDGE)',
                    argument="bins",
                    column=column,
                    value=wanted,
                )
            made[column] = Bins(tuple(edges), wanted)
        else:
            made[column] = Bins(tuple(_edges(name, column, wanted)))
    for column, following in zip(schema.state, schema.next_state, strict=False):
        if column in made:
            made[following] = made[column]
    return made


def _edges(name: str, column: str, wanted: BinsOfColumn) -> list[float]:
    try:
        edges = [] if isinstance(wanted, int) else [float(edge) for edge in wanted]
    except (TypeError, ValueError):
        edges = []
    if not edges or not all(map(math.isfinite, edges)) or any(b <= a for a, b in itertools.pairwise(edges)):
        right = 'a number of bins, a list of edges in rising order, or "auto"'
        wrong = f"{name}: bins for {column!r} are {wanted!r}; they must be {right}"
        raise LogError(wrong, argument="bins", column=column, value=wanted)
    return edges
