"""check: what it says of earnings is what a plain loop says; bounds hold at all looks; verdicts where they belong."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dualq
from dualq.app.cli import run as command
from dualq.app.report.check_words import checked_lines
from dualq.base import LogError
from dualq.logs import Counts
from dualq.offline.checking import FIRST, Earning, Seen, judged, parts_of
from dualq.proof import RunningMean
from dualq.worlds import sample_log


@pytest.fixture(scope="module")
def world() -> dualq.Simulator:
    shop = sample_log.truth()
    return dataclasses.replace(shop, behaviour=dualq.TablePolicy.uniform(shop.mdp))


@pytest.fixture(scope="module")
def fit(world) -> dualq.Fit:
    return dualq.learn(world.record(20_000, seed=0), discount=world.mdp.discount, certificate=None, start="log")


def using(world: dualq.Simulator, fit: dualq.Fit, loss: float = 0.0) -> dualq.Simulator:
    """The world with the policy in it, where every reward is lower by so much."""
    matrix = np.zeros(world.mdp.rewards.shape)
    for s, label in enumerate(world.mdp.states):
        for action, p in fit.policy.probabilities(label).items():
            matrix[s, world.mdp.actions.index(action)] = p
    policy = dualq.TablePolicy(matrix, world.mdp.states, world.mdp.actions)
    ends = {name: getattr(world, name) - loss for name in ("reward_low", "reward_high")}
    return dataclasses.replace(world, mdp=world.mdp.moved(-loss), behaviour=policy, **ends)


def test_the_sums_are_those_of_a_plain_loop(world, fit):
    log, earning = using(world, fit).record(400, seed=1), Earning.of(fit)
    rows, total, squares = earning.sums(Seen.of(fit, log.counts()))
    X = []
    for s, a, r, s_next in zip(log.state, log.action, log.reward, log.next_state, strict=True):
        here, there = (fit.counts.states.index(log.states[int(x)]) for x in (s, s_next))
        action = fit.counts.actions.index(log.actions[int(a)])
        after = min(earning.V[there], earning.best[here, action])
        X.append(earning.weight[here, action] * (r + earning.discount * after - earning.Q[here, action]))
    assert rows.sum() == 400
    assert total == pytest.approx(sum(X))
    assert squares.sum() == pytest.approx(sum(x * x for x in X))


def test_values_are_those_of_the_policy_in_the_model(fit):
    """Q = R + alpha P V and V = sum pi Q, with R and P of the careful model without its penalty; v as claimed."""
    earning, careful = Earning.of(fit), fit.careful
    taken = fit.policy.matrix > 0.0
    np.testing.assert_allclose(np.where(taken, fit.policy.matrix * earning.Q, 0.0).sum(axis=1), earning.V, rtol=1e-6)
    assert earning.start == pytest.approx(careful.claimed, rel=1e-6)


def test_the_bound_of_a_mean_holds_at_all_looks_together():
    """At delta = 0.2, 300 streams of skewed numbers with moving means: more than 84 fail with probability 4e-4."""
    rng = np.random.default_rng(0)
    mean = RunningMean(np.array([1.0, 3.0]), variance=0.5, effect=0.1, delta=0.2)
    failed = 0
    for _ in range(300):
        kind = rng.integers(0, 2, 1500)
        mu = np.where(kind == 0, -0.2, 0.1) + 0.05 * np.sin(np.arange(1500) / 50.0)
        chance = np.where(kind == 0, 0.3, 0.1)
        jump = np.where(kind == 0, 0.9, 2.5)
        X = mu + jump * ((rng.random(1500) < chance) - chance)
        n, squares = (np.cumsum([x * (kind == k) for k in (0, 1)], axis=1) for x in (np.ones(1500), X**2))
        failed += bool((mean.at_most(n, np.cumsum(X), squares) < np.cumsum(mu) / np.arange(1, 1501)).any())
    assert failed <= 84


def test_the_bound_solves_its_equation():
    """At the bound the mixture of exponentials is 1 / delta: summed here rate by rate."""
    from dualq.proof import anytime

    mean = RunningMean(np.array([1.0, 2.0]), variance=0.4, effect=0.1, delta=0.05)
    n, squares, total = np.array([[40.0], [60.0]]), np.array([[9.0], [20.0]]), np.array([-7.0])
    slack = 100.0 * mean.at_most(n, total, squares)[0] + 7.0
    u = np.arange(-anytime.REACH, anytime.REACH + anytime.SPACING, anytime.SPACING)
    weights = 1.0 / (1.0 + (u / anytime.SHARP) ** 2)
    value = 0.0
    for weight, rate in zip(weights / weights.sum(), min(0.25, 0.15) * np.exp(u), strict=True):
        if rate * 2.0 < 1.0:
            psi = [(-np.log(1 - rate * c) - rate * c) / c**2 for c in (1.0, 2.0)]
            value += weight * np.exp(rate * slack - psi[0] * 9.0 - psi[1] * 20.0)
    assert value == pytest.approx(20.0, rel=1e-6)


def test_a_policy_that_earns_as_expected_is_kept_and_one_that_earns_less_is_not(world, fit):
    kept = dualq.check(fit, using(world, fit).record(3000, seed=2))
    assert (kept.verdict, kept.followed, kept.unknown) == ("keep", 1.0, 0.0)
    assert kept.interval[0] < kept.earned < kept.interval[1]
    truth = using(world, fit)
    value = fit.start @ [truth.behaviour.value(truth.mdp)[world.mdp.states.index(x)] for x in fit.counts.states]
    assert kept.interval[0] < value < kept.interval[1]
    poor = using(world, fit, loss=0.4 * (1 - world.mdp.discount) * fit.expected.value)
    less = dualq.check(fit, poor.record(3000, seed=2))
    assert less.verdict == "learn again"
    assert less.reasons[0].startswith("it earns less than expected: at most")
    assert less.drift["rewards"].found
    worse = dualq.check(fit, using(world, fit, loss=60.0 * (1 - world.mdp.discount)).record(6000, seed=2))
    assert worse.verdict == "stop"
    assert worse.reasons[0].startswith("it earns less than what was done before")
    floored = dataclasses.replace(fit, proven=dualq.learn(world.record(20_000, seed=0), discount=0.95).proven)
    assert floored.promised
    broken = judged(floored, parts_of(using(world, fit, loss=4.0).record(6000, seed=2)))
    assert broken.reasons[0].startswith("the floor does not hold")


def test_a_log_that_does_not_follow_is_told_and_where(world, fit):
    found = dualq.check(fit, world.record(2000, seed=3))
    assert found.verdict == "stop"
    assert found.followed < 0.5
    worst = found.elsewhere[0]
    log = world.record(2000, seed=3)
    here = [log.states.named(int(s)) == worst["state"] for s in log.state]
    told = fit.act(worst["state"])
    assert worst["rows"] == sum(here)
    assert worst["not_followed"] == sum(
        h and log.actions[int(a)] != told for h, a in zip(here, log.action, strict=True)
    )
    assert worst["policy"] == {"order": told}
    told = [found.line, *checked_lines(found)]
    assert sum("are those of the policy" in line for line in told) == 1  # once is enough


def test_change_is_looked_for_at_certain_rows_only(world, fit):
    """Whatever comes between 500 and 999 rows, the tests of change are those of the first 500."""
    log = using(world, fit).record(FIRST * 4 - 1, seed=4)
    found = dualq.check(fit, log).drift
    first = dualq.check(fit, using(world, fit).record(FIRST * 2, seed=4)).drift
    assert {what: one.p_value for what, one in found.items()} == {what: one.p_value for what, one in first.items()}
    assert dualq.check(fit, using(world, fit).record(FIRST - 1, seed=4)).drift == {}


def test_unknown_states_and_actions_are_counted_not_guessed(fit):
    rows = {"stock": [0, 99, 0, 0], "season": ["winter"] * 4, "order": [2, 2, 77, 2], "profit": [1.0, 1, 1, 1]}
    words = {"state": ["stock", "season"], "action": "order", "reward": "profit", "time": "t"}
    log = dualq.read_log(rows | {"t": [0, 1, 2, 3]}, **words)
    assert dualq.check(fit, log).unknown == pytest.approx(2 / 3)  # the last row has no successor


def test_the_command_exits_with_3_where_it_should_be_looked_at(tmp_path, capsys):
    two = dualq.problems.two_state()
    log = two.record(1000, seed=0)
    pa.parquet.write_table(log.table(), tmp_path / "old.parquet")
    words = {"state": "state", "action": "action", "reward": "reward", "next_state": "next_state", "time": "time"}
    fit = dualq.learn(str(tmp_path / "old.parquet"), discount=0.9, certificate=None, **words)
    fit.save(tmp_path / "run")
    pa.csv.write_csv(dataclasses.replace(two, behaviour=fit.policy).record(300, seed=1).table(), tmp_path / "new.csv")
    pa.csv.write_csv(two.record(300, seed=1).table(), tmp_path / "else.csv")
    assert command(["check", str(tmp_path / "run"), str(tmp_path / "new.csv")]) == 0
    assert capsys.readouterr().out.startswith("Keep: judged by 300 rows it earns")
    assert command(["check", str(tmp_path / "run"), str(tmp_path / "else.csv"), "--json"]) == 3
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] == "stop"
    assert facts["false_alarms"] == pytest.approx(0.05)


def test_what_cannot_be_checked_is_said_in_a_line(fit):
    with pytest.raises(LogError, match="the run does not say how its log was read"):
        dualq.check(fit, {"stock": [1], "season": ["winter"]})


@pytest.mark.slow
def test_false_alarms_in_many_looks_are_as_rare_as_stated(world):
    """40 streams of 50 looks each, learned anew each: at the stated 5%, more than 6 have probability 0.3%."""
    alarms = 0
    for seed in range(40):
        fit = dualq.learn(world.record(6000, seed=seed), discount=0.95, certificate=None, start="log")
        log = using(world, fit).record(2000, seed=1000 + seed)
        earning, wrong = Earning.of(fit), False
        for until in range(40, 2001, 40):
            part = log.counts_between([0, until])[0]
            found = earning.told_by(fit, Seen.of(fit, part))
            wrong |= found.interval[1] < found.expected.value - 2.06 * found.expected.standard_error
        drift = judged(fit, parts_of(log)).drift
        alarms += wrong or drift["dynamics"].found or drift["rewards"].found
    assert alarms <= 6


def test_what_was_expected_is_what_the_report_of_the_run_says(world, fit):
    found = dualq.check(fit, using(world, fit).record(2000, seed=1))
    assert found.expected == fit.expected
    assert found.slack >= 2.05 * fit.expected.standard_error  # z of 4% on two sides, and no smaller error than stated


def test_rows_that_were_learned_from_prove_nothing(world, fit):
    old = world.record(20_000, seed=0)
    assert "these are the rows that the policy was learned from" in dualq.check(fit, old).warnings[0]
    names = {"state": ["s"], "action": ["a"], "reward": "r", "time": "t"}
    columns = {"s": old.state, "a": old.action, "r": old.reward, "t": np.arange(20_000)}
    early, late = ({name: x[part] for name, x in columns.items()} for part in (slice(12_000), slice(10_000, 20_000)))
    learned = dualq.learn(early, **names, certificate=None)
    said = dualq.check(learned, late).warnings
    assert len(said) == 1
    assert "begins before the rows end that the policy was learned from" in said[0]
    assert not dualq.check(learned, late, since=12_000).warnings


def test_a_loss_counts_in_full_wherever_the_rows_come_from(world, fit):
    """Rows of winter alone, or of all seasons: a loss of 1 a row is one of 1 / (1 - discount) in what it earns."""
    log, earning = using(world, fit).record(4000, seed=3), Earning.of(fit)
    winter = np.array([label[1] == "winter" for label in log.states])
    for rows in (np.ones(4000, bool), winter[log.state]):
        parts = (log.state[rows], log.action[rows], log.reward[rows], log.next_state[rows])
        earned = []
        for loss in (0.0, 1.0):
            s, a, r, s_next = parts
            labels = {"states": log.states, "actions": log.actions}
            counts = Counts.from_arrays(s, a, r - loss, s_next, **labels, reward_range=(-30.0, 30.0))
            earned.append(earning.told_by(fit, Seen.of(fit, counts)).earned)
        assert earned[0] - earned[1] == pytest.approx(1.0 / (1.0 - fit.modelled.discount))
