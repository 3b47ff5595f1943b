"""Agents in houses of their own: one process each, and files between them, moved by whatever the houses use.

    MAIL/3/1.msg     the last message from agent 1 to agent 3; the next one takes its place

One file for each direction is enough: what one message lacks comes with a later one (flooding.py, tracking.py). A round
reads what is new, takes a step, keeps the agent's state in a file of its own house, and only then writes its messages:
killed at any moment and started again, the agent goes on where it stood. The state holds the agent's secret; it never
goes into MAIL.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dualq.base import LogError, load_arrays, save_arrays, write_whole
from dualq.logs import Argument, Log
from dualq.model import checked_discount
from dualq.offline.fit import Fit
from dualq.offline.stages import read
from dualq.offline.together.agents import CountingAgent, Task
from dualq.offline.together.agreement import common_of
from dualq.offline.together.iterated import IterateFit, iterate_fit
from dualq.offline.together.learning import REWARDS, SHARES, fit_of, without_numbers
from dualq.offline.together.network import Network
from dualq.offline.together.tables import House
from dualq.offline.together.tracking import TrackingAgent

SHORTEST = 16  # bytes of a key
NEVER = 1 << 40  # rounds of silence: houses may begin on different days, so nobody is left out


@dataclass(frozen=True, eq=False)
class Plan:
    """What the houses have agreed on: net.json, the same file in every house."""

    network: Network
    task: Task

    @classmethod
    def read(cls, path: Path, key: Path | None = None) -> Plan:
        """{"run": "winter", "edges": [[0, 1], [1, 2]], "discount": 0.95, "share": ..., "reward": ...}.

        key   a file of bytes that only the houses know
        """
        try:
            said = json.loads(path.read_text())
            edges = [(int(i), int(j)) for i, j in said["edges"]]
            share, reward = said.get("share", SHARES[0]), said.get("reward", REWARDS[0])
            discount = checked_discount(said["discount"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            right = 'it must be JSON such as {"run": "winter", "edges": [[0, 1], [1, 2]], "discount": 0.95}'
            raise LogError(f"{path}: cannot be read ({error}); {right}", path=str(path)) from None
        for name, word, known in (("share", share, SHARES), ("reward", reward, REWARDS)):
            if word not in known:
                raise LogError(f"{path}: {name} is {word!r}; it must be one of {', '.join(known)}", path=str(path))
        network, secret = Network.of(edges), b"" if key is None else _key(key)
        run = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).digest()[:8]
        return cls(network, Task(network.size, discount, share, reward, run, NEVER, secret))

    def opened(self, source: object, **columns: Argument) -> Log | None:
        """The log of a house, read as `learn_together` reads it."""
        return without_numbers(read(source, self.task.discount, "auto", **columns).log)


def _key(path: Path) -> bytes:
    try:
        found = path.read_bytes()
    except OSError as error:
        raise LogError(f"{path}: the key cannot be read ({error.strerror})", path=str(path)) from None
    if len(found) < SHORTEST:
        raise LogError(f"{path}: a key of {len(found)} bytes; it must have {SHORTEST} or more", path=str(path))
    return found


class Post:
    """The files between one agent and its neighbours."""

    def __init__(self, folder: Path, agent: int):
        self.folder, self.agent = folder, agent
        self.read: dict[str, bytes] = {}  # the digest of what was read last of each

    def arrived(self) -> list[bytes]:
        """The messages that are new; those that are being written have other names."""
        found = []
        for path in sorted((self.folder / str(self.agent)).glob("*.msg")):
            data = path.read_bytes()
            digest = hashlib.sha256(data).digest()
            if self.read.get(path.name) != digest:
                self.read[path.name] = digest
                found.append(data)
        return found

    def send(self, to: int, data: bytes) -> None:
        """Write a message, whole or not at all."""
        write_whole(self.folder / str(to) / f"{self.agent}.msg", data)


def run_agent(
    agent: int,
    plan: Plan,
    log: Log | None,
    mail: Path,
    state: Path,
    *,
    every: float = 0.2,
    again: bool = False,
    most_rounds: int | None = None,
    said: Callable[[str], None] | None = None,
) -> Fit | IterateFit:
    """Run one agent until all have their answer; what it has learned.

    log     None: the house has no rows
    state   the file in which it keeps its state; where that exists, it goes on from there
    every   seconds between rounds
    again   the state was lost: begin anew, and tell the others
    """
    if not 0 <= agent < plan.network.size:
        raise LogError(f"there is no agent {agent}; the network has 0 to {plan.network.size - 1}", argument="id")
    made = _made(agent, plan.task, log, state, again)
    post, neighbours = Post(mail, agent), plan.network.neighbours(agent, 0)
    while not made.done:
        if most_rounds is not None and made.round >= most_rounds:
            raise LogError(f"agent {agent} has no answer after {most_rounds:,} rounds; are all agents running?")
        for data in post.arrived():
            made.take(data)
        messages = made.give(made.round + 1, neighbours)
        save_arrays(state, made.state())
        for to, data in messages:
            post.send(to, data)
        if said is not None and made.round % 25 == 0:
            said(f"round {made.round}, {made.sent.messages:,} messages")
        time.sleep(0.0 if made.done else every)
    if isinstance(made, TrackingAgent):
        return iterate_fit(made)
    return fit_of(made, {})


def _made(agent: int, task: Task, log: Log | None, state: Path, again: bool) -> CountingAgent:
    kind = TrackingAgent if task.share == "iterates" else CountingAgent
    life = int(time.time()) if again else 0
    made = kind(agent, House.of(log), common_of(log), task, secrets.token_bytes(32), life)
    if state.exists() and not again:
        made.restore(load_arrays(state))
    return made
