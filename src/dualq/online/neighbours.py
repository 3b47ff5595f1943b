"""Agents and their neighbours, as matrices: what algorithms of several agents read.

L   (agents, agents) the Laplacian: degrees, less 1 for every neighbour
W   (agents, agents) Metropolis weights: w_ij = 1 / (1 + the larger degree of the two), w_ii what is left of 1.
    Symmetric, rows and columns add up to 1: mixing keeps the average of all agents, and convex sets
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

import numpy as np

from dualq.base import ModelError

Array = np.ndarray
Edges = tuple[tuple[int, int], ...]


def checked_edges(edges: Iterable[tuple[int, int]]) -> Edges:
    """Each edge once, in order; a ModelError where some agent can never hear of another."""
    try:
        made = tuple(sorted({(min(pair), max(pair)) for i, j in edges for pair in [(index(i), index(j))]}))
    except (TypeError, ValueError):
        raise ModelError(f"edges are {edges!r}; they must be pairs of agents, such as [(0, 1), (1, 2)]") from None
    if any(i == j or i < 0 for i, j in made):
        raise ModelError(f"edges are {list(made)}; they must be pairs of different agents 0, 1, 2, ...")
    part = {0}
    while grown := {k for edge in made if part & {*edge} for k in edge} - part:
        part |= grown
    apart = sorted(set(range(agents_of(made))) - part)
    if apart:
        raise ModelError(f"edges are {list(made)}; no way leads from agent 0 to agent {apart[0]}: add edges")
    return made


def agents_of(edges: Iterable[tuple[int, int]]) -> int:
    """How many agents the edges join; without any there is one."""
    return 1 + max((max(edge) for edge in edges), default=0)


def checked_shares(shares: object, agents: int) -> tuple[float, ...]:
    """What agent i sees of the reward; by default all see all of it."""
    made = np.ones(agents) if shares is None else np.asarray(shares, float)
    if made.shape != (agents,) or not abs(made.mean() - 1.0) <= 1e-9:
        raise ModelError(f"shares are {np.asarray(shares).tolist()}; they must be {agents} numbers, 1 on average")
    return tuple(made.tolist())


def laplacian(edges: Iterable[tuple[int, int]]) -> Array:
    """(agents, agents) degrees on the diagonal, -1 for every neighbour."""
    edges = list(edges)
    L = np.zeros((agents_of(edges), agents_of(edges)))
    for i, j in edges:
        L[i, j] = L[j, i] = -1.0
    return L - np.diag(L.sum(axis=1))


def metropolis(edges: Iterable[tuple[int, int]]) -> Array:
    """(agents, agents) the weights with which agents mix what they have with what their neighbours have."""
    L = laplacian(edges)
    degrees = np.diag(L)
    W = np.where(L < 0.0, 1.0 / (1.0 + np.maximum.outer(degrees, degrees)), 0.0)
    return W + np.diag(1.0 - W.sum(axis=1))
