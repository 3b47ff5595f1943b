"""A limit on what is learned from a log, and the bounds that can be proven of its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualq.logs import Counts
from dualq.model import AnyLimit, Limit
from dualq.proof import AverageBounds, Ledger, Prior, cost_column, known_cost

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Asked:
    """A limit on what is learned from a log; its cost is an array over the careful model's pairs."""

    limit: AnyLimit
    column: str | None = None  # of the log, where the cost is known by its rows alone
    scale: float = 1.0  # 1 / (1 - alpha) for a discounted total: bounds are this many times those of the average

    @property
    def name(self) -> str:
        """The limit's."""
        return self.limit.name

    @property
    def bounded(self) -> bool:
        """Whether it depends on how often states are visited, by a sum over pairs: then bounds can be proven."""
        return isinstance(self.limit, Limit)

    @property
    def span(self) -> float:
        """How far the costs of the pairs are apart; 1 where they are all equal, or the limit is on no cost."""
        return (float(np.ptp(self.limit.cost)) or 1.0) if isinstance(self.limit, Limit) else 1.0

    def bounds(
        self,
        blocks: Sequence[Counts],
        discount: float,
        start: Array,
        ledger: Ledger,
        prior: Prior | None = None,
        measured: str = "given",
    ) -> AverageBounds:
        """What can be proven of its cost on average; times `scale`, in the units of the limit."""
        limit = self.limit
        assert isinstance(limit, Limit)
        if self.column is not None:
            return cost_column(blocks, self.column, limit.sense, discount, start, ledger, prior, measured)
        cost = blocks[0].support.to_log(limit.cost) / self.scale
        return known_cost(blocks, cost, limit.sense, discount, start, ledger)
