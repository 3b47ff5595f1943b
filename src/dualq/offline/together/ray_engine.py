"""The engine of many processes: one Ray actor per agent, in this machine or in a cluster.

Rounds, losses and delays are those of the simulation (simulation.py), drawn from the same seed in the same order; only
who computes differs. An agent's state depends on what it is given and on nothing else, so all states are the same bit
for bit. The process that calls moves the messages; each actor holds the table of one house, and no rows.

Where Ray runs already (`ray.init(address=...)`), its cluster is used, and must have dualq installed; else Ray is
started here, and stopped in the end. Ray moves objects between its own processes by pickle: run it on machines that you
trust.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from dualq.base import LogError, pip_install
from dualq.offline.together.agents import CountingAgent, Task
from dualq.offline.together.agreement import Common
from dualq.offline.together.network import Network
from dualq.offline.together.simulation import Post, Simulation
from dualq.offline.together.tables import House

Array = np.ndarray

MISSING = f'engine="ray" needs Ray, which is not installed: {pip_install("ray")}'
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # no calls home, no tips

Remote: TypeAlias = Any  # what Ray gives for something that lives elsewhere


class Housed:
    """What runs in an actor: one agent, made there (arrays that Ray hands over cannot be written to)."""

    def __init__(
        self, kind: type[CountingAgent], agent: int, house: House, reading: Common | None, task: Task, secret: bytes
    ):
        self.agent = kind(agent, house, reading, task, secret)

    def give(self, round_: int, neighbours: Sequence[int]) -> list[Post]:
        """The agent's messages of a round."""
        return self.agent.give(round_, neighbours)

    def take(self, messages: Sequence[bytes]) -> bool:
        """Hand it what has come; whether it is done."""
        for data in messages:
            self.agent.take(data)
        return self.agent.done

    def state(self) -> dict[str, Array]:
        """All that it needs to go on."""
        return self.agent.state()


class RaySimulation(Simulation):
    """The same rounds, with every agent in a process of its own."""

    def __init__(self, network: Network, agents: Sequence[CountingAgent], seed: int, ray: ModuleType):
        super().__init__(network, agents, seed)
        self._ray = ray
        actor = ray.remote(num_cpus=0)(Housed)  # they take turns: as many agents as one likes, on any machine
        self._actors: list[Remote] = [actor.remote(type(a), a.id, a.house, a.reading, a.task, a.secret) for a in agents]
        self._done = [False] * network.size

    def given(self, neighbours: Mapping[int, Sequence[int]]) -> Iterable[list[Post]]:
        """All agents at once."""
        return self._got([self._actors[agent].give.remote(self.round, others) for agent, others in neighbours.items()])

    def deliver(self, arriving: Sequence[Post]) -> None:
        """To all at once, in order to each."""
        bags: list[list[bytes]] = [[] for _ in self._actors]
        for to, data in arriving:
            bags[to].append(data)
        self._done = self._got([actor.take.remote(bag) for actor, bag in zip(self._actors, bags, strict=True)])

    def done(self) -> list[bool]:
        """As they said when they had taken their messages."""
        return self._done

    def states(self) -> list[dict[str, Array]]:
        """What each agent needs to go on."""
        return self._got([actor.state.remote() for actor in self._actors])

    def _got(self, promised: list[Remote]) -> list[Remote]:
        """What was promised; an agent's own complaint, where it has one."""
        try:
            return self._ray.get(promised)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None


@contextmanager
def ray_running() -> Iterator[ModuleType]:
    """Ray, running."""
    try:
        import ray
    except ImportError:
        raise LogError(MISSING, argument="engine", value="ray") from None
    mine = not ray.is_initialized()
    if mine:
        os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield ray
    finally:
        if mine:
            ray.shutdown()
