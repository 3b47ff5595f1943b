"""The evidence of a log: the counts of its blocks on one pattern, as the proof reads them (docs/certificate.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualq.base import LogError, checked_interval
from dualq.logs import BORDERS, FIRSTS, MOST_SORTED, Counts, all_counts, first_of

Array = np.ndarray

LOST = 4.0 * np.finfo(float).eps  # of a sum of squares, by rounding
FAR = 100.0  # times their range: rewards that are so far from 0 are moved there before anything is computed
FIRST = 1.0 / 8.0  # of the rows, from which all is foreseen, where blocks are cut as somebody wanted
FEWEST_UNPAID = 100  # rows before the end, all without pay, from which it is taken that only the end pays


class Evidence(NamedTuple):
    """The counts of every block on one pattern: pairs in rows, successors and, as the last column, the end."""

    indptr: Array  # (pairs + 1,)
    columns: Array  # (entries,) S stands for the end
    n: Array  # (blocks, entries)
    r: Array  # (blocks, entries) sums of rewards
    scatter: Array  # (blocks, entries) sums of (r - mean of the entry and block)^2
    possible: Array  # (S + 1,) where a row can lead: not to states that were entered only to end
    shape: tuple[int, int]

    @property
    def anywhere(self) -> Array:
        """(S + 1,) where a row might lead, as far as is known beforehand: which states only end may be seen late."""
        return np.append(np.ones(self.shape[0], bool), self.possible[-1])

    @property
    def pair(self) -> Array:
        """(entries,) the pair of each entry."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def per_pair(self, weights: Array) -> Array:
        """(..., pairs) sums over the successors."""
        sums = np.zeros((*weights.shape[:-1], self.indptr.size - 1))
        busy = np.flatnonzero(np.diff(self.indptr))
        if busy.size:
            sums[..., busy] = np.add.reduceat(weights, self.indptr[busy], axis=-1)
        return sums


def cut_beforehand(ends: Array) -> bool:
    """Whether blocks that end after so many rows are cut where every log is: the last end may be anywhere.

    Not where a log is longer than MOST_SORTED: its one block is another certificate than that of a log stopped sooner.
    """
    return bool(ends[-1] <= MOST_SORTED) and BORDERS.issuperset(ends[:-1].tolist())


class First(NamedTuple):
    """The first part of a log's rows, from which what is later is foreseen."""

    blocks: int  # how many of them it has
    price: float  # log of 1 / its weight among all first parts that a log may have


def first_part(ends: Array, pairs: int) -> First | None:
    """Of blocks that end after so many rows, of so many pairs in all; None where no border will do.

    Where they are cut as every log is, one of FIRSTS ends it; else it is about an eighth, and was chosen beforehand.
    """
    if cut_beforehand(ends):
        rows = first_of(int(ends[-1]), pairs)
        if rows is None or rows not in ends[:-1]:
            return None
        return First(int(np.searchsorted(ends, rows)) + 1, -float(np.log(FIRSTS[rows])))
    parts = ends / max(ends[-1], 1)
    near = [i for i, part in enumerate(parts[:-1], 1) if FIRST / 4.0 <= part <= FIRST * 3.0]
    return First(min(near, key=lambda i: abs(np.log(parts[i - 1] / FIRST))), 0.0) if near else None


