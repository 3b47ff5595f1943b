"""Q-learning (Watkins and Dayan, 1992), and double Q-learning (van Hasselt, 2010).

Problem   the policy that maximises E sum_k alpha^k r_k, from transitions (s, a, r, s')
Update    Q(s,a) <- Q(s,a) + gamma [ r + alpha max_b Q(s',b) - Q(s,a) ]
          double: of two tables A, B one is drawn; if A, with b = argmax A(s',.),
          A(s,a) <- A(s,a) + gamma [ r + alpha B(s',b) - A(s,a) ], and the other way round; the answer is their mean
Steps     gamma = scale / n(s,a)^power, n the table's visits of the pair    visits(power, scale)
          gamma = scale / (1 + (1 - alpha) n(s,a))                          linear(scale)
          gamma_k by the step number: any step size of step_sizes.py
Gives     Q and the greedy policy; no dual.
Cost      O(|A|) a step.

    paper     here       public
    alpha     alpha      discount (of the model)
    gamma     g          step_size
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, Rows, advance, bits, checked_numbers, door, generator_state, kernel, unsigned
from dualq.model import MDP, Solution
from dualq.online.algorithm import Algorithm, Traits
from dualq.online.step_sizes import Schedule, StepSize, as_step_size, longest

Array = np.ndarray


class State(NamedTuple):
    """All that the next step needs, and nothing else: this is what a checkpoint holds."""

    Q: Array  # (1 or 2, S, A)
    visits: Array  # (1 or 2, S, A) of each table
    k: Array  # (1,) steps taken
    rng: Array  # (1,) generator that picks one of two tables


class Problem(NamedTuple):
    """What the kernel reads and never changes."""

    available: Array  # (S, A)
    alpha: float
    power: float  # of the visits; 0 where the step size goes by the step number
    scale: float
    linear: float  # 1 - alpha for the linear rule, else 0
    num_available: Array  # (S,) unsigned: how many actions each state has


@dataclass(frozen=True)
class ByVisits:
    """A step size that goes by the visits n of the pair: scale / n^power, or scale / (1 + (1 - alpha) n) if linear."""

    power: float
    scale: float = 1.0
    linear: bool = False
    tag: ClassVar[str] = "ByVisits"

    def __post_init__(self):
        if not (0.0 <= self.power <= 1.0 and 0.0 < self.scale <= 1.0):
            raise ModelError(
                f"the step size has the power {self.power:g} and the scale {self.scale:g}; "
                "both must be at most 1, the scale positive"
            )


@door
def visits(power: float = 0.8, scale: float = 1.0) -> ByVisits:
    """scale / n(s,a)^power.

    Examples
    --------
    >>> import dualq
    >>> dualq.visits(0.8)
    ByVisits(power=0.8, scale=1.0, linear=False)
    """
    return ByVisits(float(power), float(scale))


@door
def linear(scale: float = 1.0) -> ByVisits:
    """scale / (1 + (1 - discount) n(s,a)).

    Examples
    --------
    >>> import dualq
    >>> dualq.linear()
    ByVisits(power=1.0, scale=1.0, linear=True)
    """
    return ByVisits(1.0, float(scale), linear=True)


@door
@dataclass(frozen=True, eq=False)
class QLearning(Algorithm[State, Problem]):
    """Q-learning.

    Parameters
    ----------
    step_size
        `visits(power, scale)`, `linear(scale)`, `inverse_sqrt(scale)`, a number, or an array, one per step
    start
        Q at the start: one number for all pairs, or an array (S, A)
    double
        two tables, each the judge of the other's choice, against the upward bias of the maximum

    Examples
    --------
    >>> import dualq
    >>> run = dualq.train(dualq.QLearning(dualq.visits(0.8)), dualq.problems.two_state(), steps=100_000)
    >>> bool(abs(run.solution.Q - dualq.solve(dualq.problems.two_state().mdp).Q).max() < 2.0)
    True
    """

    step_size: ByVisits | Schedule | ArrayLike = linear(1.0)
    start: ArrayLike = 0.0
    double: bool = False
    tag: ClassVar[str] = "QLearning"

    def __post_init__(self):
        if not isinstance(self.step_size, ByVisits):
            object.__setattr__(self, "step_size", as_step_size(self.step_size))
            rule = self.step_size
            if isinstance(rule, StepSize) and rule.offset is None and rule.scale > 1.0:
                raise ModelError(f"the step size is {rule.scale:g} for ever; it must be at most 1")
        if not np.isfinite(checked_numbers("start", self.start)).all():
            raise ModelError("start has values that are not finite numbers")

    @property
    def schedule(self) -> ByVisits | Schedule:
        """The step size as it was checked."""
        return self.step_size if isinstance(self.step_size, ByVisits) else as_step_size(self.step_size)

    def traits(self) -> Traits:
        """It has no dual."""
        return Traits(longest=longest(self.step_size))

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel."""
        rule, available = self.schedule, np.ascontiguousarray(mdp.available)
        power, scale, slope = 0.0, 0.0, 0.0
        if isinstance(rule, ByVisits):
            power, scale, slope = rule.power, rule.scale, 1.0 - mdp.discount if rule.linear else 0.0
        return Problem(available, mdp.discount, power, scale, slope, available.sum(axis=1, dtype=np.uint32))

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step."""
        if np.shape(self.start) not in ((), mdp.rewards.shape):
            raise ModelError(f"start has shape {np.shape(self.start)}; it must be one number, or {mdp.rewards.shape}")
        Q = np.empty((2 if self.double else 1, *mdp.rewards.shape))
        Q[:] = self.start
        return State(Q, np.zeros(Q.shape, np.int64), np.zeros(1, np.int64), generator_state(seed, 1))

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        s, a, r, s_next, ended = rows
        rule = self.schedule
        gamma = np.empty(0) if isinstance(rule, ByVisits) else rule.steps(k, s.size)
        run = _run_double if self.double else _run
        run(state, problem, unsigned(s), unsigned(a), r, unsigned(s_next), ended, gamma)

    def solution(self, state: State, mdp: MDP) -> Solution:
        """Q, V = max_a Q, and the greedy policy; the occupancy is that policy's in the model at hand."""
        Q = np.where(mdp.available, state.Q.mean(axis=0), -np.inf)
        name = "double Q-learning" if self.double else "Q-learning"
        return Solution(mdp, Q.max(axis=1), Q=Q, method=name, iterations=int(state.k[0]))


