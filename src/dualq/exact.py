"""`dualq.solve`: the exact saddle point (Q*, V*, occupancy lambda*, ratio mu*) of a known model.

Which method is fastest was measured (benchmarks/exact.py): dynamic programming at every size, by modified policy
iteration where the model mixes fast and by Krylov policy iteration where it does not. The paper's linear program is
there as an independent second opinion, and for its duals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dualq.algorithms.dynamic import Result, krylov_policy_iteration, modified_policy_iteration, solve_dynamic
from dualq.errors import ModelError
from dualq.mdp import MDP
from dualq.saddle.programs import solve_lp
from dualq.solution import Solution

DYNAMIC: dict[str, Callable[[MDP, float], Result]] = {
    "dynamic": solve_dynamic,
    "mpi": modified_policy_iteration,
    "krylov": krylov_policy_iteration,
}
METHODS = (*DYNAMIC, "lp")


def solve(
    mdp: MDP,
    weights: Any = None,
    method: str | None = None,
    *,
    distribution: Any = None,
    tolerance: float = 1e-8,
) -> Solution:
    """Solve a known model exactly.

    weights       eta, positive, one per state or one for all; reward_bound / |S| each if not given
    method        "dynamic" (the default: the faster of the next two), "mpi" (modified policy iteration), "krylov"
                  (Krylov policy iteration), or "lp" for the paper's linear program
    distribution  M (S, A), how often each pair is seen; ratio is then occupancy / M
    tolerance     |V - V*| asked for in every state, in the units of V; `solution.error_bound` says what was proven,
                  which is more only where double precision allows no better

    Q, V and both policies come in the user's units. Q, occupancy and ratio are computed when they are first read.
    """
    method = method or "dynamic"
    if method not in METHODS:
        raise ModelError(f"no method {method!r}; there are {', '.join(METHODS)}")
    if not tolerance > 0.0:
        raise ModelError(f"tolerance is {tolerance:g}; it must be positive")
    if method == "lp":
        return solve_lp(mdp, weights, distribution)
    V, error_bound, name, iterations = DYNAMIC[method](mdp, tolerance)
    return Solution(
        mdp,
        V,
        weights=weights,
        distribution=distribution,
        error_bound=error_bound,
        method=name,
        iterations=iterations,
    )
