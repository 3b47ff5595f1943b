"""Logs of one decision per case (bandits): discount 0, no time, nothing that follows."""

from __future__ import annotations

import numpy as np
import pytest

import dualq
from dualq.offline.careful.model import careful_model

CHANCE = {"new": (0.1, 0.3), "old": (0.5, 0.2)}


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(0)
    segment, mail = rng.choice(["new", "old"], 6_000, p=[0.3, 0.7]), rng.integers(2, size=6_000)
    bought = [float(rng.random() < CHANCE[s][a]) for s, a in zip(segment, mail, strict=True)]
    return {"segment": segment, "mail": mail, "bought": np.array(bought)}


NAMES = {"state": "segment", "action": "mail", "reward": "bought"}


def test_the_best_action_of_every_case_and_what_it_earns(cases):
    fit = dualq.learn(cases, **NAMES, discount=0.0, reward_range=(0, 1))
    assert {s: fit.act(s) for s in CHANCE} == {"new": 1, "old": 0}
    share, mean = {}, {}
    for s in CHANCE:
        here = cases["segment"] == s
        share[s] = here.mean()
        mean[s] = [cases["bought"][here & (cases["mail"] == a)].mean() for a in (0, 1)]
    assert fit.logged.value == pytest.approx(cases["bought"].mean())
    best = share["new"] * mean["new"][1] + share["old"] * mean["old"][0]
    assert fit.expected.value == pytest.approx(best, abs=0.005)  # shrunk a little towards the mean of the state
    truth = 0.3 * 0.3 + 0.7 * 0.5
    assert abs(fit.expected.value - truth) <= 4.0 * fit.expected.standard_error  # a false alarm has 1e-4; seeded
    assert fit.promised
    assert fit.certificate.lower <= truth <= fit.certificate.policy_upper
    assert fit.certificate.improvement > 0.0


def test_rows_are_cases_of_their_own_when_that_is_said_too(cases):
    log = dualq.read_log(cases, **NAMES, terminal="row")
    counts = log.counts()
    assert counts.ended.all()
    assert counts.total == 6_000
    fit = dualq.learn(log, discount=0.9)  # nothing follows a row, so the discount does not matter
    at_once = dualq.learn(cases, **NAMES, discount=0.0)
    assert fit.logged.value == pytest.approx(at_once.logged.value)
    np.testing.assert_array_equal(fit.policy.matrix, at_once.policy.matrix)


def test_without_a_word_nobody_knows_what_followed(cases):
    with pytest.raises(dualq.LogError, match='terminal="row"'):
        dualq.read_log(cases, **NAMES)


def test_with_discount_0_every_decision_of_a_longer_log_counts():
    rng = np.random.default_rng(1)
    rows = {"run": np.repeat(np.arange(50), 4), "t": np.tile(np.arange(4), 50), "state": np.tile([0, 1, 1, 1], 50)}
    rows |= {"action": rng.integers(2, size=200), "reward": np.tile([0.0, 1.0, 1.0, 1.0], 50)}
    fit = dualq.learn(rows, episode="run", time="t", discount=0.0, certificate=None)
    # The last row of a run has no successor and is not counted: of the others two in three are in state 1.
    assert fit.logged.value == pytest.approx(2 / 3)


def test_what_is_expected_is_not_off_alike_in_all_logs_of_one_experiment():
    """Deals to halves that are alike in all logs would be lucky or unlucky in all: 0.4 were missing in each."""
    chance = np.array([[0.05, 0.12, 0.08], [0.2, 0.2, 0.22], [0.01, 0.03, 0.06]])
    errors = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        s, a = rng.integers(3, size=(2, 12_000))
        earned = (rng.random(12_000) < chance[s, a]) * np.maximum(rng.gamma(4, 10, 12_000), 1.0)
        rows = {"state": s, "action": a, "reward": earned, "time": np.arange(12_000)}
        found = careful_model(dualq.read_log(rows).counts(), 0.0, start=np.ones(3) / 3)
        errors.append(found.expected.value - 40.0 * chance[range(3), found.policy.matrix.argmax(axis=1)].mean())
    assert abs(np.mean(errors)) <= 0.25  # its own error is 0.06; with the shrinkage towards the log, about -0.1; seeded
