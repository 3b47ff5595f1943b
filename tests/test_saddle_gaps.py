"""The pseudo gap and the true gap: by definition, in closed form against linear programs, and where they are zero."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from strategies import distributions_for, mdps, seeds, weights_for

from dualq.base.errors import ModelError
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.model.saddle.lagrangian import gradients_M, lagrangian_I, lagrangian_M
from dualq.model.saddle.sets import Sets
from dualq.model.solution import Solution
from dualq.solvers.gaps import duality_gap, highest, lowest, pseudo_gap
from dualq.solvers.programs import solve_lp

modest = settings(max_examples=40, deadline=None, derandomize=True)

TWO_STATE = MDP(
    np.array([[[0.2, 0.8], [0.5, 0.5]], [[0.3, 0.7], [0.7, 0.3]]]),
    np.array([[3.0, 2.0], [1.0, 1.0]]),
    0.9,
    reward_bound=3.0,
)
M_INFINITY = np.array([[0.2, 0.8], [0.7, 0.3]]) * np.array([[3.0], [4.0]]) / 7.0


def point_of_the_sets(mdp: MDP, eta, M, zeta: float, seed: int) -> Solution:
    """A random point of X and Y, in the user's units."""
    rng = np.random.default_rng(seed)
    sets = Sets.of(mdp, eta, zeta)
    shape = mdp.rewards.shape
    corner = rng.random() < 0.3
    unit = (lambda size: rng.integers(0, 2, size).astype(float)) if corner else rng.random
    V = sets.value_bound * unit(shape[0]) - mdp.value_shift
    Q = np.where(mdp.available, sets.value_bound * unit(shape) - mdp.value_shift, -np.inf)
    lambda_ = sets.project_lambda(sets.occupancy_bound * unit(shape) * rng.choice([0.1, 1.0]))
    mu = np.where(mdp.available, sets.ratio_bound * unit(shape), 0.0)
    return Solution(mdp, V, Q=Q, occupancy=lambda_, ratio=mu, weights=eta, distribution=M)


# ---- the saddle point


@modest
@given(data=st.data(), mdp=mdps(), seed=seeds)
def test_saddle_inequalities(data, mdp, seed):
    """L(x*, y) <= L(x*, y*) <= L(x, y*) in the sets; and L(x, y*) = L(x*, y*), because grad_x L is zero at y*."""
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    model, shift = mdp.nonnegative(), mdp.value_shift
    star = solve_lp(mdp, eta, M, program="M-dual")
    point = point_of_the_sets(mdp, eta, M, M[mdp.available].min(), seed)
    x, y = (point.Q + shift, point.V + shift), (point.occupancy, point.ratio)
    x_star, y_star = (star.Q + shift, star.V + shift), (star.occupancy, star.ratio)
    middle = lagrangian_M(model, eta, M, *x_star, *y_star)
    dust = 1e-7 * (1.0 + abs(middle))
    assert middle == pytest.approx(eta @ (star.V + shift), abs=dust)
    assert lagrangian_M(model, eta, M, *x_star, *y) <= middle + dust
    assert lagrangian_M(model, eta, M, *x, *y_star) >= middle - dust
    gradients = gradients_M(model, eta, M, *x_star, *y_star)
    np.testing.assert_allclose(gradients.Q, 0.0, atol=dust)
    np.testing.assert_allclose(gradients.V, 0.0, atol=dust)


# ---- the pseudo gap


@modest
@given(data=st.data(), mdp=mdps(), seed=seeds)
def test_pseudo_gap_is_what_the_lemma_says(data, mdp, seed):
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    exact = solve_lp(mdp, eta)
    point = point_of_the_sets(mdp, eta, M, M[mdp.available].min(), seed)
    pseudo = pseudo_gap(mdp, point, eta, exact)
    dust = 1e-7 * (1.0 + eta.sum() * (1.0 + mdp.reward_bound) / (1.0 - mdp.discount) ** 2)
    assert pseudo >= -dust
    # lambda'(E V* - Q*): neither Q, V nor mu of the point take part
    slack = np.where(mdp.available, exact.V[:, None] - exact.Q, 0.0)
    assert pseudo == pytest.approx(np.sum(point.occupancy * slack), abs=dust)
    # lemma:duality-gap-representation: sum_a lambda_a' (I - alpha P_pi)(V* - V^pi)
    P_pi, _ = point.dual_policy.chain(mdp)
    worse = exact.V - point.dual_policy.value(mdp)
    assert pseudo == pytest.approx(point.occupancy.sum(axis=1) @ (worse - mdp.discount * (P_pi @ worse)), abs=dust)
    # eq:explain-20: the dual policy is as good as the gap says
    assert eta.min() * (1.0 - mdp.discount) * np.abs(worse).max() <= pseudo + dust
    assert pseudo_gap(mdp, exact) == pytest.approx(0.0, abs=dust)


