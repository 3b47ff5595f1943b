"""The deterministic primal-dual iteration, for a known model: what Algorithm 1 does on average.

Problem   min over (Q, V), max over (lambda, mu) of L_M(Q, V, lambda, mu) on the compact sets    (eq:saddle-point-3)
Update    all right sides at step k, Pi the projections onto the sets:                (eq:primal-dual-iteration)
              Q      <- Pi [ Q - gamma_k grad_Q L_{M_k} ]            grad_Q      = lambda - M_k mu
              V      <- Pi [ V - gamma_k grad_V L_{M_k} ]            grad_V      = eta - E'lambda + alpha P'M_k mu
              lambda <- Pi [ lambda + gamma_k grad_lambda L_{M_k} ]  grad_lambda = Q - E V
              mu     <- Pi [ mu + gamma_k grad_mu L_{M_k} ]          grad_mu     = M_k (alpha P V + R - Q)
          with M fixed, or M_k = diag(tau_k), the distribution that a simulator's walk has after k steps, carried along:
              tau_k(s,a) = v_k(s) theta_k(a|s),   v_{k+1} = P' tau_k
Gives     the averages of Q, V, lambda over the steps, and of M_k mu_k (the paper's mu-hat)
Cost      O(nonzeros) a step. It reads the model, no rows.

    paper       here        public
    alpha                   discount (of the model)
    gamma_k     gamma       step_size
    eta         eta         weights
    zeta        zeta        zeta
    M, M_k      M           distribution

Units     rewards get mdp.reward_shift, so that they lie in [0, sigma]; results are moved back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dualq.base import ModelError, Rows, door
from dualq.model import MDP, Sets, Solution, checked_distribution, gradients_M
from dualq.online.algorithm import Traits
from dualq.online.distributions import Distribution, as_known, told
from dualq.online.settings import PrimalDualSettings
from dualq.worlds import Simulator, zeta_of

Array = np.ndarray


class State(NamedTuple):
    """All that the next step needs, and nothing else: this is what a checkpoint holds."""

    Q: Array  # (S, A)
    V: Array  # (S,)
    lambda_: Array  # (S, A)
    mu: Array  # (S, A)
    v: Array  # (S,) v_k, where M_k comes from a simulator; empty where M is fixed
    Q_sum: Array  # sum_j w_j Q_j, and so on
    V_sum: Array
    lambda_sum: Array
    M_mu_sum: Array  # sum_j w_j M_j mu_j
    total_weight: Array  # (1,) W
    k: Array  # (1,) steps taken


class Problem(NamedTuple):
    """What the iteration reads and never changes."""

    mdp: MDP  # in the paper's units
    sets: Sets
    M: Array  # (S, A), where it is fixed; empty where it changes with time


@door
@dataclass(frozen=True, eq=False)
class PrimalDual(PrimalDualSettings[State, Problem]):
    """The deterministic iteration; it starts from Q, V, occupancy and ratio.

    Parameters
    ----------
    distribution
        M: an array (S, A) of positive numbers, None for M = I, or a Simulator for M_k = diag(tau_k)

    and the settings of `PrimalDualSettings`; zeta is at most the least entry of M.

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> run = dualq.train(dualq.PrimalDual(step_size=0.1, weights=1.5), two.mdp, steps=2000)
    >>> run.solution.primal_policy.matrix.argmax(axis=1)
    array([0, 1])
    """

    distribution: Distribution = None
    tag: ClassVar[str] = "PrimalDual"

    def traits(self) -> Traits:
        """It reads the model: of the rows only how many there are."""
        return dataclasses.replace(super().traits(), needs_rows=False)

    def told(self, source: object, sampling: str) -> Self:
        """With the M_k of the simulator that is trained on, where it asks to know it."""
        return dataclasses.replace(self, distribution=told(self.distribution, source, sampling))

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The model in the paper's units, and the sets."""
        if isinstance(self.distribution, Simulator) and self.distribution.mdp.rewards.shape != mdp.rewards.shape:
            raise ModelError(
                f"the simulator has {self.distribution.mdp.rewards.shape} states and actions; "
                f"the model has {mdp.rewards.shape}"
            )
        return Problem(mdp.nonnegative(), self.sets(mdp, zeta), _fixed_M(mdp, self.distribution))

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step, in the sets."""
        Q, V, lambda_, mu = self.start_values(mdp, seed, self.sets(mdp, zeta), "Q V occupancy ratio")
        shape = mdp.rewards.shape
        return State(
            Q=Q,
            V=V,
            lambda_=lambda_,
            mu=mu,
            v=self.distribution.start.copy() if isinstance(self.distribution, Simulator) else np.empty(0),
            Q_sum=np.zeros(shape),
            V_sum=np.zeros(shape[:1]),
            lambda_sum=np.zeros(shape),
            M_mu_sum=np.zeros(shape),
            total_weight=np.zeros(1),
            k=np.zeros(1, np.int64),
        )

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place; what the rows say is not read."""
        for j, gamma in enumerate(self.schedule.steps(k, rows.s.size), start=k):
            M = self._M_now(problem.M, state)
            _average(state, M, 0.0 if j < self.average_from else (j + 1.0) ** self.average_power)
            _step(state, problem, M, gamma)
            if isinstance(self.distribution, Simulator):
                state.v[:] = self.distribution.moved(M)

    def least_frequency(self, mdp: MDP) -> float:
        """The least entry of M, over the available pairs; of all M_k for a simulator."""
        if isinstance(self.distribution, Simulator):
            return zeta_of(self.distribution)
        return float(_fixed_M(mdp, self.distribution)[mdp.available].min())

    def _M_now(self, fixed: Array, state: State) -> Array:
        """M_k as an array (S, A)."""
        if isinstance(self.distribution, Simulator):
            return state.v[:, None] * self.distribution.behaviour_at(int(state.k[0]))
        return fixed

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The averaged iterates, in the user's units; the last ones where nothing has been averaged yet."""
        W = state.total_weight[0]
        if not W > 0.0:
            return self.last(state, mdp)
        return self._as_solution(mdp, state.Q_sum / W, state.V_sum / W, state.lambda_sum / W, state.M_mu_sum / W, state)

    def last(self, state: State, mdp: MDP) -> Solution:
        """The last iterates, in the user's units."""
        M_mu = self._M_now(_fixed_M(mdp, self.distribution), state) * state.mu
        return self._as_solution(mdp, state.Q, state.V, state.lambda_, M_mu, state)

    def _as_solution(self, mdp: MDP, Q: Array, V: Array, lambda_: Array, M_mu: Array, state: State) -> Solution:
        # mu is (M mu) / M with the M of now; where some pair has no probability now, M = I and mu is M mu itself.
        M: Array | None = self._M_now(_fixed_M(mdp, self.distribution), state)
        if self.distribution is None or not (M[mdp.available] > 0.0).all():
            M = None
        return Solution(
            mdp,
            V - mdp.value_shift,
            Q=np.where(mdp.available, Q - mdp.value_shift, -np.inf),
            occupancy=lambda_,
            ratio=M_mu if M is None else np.divide(M_mu, M, out=np.zeros(M.shape), where=mdp.available),
            distribution=M,
            weights=self.weights,
            method="primal-dual iteration",
            iterations=int(state.k[0]),
        )


