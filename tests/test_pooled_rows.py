"""The kernels of pooling and of chains, beside the same sums with dense arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

from dualq import TablePolicy, problems
from dualq.model import chains
from dualq.offline.careful import pooling
from dualq.proof import noise, successors

PROBLEMS = {
    "garnet": lambda: problems.garnet(40, 4, 3, discount=0.9, seed=5),
    "queue": lambda: problems.queue(25),
    "maze": lambda: problems.maze(10, discount=0.9, walls=0.1),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_pooled_rows_are_the_mixture_they_say(name):
    rows, rng = pooling.Rows.of(PROBLEMS[name]().record(2_000, seed=3).counts(), 0.9), np.random.default_rng(7)
    S, A = rows.n.shape
    tried = [np.flatnonzero(some) if some.any() else np.zeros(1, int) for some in rows.supported]
    toward = np.array([rng.choice(actions, A) for actions in tried])
    lean = pooling.Lean(rng.random((S, A)), rng.random((S, A)) * rng.integers(2, size=(S, A)), toward)
    P, R = rows.plug_in.transitions.toarray().reshape(S, A, S), rows.plug_in.rewards
    expected, paid = P.copy(), R.copy()
    for s, a in np.argwhere(rows.supported):
        w, c, b = lean.own[s, a], lean.tilt[s, a], toward[s, a]
        habit = rows.n[s] / rows.total[s]
        expected[s, a] = w * P[s, a] + (1.0 - w) * ((1.0 - c) * habit @ P[s] + c * P[s, b])
        paid[s, a] = w * R[s, a] + (1.0 - w) * ((1.0 - c) * habit @ R[s] + c * R[s, b])
    found = rows.pooled(lean)
    np.testing.assert_allclose(found.transitions.toarray().reshape(S, A, S), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.rewards, paid, rtol=1e-13, atol=1e-13)


def test_posteriors_are_those_of_arrays():
    rng = np.random.default_rng(1)
    likelihood, prior, informative = rng.random((50, 6)), rng.dirichlet(np.ones(6)), rng.random(50) < 0.7
    posterior, mass = np.empty_like(likelihood), np.empty(6)
    pooling._posteriors(likelihood, prior, informative, posterior, mass)
    expected = likelihood * prior / (likelihood @ prior)[:, None]
    np.testing.assert_allclose(posterior, expected, rtol=1e-14)
    np.testing.assert_allclose(mass, expected[informative].sum(axis=0), rtol=1e-13)


def test_a_chain_in_another_order_is_that_of_both_indices():
    rng = np.random.default_rng(2)
    P, order = sp.random_array((30, 30), density=0.2, format="csr", rng=rng), rng.permutation(30)
    assert np.array_equal(chains._in_order(P, order).toarray(), P.toarray()[np.ix_(order, order)])


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_chain_of_a_sure_policy_has_its_rows(name):
    mdp, rng = PROBLEMS[name]().mdp, np.random.default_rng(3)
    choice = np.array([rng.choice(np.flatnonzero(some)) for some in mdp.available])
    policy = TablePolicy.deterministic(choice, mdp.num_actions, mdp.states, mdp.actions)
    P, R = policy.chain(mdp)
    rows = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, -1)
    assert np.array_equal(P.toarray(), rows[np.arange(mdp.num_states), choice])
    assert np.array_equal(R, mdp.rewards[np.arange(mdp.num_states), choice])


@pytest.mark.parametrize("a", [0.5, 1e-3, 40.0])
def test_rising_powers_are_those_of_gamma_functions(a):
    for n in (np.array([0.0, 1, 3, 2, 0, 5, 1, 1]), np.array([0.0, 1e6])):  # few different numbers, and large ones
        np.testing.assert_allclose(successors._log_rising(a, n), gammaln(n + a) - gammaln(a), rtol=1e-14)
        each = np.full(n.shape, a)
        np.testing.assert_allclose(successors._log_rising(each, n), gammaln(n + a) - gammaln(a), rtol=1e-14)


def test_boundaries_of_pairs_do_not_depend_on_their_neighbours():
    rng = np.random.default_rng(4)
    n, spread = rng.integers(0, 4, (3, 60)).astype(float), rng.random((3, 60))
    scales = rng.choice([0.5, 1.0, 2.0], (3, 60))  # some as those of the pair before, others not
    rates, weights = np.exp(np.linspace(-4.0, 2.0, 30)), np.full(30, -np.log(30.0))
    together = noise.boundary(n, spread, scales, rates, weights, 3.0)
    apart = [noise.boundary(n[:, [p]], spread[:, [p]], scales[:, [p]], rates, weights, 3.0)[0] for p in range(60)]
    assert np.array_equal(together, apart)
