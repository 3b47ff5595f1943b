"""The mean of bounded numbers, bounded at every number of rows at once: whoever looks every day pays nothing for it.

X_1, X_2, ... with X_i <= top_i, known before X_i is, and mu_i = E(X_i | all before), which may differ from row to row.
For every rate lambda with lambda top_i < 1 (Fan, Grama and Liu, 2015; docs/certificate.md, event 1, with the guess 0)

    exp( lambda sum (mu_i - X_i) - sum psi(lambda, top_i) X_i^2 ),     psi(l, c) = (-log(1 - l c) - l c) / c^2

is a supermartingale, and so is a mixture over rates that were fixed beforehand. So with probability 1 - delta, for all
n together, the mean of the mu_i is at most

    (sum X_i + B) / n,      B where the mixture is 1 / delta

Rows come in kinds with a top each: n, sum X and sum X^2 of every kind are all that is asked for. The mixture is
sharpest where the mean is off by `effect` and the variance is `variance`: both must be known before the rows come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from dualq.proof.noise import boundary

Array = np.ndarray

SPACING, REACH = 0.2, 4.5  # of the logarithms of the rates, and how far they reach to each side
SHARP = 0.7  # of the Cauchy weights, in the logarithm
FAST = 0.3  # of 1 / top: the weights are not put at rates beyond


@dataclass(frozen=True)
class RunningMean:
    """What is known of the numbers beforehand."""

    top: Array = field(repr=False)  # (kinds,) no number of this kind is above; positive
    variance: float
    effect: float  # how far off a mean is that should be found soon
    delta: float

    def at_most(self, n: Array, total: Array, squares: Array) -> Array:
        """(looks,) the bound of the mean of mu, from (kinds, looks) of n and sum X^2 and (looks,) of sum X."""
        u = np.arange(-REACH, REACH + SPACING, SPACING)
        weights = -np.log1p((u / SHARP) ** 2)
        rates = min(self.effect / max(self.variance, 1e-300), FAST / float(self.top.max())) * np.exp(u)
        scales = np.ascontiguousarray(np.broadcast_to(self.top[:, None], n.shape))
        level = np.log(1.0 / self.delta)
        slack = boundary(n.astype(float), squares, scales, rates, weights - logsumexp(weights), level)
        rows = n.sum(axis=0)
        return np.where(rows > 0, (total + slack) / np.maximum(rows, 1), np.inf)
