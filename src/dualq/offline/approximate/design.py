"""Design: the rows of a log in features, psi = (phi, phi x e_a), with the ridge that the rows ask for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dualq.logs import NumberRows
from dualq.offline.approximate.features import PlainFirst
from dualq.offline.approximate.psi import squared, with_shared
from dualq.offline.approximate.shrinkage import LEAST, groups_of, ridge_of

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Design:
    """Features of states and next states, held whole: for few features. Rows of one action stand together."""

    rows: NumberRows
    x: Array  # (n, D)
    x_next: Array  # (n, D)
    inputs: int

    @classmethod
    def of(cls, rows: NumberRows, phi: PlainFirst) -> Design:
        """Of rows that are followed by a state wherever they have not ended, in the order of their actions."""
        rows = rows.at(np.argsort(rows.a, kind="stable"))
        return cls(rows, phi(rows.state), phi(rows.next_state), phi.plain)

    @property
    def actions(self) -> int:
        """How many there are."""
        return len(self.rows.actions)

    @cached_property
    def S(self) -> Array:
        """(p, p) mean psi psi'."""
        return squared(np.stack([self.x[at].T @ self.x[at] for at in self.taken]) / len(self.rows))

    @cached_property
    def groups(self) -> Array:
        """(p,) of the coefficients of psi."""
        return groups_of(self.x.shape[1], self.inputs, self.actions)

    @cached_property
    def taken(self) -> list[slice]:
        """The rows of each action."""
        edges = np.searchsorted(self.rows.a, np.arange(self.actions + 1)).tolist()
        return [slice(begin, end) for begin, end in pairwise(edges)]

    def onto_psi(self, y: Array) -> Array:
        """(p, k) mean psi y'."""
        return with_shared(np.stack([self.x[at].T @ y[at] for at in self.taken])) / len(self.rows)

    def at_rows(self, beta: Array) -> Array:
        """(n, k) psi'beta of coefficients (p, k)."""
        shared, *added = beta.reshape(self.actions + 1, self.x.shape[1], -1)
        found = np.empty((len(self.x), beta.shape[1]))
        for at, own in zip(self.taken, added, strict=True):
            np.matmul(self.x[at], shared + own, out=found[at])
        return found

    def ridge(self, y: Array, least: float = LEAST) -> Array:
        """(p,) that the rows ask for where y (n,) is foretold."""
        b, square = self.onto_psi(y[:, None])[:, 0], float((y**2).mean())
        return ridge_of(self.S, b, square, len(self.rows), self.groups, least)

    def factor(self, ridge: Array) -> tuple[Array, bool]:
        """Of S + ridge."""
        return cho_factor(self.S + np.diag(ridge))

    def smoothed(self, y: Array, factor: tuple[Array, bool]) -> Array:
        """(n, k) what a regression of y on psi says at the rows."""
        return self.at_rows(cho_solve(factor, self.onto_psi(y)))
