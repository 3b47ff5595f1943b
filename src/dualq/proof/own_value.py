"""From the counts of a log to the interval of one policy's own value: the rows, the price, the box, the event.

The blocks of a log serve two events. The one of pairs (confidence_sets.py) wants few blocks, each several times as long
as the one before; the policy's own (martingale.py) wants one part to foresee from, between a quarter and a thirtieth of
the rows, and the rest in many blocks. Both ways to cut depend on the lengths of the blocks alone, never on what is in
them; where blocks are cut as `counts_in_blocks` does, the number of rows moves no border, and only says which of FIRSTS
is the first part: it is one of so many, all of which hold together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dualq.logs import Counts
from dualq.proof.evidence import First, evidence_of, first_part, merged_counts
from dualq.proof.floors import Bound
from dualq.proof.ledger import Ledger
from dualq.proof.martingale import Aim, Box, OwnValue, own_value
from dualq.proof.own_rows import own_rows
from dualq.proof.prior import Prior
from dualq.proof.questions import Question

Array = np.ndarray

APART = 2.6  # times as many rows as at the last border: a border for the events of pairs
FINE = 1.9  # where borders are closer than this anywhere, only such are kept
DEAREST = 40.0  # log 1 / W: at such a price a policy's own value says less than the events of pairs
PRIOR = {"prior over first parts and policies": 1}  # what that part of delta is spent on
SHARE = 0.4  # of delta, for the policy's own value where it can be foreseen
BESIDE = 0.2  # of the weights of floors, for the value from the states where the log's decisions were taken
LOOSE = 0.01  # of these: states that were entered more often than left may owe so much


def coarse(blocks: Sequence[Counts]) -> list[Counts]:
    """The blocks for the events of pairs: joined where they are cut finely."""
    ends = np.cumsum([block.total for block in blocks])
    if len(blocks) < 3 or not (ends[1:] < FINE * ends[:-1]).any():
        return list(blocks)
    cuts = [0]
    for i, end in enumerate(ends[:-1], 1):  # from the front: later rows have no say in it
        if cuts[-1] == 0 or end >= APART * ends[cuts[-1] - 1]:
            cuts.append(i)
    return [merged_counts(blocks[a:b]) for a, b in pairwise([*cuts, len(blocks)])]


def foresighted(blocks: Sequence[Counts]) -> list[Counts] | None:
    """The first part of the rows, and the blocks after it; None where no border will do."""
    first = _first_of(blocks)
    return None if first is None else [merged_counts(blocks[: first.blocks]), *blocks[first.blocks :]]


def _first_of(blocks: Sequence[Counts]) -> First | None:
    pairs = int(np.count_nonzero(sum(block.visits for block in blocks)))
    return first_part(np.cumsum([block.total for block in blocks]), pairs)


def foreseen_start(ask: Question, first: Counts) -> Array:
    """Where value is measured, as far as the first rows tell; the start itself, where it was given beforehand."""
    if ask.measured == "given":
        return ask.start
    left = first.visits.sum(axis=1).astype(float)
    if ask.measured == "episodes":  # states that were left more often than entered
        entered = np.bincount(first.s_next, first.n * ~first.ended, minlength=left.size)
        begun = np.maximum(left - entered, 0.0)
        left = begun if begun.any() else left
    return left / left.sum() if left.any() else np.full(left.size, 1.0 / left.size)


class Decided(NamedTuple):
    """Where the log's decisions were taken: e = more * start - owed, and what they earned in all."""

    start: Array  # (S,) sums to one
    earned: float
    more: float  # 1, and what is owed
    owed: Array  # (S,) where states were entered more often than left: nearly always 0

    @property
    def e(self) -> Array:
        """(S,) as in docs/certificate.md."""
        return self.more * self.start - self.owed


def decided_start(counts: Counts, alpha: float) -> Decided | None:
    """Where the log's decisions were taken, and what they earned in all.

    With V of any policy, the sum over rows of V(s) - alpha V(s') is the total of V over e: it takes each state as often
    as it was left, less alpha times as often as it was entered. Rewards are given in the same measure, as what is
    earned from there on. None where much would be owed: states were entered, and what came then is lost.
    """
    entered = np.bincount(counts.s_next, counts.n * ~counts.ended, minlength=len(counts.states))
    net = counts.visits.sum(axis=1) - alpha * entered
    begun = np.maximum(net, 0.0)
    if not net.sum() > 0.0 or begun.sum() > (1.0 + LOOSE) * net.sum():
        return None
    earned, owed = float(counts.reward_sum.sum() / net.sum()), np.maximum(-net, 0.0) / net.sum()
    return Decided(begun / begun.sum(), earned, float(begun.sum() / net.sum()), owed)