def evidence_of(blocks: Sequence[Counts], merged: Counts) -> Evidence:
    """The blocks, and all of them together."""
    S, A = merged.shape
    ends = bool(merged.ended.any())

    def keys(counts: Counts) -> Array:
        pair = counts.s.astype(np.int64) * A + counts.a
        return pair * (S + 1) + np.where(counts.ended, S, counts.s_next)

    known = keys(merged)
    if not (np.diff(known) > 0).all():  # counts are in order, but for the ends
        known = np.unique(known)
    n, r, squares = (np.zeros((len(blocks), known.size)) for _ in range(3))
    for e, counts in enumerate(blocks):
        place = np.searchsorted(known, keys(counts))
        for total, column in ((n, counts.n), (r, counts.reward_sum), (squares, counts.reward_square_sum)):
            np.add.at(total[e], place, column)  # several states where episodes end are one end
    # a difference of large numbers where rewards are far from 0: what rounding may have lost is added
    scatter = np.maximum(squares - r * r / np.maximum(n, 1.0), 0.0) + LOST * squares
    pair, columns = np.divmod(known, S + 1)
    indptr = np.searchsorted(pair, np.arange(S * A + 1))
    possible = np.append(~merged.support.to_log(merged.over), ends)
    return Evidence(indptr, columns, n, r, scatter, possible, (S, A))


def merged_counts(blocks: Sequence[Counts]) -> Counts:
    """The counts of all blocks together."""
    if not blocks:
        raise LogError("no counts were given; a certificate needs at least one block of rows")
    return blocks[0] if len(blocks) == 1 else all_counts(blocks)


def paying_counts(counts: Counts, cost: str) -> Counts:
    """The counts with a cost in the place of the reward."""
    if cost not in counts.cost_sums:
        there = ", ".join(map(repr, counts.cost_sums)) or "none"
        raise LogError(f"the log has no cost {cost!r}; its costs: {there}")
    return dataclasses.replace(
        counts,
        reward_sum=counts.cost_sums[cost],
        reward_square_sum=counts.cost_square_sums[cost],
        reward_range=counts.cost_ranges[cost],
        range_known=cost in counts.cost_ranges_known,
    )


def turned_counts(counts: Counts, sign: float) -> Counts:
    """The counts with rewards times 1 or -1."""
    low, high = sorted(sign * end for end in counts.reward_range)
    return dataclasses.replace(counts, reward_sum=sign * counts.reward_sum, reward_range=(low, high))


def centre_of(counts: Counts) -> float:
    """How far rewards are from 0, where that is far and moving them changes every value alike; else nothing."""
    low, high = counts.reward_range
    middle = 0.5 * (low + high)
    return 0.0 if counts.ended.any() or abs(middle) <= FAR * (high - low) else middle


def moved_counts(counts: Counts, centre: float) -> Counts:
    """The counts with rewards less `centre`; what rounding loses of their squares is added."""
    low, high = counts.reward_range
    size = counts.reward_square_sum + centre**2 * counts.n
    squares = counts.reward_square_sum - centre * (2.0 * counts.reward_sum - centre * counts.n)
    return dataclasses.replace(
        counts,
        reward_sum=counts.reward_sum - centre * counts.n,
        reward_square_sum=np.maximum(squares, 0.0) + LOST * size,
        reward_range=(low - centre, high - centre),
    )


def scaled_counts(counts: Counts, factor: int) -> Counts:
    """The counts of as many times the same rows."""
    columns = ("n", "reward_sum", "reward_square_sum")
    return dataclasses.replace(counts, **{name: getattr(counts, name) * factor for name in columns})


def value_range_of(value_range: tuple[float, float] | None, counts: Counts, alpha: float) -> tuple[float, float]:
    """What values can be: given, and no wider than what the rewards allow; 0 among it where rows end."""
    low, high = (end / (1.0 - alpha) for end in counts.reward_range)
    if counts.ended.any():
        low, high = min(low, 0.0), max(high, 0.0)
    if value_range is None:
        return low, high
    given_low, given_high = checked_interval("value_range", value_range, argument="value_range")
    return max(low, given_low), min(high, given_high)


def paid_at_the_end(counts: Counts) -> tuple[float, float] | None:
    """What values can be where nothing but the end of an episode pays; None where other rows pay too, or are few."""
    going = ~counts.ended
    if counts.ended.all():
        return counts.reward_range
    if not counts.ended.any() or counts.n[going].sum() < FEWEST_UNPAID or counts.reward_square_sum[going].any():
        return None
    low, high = counts.reward_range
    return min(low, 0.0), max(high, 0.0)
