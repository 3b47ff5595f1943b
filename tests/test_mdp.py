"""The model: two inputs of the same thing agree, and what is not a model is refused with the place of the fault."""

import numpy as np
import pytest
import scipy.sparse as sp
from naive import dense_transitions

from dualq import MDP, problems
from dualq.base.errors import ModelError


def random_arrays(seed=0, S=5, A=3):
    rng = np.random.default_rng(seed)
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.6) + 1e-3 * np.eye(S)[:, None, :]
    return P / P.sum(axis=2, keepdims=True), rng.normal(size=(S, A, S))


def test_dense_and_sparse_input_are_the_same_model():
    P, r = random_arrays()
    dense = MDP(P, r, 0.9)
    sparse = MDP(sp.csc_matrix(P.reshape(15, 5)), sp.coo_matrix(r.reshape(15, 5)), 0.9)
    np.testing.assert_array_equal(dense.transitions.toarray(), sparse.transitions.toarray())
    np.testing.assert_allclose(dense.rewards, sparse.rewards, rtol=1e-14)
    np.testing.assert_array_equal(dense_transitions(dense), P)


def test_expected_rewards_are_the_sum_over_successors():
    P, r = random_arrays(1)
    expected = [[sum(P[s, a, t] * r[s, a, t] for t in range(5)) for a in range(3)] for s in range(5)]
    mdp = MDP(P, r, 0.9)
    np.testing.assert_allclose(mdp.rewards, expected, rtol=1e-13)
    possible = r[P > 0]
    assert mdp.reward_range == (possible.min(), possible.max())


def test_rewards_of_impossible_transitions_are_not_read():
    P, r = random_arrays(2)
    r[P == 0] = np.nan
    assert np.isfinite(MDP(P, r, 0.9).rewards).all()


def test_arrays_in_the_kernels_layout_are_shared_and_read_only():
    P, r = random_arrays()
    rows = sp.csr_array(P.reshape(15, 5))
    mdp = MDP(rows, r, 0.9)
    assert np.shares_memory(mdp.probabilities, rows.data)
    with pytest.raises(ValueError, match="read-only"):
        mdp.probabilities[0] = 0.5
    with pytest.raises(ValueError, match="read-only"):
        mdp.rewards[0, 0] = 0.5
    rows.data[0] = rows.data[0]  # the caller's own array stays writable


def test_building_does_not_change_the_callers_matrix():
    P, r = random_arrays()
    rows = sp.coo_array(P.reshape(15, 5))
    twice = sp.coo_array((np.tile(rows.data / 2, 2), (np.tile(rows.row, 2), np.tile(rows.col, 2))), shape=rows.shape)
    before = twice.data.copy(), twice.row.copy()
    mdp = MDP(twice, r, 0.9)
    np.testing.assert_array_equal(twice.data, before[0])
    np.testing.assert_array_equal(twice.row, before[1])
    np.testing.assert_allclose(mdp.transitions.toarray(), P.reshape(15, 5), rtol=1e-14)


