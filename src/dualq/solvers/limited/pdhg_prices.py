"""Primal-dual hybrid gradient with limits: one more multiplier w_j >= 0 per limit, the price of it.

Problem   that of pdhg.py with limits on averages (program.py). Every occupancy has the mass B, so
          c_j'lambda <= B b_j is G_j'lambda <= 0 with G_j = (c_j - b_j) / span_j, turned by its sign for "at least":

              min over V, w >= 0, max over lambda in D of  L(V, w, lambda) = eta'V + lambda'(R - G w - K V)

          It is the problem without limits for the reward R - G w. A limit that no pair can break is left out.
Update    PDHG and the reflected Halpern iteration around it, as in pdhg.py, with w beside V:
              V+      = V - omega tau (eta - K'lambda)
              w+      = max(w + omega tau_w G'lambda, 0)                       a limit that is broken becomes dearer
              lambda+ = Pi_D [ lambda + sigma/omega (R - G (2 w+ - w) - K (2 V+ - V)) ]
          The columns of G count in the preconditioner: tau_w(j) = 1 / sum_row |G(row, j)|, sigma = 1 / (sum |K| + |G|).
Restart   by the distance of a step, |F(z) - z| in the norm in which F contracts (Lu and Yang, 2024; no bounds needed),
          |x|^2 = |V|^2/(omega tau) + |w|^2/(omega tau_w) + omega |lambda|^2/sigma - 2 lambda'(K V + G w):
          when it fell to a fifth of that of the first step since the last restart; to four fifths and no longer falls;
          or after 36% of all steps. omega as in pdhg.py.
Polish    PDHG finds the prices to a few digits soon, and more of them slowly; its lambda is an occupancy but nearly. So
          every so many steps some policies are evaluated exactly (chains.py):
          - the one that lambda says, which is random;
          - those that are greedy at the prices of PDHG, and at those of the last mixture. Their values for the reward
            R - G w give the upper bound.
          The best mixture of the policies kept so far that keeps the limits comes from a linear program with a row per
          limit, as in column_generation.py, and has prices too. It is an occupancy, and keeps the limits: its reward
          is the lower bound. When the gap has fallen to a fifth of that at the last such restart, PDHG goes on from the
          mixture, and the prices and values of the upper bound. Prices from PDHG alone reach the same, but later:
          the last digits come from the mixtures.
First     policies of which a mixture keeps the limits, by column_generation.py's first phase, or its InfeasibleError.
Bounds    with T_w the Bellman operator for the reward R - G w, hi the largest of (T_w V - V), by weak duality

              reward of the mixture  <=  the best under the limits  <=  eta'(T_w V + alpha/(1-alpha) hi)
Stops     when the gap is at most the tolerance times the size of the optimum, measured as in pdhg.py.
Gives     the mixture as a policy, which keeps the limits up to 1e-8 of how far their costs are apart (HiGHS's tolerance
          in the small program, and the rounding of linear systems); the prices; V and Q for the reward R - w'c, V never
          below its optimal values; the bounds. Prices and V are those of the upper bound: near the optimal ones in
          what they promise, not in every digit.
Cost      O(nonzeros + pairs x limits) a step; a polish is seven sparse linear systems.

column_generation.py asks for the best policy at every price that its program proposes, and ends exactly. Where dynamic
programming is fast, it takes less time (benchmarks/safe.py has both, and HiGHS). This one solves no model by dynamic
programming after its start, knows at every polish how far it is, and stops at any tolerance.

    paper                here             public
    eta                  eta              weights: where the process starts; zeros are welcome
    lambda_a             lambda_          occupancy
                         w                prices, in other units
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import ModelError, copy_into, kernel
from dualq.model import MDP, Limit, LimitsLike, TablePolicy, as_limits, solve_chain
from dualq.solvers.bilinear import (
    BilinearModel,
    Target,
    Units,
    evaluated,
    feasible_values,
    gradient_of,
    model_of,
    project_mass,
    proven_bound,
    residual_of,
    small_enough,
)
from dualq.solvers.limited.column_generation import Pricing, best_mixture
from dualq.solvers.limited.program import UNVISITED, LimitedSolution, checked_limits, solve_limited
from dualq.solvers.pdhg import LONGEST, MAX_ITERATIONS, NECESSARY, NO_MOVE, SUFFICIENT, TOLERANCE

Array = np.ndarray

POLISH_EVERY = 40  # steps
ROUNDING = 1e-13  # of the sum of absolute values: an excess below it is none
LAST_POLICIES = 30  # beside those of the mixture, the last ones


class Point(NamedTuple):
    """A primal-dual point with what is linear in it."""

    V: Array  # (S,)
    w: Array  # (limits,)
    lambda_: Array  # (pairs,)
    r: Array  # (pairs,) R - G w - K V
    g: Array  # (S,) eta - K'lambda
    h: Array  # (limits,) G'lambda


class Work(NamedTuple):
    """Where an iteration stands."""

    z: Point  # of the Halpern iteration; its lambda and w may be negative
    step: Point  # F(z)
    anchor: Point  # z_0
    omega: Array  # (1,)
    nu: Array  # (1,) multiplier of the mass in the last projection
    since: Array  # (1,) steps since the last restart
    total: Array  # (1,) steps
    first: Array  # (1,) distance of the first step since the last restart
    last: Array  # (1,) and of the last one


class Priced(NamedTuple):
    """The saddle problem, in the kernel's units; read-only."""

    model: BilinearModel  # sigma with the limits in it
    G: Array  # (pairs, limits)
    tau_w: Array  # (limits,)

    def at(self, w: Array) -> BilinearModel:
        """The model without limits whose reward is R - G w."""
        return self.model._replace(R=self.model.R - self.G @ w)


