"""Algorithm 1 by several agents: against its slow twin, Algorithm 1 itself, and what mixing is known to take away."""

from __future__ import annotations

import numpy as np
import pytest
from naive import Paper, SplitMix64, all_rows, masked_model, networked_algorithm_1, run, scattered

import dualq
from dualq.base import generator_state
from dualq.online.neighbours import checked_edges, metropolis
from dualq.online.networked_spd_q import OWN

TWO = dualq.problems.two_state()
PAPER = {"step_size": dualq.inverse_sqrt(2.0), "weights": 1.5, "zeta": 0.0856}
RING = dualq.Network.ring(5).edges(0)
PATH = [(0, 1), (1, 2), (2, 3)]  # of four, with different degrees


def test_metropolis_weights_of_a_path():
    third = 1.0 / 3.0
    wanted = [[2 * third, third, 0, 0], [third, third, third, 0], [0, third, third, third], [0, 0, third, 2 * third]]
    np.testing.assert_allclose(metropolis(checked_edges(PATH)), wanted, atol=1e-15)


def test_twin():
    """Last iterates of all agents, and averages, where actions are missing, episodes end, rewards have either sign."""
    mdp, shares, rows = masked_model(), [4.0, 0.0, -1.0, 1.0], 403
    stream = scattered(mdp, rows)
    paper = Paper(mdp, 0.5, 0.5)
    made = dualq.NetworkedSPDQ(dualq.inverse_sqrt(1.0), 0.5, 0.5, edges=PATH, shares=shares)
    generators = [SplitMix64(generator_state(0, 1 + OWN * i)[0]) for i in range(4)]
    gamma = [1.0 / np.sqrt(k + 1) for k in range(rows)]
    third = 1.0 / 3.0
    W = np.array(
        [[2 * third, third, 0, 0], [third, third, third, 0], [0, third, third, third], [0, 0, third, 2 * third]]
    )
    wanted = networked_algorithm_1(paper, all_rows(stream, 400), gamma, generators, W, shares)
    assert {"Q", "V", "mu", "L", "Xi"} <= paper.active
    state = run(made, mdp, stream, 400, chunk=70)  # chunks end between two agents' steps
    for name, bound in (("Q", paper.value_bound), ("V", paper.value_bound), ("lambda_", paper.occupancy_bound)):
        for i in range(4):
            np.testing.assert_allclose(getattr(state, name)[i], wanted[i][name][100], atol=1e-11 * bound)
    mean = {name: np.mean([one[name][:100].mean(axis=0) for one in wanted], axis=0) for name in wanted[0]}
    found = made.solution(state, mdp)
    np.testing.assert_allclose(found.V + mdp.value_shift, mean["V"], atol=1e-9)
    np.testing.assert_allclose(found.occupancy, np.maximum(mean["lambda_"], 0.0), atol=1e-9)


def test_one_agent_is_algorithm_1_bit_for_bit():
    words = {"steps": 3000, "seed": 3, "record": [10, 1000]}
    choices = PAPER | {"start": "random", "average_power": 1.0}
    alone, one = (dualq.train(made(**choices), TWO, **words) for made in (dualq.SPDQ, dualq.NetworkedSPDQ))
    assert alone.history.equals(one.history)
    for name in ("Q", "V", "occupancy", "ratio"):
        for which in ("solution", "last"):
            assert np.array_equal(getattr(getattr(alone, which), name), getattr(getattr(one, which), name))


def test_mixing_takes_the_noise_away():
    """Section 6.1 with 1e5 rows an agent, ring of 5: an independent try had a Q error of .42 against 1.22 alone."""
    exact = dualq.solve(TWO.mdp).Q
    errors = [
        [np.abs(dualq.train(made, TWO, steps, seed=seed).solution.Q - exact).max() for seed in range(2)]
        for made, steps in (
            (dualq.NetworkedSPDQ(edges=RING, **PAPER), 500_000),
            (dualq.NetworkedSPDQ(edges=RING, shares=[5, 0, 0, 0, 0], **PAPER), 500_000),
            (dualq.SPDQ(**PAPER), 100_000),
        )
    ]
    together, one_pays, alone = np.median(errors, axis=1)
    assert together < 0.5 < 0.8 < alone
    assert one_pays < 0.5


def test_a_run_that_stops_between_two_agents_goes_on_to_the_same_bits(tmp_path):
    made, words = dualq.NetworkedSPDQ(edges=RING, **PAPER), {"seed": 1}
    whole = dualq.train(made, TWO, 1001, **words)
    dualq.train(made, TWO, 503, checkpoint=tmp_path / "run.ckpt", **words)
    resumed = dualq.train(made, TWO, 1001, checkpoint=tmp_path / "run.ckpt", **words)
    for name in ("Q", "V", "occupancy", "ratio"):
        assert np.array_equal(getattr(whole.solution, name), getattr(resumed.solution, name))


def test_a_list_of_step_sizes_is_one_per_step_of_an_agent():
    made = dualq.NetworkedSPDQ(np.full(100, 0.1), 1.5, 0.08, edges=[(0, 1)])
    assert dualq.train(made, TWO, 200).solution.iterations == 200
    with pytest.raises(dualq.ModelError, match="200"):
        dualq.train(made, TWO, 201)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"edges": [(1, 1)]}, "pairs of different agents"),
        ({"edges": [(0, 1), (2, 3)]}, "no way leads from agent 0 to agent 2"),
        ({"edges": RING, "shares": [1, 1]}, "must be 5 numbers"),
    ],
)
def test_what_is_refused(words, said: str):
    with pytest.raises(dualq.ModelError, match=said):
        dualq.NetworkedSPDQ(**words)
