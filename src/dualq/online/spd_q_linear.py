"""Algorithm 1 with linear features: the paper's outlook on function approximation, one row at a time.

Problem   that of spd_q.py, where all four variables are linear in features of the state, phi >= 0 of sum 1:
              V(s) = sum_j phi_j(s) V_j,   Q(s,a) = sum_j phi_j(s) Q_ja,   lambda and mu likewise
          States that share a feature share what is learned: cells, overlapping tiles, points between which one
          interpolates. One feature per state is the table.
Update    the steps of Algorithm 1 along phi, which is their gradient in the coefficients:
              Q_ja      += gamma_k phi_j(s) mu(s,a)                                              line 5
              Q_ja_hat  -= gamma_k phi_j(s_hat) |S| n lambda(s_hat,a_hat)
              V_j       -= gamma_k phi_j(s_hat) (|S| eta(s_hat) - |S| n lambda(s_hat,a_hat))
              V_j       -= gamma_k phi_j(s') alpha mu(s,a)
              lambda_ja_hat += gamma_k phi_j(s_hat) |S| n (Q(s_hat,a_hat) - V(s_hat))            line 6
              mu_ja     += gamma_k phi_j(s) (alpha V(s') + r - Q(s,a))
          then each coefficient is projected onto its set                                        line 7
Sets      phi is a weighted mean, so variables whose coefficients keep to the boxes keep to them too. With eta_j the
          least eta of the states of a feature, sum_a lambda_ja >= eta_j for all j gives sum_a lambda(s,a) >= min eta.
Gives     the averages Q, V, lambda over the steps, at every state, and the estimate of M mu averaged   line 9
Cost      O(features of a state x |A|) a step.

The symbols are those of spd_q.py. With one feature per state both are equal bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, Rows, advance, below, door, generator_state, kernel, unsigned
from dualq.model import MDP, Solution, frequencies, project_state
from dualq.online.settings import PrimalDualSettings, averaging_weight, clip
from dualq.online.settings import Problem as Numbers
from dualq.online.spd_q import nth_existing

Array = np.ndarray


class Problem(NamedTuple):
    """What the kernel reads and never changes: the numbers of Algorithm 1, and phi as sparse rows."""

    numbers: Numbers
    begin: Array  # (S + 1,)
    places: Array  # features of each state
    parts: Array  # phi_j(s)
    eta: Array  # (D,)
    exists: Array  # (D, A) whether some state of a feature has the action


class State(NamedTuple):
    """Coefficients, and what their averages need."""

    Q: Array  # (D, A)
    V: Array  # (D,)
    lambda_: Array  # (D, A)
    mu: Array  # (D, A)
    Q_moves: Array
    V_moves: Array
    lambda_moves: Array
    mu_mass: Array  # (S, A) sum_j w_j 1{(s_j,a_j) = (s,a)} mu_j(s,a)
    visits: Array  # (S, A)
    total_weight: Array  # (1,)
    k: Array  # (1,)
    rng: Array  # (1,)


@door
@dataclass(frozen=True, eq=False)
class SPDQLinear(PrimalDualSettings[State, Problem]):
    """Algorithm 1 with linear features; it starts from zeros, made feasible.

    Parameters
    ----------
    features
        phi: an array (S, D), at least 0, each row of sum 1

    and the choices of `PrimalDualSettings`.
    """

    features: ArrayLike = ()
    tag: ClassVar[str] = "SPDQLinear"

    def __post_init__(self):
        super().__post_init__()
        phi = np.atleast_2d(np.asarray(self.features, float))
        wrong = ~((phi >= 0.0).all(axis=1) & (np.abs(phi.sum(axis=1) - 1.0) <= 1e-9))
        if wrong.any():
            raise ModelError(f"the features of state {int(wrong.argmax())} must be at least 0 and sum to 1")
        if self.start != "zeros":
            raise ModelError(f"start is {self.start!r}; with features it must be 'zeros'")
        object.__setattr__(self, "features", phi)

    def _phi(self, mdp: MDP) -> Array:
        phi = np.asarray(self.features)
        if len(phi) != mdp.num_states:
            raise ModelError(f"there are features of {len(phi)} states; the model has {mdp.num_states}")
        return phi

    def problem(self, mdp: MDP, zeta: float) -> Problem:
        """The numbers of the kernel."""
        numbers, phi = self.numbers(mdp, zeta), self._phi(mdp)
        of, places = np.nonzero(phi)
        begin = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(phi)))])
        eta, exists = np.full(phi.shape[1], np.inf), np.zeros((phi.shape[1], mdp.rewards.shape[1]), bool)
        np.minimum.at(eta, places, numbers.eta[of])
        np.logical_or.at(exists, places, mdp.available[of])
        eta[np.isinf(eta)] = 0.0  # a feature that no state has
        return Problem(numbers, begin, places, phi[of, places], eta, exists)

    def init(self, mdp: MDP, seed: int, zeta: float) -> State:
        """The state before the first step, in the sets."""
        problem = self.problem(mdp, zeta)
        shape, table = problem.exists.shape, mdp.rewards.shape
        lambda_ = np.zeros(shape)
        for j in range(shape[0]):
            if problem.exists[j].any():
                project_state(lambda_[j], problem.exists[j], problem.eta[j], problem.numbers.occupancy_bound)
        return State(
            Q=np.zeros(shape),
            V=np.zeros(shape[0]),
            lambda_=lambda_,
            mu=np.zeros(shape),
            Q_moves=np.zeros(shape),
            V_moves=np.zeros(shape[0]),
            lambda_moves=np.zeros(shape),
            mu_mass=np.zeros(table),
            visits=np.zeros(table, np.int64),
            total_weight=np.zeros(1),
            k=np.zeros(1, np.int64),
            rng=generator_state(seed, 1),
        )

    def advance(self, state: State, problem: Problem, rows: Rows, k: int) -> None:
        """Take one step per row, the first of them step k, in place."""
        s, a, r, s_next, ended = rows
        _run(state, problem, unsigned(s), unsigned(a), r, unsigned(s_next), ended, self.schedule.steps(k, s.size))

    def solution(self, state: State, mdp: MDP) -> Solution:
        """The averaged iterates at every state, in the user's units; the last ones where nothing is averaged yet."""
        W = state.total_weight[0]
        if not W > 0.0:
            return self.last(state, mdp)
        moved = ((state.Q, state.Q_moves), (state.V, state.V_moves), (state.lambda_, state.lambda_moves))
        Q, V, lambda_ = (x - moves / W for x, moves in moved)
        M, M_mu = frequencies(state.visits, state.k[0]), state.mu_mass / W
        mu = np.divide(M_mu, M, out=M_mu.copy(), where=M > 0.0)
        return self._as_solution(mdp, Q, V, lambda_, mu, state)

    def last(self, state: State, mdp: MDP) -> Solution:
        """The last iterates, in the user's units."""
        return self._as_solution(mdp, state.Q, state.V, state.lambda_, np.asarray(self.features) @ state.mu, state)

    def _as_solution(self, mdp: MDP, Q: Array, V: Array, lambda_: Array, mu: Array, state: State) -> Solution:
        phi, M = np.asarray(self.features), frequencies(state.visits, state.k[0])
        return Solution(
            mdp,
            phi @ V - mdp.value_shift,
            Q=np.where(mdp.available, phi @ Q - mdp.value_shift, -np.inf),
            occupancy=np.where(mdp.available, np.maximum(phi @ lambda_, 0.0), 0.0),
            ratio=mu,
            distribution=M if (M[mdp.available] > 0.0).all() else None,
            weights=self.weights,
            method="Algorithm 1, linear",
            iterations=int(state.k[0]),
        )


