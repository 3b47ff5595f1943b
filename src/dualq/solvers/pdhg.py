"""Restarted, preconditioned primal-dual hybrid gradient. counted_pdhg.py runs it on counts that grow.

Problem   the LP without Q, with K = E - alpha P, one row per pair:                                     (eq:saddlepont)
              min over V, max over lambda in D of  L(V, lambda) = eta'V + lambda'(R - K V)
              D = { lambda >= 0,  sum lambda = B },   B = ||eta||_1 / (1 - alpha)
          Every occupancy has the mass B, so fixing it loses nothing. It takes the constants out of V: as K 1 = (1 -
          alpha) 1, grad_V = eta - K'lambda sums to zero on D, and a constant added to V moves all rows alike.
Update    one step F of PDHG (Chambolle and Pock, 2011), with the diagonal preconditioner of Pock and Chambolle (2011):
              tau(s) = 1 / sum_row |K(row, s)|,  sigma(row) = 1 / sum_s |K(row, s)|,  omega the primal weight
              V+      = V - omega tau (eta - K'lambda)
              lambda+ = Pi_D [ lambda + sigma/omega (R - K (2 V+ - V)) ]        Pi_D in the norm that 1/sigma weighs
          around it, the reflected Halpern iteration (Lu and Yang, 2024), anchored at the last restart z_0:
              z_{k+1} = (k+1)/(k+2) (2 F(z_k) - z_k) + 1/(k+2) z_0
          R - K V and eta - K'lambda are kept beside V and lambda: being linear, they cost no product of their own.
Bounds    at every F(z) = (V, lambda), with d = max_a (R - K V), lo = min d, hi = max d (MacQueen, 1966):
              T V + alpha/(1-alpha) lo  <=  V*  <=  T V + alpha/(1-alpha) hi,    T V = V + d the Bellman operator
          The right side is T (V + c), c = hi/(1-alpha), the least constant that makes V feasible.
              upper = eta'(T V + alpha/(1-alpha) hi)
              lower = lambda'R + min_X (eta - K'lambda)'X,  X in the narrowest such box that some V so far has proven
          The lower bound is weak duality: R - K V* <= 0 <= lambda, and V* is in the box. Both bounds leave room for
          rounding. The true gap of the point is upper - lower.
Polish    every so many steps the policy that is greedy in V is evaluated exactly (chains.py), and then the one that is
          greedy in the larger of its values and those of the last polish. So the policies get better in every state,
          and as in policy iteration they end at the best. A policy's values and its occupancy, which satisfies
          eta = K'lambda, are a point of the problem: PDHG goes on from there if that point's gap is smaller. Where
          news must travel far (queues, mazes), this is what makes the gap fall; where chains mix, it is a short cut at
          the end, like a crossover.
Restart   z_0 <- F(z) when the gap fell to a fifth of that at the last restart; or to four fifths and no longer falls;
          or after 36% of all steps; or at a polished point. Then, with the moves dV, dlambda since the last restart,
              omega <- sqrt( omega |dV|_{1/tau} / |dlambda|_{1/sigma} )             where both have moved
Stops     when the gap is at most the tolerance times the size of eta'V*: its absolute value, or how far it is above
          the worst reward for ever where that is less (a constant in all rewards must not count as precision), but no
          less than a thousandth of what the rewards' differences can make of it, B (max R - min R).
Gives     Q = R + alpha P (V + c), V = max_a Q (feasible: never below V*), lambda, and (lower, upper) on eta'V*.
Cost      O(nonzeros) a step; a polish is two sparse linear systems.

    paper                here             public
    alpha                alpha            discount (of the model)
    eta                  eta              weights
    lambda_a             lambda_          occupancy
    ||eta||_1/(1-alpha)  mass (B above)
    R + alpha P V - E V  r                (R - K V above)
    grad_V L             g                (eta - K'lambda above)

Units     rewards are moved and scaled from their range to [-1, 1], eta is divided by its sum; results are moved back.
          So nothing depends on the user's units, and V is small where values are large.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, copy_into, kernel
from dualq.model import MDP, Solution, solve_chain
from dualq.solvers.bilinear import (
    BilinearModel,
    Evaluated,
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

Array = np.ndarray

TOLERANCE = 1e-6  # of the gap, relative
MAX_ITERATIONS = 200_000
POLISH_EVERY = 20  # steps
SUFFICIENT, NECESSARY, LONGEST = 0.2, 0.8, 0.36  # the restart rule's numbers, as in PDLP (Applegate et al., 2021)
NO_MOVE = 1e-10  # of a variable, relative to how large it can be


class Point(NamedTuple):
    """A primal-dual point with what is linear in it."""

    V: Array  # (S,)
    lambda_: Array  # (pairs,)
    r: Array  # (pairs,) R - K V
    g: Array  # (S,) eta - K'lambda


class Work(NamedTuple):
    """Where an iteration stands."""

    z: Point  # of the Halpern iteration; its lambda may be negative
    step: Point  # F(z): what the bounds belong to
    anchor: Point  # z_0
    middle: Array  # (S,) V* is within `half` of it in every state
    half: Array  # (1,)
    upper: Array  # (1,)
    lower: Array  # (1,)
    omega: Array  # (1,)
    nu: Array  # (1,) multiplier of the mass in the last projection
    since: Array  # (1,) steps since the last restart
    total: Array  # (1,) steps
    first_gap: Array  # (1,) at the last restart
    last_gap: Array  # (1,) one step ago


NEVER = Target(0.0, 0.0, 0.0, 0.0)


# ---- a known model


def solve_pdhg(
    mdp: MDP,
    weights: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    warm_start: Solution | None = None,
    *,
    distribution: ArrayLike | None = None,
    max_iterations: int = MAX_ITERATIONS,
    polish_every: int | None = POLISH_EVERY,
) -> Solution:
    """The saddle point of a model, to a true gap of `tolerance`, relative; a warning where that was not reached.

    weights       eta; the model's default if not given
    warm_start    a solution of a similar model with the same states and actions, to start from
    distribution  M (S, A), how often each pair is seen; ratio is then occupancy / M
    polish_every  steps between two polishes; None for PDHG alone
    """
    units = Units.of(mdp, mdp.checked_weights(weights))
    pairs = np.flatnonzero(mdp.available)
    model = model_of(mdp, units)
    V, lambda_ = np.zeros(mdp.num_states), np.full(pairs.size, 1.0)
    if warm_start is not None:
        if warm_start.Q.shape != mdp.rewards.shape:
            raise ModelError(f"the warm start is for {warm_start.Q.shape}; the model has {mdp.rewards.shape}")
        V, lambda_ = (warm_start.V - units.shift) / units.value, np.maximum(warm_start.occupancy.ravel()[pairs], 0.0)
    work = start_work(model, V, lambda_, 1.0)
    target = Target.of(model, units, tolerance)
    every = max_iterations if polish_every is None else polish_every
    last = None
    while work.total[0] < max_iterations and not _is_done(work, target):
        iterate(work, model, min(every, max_iterations - int(work.total[0])), target)
        if polish_every is not None and not _is_done(work, target):
            last = polish(work, model, last)
    if not _is_done(work, target):
        gap = units.value * units.weight * (work.upper[0] - work.lower[0])
        warnings.warn(f"the gap is {gap:.1e} after {work.total[0]:,} steps, not yet what was asked for", stacklevel=3)
    V, q = feasible_values(model, work.step.V)
    Q, occupancy = np.full(mdp.rewards.size, -np.inf), np.zeros(mdp.rewards.size)
    Q[pairs], occupancy[pairs] = units.value * q + units.shift, units.weight * work.step.lambda_
    return Solution(
        mdp,
        units.value * V + units.shift,
        Q=Q.reshape(mdp.rewards.shape),
        occupancy=occupancy.reshape(mdp.rewards.shape),
        weights=weights,
        distribution=distribution,
        error_bound=units.value * proven_bound(model, V),
        bounds=units.total(work.lower[0], work.upper[0]),
        method="PDHG",
        iterations=int(work.total[0]),
    )


def start_work(model: BilinearModel, V: Array, lambda_: Array, omega: float) -> Work:
    """An iteration at its start; lambda gets the mass B."""
    total = lambda_.sum()
    lambda_ = lambda_ * (model.mass / total) if total > 0.0 else np.full(lambda_.size, model.mass / lambda_.size)
    z = _point(model, V.astype(float), lambda_)
    step, anchor = (Point(*(x.copy() for x in z)) for _ in range(2))
    work = Work(
        z=z,
        step=step,
        anchor=anchor,
        middle=np.zeros(V.size),
        half=np.full(1, np.abs(model.R).max() / (1.0 - model.alpha)),
        upper=np.full(1, np.inf),
        lower=np.full(1, -np.inf),
        omega=np.full(1, omega),
        nu=np.zeros(1),
        since=np.zeros(1, np.int64),
        total=np.zeros(1, np.int64),
        first_gap=np.full(1, np.inf),
        last_gap=np.full(1, np.inf),
    )
    _bound(work, model)
    work.first_gap[0] = work.last_gap[0] = work.upper[0] - work.lower[0]
    return work


def _point(model: BilinearModel, V: Array, lambda_: Array) -> Point:
    r, d, g = np.empty(model.R.size), np.empty(V.size), np.empty(V.size)
    residual_of(model, V, r, d)
    gradient_of(model, lambda_, g)
    return Point(V, lambda_, r, g)


def _is_done(work: Work, target: Target) -> bool:
    return bool(small_enough(work.lower[0], work.upper[0], target))


def polish(work: Work, model: BilinearModel, last: Evaluated | None) -> Evaluated:
    """Restart from a policy's values and occupancy if their gap is smaller; the policy, no worse than the last one."""
    found = evaluated(model, work.step.r, last)
    if last is not None:
        found = evaluated(model, model.residual(np.maximum(found.V, last.V)), found)
    V = found.V
    trial = work._replace(  # its occupancy's lower bound is known before it: g = 0 and lambda'R = eta'V
        step=Point(V, np.zeros(model.R.size), model.residual(V), np.zeros(V.size)),
        upper=np.zeros(1),
        lower=np.zeros(1),
    )
    _bound(trial, model)
    if trial.upper[0] - (trial.lower[0] + found.value) < work.upper[0] - work.lower[0]:
        lambda_ = np.zeros(model.R.size)
        visits = solve_chain(model.transitions(found.chosen), model.alpha, model.eta, transpose=True)
        lambda_[found.chosen] = np.maximum(visits, 0.0)
        for to, array in zip(work.step, _point(model, V, lambda_), strict=True):
            to[:] = array
        _bound(work, model)
        _restart(work, model)
    return found


