"""The states of a log beside those of its model, against what is written out by hand."""

from __future__ import annotations

import numpy as np

from dualq.base import Labels
from dualq.logs import Counts
from dualq.model import TablePolicy


def counted(ended, states=2):
    """Rows 0 -> 1 (action 0), 1 -> 0 (action 1), and 0 -> 1 (action 1) which may have ended."""
    return Counts.from_arrays([0, 1, 0], [0, 1, 1], [1.0, 2.0, 3.0], [1, 0, 1], ended, states=states, actions=2)


def test_the_model_has_one_state_more_where_some_row_ended():
    open_, ends = counted([False, False, False]), counted([False, False, True])
    assert list(open_.support.model_states) == [0, 1] == list(open_.mdp(0.9).states)
    assert list(ends.support.model_states) == [0, 1, "(end)"] == list(ends.mdp(0.9).states)
    assert open_.support.model_shape == (2, 2) == open_.mdp(0.9).rewards.shape
    assert ends.support.model_shape == (3, 2) == ends.mdp(0.9).rewards.shape


def test_a_log_that_has_such_a_state_itself_keeps_it():
    states = Labels(["(end)", "go"], "state")
    assert list(counted([False, False, True], states).support.model_states) == ["(end)", "go", "((end))"]


def test_arrays_go_there_and_back():
    support = counted([False, False, True]).support
    np.testing.assert_array_equal(support.to_model([1.0, 2.0]), [1.0, 2.0, 0.0])
    np.testing.assert_array_equal(support.to_model([[1, 2], [3, 4]], at_end=7), [[1, 2], [3, 4], [7, 7]])
    np.testing.assert_array_equal(support.to_log(np.array([1.0, 2.0, 9.0])), [1.0, 2.0])
    mdp = counted([False, False, True]).mdp(0.9)
    np.testing.assert_array_equal(support.chain_to_log(mdp.transitions).toarray(), [[0, 1], [0, 0], [0, 0], [1, 0]])


def test_policies_go_there_and_back():
    support = counted([False, False, True]).support
    whole = TablePolicy([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], support.model_states, undecided=[False, True, True])
    cut = support.policy_to_log(whole)
    np.testing.assert_array_equal(cut.matrix, [[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_array_equal(cut.undecided, [False, True])
    assert list(cut.states) == [0, 1]
    np.testing.assert_array_equal(support.policy_to_log(whole, np.array([True, False])).undecided, [True, False])
    back = support.policy_to_model(TablePolicy([[0.0, 1.0], [1.0, 0.0]]), whole)
    np.testing.assert_array_equal(back.matrix, [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert list(back.states) == [0, 1, "(end)"]


def test_nothing_follows_where_rows_only_ended():
    # 1 is entered by rows that ended and by rows that went on, 2 only by rows that ended, 3 by none.
    rows = [0, 0, 1], [0, 0, 0], [1.0, 1.0, 1.0], [1, 1, 2], [True, False, True]
    counts = Counts.from_arrays(*rows, states=4, actions=1)
    assert counts.over.tolist() == [False, False, True, False, True]
    assert counts.successor[np.flatnonzero(counts.ended)].tolist() == [4, 4]


def test_a_model_is_made_once():
    counts = counted([False, False, True])
    assert counts.mdp(0.9) is counts.mdp(0.9)
    assert counts.mdp(0.9) is counts.mdp(0.9, never_left_reward=5.0)  # no state waits for that
    assert counts.mdp(0.8) is not counts.mdp(0.9)
    stuck = Counts.from_arrays([0], [0], [1.0], [1], [False], states=2, actions=1)
    assert stuck.mdp(0.9).rewards[1, 0] == 0.0
    assert stuck.mdp(0.9, never_left_reward=5.0).rewards[1, 0] == 5.0
