"""What the log really earned, what a promise rests on, and the verdict."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom

import dualq
from dualq import problems
from dualq.app import cli
from dualq.app.report import words
from dualq.logs.checks.returns import returns_of
from dualq.logs.counts import Counts
from dualq.offline.careful.pooling import reward_squares

LEVEL = 0.05


def episodes(rng, cut=None, bonus=0.0, runs=60):
    """Two states, one action, each run ended with chance .1 a step; what the last row pays may differ."""
    rows = []
    for run in range(runs):
        s = int(rng.integers(2))
        for t in range(cut or 10**6):
            r, over = s + rng.normal(), bool(rng.random() < 0.1)
            s_next = int(rng.random() < 0.5)
            rows.append((run, t, s, 0, r + bonus * (t == 0), s_next, over))
            s = s_next
            if over:
                break
    names = ("run", "t", "state", "action", "reward", "next_state", "done")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def read(columns):
    return dualq.read_log(columns, episode="run", time="t", terminal="done")


def naive_returns(columns, discount):
    found = []
    for run in np.unique(columns["run"]):
        r = columns["reward"][columns["run"] == run]
        found.append(sum(discount**k * x for k, x in enumerate(r)))
    return np.array(found)


def test_returns_are_those_of_the_episodes():
    columns = episodes(np.random.default_rng(0))
    fit = dualq.learn(read(columns), discount=0.8)
    naive = naive_returns(columns, 0.8)
    assert fit.returns.value == pytest.approx(naive.mean())
    assert fit.returns.standard_error == pytest.approx(naive.std(ddof=1) / np.sqrt(naive.size))
    assert fit.summary()["returns"]["standard_error"] == fit.returns.standard_error


def test_of_cases_with_one_decision_nothing_is_compared_and_nobody_speaks_of_episodes():
    """The mean of a state's rewards is its value, so that what cases earned less what the model says is 0."""
    rng = np.random.default_rng(2)
    columns = {"state": rng.integers(0, 3, 400), "action": rng.integers(0, 2, 400), "reward": rng.random(400)}
    fit = dualq.learn(columns | {"day": np.arange(400) // 20}, time="day", terminal="row", discount=0.0)
    assert fit.returns.value == pytest.approx(columns["reward"].mean())
    page = " ".join([*words.why(fit), *(cell for row in words.worth_table(fit)[1] for cell in row)])
    assert "episode" not in page
    assert "what the log's cases really earned" in page
    few = dualq.learn(read(episodes(rng, runs=5)), discount=0.8)
    assert "There are too few episodes to compare what they really earned with the model." in words.why(few)


def test_what_was_cut_off_is_filled_in_by_the_model():
    columns = episodes(np.random.default_rng(1), cut=12, runs=300)
    log = read(columns)
    counts = log.counts()
    mdp = counts.mdp(0.8)
    V = np.linalg.solve(np.eye(3) - 0.8 * mdp.transitions.toarray(), mdp.rewards[:, 0])
    naive = []
    for run in range(300):
        here = columns["run"] == run
        r, s_next, done = (columns[name][here] for name in ("reward", "next_state", "done"))
        tail = 0.0 if done[-1] else 0.8**r.size * V[s_next[-1]]
        naive.append(sum(0.8**k * x for k, x in enumerate(r)) + tail)
    assert dualq.learn(log, discount=0.8).returns.value == pytest.approx(np.mean(naive))


def test_no_returns_without_episodes_nor_where_the_model_would_fill_in_most():
    two = problems.two_state().record(2_000, seed=0)
    assert dualq.learn(two, discount=0.9).returns is None
    short = episodes(np.random.default_rng(2), cut=3, runs=200)
    assert dualq.learn(read(short), discount=0.99).returns is None


def agreement(columns, discount=0.8):
    log = read(columns)
    counts = log.counts()
    mdp = counts.mdp(discount)
    S = len(counts.states)
    V = dualq.TablePolicy(np.ones(mdp.rewards.shape)).value(mdp)
    onward = mdp.q_values(V) - mdp.rewards
    return returns_of(log.trace(), V[:S], mdp.rewards[:S], onward[:S], discount, LEVEL).finding


@pytest.mark.parametrize("logs", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_the_model_is_contradicted_no_more_often_than_the_level_says_where_it_holds(logs):
    alarms = sum(agreement(episodes(np.random.default_rng(seed))).found for seed in range(logs))
    assert alarms <= binom.isf(1e-4, logs, LEVEL)  # a false alarm of this test: 1e-4


def test_the_model_is_contradicted_where_the_first_row_pays_more():
    # The model spreads the bonus over all rows of a state, ten or so: .65 is left, and a noise of 1.5 / sqrt(400).
    logs = (episodes(np.random.default_rng(seed), bonus=1.0, runs=400) for seed in range(20))
    assert sum(agreement(log).found for log in logs) == 20


def test_a_contradicted_model_withholds_the_promise(tmp_path, capsys):
    fit = dualq.learn(read(episodes(np.random.default_rng(0), bonus=3.0, runs=400)), discount=0.8)
    assert "returns" in fit.contradicted
    assert not fit.promised
    assert fit.verdict == "do not use"
    assert "the model does not reproduce what the log earned" in fit.withheld
    fit.save(tmp_path)  # whoever follows it all the same is told, on one line that no program reads as the action
    state = fit.counts.states[0]
    assert cli.run(["act", str(tmp_path), "--state", json.dumps(state)]) == 0
    action, said = capsys.readouterr()
    assert json.loads(action) in list(fit.counts.actions)
    assert said.startswith("dualq: do not use: the log shows that ")
    assert "the model does not reproduce what the log earned" in said
    assert said.count("\n") == 1


# ---- ranges


def test_two_rows_promise_nothing_when_nobody_said_what_rewards_can_be():
    rows = {"state": [0, 0], "action": [0, 1], "reward": [1.0, 2.0], "next_state": [0, 0]}
    fit = dualq.learn(dualq.read_log(rows))
    assert not fit.promised
    assert any("too few rows" in reason for reason in fit.withheld)


def test_the_condition_names_the_observed_range_and_is_gone_where_the_range_is_given():
    columns = episodes(np.random.default_rng(0), runs=400)
    low, high = columns["reward"].min(), columns["reward"].max()
    fit = dualq.learn(read(columns), discount=0.8)
    assert f"no reward lies outside {low:.4g} to {high:.4g}" in fit.conditions
    known = dualq.read_log(columns, episode="run", time="t", terminal="done", reward_range=(-10, 10))
    assert not any("no reward" in condition for condition in dualq.learn(known, discount=0.8).conditions)


def test_at_least_zero_is_no_promise_where_rewards_are_never_negative():
    log = problems.gym("FrozenLake-v1", discount=0.95).record(300, seed=0)
    fit = dualq.learn(log, discount=0.95)
    assert fit.certificate.lower == pytest.approx(0.0, abs=1e-9)
    assert not fit.certificate.informative


def test_where_only_the_end_pays_values_are_no_more_than_one_reward():
    log = problems.gym("FrozenLake-v1", discount=0.95).record(20_000, seed=0)
    assert dualq.learn(log, discount=0.95).certificate.value_range == (0.0, 1.0)
    given = dualq.learn(log, discount=0.95, value_range=(0.0, 0.9))
    assert given.certificate.value_range == (0.0, 0.9)
    paying = problems.garnet(5, 2, 3, seed=0).record(2_000, seed=0)
    low, high = dualq.learn(paying, discount=0.9).certificate.value_range
    assert high == pytest.approx(10.0 * paying.reward_range[1])
    assert low == pytest.approx(10.0 * paying.reward_range[0])


# ---- the policy's own interval, and ceilings over well-known pairs


@pytest.mark.parametrize("logs", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_the_policys_interval_and_every_ceiling_hold_on_fresh_logs(logs):
    simulator = problems.garnet(6, 3, 3, discount=0.9, seed=1)
    mdp, eta = simulator.mdp, simulator.start
    broken = 0
    for seed in range(logs):
        log = simulator.record(2_000, seed)
        fit = dualq.learn(log, discount=0.9, start=dict(enumerate(eta)))
        value = eta @ dualq.TablePolicy(fit.policy.matrix).value(mdp)
        promise, n = fit.certificate, log.counts().visits
        ok = promise.lower <= value <= promise.policy_upper <= promise.upper + 1e-9
        for rows, ceiling in promise.ceilings.items():
            thick = n >= int(rows)
            allowed = np.where(thick.any(axis=1, keepdims=True), thick, True)
            best = dualq.solve(dualq.MDP(mdp.transitions, mdp.rewards, 0.9, available=allowed & mdp.available)).V
            ok &= ceiling >= eta @ best - 1e-7
        ceilings = list(promise.ceilings.values())
        assert ceilings == sorted(ceilings, reverse=True)
        broken += not ok
    assert broken == 0  # each with probability .05 at most; the certificate is far from that


def test_bins_are_found_by_fit_and_named_by_the_policy():
    rng = np.random.default_rng(0)
    rows = {"x": rng.random(500), "a": rng.integers(2, size=500), "r": rng.random(500), "t": np.arange(500)}
    fit = dualq.learn(rows, state="x", action="a", reward="r", time="t", bins={"x": [0.3, 0.6]}, certificate=None)
    assert fit.act(0.1) == fit.policy.act("< 0.3")
    with pytest.raises(dualq.ModelError, match=r"x was cut into bins such as '< 0.3': fit.act takes the number"):
        fit.policy.act(0.1)


def test_columns_are_for_logs_that_are_not_open_yet():
    log = problems.two_state().record(100, seed=0)
    with pytest.raises(dualq.LogError, match="the log is open already; give state to read_log"):
        dualq.learn(log, state="s")


@pytest.mark.filterwarnings("ignore:V is proven to")  # rounding again
@pytest.mark.parametrize("offset", [1e7, 1e9])
def test_rewards_far_from_zero_hide_no_error_and_nothing_is_promised(offset):
    # the same rows with an offset that rounding cannot carry: the standard error is no smaller than without it, the
    # policy is the same, and the reason why nothing is guaranteed says what to do
    base = problems.garnet(6, 3, 3, discount=0.9, seed=3).record(4000, 1)
    reward = base.reward + np.random.default_rng(0).uniform(-0.5, 0.5, 4000)
    near, far = (
        dualq.learn(
            dualq.ArrayLog(base.state, base.action, reward + x, base.next_state, 6, 3, reward_range=(x - 0.5, x + 1.5)),
            discount=0.9,
        )
        for x in (0.0, offset)
    )
    assert near.promised
    assert near.expected.standard_error < far.expected.standard_error < 5.0 * near.expected.standard_error
    assert far.expected.value - 10.0 * offset == pytest.approx(
        near.expected.value, abs=3.0 * far.expected.standard_error
    )
    np.testing.assert_array_equal(far.policy.matrix, near.policy.matrix)
    reason = f"so far from 0 that rounding hides how they differ: take {offset:.6g} off each one"
    assert any(reason in one for one in far.withheld)
    assert not any("so far from 0" in one for one in near.withheld)


@pytest.mark.parametrize("offset", [1e3, 2.5e4, 2.5e5, 3.1e5, 1e6])
def test_rounding_hides_no_variance_of_rewards(offset):
    # of 1,000 rows that vary by a twentieth of the range it is no smaller than it is; of two equal ones none is made up
    # as long as rounding is far smaller than the range
    near = 0.5 + 0.05 * np.random.default_rng(0).uniform(-1.0, 1.0, 1000)
    r, s = np.append(near, [0.25, 0.25]) + offset, np.repeat([0, 1], [1000, 2])
    none = np.zeros(s.size, int)
    counts = Counts.from_arrays(s, none, r, none, none > 0, states=2, actions=1, reward_range=(offset, offset + 1.0))
    vary, equal = reward_squares(counts)
    assert vary > 0.95 * ((near - near.mean()) ** 2).sum()
    assert 0.0 <= equal <= (0.0 if offset < 3e3 else 2.0 * 0.25 * 0.75 + 1e-6)
