"""Set aside: are the rows that were set aside as bad like the others?

If they are, a row's being set aside tells nothing of what can still be read in it:

    states         given the state and the action before
    actions        given the state
    next states    given (s, a)
    rewards        given (s, a), where a bad row has one

Each is a fresh draw given what stands before it, so that bad rows may come in runs. alike_tables and alike_scores, a
quarter of the level each. That rewards are missing where they were bad shows only as far as it shows in these: what
nobody wrote down nobody can test (`trust.py` asks).
"""

from __future__ import annotations

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import alike_scores, alike_tables, scores
from dualq.logs.checks.trace import Trace

MOST = 300_000  # rows, beside those set aside


def set_aside(trace: Trace, level: float) -> Finding | None:
    """Are the rows that were set aside like the others?"""
    if not trace.bad.any():
        return None
    bad, pair, outcome, finite = trace.bad, trace.pair, trace.outcome, np.isfinite(trace.r)
    looked_at = bad.copy()
    looked_at[:: 1 + len(trace) // MOST] = True
    known = looked_at & (trace.s >= 0) & (trace.a >= 0)
    acted, led, paid = np.flatnonzero(known), np.flatnonzero(known & (outcome >= 0)), np.flatnonzero(known & finite)
    came = np.flatnonzero(looked_at & trace.follows)
    asked = {
        "their states": alike_tables(pair[came - 1], bad[came], trace.s[came]),
        "their actions": alike_tables(trace.s[acted], bad[acted], trace.a[acted]),
        "their next states": alike_tables(pair[led], bad[led], outcome[led]),
        "their rewards": alike_scores(pair[paid], bad[paid], scores(pair[paid], trace.r[paid])),
    }
    what, outcome = min(asked.items(), key=lambda item: item[1].log_p)
    p = min(1.0, len(asked) * outcome.p_value)
    tested = max(one.tested for one in asked.values())
    found = p <= level
    if found:
        words = f"the rows set aside differ from the others in {what} ({p_value(p)}): they are not missing by chance"
    elif tested:
        words = f"no sign that the rows set aside differ from the others ({p_value(p)})"
    else:
        words = "too few rows were set aside to compare them with the others"
    return Finding("set aside", found, p, tested, None, words)