class Column(NamedTuple):
    """A policy, evaluated."""

    lambda_: Array  # (pairs,) its occupancy
    reward: float  # lambda'R
    excess: Array  # (limits,) G'lambda


class Found(NamedTuple):
    """The best of all so far: the mixture, and the lowest upper bound with what it belongs to."""

    lambda_: Array  # (pairs,) of the mixture
    lower: float
    V: Array  # (S,)
    w: Array  # (limits,)
    upper: float

    @property
    def gap(self) -> float:
        """How far the mixture is from the optimum, at most."""
        return self.upper - self.lower


def solve_priced(
    mdp: MDP,
    limits: LimitsLike,
    weights: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    *,
    distribution: ArrayLike | None = None,
    max_iterations: int = MAX_ITERATIONS,
    polish_every: int = POLISH_EVERY,
) -> LimitedSolution:
    """The best policy that keeps limits on average costs, to a gap of `tolerance`, relative; InfeasibleError if none.

    limits, weights, distribution   as for saddle.constrained.solve_limited
    polish_every                    steps between two polishes, at first; later a tenth of all steps
    """
    averages = {}
    for name, limit in as_limits(limits).items():
        if not isinstance(limit, Limit):
            raise ModelError(f"{name!r} is a {type(limit).__name__}; pdhg takes limits on averages only, lp takes all")
        averages[name] = limit
    eta, nu = checked_limits(mdp, averages, weights)
    tight = {name: limit for name, limit in averages.items() if _can_be_broken(limit, mdp)}
    pricing = Pricing(mdp, nu, tight)
    first = [pricing.column(np.zeros(len(tight)), reward=True)[0]]
    if not pricing.feasible(first):
        return solve_limited(mdp, averages, eta, distribution)  # says why, or knows better

    units = Units.of(mdp, eta)
    problem = _priced(mdp, units, tight)
    target = Target.of(problem.model, units, tolerance)
    columns = [_column(problem, column.d[mdp.available] * problem.model.mass) for column in first]
    work = _start(problem)
    V, w = work.step.V.copy(), work.step.w.copy()
    x, w, found = _mixed(columns, Found(np.empty(0), -np.inf, V, w, _upper(problem.model, V)))
    restarted = np.inf  # the gap at the last restart from a mixture
    while (total := int(work.total[0])) < max_iterations and not small_enough(found.lower, found.upper, target):
        _iterate(work, problem, min(max(polish_every, total // 10), max_iterations - total))
        found, new = _polished(work.step, problem, found, w)
        last = len(columns) - LAST_POLICIES
        columns = [column for i, column in enumerate(columns) if i >= last or x[i] > 0.0] + new
        x, w, found = _mixed(columns, found)
        if found.gap <= SUFFICIENT * restarted:
            restarted = found.gap
            _go_on_from(work, _point(problem, found.V, found.w, found.lambda_))
    if not small_enough(found.lower, found.upper, target):
        gap = units.value * units.weight * found.gap
        warnings.warn(f"the gap is {gap:.1e} after {work.total[0]:,} steps, not yet what was asked for", stacklevel=3)
    return _as_solution(mdp, units, averages, tight, problem, found, int(work.total[0]), distribution)


def _can_be_broken(limit: Limit, mdp: MDP) -> bool:
    return bool((limit.sign * (limit.cost[mdp.available] - limit.bound) > 0.0).any())


def _priced(mdp: MDP, units: Units, limits: Mapping[str, Limit]) -> Priced:
    """The saddle problem, with its preconditioner."""
    model = model_of(mdp, units)
    G = np.zeros((model.R.size, len(limits)))
    for j, limit in enumerate(limits.values()):
        G[:, j] = limit.sign * (limit.cost[mdp.available] - limit.bound) / limit.span(mdp)
    size = np.abs(G)
    return Priced(model._replace(sigma=1.0 / (1.0 / model.sigma + size.sum(axis=1))), G, 1.0 / size.sum(axis=0))


def _start(problem: Priced) -> Work:
    """An iteration at its start: V, w zero, lambda the same for all pairs."""
    model = problem.model
    lambda_ = np.full(model.R.size, model.mass / model.R.size)
    z, step, anchor = (_point(problem, np.zeros(model.eta.size), np.zeros(problem.tau_w.size), lambda_) for _ in "123")
    whole = np.zeros(1, np.int64), np.zeros(1, np.int64)
    return Work(z, step, anchor, np.ones(1), np.zeros(1), *whole, np.full(1, np.inf), np.full(1, np.inf))


def _point(problem: Priced, V: Array, w: Array, lambda_: Array) -> Point:
    g = np.empty(V.size)
    gradient_of(problem.model, lambda_, g)
    return Point(V.copy(), w.copy(), lambda_.copy(), problem.at(w).residual(V), g, lambda_ @ problem.G)


def _go_on_from(work: Work, point: Point) -> None:
    """Restart from a point that PDHG did not find."""
    for to, x in zip(work.step, point, strict=True):
        to[:] = x
    _restart(work)


# ---- polish


def _polished(step: Point, problem: Priced, found: Found, w_mixture: Array) -> tuple[Found, list[Column]]:
    """What was found, if it is better at a policy that is greedy at a price; and the policies that were evaluated."""
    new, V = [_column(problem, _occupancy(problem.model, step.lambda_))], step.V
    for w in (step.w, w_mixture):
        model = problem.at(w)
        greedy = evaluated(model, model.residual(V), None)
        greedy = evaluated(model, model.residual(greedy.V), greedy)
        V = greedy.V
        upper = _upper(model, V)
        if upper < found.upper:
            found = found._replace(V=V, w=w.copy(), upper=upper)
        chosen = np.zeros(model.R.size)
        chosen[greedy.chosen] = 1.0
        new.append(_column(problem, _occupancy(model, chosen)))
    return found, new


def _upper(model: BilinearModel, V: Array) -> float:
    """eta'(T V + alpha/(1-alpha) hi), rounding included."""
    d = np.maximum.reduceat(model.residual(V), model.first[:-1])
    rounding = model.unit * (np.abs(model.R).max() + 2.0 * np.abs(V).max())
    return float(model.eta @ (V + d) + (model.alpha * d.max() + rounding) * model.mass)


def _occupancy(model: BilinearModel, weights: Array) -> Array:
    """The occupancy of the policy that takes the pairs of a state in proportion to their weights."""
    begin, many = model.first[:-1], np.diff(model.first)
    total = np.repeat(np.add.reduceat(weights, begin), many)
    policy = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / np.repeat(many, many))
    states = sp.csr_array((policy, np.arange(policy.size), model.first), shape=(many.size, policy.size))
    chain = sp.csr_array(states @ model.transitions(np.arange(policy.size)))
    visits = np.maximum(solve_chain(chain, model.alpha, model.eta, transpose=True), 0.0)
    return policy * np.repeat(visits, many)


def _column(problem: Priced, lambda_: Array) -> Column:
    excess = np.einsum("i,ij->j", lambda_, problem.G)
    # A program scales its rows: an excess that is rounding alone would be scaled up to a limit that nobody can keep.
    excess[np.abs(excess) <= ROUNDING * (lambda_ @ np.abs(problem.G))] = 0.0
    return Column(lambda_, float(np.sum(lambda_ * problem.model.R)), excess)


def _mixed(columns: list[Column], found: Found) -> tuple[Array, Array, Found]:
    """The best mixture of the policies that keeps the limits: its shares, and what was found with it."""
    x, w, lower = best_mixture(columns)
    if lower > found.lower:
        lambda_ = sum((share * column.lambda_ for share, column in zip(x, columns, strict=True) if share > 0.0), 0.0)
        found = found._replace(lambda_=lambda_, lower=lower)
    return x, w, found


# ---- the iteration


@kernel
def _iterate(work, problem, count):
    """Take `count` steps in place."""
    model, G, tau_w = problem
    tau, sigma = model.tau, model.sigma
    V, w, lambda_, r, g, h = work.z
    V_step, w_step, lambda_step, r_step, g_step, h_step = work.step
    d = np.empty(V.size)
    for _ in range(count):
        omega = work.omega[0]
        for s in range(V.size):
            V_step[s] = V[s] - omega * tau[s] * g[s]
        for j in range(w.size):
            w_step[j] = max(w[j] + omega * tau_w[j] * h[j], 0.0)
        residual_of(model, V_step, r_step, d)
        for i in range(r.size):
            for j in range(w.size):
                r_step[i] -= G[i, j] * w_step[j]
            lambda_step[i] = lambda_[i] + sigma[i] / omega * (2.0 * r_step[i] - r[i])
        work.nu[0] = project_mass(lambda_step, sigma, model.mass, work.nu[0])
        gradient_of(model, lambda_step, g_step)
        h_step[:] = 0.0
        for i in range(r.size):
            if lambda_step[i] != 0.0:
                for j in range(w.size):
                    h_step[j] += G[i, j] * lambda_step[i]
        work.total[0] += 1
        work.since[0] += 1

        distance, k = _distance(work.z, work.step, model, tau_w, omega), work.since[0]
        if k == 1:
            work.first[0], work.last[0] = distance, np.inf
        falling = distance < work.last[0]
        work.last[0] = distance
        if k > 1 and (
            distance <= SUFFICIENT * work.first[0]
            or (distance <= NECESSARY * work.first[0] and not falling)
            or (k > 10 and k >= LONGEST * work.total[0])
        ):
            _weigh(work, model, tau_w)
            _restart(work)
            continue
        part = k / (k + 1.0)
        for x, x_step, x_0 in zip(work.z, work.step, work.anchor):  # noqa: B905 (Numba knows no strict)
            for i in range(x.size):
                x[i] = part * (2.0 * x_step[i] - x[i]) + (1.0 - part) * x_0[i]


@kernel
def _distance(z, step, model, tau_w, omega):
    """|F(z) - z| in the norm of the iteration."""
    total = 0.0
    for s in range(z.V.size):
        total += (step.V[s] - z.V[s]) ** 2 / (omega * model.tau[s])
    for j in range(z.w.size):
        total += (step.w[j] - z.w[j]) ** 2 / (omega * tau_w[j])
    for i in range(z.r.size):
        move = step.lambda_[i] - z.lambda_[i]
        total += omega * move * move / model.sigma[i] + 2.0 * move * (step.r[i] - z.r[i])  # dr = - K dV - G dw
    return np.sqrt(max(total, 0.0))


@kernel
def _weigh(work, model, tau_w):
    """Weigh primal against dual by how far each moved since the last restart."""
    primal, dual = 0.0, 0.0
    for s in range(model.tau.size):
        primal += (work.step.V[s] - work.anchor.V[s]) ** 2 / model.tau[s]
    for j in range(tau_w.size):
        primal += (work.step.w[j] - work.anchor.w[j]) ** 2 / tau_w[j]
    for i in range(model.sigma.size):
        dual += (work.step.lambda_[i] - work.anchor.lambda_[i]) ** 2 / model.sigma[i]
    least = (NO_MOVE * model.mass) ** 2  # below it a move may be rounding: one of the two has arrived
    if primal > least and dual > least:
        work.omega[0] = np.sqrt(work.omega[0] * np.sqrt(primal / dual))


@kernel
def _restart(work):
    """Anchor the iteration at `step`."""
    for x, x_0, x_step in zip(work.z, work.anchor, work.step):  # noqa: B905
        copy_into(x, x_step)
        copy_into(x_0, x_step)
    work.since[0] = 0


# ---- in the user's words


def _as_solution(
    mdp: MDP,
    units: Units,
    limits: Mapping[str, Limit],
    tight: Mapping[str, Limit],
    problem: Priced,
    found: Found,
    iterations: int,
    distribution: ArrayLike | None,
) -> LimitedSolution:
    model = problem.at(found.w)
    V, q = feasible_values(model, found.V)
    prices = {name: units.value * w / tight[name].span(mdp) for name, w in zip(tight, found.w.tolist(), strict=True)}
    paid = sum(prices[name] * limit.sign * limit.bound for name, limit in tight.items())  # G holds bounds, R - w'c none
    shift = units.shift - paid / (1.0 - mdp.discount)
    Q, d = np.full(mdp.rewards.shape, -np.inf), np.zeros(mdp.rewards.shape)
    Q[mdp.available], d[mdp.available] = units.value * q + shift, found.lambda_ / model.mass
    visits = d.sum(axis=1, keepdims=True)
    best = np.eye(mdp.num_actions)[Q.argmax(axis=1)]
    policy = TablePolicy(
        np.where(visits > UNVISITED, d / np.where(visits > UNVISITED, visits, 1.0), best), mdp.states, mdp.actions
    )
    eta = units.weight * units.eta
    return LimitedSolution(
        mdp,
        units.value * V + shift,
        limits=limits,
        prices={name: prices.get(name, 0.0) for name in limits},
        weights=eta,
        policy=policy,
        Q=Q,
        occupancy=policy.occupancy(mdp, eta),
        distribution=distribution,
        error_bound=units.value * proven_bound(model, V),
        bounds=units.total(found.lower, found.upper),
        method="PDHG with limits",
        iterations=iterations,
    )
