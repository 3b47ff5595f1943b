"""Drift: did something change while the log was written?

Time is cut into periods of equal length, and three things are compared between them:

    behaviour   P(a | s): it may change, the counts are still those of one model
    dynamics    P(s' | s, a): it must not, for then there is no one model; a warning names the period
    rewards     E(r | s, a, s'): neither

What is found is told to a tenth of a period: from when to when the rows differ most from the others. `homogeneity.py`
has the tests. Together dynamics and rewards raise a false alarm with probability at most `level`; so does, apart from
them, behaviour.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_counts, alike_means, cells
from dualq.logs.checks.trace import ROWS, Trace, kind_of_clock, shared_clock
from dualq.logs.reading.arrow import numbers_of
from dualq.logs.reading.counting import Counted, flags_of
from dualq.logs.reading.engines import answer

Array = np.ndarray

PERIODS = 4
FINER = 10  # parts of a period, by which the beginning and the end of a change are told
MOST_FINE = 200_000  # counts; where there are more, whole periods must do


@dataclass(frozen=True, eq=False)
class Periods:
    """How often each (period, s, a, outcome) occurs, and sums of powers of its rewards; outcome |S| is the end."""

    period: Array
    s: Array
    a: Array
    outcome: Array
    n: Array
    powers: Array  # (4, entries)
    edges: tuple[str, ...]  # one more than there are periods
    by: str


Test = Callable[[Periods, Array], Outcome]  # whether rows of the given numbers are alike


def drift_of(
    cut: Callable[[int], Periods | None], shape: tuple[int, int], level: float
) -> tuple[dict[str, Finding], str | None]:
    """The three tests, and what the periods are cut by.

    cut   gives the log in so many periods, None where it has no clock or all of it lies at one moment. It is asked for
          FINER times as many once something is found, to tell from when on
    """
    periods = cut(PERIODS)
    by = None if periods is None else periods.by
    if periods is None or np.unique(periods.period).size < 2:
        return {}, by
    S, A = shape

    @cache
    def finer() -> Periods | None:
        fine = cut(PERIODS * FINER)
        return None if fine is None or fine.n.size > MOST_FINE else fine

    def finer_decisions() -> Periods | None:
        fine = finer()
        return None if fine is None else _decisions(fine)

    def behaviour(p: Periods, row: Array) -> Outcome:
        return alike_counts(p.s, row, p.a, p.n)

    def dynamics(p: Periods, row: Array) -> Outcome:
        return alike_counts(p.s * A + p.a, row, p.outcome, p.n)

    def rewards(p: Periods, row: Array) -> Outcome:
        return alike_means((p.s * A + p.a) * (S + 1) + p.outcome, row, p.n, p.powers)

    found = {
        "behaviour": _change("behaviour", behaviour, _decisions(periods), level, finer_decisions),
        "dynamics": _change("dynamics", dynamics, periods, level / 2, finer),
        "rewards": _change("rewards", rewards, periods, level / 2, finer),
    }
    return found, by


def _decisions(periods: Periods) -> Periods:
    """The same whatever followed: a tenth of the entries, where many places of a change are tried."""
    (period, s, a), where = cells(periods.period, periods.s, periods.a)
    powers = np.array([np.bincount(where, x) for x in periods.powers])
    n = np.bincount(where, periods.n)
    return replace(periods, period=period, s=s, a=a, outcome=np.zeros_like(s), n=n, powers=powers)


def _change(what: str, test: Test, periods: Periods, level: float, finer: Callable[[], Periods | None]) -> Finding:
    outcome = test(periods, periods.period)
    found = outcome.p_value <= level
    period = _where(test, periods, finer()) if found else None
    words = _words(what, outcome, found, period, periods.by)
    return Finding(what, found, outcome.p_value, outcome.tested, period, words)


def _where(test: Test, periods: Periods, fine: Periods | None) -> tuple[str, str]:
    """From when to when it was otherwise: the cut that tells most, and the range from it on, or up to it, that does."""
    by = periods if fine is None else fine
    last = len(by.edges) - 1
    cut, _ = _best(test, by, [(k, last) for k in range(1, last)])
    begin, end = _best(test, by, [*((cut, k) for k in range(cut + 1, last + 1)), *((k, cut) for k in range(1, cut))])
    return by.edges[begin], by.edges[end]


def _best(test: Test, periods: Periods, ranges: list[tuple[int, int]]) -> tuple[int, int]:
    """The range whose rows differ most from all others."""
    logs = [test(periods, (periods.period >= a) & (periods.period < b)).log_p for a, b in ranges]
    return ranges[int(np.argmin(logs))]


def _words(what: str, outcome: Outcome, found: bool, period: tuple[str, str] | None, by: str) -> str:
    if not outcome.tested:
        return f"too few rows to test whether {CHANGED[what]}"
    sure = p_value(outcome.p_value)
    if not found:
        return f"no sign that {CHANGED[what]} ({sure})"
    when = _when(period, by) if period else ""
    if what == "behaviour":
        return f"decisions were made differently {when} ({sure}); that is fine: the log still describes one system"
    seen = {
        "dynamics": "the same action led to different states",
        "rewards": "the same decision earned different rewards",
    }[what]
    return f"{seen} {when} ({sure}): {CHANGED[what]}; learn from one side of the change only (--since, --until)"


CHANGED = {
    "behaviour": "decisions were made differently over time",
    "dynamics": "the system changed",
    "rewards": "rewards changed",
}


def _when(period: tuple[str, str], by: str) -> str:
    """`where day is between 183 and 729`; by: what the periods are cut by, such as "time (day)"."""
    if by == ROWS:
        return f"between the rows {period[0]} and {period[1]}"
    column = by.partition("(")[2].removesuffix(")") or by
    return f"where {column} is between {period[0]} and {period[1]}"


# ---- a log cut into periods


@dataclass(frozen=True, eq=False)
class OverTime:
    """A log period by period."""

    edges: tuple[str, ...]  # one more than there are periods
    by: str  # what tells early rows from late ones
    rows: Array  # (periods,)
    reward: Array  # (periods,) the mean; nan where there are no rows
    actions: Array  # (periods, A) how often each was taken


def over_time(periods: Periods, actions: int, mean: float) -> OverTime:
    """Rows, mean reward and actions of each period; mean: the reward's over all rows, about which powers are."""
    count = len(periods.edges) - 1
    rows = np.bincount(periods.period, periods.n, count).astype(np.int64)
    apart = np.bincount(periods.period, periods.powers[0], count)
    with np.errstate(invalid="ignore"):
        reward = mean + np.where(rows > 0, apart / rows, np.nan)
    taken = np.bincount(periods.period * actions + periods.a, periods.n, count * actions)
    return OverTime(periods.edges, periods.by, rows, reward, taken.reshape(count, actions).astype(np.int64))


