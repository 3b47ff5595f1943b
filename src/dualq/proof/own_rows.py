"""The rows of a policy's own pairs, and the value that they give: the model of a log, each block weighted as foreseen.

With weights u(e, p) per row, P^ and r^ the weighted frequencies of pair p, V^ the value of pi in that model and
Z(p) = sum_e u(e, p) Z_e(p) the noise of V^pi in those rows (docs/certificate.md, the policy's own value):

    V^ - V^pi = G Z + (pairs without rows, worth what they are given)      G = (I - alpha P^_pi)^-1 pi / sum_e n u
    q^ - q^pi = G_q Z + ...                                                G_q = alpha P^ G + 1 / sum_e n u

exactly, whatever V^pi is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.proof.evidence import Evidence

Array = np.ndarray


class OwnRows(NamedTuple):
    """Rows (blocks) of the pairs that a policy uses; the first block is what all the others foresee from."""

    pairs: Array  # (K,) which pairs
    state: Array  # (K,)
    chance: Array  # (K,) pi(a | s)
    start: Array  # (S,) where value is measured
    alpha: float
    pair: Array  # (entries,) index among the K
    column: Array  # (entries,) the successor; S is the end
    n: Array  # (blocks, entries)
    mean: Array  # (blocks, entries) of the rewards
    scatter: Array  # (blocks, entries) of the rewards around that mean
    visits: Array  # (blocks, K)
    sizes: Array  # (blocks,) rows of all pairs

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return self.start.size

    def per_pair(self, weights: Array) -> Array:
        """(K,) sums over the successors, of weights (entries,)."""
        return np.bincount(self.pair, weights, minlength=self.pairs.size)


class Fitted(NamedTuple):
    """The value of the policy in the model of weighted rows, and how the noise of its pairs enters."""

    total: Array  # (K,) sum_e n u; 0 where a pair has no rows
    P: Array  # (K, S + 1)
    V: Array  # (S + 1,) 0 at the end
    q: Array  # (K,)
    G: Array  # (S + 1, K) 0 for pairs without rows
    G_q: Array  # (K, K)
    reach: Array  # (S + 1, K) what a pair without rows adds to V per unit of its worth
    reach_q: Array  # (K, K) and to q
    occupancy: Array  # (K,) from the start


def own_rows(ev: Evidence, policy: Array, start: Array, alpha: float) -> OwnRows:
    """The rows of the pairs that a policy (S, A) uses."""
    pairs = np.flatnonzero(policy.ravel() > 0.0)
    place = np.full(policy.size, -1)
    place[pairs] = np.arange(pairs.size)
    mine = np.flatnonzero(place[ev.pair] >= 0)
    n = ev.n[:, mine]
    visits = ev.per_pair(ev.n)[:, pairs]
    return OwnRows(
        pairs,
        pairs // policy.shape[1],
        policy.ravel()[pairs],
        start,
        alpha,
        place[ev.pair[mine]],
        ev.columns[mine],
        n,
        ev.r[:, mine] / np.maximum(n, 1.0),
        ev.scatter[:, mine],
        visits,
        ev.n.sum(axis=1),
    )


def weighted(rows: OwnRows, u: Array, begin: int = 0) -> tuple[Array, Array, Array]:
    """(total, r, P) of the blocks from `begin` on, each row of pair p in block e weighted by u (blocks, K)."""
    n = (rows.n[begin:] * u[:, rows.pair]).sum(axis=0)
    paid = (rows.n[begin:] * rows.mean[begin:] * u[:, rows.pair]).sum(axis=0)
    total = rows.per_pair(n)
    safe = np.where(total > 0.0, total, 1.0)
    P = np.zeros((rows.pairs.size, rows.num_states + 1))
    P[rows.pair, rows.column] = n / safe[rows.pair]
    return total, rows.per_pair(paid) / safe, P


def chain_of(rows: OwnRows, P: Array) -> Array:
    """(S, S) the matrix I - alpha P_pi; the end, and pairs without rows, lead nowhere."""
    S = rows.num_states
    chain = np.zeros((S, S))
    np.add.at(chain, rows.state, rows.chance[:, None] * P[:, :S])
    return np.eye(S) - rows.alpha * chain


def fitted(rows: OwnRows, u: Array, worth: Array) -> Fitted:
    """The model of the blocks after the first, weighted by u (blocks - 1, K); pairs without rows are worth (K,)."""
    S, K = rows.num_states, rows.pairs.size
    total, r, P = weighted(rows, u, begin=1)
    known = total > 0.0
    inverse = np.linalg.inv(chain_of(rows, P))
    gain = np.bincount(rows.state, rows.chance * np.where(known, r, worth), minlength=S)
    V = np.append(inverse @ gain, 0.0)
    q = np.where(known, r + rows.alpha * P @ V, worth)
    into = np.zeros((S + 1, K))
    into[:S] = inverse[:, rows.state] * rows.chance
    G = into * np.where(known, 1.0 / np.where(known, total, 1.0), 0.0)
    reach = into * ~known
    G_q, reach_q = rows.alpha * P @ G, rows.alpha * P @ reach
    places = np.flatnonzero(known)
    G_q[places, places] += 1.0 / total[places]
    return Fitted(total, P, V, q, G, G_q, reach, reach_q, rows.start @ into[:S])


def errors_of(rows: OwnRows, model: Fitted) -> tuple[Array, Array]:
    """Mean of r + alpha V^(s') - q^ (blocks - 1, entries), and Q^ (blocks - 1, K), the sums of its squares."""
    off = rows.mean[1:] + rows.alpha * model.V[rows.column] - model.q[rows.pair]
    squares = rows.scatter[1:] + rows.n[1:] * off**2
    return off, np.array([rows.per_pair(one) for one in squares])
