"""QD-learning: against a twin in plain matrices, Q-learning, and the exact answer."""

from __future__ import annotations

import numpy as np
import pytest

import dualq

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def naive(log: dualq.ArrayLog, edges, shares, discount, power, consensus, consensus_power) -> np.ndarray:
    """Equation by equation, all agents at once, from the tables before the visit."""
    N = len(shares)
    neighbours = np.zeros((N, N))
    for i, j in edges:
        neighbours[i, j] = neighbours[j, i] = 1.0
    Q, n = np.zeros((N, 2, 2)), np.zeros((2, 2))
    for s, a, r, t in zip(log.state, log.action, log.reward, log.next_state, strict=True):
        n[s, a] += 1
        old = Q.copy()
        for i in range(N):
            apart = sum(neighbours[i, j] * (old[i, s, a] - old[j, s, a]) for j in range(N))
            innovation = shares[i] * r + discount * old[i, t].max() - old[i, s, a]
            Q[i, s, a] += -consensus / n[s, a] ** consensus_power * apart + n[s, a] ** -power * innovation
    return Q


def test_twin():
    log, shares = dualq.problems.two_state().record(steps=300, seed=1), [4.0, 0.0, 0.0, 0.0]
    made = dualq.QDLearning(RING, shares, dualq.visits(0.8), 0.2, 0.1)
    run = dualq.train(made, log, steps=300, discount=0.9)
    wanted = naive(log, RING, shares, 0.9, 0.8, 0.2, 0.1)
    np.testing.assert_allclose(run.solution.Q, wanted.mean(axis=0), rtol=1e-12)
    assert np.ptp(wanted, axis=0).max() > 0.01  # the agents do differ


def test_agents_that_see_the_same_do_as_q_learning_does():
    two = dualq.problems.two_state()
    alone = dualq.train(dualq.QLearning(dualq.visits(0.8)), two, steps=5000, seed=3)
    agents = dualq.train(dualq.QDLearning(RING), two, steps=5000, seed=3)
    np.testing.assert_allclose(agents.solution.Q, alone.solution.Q, rtol=1e-12)


def test_one_agent_sees_all_rewards_and_yet_all_come_to_the_average():
    two = dualq.problems.two_state()
    exact = dualq.solve(two.mdp).Q
    errors = [
        np.abs(dualq.train(dualq.QDLearning(RING, [4, 0, 0, 0]), two, steps=steps, seed=0).solution.Q - exact).max()
        for steps in (1_000, 300_000)
    ]
    assert errors[1] < 0.25 * errors[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"edges": []}, "pairs of different agents"),
        ({"edges": [(1, 1)]}, "pairs of different agents"),
        ({"edges": RING, "shares": [1, 1]}, "must be 4 numbers"),
        ({"edges": RING, "shares": [1, 1, 1, 2]}, "1 on average"),
        ({"edges": RING, "consensus": 3.0}, "consensus is 3"),
        ({"edges": RING, "consensus_power": 0.9}, "power below"),
        ({"edges": RING, "step_size": dualq.linear()}, "visits"),
    ],
)
def test_what_is_refused(words, said: str):
    with pytest.raises(dualq.ModelError, match=said):
        dualq.QDLearning(**words)
