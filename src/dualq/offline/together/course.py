"""The course of Bellman tracking: what every agent has after so many rounds, be it an answer or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualq.base import LogError
from dualq.logs import Log
from dualq.offline.together.agents import Task
from dualq.offline.together.agreement import common_of
from dualq.offline.together.network import Network
from dualq.offline.together.simulation import Simulation
from dualq.offline.together.tables import House
from dualq.offline.together.tracking import TrackingAgent

Array = np.ndarray

LATEST = 1000  # rounds in which the visits must be known to all


class Course(NamedTuple):
    """What agents had, round after round."""

    before: int  # rounds until the summed visits were known to all
    rounds: Array  # (K,) counted from there
    Q: Array  # (K, agents, states of the model, A)

    @property
    def disagreement(self) -> Array:
        """(K,) the largest difference between two agents' Q."""
        return np.nan_to_num(self.Q.max(axis=1) - self.Q.min(axis=1)).max(axis=(1, 2))

    def distance(self, exact: Array) -> Array:
        """(K,) how far the Q of the worst agent is from another; entries that are infinite in both count as equal."""
        return np.nan_to_num(np.abs(self.Q - exact)).max(axis=(1, 2, 3))


def course(logs: Sequence[Log], network: Network, discount: float, rounds: Sequence[int], seed: int = 0) -> Course:
    """Every agent's own Q after these rounds; they are counted from the moment when all know the summed visits."""
    task = Task(network.size, discount, "iterates", tolerance=0.0)  # never satisfied: they go on
    agents = [TrackingAgent(k, House.of(log), common_of(log), task, bytes([k + 1]) * 32) for k, log in enumerate(logs)]
    simulation, wanted, found = Simulation(network, agents, seed), set(rounds), []
    while not all(agent.visits is not None for agent in agents):
        if simulation.round >= LATEST:
            raise LogError(f"after {LATEST:,} rounds some agent does not know the visits of all; is the loss too high?")
        simulation.step()
    before = simulation.round
    for round_ in range(1, max(rounds) + 1):
        simulation.step()
        if round_ in wanted:
            found.append([agent.own() for agent in agents])
    return Course(before, np.array(sorted(wanted)), np.array(found))
