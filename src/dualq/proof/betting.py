"""The mean of numbers that are never negative, by betting: a floor that holds with a stated chance, at any time.

Problem   X_1, X_2, ... >= 0, each with the mean v given all before it; nothing is known of how large they can be. These
          are importance-weighted returns, and what they can be is 1 / (a product of propensities).
Bet       against "the mean is m": a player begins with 1 and puts lambda_i(m) >= 0, chosen before X_i is seen, on it
          being more:
              K_t(m) = prod_{i <= t} (1 + lambda_i(m) (X_i - m)),     0 <= lambda_i(m) <= c / m,  c < 1
          At m = v his capital is a non-negative martingale: it ever reaches 1/delta with a chance of at most delta
          (Ville, 1939). So, at all t together,
              v >= sup{ m : max_t K_t(m) >= 1/delta }        with probability 1 - delta
          K_t(m) falls as m rises (each factor does), so the floor is found by bisection.
Stakes    the predictable plug-in of Waudby-Smith and Ramdas (2024, "Estimating means of bounded random variables by
          betting"), for n numbers in all:
              lambda_i = sqrt(2 log(1/delta) / (n s_i^2)),   s_i^2 = (s_0^2 + sum_{j<i} (X_j - mean_j)^2) / i
          cut at c / m. Any stakes that look only backwards are valid; these are about the best for a fixed n.
Ceiling   For numbers Y in [0, 1] with weights W >= 0 of mean 1, X = W Y has the floor above, and the mean of W (1 - Y)
          is 1 - v: a floor of that is a ceiling of v. Each side takes half of delta (Waudby-Smith, Wu, Ramdas,
          Karampatziakis and Mineiro, 2022). No weight needs a bound.
"""

from __future__ import annotations

import numpy as np

from dualq.base import ModelError
from dualq.proof.ledger import Ledger

Array = np.ndarray

MOST_AT_STAKE = 0.9  # c: of the capital, where the number could turn out to be 0
FIRST_VARIANCE = 0.25  # s_0^2: of a number in [0, 1], at most
HALVINGS = 60


def betting_floor(x: Array, ledger: Ledger) -> float:
    """What the mean of these numbers (never negative, in their order) is at least, on what the ledger has."""
    x = np.asarray(x, float)
    wrong = ~((x >= 0.0) & np.isfinite(x))
    if wrong.any():
        raise ModelError(f"a number to bet on is {x[wrong.argmax()]:g}; it must be finite, and not negative")
    level = ledger.level(sides=1)
    if not x.any():
        return 0.0
    stakes = _stakes(x, level)
    low, high = 0.0, float(x.mean() + 1.0)
    while _wealth(x, stakes, high) >= level:  # the floor is hardly ever above the mean
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _wealth(x, stakes, middle) >= level else (low, middle)
    return low


def weighted_bounds(weights: Array, y: Array, ledger: Ledger) -> tuple[float, float]:
    """(low, high) of the mean of W Y, for weights of mean 1 and Y in [0, 1]."""
    below, above = ledger.alike("floor", "ceiling")
    return betting_floor(weights * y, below), 1.0 - betting_floor(weights * (1.0 - y), above)


def _stakes(x: Array, level: float) -> Array:
    """lambda_i, from the numbers before."""
    i = np.arange(1.0, x.size + 1.0)
    mean = (0.5 + np.cumsum(x)) / (i + 1.0)
    squares = FIRST_VARIANCE + np.cumsum((x - mean) ** 2)
    before = np.append(FIRST_VARIANCE, squares[:-1] / (i[:-1] + 1.0))
    return np.sqrt(2.0 * level / (x.size * before))


def _wealth(x: Array, stakes: Array, m: float) -> float:
    """max_t log K_t(m)."""
    cut = np.minimum(stakes, MOST_AT_STAKE / m) if m > 0.0 else stakes
    return float(np.cumsum(np.log1p(cut * (x - m))).max())
