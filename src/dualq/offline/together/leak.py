"""The attack on iterates: what an agent's only neighbour can rebuild of its table.

A leaf of a star sends all that it sends to the hub, and hears from the hub alone. So the hub knows, round by round,

    (y, w) of the leaf   what it sent is half of what it had; the other half stayed, and the hub's own flow came to it
    V of the leaf        begins at 0 and follows from y / w by the rule that everybody knows
    what was added to y  N (T_i(V') - T_i(V)) = N alpha C_i (V' - V) / d

The last are linear equations in the leaf's counts C_i, S A a round, and d is known to all. V' - V has mean zero,
so rows of C_i are found but for one constant each (n_i(s, a) / S): every difference between two counts of a pair is
known. And the first message says y before anything was added: N / d times the sums of the leaf's rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualq.logs import Log
from dualq.offline.together.agents import Task
from dualq.offline.together.agreement import common_of
from dualq.offline.together.messages import unpacked_message
from dualq.offline.together.network import Network
from dualq.offline.together.simulation import Simulation
from dualq.offline.together.tables import House
from dualq.offline.together.tracking import CHECKED, TrackingAgent

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


def attack(logs: Sequence[Log], discount: float, rounds: int = 20, leaf: int = 1) -> Leak:
    """Run a star without loss; the hub, agent 0, rebuilds the table of a leaf from what passes between the two."""
    task = Task(len(logs), discount, "iterates", tolerance=0.0)
    agents = [TrackingAgent(k, House.of(log), common_of(log), task, bytes([k + 1]) * 32) for k, log in enumerate(logs)]
    simulation, hub, heard = Simulation(Network.star(len(logs)), agents), agents[0], list[tuple[Array, Array]]()
    listen = hub.take

    def take(data: bytes) -> None:
        message = unpacked_message(data, task.run, 0, task.size)
        if message.sender == leaf and "track" in message.parts:
            heard.append((message.parts["track"], hub.flows.get(leaf, np.zeros(hub.z.size)).copy()))
        listen(data)

    hub.take = take  # pyright: ignore[reportAttributeAccessIssue]
    while len(heard) < rounds:
        simulation.step()
    return _rebuilt(hub, agents[leaf], heard)


def _rebuilt(hub: TrackingAgent, leaf: TrackingAgent, heard: list[tuple[Array, Array]]) -> Leak:
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
        new = hub.next_V(z, V)
        moves.append(new - V)
        added.append(2.0 * out[:-1] - z[:-1])
        z, V = out + back, new
    found = np.linalg.lstsq(np.array(moves), np.array(added), rcond=1e-12)[0].T
    d = np.zeros(size)
    d[: hub.visits.d.size] = hub.visits.d
    scale = d[:, None] / (hub.task.size * hub.task.discount)
    rows, truth = (scale * (M - M.mean(axis=1, keepdims=True)) for M in (found, leaf.M))
    return Leak(len(heard), y0 * d / hub.task.size, leaf.c * d / hub.task.size, rows, truth)
