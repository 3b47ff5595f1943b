"""PDHG on counts that grow: a few steps now and then on the empirical model of the rows so far, from where the last
ones ended. The steps are those of pdhg.py.

Rows      every `every` rows P and R are the frequencies and mean rewards of `logs/counts.py`, `iterations` steps are
          taken from where the last ones ended, and the point is polished, the greedy policy at the start of the steps
          taking the place of the last polish's.
Model     the model of a simulator is used for its shape, range of rewards and discount alone; that its rows list the
          possible successors saves a search, and a successor that never came has probability 0.
          - A pair never seen is not available: no lambda, no part in V. Its Q is given as least + alpha min V, least
            the lower end of the reward range: as if it led to the worst state known. So it is chosen last.
          - What follows an end is worth 0. A state that was never left is absorbing and pays 0, as in `Counts.mdp`.
          - bounds are those of the empirical problem: they say nothing of what the log does not show.
          - reading the answer between two multiples of `every` takes the steps for the rows since, on a copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import LogError, Rows, kernel, unsigned
from dualq.model import MDP, Solution
from dualq.solvers.bilinear import BilinearModel, Units, evaluated, feasible_values, packed
from dualq.solvers.pdhg import NEVER, iterate, polish, start_work

Array = np.ndarray


class State(NamedTuple):
    """All that the next step needs, and nothing else: this is what a checkpoint holds."""

    n: Array  # (nonzeros,) how often each successor came, in the order of the model's rows
    ends: Array  # (S + 1, A) how often a pair ended an episode; the last state is what follows an end
    reward_sum: Array  # (S + 1, A)
    V: Array  # (S + 1,) in the kernel's units
    lambda_: Array  # (S + 1, A)
    omega: Array  # (1,)
    bounds: Array  # (2,) lower and upper
    k: Array  # (1,) rows counted


class Problem(NamedTuple):
    """What is read and never changed; of the model its shape alone."""

    indptr: Array  # ((S + 1) A + 1,) where the successors of each pair stand in n
    indices: Array  # (nonzeros,)
    units: Units
    alpha: float


class Rounds(NamedTuple):
    """When steps are taken, and how many."""

    every: int  # rows between two rounds
    iterations: int  # steps in a round


def problem_of(mdp: MDP, weights: ArrayLike | None) -> Problem:
    """The shape of the model. `mdp` need only know which successors can occur, rewards' range and discount."""
    indptr = np.append(mdp.indptr, np.repeat(mdp.indptr[-1:], mdp.num_actions))
    return Problem(indptr, mdp.indices, Units.of(mdp, mdp.checked_weights(weights)), mdp.discount)


def first_state(mdp: MDP) -> State:
    """The state before the first row."""
    shape = mdp.num_states + 1, mdp.num_actions
    return State(
        n=np.zeros(mdp.indices.size, np.int64),
        ends=np.zeros(shape, np.int64),
        reward_sum=np.zeros(shape),
        V=np.zeros(shape[0]),
        lambda_=np.ones(shape),
        omega=np.ones(1),
        bounds=np.array([-np.inf, np.inf]),
        k=np.zeros(1, np.int64),
    )


def take(state: State, problem: Problem, rows: Rows, k: int, rounds: Rounds) -> None:
    """Count the rows, the first of them row k, in place; a round of steps at every multiple of `rounds.every`."""
    begin = 0
    while begin < rows.s.size:
        end = min(rows.s.size, begin + rounds.every - int(state.k[0]) % rounds.every)
        chunk = Rows(*(column[begin:end] for column in rows))
        unknown = _count(state, unsigned(problem.indptr), problem.indices, *chunk)
        if unknown >= 0:
            s, a, _, s_next, _ = (column[unknown] for column in chunk)
            raise LogError(f"row {k + begin + unknown}: ({s}, {a}) led to {s_next}, which the model does not list")
        if state.k[0] % rounds.every == 0:
            _round(state, problem, rounds.iterations)
        begin = end


