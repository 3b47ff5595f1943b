"""The four compact sets: their bounds, and projections that satisfy the variational inequality and match a small QP."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import mdps, seeds, weights_for

from dualq.base.errors import ModelError
from dualq.model.mdp import MDP
from dualq.model.saddle.sets import Sets, project_state

modest = settings(max_examples=60, deadline=None, derandomize=True)

TWO_STATE = MDP(
    np.array([[[0.2, 0.8], [0.5, 0.5]], [[0.3, 0.7], [0.7, 0.3]]]),
    np.array([[3.0, 2.0], [1.0, 1.0]]),
    0.9,
    reward_bound=3.0,
)


def test_bounds_of_the_two_state_example():
    sets = Sets.of(TWO_STATE, 0.1, zeta=0.0856)
    assert sets.value_bound == pytest.approx(30.0)  # 3 / (1 - .9)
    assert sets.occupancy_bound == pytest.approx(2.0)  # .2 / (1 - .9)
    assert sets.ratio_bound == pytest.approx(2.0 / 0.0856)


def test_bounds_are_in_the_papers_units():
    """Rewards in [-2, 0] are those in [0, 2] moved down: the sets are the same."""
    up = MDP(TWO_STATE.transitions, TWO_STATE.rewards - 1.0, 0.9)
    down = MDP(TWO_STATE.transitions, TWO_STATE.rewards - 3.0, 0.9)
    assert Sets.of(up, 0.1).value_bound == pytest.approx(20.0)
    assert Sets.of(down, 0.1).value_bound == pytest.approx(20.0)


@pytest.mark.parametrize("zeta", [0.0, -0.1, np.nan, np.inf])
def test_zeta_must_be_positive(zeta):
    with pytest.raises(ModelError, match="zeta is"):
        Sets.of(TWO_STATE, 0.1, zeta)


# ---- each projection: a point of the set, no nearer one, itself where it is there already, never expanding


def sets_and_rng(mdp: MDP, eta, seed: int):
    return Sets.of(mdp, eta, zeta=0.3), np.random.default_rng(seed)


def tables(mdp: MDP, rng, scale: float):
    """A random table that often leaves a box of that size on either side, and often lacks mass in some states."""
    table = scale * rng.normal(size=mdp.rewards.shape) * rng.choice([0.01, 0.1, 1.0, 3.0], size=(mdp.num_states, 1))
    return np.where(mdp.available, table, 0.0)


def members(sets: Sets, rng, kind: str):
    """A random point of a set, corners included: drawn without any projection of ours."""
    shape = sets.available.shape
    uniform = rng.choice([0.0, 1.0], size=shape) if rng.random() < 0.5 else rng.random(shape)
    bound = {"V": sets.value_bound, "Q": sets.value_bound, "mu": sets.ratio_bound}.get(kind, sets.occupancy_bound)
    if kind == "V":
        return bound * uniform[:, 0]
    point = np.where(sets.available, bound * uniform, 0.0)
    if kind == "Xi":
        point = np.where(sets.available, 5 * rng.normal(size=shape), 0.0)
    if kind in ("lambda", "Xi"):
        lacking = np.maximum(sets.eta - point.sum(axis=1), 0.0)
        chosen = [rng.choice(np.flatnonzero(row)) for row in sets.available]
        point[np.arange(len(chosen)), chosen] += lacking  # all of it on one action: never above the bound
    return point


def is_member(sets: Sets, kind: str, x):
    bound = {"V": sets.value_bound, "Q": sets.value_bound, "mu": sets.ratio_bound}.get(kind, sets.occupancy_bound)
    boxed = kind == "Xi" or ((x >= 0.0) & (x <= bound)).all()
    enough = kind not in ("lambda", "Xi") or (x.sum(axis=1) >= sets.eta - 1e-12 * (1.0 + np.abs(x).max())).all()
    return boxed and enough


@pytest.mark.parametrize("kind", ["V", "Q", "L", "Xi", "lambda", "mu"])
@modest
@given(data=st.data(), mdp=mdps(max_states=4, max_actions=4), seed=seeds)
def test_projection(kind, data, mdp, seed):
    sets, rng = sets_and_rng(mdp, data.draw(weights_for(mdp)), seed)
    project = getattr(sets, f"project_{kind}")
    scale = {"V": sets.value_bound, "Q": sets.value_bound, "mu": sets.ratio_bound}.get(kind, sets.occupancy_bound)
    x, other = (tables(mdp, rng, 1.0 + scale) for _ in range(2))
    if kind == "V":
        x, other = x[:, 0], other[:, 0]
    p, q = project(x), project(other)
    size = 1.0 + np.abs(x).max() + np.abs(other).max()

    assert is_member(sets, kind, p)
    np.testing.assert_allclose(project(p), p, atol=1e-13 * size)
    assert np.linalg.norm(p - q) <= np.linalg.norm(x - other) * (1 + 1e-12)
    for _ in range(10):  # the variational inequality: no member of the set lies beyond p as seen from x
        member = members(sets, rng, kind)
        assert is_member(sets, kind, member)
        assert np.sum((x - p) * (member - p)) <= 1e-11 * size**2
        np.testing.assert_allclose(project(member), member, atol=1e-13 * size)


def nearest_by_enumeration(x, least, bound):
    """min ||l - x||^2 over {0 <= l <= bound, sum l >= least}: every active set is tried, the best one kept."""
    best, best_distance = None, np.inf
    for at in product((0, 1, 2), repeat=x.size):  # at zero, free, at the bound
        for tight in (False, True):
            at_, free = np.array(at), np.array(at) == 1
            point = np.where(at_ == 2, bound, np.where(free, x, 0.0))
            if tight:
                if not free.any():
                    continue
                point[free] += (least - point.sum()) / free.sum()
            feasible = (point >= -1e-12).all() and (point <= bound + 1e-12).all() and point.sum() >= least - 1e-12
            distance = np.sum((point - x) ** 2)
            if feasible and distance < best_distance:
                best, best_distance = point, distance
    return best


eighths = st.integers(-48, 48).map(lambda n: n / 8)  # coarse, so that near ties of the enumeration are ties


@settings(max_examples=200, deadline=None, derandomize=True)
@given(x=st.lists(eighths, min_size=1, max_size=4), least=st.integers(1, 24), room=st.integers(0, 24))
def test_project_state_against_the_quadratic_program(x, least, room):
    x, least, bound = np.array(x), least / 8, (least + room) / 8
    expected = nearest_by_enumeration(x, least, bound)
    ours = x.copy()
    project_state(ours, np.ones(x.size, bool), least, bound)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_project_state_by_hand():
    row = np.array([-1.0, 0.2, 0.5])
    project_state(
        row, np.array([True, True, True]), 1.0, 10.0
    )  # 0.3 is lacking, shared by the two that stay above zero
    np.testing.assert_allclose(row, [0.0, 0.35, 0.65])
    row = np.array([0.2, 99.0, 0.4])
    project_state(row, np.array([True, False, True]), 1.0, 10.0)  # the middle action does not exist
    np.testing.assert_allclose(row, [0.4, 0.0, 0.6])
    row = np.array([12.0, -3.0])
    project_state(row, np.array([True, True]), 1.0, 10.0)
    np.testing.assert_allclose(row, [10.0, 0.0])
    row = np.array([-5.0])  # one action: least = bound leaves one point
    project_state(row, np.array([True]), 2.0, 2.0)
    np.testing.assert_allclose(row, [2.0])


def test_project_state_far_outside():
    """The sum is eta(s), to rounding, from wherever the row comes, ties included."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        x = rng.choice([1e-9, 1.0, 1e6]) * np.round(rng.normal(size=rng.integers(1, 30)), 1) - rng.choice(
            [0.0, 1.0, 100.0]
        )
        row = x.copy()
        project_state(row, np.ones(x.size, bool), 0.5, 2.0)
        assert row.min() >= 0.0
        assert row.max() <= 2.0
        assert row.sum() >= 0.5 - 1e-14
        if np.clip(x, 0.0, 2.0).sum() < 0.5:
            assert row.sum() == pytest.approx(0.5, abs=1e-14)


def test_zero_start_is_made_feasible():
    """lambda = 0 violates Xi; its projection spreads eta(s) over the state's actions."""
    sets = Sets.of(TWO_STATE, [0.1, 0.3])
    np.testing.assert_allclose(sets.project_lambda(np.zeros((2, 2))), [[0.05, 0.05], [0.15, 0.15]])


def test_q_keeps_what_does_not_exist():
    mdp = MDP(TWO_STATE.transitions, TWO_STATE.rewards, 0.9, available=[[True, False], [True, True]])
    projected = Sets.of(mdp).project_Q(np.array([[99.0, -np.inf], [-1.0, 2.0]]))
    np.testing.assert_allclose(projected, [[30.0, -np.inf], [0.0, 2.0]])
