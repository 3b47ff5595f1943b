"""Cycles: do rewards or next states follow a rhythm in time that the state does not contain?

Rows are put together by t mod p, for the usual periods p of a clock in whole numbers, and of the step in the episode;
by hour, weekday and month where the clock is a date. Next states given (s, a) by alike_tables; rewards and costs by
alike_scores, grouped by (s, a), of their ranks among those of the same (s, a, s'), or of another `score`. Where the
phase is in the state, it is the same for all rows of a pair, and nothing is left to compare. With K questions each has
the level / K. What is found at that level must pass another test too, where there is one (`again`): the larger p
counts. That other p is not multiplied by K: it is asked only where rows one by one see a rhythm, and turns are few. So
where a curve makes these see one in many of the K questions, the level holds for each of them and not for all together.
A long log is read in its last MOST rows. Rhythms of other lengths show as memory, as far as rewards many rows apart go
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_scores, alike_tables, scores
from dualq.logs.checks.trace import Trace

Array = np.ndarray

PERIODS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 24, 28, 30, 52, 60)
MOST = 100_000  # rows
DAY = 86400


Again = Callable[[Array, Array, int, Array], float]  # (pair, clock, period, scores) -> p


class Phase(NamedTuple):
    """Where rows are in a period, and what to call it."""

    name: str
    clock: Array  # (n,) whole numbers
    period: int


def cycle(
    trace: Trace, level: float, score: Callable[[Array, Array], Array] = scores, again: Again | None = None
) -> Finding | None:
    """Is there a rhythm in time that the state does not contain? `score` says in what numbers are compared."""
    used = np.flatnonzero(trace.used)[-MOST:]
    if used.size == 0:
        return None
    pair, outcome = trace.pair[used], trace.outcome[used]
    step = pair * (trace.shape[0] + 1) + outcome
    numbers = {"rewards depend": trace.r, **{f"{c} depends": x for c, x in trace.costs.items()}}
    ranks = {name: score(step, x[used]) for name, x in numbers.items()}
    phases = {phase.name: phase for phase in _phases(trace, used)}
    asked: dict[tuple[str, str], Outcome] = {}
    for name, (_, clock, period) in phases.items():
        asked["next states depend", name] = alike_tables(pair, clock % period, outcome)
        asked |= {(what, name): alike_scores(pair, clock % period, ranks[what]) for what in ranks}
    if not asked:
        return None
    log_p = {question: min(0.0, one.log_p + np.log(len(asked))) for question, one in asked.items()}
    if again is not None:
        for what, name in [q for q in asked if q[0] in ranks and log_p[q] <= np.log(level)]:
            p = again(pair, phases[name].clock, phases[name].period, ranks[what])
            log_p[what, name] = max(log_p[what, name], np.log(max(p, np.finfo(float).tiny)))
    what, name = min(log_p, key=lambda question: log_p[question])
    p = float(np.exp(log_p[what, name]))
    tested = max(one.tested for one in asked.values())
    found = p <= level
    words = "too few rows to look for a cycle in time"
    if found:
        words = f"{what} on {name} too ({p_value(p)}): add it to the state"
    elif tested:
        words = f"no sign of a cycle in time ({p_value(p)})"
    return Finding("cycle", found, p, tested, None, words)


def _phases(trace: Trace, used: Array) -> Iterator[Phase]:
    """Where in each period the rows are; never the same twice."""
    t, begins = trace.t[used], np.flatnonzero(trace.first)
    step = used - begins[np.searchsorted(begins, used, "right") - 1]
    if trace.dates and np.isfinite(t).all():
        day = np.floor(t / DAY).astype(np.int64)
        month = day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        named = (
            Phase("the hour of the day", np.floor(t / 3600).astype(np.int64), 24),
            Phase("the day of the week", day + 3, 7),
            Phase("the month", month, 12),
        )
        yield from (phase for phase in named if np.ptp(phase.clock % phase.period) > 0)
    whole = not trace.dates and np.isfinite(t).all() and (t == np.floor(t)).all()
    clock = t.astype(np.int64) if whole and np.abs(t).max() < 2**53 else None
    same = clock is not None and np.unique(clock - step).size == 1
    if clock is not None:
        time = trace.names.get("time", "time")
        yield from _turns(clock, f"where {time} is in a cycle of {{}}", f"{time} itself")
    if not same and step.max() > 0:
        yield from _turns(step, "where a row is in a cycle of {} rows", "how many rows came before in the episode")


def _turns(clock: Array, cyclic: str, plain: str) -> Iterator[Phase]:
    """Where a clock is in each period; what is no longer than one turn is the clock itself, and no cycle."""
    span = int(clock.max() - clock.min())
    yield from (Phase(cyclic.format(p), clock, p) for p in PERIODS if p <= span)
    if 0 < span < PERIODS[-1]:
        yield Phase(plain, clock - clock.min(), span + 1)
