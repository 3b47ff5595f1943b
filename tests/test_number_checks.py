"""Checks of logs whose state has numbers: what is found, what is not, and how often nothing is taken for something."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dualq
from dualq.logs import number_checks
from dualq.logs.checks import number_cells, turns
from dualq.logs.checks.homogeneity import alike_scores
from dualq.logs.checks.recent import recent
from dualq.logs.checks.turns import comes_again
from dualq.worlds import continuous

EPISODES = 100


def world(seed: int, kind: str = "", steps: int = 100, noise: float = 0.5) -> dict[str, np.ndarray]:
    """A walk in two numbers whose behaviour drifts, so that rows late in the log lie elsewhere than early ones."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(EPISODES, 2))
    rows: dict[str, list] = {name: [] for name in ("x", "y", "a", "r", "e", "t")}
    for t in range(steps):
        a = (rng.random(EPISODES) < 1.0 / (1.0 + np.exp(-x[:, 0] - 2.0 * t / steps))).astype(int)
        r = np.sin(x[:, 0]) + 0.3 * a * x[:, 1] + x[:, 1] ** 2 / 3.0 + noise * rng.normal(size=EPISODES)
        r += 0.7 * a * (kind == "recent" and t >= 0.95 * steps) + 0.4 * (kind == "cycle" and t % 7 == 0)
        r -= 1.0 * (kind == "ends" and t == steps - 1)
        for name, column in zip(rows, (x[:, 0], x[:, 1], a, r, np.arange(EPISODES), np.full(EPISODES, t)), strict=True):
            rows[name].append(column)
        push = 0.8 if kind == "moves" and t >= 0.95 * steps else 0.3
        x = 0.9 * x + np.stack([push * a, 0.2 * np.sin(x[:, 0])], 1) + 0.6 * noise * rng.normal(size=(EPISODES, 2))
    return {name: np.concatenate(column) for name, column in rows.items()}


def read(rows, **words):
    told = {"state": ["x", "y"], "action": "a", "reward": "r", "episode": "e", "time": "t", "clock": "shared"}
    return dualq.read_log(rows, **told, numbers="auto", **words)


def found(rows, level=0.01, **words) -> dict[str, dualq.logs.Finding]:
    return {finding.what: finding for finding in number_checks(read(rows, **words).trace(), level)}


@pytest.mark.parametrize(
    ("kind", "what", "words"),
    [
        ("recent", "recent", "the same step pays otherwise"),
        ("moves", "recent", "the next x is not what it was"),
        ("cycle", "cycle", "rewards depend on where t is in a cycle of 7 too"),
        ("ends", "ends", "in r on average, and the same decisions"),
    ],
)
def test_what_is_wrong_is_found(kind, what, words):
    finding = found(world(1, kind))[what]
    assert finding.found
    assert words in finding.words


def test_rows_before_gaps_and_rows_set_aside_are_compared(tmp_path):
    rows, rng = world(2), np.random.default_rng(0)
    middle = (rows["t"] > 5) & (rows["t"] < 95)
    lost = middle & (rng.random(middle.size) < 0.03)
    before = np.flatnonzero(
        np.isin(rows["t"] * EPISODES + rows["e"], (rows["t"] - 1)[lost] * EPISODES + rows["e"][lost])
    )
    like = {name: column[~lost] for name, column in rows.items()}
    assert not found(like)["gaps"].found
    rows["r"][before] -= 0.5  # rows are missing after bad days
    gaps = found({name: column[~lost] for name, column in rows.items()})["gaps"]
    assert gaps.found
    assert "rows before gaps in t have" in gaps.words
    rows = world(2)
    bad = rng.random(middle.size) < 0.03
    action = np.where(bad, np.nan, rows["a"])
    marked = {**rows, "cost": np.where(bad, np.nan, 1.0)}
    words = {"skip_bad": True, "costs": ["cost"], "quarantine": tmp_path / "bad.csv"}
    assert np.isnan(action).sum() == bad.sum()
    assert not found(marked, **words)["set aside"].found
    marked["r"] = rows["r"] - 0.5 * bad
    aside = found(marked, **words)["set aside"]
    assert aside.found
    assert "not missing by chance" in aside.words


def test_a_behaviour_that_drifts_is_no_change_of_the_system():
    """On labels that leave the numbers out it would be one: in each of six logs. At level 0.01 one alarm in 6: 6%."""
    alarms = 0
    for seed in range(6):
        trace = read(world(seed)).trace()
        assert recent(trace, 0.01).found
        alarms += any(finding.found for finding in number_checks(trace, 0.01))
    assert alarms <= 1  # two or more: 0.15% of runs


@pytest.mark.slow
def test_false_alarms_are_counted():
    """At level 0.05, 17 or more of 150 logs: fewer than 0.2% of runs."""
    alarms = [any(one.found for one in number_checks(read(world(seed)).trace(), 0.05)) for seed in range(100, 250)]
    assert sum(alarms) <= 16


