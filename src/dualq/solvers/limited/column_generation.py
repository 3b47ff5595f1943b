"""Limits on large models: the program with limits by Dantzig and Wolfe's decomposition, policies as columns.

Problem   max d'R  s.t.  c_i'd <= b_i,  d an occupancy from the start nu, as probabilities                (program.py)
          (z_i c_i and z_i b_i stand for c_i and b_i below, z_i = -1 for "at least")
Master    The occupancies are the mixtures of those d_p of deterministic policies p. With r_p = d_p'R, c_ip = c_i'd_p,

              max sum_p x_p r_p   s.t.  sum_p x_p (c_ip - b_i) <= 0  [w_i],  sum_p x_p = 1  [g],  x >= 0

          over the few policies known so far: as many rows as limits, and one.
Pricing   The policy that improves it most is the best for the reward R - w'c: an ordinary model without limits, solved
          by dynamic programming (dynamic.py), in hundredths of the time that the linear program takes, or less.
Bounds    the master's optimum <= the best under the limits <= (1 - alpha) nu'V_w + w'b, V_w the optimal values of the
          reward R - w'c (weak duality). The iteration ends where they meet, or where no new policy comes.
First     Where the policies known so far cannot keep the limits, the same with  min sum t,  c_ip - b_i <= span_i t_i:
          each step adds the policy that is the least w'c.
Gives     lambda = sum_p x_p d_p, of at most one policy more than limits. Read as a policy it is random in few states,
          and keeps the limits as the mixture does. w, and Q, V of the reward R - w'c, from the last pricing. In a state
          that the start never leads to, the policy is the best for that reward.
Cost      a model without limits and one policy's occupancy per step. Seconds of CPU on Garnet models, 5 actions, 8
          successors, discount .99, three limits that bind (steps in brackets), beside the linear program by HiGHS:

              states              100        1000        3000        10000       100000
              mixtures            .13 (24)   .35 (36)    .89 (43)    3.5 (52)    41 (50)
              linear program      .02        2.2         7.4

    paper     here
    lambda    occupancy, in the units of the weights
    eta       weights: where the process starts; zeros are welcome
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import DualqError, ModelError
from dualq.model import MDP, Limit, LimitsLike, TablePolicy, as_limits
from dualq.solvers.dynamic import Result, solve_dynamic
from dualq.solvers.limited.program import (
    KEPT,
    UNVISITED,
    LimitedSolution,
    checked_limits,
    priced,
    solve_limited,
    solved,
)
from dualq.solvers.programs import Program

Array = np.ndarray

TOLERANCE = 1e-9  # of the gap, relative to how far rewards are apart
MAX_STEPS = 1000


class Column(NamedTuple):
    """A deterministic policy."""

    choice: Array  # (S,) its actions
    d: Array  # (S, A) its occupancy, sums to one
    reward: float  # per step
    excess: Array  # (limits,) c - b


def solve_mixtures(
    mdp: MDP, limits: LimitsLike, weights: ArrayLike | None = None, distribution: ArrayLike | None = None
) -> LimitedSolution:
    """The best policy that keeps limits on average costs, as a mixture; InfeasibleError where there is none."""
    found = as_limits(limits)
    for name, limit in found.items():
        if not isinstance(limit, Limit):
            raise ModelError(
                f"{name!r} is a {type(limit).__name__}; mixtures take limits on averages only, lp takes all"
            )
    averages = {name: limit for name, limit in found.items() if isinstance(limit, Limit)}
    eta, nu = checked_limits(mdp, averages, weights)
    problem = Pricing(mdp, nu, averages)
    columns = [problem.column(np.zeros(len(averages)), reward=True)[0]]
    if not problem.feasible(columns):
        return solve_limited(mdp, averages, eta, distribution)  # says why, or knows better
    span = float(np.ptp(mdp.rewards[mdp.available])) or 1.0
    upper = np.inf
    for _ in range(MAX_STEPS):
        x, w, lower = best_mixture(columns)
        column, result = problem.column(w, reward=True)
        bound = (1.0 - mdp.discount) * (nu @ result.V + result.error_bound) + w @ problem.bounds
        upper = min(upper, float(bound))
        if upper - lower <= TOLERANCE * span or problem.known(columns, column):
            return problem.solution(eta, columns, x, w, column, result, (lower, upper), distribution)
        columns.append(column)
    raise DualqError(f"not solved by {MAX_STEPS} policies; use method='lp'")


class Pricing:
    """The model without limits, for any prices."""

    def __init__(self, mdp: MDP, nu: Array, limits: Mapping[str, Limit]):
        self.mdp, self.nu, self.limits = mdp, nu, limits
        self.bounds = np.array([limit.sign * limit.bound for limit in limits.values()])
        self.spans = np.array([limit.span(mdp) for limit in limits.values()])
        self.sizes = np.array([np.abs(limit.on(mdp)).max() for limit in limits.values()])
        paid = mdp.rewards[mdp.available]
        self.tolerance = 1e-11 * (float(np.ptp(paid)) or 1.0) / (1.0 - mdp.discount)

    def model(self, w: Array, reward: bool) -> MDP:
        """The reward R - w'c, or -w'c alone."""
        multipliers = {limit: w[i : i + 1] for i, limit in enumerate(self.limits.values())}
        return priced(self.mdp, multipliers, self.mdp.rewards if reward else np.zeros_like(self.mdp.rewards))

    def column(self, w: Array, reward: bool) -> tuple[Column, Result]:
        """The best policy for that reward."""
        model = self.model(w, reward)
        result = solve_dynamic(model, self.tolerance)
        policy = TablePolicy.greedy(model.q_values(result.V))
        d = (1.0 - self.mdp.discount) * policy.occupancy(self.mdp, self.nu)
        costs = [limit.sign * limit.value(self.mdp, d, self.nu) for limit in self.limits.values()]
        excess = np.array(costs) - self.bounds
        excess[np.abs(excess) <= 1e-13 * self.sizes] = 0.0  # rounding, which the master would scale up
        return Column(policy.matrix.argmax(axis=1), d, float(np.sum(d * self.mdp.rewards)), excess), result

    @staticmethod
    def known(columns: list[Column], column: Column) -> bool:
        """Whether a policy is there already: then rounding is all that is left."""
        return any(np.array_equal(column.choice, other.choice) for other in columns)

    def feasible(self, columns: list[Column]) -> bool:
        """Add policies until some mixture keeps the limits; whether there is one."""
        for _ in range(MAX_STEPS):
            missing, w = _phase_one(columns, self.spans)
            if missing <= KEPT:
                return self.inside(columns)
            column, _ = self.column(w, reward=False)
            if self.known(columns, column):
                return False
            columns.append(column)
        return False

    @staticmethod
    def inside(columns: list[Column]) -> bool:
        """Whether the master itself has a solution, dust aside."""
        try:
            best_mixture(columns)
        except DualqError:
            return False
        return True

    def solution(
        self,
        eta: Array,
        columns: list[Column],
        x: Array,
        w: Array,
        last: Column,
        result: Result,
        bounds: tuple[float, float],
        distribution: ArrayLike | None,
    ) -> LimitedSolution:
        """The mixture x of the columns, the prices w, and the last pricing, in the user's words."""
        mdp = self.mdp
        d = sum((share * column.d for share, column in zip(x, columns, strict=True)), np.zeros(mdp.rewards.shape))
        visits = d.sum(axis=1, keepdims=True)
        best = np.eye(mdp.num_actions)[last.choice]
        matrix = np.where(visits > UNVISITED, d / np.where(visits > UNVISITED, visits, 1.0), best)
        policy = TablePolicy(matrix, mdp.states, mdp.actions)
        model = self.model(w, reward=True)
        total = float(eta.sum()) / (1.0 - mdp.discount)
        return LimitedSolution(
            mdp,
            result.V,
            limits=self.limits,
            prices=dict(zip(self.limits, w.tolist(), strict=True)),
            weights=eta,
            policy=policy,
            Q=model.q_values(result.V),
            occupancy=policy.occupancy(mdp, eta),
            distribution=distribution,
            error_bound=result.error_bound,
            bounds=(total * bounds[0], total * bounds[1]),
            method=f"mixtures of {int((x > 0.0).sum())} policies",
            iterations=len(columns),
        )


