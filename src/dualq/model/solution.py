"""A solution of the paper's saddle-point problem: Q, V and the dual variables lambda (occupancy) and mu (ratio).

    paper            here
    Q_a(s)           Q[s, a]
    V(s)             V[s]
    lambda_a(s)      occupancy[s, a]     how often each pair is visited, discounted, when states start with weights eta
    mu_a(s)          ratio[s, a]         occupancy / M; the occupancy itself where no M was given
    primal policy    primal_policy       argmax_a Q[s, a]
    dual policy      dual_policy         occupancy[s, a] / sum_a' occupancy[s, a']

What a solver did not compute is computed from the model when it is first read.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import CheckpointError, Labels, ModelError, as_json_array, from_json_array, load_arrays, save_arrays
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy

Array = np.ndarray


class Solution:
    """Q, V, occupancy and ratio of a model, in the user's units, with the two policies read from them.

    error_bound   proven: |V[s] - V*(s)| is at most this in every state (None where the solver proves nothing). V* is
                  that of the model whose rows sum to one exactly, which floating-point rows do only to rounding.
    bounds        (lower, upper) on eta'V*, where the solver has them
    method        the name of the method that found it;  iterations  how many it took
    """

    def __init__(
        self,
        mdp: MDP,
        V: Array,
        *,
        Q: Array | None = None,
        occupancy: Array | None = None,
        ratio: Array | None = None,
        weights: ArrayLike | None = None,
        distribution: ArrayLike | None = None,
        error_bound: float | None = None,
        bounds: tuple[float, float] | None = None,
        method: str = "",
        iterations: int = 0,
    ):
        self.mdp = mdp
        self.V = V
        self.weights = mdp.checked_weights(weights)
        self.distribution = checked_distribution(mdp, distribution)
        self.error_bound = error_bound
        self.bounds = bounds
        self.method = method
        self.iterations = iterations
        # A cached property looks here first, so what is given is never computed.
        given = {"Q": Q, "occupancy": occupancy, "ratio": ratio}
        self.__dict__.update({name: array for name, array in given.items() if array is not None})

    @cached_property
    def Q(self) -> Array:
        """Q = R + alpha P V; -inf where the action does not exist."""
        return self.mdp.q_values(self.V)

    @cached_property
    def occupancy(self) -> Array:
        """lambda of the primal policy under the weights eta."""
        return self.primal_policy.occupancy(self.mdp, self.weights)

    @cached_property
    def ratio(self) -> Array:
        """mu = M^-1 lambda."""
        if self.distribution is None:
            return self.occupancy
        M = self.distribution
        return np.divide(self.occupancy, M, out=np.zeros_like(self.occupancy), where=M > 0.0)

    @cached_property
    def primal_policy(self) -> TablePolicy:
        """argmax_a Q[s, a]; among equals the action listed first."""
        return TablePolicy.greedy(self.Q, self.mdp.states, self.mdp.actions)

    @cached_property
    def dual_policy(self) -> TablePolicy:
        """occupancy[s, a] / sum_a' occupancy[s, a']."""
        return TablePolicy.from_occupancy(self.occupancy, self.mdp.available, self.mdp.states, self.mdp.actions)

    def __repr__(self) -> str:
        bound = "" if self.error_bound is None else f", V proven to {self.error_bound:.1e}"
        return f"Solution({self.mdp.num_states} states, {self.mdp.num_actions} actions, by {self.method}{bound})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `path` (.npz): the arrays, the labels and the settings, with a SHA-256."""
        facts = {
            "method": self.method,
            "iterations": self.iterations,
            "discount": self.mdp.discount,
            "error_bound": self.error_bound,
            "bounds": self.bounds,
            "states": {"names": self.mdp.states.names, "values": list(self.mdp.states)},
            "actions": {"names": self.mdp.actions.names, "values": list(self.mdp.actions)},
        }
        arrays = {
            "Q": self.Q,
            "V": self.V,
            "occupancy": self.occupancy,
            "ratio": self.ratio,
            "weights": self.weights,
            "policy": self.primal_policy.matrix,
        }
        save_arrays(path, {**arrays, "facts": as_json_array(facts)})


class Facts(TypedDict):
    """What a saved solution says beside its arrays."""

    method: str
    iterations: int
    discount: float
    error_bound: float | None
    bounds: tuple[float, float] | None
    states: Labels
    actions: Labels


def load_solution(path: str | os.PathLike[str]) -> tuple[dict[str, Array], Facts]:
    """The arrays and the facts (method, bounds, labels) of a solution that was saved; its SHA-256 is checked."""
    arrays = load_arrays(path)
    if "facts" not in arrays:
        raise CheckpointError(f"{path}: not a solution")
    facts = from_json_array(arrays.pop("facts"))
    for kind in ("states", "actions"):
        names, values = facts[kind]["names"], facts[kind]["values"]
        facts[kind] = Labels([tuple(v) if isinstance(v, list) else v for v in values], tuple(names))
    return arrays, facts


def checked_distribution(mdp: MDP, distribution: ArrayLike | None) -> Array | None:
    """The diagonal of M as an array (S, A): probabilities of the pairs, positive wherever an action is available."""
    if distribution is None:
        return None
    if np.shape(distribution) != mdp.rewards.shape:
        raise ModelError(f"distribution has shape {np.shape(distribution)}; it must be {mdp.rewards.shape}")
    M = np.where(mdp.available, np.asarray(distribution, dtype=float), 0.0)
    wrong = mdp.available & ~(np.isfinite(M) & (M > 0))
    if wrong.any():
        s, a = (int(i) for i in np.argwhere(wrong)[0])
        place = f"({mdp.states.describe(s)}, {mdp.actions.describe(a)})"
        words = f"distribution at {place} is {M[s, a]:g}; it must be positive"
        raise ModelError(
            words, argument="distribution", state=mdp.states[s], action=mdp.actions[a], value=float(M[s, a])
        )
    return M


def frequencies(visits: Array, steps: int) -> Array:
    """The estimate of M, positive everywhere: a pair that was never seen counts as half a visit."""
    return np.maximum(visits, 0.5) / max(1, steps)
