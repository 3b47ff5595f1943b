"""How the careful model is solved where there are no limits: a solution, the policy to recommend, and why that one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dualq.base import LogError
from dualq.logs import Counts, Log
from dualq.model import Solution, TablePolicy, frequencies
from dualq.offline.limited.estimates import Estimates
from dualq.solvers import solve

Array = np.ndarray
Found = tuple[Solution, TablePolicy, str]

SPREAD = 0.01  # the part of the weights eta that lies on all states alike: eta must be positive, a start need not be


def _exact(known: Estimates, log: Log | None) -> Found:
    """The careful model's saddle point by dynamic programming."""
    return _solution(known, "dynamic"), on_log(known.careful.policy, known.counts), known.careful.reason


def _pdhg(known: Estimates, log: Log | None) -> Found:
    """The careful model's saddle point by PDHG."""
    solution = _solution(known, "pdhg")
    return solution, on_log(solution.primal_policy, known.counts), known.careful.reason


def _online(known: Estimates, log: Log | None) -> Found:
    """Algorithm 1, one pass over the rows; it knows no pessimism. What was logged, where that is clearly better."""
    if log is None:
        raise LogError("this fit was loaded, and its log was not saved with it; Algorithm 1 needs the rows")
    from dualq.online import SPDQ, inverse_sqrt, train  # for this solver only: it brings the simulators

    careful, counts = known.careful, known.counts
    rows = int(counts.total)
    solution = train(SPDQ(step_size=inverse_sqrt(2.0)), log, rows, discount=careful.mdp.discount).solution
    order = "in their order" if log.has_order else "as they stand (the log has no time column)"
    how = f"Algorithm 1 after one pass over {rows:,} rows, {order}"
    policy = on_log(solution.primal_policy, counts)
    reached = known.value(counts.support.policy_to_model(policy, careful.policy))
    if careful.logged.value - reached.value <= math.hypot(reached.error_or_nan, careful.logged.error_or_nan):
        return solution, policy, f"The policy is greedy in the averaged Q of {how}."
    reason = (
        f"What was logged is recommended: the policy that is greedy in the averaged Q of {how}, is expected to earn "
        f"{reached}, less than what was logged, {careful.logged}. The exact solver, which is the default, comes from "
        f"the same rows to a policy with {careful.expected}."
    )
    return solution, on_log(careful.behaviour, counts), reason


SOLVERS: dict[str, Callable[[Estimates, Log | None], Found]] = {"exact": _exact, "pdhg": _pdhg, "online": _online}


def _solution(known: Estimates, method: str) -> Solution:
    mdp, counts, start = known.careful.mdp, known.counts, known.start
    to_model = counts.support.to_model
    eta = SPREAD / mdp.num_states + to_model((1.0 - SPREAD) * start)
    return solve(mdp, method=method, weights=eta, distribution=frequencies(to_model(counts.visits), counts.total))


def on_log(policy: TablePolicy, counts: Counts) -> TablePolicy:
    """The policy in the log's states, and undecided where the log never acted."""
    return counts.support.policy_to_log(policy, counts.visits.sum(axis=1) == 0)
