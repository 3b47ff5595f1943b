"""`dualq.solve`: the exact saddle point (Q*, V*, occupancy lambda*, ratio mu*) of a known model.

Which method is fastest was measured (benchmarks/exact.py): dynamic programming at every size, by modified policy
iteration where the model mixes fast and by Krylov policy iteration where it does not. The paper's linear program is
there as an independent second opinion, and for its duals; PDHG for its bounds on eta'V*, and to go on from an answer.
With limits on what may happen the program is the way on small models, and for every kind of limit; on large ones limits
on averages are kept by mixtures of policies, each found by dynamic programming; or, to any tolerance and with bounds,
by PDHG with a multiplier per limit, which takes longer (benchmarks/safe.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, door
from dualq.model import MDP, Limit, LimitsLike, Solution, as_limits
from dualq.solvers.dynamic import Result, krylov_policy_iteration, modified_policy_iteration, solve_dynamic
from dualq.solvers.limited.column_generation import solve_mixtures
from dualq.solvers.limited.pdhg_prices import solve_priced
from dualq.solvers.limited.program import LimitedSolution, solve_limited
from dualq.solvers.pdhg import TOLERANCE, solve_pdhg
from dualq.solvers.programs import solve_lp

DYNAMIC: dict[str, Callable[[MDP, float], Result]] = {
    "dynamic": solve_dynamic,
    "mpi": modified_policy_iteration,
    "krylov": krylov_policy_iteration,
}
METHODS = (*DYNAMIC, "lp", "pdhg")
Solver: TypeAlias = Callable[[MDP, LimitsLike, "ArrayLike | None", "ArrayLike | None"], LimitedSolution]
LIMITED: dict[str, Solver] = {"lp": solve_limited, "mixtures": solve_mixtures}
SMALL = 1000  # pairs, up to which the linear program is the faster one

ROUNDING = 1e-14  # of the largest reward


@runtime_checkable
class HasModel(Protocol):
    """What has a model in it, such as a Simulator."""

    @property
    def mdp(self) -> MDP:
        """The model."""
        ...


@door
def solve(
    mdp: MDP,
    weights: ArrayLike | None = None,
    method: str | None = None,
    *,
    distribution: ArrayLike | None = None,
    tolerance: float | None = None,
    limits: LimitsLike = None,
) -> Solution:
    """Solve a known model exactly.

    Parameters
    ----------
    weights
        eta, positive, one per state or one for all; reward_bound / |S| each if not given
    method
        "dynamic" (the default: the faster of the next two), "mpi" (modified policy iteration), "krylov" (Krylov
        policy iteration), "lp" for the paper's linear program, or "pdhg" for the restarted primal-dual hybrid
        gradient, which has `solution.bounds` on eta'V*
    distribution
        M (S, A), how often each pair is seen; ratio is then occupancy / M
    tolerance
        |V - V*| asked for in every state, in the units of V. If not given: 1e-8, or 1e-8 of how far values can
        differ where that is less, or as near as double precision allows. The linear program goes as far as HiGHS
        does. For "pdhg" it is the gap between the bounds on eta'V*, relative; 1e-6 if not given.
        `solution.error_bound` says what was proven; a warning, where that is not what was asked for.
    limits
        what the policy must keep (dualq.limits), one or several; weights are then where the process starts, and may
        have zeros. The answer is a LimitedSolution with the price of each limit: its dual_policy keeps them, its Q
        and V are of the reward in which they are paid for. method is then "lp", "mixtures" or "pdhg" (both: large
        models, limits on averages); by size one of the first two, if not given. For "pdhg" the tolerance is again
        the gap between the bounds, relative

    Q, V and both policies come in the user's units. Q, occupancy and ratio are computed when they are first read.

    Examples
    --------
    >>> import dualq
    >>> mdp = dualq.problems.two_state().mdp
    >>> exact = dualq.solve(mdp)
    >>> exact.Q.round(3)
    array([[20.069, 19.441],
           [18.193, 18.69 ]])

    The paper's linear program gives the same, and the occupancy of its dual:

    >>> lp = dualq.solve(mdp, weights=[1.5, 1.5], method="lp")
    >>> lp.occupancy.round(3)
    array([[14.069,  0.   ],
           [ 0.   , 15.931]])
    """
    if not isinstance(mdp, MDP):
        advice = "; give its .mdp" if isinstance(mdp, HasModel) else ""
        raise ModelError(f"solve takes an MDP, not a {type(mdp).__name__}{advice}")
    if tolerance is not None and not (isinstance(tolerance, int | float) and tolerance > 0.0):
        raise ModelError(f"tolerance is {tolerance!r}; it must be a positive number")
    if limits is not None:
        return _limited(mdp, limits, weights, method, distribution, tolerance)
    if method is not None and method not in METHODS:
        raise ModelError(f"no method {method!r}; there are {', '.join(METHODS)}")
    method = "dynamic" if method is None else method
    if method == "lp":
        return solve_lp(mdp, weights, distribution)
    if method == "pdhg":
        return solve_pdhg(mdp, weights, TOLERANCE if tolerance is None else float(tolerance), distribution=distribution)
    paid = mdp.rewards[mdp.available]
    apart = float(np.ptp(paid))
    apart = apart if apart > ROUNDING * float(np.abs(paid).max()) else 0.0  # all alike, but for rounding
    differences = apart / (1.0 - mdp.discount) or 1.0
    asked = 1e-8 * min(1.0, differences) if tolerance is None else float(tolerance)
    V, error_bound, name, iterations, _ = DYNAMIC[method](mdp, asked)
    if error_bound > (1e-6 * differences if tolerance is None else asked):
        warnings.warn(f"V is proven to {error_bound:.1e} only, not to the {asked:.1e} asked for", stacklevel=2)
    return Solution(
        mdp,
        V,
        weights=weights,
        distribution=distribution,
        error_bound=error_bound,
        method=name,
        iterations=iterations,
    )


def _limited(
    mdp: MDP,
    limits: LimitsLike,
    weights: ArrayLike | None,
    method: str | None,
    distribution: ArrayLike | None,
    tolerance: float | None,
) -> LimitedSolution:
    if method not in (None, *LIMITED, "pdhg"):
        raise ModelError(f"with limits the method is one of {', '.join(LIMITED)}, pdhg; not {method!r}")
    found = as_limits(limits)
    if method == "pdhg":
        return solve_priced(
            mdp, found, weights, TOLERANCE if tolerance is None else tolerance, distribution=distribution
        )
    if tolerance is not None:
        raise ModelError("with limits a tolerance is for the method pdhg; the others go as far as they can")
    if method is None:
        averages = all(isinstance(limit, Limit) for limit in found.values())
        method = "mixtures" if averages and mdp.available.sum() > SMALL else "lp"
    return LIMITED[method](mdp, found, weights, distribution)