def test_rows_that_are_nearly_distributions_are_scaled_and_exact_ones_kept_bit_for_bit():
    P, r = random_arrays()
    off = MDP(P * (1 + 3e-9), r, 0.9)
    np.testing.assert_allclose(np.asarray(off.transitions.sum(axis=1)), 1.0, rtol=1e-15)
    single = MDP(P.astype(np.float32).astype(float) / P.astype(np.float32).sum(2, keepdims=True), r, 0.9)
    np.testing.assert_allclose(single.transitions.toarray(), P.reshape(15, 5), atol=1e-6)
    tenths = np.array([[[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]] * 3)
    np.testing.assert_array_equal(MDP(tenths, np.zeros((3, 2)), 0.5).transitions.toarray(), tenths.reshape(6, 3))


def test_mask_marks_the_pairs_whose_rows_are_not_read():
    P, r = random_arrays()
    available = np.ones((5, 3), bool)
    available[2, 1] = available[4, 0] = False
    P[2, 1], r[4, 0] = 7.0, np.inf
    mdp = MDP(P, r, 0.9, available=available)
    np.testing.assert_array_equal(mdp.available, available)
    assert mdp.P(2, 1)[0].size == 0
    assert mdp.rewards[4, 0] == 0.0
    assert np.isneginf(mdp.q_values(np.zeros(5))[2, 1])


def test_absorbing_states_are_those_that_no_action_leaves():
    P = np.zeros((3, 2, 3))
    P[0, :, 1] = 1.0
    P[1, 0, 1] = P[1, 1, 0] = 1.0
    P[2, :, 2] = 1.0
    np.testing.assert_array_equal(MDP(P, np.zeros((3, 2)), 0.9).absorbing, [False, False, True])
    listed = sp.csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(
        MDP(listed, np.zeros((2, 1)), 0.9).absorbing, [True, False]
    )  # 0 to 1 has probability 0


def test_nonnegative_rewards_are_never_moved():
    mdp = problems.two_state().mdp
    assert mdp.nonnegative() is mdp
    assert mdp.reward_bound == 3.0
    assert mdp.reward_shift == 0.0


def test_negative_rewards_are_moved_everywhere_absorbing_states_included():
    P = np.zeros((2, 1, 2))
    P[:, 0, 1] = 1.0
    mdp = MDP(P, [[-2.0], [0.0]], 0.5)
    moved = mdp.nonnegative()
    assert mdp.reward_shift == 2.0
    assert mdp.value_shift == 4.0
    np.testing.assert_array_equal(moved.rewards, [[0.0], [2.0]])
    assert (moved.reward_range, moved.reward_shift) == ((0.0, 2.0), 0.0)
    np.testing.assert_array_equal(mdp.rewards, [[-2.0], [0.0]])


def test_a_bound_widens_the_range_of_drawn_rewards():
    P = np.ones((1, 1, 1))
    assert MDP(P, [[1.0]], 0.5, reward_bound=3.0).reward_range == (0.0, 3.0)
    assert MDP(P, [[-1.0]], 0.5, reward_bound=3.0).reward_range == (-3.0, 3.0)
    assert MDP(P, [[1.0]], 0.5, reward_bound=(-1, 4)).reward_range == (-1.0, 4.0)
    with pytest.raises(ModelError, match=r"rewards lie in \[1, 1\], outside of the bound given, \[0, 0.5\]"):
        MDP(P, [[1.0]], 0.5, reward_bound=0.5)


def test_default_weights_are_positive_even_without_rewards():
    mdp = MDP(np.full((4, 1, 4), 0.25), np.zeros((4, 1)), 0.5)
    np.testing.assert_array_equal(mdp.default_weights(), 0.25)
    np.testing.assert_array_equal(problems.two_state().mdp.default_weights(), 1.5)
    with pytest.raises(ModelError, match="weights: the weight of state=1 is 0; weights must be positive"):
        mdp.checked_weights([1, 0, 1, 1])
    with pytest.raises(ModelError, match=r"weights: the weights have shape \(3,\); .* one for each of 4 states"):
        mdp.checked_weights([1, 1, 1])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda P, r: P.__setitem__((3, 1, 0), P[3, 1, 0] + 0.03),
            r"row \(state=3, action=1\) sums to 1.03; it must sum to 1",
        ),
        (lambda P, r: P.__setitem__((2, 0), 0), r"row \(state=2, action=0\) sums to 0; .* say so with `available`"),
        (lambda P, r: P.__setitem__((1, 2, 0), -0.2), r"row \(state=1, action=2\) has the probability -0.2"),
        (lambda P, r: P.__setitem__((1, 2, 0), np.nan), r"row \(state=1, action=2\) has the probability nan"),
        (lambda P, r: P.__setitem__((1, 2, 0), np.inf), r"row \(state=1, action=2\) has the probability inf"),
        (lambda P, r: r.__setitem__((4, 1), np.nan), r"reward of \(state=4, action=1\) to state \d is nan"),
    ],
)
def test_a_fault_is_named_with_its_place(spoil, message):
    P, r = random_arrays()
    spoil(P, r)
    with pytest.raises(ModelError, match=message):
        MDP(P, r, 0.9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.0}, r"discount is 1; it must be at least 0 and below 1 \(for episodes that end"),
        ({"discount": -0.1}, "discount is -0.1"),
        ({"discount": float("nan")}, "discount is nan"),
        ({"P": np.ones((5, 3, 4))}, r"P has shape \(5, 3, 4\); it must be \(S, A, S\)"),
        ({"P": sp.eye_array(14, 5)}, r"sparse P has shape \(14, 5\); it must be \(S\*A, S\)"),
        ({"rewards": np.zeros((3, 5))}, r"rewards have shape \(3, 5\); they must be \(5, 3\) or \(5, 3, 5\)"),
        ({"states": "abcd"}, "4 state labels were given for 5 states"),
        ({"available": np.ones((5, 2))}, r"available has shape \(5, 2\); it must be \(5, 3\)"),
        ({"available": np.arange(15).reshape(5, 3) > 2}, "no action is available in state=0"),
        ({"available": np.full((5, 3), "no")}, "available has entries that are not True or False"),
        ({"discount": "a"}, "discount is 'a'; it must be a number"),
        ({"P": [["a"]]}, "P must be an array of real numbers"),
        ({"P": np.full((5, 3, 5), 0.2 + 0j)}, "P must be an array of real numbers"),
        ({"rewards": np.full((5, 3), 1e199)}, r"rewards up to 1e\+199 make values up to 1e\+200"),
        ({"reward_bound": (1, 2, 3)}, r"reward_bound is \(1, 2, 3\); it must be a number or a pair"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    P, r = random_arrays()
    with pytest.raises(ModelError, match=message):
        MDP(**{"P": P, "rewards": r, "discount": 0.9, **change})


def test_an_index_beyond_the_states_is_refused():
    rows = sp.csr_array((np.ones(2), np.array([0, 1], np.int32), np.array([0, 1, 2], np.int32)), shape=(2, 2))
    rows.indices[1] = 9
    with pytest.raises(ModelError, match=r"row \(state=1, action=0\) leads to state 9; states are 0 to 1"):
        MDP(rows, np.zeros((2, 1)), 0.9)


def test_messages_speak_the_users_labels():
    P, r = random_arrays(S=2, A=1)
    P[1, 0] = 0.3
    with pytest.raises(ModelError, match=r"row \(state='rainy', action='walk'\) sums to 0.6"):
        MDP(P, r, 0.9, states=["sunny", "rainy"], actions=["walk"])
