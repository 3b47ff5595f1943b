"""Rules made of arrays: cells, and linear features. Asked with NumPy alone; networks.py has those made of networks.

cells       the probabilities of the cell that a state is in
logistic    softmax of phi(s)'W
linear      the largest of phi(s)'W among the actions that a clone takes with probability 3% or more
dual        drawn from those, with probabilities proportional to clone(a|s) f*'(phi(s)'W / tau): the dual of the saddle
vote        the action to which several rules together give the largest probability, each with a weight of its own
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualq.base import States
from dualq.model import Rule
from dualq.offline.approximate.features import Phi
from dualq.offline.approximate.networks import RARE as LEAST_LIKELY
from dualq.offline.approximate.networks import best, softmax
from dualq.offline.approximate.tree import Tree, matrix_of

Array = np.ndarray

LOWEST = 300.0  # of y: a state whose actions are all far below 0 still has one that is taken


@dataclass(frozen=True, eq=False)
class CellRule:
    """A rule that says the same in all states of a cell."""

    tree: Tree
    probabilities: Array  # (cells, A)

    def __call__(self, states: States) -> Array:
        """(n, A) the probability of each action in each state."""
        return self.probabilities[self.tree.leaf_of(matrix_of(states))]


@dataclass(frozen=True, eq=False)
class LogisticRule:
    """Probabilities proportional to exp(phi'coefficients)."""

    phi: Phi
    coefficients: Array  # (D, A)

    def __call__(self, states: States) -> Array:
        """(n, A)."""
        return softmax(self.phi(states) @ self.coefficients)


@dataclass(frozen=True, eq=False)
class LinearRule:
    """The largest of phi'coefficients among the actions that a clone finds likely enough."""

    phi: Phi
    coefficients: Array  # (D, A)
    clone: Rule
    least: float = LEAST_LIKELY

    def __call__(self, states: States) -> Array:
        """(n, A)."""
        allowed = supported(self.clone(states), self.least)
        q = np.where(allowed, self.phi(states) @ self.coefficients, -np.inf)
        return (q.argmax(axis=1)[:, None] == np.arange(q.shape[1])).astype(float)


@dataclass(frozen=True, eq=False)
class DualRule:
    """What a clone does, an action the more often the larger its advantage phi'coefficients is."""

    phi: Phi
    coefficients: Array  # (D, A)
    clone: Rule
    tau: float
    least: float = LEAST_LIKELY

    def __call__(self, states: States) -> Array:
        """(n, A)."""
        done = self.clone(states)
        weight = np.where(supported(done, self.least), done, 0.0)
        weight *= density(self.phi(states) @ self.coefficients / self.tau)
        return weight / weight.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class VoteRule:
    """The action to which several rules together give the largest probability, each of them with its weight."""

    rules: tuple[Rule, ...]
    weights: tuple[float, ...]

    def __call__(self, states: States) -> Array:
        """(n, A)."""
        return best(np.sum([w * rule(states) for w, rule in zip(self.weights, self.rules, strict=True)], axis=0))


def density(y: Array) -> Array:
    """f*'(y): exp(y) below 0, 1 + y above; never 0."""
    return np.where(y < 0.0, np.exp(np.clip(y, -LOWEST, 0.0)), 1.0 + y)


def supported(pi: Array, least: float = LEAST_LIKELY) -> Array:
    """(n, A) whether an action is likely enough, or the likeliest."""
    return pi >= np.minimum(least, pi.max(axis=1, keepdims=True))


def log_softmax(u: Array) -> Array:
    """(A, n) the logarithms of probabilities proportional to exp(u), (A, n)."""
    u = u - u.max(axis=0)
    return u - np.log(np.exp(u).sum(axis=0))
