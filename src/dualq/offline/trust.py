"""Trust: what may be promised of a fit, under which conditions, and the verdict in one word.

withheld     reasons why the certificate is not to be relied on: what the log itself speaks against (`contradicted`),
             and what is doubtful until somebody says which it is. With a reward range that nobody gave, by the rule of
             three: a pair with n rows may show a reward that was never seen in up to 3 / n of its decisions; where that
             adds up to more than UNSEEN of the policy's decisions, the observed range is no range.
             With more than SET_ASIDE of the rows set aside: what nobody wrote down nobody can compare; only the user
             can say that they are like the others (ASSUMPTIONS).
conditions   what no test can see, for the sentence that carries the promise.
verdict      do not use     the log speaks against how it was read, or the policy is expected to earn clearly less
             better         guaranteed, or by more than two standard errors
             no worse       it does what was logged, or can lose next to nothing
             cannot tell    anything else
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dualq.base import count
from dualq.logs import Bins, Counts, Coverage
from dualq.offline.careful.selection_bias import Estimate

Array = np.ndarray

UNSEEN = 0.05  # of the policy's decisions, which may show a reward that was never seen
RULE_OF_THREE = 3.0  # what did not happen in n rows has a probability of at most 3 / n, with 95% confidence
TWICE = "rows that are in both are counted twice"
FAR_OFF = 2e6  # times their range: rewards so far from 0 lose in squares what they differ by
SET_ASIDE = 0.005  # of the rows: more could change what is promised if they differ
OPEN_SHARE, OPEN_TIMES = 0.05, 3.0  # of the policy's time in an open bin, and how much more than the log's is far more
ASSUMPTIONS = ("set aside",)  # what a user may vouch for, learn(assume=...): the rows set aside are like the others
NEXT_TO_NOTHING = 0.02  # of what was logged: a loss that is called none
AGAINST = {
    "dynamics": "the system changed",
    "rewards": "rewards changed",
    "recent": "the system changed near the end of the log",
    "memory": "the state misses something",
    "cycle": "the state misses something about time",
    "bins": "the bins lose information",
    "ends": "last rows of episodes differ from the others",
    "gaps": "rows before gaps in time differ from the others",
    "set aside": "the rows set aside differ from the others",
    "returns": "the model does not reproduce what the log earned",
}


def doubts(
    contradicted: Sequence[str], counts: Counts, coverage: Coverage, unseen: float, assumed: Sequence[str]
) -> tuple[str, ...]:
    """What speaks against a proof from this log, or may, a few words each: of values, and of the costs of limits.

    unseen   the share of the policy's decisions that may show a reward which the log never showed
    """
    reasons = [AGAINST[what] for what in contradicted]
    if not counts.range_known and unseen > UNSEEN:
        reasons.append(
            "too few rows to know how low or high a reward can be: say it with --reward-range (reward_range=)"
        )
    low, high = counts.reward_range
    if abs(middle := 0.5 * (low + high)) > FAR_OFF * (high - low) > 0.0:
        reasons.append(f"rewards are so far from 0 that rounding hides how they differ: take {middle:.6g} off each one")
    reasons += unlike(coverage.rows, (coverage.dropped, coverage.skipped), (*contradicted, *assumed))
    if any(TWICE in doubt for doubt in coverage.doubts):
        reasons.append("rows that were learned from before may have been counted again")
    return tuple(reasons)


def unlike(rows: int, left_out: tuple[int, int], known: Sequence[str]) -> list[str]:
    """A doubt where many rows were set aside, unless what they are like is known: the log, or the user, says it."""
    dropped, skipped = left_out
    share = skipped / max(1, rows + dropped + skipped)
    if share <= SET_ASIDE or "set aside" in known:
        return []
    return [f"{share:.1%} of the rows were set aside, and nothing says that they are like the others"]


def unseen_share(counts: Counts, occupancy: Array) -> float:
    """The share of a policy's decisions (occupancy (S, A), sums to one) that may show a reward never seen before."""
    chance = np.minimum(RULE_OF_THREE / np.maximum(counts.visits, 1), 1.0)
    return float((occupancy * chance).sum())


def open_bins(counts: Counts, bins: Mapping[str, Sequence[float]], time_share: Array) -> list[str]:
    """A sentence for each open bin (first or last of a column) where the policy is far more than the log was."""
    states, found = counts.states, []
    rows = counts.visits.sum(axis=1) / counts.total
    for column in (column for column in states.names if column in bins):
        labels = Bins(tuple(bins[column])).labels
        here = np.array([states.named(s)[column] for s in range(len(states))], object)
        for end in (labels[0], labels[-1]):
            policy, log = float(time_share[here == end].sum()), float(rows[here == end].sum())
            if policy > OPEN_SHARE and policy > OPEN_TIMES * log:
                found.append(
                    f"the policy spends {policy:.0%} of its time where {column} is {end}, and the log {log:.1%}: "
                    "this bin is open, and the policy may go farther into it than the log ever did"
                )
    return found


def conditions(counts: Counts, coverage: Coverage, bins: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Clauses that follow `if`."""
    low, high = counts.reward_range
    found = [] if counts.range_known else [f"no reward lies outside {low:.4g} to {high:.4g}"]
    if bins:
        found.append("the bins lose nothing that matters")
    found.append("the system stays as it was")
    found.append("the state includes everything that matters and that the decisions were based on")
    return (
        *found,
        *of_rows_left_out(coverage.dropped, coverage.skipped),
        "no row is missing because of what it showed",
    )


def of_rows_left_out(dropped: int, skipped: int) -> list[str]:
    """Those of rows without a successor, and of rows that were set aside."""
    aside = [f"the {count(skipped, 'row')} set aside are like the others"] if skipped else []
    return aside + (["recordings stopped regardless of what happened"] if dropped else [])


def verdict(expected: Estimate, logged: Estimate, *, contradicted: bool, promised_gain: float, as_logged: bool) -> str:
    """One of the four words.

    promised_gain   what the policy is guaranteed to earn over the log; 0 or less where nothing is
    as_logged       whether what is recommended is what was logged
    """
    gain = expected.value - logged.value
    known = expected.standard_error is not None and logged.standard_error is not None
    error = math.hypot(expected.error_or_nan, logged.error_or_nan) if known else math.inf
    if contradicted or gain < -2.0 * error:
        return "do not use"
    if gain > 2.0 * error or promised_gain > 0.0:
        return "better"
    if as_logged or gain - 2.0 * error >= -NEXT_TO_NOTHING * abs(logged.value):
        return "no worse"
    return "cannot tell"
