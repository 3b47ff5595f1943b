"""From the counts of a log to the interval of one policy's own value: the rows, the price, the box, the event.

The blocks of a log serve two events. The one of pairs (confidence_sets.py) wants few blocks, each several times as long
as the one before; the policy's own (martingale.py) wants one part to foresee from, about an eighth of the rows, and the
rest in many blocks. Both ways to cut depend on the lengths of the blocks alone, never on what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualq.logs import Counts
from dualq.proof.evidence import evidence_of, merged_counts
from dualq.proof.floors import Bound
from dualq.proof.ledger import Ledger
from dualq.proof.martingale import Box, OwnValue, own_value
from dualq.proof.own_rows import own_rows
from dualq.proof.prior import price_of
from dualq.proof.questions import Question

Array = np.ndarray

APART = 3.9  # times as long as the one before: a block of the events of pairs
FINE = 1.9  # blocks that are closer than this are joined to such
FIRST = 1.0 / 8.0  # of the rows, from which everything is foreseen
SHARE = 0.4  # of delta, for the policy's own value where it can be foreseen


def coarse(blocks: Sequence[Counts]) -> list[Counts]:
    """The blocks for the events of pairs: joined where they are cut finely."""
    ends = np.cumsum([block.total for block in blocks])
    if len(blocks) < 3 or not (ends[1:] < FINE * ends[:-1]).any():
        return list(blocks)
    kept, last = [len(blocks)], ends[-1]
    for i in range(len(blocks) - 1, 0, -1):
        if ends[i - 1] * APART <= last:
            kept.append(i)
            last = ends[i - 1]
    cuts = [0, *reversed(kept)]
    return [merged_counts(blocks[a:b]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def foresighted(blocks: Sequence[Counts]) -> list[Counts] | None:
    """The first part of the rows, and the blocks after it; None where no cut is near enough to an eighth of them."""
    ends = np.cumsum([block.total for block in blocks]) / max(sum(block.total for block in blocks), 1)
    near = [i for i, part in enumerate(ends[:-1], 1) if FIRST / 4.0 <= part <= FIRST * 3.0]
    if not near:
        return None
    first = min(near, key=lambda i: abs(np.log(ends[i - 1] / FIRST)))
    return [merged_counts(blocks[:first]), *blocks[first:]]


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


def own_interval(
    parts: Sequence[Counts], merged: Counts, ask: Question, lows: Sequence[Bound], highs: Sequence[Bound], ledger: Ledger
) -> OwnValue | None:
    """The interval of the policy's own value; lows and highs: what the events of pairs say of it (highs of -V)."""
    level = ledger.level(**{"prior over policies": 1})
    level += 0.0 if ask.fixed else price_of(ask.policy, parts[0], merged, ask.alpha, ask.allowed)
    if not np.isfinite(level):
        return None
    ev = evidence_of(parts, merged)
    rows = own_rows(ev, ask.policy, ask.start, ask.alpha)
    V = np.array([np.max([b.value for b in lows], axis=0), -np.max([b.value for b in highs], axis=0)])
    q = np.array([np.max([b.pairs for b in lows], axis=0), -np.max([b.pairs for b in highs], axis=0)])[:, rows.pairs]
    box = Box(np.column_stack([V, np.zeros(2)]), q)
    return own_value(rows, foreseen_start(ask, parts[0]), merged.reward_range, ev.possible, box, level)
