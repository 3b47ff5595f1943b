"""Problems with numbers in the state: their equations, what is recorded of them, and their truth by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualq import solve
from dualq.base import Labels, StateColumns, States
from dualq.worlds import continuous
from dualq.worlds.continuous import PROBLEMS, Step, record, returns, to_table, true_cost, true_gain, true_value
from dualq.worlds.gridded import Grid, SharedNoise

# ---- the equations, one state at a time, as the descriptions have them


def inventory(x, day, a, noise):
    (stock, level), order = x, [0, 2, 4, 8][a]
    f = {0: 0.9, 1: 0.9, 2: 1.0, 3: 1.0, 4: 1.2, 5: 1.7, 6: 0.4}[day]
    d = level * f * math.exp(0.35 * noise.xi() - 0.06)
    sold = min(stock, d)
    r = 4 * sold - 1.5 * order - (1 if order else 0) - 0.08 * stock - (1 if d > stock else 0)
    log_level = math.log(level) + 0.08 * (math.log(3) - math.log(level)) + 0.14 * noise.xi()
    return r, (min(0.97 * (stock - sold) + order, 30), math.exp(log_level)), (day + 1) % 7, False, float(d > stock)


def pricing(x, segment, a, noise):
    (reference, mood), p = x, [2, 3, 4, 5, 6][a]
    fair = 0.22 * max(reference - p, 0) - 0.4 * max(p - reference, 0)
    sold = math.exp(mood + 1.3 - [0.12, 0.3, 0.55][segment] * p + fair + 0.3 * noise.xi())
    mood, u = 0.92 * mood + 0.18 * noise.xi(), noise.u()
    student = 0.5 / (1 + math.exp(2 * mood))
    who = 2 if u < student else 1 if u < student + 0.4 else 0
    return sold * (p - 1), (0.88 * reference + 0.12 * p, mood), who, False, None


def maintenance(x, _, a, noise):
    wear, heat, load = x
    speed = [1.0, 0.4, 0.0][a]
    chance = 0.0 if a == 2 else 1 / (1 + math.exp(10.5 - 3.2 * wear * math.sqrt(speed) - 1.6 * heat))
    failed = noise.u() < chance
    r = [load, 0.55 * load, -2.5][a] - (30 if failed else 0)
    worn = wear + 0.02 * (1 + heat**2) * speed + 0.02 * noise.u()
    hot = max(0.8 * heat + [0.35 * load, 0.12 * load, 0.0][a] + 0.05 * noise.xi(), 0)
    load = min(max(0.9 * load + 0.1 + 0.07 * noise.xi(), 0.4), 1.6)
    return r, (0.1 * wear if a == 2 else worn, hot, load), None, failed, float(failed)


def dosing(x, _, a, noise):
    severity, concentration = x
    c = 0.75 * concentration + a * max(1 + 0.15 * noise.xi(), 0)
    later = min(1.03 * severity + 0.1 - 0.7 * c / (1 + c) + 0.2 * noise.xi(), 10)
    harmed = noise.u() < 1 / (1 + math.exp(5.2 - c))
    r = -0.2 * severity - (1.5 if harmed else 0) - 0.05 * a + (2 if later < 0 else 0)
    return r, (max(later, 0), c), None, later < 0, float(harmed)


TWINS = {"inventory": inventory, "pricing": pricing, "maintenance": maintenance, "dosing": dosing}


class OneByOne:
    """A generator, one number at a time."""

    def __init__(self, rng):
        self.rng = rng

    def u(self):
        return float(self.rng.random())

    def xi(self):
        return float(self.rng.standard_normal())


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_step_is_what_the_description_says(name):
    problem = PROBLEMS[name]()
    seen = record(problem, 300, seed=1)
    for i in range(len(seen)):
        one = seen.state.at(np.array([i]))
        day = int(one.categories[0, 0]) if one.categories.size else None
        twin = TWINS[name](one.numbers[0].tolist(), day, int(seen.a[i]), OneByOne(np.random.default_rng(i)))
        step = problem.step(np.random.default_rng(i), one, seen.a[[i]])
        r, x, category, ended, cost = twin
        np.testing.assert_allclose([step.r[0], *step.next_state.numbers[0]], [r, *x], rtol=1e-12, atol=1e-12)
        assert step.next_state.categories[0].tolist() == ([] if category is None else [category])
        assert bool(step.ended[0]) == ended
        assert [c[0] for c in step.costs.values()] == ([] if cost is None else [cost])


@pytest.mark.parametrize("name", ["inventory", "maintenance"])
def test_the_true_value_is_that_of_a_plain_loop(name):
    """Other random numbers: means differ by more than 5 standard errors once in a million and a half."""
    problem, twin, generator = PROBLEMS[name](), TWINS[name], np.random.default_rng(77)
    noise, alpha, sums, costs = OneByOne(generator), problem.discount, [], []
    for _ in range(250):
        start = problem.start(generator, 1)
        x, day = start.numbers[0].tolist(), int(start.categories[0, 0]) if start.categories.size else None
        total = paid = 0.0
        for k in range(150):
            state = States(np.array([x]), np.array([[] if day is None else [day]], np.int64))
            a = int(generator.choice(len(problem.actions), p=problem.behaviour(state)[0]))
            r, x, day, ended, cost = twin(x, day, a, noise)
            total, paid = total + alpha**k * r, paid + alpha**k * cost
            if ended:
                break
        sums.append(total)
        costs.append((1 - alpha) * paid)
    late = 2.0 * alpha**150 / (1 - alpha)  # what is not played any more, at most
    cost = {"inventory": "stockout", "maintenance": "failure"}[name]
    for plain, (value, error) in (
        (np.array(sums), true_value(problem, problem.behaviour, seed=3, episodes=2000)),
        (np.array(costs), true_cost(problem, problem.behaviour, cost, seed=3, episodes=2000)),
    ):
        assert abs(plain.mean() - value) <= 5.0 * math.hypot(error, plain.std(ddof=1) / 250**0.5) + late


class Fading:
    """Pays x, which grows by one a step; ends with probability .2: v(x) = x / (1 - .8 a) + .8 a / (1 - .8 a)^2."""

    columns = StateColumns(("x",), {})
    actions = Labels(2, "action")
    discount = 0.9
    horizon = 7

    def start(self, rng, n):
        return States(np.full((n, 1), 3.0), np.empty((n, 0), np.int64))

    def step(self, rng, states, a):
        x, ended = states.numbers[:, 0], rng.random(len(states)) < 0.2
        return Step(x * (1.0 + a), States(states.numbers + 1.0, states.categories), ended, {"one": np.ones(x.size)})

    def behaviour(self, states):
        return np.tile([0.75, 0.25], (len(states), 1))


def test_values_and_costs_have_their_closed_form():
    """Within 5 standard errors: a false alarm in a million and a half. The behaviour pays 1.25 x."""
    problem, going = Fading(), 0.8 * 0.9
    value = 1.25 * (3.0 / (1 - going) + going / (1 - going) ** 2)
    found, error = true_value(problem, problem.behaviour, seed=1, episodes=40_000)
    assert abs(found - value) <= 5.0 * error < 0.03 * value
    from_5 = returns(problem, problem.behaviour, 1, 40_000, start=States(np.array([[4.0], [6.0]]), np.empty((2, 0))))
    assert abs(from_5.mean() - value - 1.25 * 2.0 / (1 - going)) <= 5.0 * from_5.std() / 200.0
    cost, error = true_cost(problem, problem.behaviour, "one", seed=1, episodes=40_000)
    assert abs(cost - 0.1 / (1 - going)) <= 5.0 * error < 0.03 * cost


def test_policies_are_compared_under_the_same_noise():
    shop = PROBLEMS["inventory"]()
    assert true_gain(shop, shop.behaviour, shop.behaviour, seed=4, episodes=50) == (0.0, 0.0)
    nothing, much = (record(shop, 700, 5, lambda s, a=a: np.eye(4)[np.full(len(s), a)]) for a in (0, 3))
    np.testing.assert_array_equal(nothing.state.numbers[:, 1], much.state.numbers[:, 1])  # nobody changes the demand
    machine = PROBLEMS["maintenance"]()
    slow, run = (lambda s, a=a: np.eye(3)[np.full(len(s), a)] for a in (1, 0))
    _, paired = true_gain(machine, slow, run, seed=4, episodes=500)
    apart = math.hypot(*(returns(machine, rule, 4, 500).std(ddof=1) / 500**0.5 for rule in (slow, run)))
    assert paired < apart


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows_follow_each_other_until_an_episode_stops(name):
    problem = PROBLEMS[name]()
    rows = record(problem, 5_000, seed=2)
    last = np.append(rows.first[1:], True)
    inner = ~last
    assert len(rows) == 5_000
    np.testing.assert_array_equal(rows.next_state.numbers[inner], rows.state.numbers[1:][inner[:-1]])
    np.testing.assert_array_equal(rows.next_state.categories[inner], rows.state.categories[1:][inner[:-1]])
    assert not rows.ended[inner].any()
    length = np.bincount(rows.episode)
    assert length.max() <= problem.horizon
    assert (rows.ended[last] | (length == problem.horizon))[:-1].all()  # the last recording is cut where rows suffice
    assert rows.episode.tolist() == np.repeat(np.arange(length.size), length).tolist()


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_log_takes_actions_as_often_as_its_rule_says(name):
    """Each action's share within 5 deviations: a false alarm in 1e5 for all of them together."""
    problem = PROBLEMS[name]()
    rows = record(problem, 20_000, seed=3)
    p = problem.behaviour(rows.state)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() > 0.02
    taken = np.eye(p.shape[1])[rows.a]
    assert (np.abs((taken - p).sum(axis=0)) <= 5.0 * np.sqrt((p * (1 - p)).sum(axis=0))).all()


