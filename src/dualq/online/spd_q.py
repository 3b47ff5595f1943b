"""Stochastic primal-dual Q-learning: the paper's Algorithm 1.

Problem   min over (Q, V), max over (lambda, mu) of L_M(Q, V, lambda, mu) on the compact sets    (eq:saddle-point-3)
          from transitions (s_k, a_k, r_k, s_{k+1}) of any behaviour, (s_k, a_k) ~ tau_k
Update    with s_hat uniform over the states, a_hat uniform over its n actions, all right sides at step k:
              Q(s,a)          += gamma_k mu(s,a)                                                 line 5
              Q(s_hat,a_hat)  -= gamma_k |S| n lambda(s_hat,a_hat)
              V(s_hat)        -= gamma_k (|S| eta(s_hat) - |S| n lambda(s_hat,a_hat))
              V(s')           -= gamma_k alpha mu(s,a)
              lambda(s_hat,a_hat) += gamma_k |S| n (Q(s_hat,a_hat) - V(s_hat))                   line 6
              mu(s,a)         += gamma_k (alpha V(s') + r - Q(s,a))
          then each is projected onto its set: V, Q, mu onto boxes, lambda onto L and Xi         line 7
          (only the state s_hat of lambda can leave its set, so only its row is projected)
Gives     the averages Q, V, lambda over the steps, and M mu averaged                            line 9
Cost      O(|A|) a step: the averages are lazy.

    paper       here        public
    alpha       alpha       discount (of the model)
    gamma_k     gamma       step_size
    eta         eta         weights
    zeta        zeta        zeta
    M_k         M           distribution
    |A|         n           the number of actions that exist in s_hat

Averages  x_k changes in a few entries a step. With weights w_j of the steps and W_k = w_0 + ... + w_k,
              sum_{j<=k} w_j x_j = W_k x_{k+1} - sum_{j<=k} W_j (x_{j+1} - x_j),
          so it is enough to add W_j times the change to one more array whenever an entry changes.
Mu-hat    the average of M_k mu_k. Where M_k is known (`distribution`: an array M; a simulator, whose M_k = diag(tau_k)
          is carried along; or "known", the simulator that is trained on), the same trick gives it, with
          C_k = w_0 M_0 + ... + w_k M_k in place of W_k (distributions.py):
              sum_{j<=k} w_j M_j mu_j = C_k mu_{k+1} - sum_{j<=k} C_j (mu_{j+1} - mu_j).
          Carrying M_k along is O(nonzeros) a step until it settles, and so is never done unasked.
          But no user of a log has M_k. E[1{(s_k,a_k) = (s,a)} mu_k(s,a) | past] is the entry of M_k mu_k where rows
          are independent, as the paper's proofs assume, and nearly so along a walk that mixes: by default, what is
          averaged is mu_k at the visited pair. Nothing need be known of the behaviour.
Units     rewards get mdp.reward_shift, so that they lie in [0, sigma]; results are moved back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dualq.base import Rows, advance, below, door, generator_state, kernel, unsigned
from dualq.model import MDP, Solution, frequencies, project_state
from dualq.online.distributions import Distribution, check_known, first_known, known_sum, known_sums, told
from dualq.online.settings import PrimalDualSettings, Problem, averaging_weight, clip

Array = np.ndarray


class State(NamedTuple):
    """All that the next step needs, and nothing else: this is what a checkpoint holds."""

    Q: Array  # (S, A)
    V: Array  # (S,)
    lambda_: Array  # (S, A)
    mu: Array  # (S, A)
    Q_moves: Array  # sum_j W_j (Q_{j+1} - Q_j), and so on
    V_moves: Array
    lambda_moves: Array
    mu_mass: Array  # sum_j w_j 1{(s_j,a_j) = (s,a)} mu_j(s,a); - sum_j C_j (mu_{j+1} - mu_j) where M_k is known
    visits: Array  # (S, A) how often each pair was seen
    total_weight: Array  # (1,) W
    k: Array  # (1,) steps taken
    rng: Array  # (1,) generator of s_hat, a_hat
    M: Array  # C_k = M_before + W_k M once M_k has settled, M_before until then; empty where M is not known
    M_before: Array
    v: Array  # (S,) v_k of a simulator
    settled: Array  # (1,) whether v_k has settled


@door
@dataclass(frozen=True, eq=False)
class SPDQ(PrimalDualSettings[State, Problem]):
    """Algorithm 1; it starts from Q, V, occupancy and ratio.

    Parameters
    ----------
    distribution
        M_k, for the average of M_k mu_k: None where it is not known; an array (S, A) of positive numbers; a
        Simulator, for M_k = diag(tau_k); or "known", the M_k of the simulator that is trained on

    and the settings of `PrimalDualSettings`.

    Examples
    --------
    >>> import dualq
    >>> algorithm = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=[1.5, 1.5], zeta=0.0856)
    >>> run = dualq.train(algorithm, dualq.problems.two_state(), steps=100_000)
    >>> run.solution.primal_policy.matrix.argmax(axis=1)
    array([0, 1])
    """

    distribution: Distribution = None
    tag: ClassVar[str] = "SPDQ"

    def __post_init__(self):
        super().__post_init__()
        check_known(self.distribution)

    def told(self, source: object, sampling: str) -> Self:
        """With the M_k of the simulator that is trained on, where it asks to know it."""
        return dataclasses.replace(self, distribution=told(self.distribution, source, sampling))

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel."""
        return self.numbers(mdp, zeta)

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step, in the sets."""
        Q, V, lambda_, mu = self.start_values(mdp, seed, self.sets(mdp, zeta), "Q V occupancy ratio")
        shape = mdp.rewards.shape
        return State(
            Q=Q,
            V=V,
            lambda_=lambda_,
            mu=mu,
            Q_moves=np.zeros(shape),
            V_moves=np.zeros(shape[:1]),
            lambda_moves=np.zeros(shape),
            mu_mass=np.zeros(shape),
            visits=np.zeros(shape, np.int64),
            total_weight=np.zeros(1),
            k=np.zeros(1, np.int64),
            rng=generator_state(seed, 1),
            **first_known(mdp, self.distribution),
        )

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        s, a, r, s_next, ended = rows
        gamma = self.schedule.steps(k, s.size)
        known = known_sums(state, problem, self.distribution, s, a)
        _run(state, problem, unsigned(s), unsigned(a), r, unsigned(s_next), ended, gamma, known, None)

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The averaged iterates, in the user's units; the last ones where nothing has been averaged yet."""
        if not state.total_weight[0] > 0.0:
            return self.last(state, mdp)
        W = state.total_weight[0]
        Q, V, lambda_ = (
            x - moves / W
            for x, moves in ((state.Q, state.Q_moves), (state.V, state.V_moves), (state.lambda_, state.lambda_moves))
        )
        M = self._M(state)
        M_mu = (state.mu_mass + known_sum(state) * state.mu if state.M.size else state.mu_mass) / W
        mu = np.divide(M_mu, M, out=M_mu.copy(), where=M > 0.0)
        return self._as_solution(mdp, Q, V, lambda_, mu, state)

    def last(self, state: State, mdp: MDP) -> Solution:
        """The last iterates, in the user's units."""
        return self._as_solution(mdp, state.Q, state.V, state.lambda_, state.mu, state)

    def _M(self, state: State) -> Array:
        """The mean of the M_k where they are known, else the estimate."""
        if state.M.size and state.total_weight[0] > 0.0:
            return known_sum(state) / state.total_weight[0]
        return frequencies(state.visits, state.k[0])

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
            method="Algorithm 1",
            iterations=int(state.k[0]),
        )


