"""Trusted: what may be relied on of a policy and a log, the same for one that was learned and one that was given.

The rules are in trust.py; here they are asked of what both kinds hold: counts, what was tested, where the policy goes.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from dualq.logs import Finding
from dualq.model import TablePolicy
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.learned import OnLog
from dualq.offline.trust import conditions, doubts, open_bins, unseen_share

Array = np.ndarray


class Trusted(OnLog):
    """A policy, a log, and what may be relied on of the two."""

    @property
    @abstractmethod
    def assumed(self) -> tuple[str, ...]:
        """What the user vouches for."""

    @property
    @abstractmethod
    def proof_asked(self) -> bool:
        """Whether there is a certificate."""

    @property
    @abstractmethod
    def _decisions(self) -> TablePolicy:
        """The policy, on the log's states."""

    @property
    @abstractmethod
    def _where(self) -> Array:
        """(S,) the share of (discounted) time that the policy spends in each state."""

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The assumptions that the log speaks against: "dynamics" and "rewards" (they changed), "memory", "bins", ...

        Estimates and certificate rest on them: what is here is not promised, whatever the numbers say. Where bins lose
        information or the dynamics changed, the row before tells of it too: that is no finding of its own.
        """
        against = [check for check in self.evidence if check.found and check.what != "behaviour"]
        names = {check.what for check in against}
        return tuple(dict.fromkeys(check.what for check in against if check.because(names) is None))

    @property
    def evidence(self) -> list[Finding]:
        """What the tests say of the assumptions that estimates and promises rest on."""
        return [*([self.returns_check] if self.returns_check is not None else []), *self.coverage.evidence]

    @property
    def promised(self) -> bool:
        """Whether the certificate may be relied on, as far as the log itself can tell, under `conditions`."""
        return self.proof_asked and not self.withheld

    @property
    def withheld(self) -> tuple[str, ...]:
        """Why nothing is promised, in a few words each; empty where the certificate may be relied on."""
        return (*self._doubts, *(() if self.proof_asked else ("no certificate was asked for",)))

    @cached_property
    def _doubts(self) -> tuple[str, ...]:
        """What speaks against a proof from this log, or may."""
        unseen = unseen_share(self.counts, self._where[:, None] * self._decisions.matrix)
        return doubts(self.contradicted, self.counts, self.coverage, unseen, self.assumed)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted and no test can see: clauses that follow "if"."""
        return conditions(self.counts, self.coverage, self.read.bins)

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting any of it: of the log, and of where the policy goes."""
        return [*self.coverage.warnings, *open_bins(self.counts, self.read.bins, self._where)]

    def _in_doubt(self, estimate: Estimate) -> Estimate:
        """Without its error where none is known, or the log speaks against what it rests on: that is the wrong one."""
        known = np.isfinite(estimate.error_or_nan) and not self.contradicted
        return estimate if known else Estimate(estimate.value, None)
