"""Memory: does the row before help to predict what a decision earns, or where it leads?

If the state says all that matters, rewards (and each cost) given (s, a, s'), and next states given (s, a), do not
depend on the row before. Rows are put together by the action before, by the state before, and by both:

    rewards, costs   their ranks among those of the same (s, a, s'): alike_scores, grouped by (s, a)
    next states      alike_tables, grouped by (s, a), by the action before; `coverage` asks for the state before

Given what came before it every row is a fresh draw, so that rows of an episode depend on each other does not matter.
With K questions each has the level / K. Where rewards have no noise, a reward that differs at all is found. A
long log is read in its last MOST rows.
"""

from __future__ import annotations

import numpy as np

from dualq.logs.change import Outcome, alike_scores, alike_tables, scores
from dualq.logs.findings import Finding
from dualq.logs.trace import Trace
from dualq.plain import p_value

MOST = 300_000  # rows
WHICH = ("the action before", "the state before", "the state and the action before")
ADVICE = {
    "the action before": "add the previous action to the state",
    "the state before": "add what the state leaves out, or the previous state",
    "the state and the action before": "add the previous state and action to the state",
}


def memory(trace: Trace, level: float) -> Finding | None:
    """Does what is earned, or what follows, depend on the row before?"""
    here = np.flatnonzero(trace.follows & trace.used)[-MOST:]
    if here.size == 0:
        return None
    before = here - 1
    pair = trace.pair[here]
    step = pair * (trace.shape[0] + 1) + trace.outcome[here]
    labels = dict(zip(WHICH, (trace.a[before], trace.s[before], trace.pair[before]), strict=True))
    asked: dict[tuple[str, str], Outcome] = {}
    for name, x in {"rewards depend": trace.r, **{f"{c} depends": x for c, x in trace.costs.items()}}.items():
        ranks = scores(step, x[here])
        for which, label in labels.items():
            asked[name, which] = alike_scores(pair, label, ranks)
    asked["next states depend", WHICH[0]] = alike_tables(pair, labels[WHICH[0]], trace.outcome[here])
    (what, which), outcome = min(asked.items(), key=lambda item: item[1].log_p)  # the first of equals
    p = min(1.0, len(asked) * outcome.p_value)
    tested = max(one.tested for one in asked.values())
    found = p <= level
    if found:
        words = f"{what} on {which} too ({p_value(p)}): {ADVICE[which]}"
    elif tested:
        words = f"no sign that earlier rows matter ({p_value(p)})"
    else:
        words = "too few rows to test whether earlier rows matter"
    return Finding("memory", found, p, tested, None, words)
