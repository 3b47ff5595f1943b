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

from dualq.base import Label, LogError, as_distribution, checked_weights
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
        weights = checked_weights("start", start, counts.states, LogError)
    elif start == "episodes":
        if episodic is None:
            right = 'it has no episode column and no terminal flags, or no order; use "log" or "uniform"'
            raise LogError(
                f"start is 'episodes', but the log does not say where episodes begin: {right}",
                argument="start",
                value=start,
            )
        weights = episodic.starts().astype(float)
    elif start == "log":
        weights = counts.visits.sum(axis=1).astype(float)
    elif start == "uniform":
        seen = np.asarray(counts.visits.sum(axis=1) > 0)
        seen[counts.s_next[~counts.ended]] = True
        weights = seen.astype(float)
    else:
        right = '"episodes", "log", "uniform", or {state label: weight}'
        raise LogError(f"start is {start!r}; it must be {right}", argument="start", value=start)
    return as_distribution("start", weights, LogError)
