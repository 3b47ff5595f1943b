"""Cells as a table: the partition of a log of numbers, and all that a table learner says of it.

Cells are grown on earlier rows than those that are counted (partition.py); of the earlier ones the table knows only
how much they paid and cost, so that no range is narrower than what was seen. The table has coverage, limits and a
certificate, which hold if the cells lose nothing that matters; a test inside the cells speaks against it. What a user
knows beyond the rows, such as what rewards can be, is known of the cells too. Limits that the table cannot guarantee,
or whose proof is withheld, are kept as they are expected: nobody pays for a margin that promises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dualq.base import Label, States
from dualq.logs import Finding, NumberRows, Start
from dualq.offline.approximate.asked import NOTHING, Known
from dualq.offline.approximate.partition import (
    CellRule,
    Partition,
    cell_log,
    cell_rule,
    earlier_and_later,
    lost_inside,
    partition_of,
)
from dualq.offline.approximate.price_search import PricedLimit
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.fit import Fit
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.stages import Solved, count, model, prove, read, solve
from dualq.offline.trust import AGAINST, unlike

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CellFit:
    """The cells, and the fit of their table."""

    partition: Partition
    fit: Fit
    inside: Finding  # whether numbers still tell something inside the cells

    @property
    def rule(self) -> CellRule:
        """The recommended policy, over states of numbers."""
        return cell_rule(self.partition, self.fit.policy)

    @property
    def limits(self) -> list[PricedLimit]:
        """What became of the limits."""
        return [
            PricedLimit(
                one.name,
                one.sense,
                one.bound,
                Estimate(one.estimate, one.error),
                Estimate(one.logged, None),
                one.price or 0.0,
                one.basis == "proven",
            )
            for one in self.fit.limits
        ]

    @property
    def costs(self) -> dict[str, Estimate]:
        """What the policy costs per step, of the costs that have a limit: the estimates that limits were kept by."""
        each = zip(self.fit.asked, self.fit.limits, strict=True)
        return {
            one.column: Estimate(found.estimate / one.scale, found.error / one.scale)
            for one, found in each
            if one.column is not None
        }


def doubts(
    cells: Fit, inside: Finding | None, contradicted: Sequence[str], rows: int, left_out: tuple[int, int]
) -> tuple[str, ...]:
    """Why nothing is promised of cells, though something may be proven; `contradicted`: what the log speaks against."""
    own = [*(AGAINST[what] for what in contradicted), *unlike(rows, left_out, (*contradicted, *cells.assumed))]
    if inside is not None and inside.found:  # what else the cells show may come of that
        return (*own, "the cells lose information")
    return tuple(dict.fromkeys((*own, *cells.withheld)))


class CellTable(NamedTuple):
    """The cells, the rows they are of, and their table, solved: enough for a rule."""

    partition: Partition
    rows: NumberRows  # all of them: the later ones, which are counted, would be a second copy
    solved: Solved

    @property
    def rule(self) -> CellRule:
        """The recommended policy, over states of numbers."""
        return cell_rule(self.partition, self.solved.policy)

    @property
    def limits_proven(self) -> bool:
        """Whether every limit is; True where there are none."""
        return all(one.basis == "proven" for one in self.solved.limits)

    def expecting(self, limits: LimitsGiven, confidence: float, certificate: str | None, looks: int) -> CellTable:
        """The same cells with the policy that is expected to keep the limits, where no proof may be relied on."""
        words = limits, "expected", confidence, certificate, looks
        return self._replace(solved=solve(self.solved.modelled, "exact", *words))

    def proven(self, confidence: float = 0.95, certificate: str | None = None, known: Known = NOTHING) -> CellFit:
        """With all that may be said of it."""
        modelled = self.solved.modelled
        V = modelled.counted.counts.support.to_log(self.solved.solution.V)
        inside = lost_inside(earlier_and_later(self.rows)[1], self.partition, V, modelled.discount)
        said = known.value_range, known.assumed, known.looks
        return CellFit(self.partition, Fit(prove(self.solved, confidence, certificate, *said)), inside)


def cell_table(
    rows: NumberRows,
    discount: float,
    confidence: float = 0.95,
    start: Start | States = None,
    limits: LimitsGiven | None = None,
    certificate: str | None = None,
    seed: int = 0,
    known: Known = NOTHING,
    margin: str = "certified",
) -> CellTable:
    """Grow cells on the earlier rows, and learn from the later ones on them; value is measured at `start`."""
    early, later = earlier_and_later(rows)
    partition = partition_of(early, discount, seed)
    log = cell_log(later, partition, rows.reward_range, rows.cost_ranges)
    log = log.having_seen(_range(rows.r), {name: _range(c) for name, c in rows.costs.items()})
    counted = count(read(log, discount), _weights(partition, start) if isinstance(start, States) else start, discount)
    solved = solve(model(counted, discount), "exact", limits, margin, confidence, certificate, known.looks)
    return CellTable(partition, rows, solved)


def _range(x: Array) -> tuple[float, float]:
    return float(x.min()), float(x.max())


def _weights(partition: Partition, start: States) -> dict[Label, float]:
    """How many of these states lie in each cell."""
    found = np.bincount(partition.cells(start), minlength=len(partition))
    return {label: float(n) for label, n in zip(partition.labels, found, strict=True) if n}