class OwnEvent:
    """The event of the policy's own value, for all policies at once: its level, its rows, and the prior it pays from.

    parts    from `foresighted`, with the reward in question
    prior    over policies, from the rows that the first part has; it may look at other rewards
    beside   whether floors from where the log's decisions were taken have a part of the weights
    """

    def __init__(
        self, parts: Sequence[Counts], merged: Counts, prior: Prior | None, ledger: Ledger, beside: bool = False
    ):
        self.parts, self.merged, self.prior, self.beside = parts, merged, prior, beside
        self.evidence = evidence_of(parts, merged)
        first = _first_of(parts)
        self.level = ledger.level(**PRIOR) + (0.0 if first is None else first.price)

    def interval(
        self, ask: Question, lows: Sequence[Bound], highs: Sequence[Bound], decided: Array | None = None
    ) -> OwnValue | None:
        """Of the policy in question; lows and highs: what the events of pairs say of it (highs of -V).

        decided   one start more, where the log's decisions were taken: a floor is wanted from there too
        """
        return self.aimed(ask, lows, highs, aims_of(ask, self.parts[0], decided, self.beside))

    def ceiling(self, ask: Question, lows: Sequence[Bound], highs: Sequence[Bound]) -> float:
        """Of the policy in question, by directions for ceilings alone; infinite where it has none."""
        found = self.aimed(ask, lows, highs, [Aim(ask.start, foreseen_start(ask, self.parts[0]), (0.0, 1.0))])
        return np.inf if found is None else found.ends[0][1]

    def aimed(
        self, ask: Question, lows: Sequence[Bound], highs: Sequence[Bound], aims: Sequence[Aim]
    ) -> OwnValue | None:
        """What the event says of a policy at several starts; None where it is too dear."""
        price = 0.0 if ask.fixed or self.prior is None else self.prior.price(ask.policy)
        if price > DEAREST:
            return None
        rows = own_rows(self.evidence, ask.policy, ask.start, ask.alpha)
        V = np.array([np.max([b.value for b in lows], axis=0), -np.max([b.value for b in highs], axis=0)])
        q = np.array([np.max([b.pairs for b in lows], axis=0), -np.max([b.pairs for b in highs], axis=0)])
        box = Box(np.column_stack([V, np.zeros(2)]), q[:, rows.pairs])
        return own_value(rows, aims, self.merged.reward_range, self.evidence.possible, box, self.level + price)


def aims_of(ask: Question, first: Counts, decided: Array | None, beside: bool) -> list[Aim]:
    """The start in question, and the one where decisions were taken, if it has a part and is wanted."""
    own = Aim(ask.start, foreseen_start(ask, first), (1.0 - BESIDE, 1.0) if beside else (1.0, 1.0))
    if decided is None or not beside:
        return [own]
    return [own, Aim(decided, foreseen_start(ask._replace(measured="log"), first), (BESIDE, 0.0))]


def prior_of(blocks: Sequence[Counts], merged: Counts, alpha: float, allowed: Array | None = None) -> Prior | None:
    """The prior over policies that a log's first rows give; None where rows have no order."""
    if len(blocks) == 1:
        return None
    first = (foresighted(blocks) or blocks)[0]
    return Prior(first, merged, alpha, np.ones(merged.shape, bool) if allowed is None else allowed)


def shared_out(blocks: Sequence[Counts], ledger: Ledger) -> tuple[Ledger, Ledger | None]:
    """What the events of pairs have of delta, and what the policy's own value has, where rows have an order.

    Also where they are too few to foresee anything: or else it would matter who ended the log when.
    """
    if len(blocks) == 1:
        return ledger, None
    pairs, own = ledger.take("events of pairs", 1.0 - SHARE), ledger.take("the policy's own value", SHARE)
    if foresighted(blocks) is not None:
        return pairs, own
    own.level(**PRIOR)  # it is spent on first parts that end later
    return pairs, None
