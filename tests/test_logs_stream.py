"""The rows of a table as a stream: the same as those of arrays, in order, resumable."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import dualq
from dualq import problems
from dualq.base.transitions import Rows
from dualq.logs import stream as stream_module


def read_all(stream, chunk, state=None):
    rows = Rows.empty(chunk)
    state = stream.init(0) if state is None else state
    parts = []
    while count := stream.fill(state, rows):
        parts.append([column[:count].copy() for column in rows])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


@pytest.mark.parametrize("chunk", [7, 1000, 5000])
def test_a_file_streams_what_the_arrays_hold(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(stream_module, "CHUNK", 512)
    log = problems.two_state().record(3000, seed=4)
    log.to_parquet(tmp_path / "log.parquet")
    stream = dualq.read_log(tmp_path / "log.parquet").stream()
    assert stream.order == []  # it stands in order already
    for mine, column in zip(read_all(stream, chunk), log.rows, strict=True):
        np.testing.assert_array_equal(mine, column)


def test_shuffled_rows_stream_in_time_order_and_resume():
    rng = np.random.default_rng(0)
    order = rng.permutation(900)
    state, action, reward = rng.integers(0, 5, 900), rng.choice(["a", "b"], 900), rng.random(900)
    shop, day = np.repeat(["x", "y", "z"], 300), np.tile(np.arange(300), 3)
    columns = {"state": state, "action": action, "reward": reward, "episode": shop, "time": day}
    log = dualq.read_log({name: column[order] for name, column in columns.items()})
    stream = log.stream()
    assert stream.order == ["t", "e0"]
    expected = [(d, e) for d in range(299) for e in range(3)]  # the last day has no successor
    s, a, r, s_next, _ = read_all(stream, 100)
    np.testing.assert_array_equal(s, [state[e * 300 + d] for d, e in expected])
    np.testing.assert_array_equal(s_next, [state[e * 300 + d + 1] for d, e in expected])
    np.testing.assert_array_equal(r, [reward[e * 300 + d] for d, e in expected])
    assert [log.actions[i] for i in a] == [action[e * 300 + d] for d, e in expected]
    later = stream.init(0)
    later.k[0] = 500
    np.testing.assert_array_equal(read_all(stream, 64, later)[2], r[500:])


@pytest.mark.parametrize("time", ["day", "row"])
def test_rows_of_many_episodes_that_stand_in_time_order_come_in_time_order(time):
    # Their next states are found episode by episode, which must not leave them so.
    rng = np.random.default_rng(1)
    shop, day = np.tile(np.arange(50), 80), np.repeat(np.arange(80), 50)
    columns = {"state": rng.integers(0, 5, 4000), "action": [0] * 4000, "reward": np.arange(4000.0), "shop": shop}
    log = dualq.read_log({**columns, "day": day}, episode="shop", time=time)
    np.testing.assert_array_equal(read_all(log.stream(), 1000)[2], np.arange(3950.0))
    cuts = [0, 246, 987, 3950]
    blocks = log.counts_between(cuts)
    assert [block.reward_sum.sum() for block in blocks] == [sum(range(i, j)) for i, j in pairwise(cuts)]


def test_where_time_begins_anew_episodes_stay_together():
    rows = {
        "state": [0, 1] * 5,
        "action": [0] * 10,
        "reward": [1.0] * 10,
        "t": [0, 1] * 5,
        "episode": list("aabbccddee"),
    }
    stream = dualq.read_log({**rows, "done": [False, True] * 5}).stream()
    assert stream.order == ["e0", "t"]
    s, _, _, _, ended = read_all(stream, 3)
    assert s.tolist() == [0, 1] * 5
    assert ended.tolist() == [False, True] * 5


def test_days_that_many_shops_share_are_no_steps_of_each():
    # 40 shops and 5 days: more episodes than times, and time goes on for all of them together.
    day = np.datetime64("2024-01-01") + np.tile(np.arange(5), 40)
    columns = {"state": [0] * 200, "action": [0] * 200, "reward": np.arange(200.0), "shop": np.repeat(np.arange(40), 5)}
    log = dualq.read_log({**columns, "day": day}, episode="shop", time="day")
    expected = [5.0 * shop + d for d in range(4) for shop in range(40)]
    np.testing.assert_array_equal(read_all(log.stream(), 64)[2], expected)


def test_algorithm_one_learns_the_same_from_a_file(tmp_path):
    from dualq.online.training import Task

    log = problems.two_state().record(4000, seed=2)
    log.to_parquet(tmp_path / "log.parquet")
    read = dualq.read_log(tmp_path / "log.parquet")
    mdp = log.counts().mdp(0.9)
    start, silent = np.full(2, 0.5), np.zeros(2, bool)
    algorithm = dualq.SPDQ(weights=0.1, zeta=0.05)
    tasks = [Task(s, mdp, False, 0.05, start, "test", silent) for s in (log.stream(), read.stream())]
    one, other = (dualq.train(algorithm, task, 4000) for task in tasks)
    np.testing.assert_array_equal(one.solution.Q, other.solution.Q)