@kernel
def _bound(work, model):
    """The bounds of the point `step`, from its V and lambda and what is linear in them; the box, where it is better."""
    V, lambda_, r, g = work.step
    first, alpha, eta = model.first, model.alpha, model.eta
    S = V.size
    lo, hi, largest, value = np.inf, -np.inf, 0.0, 0.0
    for s in range(S):
        best = -np.inf
        for i in range(first[s], first[s + 1]):
            best = max(best, r[i])
        lo, hi = min(lo, best), max(hi, best)
        largest = max(largest, abs(V[s]))
        value += eta[s] * (V[s] + best)
    paid, terms = 0.0, 0.0
    for i in range(lambda_.size):
        paid += lambda_[i] * model.R[i]
        terms = max(terms, abs(model.R[i]))
    # r is known up to rounding, and so are lo and hi
    rounding = model.unit * (terms + 2.0 * largest)
    half = (alpha * 0.5 * (hi - lo) + rounding) / (1.0 - alpha)
    if half < work.half[0]:
        work.half[0] = half
        shift = alpha / (1.0 - alpha) * 0.5 * (lo + hi)
        for s in range(S):
            best = -np.inf
            for i in range(first[s], first[s + 1]):
                best = max(best, r[i])
            work.middle[s] = V[s] + best + shift
    least = 0.0
    for s in range(S):
        least += g[s] * work.middle[s] - abs(g[s]) * work.half[0]
    work.upper[0] = value + alpha * hi * model.mass + rounding * model.mass
    work.lower[0] = paid + least - rounding * model.mass


