"""psi(s, a) = (phi(s), phi(s) x e_a) in blocks: what all actions share comes first, then what each adds.

Moments of psi are sums over the rows of each action, so psi itself is never made: p = (A + 1) D, and a moment takes
n D p products instead of n p^2. Features are made for some rows at a time, and held where they are not too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from dualq.base import States
from dualq.logs import NumberRows
from dualq.offline.approximate.features import Phi

Array = np.ndarray

CHUNK = 1 << 12  # rows whose features are made at once: few enough to stay near the processor
HELD = 20 << 20  # features that are held, and not made again


def chunks(n: int) -> Iterator[Array]:
    """Places, some at a time."""
    return (np.arange(i, min(i + CHUNK, n)) for i in range(0, n, CHUNK))


def followed(rows: NumberRows) -> NumberRows:
    """With the state itself as the next where nothing follows: it is read there, and does not count."""
    here, then, ended = rows.state, rows.next_state, np.flatnonzero(rows.ended)
    both = ((then.numbers, here.numbers), (then.categories, here.categories))
    if all(np.array_equal(x[ended], y[ended]) for x, y in both):
        return rows
    live = rows.live[:, None] == 1.0
    return replace(rows, next_state=States(*(np.where(live, x, y) for x, y in both)))


def total(pieces: Iterator[Array]) -> Array:
    """Their sum."""
    return reduce(np.add, pieces)


def features_of(phi: Phi, rows: NumberRows) -> Iterator[tuple[Array, Array]]:
    """(phi, actions) of the rows, some at a time."""
    return ((phi(rows.state.at(at)), rows.a[at]) for at in chunks(len(rows)))


@dataclass(frozen=True, eq=False)
class Seen:
    """The features of some states; cosines take longer to make than to read."""

    phi: Phi
    states: States

    def at(self, some: Array) -> Array:
        """(some, D), of places as `chunks` gives them."""
        return self.phi(self.states.at(some)) if self._held is None else np.hstack(self._held[some[0] // CHUNK])

    @cached_property
    def _held(self) -> list[tuple[Array, Array]] | None:
        n, width = len(self.states), self.phi(self.states.at(np.arange(1))).shape[1]
        return [_kept(self.phi(self.states.at(some))) for some in chunks(n)] if width * n <= HELD else None

    def times(self, coefficients: Array) -> Array:
        """(n, k) phi'coefficients."""
        return np.concatenate([self.at(at) @ coefficients for at in chunks(len(self.states))])

    def onto(self, y: Array) -> Array:
        """(D, k) the sum of phi y'."""
        return total(self.at(at).T @ y[at] for at in chunks(len(self.states)))


def _kept(x: Array) -> tuple[Array, Array]:
    """The columns of x, the last of them in half the room where they are numbers of single precision."""
    short = x.astype(np.float32)
    longer = np.flatnonzero((short != x).any(axis=0))
    first = longer[-1] + 1 if longer.size else 0
    return x[:, :first].copy(), short[:, first:].copy()


def by_action(x: Array, y: Array, a: Array, A: int) -> Array:
    """(A, D, k) sum of x y' over the rows of each action."""
    return np.stack([x[a == b].T @ y[a == b] for b in range(A)])


def squares_by_action(x: Array, a: Array, A: int) -> Array:
    """(A, D, D) sum of x x' over the rows of each action: of an array times itself, one half is not made."""
    return np.stack([part.T @ part for part in (x[a == b] for b in range(A))])


def with_shared(blocks: Array) -> Array:
    """((A + 1) D, k): the sum over actions, and below it each."""
    return np.concatenate([blocks.sum(axis=0), *blocks])


def squared(outer: Array) -> Array:
    """Mean psi psi', from the mean of phi phi' of each action."""
    A, D = outer.shape[:2]
    whole = np.zeros((A, D, (A + 1) * D))
    for a in range(A):
        whole[a, :, :D] = whole[a, :, (a + 1) * D : (a + 2) * D] = outer[a]
    return with_shared(whole)


def onward(x: Array, a: Array, x_next: Array, next_pi: Array, A: int) -> Array:
    """(A, D, k, D) sum of phi phi(s')' pi(c|s') over the rows of each action, for k of the next actions c.

    A rule that is certain leaves out most rows.
    """
    D, k = x.shape[1], next_pi.shape[1]
    blocks = np.zeros((A, D, k, D))
    for b in range(A):
        for c in range(k):
            at = np.flatnonzero((a == b) & (next_pi[:, c] > 0.0))
            blocks[b, :, c] = (x[at] * next_pi[at, c, None]).T @ x_next[at]
    return blocks


def per_action(theta: Array, A: int) -> Array:
    """(D, A) coefficients of phi in psi(., a)'theta."""
    blocks = theta.reshape(A + 1, -1)
    return (blocks[0] + blocks[1:]).T


def ridge(sizes: tuple[float, float, float], A: int, D: int) -> Array:
    """(p,) one number for the intercept, one for what is shared, one for what each action adds."""
    intercept, shared, added = sizes
    return np.concatenate([[intercept], np.full(D - 1, shared), np.full(A * D, added)])
