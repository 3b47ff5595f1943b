"""Bins: does a number that was cut into bins still tell something within its bin?

If bins lose nothing, then given (s, a), where s says in which bin a number x is, what follows does not depend on x. The
rows of every pair are put into two halves, up to the median of x in them and above, and compared:

    next states        alike_tables, grouped by (s, a)
    next bins          their place, 0, 1, 2, ..., for every column in bins: alike_scores, which sees small shifts better
    rewards, costs     alike_scores, grouped by (s, a)

With K questions each has the level / K. Almost every number moves on from where it was, so with rows enough bins almost
always lose something: what is found is that, and the more the log has rows the less it takes. A long log is read in its
last MOST rows.

Cells that are no bins (a tree of several columns) are asked the same: whether a column, within its cell and action,
still predicts the numbers that the cells were made to predict.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_scores, alike_tables, scores
from dualq.logs.checks.trace import Trace

Array = np.ndarray

MOST = 300_000  # rows


def bins(trace: Trace, level: float) -> Finding | None:
    """Does the number itself, within its bin, still predict what follows?"""
    if not trace.raw:
        return None
    finite = np.logical_and.reduce([np.isfinite(x) for x in trace.raw.values()])
    used = np.flatnonzero(trace.used & finite)[-MOST:]
    if used.size == 0:
        return None
    pair, outcome = trace.pair[used], trace.outcome[used]
    places = {column: _bin_of_state(trace, column, finite)[trace.s_next[used]] for column in trace.raw}
    asked: dict[tuple[str, str], Outcome] = {}
    for column, x in trace.raw.items():
        half = upper_half(pair, x[used])
        asked[column, "follows"] = alike_tables(pair, half, outcome)
        for place in places.values():
            some = ~trace.ended[used] & (place >= 0)
            outcome_of = alike_scores(pair[some], half[some], scores(pair[some], place[some]))
            if outcome_of.log_p < asked[column, "follows"].log_p:
                asked[column, "follows"] = outcome_of
        for name, numbers in {"is earned": trace.r, **trace.costs}.items():
            asked[column, name] = alike_scores(pair, half, scores(pair, numbers[used]))
    questions = len(trace.raw) * (1 + len(places) + 1 + len(trace.costs))
    (column, what), best = min(asked.items(), key=lambda item: item[1].log_p)
    p = min(1.0, questions * best.p_value)
    tested = max(one.tested for one in asked.values())
    found = p <= level
    if found:
        predicted = f"what {what}" if what in ("follows", "is earned") else what
        more = 2 * (len(trace.bins[column].edges) + 1)
        words = (
            f"inside the bins of {column} the number itself still predicts {predicted} ({p_value(p)}): use more bins, "
            f"or other edges (--bins {column}={more})"
        )
    elif tested:
        words = f"no sign that the bins lose information ({p_value(p)})"
    else:
        words = "too few rows to test whether the bins lose information"
    return Finding("bins", found, p, tested, None, words)


def inside_cells(pair: Array, columns: Mapping[str, Array], told: Mapping[str, Array], level: float) -> Finding:
    """Does a column, within a cell and action, still predict what is told? (rows,) each; pair: cell and action."""
    pair, most = pair[-MOST:], slice(-MOST, None)
    ranks = {name: scores(pair, y[most]) for name, y in told.items()}
    asked: dict[tuple[str, str], Outcome] = {}
    for column, x in columns.items():
        half = upper_half(pair, x[most])
        asked |= {(column, name): alike_scores(pair, half, y) for name, y in ranks.items()}
    (column, what), best = min(asked.items(), key=lambda item: item[1].log_p)
    p = min(1.0, len(asked) * best.p_value)
    tested = max(one.tested for one in asked.values())
    if p <= level:
        predicted = "what is earned and follows" if what == "is earned" else what
        words = f"inside the cells {column} still predicts {predicted} ({p_value(p)}): what is said of them is rough"
    elif tested:
        words = f"no sign that the cells lose information ({p_value(p)})"
    else:
        words = "too few rows to test whether the cells lose information"
    return Finding("bins", p <= level, p, tested, None, words)


def upper_half(group: Array, x: Array) -> Array:
    """Whether a number is above the median of its group; at it, where none is above."""
    order = np.lexsort((x, group))
    begins = np.flatnonzero(np.append(True, np.diff(group[order]) != 0))
    size = np.diff(np.append(begins, group.size))
    where = np.repeat(np.arange(begins.size), size)
    sorted_x = x[order]
    median, top = sorted_x[begins + (size - 1) // 2], sorted_x[begins + size - 1]
    half = np.empty(x.size, bool)
    half[order] = np.where((top > median)[where], sorted_x > median[where], sorted_x >= median[where])
    return half


def _bin_of_state(trace: Trace, column: str, finite: Array) -> Array:
    """(S,) the bin of the column in each state; -1 where no row is in it."""
    row = np.full(trace.shape[0], -1)
    known = np.flatnonzero(finite & (trace.s >= 0))
    row[trace.s[known]] = known
    place = np.searchsorted(trace.bins[column].edges, trace.raw[column][row], "right")
    return np.where(row >= 0, place, -1)
