"""The counts of a log in blocks: its rows in time order, cut where the log is so and so long.

A certificate learns from the earlier blocks what to expect of the later ones (docs/certificate.md). The last seven
eighths are cut more finely, for those who look how a behaviour drifts.
"""

from __future__ import annotations

from dualq.base import door
from dualq.logs.counts import Counts
from dualq.logs.log import Log

BLOCKS = 6
RATIO = 4.0  # each block begins when the log is this many times as long as when the one before began
FINE = 12  # blocks of the last seven eighths of the rows, each as many times as long as the one before
MOST_SORTED = 20_000_000  # rows; a log that is longer is counted once, and not put in its order


@door
def counts_in_blocks(log: Log, blocks: int = BLOCKS, ratio: float = RATIO, fine: int = FINE) -> list[Counts]:
    """The counts of a log's rows in time order, cut at N/ratio, N/ratio^2, ... of its N rows, and finely from N/8 on.

    fine   how many blocks there are after N/8; 0 for no finer ones

    One block where the rows have no order, or are more than MOST_SORTED.
    """
    counts = log.counts()
    N = counts.total
    if not log.has_order or N > MOST_SORTED:
        return [counts]
    finely = (round(N * 8.0 ** (-k / fine)) for k in range(1, fine + 1))
    return log.counts_between(sorted({0, N, *(int(N / ratio**k) for k in range(1, blocks)), *finely}))
