"""The six linear programs: the paper's printed numbers, each other, brute force, strong duality, the lemmas' bounds."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distributions_for, mdps, weights_for

from dualq.base.errors import DualqError, ModelError
from dualq.model.mdp import MDP
from dualq.solvers.programs import METHODS, WITH_M, WITHOUT_M, Program, dual, primal, solve_lp, solve_program

modest = settings(max_examples=40, deadline=None, derandomize=True)
SIX = [*WITHOUT_M, *WITH_M]

# The paper's two-state example. The printed rewards are indexed (action, state): r[a][s].
P_1 = np.array([[0.2, 0.8], [0.3, 0.7]])
P_2 = np.array([[0.5, 0.5], [0.7, 0.3]])
R_PRINTED = np.array([[3.0, 1.0], [2.0, 1.0]])
TWO_STATE = MDP(np.stack([P_1, P_2], axis=1), R_PRINTED.T, 0.9, reward_bound=3.0)
THETA = np.array([[0.2, 0.8], [0.7, 0.3]])  # behaviour: theta_s(a)
V_INFINITY = np.array([3.0, 4.0]) / 7.0
M_INFINITY = V_INFINITY[:, None] * THETA


def test_the_example_is_the_papers():
    P_theta = THETA[:, :1] * P_1 + THETA[:, 1:] * P_2
    np.testing.assert_allclose(P_theta, [[0.44, 0.56], [0.42, 0.58]])
    np.testing.assert_allclose(V_INFINITY @ P_theta, V_INFINITY)
    np.testing.assert_allclose(V_INFINITY, [0.4286, 0.5714], atol=5e-5)
    np.testing.assert_allclose(M_INFINITY, [[0.0857, 0.3429], [0.4, 0.1714]], atol=5e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("program", SIX)
def test_every_number_printed_in_the_two_state_section(program, method):
    solution = solve_lp(TWO_STATE, 0.1, M_INFINITY, program=program, method=method)
    four_decimals = {"rtol": 0.0, "atol": 5e-5}
    np.testing.assert_allclose(solution.Q, [[20.0690, 19.4414], [18.1931, 18.6897]], **four_decimals)
    np.testing.assert_allclose(solution.V, [20.0690, 18.6897], **four_decimals)
    np.testing.assert_allclose(solution.occupancy, [[0.9379, 0.0], [0.0, 1.0621]], **four_decimals)
    np.testing.assert_allclose(solution.ratio, [[10.9425, 0.0], [0.0, 6.1954]], **four_decimals)
    np.testing.assert_allclose(solution.dual_policy.matrix, np.eye(2), **four_decimals)
    np.testing.assert_array_equal(solution.primal_policy.matrix, np.eye(2))


@pytest.mark.parametrize("program", SIX)
def test_the_weights_of_the_learning_runs(program):
    solution = solve_lp(TWO_STATE, None, M_INFINITY, program=program)  # eta = sigma / |S| = 1.5
    np.testing.assert_allclose(solution.occupancy, [[14.069, 0.0], [0.0, 15.931]], atol=5e-4)


@pytest.mark.parametrize("program", WITHOUT_M)
def test_without_m_the_ratio_is_the_occupancy(program):
    solution = solve_lp(TWO_STATE, 0.1, program=program)
    np.testing.assert_allclose(solution.ratio, solution.occupancy, atol=1e-12)


# ---- brute force: every deterministic policy of a tiny model, by dense linear algebra


def every_policy(mdp: MDP):
    """(choice, V^pi) for every deterministic policy pi."""
    S, A = mdp.rewards.shape
    P = mdp.transitions.toarray().reshape(S, A, S)
    for choice in product(*(np.flatnonzero(row) for row in mdp.available)):
        at = np.arange(S), np.array(choice)
        yield np.array(choice), np.linalg.solve(np.eye(S) - mdp.discount * P[at], mdp.rewards[at])


def best_values(mdp: MDP):
    return np.max([V for _, V in every_policy(mdp)], axis=0)


@modest
@given(data=st.data(), mdp=mdps(max_states=3))
def test_all_programs_agree_with_brute_force(data, mdp):
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    V_star = best_values(mdp)
    Q_star = mdp.q_values(V_star)
    size = 1.0 + np.abs(V_star).max()
    total = eta.sum() / (1.0 - mdp.discount)
    P = mdp.transitions.toarray()
    for program in SIX:
        found = solve_lp(mdp, eta, M, program=program)
        np.testing.assert_allclose(found.V, V_star, atol=1e-8 * size)
        np.testing.assert_array_equal(np.isneginf(found.Q), ~mdp.available)
        np.testing.assert_allclose(found.Q[mdp.available], Q_star[mdp.available], atol=1e-8 * size)
        assert found.error_bound is not None
        assert np.abs(found.V - V_star).max() <= found.error_bound <= 1e-6 * size
        # lambda is the occupancy of an optimal policy: it flows, lives on optimal actions only, and is worth eta'V*
        lambda_ = found.occupancy
        assert (lambda_[~mdp.available] == 0.0).all()
        assert lambda_.min() >= 0.0
        np.testing.assert_allclose(lambda_.sum(axis=1), eta + mdp.discount * P.T @ lambda_.ravel(), atol=1e-8 * total)
        slack = np.where(mdp.available, V_star[:, None] - Q_star, 0.0)
        assert np.sum(lambda_ * slack) <= 1e-8 * size * total
        assert np.sum(lambda_ * mdp.rewards) == pytest.approx(eta @ V_star, abs=1e-8 * size * total)
        # proposition:dual-solution, mu* = M^-1 lambda*
        np.testing.assert_allclose(found.ratio * M, lambda_, atol=1e-8 * total)
        assert (found.ratio[~mdp.available] == 0.0).all()
        # the dual policy is optimal too
        np.testing.assert_allclose(found.dual_policy.value(mdp), V_star, atol=1e-6 * size)


@modest
@given(data=st.data(), mdp=mdps())
def test_bounds_of_the_lemmas(data, mdp):
    """lemma:bound-lemma and lemma:bound-of-solutions, in the paper's units."""
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    found = solve_lp(mdp, eta, M, program="M-dual")
    V, Q, exists = found.V + mdp.value_shift, found.Q + mdp.value_shift, mdp.available
    U, B = mdp.reward_bound / (1.0 - mdp.discount), eta.sum() / (1.0 - mdp.discount)
    zeta = M[exists].min()
    dust = 1e-8 * (1.0 + U + B)
    assert V.min() >= -dust
    assert V.max() <= U + dust
    assert Q[exists].min() >= -dust
    assert (Q - V[:, None])[exists].max() <= dust
    assert np.linalg.norm(V) <= np.sqrt(mdp.num_states) * U + dust
    assert found.occupancy.sum() == pytest.approx(B, abs=dust)  # the lemma's <= is an equality
    assert (found.occupancy.sum(axis=1) >= eta - dust).all()
    assert np.abs(found.ratio).sum() <= B / zeta + dust / zeta


