"""The batch saddle problem in linear features: against HiGHS, against numerical derivatives, and by what it earns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import dualq
from dualq.base import Labels, StateColumns, States
from dualq.logs import NumberRows
from dualq.offline.approximate.linear import DualRule, LinearRule, Saddle, clone, learned_linear
from dualq.offline.approximate.rules import VoteRule


def numbers(x):
    return States(np.asarray(x, float).reshape(len(x), -1), np.zeros((len(x), 0), np.int64))


def rows_of(s, a, r, t, ended, actions):
    columns = StateColumns(("s",), {})
    return NumberRows(columns, Labels(range(actions)), numbers(s), a, r, numbers(t), ended, np.arange(len(s)) // 20)


class OneHot:
    """One feature per state."""

    def __init__(self, size):
        self.size = size

    def __call__(self, states):
        return (states.numbers == np.arange(self.size)).astype(float)


@pytest.fixture(scope="module")
def queue():
    """Rows of a queue, and the model that they are."""
    simulator = dualq.problems.queue(capacity=6, discount=0.95)
    log = simulator.record(steps=20_000, seed=0)
    return log, log.counts().mdp(discount=simulator.mdp.discount)


def test_with_one_feature_per_state_and_no_temperature_it_is_the_linear_program(queue):
    log, mdp = queue
    S, A = mdp.rewards.shape
    rows = rows_of(log.state, log.action, log.reward, log.next_state, np.zeros(len(log), bool), A)
    start = numbers(np.arange(S))
    saddle = Saddle.of(rows, OneHot(S), mdp.discount, start, ridges=(1e-13, 1e-13, 1e-13))
    found = saddle.down_the_path(until=0.0, coolest=1e-9, tolerance=1e-12)
    exact = dualq.solve(mdp, method="lp")
    assert found.value == pytest.approx(exact.V.mean(), rel=1e-4)
    assert found.theta == pytest.approx(exact.V, rel=1e-3)
    taken = np.where(mdp.available, found.advantage, -np.inf).argmax(axis=1)
    assert exact.Q[np.arange(S), taken] == pytest.approx(exact.V, rel=1e-3)


def test_the_dual_rule_is_what_the_rows_do_once_they_are_weighted(queue):
    """The share of each action among the rows of a state, each with its density w."""
    log, mdp = queue
    S, A = mdp.rewards.shape
    rows = rows_of(log.state, log.action, log.reward, log.next_state, np.zeros(len(log), bool), A)
    found = Saddle.of(rows, OneHot(S), mdp.discount, rows.state, ridges=(1e-13, 1e-13, 1e-13)).down_the_path()
    pair, ones = log.state * A + log.action, np.ones(len(log))
    weighted, plain = (np.bincount(pair, w, S * A).reshape(S, A) for w in (found.w, ones))
    weighted[plain < 0.03 * plain.sum(axis=1, keepdims=True)] = 0.0  # hardly ever taken
    done = plain / plain.sum(axis=1, keepdims=True)
    rule = DualRule(OneHot(S), found.advantage, lambda states: done[states.numbers[:, 0].astype(int)], found.tau)
    assert rule(numbers(np.arange(S))) == pytest.approx(weighted / weighted.sum(axis=1, keepdims=True), abs=1e-6)
    assert np.abs(weighted / weighted.sum(axis=1, keepdims=True) - done).max() > 0.1


def line(n, seed):
    """A point between -2 and 2; action 2 goes right, 0 left, 1 stays; it pays to be near 1."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(-2.0, 2.0, n)
    a = rng.choice(3, n, p=[0.3, 0.4, 0.3])
    t = np.clip(s + 0.5 * (a - 1) + rng.normal(0.0, 0.1, n), -2.0, 2.0)
    return rows_of(s, a, -((s - 1.0) ** 2), t, rng.random(n) < 0.05, 3)


def test_newton_finds_the_minimum_that_another_method_finds():
    rows = line(400, 1)
    saddle = Saddle.of(rows, few, 0.9, rows.starts)
    found = saddle.down_the_path(until=0.7, tolerance=1e-12)

    def objective(theta):
        total = 0.0
        for e in saddle.e_0 - saddle.E @ theta:
            y = e / found.tau
            total += np.exp(y) - 1.0 if y < 0.0 else y + y * y / 2.0
        return 0.1 * saddle.phi_0 @ theta + found.tau * total / len(rows)

    other = minimize(objective, found.theta + 0.3, method="BFGS", options={"gtol": 1e-8})
    assert objective(found.theta) <= other.fun + 1e-9
    assert found.theta == pytest.approx(other.x, abs=1e-4)


def few(states):
    x = states.numbers[:, 0]
    return np.stack([np.ones_like(x), x, x**2], axis=1)


