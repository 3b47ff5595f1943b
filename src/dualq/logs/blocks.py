"""The counts of a log in blocks: its rows in time order, cut after so and so many of them.

A certificate learns from the earlier blocks what to expect of the later ones (docs/certificate.md). Borders are numbers
of rows that are the same for every log, however long it is or will be: so whoever ends a log by looking at it moves
none of them.

    firsts    64 x 8^k: the first part, from which all else is foreseen, ends here. It is the longest of which a log has
              LATER times as many rows; or SOON times, where the next shorter one has hardly any rows of each pair
    coarse    8^(j/2): everywhere
    fine      8^(i/12): after the first part
"""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from dualq.base import door
from dualq.logs.counts import Counts
from dualq.logs.log import Log

# {rows of a first part: its weight, beforehand}: most logs have some ten thousand rows to a million
FIRSTS = {64: 0.08, 512: 0.18, 4096: 0.32, 32_768: 0.27, 262_144: 0.15}
LATER = 6  # times as many rows as its first part has a log at least ...
SOON, THIN = 3, 5  # ... or so many times, where an eighth of it would be fewer than THIN rows for each pair
COARSE = tuple(round(8.0 ** (j / 2)) for j in range(19))
FINE = tuple(round(8.0 ** (i / 12)) for i in range(24, 109))
BORDERS = frozenset({*COARSE, *FINE})
MOST_SORTED = 20_000_000  # rows; a log that is longer is counted once, and not put in its order


def first_of(rows: int, pairs: int) -> int | None:
    """How many rows the first part of so many rows, of so many pairs, has; None where they are too few."""
    least = {first: SOON if first < 8 * THIN * pairs else LATER for first in FIRSTS}
    return max((first for first in FIRSTS if least[first] * first <= rows), default=None)


def borders_of(rows: int, pairs: int) -> list[int]:
    """Where a log of so many rows, of so many pairs, is cut, 0 and its end among them."""
    first = first_of(rows, pairs)
    fine = [] if first is None else [border for border in FINE if border > first]
    inside = {*takewhile(lambda border: border < rows, COARSE), *takewhile(lambda border: border < rows, fine)}
    return sorted({0, rows, *inside})


@door
def counts_in_blocks(log: Log) -> list[Counts]:
    """The counts of a log's rows in time order, cut at numbers of rows that are the same for every log.

    One block where the rows have no order, or are more than MOST_SORTED.
    """
    counts = log.counts()
    if not log.has_order or counts.total > MOST_SORTED:
        return [counts]
    return log.counts_between(borders_of(counts.total, int(np.count_nonzero(counts.visits))))
