"""Gaps: are rows before a gap in a regular clock like the others?

Rows that are missing are seen by the gap that they leave (episodes.py). If they are missing regardless of what they
showed, the rows before them earn what others do in the same state and action, and have the actions of others in the
same state and quarter of the time. Where they do not, rows may be missing because of what they showed, and those that
are left tell of another system. Moments at which nearly all rows have a gap are pauses of the recording, and are not
compared. The false alarms of all comparisons together are at most `level`.
"""

from __future__ import annotations

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.marked import difference_in, other_choices
from dualq.logs.checks.trace import Trace

Array = np.ndarray

FEWEST = 5  # rows before gaps
PAUSE = 0.9  # of the rows of a moment
QUARTERS = (0.25, 0.5, 0.75)


def gaps(trace: Trace, level: float) -> Finding | None:
    """Whether rows before gaps are like the others; None where there are none."""
    if trace.gap is None:
        return None
    before, others = before_gaps(trace)
    if before.sum() < FEWEST:
        return None
    time, column = trace.names.get("time", "time"), trace.names.get("reward", "reward")
    earned = difference_in(trace, before, others, trace.r)
    quarter = np.searchsorted(np.quantile(trace.t[others], QUARTERS), trace.t)
    acted = other_choices(
        before, others, np.where(trace.s >= 0, trace.s * 4 + quarter, -1), trace.a, 4 * trace.shape[0]
    )
    p = min(1.0, 2.0 * min(earned.p_value, acted))
    whose = f"rows before gaps in {time}"
    if p > level:
        return Finding(
            "gaps", False, p, earned.tested, None, f"no sign that {whose} differ from the others ({p_value(p)})"
        )
    said = earned.words(whose, column)
    if earned.p_value > level / 2.0:
        said = f"{whose} have other actions in the same states ({p_value(acted)})"
    elif acted <= level / 2.0:
        said += f", and other actions in the same states ({p_value(acted)})"
    return Finding("gaps", True, p, earned.tested, None, f"{said}: rows may be missing because of what they showed")


def before_gaps(trace: Trace) -> tuple[Array, Array]:
    """(rows,) those before a gap that is no pause of the recording, and those before none."""
    gap = np.zeros(len(trace), bool) if trace.gap is None else trace.gap
    usable = ~trace.bad & ~trace.ended & ~trace.last
    paused = np.zeros(len(trace), bool) if trace.restarts else _paused(trace, usable)
    return usable & gap & ~paused, usable & ~gap


def _paused(trace: Trace, usable: Array) -> Array:
    """(rows,) whether nearly all rows of the moment have a gap."""
    moment = np.unique(trace.t, return_inverse=True)[1]
    rows = np.bincount(moment[usable], minlength=moment.max() + 1)
    gap = np.bincount(moment[usable & trace.gap], minlength=rows.size)
    return ((rows >= FEWEST) & (gap >= PAUSE * rows))[moment]
