"""Stochastic primal-dual reinforcement learning: the method of Chen and Wang (2016), and its off-policy modification.

Problem   the LP without Q, min over V, max over lambda of                                            (eq:saddlepont)
              L(V, lambda) = eta'V + lambda'(R + alpha P V - E V)
          off-policy, the LP with M on both sides (intro:LP1b):
              L(V, mu) = eta'V + mu'M (R + alpha P V - E V),   whose dual solution is mu* = M^-1 lambda*

Update    SPDRLUniform: (s,a) uniform and independent, n the number of actions in s, all right sides at step k:
              V(s)        -= gamma_k (|S| eta(s) - |S| n lambda(s,a))
              V(s')       -= gamma_k alpha |S| n lambda(s,a)
              lambda(s,a) += gamma_k |S| n (r + alpha V(s') - V(s))
          then V onto its box, lambda onto L and Xi (only the row of s can have left it)

          SPDRL: (s,a) from any behaviour, s_hat uniform over the states:
              V(s)        += gamma_k mu(s,a)
              V(s')       -= gamma_k alpha mu(s,a)
              V(s_hat)    -= gamma_k |S| eta(s_hat)
              mu(s,a)     += gamma_k (r + alpha V(s') - V(s))
          then V and mu onto their boxes
Gives     the averages of V and of the dual over the steps. SPDRL's dual is not an occupancy: the policy needs
          lambda = M mu, so M is estimated by the frequencies of the pairs, and lambda-hat = M-hat mu-hat.
          There is no Q: a Solution reads it off the model, Q = R + alpha P V.
Cost      O(1) a step (SPDRL), O(|A|) (SPDRLUniform): the averages are lazy, as in Algorithm 1 (spd_q.py).

    paper             here        public
    alpha             alpha       discount (of the model)
    gamma_k           gamma       step_size
    eta               eta         weights
    zeta              zeta        zeta
    lambda_a          lambda_     occupancy
    M_a^-1 lambda_a   mu          ratio

Units     rewards get mdp.reward_shift, so that they lie in [0, sigma]; results are moved back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dualq.base import Rows, advance, below, door, generator_state, kernel
from dualq.model import MDP, Solution, frequencies, project_state
from dualq.online.algorithm import Traits
from dualq.online.distributions import uniform_pairs
from dualq.online.settings import PrimalDualSettings, Problem, averaging_weight, clip

Array = np.ndarray


class State(NamedTuple):
    """All that the next step of SPDRL needs, and nothing else: this is what a checkpoint holds."""

    V: Array  # (S,)
    mu: Array  # (S, A)
    V_moves: Array  # sum_j W_j (V_{j+1} - V_j), and so on
    mu_moves: Array
    visits: Array  # (S, A) how often each pair was seen
    total_weight: Array  # (1,) W
    k: Array  # (1,) steps taken
    rng: Array  # (1,) generator of s_hat


class UniformState(NamedTuple):
    """The same for SPDRLUniform."""

    V: Array  # (S,)
    lambda_: Array  # (S, A)
    V_moves: Array
    lambda_moves: Array
    total_weight: Array  # (1,) W
    k: Array  # (1,) steps taken


@door
@dataclass(frozen=True, eq=False)
class SPDRL(PrimalDualSettings[State, Problem]):
    """The off-policy modification: rows of any behaviour; the dual times the frequencies of the pairs.

    The settings are those of `PrimalDualSettings`; it starts from V and ratio.

    Examples
    --------
    >>> import dualq
    >>> algorithm = dualq.SPDRL(step_size=dualq.inverse_sqrt(2.0), weights=0.1, zeta=0.0856)
    >>> run = dualq.train(algorithm, dualq.problems.two_state(), steps=100_000)
    >>> run.solution.dual_policy.matrix.argmax(axis=1)
    array([0, 1])
    """

    tag: ClassVar[str] = "SPDRL"

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel."""
        return self.numbers(mdp, zeta)

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step, in the sets."""
        V, mu = self.start_values(mdp, seed, self.sets(mdp, zeta), "V ratio")
        return State(
            V=V,
            mu=mu,
            V_moves=np.zeros_like(V),
            mu_moves=np.zeros_like(mu),
            visits=np.zeros(mu.shape, np.int64),
            total_weight=np.zeros(1),
            k=np.zeros(1, np.int64),
            rng=generator_state(seed, 1),
        )

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        _run(state, problem, *rows, self.schedule.steps(k, rows.s.size))

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The averaged iterates, in the user's units; the last ones where nothing has been averaged yet."""
        W = state.total_weight[0]
        if not W > 0.0:
            return self.last(state, mdp)
        return self._as_solution(mdp, state.V - state.V_moves / W, state.mu - state.mu_moves / W, state)

    def last(self, state: State, mdp: MDP) -> Solution:
        """The last iterates, in the user's units."""
        return self._as_solution(mdp, state.V, state.mu, state)

    def _as_solution(self, mdp: MDP, V: Array, mu: Array, state: State) -> Solution:
        mu = np.maximum(mu, 0.0)
        return Solution(
            mdp,
            V - mdp.value_shift,
            occupancy=state.visits / max(1, state.k[0]) * mu,
            ratio=mu,
            distribution=frequencies(state.visits, state.k[0]),
            weights=self.weights,
            method="SPD-RL, off-policy",
            iterations=int(state.k[0]),
        )


