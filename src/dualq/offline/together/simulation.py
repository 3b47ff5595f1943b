"""The engine of one process: rounds, in each of which every agent that is present gives and takes.

for each round:  every agent present gives its messages, in order
                 each message is lost, or arrives once or twice, now or some rounds later      (network.py)
                 what is due arrives; what comes for an agent that is away is lost
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from dualq.offline.together.agents import Agent
from dualq.offline.together.network import Network

Watch = Callable[[int, Sequence[Agent]], bool | None]  # after each round; True: enough
Post = tuple[int, bytes]  # to whom, and what


class Simulation:
    """A network that runs; one round after another."""

    def __init__(self, network: Network, agents: Sequence[Agent], seed: int = 0):
        self.network, self.agents = network, list(agents)
        self.round = 0
        self.rng = np.random.default_rng([network.seed, seed])
        self.due: dict[int, list[Post]] = defaultdict(list)

    def step(self) -> None:
        """One round."""
        network, round_ = self.network, self.round
        here = [agent for agent in range(network.size) if network.present(agent, round_)]
        for messages in self.given({agent: network.neighbours(agent, round_) for agent in here}):
            for to, data in messages:
                self._post(to, data)
        arriving = self.due.pop(round_, [])
        if network.reordering:
            self.rng.shuffle(arriving)
        self.deliver([(to, data) for to, data in arriving if network.present(to, round_)])
        self.round += 1

    def given(self, neighbours: Mapping[int, Sequence[int]]) -> Iterable[list[Post]]:
        """What these agents say to their neighbours in this round, in order."""
        return (self.agents[agent].give(self.round, others) for agent, others in neighbours.items())

    def deliver(self, arriving: Sequence[Post]) -> None:
        """Hand every message to its addressee, in order."""
        for to, data in arriving:
            self.agents[to].take(data)

    def done(self) -> list[bool]:
        """Which agents need not be called again."""
        return [agent.done for agent in self.agents]

    def _post(self, to: int, data: bytes) -> None:
        network, rng = self.network, self.rng
        if network.loss and rng.random() < network.loss:
            return
        copies = 2 if network.duplication and rng.random() < network.duplication else 1
        for _ in range(copies):
            late = int(rng.integers(network.delay + 1)) if network.delay else 0
            self.due[self.round + late].append((to, data))

    def run(self, most: int, watch: Watch | None = None) -> bool:
        """Rounds until all are done (those who are gone for ever aside), at most so many; whether all are."""
        while self.round < most:
            self.step()
            if watch is not None and watch(self.round, self.agents):
                return False
            if all(done or self.network.gone(agent, self.round) for agent, done in enumerate(self.done())):
                return True
        return False
