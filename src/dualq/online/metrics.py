"""Metrics of a training run, recorded where the model is known: the averaged solution against the exact one.

q_error                sum_a max_s |Q*_a(s) - Q_a(s)|                              the paper's Figure 1
primal_policy_error    sum_s max_a |pi*_s(a) - pi_s(a)|, pi greedy in Q            Figure 3
dual_policy_error      the same with pi read from the occupancy                    Figure 2
primal_value_loss, dual_value_loss   max_s V*(s) - V^pi(s)
average_reward         mean expected reward of the primal policy over eight steps  Figure 4
bellman_residual       max_(s,a) |R + alpha P max_b Q - Q|
pseudo_gap, true_gap   D and the duality gap, where the algorithm has a dual

of an algorithm with limits, against the best solution that keeps them:
occupancy_error        sum |lambda - lambda*| / sum lambda*
price_error of NAME    |w - w*| of each limit
"""

from __future__ import annotations

from typing import Generic

import numpy as np

from dualq.model import MDP, Solution, TablePolicy
from dualq.online.algorithm import Algorithm, ProblemT, StateT
from dualq.online.tasks import Task, fill_silent
from dualq.solvers import LimitedSolution, duality_gap, pseudo_gap, solve

Array = np.ndarray

AVERAGED_STEPS = 8  # of average_reward


def metrics_of(
    algorithm: Algorithm[StateT, ProblemT], task: Task
) -> Metrics[StateT, ProblemT] | LimitedMetrics[StateT, ProblemT]:
    """What to measure of an algorithm: with limits, the unlimited optimum is not what it looks for."""
    return Metrics(algorithm, task) if algorithm.traits().limits is None else LimitedMetrics(algorithm, task)


class LimitedMetrics(Generic[StateT, ProblemT]):
    """The distance from the best solution that keeps the limits: of the occupancy, and of each price."""

    def __init__(self, algorithm: Algorithm[StateT, ProblemT], task: Task):
        self.algorithm, self.task, traits = algorithm, task, algorithm.traits()
        self.exact = solve(task.mdp, traits.weights, limits=traits.limits) if task.known else None

    def at(self, state: StateT, k: int) -> dict[str, float]:
        """The metrics at step k."""
        if self.exact is None:
            return {"step": k}
        found, exact = self.algorithm.solution(state, self.task.mdp), self.exact
        assert isinstance(exact, LimitedSolution)
        assert isinstance(found, LimitedSolution)
        distance = np.abs(found.occupancy - exact.occupancy).sum() / exact.occupancy.sum()
        prices = {f"price_error of {name}": abs(found.prices[name] - price) for name, price in exact.prices.items()}
        return {"step": k, "occupancy_error": float(distance), **prices}


class Metrics(Generic[StateT, ProblemT]):
    """The distance of a state's solution from the exact one."""

    def __init__(self, algorithm: Algorithm[StateT, ProblemT], task: Task):
        self.algorithm, self.task, traits = algorithm, task, algorithm.traits()
        self.has_dual = traits.has_dual
        self.exact = solve(task.mdp, traits.weights) if task.known else None

    def at(self, state: StateT, k: int) -> dict[str, float]:
        """The metrics at step k."""
        if self.exact is None:
            return {"step": k}
        mdp, exact = self.task.mdp, self.exact
        found: Solution = self.algorithm.solution(state, mdp)
        if self.task.silent is not None:
            fill_silent(found, mdp, self.task.silent)
        primal, best, exists = found.primal_policy, exact.primal_policy.matrix, mdp.available
        difference = np.abs(np.where(exists, found.Q, 0.0) - np.where(exists, exact.Q, 0.0))
        residual = np.abs(np.where(exists, mdp.q_values(found.Q.max(axis=1)), 0.0) - np.where(exists, found.Q, 0.0))
        metrics = {
            "step": k,
            "q_error": difference.max(axis=0).sum(),
            "primal_policy_error": np.abs(primal.matrix - best).max(axis=1).sum(),
            "primal_value_loss": (exact.V - primal.value(mdp)).max(),
            "average_reward": _average_reward(primal, mdp, self.task.start),
            "bellman_residual": residual.max(),
        }
        if self.has_dual:
            dual = found.dual_policy
            metrics |= {
                "dual_policy_error": np.abs(dual.matrix - best).max(axis=1).sum(),
                "dual_value_loss": (exact.V - dual.value(mdp)).max(),
                "pseudo_gap": pseudo_gap(mdp, found, exact=exact),
                "true_gap": duality_gap(mdp, found),
            }
        return {name: int(x) if name == "step" else float(x) for name, x in metrics.items()}


def _average_reward(policy: TablePolicy, mdp: MDP, start: Array) -> float:
    P, R = policy.chain(mdp)
    v, total = start, 0.0
    for _ in range(AVERAGED_STEPS):
        total += v @ R
        v = P.T @ v
    return float(total) / AVERAGED_STEPS
