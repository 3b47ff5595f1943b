"""The compact sets that hold the saddle point (lemma:bound-of-solutions), and the exact projections onto them.

    V   = { v >= 0,       max v      <= sigma / (1 - alpha) }            for V, and for each Q_a
    L   = { lambda >= 0,  max lambda <= ||eta||_1 / (1 - alpha) }
    M   = { mu >= 0,      max mu     <= ||eta||_1 / (zeta (1 - alpha)) } zeta <= every diagonal element of the matrix M
    Xi  = { sum_a lambda_a >= eta }

V, L and M are boxes: project by clipping. Xi is a half-space per state: raise the state's entries by the same amount.
L and Xi together split into a small problem per state: with x = lambda(s, .), e = eta(s), B = ||eta||_1 / (1 - alpha),

    min_l ||l - x||^2   such that   0 <= l <= B,  sum l >= e

    Clip x to [0, B]; if the sum is e or more, that is the answer. If not, the sum constraint is tight, and its
    multiplier nu > 0 solves sum_a clip(x_a + nu, 0, B) = e. The upper bound then never acts: entries that are not
    negative and sum to e are at most e <= B. What is left, sum_a max(x_a + nu, 0) = e, is convex and increasing in nu,
    and linear between the points -x_a: Newton's method from the right drops the entries that stay at zero, and is exact
    after at most |A| passes.

    paper      here                 public
    sigma      mdp.reward_bound     reward_bound
    alpha      mdp.discount         discount
    eta        eta                  weights
    zeta       zeta                 zeta

The sets are in the paper's units: V and Q with mdp.value_shift added. An action that a state does not have takes no
part in the sums; lambda and mu are zero there, and Q is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, kernel
from dualq.model.mdp import MDP

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Sets:
    """The bounds of V, L, M and Xi, and the Euclidean projections."""

    value_bound: float  # sigma / (1 - alpha)
    occupancy_bound: float  # ||eta||_1 / (1 - alpha)
    ratio_bound: float  # ||eta||_1 / (zeta (1 - alpha))
    eta: Array = field(repr=False)  # (S,)
    available: Array = field(repr=False)  # (S, A)

    @classmethod
    def of(cls, mdp: MDP, weights: ArrayLike | None = None, zeta: float = 1.0) -> Sets:
        """The sets of a model under the weights eta; zeta is at most the least probability of a pair in the data."""
        eta = mdp.checked_weights(weights)
        if not (np.isfinite(zeta) and zeta > 0.0):
            raise ModelError(
                f"zeta is {zeta:g}; it must be positive: the least probability of a pair of state and action"
            )
        total = float(eta.sum()) / (1.0 - mdp.discount)
        return cls(mdp.reward_bound / (1.0 - mdp.discount), total, total / zeta, eta, mdp.available)

    def project_V(self, V: Array) -> Array:
        """V onto the set V."""
        return np.clip(V, 0.0, self.value_bound)

    def project_Q(self, Q: Array) -> Array:
        """Each Q_a onto the set V."""
        return np.where(self.available, np.clip(Q, 0.0, self.value_bound), Q)

    def project_L(self, lambda_: Array) -> Array:
        """Lambda onto L alone."""
        return np.where(self.available, np.clip(lambda_, 0.0, self.occupancy_bound), 0.0)

    def project_Xi(self, lambda_: Array) -> Array:
        """Lambda onto Xi alone."""
        lambda_ = np.where(self.available, lambda_, 0.0)
        lacking = np.maximum(self.eta - lambda_.sum(axis=1), 0.0) / self.available.sum(axis=1)
        return np.where(self.available, lambda_ + lacking[:, None], 0.0)

    def project_lambda(self, lambda_: Array) -> Array:
        """Lambda onto L and Xi together."""
        projected = np.array(lambda_, dtype=float, order="C")
        _project_states(projected, self.available, self.eta, self.occupancy_bound)
        return projected

    def project_mu(self, mu: Array) -> Array:
        """Mu onto M."""
        return np.where(self.available, np.clip(mu, 0.0, self.ratio_bound), 0.0)


@kernel
def project_state(x: Array, available: Array, least: float, bound: float) -> None:
    """Project one state's row onto {0 <= x <= bound, sum x >= least}, in place; least <= bound is assumed.

    Entries that are not available become zero and take no part.
    """
    total, largest = 0.0, -np.inf
    for a in range(x.size):
        if available[a]:
            total += min(max(x[a], 0.0), bound)
            largest = max(largest, x[a])
    if total >= least:
        for a in range(x.size):
            x[a] = min(max(x[a], 0.0), bound) if available[a] else 0.0
        return
    # Newton on sum_a max(x_a + nu, 0) = least: first with all entries, then with those above zero. The entries are
    # measured from the largest, so that the sum comes out right however far below zero they all are.
    nu, count = np.inf, x.size + 1
    while True:
        left, below = 0, 0.0
        for a in range(x.size):
            low = x[a] - largest
            keep = available[a] & (low + nu > 0.0)  # no jump: it could not be predicted
            below += low if keep else 0.0
            left += keep
        if left >= count:
            break
        nu, count = (least - below) / left, left
    for a in range(x.size):
        x[a] = min(max(x[a] - largest + nu, 0.0), bound) if available[a] else 0.0


@kernel
def _project_states(lambda_, available, eta, bound):
    """`project_state` in every state, in place."""
    for s in range(eta.size):
        project_state(lambda_[s], available[s], eta[s], bound)
