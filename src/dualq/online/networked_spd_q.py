"""Networked SPD-Q: Algorithm 1 by several agents, each with rows and rewards of its own, neighbours that mix.

Problem   that of Algorithm 1 (spd_q.py) with the average of the agents' rewards; agent i sees rows of its own, and of
          each reward r only r_i = shares_i r, 1 on average
Update    rows are dealt out in turn: row k is the next of agent k mod N. Agent i takes one step of Algorithm 1 on it,
          with draws s_hat, a_hat of its own and step size gamma_t, t the steps that it has taken. When all N have taken
          step t, all four variables are mixed with those of the neighbours,
              x_i <- sum_j W_ij x_j        for x = Q, V, lambda, mu        W the Metropolis weights (neighbours.py)
          The sets are convex and W's rows add up to 1: nothing needs to be projected again.
Gives     one set of averages per agent, which all come to the same; the answer is their mean. With one agent there is
          nothing to mix, and it is Algorithm 1 bit for bit.
Cost      O(|A|) a row, and O(|S| |A| neighbours) for mixing.

    paper       here        public
    gamma_k     gamma       step_size
    W           W           edges
    r_i         shares      shares

Averages  those of Algorithm 1, x - moves / W_t with W_t the summed weights: mixing is one more change of x in step t,
          so W_t times it is added to the moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Rows, door, generator_state, kernel, unsigned
from dualq.model import MDP, Solution, frequencies
from dualq.online.algorithm import Traits
from dualq.online.neighbours import agents_of, checked_edges, checked_shares, metropolis
from dualq.online.settings import PrimalDualSettings, Problem
from dualq.online.spd_q import State as Alone
from dualq.online.spd_q import _run as take_steps

Array = np.ndarray

OWN = 1000  # agent i draws s_hat, a_hat from the stream 1 + 1000 i of the seed; that of agent 0 is Algorithm 1's


class State(NamedTuple):
    """All that the next step needs, and nothing else: this is what a checkpoint holds."""

    Q: Array  # (agents, S, A)
    V: Array  # (agents, S)
    lambda_: Array
    mu: Array
    Q_moves: Array
    V_moves: Array
    lambda_moves: Array
    mu_mass: Array
    visits: Array  # (agents, S, A) how often each agent saw each pair
    total_weight: Array  # (agents,)
    steps: Array  # (agents,) that each has taken
    rng: Array  # (agents,)
    k: Array  # (1,) rows seen by all


class NetworkedProblem(NamedTuple):
    """What the kernel reads and never changes."""

    spd_q: Problem
    shares: Array  # (agents,) of the reward
    W: Array  # (agents, agents)


@door
@dataclass(frozen=True, eq=False)
class NetworkedSPDQ(PrimalDualSettings[State, NetworkedProblem]):
    """Algorithm 1 by several agents that mix what they have with their neighbours.

    Parameters
    ----------
    edges
        pairs of agents that are neighbours: [(0, 1), (1, 2), ...], or those of a network: `Network.ring(5).edges(0)`.
        Without any there is one agent
    shares
        agent i sees the reward times shares[i]; they must be 1 on average. By default all see all of it

    and the settings of `PrimalDualSettings`. Of `steps` rows each of N agents has steps / N.

    Examples
    --------
    >>> import dualq
    >>> ring = dualq.Network.ring(5).edges(0)
    >>> algorithm = dualq.NetworkedSPDQ(edges=ring, step_size=dualq.inverse_sqrt(2.0), weights=1.5, zeta=0.0856)
    >>> run = dualq.train(algorithm, dualq.problems.two_state(), steps=500_000)
    >>> run.solution.primal_policy.matrix.argmax(axis=1)
    array([0, 1])
    """

    edges: Iterable[tuple[int, int]] = ()
    shares: ArrayLike | None = None
    tag: ClassVar[str] = "NetworkedSPDQ"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "edges", checked_edges(self.edges))
        object.__setattr__(self, "shares", checked_shares(self.shares, self.agents))

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return agents_of(self.edges)

    def traits(self) -> Traits:
        """A list of step sizes lasts as many times longer as there are agents."""
        alone = super().traits()
        return dataclasses.replace(alone, longest=None if alone.longest is None else self.agents * alone.longest)

    def problem(self, mdp: MDP, zeta: float) -> NetworkedProblem:
        """The numbers of the kernel."""
        return NetworkedProblem(self.numbers(mdp, zeta), np.asarray(self.shares, float), metropolis(self.edges))

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step: all agents start alike."""
        N, shape = self.agents, (self.agents, *mdp.rewards.shape)
        starts = self.start_values(mdp, seed, self.sets(mdp, zeta), "Q V occupancy ratio")
        return State(
            *(np.repeat(x[None], N, axis=0) for x in starts),
            Q_moves=np.zeros(shape),
            V_moves=np.zeros(shape[:2]),
            lambda_moves=np.zeros(shape),
            mu_mass=np.zeros(shape),
            visits=np.zeros(shape, np.int64),
            total_weight=np.zeros(N),
            steps=np.zeros(N, np.int64),
            rng=np.concatenate([generator_state(seed, 1 + OWN * i) for i in range(N)]),
            k=np.zeros(1, np.int64),
        )

    def advance(self, state: State, problem: NetworkedProblem, rows: Rows, k: int) -> None:
        """Take one step of one agent per row, in place; mix whenever all have taken theirs."""
        s, a, r, s_next, ended = rows
        turns = np.arange(k, k + s.size) // self.agents
        gamma = self.schedule.steps(int(turns[0]), int(turns[-1] - turns[0]) + 1)[turns - turns[0]] if s.size else r
        _run(state, problem, unsigned(s), unsigned(a), r, unsigned(s_next), ended, gamma)

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The mean of the agents' averages, in the user's units; of their last iterates where there are none yet."""
        W = state.total_weight
        if not W.min() > 0.0:
            return self.last(state, mdp)
        Q, V, lambda_ = (
            (x - moves / W.reshape(-1, *(1,) * (x.ndim - 1))).mean(axis=0)
            for x, moves in ((state.Q, state.Q_moves), (state.V, state.V_moves), (state.lambda_, state.lambda_moves))
        )
        M, M_mu = self._M(state), (state.mu_mass / W[:, None, None]).mean(axis=0)
        mu = np.divide(M_mu, M, out=M_mu.copy(), where=M > 0.0)
        return self._as_solution(mdp, Q, V, lambda_, mu, state)

    def last(self, state: State, mdp: MDP) -> Solution:
        """The mean of the agents' last iterates, in the user's units."""
        Q, V, lambda_, mu = (x.mean(axis=0) for x in (state.Q, state.V, state.lambda_, state.mu))
        return self._as_solution(mdp, Q, V, lambda_, mu, state)

    def _M(self, state: State) -> Array:
        """The estimate of M, from the rows of all."""
        return frequencies(state.visits.sum(axis=0), state.k[0])

    def _as_solution(self, mdp: MDP, Q: Array, V: Array, lambda_: Array, mu: Array, state: State) -> Solution:
        M = self._M(state)
        return Solution(
            mdp,
            V - mdp.value_shift,
            Q=np.where(mdp.available, Q - mdp.value_shift, -np.inf),
            occupancy=np.maximum(lambda_, 0.0),
            ratio=mu,
            distribution=M if (M[mdp.available] > 0.0).all() else None,
            weights=self.weights,
            method="networked Algorithm 1",
            iterations=int(state.k[0]),
        )


@kernel
def _run(state, problem, s, a, r, s_next, ended, gamma):
    """Take one step of one agent per row, in place."""
    agents, nothing, none = state.V.shape[0], np.empty(0), np.empty((0, 0))
    settled, reward = np.ones(1, np.bool_), np.empty(1)
    for row in range(s.size):
        i = state.k[0] % agents
        alone = Alone(
            state.Q[i],
            state.V[i],
            state.lambda_[i],
            state.mu[i],
            state.Q_moves[i],
            state.V_moves[i],
            state.lambda_moves[i],
            state.mu_mass[i],
            state.visits[i],
            state.total_weight[i : i + 1],
            state.steps[i : i + 1],
            state.rng[i : i + 1],
            none,
            none,
            nothing,
            settled,
        )
        this = slice(row, row + 1)
        reward[0] = problem.shares[i] * r[row]
        take_steps(
            alone, problem.spd_q, s[this], a[this], reward, s_next[this], ended[this], gamma[this], nothing, None
        )
        state.k[0] += 1
        if i == agents - 1:
            W = state.total_weight[0]
            _mix(problem.W, state.Q, state.Q_moves, W)
            _mix(problem.W, state.V, state.V_moves, W)
            _mix(problem.W, state.lambda_, state.lambda_moves, W)
            _mix(problem.W, state.mu, state.mu_mass, 0.0)  # what is averaged is mu at the pairs that are seen


@kernel
def _mix(weights, x, moves, W):
    """x_i <- sum_j w_ij x_j, and W times the change is added to the moves."""
    agents = x.shape[0]
    x, moves, mixed = x.reshape(agents, -1), moves.reshape(agents, -1), np.empty(agents)
    for entry in range(x.shape[1]):
        for i in range(agents):
            mixed[i] = weights[i, i] * x[i, entry]
            for j in range(agents):
                if j != i and weights[i, j] > 0.0:
                    mixed[i] += weights[i, j] * x[j, entry]
        for i in range(agents):
            moves[i, entry] += W * (mixed[i] - x[i, entry])
            x[i, entry] = mixed[i]
