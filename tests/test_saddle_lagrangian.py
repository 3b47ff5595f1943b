"""L_M, L_I, L and their gradients, against the paper's formulas with Kronecker products and against differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import mdps, seeds

from dualq.model.mdp import MDP
from dualq.model.saddle.lagrangian import (
    gradients_I,
    gradients_M,
    gradients_V,
    lagrangian_I,
    lagrangian_M,
    lagrangian_V,
)

modest = settings(max_examples=60, deadline=None, derandomize=True)


def random_point(mdp: MDP, seed: int):
    """eta, M, Q, V, lambda, mu: any real numbers; -inf in Q and zeros in the others where an action does not exist."""
    rng = np.random.default_rng(seed)
    shape, exists = mdp.rewards.shape, mdp.available
    M = np.where(exists, rng.random(shape) + 0.1, 0.0)
    Q = np.where(exists, 5 * rng.normal(size=shape), -np.inf)
    lambda_, mu = (np.where(exists, rng.normal(size=shape), 0.0) for _ in range(2))
    return rng.random(shape[0]) + 0.1, M, Q, 5 * rng.normal(size=shape[0]), lambda_, mu


class PaperForm:
    """The paper's vectors and matrices: dense, stacked action by action."""

    def __init__(self, mdp: MDP):
        S, A = mdp.rewards.shape
        tensor = mdp.transitions.toarray().reshape(S, A, S)
        self.P = np.vstack([tensor[:, a, :] for a in range(A)])
        self.R = self.stack(mdp.rewards)
        self.E = np.kron(np.ones((A, 1)), np.eye(S))  # 1_{|A|} (x) I_{|S|}
        self.alpha = mdp.discount

    @staticmethod
    def stack(table):
        return np.where(np.isfinite(table), table, 0.0).T.ravel()

    def L(self, eta, M, Q, V, lambda_, mu):
        bellman_error = self.alpha * self.P @ V + self.R - Q
        return eta @ V + mu @ np.diag(M) @ bellman_error + lambda_ @ (Q - self.E @ V)

    def gradients(self, eta, M, Q, V, lambda_, mu):
        M = np.diag(M)
        return (
            lambda_ - M @ mu,
            eta - self.E.T @ lambda_ + self.alpha * self.P.T @ M @ mu,
            Q - self.E @ V,
            self.alpha * M @ self.P @ V + M @ self.R - M @ Q,
        )


@modest
@given(mdp=mdps(), seed=seeds)
def test_equals_the_papers_matrices(mdp, seed):
    eta, M, Q, V, lambda_, mu = random_point(mdp, seed)
    paper = PaperForm(mdp)

    m, q, lam, u = (paper.stack(array) for array in (M, Q, lambda_, mu))
    ones = np.ones_like(m)
    exists = paper.stack(mdp.available.astype(float)) > 0

    assert lagrangian_M(mdp, eta, M, Q, V, lambda_, mu) == pytest.approx(
        paper.L(eta, m, q, V, lam, u), rel=1e-12, abs=1e-11
    )
    assert lagrangian_I(mdp, eta, Q, V, lambda_, mu) == pytest.approx(
        paper.L(eta, ones, q, V, lam, u), rel=1e-12, abs=1e-11
    )
    without_Q = eta @ V + lam @ (paper.R + paper.alpha * paper.P @ V - paper.E @ V)
    assert lagrangian_V(mdp, eta, V, lambda_) == pytest.approx(without_Q, rel=1e-12, abs=1e-11)

    for ours, diagonal in (
        (gradients_M(mdp, eta, M, Q, V, lambda_, mu), m),
        (gradients_I(mdp, eta, Q, V, lambda_, mu), ones),
    ):
        grad_Q, grad_V, grad_lambda, grad_mu = paper.gradients(eta, diagonal, q, V, lam, u)
        np.testing.assert_allclose(paper.stack(ours.Q)[exists], grad_Q[exists], atol=1e-12)
        np.testing.assert_allclose(ours.V, grad_V, atol=1e-12)
        np.testing.assert_allclose(paper.stack(ours.lambda_)[exists], grad_lambda[exists], atol=1e-12)
        np.testing.assert_allclose(paper.stack(ours.mu)[exists], grad_mu[exists], atol=1e-12)
        for table in (ours.Q, ours.lambda_, ours.mu):
            assert (table[~mdp.available] == 0.0).all()

    grad_V, grad_lambda = gradients_V(mdp, eta, V, lambda_)
    np.testing.assert_allclose(grad_V, eta - paper.E.T @ lam + paper.alpha * paper.P.T @ lam, atol=1e-12)
    expected = paper.R + paper.alpha * paper.P @ V - paper.E @ V
    np.testing.assert_allclose(paper.stack(grad_lambda)[exists], expected[exists], atol=1e-12)