def answer(state: State, mdp: MDP, weights: ArrayLike | None, rounds: Rounds) -> Solution:
    """The last point, made feasible, in the user's units, from all rows so far."""
    problem = problem_of(mdp, weights)
    if state.k[0] % rounds.every:
        state = State(*(array.copy() for array in state))
        _round(state, problem, rounds.iterations)
    units, visits = problem.units, _visits(state, problem)[:-1]
    V, Q = state.V[:-1], np.zeros(state.lambda_.shape)
    if state.k[0]:
        model, pairs = _empirical(state, problem)
        V, Q.ravel()[pairs] = feasible_values(model, state.V[: model.eta.size])
    V, Q = units.value * V[: mdp.num_states] + units.shift, units.value * Q[:-1] + units.shift
    Q = np.where(visits > 0, Q, mdp.reward_range[0] + mdp.discount * V.min())
    Q = np.where(visits.any(axis=1, keepdims=True), Q, V[:, None])
    return Solution(
        mdp,
        V,
        Q=np.where(mdp.available, Q, -np.inf),
        occupancy=np.where(mdp.available, units.weight * state.lambda_[:-1], 0.0),
        distribution=np.maximum(visits, 0.5) / max(1, int(state.k[0])),  # never seen: half a visit
        weights=weights,
        bounds=units.total(*state.bounds),
        method="PDHG on counts",
        iterations=int(state.k[0]),
    )


def _round(state: State, problem: Problem, iterations: int) -> None:
    """Some steps on the counts as they are, in place."""
    model, pairs = _empirical(state, problem)
    V, lambda_ = state.V[: model.eta.size], state.lambda_.ravel()
    state.V[-1] = -problem.units.shift / problem.units.value  # 0 in the user's units
    work = start_work(model, V, lambda_[pairs], float(state.omega[0]))
    before = evaluated(model, work.step.r, None)
    iterate(work, model, iterations, NEVER)
    polish(work, model, before)
    V[:], lambda_[:] = work.step.V, 0.0
    lambda_[pairs] = work.step.lambda_
    state.omega[:] = work.omega
    state.bounds[:] = work.lower[0], work.upper[0]


def _visits(state: State, problem: Problem) -> Array:
    """n(s, a) (S + 1, A)."""
    before = np.concatenate([[0], np.cumsum(state.n)])
    return (before[problem.indptr[1:]] - before[problem.indptr[:-1]]).reshape(state.ends.shape) + state.ends


def _empirical(state: State, problem: Problem) -> tuple[BilinearModel, Array]:
    """The model of the counts, and its pairs as places in `state.lambda_`; its states are the first of `state.V`.

    A state that was never left has one pair, which leads back; so has the end, which is there if some row ended.
    """
    visits, units, A = _visits(state, problem), problem.units, state.ends.shape[1]
    S = visits.shape[0] if state.ends.any() else visits.shape[0] - 1
    seen = visits[:S] > 0
    stuck = np.flatnonzero(~seen.any(axis=1))
    seen[stuck, 0] = True
    pairs = np.flatnonzero(seen)

    came, ended = np.flatnonzero(state.n), np.flatnonzero(state.ends)
    row = np.concatenate([np.repeat(np.arange(visits.size), np.diff(problem.indptr))[came], ended, stuck * A])
    column = np.concatenate([problem.indices[came], np.full(ended.size, S - 1, np.int32), stuck.astype(np.int32)])
    times = np.concatenate([state.n[came], state.ends.ravel()[ended], np.ones(stuck.size, np.int64)])
    order = np.argsort(row, kind="stable")
    ptr = np.searchsorted(row[order], np.append(pairs, visits.size))
    total = np.maximum(visits.ravel(), 1)
    P = (times / total[row])[order]
    R = ((state.reward_sum.ravel() / total)[pairs] - units.centre) / units.value
    eta = np.append(units.eta, 0.0)[:S]
    return packed(seen.sum(axis=1), ptr, column[order], P, R, eta, problem.alpha), pairs


@kernel
def _count(state, indptr, indices, s, a, r, s_next, ended):
    """Count rows, in place; the first whose successor is not listed, -1 if there is none."""
    num_actions = state.ends.shape[1]
    for i in range(s.size):
        if ended[i]:
            state.ends[s[i], a[i]] += 1
        else:
            pair = np.int64(s[i]) * num_actions + np.int64(a[i])
            place = -1
            for j in range(indptr[pair], indptr[pair + 1]):
                if indices[j] == s_next[i]:
                    place = np.int64(j)
                    break
            if place < 0:
                return i
            state.n[place] += 1
        state.reward_sum[s[i], a[i]] += r[i]
    state.k[0] += s.size
    return -1