def test_a_long_log_is_read_in_its_last_episodes(monkeypatch):
    rows = world(6, "cycle")
    trace = read(rows).trace()
    monkeypatch.setattr(number_cells, "MOST", 5_050)
    part = number_cells.cells_of(trace).trace
    late = rows["e"] >= EPISODES - 50
    assert len(part) == late.sum() == 5_000
    np.testing.assert_array_equal(part.t, np.tile(np.arange(100.0), 50))
    assert {one.what: one.found for one in number_checks(trace, 0.01)}["cycle"]


def test_without_noise_nothing_is_said():
    finding = found(world(3, noise=0.0))
    assert finding["numbers"].tested == 0
    assert "'r'" in finding["numbers"].words
    assert not any(one.found for one in finding.values())
    changed = found(world(3, "recent", noise=0.0))
    assert not any(one.found for one in changed.values() if one.tested == 0)


def test_episodes_that_stop_early_must_be_explained():
    rows = world(4)
    keep = rows["t"] < 20 + 0.7 * rows["e"]
    rows = {name: column[keep] for name, column in rows.items()}
    with pytest.raises(dualq.LogError, match="before the end of the recording, and no column says whether they ended"):
        read(rows).check_ends()
    read(rows, truncated="last").check_ends()


def test_too_few_rows_and_rows_without_an_order_say_nothing():
    rows = {name: column[world(5)["e"] == 0][:25] for name, column in world(5).items()}
    assert number_checks(read(rows, truncated="last").trace(), 0.01) == ()
    assert number_checks(None, 0.01) == ()


def steps_of(problem, rows, seed, rhythm=0.0):
    """A log whose time counts the steps of each episode; every seventh step pays more by so many deviations."""
    world = continuous.PROBLEMS[problem]()
    table = continuous.to_table(continuous.record(world, rows, seed))
    table["reward"] = table["reward"] + rhythm * table["reward"].std() * (table["step"] % 7 == 0)
    words = {"action": "action", "reward": "reward", "episode": "episode", "time": "step", "terminal": "done"}
    words |= {"truncated": "last", "costs": [name for name in ("failure", "side_effect") if name in table]}
    return dualq.read_log(table, state=list(world.columns.names), numbers="auto", **words).trace()


@pytest.mark.parametrize("problem", ["dosing", "maintenance"])
def test_steps_of_an_episode_are_no_cycle_unless_there_is_one(problem):
    """States early in an episode are elsewhere than late ones, rare failures skew the noise, and ends pay otherwise:
    each of these looked like a rhythm, in every log. A false alarm of five checks at level 0.01: 1% of runs."""
    assert not [finding.words for finding in number_checks(steps_of(problem, 20_000, 600)) if finding.found]
    (found,) = (finding for finding in number_checks(steps_of(problem, 20_000, 600, 0.15)) if finding.found)
    assert "rewards depend on where step is in a cycle of 7 too" in found.words


@pytest.mark.slow
def test_steps_of_an_episode_are_seldom_taken_for_a_cycle():
    """At 5%, 6 or more of 20 logs: fewer than 0.04% of runs."""
    alarms = 0
    for problem, seed in itertools.product(("dosing", "maintenance"), range(10)):
        found = {finding.what: finding for finding in number_checks(steps_of(problem, 4_000, 800 + seed))}
        alarms += found["cycle"].p_value <= 0.05
    assert alarms <= 5


# ---- what the numbers leave over of a curve


def thrown(seed: int, episodes: int = 200, steps: int = 100) -> dict[str, np.ndarray]:
    """Things thrown against the wind: hardly any noise meets them, but a blow now and then."""
    rng = np.random.default_rng(seed)
    x, y = 0.3 * rng.normal(size=episodes), 3.0 + 0.1 * rng.normal(size=episodes)
    u, v = 1.0 + 0.3 * rng.normal(size=(2, episodes))
    rows: dict[str, list] = {name: [] for name in ("x", "y", "u", "v", "a", "r", "e", "t")}
    for t in range(steps):
        a = rng.integers(0, 2, episodes)
        now = (x, y, u, v, a, rng.normal(size=episodes), np.arange(episodes), np.full(episodes, t))
        for name, column in zip(rows, now, strict=True):
            rows[name].append(column)
        speed, blow = np.hypot(u, v), 0.5 * (rng.random(episodes) < 0.02)
        x, y = x + 0.05 * u, y + 0.05 * v
        pushed = (0.03 * a, np.full(episodes, -0.05))
        u, v = (
            w - 0.05 * speed * w + push + (0.002 + blow) * rng.normal(size=episodes)
            for w, push in zip((u, v), pushed, strict=True)
        )
    return {name: np.concatenate(column) for name, column in rows.items()}


def test_what_is_left_of_a_curve_is_no_change_at_the_end():
    """Blows are nearly all of the noise, and hide it from a test of neighbours; by ranks it can look like a change.
    False alarms at level 0.01: one in three logs or more are 3% of runs."""
    words = {"state": ["x", "y", "u", "v"], "action": "a", "reward": "r", "episode": "e", "time": "t"}
    by_ranks = 0
    for seed in range(3):
        log = dualq.read_log(thrown(seed), **words, clock="episode", truncated="last", numbers="auto")
        by_ranks += recent(number_cells.cells_of(log.trace()).going, 0.002).found
        assert not [finding.words for finding in number_checks(log.trace()) if finding.found]
    assert by_ranks


