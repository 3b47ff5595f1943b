"""The Lagrangians of the paper's linear programs, and their gradients.

Problem    min over (Q, V), max over (lambda, mu)                                          eq:saddle-point-1, -2

               L_M(Q, V, lambda, mu) = eta'V + mu'M (alpha P V + R - Q) + lambda'(Q - E V)

           L_I is L_M with M = I (eq:Lagrangian-LP-form-Q-learning). So L_M(Q, V, lambda, mu) = L_I(Q, V, lambda, M mu).
           The first LP (eq:DP-LP-form) has no Q and no mu:

               L(V, lambda) = eta'V + lambda'(R + alpha P V - E V)                         eq:saddlepont

Gradients  grad_Q L_M      = lambda - M mu
           grad_V L_M      = eta - E'lambda + alpha P'M mu
           grad_lambda L_M = Q - E V
           grad_mu L_M     = M (alpha P V + R - Q)

At the saddle point of L_M: V* and Q* = R + alpha P V* are the optimal values, lambda* is the occupancy of the optimal
policy, and mu* = M^-1 lambda* (proposition:dual-solution).

    paper                     here
    Q_a(s), V(s)              Q[s, a], V[s]
    lambda_a(s), mu_a(s)      lambda_[s, a], mu[s, a]
    M_a(s, s)                 M[s, a]
    E = 1_{|A|} (x) I_{|S|}   V[:, None] for E V, .sum(axis=1) for E'lambda   (1_{|S|} (x) V in the paper is a misprint)
    eta                       eta[s]
    P, R, alpha               mdp.transitions, mdp.rewards, mdp.discount

The rewards are those of the model given, whatever their sign. A pair that is not available is no part of the problem:
whatever the arrays hold there (-inf in Q, say) is not read, and the gradients are zero there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualq.model.mdp import MDP

Array = np.ndarray


class Gradients(NamedTuple):
    """The four gradients of L_M or L_I."""

    Q: Array  # (S, A)
    V: Array  # (S,)
    lambda_: Array  # (S, A)
    mu: Array  # (S, A)


def lagrangian_M(mdp: MDP, eta: Array, M: Array | float, Q: Array, V: Array, lambda_: Array, mu: Array) -> float:
    """L_M = eta'V + mu'M (alpha P V + R - Q) + lambda'(Q - E V)."""
    lambda_, mu = _zero_elsewhere(mdp, lambda_), _zero_elsewhere(mdp, mu)
    return float(eta @ V + np.sum(mu * M * _bellman_error(mdp, Q, V)) + np.sum(lambda_ * _excess(mdp, Q, V)))


def gradients_M(mdp: MDP, eta: Array, M: Array | float, Q: Array, V: Array, lambda_: Array, mu: Array) -> Gradients:
    """The gradients of L_M with respect to Q, V, lambda and mu."""
    lambda_, M_mu = _zero_elsewhere(mdp, lambda_), _zero_elsewhere(mdp, M * mu)
    return Gradients(
        Q=lambda_ - M_mu,
        V=eta - lambda_.sum(axis=1) + mdp.discount * (mdp.transitions.T @ M_mu.ravel()),
        lambda_=_excess(mdp, Q, V),
        mu=M * _bellman_error(mdp, Q, V),
    )


def lagrangian_I(mdp: MDP, eta: Array, Q: Array, V: Array, lambda_: Array, mu: Array) -> float:
    """L_I = eta'V + mu'(alpha P V + R - Q) + lambda'(Q - E V)."""
    return lagrangian_M(mdp, eta, 1.0, Q, V, lambda_, mu)


def gradients_I(mdp: MDP, eta: Array, Q: Array, V: Array, lambda_: Array, mu: Array) -> Gradients:
    """The gradients of L_I with respect to Q, V, lambda and mu."""
    return gradients_M(mdp, eta, 1.0, Q, V, lambda_, mu)


def lagrangian_V(mdp: MDP, eta: Array, V: Array, lambda_: Array) -> float:
    """L(V, lambda) = eta'V + lambda'(R + alpha P V - E V), of the LP without Q."""
    return float(eta @ V + np.sum(_zero_elsewhere(mdp, lambda_) * _bellman_error(mdp, V[:, None], V)))


def gradients_V(mdp: MDP, eta: Array, V: Array, lambda_: Array) -> tuple[Array, Array]:
    """(grad_V L, grad_lambda L) = (eta - E'lambda + alpha P'lambda, R + alpha P V - E V)."""
    lambda_ = _zero_elsewhere(mdp, lambda_)
    grad_V = eta - lambda_.sum(axis=1) + mdp.discount * (mdp.transitions.T @ lambda_.ravel())
    return grad_V, _bellman_error(mdp, V[:, None], V)


def _bellman_error(mdp: MDP, Q: Array, V: Array) -> Array:
    """Alpha P V + R - Q."""
    return _zero_elsewhere(mdp, mdp.discount * (mdp.transitions @ V).reshape(mdp.rewards.shape) + mdp.rewards - Q)


def _excess(mdp: MDP, Q: Array, V: Array) -> Array:
    """Q - E V."""
    return _zero_elsewhere(mdp, Q - V[:, None])


def _zero_elsewhere(mdp: MDP, array: Array) -> Array:
    """The array, with zeros at the pairs that are not available (before any product: 0 times -inf is not 0)."""
    return np.where(mdp.available, array, 0.0)
