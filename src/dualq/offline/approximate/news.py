"""News: what of the next state nobody could foretell, and how much of a value's noise it explains.

News      eps_j = z_j(s') - E[z_j(s') | s, a] of each input j, by a regression on psi with a shrinkage of its own
          (shrinkage.py). Where an action moves an input no more than luck would, its regression says that it does not:
          the mood of a market, the weather, who comes next are news that no action has a hand in.
Learning  y = r + alpha v(s') is freed of what the news explain,
              y - G gamma,   G = (1, z(s)) x eps less its regression on phi(s),   gamma by least squares:
          what all actions share stays as it was, and the difference of two actions has less noise in it.
Valuing   V = mean v(s_0) + mean mu delta (evaluation.py) has news in it: delta = sum_j g_j(s) eps_j + rest, and row i
          counts with mu_i g_j for them. If E[z_j(s') | s, a] were known they could be left out; it is a regression, and
          what it says under mu g_j errs by mean h_j eps_j, where h_j is the same regression of mu g_j on psi. So
              V = mean v(s_0) + mean [mu delta - sum_j (mu g_j - h_j) eps_j]
          Where an input answers to the action h_j is mu g_j, and nothing is gained; where it does not, h_j is the mean
          of mu g_j over the actions of a state: news count as often as the state comes, not as the pair does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dualq.offline.approximate.design import Design

Array = np.ndarray

MOST = 120  # columns of G
NONE = 0.01  # deviations of an input: what is known before, but for the error of its regression


@dataclass(frozen=True, eq=False)
class News:
    """The news in the inputs that have any."""

    design: Design
    eps: Array  # (n, k); 0 where nothing follows
    ridges: Array  # (k, p) of their regressions

    @classmethod
    def of(cls, design: Design) -> News:
        """Of each input."""
        live, z = design.rows.live[:, None], slice(1, 1 + design.inputs)
        change = (design.x_next[:, z] - design.x[:, z]) * live
        ridges = np.stack([design.ridge(y, 0.0) for y in change.T])
        told = [design.smoothed(y[:, None], design.factor(r)) for y, r in zip(change.T, ridges, strict=True)]
        eps = (change - np.hstack(told)) * live
        some = eps.std(axis=0) > NONE
        return cls(design, eps[:, some], ridges[some])

    def beside(self, design: Design) -> News:
        """The same news, in other features of the same rows."""
        return News(design, self.eps, self.ridges)

    @cached_property
    def _times(self) -> Array:
        """(n, m) the first of (1, z) that news are multiplied with."""
        most = max(1, MOST // max(self.eps.shape[1], 1))
        return self.design.x[:, : min(1 + self.design.inputs, most)]

    @cached_property
    def _products(self) -> Array:
        return (self._times[:, :, None] * self.eps[:, None, :]).reshape(len(self.eps), -1)

    # ---- learning

    @cached_property
    def _apart(self) -> tuple[Array, tuple[Array, bool], tuple[Array, bool]]:
        """G, its factor, and that of psi."""
        x, n = self.design.x, len(self.eps)
        outer = x.T @ x / n + 1e-6 * np.eye(x.shape[1])
        G = self._products - x @ np.linalg.solve(outer, x.T @ self._products / n)
        ridge = np.where(self.design.groups < 0, 1e-6, 1e-3)
        return G, _factor(G), self.design.factor(ridge)

    def quiet(self, y: Array) -> Array:
        """(n, k) y less what the news explain of each column."""
        if self.eps.shape[1] == 0:
            return y
        G, news, psi = self._apart
        rest = y - self.design.smoothed(y, psi)
        return y - G @ cho_solve(news, G.T @ rest / len(y))

    # ---- valuing

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        return _factor(self._products)

    @cached_property
    def _regressions(self) -> list[tuple[Array, bool]]:
        return [self.design.factor(ridge) for ridge in self.ridges]

    def uncalled(self, mu: Array, delta: Array) -> Array:
        """(n,) sum_j (mu g_j - h_j) eps_j: what may be left out of mu delta."""
        k = self.eps.shape[1]
        if k == 0:
            return np.zeros(len(mu))
        gamma = cho_solve(self._factor, self._products.T @ delta / len(mu))
        weighted = mu[:, None] * (self._times @ gamma.reshape(-1, k))
        kept = [self.design.smoothed(weighted[:, [j]], factor) for j, factor in enumerate(self._regressions)]
        return ((weighted - np.hstack(kept)) * self.eps).sum(axis=1)


def _factor(G: Array) -> tuple[Array, bool]:
    GG = G.T @ G / len(G)
    GG[np.diag_indices(len(GG))] += 1e-6 * np.trace(GG) / len(GG)
    return cho_factor(GG)
