"""PDHG on the counts of the rows so far, as an algorithm: nothing needs tuning. solvers/counted_pdhg.py does the work.

Problem   the saddle point of the empirical model, which changes with every row
Update    a few steps of PDHG every so many rows, from where the last ones ended, and a polish
Gives     Q, V, lambda and bounds on eta'V* of the empirical model; the last iterate is the answer
Cost      O(nonzeros) a step of PDHG; a polish is two sparse linear systems
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dualq.base import ModelError, Rows, door
from dualq.model import MDP, Solution
from dualq.online.algorithm import Algorithm, Traits
from dualq.solvers import counted_pdhg
from dualq.solvers.counted_pdhg import Problem, Rounds, State


@door
@dataclass(frozen=True, eq=False)
class PDHG(Algorithm[State, Problem]):
    """PDHG on the counts of the rows so far; nothing needs tuning.

    Parameters
    ----------
    weights
        eta: one per state, one for all, or None for reward_bound / |S| each
    every
        rows between two rounds of steps
    iterations
        steps in a round; a polish follows

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> run = dualq.train(dualq.PDHG(), two, steps=20_000)
    >>> low, high = run.solution.bounds
    >>> low <= high
    True
    >>> run.solution.primal_policy.matrix.argmax(axis=1)
    array([0, 1])
    """

    weights: ArrayLike | None = None
    every: int = 100
    iterations: int = 20
    tag: ClassVar[str] = "PDHG"

    def __post_init__(self):
        for name, number in (("every", self.every), ("iterations", self.iterations)):
            try:
                whole = operator.index(number)
            except TypeError:
                whole = 0
            if whole < 1:
                raise ModelError(f"{name} is {number!r}; it must be a whole number, at least 1")

    @property
    def rounds(self) -> Rounds:
        """When steps are taken, and how many."""
        return Rounds(self.every, self.iterations)

    def traits(self) -> Traits:
        """It has a dual, and finds its own step sizes."""
        return Traits(has_dual=True, weights=self.weights)

    def problem(self, mdp: MDP, zeta: float = 1.0) -> Problem:
        """The shape of the model."""
        return counted_pdhg.problem_of(mdp, self.weights)

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first row."""
        return counted_pdhg.first_state(mdp)

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Count the rows, the first of them row k, in place; take steps at every multiple of `every`."""
        counted_pdhg.take(state, problem, rows, k, self.rounds)

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The last point, made feasible, in the user's units, from all rows so far."""
        return counted_pdhg.answer(state, mdp, self.weights, self.rounds)
