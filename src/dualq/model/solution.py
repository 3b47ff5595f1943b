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

from dualq.base import CheckpointError, Labels, ModelError, door, from_json_array, load_arrays
from dualq.model.mdp import MDP
from dualq.model.packing import Kind, read_saved, unpacked, write_saved
from dualq.model.policy import TablePolicy

Array = np.ndarray


@door
class Solution:
    """Q, V, occupancy and ratio of a model, in the user's units, with the two policies read from them.

    Attributes
    ----------
    error_bound
        proven: |V[s] - V*(s)| is at most this in every state (None where the solver proves nothing). V* is that of
        the model whose rows sum to one exactly, which floating-point rows do only to rounding.
    bounds
        (lower, upper) on eta'V*, where the solver has them
    method
        the name of the method that found it
    iterations
        how many it took

    Examples
    --------
    >>> import dualq
    >>> exact = dualq.solve(dualq.problems.two_state().mdp)
    >>> exact.V.round(3)
    array([20.069, 18.69 ])
    >>> exact.primal_policy.probabilities(0)
    {0: 1.0}
    >>> exact.error_bound < 1e-8
    True
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
        """Write `path` (.npz): Q, V, occupancy, ratio, weights and policy by name, labels and facts, with a SHA-256."""
        write_saved(path, [Kind("solution", type(self).__name__, _without_model, dict)], solution=self)


def solution_parts(solution: Solution) -> dict[str, object]:
    """All that a solution is made of again."""
    arrays = ("Q", "V", "occupancy", "ratio", "weights", "distribution")
    facts = ("method", "iterations", "error_bound", "bounds")
    return {name: getattr(solution, name) for name in (*arrays, *facts, "mdp")}


def _without_model(solution: Solution) -> dict[str, object]:
    """The same for a reader who has the model, and the policy beside it."""
    mdp, parts = solution.mdp, solution_parts(solution)
    del parts["mdp"]
    return (
        parts
        | {"discount": mdp.discount, "states": mdp.states, "actions": mdp.actions}
        | {"policy": solution.primal_policy.matrix}
    )


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
    if "facts" in arrays:
        return _format_1(arrays)
    trees, arrays = read_saved(path)
    if "solution" not in trees:
        raise CheckpointError(f"{path}: not a solution")
    fields = {name: tree for name, tree in trees["solution"]["fields"].items() if name not in ("limits", "prices")}
    parts = unpacked({"is": "dict", "items": fields}, arrays)
    of = parts if "discount" in parts else vars(parts["mdp"])  # a fit has the whole model beside its solution
    facts: Facts = {
        "method": parts["method"],
        "iterations": parts["iterations"],
        "discount": of["discount"],
        "error_bound": parts["error_bound"],
        "bounds": parts["bounds"],
        "states": of["states"],
        "actions": of["actions"],
    }
    return {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}, facts


def _format_1(arrays: dict[str, Array]) -> tuple[dict[str, Array], Facts]:
    """As solutions were saved before they shared the format of fits."""
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
