"""What is known of M_k, the distribution of the pairs that an algorithm sees at step k, summed with the weights w_k.

    C_k(s,a) = sum_{j<=k} w_j M_j(s,a)

is what the average of M_k mu_k needs (spd_q.py). Two ways to know M_k:

    an array      M_k = M for ever, so C_k = W_k M: O(1) a step
    a Simulator   M_k = diag(tau_k), tau_k(s,a) = v_k(s) theta_k(a|s), v_{k+1} = P_theta_k' v_k, carried along exactly.
                  That is O(nonzeros) a step, until v_k has settled; under a drift it never has. From then on
                  C_k = before + W_k M, with M where it settled: O(1) a step.

Of a simulator whose rows have uniform pairs, M is the array `uniform_pairs(mdp)`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, kernel
from dualq.model import MDP, checked_distribution
from dualq.online.settings import Problem, averaging_weight
from dualq.worlds import Simulator, behaviour_weight, move_on

Array = np.ndarray

KNOWN = "known"  # to be told by the training loop, which has the source of the rows

Distribution: TypeAlias = "ArrayLike | Simulator | str | None"


class Sums(Protocol):
    """What a state must hold for C_k to be summed up in it: the fields of `first_known`, W and k."""

    @property
    def M(self) -> Array:
        """Where M_k has settled."""
        ...

    @property
    def M_before(self) -> Array:
        """What was summed up before."""
        ...

    @property
    def total_weight(self) -> Array:
        """(1,) W."""
        ...


def told(distribution: Distribution, source: object, sampling: str) -> Distribution:
    """What is known of M_k, having seen the source of the rows."""
    if not (isinstance(distribution, str) and distribution == KNOWN):
        return distribution
    if not isinstance(source, Simulator):
        raise ModelError(
            f"distribution is {KNOWN!r}, but {type(source).__name__} does not know its M_k; leave it out to estimate it"
        )
    return uniform_pairs(source.mdp) if sampling == "uniform" else source


def check_known(distribution: Distribution) -> None:
    """Refuse words other than "known"."""
    if isinstance(distribution, str) and distribution != KNOWN:
        raise ModelError(f"distribution is {distribution!r}; it must be an array, a Simulator, 'known' or None")


def uniform_pairs(mdp: MDP) -> Array:
    """M (S, A) where states are drawn uniformly, and then one of the actions that they have."""
    return np.where(mdp.available, 1.0 / (mdp.num_states * mdp.available.sum(axis=1, keepdims=True)), 0.0)


def as_known(distribution: ArrayLike | str | None) -> ArrayLike | None:
    """M as an array; refused where it was to be told and nobody did."""
    if isinstance(distribution, str):
        raise ModelError("distribution is 'known', but nobody knows it here; give an array or a Simulator")
    return distribution


def first_known(mdp: MDP, distribution: Distribution) -> dict[str, Array]:
    """The fields of a State that hold what is known of M_k: empty where nothing is."""
    nothing, v, settled = np.empty((0, 0)), np.empty(0), np.ones(1, bool)
    if isinstance(distribution, Simulator):
        shape = distribution.mdp.rewards.shape
        if shape != mdp.rewards.shape:
            raise ModelError(f"the simulator has {shape} states and actions; the model has {mdp.rewards.shape}")
        v, settled = distribution.start.copy(), np.zeros(1, bool)
        return {"M": np.zeros(shape), "M_before": np.zeros(shape), "v": v, "settled": settled}
    M = checked_distribution(mdp, as_known(distribution))
    if M is None:
        return {"M": nothing, "M_before": nothing, "v": v, "settled": settled}
    return {"M": M.copy(), "M_before": np.zeros(M.shape), "v": v, "settled": settled}


def known_sums(state: Sums, problem: Problem, distribution: Distribution, s: Array, a: Array) -> Array:
    """C_k(s_k, a_k) for each row, the first of them the next step of the state; empty where nothing is known of M_k."""
    if not state.M.size:
        return np.empty(0)
    sums = np.empty(s.size)
    if isinstance(distribution, Simulator):
        tables, probabilities = distribution.tables, distribution.mdp.probabilities
        _carry(tables, probabilities, state, problem.average_from, problem.power, s, a, sums)
    else:
        _sum_up(state, problem.average_from, problem.power, s, a, sums)
    return sums


def known_sum(state: Sums) -> Array:
    """C (S, A) after the steps that were taken."""
    return state.M_before + state.total_weight[0] * state.M


@kernel
def _sum_up(state, average_from, power, s, a, sums):
    """C_k = W_k M at the pair of each row."""
    W, k = state.total_weight[0], state.k[0]
    for i in range(s.size):
        W += averaging_weight(k, average_from, power)
        sums[i] = W * state.M[s[i], a[i]]
        k += 1


@kernel
def _carry(tables, probabilities, state, average_from, power, s, a, sums):
    """C_k at the pair of each row, v_k carried along in the state."""
    M, M_before, v = state.M, state.M_before, state.v
    W, k = state.total_weight[0], state.k[0]
    for i in range(s.size):
        w = averaging_weight(k, average_from, power)
        W += w
        if not state.settled[0]:
            _add(tables, M_before, w, v, k)
            state.settled[0] = move_on(tables, probabilities, v, k)
            if state.settled[0]:
                _add(tables, M, 1.0, v, k)
                M_before -= W * M
        sums[i] = M_before[s[i], a[i]] + W * M[s[i], a[i]]
        k += 1


@kernel
def _add(tables, to, w, v, k):
    """Add w tau_k."""
    weight = behaviour_weight(tables.drift_kind, tables.drift_rate, k)
    for s in range(v.size):
        for b in range(to.shape[1]):
            to[s, b] += w * v[s] * (weight * tables.theta[s, b] + (1.0 - weight) * tables.to[s, b])
