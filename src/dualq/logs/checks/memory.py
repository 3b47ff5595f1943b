"""Memory: do rows before help to predict what a decision earns, or where it leads?

If the state says all that matters, rewards (and each cost) given (s, a, s'), and next states given (s, a), do not
depend on what came before.

The row before   Rows are put together by the action before, by the state before, and by both. Rewards and costs, as
                 their ranks among those of the same (s, a, s'): alike_scores, grouped by (s, a). Next states, by the
                 action before: alike_tables, grouped by (s, a); `coverage` asks for the state before. Given what came
                 before it every row is a fresh draw, so that rows of an episode depend on each other does not matter.
Rows farther     Something that lasts, and that the state lacks, shows in e, the rank of a reward among those of its
back             (s, a, s'). In any order of the numbers within their groups E e_i e_j = 0, but -m2 / (N - 1) within one
                 group of N numbers with variance m2. So z = sum (e_i e_j - E) / sqrt(sum (e_i e_j)^2) over all rows i
                 and j = i + lag of one episode is about normal. Lags 1 to 30.

Each of the two has half of the level, shared by its questions. Where rewards have no noise, a reward that differs at
all is found by the first, and the second says nothing. A long log is read in its last MOST rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import log_ndtr

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_scores, alike_tables, scores
from dualq.logs.checks.trace import Trace

Array = np.ndarray

MOST = 300_000  # rows
LAGS = range(1, 31)
FEWEST = 100  # products of ranks, for their sum to be about normal
ADVICE = {
    "the action before": "add a column with the previous action to the state",
    "the state before": "add what the state leaves out, or the previous state",
    "the state and the action before": "add columns with the previous state and action to the state",
}


def memory(trace: Trace, level: float) -> Finding | None:
    """Does what is earned, or what follows, depend on rows before?"""
    asked, lags = _row_before(trace), dict(_farther_back(trace))
    (what, which), outcome = min(asked.items(), key=lambda item: item[1].log_p)  # the first of equals
    lag = min(lags, key=lambda lag: lags[lag], default=0)
    p_before = 2 * len(asked) * outcome.p_value
    p_lag = 2 * len(lags) * float(np.exp(lags[lag])) if lags else 1.0
    p = min(1.0, p_before, p_lag)
    tested = max(one.tested for one in asked.values()) + len(lags)
    found = p <= level
    if found and p_before <= level:
        words = f"{what} on {which} too ({p_value(p)}): {ADVICE[which]}"
    elif found:
        rows = "the row before" if lag == 1 else f"those {lag} rows before"
        words = f"rewards depend on {rows} too ({p_value(p)}): add to the state what lasts that long"
    elif tested:
        words = f"no sign that earlier rows matter ({p_value(p)})"
    else:
        words = "too few rows to test whether earlier rows matter"
    return Finding("memory", found, p, tested, None, words)


def _row_before(trace: Trace) -> dict[tuple[str, str], Outcome]:
    """{(what depends, on what): the test}."""
    here = np.flatnonzero(trace.follows & trace.used)[-MOST:]
    before = here - 1
    pair, outcome = trace.pair[here], trace.outcome[here]
    labels = dict(zip(ADVICE, (trace.a[before], trace.s[before], trace.pair[before]), strict=True))
    asked = {}
    for name, x in {"rewards depend": trace.r, **{f"{c} depends": x for c, x in trace.costs.items()}}.items():
        ranks = scores(pair * (trace.shape[0] + 1) + outcome, x[here])
        asked |= {(name, which): alike_scores(pair, label, ranks) for which, label in labels.items()}
    which = "the action before"
    return {**asked, ("next states depend", which): alike_tables(pair, labels[which], outcome)}


def _farther_back(trace: Trace) -> Iterator[tuple[int, float]]:
    """For every lag the logarithm of the p-value of its sum."""
    used = np.flatnonzero(trace.used)[-MOST // 3 :]
    step = trace.pair[used] * (trace.shape[0] + 1) + trace.outcome[used]
    e = scores(step, trace.r[used])
    if not e.any():
        return
    _, g, N = np.unique(step, return_inverse=True, return_counts=True)
    lacks = np.bincount(g, e * e) / np.maximum(N - 1, 1) / N  # of a product of two of one group
    episode = np.cumsum(trace.first)[used]
    for lag in LAGS:
        i, j = slice(0, -lag), slice(lag, None)
        apart = (used[j] - used[i] == lag) & (episode[i] == episode[j])
        product = (e[i] * e[j])[apart]
        if np.count_nonzero(product) < FEWEST:
            continue
        expected = -(lacks[g[i]] * (g[i] == g[j]))[apart]
        z = (product - expected).sum() / np.sqrt((product**2).sum())
        yield lag, float(np.log(2.0) + log_ndtr(-abs(z)))
