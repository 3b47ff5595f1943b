"""The Markov test: does the state before help to predict the next, given state and action?

If so, the columns of the state miss something. Its level is its own, apart from the other checks. Where the dynamics
change, it finds something too. It is not made in logs of over 20 million rows, unless somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualq.base import LogError, count, p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import alike_counts, cells
from dualq.logs.checks.trace import Trace
from dualq.logs.counts import Counts
from dualq.logs.reading.arrow import numbers_of
from dualq.logs.reading.counting import Counted, flags_of
from dualq.logs.reading.engines import answer
from dualq.logs.reading.queries import Questions

Array = np.ndarray

MOST_ROWS, MOST_CELLS = 20_000_000, 1_000_000  # beyond these the test takes longer than all the rest


def markov_of_trace(trace: Trace, level: float) -> Finding:
    """Of rows held in arrays."""
    linked = (trace.follows & trace.used)[1:]
    now = (column[1:][linked] for column in (trace.s, trace.a, trace.outcome))
    (before, s, a, outcome), which = cells(trace.s[:-1][linked], *now)
    return _tested(before, s, a, outcome, np.bincount(which, minlength=s.size), trace.shape[1], level)


def markov_of_table(name: str, counted: Counted, level: float) -> Finding:
    """Of a log that lies in an engine; it needs an order."""
    q, states, actions = counted.questions, counted.states, counted.actions
    if q.schema.time is None:
        raise LogError(f"{name}: no row has a state before it: {unordered(q)}")
    groups = answer(q.by_previous())
    before, s, s_next = (states.found_in(groups, x) for x in ([f"p{i}" for i in range(len(q.s))], q.s, q.n))
    outcome = np.where(flags_of(groups, "ended"), len(states.labels), s_next)
    a, n = actions.found_in(groups, q.a), numbers_of(groups["n"])
    return _tested(before, s, a, outcome, n, len(actions.labels), level)


def unordered(q: Questions) -> str:
    """Why nothing can be said of what came before, and what would help."""
    right = ' (time="row", --time row, if the order of the rows is the time)' if q.ordered else ""
    return f"the log has no time column{right}"


def _tested(previous: Array, s: Array, a: Array, outcome: Array, n: Array, num_actions: int, level: float) -> Finding:
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


def if_not_too_long(counts: Counts, test: Callable[[], Finding]) -> Finding:
    """The test; not made where the log is long, or its states so many that it would have too many cells."""
    into = np.bincount(counts.s_next[~counts.ended], minlength=len(counts.states))  # entries, not states: no fewer
    out = np.bincount(counts.s, minlength=len(counts.states))
    cells = min(counts.total, int((into * out).sum()))
    if counts.total <= MOST_ROWS and cells <= MOST_CELLS:
        return test()
    size = count(counts.total, "row") if counts.total > MOST_ROWS else f"up to {cells:,} cells"
    words = f"whether earlier states matter was not tested ({size}); log.markov_test() does it"
    return Finding("memory", False, 1.0, 0, None, words)
