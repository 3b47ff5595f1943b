"""PooledLog: a log of which the summed counts are all there is; `learn` takes it as any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dualq.base import Labels, LogError, Stream
from dualq.logs import Bins, Counts, Coverage, NumberRows, Trace

Array = np.ndarray

UNORDERED = "whether the system changed, or earlier states matter, was not tested: tables were shared, and no rows"


@dataclass(frozen=True, eq=False)
class PooledLog:
    """Counts that several houses added up. They have no order, so nothing is asked of them that needs one."""

    summed: Counts
    columns: Mapping[str, tuple[str, ...]]
    first: Array | None = field(default=None, repr=False)  # (S,) first states of episodes; None where nobody knows
    left_out: tuple[int, int] = (0, 0)
    source: str = "logs of several agents"
    bins: Mapping[str, Bins] = field(default_factory=dict)  # how numbers were cut, in every house alike
    available: Array | None = field(default=None, repr=False)

    has_order = False
    quarantine = None

    @property
    def states(self) -> Labels:
        """The labels of the states."""
        return self.summed.states

    @property
    def actions(self) -> Labels:
        """The labels of the actions."""
        return self.summed.actions

    @property
    def numbers(self) -> tuple[str, ...]:
        """None: every state is a label."""
        return ()

    @property
    def guessed(self) -> dict[str, tuple[str, ...]]:
        """Nothing."""
        return {}

    @property
    def has_episodes(self) -> bool:
        """Whether the houses know where episodes begin."""
        return self.first is not None

    def __len__(self) -> int:
        return self.summed.total

    def counts(self) -> Counts:
        """How often each transition occurs, and what it paid."""
        return self.summed

    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode."""
        if self.first is None:
            raise LogError("the logs do not say where episodes begin")
        return self.first

    def coverage(self, level: float = 0.01) -> Coverage:
        """What the tables can tell and what they cannot."""
        return Coverage(self.summed, len(self), *self.left_out, level=level, remarks=(UNORDERED,))

    def trace(self) -> Trace | None:
        """None: there are no rows."""
        return None

    def check_ends(self) -> None:
        """Each house has looked at its own log."""

    def stream(self) -> Stream:
        """There are no rows."""
        raise LogError("agents share tables, and no rows; what reads row after row needs a log of its own")

    def number_rows(self) -> NumberRows:
        """There are no rows."""
        raise LogError("agents share tables, and no rows; states of numbers must be cut into bins by each house")

    def counts_between(self, cuts: Sequence[int]) -> list[Counts]:
        """The rows have no order."""
        raise LogError("tables of several agents have no order")
