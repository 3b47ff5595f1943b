"""Which clock time is: one for all episodes, or a counter of each one's steps; and what follows from it."""

import numpy as np
import pytest

import dualq
from dualq.base.transitions import Rows
from dualq.logs.array_log import ArrayLog


def of(episode, time, seed: int = 0, name: str = "step") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = len(episode)
    rows = {"state": rng.integers(0, 3, n), "action": rng.integers(0, 2, n), "reward": rng.normal(size=n)}
    return {"who": np.asarray(episode), name: np.asarray(time), **rows}


def poles(episodes: int = 20, seed: int = 0) -> dict[str, np.ndarray]:
    """Episodes of up to 200 steps, each counted from 0: more times than episodes. The reward is the row's place."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 200, episodes)
    rows = of(np.repeat(np.arange(episodes), sizes), np.concatenate([np.arange(n) for n in sizes]), seed)
    return rows | {"reward": np.arange(sizes.sum()).astype(float), "done": np.diff(rows["who"], append=99) != 0}


WORDS = {"episode": "who", "time": "step"}


def test_a_counter_is_no_clock_though_there_are_more_times_than_episodes():
    rows = poles()
    order = np.random.default_rng(1).permutation(rows["who"].size)
    log = dualq.read_log({name: column[order] for name, column in rows.items()}, **WORDS)
    assert log.questions.restarts()
    chunk, stream = Rows.empty(10_000), log.stream()
    n = stream.fill(stream.init(0), chunk)
    assert chunk.r[:n].tolist() == rows["reward"].tolist()  # one episode after another
    assert log.coverage().drift_by == "episode (who)"
    assert log.trace().restarts
    late = dualq.read_log(rows, **WORDS, since=15)
    assert len(late) == int((rows["who"] >= 15).sum())  # whole episodes, not the end of each


def test_arrays_have_the_same_clock_as_tables():
    rows = poles()
    log = ArrayLog(rows["state"], rows["action"], rows["reward"], rows["state"], 3, 2, rows["done"], rows["step"],
              episode=rows["who"])  # fmt: skip
    assert log.restarts
    assert log.reward.tolist() == rows["reward"].tolist()
    moved = ArrayLog(rows["state"], rows["action"], rows["reward"], rows["state"], 3, 2, rows["done"],
                rows["step"] + rows["who"], episode=rows["who"])  # fmt: skip
    assert not moved.restarts
    assert (np.diff(moved.time) >= 0).all()


def test_episodes_that_begin_at_different_times_share_a_clock():
    rng = np.random.default_rng(0)
    rows = of(np.repeat(np.arange(300), 4), (rng.integers(0, 9, 300)[:, None] + np.arange(4)).ravel())
    log = dualq.read_log(rows, **WORDS)
    assert not log.questions.restarts()  # though there are 300 episodes and 12 times
    assert log.coverage().drift_by == "time (step)"
    assert not log.remarks


@pytest.mark.parametrize(
    ("name", "episodes", "times", "counter", "said"),
    [
        ("day", 10, 30, False, False),
        ("step", 50, 20, True, False),
        ("time_step", 50, 20, True, False),
        ("weekNumber", 10, 30, False, False),
        ("day", 50, 20, False, True),  # the name against the number of episodes
        ("step", 10, 30, True, True),
        ("x", 10, 30, False, True),  # a name that says nothing
        ("x", 50, 20, True, True),
    ],
)
def test_a_balanced_panel_can_be_either(name, episodes, times, counter, said):
    rows = of(np.repeat(np.arange(episodes), times), np.tile(np.arange(times), episodes), name=name)
    log = dualq.read_log(rows, episode="who", time=name)
    assert log.questions.restarts() is counter
    assert any("--clock" in remark for remark in log.remarks) is said
    for clock, restarts in (("shared", False), ("episode", True)):
        log = dualq.read_log(rows, episode="who", time=name, clock=clock)
        assert log.questions.restarts() is restarts
        assert not log.remarks
        assert log.coverage().drift_by == ("episode (who)" if restarts else f"time ({name})")
        assert log.trace().restarts is restarts


def test_a_day_with_few_episodes_is_a_clock_though_some_stop_early():
    rows = of(np.repeat(np.arange(10), 30), np.tile(np.arange(30), 10), name="day")
    rows = {name: column[(rows["who"] > 3) | (rows["day"] < 20)] for name, column in rows.items()}
    log = dualq.read_log(rows, episode="who", time="day")
    assert not log.questions.restarts()
    assert any("one clock for all" in remark for remark in log.remarks)


def test_parts_of_a_counter_need_episodes_in_order():
    rows = poles()
    rows["who"] = np.array([f"run {i}" for i in rows["who"]])
    with pytest.raises(dualq.LogError, match="step counts the steps of each episode, and who is no number or date"):
        dualq.read_log(rows, **WORDS, since=10)
    log = dualq.read_log(rows, **WORDS, since=10, clock="shared")
    assert len(log) == int((poles()["step"] >= 10).sum())
    with pytest.raises(dualq.LogError, match="clock is 'both'"):
        dualq.read_log(rows, **WORDS, clock="both")
    with pytest.raises(dualq.LogError, match="needs a time column and an episode column"):
        dualq.read_log(rows, episode=False, time="row", clock="shared")


def customers(seed: int, changes: bool) -> dict[str, np.ndarray]:
    """600 customers over 100 days, each from a day of their own on; from day 60 on the system may change."""
    rng = np.random.default_rng(seed)
    first, sizes = rng.integers(0, 80, 600), rng.integers(6, 20, 600)
    who = np.repeat(np.arange(600), sizes)
    day = np.concatenate([f + np.arange(n) for f, n in zip(first, sizes, strict=True)])
    state = np.zeros(who.size, int)
    action = rng.integers(0, 2, who.size)
    up = np.where(changes & (day >= 60), 0.55, 0.4) + 0.2 * action
    draw = rng.random(who.size)
    for i in range(1, who.size):
        state[i] = (state[i - 1] + (draw[i] < up[i - 1])) % 4 if who[i] == who[i - 1] else 0
    return {"who": who, "day": day, "state": state, "action": action, "reward": state + rng.normal(size=who.size)}


@pytest.mark.parametrize(("logs", "missed", "false"), [(10, 1, 1), pytest.param(30, 2, 2, marks=pytest.mark.slow)])
def test_customers_with_whole_days_have_their_drift_tested(logs, missed, false):
    # without a change each log raises an alarm with probability 0.01: more than 1 of 10 have 0.004, 2 of 30 0.003
    alarms = {}
    for changes in (True, False):
        read = (dualq.read_log(customers(seed, changes), episode="who", time="day") for seed in range(logs))
        drifts = [log.coverage().drift for log in read]
        alarms[changes] = sum(drift["dynamics"].found or drift["rewards"].found for drift in drifts)
    assert alarms[True] >= logs - missed
    assert alarms[False] <= false
