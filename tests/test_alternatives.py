"""Policies that can be certified where the best one cannot (offline/alternatives.py)."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import dualq
from dualq import problems
from dualq.app.report import words
from dualq.app.report.guarantee_words import guarantee
from dualq.logs.counts import Counts
from dualq.offline.alternatives import _foreseen
from dualq.proof import AverageBounds, Ledger, prior_of
from dualq.proof.evidence import merged_counts


def shop(rows, seed):
    """18 states; the careful policy goes where rows are few."""
    simulator = problems.inventory(capacity=8, lot=2, demand={"low": 1.0, "high": 3.0})
    return simulator, dualq.learn(simulator.record(rows, seed), discount=0.95, start="log")


@pytest.mark.parametrize("logs", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_policy_that_can_be_certified_stands_beside_one_that_cannot(logs):
    # each certificate may fail with probability .05: all 3 (5 of 10) have a chance below 1.3e-4
    broken, useful = 0, 0
    for seed in range(logs):
        simulator, fit = shop(20_000, seed)
        wrong = False
        for one in fit.alternatives:
            truth = fit.start @ dualq.TablePolicy(one.policy.matrix).value(simulator.mdp)
            wrong |= not one.lower <= truth <= one.upper
            assert one.lower > fit.certificate.lower
            assert one.less == pytest.approx(fit.expected.value - one.expected.value)
        best = max(one.lower for one in fit.alternatives)
        useful += best > 25.0 > 0.0 > fit.certificate.lower  # the best of all policies is worth about 52
        broken += wrong
    assert broken <= (2 if logs == 3 else 4)
    assert useful == logs


def test_it_keeps_to_well_known_pairs_and_the_page_and_json_name_it():
    _, fit = shop(20_000, 0)
    known = fit.alternatives[0]
    n = fit.counts.visits
    taken = n[known.policy.matrix > 0.0]
    assert (taken >= np.minimum(known.rows, n.max(axis=1))).all()
    line = guarantee(fit)[-1]
    assert f"with at least {known.rows} rows earns at least {words.number(known.lower)}" in line
    assert all(clause in line for clause in fit.conditions)
    assert f"{words.number(known.less)} less than the new policy" in line
    summary = json.loads(json.dumps(fit.summary(), default=str))["alternatives"]
    assert [one["lower"] for one in summary] == [one.lower for one in fit.alternatives]
    assert len(summary[0]["actions"]) == 18


def test_where_the_best_policy_has_a_floor_there_is_nothing_to_offer():
    simulator = problems.two_state()
    fit = dualq.learn(simulator.record(20_000, 0), discount=0.9)
    assert fit.certificate.informative
    assert fit.alternatives == ()
    assert dualq.learn(simulator.record(20_000, 0), discount=0.9, certificate=None).alternatives == ()


def test_where_a_state_was_never_left_only_what_is_available_there_is_done():
    rng, cuts = np.random.default_rng(0), [0, 100, 400, 800]
    s, a, r, to = rng.integers(2, size=800), rng.integers(3, size=800), rng.random(800), rng.integers(3, size=800)
    blocks = [
        Counts.from_arrays(s[i:j], a[i:j], r[i:j], to[i:j], np.zeros(j - i, bool), states=3, actions=3,
                           reward_range=(0.0, 1.0))
        for i, j in pairwise(cuts)
    ]  # fmt: skip
    merged, allowed = merged_counts(blocks), np.ones((3, 3), bool)
    for there in ([1], [1, 2]):
        allowed[2] = np.isin(np.arange(3), there)
        prior = prior_of(blocks, merged, 0.9, allowed)
        words = {"prior": prior, "beside": True}
        bounds = AverageBounds(blocks, 0.9, np.full(3, 1.0 / 3.0), Ledger(0.05, "value"), **words)
        found = list(_foreseen(merged, bounds))
        assert [first for _, _, first in found] == [100] * len(found) != []
        for _, policy, _ in found:
            assert allowed[policy.matrix > 0.0].all()
            assert policy.undecided.tolist() == [False, False, True]
            assert prior.price(policy.matrix) < 8.0