def test_pseudo_gap_by_definition_on_the_two_state_example():
    eta = np.array([0.1, 0.1])
    Q_star = np.array([[20.0689655172, 19.4413793103], [18.1931034483, 18.6896551724]])
    V_star = Q_star.max(axis=1)
    lambda_star = np.array([[0.9379310345, 0.0], [0.0, 1.0620689655]])
    Q, V, lambda_, mu = (
        np.full((2, 2), 7.0),
        np.array([3.0, 4.0]),
        np.array([[0.2, 0.3], [0.5, 0.1]]),
        np.full((2, 2), 0.4),
    )
    point = Solution(TWO_STATE, V, Q=Q, occupancy=lambda_, ratio=mu, weights=eta)
    by_hand = lagrangian_I(TWO_STATE, eta, Q, V, lambda_star, lambda_star) - lagrangian_I(
        TWO_STATE, eta, Q_star, V_star, lambda_, mu
    )
    assert pseudo_gap(TWO_STATE, point) == pytest.approx(by_hand, abs=1e-7)
    assert pseudo_gap(TWO_STATE, point, 0.1) == pytest.approx(
        0.3 * (20.0689655172 - 19.4413793103) + 0.5 * (18.6896551724 - 18.1931034483), abs=1e-7
    )


def test_pseudo_gap_does_not_see_the_primal():
    exact = solve_lp(TWO_STATE, 0.1)
    wrong = Solution(TWO_STATE, exact.V - 11.0, Q=np.zeros((2, 2)), occupancy=exact.occupancy, weights=0.1)
    assert pseudo_gap(TWO_STATE, wrong) == pytest.approx(0.0, abs=1e-8)
    assert duality_gap(TWO_STATE, wrong) > 1.0


@modest
@given(data=st.data(), mdp=mdps(), seed=seeds)
def test_a_shift_of_the_rewards_changes_nothing(data, mdp, seed):
    """Rewards minus 5: the same pseudo gap; and the same true gap where the reward bounds agree."""
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    base = mdp.nonnegative()
    high = base.reward_bound
    base = MDP(base.transitions, base.rewards, base.discount, (0.0, high), available=base.available)
    down = MDP(base.transitions, base.rewards - 5.0, base.discount, (-5.0, high - 5.0), available=base.available)
    point = point_of_the_sets(base, eta, M, M[mdp.available].min(), seed)
    fall = 5.0 / (1.0 - mdp.discount)
    moved = Solution(
        down,
        point.V - fall,
        Q=point.Q - fall,
        occupancy=point.occupancy,
        ratio=point.ratio,
        weights=eta,
        distribution=M,
    )
    size = 1.0 + eta.sum() * (5.0 + high) / (1.0 - mdp.discount) ** 2
    assert pseudo_gap(down, moved) == pytest.approx(pseudo_gap(base, point), abs=1e-8 * size)
    G = duality_gap(base, point, distribution=M)
    assert duality_gap(down, moved, distribution=M) == pytest.approx(G, abs=1e-11 * (size + G))


def test_other_weights_are_refused():
    exact = solve_lp(TWO_STATE, 0.1)
    with pytest.raises(ModelError, match="other weights"):
        pseudo_gap(TWO_STATE, exact, 0.2, exact)


# ---- the true gap


