"""Where the value of a policy is measured: a weight for every state.

    "episodes"   the first states of the log's episodes, as often as they occur
    "log"        the states of its rows, as often as they occur
    "uniform"    every state that the log has seen, alike
    {label: weight}

Without a word: "episodes" where the log knows its episodes (it has an episode column, or flags for their ends, and an
order), else "log".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dualq.base import Label, LogError, ModelError
from dualq.logs.counts import Counts
from dualq.logs.log import Log

Array = np.ndarray
Start = str | Mapping[Label, float] | None  # a word, or a weight for each of some states


def start_weights(log: Log | Counts, start: Start = None) -> Array:
    """(S,) weights that sum to 1, of a log or of counts, which know no episodes."""
    counts = log if isinstance(log, Counts) else log.counts()
    episodic = None if isinstance(log, Counts) or not log.has_episodes else log
    if start is None:
        start = "log" if episodic is None else "episodes"
    if isinstance(start, Mapping):
        weights = _given(counts, start)
    elif start == "episodes":
        if episodic is None:
            right = 'it has no episode column and no terminal flags, or no order; use "log" or "uniform"'
            raise LogError(f"start is 'episodes', but the log does not say where episodes begin: {right}")
        weights = episodic.starts().astype(float)
    elif start == "log":
        weights = counts.visits.sum(axis=1).astype(float)
    elif start == "uniform":
        seen = np.asarray(counts.visits.sum(axis=1) > 0)
        seen[counts.s_next[~counts.ended]] = True
        weights = seen.astype(float)
    else:
        right = '"episodes", "log", "uniform", or {state label: weight}'
        raise LogError(f"start is {start!r}; it must be {right}")
    total = weights.sum()
    if not total > 0.0:
        raise LogError(f"start is {start!r}, which gives no state any weight; the log has {counts.total} rows")
    return weights / total


def _given(counts: Counts, start: Mapping[Label, float]) -> Array:
    weights = np.zeros(len(counts.states))
    for label, weight in start.items():
        try:
            place = counts.states.index(label)
        except ModelError as error:
            raise LogError(f"start: {error}") from None
        if not 0.0 <= float(weight) < np.inf:
            raise LogError(f"start: the weight of {counts.states.describe(place)} is {weight!r}; it must be at least 0")
        weights[place] += float(weight)
    return weights
