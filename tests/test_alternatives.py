"""Policies that can be certified where the best one cannot (offline/alternatives.py)."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dualq
from dualq import problems
from dualq.app.report import words
from dualq.app.report.guarantee_words import guarantee


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
