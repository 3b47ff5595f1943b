"""Careful models: a plain twin of pooling and penalty, what must hold on any log, and what must hold on average."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dualq
from dualq import problems, solve
from dualq.app.report.evaluation_words import verdict as evaluation_verdict
from dualq.app.report.words import verdict
from dualq.base.errors import LogError
from dualq.logs.counts import Counts
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.offline.careful import pooling
from dualq.offline.careful import selection_bias as luck
from dualq.offline.careful.model import careful_model
from dualq.offline.careful.pooling import GRID


@st.composite
def logs(draw, closed: bool = False):
    """Small logs: rows (s, a, r, s', ended). Closed: every state that a row leads to is left by some row."""
    S, A = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    place, action = st.integers(0, S - 1), st.integers(0, A - 1)
    row = st.tuples(place, action, st.integers(-4, 4).map(lambda r: r / 2.0), place, st.booleans())
    rows = draw(st.lists(row, min_size=1, max_size=30))
    if closed:
        rows += [(s, draw(action), 0.5, 0, False) for s in range(S)]
    return rows, S, A


def counted(rows, S, A) -> Counts:
    return Counts.from_arrays(*map(list, zip(*rows, strict=True)), states=S, actions=A)


# ---- the twin: plain loops over rows, written from the formulas


def twin(rows, S, A, V, discount, z, k_scale):
    """{(s, a): (w, sigma2, penalty)} by the docstring, row by row."""
    y: dict = {}
    for s, a, r, t, ended in rows:
        y.setdefault(s, {}).setdefault(a, []).append(r + discount * (0.0 if ended else V[t]))
    mean = {s: {a: sum(v) / len(v) for a, v in by.items()} for s, by in y.items()}
    inside = {s: {a: sum((x - mean[s][a]) ** 2 for x in v) for a, v in by.items()} for s, by in y.items()}
    total = {s: sum(len(v) for v in by.values()) for s, by in y.items()}
    centre = {s: sum(sum(v) for v in by.values()) / total[s] for s, by in y.items()}
    around = {s: sum((x - centre[s]) ** 2 for v in by.values() for x in v) for s, by in y.items()}

    def likelihood(s, k):
        p = {a: len(v) * k / (len(v) + k) for a, v in y[s].items()}
        m = sum(p[a] * mean[s][a] for a in p) / sum(p.values())
        squares = sum(inside[s].values()) + sum(p[a] * (mean[s][a] - m) ** 2 for a in p)
        return 0.5 * (sum(map(math.log, p.values())) - math.log(sum(p.values())) - (total[s] - 1) * math.log(squares))

    told = [s for s in y if len(y[s]) > 1 and total[s] > len(y[s]) and around[s] > 1e-20]
    prior = [1.0 / len(GRID)] * len(GRID)
    posterior = dict.fromkeys(y, prior)
    for _ in range(pooling.EM_STEPS):
        for s in y:
            logs_ = [likelihood(s, k) if s in told else 0.0 for k in GRID]
            parts = [math.exp(x - max(logs_)) * q for x, q in zip(logs_, prior, strict=True)]
            posterior[s] = [part / sum(parts) for part in parts]
        doubt = 1.0 / len(GRID)
        prior = [(sum(posterior[s][g] for s in told) + doubt) / (len(told) + 1) for g in range(len(GRID))]

    spare = {s: total[s] - len(y[s]) for s in y}
    variance = {s: around[s] / max(total[s] - 1, 1) for s in y}
    everything = sum(variance[s] * spare[s] for s in y)
    if everything > 0:
        noise = min(1.0, sum(sum(inside[s].values()) for s in y if spare[s] > 0) / everything)
    else:
        noise = 0.0 if any(spare.values()) else 1.0
    K, everywhere = alike(y, mean, spare)

    def sigma2(s, a, w):
        one = noise * variance[s] if total[s] > 1 else everywhere
        state = (sum(inside[s].values()) + one + K * everywhere) / (spare[s] + 1 + K)
        return w * (inside[s][a] + state) / len(y[s][a]) + (1 - w) * state

    answer: dict = {}
    for s in y:
        doubts = {}
        for a, values in y[s].items():
            n = len(values)
            w = sum(q * n / (n + k_scale * k) for q, k in zip(posterior[s], GRID, strict=True))
            if len(y[s]) == 1:
                w = 1.0
            apart = abs(mean[s][a] - centre[s])
            everything_here = [x for v in y[s].values() for x in v]
            bound, error = (max(everything_here) - min(everything_here)) / (6 * n), math.sqrt(sigma2(s, a, w) / n)
            t = stands_out(apart, error, bound)
            k = n * (1 / w - 1) / (1 + (t / 2) ** 4)
            w = n / (n + k)
            missing = 1 / (n + k) - 1 / (total[s] + k)
            spread = max(values) - min(values)
            doubts[a] = z * math.sqrt(sigma2(s, a, w) * missing) + z**2 / 6 * spread * missing
            answer[s, a] = (w, sigma2(s, a, w))
        for a in doubts:
            answer[s, a] += (doubts[a] - min(doubts.values()),)
    return answer


def alike(y, mean, spare):
    """K and the log's variance, by the moments of squares z = (y - mean)^2 as in Buehlmann and Straub."""
    z = {s: [(x - mean[s][a]) ** 2 for a, v in by.items() for x in v] for s, by in y.items() if spare[s] > 0}
    F, J = sum(spare[s] for s in z), len(z)
    total = sum(map(sum, z.values()))
    if total <= 1e-20:
        return 1.0, 0.0
    W, bar = total / F, {s: sum(v) / spare[s] for s, v in z.items()}
    inside = sum(sum(x**2 for x in v) - spare[s] * bar[s] ** 2 for s, v in z.items())
    inside = max(inside, 0.0) / max(F - J, 1)
    between = sum(spare[s] * (bar[s] - W) ** 2 for s in z) - (J - 1) * inside
    between /= max(F - sum(spare[s] ** 2 for s in z) / F, 1)
    return (min(max(inside / between, 1.0), 1e4) if between > inside / 1e4 else 1e4), W


def stands_out(apart, error, bound):
    """t with  error t + bound t^2 = apart,  by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if error * middle + bound * middle**2 < apart else (low, middle)
    return (low + high) / 2


@settings(max_examples=60, deadline=None)
@given(logs(), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 10**6))
def test_pooling_and_penalty_are_those_of_the_formulas(log, strength, seed):
    # One reward per successor, so that the spread of rows is the spread of what counts keep.
    rows, S, A = log
    rows = [(s, a, float(s - 2 * a + t), t, ended and t == 0) for s, a, _, t, ended in rows]
    rows = [(s, a, r, t, e or ((s, a, t) in {(x[0], x[1], x[3]) for x in rows if x[4]})) for s, a, r, t, e in rows]
    V = np.round(np.random.default_rng(seed).normal(size=S + 1), 2)
    table = pooling.Rows.of(counted(rows, S, A), 0.9)
    V = np.append(V[:S], 0.0)[: table.total.size]  # (end) is worth nothing
    moments = table.moments(V)
    w = pooling.pooling_shares(table, moments, strength)
    sigma2 = pooling.row_variance(table, moments, w)
    penalty = pooling.bernstein_penalty(table.n, table.total, w, sigma2, moments.spread, strength)
    expected = twin(rows, S, A, V, 0.9, strength, strength)
    for s, a in np.argwhere(table.supported):
        ours = w[s, a], sigma2[s, a], penalty[s, a]
        assert ours == pytest.approx(expected[s, a], rel=1e-6, abs=1e-7)
    assert not penalty[~table.supported].any()


def test_the_pooled_model_is_the_mixture():
    rows = [(0, 0, 1.0, 0, False), (0, 0, 0.0, 1, False), (0, 1, 4.0, 1, False), (1, 0, 0.0, 0, False)]
    table = pooling.Rows.of(counted(rows, 2, 2), 0.9)
    w, tilt = np.array([[0.5, 0.25], [1.0, 0.0]]), np.array([[0.0, 0.2], [0.3, 0.0]])
    mdp = table.pooled_model(pooling.Lean(w, tilt, np.array([[1, 0], [0, 0]])), 0.0)
    P = mdp.transitions.toarray().reshape(2, 2, 2)
    average, mean_reward = np.array([1.0, 2.0]) / 3.0, 5.0 / 3.0
    other, other_reward = np.array([0.5, 0.5]), 0.5
    assert P[0, 0] == pytest.approx(0.5 * other + 0.5 * average)
    assert P[0, 1] == pytest.approx(0.25 * np.array([0.0, 1.0]) + 0.75 * (0.8 * average + 0.2 * other))
    tilted = 1.0 + 0.75 * (0.8 * mean_reward + 0.2 * other_reward)
    assert mdp.rewards[0] == pytest.approx([0.25 + 0.5 * mean_reward, tilted])
    assert P[1, 0] == pytest.approx([1.0, 0.0])
    assert not mdp.available[1, 1]


def mixed_model(v, mean, t):
    """Effects of actions, normal with variance t, and the restricted likelihood: y = m_s + e_a + noise, dense solves.

    v is {(s, a): precision of the mean}; m_s is free.
    """
    pairs = sorted(v)
    states, A = sorted({s for s, _ in pairs}), 1 + max(a for _, a in pairs)
    X = np.array([[float(s == x) for x in states] for s, _ in pairs])
    Z = np.array([[float(a == x) for x in range(A)] for _, a in pairs])
    y, noise = np.array([mean[pair] for pair in pairs]), np.diag([1.0 / v[pair] for pair in pairs])
    inverse = np.linalg.inv(noise + t * Z @ Z.T)
    fixed = X.T @ inverse @ X
    project = inverse - inverse @ X @ np.linalg.inv(fixed) @ X.T @ inverse
    likelihood = np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(fixed)[1] - y @ project @ y
    return t * Z.T @ project @ y, 0.5 * likelihood


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(0, 10**6))
def test_what_pairs_lean_on_is_that_of_a_mixed_model(log, seed):
    rows, S, A = log
    rng = np.random.default_rng(seed)
    table = pooling.Rows.of(counted([(s, a, r + rng.normal(), t, e) for s, a, r, t, e in rows], S, A), 0.9)
    V = np.append(rng.normal(size=S), 0.0)[: table.total.size]
    moments = table.moments(V)
    w, sigma2 = rng.uniform(0.05, 0.95, table.n.shape), rng.uniform(0.5, 2.0, table.n.shape)
    pairs = list(map(tuple, np.argwhere(table.supported)))
    thin = sum((1 - w[p]) * w[p] for p in pairs) / sum((1 - w[p]) ** 2 * table.n[p] / sigma2[p] for p in pairs)
    own, beyond, likelihoods = [], [], []
    for q in pooling.PARTS:
        k = {p: table.n[p] * (1 / w[p] - 1) / (1 - q) for p in pairs}  # of what is left to the pair itself
        v = {p: 1 / (sigma2[p] / table.n[p] + sigma2[p] / k[p]) for p in pairs}
        effects, likelihood = mixed_model(v, moments.mean, q * thin)
        usual = {s: sum(table.habit[s, a] * effects[a] for x, a in pairs if x == s) for s, _ in pairs}
        own.append({p: table.n[p] / (table.n[p] + k[p]) for p in pairs})
        beyond.append({p: (1 - own[-1][p]) * (effects[p[1]] - usual[p[0]]) for p in pairs})
        likelihoods.append(likelihood)
    chances = np.exp(np.array(likelihoods) - max(likelihoods))
    chances /= chances.sum()

    lean = pooling.leaning(table, moments, w, sigma2)
    Q = table.pooled_model(lean, 0.0).q_values(V)
    for p in pairs:
        there = [moments.mean[x] for x in pairs if x[0] == p[0]]
        mine = sum(c * x[p] for c, x in zip(chances, own, strict=True))
        rest = sum(c * x[p] for c, x in zip(chances, beyond, strict=True)) / (1 - mine)
        usual = sum(table.habit[x] * moments.mean[x] for x in pairs if x[0] == p[0])
        # Never beyond what the state's own pairs have shown.
        leant = min(max(usual + rest, min(there)), max(there))
        assert lean.own[p] == pytest.approx(mine, abs=1e-9)
        assert Q[p] == pytest.approx(mine * moments.mean[p] + (1 - mine) * leant, abs=1e-8)


# ---- what holds on any log


@settings(max_examples=60, deadline=None)
@given(logs(), st.sampled_from([0.0, 0.5, 0.95]))
def test_without_pessimism_it_is_the_plug_in(log, discount):
    counts = counted(*log)
    plain = counts.mdp(discount)
    careful = careful_model(counts, discount, pessimism=0)
    assert np.array_equal(careful.mdp.rewards, plain.rewards)
    assert (careful.mdp.transitions != plain.transitions).nnz == 0
    assert not careful.penalty.any()
    exact = solve(plain)
    assert pytest.approx(exact.V, abs=1e-6) == careful.V
    assert np.array_equal(careful.policy.matrix, exact.primal_policy.matrix)


@settings(max_examples=60, deadline=None)
@given(logs(closed=True), st.sampled_from([0.0, 0.5, 0.95]), st.sampled_from([0.25, 1.0, 3.0]))
def test_it_promises_no_more_than_the_plug_in(log, discount, strength):
    counts = counted(*log)
    careful = careful_model(counts, discount, pessimism=strength)
    assert (careful.penalty >= 0.0).all()
    assert (careful.V <= solve(counts.mdp(discount)).V + 1e-6).all()
    assert careful.careful <= careful.claimed + 1e-6
    between = sorted([careful.logged.value, careful.claimed])
    assert between[0] - 1e-9 <= careful.expected.value <= between[1] + 1e-9
    # The policy is optimal in the model that is reported, and takes logged actions only.
    assert careful.policy.value(careful.mdp) == pytest.approx(solve(careful.mdp).V, abs=1e-5)
    S = counts.shape[0]
    assert not (careful.policy.matrix[:S] > 0.0)[counts.visits == 0].any()


@settings(max_examples=40, deadline=None)
@given(logs(), st.randoms(use_true_random=False))
def test_names_of_states_and_actions_do_not_matter(log, random):
    rows, S, A = log
    to_s, to_a = random.sample(range(S), S), random.sample(range(A), A)
    moved = [(to_s[s], to_a[a], r, to_s[t], ended) for s, a, r, t, ended in rows]
    one, other = (careful_model(counted(r, S, A), 0.9) for r in (rows, moved))
    assert other.V[to_s] == pytest.approx(one.V[:S], abs=1e-5)
    assert other.penalty[np.ix_(to_s, to_a)] == pytest.approx(one.penalty[:S], abs=1e-5)
    assert other.claimed == pytest.approx(one.claimed, abs=1e-4)
    assert other.logged.value == pytest.approx(one.logged.value, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(2, 5), st.integers(0, 10**6))
def test_the_same_rows_again_leave_less_doubt(log, times, seed):
    """With V and w held: every row seen several times lowers the doubt of every pair (the excess over the least may
    grow where pairs are told apart, so it is the doubt that is compared)."""
    rows, S, A = log

    def doubt(rows_):
        table = pooling.Rows.of(counted(rows_, S, A), 0.9)
        V = np.random.default_rng(seed).normal(size=S + 1)[: table.total.size]
        moments, w = table.moments(V), table.supported.astype(float)
        sigma2 = pooling.row_variance(table, moments, w)
        alone = np.stack([np.where(table.supported, table.n, 1.0), np.full(table.n.shape, 1e12)], axis=-1)
        # Beside an action that is known perfectly, the excess is the doubt itself.
        shape = (-1, 2)
        total = alone.reshape(shape).sum(axis=1)
        pad = np.zeros(table.n.size)
        both = [np.stack([x.ravel(), pad], axis=1) for x in (sigma2, moments.spread)]
        return pooling.bernstein_penalty(alone.reshape(shape), total, np.ones((table.n.size, 2)), *both, 1.0)[:, 0]

    assert (doubt(rows * times) <= doubt(rows) * (1 + 1e-9) + 1e-12).all()


def test_a_log_that_always_does_the_same_is_taken_at_its_word():
    # A walk on a line: each pair three times, always the same; action 1 goes right, the last state pays.
    rows = [(s, a, float(s == 3), min(s + 1, 3) if a else max(s - 1, 0), False) for s in range(4) for a in range(2)] * 3
    counts, more = counted(rows, 4, 2), counted(rows * 100, 4, 2)
    careful, plain = careful_model(counts, 0.9), solve(counts.mdp(0.9))
    assert careful.penalty == pytest.approx(0.0, abs=1e-9)
    assert pytest.approx(plain.V, abs=1e-4) == careful.V
    assert np.array_equal(careful.policy.matrix, plain.primal_policy.matrix)
    assert careful.reliability == pytest.approx(1.0)  # what one half chose for, the other finds to the last digit
    assert careful.expected.value == pytest.approx(careful.claimed)
    # What was never seen may still happen, once in as many rows as there are.
    assert 0.0 < 50.0 * careful_model(more, 0.9).expected.standard_error < careful.expected.standard_error


def test_one_state_and_one_action():
    counts = counted([(0, 0, 1.0, 0, False), (0, 0, 3.0, 0, False)], 1, 1)
    careful = careful_model(counts, 0.5)
    assert careful.penalty == pytest.approx(0.0)
    assert careful.expected.value == pytest.approx(4.0)
    # The mean of two rows of variance 2, discounted visits 2; and in 2 rows of 2 something unseen, rewards differ by 2.
    # How much rows scatter is known with one degree of freedom: Student's t is Cauchy's, whose quantiles are a tangent.
    few = math.tan(0.475 * math.pi) / NormalDist().inv_cdf(0.975)
    error = few * math.hypot(2.0 * math.sqrt(2.0 / 2.0), 2.0 * 2.0 / 2.0)
    assert careful.expected.standard_error == pytest.approx(error)


@pytest.mark.parametrize("rows", [3, 5])
def test_two_errors_hold_though_rows_are_few(rows):
    """Of the mean of a few normal rows, drawn again and again; the errors of many rows would hold in 82% of three."""
    rng, held = np.random.default_rng(rows), 0
    for drawn in rng.normal(size=(400, rows)):
        found = careful_model(counted([(0, 0, r, 0, True) for r in drawn], 1, 1), 0.0).logged
        held += abs(found.value) <= 1.96 * found.standard_error
    assert held / 400 >= 0.935  # of 95% or more: less than two deviations


def test_many_rows_have_the_error_that_they_always_had():
    drawn = np.random.default_rng(0).normal(size=1_000)
    found = careful_model(counted([(0, 0, r, 0, True) for r in drawn], 1, 1), 0.0).logged
    error = math.hypot(drawn.std(ddof=1) / math.sqrt(1_000), np.ptp(drawn) / 1_000)
    assert found.standard_error == pytest.approx(error, rel=2e-3)


@pytest.mark.parametrize("rows", [1, 3, 300])
def test_rows_that_all_earned_the_same_do_not_tell_how_much_others_may_differ(rows):
    table = {"s": ["x"] * rows, "a": ["go", "stay", "go"] * (rows // 3) or ["go"], "r": [5.0] * rows}
    columns = {"state": "s", "action": "a", "reward": "r", "terminal": "row", "discount": 0.0}
    fit = dualq.learn(table, **columns, certificate=None)
    judged = dualq.evaluate(table, {"x": "go"}, **columns, certificate=None)
    for found in (fit.expected, fit.logged, judged.expected, judged.logged):
        assert (found.value, found.standard_error) == (pytest.approx(5.0), None)
    assert judged.difference.standard_error is None
    for page in (verdict(fit), evaluation_verdict(judged)):
        assert "No error can be given: all rows earned the same" in page
    again = dualq.learn({**table, "r": [5.0] * rows}, **columns, certificate=None, reward_range=(0.0, 10.0))
    assert (again.expected.standard_error is None) == (rows == 1)  # what they can differ by is known, and is added


def test_a_lucky_row_does_not_carry_the_day():
    # In state 0, action 0 paid 1 on half of 400 rows; action 1 paid 1 on its only row. All states lead back.
    rows = [(0, 0, float(i % 2), 0, False) for i in range(400)] + [(0, 1, 1.0, 0, False)]
    counts = counted(rows, 1, 2)
    assert careful_model(counts, 0.9, pessimism=0).policy.act(0) == 1
    careful = careful_model(counts, 0.9)
    assert careful.policy.act(0) == 0
    assert careful.expected.value == pytest.approx(5.0, abs=0.1)


def test_states_where_the_log_never_was_follow_its_habits_and_are_average():
    rows = [(0, 0, 1.0, 0, False), (0, 0, 1.0, 1, False), (0, 1, 0.0, 0, False), (0, 1, 0.0, 0, False)]
    careful = careful_model(counted(rows, 3, 2), 0.5)
    for policy in (careful.policy, careful.behaviour):
        assert policy.matrix[1] == pytest.approx([0.5, 0.5])
        assert policy.undecided.tolist() == [False, True, True]
    assert careful.V[1] == pytest.approx(careful.V[0], abs=1e-3)


def test_a_choice_that_is_never_met_changes_nothing():
    # From state 0 nobody comes to state 1, where both halves of the rows like action 1.
    rows = [(0, 0, float(i % 2), 0, False) for i in range(40)]
    rows += [(1, i % 2, float(i % 2), 1, False) for i in range(40)]
    careful = careful_model(counted(rows, 2, 2), 0.9, [1.0, 0.0])
    assert careful.policy.act(1) == 1
    assert careful.expected.value == pytest.approx(careful.logged.value, rel=1e-9) == pytest.approx(5.0)
    assert math.isfinite(careful.expected.standard_error)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_states_never_left_are_worth_the_average_they_are_part_of(discount):
    # Every row pays 1 and leads where nobody ever was: by the rule, all is worth 1 / (1 - discount).
    rows = [(i % 2, i % 3, 1.0, 2 + i % 3, False) for i in range(60)]
    careful = careful_model(counted(rows, 5, 3), discount)
    assert careful.logged.value == pytest.approx(1.0 / (1.0 - discount), rel=1e-4)
    assert careful.expected.value == pytest.approx(1.0 / (1.0 - discount), rel=1e-4)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_of_the_reward_does_not_matter(unit):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 600)
    r = np.array([0.0, 0.5, 1.0])[a] + 0.1 * rng.normal(size=600)
    careful = careful_model(Counts.from_arrays(0 * a, a, unit * r, 0 * a, states=1, actions=3), 0.9)
    assert careful.policy.act(0) == 2
    assert careful.expected.value / unit == pytest.approx(10.0, abs=0.2)


def test_what_is_refused():
    counts = counted([(0, 0, 1.0, 0, False)], 1, 1)
    with pytest.raises(LogError, match="pessimism is -1"):
        careful_model(counts, 0.9, pessimism=-1)
    with pytest.raises(LogError, match=r"start: the weights have shape \(2,\)"):
        careful_model(counts, 0.9, [1.0, 2.0])
    with pytest.raises(LogError, match="start: all weights are zero"):
        careful_model(counts, 0.9, [0.0])
    with pytest.raises(LogError, match="no rows"):
        careful_model(Counts.from_arrays([], [], [], [], states=1, actions=1), 0.9)


# ---- what holds on average


def test_an_action_that_is_better_everywhere_is_found_in_thin_states():
    """300 states, three rows each, four actions that pay 1 in half of the rows, the last one in .6 of them. A state's
    own rows lead to the last action in 28% of the states (deviation 2.3% over 100 other logs), which all others of the
    log tell to be better: 36% (6%; at most 58% have logged it). Below 31% on average of 20 logs would be a false alarm
    with probability < 1e-3."""
    rng, s, share = np.random.default_rng(6), np.repeat(np.arange(300), 3), 0.0
    for _ in range(20):
        a = rng.integers(0, 4, 900)
        r = (rng.random(900) < 0.5 + 0.1 * (a == 3)).astype(float)
        counts = Counts.from_arrays(s, a, r, s, np.ones(900, bool), states=300, actions=4, reward_range=(0.0, 1.0))
        share += careful_model(counts, 0.0).policy.matrix[:300, 3].mean() / 20
    assert share >= 0.31


@pytest.mark.parametrize(("logs", "least", "most"), [(60, 49, 60), pytest.param(200, 176, 199, marks=pytest.mark.slow)])
def test_the_standard_error_of_the_logged_value_is_right(logs, least, most):
    """In a model whose every state is well covered, the logged behaviour's true value lies within 2 standard errors in
    95% of the logs: below 49 of 60, below 88% of 200, or never outside in 200, would be a false alarm with probability
    < 1e-4."""
    garnet = problems.garnet(10, 2, 3, discount=0.8, seed=1)
    mdp = garnet.mdp
    truth = garnet.behaviour.value(mdp)
    rng, hits = np.random.default_rng(5), 0
    P = mdp.transitions.toarray()
    start = np.full(10, 0.1)
    for _ in range(logs):
        s, a = rng.integers(0, 10, 600), rng.integers(0, 2, 600)
        t = (rng.random((600, 1)) > P[s * 2 + a].cumsum(axis=1)).sum(axis=1)
        counts = Counts.from_arrays(s, a, mdp.rewards[s, a], t, states=10, actions=2)
        # The behaviour of these logs is uniform; the estimate is of the frequencies that were drawn.
        careful = careful_model(counts, 0.8, start)
        drawn = TablePolicy(careful.behaviour.matrix).value(mdp)
        hits += abs(start @ drawn - careful.logged.value) <= 2.0 * careful.logged.standard_error
    assert truth.shape == (10,)
    assert least <= hits <= most


def test_the_error_is_right_where_no_state_was_seen_twice():
    """400 states, a row each, a fair coin as reward: the mean is .5, within 2 standard errors in 95% of all logs, and
    the error is .5 / 20 (beside one coin in 400 unseen). The states are alike, so only the number of heads matters:
    those of 99.7% of the logs are tried, and weighed by the binomial distribution."""
    s, held = np.arange(400), 0.0
    for heads in range(170, 231):
        r = (s < heads).astype(float)
        logged = careful_model(Counts.from_arrays(s, 0 * s, r, s, states=400, actions=1), 0.0).logged
        assert logged.standard_error == pytest.approx(0.025, rel=0.02)
        inside = abs(logged.value - 0.5) <= 2.0 * logged.standard_error
        held += inside * stats.binom.pmf(heads, 400, 0.5)
    assert held == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("chance", [0.002, 0.01, 0.05, 0.2])
def test_what_was_never_seen_is_allowed_for(chance):
    """One state, 100 rows, a success that pays 1: the true chance lies within 2 standard errors of what is expected in
    at least 93% of all logs, however often none was seen. Only the number of successes matters: every number is tried,
    and weighed by the binomial distribution. Those that are left out have a chance of 1e-6 together."""
    s, held = np.zeros(100, int), 0.0
    for successes in range(int(stats.binom.isf(1e-6, 100, chance)) + 1):
        r = (s + np.arange(100) < successes).astype(float)
        counts = Counts.from_arrays(s, s, r, s, states=1, actions=1, reward_range=(0.0, 1.0))
        expected = careful_model(counts, 0.0).expected
        assert expected.standard_error >= 0.0099
        inside = abs(expected.value - chance) <= 2.0 * expected.standard_error
        held += inside * stats.binom.pmf(successes, 100, chance)
    assert held >= 0.93


def test_a_state_that_was_never_left_is_as_doubtful_as_states_differ():
    # From 0 to 1, which nobody left; 2 pays 1 for ever and 3 nothing. All else is certain: 1 is like one of 0, 2, 3.
    rows = [(0, 0, 0.0, 1, False), (2, 0, 1.0, 2, False), (3, 0, 0.0, 3, False)] * 1000
    careful = careful_model(counted(rows, 4, 1), 0.9, [1.0, 0.0, 0.0, 0.0])
    average = (0.9 * careful.V[1] + 10.0 + 0.0) / 3.0
    assert careful.V[1] == pytest.approx(average, rel=1e-4)
    deviation = np.std([0.9 * average, 10.0, 0.0])
    assert careful.expected.standard_error == pytest.approx(0.9 * deviation, rel=1e-3)


def test_nor_is_it_known_whether_the_policy_is_better_there_than_the_log():
    # From 0 to 1, which nobody left; in 2 one action pays 1 and the other nothing, logged alike: worth 10, and 5.
    rows = [(0, 0, 0.0, 1, False), (2, 0, 1.0, 2, False), (2, 1, 0.0, 2, False)] * 1000
    careful = careful_model(counted(rows, 3, 2), 0.9, [0.5, 0.0, 0.5])
    worth = np.array([0.9 * careful.V[1], 10.0, 10.0])
    doubt = math.sqrt(worth.var() + (2.0 / 3.0 * (10.0 - 5.0)) ** 2)
    assert careful.expected.standard_error == pytest.approx(0.5 * 0.9 * doubt, rel=0.01)


def test_many_equal_actions_are_not_mistaken_for_good_ones():
    """Twenty actions that all pay a fair coin, five rows each, in twenty states: all policies are worth .5. The plug-in
    expects the luckiest. At most half of its error is left in each of 10 logs (measured on 200 other logs: -.03 to .31
    of it, so false alarms are rarer than 1 in 100)."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        s, a = np.repeat(np.arange(20), 100), np.tile(np.repeat(np.arange(20), 5), 20)
        r = rng.integers(0, 2, s.size).astype(float)
        counts = Counts.from_arrays(s, a, r, s, states=20, actions=20)
        plain, careful = (careful_model(counts, 0.0, pessimism=p).claimed for p in (0, None))
        assert plain - 0.5 > 0.3
        assert abs(careful - 0.5) < 0.5 * (plain - 0.5)


def test_the_expected_value_is_honest_where_choices_are_luck():
    """Eight actions pay 1 with chances between .4 and .6, four rows each, in thirty states. The best by the plug-in is
    mostly lucky, and its claim is off by .3. What is expected lies within 2 standard errors of the truth in at least 30
    of 40 logs (measured on 200 other logs: 98.5%), and is off by less than .06 on average (measured: .037, for 40 logs
    with a standard error of .005): false alarms are rarer than 1 in 10,000."""
    rng, hits, errors, claims = np.random.default_rng(8), 0, [], []
    s, a = np.repeat(np.arange(30), 32), np.tile(np.repeat(np.arange(8), 4), 30)
    for _ in range(40):
        chance = rng.uniform(0.4, 0.6, (30, 8))
        r = (rng.random(s.size) < chance[s, a]).astype(float)
        fit = careful_model(Counts.from_arrays(s, a, r, s, states=30, actions=8), 0.0, pessimism=0)
        truth = float((fit.policy.matrix * chance).sum(axis=1).mean())
        hits += abs(fit.expected.value - truth) <= 2.0 * fit.expected.standard_error
        errors.append(fit.expected.value - truth)
        claims.append(fit.claimed - truth)
    assert np.mean(claims) > 0.25
    assert abs(np.mean(errors)) < 0.06
    assert hits >= 30


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(0, 10**6))
def test_halves_are_the_log(log, seed):
    counts = counted(*log)
    one, other = luck.halves(counts, np.random.default_rng(seed))
    assert one.total + other.total == counts.total
    both = one.merge(other)
    for column in ("s", "a", "s_next", "ended", "n"):
        assert np.array_equal(getattr(both, column), getattr(counts, column))
    assert both.reward_sum == pytest.approx(counts.reward_sum, abs=1e-9)
    assert both.reward_square_sum == pytest.approx(counts.reward_square_sum, abs=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e7, 1e8, 1e9])
