"""Features: phi(s), in which values and densities are linear.

    phi(s) = (1,  z,  sqrt(2) cos(W_1 z + b_1),  sqrt(2) cos(W_2 z + b_2))        z = Inputs(s), (d,)

The cosines are random Fourier features (Rahimi and Recht, 2007): weights drawn from N(0, 1 / width^2), phases uniform.
Their inner products approximate a Gaussian kernel of that width; two widths, wide and narrow, serve values that bend
slowly and values that bend soon. Widths are in units of sqrt(d) deviations, the distance of two typical states.

A user's own features may take their place (own_features.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dualq.base import States
from dualq.logs import NumberRows
from dualq.offline.approximate.inputs import Inputs

Array = np.ndarray

WIDTHS = (1.0, 0.4)  # of the two kernels
LEAST_WAVES = 3  # cosines of each width, however few features are asked for


class Phi(Protocol):
    """States as rows of features, the first of them 1."""

    def __call__(self, states: States) -> Array:
        """(n, D)."""
        ...


class PlainFirst(Phi, Protocol):
    """Features of which those after the first are inputs as they are."""

    @property
    def plain(self) -> int:
        """How many."""
        ...


@dataclass(frozen=True, eq=False)
class Features:
    """Random Fourier features of the scaled inputs; arrays only."""

    inputs: Inputs
    weights: Array  # (d, waves)
    phases: Array  # (waves,)

    @classmethod
    def of(cls, rows: NumberRows, count: int, seed: int = 0) -> Features:
        """About `count` features, scaled by the states of these rows; at least the plain ones and a few cosines."""
        inputs, rng = Inputs.of(rows), np.random.default_rng(seed)
        d = inputs.width
        waves = max(LEAST_WAVES, (count - 1 - d) // 2)
        widths = [width * np.sqrt(d) for width in WIDTHS]
        weights = np.hstack([rng.normal(0.0, 1.0 / width, (d, waves)) for width in widths])
        return cls(inputs, weights, rng.uniform(0.0, 2.0 * np.pi, 2 * waves))

    @property
    def plain(self) -> int:
        """How many of them are inputs as they are."""
        return self.inputs.width

    @property
    def width(self) -> int:
        """How many there are."""
        return 1 + self.inputs.width + self.phases.size

    def __call__(self, states: States) -> Array:
        """(n, D)."""
        z = self.inputs(states)
        waves = np.sqrt(2.0) * np.cos(z @ self.weights + self.phases)
        return np.hstack([np.ones((len(states), 1)), z, waves])

    def quickly(self, states: States) -> Array:
        """(n, D) with cosines in single precision: six digits, in a quarter of the time."""
        z = self.inputs(states)
        waves = (z @ self.weights + self.phases).astype(np.float32)
        np.cos(waves, out=waves)
        waves *= np.float32(np.sqrt(2.0))
        return np.hstack([np.ones((len(z), 1)), z, waves])


def joined(some: Sequence[Features]) -> Features:
    """The waves of several draws beside each other; they share their inputs."""
    weights, phases = np.hstack([one.weights for one in some]), np.concatenate([one.phases for one in some])
    return Features(some[0].inputs, weights, phases)
