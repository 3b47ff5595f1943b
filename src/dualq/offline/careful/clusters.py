"""Rows that share a moment or an episode: by how much an error that takes rows as independent is too small.

A value of a policy, estimated from rows (s, a, r, s'), moves with each of them, to first order, by its influence
    psi = occupancy(s, a) / n(s, a)  e,      e = r + alpha V(s') - mean of it in the pair
Independent rows make the variance sum psi^2. Where all shops of a day share the weather, or one shop is always lucky,
rows of a group err together, and the variance is that of the groups' sums (cluster-robust; Liang and Zeger, 1986), for
groups by time and by episode at once the two less what both count (Cameron, Gelbach and Miller, 2011):
    by G groups    G/(G-1) sum_g (sum_{i in g} psi_i)^2
    by both        time + episode - rows
A pair's own mean takes a part of e away: e is multiplied by sqrt(n / (n-1)). What comes out is the root of the largest
of these over that of the rows: what an error is to be multiplied with, never less than 1. Where nothing is shared it is
noisy, about sqrt(1/(2G)) of it, so groups are only asked where there are enough of them; nothing can be told by fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualq.logs import Trace
from dualq.model import MDP, TablePolicy

Array = np.ndarray

ENOUGH = 10  # groups


@dataclass(frozen=True, eq=False)
class Groups:
    """The rows that were counted, and which of them share a moment or an episode."""

    rows: tuple[Array, Array, Array, Array, Array]  # s, a, r, s_next, ended
    groups: tuple[Array | None, Array]  # codes of the moment, where there is one clock for all, and of the episode

    @classmethod
    def of(cls, trace: Trace) -> Groups:
        """The groups of a log's rows."""
        used = trace.used
        shared = not trace.restarts and np.isfinite(trace.t).all()
        moment = np.unique(trace.t[used], return_inverse=True)[1] if shared else None
        rows = (trace.s[used], trace.a[used], trace.r[used], np.maximum(trace.s_next[used], 0), trace.ended[used])
        return cls(rows, (moment, trace.episode[used]))

    def factor(self, mdp: MDP, policy: TablePolicy, start: Array) -> float:
        """What the error of a policy's value is to be multiplied with; start: weights of the model's states."""
        occupancy = policy.occupancy(mdp, start + np.finfo(float).tiny)
        return self.shared(self.influences(policy.value(mdp), occupancy, mdp.discount))

    def influences(self, V: Array, occupancy: Array, discount: float) -> Array:
        """psi of every row, for a policy with these values and visits."""
        return influences(*self.rows, V, occupancy, discount)

    def shared(self, psi: Array) -> float:
        """What the error of a sum of these influences is to be multiplied with."""
        return _factor(psi, self.groups)


def shared_factor(
    s: Array,
    a: Array,
    r: Array,
    s_next: Array,
    ended: Array,
    groups: tuple[Array | None, Array | None],
    V: Array,
    occupancy: Array,
    discount: float,
) -> float:
    """What the standard error of a value is to be multiplied with, because rows of a group err together.

    s, a, r, s_next, ended   the rows that were counted, as places
    groups      codes 0, 1, 2, ... of the time and of the episode of every row; None where the log has none
    V           (S or more,) values of the policy;  occupancy (S or more, A) its discounted visits from the start
    """
    return _factor(influences(s, a, r, s_next, ended, V, occupancy, discount), groups)


def _factor(psi: Array, groups: tuple[Array | None, Array | None]) -> float:
    """The root of the largest variance by groups over that by rows, not less than 1."""
    rows = float(psi @ psi)
    if rows == 0.0:
        return 1.0
    found = [by for codes in groups if codes is not None and (by := _variance(psi, codes)) is not None]
    if len(found) == 2:
        found.append(sum(found) - rows)
    return float(np.sqrt(max([1.0, *(variance / rows for variance in found)])))


def influences(
    s: Array, a: Array, r: Array, s_next: Array, ended: Array, V: Array, occupancy: Array, discount: float
) -> Array:
    """psi of every row."""
    y = r + discount * np.where(ended, 0.0, V[s_next])
    pair = s.astype(np.int64) * occupancy.shape[1] + a
    n = np.bincount(pair)
    mean = np.bincount(pair, y) / np.maximum(n, 1)
    one_less = np.sqrt(n / np.maximum(n - 1.0, 1.0))
    return occupancy.ravel()[pair] / n[pair] * one_less[pair] * (y - mean[pair])


def _variance(psi: Array, codes: Array) -> float | None:
    """By the sums of groups; None where there are too few of them."""
    there = np.bincount(codes) > 0
    G = int(there.sum())
    if G < ENOUGH:
        return None
    sums = np.bincount(codes, psi)
    return float(G / (G - 1.0) * (sums @ sums))
