"""Logs and counts against plain loops, pyarrow's reading of the file, and the stream that draws the same rows."""

from __future__ import annotations

import doctest
import json
from collections import defaultdict
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import dualq
from dualq import problems
from dualq.base.errors import LogError, ModelError
from dualq.base.labels import Labels
from dualq.logs import counts as counts_module
from dualq.logs.array_log import ArrayLog
from dualq.logs.checks.coverage import Coverage
from dualq.logs.counts import Counts
from dualq.solvers.exact import solve
from dualq.worlds.simulator import settling
from dualq.worlds.streams import Rows, Simulated

S, A = 4, 3
ROWS = st.lists(
    st.tuples(
        st.integers(0, S - 1),
        st.integers(0, A - 1),
        st.integers(-6, 6).map(lambda n: n / 2.0),  # sums of halves and their squares are exact in any order
        st.integers(0, S - 1),
        st.booleans(),
    ),
    max_size=40,
)


def columns(rows):
    """(s, a, r, s', ended) as arrays."""
    kinds = (int, int, float, int, bool)
    return [np.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


def counted(rows, **keywords):
    return Counts.from_arrays(*columns(rows), states=S, actions=A, **keywords)


def as_dict(counts):
    keys = zip(*(c.tolist() for c in (counts.s, counts.a, counts.s_next, counts.ended)), strict=True)
    sums = zip(*(c.tolist() for c in (counts.n, counts.reward_sum, counts.reward_square_sum)), strict=True)
    return dict(zip(keys, sums, strict=True))


def naive(rows):
    """{(s, a, s', ended): (n, sum r, sum r^2)}, a row at a time."""
    found = defaultdict(lambda: (0, 0.0, 0.0))
    for s, a, r, s_next, ended in rows:
        n, total, squares = found[s, a, s_next, ended]
        found[s, a, s_next, ended] = (n + 1, total + r, squares + r * r)
    return dict(found)


# ---- counts


@pytest.mark.parametrize("places", [True, False])  # a place for every key, or sorting
@given(ROWS)
def test_counts_are_those_of_a_loop(places, rows):
    S_many = S if places else 1000
    counts = Counts.from_arrays(*columns(rows), states=S_many, actions=A)
    found = as_dict(counts)
    assert found == naive(rows)
    assert list(found) == sorted(found)
    assert counts.total == len(rows)
    visits = np.zeros((S_many, A), int)
    for s, a, *_ in rows:
        visits[s, a] += 1
    np.testing.assert_array_equal(counts.visits, visits)
    if rows:
        assert counts.reward_range == (min(r for _, _, r, _, _ in rows), max(r for _, _, r, _, _ in rows))
        assert not counts.range_known


@given(ROWS, ROWS)
def test_merged_counts_are_the_counts_of_both_logs(one, other):
    merged, together = counted(one).merge(counted(other)), counted(one + other)
    assert as_dict(merged) == as_dict(together)
    assert merged.reward_range == together.reward_range
    known = counted(one, reward_range=(-3.0, 3.0)).merge(counted(other, reward_range=(-4.0, 3.0)))
    assert (known.reward_range, known.range_known) == ((-4.0, 3.0), True)
    assert not counted(one, reward_range=(-3.0, 3.0)).merge(counted(other)).range_known


def test_counts_of_other_states_are_not_merged():
    one = Counts.from_arrays([0], [0], [1.0], [0], states=Labels(["a", "b"]), actions=1)
    other = Counts.from_arrays([0], [0], [1.0], [0], states=Labels(["b", "a"]), actions=1)
    with pytest.raises(LogError, match="different states"):
        one.merge(other)


@given(ROWS, st.sampled_from([0.0, -3.0, 2.0]))
def test_the_empirical_model_has_the_frequencies(rows, never_left_reward):
    counts = counted(rows, reward_range=(-3.0, 3.0))
    mdp = counts.mdp(0.9, never_left_reward)
    some_end = any(row[4] for row in rows)
    assert list(mdp.states) == [*range(S), *(["(end)"] if some_end else [])]
    P = mdp.transitions.toarray().reshape(mdp.num_states, A, mdp.num_states)
    acted = {row[0] for row in rows}
    reached = {row[3] for row in rows if not row[4]}
    assert counts.never_left.tolist() == sorted(reached - acted)
    only_ended = {row[3] for row in rows if row[4]} - reached | {S}
    for s in range(mdp.num_states):
        for a in range(A):
            seen = [row for row in rows if row[:2] == (s, a)]
            assert mdp.available[s, a] == (bool(seen) or s not in acted)
            if s not in acted:
                expected = {s: 1.0}
                reward = 0.0 if s in only_ended else never_left_reward
            else:
                where = [S if row[4] else row[3] for row in seen]
                expected = {t: where.count(t) / len(seen) for t in set(where)}
                reward = float(sum(Fraction(row[2]) for row in seen) / len(seen)) if seen else 0.0
            np.testing.assert_allclose(P[s, a], [expected.get(t, 0.0) for t in range(mdp.num_states)], rtol=1e-15)
            assert mdp.rewards[s, a] == pytest.approx(reward, rel=1e-15, abs=0)
    assert mdp.reward_range == (-3.0, 3.0)


def test_nothing_follows_an_ended_row():
    # 0 -go-> 1 pays 1, 1 -go-> 2 pays 5 and ends, once; once it is cut off in 2, which is then a state like any other.
    s, a, r, s_next, ended = [0, 1, 1, 2], [0, 0, 0, 0], [1.0, 5.0, 5.0, 7.0], [1, 2, 2, 2], [0, 1, 0, 0]
    mdp = Counts.from_arrays(s, a, r, s_next, ended, states=3, actions=1).mdp(0.5)
    V_2 = 7.0 / (1.0 - 0.5)
    V_1 = 5.0 + 0.5 * (0.5 * 0.0 + 0.5 * V_2)
    np.testing.assert_allclose(solve(mdp).V, [1.0 + 0.5 * V_1, V_1, V_2, 0.0], atol=1e-8)
    assert mdp.reward_range == (0.0, 7.0)  # (end) pays 0


def test_the_end_is_labelled_apart_from_every_state():
    words = Counts.from_arrays([0], [0], [1.0], [1], [True], states=Labels(["x", "(end)"]), actions=1)
    assert list(words.mdp(0.9).states) == ["x", "(end)", "((end))"]
    parts = Labels([(1, "a"), (2, "b")], ("stock", "season"))
    pairs = Counts.from_arrays([0], [0], [1.0], [1], [True], states=parts, actions=1)
    assert pairs.mdp(0.9).states[2] == ("(end)", "(end)")
    assert pairs.mdp(0.9).states.names == ("stock", "season")


def test_a_mean_does_not_leave_the_range_by_rounding():
    r = np.full(10, 0.1)
    assert r.sum() / 10 != 0.1 or np.bincount(np.zeros(10, int), r)[0] / 10 != 0.1  # this is why
    mdp = Counts.from_arrays(np.zeros(10), np.zeros(10), r, np.zeros(10), states=1, actions=1).mdp(0.9)
    assert mdp.reward_range == (0.1, 0.1)


def test_an_empty_log_has_a_model_of_nothing():
    counts = Counts.from_arrays([], [], [], [], states=2, actions=2)
    assert counts.total == 0
    assert counts.never_left.size == 0
    assert counts.mdp(0.9).absorbing.all()


def test_too_many_states_are_refused():
    with pytest.raises(LogError, match="too many to count"):
        counts_module._grouped(*(np.zeros(1, np.int32) for _ in range(4)), (None,) * 3, 2**31, 3)


# ---- logs


@pytest.mark.parametrize("name", ["two_state", "grid_world", "inventory", "queue", "garnet"])
def test_a_recorded_log_is_the_stream_draw_for_draw(name):
    sim = problems.BY_NAME[name]()
    log = sim.record(steps=1000, seed=5)
    assert len(log) == 1000
    stream, rows = Simulated(sim), Rows.empty(1000)
    state = stream.init(5)
    for begin in range(0, 1000, 250):  # whatever the chunks
        stream.fill(state, Rows(*(column[begin : begin + 250] for column in rows)))
    for mine, drawn in zip(log.rows, rows, strict=True):
        np.testing.assert_array_equal(mine, drawn)
    np.testing.assert_array_equal(log.time, np.arange(1000))
    assert log.reward_range == sim.mdp.reward_range
    assert log.range_known
    assert log.source == f"simulated: {sim.source}"

    again, chunk = log.stream(), Rows.empty(300)
    at, read = again.init(0), []
    while count := again.fill(at, chunk):
        read.append([column[:count].copy() for column in chunk])
    for mine, parts in zip(log.rows, zip(*read, strict=True), strict=True):
        np.testing.assert_array_equal(mine, np.concatenate(parts))

    other = sim.record(steps=1000, seed=6)
    assert not np.array_equal(other.next_state, log.next_state)


def test_a_drifting_behaviour_is_recorded_as_it_drifts():
    two = problems.two_state()
    always = type(two.behaviour)([[1.0, 0.0], [1.0, 0.0]])
    sim = type(two)(two.mdp, two.behaviour, two.start, "test", drift=settling(always, 1.0))
    log = sim.record(20_000)
    assert (log.action[:100] == 1).sum() > 0
    # After step k the other action is taken with probability at most 0.8 / (k + 1): fewer than one expected here.
    assert (log.action[10_000:] == 1).sum() < 12  # false alarm below 1e-11


def test_the_counts_of_a_log_are_those_of_its_rows():
    log = problems.inventory().record(3000, seed=1)
    rows = list(zip(*(column.tolist() for column in log.rows), strict=True))
    found, expected = as_dict(log.counts()), naive(rows)
    assert found.keys() == expected.keys()
    for key, (n, *sums) in expected.items():
        assert found[key][0] == n
        assert found[key][1:] == pytest.approx(sums, rel=1e-12)
    assert log.counts().reward_range == log.reward_range
    assert log.counts().mdp(0.9).states == log.states


def test_the_file_has_the_labels_and_the_exact_rewards(tmp_path):
    sim = problems.grid_world(3)
    log = sim.record(2000, seed=2)
    path = tmp_path / "new" / "log.parquet"
    log.to_parquet(path)
    assert [file.name for file in path.parent.iterdir()] == ["log.parquet"]
    table = parquet.read_table(path)
    assert table.column_names == ["row", "column", "action", "reward", "next_row", "next_column", "time"]
    states = zip(table["row"].to_pylist(), table["column"].to_pylist(), strict=True)
    np.testing.assert_array_equal([sim.mdp.states.index(label) for label in states], log.state)
    states = zip(table["next_row"].to_pylist(), table["next_column"].to_pylist(), strict=True)
    np.testing.assert_array_equal([sim.mdp.states.index(label) for label in states], log.next_state)
    np.testing.assert_array_equal([sim.mdp.actions.index(label) for label in table["action"].to_pylist()], log.action)
    assert table["reward"].to_pylist() == log.reward.tolist()  # to the last bit
    assert table["time"].to_pylist() == list(range(2000))
    kept = json.loads(table.schema.metadata[b"dualq"])
    assert tuple(kept["reward_range"]) == sim.mdp.reward_range
    assert kept["columns"]["state"] == ["row", "column"]
    assert table.equals(log.table(), check_metadata=True)


def test_a_plain_state_has_the_plain_columns():
    table = problems.chain().record(10).table()
    assert table.column_names == ["state", "action", "reward", "next_state", "time"]
    assert set(table["action"].to_pylist()) <= {"forward", "back"}
    assert [str(table.schema.field(name).type) for name in table.column_names] == [
        "int64",
        "string",
        "double",
        "int64",
        "int64",
    ]


@pytest.mark.parametrize("labels", [[3, 5], ["3", "5"], [True, False], [0.5, 2.0]])
def test_labels_keep_their_types(tmp_path, labels):
    log = ArrayLog([0, 1], [0, 0], [1.0, 2.0], [1, 0], Labels(labels), Labels(["go"], "action"))
    log.to_parquet(tmp_path / "log.parquet")
    read = parquet.read_table(tmp_path / "log.parquet")["state"].to_pylist()
    assert read == labels
    assert [type(value) for value in read] == [type(value) for value in labels]


@pytest.mark.parametrize("labels", [[3, "3"], [1, 0.5], [True, 2]])
def test_labels_of_several_types_are_refused_as_a_column(labels):
    log = ArrayLog([0, 1], [0, 0], [1.0, 2.0], [1, 0], Labels(labels), Labels(1, "action"))
    with pytest.raises(LogError, match="labels of the column 'state' are of several types"):
        log.table()


def test_parts_that_are_called_like_other_columns_are_told_apart():
    states = Labels([(1, 2), (3, 4)], ("time", "next_time"))
    table = ArrayLog([0, 1], [0, 0], [1.0, 2.0], [1, 0], states, Labels(1, "action"), time=[7, 8]).table()
    assert table.to_pydict() == {
        "state_time": [1, 3],
        "next_time": [2, 4],
        "action": [0, 0],
        "reward": [1.0, 2.0],
        "next_state_next_time": [3, 1],
        "next_next_time": [4, 2],
        "time": [7, 8],
    }


def test_ended_rows_are_in_the_table_and_in_the_stream():
    log = ArrayLog([0, 1], [0, 0], [1.0, 2.0], [1, 0], Labels(2), Labels(1, "action"), ended=[False, True])
    assert log.table()["ended"].to_pylist() == [False, True]
    assert log.stream().rows.ended.tolist() == [False, True]
    assert log.counts().ended.tolist() == [False, True]


def test_an_unknown_range_is_what_was_seen_and_is_not_written():
    log = ArrayLog([0, 1], [0, 0], [1.0, 2.0], [1, 0], Labels(2), Labels(1, "action"))
    assert (log.reward_range, log.range_known) == ((1.0, 2.0), False)
    assert "reward_range" not in json.loads(log.table().schema.metadata[b"dualq"])
    assert not log.counts().range_known


def test_a_long_log_is_a_table_of_several_chunks(monkeypatch):
    monkeypatch.setattr("dualq.logs.array_log.TABLE_CHUNK", 7)
    log = problems.chain().record(100)
    table = log.table()
    assert table["state"].num_chunks == 15
    assert table["state"].to_pylist() == log.state.tolist()


def test_a_log_is_read_only():
    log = problems.two_state().record(10)
    for column in (*log.rows, log.time, log.counts().n):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": [0, 2]}, "row 1: state is 2; it must be a place from 0 to 1"),
        ({"action": [-1, 0]}, "row 0: action is -1; it must be a place from 0 to 0"),
        ({"next_state": [0, 9]}, "row 1: next_state is 9"),
        ({"reward": [1.0, np.nan]}, "row 1: reward is nan; rewards must be finite"),
        ({"reward": [np.inf, 0.0]}, "row 0: reward is inf"),
        ({"reward": [1.0, 4.0]}, r"row 1: reward is 4; the known range is \[0, 3\]"),
        ({"reward": [1.0]}, "must have the same number"),
        ({"time": [1]}, "column time has 1 rows; the others have 2"),
        ({"reward_range": (3.0, 0.0)}, r"reward_range is \(3.0, 0.0\); it must be two finite numbers"),
    ],
)
def test_what_is_wrong_with_a_log_is_said_with_its_row(change, message):
    right = {"state": [0, 1], "action": [0, 0], "reward": [1.0, 2.0], "next_state": [1, 0], "reward_range": (0.0, 3.0)}
    ArrayLog(**right, states=Labels(2), actions=Labels(1, "action"))
    with pytest.raises(LogError, match=message):
        ArrayLog(**(right | change), states=Labels(2), actions=Labels(1, "action"))


