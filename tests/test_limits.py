"""Limits on a known model: another solver, closed forms, enumeration of policies, duality, and what refusals say."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import dense_transitions, masked_model, optimal_value, policy_occupancy
from same_as_lp import check_same_as_lp
from strategies import mdps, seeds

import dualq
from dualq import limits as L
from dualq import problems
from dualq.base.errors import InfeasibleError, LabelError, ModelError
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.solvers.limited.program import most_room, solve_limited
from dualq.solvers.programs import METHODS

modest = settings(max_examples=25)


def independent(mdp, start, wishes):
    """max d'R by Clarabel, written with dense matrices; `wishes` are functions from d (S, A) to cvxpy constraints."""
    P, (S, A) = dense_transitions(mdp), mdp.rewards.shape
    d = cp.Variable((S, A), nonneg=True)
    inflow = sum(P[s, a] * d[s, a] for s in range(S) for a in range(A))
    rules = [cp.sum(d, axis=1) == (1 - mdp.discount) * start + mdp.discount * inflow]
    if not mdp.available.all():
        rules.append(d[~mdp.available] == 0)
    rules += [wish(d) for wish in wishes]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(mdp.rewards, d))), rules)
    problem.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem, [rule.dual_value for rule in rules[-len(wishes) :]] if wishes else []


def occupancy_of(mdp, policy, start):
    """d of a policy by a dense solve."""
    return (1 - mdp.discount) * policy_occupancy(mdp, policy.matrix, start)


def garnet(seed, states=12, actions=3, discount=0.9):
    mdp = problems.garnet(states, actions, 3, discount=discount, seed=seed).mdp
    rng = np.random.default_rng([seed, 1])
    return mdp, rng, rng.random(mdp.rewards.shape)