def wandering(seed: int, steps: int = 100, episodes: int = 100) -> tuple[np.ndarray, ...]:
    """(group, step, e): noise, and a curve along the episode that no two logs share, of other size in each group."""
    rng, t = np.random.default_rng(seed), np.arange(steps)
    waves = sum(rng.normal() * np.sin(t / rng.uniform(5.0, 50.0) + rng.uniform(0.0, 7.0)) for _ in range(3))
    curve = 2.0 * rng.normal() * np.exp(-t / rng.uniform(3.0, 30.0)) + waves + rng.normal() * t / 50.0
    step = np.concatenate([t[:last] for last in np.minimum(rng.geometric(1.0 / 60.0, episodes), steps)])
    group = rng.integers(0, 6, step.size)
    return group, step, rng.normal(size=step.size) + curve[step] * rng.normal(size=6)[group]


def test_what_wanders_along_an_episode_does_not_come_again():
    """Of 150 questions at 0.002, two or more are fewer than 4% of runs, three 0.4%; at 0.05, 17 or more: 0.1%. That
    steps differ is clear to a test that takes each row by itself, in a fifth of the logs or more."""
    logs = [wandering(seed) for seed in range(30)]
    p = np.array([[comes_again(group, step, period, e) for period in (2, 7, 12, 24, 30)] for group, step, e in logs])
    assert (p <= 0.002).sum() <= 2
    assert (p <= 0.05).sum() <= 16
    alone = [alike_scores(group, step % 24, e).p_value <= 0.002 for group, step, e in logs]
    assert sum(alone) >= 6


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_rhythm_comes_again_however_rows_wander(everywhere):
    """Where it is of another sign in each group, groups must be asked by themselves."""
    for seed in range(10):
        group, step, e = wandering(seed)
        size = 1.0 if everywhere else np.where(group % 2, 1.0, -1.0)
        assert comes_again(group, step, 7, e + 0.7 * size * (step % 7 == 3)) < 0.002
    assert comes_again(group, step, 60, e + 9.0 * (step % 60 == 3)) == 1.0  # twice is no rhythm yet


def test_turns_that_go_against_each_other_are_no_rhythm():
    """Every second turn is the first one upside down, to the bit: there is a rhythm of two turns, and none of one."""
    step, group = np.arange(70), np.zeros(70, int)
    swing = np.where(step // 7 % 2, -1.0, 1.0) * (step % 7 - 3.0)
    assert comes_again(group, step, 7, swing) == 1.0
    assert comes_again(group, step, 14, swing) < 1e-9


@pytest.mark.parametrize("period", [2, 5, 6])
def test_the_trend_is_the_mean_over_one_period(period):
    """Against sums row by row; of a straight line nothing is left, of a rhythm everything but its mean."""
    rng = np.random.default_rng(0)
    step, group = np.tile(np.arange(40), 3), np.repeat([0, 1, 1], 40)
    x, half = rng.normal(size=120), period / 2.0
    trend = turns._trend(group, step, period, x)
    for i in range(120):
        apart = np.abs(step - step[i])
        weight = (group == group[i]) * ((apart < half) + 0.5 * (apart == half))
        inside = period // 2 <= step[i] <= 39 - period // 2
        assert trend[i] == pytest.approx(weight @ x / weight.sum()) if inside else np.isnan(trend[i])
    made = 3.0 * step + (step % period == 1)
    left = made - turns._trend(group, step, period, made)
    np.testing.assert_allclose(
        left[np.isfinite(left)], ((step % period == 1) - 1.0 / period)[np.isfinite(left)], atol=1e-9
    )


def test_what_numbers_say_is_taken_out_of_many_targets_as_of_each():
    """Two targets are known in all rows, one is not; beside a plain loop over actions and cells."""
    rng, n = np.random.default_rng(8), 600
    x, a, cell = rng.normal(size=(n, 2)), rng.integers(0, 2, n), rng.integers(-1, 3, n)
    pair, good = np.where(cell >= 0, 2 * cell + a, -1), rng.random(n) < 0.9
    targets = [
        x[:, 0] ** 3 + rng.normal(size=n),
        rng.normal(size=n),
        np.where(rng.random(n) < 0.2, np.nan, x[:, 1] ** 2),
    ]
    curved = np.column_stack([np.ones(n), x, x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2])
    for y, found in zip(targets, number_cells._all_left(x, a, pair, targets, good), strict=True):
        rest = np.where(pair >= 0, y, np.nan)
        for group, features in [(np.where(pair >= 0, a, -1), curved), (pair, curved[:, :3])]:
            for mine in (group == k for k in range(group.max() + 1)):
                fit = mine & good & np.isfinite(y)
                rest[mine] -= features[mine] @ np.linalg.lstsq(features[fit], rest[fit], rcond=None)[0]
        assert found == pytest.approx(rest, abs=1e-9, nan_ok=True)