def gap_by_linear_programming(mdp: MDP, eta, M, zeta: float, point: Solution) -> float:
    """max_y L_M(x, y) - min_x L_M(x, y) over the sets, each a linear program given to SciPy."""
    model, shift, exists = mdp.nonnegative(), mdp.value_shift, mdp.available
    U, B = mdp.reward_bound / (1.0 - mdp.discount), eta.sum() / (1.0 - mdp.discount)
    S, pairs = mdp.num_states, int(exists.sum())
    P = model.transitions.toarray()[exists.ravel()]
    R, m = model.rewards[exists], M[exists]
    E = np.zeros((pairs, S))
    E[np.arange(pairs), np.nonzero(exists)[0]] = 1.0
    Q, V = point.Q[exists] + shift, point.V + shift
    lambda_, mu = point.occupancy[exists], point.ratio[exists]

    cost = np.concatenate([Q - E @ V, m * (mdp.discount * P @ V + R - Q)])  # of (lambda, mu)
    box = [(0.0, B)] * pairs + [(0.0, B / zeta)] * pairs
    sums = np.hstack([-E.T, np.zeros((S, pairs))])
    up = linprog(-cost, A_ub=sums, b_ub=-eta, bounds=box)
    cost = np.concatenate([lambda_ - m * mu, eta - E.T @ lambda_ + mdp.discount * P.T @ (m * mu)])  # of (Q, V)
    down = linprog(cost, bounds=[(0.0, U)] * (pairs + S))
    assert up.status == down.status == 0
    return (eta @ V - up.fun) - ((m * mu) @ R + down.fun)


@modest
@given(data=st.data(), mdp=mdps(), seed=seeds, share=st.sampled_from([1.0, 0.3]))
def test_closed_form_against_linear_programming(data, mdp, seed, share):
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    zeta = share * float(M[mdp.available].min())
    point = point_of_the_sets(mdp, eta, M, zeta, seed)
    gap = duality_gap(mdp, point, eta, M, zeta)
    assert gap == pytest.approx(gap_by_linear_programming(mdp, eta, M, zeta, point), rel=1e-8, abs=1e-8)
    ones = mdp.available.astype(float)
    plain = point_of_the_sets(mdp, eta, None, 1.0, seed)
    assert duality_gap(mdp, plain) == pytest.approx(
        gap_by_linear_programming(mdp, eta, ones, 1.0, plain), rel=1e-8, abs=1e-8
    )


@modest
@given(data=st.data(), mdp=mdps(), seed=seeds)
def test_true_gap_bounds(data, mdp, seed):
    """0 <= D <= G everywhere, in the sets or not, as long as lambda >= 0; and both ends of G enclose eta'V*."""
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    zeta = float(M[mdp.available].min())
    exact = solve_lp(mdp, eta, M)
    inside = point_of_the_sets(mdp, eta, M, zeta, seed)
    outside = Solution(
        mdp,
        3 * inside.V - 50,
        Q=2 * inside.Q + 9,
        occupancy=0.1 * inside.occupancy,
        ratio=-2 * inside.ratio,
        weights=eta,
        distribution=M,
    )
    sets, shift = Sets.of(mdp, eta, zeta), mdp.value_shift
    for point in (inside, outside):
        gap, pseudo = duality_gap(mdp, point, distribution=M), pseudo_gap(mdp, point, exact=exact)
        dust = 1e-9 * (1.0 + abs(gap))
        assert pseudo >= -100 * dust
        assert pseudo <= gap + dust
        worth = eta @ (exact.V + shift)
        assert highest(mdp.nonnegative(), sets, M, point.Q + shift, point.V + shift) >= worth - dust
        assert lowest(mdp.nonnegative(), sets, M, point.occupancy, point.ratio) <= worth + dust
    size = 1.0 + eta.sum() * (1.0 + mdp.reward_bound) / (1.0 - mdp.discount) ** 2 / zeta
    assert duality_gap(mdp, exact, distribution=M) == pytest.approx(0.0, abs=1e-8 * size)
    assert duality_gap(mdp, exact) == pytest.approx(0.0, abs=1e-8 * size)


def moved(exact: Solution, **change) -> Solution:
    parts = {name: np.array(getattr(exact, name)) for name in ("V", "Q", "occupancy", "ratio")}
    for name, (place, by) in change.items():
        parts[name][place] += by
    V = parts.pop("V")
    return Solution(exact.mdp, V, **parts, weights=exact.weights, distribution=exact.distribution)


@pytest.mark.parametrize("M", [None, M_INFINITY])
def test_zero_at_the_saddle_point_and_positive_beside_it(M):
    exact = solve_lp(TWO_STATE, 0.1, M)
    assert duality_gap(TWO_STATE, exact, distribution=M) == pytest.approx(0.0, abs=1e-9)
    for by in (-0.01, 0.01):
        for s in (0, 1):
            assert duality_gap(TWO_STATE, moved(exact, V=(s, by)), distribution=M) > 1e-5
            best = s  # action s is the best one in state s
            assert duality_gap(TWO_STATE, moved(exact, Q=((s, best), by)), distribution=M) > 1e-5
            assert duality_gap(TWO_STATE, moved(exact, occupancy=((s, best), by)), distribution=M) > 1e-5
            assert duality_gap(TWO_STATE, moved(exact, ratio=((s, best), by)), distribution=M) > 1e-5
    # lambda and mu on an action that is not the best
    assert duality_gap(TWO_STATE, moved(exact, occupancy=((0, 1), 0.01), ratio=((0, 1), 0.01)), distribution=M) > 1e-5


