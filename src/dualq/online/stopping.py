"""A run that stops when the promise is met: `train(..., stop=Regret(0.5, confidence=0.95))`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from dualq.base import ModelError, Rows, door
from dualq.logs import Counts
from dualq.model import MDP, TablePolicy
from dualq.proof import Certificate, Ledger, check_confidence, merged_counts, proven, question_of

Array = np.ndarray

FIRST_LOOK = 1024  # rows of a run that is to stop when its promise is met


@door
@dataclass(frozen=True)
class Regret:
    """When to stop a training run: as soon as the certificate of its policy promises a regret of at most `most`.

    The run is looked at after FIRST_LOOK, twice, four times, ... as many rows, which are its blocks. The j-th look
    spends delta / (j (j + 1)) of delta = 1 - confidence, together delta: so the promise at the stop holds, whenever
    that is.

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> run = dualq.train(dualq.QLearning(), two, steps=200_000, stop=dualq.Regret(5.0))
    >>> run.reason, run.certificate.regret <= 5.0
    ('regret', True)
    """

    most: float
    confidence: float = 0.95

    def __post_init__(self):
        if not self.most > 0.0:
            raise ModelError(f"the regret to stop at is {self.most!r}; it must be positive")
        check_confidence(self.confidence)

    def watch(self, mdp: MDP, start: Array) -> Watch:
        """One run, from its first row."""
        return Watch(self, mdp, start)


class Watch:
    """The rows of one run, counted in blocks, and the certificate of the last look."""

    def __init__(self, stop: Regret, mdp: MDP, start: Array):
        self.stop, self.mdp, self.start = stop, mdp, start
        self.due = FIRST_LOOK  # the rows after which the next look is due
        self.rows = self.looks = 0
        self.ledger = Ledger(1.0 - stop.confidence)
        self.blocks: list[Counts] = []
        self.fresh = True  # whether the next rows begin a block
        self.certificate: Certificate | None = None
        self.promises: list[tuple[int, float]] = []  # (rows, the regret that was promised then) of every look

    def see(self, rows: Rows) -> None:
        """Count the next rows, none of them beyond `due`."""
        mdp = self.mdp
        counts = Counts.from_rows(rows, mdp.states, mdp.actions, mdp.reward_range)
        if self.fresh:
            self.blocks.append(counts)
        else:
            self.blocks[-1] = self.blocks[-1].merge(counts)
        self.fresh = False
        self.rows += counts.total

    def met(self, policy: TablePolicy) -> bool:
        """Look, where a look is due: whether the policy's regret is small enough for sure."""
        if self.rows < self.due:
            return False
        self.looks += 1
        self.due, self.fresh = 2 * self.due, True
        account = self.ledger.take(f"look {self.looks}", 1.0 / (self.looks * (self.looks + 1)))
        merged, mdp = merged_counts(self.blocks), self.mdp
        # All looks together keep the confidence that was asked for, and no single one is chosen beforehand.
        ask = question_of(merged, policy, mdp.discount, self.start, self.stop.confidence, mdp.available)
        found = proven(self.blocks, merged, ask, account)
        self.certificate = dataclasses.replace(found, ledger=self.ledger)
        self.promises.append((self.rows, self.certificate.regret))
        return self.certificate.regret <= self.stop.most
