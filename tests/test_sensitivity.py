"""How strong a hidden cause would have to be: against linear programs, a closed form, and a world that has one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import dualq
from dualq.logs import Counts
from dualq.offline.sensitivity import Worst, sensitivity


def drawn(S: int, A: int, rows: int, seed: int) -> Counts:
    rng = np.random.default_rng(seed)
    s, a, r = rng.integers(S, size=rows), rng.integers(A, size=rows), rng.integers(-2, 3, size=rows).astype(float)
    return Counts.from_arrays(s, a, r, rng.integers(S, size=rows), rng.random(rows) < 0.1, states=S, actions=A)


def by_programs(counts: Counts, policy: np.ndarray, start: np.ndarray, alpha: float, gamma: float) -> float:
    """Value iteration in which each pair's worst weights are a linear program over its rows, one by one."""
    S, A = counts.shape
    rewards = counts.reward_sum / counts.n
    V = np.zeros(S + 1)
    for _ in range(200):
        new = np.zeros(S + 1)
        for s in range(S):
            for a in range(A):
                here = (counts.s == s) & (counts.a == a)
                if policy[s, a] == 0.0 or not here.any():
                    continue
                n, b = counts.n[here], counts.visits[s, a] / counts.visits[s].sum()
                x = rewards[here] + alpha * V[np.where(counts.ended[here], S, counts.s_next[here])]
                p = n / n.sum()
                ends = (b + (1 - b) / gamma, b + (1 - b) * gamma)
                new[s] += policy[s, a] * linprog(p * x, A_eq=p[None, :], b_eq=[1.0], bounds=ends).fun
        V = new
    return float(start @ V[:S])


@pytest.mark.parametrize("gamma", [1.0, 1.3, 4.0])
def test_the_worst_is_that_of_linear_programs(gamma):
    counts = drawn(3, 2, 60, seed=1)
    even = Counts(**{**vars(counts), "reward_square_sum": counts.reward_sum**2 / counts.n})  # rewards without spread
    policy, start = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), np.array([0.2, 0.3, 0.5])
    found = Worst(even, policy, start, 0.8).value(gamma)
    assert found == pytest.approx(by_programs(even, policy, start, 0.8, gamma), abs=1e-6)


def test_one_step_of_a_chance_has_a_closed_form():
    """Rewards 0 and 1: the lowest share of the rows are zeros."""
    rng = np.random.default_rng(0)
    a, n = rng.integers(2, size=4000), 4000
    r = (rng.random(n) < np.where(a == 1, 0.6, 0.3)).astype(float)
    counts = Counts.from_arrays(np.zeros(n, int), a, r, np.zeros(n, int), np.ones(n, bool), states=1, actions=2)
    p, b, gamma = r[a == 1].mean(), (a == 1).mean(), 2.0
    low, high = b + (1 - b) / gamma, b + (1 - b) * gamma
    zeros = min((1.0 - low) / (high - low), 1.0 - p)  # of the lowest share, as many as there are
    lowest = ((1.0 - low) / (high - low) - zeros) * (high - low)
    expected = low * p + lowest
    found = Worst(counts, np.array([[0.0, 1.0]]), np.ones(1), 0.0).value(gamma)
    assert found == pytest.approx(expected, abs=0.02)  # two values stand for the rewards: exact below a half
    few = Counts.from_arrays(np.zeros(n, int), a, 1.0 - r, np.zeros(n, int), np.ones(n, bool), states=1, actions=2)
    p = 1.0 - p
    lowest = max((1.0 - low) / (high - low) - (1.0 - p), 0.0) * (high - low)
    found = Worst(few, np.array([[0.0, 1.0]]), np.ones(1), 0.0).value(gamma)
    assert found == pytest.approx(low * p + lowest, abs=1e-9)


def test_a_stronger_cause_takes_more_and_the_strengths_are_in_order():
    counts = drawn(4, 3, 400, seed=2)
    policy = np.eye(3)[[0, 1, 2, 0]]
    worst = Worst(counts, policy, np.full(4, 0.25), 0.9)
    losses = [worst.loss(g) for g in (1.0, 1.2, 2.0, 10.0)]
    assert losses[0] == pytest.approx(0.0, abs=1e-9)
    assert np.all(np.diff(losses) > 0.0)
    found = sensitivity(counts, policy, np.full(4, 0.25), 0.9, gain=losses[2], proven=losses[1])
    assert found.gone == pytest.approx(2.0, rel=0.01)
    assert found.unproven == pytest.approx(1.2, rel=0.01)
    assert sensitivity(counts, policy, np.full(4, 0.25), 0.9, gain=1e9, proven=None).gone is None


def test_a_gain_that_a_hidden_cause_made_needs_no_stronger_one_to_be_gone():
    """Half of the cases are lucky whatever is done; luck changes the odds of action 1 by √3. Its gain is nothing."""
    rng = np.random.default_rng(3)
    n = 40_000
    lucky = rng.random(n) < 0.5
    odds = np.where(lucky, np.sqrt(3.0), 1.0 / np.sqrt(3.0))
    a = (rng.random(n) < odds / (1.0 + odds)).astype(int)
    r = (rng.random(n) < np.where(lucky, 0.6, 0.2)).astype(float)
    log = dualq.read_log({"state": np.zeros(n, int), "action": a, "reward": r}, terminal="row")
    fit = dualq.learn(log, discount=0.0)
    assert fit.verdict == "better"  # no log shows what was hidden
    assert 1.0 < fit.sensitivity.unproven < fit.sensitivity.gone < np.sqrt(3.0) + 0.02
