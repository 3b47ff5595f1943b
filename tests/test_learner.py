"""PolicyLearner: what users of scikit-learn expect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dualq
from dualq import problems
from dualq.base.errors import LogError


@pytest.fixture(scope="module")
def frame():
    return problems.inventory(capacity=6, lot=3).record(5_000, seed=0).table().to_pandas()


def learner(**more):
    columns = {"state": ["stock", "season"], "action": "action", "next_state": ["next_stock", "next_season"]}
    return dualq.PolicyLearner(discount=0.9, certificate=None, **columns, time="time", **more)


def test_it_predicts_what_learn_recommends(frame):
    model = learner().fit(frame)
    log = dualq.read_log(
        frame, state=["stock", "season"], action="action", next_state=["next_stock", "next_season"], time="time"
    )
    policy = dualq.learn(log, discount=0.9, certificate=None).policy
    states = frame[["stock", "season"]].drop_duplicates()
    expected = [policy.act({"stock": n, "season": season}) for n, season in states.itertuples(index=False)]
    assert policy.is_deterministic
    np.testing.assert_array_equal(model.predict(states), expected)
    np.testing.assert_array_equal(model.predict(pl.from_pandas(states)), expected)
    np.testing.assert_array_equal(model.predict({name: states[name] for name in states}), expected)


def test_parameters_are_those_of_the_constructor(frame):
    model = learner(pessimism=0.5)
    params = model.get_params()
    assert params["pessimism"] == 0.5
    assert params["discount"] == 0.9
    copy = dualq.PolicyLearner(**params)  # what scikit-learn's clone does
    assert copy.get_params() == params
    assert copy.set_params(discount=0.5) is copy
    assert copy.get_params()["discount"] == 0.5
    with pytest.raises(LogError, match="no argument 'gamma'"):
        copy.set_params(gamma=0.9)


def test_it_is_shown_with_what_was_chosen():
    shown = repr(dualq.PolicyLearner(discount=0.9, state=["stock", "season"], limits={"lost": 0.1}, pessimism=None))
    assert shown == "PolicyLearner(discount=0.9, limits={'lost': 0.1}, state=['stock', 'season'])"
    assert eval(shown, {"PolicyLearner": dualq.PolicyLearner}).get_params()["discount"] == 0.9
    assert repr(dualq.PolicyLearner()) == "PolicyLearner()"


def test_scikit_learn_takes_it_for_one_of_its_own(frame):
    pytest.importorskip("sklearn", reason="scikit-learn is no dependency of dualq, nor of its tests")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline

    states = frame[["stock", "season"]].head(50)
    expected = learner().fit(frame).predict(states)
    np.testing.assert_array_equal(Pipeline([("learn", clone(learner()))]).fit(frame).predict(states), expected)
    search = GridSearchCV(learner(), {"pessimism": [0.0, 1.0]}, scoring=lambda model, X: -model.pessimism, cv=2)
    assert search.fit(frame).best_params_ == {"pessimism": 0.0}


def test_what_is_missing_is_named(frame):
    with pytest.raises(LogError, match="call fit first"):
        learner().predict(frame)
    model = learner().fit(frame)
    with pytest.raises(LogError, match="no column 'season'"):
        model.predict(frame[["stock"]])
    with pytest.raises(LogError, match=r"no stock and season \(99, 'winter'\)"):
        model.predict(pd.DataFrame({"stock": [99], "season": ["winter"]}))


def test_classes_are_the_actions_in_the_order_of_probabilities(frame):
    model = learner().fit(frame)
    assert model.classes_.tolist() == sorted(frame["action"].unique())
    states = frame[["stock", "season"]].head(200)
    np.testing.assert_array_equal(model.predict(states), model.classes_[model.predict_proba(states).argmax(axis=1)])


def test_the_score_is_the_policys_value_by_the_rows_of_another_log(frame):
    # The truth is known: the same policy, evaluated in the model that drew both logs, from the other log's states.
    shop = problems.inventory(capacity=6, lot=3, discount=0.9)
    other = shop.record(40_000, seed=1)
    model = learner(start="log").fit(frame)
    score = model.score(other.table().to_pandas())
    matrix = np.zeros(shop.mdp.rewards.shape)
    learned = model.fit_.policy
    for s, label in enumerate(shop.mdp.states):
        for a, action in enumerate(shop.mdp.actions):
            if label in learned.states and action in learned.actions:
                matrix[s, a] = learned.matrix[learned.states.index(label), learned.actions.index(action)]
        matrix[s] = matrix[s] if matrix[s].any() else shop.behaviour.matrix[s]
    truth = dualq.TablePolicy(matrix / matrix.sum(axis=1, keepdims=True)).value(shop.mdp)
    visits = np.bincount(other.state, minlength=truth.size) / len(other)
    # a row pays 20 or so either way and 40,000 of them count: the error of the score is about 1; false alarms < 1e-4
    assert score == pytest.approx(visits @ truth, abs=4.0)
    logged = dualq.TablePolicy(shop.behaviour.matrix).value(shop.mdp)
    assert score > visits @ logged + 4.0
