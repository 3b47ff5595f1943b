"""Sweeps in parts: T and T_pi as the naive ones, and the same bits on any number of threads."""

import numpy as np
import pytest
from naive import bellman

from dualq import problems
from dualq.solvers import sweeps
from dualq.solvers.dynamic import modified_policy_iteration
from dualq.solvers.sweeps import Sweeps

MODELS = {
    "garnet": lambda: problems.garnet(200, 4, 3, discount=0.9, seed=0).mdp,
    "queue": lambda: problems.queue(200, discount=0.9).mdp,  # pairs that are not available, and rows of several lengths
}


@pytest.fixture(params=[1, 2, 3, 7])
def parts(request, monkeypatch):
    monkeypatch.setattr(sweeps, "PART", 20)
    monkeypatch.setattr(sweeps, "threads", lambda: request.param)
    return request.param


@pytest.mark.parametrize("name", MODELS)
def test_sweeps_are_those_of_the_naive_operators(name, parts):
    mdp, rng, gain = MODELS[name](), np.random.default_rng(0), 0.3
    model, h, Th = Sweeps(mdp), rng.random(mdp.num_states), np.empty(mdp.num_states)
    assert len(model.parts) == parts
    before = h.copy()
    lo, hi = model.improve(gain, h, Th)
    expected = bellman(mdp, before) - gain
    np.testing.assert_allclose(Th, expected, rtol=1e-12)
    np.testing.assert_allclose([lo, hi], [(expected - before).min(), (expected - before).max()], rtol=1e-9)

    P, R = mdp.transitions.toarray().reshape(*mdp.rewards.shape, -1), mdp.rewards
    q = np.where(mdp.available, R + mdp.discount * P @ before, -np.inf)
    every, greedy = np.arange(mdp.num_states), q.argmax(axis=1)
    for _ in range(5):
        before, expected = expected, R[every, greedy] - gain + mdp.discount * P[every, greedy] @ expected
    found, last, made, span = model.evaluate(gain, h, Th, 0.0, 5, 4, np.inf)
    assert made == 5
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(last, before, rtol=1e-12)
    np.testing.assert_allclose(span, np.ptp(expected - before), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_threads_gives_the_same_bits(name, parts, monkeypatch):
    mdp = MODELS[name]()
    found = modified_policy_iteration(mdp, 1e-8)
    monkeypatch.setattr(sweeps, "threads", lambda: 1)
    alone = modified_policy_iteration(mdp, 1e-8)
    assert found.V.tobytes() == alone.V.tobytes()
    assert found[1:] == alone[1:]


@pytest.mark.parametrize(("said", "number"), [("1", 1), ("3", 3)])
def test_as_many_threads_as_the_environment_says(said, number, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert sweeps.threads() == number