def differences(function, at):
    """Central differences of a function of one array, entry by entry; zero where the entry is infinite."""
    gradient = np.zeros(at.shape)
    for i in np.ndindex(at.shape):
        if np.isfinite(at[i]):
            step = np.zeros(at.shape)
            step[i] = 0.5
            gradient[i] = function(at + step) - function(at - step)  # exact: the Lagrangians are linear in each array
    return gradient


@modest
@given(mdp=mdps(), seed=seeds)
def test_gradients_are_derivatives(mdp, seed):
    eta, M, Q, V, lambda_, mu = random_point(mdp, seed)
    ours = gradients_M(mdp, eta, M, Q, V, lambda_, mu)
    close = {"atol": 1e-10}
    np.testing.assert_allclose(ours.Q, differences(lambda q: lagrangian_M(mdp, eta, M, q, V, lambda_, mu), Q), **close)
    np.testing.assert_allclose(ours.V, differences(lambda v: lagrangian_M(mdp, eta, M, Q, v, lambda_, mu), V), **close)
    np.testing.assert_allclose(
        ours.lambda_, differences(lambda x: lagrangian_M(mdp, eta, M, Q, V, x, mu), lambda_), **close
    )
    np.testing.assert_allclose(ours.mu, differences(lambda x: lagrangian_M(mdp, eta, M, Q, V, lambda_, x), mu), **close)
    grad_V, grad_lambda = gradients_V(mdp, eta, V, lambda_)
    np.testing.assert_allclose(grad_V, differences(lambda v: lagrangian_V(mdp, eta, v, lambda_), V), **close)
    np.testing.assert_allclose(grad_lambda, differences(lambda x: lagrangian_V(mdp, eta, V, x), lambda_), **close)


@modest
@given(mdp=mdps(), seed=seeds)
def test_the_three_are_one(mdp, seed):
    """L_M at mu is L_I at M mu; L_I with mu = lambda is L(V, lambda), whatever Q is."""
    eta, M, Q, V, lambda_, mu = random_point(mdp, seed)
    assert lagrangian_M(mdp, eta, M, Q, V, lambda_, mu) == pytest.approx(
        lagrangian_I(mdp, eta, Q, V, lambda_, M * mu), abs=1e-10
    )
    assert lagrangian_I(mdp, eta, Q, V, lambda_, lambda_) == pytest.approx(
        lagrangian_V(mdp, eta, V, lambda_), abs=1e-10
    )


@modest
@given(mdp=mdps(), seed=seeds)
def test_pairs_that_do_not_exist_are_not_read(mdp, seed):
    eta, M, Q, V, lambda_, mu = random_point(mdp, seed)
    rubbish = np.where(mdp.available, 0.0, np.nan)
    assert lagrangian_M(mdp, eta, M, Q + rubbish, V, lambda_ + rubbish, mu + rubbish) == lagrangian_M(
        mdp, eta, M, Q, V, lambda_, mu
    )
    for clean, dirty in zip(
        gradients_M(mdp, eta, M, Q, V, lambda_, mu),
        gradients_M(mdp, eta, M, Q + rubbish, V, lambda_ + rubbish, mu + rubbish),
        strict=True,
    ):
        np.testing.assert_array_equal(clean, dirty)
