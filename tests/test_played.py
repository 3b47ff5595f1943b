"""Playing Gymnasium environments: a hand-written one whose every move is known, and FrozenLake against its own table.

Statistical tests are seeded. Each rejects a correct stream with probability FALSE_ALARM at most (over seeds).
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

import dualq
from dualq.base import Labels
from dualq.base.errors import CheckpointError, LogError, ModelError
from dualq.logs.array_log import ArrayLog
from dualq.model.policy import TablePolicy
from dualq.worlds.streams import Played, Rows

FALSE_ALARM = 1e-6


class Corridor:
    """Cells 0 to 3: action 1 goes right, 0 stays. Cell 3 terminates; an episode is truncated after `limit` steps."""

    def __init__(self, limit=100, first=0, rewards=None):
        self.observation_space = SimpleNamespace(n=4, start=first, shape=())
        self.action_space = SimpleNamespace(n=2, start=first, shape=())
        self.limit, self.first, self.rewards = limit, first, rewards
        self.seeds, self.resets, self.steps = [], 0, 0

    def reset(self, seed=None):
        if seed is not None:
            self.seeds.append(seed)
        self.resets += 1
        self.cell = self.length = 0
        return self.first, {}

    def step(self, action):
        self.cell += action - self.first
        self.length += 1
        reward = float(self.cell) if self.rewards is None else self.rewards[self.steps]
        self.steps += 1
        return np.int64(self.cell + self.first), reward, self.cell == 3, self.length >= self.limit, {}


def play(env, steps, behaviour="uniform", seed=0, chunk=None):
    stream, rows = Played(env, behaviour), Rows.empty(steps)
    state = stream.init(seed)
    for begin in range(0, steps, chunk or steps):
        part = Rows(*(column[begin : begin + (chunk or steps)] for column in rows))
        assert stream.fill(state, part) == part.s.size
    return rows


def test_a_terminated_episode_ended_and_begins_again():
    env = Corridor()
    rows = play(env, 7, lambda observation: 1, seed=9)
    assert rows.s.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert rows.s_next.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert rows.a.tolist() == [1] * 7
    assert rows.r.tolist() == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0]
    assert rows.ended.tolist() == [False, False, True, False, False, True, False]
    assert env.seeds == [9]  # once; the resets that follow go on from there
    assert env.resets == 3


def test_a_truncated_episode_did_not_end_and_begins_again():
    rows = play(Corridor(limit=2), 5, lambda observation: 1)
    assert rows.s.tolist() == [0, 1, 0, 1, 0]
    assert rows.s_next.tolist() == [1, 2, 1, 2, 1]
    assert not rows.ended.any()
    both = play(Corridor(limit=3), 4, lambda observation: 1)  # terminated and truncated at once: it ended
    assert both.ended.tolist() == [False, False, True, False]


def test_spaces_that_begin_elsewhere_keep_their_numbers_as_labels():
    env, seen = Corridor(first=5), []
    stream, rows = Played(env, lambda observation: seen.append(observation) or 6), Rows.empty(4)
    stream.fill(stream.init(0), rows)
    assert seen == [5, 6, 7, 5]
    assert rows.s.tolist() == [0, 1, 2, 0]
    assert rows.a.tolist() == [1] * 4
    log = ArrayLog.from_rows(rows, stream.states, stream.actions)
    assert log.table().to_pydict()["next_state"] == [6, 7, 8, 6]
    assert log.table().to_pydict()["action"] == [6] * 4


def test_the_same_seed_plays_the_same_rows_whatever_the_chunks():
    one, other, third = (play(Corridor(), 200, seed=s, chunk=c) for s, c in ((1, None), (1, 7), (2, None)))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(one.a, third.a)


@pytest.mark.parametrize("policy", [None, [0.2, 0.8]])
def test_the_behaviour_acts_with_its_probabilities(policy):
    p = 0.5 if policy is None else policy[1]
    rows = play(Corridor(), 4000, "uniform" if policy is None else TablePolicy([policy] * 4))
    statistic = (rows.a.sum() - 4000 * p) ** 2 / (4000 * p * (1 - p))
    assert chi2.sf(statistic, 1) > FALSE_ALARM


class MoreToTheRight:
    """A policy without a table: it goes right in cell c with probability (c + 1) / 4."""

    actions = Labels(2, "action")

    def probabilities(self, state):
        return {0: 1.0 - (state + 1) / 4, 1: (state + 1) / 4}

    def act(self, state, seed=None, default=None):
        return int(np.random.default_rng(seed).random() < (state + 1) / 4)


def test_a_policy_of_another_kind_plays_as_its_table_would():
    """Shares of going right in the three cells, as its probabilities say, and the same rows with the same seed."""
    policy = MoreToTheRight()
    assert isinstance(policy, dualq.Policy)
    assert not isinstance(policy, TablePolicy)
    assert isinstance(TablePolicy([[1.0]]), dualq.Policy)
    rows = play(Corridor(), 6000, policy, seed=3)
    again = play(Corridor(), 6000, policy, seed=3, chunk=7)
    np.testing.assert_array_equal(rows.a, again.a)
    for cell in range(3):
        right, p = rows.a[rows.s == cell], policy.probabilities(cell)[1]
        statistic = (right.sum() - right.size * p) ** 2 / (right.size * p * (1 - p))
        assert right.size > 500
        assert chi2.sf(statistic, 1) > FALSE_ALARM


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_a_reward_that_is_no_number_is_named_with_its_step(reward):
    rewards = [0.0] * 17 + [reward] + [0.0] * 10
    stream = Played(Corridor(rewards=rewards))
    state = stream.init(0)
    stream.fill(state, Rows.empty(10))
    with pytest.raises(LogError, match=f"step 17: reward is {reward}; rewards must be finite"):
        stream.fill(state, Rows.empty(10))
    assert state.k[0] == 17


def test_an_environment_cannot_be_put_back():
    stream = Played(Corridor())
    old = stream.init(0)
    stream.fill(old, Rows.empty(5))
    stream.init(0)
    with pytest.raises(CheckpointError, match="the run stands at step 5 and the environment at 0"):
        stream.fill(old, Rows.empty(5))


@pytest.mark.parametrize("action", [2, -1, 0.5, None])
def test_an_action_that_does_not_exist_is_refused(action):
    stream = Played(Corridor(), lambda observation: action)
    with pytest.raises(LogError, match=r"step 0: action is .*; it must be a whole number from 0 to 1"):
        stream.fill(stream.init(0), Rows.empty(1))


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("random", "the behaviour is 'random'"),
        (None, "the behaviour is None"),
        (TablePolicy([[1.0]]), r"is for \(1, 1\)"),
    ],
)
def test_a_behaviour_that_does_not_fit_is_refused(behaviour, message):
    with pytest.raises(ModelError, match=message):
        Played(Corridor(), behaviour)


# ---- Gymnasium's own


def test_spaces_that_are_not_discrete_are_refused():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(ModelError, match=r"the observation space is Box\(.*; it must be discrete"):
        Played(gymnasium.make("CartPole-v1"))
    env = Corridor()
    env.action_space = gymnasium.spaces.MultiBinary(2)  # it has an n, too
    with pytest.raises(ModelError, match=r"the action space is MultiBinary\(2\); it must be discrete"):
        Played(env)
    env.action_space = gymnasium.spaces.Discrete(2, start=-1)
    assert list(Played(env).actions) == [-1, 0]


@pytest.mark.parametrize("limit", [None, 5])
def test_frozen_lake_moves_as_its_table_says(limit):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=limit)
    table = env.unwrapped.P
    rows = play(env, 20_000, seed=4)
    env.close()
    terminal = {
        s
        for s in range(16)
        if any(done and t == s for x in range(16) for o in table[x].values() for _, t, _, done in o)
    }

    # Ended where the table ends, and nowhere else: not where the time limit cut an episode off.
    np.testing.assert_array_equal(rows.ended, np.isin(rows.s_next, list(terminal)))
    assert not np.isin(rows.s, list(terminal)).any()
    np.testing.assert_array_equal(rows.r, rows.s_next == 15)
    goes_on = rows.s[1:] == rows.s_next[:-1]
    assert (rows.s[1:][~goes_on] == 0).all()
    cut = ~goes_on & ~rows.ended[:-1]
    assert cut.any() == (limit is not None)

    # Given (s, a), the successors have the table's frequencies: one chi-square over all cells.
    log = ArrayLog.from_rows(rows, *(Played(env).states, Played(env).actions))
    counts = log.counts()
    n, statistic, freedom = counts.visits, 0.0, 0
    seen = {(s, a, t): k for s, a, t, k in zip(counts.s, counts.a, counts.s_next, counts.n, strict=True)}
    for s, a in np.argwhere(n > 0).tolist():
        probability = {}
        for p, t, _, _ in table[s][a]:
            probability[t] = probability.get(t, 0.0) + p
        assert {t for x, b, t in seen if (x, b) == (s, a)} <= set(probability)
        if n[s, a] * min(probability.values()) >= 20.0:  # where the chi-square is a good approximation
            for t, p in probability.items():
                statistic += (seen.get((s, a, t), 0) - n[s, a] * p) ** 2 / (n[s, a] * p)
            freedom += len(probability) - 1
    assert freedom > 20
    assert chi2.sf(statistic, freedom) > FALSE_ALARM

    # Every action is taken a quarter of the time.
    taken = np.bincount(rows.a, minlength=4)
    assert chi2.sf(((taken - 5000.0) ** 2 / 5000.0).sum(), 3) > FALSE_ALARM


def test_a_played_log_is_what_the_environment_did():
    # The naive way: a plain loop over the environment with the actions of the log.
    gymnasium = pytest.importorskip("gymnasium")
    log = dualq.play(gymnasium.make("FrozenLake-v1", is_slippery=True, max_episode_steps=7), 300, seed=3)
    env = gymnasium.make("FrozenLake-v1", is_slippery=True, max_episode_steps=7)
    s, _ = env.reset(seed=3)
    episode, seen = 0, []
    for a in log.action.tolist():
        s_next, r, terminated, truncated, _ = env.step(a)
        seen.append((s, a, r, s_next, terminated, episode))
        s = s_next
        if terminated or truncated:
            s, _ = env.reset()
            episode += 1
    columns = (log.state, log.action, log.reward, log.next_state, log.ended, log.episode)
    assert [tuple(row) for row in zip(*(c.tolist() for c in columns), strict=True)] == seen
    assert episode > 20
    assert 0 < log.ended.sum() < episode  # some episodes ended, some were cut off
    fit = dualq.learn(log, discount=0.9)
    assert fit.start[0] == 1.0  # every episode begins in the corner
