"""The counts of a log in blocks: its rows in time order, cut where the log is so and so long.

A certificate learns from the earlier blocks what to expect of the later ones (docs/certificate.md). Where a table lies
in an engine the engine cuts: the number of every row in time order, and one GROUP BY with the block among the keys.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dualq.logs.counts import Counts
from dualq.logs.log import Log
from dualq.logs.reading.sources import reading
from dualq.logs.stream import time_order
from dualq.logs.table_log import TableLog, progress

BLOCKS = 6
RATIO = 4.0  # each block begins when the log is this many times as long as when the one before began
MOST_SORTED = 20_000_000  # rows; a log that is longer is counted once, and not put in its order


def counts_in_blocks(log: Log | TableLog, blocks: int = BLOCKS, ratio: float = RATIO) -> list[Counts]:
    """The counts of a log's rows in time order, cut at N/ratio, N/ratio^2, ... of its N rows.

    One block where the rows have no order, or are more than MOST_SORTED.
    """
    counts = log.counts()
    if not log.has_order or counts.total > MOST_SORTED:
        return [counts]
    cuts = sorted({0, counts.total, *(int(counts.total / ratio**k) for k in range(1, blocks))})
    return _of_arrays(log, cuts) if isinstance(log, Log) else _of_table(log, counts, cuts)


def _of_arrays(log: Log, cuts: list[int]) -> list[Counts]:
    rows = log.rows
    return [
        Counts.from_rows(
            type(rows)(*(column[begin:end] for column in rows)),
            log.states,
            log.actions,
            log.reward_range,
            log.range_known,
            {cost: column[begin:end] for cost, column in log.costs.items()},
            log.cost_ranges,
            log.cost_ranges_known,
        )
        for begin, end in pairwise(cuts)
    ]


def _of_table(log: TableLog, counts: Counts, cuts: list[int]) -> list[Counts]:
    q = log.questions
    with progress(log, "putting in order"), reading(log.opened.name):
        groups = q.by_block(time_order(q), cuts[1:-1], log.dropped > 0).to_pyarrow()
    states, actions = log.coders
    s, s_next = (states.find([groups[name] for name in names]) for names in (q.s, q.n))
    a = actions.find([groups[name] for name in q.a])
    ended = np.zeros(s.size, bool)
    if "ended" in groups.column_names:
        ended = groups["ended"].to_numpy().astype(bool)
    s_next = np.where(s_next < 0, s, s_next)  # an end without a next state: nobody reads it
    block = groups["block"].to_numpy()
    sums = [
        groups[name].to_numpy() for name in ("n", *(f"{x}_{what}" for x in q.numbers for what in ("sum", "squares")))
    ]
    return [
        Counts.from_groups(
            s[here],
            a[here],
            s_next[here],
            ended[here],
            [column[here] for column in sums],
            q.schema.costs,
            states=counts.states,
            actions=counts.actions,
            reward_range=counts.reward_range,
            range_known=counts.range_known,
            cost_ranges=counts.cost_ranges,
            cost_ranges_known=counts.cost_ranges_known,
        )
        for here in (block == e for e in range(len(cuts) - 1))
    ]