@pytest.mark.parametrize(("steps", "seed"), [(0, 0), (-1, 0), (1.5, 0), (1e3, 0), (True, 0), (10, -1), (10, "x")])
def test_steps_and_seeds_are_whole_numbers(steps, seed):
    with pytest.raises(ModelError, match="it must be a whole number, at least"):
        problems.two_state().record(steps, seed)


def test_plain_arrays_with_counts_for_labels_are_a_log():
    log = ArrayLog([0, 1, 1], [0, 0, 1], [1.0, 2.0, 3.0], [1, 1, 0], 2, 2)
    assert (list(log.states), list(log.actions)) == ([0, 1], [0, 1])
    np.testing.assert_array_equal(log.counts().visits, [[1, 0], [1, 1]])
    run = dualq.train(dualq.QLearning(step_size=1.0), log, 3, discount=0.5)
    # Q(0,0) = 1; Q(1,0) = 2 + .5 max(0, 0); Q(1,1) = 3 + .5 Q(0,0)
    np.testing.assert_array_equal(run.solution.Q[log.counts().visits > 0], [1.0, 2.0, 3.5])


# ---- the joint


def test_every_kind_is_a_log(tmp_path):
    log = problems.two_state().record(100)
    log.to_parquet(tmp_path / "log.parquet")
    assert isinstance(log, dualq.Log)
    assert isinstance(dualq.read_log(tmp_path / "log.parquet"), dualq.Log)
    assert not isinstance(log.counts(), dualq.Log)