@kernel
def _run(state, problem, s, a, r, s_next, ended, gamma, known, limits):
    """Take one step of Algorithm 1 per row, in place. The pair (s, a) is the place s |A| + a of a flat array.

    Places are unsigned, see kernels.py. `limits` are those of safe.py, whose price is taken from the reward, and moves
    with every step; or None, and then Numba compiles the kernel without them.
    """
    Q, V, lambda_, mu = state.Q.ravel(), state.V, state.lambda_.ravel(), state.mu.ravel()
    Q_moves, V_moves, lambda_moves = state.Q_moves.ravel(), state.V_moves, state.lambda_moves.ravel()
    mu_mass, visits, available = state.mu_mass.ravel(), state.visits.ravel(), problem.available
    eta, alpha, top, bound = problem.eta, problem.alpha, problem.value_bound, problem.occupancy_bound
    num_states, num_actions = np.uint64(state.Q.shape[0]), np.uint64(state.Q.shape[1])
    size = float(num_states)
    row, exists = np.empty(num_actions), np.empty(num_actions, np.bool_)
    W, k, x = state.total_weight[0], state.k[0], state.rng[0]

    for i in range(s.size):
        pair, t, g = s[i] * num_actions + a[i], np.uint64(s_next[i]), gamma[i]
        w = averaging_weight(k, problem.average_from, problem.power)
        W += w

        x = advance(x)
        s_hat = np.uint64(below(x, num_states))
        n = np.uint64(problem.num_available[s_hat])
        x = advance(x)
        a_hat = np.uint64(below(x, n))
        if n < num_actions:
            a_hat = nth_existing(available, s_hat, a_hat)
        hat = s_hat * num_actions + a_hat

        mu_k, Q_k, lambda_hat = mu[pair], Q[pair], lambda_[hat]
        Q_hat, V_hat = Q[hat], V[s_hat]
        V_next = problem.end_value if ended[i] else V[t]
        reward = r[i]
        if limits is not None:
            for j in range(limits.prices.size):
                reward -= limits.prices[j] * limits.costs[pair, j]
        reward += problem.shift
        scale = size * np.int64(n)

        # line 5: the primal iterates (a pair or a state drawn twice takes both parts before it is projected)
        Q_drop = g * scale * lambda_hat
        twice = pair == hat
        _move(Q, Q_moves, hat, W, Q_hat, Q_hat if twice else clip(Q_hat - Q_drop, top))
        _move(Q, Q_moves, pair, W, Q_k, clip(Q_k + g * mu_k - (Q_drop if twice else 0.0), top))
        V_drop = g * (size * eta[s_hat] - scale * lambda_hat)
        if ended[i]:
            _move(V, V_moves, s_hat, W, V_hat, clip(V_hat - V_drop, top))
        else:
            twice = t == s_hat
            _move(V, V_moves, s_hat, W, V_hat, V_hat if twice else clip(V_hat - V_drop, top))
            _move(V, V_moves, t, W, V_next, clip((V_hat - V_drop if twice else V_next) - g * alpha * mu_k, top))

        # line 6: the dual iterates; line 7: their projections
        lambda_new = lambda_hat + g * scale * (Q_hat - V_hat)
        inside, total = clip(lambda_new, bound), 0.0
        for b in range(num_actions):
            lambda_b = state.lambda_[s_hat, b]
            total += inside if b == a_hat else lambda_b
        if total >= eta[s_hat]:  # the rest of the row stays
            _move(lambda_, lambda_moves, hat, W, lambda_hat, inside)
        else:
            for b in range(num_actions):
                row[b], exists[b] = state.lambda_[s_hat, b], available[s_hat, b]
            row[a_hat] = lambda_new
            project_state(row, exists, eta[s_hat], bound)
            for b in range(num_actions):
                state.lambda_moves[s_hat, b] += W * (row[b] - state.lambda_[s_hat, b])
                state.lambda_[s_hat, b] = row[b]
        td_error = reward + alpha * V_next - Q_k
        mu_new = clip(mu_k + g * td_error, problem.ratio_bound)
        mu_mass[pair] += known[i] * (mu_k - mu_new) if known.size else w * mu_k
        mu[pair] = mu_new
        if limits is not None:
            for j in range(limits.prices.size):
                step = g * limits.scales[j] * (limits.sides[j] - limits.costs[pair, j] * mu_k)
                price = limits.prices[j]
                _move(limits.prices, limits.moves, j, W, price, clip(price - step, limits.tops[j]))
        visits[pair] += 1
        k += 1

    state.total_weight[0], state.k[0], state.rng[0] = W, k, x


@kernel
def nth_existing(available, s, a):
    """The a-th of the actions that exist in state s."""
    for b in range(np.uint64(available.shape[1])):
        if available[s, b]:
            if a == 0:
                return b
            a -= np.uint64(1)
    return a


@kernel
def _move(x, moves, j, W, old, new):
    moves[j] += W * (new - old)
    x[j] = new
