"""Incomplete elimination: exact where nothing is left out; large mazes against the solver without it."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualq import problems
from dualq.base import unsigned
from dualq.model import elimination
from dualq.solvers import dynamic
from dualq.solvers.dynamic import krylov_policy_iteration, solve_dynamic


def rows_of(C):
    """ptr, idx, C of a matrix, as the kernels read them."""
    C = sp.csr_array(C)
    return C.indptr.astype(np.uint64), unsigned(C.indices.astype(np.int32)), C.data


def dense(ptr, idx, data, n):
    used = int(ptr[-1])
    return sp.csr_array((data[:used], idx[:used].astype(int), ptr.astype(int)), shape=(n, n)).toarray()


def chain(n, rng, links=3, alpha=0.99):
    """C of a random chain without loops: rows sum to alpha."""
    C = np.zeros((n, n))
    for t in range(n):
        to = rng.choice(np.delete(np.arange(n), t), links, replace=False)
        C[t, to] = alpha * rng.dirichlet(np.ones(links))
    return C


@pytest.mark.parametrize("seed", range(5))
def test_with_nothing_left_out_it_is_lu(seed, monkeypatch):
    monkeypatch.setattr(elimination, "DROP", 0.0)
    monkeypatch.setattr(elimination, "FILL", 100)
    rng = np.random.default_rng(seed)
    C = chain(40, rng)
    found = elimination.eliminated(*rows_of(C))
    L = np.eye(40) - dense(*found[:3], 40)
    U = np.diag(found.pivot) - dense(*found[3:6], 40)
    np.testing.assert_allclose(L @ U, np.eye(40) - C, atol=1e-13)
    b = rng.random(40)
    np.testing.assert_allclose(found.solve(b), np.linalg.solve(np.eye(40) - C, b), rtol=1e-10)


def test_what_is_left_out_is_made_up_for_by_steps(monkeypatch):
    """A regular splitting: pivots stay positive, and steps end at the answer, here with a third of the mass dropped."""
    monkeypatch.setattr(elimination, "DROP", 0.3)
    rng = np.random.default_rng(0)
    C, b = chain(40, rng, alpha=0.9), rng.random(40)
    found, x = elimination.eliminated(*rows_of(C)), np.zeros(40)
    assert found.pivot.min() > 0.0
    assert found.entries < np.count_nonzero(C)
    for _ in range(400):
        x += found.solve(b - x + C @ x)
    np.testing.assert_allclose(x, np.linalg.solve(np.eye(40) - C, b), rtol=1e-10)


def test_where_it_would_fill_in_too_much_there_is_none(monkeypatch):
    rng = np.random.default_rng(0)
    assert elimination.eliminated(*rows_of(chain(400, rng))) is None
    monkeypatch.setattr(elimination, "FILL", 1000)
    assert elimination.eliminated(*rows_of(chain(400, rng))) is None  # rows too long


@pytest.mark.parametrize("discount", [0.99, 0.9999])
def test_mazes_by_elimination_against_the_solver_without(discount, monkeypatch):
    mdp = problems.maze(150, discount=discount).mdp
    monkeypatch.setattr(dynamic, "QUICK", 16)
    found = solve_dynamic(mdp, 1e-8)
    monkeypatch.setattr(dynamic, "MANY", np.inf)
    twin = solve_dynamic(mdp, 1e-8)
    assert np.abs(found.V - twin.V).max() <= found.error_bound + twin.error_bound <= 2e-8
    assert found.products < 0.75 * twin.products  # it was elimination that found it


@pytest.mark.parametrize("failures", [1, 2, 10])
def test_a_policy_that_cannot_be_eliminated_is_left_for_a_guess(failures, monkeypatch):
    """However often elimination fails, V is right to its bound; the first time V is guessed anew."""
    mdp = problems.maze(40, discount=0.999).mdp
    twin = krylov_policy_iteration(mdp, 1e-8)
    real, tried, guessed = elimination.eliminated, [], []
    monkeypatch.setattr(dynamic, "QUICK", 4)
    monkeypatch.setattr(dynamic, "MANY", 0)

    def failing(*rows):
        tried.append(None)
        return None if len(tried) <= failures else real(*rows)

    news = dynamic._first_news
    monkeypatch.setattr("dualq.model.chains.eliminated", failing)
    monkeypatch.setattr(dynamic, "_first_news", lambda *rows: (guessed.append(None), news(*rows)))
    found = krylov_policy_iteration(mdp, 1e-8)
    assert np.abs(found.V - twin.V).max() <= found.error_bound + twin.error_bound <= 2e-8
    assert len(guessed) == 1
    assert len(tried) == dynamic.FAILURES if failures == 10 else len(tried) > failures


def test_the_first_guess_is_that_of_a_plain_loop():
    mdp = problems.garnet(30, 3, 3, discount=0.9, seed=0).mdp
    P, R, alpha = mdp.transitions.toarray().reshape(30, 3, 30), mdp.rewards, mdp.discount
    h, expected = np.zeros(30), np.zeros(30)
    dynamic._first_news(*mdp.rows, R.ravel(), 3, alpha, 0.25, h)
    for s in range(30):
        known = P[s, :, :s].sum(axis=1)
        q = (R[s] - 0.25 + alpha * P[s, :, :s] @ expected[:s]) / (1.0 - alpha * (1.0 - known))
        expected[s] = q[known > 0.0].max() if (known > 0.0).any() else q.max()
    np.testing.assert_allclose(h, expected, rtol=1e-12)
