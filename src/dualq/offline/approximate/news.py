"""News: what of the next state nobody could foretell, taken out of what is learned from.

News      eps_j = z_j(s') - E[z_j(s') | s, a] of each input j, by a regression on psi with a shrinkage of its own
          (shrinkage.py). Where an action moves an input no more than luck would, its regression says that it does not:
          the mood of a market, the weather, who comes next are news that no action has a hand in.
Quiet     y = r + alpha v(s') is freed of what the news explain,
              y - G gamma,   G = (1, z(s)) x eps less its regression on phi(s),   gamma by least squares:
          what all actions share stays as it was, and the difference of two actions has less noise in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dualq.offline.approximate.design import Design
from dualq.offline.approximate.psi import CHUNK

Array = np.ndarray

MOST = 120  # columns of G
NONE = 0.01  # deviations of an input: what is known before, but for the error of its regression


@dataclass(frozen=True, eq=False)
class News:
    """The news in the inputs that have any."""

    design: Design
    eps: Array  # (n, k); 0 where nothing follows

    @classmethod
    def of(cls, design: Design) -> News:
        """Of each input."""
        live, z = design.rows.live[:, None], slice(1, 1 + design.inputs)
        change = (design.x_next[:, z] - design.x[:, z]) * live
        told = [design.smoothed(y[:, None], design.factor(design.ridge(y, 0.0))) for y in change.T]
        eps = (change - np.hstack(told)) * live
        return cls(design, eps[:, eps.std(axis=0) > NONE])

    def beside(self, design: Design) -> News:
        """The same news, in other features of the same rows."""
        return News(design, self.eps)

    @cached_property
    def _apart(self) -> tuple[Array, tuple[Array, bool], tuple[Array, bool]]:
        """G, its factor, and that of psi."""
        x, n = self.design.x, len(self.eps)
        beside = x[:, : min(1 + self.design.inputs, max(1, MOST // max(self.eps.shape[1], 1)))]
        G = (beside[:, :, None] * self.eps[:, None, :]).reshape(n, -1)
        outer = x.T @ x / n + 1e-6 * np.eye(x.shape[1])
        told = np.linalg.solve(outer, x.T @ G / n)
        for at in (slice(i, i + CHUNK) for i in range(0, n, CHUNK)):  # in place: there is no larger array
            G[at] -= x[at] @ told
        ridge = np.where(self.design.groups < 0, 1e-6, 1e-3)
        return G, _factor(G), self.design.factor(ridge)

    @cached_property
    def _onto_psi(self) -> Array:
        """(p, columns of G) mean psi G'."""
        return self.design.onto_psi(self._apart[0])

    def quiet_onto_psi(self, y: Array) -> Array:
        """(p, k) mean psi quiet(y)', from the moments of y alone."""
        b = self.design.onto_psi(y)
        return b if self.eps.shape[1] == 0 else b - self._onto_psi @ self._gamma(y, b)

    def quiet(self, y: Array) -> Array:
        """(n, k) y less what the news explain of each column."""
        if self.eps.shape[1] == 0:
            return y
        explained = self._apart[0] @ self._gamma(y, self.design.onto_psi(y))
        return np.subtract(y, explained, out=explained)  # in place: each of them is large

    def _gamma(self, y: Array, b: Array) -> Array:
        """(columns of G, k) of what psi leaves over of y, whose mean with psi is b: from moments alone."""
        G, news, psi = self._apart
        return cho_solve(news, G.T @ y / len(y) - self._onto_psi.T @ cho_solve(psi, b))


def _factor(G: Array) -> tuple[Array, bool]:
    GG = G.T @ G / len(G)
    GG[np.diag_indices(len(GG))] += 1e-6 * np.trace(GG) / len(GG)
    return cho_factor(GG)