@kernel
def _at(x, problem, s, a):
    """sum_j phi_j(s) x_ja."""
    total = 0.0
    for i in range(problem.begin[s], problem.begin[s + 1]):
        total += problem.parts[i] * x[problem.places[i], a]
    return total


@kernel
def _add(x, problem, s, a, step):
    """Along phi(s); what leaves its set is projected later, by _settle."""
    for i in range(problem.begin[s], problem.begin[s + 1]):
        x[problem.places[i], a] += problem.parts[i] * step


@kernel
def _settle(x, moves, before, problem, s, a, W, top):
    """Project the coefficients of a state, and note how far each has moved since `before`."""
    for i in range(problem.begin[s], problem.begin[s + 1]):
        j = problem.places[i]
        x[j, a] = clip(x[j, a], top)
        moves[j, a] += W * (x[j, a] - before[j, a])
        before[j, a] = x[j, a]


@kernel
def _run(state, problem, s, a, r, s_next, ended, gamma):
    """Take one step per row, in place."""
    numbers = problem.numbers
    Q, V, lambda_, mu = state.Q, state.V.reshape(-1, 1), state.lambda_, state.mu
    V_moves = state.V_moves.reshape(-1, 1)
    Q_before, V_before = Q.copy(), V.copy()
    eta, alpha, top, bound = numbers.eta, numbers.alpha, numbers.value_bound, numbers.occupancy_bound
    num_states, num_actions = np.uint64(state.visits.shape[0]), Q.shape[1]
    row, exists = np.empty(num_actions), np.empty(num_actions, np.bool_)
    W, k, x = state.total_weight[0], state.k[0], state.rng[0]

    for i in range(s.size):
        s_k, a_k, t, g = np.int64(s[i]), np.int64(a[i]), np.int64(s_next[i]), gamma[i]
        w = averaging_weight(k, numbers.average_from, numbers.power)
        W += w

        x = advance(x)
        s_hat = np.int64(below(x, num_states))
        n = np.uint64(numbers.num_available[s_hat])
        x = advance(x)
        drawn = np.uint64(below(x, n))
        a_hat = np.int64(nth_existing(numbers.available, s_hat, drawn)) if n < num_actions else np.int64(drawn)

        mu_k, Q_k, lambda_hat = (
            _at(mu, problem, s_k, a_k),
            _at(Q, problem, s_k, a_k),
            _at(lambda_, problem, s_hat, a_hat),
        )
        Q_hat, V_hat = _at(Q, problem, s_hat, a_hat), _at(V, problem, s_hat, 0)
        V_next = numbers.end_value if ended[i] else _at(V, problem, t, 0)
        scale = float(num_states) * np.int64(n)

        # line 5: the primal iterates, moved by both parts before they are projected
        _add(Q, problem, s_k, a_k, g * mu_k)
        _add(Q, problem, s_hat, a_hat, -(g * scale * lambda_hat))
        _settle(Q, state.Q_moves, Q_before, problem, s_hat, a_hat, W, top)
        _settle(Q, state.Q_moves, Q_before, problem, s_k, a_k, W, top)
        _add(V, problem, s_hat, 0, -(g * (float(num_states) * eta[s_hat] - scale * lambda_hat)))
        if not ended[i]:
            _add(V, problem, t, 0, -(g * alpha * mu_k))
            _settle(V, V_moves, V_before, problem, t, 0, W, top)
        _settle(V, V_moves, V_before, problem, s_hat, 0, W, top)

        # line 6: the dual iterates; line 7: their projections
        for h in range(problem.begin[s_hat], problem.begin[s_hat + 1]):
            j = problem.places[h]
            lambda_new = lambda_[j, a_hat] + problem.parts[h] * (g * scale * (Q_hat - V_hat))
            inside, total = clip(lambda_new, bound), 0.0
            for b in range(num_actions):
                row[b], exists[b] = lambda_[j, b], problem.exists[j, b]
                total += inside if b == a_hat else row[b]
            row[a_hat] = inside
            if total < problem.eta[j]:
                row[a_hat] = lambda_new
                project_state(row, exists, problem.eta[j], bound)
            for b in range(num_actions):
                state.lambda_moves[j, b] += W * (row[b] - lambda_[j, b])
                lambda_[j, b] = row[b]
        td_error = r[i] + numbers.shift + alpha * V_next - Q_k
        state.mu_mass[s_k, a_k] += w * mu_k
        for h in range(problem.begin[s_k], problem.begin[s_k + 1]):
            j = problem.places[h]
            mu[j, a_k] = clip(mu[j, a_k] + problem.parts[h] * (g * td_error), numbers.ratio_bound)
        state.visits[s_k, a_k] += 1
        k += 1

    state.total_weight[0], state.k[0], state.rng[0] = W, k, x