def some_start(rng, states):
    """A distribution of which many states have nothing."""
    start = np.zeros(states)
    start[rng.choice(states, max(1, states // 4), replace=False)] = rng.uniform(0.5, 1.5, max(1, states // 4))
    return start / start.sum()


# ---- against another solver


@pytest.mark.parametrize("seed", range(12))
def test_several_limits_against_another_solver(seed):
    """Objective and prices of a random model with two costs, a share of time and a share of an action, to 1e-7."""
    mdp, rng, c = garnet(seed)
    c2, start = rng.normal(50.0, 3.0, c.shape), some_start(rng, mdp.num_states)
    d0 = occupancy_of(mdp, TablePolicy.uniform(mdp), start)  # keeps every limit, so there is a policy that does
    free = dualq.solve(mdp).primal_policy
    d1 = occupancy_of(mdp, free, start)

    def between(x):  # a bound that the unlimited optimum breaks, where it and the uniform policy differ
        return float(0.7 * np.sum(x * d0) + 0.3 * np.sum(x * d1))

    busy = int(np.argmax((d1 - d0).sum(axis=1)))
    time, act = np.zeros(c.shape), np.zeros(c.shape)
    time[busy], act[:, 0] = 1.0, 1.0
    costs = {"c": c, "c2": c2, "time": time, "act": act}
    senses = {n: "<=" if np.sum(x * d1) > np.sum(x * d0) else ">=" for n, x in costs.items()}
    wanted = [L.average(mdp, costs[n], senses[n], between(costs[n]), n) for n in ("c", "c2")]
    wanted.append(L.time_in(mdp, [busy], senses["time"], between(time), "time"))
    wanted.append(L.share_of(mdp, [0], senses["act"], between(act), "act"))

    found = dualq.solve(mdp, start, limits=wanted)
    wishes = [
        (lambda d, x=costs[n], z=1 if senses[n] == "<=" else -1: z * cp.sum(cp.multiply(x, d)) <= z * between(x))
        for n in costs
    ]
    problem, prices = independent(mdp, start, wishes)
    assert (1 - mdp.discount) * found.objective == pytest.approx(problem.value, abs=1e-7)
    d = occupancy_of(mdp, found.dual_policy, start)  # the policy itself, evaluated by a dense solve
    assert np.sum(d * mdp.rewards) == pytest.approx(problem.value, abs=1e-7)
    for name, price in zip(costs, prices, strict=True):
        z = 1 if senses[name] == "<=" else -1
        assert z * (np.sum(d * costs[name]) - between(costs[name])) <= 1e-8 * np.abs(costs[name]).max()
        assert found.prices[name] == pytest.approx(float(price), abs=1e-6)
    np.testing.assert_allclose(found.occupancy * (1 - mdp.discount), d, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_caps_and_a_trust_region_against_another_solver(seed):
    mdp, rng, c = garnet(seed)
    start = some_start(rng, mdp.num_states)
    old = TablePolicy(rng.dirichlet(np.ones(mdp.num_actions), mdp.num_states))
    d_old = occupancy_of(mdp, old, start)
    wanted = [L.cap(mdp, [0, 2], 0.7), L.near(old, 0.25), L.average(mdp, c, "<=", float(np.sum(d_old * c)), "c")]
    old_cap = float((old.matrix[:, [0, 2]].sum(axis=1)).max())
    wanted[0] = L.cap(mdp, [0, 2], max(0.7, old_cap))  # so that the old policy keeps them all
    found = dualq.solve(mdp, start, limits=wanted)
    bound = wanted[0].bound
    wishes = [
        lambda d: d[:, 0] + d[:, 2] <= bound * cp.sum(d, axis=1),
        lambda d: cp.sum(cp.abs(d - d_old)) / 2 <= 0.25,
        lambda d: cp.sum(cp.multiply(c, d)) <= np.sum(d_old * c),
    ]
    problem, prices = independent(mdp, start, wishes)
    assert (1 - mdp.discount) * found.objective == pytest.approx(problem.value, abs=1e-7)
    assert found.prices["distance"] == pytest.approx(float(prices[1]), abs=1e-5)
    assert found.prices["c"] == pytest.approx(float(prices[2]), abs=1e-5)
    d = occupancy_of(mdp, found.dual_policy, start)
    assert 0.5 * np.abs(d - d_old).sum() <= 0.25 + 1e-9
    assert found.dual_policy.matrix[:, [0, 2]].sum(axis=1).max() <= bound + 1e-8  # where it never comes, too
    assert found.values["distance"] == pytest.approx(0.5 * np.abs(d - d_old).sum(), abs=1e-9)
    by_occupancy = dualq.solve(mdp, start, limits=[wanted[0], L.near(7.0 * d_old, 0.25), wanted[2]])
    assert by_occupancy.objective == pytest.approx(found.objective, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_the_methods_agree(method):
    mdp, _, c = garnet(3, states=60)
    start = some_start(np.random.default_rng(0), 60)
    low = most_room(mdp, {"c": L.average(mdp, c, "<=", 0.0, "c")}, start).slack[0]  # minus the least average cost
    limit = L.average(mdp, c, "<=", -low + 0.02, "c")
    found, wanted = solve_limited(mdp, limit, start, method=method), solve_limited(mdp, limit, start, method="simplex")
    assert found.objective == pytest.approx(wanted.objective, rel=1e-7)
    assert found.prices["c"] == pytest.approx(wanted.prices["c"], rel=1e-6)
    assert found.values["c"] <= limit.bound + 1e-8


# ---- mixtures of policies


@pytest.mark.parametrize("seed", range(8))
def test_mixtures_are_the_linear_program(seed):
    """Objective, prices and occupancy, on models where the best policy breaks every limit; and the bounds hold."""
    mdp, rng, c = garnet(seed, states=40, discount=0.95)
    start = some_start(rng, mdp.num_states)
    d = occupancy_of(mdp, dualq.solve(mdp).primal_policy, start)
    costs = [c, 20.0 + 5.0 * rng.normal(size=c.shape), -rng.random(c.shape)]
    wanted = [
        L.average(mdp, x, sense, float(np.sum(x * d)) + (-0.03 if sense == "<=" else 0.03) * np.ptp(x), f"c{i}")
        for i, (x, sense) in enumerate(zip(costs, ("<=", ">=", "<="), strict=True))
    ]
    found = dualq.solve(mdp, 5.0 * start, limits=wanted, method="mixtures")
    exact = dualq.solve(mdp, 5.0 * start, limits=wanted, method="lp")
    assert found.objective == pytest.approx(exact.objective, rel=1e-9)
    np.testing.assert_allclose(found.occupancy, exact.occupancy, atol=1e-7 * exact.occupancy.max())
    for limit in wanted:
        assert found.prices[limit.name] == pytest.approx(exact.prices[limit.name], abs=1e-7)
        assert limit.sign * (found.values[limit.name] - limit.bound) <= 1e-8 * np.abs(limit.cost).max()
    np.testing.assert_allclose(found.V, exact.V, atol=1e-5)
    lower, upper = found.bounds
    assert lower - 1e-9 * abs(lower) <= exact.objective <= upper + 1e-9 * abs(upper)
    assert upper - lower <= 1e-6 * abs(upper)
    assert not found.dual_policy.undecided.any()


@modest
@given(mdp=mdps(), seed=seeds)
def test_mixtures_on_models_of_all_kinds(mdp, seed):
    """The same value as the linear program, or the same refusal; limits with no room at all among them."""
    rng = np.random.default_rng(seed)
    start = some_start(rng, mdp.num_states)
    wanted = []
    for i in range(2):
        cost = rng.integers(-2, 3, mdp.rewards.shape).astype(float)
        bound = least(mdp, start, cost, 1.0) + rng.choice([-0.01, 0.0, 0.001, 0.3])
        wanted.append(L.average(mdp, cost, "<=", float(bound), f"c{i}"))
    check_same_as_lp(mdp, start, wanted, "mixtures", within=1e-6)


def test_mixtures_refuse_other_kinds():
    mdp = masked_model()
    with pytest.raises(ModelError, match="is a Near; mixtures take limits on averages only, lp takes all"):
        dualq.solve(mdp, 1.0, method="mixtures", limits=L.near(TablePolicy.uniform(mdp), 0.1))
    large = problems.garnet(400, 3, 2, seed=0).mdp
    chosen = dualq.solve(large, 1.0, limits=L.average(large, np.ones(large.rewards.shape), "<=", 1.0))
    assert chosen.method.startswith("mixtures")


# ---- duality


@modest
@given(mdp=mdps(), seed=seeds)
def test_prices_slackness_and_values(mdp, seed):
    """Signs, complementary slackness, V the optimum for the reward R - w'c, strong duality, on models of all kinds."""
    rng = np.random.default_rng(seed)
    start = some_start(rng, mdp.num_states)
    weights = np.where(mdp.available, rng.random(mdp.rewards.shape) + 0.01, 0.0)
    policy = TablePolicy(weights / weights.sum(axis=1, keepdims=True))
    d = occupancy_of(mdp, policy, start)
    costs = {"a": rng.normal(size=mdp.rewards.shape), "b": rng.integers(0, 2, mdp.rewards.shape).astype(float)}
    wanted = [L.average(mdp, x, "<=" if n == "a" else ">=", float(np.sum(x * d)), n) for n, x in costs.items()]
    found = dualq.solve(mdp, start, limits=wanted)
    size = 1.0 + np.abs(mdp.rewards).max()
    assert min(found.prices.values()) >= 0.0
    priced = mdp.rewards.copy()
    for limit in wanted:
        w = found.prices[limit.name]
        over = limit.sign * (found.values[limit.name] - limit.bound)
        assert over <= 1e-8
        assert abs(w * over) <= 1e-7 * (size + w)
        priced = priced - limit.sign * w * limit.cost
    size += sum(found.prices.values()) / (1 - mdp.discount) * 5
    lagrangian = MDP(
        dense_transitions(mdp), np.where(mdp.available, priced, 0.0), mdp.discount, available=mdp.available
    )
    V = optimal_value(lagrangian)  # every policy tried
    Q = lagrangian.q_values(V)
    np.testing.assert_allclose(found.V, V, atol=1e-7 * size / (1 - mdp.discount))  # everywhere, visited or not
    np.testing.assert_allclose(found.Q[mdp.available], Q[mdp.available], atol=1e-7 * size / (1 - mdp.discount))
    paid = sum(limit.sign * found.prices[limit.name] * limit.bound for limit in wanted) / (1 - mdp.discount)
    assert start @ found.V + paid == pytest.approx(found.objective, abs=1e-6 * size / (1 - mdp.discount))
    # the policy is greedy in Q wherever it goes: it mixes only among the best
    loss = np.where(mdp.available, found.V[:, None] - found.Q, 0.0)
    assert np.sum(found.dual_policy.matrix * loss, axis=1).max() <= 1e-6 * size / (1 - mdp.discount)


def test_a_price_is_a_derivative():
    mdp, rng, c = garnet(5)
    start = some_start(rng, mdp.num_states)

    def best(bound):
        return dualq.solve(mdp, start, limits=L.average(mdp, c, "<=", bound, "c"))

    middle = best(0.4)
    h = 1e-5
    slope = (1 - mdp.discount) * (best(0.4 + h).objective - best(0.4 - h).objective) / (2 * h)
    assert 0.05 < middle.prices["c"] == pytest.approx(slope, rel=1e-5)
    heavier = dualq.solve(mdp, 7.0 * start, limits=L.average(mdp, c, "<=", 0.4, "c"))  # the weights' size is no matter
    assert heavier.prices["c"] == pytest.approx(middle.prices["c"], rel=1e-9)
    np.testing.assert_allclose(heavier.occupancy, 7.0 * middle.occupancy, atol=1e-9)


def test_limits_that_do_not_bind_cost_nothing():
    mdp, _, c = garnet(2)
    free = dualq.solve(mdp, weights=1.0)
    found = dualq.solve(mdp, weights=1.0, limits=L.average(mdp, c, "<=", 1.0, "c"))
    assert found.prices["c"] == 0.0
    np.testing.assert_allclose(found.V, free.V, atol=1e-8)
    np.testing.assert_allclose(found.occupancy, free.occupancy, atol=1e-7)
    assert found.error_bound < 1e-8
    nothing = dualq.solve(mdp, weights=1.0, limits=[])
    np.testing.assert_allclose(nothing.V, free.V, atol=1e-8)


# ---- closed forms


@pytest.mark.parametrize("bound", [0.05, 0.3, 0.62])
def test_two_armed_closed_form(bound):
    """One state, arms that pay 1 and 3 and cost 0 and 1: the dear arm has the probability `bound`, at the price 2.

    Derived by hand: d = (1 - p, p), reward 1 + 2p, cost p; so p = bound, w = 2, and R - w c = (1, 1).
    """
    mdp = MDP(np.ones((1, 2, 1)), [[1.0, 3.0]], 0.8)
    found = dualq.solve(mdp, 1.0, limits=L.average(mdp, [[0.0, 1.0]], "<=", bound, "dear"))
    np.testing.assert_allclose(found.dual_policy.matrix, [[1 - bound, bound]], atol=1e-12)
    assert found.prices["dear"] == pytest.approx(2.0)
    np.testing.assert_allclose(found.V, [5.0])
    np.testing.assert_allclose(found.Q, [[5.0, 5.0]])
    assert found.objective == pytest.approx((1 + 2 * bound) / 0.2)


def test_randomise_in_one_state_closed_form():
    """A machine that may run fast: derived by hand.

    State 0 works, state 1 is broken. Slow: pays 1, stays. Fast: pays 2, breaks with chance 1/2. Broken: pays 0, is
    mended with certainty. Start in 0, discount a. With q the chance of "fast" in 0, the share of time broken x solves
    x = a (q/2)(1 - x), so x = a q / (2 + a q); at most b means q = 2 b / (a (1 - b)).
    Reward per step: (1 - x)(1 + q) with q = 2 x / (a (1 - x)): 1 - x + 2 x / a. Its slope in x is the price, 2/a - 1.
    """
    a, b = 0.9, 0.1
    P = np.array([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]])
    mdp = MDP(P, [[1.0, 2.0], [0.0, 0.0]], a, states=["works", "broken"], actions=["slow", "fast"])
    found = dualq.solve(mdp, [1.0, 0.0], limits=L.time_in(mdp, ["broken"], "<=", b))
    assert found.dual_policy.probabilities("works")["fast"] == pytest.approx(2 * b / (a * (1 - b)))
    assert found.prices["time in broken"] == pytest.approx(2 / a - 1)
    assert (1 - a) * found.objective == pytest.approx(1 - b + 2 * b / a)
    assert found.reached(found.primal_policy)["time in broken"] in (pytest.approx(0), pytest.approx(a / (2 + a)))


def tijms(discount):
    """The maintenance problem of Tijms, "A First Course in Stochastic Models" (2003), Example 6.1.1, Table 6.4.1.

    Conditions 1 to 5 of a machine, and 6: the second day of a repair after a failure. Run (0), mend before it fails
    (1), or, in 5 and 6, mend what has failed (2). Costs 7, 7, 5 in the conditions 2, 3, 4; 10 after a failure.
    """
    wear = [
        [0.9, 0.1, 0.0, 0.0, 0.0],
        [0.0, 0.8, 0.1, 0.05, 0.05],
        [0.0, 0.0, 0.7, 0.1, 0.2],
        [0.0, 0.0, 0.0, 0.5, 0.5],
    ]
    P, cost = np.zeros((6, 3, 6)), np.zeros((6, 3))
    P[:4, 0, :5] = wear
    P[1:4, 1, 0] = P[4, 2, 5] = P[5, 2, 0] = 1.0
    cost[1:4, 1], cost[4, 2] = [7.0, 7.0, 5.0], 10.0
    return MDP(P, -cost, discount, states=range(1, 7), available=P.any(axis=2))


@pytest.mark.parametrize("method", ["lp", "mixtures", "pdhg"])
def test_the_published_answer_of_a_maintenance_problem(method):
    """At most .08 of all days in repair: cost, frequencies and the coin in condition 3 as the book prints them.

    Page 257 of the book: average costs, the limit of discount 1; here it is 1 - 1e-7. All its digits are right.
    """
    mdp = tijms(1.0 - 1e-7)
    repair = np.zeros(mdp.rewards.shape)
    repair[:, 1:] = 1.0
    start = np.eye(6)[0]
    free = dualq.solve(mdp, start, limits=L.average(mdp, repair, "<=", 1.0, "repair"), method=method)
    assert -(1 - mdp.discount) * free.objective == pytest.approx(0.4338, abs=5e-5)
    assert free.dual_policy.matrix.argmax(axis=1).tolist() == [0, 0, 0, 1, 2, 2]

    found = dualq.solve(mdp, start, limits=L.average(mdp, repair, "<=", 0.08, "repair"), method=method)
    assert -(1 - mdp.discount) * found.objective == pytest.approx(0.4423, abs=5.1e-5)
    printed = [[0.5943, 0, 0], [0.2971, 0, 0], [0.0286, 0.0211, 0], [0, 0.0177, 0], [0, 0, 0.0206], [0, 0, 0.0206]]
    np.testing.assert_allclose((1 - mdp.discount) * found.occupancy, printed, atol=5.1e-5)
    assert found.values["repair"] == pytest.approx(0.08, abs=1e-9)
    assert found.dual_policy.probabilities(3)[0] == pytest.approx(0.575, abs=1e-3)


@pytest.mark.parametrize("method", ["lp", "mixtures"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_no_more_random_states_than_limits(method, count):
    """Beutler and Ross, "Optimal policies for controlled Markov chains with a constraint" (1985), for one; Ross,
    "Randomized and past-dependent policies for Markov decision processes with multiple constraints" (1989), for more.
    """
    seen = 0
    for seed in range(4):
        mdp, rng, _ = garnet(seed, states=30)
        start = some_start(rng, mdp.num_states)
        costs = rng.random((count, *mdp.rewards.shape))
        d = occupancy_of(mdp, dualq.solve(mdp).primal_policy, start)
        wanted = [L.average(mdp, c, "<=", float(np.sum(c * d)) - 0.02, f"c{i}") for i, c in enumerate(costs)]
        found = dualq.solve(mdp, start, limits=wanted, method=method)
        visited = found.occupancy.sum(axis=1) > 1e-8
        random = visited & (found.dual_policy.matrix.max(axis=1) < 1.0 - 1e-7)
        binding = sum(price > 1e-9 for price in found.prices.values())
        assert random.sum() <= binding
        seen += int(random.sum())
    assert seen >= 3 * count  # and mostly there are as many


@pytest.mark.parametrize("bound", [0.4, 1.0, 2.5])
def test_a_queue_has_a_threshold_with_one_random_state(bound):
    """Admission to a queue with a limit on its mean length: a threshold policy that is random in at most one state.

    No more, because a vertex of the program has one positive entry per state, and one more per limit. The numbers are
    not published ones: the best threshold, and the chance of admission at it, are found by bisection.
    """
    size, a = 8, 0.95
    P, R = np.zeros((size + 1, 2, size + 1)), np.zeros((size + 1, 2))
    for n in range(size + 1):
        for admit in (0, 1):
            arrives = 0.5 * admit * (n < size)
            up, down = arrives * 0.4, (1 - arrives) * 0.6 if n else 0.0
            P[n, admit, min(n + 1, size)] += up
            P[n, admit, max(n - 1, 0)] += down
            P[n, admit, n] += 1.0 - up - down
            R[n, admit] = arrives
    mdp = MDP(P, R, a)
    start = np.eye(size + 1)[0]
    length = np.arange(size + 1.0)[:, None] * np.ones(2)
    found = dualq.solve(mdp, start, limits=L.average(mdp, length, "<=", bound, "length"))

    def threshold(x):  # admit below floor(x), with chance x - floor(x) at it
        chance = np.clip(x - np.arange(size + 1.0), 0.0, 1.0)
        return np.stack([1 - chance, chance], axis=1)

    low, high = 0.0, size + 1.0
    for _ in range(60):
        x = 0.5 * (low + high)
        d = (1 - a) * policy_occupancy(mdp, threshold(x), start)
        low, high = (x, high) if np.sum(d * length) <= bound else (low, x)
    d = (1 - a) * policy_occupancy(mdp, threshold(low), start)
    assert (1 - a) * found.objective == pytest.approx(float(np.sum(d * R)), abs=1e-9)
    random = (found.dual_policy.matrix.max(axis=1) < 1 - 1e-9) & (found.occupancy.sum(axis=1) > 1e-9)
    assert random.sum() <= 1


def test_the_greedy_policy_breaks_the_limit_that_the_dual_policy_keeps():
    mdp, _, c = garnet(4)
    start = np.eye(mdp.num_states)[0]
    found = dualq.solve(mdp, start, limits=L.average(mdp, c, "<=", 0.35, "c"))
    assert found.values["c"] <= 0.35 + 1e-10
    random = (found.dual_policy.matrix.max(axis=1) < 1 - 1e-9).sum()
    assert random <= 1  # as many random states as limits
    free = dualq.solve(mdp).primal_policy
    assert found.reached(free)["c"] > 0.36


# ---- every kind of limit means what it says


def test_total_is_the_discounted_sum():
    mdp, rng, c = garnet(6)
    start = some_start(rng, mdp.num_states)
    found = dualq.solve(mdp, start, limits=L.total(mdp, c, "<=", 4.0, "fuel"))
    P = np.einsum("sa,sat->st", found.dual_policy.matrix, dense_transitions(mdp))
    spent, v, factor = 0.0, start, 1.0
    for _ in range(600):
        spent += factor * v @ (found.dual_policy.matrix * c).sum(axis=1)
        v, factor = v @ P, factor * mdp.discount
    assert found.values["fuel"] == pytest.approx(spent, abs=1e-9)
    assert spent == pytest.approx(4.0, abs=1e-8)
    same = dualq.solve(mdp, start, limits=L.average(mdp, c, "<=", 0.4, "fuel"))
    assert same.objective == pytest.approx(found.objective)
    assert found.prices["fuel"] == pytest.approx(same.prices["fuel"] * (1 - mdp.discount))


def test_costs_per_transition_are_averaged():
    mdp, rng, _ = garnet(6)
    cost = rng.random((*mdp.rewards.shape, mdp.num_states))
    limit = L.average(mdp, cost, "<=", 0.5)
    np.testing.assert_allclose(limit.cost, np.einsum("sat,sat->sa", dense_transitions(mdp), cost))


def test_forbidden_states_are_never_entered():
    """A grid walk from 0 to 4 by 2: of the states 1 (a short cut that pays) and 3, one is forbidden."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 3] = P[2, :, 3] = P[3, :, 0] = 1.0
    mdp = MDP(P, [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [0.0, 0.0]], 0.9, states=["home", "ice", "road", "work"])
    start = [1.0, 0.0, 0.0, 0.0]
    assert dualq.solve(mdp).primal_policy.probabilities("home") == {0: 1.0}
    found = dualq.solve(mdp, start, limits=L.forbid(mdp, ["ice"]))
    assert found.dual_policy.probabilities("home") == {1: 1.0}
    assert found.values["time in ice"] == 0.0
    assert not found.dual_policy.undecided.any()
    with pytest.raises(InfeasibleError, match=r"no policy keeps time in home <= 0;.*at least 0\.369"):
        dualq.solve(mdp, start, limits=L.forbid(mdp, ["home"]))
    more = dualq.solve(mdp, start, limits=L.time_in(mdp, ["road"], ">=", 0.1))
    assert more.values["time in road"] == pytest.approx(0.1)


def test_what_is_done_where_the_start_never_leads():
    """The best for the reward in which limits have their price, within the caps, where they can be kept."""
    rng = np.random.default_rng(3)
    P = np.zeros((6, 3, 6))
    P[:3, :, :3] = rng.dirichlet(np.ones(3), (3, 3))
    P[3:] = rng.dirichlet(np.ones(6), (3, 3))  # 3, 4, 5 are never entered from 0
    available = np.ones((6, 3), bool)
    available[5, 1:] = False
    R, c = rng.random((6, 3)), rng.random((6, 3))
    mdp = MDP(P, R, 0.9, available=available)
    start = np.eye(6)[0]
    free = dualq.solve(mdp).primal_policy
    level = float(np.sum(occupancy_of(mdp, free, start) * c))
    cap = L.cap(mdp, [0], 0.25)
    found = dualq.solve(mdp, start, limits=[L.average(mdp, c, "<=", 0.9 * level, "c"), cap])
    # by value iteration with the caps: in each state the best mixture of Q, at most 1/4 of action 0
    priced, V = R - found.prices["c"] * c, np.zeros(6)
    for _ in range(600):
        Q = np.where(available, priced + 0.9 * P @ V, -np.inf)
        rest = Q[:, 1:].max(axis=1)
        mixed = np.where(Q[:, 0] > rest, 0.25 * Q[:, 0] + 0.75 * np.where(np.isfinite(rest), rest, 0.0), rest)
        V = np.where(np.isfinite(rest), mixed, Q[:, 0])
    np.testing.assert_allclose(found.V, V, atol=1e-7)
    np.testing.assert_allclose(found.dual_policy.matrix[5], [1.0, 0.0, 0.0])
    assert found.dual_policy.matrix[:5, 0].max() <= 0.25 + 1e-9
    greedy = np.sum(found.dual_policy.matrix * np.where(available, found.Q, 0.0), axis=1)
    np.testing.assert_allclose(greedy, V, atol=1e-7)


def test_a_masked_model_with_every_kind_at_once():
    mdp = masked_model()
    start = [0.5, 0.5, 0.0, 0.0]
    uniform = TablePolicy.uniform(mdp)
    d = occupancy_of(mdp, uniform, np.array(start))
    c = np.random.default_rng(0).normal(size=mdp.rewards.shape)
    c[~mdp.available] = np.nan  # is not read
    wanted = [
        L.average(mdp, c, "<=", float(np.sum(np.where(mdp.available, c, 0.0) * d)), "c"),
        L.time_in(mdp, [3], ">=", float(d[3].sum()) - 0.05),
        L.cap(mdp, [0], 0.5, states=[0, 1]),
        L.near(uniform, 0.1),
    ]
    found = dualq.solve(mdp, start, limits=wanted)
    for limit in wanted:
        assert limit.sign * (found.values[limit.name] - limit.bound) <= 1e-8
    assert found.objective > np.sum(d * mdp.rewards) / (1 - mdp.discount)
    assert (found.dual_policy.matrix[~mdp.available] == 0.0).all()


# ---- limits that cannot be kept


def least(mdp, start, cost, sign):
    """The best average cost over every deterministic policy, by enumeration."""
    from itertools import product

    best = np.inf
    for choice in product(*(np.flatnonzero(row) for row in mdp.available)):
        d = (1 - mdp.discount) * policy_occupancy(mdp, np.eye(mdp.num_actions)[list(choice)], start)
        best = min(best, sign * np.sum(d * np.where(mdp.available, cost, 0.0)))
    return sign * best


@modest
@given(mdp=mdps(max_states=3, max_actions=2), seed=seeds, sense=st.sampled_from(["<=", ">="]))
def test_one_limit_is_feasible_exactly_where_enumeration_says(mdp, seed, sense):
    rng = np.random.default_rng(seed)
    start, cost = some_start(rng, mdp.num_states), rng.integers(-2, 3, mdp.rewards.shape).astype(float)
    sign = 1.0 if sense == "<=" else -1.0
    reachable = least(mdp, start, cost, sign)
    kept = dualq.solve(mdp, start, limits=L.average(mdp, cost, sense, reachable + sign * 1e-6, "c"))
    assert sign * (kept.values["c"] - reachable) <= 1.1e-6
    dualq.solve(mdp, start, limits=L.average(mdp, cost, sense, reachable, "c"))  # with no room at all
    with pytest.raises(InfeasibleError) as refused:
        dualq.solve(mdp, start, limits=L.average(mdp, cost, sense, reachable - sign * 1e-3, "c"))
    assert refused.value.conflict == ("c",)
    assert refused.value.least["c"] == pytest.approx(reachable, abs=1e-7)
    assert refused.value.nearest["c"] == pytest.approx(reachable, abs=1e-7)
    again = dualq.solve(mdp, start, limits=L.average(mdp, cost, sense, refused.value.nearest["c"], "c"))
    assert again.values["c"] == pytest.approx(reachable, abs=1e-6)


@modest
@given(mdp=mdps(max_states=4), seed=seeds)
def test_conflicts_are_irreducible_and_the_nearest_limits_can_be_kept(mdp, seed):
    rng = np.random.default_rng(seed)
    start, shape = some_start(rng, mdp.num_states), mdp.rewards.shape
    costs = [rng.random(shape) for _ in range(3)]
    wanted = {}
    for i, cost in enumerate(costs):  # each can be kept alone, or nearly so; together often not
        bound = least(mdp, start, cost, 1.0) + rng.choice([-0.01, 0.001, 0.02])
        wanted[f"c{i}"] = L.average(mdp, cost, "<=", float(bound), f"c{i}")
    wanted["near"] = L.near(TablePolicy.uniform(mdp), 0.5, "near")
    try:
        found = dualq.solve(mdp, start, limits=wanted)
    except InfeasibleError as error:
        refused = error
    else:
        for name, limit in wanted.items():
            assert found.values[name] <= limit.bound + 1e-8
        return
    assert "\n" not in str(refused)
    assert set(refused.nearest) == set(wanted)
    loosened = [limit.loosened(refused.nearest[name]) for name, limit in wanted.items()]
    dualq.solve(mdp, start, limits=loosened)
    with pytest.raises(InfeasibleError):
        dualq.solve(mdp, start, limits=[wanted[name] for name in refused.conflict])
    for left_out in refused.conflict:
        rest = [wanted[name] for name in refused.conflict if name != left_out]
        dualq.solve(mdp, start, limits=rest)


def test_the_message_is_one_clear_line():
    mdp = MDP(np.ones((1, 2, 1)), [[1.0, 3.0]], 0.8)
    wanted = [
        L.share_of(mdp, [0], "<=", 0.3, "first"),
        L.share_of(mdp, [1], "<=", 0.5, "second"),
        L.average(mdp, [[5.0, 6.0]], "<=", 9.0, "idle"),
    ]
    with pytest.raises(InfeasibleError) as refused:
        dualq.solve(mdp, 1.0, limits=wanted)
    assert str(refused.value).startswith(
        "no policy keeps first <= 0.3 and second <= 0.5 together; alone each is: first at least 0, second at least 0; "
        "the nearest that can be kept: "
    )
    assert refused.value.conflict == ("first", "second")
    assert refused.value.nearest["idle"] == 9.0
    assert refused.value.nearest["first"] + refused.value.nearest["second"] == pytest.approx(1.0)


def test_caps_that_cannot_be_kept():
    mdp = MDP(np.ones((1, 2, 1)), [[1.0, 3.0]], 0.8)
    with pytest.raises(
        InfeasibleError, match="together; alone each is: chance of 0 at least 0, chance of 1 at least 0"
    ):
        dualq.solve(mdp, 1.0, limits=[L.cap(mdp, [0], 0.3), L.cap(mdp, [1], 0.3)])
    forced = MDP(np.ones((1, 2, 1)), [[1.0, 3.0]], 0.8, available=[[True, False]])
    with pytest.raises(InfeasibleError, match=r"no policy keeps chance of 0 <= 0\.3;.*at least 1") as refused:
        dualq.solve(forced, 1.0, limits=L.cap(forced, [0], 0.3))
    assert refused.value.nearest == {"chance of 0": 1.0}


# ---- words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("stockout<=0.02", ("stockout", "<=", 0.02)),
        ("stockout >= .1", ("stockout", ">=", 0.1)),
        ("  days late<= 2% ", ("days late", "<=", 0.02)),
        ("x>=-1e-3", ("x", ">=", -1e-3)),
        ("wait ≤ 3", ("wait", "<=", 3.0)),
    ],
)
def test_limits_in_words(text, parts):
    assert L.parse(text) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stockout<0.02", "'stockout<0.02' has no <= or >="),
        ("stockout=0.02", "no <= or >="),
        ("", "no <= or >="),
        ("<=0.02", "names nothing; write NAME<=NUMBER"),
        ("stockout<=", "has the bound '', which is no number"),
        ("stockout<=two", "has the bound 'two', which is no number"),
        ("stockout<=inf", "has the bound 'inf', which is no number"),
    ],
)
def test_wrong_words_are_refused(text, message):
    with pytest.raises(ModelError, match=message):
        L.parse(text)


def test_limits_by_name():
    costs = {"stockout": np.zeros((2, 2)), "late": np.ones((2, 2))}
    found = L.as_limits({"stockout": 0.02, "late": ">=0.5"}, costs)
    assert [str(limit) for limit in found.values()] == ["stockout <= 0.02", "late >= 0.5"]
    assert str(L.as_limits("late <= 3", costs)["late"]) == "late <= 3"
    assert L.as_limits(None) == {}
    with pytest.raises(ModelError, match=r"no cost is named 'STOKOUT'; did you mean 'stockout'\?"):
        L.as_limits("STOKOUT<=1", costs)
    with pytest.raises(ModelError, match="no cost is named 'x'; known are none"):
        L.as_limits({"x": 1.0})
    with pytest.raises(ModelError, match="two limits are named 'late'"):
        L.as_limits(["late<=1", "late>=0"], costs)
    with pytest.raises(ModelError, match="3 is no limit"):
        L.as_limits([3])


def test_wrong_limits_are_refused_with_the_place():
    mdp = masked_model()
    c = np.zeros(mdp.rewards.shape)
    with pytest.raises(ModelError, match="sense '<'; it must be '<=' or '>='"):
        L.average(mdp, c, "<", 1.0)
    with pytest.raises(ModelError, match="bound of limit 'cost' is nan"):
        L.average(mdp, c, "<=", float("nan"))
    with pytest.raises(ModelError, match=r"shape \(2,\); it must be \(4, 3\)"):
        L.average(mdp, [1.0, 2.0], "<=", 1.0)
    with pytest.raises(ModelError, match=r"from 0 to 1"):
        L.time_in(mdp, [0], "<=", 1.5)
    with pytest.raises(LabelError, match="no state 9"):
        L.forbid(mdp, [9])
    with pytest.raises(ModelError, match="at least one label"):
        L.share_of(mdp, [], "<=", 0.5)
    with pytest.raises(ModelError, match="not negative"):
        L.near(-np.ones((4, 3)), 0.1)
    c[1, 2] = np.inf
    with pytest.raises(ModelError, match=r"'cost' at \(state=1, action=2\) is inf"):
        dualq.solve(mdp, 1.0, limits=L.average(mdp, c, "<=", 1.0))
    with pytest.raises(ModelError, match="all weights are zero"):
        dualq.solve(mdp, 0.0, limits=[])
    with pytest.raises(ModelError, match="with limits the method is one of lp, mixtures"):
        dualq.solve(mdp, 1.0, method="mpi", limits=[])
    with pytest.raises(ModelError, match=r"has shape \(1, 2\); it must be \(4, 3\)"):
        dualq.solve(mdp, 1.0, limits=L.Limit("x", np.zeros((1, 2)), "<=", 1.0))


def test_a_cost_that_is_the_same_everywhere():
    mdp = masked_model()
    ones = np.ones(mdp.rewards.shape)
    found = dualq.solve(mdp, 1.0, limits=L.average(mdp, ones, "<=", 1.0, "c"))
    assert found.values["c"] == pytest.approx(1.0)
    with pytest.raises(InfeasibleError, match="c at least 1; the nearest that can be kept: c <= 1"):
        dualq.solve(mdp, 1.0, limits=L.average(mdp, ones, "<=", 0.5, "c"))


@modest
@given(mdp=mdps(), scale=st.sampled_from([1e-6, 1.0, 1e6]), offset=st.sampled_from([0.0, 1e4]))
def test_units_do_not_matter(mdp, scale, offset):
    """Costs and rewards of any size and any constant on top."""
    rng = np.random.default_rng(0)
    start, c = some_start(rng, mdp.num_states), rng.random(mdp.rewards.shape)
    d = occupancy_of(mdp, TablePolicy.uniform(mdp), start)
    bound = float(np.sum(c * d))
    assume(mdp.rewards.any())
    plain = dualq.solve(mdp, start, limits=L.average(mdp, c, "<=", bound + 1e-3, "c"))
    other = MDP(
        dense_transitions(mdp), np.where(mdp.available, scale * mdp.rewards, 0.0), mdp.discount, available=mdp.available
    )
    found = dualq.solve(other, start, limits=L.average(mdp, c + offset, "<=", bound + 1e-3 + offset, "c"))
    size = np.abs(mdp.rewards).max() / (1 - mdp.discount)
    assert found.objective / scale == pytest.approx(plain.objective, abs=1e-6 * size)
