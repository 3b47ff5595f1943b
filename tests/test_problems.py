"""The problems against the paper's printed numbers, closed forms, naive loops, Gymnasium and QuantEcon.

Statistical tests are seeded. Each rejects a correct problem with probability FALSE_ALARM at most (over seeds).
"""

import dataclasses
import importlib.util
import itertools
import math
import sys
import tracemalloc

import numpy as np
import pytest
from quantecon.markov import DiscreteDP
from scipy.stats import chi2, kstest

from dualq import problems
from dualq.base.errors import DualqError, ModelError
from dualq.model.policy import TablePolicy
from dualq.worlds.simulator import Simulator

FALSE_ALARM = 1e-6
GYM_TABLES = ["FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4"]


def optimal_values(mdp):
    """V* as the value of the policy that QuantEcon finds, with its error bounded by the Bellman residual."""
    s, a = np.nonzero(mdp.available)
    P = mdp.transitions[s * mdp.num_actions + a].toarray()
    ddp = DiscreteDP(mdp.rewards[s, a], P, mdp.discount, s, a)
    v = ddp.evaluate_policy(ddp.solve(method="modified_policy_iteration", epsilon=1e-9, max_iter=10_000).sigma)
    assert np.abs(ddp.bellman_operator(v) - v).max() < 1e-8 * (1.0 - mdp.discount) * max(1.0, np.abs(v).max())
    return v


def dense(mdp):
    """P[s, a, s'], summed entry by entry."""
    P = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    for s, a in np.argwhere(mdp.available):
        for s_next, p in zip(*mdp.P(s, a), strict=True):
            P[s, a, s_next] += p
    return P


# ---- all of them


@pytest.mark.parametrize("name", problems.BY_NAME)
def test_every_problem_acts_within_its_mask_and_pays_within_its_range(name):
    sim = problems.BY_NAME[name]()
    mdp = sim.mdp
    assert sim.source
    assert not sim.behaviour.matrix[~mdp.available].any()
    assert not mdp.rewards[~mdp.available].any()
    # What the behaviour can do it does somewhere: no policy of interest is out of its reach, except where said so.
    if name != "icu_sepsis":
        assert (sim.behaviour.matrix[mdp.available] > 0).all()
    rng = np.random.default_rng(0)
    s, paid = sim.reset(rng), []
    assert sim.start[s] > 0
    for _ in range(300):
        a = sim.behave(s, rng)
        assert mdp.available[s, a]
        reward, s_next = sim.step(s, a, rng)
        assert s_next in mdp.P(s, a)[0]
        s = s_next
        paid.append(reward)
    assert mdp.reward_range[0] <= min(paid) <= max(paid) <= mdp.reward_range[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problems.grid_world(0), "size is 0; it must be a whole number, at least 1"),
        (lambda: problems.grid_world(2.5), "size is 2.5; it must be a whole number"),
        (lambda: problems.grid_world(2, reward_on="both"), "reward_on is 'both'; it must be 'next' or 'current'"),
        (lambda: problems.grid_world(2, discount=1.0), "discount is 1"),
        (lambda: problems.garnet(5, 2, 6), "branching is 6; it must be a whole number, between 1 and 5"),
        (lambda: problems.garnet(0, 2, 1), "states is 0"),
        (lambda: problems.garnet(5, 2, 2, seed=-1), "seed is -1"),
        (lambda: problems.chain(1), "states is 1; it must be a whole number, at least 2"),
        (lambda: problems.chain(slip=1.5), "slip is 1.5; it must be a probability"),
        (lambda: problems.maze(5, walls=1.0), "no cell can reach the goal with walls=1"),
        (lambda: problems.maze(5, slip=math.nan), "slip is nan"),
        (lambda: problems.queue(capacity=0), "capacity is 0"),
        (lambda: problems.queue(arrival=0.6, service=0.5), r"arrival \+ service is 1.1"),
        (lambda: problems.queue(holding_cost=-1.0), "holding_cost is -1"),
        (lambda: problems.inventory(lot=21), "lot is 21; it must be a whole number, between 1 and 20"),
        (lambda: problems.inventory(demand={}), "demand is empty"),
        (lambda: problems.inventory(demand={"may": -2.0}), "demand in 'may' is -2"),
        (lambda: problems.inventory(price=math.inf), "price is inf"),
        (lambda: problems.machine_replacement(wear=-0.1), "wear is -0.1"),
        (
            lambda: problems.gym("Taxi"),
            "no Gymnasium table 'Taxi'; known are CliffWalking-v1.*FrozenLake8x8-v1.*Taxi-v4",
        ),
        (lambda: problems.gym("CartPole-v1"), "no Gymnasium table 'CartPole-v1'"),
    ],
)
def test_bad_arguments_are_refused_by_name_and_value(make, message):
    with pytest.raises(ModelError, match=message):
        make()


