"""Building blocks of problems: sparse transitions from lists, walks on a line, and checks of their arguments."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dualq.base import LARGEST, ModelError

Array = np.ndarray


def transition_rows(row: Array, successor: Array, probability: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Sparse transitions from lists; repeated entries are added up, zeros dropped, successors sorted."""
    possible = probability > 0.0
    P = sp.csr_array((probability[possible], (row[possible], successor[possible])), shape=shape)
    P.sum_duplicates()
    return P


def birth_death_rows(up: Array, down: Array, available: Array | None = None) -> sp.csr_array:
    """A walk on a line: up[s, a] and down[s, a] are the probabilities of a step; else, or off the ends, it stays."""
    S, A = up.shape
    pair, s = np.arange(S * A), np.repeat(np.arange(S), A)
    probability = np.stack([up, down, np.maximum(1.0 - up - down, 0.0)])
    if available is not None:
        probability = probability * available
    return transition_rows(
        np.tile(pair, 3),
        np.concatenate([inside(s + 1, S), inside(s - 1, S), s]),
        probability.ravel(),
        (S * A, S),
    )


def entries(P: sp.csr_array, num_actions: int) -> tuple[Array, Array, Array]:
    """(s, a, s') of each nonzero, in the order in which they are stored."""
    s, a = np.divmod(np.repeat(np.arange(P.indptr.size - 1), np.diff(P.indptr)), num_actions)
    return s, a, P.indices


def expected_rewards(P: sp.csr_array, paid: Array, num_actions: int) -> Array:
    """R (S, A) from the reward of each nonzero."""
    num_rows = P.indptr.size - 1
    row_of = np.repeat(np.arange(num_rows), np.diff(P.indptr))
    return np.bincount(row_of, P.data * paid, num_rows).reshape(-1, num_actions)


def inside(place: Array, size: int) -> Array:
    """Places that do not leave 0, ..., size - 1."""
    return np.clip(place, 0, size - 1)


def all_in(s: int, num_states: int) -> Array:
    """(S,) the distribution that is always in state s."""
    start = np.zeros(num_states)
    start[s] = 1.0
    return start


# ---- checks of arguments


def checked_probability(name: str, value: float) -> float:
    """A probability."""
    if not 0.0 <= float(value) <= 1.0:
        raise ModelError(f"{name} is {float(value):g}; it must be a probability, between 0 and 1")
    return float(value)


def checked_number(name: str, value: float) -> float:
    """A finite number, not negative, and not too large to be multiplied."""
    if not 0.0 <= float(value) < np.inf:
        raise ModelError(f"{name} is {float(value):g}; it must be a finite number, not negative")
    if float(value) > LARGEST:
        raise ModelError(f"{name} is {float(value):g}; it must be at most {LARGEST:g}")
    return float(value)