def periods_of_trace(trace: Trace, periods: int) -> Periods | None:
    """Rows held in arrays."""
    clock = trace.clock
    if clock is None or not np.isfinite(clock.at).any():
        return None
    low, high = float(np.nanmin(clock.at)), float(np.nanmax(clock.at))
    if not high > low:
        return None
    used = trace.used & np.isfinite(clock.at)
    period = np.minimum(((clock.at[used] - low) / (high - low) * periods).astype(np.int64), periods - 1)
    (period, s, a, outcome), which = cells(period, trace.s[used].astype(np.int64), trace.a[used], trace.outcome[used])
    x = trace.r[used] - trace.r[trace.used].mean()
    powers = np.array([np.bincount(which, x**i, period.size) for i in (1, 2, 3, 4)])
    n, edges = np.bincount(which, minlength=period.size), _edges(low, high, periods, clock.kind)
    return Periods(period, s, a, outcome, n, powers, edges, clock.by)


def periods_of_table(counted: Counted, periods: int) -> Periods | None:
    """Rows that lie in an engine."""
    q, counts = counted.questions, counted.counts
    column, by = shared_clock(q)
    if column is None:
        return None
    span = q.row(q.span(column))
    low, high = span["low"], span["high"]
    if low is None or not high > low:
        return None
    centre = float(counts.reward_sum.sum() / counts.total)
    groups = answer(q.by_period(column, low, high, periods, centre))
    states, actions = counted.states, counted.actions
    s, s_next, a = (coder.found_in(groups, x) for coder, x in ((states, q.s), (states, q.n), (actions, q.a)))
    ended = flags_of(groups, "ended")
    used = ended | (s_next >= 0)
    outcome = np.where(ended, len(states.labels), s_next)
    powers = np.array([numbers_of(groups[f"x{i}"]) for i in (1, 2, 3, 4)], float)
    period, n = numbers_of(groups["period"]).astype(np.int64), numbers_of(groups["n"])
    edges = _edges(low, high, periods, kind_of_clock(q, column))
    return Periods(period[used], s[used].astype(np.int64), a[used], outcome[used], n[used], powers[:, used], edges, by)


def _edges(low: float, high: float, periods: int, kind: str) -> tuple[str, ...]:
    """Where the periods begin, and where the last one ends, as read_log(since=...) takes it.

    Of whole numbers, the first that is in it. No marks between thousands: a year is a time too.
    """
    values = [low + (high - low) * i / periods for i in range(periods + 1)]
    if kind == "whole":
        return tuple(str(math.ceil(value - 1e-9 * (high - low))) for value in values)
    if kind == "numbers":
        words = [[f"{value:.{digits}g}" for value in values] for digits in (6, 9, 12, 17)]
        return tuple(next((w for w in words if len(set(w)) == len(w)), words[-1]))
    zone = datetime.UTC
    moments = [datetime.datetime.fromtimestamp(value, zone) for value in values]
    step = (high - low) / periods
    written = "%Y-%m-%d" if step > 86400 else "%Y-%m-%d %H:%M" if step > 60 else "%Y-%m-%d %H:%M:%S.%f"
    return tuple(f"{m:{written}}" for m in moments)