@kernel
def _restart(work, model):
    """Anchor the iteration at `step`, and weigh primal against dual by how far each moved."""
    V, lambda_, r, g = work.step
    moved_V, moved_lambda = 0.0, 0.0
    for s in range(V.size):
        moved_V += (V[s] - work.anchor.V[s]) ** 2 / model.tau[s]
    for i in range(lambda_.size):
        moved_lambda += (lambda_[i] - work.anchor.lambda_[i]) ** 2 / model.sigma[i]
    least = (NO_MOVE * model.mass) ** 2  # below it a move may be rounding: one of the two has arrived
    if moved_V > least and moved_lambda > least:
        work.omega[0] = np.sqrt(work.omega[0] * np.sqrt(moved_V / moved_lambda))
    for to in (work.z, work.anchor):
        copy_into(to.V, V)
        copy_into(to.lambda_, lambda_)
        copy_into(to.r, r)
        copy_into(to.g, g)
    work.since[0] = 0
    work.first_gap[0] = work.upper[0] - work.lower[0]
    work.last_gap[0] = np.inf


@kernel
def iterate(work, model, count, target):
    """Take `count` steps in place, fewer where the gap is small enough before."""
    V, lambda_, r, g = work.z
    V_step, lambda_step, r_step, g_step = work.step
    tau, sigma = model.tau, model.sigma
    d = np.empty(V.size)
    for _ in range(count):
        omega = work.omega[0]
        for s in range(V.size):
            V_step[s] = V[s] - omega * tau[s] * g[s]
        residual_of(model, V_step, r_step, d)
        for i in range(r.size):
            lambda_step[i] = lambda_[i] + sigma[i] / omega * (2.0 * r_step[i] - r[i])
        work.nu[0] = project_mass(lambda_step, sigma, model.mass, work.nu[0])
        gradient_of(model, lambda_step, g_step)
        work.total[0] += 1
        work.since[0] += 1
        _bound(work, model)
        gap = work.upper[0] - work.lower[0]
        if small_enough(work.lower[0], work.upper[0], target):
            break

        falling, k = gap < work.last_gap[0], work.since[0]
        work.last_gap[0] = gap
        if (
            gap <= SUFFICIENT * work.first_gap[0]
            or (gap <= NECESSARY * work.first_gap[0] and not falling)
            or (k > 10 and k >= LONGEST * work.total[0])
        ):
            _restart(work, model)
            continue
        w = k / (k + 1.0)
        for s in range(V.size):
            V[s] = w * (2.0 * V_step[s] - V[s]) + (1.0 - w) * work.anchor.V[s]
            g[s] = w * (2.0 * g_step[s] - g[s]) + (1.0 - w) * work.anchor.g[s]
        for i in range(r.size):
            lambda_[i] = w * (2.0 * lambda_step[i] - lambda_[i]) + (1.0 - w) * work.anchor.lambda_[i]
            r[i] = w * (2.0 * r_step[i] - r[i]) + (1.0 - w) * work.anchor.r[i]
