"""Counting: the engine's one GROUP BY as Counts, and what is said where some row is bad.

What becomes of a row

    used       it has a state, an action, a finite reward and a next state, or it ended its episode
    dropped    it has no successor: the last of an episode that was cut off or never finished, where no next_state
               column says what followed. Not an error; counted in `dropped`
    bad        anything else: an error, or with skip_bad=True written to a file (`quarantine`) and counted in `skipped`

Sums are float64; an engine adds in the order its threads come by, so sums of one log may differ in the last digits.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dualq.base import LogError, count, one_by_one, silent, together
from dualq.logs.counts import Counts
from dualq.logs.reading.arrow import flags_in, known_of, numbers_of
from dualq.logs.reading.available import Declared, declared_columns
from dualq.logs.reading.bad_rows import set_aside, stop_at_the_first
from dualq.logs.reading.coding import MOST, Coder, too_many
from dualq.logs.reading.engines import answer, batches, reading, whole_number
from dualq.logs.reading.expressions import Table
from dualq.logs.reading.progress import progress
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.sources import Source, short

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

BATCH = 1 << 20  # groups fetched at a time
MANY_GROUPS = 50_000  # from which on a thread is worth its while
CHECKED_ROWS = 10_000_000  # up to here a time that repeats is looked for even where nothing depends on it


class Counted:
    """The engine's answer, in places: the coders of states and actions, the counts, and what became of the others.

    questions   those that were answered: they know whether times repeat
    dropped     rows that have no successor
    skipped     bad rows that were set aside
    """

    def __init__(self, name: str, q: Questions, declared: Declared, groups: pa.Table, extremes: pa.Table, skipped: int):
        self.questions, self.skipped = q, skipped
        bins = [q.bins.get(column) for column in q.schema.state]
        sides = [[groups[c] for c in q.s], [groups[c] for c in q.n]]
        self.states = Coder(name, "state", q.schema.state, sides, bins)
        bins = [q.bins.get(column) for column in q.schema.action]
        taken = [groups[c] for c in q.a]
        self.actions = Coder(name, "action", q.schema.action, [taken, declared_columns(q, declared, taken)], bins)
        s, s_next = self.states.places
        ended = flags_of(groups, "ended")
        n = numbers_of(groups["n"])
        used = ended | (s_next >= 0)
        self.dropped = int(n[~used].sum())
        s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
        sums = [n, *(numbers_of(groups[f"{x}_{sum_}"]) for x in q.numbers for sum_ in ("sum", "squares"))]
        seen = {x: _seen(extremes, x) for x in q.numbers}  # of all rows, those without a successor too
        self.counts = Counts.from_groups(
            s[used],
            self.actions.places[0][used],
            s_next[used],
            ended[used],
            [weight[used] for weight in sums],
            q.schema.costs,
            states=self.states.labels,
            actions=self.actions.labels,
            reward_range=q.reward_range or seen["r"],
            range_known=q.reward_range is not None,
            cost_ranges={column: known or seen[x] for x, (column, known) in q.numbers.items() if x != "r"},
            cost_ranges_known=frozenset(q.cost_ranges),
        )


def count_table(opened: Source, q: Questions, quarantine: Path, declared: Declared = ()) -> Counted:
    """One GROUP BY; a second question only where its answer shows that some row is bad."""
    name = opened.name
    with progress(opened, "counting"):
        groups, extremes = _answers(opened, q)
    rejected = opened.rejects() if opened.rejects is not None else []
    skipped = len(rejected)
    if rejected and not q.skip_bad:
        file, _, line, wrong, text = rejected[0]
        advice = "correct it, or set such lines aside with skip_bad=True (--skip-bad)"
        wrong = f"{short(file)}: line {line} is no row of the table, {text!r}: {wrong}"
        raise LogError(f"{wrong}; {advice}", line=line, value=text)
    if groups.num_rows == 0 and not q.skip_bad:
        raise LogError(f"{name}: there are no rows")
    if not q.skip_bad and _some_bad(groups, extremes, q):
        stop_at_the_first(opened, q)
    if _repeats(opened, q, int(np.sum(numbers_of(groups["n"])))):
        q = replace(q, repeats=True)
        if not q.skip_bad:
            stop_at_the_first(opened, q)
        groups, extremes = _answers(opened, q)
    if q.skip_bad:
        skipped += set_aside(opened, q, quarantine, rejected)
        if groups.num_rows == 0:
            raise LogError(f"{name}: no row is left; all {skipped:,} are bad, see {quarantine}")
    # sorting many groups takes seconds: in a thread of its own, so that Ctrl-C need not wait for it
    side_by_side = together if groups.num_rows >= MANY_GROUPS else one_by_one
    [counted] = side_by_side([lambda _: Counted(name, q, declared, groups, extremes, skipped)], silent)
    if counted.counts.total == 0:
        few = f"{count(counted.dropped, 'row')} without a successor, and no other"
        advice = "is every row an episode of its own? Check episode=... and time=..., or give next_state=..."
        if "episode" in q.schema.guessed:
            taken = f"the column {q.schema.episode[0]!r} was taken for the episode, because of its name"
            advice = f"{taken}: if it is none, say episode=False (--episode none); else give time=... or next_state=..."
        raise LogError(f"{name}: {few}; {advice}")
    return counted


def first_states(counted: Counted) -> Array:
    """(S,) how often each state is the first of an episode."""
    q, states = counted.questions, counted.states
    found = answer(q.first_states())
    place = states.found_in(found, q.s)
    return np.bincount(place[place >= 0], numbers_of(found["n"])[place >= 0], len(states.labels)).astype(np.int64)


def _fetch(opened: Source, q: Questions, table: Table) -> pa.Table:
    """The groups, a batch at a time, stopping when there are too many states."""
    import pyarrow as pa

    found, seen, fetched, states = [], 0, 0, None
    with reading(opened.name):
        reader = batches(table, BATCH)
        for batch in reader:
            found.append(batch)
            fetched += batch.num_rows
            if fetched > 2 * MOST:  # those since the last look only: one look at all of them takes a second
                new = pa.Table.from_batches(found[seen:]).select(q.s)
                states = pa.concat_tables([new] if states is None else [states, new]).group_by(q.s).aggregate([])
                if (many := states.num_rows) > MOST:
                    raise LogError(too_many(opened.name, q.schema.state, many), argument="state", value=many)
                seen, fetched = len(found), 0
        return pa.Table.from_batches(found) if found else reader.schema.empty_table()


def _answers(opened: Source, q: Questions) -> tuple[pa.Table, pa.Table]:
    """The groups, and the table that has the ranges of the numbers: the groups themselves, or one row for all."""
    groups = _fetch(opened, q, q.counts())
    return groups, groups if "r_low" in groups.column_names else _fetch(opened, q, q.extremes())


def _some_bad(groups: pa.Table, extremes: pa.Table, q: Questions) -> bool:
    """Whether some row is bad, by the sums alone."""
    keys = [*q.s, *q.a, *(["ended"] if "ended" in groups.column_names else [])]
    if any(groups[key].null_count for key in keys):
        return True
    n = numbers_of(groups["n"])
    for name, (_, known) in q.numbers.items():
        if (numbers_of(extremes[f"{name}_known"]) != numbers_of(extremes["n"])).any():
            return True
        if not np.isfinite(numbers_of(groups[f"{name}_sum"])).all():
            return True
        if known is not None:
            low, high = _seen(extremes, name)
            if low < known[0] or high > known[1]:
                return True
    if q.schema.propensity is not None:
        low, high = _seen(extremes, "p")
        if (numbers_of(extremes["p_known"]) != numbers_of(extremes["n"])).any() or not 0.0 < low <= high <= 1.0:
            return True
    for column in ("t_known", "cut_known", *(f"{e}_known" for e in q.e)):
        if column in groups.column_names and (numbers_of(groups[column]) != n).any():
            return True
    if "t_again" in groups.column_names and numbers_of(groups["t_again"]).any():
        return True
    if q.schema.next_state:
        missing = np.zeros(n.size, bool)
        for column in q.n:
            missing |= ~known_of(groups[column])
        return bool((missing & ~flags_of(groups, "ended")).any())
    return False


def flags_of(groups: pa.Table, name: str) -> Array:
    """A column of flags as an array; nowhere true where there is no such column."""
    if name not in groups.column_names:
        return np.zeros(groups.num_rows, bool)
    return flags_in(groups[name])


def _seen(groups: pa.Table, name: str) -> tuple[float, float]:
    low, high = (numbers_of(groups[f"{name}_{end}"]) for end in ("low", "high"))
    return (float(low.min()), float(high.max())) if low.size else (0.0, 0.0)


def _repeats(opened: Source, q: Questions, rows: int, at_once: bool = True) -> bool:
    """Whether some time repeats in a log that has next states; looked for at once unless the log is long."""
    if not (q.schema.next_state and q.schema.episode and q.schema.time not in (None, "row")):
        return False
    if q.stands or at_once != (rows <= CHECKED_ROWS):
        return False
    with reading(opened.name):
        return whole_number(q.repeated()) > 0


def check_repeats(opened: Source, q: Questions, rows: int) -> None:
    """A LogError where some time repeats in a long log with next states: its counts were made without looking."""
    if _repeats(opened, q, rows, at_once=False):
        stop_at_the_first(opened, replace(q, repeats=True))