def test_the_compact_sets_have_more_saddle_points_than_the_programs():
    """mu >= 0 turns Q = R + alpha P V into an inequality: Q of an action that is not the best is free below V*."""
    exact = solve_lp(TWO_STATE, 0.1)
    room = exact.V[0] - exact.Q[0, 1]
    assert duality_gap(TWO_STATE, moved(exact, Q=((0, 1), 0.9 * room))) == pytest.approx(0.0, abs=1e-9)
    assert duality_gap(TWO_STATE, moved(exact, Q=((0, 1), 1.1 * room))) > 1e-3
    assert duality_gap(TWO_STATE, moved(exact, Q=((0, 1), -0.01))) > 1e-3
    # Xi: V may be too high in a state that is never entered
    P = np.zeros((2, 1, 2))
    P[:, 0, 1] = 1.0
    mdp = MDP(P, [[1.0], [2.0]], 0.5, reward_bound=3.0)
    exact = solve_lp(mdp)
    assert duality_gap(mdp, moved(exact, V=(0, 0.5))) == pytest.approx(0.0, abs=1e-9)
    assert duality_gap(mdp, moved(exact, V=(1, 0.5))) > 0.1
    # one state: lambda* is on the edge of its box
    mdp = MDP([[[1.0]]], [[1.0]], 0.5, reward_bound=2.0)
    exact = solve_lp(mdp)
    assert duality_gap(mdp, moved(exact, V=(0, -1.0), Q=((0, 0), -0.5))) == pytest.approx(0.0, abs=1e-9)


def test_the_gap_of_a_worse_policy_is_positive():
    worse = TablePolicy([[0.0, 1.0], [1.0, 0.0]])
    V = worse.value(TWO_STATE)
    point = Solution(TWO_STATE, V, occupancy=worse.occupancy(TWO_STATE, 0.1), weights=0.1)
    lost = 0.1 * (solve_lp(TWO_STATE).V - V).sum()
    assert pseudo_gap(TWO_STATE, point) == pytest.approx(lost)  # of a policy's own occupancy, D is eta'(V* - V^pi)
    assert duality_gap(TWO_STATE, point) >= lost


def test_a_solution_with_m_and_one_without_have_the_same_gap_of_l_i():
    """M mu is what counts: ratio * M of the one is the ratio of the other."""
    rng = np.random.default_rng(3)
    lambda_, flow = rng.random((2, 2)), rng.random((2, 2))
    V, Q = 20 * rng.random(2), 20 * rng.random((2, 2))
    with_m = Solution(TWO_STATE, V, Q=Q, occupancy=lambda_, ratio=flow / M_INFINITY, distribution=M_INFINITY)
    without = Solution(TWO_STATE, V, Q=Q, occupancy=lambda_, ratio=flow)
    assert duality_gap(TWO_STATE, with_m) == pytest.approx(duality_gap(TWO_STATE, without))
    assert duality_gap(TWO_STATE, with_m, distribution=M_INFINITY) == pytest.approx(
        duality_gap(TWO_STATE, without, distribution=M_INFINITY)
    )
    assert pseudo_gap(TWO_STATE, with_m) == pytest.approx(pseudo_gap(TWO_STATE, without))


def test_the_border():
    exact = solve_lp(TWO_STATE, 0.1)
    assert duality_gap(TWO_STATE, exact, distribution=M_INFINITY, zeta=0.0856) == pytest.approx(0.0, abs=1e-8)
    with pytest.raises(ModelError, match=r"zeta is 0\.1; it may not exceed 0\.0857"):
        duality_gap(TWO_STATE, exact, distribution=M_INFINITY, zeta=0.1)
    with pytest.raises(ModelError, match="zeta is"):
        duality_gap(TWO_STATE, exact, zeta=-1.0)
    with pytest.raises(ModelError, match="shape"):
        duality_gap(TWO_STATE, Solution(TWO_STATE, exact.V, Q=np.zeros((3, 2)), occupancy=exact.occupancy))
    with pytest.raises(ModelError, match="distribution"):
        duality_gap(TWO_STATE, exact, distribution=[0.5, 0.5])
