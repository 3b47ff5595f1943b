"""PDHG with limits: its slow twin, HiGHS, another solver, closed bounds, and what it refuses."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from naive import dense_transitions, masked_model, policy_occupancy
from same_as_lp import check_same_as_lp
from strategies import mdps, seeds

import dualq
from dualq import limits as L
from dualq import problems
from dualq.base.errors import ModelError
from dualq.model.policy import TablePolicy
from dualq.solvers.bilinear import Units
from dualq.solvers.limited import pdhg_prices as priced
from dualq.solvers.limited.pdhg_prices import solve_priced


def limited(seed, states=40, discount=0.95, count=3):
    """A Garnet model from a start with zeros, and limits that its best policy breaks: at most, at least, any sign."""
    mdp = problems.garnet(states, 3, 3, discount=discount, seed=seed).mdp
    rng = np.random.default_rng([seed, 3])
    start = np.where(rng.random(states) < 0.5, 0.0, rng.uniform(0.5, 1.5, states))
    start[0] = 1.0
    best = dualq.solve(mdp).primal_policy.matrix
    d = (1 - discount) * policy_occupancy(mdp, best, start / start.sum())
    found = []
    for i in range(count):
        cost = rng.normal(20.0 if i == 1 else 0.0, 5.0, mdp.rewards.shape)
        sense, sign = (">=", 1.0) if i == 1 else ("<=", -1.0)
        found.append(L.average(mdp, cost, sense, float(np.sum(cost * d)) + sign * 0.02 * np.ptp(cost), f"c{i}"))
    return mdp, start, found


# ---- the iteration


def twin(mdp, eta, limits, steps):
    """The iteration with dense matrices, from its docstring; rewards in [-1, 1], weights that sum to one."""
    P, (S, A), alpha = dense_transitions(mdp).reshape(-1, mdp.num_states), mdp.rewards.shape, mdp.discount
    exists = mdp.available.ravel()
    K = (np.repeat(np.eye(S), A, axis=0) - alpha * P)[exists]
    low, high = mdp.reward_range
    R = ((mdp.rewards - (low + high) / 2) / ((high - low) / 2)).ravel()[exists]
    columns = [np.where(limit.sense == "<=", 1, -1) * (limit.cost.ravel()[exists] - limit.bound) for limit in limits]
    G = np.array([c / np.ptp(limit.cost[mdp.available]) for c, limit in zip(columns, limits, strict=True)]).T
    eta = eta / eta.sum()
    B = 1 / (1 - alpha)
    tau = np.concatenate([1 / np.abs(K).sum(axis=0), 1 / np.abs(G).sum(axis=0)])
    H = np.hstack([K, G])
    sigma = 1 / np.abs(H).sum(axis=1)
    top = np.concatenate([eta, np.zeros(len(limits))])

    def project(y):  # bisection on the multiplier of the mass
        lo, hi = (y / sigma).min() - B, (y / sigma).max()
        for _ in range(200):
            nu = 0.5 * (lo + hi)
            lo, hi = (nu, hi) if np.maximum(y - sigma * nu, 0).sum() > B else (lo, nu)
        return np.maximum(y - sigma * nu, 0)

    x, y, omega = np.zeros(S + len(limits)), np.full(R.size, B / R.size), 1.0
    x_0, y_0, since, first, last = x, y, 0, np.inf, np.inf
    for total in range(1, steps + 1):
        x_1 = x - omega * tau * (top - H.T @ y)
        x_1[S:] = np.maximum(x_1[S:], 0)
        y_1 = project(y + sigma / omega * (R - H @ (2 * x_1 - x)))
        yield x_1[:S], x_1[S:], y_1, omega
        since += 1
        dx, dy = x_1 - x, y_1 - y
        distance = np.sqrt((dx**2 / tau).sum() / omega + omega * (dy**2 / sigma).sum() - 2 * dy @ H @ dx)
        if since == 1:
            first, last = distance, np.inf
        falling, last = distance < last, distance
        if since > 1 and (
            distance <= 0.2 * first
            or (distance <= 0.8 * first and not falling)
            or (since > 10 and since >= 0.36 * total)
        ):
            omega = np.sqrt(omega * np.sqrt(((x_1 - x_0) ** 2 / tau).sum() / ((y_1 - y_0) ** 2 / sigma).sum()))
            x, y, x_0, y_0, since = x_1, y_1, x_1, y_1, 0
        else:
            part = since / (since + 1)
            x = part * (2 * x_1 - x) + (1 - part) * x_0
            y = part * (2 * y_1 - y) + (1 - part) * y_0


@pytest.mark.parametrize("name", ["garnet", "masked"])
def test_the_iterates_are_those_of_the_twin(name):
    if name == "garnet":
        mdp, eta, limits = limited(0, states=12)
    else:
        mdp, eta = masked_model(), np.array([0.4, 0.3, 0.2, 0.1])
        cost = np.random.default_rng(1).random(mdp.rewards.shape)
        limits = [L.average(mdp, cost, "<=", 0.4, "a"), L.average(mdp, cost**2, ">=", 0.1, "b")]
    problem = priced._priced(mdp, Units.of(mdp, eta), {limit.name: limit for limit in limits})
    work = priced._start(problem)
    size, restarts = problem.model.mass, 0
    for V, w, lambda_, omega in twin(mdp, eta, limits, 150):
        if work.last[0] < 1e-6 * size:  # omega is a ratio of moves, which lose digits as they become small
            break
        assert work.omega[0] == pytest.approx(omega, rel=1e-6)
        restarts += work.since[0] == 0
        priced._iterate(work, problem, 1)
        np.testing.assert_allclose(work.step.V, V, atol=1e-9 * size)
        np.testing.assert_allclose(work.step.w, w, atol=1e-9 * size)
        np.testing.assert_allclose(work.step.lambda_, lambda_, atol=1e-9 * size)
    assert restarts >= 3
    assert work.total[0] >= 30


# ---- the answer


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_linear_program_to_its_tolerance(seed):
    """Beside HiGHS and Clarabel; the bounds hold, the limits are kept, the prices pay for what they promise."""
    mdp, start, limits = limited(seed)
    exact = dualq.solve(mdp, start, limits=limits, method="lp")
    d = cp.Variable(mdp.rewards.shape, nonneg=True)
    inflow = sum(dense_transitions(mdp)[s, a] * d[s, a] for s in range(mdp.num_states) for a in range(mdp.num_actions))
    rules = [cp.sum(d, axis=1) == (1 - mdp.discount) * start / start.sum() + mdp.discount * inflow]
    for limit in limits:
        mean = cp.sum(cp.multiply(limit.cost, d))
        rules.append(mean <= limit.bound if limit.sense == "<=" else mean >= limit.bound)
    program = cp.Problem(cp.Maximize(cp.sum(cp.multiply(mdp.rewards, d))), rules)
    program.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    truth = program.value * start.sum() / (1 - mdp.discount)
    assert exact.objective == pytest.approx(truth, rel=1e-7)

    for tolerance in (1e-3, 1e-6, 1e-9):
        found = dualq.solve(mdp, start, limits=limits, method="pdhg", tolerance=tolerance)
        assert found.objective == pytest.approx(truth, rel=tolerance)
        lower, upper = found.bounds
        assert lower - 1e-7 * abs(truth) <= truth <= upper + 1e-7 * abs(truth)
        assert upper - lower <= 1.001 * tolerance * abs(upper)
        assert found.objective == pytest.approx(lower, rel=1e-9)
        for limit in limits:
            assert limit.sign * (found.values[limit.name] - limit.bound) <= 1e-8 * limit.span(mdp)
        # V is the optimum for the reward in which limits have their price, and so promises the upper bound
        paid = sum(found.prices[limit.name] * limit.sign * limit.bound for limit in limits) / (1 - mdp.discount)
        assert start @ found.V + paid * start.sum() == pytest.approx(upper, rel=1e-6)
    for name, price in exact.prices.items():
        assert found.prices[name] == pytest.approx(price, abs=1e-4)


@settings(max_examples=25)
@given(mdp=mdps(), seed=seeds)
def test_models_of_all_kinds(mdp, seed):
    """The same value as the linear program, or the same refusal; limits with no room at all among them."""
    rng = np.random.default_rng(seed)
    start = np.where(rng.random(mdp.num_states) < 0.5, 0.0, 1.0)
    start[rng.integers(mdp.num_states)] = 1.0
    wanted = []
    for i in range(2):
        cost = rng.integers(-2, 3, mdp.rewards.shape).astype(float)
        matrix = np.where(mdp.available, rng.random(mdp.rewards.shape) + 1e-3, 0.0)
        policy = TablePolicy(matrix / matrix.sum(axis=1, keepdims=True))
        value = L.average(mdp, cost, "<=", 0.0).value(
            mdp, (1 - mdp.discount) * policy.occupancy(mdp, start / start.sum()), start
        )
        wanted.append(L.average(mdp, cost, "<=", float(value + rng.choice([-0.5, 0.0, 0.3])), f"c{i}"))
    check_same_as_lp(mdp, start, wanted, "pdhg", within=3e-6)


def test_the_bound_of_one_percent_costs_few_steps_and_more_cost_more():
    mdp, start, limits = limited(3, states=200)
    steps = [solve_priced(mdp, limits, start, tolerance).iterations for tolerance in (1e-2, 1e-4, 1e-8)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]
    with pytest.warns(UserWarning, match="after 40 steps, not yet what was asked for"):
        found = solve_priced(mdp, limits, start, 1e-12, max_iterations=40)
    exact = dualq.solve(mdp, start, limits=limits, method="lp").objective
    assert found.bounds[0] <= exact * (1 + 1e-9)
    assert exact <= found.bounds[1] * (1 + 1e-9)
    for limit in limits:  # kept all the same
        assert limit.sign * (found.values[limit.name] - limit.bound) <= 1e-8 * limit.span(mdp)


def test_limits_that_nothing_can_break_cost_nothing():
    mdp, start, limits = limited(1)
    loose = L.average(mdp, limits[0].cost, "<=", 1e6, "loose")
    one, other = (dualq.solve(mdp, start, limits=kept, method="pdhg") for kept in (limits, [*limits, loose]))
    assert other.prices["loose"] == 0.0
    assert other.objective == pytest.approx(one.objective, rel=1e-12)
    assert other.values["loose"] < 1e6
    free = dualq.solve(mdp, start + 0.0, limits=loose, method="pdhg")
    assert free.objective == pytest.approx(float(start @ dualq.solve(mdp).V), rel=1e-6)


def test_other_kinds_are_refused():
    mdp = masked_model()
    with pytest.raises(ModelError, match="is a Near; pdhg takes limits on averages only, lp takes all"):
        dualq.solve(mdp, 1.0, method="pdhg", limits=L.near(TablePolicy.uniform(mdp), 0.1))
    limit = L.average(mdp, np.ones(mdp.rewards.shape), "<=", 2.0)
    with pytest.raises(ModelError, match="a tolerance is for the method pdhg"):
        dualq.solve(mdp, 1.0, method="lp", limits=limit, tolerance=1e-3)
    with pytest.raises(ModelError, match="one of lp, mixtures, pdhg; not 'mpi'"):
        dualq.solve(mdp, 1.0, method="mpi", limits=limit)
