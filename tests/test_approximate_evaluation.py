"""Values of rules over states of numbers: against plain loops, against the model that the rows are, and counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dualq.base import Labels, LogError, StateColumns, States
from dualq.logs import NumberRows
from dualq.offline.approximate import evaluation
from dualq.offline.approximate.evaluation import Evaluator, basis_of, evaluated, honest, judges, learned_apart
from dualq.offline.approximate.features import Features
from dualq.offline.approximate.inputs import Inputs
from dualq.offline.approximate.logged import logged
from dualq.offline.approximate.own_features import own_features
from dualq.offline.approximate.psi import Seen, chunks

ALPHA = 0.9


def numbers(x):
    return States(np.asarray(x, float).reshape(len(x), -1), np.zeros((len(x), 0), np.int64))


def walk(episodes, seed, length=12, ends=0.03):
    """A point that drifts; action 1 pushes it back, at a price; each row may be the last."""
    rng = np.random.default_rng(seed)
    x, alive, out = rng.normal(0.0, 1.0, episodes), np.ones(episodes, bool), []
    for _ in range(length):
        a = (rng.random(episodes) < likely(x)).astype(np.int64)
        y = 0.8 * x - 0.6 * a * np.sign(x) + rng.normal(0.0, 0.4, episodes)
        ended = rng.random(episodes) < ends
        out.append((x, a, -(x**2) - 0.2 * a, y, ended, alive))
        alive, x = alive & ~ended, y
    x, a, r, y, ended, alive = (np.stack(column, axis=1) for column in zip(*out, strict=True))
    episode = np.broadcast_to(np.arange(episodes)[:, None], alive.shape)[alive]
    y[ended] = np.nan  # of any value where nothing follows
    columns = StateColumns(("x",), {})
    return NumberRows(
        columns, Labels([0, 1]), numbers(x[alive]), a[alive], r[alive], numbers(y[alive]), ended[alive], episode
    )


def likely(x):
    return 0.3 + 0.4 * (np.abs(x) > 0.5)


def push_far(states):
    pushed = 0.1 + 0.8 * (np.abs(states.numbers[:, 0]) > 0.7)
    return np.stack([1.0 - pushed, pushed], axis=1)


def who_acted(states):
    pushed = likely(states.numbers[:, 0])
    return np.stack([1.0 - pushed, pushed], axis=1)


def simulated(rule, runs=60_000, ends=0.03):
    """The truth, by another simulation of the same walk."""
    rng = np.random.default_rng(7)
    x, total, weight = rng.normal(0.0, 1.0, runs), np.zeros(runs), 1.0
    while weight > 1e-6:
        a = rng.random(runs) < rule(numbers(x))[:, 1]
        total += weight * (-(x**2) - 0.2 * a)
        x = 0.8 * x - 0.6 * a * np.sign(x) + rng.normal(0.0, 0.4, runs)
        weight *= ALPHA * (1.0 - ends)
    return total.mean()


def naive(rows, rule, alpha, start, phi):
    """The module's docstring, row by row."""
    A, n = len(rows.actions), len(rows)
    D = phi(rows.state).shape[1]
    ended = rows.ended
    safe = numbers(np.where(ended, rows.state.numbers[:, 0], rows.next_state.numbers[:, 0]))

    def psi(f, pi):
        return np.concatenate([f, *(f * pi[b] for b in range(A))])

    f, f_next, f_0 = phi(rows.state), phi(safe), phi(start)
    pi_next, pi_0 = rule(safe), rule(start)
    here = [psi(f[i], np.eye(A)[rows.a[i]]) for i in range(n)]
    there = [np.zeros((A + 1) * D) if ended[i] else psi(f_next[i], pi_next[i]) for i in range(n)]
    first = [psi(f_0[i], pi_0[i]) for i in range(len(start))]
    S = sum(np.outer(h, h) for h in here) / n + np.diag([1e-9] + [1e-5] * (D - 1) + [1e-3] * (A * D))
    M = sum(np.outer(h, h - alpha * t) for h, t in zip(here, there, strict=True)) / n
    centre = 0.0 if ended.any() else rows.r.mean()
    b = sum(h * (r - centre) for h, r in zip(here, rows.r, strict=True)) / n
    H = M.T @ np.linalg.solve(S, M) + np.diag([0.0] + [1e-9] * (D - 1) + [1e-7] * (A * D))
    theta = np.linalg.solve(H, M.T @ np.linalg.solve(S, b))
    nu = np.linalg.solve(S, M @ np.linalg.solve(H, sum(first) / len(start)))
    z, mu = np.zeros(rows.clusters[-1] + 1), np.zeros(n)
    for i in range(n):
        mu[i] = here[i] @ nu
        z[rows.clusters[i]] += mu[i] * (rows.r[i] - centre + alpha * there[i] @ theta - here[i] @ theta) / n
    v_0 = np.array([p @ theta for p in first]) + centre / (1.0 - alpha)
    K, N = z.size, len(start)
    e = np.sqrt(((z - z.mean()) ** 2).sum() * K / (K - 1) + ((v_0 - v_0.mean()) ** 2).sum() / (N - 1) / N)
    size = mu.sum() ** 2 / (n * (mu**2).sum())
    return v_0.mean() + z.sum(), e, size