def test_the_weights_are_a_flow_and_the_projection_is_one():
    """At the minimum mean w (phi - alpha phi') = (1 - alpha) phi_0, as psi sees phi'; e is least squares on psi."""
    rows = line(500, 2)
    saddle = Saddle.of(rows, few, 0.9, rows.starts, ridges=(1e-12, 1e-12, 1e-12))
    found = saddle.down_the_path(tolerance=1e-14)
    x, y = few(rows.state), few(rows.next_state) * rows.live[:, None]
    psi = np.hstack([x * (rows.a == b)[:, None] for b in range(3)])
    target = np.column_stack([rows.r + 0.9 * y @ found.theta - x @ found.theta, x - 0.9 * y])
    fitted = psi @ np.linalg.lstsq(psi, target, rcond=None)[0]
    e = (few(rows.state) @ found.advantage)[np.arange(500), rows.a]
    assert e == pytest.approx(fitted[:, 0], abs=1e-6)
    assert (found.w[:, None] * fitted[:, 1:]).mean(axis=0) == pytest.approx(0.1 * saddle.phi_0, abs=1e-5)


def earned(rule, steps=60, runs=2000):
    """What a rule earns on the line, without ends, from anywhere."""
    rng = np.random.default_rng(9)
    s, total = rng.uniform(-2.0, 2.0, runs), 0.0
    for k in range(steps):
        total += (0.9 * 0.95) ** k * -((s - 1.0) ** 2).mean()
        a = rule(numbers(s)).argmax(axis=1)
        s = np.clip(s + 0.5 * (a - 1) + rng.normal(0.0, 0.1, runs), -2.0, 2.0)
    return total


def test_the_learned_rules_earn_nearly_what_the_best_does():
    """The best by hand: towards 1 in strides of a half; 90% of the way there from staying put."""

    def best(states):
        stride = np.clip(np.rint((1.0 - states.numbers[:, 0]) / 0.5), -1, 1).astype(int)
        return np.eye(3)[stride + 1]

    def stay(states):
        return np.tile([0.0, 1.0, 0.0], (len(states), 1))

    rules = learned_linear(line(3000, 3), 0.9, seed=0)
    top, still = earned(best), earned(stay)
    for name in ("linear", "iterated"):
        assert earned(rules[name]) > still + 0.9 * (top - still)


def test_the_clone_knows_how_often_each_action_is_taken():
    """Probabilities within 0.06: sampling errors are about 0.02 here, three of them."""
    rng = np.random.default_rng(4)
    s = rng.uniform(-2.0, 2.0, 4000)
    p = 1.0 / (1.0 + np.exp(-2.0 * s))
    a = (rng.random(4000) < p).astype(np.int64)
    rows = rows_of(s, a, s, s, np.zeros(4000, bool), 2)
    at = np.linspace(-1.5, 1.5, 13)
    found = clone(rows)(numbers(at))
    assert found[:, 1] == pytest.approx(1.0 / (1.0 + np.exp(-2.0 * at)), abs=0.06)
    assert found.sum(axis=1) == pytest.approx(1.0)


def test_the_clone_is_the_most_likely_one_of_all():
    """The slope of the penalised likelihood is 0 there, also along features that are nearly alike."""
    rng, n, A = np.random.default_rng(5), 3000, 3
    s = rng.uniform(-2.0, 2.0, n)
    a = (rng.random((n, 1)) > np.column_stack([0.3 + 0.1 * s, 0.7 + 0.1 * np.sin(3.0 * s)])).sum(axis=1)
    rows = rows_of(s, a, s, s, np.zeros(n, bool), A)
    found = clone(rows)
    x, W = found.phi(rows.state), found.coefficients
    likely = np.exp(x @ W) / np.exp(x @ W).sum(axis=1, keepdims=True)
    slope = x.T @ (likely - np.eye(A)[a]) + W * (np.arange(len(W)) > 0)[:, None]
    assert np.linalg.cond(x.T @ x) > 1e4
    assert np.abs(slope).max() < 1e-4 * n


def test_an_action_that_was_hardly_ever_taken_is_no_choice():
    def seldom(states):
        return np.tile([0.98, 0.02], (len(states), 1))

    def phi(states):
        return np.ones((len(states), 1))

    best = np.array([[0.0, 5.0]])
    assert LinearRule(phi, best, seldom)(numbers([1.0])).tolist() == [[1.0, 0.0]]
    assert LinearRule(phi, best, seldom, least=0.01)(numbers([1.0])).tolist() == [[0.0, 1.0]]


def test_a_vote_is_counted_state_by_state_with_the_weights():
    rng, A, n = np.random.default_rng(5), 3, 200
    tables = [rng.dirichlet(np.ones(A), n), np.eye(A)[rng.integers(A, size=n)], np.eye(A)[rng.integers(A, size=n)]]
    rules = tuple(lambda states, table=table: table for table in tables)
    found = {
        weights: VoteRule(rules, weights)(numbers(np.arange(float(n))))
        for weights in ((1.0, 1.5, 1.8), (1.0, 0.9, 0.1))
    }
    for weights, taken in found.items():
        for i in range(n):
            votes = [sum(w * table[i, a] for w, table in zip(weights, tables, strict=True)) for a in range(A)]
            assert taken[i].tolist() == [float(votes[a] == max(votes)) for a in range(A)], (i, votes)
    one, other = found.values()
    assert (one != other).any()
