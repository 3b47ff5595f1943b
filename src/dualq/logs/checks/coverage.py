"""Coverage: what a log can tell, and what it cannot.

visits           n(s, a); a pair is supported if it occurs at all, and nothing is known of the others
zeta             the least frequency of a supported pair, n(s, a) / N: the paper's zeta, estimated
effective_size   K^2 / sum 1/n(s, a) over the K supported pairs: the rows of a log in which all of them occur alike,
                 that would tell as much of them together. Far below N: most rows say again what is known
never_left       states that rows lead to and none leaves: their future is unknown
drift            did something change while the log was written? Time is cut into periods of equal length, and
                 behaviour   P(a | s) between periods: it may change, the counts are still those of one model
                 dynamics    P(s' | s, a): it must not, for then there is no one model; a warning names the period
                 rewards     E(r | s, a, s'): neither
                 What is found is told to a tenth of a period: from when to when the rows differ most from the others
                 `change.py` has the tests. Together dynamics and rewards raise a false alarm with probability
                 at most `level`; so does, apart from them, behaviour
markov           does the state before help to predict the next, given state and action? If so the columns of the
                 state miss something. A test with the same level, apart from the others; not made in logs of over 20
                 million rows. Where the dynamics change, this finds something too
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from dualq.base import Labels, LogError, count, few, p_value
from dualq.logs.checks.battery import checks_of
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_counts, alike_means
from dualq.logs.counts import Counts

Array = np.ndarray

LEVEL = 0.01
PERIODS = 4
MOST_ROWS, MOST_CELLS = 20_000_000, 1_000_000  # beyond these the test of memory takes longer than all the rest
ROWS = "the order of the rows"  # what periods are cut by where there is no other clock
THIN = 10  # rows below which a pair is called thin
UNCLOCKED = "whether the system changed was not tested: no column of numbers or dates tells early rows from late ones"
FINER = 10  # parts of a period, by which the beginning and the end of a change are told
MOST_FINE = 200_000  # counts; where there are more, whole periods must do
MANY = 1000  # different numbers in a column of the state, from which bins are advised where most pairs are thin


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


@dataclass(frozen=True, eq=False)
class Coverage:
    """What a log can tell, and what it cannot."""

    counts: Counts = field(repr=False)
    rows: int  # that are used
    dropped: int = 0  # without a successor
    skipped: int = 0  # bad ones, set aside
    jumps: int | None = None  # rows whose next_state is not the state of the following row; None: that cannot be known
    drift: Mapping[str, Finding] = field(default_factory=dict)  # behaviour, dynamics, rewards; empty without a clock
    drift_by: str | None = None  # what the periods are cut by
    level: float = LEVEL
    memory: Finding | None = None  # does the state before matter? None where that was not asked
    remarks: tuple[str, ...] = ()  # what became of the columns when they were read
    checks: tuple[Finding, ...] = ()  # what else the rows, read one after another, say of how they were read (checks/)
    doubts: tuple[str, ...] = ()  # what in the columns may be wrong

    @property
    def visits(self) -> Array:
        """n(s, a) (S, A)."""
        return self.counts.visits

    @property
    def states(self) -> Labels:
        """The labels of the states."""
        return self.counts.states

    @property
    def supported(self) -> Array:
        """(S, A) the pairs that occur."""
        return self.visits > 0

    @property
    def actions_per_state(self) -> Array:
        """(S,) how many actions the log has seen in each state."""
        return self.supported.sum(axis=1)

    @property
    def thin(self) -> int:
        """Supported pairs with fewer than ten rows."""
        return int((self.supported & (self.visits < THIN)).sum())

    @cached_property
    def zeta(self) -> float:
        """The least frequency of a supported pair."""
        seen = self.visits[self.supported]
        return float(seen.min() / seen.sum()) if seen.size else 0.0

    @cached_property
    def effective_size(self) -> float:
        """K^2 / sum 1/n over the K supported pairs."""
        seen = self.visits[self.supported].astype(float)
        return float(seen.size**2 / (1.0 / seen).sum()) if seen.size else 0.0

    @property
    def never_left(self) -> list[Any]:
        """The labels of the states that rows lead to and none leaves."""
        return [self.states[int(place)] for place in self.counts.never_left]

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting anything learned from this log."""
        found = [finding.words for finding in self._against if finding.because(self._names) is None]
        return [*found, *self.doubts, *([self._scattered] if self.scattered > 0.5 else self._crowded)]

    @property
    def _against(self) -> list[Finding]:
        """What was found of the system, and not of who acted in it."""
        return [finding for finding in self.evidence if finding.found and finding.what != "behaviour"]

    @property
    def _names(self) -> set[str]:
        return {finding.what for finding in self._against}

    @property
    def evidence(self) -> list[Finding]:
        """What the tests say of the assumptions: that nothing changed with time, and that the state says all."""
        return [*self.checks, *self.drift.values(), *([self.memory] if self.memory is not None else [])]

    @cached_property
    def scattered(self) -> float:
        """The part of the states that have a row which have no more than that: nothing is seen twice in them."""
        rows = self.visits.sum(axis=1)
        return float((rows == 1).sum() / max(1, (rows > 0).sum()))

    @property
    def _scattered(self) -> str:
        rows = self.visits.sum(axis=1)
        alone, states = int((rows == 1).sum()), count(int((rows > 0).sum()), "state")
        names = self.states.names
        fewer = "" if len(names) == 1 else " or leave some of its columns out"
        return (
            f"{alone:,} of {states} occur in one row only, so little can be learned: cut the numbers of the state into "
            f"bins (--bins {names[0]}=10){fewer}"
        )

    @property
    def _crowded(self) -> list[str]:
        """Bins, for the column of the state with the most numbers, where there are many and most pairs are thin."""
        pairs = int(self.supported.sum())
        if isinstance(self.states.values, range) or len(self.states) < MANY or self.thin <= 0.5 * pairs:
            return []
        labels = [label if isinstance(label, tuple) else (label,) for label in self.states.values]
        numbers = [
            {x for x in column if isinstance(x, int | float) and not isinstance(x, bool)}
            for column in zip(*labels, strict=True)
        ]
        most, name = max((len(found), name) for found, name in zip(numbers, self.states.names, strict=True))
        few_rows = f"{self.thin:,} of {pairs:,} combinations of state and action have fewer than {THIN} rows"
        advice = f"{name} has {most:,} different numbers; cut them into bins (--bins {name}=8)"
        return [f"{few_rows}, so little can be guaranteed: {advice}"] if most >= MANY else []

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        notes = [change.words for change in self.drift.values() if change.found and change.what == "behaviour"]
        if self.dropped:
            rows = count(self.dropped, "row")
            notes.append(f"{rows} left out, because the log does not show what came next")
        if self.skipped:
            notes.append(f"{count(self.skipped, 'bad row')} set aside")
        if self.jumps:
            notes.append(f"in {count(self.jumps, 'row')} the next state is not the state of the following row")
        if self.never_left:
            states = count(len(self.never_left), "state")
            notes.append(f"{states} reached in which no decision was logged ({few(self.never_left, 3)})")
        causes = [(finding, finding.because(self._names)) for finding in self._against]
        notes += [f"{finding.brief}, {cause}" for finding, cause in causes if cause is not None]
        return [*notes, *self.remarks]

    def summary(self) -> dict[str, Any]:
        """The figures, as plain values."""
        S, A = self.visits.shape
        return {
            "rows": self.rows,
            "dropped": self.dropped,
            "skipped": self.skipped,
            "jumps": self.jumps,
            "states": S,
            "actions": A,
            "supported_pairs": int(self.supported.sum()),
            "thin_pairs": self.thin,
            "zeta": self.zeta,
            "effective_size": self.effective_size,
            "never_left": len(self.never_left),
            "drift_by": self.drift_by,
            "drift": {
                name: {"found": c.found, "p_value": c.p_value, "period": c.period} for name, c in self.drift.items()
            },
            "memory": None if self.memory is None else {"found": self.memory.found, "p_value": self.memory.p_value},
            "checks": {check.what: {"found": check.found, "p_value": check.p_value} for check in self.checks},
            "warnings": self.warnings,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        S, A = self.visits.shape
        pairs, worth = int(self.supported.sum()), count(round(self.effective_size), "row")
        lines = [
            f"{count(self.rows, 'row')}, {count(S, 'state')}, {count(A, 'action')}",
            f"{pairs:,} of {S * A:,} combinations of state and action occur, {self.thin:,} in fewer than {THIN} rows",
            f"as informative as {worth} spread evenly over them; the rarest has {self.zeta:.2g} of all",
            *(f"note: {note}" for note in self.notes),
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)


# ---- drift


def drift_of(
    periods: Periods | None,
    shape: tuple[int, int],
    level: float = LEVEL,
    finer: Callable[[], Periods | None] = lambda: None,
) -> dict[str, Finding]:
    """The three tests; none, where the log has no clock or all of it lies in one period.

    finer   gives the same with FINER times as many periods; asked for once something is found, to tell from when on
    """
    if periods is None or np.unique(periods.period).size < 2:
        return {}
    S, A = shape

    def behaviour(p: Periods, row: Array) -> Outcome:
        return alike_counts(p.s, row, p.a, p.n)

    def dynamics(p: Periods, row: Array) -> Outcome:
        return alike_counts(p.s * A + p.a, row, p.outcome, p.n)

    def rewards(p: Periods, row: Array) -> Outcome:
        return alike_means((p.s * A + p.a) * (S + 1) + p.outcome, row, p.n, p.powers)

    tests = {"behaviour": (behaviour, level), "dynamics": (dynamics, level / 2), "rewards": (rewards, level / 2)}
    return {what: _change(what, test, periods, at, finer) for what, (test, at) in tests.items()}


def _change(what: str, test: Test, periods: Periods, level: float, finer: Callable[[], Periods | None]) -> Finding:
    outcome = test(periods, periods.period)
    found = outcome.p_value <= level
    period = _where(test, periods, finer()) if found else None
    words = _words(what, outcome, found, period, periods.by)
    return Finding(what, found, outcome.p_value, outcome.tested, period, words)


def _where(test: Test, periods: Periods, fine: Periods | None) -> tuple[str, str]:
    """From when to when it was otherwise: the cut that tells most, and the range from it on, or up to it, that does."""
    by = periods if fine is None or fine.n.size > MOST_FINE else fine
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
        return f"decisions were made differently {when} ({sure}); that is fine, the log still describes one system"
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


def markov_change(previous: Any, s: Any, a: Any, outcome: Any, n: Any, num_actions: int, level: float) -> Finding:
    """Does the state before help to predict what follows (s, a)?"""
    pair = np.asarray(s, np.int64) * num_actions + a
    test = alike_counts(pair, previous, outcome, n)
    found = test.p_value <= level
    if not test.tested:
        words = "too few rows to test whether earlier states matter"
    elif found:
        advice = "the state misses something; add the column that tells it to the state"
        words = f"what happens next depends on the state before too ({p_value(test.p_value)}): {advice}"
    else:
        words = f"no sign that earlier states matter ({p_value(test.p_value)})"
    return Finding("memory", found, test.p_value, test.tested, None, words)


def asked_of_memory(counts: Counts, test: Callable[[], Finding]) -> Finding:
    """The test of memory; not made where the log is long, or its states so many that it would have too many cells."""
    into = np.bincount(counts.s_next[~counts.ended], minlength=len(counts.states))  # entries, not states: no fewer
    out = np.bincount(counts.s, minlength=len(counts.states))
    cells = min(counts.total, int((into * out).sum()))
    if counts.total <= MOST_ROWS and cells <= MOST_CELLS:
        return test()
    size = count(counts.total, "row") if counts.total > MOST_ROWS else f"up to {cells:,} cells"
    words = f"whether earlier states matter was not tested ({size}); log.markov_test() does it"
    return Finding("memory", False, 1.0, 0, None, words)


# ---- from a log in arrays


def coverage_of_log(log: Any, level: float = LEVEL, periods: int = PERIODS) -> Coverage:
    """Of a log held in arrays."""
    counts = log.counts()
    cut = _periods_of_log(log, periods)
    drift = drift_of(cut, counts.shape, level, cache(lambda: _periods_of_log(log, periods * FINER)))
    by = cut.by if cut is not None else None
    memory = asked_of_memory(counts, lambda: markov_test_of_log(log, level))
    checks = checks_of(log.trace(), level)
    return Coverage(counts, len(log), 0, 0, _jumps_of_log(log), drift, by, level, memory, checks=checks)


def _jumps_of_log(log: Any) -> int:
    order, first = log.by_episode()
    s, s_next, ended = log.state[order], log.next_state[order], log.ended[order]
    return int(((s_next[:-1] != s[1:]) & ~ended[:-1] & ~first[1:]).sum())


def _periods_of_log(log: Any, periods: int) -> Periods | None:
    clock, by = (log.episode, "episode") if log.restarts else (log.time, "time")
    if len(log) == 0 or clock.min() == clock.max():
        return None
    low, high = float(clock.min()), float(clock.max())
    period = np.minimum(((clock - low) / (high - low) * periods).astype(int), periods - 1)
    S = len(log.states)
    x = log.reward - log.reward.mean()
    powers = np.array([x, x**2, x**3, x**4])
    outcome = np.where(log.ended, S, log.next_state)
    edges = _edges(low, high, periods, "whole")
    return Periods(period, log.state.astype(np.int64), log.action, outcome, np.ones(len(log)), powers, edges, by)


def markov_test_of_log(log: Any, level: float = LEVEL) -> Finding:
    """Of a log held in arrays."""
    order, first = log.by_episode()
    s, a, s_next, ended = (x[order] for x in (log.state, log.action, log.next_state, log.ended))
    linked = (s_next[:-1] == s[1:]) & ~ended[:-1] & ~first[1:]
    outcome = np.where(ended, len(log.states), s_next)
    parts = (s[:-1][linked], s[1:][linked], a[1:][linked], outcome[1:][linked], np.ones(int(linked.sum())))
    return markov_change(*parts, len(log.actions), level)


# ---- from a table


def coverage_of_table(log: Any, level: float = LEVEL, periods: int = PERIODS) -> Coverage:
    """Of a log that lies in an engine."""
    counts, q = log.counts(), log.questions
    timed = q.schema.next_state and q.schema.time is not None
    jumps = int(q.jumps().to_pyarrow().as_py()) if timed else None
    cut = _periods_of_table(log, periods)
    drift = drift_of(cut, counts.shape, level, cache(lambda: _periods_of_table(log, periods * FINER)))
    by, memory, remarks = cut.by if cut is not None else None, None, log.remarks
    if log.has_order:
        memory = asked_of_memory(counts, lambda: markov_test_of_table(log, level))
        remarks = remarks if cut is not None else (*remarks, UNCLOCKED)
    else:
        remarks = (
            *remarks,
            f"whether the system changed, or earlier states matter, was not tested: {_unordered(q)}",
        )
    checks = checks_of(log.trace(), level)
    used = len(log), log.dropped, log.skipped
    return Coverage(counts, *used, jumps, drift, by, level, memory, remarks, checks, log.warnings)


def _unordered(q: Any) -> str:
    right = ' (time="row", --time row, if the order of the rows is the time)' if q.ordered else ""
    return f"the log has no time column{right}"


def _periods_of_table(log: Any, periods: int) -> Periods | None:
    q = log.questions
    column, by = _clock(q)
    if column is None:
        return None
    span = q.span(column).to_pyarrow().to_pylist()[0]
    low, high = span["low"], span["high"]
    if low is None or not high > low:
        return None
    counts = log.counts()
    centre = float(counts.reward_sum.sum() / counts.total)
    groups = q.by_period(column, low, high, periods, centre).to_pyarrow()
    states, actions = log.coders
    s, s_next, a = (_find(coder, groups, names) for coder, names in ((states, q.s), (states, q.n), (actions, q.a)))
    ended = np.zeros(len(s), bool)
    if "ended" in groups.column_names:
        ended = groups["ended"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    kept = ended | (s_next >= 0)
    outcome = np.where(ended, len(states.labels), s_next)
    powers = np.array([groups[f"x{i}"].to_numpy() for i in (1, 2, 3, 4)], float)
    period, n = groups["period"].to_numpy().astype(np.int64), groups["n"].to_numpy()
    kind = q.columns()[column].type()
    edges = _edges(low, high, periods, "whole" if kind.is_integer() else "numbers" if kind.is_numeric() else "dates")
    return Periods(period[kept], s[kept].astype(np.int64), a[kept], outcome[kept], n[kept], powers[:, kept], edges, by)


def _clock(q: Any) -> tuple[str | None, str]:
    """The column that tells early rows from late ones, and its name for people."""
    types = q.columns().schema()

    def runs(name: str) -> bool:
        return types[name].is_numeric() or types[name].is_temporal()

    if q.schema.time is None:
        return None, ""
    if q.restarts():  # time begins anew: the episodes themselves are in order
        return (q.e[0], f"episode ({q.schema.episode[0]})") if len(q.e) == 1 and runs(q.e[0]) else (None, "")
    if runs("t"):
        return "t", ROWS if q.schema.time == "row" else f"time ({q.schema.time})"
    return None, ""


def _find(coder: Any, table: Any, names: list[str]) -> Array:
    return coder.find([table[name].combine_chunks() for name in names])


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


def markov_test_of_table(log: Any, level: float = LEVEL) -> Finding:
    """Of a log that lies in an engine; it needs an order."""
    q = log.questions
    if q.schema.time is None:
        raise LogError(f"{log.opened.name}: no row has a state before it: {_unordered(q)}")
    groups = q.by_previous().to_pyarrow()
    states, actions = log.coders
    previous, s, s_next = (_find(states, groups, x) for x in ([f"p{i}" for i in range(len(q.s))], q.s, q.n))
    a = _find(actions, groups, q.a)
    ended = groups["ended"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    outcome = np.where(ended, len(states.labels), s_next)
    return markov_change(previous, s, a, outcome, groups["n"].to_numpy(), len(actions.labels), level)