@pytest.mark.parametrize("ends", [0.03, 0.0])
def test_equal_to_plain_loops(ends):
    rows = walk(50, 1, ends=ends)
    phi = own_features(lambda table: np.stack([table["x"], np.abs(table["x"])], axis=1), rows)
    found = Evaluator.of(rows, ALPHA, rows.starts, phi=phi).weighed(push_far).earning(rows.r)
    assert (found.value, found.error, found.effective_size) == pytest.approx(
        naive(rows, push_far, ALPHA, rows.starts, phi), rel=1e-9
    )


def test_many_rows_are_read_some_at_a_time(monkeypatch):
    rows = walk(60, 2)
    whole = evaluated(rows, push_far, ALPHA, rows.starts)
    monkeypatch.setattr("dualq.offline.approximate.psi.CHUNK", 17)
    parts = evaluated(rows, push_far, ALPHA, rows.starts)
    assert (parts.value, parts.error) == pytest.approx((whole.value, whole.error), rel=1e-9)


# ---- a finite problem: the rows are a model, and the rule has one value in it


def finite(n, seed, end):
    """States 0..3 as numbers, 3 actions, rows one after another; the empirical model beside them."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), (4, 3))
    s, a = rng.integers(4, size=n), rng.integers(3, size=n)
    t = np.array([rng.choice(4, p=P[i, j]) for i, j in zip(s, a, strict=True)])
    ended = rng.random(n) < end
    r = rng.normal(s - a, 1.0)
    columns = StateColumns(("s",), {})
    rows = NumberRows(columns, Labels([0, 1, 2]), numbers(s), a, r, numbers(t), ended, np.arange(n) // 10)
    return rows, s, a, t


def one_hot(states):
    hot = states.numbers == np.arange(4)
    hot[:, 0] = True  # the intercept
    return hot.astype(float)


@pytest.mark.parametrize("end", [0.1, 0.0])
def test_with_one_feature_per_state_the_value_is_that_of_the_empirical_model(end):
    rows, s, a, t = finite(600, 3, end)
    table = np.random.default_rng(4).dirichlet(np.ones(3), 4)
    P, R, count = np.zeros((4, 3, 4)), np.zeros((4, 3)), np.zeros((4, 3))
    for i in range(600):
        count[s[i], a[i]] += 1
        R[s[i], a[i]] += rows.r[i]
        P[s[i], a[i], t[i]] += not rows.ended[i]
    P_pi = np.einsum("sa,sat->st", table, P / count[:, :, None])
    V = np.linalg.solve(np.eye(4) - ALPHA * P_pi, (table * R / count).sum(axis=1))
    start = numbers([0, 0, 1, 3])
    by = Evaluator.of(rows, ALPHA, start, phi=one_hot).weighed(lambda x: table[x.numbers[:, 0].astype(int)])
    found = by.earning(rows.r)
    assert found.value == pytest.approx(V[[0, 0, 1, 3]].mean(), abs=1e-8)
    assert found.start_values == pytest.approx(V[[0, 0, 1, 3]], abs=1e-4)


def test_a_cost_takes_the_factors_of_the_reward():
    rows = walk(60, 5)
    cost = np.abs(rows.state.numbers[:, 0])
    weighed = Evaluator.of(rows, ALPHA, rows.starts).weighed(push_far)
    afresh = evaluated(rows.earning(cost), push_far, ALPHA, rows.starts)
    found = weighed.earning(cost)
    assert (found.value, found.error) == pytest.approx((afresh.value, afresh.error), rel=1e-12)


# ---- how often the truth lies within two errors


def within_two_errors(rule, logs):
    truth = simulated(rule)
    found = [evaluated(rows := walk(80, seed), rule, ALPHA, rows.starts, seed) for seed in range(logs)]
    return sum(abs(one.value - truth) <= 2.0 * one.error for one in found), found


@pytest.mark.parametrize("rule", [push_far, who_acted])
def test_the_truth_is_within_two_errors(rule):
    """Where 92 of 100 are, fewer than 28 of 40 are within two errors once in 100,000."""
    held, found = within_two_errors(rule, 40)
    assert held >= 28
    errors = [one.error for one in found]
    assert np.std([one.value for one in found]) == pytest.approx(np.mean(errors), rel=0.5)


def always(states):
    return np.tile([0.0, 1.0], (len(states), 1))


def never(states):
    return np.tile([1.0, 0.0], (len(states), 1))


@pytest.mark.parametrize("cut", [0.3, 0.5])
def test_a_rule_that_goes_where_the_log_never_was_is_not_covered(cut):
    """Rows that pushed from far out are taken away: rules that push there are not covered, one that never does is."""
    rows = walk(300, 3)
    rows = rows.at((rows.a == 0) | (np.abs(rows.state.numbers[:, 0]) < cut))
    covered = [evaluated(rows, rule, ALPHA, rows.starts).covered for rule in (always, who_acted, never)]
    assert covered == [False, False, True]
    whole = walk(300, 3)
    assert all(evaluated(whole, rule, ALPHA, whole.starts).covered for rule in (always, who_acted, never))


def test_rows_may_begin_within_an_episode():
    """The rows of an episode whose head is missing are a cluster like any other."""
    rows = walk(60, 4)
    clusters = rows.at(np.arange(2, len(rows))).clusters
    assert clusters[0] == 0
    assert clusters[-1] == 59


def test_no_error_where_the_features_do_not_carry_the_values(monkeypatch):
    rows = walk(200, 5)
    found = evaluated(rows, push_far, ALPHA, rows.starts)
    monkeypatch.setattr(evaluation, "held_out_r2", lambda *_: 0.06)
    assert found.standard_error is None
    monkeypatch.setattr(evaluation, "held_out_r2", lambda *_: 0.04)
    again = evaluated(rows, push_far, ALPHA, rows.starts)
    assert again.standard_error == again.error == found.error
    monkeypatch.setattr(evaluation, "MANY_ROWS", len(rows) // 2)  # twice as many rows bear half as much
    assert evaluated(rows, push_far, ALPHA, rows.starts).standard_error is None


def test_features_that_bend_too_little_are_told_from_a_state_that_misses_something():
    """Rewards that jump with the state, and rewards that a hidden mood decides, which the row before shows."""
    rows = walk(300, 6)
    rng, mood = np.random.default_rng(0), np.zeros(len(rows))
    for i in range(len(rows)):
        mood[i] = rng.normal() + (0.0 if rows.first[i] else 0.9 * mood[i - 1])
    jumps = np.sign(np.sin(12.0 * rows.state.numbers[:, 0]))
    for r, bent in ((jumps, True), (mood, False)):
        found = evaluated(rows.earning(r), push_far, ALPHA, rows.starts)
        assert found.misfit > 0.15
        assert found.bent is bent


# ---- what the log earned


def test_what_the_log_earned_is_the_mean_of_its_returns():
    rows = walk(50, 8, ends=1.0 / 3.0, length=40)
    assert rows.ended.sum() == 50  # nothing is left to fill in
    G = np.zeros(50)
    for e in range(50):
        mine = rows.r[rows.episode == e]
        G[e] = sum(ALPHA**t * r for t, r in enumerate(mine))
    found = logged(rows, ALPHA, rows.starts)
    assert found.value == pytest.approx(G.mean(), rel=1e-9)
    assert found.filled == 0.0
    assert found.standard_error == pytest.approx(G.std(ddof=1) / np.sqrt(50), rel=0.35)


def test_where_recordings_stop_the_rest_is_filled_in():
    """12 rows of a walk without an end: 0.9^12 = 28% of the weight. A false alarm at 4 errors: once in 10,000."""
    rows = walk(300, 9, ends=0.0)
    found, truth = logged(rows, ALPHA, rows.starts), simulated(who_acted, ends=0.0)
    assert found.filled == pytest.approx(ALPHA**12)
    assert abs(found.value - truth) <= 4.0 * found.standard_error
    cut = rows.at(np.flatnonzero(np.arange(len(rows)) % 12 != 6))  # a row is missing: the sum stops before it
    assert logged(cut, ALPHA, cut.starts).filled == pytest.approx(ALPHA**6)


def test_one_long_recording_is_worth_what_it_pays_per_step():
    """From the states of the log itself, r / (1 - alpha) on average. Four errors: once in 10,000."""
    rows = walk(1, 10, length=3000, ends=0.0)
    found = logged(replace(rows, has_episodes=False), ALPHA, rows.state)
    assert found.filled == 1.0
    assert abs(found.value - rows.r.mean() / (1.0 - ALPHA)) <= 4.0 * found.standard_error
    assert found.standard_error < 0.1 * abs(found.value)


def test_the_difference_from_the_log_has_an_error_of_its_own():
    """A rule that does what the log did differs from it by nothing; the error of that is small."""
    rows = walk(200, 11)
    mine, theirs = evaluated(rows, who_acted, ALPHA, rows.starts), logged(rows, ALPHA, rows.starts)
    error = mine.error_of_difference(theirs.evaluation)
    assert error < 0.7 * mine.error
    assert abs(mine.value - theirs.value) <= 4.0 * error


# ---- against the luck of choosing


def test_rules_that_were_chosen_by_luck_are_not_praised_for_it():
    """The best of many rules that are alike but for noise: praised by its own rows, not by the other half."""

    def luckiest(rows, discount, seed):
        rng = np.random.default_rng(0)
        weighing = Evaluator.of(rows, discount, rows.starts, seed)
        cuts = rng.normal(0.0, 1.0, (25, 2))
        rules = [noisy(cut) for cut in cuts]
        return {"best": max(rules, key=lambda rule: weighing.weighed(rule).earning(rows.r).value)}

    above_full, above_honest, held = 0.0, 0.0, 0
    for seed in range(8):
        rows = walk(60, seed)
        rows = rows.earning(np.random.default_rng(seed).normal(0.0, 1.0, len(rows)))  # every rule is worth 0
        learned = learned_apart(rows, luckiest, ALPHA, seed)["best"]
        found = honest(learned, judges(rows, ALPHA, rows.starts, seed))
        above_full += found.full.value / 8
        above_honest += found.value / 8
        held += abs(found.value) <= 2.0 * found.error
        assert found.start_values.mean() + found.z.sum() == pytest.approx(found.value, abs=1e-9)
    assert above_full > 0.0
    assert above_honest < 0.75 * above_full
    assert held >= 6  # where 95 of 100 hold, fewer do once in 170


def noisy(cut):
    def rule(states):
        pushed = 0.5 + 0.4 * np.sign(np.sin(3.0 * states.numbers[:, 0] * cut[0] + cut[1]))
        return np.stack([1.0 - pushed, pushed], axis=1)

    return rule


# ---- features


def test_features_are_the_plain_ones_and_cosines():
    rows = walk(50, 1)
    phi = Features.of(rows, 30, seed=3)
    x = phi(rows.state)
    z = Inputs.of(rows)(rows.state)
    assert x.shape[1] == 30
    assert (x[:, 0] == 1.0).all()
    assert np.array_equal(x[:, 1:2], z)
    for i in (0, 7):
        for j in (0, 20):
            assert x[i, 2 + j] == pytest.approx(np.sqrt(2.0) * np.cos(z[i] @ phi.weights[:, j] + phi.phases[j]))
    assert np.array_equal(x, Features.of(rows, 30, seed=3)(rows.state))
    assert not np.array_equal(x, Features.of(rows, 30, seed=4)(rows.state))


class Squares:
    """As scikit-learn would have it."""

    def fit(self, X, y=None):
        self.top = np.abs(X).max()
        return self

    def transform(self, X):
        return np.hstack([X, X**2]) / self.top


def test_the_users_own_features_are_scaled_with_a_one_in_front():
    rows = walk(50, 1)
    x = rows.state.numbers[:, 0]
    by_hand = np.stack([np.ones_like(x), (x - x.mean()) / x.std(), (x**2 - (x**2).mean()) / (x**2).std()], axis=1)
    for own in (Squares(), lambda table: np.stack([table["x"], table["x"] ** 2], axis=1)):
        assert own_features(own, rows)(rows.state) == pytest.approx(by_hand)


def test_labels_reach_the_users_function_as_labels():
    columns = StateColumns(("x", "shift"), {"shift": ("day", "night")})
    states = States(np.array([[1.0], [2.0], [3.0]]), np.array([[0], [1], [-1]]))
    rows = replace(walk(1, 1).at(np.arange(3)), columns=columns, state=states, next_state=states)
    seen = {}
    own_features(lambda table: seen.update(table) or np.zeros(3), rows)
    assert list(seen) == ["x", "shift"]
    assert seen["shift"].tolist() == ["day", "night", None]


def test_too_few_rows_are_said_to_be():
    rows = walk(5, 1)
    with pytest.raises(LogError, match="1 row and 5 start states: too few"):
        evaluated(rows.at(np.arange(1)), push_far, ALPHA, rows.starts)


def test_cosines_of_single_precision_value_alike():
    """To six digits each; what follows from them, to four."""
    rows = walk(400, 3)
    phi = basis_of(rows)
    np.testing.assert_allclose(phi.quickly(rows.state), phi(rows.state), rtol=0.0, atol=2e-6)
    quick, exact = (
        Evaluator.of(rows, ALPHA, rows.starts, phi=one).weighed(push_far).earning(rows.r) for one in (None, phi)
    )
    assert (quick.value, quick.error, quick.effective_size) == pytest.approx(
        (exact.value, exact.error, exact.effective_size), rel=1e-4
    )


def test_features_that_are_held_are_those_that_are_made(monkeypatch):
    """In several pieces, single precision beside double."""
    monkeypatch.setattr("dualq.offline.approximate.psi.CHUNK", 64)
    rows = walk(30, 3)
    phi = basis_of(rows)
    for made in (phi, phi.quickly):
        seen = Seen(made, rows.state)
        pieces = list(chunks(len(rows)))
        assert len(pieces) > 1
        assert all(np.array_equal(seen.at(at), made(rows.state.at(at))) for at in pieces)
