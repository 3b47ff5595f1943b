"""Recent: is the end of the log like all before? That is where the policy will live.

The last 2%, 5% and 10% of the rows, by the clock that all share, against all rows before. Where time begins anew in
each episode, these are the episodes of the highest numbers or the latest dates; names that are words do not say which
came last, and nothing is said. Asked are next states given (s, a), by alike_tables; rewards and costs by alike_scores,
grouped by (s, a), of their ranks among those of the same (s, a, s'), or of another `score`. Both hold however few the
last rows are. With K questions each has the level / K. The part that differs most says since when. Of a long log every
second, third, ... row is read.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_scores, alike_tables, scores
from dualq.logs.checks.trace import Trace

Array = np.ndarray

MOST = 300_000  # rows
PARTS = (0.02, 0.05, 0.1)
FINER = tuple(0.01 * k for k in range(1, 13))  # to tell since when, once something is found


def recent(trace: Trace, level: float, score: Callable[[Array, Array], Array] = scores) -> Finding | None:
    """Did the system change near the end of the log? `score` says in what numbers are compared."""
    if trace.restarts and not trace.numbered:
        return None
    used = np.flatnonzero(trace.used)
    used = used[:: 1 + used.size // MOST]
    clock = (trace.episode if trace.restarts else trace.t)[used].astype(float)
    if used.size == 0 or not np.isfinite(clock).all() or clock.min() == clock.max():
        return None
    cuts = {part: float(np.quantile(clock, 1.0 - part, method="higher")) for part in {*PARTS, *FINER}}
    tests = _tests(trace, used, score)
    asked = {(part, what): test(clock >= cuts[part]) for part in PARTS for what, test in tests.items()}
    (part, what), outcome = min(asked.items(), key=lambda item: item[1].log_p)
    p = min(1.0, len(asked) * outcome.p_value)
    tested = max(one.tested for one in asked.values())
    found = p <= level
    if not tested:
        words = "too few rows to compare the end of the log with the rest"
    elif not found:
        words = f"no sign that the end of the log differs from the rest ({p_value(p)})"
    else:
        part = min(FINER, key=lambda part: tests[what](clock >= cuts[part]).log_p)
        since = _since(trace, cuts[part], part)
        words = f"the system changed near the end of the log ({since}, {p_value(p)}): {what}; {_advice(trace)}"
    return Finding("recent", found, p, tested, None, words)


def _tests(trace: Trace, used: Array, score: Callable[[Array, Array], Array]) -> dict[str, Callable[[Array], Outcome]]:
    """{what would have changed: whether it did, from which rows are late}."""
    pair, outcome = trace.pair[used], trace.outcome[used]
    step = pair * (trace.shape[0] + 1) + outcome
    numbers = {
        "the same step pays otherwise": trace.r,
        **{f"{c} is not what it was": x for c, x in trace.costs.items()},
    }
    ranks = {what: score(step, x[used]) for what, x in numbers.items()}
    return {
        "the same action leads elsewhere": lambda late: alike_tables(pair, late, outcome),
        **{what: partial(alike_scores, pair, x=x) for what, x in ranks.items()},
    }


def _since(trace: Trace, cut: float, part: float) -> str:
    if trace.restarts:
        return f"in the last {part:.0%} of the episodes"
    if trace.dates:
        return f"since {datetime.datetime.fromtimestamp(cut, datetime.UTC):%Y-%m-%d}"
    return f"since {trace.names.get('time', 'time')} {cut:.10g}"


def _advice(trace: Trace) -> str:
    if trace.restarts:
        return "what is learned from the episodes before may not hold any more"
    return "learn from the rows since then (--since) once there are enough of them"