# ---- the paper's two


def test_two_state_has_the_values_that_the_paper_prints():
    two = problems.two_state()
    # The best of the four deterministic policies, each evaluated by a 2 x 2 system from the printed matrices.
    P = {1: np.array([[0.2, 0.8], [0.3, 0.7]]), 2: np.array([[0.5, 0.5], [0.7, 0.3]])}
    r = {(1, 1): 3.0, (1, 2): 1.0, (2, 1): 2.0, (2, 2): 1.0}  # (action, state)
    values = []
    for choice in itertools.product((1, 2), repeat=2):
        P_pi = np.array([P[choice[0]][0], P[choice[1]][1]])
        R_pi = np.array([r[choice[0], 1], r[choice[1], 2]])
        values.append(np.linalg.solve(np.eye(2) - 0.9 * P_pi, R_pi))
    V = np.max(values, axis=0)
    np.testing.assert_allclose(V, [20.0690, 18.6897], atol=5e-5)
    np.testing.assert_allclose(two.mdp.q_values(V), [[20.0690, 19.4414], [18.1931, 18.6897]], atol=5e-5)
    np.testing.assert_allclose(optimal_values(two.mdp), V, atol=1e-8)


def test_two_state_has_the_chain_and_the_distribution_that_the_paper_prints():
    two = problems.two_state()
    P_theta, _ = two.behaviour.chain(two.mdp)
    np.testing.assert_allclose(P_theta.toarray(), [[0.44, 0.56], [0.42, 0.58]], atol=1e-15)
    np.testing.assert_allclose(two.stationary(), [[0.0857, 0.3429], [0.4000, 0.1714]], atol=5e-5)
    np.testing.assert_allclose(two.stationary().sum(axis=1), [0.4286, 0.5714], atol=5e-5)
    assert two.distribution(1).min() == pytest.approx(0.0856, abs=5e-5)  # the paper's zeta
    assert two.distribution(0).min() == pytest.approx(0.08)
    assert (two.mdp.reward_bound, two.mdp.reward_shift, two.mdp.discount) == (3.0, 0.0, 0.9)