def test_a_table_says_the_same_as_the_rows():
    rows = record(PROBLEMS["inventory"](), 1_000, seed=4)
    table = to_table(rows)
    assert list(table) == [
        "episode", "step", "stock", "level", "weekday", "action", "reward", "stockout", "done",
    ]  # fmt: skip
    again = rows.columns.coded(table)
    np.testing.assert_array_equal(again.numbers, rows.state.numbers)
    np.testing.assert_array_equal(again.categories, rows.state.categories)
    assert [rows.actions.index(a) for a in table["action"]] == rows.a.tolist()
    assert table["step"].tolist() == [i % 100 for i in range(1_000)]


BETTER = {
    "inventory": lambda s: np.eye(4)[np.digitize(2.5 * s.numbers[:, 1] - s.numbers[:, 0], [1.0, 3.0, 6.0])],
    "pricing": lambda s: np.eye(5)[np.full(len(s), 2)],
    "maintenance": lambda s: np.eye(3)[np.full(len(s), 1)],
    "dosing": lambda s: np.eye(4)[np.full(len(s), 1)],
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_logs_leave_something_to_gain(name):
    """Even a plain rule earns a tenth more than the log, by more than 5 standard errors."""
    problem = PROBLEMS[name]()
    gain, error = true_gain(problem, BETTER[name], problem.behaviour, seed=5, episodes=1_000)
    assert gain - 5.0 * error > 0.0
    assert gain > 0.09 * abs(true_value(problem, problem.behaviour, seed=5, episodes=1_000)[0])


# ---- the grid


def test_weights_between_points_keep_what_is_linear():
    grid = Grid((np.array([0.0, 1.0, 4.0]), np.array([-1.0, 0.5, 2.0])), (3,))
    rng = np.random.default_rng(0)
    states = States(rng.uniform([0, -1], [4, 2], (200, 2)), rng.integers(3, size=(200, 1)))
    w, points = grid.weights(states), grid.points
    np.testing.assert_allclose(w.sum(axis=1), 1.0)
    np.testing.assert_allclose(w @ points.numbers, states.numbers, atol=1e-12)
    np.testing.assert_allclose(w @ np.eye(3)[points.categories[:, 0]], np.eye(3)[states.categories[:, 0]], atol=1e-12)
    outside = grid.weights(States(np.array([[9.0, -7.0]]), np.array([[1]])))
    np.testing.assert_allclose(outside @ points.numbers, [[4.0, -1.0]])


def test_shared_noise_is_a_point_for_all():
    noise = SharedNoise(np.array([0.5, 0.25]))
    assert noise.standard_normal(2).tolist() == [0.0, 0.0]
    assert noise.random(3).tolist() == [0.25, 0.25, 0.25]


def test_the_exact_solution_of_a_fine_grid_is_the_value_of_its_policy():
    """Inventory with discrete noise, solved exactly, against simulation: within 1% and 4 standard errors."""
    shop = continuous.Inventory()
    axes = {"stock": np.r_[0:12:25j, 14:30:5j], "level": 3.0 * np.exp(np.linspace(-1.1, 1.1, 10))}
    grid = Grid.of(shop, axes)
    solution = solve(grid.model(shop, log2_draws=5))
    start = shop.start(np.random.default_rng(8), 20_000)
    promised = float((grid.weights(start) @ solution.V[:-1]).mean())
    rule = grid.greedy(solution.Q)
    value, error = true_value(shop, rule, seed=6, episodes=1_500)
    assert abs(value - promised) <= 0.01 * value + 4.0 * error
    assert true_gain(shop, rule, BETTER["inventory"], seed=6, episodes=1_500)[0] > 0.0
