"""Algorithm: what the training loop asks of a learning method. docs/algorithms.md has a whole one to copy.

    state   <- algorithm.init(mdp, seed, zeta)                   a NamedTuple of arrays: this is what a checkpoint holds
    problem <- algorithm.problem(mdp, zeta)                      what the steps read and never change
    for each chunk of rows:
        algorithm.advance(state, problem, rows, k)               one step per row, in place
    algorithm.solution(state, mdp), algorithm.last(state, mdp)   the answer, and the last iterates

Whoever writes these gets the rest from the loop: chunks, seeds, checkpoints, metrics, progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Arrays, Rows
from dualq.model import MDP, AnyLimit, Solution

Array = np.ndarray


class Stepped(Arrays, Protocol):
    """The state of an algorithm: a NamedTuple of arrays, one of them `k`."""

    @property
    def k(self) -> Array:
        """(1,) the steps taken."""
        ...


StateT = TypeVar("StateT", bound=Stepped)
ProblemT = TypeVar("ProblemT")


@dataclass(frozen=True, eq=False)
class Traits:
    """What the loop must know of an algorithm. The defaults: it learns from rows and has no dual.

    needs_rows     False: it reads the model, and of the rows only how many there are
    needs_bounds   the range of the rewards and zeta must be known before the first row
    sampling       the only sampling of a simulator that leads it to the right answer
    has_dual       its occupancy estimates lambda*, so that the duality gap says something
    weights        eta of what it looks for
    limits         the limits that its answer must keep; None for a method without any
    zeta           the least probability of a pair, where the user said so
    longest        how many steps it has step sizes for; None for any number
    """

    needs_rows: bool = True
    needs_bounds: bool = False
    sampling: str | None = None
    has_dual: bool = False
    weights: ArrayLike | None = None
    limits: Mapping[str, AnyLimit] | None = None
    zeta: float | None = None
    longest: int | None = None


@runtime_checkable
class Algorithm(Protocol[StateT, ProblemT]):
    """A learning method with the user's choices: a frozen dataclass that inherits from this class.

    `tag` stands in checkpoints: it stays when the class is renamed. The fields of the dataclass stand there too, so
    that a run is not continued with other choices.
    """

    tag: ClassVar[str]

    def init(self, mdp: MDP, seed: int, zeta: float) -> StateT:
        """The state before the first step. `zeta` is a lower bound on how often each pair is seen."""
        ...

    def problem(self, mdp: MDP, zeta: float) -> ProblemT:
        """What the steps read. Of the model only its sizes, available pairs, reward range and discount are known."""
        ...

    def advance(self, state: StateT, problem: ProblemT, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place; add their number to `state.k`."""
        ...

    def solution(self, state: StateT, mdp: MDP) -> Solution:
        """The answer in the user's units; averaged, where the method averages."""
        ...

    def last(self, state: StateT, mdp: MDP) -> Solution:
        """The last iterates; the answer itself for a method that does not average."""
        return self.solution(state, mdp)

    def traits(self) -> Traits:
        """What the loop must know of it."""
        return Traits()

    def told(self, source: object, sampling: str) -> Self:
        """The algorithm, having seen where its rows come from: `source` is what was given to `train`."""
        return self

    def least_frequency(self, mdp: MDP) -> float | None:
        """The least probability of a pair where the algorithm itself knows it; None where the rows must tell."""
        return None
