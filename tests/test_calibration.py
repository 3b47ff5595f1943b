"""Stated standard errors: how often the truth lies within 1.96 of them, where that is hard."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from dualq.logs.counts import Counts
from dualq.model.limits import Limit
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.offline.careful.clusters import influences, shared_factor
from dualq.offline.careful.model import careful_model
from dualq.offline.careful.selection_bias import reliability_of
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates


def drawn(P, R, noise, rows, rng):
    """Rows (s, a, r, s') whose pairs are drawn alike."""
    S, A = R.shape
    s, a = rng.integers(0, S, rows), rng.integers(0, A, rows)
    t = (np.cumsum(P[s, a], axis=1) < rng.random((rows, 1))).sum(axis=1)
    return s, a, R[s, a] + noise * rng.normal(size=rows), np.minimum(t, S - 1)


def garnet(S, A, rng):
    """Three successors of each pair, rewards from 0 to 1."""
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        P[s, a, rng.choice(S, 3, replace=False)] = rng.dirichlet(np.ones(3))
    return P, rng.random((S, A))


def test_the_expected_value_lies_within_its_errors():
    """200 states, 5 actions, ten rows a pair. In 20 logs the policy's true value is within 1.96 errors of what is
    expected in at least 16: with a chance of .95 fewer would be seen once in 400. Where the gain found in half of the
    rows was extrapolated as if nothing had been pooled, and asked about with the chooser's V, it was .4."""
    rng, held = np.random.default_rng(1), 0
    P, R = garnet(200, 5, rng)
    mdp, start = MDP(P, R, 0.9), np.full(200, 0.005)
    for _ in range(20):
        columns = drawn(P, R, 0.5, 10_000, rng)
        fit = careful_model(Counts.from_arrays(*columns, states=200, actions=5), 0.9, start)
        true = float(start @ TablePolicy(fit.policy.matrix).value(mdp))
        held += abs(fit.expected.value - true) <= 1.96 * fit.expected.standard_error
    assert held >= 16


def test_what_is_kept_is_what_was_found():
    # Found to the last digit: all of it. Half found, and sure: between one half and 2/3, as with all rows.
    assert reliability_of([(3.0, 3.0, 0.0)]).value == pytest.approx(1.0, abs=1e-3)
    half = reliability_of([(1.0, 2.0, 1e-9)])
    assert half.value == pytest.approx((1 / 2 + 2 / 3) / 2, abs=1e-3)
    assert half.standard_error == pytest.approx((2 / 3 - 1 / 2) / np.sqrt(12.0), rel=0.01)
    # More was found than promised: no more is expected, but it may be more.
    more = reliability_of([(3.0, 2.0, 1e-9)])
    assert more.value == 1.0
    assert more.standard_error == pytest.approx(0.5, abs=1e-3)
    # Nothing was asked, or the answer is mere noise.
    assert reliability_of([(5.0, 1.0, 1e9)]).standard_error == pytest.approx(
        reliability_of([]).standard_error, rel=1e-3
    )
    assert reliability_of([]).standard_error > 0.3


# ---- rare costs


def cost_of(seen, rows, action):
    """What always taking an action is estimated to cost; in one state, `seen` costs of 1 among the rows of each."""
    a = np.repeat(np.arange(len(rows)), rows)
    cost = np.concatenate([np.arange(n) < k for k, n in zip(seen, rows, strict=True)]).astype(float)
    nothing = np.zeros(a.size, int)
    counts = Counts.from_arrays(
        nothing, a, nothing, nothing, states=1, actions=len(rows), costs={"c": cost}, cost_ranges={"c": (0.0, 1.0)}
    )
    known = Estimates(counts, careful_model(counts, 0.0, [1.0]), np.ones(1))
    asked = Asked(Limit("c", known.means("c"), "<=", 1.0), "c")
    return known.claimed(asked, TablePolicy(np.eye(len(rows))[[action]]))


def test_a_cost_that_was_hardly_seen_is_within_its_errors():
    """By the binomial distribution, not by drawing: of 1,000 rows k cost 1. With .001 to .01 of them on average the
    truth is within 1.96 errors in 92 % of logs or more. With one event allowed for, and not two, it is 86 %."""
    estimates = [cost_of([k], [1_000], 0) for k in range(31)]
    values, errors = np.array([(one.value, one.standard_error) for one in estimates]).T
    assert values == pytest.approx(np.arange(31) / 1_000)
    for chance in np.linspace(0.001, 0.01, 19):
        held = np.abs(values - chance) <= 1.96 * errors
        assert binom.pmf(np.arange(31), 1_000, chance) @ held >= 0.92
    # Where it is frequent the error is the usual one.
    assert cost_of([300], [1_000], 0).standard_error == pytest.approx(np.sqrt(0.3 * 0.7 / 1_000), rel=0.02)


def test_what_an_action_costs_is_known_by_its_own_rows():
    """20 rows of an action that the log avoids, 980 of another that costs 1 in 2 % of them. Whatever the first one's
    chance is, by the binomial distribution the truth is within 1.96 errors in 92 % of logs or more. An error that leans
    on the other action's rows is too small where the first is worse: 70 to 85 % from a chance of .06 on."""
    estimates = [cost_of([k, 20], [20, 980], 0) for k in range(21)]
    values, errors = np.array([(one.value, one.standard_error) for one in estimates]).T
    assert values == pytest.approx(np.arange(21) / 20)
    for chance in np.linspace(0.005, 0.3, 60):
        held = np.abs(values - chance) <= 1.96 * errors
        assert binom.pmf(np.arange(21), 20, chance) @ held >= 0.92
    # None was seen in 20 rows: two may be in as many.
    assert errors[0] == pytest.approx(np.sqrt(2.0) / 20, rel=0.02)


# ---- rows that err together


def panel(rng, shops, days, of_day, of_shop):
    day, shop = np.tile(np.arange(days), shops), np.repeat(np.arange(shops), days)
    r = rng.normal(size=day.size) + of_day * rng.normal(size=days)[day] + of_shop * rng.normal(size=shops)[shop]
    return r, day, shop


@pytest.mark.parametrize(("of_day", "of_shop"), [(0.5, 0.0), (0.0, 0.5), (0.5, 0.5), (0.0, 0.0)])
def test_a_shock_that_all_share_is_in_the_error(of_day, of_shop):
    """A mean of 0, 30 shops of 40 days. The truth is within 1.96 errors in at least 178 of 200 logs: with a chance of
    .94 (30 groups, not infinitely many) fewer would be seen once in 500. With rows taken as independent and a shock it
    is less than .75; with no shock the errors must not be much larger than they are."""
    rng, held, alone, factors = np.random.default_rng(3), 0, 0, []
    zeros = np.zeros(1_200, int)
    for _ in range(200):
        r, day, shop = panel(rng, 30, 40, of_day, of_shop)
        rows = (zeros, zeros, r, zeros, zeros.astype(bool))
        factors.append(shared_factor(*rows, (day, shop), np.zeros(1), np.ones((1, 1)), 0.0))
        error = r.std(ddof=1) / np.sqrt(r.size)
        held += abs(r.mean()) <= 1.96 * factors[-1] * error
        alone += abs(r.mean()) <= 1.96 * error
    assert held >= 178
    if of_day or of_shop:
        assert alone < 150
    else:
        assert np.median(factors) < 1.15


def test_influences_are_those_of_the_value():
    """By moving each reward a little: the value in the log's own model moves by occupancy / n of it."""
    rng = np.random.default_rng(4)
    P, R = garnet(4, 2, rng)
    s, a, r, t = drawn(P, R, 0.5, 200, rng)
    start, policy = np.full(4, 0.25), TablePolicy(rng.dirichlet(np.ones(2), 4))
    model = Counts.from_arrays(s, a, r, t, states=4, actions=2).mdp(0.8)
    V, occupancy = policy.value(model), policy.occupancy(model, start)
    psi = influences(s, a, r, t, np.zeros(200, bool), V, occupancy, 0.8)
    y, n = r + 0.8 * V[t], np.bincount(2 * s + a)
    for i in range(0, 200, 40):
        moved = r.copy()
        moved[i] += 1e-4
        other = Counts.from_arrays(s, a, moved, t, states=4, actions=2).mdp(0.8)
        per_unit = float(start @ (policy.value(other) - V)) / 1e-4
        rows = n[2 * s[i] + a[i]]
        mean = y[(s == s[i]) & (a == a[i])].mean()
        assert psi[i] == pytest.approx(per_unit * (y[i] - mean) * np.sqrt(rows / (rows - 1)), rel=1e-4)
    # Groups of one row are rows; one group alone says nothing.
    rows = (s, a, r, t, np.zeros(200, bool))
    assert shared_factor(*rows, (None, None), V, occupancy, 0.8) == 1.0
    assert shared_factor(*rows, (0 * s, None), V, occupancy, 0.8) == 1.0
    assert shared_factor(*rows, (np.arange(200), None), V, occupancy, 0.8) == pytest.approx(1.0, abs=0.01)
