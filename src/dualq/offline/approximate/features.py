"""Features: phi(s), in which values and densities are linear.

    phi(s) = (1,  z,  sqrt(2) cos(W_1 z + b_1),  sqrt(2) cos(W_2 z + b_2))        z = Inputs(s), (d,)

The cosines are random Fourier features (Rahimi and Recht, 2007): weights drawn from N(0, 1 / width^2), phases uniform.
Their inner products approximate a Gaussian kernel of that width; two widths, wide and narrow, serve values that bend
slowly and values that bend soon. Widths are in units of sqrt(d) deviations, the distance of two typical states.

A user's own features take their place: a function of the table of states, or a transformer with fit and transform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, StateColumns, States
from dualq.logs import NumberRows
from dualq.offline.approximate.inputs import Inputs

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

Array = np.ndarray

WIDTHS = (1.0, 0.4)  # of the two kernels
LEAST_WAVES = 3  # cosines of each width, however few features are asked for


class Phi(Protocol):
    """States as rows of features, the first of them 1."""

    def __call__(self, states: States) -> Array:
        """(n, D)."""
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
    def width(self) -> int:
        """How many there are."""
        return 1 + self.inputs.width + self.phases.size

    def __call__(self, states: States) -> Array:
        """(n, D)."""
        z = self.inputs(states)
        waves = np.sqrt(2.0) * np.cos(z @ self.weights + self.phases)
        return np.hstack([np.ones((len(states), 1)), z, waves])


def joined(some: Sequence[Features]) -> Features:
    """The waves of several draws beside each other; they share their inputs."""
    weights, phases = np.hstack([one.weights for one in some]), np.concatenate([one.phases for one in some])
    return Features(some[0].inputs, weights, phases)


# ---- the user's own

Table = Mapping[str, ArrayLike]


@runtime_checkable
class Transformer(Protocol):
    """What scikit-learn calls a transformer."""

    def fit(self, X: object, y: object = None) -> object:
        """Learn what transform needs."""
        ...

    def transform(self, X: object) -> ArrayLike | csr_array | csr_matrix:
        """(n, k)."""
        ...


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """What a user made of the columns, scaled, with a 1 in front."""

    columns: StateColumns
    function: Callable[[Table], ArrayLike]
    mean: Array
    deviation: Array

    def __call__(self, states: States) -> Array:
        """(n, D)."""
        x = (_matrix(self.function, self.columns, states) - self.mean) / self.deviation
        return np.hstack([np.ones((len(states), 1)), x])


def own_features(own: Callable[[Table], ArrayLike] | Transformer, rows: NumberRows) -> OwnFeatures:
    """The user's function of {column: values}, or a transformer, which is fitted to the states of the rows."""
    function = _transforming(own, rows) if isinstance(own, Transformer) else own
    x = _matrix(function, rows.columns, rows.state)
    deviation = x.std(axis=0)
    return OwnFeatures(rows.columns, function, x.mean(axis=0), np.where(deviation > 0.0, deviation, 1.0))


def _transforming(own: Transformer, rows: NumberRows) -> Callable[[Table], ArrayLike]:
    """A transformer reads a matrix of the columns in their order: numbers, or objects where some are labels."""
    from scipy.sparse import csr_array, csr_matrix

    own.fit(_columns(_table(rows.columns, rows.state)))

    def transformed(table: Table) -> ArrayLike:
        found = own.transform(_columns(table))
        return found.toarray() if isinstance(found, csr_array | csr_matrix) else found

    return transformed


def _columns(table: Table) -> Array:
    columns = [np.asarray(values) for values in table.values()]
    return np.stack(columns, axis=1) if len({c.dtype for c in columns}) == 1 else np.array(columns, object).T


def _table(columns: StateColumns, states: States) -> dict[str, Array]:
    """{column: values}; None for a label that the log never had."""
    table: dict[str, Array] = dict(zip(columns.numbers, states.numbers.T, strict=True))
    for (name, labels), places in zip(columns.categories.items(), states.categories.T, strict=True):
        known = np.empty(len(labels) + 1, object)
        known[:-1] = labels
        table[name] = known[places]  # the place -1 is the last
    return {name: table[name] for name in columns.names}


def _matrix(function: Callable[[Table], ArrayLike], columns: StateColumns, states: States) -> Array:
    x = np.asarray(function(_table(columns, states)), float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or len(x) != len(states) or not np.isfinite(x).all():
        wanted = f"a finite number per feature for each of the {len(states)} states"
        raise ModelError(f"the features are of shape {x.shape}; they must be {wanted}")
    return x
