"""QD-learning: agents with rewards of their own, neighbours that compare (Kar, Moura and Poor, 2013).

Problem   the policy that maximises E sum_k alpha^k r_k with r the average of the agents' rewards r_i; all agents see
          the same transitions (s, a, s'), and each its own reward alone
Update    at the n-th visit of (s, a), for every agent i, from the tables before the visit,
              Q_i(s,a) <- Q_i(s,a) - b sum_{j neighbour of i} [ Q_i(s,a) - Q_j(s,a) ]                      consensus
                                   + g [ r_i + alpha max_b Q_i(s',b) - Q_i(s,a) ]                          innovation
Steps     g = scale / n^power;  b = consensus / n^consensus_power, which must fall more slowly than g
Gives     one table per agent, which all come to the same; the answer is their mean. No dual.
Cost      O(agents |A| + edges) a step.

    paper      here     public
    gamma      alpha    discount (of the model)
    alpha_t    g        step_size
    beta_t     b        consensus, consensus_power
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, Rows, door, kernel
from dualq.model import MDP, Solution
from dualq.online.algorithm import Algorithm, Traits
from dualq.online.neighbours import agents_of, checked_edges, checked_shares, laplacian
from dualq.online.q_learning import ByVisits, visits

Array = np.ndarray


class State(NamedTuple):
    """All that the next step needs, and nothing else: this is what a checkpoint holds."""

    Q: Array  # (agents, S, A)
    visits: Array  # (S, A)
    k: Array  # (1,) steps taken


class Problem(NamedTuple):
    """What the kernel reads and never changes."""

    available: Array  # (S, A)
    alpha: float
    power: float
    scale: float
    consensus: float
    consensus_power: float
    shares: Array  # (agents,) of the reward
    L: Array  # (agents, agents) the Laplacian: degrees, less 1 for every neighbour


@door
@dataclass(frozen=True, eq=False)
class QDLearning(Algorithm[State, Problem]):
    """QD-learning.

    Parameters
    ----------
    edges
        pairs of agents that are neighbours: [(0, 1), (1, 2), ...], or those of a network: `Network.ring(5).edges(0)`
    shares
        agent i sees the reward times shares[i]; they must be 1 on average. By default all see all of it
    step_size
        `visits(power, scale)`
    consensus, consensus_power
        the weight of neighbours at the n-th visit: consensus / n^consensus_power

    Examples
    --------
    >>> import dualq
    >>> ring = [(0, 1), (1, 2), (2, 0)]
    >>> run = dualq.train(dualq.QDLearning(ring, shares=[3, 0, 0]), dualq.problems.two_state(), steps=100_000)
    >>> bool(abs(run.solution.Q - dualq.solve(dualq.problems.two_state().mdp).Q).max() < 4.0)
    True
    """

    edges: Iterable[tuple[int, int]]
    shares: ArrayLike | None = None
    step_size: ByVisits = visits(0.8)
    consensus: float = 0.2
    consensus_power: float = 0.1
    tag: ClassVar[str] = "QDLearning"

    def __post_init__(self):
        object.__setattr__(self, "edges", checked_edges(self.edges))
        if not self.edges:
            raise ModelError("edges are []; there must be pairs of different agents 0, 1, 2, ...")
        object.__setattr__(self, "shares", checked_shares(self.shares, agents_of(self.edges)))
        if self.step_size.linear:
            raise ModelError("QD-learning needs a step size visits(power, scale)")
        slowest = 2.0 * np.linalg.eigvalsh(self.laplacian).max()
        if not 0.0 < self.consensus <= 4.0 / slowest or not 0.0 <= self.consensus_power < self.step_size.power:
            right = f"from above 0 to {4.0 / slowest:.3g}, with a power below that of the step size"
            raise ModelError(f"consensus is {self.consensus:g} / n^{self.consensus_power:g}; it must be {right}")

    @property
    def laplacian(self) -> Array:
        """(agents, agents) L."""
        return laplacian(self.edges)

    def traits(self) -> Traits:
        """It has no dual."""
        return Traits()

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel."""
        rule, shares = self.step_size, np.asarray(self.shares, float)
        steps = rule.power, rule.scale, float(self.consensus), float(self.consensus_power)
        return Problem(np.ascontiguousarray(mdp.available), mdp.discount, *steps, shares, self.laplacian)

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step."""
        S, A = mdp.rewards.shape
        return State(np.zeros((len(self.laplacian), S, A)), np.zeros((S, A), np.int64), np.zeros(1, np.int64))

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        _run(state, problem, *rows)

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The mean of the agents' tables, V = max_a Q, and the greedy policy."""
        Q = np.where(mdp.available, state.Q.mean(axis=0), -np.inf)
        return Solution(mdp, Q.max(axis=1), Q=Q, method="QD-learning", iterations=int(state.k[0]))


@kernel
def _run(state, problem, s, a, r, s_next, ended):
    """Take one step per row, in place."""
    Q, alpha, shares, L = state.Q, problem.alpha, problem.shares, problem.L
    agents, num_actions = Q.shape[0], Q.shape[2]
    before = np.empty(agents)
    for row in range(s.size):
        s_k, a_k, t = np.int64(s[row]), np.int64(a[row]), np.int64(s_next[row])
        state.visits[s_k, a_k] += 1
        n = state.visits[s_k, a_k]
        g, b = problem.scale / n**problem.power, problem.consensus / n**problem.consensus_power
        for i in range(agents):
            before[i] = Q[i, s_k, a_k]
        for i in range(agents):
            best = 0.0
            if not ended[row]:
                best = -np.inf
                for c in range(num_actions):
                    if problem.available[t, c]:
                        # a pair that leads to itself is seen as it was before the visit, by all agents alike
                        value = before[i] if t == s_k and c == a_k else Q[i, t, c]
                        best = max(best, value)
            apart = 0.0
            for j in range(agents):
                apart += L[i, j] * before[j]
            td_error = r[row] * shares[i] + alpha * best - before[i]
            Q[i, s_k, a_k] = before[i] - b * apart + g * td_error
    state.k[0] += s.size
