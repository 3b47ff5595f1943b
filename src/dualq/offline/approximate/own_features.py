"""The user's own features, in place of random waves: `learn(..., approximation="linear", features=...)`.

function      of {column: values}, as the log has them, that gives (n,) or (n, k) numbers
transformer   with fit and transform, as scikit-learn has them: it reads a matrix of the columns in their order, and is
              fitted to the states of the rows that are learned from; each time a copy of it
"splines"     phi = (1, z, N_1(z_1), ..., N_K(z_1), N_1(z_2), ..., z_1 z_2, ...): every number bends by itself, and two
              go together by their product. With knots k_1 < ... < k_m at quantiles, natural cubic splines (linear
              beyond the knots at both ends) are spanned by 1, z and
                  N_j = d_j - d_{m-1},   d_j(z) = ((z - k_j)_+^3 - (z - k_m)_+^3) / (k_m - k_j),      j = 1 ... m - 2
              scaled to a deviation of 1. Arrays only, so that a fit can be saved; functions and transformers cannot.

Functions and transformers are scaled too, with a 1 in front. Policies are judged by waves in any case: whether features
of the user's carry the values is not for them to say.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import CheckpointError, LogError, ModelError, StateColumns, States
from dualq.logs import NumberRows
from dualq.offline.approximate.features import PlainFirst
from dualq.offline.approximate.inputs import Inputs

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

Array = np.ndarray
Table = Mapping[str, ArrayLike]
Found = TypeVar("Found")

KNOWN = ("waves", "splines")
KNOTS = tuple(np.linspace(0.05, 0.95, 7).tolist())  # quantiles
PRODUCTS = 8  # numbers, up to which each two are multiplied
MOST = 500  # features


@runtime_checkable
class Transformer(Protocol):
    """What scikit-learn calls a transformer."""

    def fit(self, X: object, y: object = None) -> object:
        """Learn what transform needs."""
        ...

    def transform(self, X: object) -> ArrayLike | csr_array | csr_matrix:
        """(n, k)."""
        ...


FeaturesGiven: TypeAlias = str | Callable[[Table], ArrayLike] | Transformer


def check_features(given: FeaturesGiven | None) -> FeaturesGiven | None:
    """What was given, None where it is what is used anyway; a LogError where there are no such features."""
    if isinstance(given, type):
        wrong = f"features is the class {given.__name__}"
        raise LogError(f"{wrong}; give an object of it: {given.__name__}()", argument="features")
    if given not in KNOWN if isinstance(given, str) else not (given is None or _can_be_asked(given)):
        right = f"one of {', '.join(KNOWN)}, a function of {{column: values}}, or a transformer"
        raise LogError(f"features is {given!r}; it must be {right}", argument="features", value=given)
    return None if given == "waves" else given


def _can_be_asked(given: object) -> bool:
    return callable(given) or isinstance(given, Transformer)


def features_given(given: FeaturesGiven, rows: NumberRows) -> PlainFirst:
    """Those that were asked for, scaled by the states of these rows."""
    return Splines.of(rows) if isinstance(given, str) else own_features(given, rows)


# ---- splines


@dataclass(frozen=True, eq=False)
class Splines:
    """Natural cubic splines of each number and products of two, beside the inputs; arrays only."""

    inputs: Inputs
    knots: tuple[Array, ...]  # of each number; fewer than three where it has few values
    mean: Array  # (splines and products,)
    deviation: Array

    @classmethod
    def of(cls, rows: NumberRows) -> Splines:
        """With knots at quantiles of these rows."""
        inputs = Inputs.of(rows)
        z = inputs(rows.state)[:, : len(rows.columns.numbers)]
        knots = tuple(np.unique(np.quantile(x, KNOTS)) for x in z.T)
        bent = _bent(z, knots)
        return cls(inputs, knots, bent.mean(axis=0), _no_zeros(bent.std(axis=0)))

    @property
    def plain(self) -> int:
        """How many of them are inputs as they are."""
        return self.inputs.width

    def __call__(self, states: States) -> Array:
        """(n, D)."""
        z = self.inputs(states)
        bent = (_bent(z[:, : len(self.knots)], self.knots) - self.mean) / self.deviation
        return np.hstack([np.ones((len(states), 1)), z, bent])


def _bent(z: Array, knots: tuple[Array, ...]) -> Array:
    """(n, all of them) N_j of every number, and the products of two numbers where there are few."""
    pairs = combinations(range(z.shape[1]), 2) if z.shape[1] <= PRODUCTS else ()
    products = [z[:, i] * z[:, j] for i, j in pairs]
    return np.column_stack(
        [np.empty((len(z), 0)), *(_splines(x, k) for x, k in zip(z.T, knots, strict=True)), *products]
    )


def _splines(x: Array, k: Array) -> Array:
    """(n, knots - 2) of one number; none where it has fewer than three knots."""
    if k.size < 3:
        return np.empty((x.size, 0))
    cubes = np.maximum(x[:, None] - k, 0.0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (k[-1] - k[:-1])
    return d[:, :-1] - d[:, -1:]


# ---- functions and transformers


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """What a user made of the columns, scaled, with a 1 in front."""

    columns: StateColumns
    function: Callable[[Table], ArrayLike]
    mean: Array
    deviation: Array

    plain = 0

    def __call__(self, states: States) -> Array:
        """(n, D)."""
        x = (_matrix(self.function, self.columns, states) - self.mean) / self.deviation
        return np.hstack([np.ones((len(states), 1)), x])


def own_features(own: Callable[[Table], ArrayLike] | Transformer, rows: NumberRows) -> OwnFeatures:
    """The user's function of {column: values}, or a transformer, a copy of which is fitted to the rows."""
    function = _transforming(own, rows) if isinstance(own, Transformer) else own
    x = _matrix(function, rows.columns, rows.state)
    if x.shape[1] > MOST:
        raise LogError(f"features gives {x.shape[1]:,} numbers for each state; at most {MOST} can be learned with")
    return OwnFeatures(rows.columns, function, x.mean(axis=0), _no_zeros(x.std(axis=0)))


def not_saved(_: OwnFeatures) -> NoReturn:
    """A fit is saved as arrays and JSON, and a function is neither."""
    right = 'learn with features="splines" or without features, or keep the fit in this process'
    raise CheckpointError(f"features of your own, a function or a transformer, cannot be saved; {right}")


def _transforming(own: Transformer, rows: NumberRows) -> Callable[[Table], ArrayLike]:
    """A transformer reads a matrix of the columns in their order: numbers, or objects where some are labels."""
    from scipy.sparse import csr_array, csr_matrix

    mine = copy.deepcopy(own)  # each half of the rows has its own
    _asked(lambda: mine.fit(_columns(_table(rows.columns, rows.state))))

    def transformed(table: Table) -> ArrayLike:
        found = mine.transform(_columns(table))
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
    x = _asked(lambda: np.asarray(function(_table(columns, states)), float))
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or len(x) != len(states) or not np.isfinite(x).all():
        wanted = f"a finite number per feature for each of the {len(states)} states"
        raise ModelError(f"the features are of shape {x.shape}; they must be {wanted}")
    return x


def _asked(own: Callable[[], Found]) -> Found:
    """What code of the user's gives; a LogError where it fails."""
    try:
        return own()
    except Exception as error:
        raise LogError(f"features failed: {type(error).__name__}: {error}", argument="features") from error


def _no_zeros(deviation: Array) -> Array:
    return np.where(deviation > 0.0, deviation, 1.0)
