"""Shrinkage: how far what each action adds is drawn to what all actions share, as the rows say (empirical Bayes).

Model     y = psi'beta + noise;  what actions share is free, what each adds is normal around 0 with a variance t_g for
          each group g of features: the intercept, the inputs, the waves
Gives     the ridge of psi that this means, noise / (n t_g), at the t_g and the noise under which y is likeliest:
              c_g = dim_g - ridge_g tr (S + ridge)^-1_gg          how many coefficients of the group the rows decide
              t_g = |beta_g|^2 / c_g,   noise = residual square n / (n - all that the rows decide)
          until nothing changes (MacKay, 1992). A group whose effect is all noise gets a ridge that removes it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

Array = np.ndarray

FINEST, MOST = 1e-6, 1e4
LEAST = 1e-3  # of what actions add: below it, places with few rows would bend
SHARED = 1e-7  # more would draw v to a constant, and with it what a state is worth later
STEPS, SAME = 30, 0.02


def groups_of(width: int, inputs: int, actions: int) -> Array:
    """(p,) the group of each coefficient of psi: -1 where it is shared, else 0, 1, 2 as above."""
    within = np.full(width, 2)
    within[0], within[1 : 1 + inputs] = 0, 1
    return np.concatenate([np.full(width, -1), np.tile(within, actions)])


def ridge_of(S: Array, b: Array, square: float, n: int, groups: Array, least: float = LEAST) -> Array:
    """(p,) from S = mean psi psi', b = mean psi y, square = mean y^2."""
    every = [which for g in range(3) if (which := groups == g).any()]
    ridge = np.where(groups < 0, SHARED, LEAST)
    for _ in range(STEPS):
        inverse = cho_solve(cho_factor(S + np.diag(ridge)), np.eye(len(b)))
        beta, free = inverse @ b, np.diag(inverse) * ridge
        decided = len(b) - free.sum()
        noise = max(square - beta @ (b + ridge * beta), np.finfo(float).tiny) * n / max(n - decided, 1.0)
        before = ridge.copy()
        for which in every:
            variance = (beta[which] ** 2).sum() / max(which.sum() - free[which].sum(), 1e-3)
            ridge[which] = np.clip(noise / (n * max(variance, 1e-300)), FINEST, MOST)
        if np.abs(np.log(ridge / before)).max() < SAME:
            break
    return np.where(groups < 0, SHARED, np.maximum(ridge, least))