@door
@dataclass(frozen=True, eq=False)
class SPDRLUniform(PrimalDualSettings[UniformState, Problem]):
    """The method of Chen and Wang (2016): rows whose pairs are uniform and independent (`streams.UniformPairs`).

    The settings are those of `PrimalDualSettings`, zeta aside; it starts from V and occupancy.

    Examples
    --------
    >>> import dualq
    >>> run = dualq.train(dualq.SPDRLUniform(weights=[1.5, 1.5]), dualq.problems.two_state(), steps=100_000)
    >>> run.solution.dual_policy.matrix.argmax(axis=1)
    array([0, 1])
    """

    tag: ClassVar[str] = "SPDRLUniform"

    def traits(self) -> Traits:
        """Rows whose pairs are not uniform lead it to another answer."""
        return dataclasses.replace(super().traits(), sampling="uniform")

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel."""
        return self.numbers(mdp, zeta)

    def init(self, mdp: MDP, seed: int, zeta: float) -> UniformState:
        """The state before the first step, in the sets."""
        V, lambda_ = self.start_values(mdp, seed, self.sets(mdp, zeta), "V occupancy")
        return UniformState(
            V=V,
            lambda_=lambda_,
            V_moves=np.zeros_like(V),
            lambda_moves=np.zeros_like(lambda_),
            total_weight=np.zeros(1),
            k=np.zeros(1, np.int64),
        )

    def advance(self, state: UniformState, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        _run_uniform(state, problem, *rows, self.schedule.steps(k, rows.s.size))

    def solution(self, state: UniformState, mdp: MDP) -> Solution:
        """The averaged iterates, in the user's units; the last ones where nothing has been averaged yet."""
        W = state.total_weight[0]
        if not W > 0.0:
            return self.last(state, mdp)
        return self._as_solution(mdp, state.V - state.V_moves / W, state.lambda_ - state.lambda_moves / W, state)

    def last(self, state: UniformState, mdp: MDP) -> Solution:
        """The last iterates, in the user's units."""
        return self._as_solution(mdp, state.V, state.lambda_, state)

    def _as_solution(self, mdp: MDP, V: Array, lambda_: Array, state: UniformState) -> Solution:
        return Solution(
            mdp,
            V - mdp.value_shift,
            occupancy=np.maximum(lambda_, 0.0),  # mu = M^-1 lambda follows
            distribution=uniform_pairs(mdp),
            weights=self.weights,
            method="SPD-RL",
            iterations=int(state.k[0]),
        )


@kernel
def _run(state, problem, s, a, r, s_next, ended, gamma):
    """Take one step of the off-policy modification per row, in place."""
    V, mu, V_moves = state.V, state.mu, state.V_moves
    alpha, top = problem.alpha, problem.value_bound
    W, k, x = state.total_weight[0], state.k[0], state.rng[0]

    for i in range(s.size):
        s_k, a_k, t, g = s[i], a[i], s_next[i], gamma[i]
        W += averaging_weight(k, problem.average_from, problem.power)
        x = advance(x)
        s_hat = below(x, V.size)

        mu_k, V_k, V_hat, V_t = mu[s_k, a_k], V[s_k], V[s_hat], V[t]
        V_next = problem.end_value if ended[i] else V_t

        # a state that is touched twice takes both parts before it is projected; a row that ended touches no V(s')
        V[s_k] += g * mu_k
        V[s_hat] -= g * V.size * problem.eta[s_hat]
        if not ended[i]:
            V[t] -= g * alpha * mu_k
        _settle(V, V_moves, s_k, V_k, W, top)
        if s_hat != s_k:
            _settle(V, V_moves, s_hat, V_hat, W, top)
        if not ended[i] and t != s_k and t != s_hat:
            _settle(V, V_moves, t, V_t, W, top)

        td_error = r[i] + problem.shift + alpha * V_next - V_k
        new = clip(mu_k + g * td_error, problem.ratio_bound)
        state.mu_moves[s_k, a_k] += W * (new - mu_k)
        mu[s_k, a_k] = new

        state.visits[s_k, a_k] += 1
        k += 1

    state.total_weight[0], state.k[0], state.rng[0] = W, k, x


@kernel
def _run_uniform(state, problem, s, a, r, s_next, ended, gamma):
    """Take one step of the method under uniform sampling per row, in place."""
    V, lambda_, V_moves, lambda_moves = state.V, state.lambda_, state.V_moves, state.lambda_moves
    alpha, top = problem.alpha, problem.value_bound
    num_states, num_actions = lambda_.shape
    before = np.empty(num_actions)
    W, k = state.total_weight[0], state.k[0]

    for i in range(s.size):
        s_k, a_k, t, g = s[i], a[i], s_next[i], gamma[i]
        W += averaging_weight(k, problem.average_from, problem.power)
        scale = 0.0
        for b in range(num_actions):
            scale += num_states * problem.available[s_k, b]
            before[b] = lambda_[s_k, b]

        lambda_k, V_k, V_t = before[a_k], V[s_k], V[t]
        V_next = problem.end_value if ended[i] else V_t

        V[s_k] -= g * (num_states * problem.eta[s_k] - scale * lambda_k)
        if not ended[i]:
            V[t] -= g * alpha * scale * lambda_k
        _settle(V, V_moves, s_k, V_k, W, top)
        if not ended[i] and t != s_k:
            _settle(V, V_moves, t, V_t, W, top)

        td_error = r[i] + problem.shift + alpha * V_next - V_k
        lambda_[s_k, a_k] += g * scale * td_error
        project_state(lambda_[s_k], problem.available[s_k], problem.eta[s_k], problem.occupancy_bound)
        for b in range(num_actions):
            lambda_moves[s_k, b] += W * (lambda_[s_k, b] - before[b])
        k += 1

    state.total_weight[0], state.k[0] = W, k


@kernel
def _settle(V, V_moves, s, before, W, top):
    """Project V(s) onto its box, and note its change since `before` for the average."""
    V[s] = clip(V[s], top)
    V_moves[s] += W * (V[s] - before)
