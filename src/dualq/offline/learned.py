"""Learned: the five stages, and what they hold by the names that are asked for most; OnLog: the first three of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from dualq.logs import Counts, Coverage, Finding
from dualq.model import Solution, TablePolicy
from dualq.offline.careful.model import Careful
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.search import LimitOutcome
from dualq.offline.shapes import Settings
from dualq.offline.stages import Counted, Modelled, Proven, Read, Solved
from dualq.proof import Certificate, Ledger, Wanted

Array = np.ndarray


class OnLog(ABC):
    """A log that was counted and modelled, by the names that are asked for most."""

    @property
    @abstractmethod
    def modelled(self) -> Modelled:
        """The careful model of the log."""

    @property
    def counted(self) -> Counted:
        """What the log says of a model."""
        return self.modelled.counted

    @property
    def read(self) -> Read:
        """The log, and how it was understood."""
        return self.counted.read

    @property
    def counts(self) -> Counts:
        """How often each transition was logged, and what it paid."""
        return self.counted.counts

    @property
    def coverage(self) -> Coverage:
        """What the log can and cannot tell."""
        return self.counted.coverage

    @property
    def start(self) -> Array:
        """(S,) where value is measured; sums to one."""
        return self.counted.start

    @property
    def careful(self) -> Careful:
        """The model that does not believe thin rows, and what its policy may be expected to earn."""
        return self.modelled.careful

    @property
    def returns(self) -> Estimate | None:
        """The mean discounted return of the log's own episodes, where it has some."""
        return self.modelled.returns

    @property
    def returns_check(self) -> Finding | None:
        """Whether the model agrees with what the log's own episodes earned."""
        return self.modelled.returns_check


@dataclass(frozen=True, eq=False)
class Learned(OnLog):
    """The last of the five stages, which holds the others."""

    proven: Proven

    @property
    def solved(self) -> Solved:
        """The saddle point, and the policy that is recommended."""
        return self.proven.solved

    @property
    def modelled(self) -> Modelled:
        """The careful model of the log."""
        return self.solved.modelled

    # ---- what the stages hold, by the names that are asked for most

    @property
    def blocks(self) -> tuple[Counts, ...]:
        """The counts of the log cut in time order, from which is proven."""
        return self.counted.blocks

    @property
    def solution(self) -> Solution:
        """Q, V, occupancy and ratio of the careful model."""
        return self.solved.solution

    @property
    def policy(self) -> TablePolicy:
        """The recommended policy, on the log's states."""
        return self.solved.policy

    @property
    def reason(self) -> str:
        """One sentence: why this policy."""
        return self.solved.reason

    @property
    def limits(self) -> tuple[LimitOutcome, ...]:
        """What became of each limit."""
        return self.solved.limits

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The limits as they were asked for."""
        return self.solved.asked

    @property
    def limits_wanted(self) -> tuple[Wanted, ...]:
        """The pairs whose rows a promise of the limits would need most."""
        return self.solved.limits_wanted

    @property
    def certificate(self) -> Certificate | None:
        """Floor and ceiling that hold with the asked confidence; None where none was asked for."""
        return self.proven.certificate

    @property
    def ledger(self) -> Ledger | None:
        """What 1 - confidence was spent on; None in fits that were saved before there was one."""
        return self.proven.ledger

    @property
    def confidence(self) -> float:
        """Of the certificate, and of the intervals."""
        return self.proven.confidence

    @property
    def settings(self) -> Settings:
        """What was asked for and how the log was understood, as plain values."""
        read, modelled, solved = self.read, self.modelled, self.solved
        return {
            "source": read.source,
            "columns": dict(read.columns),
            "discount": modelled.discount,
            "pessimism": modelled.careful.pessimism,
            "start": self.counted.where,
            "set_aside": read.quarantine if self.coverage.skipped else None,
            "bins": dict(read.bins),
            "assumed": list(self.proven.assumed),
            "returns_filled": modelled.returns_filled,
            "guessed": dict(read.guessed),
            "solver": solved.solver,
            "gap": solved.gap,
            "margin": solved.margin,
            "version": self.proven.version,
        }
