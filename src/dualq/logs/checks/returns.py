"""What the log really earned, beside what the model says that it earned.

Return   of an episode, G = sum_i alpha^i r_i over its rows. Where its recording stopped, what comes after is filled in
         by the model: alpha^T V(s_T), and `filled` is the weight that this has on average. The sum ends at a row that
         was set aside, or whose next state is not the state of the following row.
Test     With V the value of the logged behaviour in the log's own model, G - V(s_0) = sum_i alpha^i delta_i, where
         delta = r + alpha V(s') - V(s) adds up to 0 over the rows of every state. So the weights alpha^i may be
         centred in every state without changing the sum; what is left has mean 0 where the model holds, and a variance
         that is estimated from its sums over episodes, or over moments of a shared clock if that is more. A last row
         without a successor is in no count; its delta is what it earned less what its pair earns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.trace import Trace

Array = np.ndarray

FEWEST = 10  # episodes
MOST_FILLED = 0.5  # of the weight of the returns, by the model: more would compare the model with itself


class Returns(NamedTuple):
    """The mean discounted return of the log's own episodes, and whether the model agrees."""

    value: float
    standard_error: float | None
    episodes: int
    filled: float  # the part of the weight that the model had to fill in
    finding: Finding | None  # None: the model says the same whatever the log earned


def returns_of(trace: Trace, V: Array, rewards: Array, onward: Array, discount: float, level: float) -> Returns | None:
    """From V (S,) of the logged behaviour, mean rewards and onward = alpha P V (S, A); None without episodes."""
    if not (trace.has_episodes or trace.flagged) or len(trace) == 0 or not trace.whole:
        return None
    episode, step = _episodes(trace)
    weight = discount**step
    heard = _heard(trace, episode)
    last = heard & np.append(~heard[1:] | (np.diff(episode) != 0), True)  # the last row that is heard of each episode
    s, a = np.maximum(trace.s, 0), np.maximum(trace.a, 0)
    known = trace.ended | (trace.s_next >= 0)
    after = np.where(known, np.where(trace.ended, 0.0, discount * V[trace.s_next]), onward[s, a])
    r = np.where(heard, np.nan_to_num(trace.r), 0.0)
    count = int(episode[-1]) + 1
    G = np.bincount(episode, weight * (r + np.where(last, after, 0.0)), count)
    begun = np.bincount(episode, heard, count) > 0
    G = G[begun]
    tail = np.bincount(episode, np.where(last & ~trace.ended, discount * weight, 0.0), count)[begun]
    filled = float(tail.mean()) if tail.size else 1.0
    if G.size == 0 or filled > MOST_FILLED:
        return None
    error = float(G.std(ddof=1) / np.sqrt(G.size)) if G.size > 1 else None
    delta = np.where(known, r + after - V[s], r - rewards[s, a])
    finding = _test(trace, episode, heard, known, s, weight, np.where(heard, delta, 0.0), G, V, level, filled)
    return Returns(float(G.mean()), error, int(G.size), filled, finding)


def _episodes(trace: Trace) -> tuple[Array, Array]:
    """Which episode a row belongs to, and how many rows of it came before."""
    episode = np.cumsum(trace.first) - 1
    begins = np.flatnonzero(trace.first)
    return episode, np.arange(len(trace)) - begins[episode]


def _heard(trace: Trace, episode: Array) -> Array:
    """The rows of an episode up to the first that is bad, or that the row before did not lead to."""
    broken = trace.bad | (~trace.first & ~trace.follows)
    return np.cumsum(broken) == np.concatenate([[0], np.cumsum(broken)])[np.flatnonzero(trace.first)][episode]


def _test(
    trace: Trace,
    episode: Array,
    heard: Array,
    known: Array,
    s: Array,
    weight: Array,
    delta: Array,
    G: Array,
    V: Array,
    level: float,
    filled: float,
) -> Finding | None:
    counted = heard & known
    rows = np.bincount(s[counted], minlength=V.size)
    mean_weight = np.bincount(s[counted], weight[counted], V.size) / np.maximum(rows, 1)
    Z = np.where(counted, weight - mean_weight[s], weight) * delta
    sums = [np.bincount(episode, Z)]
    if not trace.restarts and np.isfinite(trace.t).all():
        sums.append(np.bincount(np.unique(trace.t, return_inverse=True)[1], Z))
    variance = max(float((x**2).sum()) for x in sums)
    if G.size >= FEWEST and not variance > 0.0:  # one decision in each episode: the sum over a state is 0 in any log
        return None
    if G.size < FEWEST:
        return Finding("returns", False, 1.0, 0, None, "too few episodes to compare what the log earned with the model")
    model = float(G.mean() - (weight * delta).sum() / G.size)
    p = float(2.0 * ndtr(-abs((weight * delta).sum()) / np.sqrt(variance)))
    both = f"the log's episodes earned {G.mean():.4g} on average, and the model says {model:.4g} ({p_value(p)})"
    found = p <= level
    words = f"what the log earned agrees with the model: {both}"
    if found:
        causes = "how episodes end, their order, and what the state leaves out"
        words = f"{both}: the model does not describe this log. Check {causes}"
    return Finding("returns", found, p, int(G.size), None, words)
