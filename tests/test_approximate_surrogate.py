"""Small trees that explain rules: exact where the rule is a tree, and honest where it is none."""

import numpy as np
import pytest

from dualq.base import Labels, LogError, StateColumns, States
from dualq.logs import NumberRows
from dualq.offline.approximate.surrogate import dependence, importance, surrogate


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    n = 4000
    columns = StateColumns(("wear", "heat", "shift"), {"shift": ("day", "night")})
    states = [States(rng.uniform(0.0, 5.0, (n, 2)), rng.integers(0, 2, (n, 1))) for _ in range(2)]
    actions = Labels(["run", "slow", "repair"], "action")
    episode = np.arange(n) // 20
    return NumberRows(
        columns, actions, states[0], rng.integers(0, 3, n), np.zeros(n), states[1], np.zeros(n, bool), episode
    )


def as_tree(states):
    """if wear >= 3.2: repair where shift = night, else slow; if wear < 3.2: run."""
    wear, night = states.numbers[:, 0] >= 3.2, states.categories[:, 0] == 1
    return np.eye(3)[np.where(wear, np.where(night, 2, 1), 0)]


def test_a_rule_that_is_a_tree_is_found_word_for_word(rows):
    found = surrogate(as_tree, rows)
    assert found.fidelity == 1.0
    assert set(found.sentences) == {
        "if wear < 3.2: run",
        "if wear >= 3.2 and shift = night: repair",
        "if wear >= 3.2 and shift not night: slow",
    } or set(found.sentences) == {
        "if wear < 3.2: run",
        "if wear >= 3.2 and shift = day: slow",
        "if wear >= 3.2 and shift not day: repair",
    }
    fresh = States(np.random.default_rng(1).uniform(0.0, 5.0, (5000, 2)), np.zeros((5000, 1), int))
    assert (found.rule(fresh) == as_tree(fresh)).all(axis=1).mean() > 0.999


def test_the_fidelity_is_the_share_of_decisions_on_fresh_rows(rows):
    """A slanted border is no tree: what is stated is what fresh states give, up to 4 standard errors."""

    def slanted(states):
        return np.eye(3)[(states.numbers.sum(axis=1) > 5.0).astype(int)]

    found = surrogate(slanted, rows, max_leaves=4)
    fresh = States(np.random.default_rng(2).uniform(0.0, 5.0, (50_000, 2)), np.zeros((50_000, 1), int))
    truth = float((found.rule(fresh) * slanted(fresh)).sum(axis=1).mean())
    assert 0.8 < truth < 0.97
    assert found.fidelity == pytest.approx(truth, abs=4 * np.sqrt(truth * (1 - truth) / 2000))
    assert len(found.sentences) <= 4


def test_a_random_rule_is_given_as_often_as_its_likeliest_action(rows):
    found = surrogate(lambda states: np.tile([0.2, 0.5, 0.3], (len(states), 1)), rows)
    assert (found.sentences, found.fidelity) == (("always: mostly slow",), pytest.approx(0.5))


def test_dependence_is_the_average_of_what_the_rule_says(rows):
    found = dependence(as_tree, rows, "wear", points=11)
    assert len(found.at) == 11
    for x, shares in zip(found.at, found.shares, strict=True):
        night = rows.state.categories[:, 0].mean()
        wanted = [1.0, 0.0, 0.0] if x < 3.2 else [0.0, 1.0 - night, night]
        np.testing.assert_allclose(shares, wanted, atol=0.05)  # 1,818 of the rows are asked: 4 standard errors
    by_shift = dependence(as_tree, rows, "shift")
    assert by_shift.at == ("day", "night")
    assert by_shift.shares[0][2] == by_shift.shares[1][1] == 0.0
    np.testing.assert_allclose(by_shift.shares.sum(axis=1), 1.0)
    with pytest.raises(LogError, match="no column 'age'; the state has wear, heat, shift"):
        dependence(as_tree, rows, "age")


def test_importance_is_how_many_decisions_rest_on_a_column(rows):
    found = importance(as_tree, rows)
    assert list(found) == ["wear", "shift", "heat"]
    share = 1.8 / 5.0
    assert found["heat"] == 0.0
    assert found["wear"] == pytest.approx(2 * share * (1 - share), abs=0.04)
    assert found["shift"] == pytest.approx(share / 2, abs=0.04)