class Mixed(Protocol):
    """What is read of a policy that may be in a mixture."""

    @property
    def reward(self) -> float:
        """What it earns."""
        ...

    @property
    def excess(self) -> Array:
        """(limits,) by how much it misses each limit."""
        ...


def best_mixture(columns: Sequence[Mixed]) -> tuple[Array, Array, float]:
    """(x, w, optimum): the best mixture of these policies that keeps the limits, and the limits' prices.

    Of each policy it reads `reward` and `excess`.
    """
    excess = np.array([column.excess for column in columns]).T
    reward = np.array([column.reward for column in columns])
    middle = 0.5 * float(reward.min() + reward.max())
    blocks = solved(_mixture(excess, reward - middle, minimise=False), "simplex").blocks
    x = np.maximum(blocks["x"], 0.0)
    x /= x.sum()
    return x, np.maximum(blocks["w"], 0.0), float(x @ reward)


def _phase_one(columns: list[Column], spans: Array) -> tuple[float, Array]:
    """(sum t, w): how far the mixtures of these policies are from the limits, and what counts most."""
    excess = np.hstack([np.array([column.excess for column in columns]).T, -np.diag(spans)])
    objective = np.concatenate([np.zeros(len(columns)), np.ones(spans.size)])
    program = _mixture(excess, objective, minimise=True, extra=spans.size)
    answer = solved(program, "simplex")
    return max(answer.objective, 0.0), np.maximum(-answer.blocks["w"], 0.0)


def _mixture(excess: Array, objective: Array, minimise: bool, extra: int = 0) -> Program:
    """min or max over x >= 0 (and t >= 0) of a linear function  s.t.  excess x <= 0  [w],  sum x = 1."""
    k, n = excess.shape
    whole = np.ones(n)
    whole[n - extra :] = 0.0
    return Program(
        minimise=minimise,
        objective=objective,
        rows=sp.csc_array(np.vstack([excess, whole])),
        row_lower=np.append(np.full(k, -np.inf), 1.0),
        row_upper=np.append(np.zeros(k), 1.0),
        column_lower=np.zeros(n),
        variables={"x": slice(0, n - extra)},
        multipliers={"w": slice(0, k)},
    )