def _fixed_M(mdp: MDP, distribution: Distribution) -> Array:
    """M as an array (S, A); empty where it changes with time."""
    if isinstance(distribution, Simulator):
        return np.empty((0, 0))
    M = checked_distribution(mdp, as_known(distribution))
    return np.where(mdp.available, 1.0, 0.0) if M is None else M


def _average(state: State, M: Array, w: float) -> None:
    """Add iterate k to the sums, with its weight."""
    if w > 0.0:
        state.Q_sum[:] += w * state.Q
        state.V_sum[:] += w * state.V
        state.lambda_sum[:] += w * state.lambda_
        state.M_mu_sum[:] += w * M * state.mu
        state.total_weight[0] += w


def _step(state: State, problem: Problem, M: Array, gamma: float) -> None:
    """One step of eq:primal-dual-iteration, in place."""
    Q, V, lambda_, mu = state.Q, state.V, state.lambda_, state.mu
    sets = problem.sets
    gradient = gradients_M(problem.mdp, sets.eta, M, Q, V, lambda_, mu)
    Q[:] = sets.project_Q(Q - gamma * gradient.Q)
    V[:] = sets.project_V(V - gamma * gradient.V)
    lambda_[:] = sets.project_lambda(lambda_ + gamma * gradient.lambda_)
    mu[:] = sets.project_mu(mu + gamma * gradient.mu)
    state.k[0] += 1
