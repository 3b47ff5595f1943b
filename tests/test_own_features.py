"""Features of the user's own: splines beside SciPy's, and the same features given in three ways."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from typer.testing import CliRunner

import dualq
from dualq.app.cli import app
from dualq.base import States
from dualq.offline.approximate.own_features import Splines, own_features
from dualq.worlds import continuous

CLINIC = continuous.Dosing()
DOSES = {"state": ["severity", "concentration"], "action": "action", "reward": "reward", "episode": "episode"}
DOSES |= {"time": "step", "terminal": "done", "truncated": "last", "approximation": "linear"}


@pytest.fixture(scope="module")
def rows():
    return continuous.record(CLINIC, 1_500, seed=5)


@pytest.fixture(scope="module")
def table(rows):
    return continuous.to_table(rows)


@pytest.fixture(scope="module")
def splines(table):
    return dualq.learn(table, **DOSES, features="splines")


def squares(table):
    x, y = np.asarray(table["severity"]), np.asarray(table["concentration"])
    return np.stack([x, y, x * x, x * y, y * y], axis=1)


class Squares:
    """As scikit-learn would have it."""

    seen = 0

    def fit(self, X, y=None):
        self.seen = len(X)
        return self

    def transform(self, X):
        assert self.seen
        return squares({"severity": X[:, 0], "concentration": X[:, 1]})


def test_splines_are_the_natural_cubic_splines_of_their_knots(rows):
    """Those of SciPy through any values at the knots are linear in the features, between the knots and beyond."""
    phi = Splines.of(rows)
    x = np.linspace(-2.0, 12.0, 200)
    states = States(np.stack([x, np.full(200, 3.0)], axis=1), np.empty((200, 0), np.int64))
    z = phi.inputs(states)[:, 0]
    knots = phi.knots[0]
    assert z.min() < knots[0] < knots[-1] < z.max()
    spline = CubicSpline(knots, np.random.default_rng(0).normal(size=knots.size), bc_type="natural")
    inside, ends = np.clip(z, knots[0], knots[-1]), knots[[0, -1]]
    slope = np.where(z < knots[0], spline(ends[0], 1), spline(ends[1], 1))
    y = spline(inside) + slope * (z - inside)
    features = phi(states)
    told = features @ np.linalg.lstsq(features, y, rcond=None)[0]
    assert told == pytest.approx(y, abs=1e-8)
    bent = spline(inside) + slope * (z - inside) + np.maximum(z - z.mean(), 0.0) ** 3  # one more knot is one too many
    assert np.abs(features @ np.linalg.lstsq(features, bent, rcond=None)[0] - bent).max() > 1e-3


def test_two_numbers_go_together_by_their_product(rows):
    phi = Splines.of(rows)
    x = phi(rows.state)
    z = phi.inputs(rows.state)
    product = z[:, 0] * z[:, 1]
    assert x[:, -1] == pytest.approx((product - product.mean()) / product.std())
    assert x[:, 3:].std(axis=0) == pytest.approx(1.0)


def test_a_number_of_few_values_does_not_bend(rows):
    flags = (rows.state.numbers > rows.state.numbers.mean(axis=0)).astype(float)
    phi = Splines.of(replace(rows, state=replace(rows.state, numbers=flags)))
    assert all(knots.size < 3 for knots in phi.knots)
    assert phi(rows.state).shape[1] == 1 + 2 + 1


def test_a_function_and_a_transformer_that_give_the_same_learn_the_same(table):
    transformer = Squares()
    by_function, by_transformer = (dualq.learn(table, **DOSES, features=own) for own in (squares, transformer))
    assert transformer.seen == 0  # a copy of it was fitted
    one, other = (fit.candidates[0] for fit in (by_function, by_transformer))
    assert one.name == other.name == "linear"
    states = by_function.sample.state
    assert np.array_equal(one.rule(states), other.rule(states))
    assert one.expected.value == pytest.approx(other.expected.value)
    waves = dualq.learn(table, **DOSES).candidates[0]
    assert not np.array_equal(one.rule(states), waves.rule(states))
    for fit in (by_function, by_transformer):
        with pytest.raises(dualq.errors.CheckpointError, match="cannot be saved; learn with features"):
            fit.save("nowhere")


def test_a_transformer_of_scikit_learn_is_one(rows):
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn is no dependency of dualq")
    theirs = own_features(preprocessing.PolynomialFeatures(2, include_bias=False), rows)
    assert theirs(rows.state) == pytest.approx(own_features(squares, rows)(rows.state))


def test_limits_are_kept_in_the_users_features(table):
    found = dualq.learn(table, **DOSES, costs="side_effect", limits="side_effect<=0.9", features=squares)
    free = dualq.learn(table, **DOSES, costs="side_effect", limits="side_effect<=0.9")
    assert found.limits[0].price == free.limits[0].price == 0.0
    states = found.sample.state
    assert not np.array_equal(found.chosen.rule(states), free.chosen.rule(states))


def test_splines_are_saved_and_asked_for_on_the_command_line(splines, table, tmp_path):
    path, out = tmp_path / "doses.csv", tmp_path / "run"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    words = [f"--{name}={','.join(v) if isinstance(v, list) else v}" for name, v in DOSES.items()]
    asked = CliRunner().invoke(app, ["learn", str(path), *words, "--features=splines", f"--out={out}"])
    assert asked.exit_code == 0, asked.output
    again = dualq.load(out)
    assert isinstance(again.candidates[0].rule.phi, Splines)
    states = splines.sample.state
    for one, other in zip(again.candidates, splines.candidates, strict=True):
        assert np.allclose(one.rule(states), other.rule(states))


def test_the_splines_policy_is_worth_most_of_what_waves_gain(splines):
    """By simulation: the same start and noise for both."""
    earned = [
        continuous.returns(CLINIC, rule, 1, 500).mean() for rule in (splines.candidates[0].rule, CLINIC.behaviour)
    ]
    assert earned[0] > earned[1] + 1.0


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ("spline", "features is 'spline'; it must be one of waves, splines, a function"),
        (17, "features is 17; it must be"),
        (Squares, "features is the class Squares; give an object of it: Squares()"),
        (lambda t: t["nope"], "features failed: KeyError: 'nope'"),
        (lambda t: np.full(len(t["severity"]), np.nan), "must be a finite number per feature"),
        (lambda t: np.zeros((len(t["severity"]), 501)), "gives 501 numbers for each state; at most 500"),
    ],
)
def test_features_that_cannot_be_are_refused_in_one_line(table, features, said):
    with pytest.raises(dualq.DualqError) as e:
        dualq.learn(table, **DOSES, features=features)
    assert said in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("approximation", ["partition", "neural"])
def test_features_are_for_the_linear_learner(table, approximation):
    with pytest.raises(dualq.LogError, match=f"with approximation {approximation} leave it out"):
        dualq.learn(table, **{**DOSES, "approximation": approximation}, features="splines")


def test_a_log_of_labels_has_no_features():
    log = dualq.problems.two_state().record(steps=100)
    with pytest.raises(dualq.LogError, match="this log's are labels"):
        dualq.learn(log, features="splines")