def test_halves_differ_as_much_however_far_rewards_are_from_zero(offset):
    # 3,000 times the same nine rewards, dealt to four and five. In exact arithmetic the sum of four has the variance
    # squares 4 5 / (9 8); its average over 3,000 deals has an error of 4%, so that 20% is five of them. Where rounding
    # hides what rewards vary, it is no less, and no more than their range allows.
    rewards = [Fraction(k, 4) + Fraction(offset) for k in (1, 3, 2, 5, 4, 4, 2, 3, 7)]
    assert all(float(r) == r for r in rewards)
    squares = sum((r - sum(rewards) / 9) ** 2 for r in rewards)
    variance = float(squares * 20 / 72)
    n, total = np.full(3000, 9), np.full(3000, float(sum(rewards)))
    square_sum, known = np.full(3000, np.sum(np.array(rewards, float) ** 2)), (offset, offset + 2.0)
    one, other, left_1, left_2 = luck._drawn(n, np.full(3000, 4), total, square_sum, known, np.random.default_rng(1))
    apart = one - 4 * total / 9
    np.testing.assert_allclose(one + other, total)
    low, high = 0.8 * variance, 1.2 * variance
    if offset > 1e6:
        mean = float(sum(rewards) / 9) - offset
        high = 1.2 * 9.0 * mean * (2.0 - mean) * 20 / 72
    assert low <= np.mean(apart**2) <= high
    if offset <= 1e6:  # what is left within the halves, and between them, are all of the squares
        np.testing.assert_allclose(left_1 + left_2 + apart**2 * 9 / 20, float(squares), rtol=1e-3)


def test_the_edge_of_the_cliff_is_walked_when_it_is_known():
    cliff = problems.gym("CliffWalking-v1")
    mdp: MDP = cliff.mdp
    s, a = (x.ravel() for x in np.meshgrid(np.arange(48), np.arange(4), indexing="ij"))
    t, r = mdp.indices, mdp.rewards.ravel()
    ended = mdp.absorbing[t]
    counts = Counts.from_arrays(*(np.tile(x, 3) for x in (s, a, r, t, ended)), states=48, actions=4)
    careful = careful_model(counts, 0.99, cliff.start)
    best = float(cliff.start @ solve(mdp).V)
    assert cliff.start @ TablePolicy(careful.policy.matrix[:48]).value(mdp) == pytest.approx(best, abs=1e-6)