def test_the_skeleton_of_a_log_learns_what_a_table_without_order_does(tmp_path):
    """The class in the docstring of `Log`, copied and used."""
    examples = [e.source for e in doctest.DocTestParser().get_examples(dualq.Log.__doc__) if "class " in e.source]
    names = {"dualq": dualq, "Coverage": Coverage}
    exec("".join(examples), names)
    table = problems.two_state().record(500).table()
    roles = {"state": "state", "action": "action", "reward": "reward", "next_state": "next_state"}
    unordered = dualq.read_log(table.drop_columns(["time"]), **roles, time=False)
    fits = [dualq.learn(log, discount=0.9) for log in (unordered, names["CountedLog"](unordered.counts()))]
    np.testing.assert_array_equal(fits[0].policy.matrix, fits[1].policy.matrix)
    bounds = [(fit.certificate.lower, fit.certificate.upper, fit.expected.value) for fit in fits]
    assert bounds[0] == bounds[1]


WITH_EXAMPLES = ("log", "array_log", "table_log", "counts", "checks.coverage", "reading.read_log", "reading.look")


@pytest.mark.parametrize("name", [*(f"dualq.logs.{name}" for name in WITH_EXAMPLES), "dualq.offline.learner"])
def test_examples_in_docstrings_run(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