@kernel
def _run(state, problem, s, a, r, s_next, ended, gamma):
    """Take one step per row, in place. The pair (s, a) is the place s |A| + a of a flat array.

    Places are unsigned, see kernels.py.
    """
    Q, visits, alpha = state.Q.ravel(), state.visits.ravel(), problem.alpha
    num_actions, num_available = np.uint64(state.Q.shape[2]), problem.num_available
    power, scale, slope = problem.power, problem.scale, problem.linear
    for i in range(s.size):
        pair, t = s[i] * num_actions + a[i], np.uint64(s_next[i])
        n = visits[pair] + 1
        visits[pair] = n
        g = gamma[i] if gamma.size else _step(power, scale, slope, n)
        target = r[i]
        if not ended[i]:
            best, first = -np.inf, t * num_actions
            if num_available[t] == num_actions:
                for b in range(num_actions):
                    best = max(best, Q[first + b])
            else:
                for b in range(num_actions):
                    best = max(best, Q[first + b]) if problem.available[t, b] else best
            target += alpha * best
        td_error = target - Q[pair]
        Q[pair] += g * td_error
    state.k[0] += s.size


@kernel
def _run_double(state, problem, s, a, r, s_next, ended, gamma):
    """Take one step of double Q-learning per row, in place."""
    alpha, available = problem.alpha, problem.available
    power, scale, slope = problem.power, problem.scale, problem.linear
    x = state.rng[0]
    for i in range(s.size):
        s_k, a_k, t = np.int64(s[i]), np.int64(a[i]), np.int64(s_next[i])
        x = advance(x)
        which = np.int64(bits(x) >> np.uint64(63))
        Q, judge, visits = state.Q[which], state.Q[1 - which], state.visits[which]
        visits[s_k, a_k] += 1
        g = gamma[i] if gamma.size else _step(power, scale, slope, visits[s_k, a_k])
        target = r[i]
        if not ended[i]:
            best, arg = -np.inf, 0
            for b in range(available.shape[1]):
                if available[t, b] and Q[t, b] > best:
                    best, arg = Q[t, b], b
            target += alpha * judge[t, arg]
        td_error = target - Q[s_k, a_k]
        Q[s_k, a_k] += g * td_error
    state.k[0] += s.size
    state.rng[0] = x


@kernel
def _step(power, scale, slope, n):
    """The step size at the n-th visit of a pair."""
    if slope > 0.0:
        return scale / (1.0 + slope * n)
    return scale / n**power