@pytest.mark.parametrize("reward_on", ["next", "current"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_grid_world_moves_and_pays_as_written(size, reward_on):
    sim = problems.grid_world(size, reward_on=reward_on)
    states, goal = sim.mdp.states, (0, size - 1)
    steps = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
    assert list(sim.mdp.actions) == list(steps)
    for (row, column), (a, step) in itertools.product(states, enumerate(steps.values())):
        cell = (row + step[0], column + step[1])
        cell = cell if min(cell) >= 0 and max(cell) < size else (row, column)
        s = states.index((row, column))
        assert sim.mdp.P(s, a)[0].tolist() == [states.index(cell)]
        paid = cell if reward_on == "next" else (row, column)
        j = sim.mdp.indptr[4 * s + a]
        assert (sim.reward_low[j], sim.reward_high[j]) == ((1.0, 1.2) if paid == goal else (0.0, 0.2))
    assert sim.start[states.index((size - 1, 0))] == 1.0
    assert (sim.mdp.reward_bound, sim.mdp.reward_shift) == (1.2, 0.0)
    assert not sim.mdp.absorbing[states.index(goal)] or size == 1


def test_grid_world_pays_0_975_a_step_over_eight_steps_at_best():
    """One step at 0.1, then seven at 1.1: the level that Figure 4's curves approach."""
    sim = problems.grid_world(2)
    best = TablePolicy.greedy(sim.mdp.q_values(optimal_values(sim.mdp)))
    sim = Simulator(sim.mdp, best, sim.start, "the optimal policy")
    earned = [sim.state_distribution(k) @ best.chain(sim.mdp)[1] for k in range(8)]
    assert np.mean(earned) == pytest.approx(0.975)


# ---- Garnet


def test_garnet_draws_distinct_successors_all_alike():
    S, A, b = 12, 400, 5
    mdp = problems.garnet(S, A, b, seed=7).mdp
    successors = mdp.indices.reshape(S * A, b)
    assert (np.diff(successors, axis=1) > 0).all()
    # How often each pair of states is drawn together; each in expectation b(b-1) / (S(S-1)) of the rows.
    member = np.zeros((S * A, S))
    np.put_along_axis(member, successors, 1.0, axis=1)
    together = (member.T @ member)[np.triu_indices(S, 1)]
    p = b * (b - 1) / (S * (S - 1))
    deviation = np.abs(together - S * A * p) / math.sqrt(S * A * p * (1 - p))
    pairs = together.size
    assert deviation.max() < math.sqrt(chi2.isf(FALSE_ALARM / pairs, 1))  # Bonferroni over the pairs


def test_garnet_draws_probabilities_by_cut_points_and_rewards_uniformly():
    sim = problems.garnet(50, 20, 4, seed=1)
    gaps = sim.mdp.probabilities.reshape(-1, 4)
    np.testing.assert_allclose(gaps.sum(axis=1), 1.0, atol=1e-14)
    for place in range(4):  # the gaps between b - 1 uniform points are Beta(1, b - 1)
        assert kstest(gaps[:, place], "beta", args=(1, 3)).pvalue > FALSE_ALARM / 5
    assert kstest(sim.mdp.rewards.ravel(), "uniform").pvalue > FALSE_ALARM / 5
    assert sim.mdp.reward_range == (0.0, 1.0)
    assert sim.reward_low is None
    np.testing.assert_array_equal(sim.start, 1 / 50)


def test_garnet_is_the_same_for_the_same_seed_and_across_chunks():
    def arrays(seed):
        mdp = problems.garnet(2000, 40, 3, seed=seed).mdp  # 80,000 rows: two chunks
        return mdp.indices, mdp.probabilities, mdp.rewards

    assert all(np.array_equal(x, y) for x, y in zip(arrays(1), arrays(1), strict=True))
    assert not any(np.array_equal(x, y) for x, y in zip(arrays(1), arrays(2), strict=True))


def test_garnet_with_every_state_as_successor():
    mdp = problems.garnet(4, 2, 4).mdp
    assert mdp.indices.reshape(8, 4).tolist() == [[0, 1, 2, 3]] * 8


def test_garnet_needs_little_more_memory_than_the_model_itself():
    problems.garnet(10, 2, 2)  # compile first
    S, A, b = 40_000, 5, 8
    kept = S * A * (b * (8 + 4) + 4 + 8 + 8 + 1)  # probabilities, indices, row starts, rewards, behaviour, mask
    tracemalloc.start()
    try:
        sim = problems.garnet(S, A, b)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sim.mdp.indices.dtype == np.int32
    chunk = problems.GARNET_CHUNK * b * 8
    assert peak < kept + 6 * chunk


# ---- chain, maze, queue, machine


@pytest.mark.parametrize(("n", "discount", "slip"), [(2, 0.9, 0.2), (10, 0.95, 0.1), (60, 0.99, 0.3)])
def test_chain_has_its_closed_form(n, discount, slip):
    """Going forward is best, and V(s) = A r1^s + B r2^s with the roots of alpha (1-slip) r^2 - r + alpha slip = 0.

    The ends say V(-1) = V(0) and alpha (1-slip) (V(n) - V(n-1)) = 1, for the solution continued beyond the line.
    """
    sim = problems.chain(n, discount, slip)
    up = discount * (1 - slip)
    r = np.roots([up, -1.0, discount * slip])
    ends = np.array([1.0 / r - 1.0, up * (r**n - r ** (n - 1))])
    A, B = np.linalg.solve(ends, [0.0, 1.0])
    s = np.arange(n)
    V = A * r[0] ** s + B * r[1] ** s
    np.testing.assert_allclose(optimal_values(sim.mdp), V, rtol=1e-8)
    always_forward = TablePolicy.deterministic(np.zeros(n, int), 2)
    np.testing.assert_allclose(always_forward.value(sim.mdp), V, rtol=1e-10)
    np.testing.assert_allclose(sim.stationary(), 1 / (2 * n), rtol=1e-10)  # a symmetric walk visits all places alike


def breadth_first(free, goal):
    distance, layer = {goal: 0}, [goal]
    while layer:
        found = []
        for row, column in layer:
            for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if cell in free and cell not in distance:
                    distance[cell] = distance[row, column] + 1
                    found.append(cell)
        layer = found
    return distance


def test_maze_without_slips_is_a_shortest_path():
    size, discount = 12, 0.9
    sim = problems.maze(size, walls=0.35, slip=0.0, discount=discount, seed=4)
    wall = np.random.default_rng(4).random((size, size)) < 0.35
    free = {(int(r), int(c)) for r, c in np.argwhere(~wall)} | {(size - 1, size - 1)}
    distance = breadth_first(free, (size - 1, size - 1))
    assert 1 < len(distance) < len(free)  # some cells are cut off, and left out
    assert set(sim.mdp.states) == set(distance)
    steps = np.array([distance[cell] for cell in sim.mdp.states])
    np.testing.assert_allclose(optimal_values(sim.mdp), -(1 - discount**steps) / (1 - discount), atol=1e-8)


def test_maze_slips_sideways_and_stays_at_walls():
    sim = problems.maze(6, walls=0.3, slip=0.2, seed=1)
    states, goal = sim.mdp.states, (5, 5)
    around = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
    sides = {"up": "right left", "down": "right left", "left": "up down", "right": "up down"}
    P = np.zeros((len(states), 4, len(states)))
    for (row, column), (a, meant) in itertools.product(states, enumerate(around)):
        s = states.index((row, column))
        for move, p in [(meant, 0.8), *((side, 0.1) for side in sides[meant].split())]:
            cell = (row + around[move][0], column + around[move][1])
            P[s, a, states.index(cell) if cell in states and (row, column) != goal else s] += p
    assert list(sim.mdp.actions) == list(around)
    np.testing.assert_allclose(dense(sim.mdp), P, atol=1e-15)
    at_goal = states.index(goal)
    assert sim.mdp.absorbing.nonzero()[0].tolist() == [at_goal]
    elsewhere = np.arange(len(states)) != at_goal
    assert (sim.mdp.rewards[elsewhere] == -1.0).all()
    assert (sim.mdp.rewards[at_goal] == 0.0).all()
    assert sim.start[at_goal] == 0.0
    assert sim.ends.nonzero()[0].tolist() == [at_goal]
    assert sim.stationary()[at_goal].sum() == 0.0  # the walk begins anew
    assert dataclasses.replace(sim, episodic=False).stationary()[at_goal].sum() == 1.0


def test_queue_that_accepts_all_is_geometric():
    sim = problems.queue(capacity=30, arrival=0.48, service=0.5)
    accept = np.zeros((31, 2))
    accept[:30, 0], accept[30, 1] = 1.0, 1.0
    v = Simulator(sim.mdp, TablePolicy(accept), sim.start, "accept all").stationary().sum(axis=1)
    geometric = (0.48 / 0.5) ** np.arange(31)
    np.testing.assert_allclose(v, geometric / geometric.sum(), rtol=1e-10)


def test_queue_moves_and_pays_as_written():
    capacity, arrival, service, gain, cost = 4, 0.3, 0.5, 2.0, 0.8
    sim = problems.queue(capacity, 0.9, arrival, service, gain, cost)
    P, R = np.zeros((5, 2, 5)), np.zeros((5, 2))
    for n in range(capacity + 1):
        for a, accept in enumerate((True, False)):
            if accept and n == capacity:
                continue
            P[n, a, n + 1 if accept else n] += arrival
            P[n, a, max(n - 1, 0)] += service
            P[n, a, n] += 1 - arrival - service
            R[n, a] = arrival * gain * accept - cost * n / capacity
    np.testing.assert_allclose(dense(sim.mdp), P, atol=1e-15)
    np.testing.assert_allclose(sim.mdp.rewards, R, atol=1e-15)
    assert sim.mdp.available.tolist() == [[True, True]] * 4 + [[False, True]]
    assert sim.mdp.reward_range == (-0.8, 2.0)
    full = problems.queue(10_000).mdp
    assert full.reward_range == (-1.0, 1.0)  # of order one at any capacity


@pytest.mark.parametrize(("wear", "replacement_cost"), [(1.0, 3.0), (0.5, 3.0), (0.2, 10.0), (0.5, 1000.0)])
def test_machine_replacement_is_the_best_threshold(wear, replacement_cost):
    n, alpha = 10, 0.95
    sim = problems.machine_replacement(n, wear, 1.0, replacement_cost, alpha)
    stay = 1 - alpha * (1 - wear)
    best = np.full(n, -np.inf)
    for m in range(1, n + 1):  # replace in condition m or worse (n: never); V(s) = base(s) + slope(s) V(0)
        base, slope = np.full(n + 1, -replacement_cost), np.full(n + 1, alpha)
        if m == n:
            base[n - 1], slope[n - 1] = -(n - 1) / (1 - alpha), 0.0
        for s in range(min(m, n - 1) - 1, -1, -1):
            base[s] = (-s + alpha * wear * base[s + 1]) / stay
            slope[s] = alpha * wear * slope[s + 1] / stay
        V0 = base[0] / (1 - slope[0])
        best = np.maximum(best, base[:n] + slope[:n] * V0)
    np.testing.assert_allclose(optimal_values(sim.mdp), best, rtol=1e-8)


# ---- inventory


def test_inventory_is_the_sum_over_demands():
    capacity, lot, change = 7, 3, 0.1
    demand = {"low": 0.0, "middle": 1.5, "high": 6.0}
    prices = {"price": 5.0, "unit_cost": 2.0, "order_fee": 1.5, "holding_cost": 0.2, "shortage_cost": 0.7}
    sim = problems.inventory(capacity, lot, demand, change, **prices)
    mdp, names = sim.mdp, list(demand)
    assert list(mdp.actions) == [0, 3, 6]
    S, A = mdp.rewards.shape
    P, paid = np.zeros((S, A, S)), np.zeros((S, A, S))
    for (stock, season), (a, order) in itertools.product(mdp.states, enumerate(mdp.actions)):
        s, level, mean = mdp.states.index((stock, season)), stock + order, demand[season]
        assert mdp.available[s, a] == (level <= capacity)
        if level > capacity:
            continue
        follows = names[(names.index(season) + 1) % 3]
        for wanted in range(80):
            p = math.exp(-mean) * mean**wanted / math.factorial(wanted)
            sales = min(wanted, level)
            profit = 5.0 * sales - 2.0 * order - 1.5 * (order > 0) - 0.2 * (level - sales) - 0.7 * (wanted - sales)
            for next_season, q in ((season, 1 - change), (follows, change)):
                s_next = mdp.states.index((level - sales, next_season))
                P[s, a, s_next] += p * q
                paid[s, a, s_next] += p * q * profit
    np.testing.assert_allclose(dense(mdp), P, atol=1e-14)
    np.testing.assert_allclose(mdp.rewards, paid.sum(axis=2), atol=1e-12)
    row = np.repeat(np.arange(S * A), np.diff(mdp.indptr))
    given_next = (paid / np.where(P > 0, P, 1.0)).reshape(S * A, S)[row, mdp.indices]
    likely = mdp.probabilities > 1e-12  # beyond that the naive sums have lost their digits
    np.testing.assert_allclose(sim.reward_low[likely], given_next[likely], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(sim.reward_low, sim.reward_high)


def test_inventory_behaviour_is_the_rule_of_thumb():
    sim = problems.inventory()
    assert sim.mdp.num_states == 84
    assert list(sim.mdp.actions) == [0, 5, 10, 15, 20]
    for stock, season in sim.mdp.states:
        chances = sim.behaviour.probabilities((stock, season))
        possible = [order for order in (0, 5, 10, 15, 20) if stock + order <= 20]
        rule = max(possible) if stock <= 10 else 0
        share = 0.3 / len(possible)
        expected = {order: share + 0.7 * (order == rule) for order in possible}
        assert chances == pytest.approx(expected)


def test_inventory_leaves_something_to_learn():
    """The example must be worth a learner's while: the best policy earns a tenth more, and looks at the season."""
    sim = problems.inventory()
    V = optimal_values(sim.mdp)
    assert sim.start @ V > 1.1 * (sim.start @ sim.behaviour.value(sim.mdp)) > 0
    best = TablePolicy.greedy(sim.mdp.q_values(V), sim.mdp.states, sim.mdp.actions)
    assert best.act((5, "summer")) > best.act((5, "winter"))
    assert sim.mdp.reward_range[0] < 0.0
    assert sim.stationary()[sim.mdp.available].min() > 0.0  # every possible decision is in the log sooner or later


# ---- tables of others


def naive_table_values(env, discount):
    """V* from Gymnasium's own table; a transition that ends the episode is worth its reward."""
    V = np.zeros(len(env.P))
    while True:
        Q = np.array(
            [
                [sum(p * (r + discount * V[t] * (not end)) for p, t, r, end in row[a]) for a in row]
                for row in env.P.values()
            ]
        )
        if np.abs(Q.max(axis=1) - V).max() < 1e-10:
            return V
        V = Q.max(axis=1)


def visited(env):
    """States in which an episode can ask for an action, by search over the table."""
    seen = set(np.flatnonzero(env.initial_state_distrib).tolist())
    todo = list(seen)
    while todo:
        for outcomes in env.P[todo.pop()].values():
            for p, s_next, _, end in outcomes:
                if p > 0 and not end and s_next not in seen:
                    seen.add(int(s_next))
                    todo.append(int(s_next))
    return sorted(seen)


@pytest.mark.parametrize("name", GYM_TABLES)
def test_gym_has_the_values_of_the_table_wherever_an_episode_can_be(name):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name).unwrapped
    sim = problems.gym(name, discount=0.9)
    assert sim.mdp.num_states == env.observation_space.n
    assert sim.mdp.num_actions == env.action_space.n
    states = visited(env)
    np.testing.assert_allclose(optimal_values(sim.mdp)[states], naive_table_values(env, 0.9)[states], atol=1e-8)
    np.testing.assert_allclose(sim.start, env.initial_state_distrib)


@pytest.mark.parametrize("name", GYM_TABLES)
def test_gym_draws_what_the_environment_draws(name):
    """Outcomes (s', r) of env.step from every state an episode can be in, against the model; terminal states absorb."""
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name).unwrapped
    env.reset(seed=11)
    sim = problems.gym(name)
    mdp = sim.mdp
    draws = 1 if name in ("Taxi-v4", "CliffWalking-v1") else 60  # those two are deterministic
    statistic, cells = 0.0, 0
    for s, a in itertools.product(visited(env), range(mdp.num_actions)):
        entries = slice(mdp.indptr[s * mdp.num_actions + a], mdp.indptr[s * mdp.num_actions + a + 1])
        outcomes = zip(mdp.indices[entries].tolist(), sim.reward_low[entries].tolist(), strict=True)
        expected = dict(zip(outcomes, draws * mdp.probabilities[entries], strict=True))
        assert len(expected) == entries.stop - entries.start
        counts = dict.fromkeys(expected, 0)
        for _ in range(draws):
            env.s = s
            s_next, reward, ends, _, _ = env.step(a)
            counts[int(s_next), float(reward)] += 1  # a KeyError is an outcome that the model does not know
            assert not ends or mdp.absorbing[s_next]
        statistic += sum((counts[o] - e) ** 2 / e for o, e in expected.items())
        cells += len(expected)
    assert chi2.sf(statistic, cells) > FALSE_ALARM
    assert not mdp.rewards[mdp.absorbing].any()


def test_gym_keeps_apart_the_rewards_of_a_fall_and_of_a_step_against_the_wall():
    pytest.importorskip("gymnasium")
    sim = problems.gym("CliffWalkingSlippery-v1")
    start, right = 36, 1
    entries = slice(*sim.mdp.indptr[start * 4 + right :][:2])
    assert sorted(zip(sim.mdp.indices[entries].tolist(), sim.reward_low[entries].tolist(), strict=True)) == [
        (24, -1.0),
        (36, -100.0),
        (36, -1.0),
    ]
    assert sim.mdp.rewards[start, right] == pytest.approx((-1 - 1 - 100) / 3)


def test_gym_without_gymnasium_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(DualqError, match=r'pip install "\.\[gym\]"'):
        problems.gym("FrozenLake-v1")


def test_icu_sepsis_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DualqError, match=r'pip install "\.\[sepsis\]"'):
        problems.icu_sepsis()


@pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason="needs the sepsis extra")
def test_icu_sepsis_has_the_known_values_of_the_expert_and_of_the_optimum():
    sim = problems.icu_sepsis(discount=0.99)
    assert "icu_sepsis" not in sys.modules  # only its data are read
    assert "gym" not in sys.modules
    assert sim.mdp.rewards.shape == (716, 25)
    assert sim.start @ optimal_values(sim.mdp) == pytest.approx(0.801, abs=5e-4)
    P = (sim.behaviour.matrix[:, :, None] * sim.mdp.transitions.toarray().reshape(716, 25, 716)).sum(axis=1)
    R = (sim.behaviour.matrix * sim.mdp.rewards).sum(axis=1)
    assert sim.start @ np.linalg.solve(np.eye(716) - 0.99 * P, R) == pytest.approx(0.722, abs=5e-4)
    death, survival, end = 713, 714, 715
    assert sim.mdp.absorbing.nonzero()[0].tolist() == [end]
    np.testing.assert_allclose(P[[death, survival, end], end], 1.0)


@pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason="needs the sepsis extra")
def test_icu_sepsis_without_discount_has_the_survival_that_its_authors_report():
    """The package's page: random 0.78, expert 0.78, optimal 0.88."""
    sim = problems.icu_sepsis(discount=1 - 1e-9)
    uniform = TablePolicy.uniform(sim.mdp)
    assert sim.start @ uniform.value(sim.mdp) == pytest.approx(0.78, abs=5e-3)
    assert sim.start @ sim.behaviour.value(sim.mdp) == pytest.approx(0.78, abs=5e-3)
    nearly = problems.icu_sepsis(discount=1 - 1e-5).mdp  # episodes take about ten steps, so this costs 1e-4 at most
    assert sim.start @ optimal_values(nearly) == pytest.approx(0.88, abs=5e-3)
