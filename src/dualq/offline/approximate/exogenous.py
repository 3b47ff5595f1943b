"""Inputs of the state that no action has a hand in: what they bring counts as often as the state comes.

News      eps_j = z_j(s') - E[z_j(s') | s] of an input j, by least squares on phi(s), where something follows
Tested    whether actions have a hand in it: an F test of a regression for each action against one for all. An input
          counts as exogenous where that finds nothing at the level LEVEL, as it should for the mood of a market, the
          weather, who comes next
Value     V = mean v(s_0) + mean mu delta (evaluation.py), delta = sum_j g_j(s) eps_j + rest, g_j linear in (1, z).
          Row i counts with mu_i g_j for news that have nothing to do with a_i. If E[z_j(s') | s] were known they could
          be left out; what it says under mu g_j errs by mean h_j eps_j, h_j the regression of mu g_j on phi(s):
              V = mean v(s_0) + mean [mu delta - sum_j (mu g_j - h_j) eps_j]
          The error of this follows from the same terms. A policy that picks one of A actions has A times fewer rows
          than there are states; of exogenous news it has all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import fdtrc  # scipy.stats takes longer to import than all of dualq

from dualq.logs import NumberRows
from dualq.offline.approximate.features import Features

Array = np.ndarray

LEVEL = 0.1  # the higher, the fewer inputs count as exogenous
NONE = 0.01  # deviations of an input: what is known before, but for the error of its regression
MOST = 120  # products of news and inputs
RIDGE = 1e-7


@dataclass(frozen=True, eq=False)
class Exogenous:
    """The news in exogenous inputs."""

    x: Array  # (n, D) phi; 0 where nothing follows
    beside: Array  # (n, m) 1 and inputs, which say how much news matter
    eps: Array  # (n, k); 0 where nothing follows

    @classmethod
    def of(cls, rows: NumberRows, phi: Features) -> Exogenous:
        """Of rows that are followed by a state wherever they have not ended."""
        live, z = rows.live[:, None], slice(1, 1 + phi.inputs.width)
        x, change = phi(rows.state) * live, (phi(rows.next_state) - phi(rows.state))[:, z] * live
        eps = change - x @ _solved(x, change)
        some = (eps.std(axis=0) > NONE) & (_doubt(x, eps, rows) > LEVEL)
        most = max(1, MOST // max(int(some.sum()), 1))
        return cls(x, x[:, : min(1 + phi.inputs.width, most)], eps[:, some])

    @cached_property
    def _products(self) -> Array:
        return (self.beside[:, :, None] * self.eps[:, None, :]).reshape(len(self.eps), -1)

    def uncalled(self, mu: Array, delta: Array) -> Array:
        """(n,) sum_j (mu g_j - h_j) eps_j: what may be left out of mu delta."""
        k = self.eps.shape[1]
        if k == 0:
            return np.zeros(len(mu))
        slopes = _solved(self._products, delta[:, None]).reshape(-1, k)
        weighted = mu[:, None] * (self.beside @ slopes)
        return ((weighted - self.x @ _solved(self.x, weighted)) * self.eps).sum(axis=1)


def _solved(x: Array, y: Array) -> Array:
    """Least squares, with a ridge that only matters where columns of x are alike."""
    square = x.T @ x
    square[np.diag_indices(len(square))] += RIDGE * np.trace(square) / len(square) + np.finfo(float).tiny
    return cho_solve(cho_factor(square), x.T @ y)


def _doubt(x: Array, eps: Array, rows: NumberRows) -> Array:
    """(inputs,) the p-value of what a regression for each action, of those with rows enough, explains of the news."""
    explained, left, used, actions, D = np.zeros(eps.shape[1]), np.zeros(eps.shape[1]), 0, 0, x.shape[1]
    for a in range(len(rows.actions)):
        mine = (rows.a == a) & (rows.live > 0.0)
        if mine.sum() > 2 * D:
            fitted = x[mine] @ _solved(x[mine], eps[mine])
            after = ((eps[mine] - fitted) ** 2).sum(axis=0)
            explained += (eps[mine] ** 2).sum(axis=0) - after
            left, used, actions = left + after, used + int(mine.sum()), actions + 1
    if actions < 2:
        return np.zeros(eps.shape[1])
    ratio = (explained / ((actions - 1) * D)) / np.maximum(left / (used - actions * D), np.finfo(float).tiny)
    return fdtrc((actions - 1) * D, used - actions * D, np.maximum(ratio, 0.0))
