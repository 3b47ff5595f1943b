"""A problem over numbers as a finite model: what is about the best in it, by a fine grid.

Points    the product of one axis of values per number, times all labels of the categories
Model     P(p' | p, a) = E w(p', x'), x' what follows (p, a): the weights of the 2^N corners of the cell that x' is in
          (multilinear interpolation; outside of the grid, of its edge); one more state is the end
Noise     the mean of E is over so many points of a Sobol sequence, the same for all pairs: no action is preferred for
          its luck
Policy    at any state x, argmax_a sum_p w(p, x) Q(p, a)

An exact solution of the model is the problem's, but for interpolation and noise; the policy's true value, by
simulation (continuous.py), is a lower bound of the best, whatever the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from scipy.stats import qmc

from dualq.base import States
from dualq.model import MDP
from dualq.worlds.continuous import NumberProblem

Array = np.ndarray


MOST_DRAWS = 8  # of one step


class SharedNoise:
    """The same noise for all: the j-th draw is the j-th coordinate of a point."""

    def __init__(self, point: Array):
        self._left = iter(point)

    def random(self, size: int, /) -> Array:
        """One uniform number, for all."""
        return np.full(size, next(self._left))

    def standard_normal(self, size: int, /) -> Array:
        """One normal number, for all."""
        return np.full(size, ndtri(next(self._left)))


@dataclass(frozen=True, eq=False)
class Grid:
    """Values of each number, increasing, and how many labels each category has."""

    axes: tuple[Array, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, problem: NumberProblem, axes: Mapping[str, Array]) -> Grid:
        """One axis per number of the problem's states, by its name."""
        return cls(tuple(np.asarray(axes[name], float) for name in problem.columns.numbers), problem.columns.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each number has, then each category."""
        return (*(axis.size for axis in self.axes), *self.sizes)

    @property
    def points(self) -> States:
        """All points, in the order of their places."""
        at = np.indices(self.shape).reshape(len(self.shape), -1)
        count = len(self.axes)
        numbers = np.stack([axis[i] for axis, i in zip(self.axes, at[:count], strict=True)], axis=1)
        return States(numbers, at[count:].T)

    def weights(self, states: States) -> sp.csr_array:
        """(n, points) w: each row is the corners of a cell, and sums to one."""
        n, sides = len(states), []
        for axis, x in zip(self.axes, states.numbers.T, strict=True):
            low = np.clip(np.searchsorted(axis, x, side="right") - 1, 0, axis.size - 2)
            high = np.clip((x - axis[low]) / (axis[low + 1] - axis[low]), 0.0, 1.0)
            sides.append(((low, 1.0 - high), (low + 1, high)))
        place, weight = [], []
        for corner in itertools.product(*sides):
            place.append(np.ravel_multi_index((*(i for i, _ in corner), *states.categories.T), self.shape))
            weight.append(np.prod([w for _, w in corner], axis=0))
        each = len(place)
        entries = np.stack(weight, axis=1).ravel(), np.stack(place, axis=1).ravel(), np.arange(n + 1) * each
        return sp.csr_array(entries, shape=(n, int(np.prod(self.shape))))

    def model(self, problem: NumberProblem, log2_draws: int = 7, seed: int = 0) -> MDP:
        """The finite model; its last state is the end."""
        S, A, draws = int(np.prod(self.shape)), len(problem.actions), 2**log2_draws
        here, a = self.points.at(np.repeat(np.arange(S), A)), np.tile(np.arange(A), S)
        P, rewards, ends = sp.csr_array((S * A, S)), np.zeros(S * A), np.zeros(S * A)
        for point in qmc.Sobol(MOST_DRAWS, rng=seed).random_base2(log2_draws):
            step = problem.step(SharedNoise(point), here, a)
            P = P + sp.diags_array(1.0 - step.ended) @ self.weights(step.next_state)
            rewards += step.r / draws
            ends += step.ended / draws
        whole = sp.vstack([sp.hstack([P / draws, ends[:, None]]), _stay(S, A)], format="csr")
        return MDP(whole, np.append(rewards, np.zeros(A)).reshape(S + 1, A), problem.discount, actions=problem.actions)

    def greedy(self, Q: Array) -> GridRule:
        """The policy of a solution's Q, at any state."""
        return GridRule(self, Q[: int(np.prod(self.shape))])


def _stay(S: int, A: int) -> sp.csr_array:
    """The rows of the end, which follows itself."""
    return sp.csr_array((np.ones(A), (np.arange(A), np.full(A, S))), shape=(A, S + 1))


@dataclass(frozen=True, eq=False)
class GridRule:
    """The best action by Q between the points of a grid; it is a `Rule`."""

    grid: Grid
    Q: Array  # (points, A)

    def __call__(self, states: States) -> Array:
        """(n, A) one for the best action."""
        best = (self.grid.weights(states) @ self.Q).argmax(axis=1)
        return np.eye(self.Q.shape[1])[best]