# ---- strong duality, and what the multipliers are


@modest
@given(data=st.data(), mdp=mdps())
def test_strong_duality(data, mdp):
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    programs = [WITHOUT_M[name](mdp, eta) for name in WITHOUT_M] + [WITH_M[name](mdp, eta, M) for name in WITH_M]
    answers = [solve_program(program) for program in programs]
    size = 1.0 + abs(answers[0].objective)
    for program, answer in zip(programs, answers, strict=True):
        assert answer.objective == pytest.approx(answers[0].objective, abs=1e-8 * size)
        x = np.concatenate([answer.blocks[name] for name in program.variables])
        y = np.concatenate([answer.blocks[name] for name in program.multipliers])
        finite = np.where(np.isfinite(program.row_lower), program.row_lower, 0.0)
        assert y @ finite == pytest.approx(program.objective @ x, abs=1e-8 * size)  # b'y = c'x
        assert (program.rows @ x >= program.row_lower - 1e-7 * size).all()
        assert (program.rows @ x <= program.row_upper + 1e-7 * size).all()


def test_the_dual_program_is_the_primal_transposed():
    eta = np.array([0.1, 0.3])
    p, d = primal(TWO_STATE, eta), dual(TWO_STATE, eta)
    np.testing.assert_array_equal(p.rows.toarray(), d.rows.toarray().T)
    E = np.kron(np.eye(2), np.ones((2, 1)))  # our order: state by state
    np.testing.assert_allclose(p.rows.toarray(), E - 0.9 * np.stack([P_1, P_2], axis=1).reshape(4, 2))


