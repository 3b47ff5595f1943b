"""Cycles: do rewards or next states follow a rhythm in time that the state does not contain?

Periods   Rows are put together by t mod p, for the usual periods p of a clock in whole numbers, and of the step in the
          episode; by hour, weekday and month where the clock is a date. Next states given (s, a) by alike_tables;
          rewards and costs by alike_scores, grouped by (s, a), of their ranks among those of the same (s, a, s').
          Where the phase is in the state, it is the same for all rows of a pair, and nothing is left to compare. Half
          of the level, shared by all questions.
Lags      Cycles of other lengths, and shocks that last, show in e, the rank of a reward among those of its (s, a, s').
          In any order of the numbers within their groups E e_i e_j = 0, but -m2 / (N - 1) within one group of N numbers
          with variance m2. So z = sum (e_i e_j - E) / sqrt(sum (e_i e_j)^2) over all rows i, j = i + lag of one episode
          is about normal. Lags 1 to 30 share the other half of the level. Without noise in rewards this says nothing.
A long log is read in its last MOST rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import log_ndtr

from dualq.logs.change import Outcome, alike_scores, alike_tables, scores
from dualq.logs.findings import Finding
from dualq.logs.trace import Trace
from dualq.plain import p_value

Array = np.ndarray

PERIODS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 24, 28, 30, 52, 60)
LAGS = range(1, 31)
MOST = 100_000  # rows
FEWEST = 100  # products of residuals, for their sum to be about normal
DAY = 86400


def cycle(trace: Trace, level: float) -> Finding | None:
    """Is there a rhythm in time that the state does not contain?"""
    used = np.flatnonzero(trace.used)[-MOST:]
    if used.size == 0:
        return None
    pair, outcome = trace.pair[used], trace.outcome[used]
    step = pair * (trace.shape[0] + 1) + outcome
    ranks = {name: scores(step, x[used]) for name, x in {"rewards": trace.r, **trace.costs}.items()}
    asked: list[tuple[str, str, Outcome]] = []
    for name, phase in _phases(trace, used):
        asked.append((name, "next states", alike_tables(pair, phase, outcome)))
        asked += [(name, x, alike_scores(pair, phase, ranks[x])) for x in ranks]
    lags = list(_lags(trace, used, step, ranks["rewards"]))
    by_period = min(asked, key=lambda one: one[2].log_p, default=None)
    by_lag = min(lags, key=lambda one: one[1], default=None)
    p_period = 1.0 if by_period is None else 2.0 * len(asked) * by_period[2].p_value
    p_lag = 1.0 if by_lag is None else float(2.0 * len(lags) * np.exp(by_lag[1]))
    p = min(1.0, p_period, p_lag)
    tested = max((one[2].tested for one in asked), default=0) + len(lags)
    found = p <= level
    if not found:
        words = f"no sign of a cycle in time ({p_value(p)})" if tested else "too few rows to test for cycles in time"
    elif by_period is not None and p_period <= level:
        name, what, _ = by_period
        words = f"{what} depend on {name} too ({p_value(p)}): add it to the state"
    else:
        lag = by_lag[0] if by_lag is not None else 0
        words = (
            f"rewards depend on those {lag} rows before too ({p_value(p)}): a rhythm, or something that lasts, is not "
            "in the state"
        )
    return Finding("cycle", found, p, tested, None, words)


def _phases(trace: Trace, used: Array) -> Iterator[tuple[str, Array]]:
    """Where in each period the rows are, and what to call it; never the same twice."""
    t, begins = trace.t[used], np.flatnonzero(trace.first)
    step = used - begins[np.searchsorted(begins, used, "right") - 1]
    if trace.dates and np.isfinite(t).all():
        day = np.floor(t / DAY).astype(np.int64)
        named = {
            "the hour of the day": np.floor(t % DAY / 3600).astype(np.int64),
            "the day of the week": (day + 3) % 7,
            "the month": day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12,
        }
        yield from ((name, phase) for name, phase in named.items() if phase.min() < phase.max())
    whole = not trace.dates and np.isfinite(t).all() and (t == np.floor(t)).all()
    clock = t.astype(np.int64) if whole and np.abs(t).max() < 2**53 else None
    same = clock is not None and np.unique(clock - step).size == 1
    for p in PERIODS:
        if clock is not None:
            yield f"where {_name(trace)} is in a cycle of {p}", clock % p
        if not same and step.max() > 0:
            yield f"where a row is in a cycle of {p} rows", step % p


def _name(trace: Trace) -> str:
    name = trace.names.get("time", "")
    return name if name not in ("", "None") else "time"


def _lags(trace: Trace, used: Array, step: Array, e: Array) -> Iterator[tuple[int, float]]:
    """For every lag the log of the p-value of its sum."""
    _, g, N = np.unique(step, return_inverse=True, return_counts=True)
    m2 = np.bincount(g, e * e) / np.maximum(N - 1, 1) / N  # what a product of two of one group lacks
    episode = np.cumsum(trace.first)[used]
    for lag in LAGS:
        i, j = slice(0, -lag), slice(lag, None)
        apart = (used[j] - used[i] == lag) & (episode[i] == episode[j])
        product = (e[i] * e[j])[apart]
        if np.count_nonzero(product) < FEWEST:
            continue
        expected = -(m2[g[i]] * (g[i] == g[j]))[apart]
        z = (product - expected).sum() / np.sqrt((product**2).sum())
        yield lag, float(np.log(2.0) + log_ndtr(-abs(z)))
