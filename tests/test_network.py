"""Networks: their shapes against networkx-free twins, what they refuse, and how a round looks."""

from __future__ import annotations

import numpy as np
import pytest

import dualq


def reachable(net: dualq.Network, agent: int, rounds: int) -> set[int]:
    """Who has heard of an agent after some rounds without loss: word of mouth, step by step."""
    heard = {agent}
    for round_ in range(rounds):
        here = {i for i in heard if net.present(i, round_)}
        heard |= {j for i in here for j in net.neighbours(i, round_) if net.present(j, round_)}
    return heard


@pytest.mark.parametrize(
    ("net", "degrees"),
    [
        (dualq.Network.ring(5), [2] * 5),
        (dualq.Network.ring(2), [1, 1]),
        (dualq.Network.star(4), [3, 1, 1, 1]),
        (dualq.Network.grid(2, 3), [2, 3, 2, 2, 3, 2]),
        (dualq.Network.complete(4), [3] * 4),
        (dualq.Network.of([(0, 1), (1, 2)]), [1, 2, 1]),
        (dualq.Network.ring(1), [0]),
    ],
)
def test_shapes(net: dualq.Network, degrees: list[int]):
    assert [len(net.neighbours(i, 7)) for i in range(net.size)] == degrees
    for i in range(net.size):
        assert all(i in net.neighbours(j, 0) for j in net.neighbours(i, 0))  # both ways
        assert reachable(net, i, net.size) == set(range(net.size))


def test_random_graphs_are_connected_and_seeded():
    nets = [dualq.Network.random(12, 0.2, seed=seed) for seed in range(20)]
    assert all(reachable(net, 0, 12) == set(range(12)) for net in nets)
    assert len({net.edges(0) for net in nets}) == 20
    assert dualq.Network.random(12, 0.2, seed=3).edges(0) == nets[3].edges(0)


def test_a_network_that_is_never_connected_is_refused_with_its_parts():
    with pytest.raises(dualq.ModelError, match=r"\{0, 1\}; \{2, 3, 4\}"):
        dualq.Network.of([(0, 1), (2, 3), (3, 4)])
    with pytest.raises(dualq.ModelError, match=r"\{0\}; \{1\}; \{2\}"):
        dualq.Network.of([(0, 1), (1, 2)], directed=True)
    with pytest.raises(dualq.ModelError, match=r"\{0, 1\}; \{2\}"):
        dualq.Network.changing(lambda r: [(0, 1)] if r % 2 else [], size=3)
    with pytest.raises(dualq.ModelError, match=r"\{0, 2\}; \{1\}"):
        dualq.Network.ring(3, away={1: [(0, None)]})


def test_parts_that_meet_in_turn_are_a_network():
    net = dualq.Network.changing([[(0, 1)], [(1, 2)], []], size=3)
    assert [net.neighbours(1, r) for r in range(4)] == [(0,), (2,), (), (0,)]
    assert reachable(net, 0, 3) == {0, 1, 2}
    rule = dualq.Network.changing(lambda r: [(r % 3, (r + 1) % 3)], size=3)
    assert rule.neighbours(0, 2) == (2,)
    assert rule.neighbours(0, 1) == ()


def test_agents_leave_and_return():
    net = dualq.Network.ring(4, away={2: [(3, 5), (9, None)]})
    assert [r for r in range(12) if not net.present(2, r)] == [3, 4, 9, 10, 11]
    assert [r for r in range(12) if net.gone(2, r)] == [9, 10, 11]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dualq.Network.ring(0), "0 agents"),
        (lambda: dualq.Network.ring(3, loss=1.0), "loss is 1"),
        (lambda: dualq.Network.ring(3, loss=np.nan), "loss is nan"),
        (lambda: dualq.Network.ring(3, delay=-1), "delay is -1"),
        (lambda: dualq.Network.ring(3, lost=0.1), "no 'lost'"),
        (lambda: dualq.Network.of([(0, 0), (0, 1)]), "to itself"),
        (lambda: dualq.Network.of([(0, 5)], size=3), "agent 5"),
        (lambda: dualq.Network.ring(3, away={7: [(0, 1)]}), "agent 7"),
        (lambda: dualq.Network.ring(3, away={1: [(4, 2)]}), "from round 4 until 2"),
        (lambda: dualq.Network.changing([], size=2), "at least one graph"),
    ],
)
def test_what_is_refused(make, words: str):
    with pytest.raises(dualq.ModelError, match=words):
        make()
