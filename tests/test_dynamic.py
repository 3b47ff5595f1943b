"""Dynamic programming: right to the bound it proves, against enumeration, QuantEcon, HiGHS and closed forms."""

import threading
from fractions import Fraction

import numpy as np
import pytest
import quantecon as qe
from hypothesis import given, settings
from naive import bellman, optimal_value
from strategies import mdps

from dualq import MDP, problems, solve
from dualq.solvers import dynamic
from dualq.solvers.dynamic import (
    krylov_policy_iteration,
    modified_policy_iteration,
    policy_iteration,
    solve_dynamic,
)

METHODS = [modified_policy_iteration, krylov_policy_iteration, solve_dynamic]
EVERY = [*METHODS, policy_iteration]


@pytest.mark.parametrize("method", EVERY)
@given(mdp=mdps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_value_is_within_its_bound_of_the_best_of_all_policies(method, mdp):
    truth = optimal_value(mdp)
    result = method(mdp, 1e-8)
    scale = max(1.0, np.abs(truth).max())
    assert result.error_bound <= 1e-8
    assert np.abs(result.V - truth).max() <= result.error_bound + 1e-12 * scale  # the dense solves' own rounding


@pytest.mark.parametrize("method", METHODS)  # policy iteration ends nearer than the truth that is compared with here
@pytest.mark.parametrize("tolerance", [10.0, 1e-1, 1e-4])
def test_bound_holds_when_the_tolerance_is_loose(method, tolerance):
    mdp = problems.garnet(200, 4, 3, discount=0.99, seed=3).mdp
    truth = solve_dynamic(mdp, 1e-10).V
    result = method(mdp, tolerance)
    assert np.abs(result.V - truth).max() <= result.error_bound <= tolerance


@pytest.mark.parametrize("far", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("name", ["garnet", "maze"])
def test_a_guess_saves_work_and_not_exactness(name, far):
    """From the truth a pass or two prove it; from anything else, however far, the bound holds all the same."""
    made = {"garnet": problems.garnet(200, 4, 3, discount=0.99, seed=3), "maze": problems.maze(15, discount=0.999)}
    mdp = made[name].mdp
    truth = quantecon_value(mdp, "pi")
    guess = truth + far * np.random.default_rng(0).standard_normal(mdp.num_states)
    before = guess.copy()
    result = solve_dynamic(mdp, 1e-6, guess)
    assert np.abs(result.V - truth).max() <= result.error_bound + 1e-9 * np.abs(truth).max()
    assert result.error_bound <= 1e-6
    assert np.array_equal(guess, before)
    if not far:
        assert result.products <= 2


def quantecon_value(mdp, method):
    s, a = np.nonzero(mdp.available)
    model = qe.markov.DiscreteDP(mdp.rewards[s, a], mdp.transitions[s * mdp.num_actions + a], mdp.discount, s, a)
    return model.solve(method=method, epsilon=1e-9, max_iter=100_000).v


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize(
    ("simulator", "peer"),
    [
        (problems.garnet(300, 5, 8, discount=0.99, seed=0), "mpi"),
        (problems.maze(15, discount=0.999), "pi"),
        (problems.queue(200, discount=0.9999), "pi"),
        (problems.chain(300, discount=0.999), "pi"),
        (problems.inventory(), "mpi"),
        (problems.machine_replacement(), "mpi"),
    ],
    ids=["garnet", "maze", "queue", "chain", "inventory", "machine"],
)
def test_agrees_with_quantecon(method, simulator, peer):
    result = method(simulator.mdp, 1e-7)
    np.testing.assert_allclose(result.V, quantecon_value(simulator.mdp, peer), atol=1e-6)


@pytest.mark.parametrize("discount", [0.999, 0.9999, 0.99999])
def test_bound_at_discounts_near_one_against_a_closed_form_in_extended_precision(discount):
    # A chain that always moves on, in a ring: V follows from one geometric sum, in extended precision.
    S = 50
    P = np.zeros((S, 1, S))
    P[np.arange(S), 0, (np.arange(S) + 1) % S] = 1.0
    r = np.random.default_rng(0).integers(0, 10, S).astype(float)
    alpha = np.longdouble(discount)
    powers = alpha ** np.arange(S, dtype=np.longdouble)
    truth = np.array([(powers * np.roll(r, -s).astype(np.longdouble)).sum() for s in range(S)]) / (1 - alpha**S)
    for method in EVERY:
        result = method(MDP(P, r[:, None], discount), 1e-6)
        assert np.abs(result.V - truth).max() <= result.error_bound
        # A ring never mixes: sweeps alone get nowhere in double precision, and must say so.
        assert result.error_bound <= (1e-3 if method is modified_policy_iteration else 1e-6)


def test_ties_do_not_keep_it_from_ending():
    # Two copies of every action, and Taxi-like symmetric choices: all greedy policies are optimal.
    base = problems.garnet(60, 2, 3, discount=0.95, seed=1).mdp
    P = np.repeat(base.transitions.toarray().reshape(60, 2, 60), 2, axis=1)
    mdp = MDP(P, np.repeat(base.rewards, 2, axis=1), 0.95)
    for method in EVERY:
        np.testing.assert_allclose(method(mdp, 1e-8).V, solve_dynamic(base, 1e-8).V, atol=2e-8)


def test_slow_mixing_is_recognised_and_fast_mixing_is_not_mistaken_for_it():
    assert solve_dynamic(problems.maze(40, discount=0.9999).mdp, 1e-6).method == "Krylov policy iteration"
    assert solve_dynamic(problems.inventory(capacity=4, lot=2).mdp, 1e-6).method == "policy iteration"
    for seed in range(5):
        garnet = problems.garnet(500, 5, 8, discount=0.9999, seed=seed).mdp
        assert solve_dynamic(garnet, 1e-6).method == "modified policy iteration"


@given(mdp=mdps(max_states=6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_v_is_a_fixed_point_of_the_naive_bellman_operator(mdp):
    result = solve_dynamic(mdp, 1e-9)
    np.testing.assert_allclose(bellman(mdp, result.V), result.V, atol=2.1e-9)


@given(mdp=mdps(discounts=(0.0, 0.5, 0.9)))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_moving_the_rewards_moves_values_and_nothing_else(mdp):
    here, moved = solve(mdp), solve(mdp.nonnegative())
    np.testing.assert_allclose(moved.V, here.V + mdp.value_shift, atol=1e-7)
    np.testing.assert_allclose(moved.primal_policy.value(mdp), here.primal_policy.value(mdp), atol=1e-6)


def test_states_that_reach_no_reward_and_separate_classes():
    # Three classes that do not communicate; the news order must still cover every state.
    P = np.zeros((6, 1, 6))
    for s, t in [(0, 1), (1, 0), (2, 3), (3, 2), (4, 4), (5, 4)]:
        P[s, 0, t] = 1.0
    r = np.array([0.0, 1.0, 5.0, 0.0, 0.0, -1.0])[:, None]
    alpha = 0.999
    truth = np.array([alpha, 1.0, 5.0, 5.0 * alpha, 0.0, 0.0]) / (1 - alpha**2)
    truth[4:] = [0.0, -1.0]
    for method in EVERY:
        np.testing.assert_allclose(method(MDP(P, r, alpha), 1e-7).V, truth, atol=1e-7)


def exact_value(mdp, policy):
    """V^pi in rational numbers, by Gaussian elimination on the model's own floating-point numbers."""
    S, alpha = mdp.num_states, Fraction(mdp.discount)
    rows = []
    for s, a in enumerate(policy):
        row = [Fraction(int(s == t)) for t in range(S)] + [Fraction(float(mdp.rewards[s, a]))]
        for t, p in zip(*mdp.P(s, a), strict=True):
            row[t] -= alpha * Fraction(float(p))
        rows.append(row)
    for i in range(S):
        pivot = rows[i][i]
        rows[i] = [x / pivot for x in rows[i]]
        for j in range(S):
            if j != i:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("discount", [0.3, 0.9, 0.9999, 0.9999999])
def test_the_proof_holds_to_the_last_digit(method, discount):
    """Rows of eighths sum to one exactly; as far as double precision goes, no slack is given."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        S = int(rng.integers(1, 5))
        P = rng.multinomial(8, np.ones(S) / S, size=(S, 2)) / 8.0
        mdp = MDP(P, rng.normal(size=(S, 2)) + rng.choice([0.0, 1e3]), discount)
        result = method(mdp, 1e-300)
        policies = np.stack(np.meshgrid(*[[0, 1]] * S), axis=-1).reshape(-1, S)
        truth = [max(values) for values in zip(*(exact_value(mdp, policy) for policy in policies), strict=True)]
        error = max(abs(Fraction(float(v)) - t) for v, t in zip(result.V, truth, strict=True))
        assert error <= Fraction(result.error_bound)
        assert result.error_bound <= 1e-12 * max(abs(float(t)) for t in truth) / (1.0 - discount)


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_a_bound_at_the_limit_of_iterations_is_still_a_bound(method, limit, monkeypatch):
    monkeypatch.setattr(dynamic, "MAX_ITERATIONS", limit)
    for seed in range(5):
        mdp = problems.garnet(30, 3, 2, discount=0.999, seed=seed).mdp
        truth = quantecon_value(mdp, "pi")
        result = method(mdp, 1e-9)
        assert np.abs(result.V - truth).max() <= result.error_bound + 1e-9


@pytest.mark.parametrize("method", [krylov_policy_iteration, solve_dynamic])
def test_separate_cycles_do_not_keep_it_busy(method):
    # The span of the residual cannot get below the last digit of h, which is large: it must notice, and stop.
    P = np.zeros((4, 1, 4))
    for s, t in [(0, 1), (1, 0), (2, 3), (3, 2)]:
        P[s, 0, t] = 1.0
    mdp = MDP(P, np.array([1.0, 0.0, 3.0, 5.0])[:, None], 0.9999)
    result = method(mdp, 1e-300)
    truth = [float(v) for v in exact_value(mdp, [0, 0, 0, 0])]
    assert np.abs(result.V - truth).max() <= result.error_bound <= 1e-6
    assert result.iterations < 100


def test_a_large_model_is_put_in_order_beside_the_thread_that_hears_ctrl_c(monkeypatch):
    mdp, heard = problems.maze(20, discount=0.999).mdp, []

    def noted(name, real):
        def put(*args):
            heard.append((name, threading.current_thread() is threading.main_thread()))
            return real(*args)

        monkeypatch.setattr(dynamic, name, put)

    noted("_order_of_news", dynamic._order_of_news)
    noted("_in_order", dynamic._in_order)
    small = krylov_policy_iteration(mdp, 1e-8)
    assert heard == [("_order_of_news", True), ("_in_order", True)]
    heard.clear()
    monkeypatch.setattr(dynamic, "LASTING", mdp.num_states)
    large = krylov_policy_iteration(mdp, 1e-8)
    assert heard == [("_order_of_news", False), ("_in_order", False)]
    np.testing.assert_array_equal(small.V, large.V)