# ---- sizes and edges


@pytest.mark.parametrize("program", SIX)
def test_one_state_one_action(program):
    mdp = MDP([[[1.0]]], [[2.0]], 0.5)
    found = solve_lp(mdp, 3.0, [[1.0]], program=program)
    np.testing.assert_allclose(found.V, [4.0])
    np.testing.assert_allclose(found.Q, [[4.0]])
    np.testing.assert_allclose(found.occupancy, [[6.0]])


@pytest.mark.parametrize("program", SIX)
@pytest.mark.parametrize("scale", [1e-7, 1e7])
def test_units_do_not_matter(program, scale):
    """Rewards, weights and M of any size: HiGHS's absolute tolerances are taken relative to them."""
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(6), size=(6, 3))
    R = rng.normal(size=(6, 3))
    M = 10.0 ** rng.uniform(-14, 0, size=(6, 3))
    plain = solve_lp(MDP(P, R, 0.95), 1.0, M)
    scaled = solve_lp(MDP(P, scale * R, 0.95), 1.0 / scale, M, program=program)
    np.testing.assert_allclose(scaled.V / scale, plain.V, rtol=1e-9)
    np.testing.assert_allclose(scaled.Q / scale, plain.Q, rtol=1e-9)
    np.testing.assert_allclose(scaled.occupancy * scale, plain.occupancy, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(scaled.ratio * scale * M, plain.ratio * M, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_methods_agree_on_a_larger_model(method):
    """120 states, sparse: V against plain value iteration."""
    rng = np.random.default_rng(2)
    S, A, branching = 120, 4, 5
    columns = np.array([rng.choice(S, branching, replace=False) for _ in range(S * A)])
    rows = np.repeat(np.arange(S * A), branching)
    P = sp.csr_array((rng.dirichlet(np.ones(branching), S * A).ravel(), (rows, columns.ravel())), shape=(S * A, S))
    mdp = MDP(P, rng.random((S, A)), 0.9)
    V = np.zeros(S)
    for _ in range(400):
        V = mdp.q_values(V).max(axis=1)
    found = solve_lp(mdp, method=method)
    np.testing.assert_allclose(found.V, V, rtol=1e-7)
    assert found.error_bound is not None
    assert np.abs(found.V - V).max() <= found.error_bound + 1e-13
    assert found.occupancy.min() >= 0.0
    assert method in found.method
    assert found.iterations > 0


def test_highs_is_silent(capfd):
    solve_lp(TWO_STATE)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_failures_name_the_status():
    nowhere = Program(
        minimise=True,
        objective=np.ones(1),
        rows=sp.csc_array(np.array([[1.0], [1.0]])),
        row_lower=np.array([1.0, 2.0]),
        row_upper=np.array([1.0, 2.0]),
        column_lower=np.zeros(1),
        variables={"x": slice(0, 1)},
        multipliers={"y": slice(0, 2)},
    )
    with pytest.raises(DualqError, match="Infeasible"):
        solve_program(nowhere)


def test_wrong_words_are_refused():
    with pytest.raises(ModelError, match="method is 'newton'"):
        solve_lp(TWO_STATE, method="newton")
    with pytest.raises(ModelError, match="program is 'third'"):
        solve_lp(TWO_STATE, program="third")
    with pytest.raises(ModelError, match="needs a distribution"):
        solve_lp(TWO_STATE, program="M-dual")
