"""The attack on iterates: what an agent's only neighbour can rebuild of its table.

A leaf of a star sends all that it sends to the hub, and hears from the hub alone. So the hub knows, round by round,

    (y, w) of the leaf   what it sent is half of what it had; the other half stayed, and the hub's own flow came to it
    V of the leaf        begins at 0 and follows from y / w by the rule that everybody knows
    what was added to y  N (T_i(V') - T_i(V)) = N alpha C_i (V' - V) / d

The last are linear equations in the leaf's counts C_i, S A a round, and d is known to all. V' - V has mean zero,
so rows of C_i are found but for one constant each (n_i(s, a) / S): every difference between two counts of a pair is
known. Where a pair never led to some state, the least count is zero, and that constant is known as well. And the first
message says y before anything was added: N / d times the sums of the leaf's rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualq.logs import Log
from dualq.offline.together.agents import Task
from dualq.offline.together.agreement import common_of
from dualq.offline.together.messages import Message
from dualq.offline.together.network import Network
from dualq.offline.together.simulation import Simulation
from dualq.offline.together.tables import House
from dualq.offline.together.tracking import CHECKED, TrackingAgent, next_V

Array = np.ndarray


class Leak(NamedTuple):
    """What the hub has found of the leaf, beside the truth."""

    rounds: int
    reward_sums: Array  # (S A,) found
    true_reward_sums: Array
    counts: Array  # (S A, S) found, each row less its mean
    true_counts: Array

    @property
    def error(self) -> float:
        """The largest error, in rows of the log."""
        return float(np.abs(self.counts - self.true_counts).max())

    @property
    def reward_error(self) -> float:
        """The largest error of a sum of rewards."""
        return float(np.abs(self.reward_sums - self.true_reward_sums).max())


class Hub(TrackingAgent):
    """An agent that keeps the rules, and also what one leaf says and what it has said to it."""

    def __init__(self, house: House, log: Log, task: Task, leaf: int):
        super().__init__(0, house, common_of(log), task, b"\x01" * 32)
        self.leaf = leaf
        self.heard: list[tuple[Array, Array]] = []

    def _hear(self, message: Message) -> None:
        if message.sender == self.leaf and "track" in message.parts:
            self.heard.append((message.parts["track"], self.flows.get(self.leaf, np.zeros(self.z.size)).copy()))
        super()._hear(message)


def attack(logs: Sequence[Log], discount: float, rounds: Sequence[int] = (20,), leaf: int = 1) -> list[Leak]:
    """Run a star without loss; what the hub, agent 0, rebuilds of a leaf after it has listened for so many rounds."""
    task = Task(len(logs), discount, "iterates", tolerance=0.0)
    hub = Hub(House.of(logs[0]), logs[0], task, leaf)
    others = [
        TrackingAgent(k, House.of(log), common_of(log), task, bytes([k + 1]) * 32)
        for k, log in enumerate(logs)
        if k > 0
    ]
    simulation = Simulation(Network.star(len(logs)), [hub, *others])
    while len(hub.heard) < max(rounds):
        simulation.step()
    return [_rebuilt(hub, others[leaf - 1], hub.heard[:listened]) for listened in rounds]


def _rebuilt(hub: Hub, leaf: TrackingAgent, heard: list[tuple[Array, Array]]) -> Leak:
    """All but the last lines use what the hub knows."""
    assert hub.visits is not None
    first, size, flow = heard[0][0], hub.c.size, hub.z.size
    start = CHECKED + hub.task.size
    y0 = first[start : start + size]  # what the leaf saw before it heard anything: its own y, with w = 1
    sent = np.diff([np.zeros(flow), *(said[-flow:] for said, _ in heard)], axis=0)
    got = np.diff([np.zeros(flow), *(ours for _, ours in heard)], axis=0)
    z, V = np.append(y0, 1.0), np.zeros(hub.V.size)
    moves, added = [], []
    for out, back in zip(sent, got, strict=True):
        new = V.copy()
        next_V(z, new, hub.barrier, hub.limit)
        moves.append(new - V)
        added.append(2.0 * out[:-1] - z[:-1])
        z, V = out + back, new
    found = np.linalg.lstsq(np.array(moves), np.array(added), rcond=1e-12)[0].T
    d = np.zeros(size)
    d[: hub.visits.d.size] = hub.visits.d
    scale = d[:, None] / (hub.task.size * hub.task.discount)
    true = np.zeros(found.shape)
    np.add.at(true, (leaf.operator.pair, leaf.operator.to), leaf.operator.share)
    rows, truth = (scale * (M - M.mean(axis=1, keepdims=True)) for M in (found, true))
    return Leak(len(heard), y0 * d / hub.task.size, leaf.c * d / hub.task.size, rows, truth)
