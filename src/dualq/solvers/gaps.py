"""Two measures of how far a point (x, y), x = (Q, V), y = (lambda, mu), is from the saddle point.

Pseudo gap   D(x, y) = L_I(x, y*) - L_I(x*, y)                                    definition "pseudo duality gap"

             which is  sum_a lambda_a' (I - alpha P_pi)(V* - V^pi)                lemma:duality-gap-representation
             with pi the dual policy, and also  lambda'(E V* - Q*).
             At the dual solution grad_x L_I(x, y*) = 0, so D says nothing of Q, V and mu, whatever they are.

True gap     G(x, y) = max_{y' in Y} L(x, y') - min_{x' in X} L(x', y),   X = V^|A| x V,  Y = (L and Xi) x M

             L is linear in each argument, so each part is a sum over the sets of `dualq.model.saddle.sets`. With
             U = sigma/(1-alpha), B = ||eta||_1/(1-alpha), c = Q - E V, d = M (alpha P V + R - Q):

             max_y = eta'V + (B/zeta) sum max(d, 0) + sum_s [ B sum_a max(c_a(s), 0) + eta(s) min(0, max_a c_a(s)) ]
             min_x = mu'M R + U sum min(0, lambda - M mu) + U sum min(0, eta - E'lambda + alpha P'M mu)

             In a state where some c_a are positive, lambda is B >= eta(s) at those; where none is, Xi still asks for
             eta(s), which is put on the largest.

What the true gap says. For every x at all and every y with lambda >= 0, in the sets or not,

             min_x' L(x', y) <= eta'V* <= max_y' L(x, y')    and    0 <= D(x, y) <= G(x, y).

Only a negative lambda can make it negative. It is zero exactly at the saddle points of the problem on the compact sets
(eq:saddle-point-3). Those include (Q*, V*, lambda*, mu*). The paper calls the solutions identical, but the compact sets
have more of them than the programs:
  - the box asks for mu >= 0, which turns the equation Q = R + alpha P V into an inequality: where a is not optimal,
    Q_a(s) may be anything from Q*_a(s) to V*(s);
  - by Xi, V(s) may be above V*(s) in a state that is never entered;
  - with one single state lambda* = B lies on the edge of its box, and any V <= V* with Q = R + alpha V will do;
  - where V* lies on the edge of its box (a state that pays nothing for ever), lambda and mu are not unique.

Which mu. L_M(Q, V, lambda, mu) = L_I(Q, V, lambda, M mu), and M mu has a meaning of its own: it is an occupancy. The
paper's y-hat (eq:def:hat-x-y) pairs lambda with M mu for the same reason. So the point is read from a Solution as
lambda = occupancy and M mu = ratio * (the distribution that the solution was computed with; 1 if it had none). With a
`distribution` the gap is that of L_M at mu = M^-1 (M mu); without, that of L_I at mu = (M mu).

Units. Both gaps are the paper's: rewards from mdp.nonnegative(), Q and V moved by mdp.value_shift. The point is taken
as it is, not projected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import ModelError, door
from dualq.model import MDP, Sets, Solution, checked_distribution, gradients_M, lagrangian_I
from dualq.solvers.programs import solve_lp

Array = np.ndarray


@door
def pseudo_gap(mdp: MDP, solution: Solution, weights: ArrayLike | None = None, exact: Solution | None = None) -> float:
    """D(x, y) = L_I(x, y*) - L_I(x*, y) at the solution's point.

    Parameters
    ----------
    weights
        eta; the solution's own if not given
    exact
        the exact solution under the same weights, if it is at hand; found by linear programming if not

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> exact = dualq.solve(two.mdp, weights=1.5)
    >>> abs(dualq.pseudo_gap(two.mdp, exact)) < 1e-6
    True
    """
    eta = solution.weights if weights is None else mdp.checked_weights(weights)
    exact = solve_lp(mdp, eta) if exact is None else exact
    if not np.allclose(exact.weights, eta, rtol=1e-12, atol=0.0):
        raise ModelError(
            "the exact solution was found with other weights than the gap is asked for; give both the same"
        )
    model = mdp.nonnegative()
    Q, V, lambda_, M_mu = _point(mdp, solution)
    Q_star, V_star, lambda_star, M_mu_star = _point(mdp, exact)
    return lagrangian_I(model, eta, Q, V, lambda_star, M_mu_star) - lagrangian_I(
        model, eta, Q_star, V_star, lambda_, M_mu
    )


@door
def duality_gap(
    mdp: MDP,
    solution: Solution,
    weights: ArrayLike | None = None,
    distribution: ArrayLike | None = None,
    zeta: float | None = None,
) -> float:
    """The true gap: max of L(x, .) over Y minus min of L(., y) over X, at the solution's point.

    Parameters
    ----------
    weights
        eta; the solution's own if not given
    distribution
        M[s, a], for the gap of L_M; that of L_I if not given
    zeta
        the set M is [0, ||eta||_1 / (zeta (1 - alpha))]; the least entry of M if not given, 1 for L_I

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> abs(dualq.duality_gap(two.mdp, dualq.solve(two.mdp, weights=1.5))) < 1e-6
    True
    >>> run = dualq.train(dualq.SPDQ(weights=1.5, zeta=0.08), two, steps=1000)
    >>> bool(dualq.duality_gap(two.mdp, run.solution) > 1.0)
    True
    """
    eta = solution.weights if weights is None else mdp.checked_weights(weights)
    M = checked_distribution(mdp, distribution)
    M = np.where(mdp.available, 1.0, 0.0) if M is None else M
    least = float(M[mdp.available].min())
    zeta = least if zeta is None else float(zeta)
    if zeta > least * (1.0 + 1e-12):
        raise ModelError(
            f"zeta is {zeta:g}; it may not exceed {least:g}, the least entry of M: mu* would be outside its set"
        )
    sets = Sets.of(mdp, eta, zeta)
    Q, V, lambda_, M_mu = _point(mdp, solution)
    mu = np.divide(M_mu, M, out=np.zeros(M.shape), where=mdp.available)
    return highest(mdp.nonnegative(), sets, M, Q, V) - lowest(mdp.nonnegative(), sets, M, lambda_, mu)


def highest(mdp: MDP, sets: Sets, M: Array, Q: Array, V: Array) -> float:
    """max_y L_M(Q, V, y) over Y; never below eta'V*. The model and the point are in the paper's units."""
    nothing = np.zeros(M.shape)
    gradients = gradients_M(mdp, sets.eta, M, Q, V, nothing, nothing)
    best_mu = sets.ratio_bound * np.maximum(gradients.mu, 0.0).sum()
    c = gradients.lambda_
    largest = np.max(c, axis=1, where=mdp.available, initial=-np.inf)
    best_lambda = sets.occupancy_bound * np.maximum(c, 0.0).sum() + sets.eta @ np.minimum(largest, 0.0)
    return float(sets.eta @ V + best_mu + best_lambda)


def lowest(mdp: MDP, sets: Sets, M: Array, lambda_: Array, mu: Array) -> float:
    """min_x L_M(x, lambda, mu) over X; never above eta'V* if lambda >= 0. The model is in the paper's units."""
    gradients = gradients_M(mdp, sets.eta, M, np.zeros(M.shape), np.zeros(sets.eta.size), lambda_, mu)
    least_Q = sets.value_bound * np.minimum(gradients.Q, 0.0).sum()
    least_V = sets.value_bound * np.minimum(gradients.V, 0.0).sum()
    return float(np.sum(M * mu * mdp.rewards, where=mdp.available) + least_Q + least_V)


def _point(mdp: MDP, solution: Solution) -> tuple[Array, Array, Array, Array]:
    """(Q, V, lambda, M mu) of a solution, in the paper's units."""
    for name, array in (("Q", solution.Q), ("occupancy", solution.occupancy), ("ratio", solution.ratio)):
        if np.shape(array) != mdp.rewards.shape:
            raise ModelError(f"{name} of the solution has shape {np.shape(array)}; the model has {mdp.rewards.shape}")
    M_mu = solution.ratio if solution.distribution is None else solution.distribution * solution.ratio
    return solution.Q + mdp.value_shift, solution.V + mdp.value_shift, solution.occupancy, M_mu
