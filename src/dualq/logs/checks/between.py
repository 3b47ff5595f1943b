"""Two logs of one system: did something change between them? Asked of their counts alone, so that no old row is needed.

    behaviour   P(a | s): it may change, and does where a new policy is in use
    dynamics    P(s' | s, a): it must not
    rewards     E(r | s, a, s'): neither

The tables of counts are compared as those of periods are (drift.py, homogeneity.py). Of rewards counts keep sums and
sums of squares: for every (s, a, s') with ENOUGH rows in both, under one distribution, SSB / SST of the two rows is
about Beta(1/2, N/2 - 1) (the F test), and the sum over groups of the squared normal scores about chi-square. Together
dynamics and rewards raise a false alarm with probability at most `level`, as far as these distributions hold.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, ndtri

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.homogeneity import Outcome, alike_counts, cells, log_tail, together
from dualq.logs.counts import Counts

Array = np.ndarray

ENOUGH = 20  # rows of (s, a, s') in each of the two logs, for their mean rewards to be compared
LEAST_P = 1e-300
SEEN = {
    "behaviour": "decisions are made differently in the new rows",
    "dynamics": "the same action leads to different states in the new rows: the system changed",
    "rewards": "the same decision earns different rewards in the new rows: rewards changed",
}
NOT_SEEN = {
    "behaviour": "decisions are made as before",
    "dynamics": "no sign that the system changed between the old rows and the new",
    "rewards": "no sign that rewards changed between the old rows and the new",
}


def between(old: Counts, new: Counts, level: float) -> dict[str, Finding]:
    """The three tests; counts of the same labels, in the same order."""
    S, A = old.shape
    row = np.repeat([0, 1], [old.n.size, new.n.size])
    s, a, outcome, n = (
        np.concatenate([getattr(one, name) for one in (old, new)]) for name in ("s", "a", "successor", "n")
    )
    pair = s.astype(np.int64) * A + a
    outcomes = {
        "behaviour": (alike_counts(s, row, a, n), level),
        "dynamics": (alike_counts(pair, row, outcome, n), level / 2),
        "rewards": (_alike_rewards(pair * (S + 1) + outcome, row, n, old, new), level / 2),
    }
    return {what: _finding(what, outcome, at) for what, (outcome, at) in outcomes.items()}


def _finding(what: str, outcome: Outcome, level: float) -> Finding:
    found = bool(outcome.tested and outcome.p_value <= level)
    words = f"{SEEN[what] if found else NOT_SEEN[what]} ({p_value(outcome.p_value)})"
    if not outcome.tested:
        words = f"too few rows to compare the {what} of the new rows with the old"
    return Finding(what, found, outcome.p_value, outcome.tested, None, words)


def _alike_rewards(group: Array, row: Array, n: Array, old: Counts, new: Counts) -> Outcome:
    """Whether each group's mean reward is the same in both logs."""
    sums = [np.concatenate([getattr(one, x) for one in (old, new)]) for x in ("reward_sum", "reward_square_sum")]
    _, g = cells(group)
    both = np.bincount(g[n >= ENOUGH])
    used = np.isin(g, np.flatnonzero(both == 2)) & (n >= ENOUGH)
    if not used.any():
        return Outcome(0.0, 0)
    groups, g = np.unique(g[used], return_inverse=True)
    n, (S1, S2) = n[used].astype(float), (x[used] for x in sums)
    N, total, squares = (np.bincount(g, x) for x in (n, S1, S2))
    SST = squares - total**2 / N
    SSB = np.bincount(g, S1**2 / n) - total**2 / N
    varies = 1e-10 * squares < SST  # the others are constant: alike, but for rounding
    if not varies.any():
        return Outcome(0.0, int(groups.size))
    share = np.clip(SSB[varies] / SST[varies], 0.0, 1.0)
    p = np.maximum(betainc(N[varies] / 2.0 - 1.0, 0.5, 1.0 - share), LEAST_P)
    z2 = ndtri(p / 2.0) ** 2
    return together(log_tail(z2.size / 2.0, z2.sum() / 2.0), np.log(p), groups[varies])
