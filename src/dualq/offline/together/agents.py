"""Agents: each holds one log, takes messages, gives messages, and ends with what all logs together say.

An agent knows nothing of transport. Whoever runs it (simulation.py, or a program that moves files) calls `give` once a
round and sends what it gives, calls `take` with what arrives, and may keep `state()` and go on from it later.

    hello    how the log was read, the ranges seen, the unit of the sums, a public word for masks; all must fit together
    table    what the log says (tables.py), masked or not; the tables of all add up to that of the pooled log
    rewards  a second table, where rewards are averaged over houses

Drop-outs. Whoever has not been heard of for `patience` rounds, and whose piece nobody present has, is left out: the
first of the agents present says so, and the round is repeated without the lost, with new masks. Its piece of the old
round, should it come late, is neither kept nor passed on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dualq.base import Labels, LogError, from_json_array
from dualq.logs import Bins, Counts
from dualq.offline.together.exact_sums import Unit, common_unit
from dualq.offline.together.flooding import Flood
from dualq.offline.together.masks import masked, public_word, shared_seed
from dualq.offline.together.messages import Message, MessageError, unpacked_message
from dualq.offline.together.tables import MOST_DENSE, House, Layout, Summed, every_entry

Array = np.ndarray
Range = tuple[float, float]

HELLO = 0
ATTEMPTS = 8  # how often a round can be repeated without agents that were lost


@dataclass(frozen=True, eq=False)
class Common:
    """What all logs must have in common: columns, labels, ranges where somebody gave them."""

    states: Labels
    actions: Labels
    columns: Mapping[str, tuple[str, ...]]
    costs: tuple[str, ...] = ()
    reward_range: Range | None = None  # None: as seen
    cost_ranges: Mapping[str, Range] = field(default_factory=dict)  # those that somebody gave
    episodes: bool = False  # whether the logs know where episodes begin
    bins: Mapping[str, Bins] = field(default_factory=dict)  # how numbers were cut
    available: Array | None = None  # (S, A) which pairs exist, where somebody said so

    def words(self) -> dict[str, object]:
        """The same in plain values, labels as digests, to be compared."""
        return {
            "columns": {part: list(names) for part, names in self.columns.items()},
            "states": _digest(self.states),
            "actions": _digest(self.actions),
            "costs": list(self.costs),
            "reward_range": None if self.reward_range is None else list(self.reward_range),
            "cost_ranges": {cost: list(ends) for cost, ends in sorted(self.cost_ranges.items())},
            "episodes": self.episodes,
            "bins": {column: list(bins.edges) for column, bins in sorted(self.bins.items())},
            "available": None if self.available is None else self.available.astype(int).tolist(),
        }


@dataclass(frozen=True, eq=False)
class Task:
    """What the agents want to do together; the same for all."""

    size: int
    discount: float
    share: str = "masked counts"
    reward: str = "pooled"
    run: bytes = b"dualq   "  # 8 bytes that tell this run from others
    patience: int = 200  # rounds of silence after which an agent is lost
    key: bytes = b""  # of the checksums, where the houses share one
    tolerance: float = 1e-9  # of iterates, as a share of the largest value there can be

    def words(self) -> dict[str, object]:
        """What must be the same for all."""
        return {"size": self.size, "discount": self.discount, "share": self.share, "reward": self.reward}


@dataclass
class Sent:
    """What an agent has sent, and what it refused to read."""

    messages: int = 0
    numbers: int = 0
    bytes: int = 0
    refused: int = 0


class Agent(Protocol):
    """What engines ask of an agent."""

    id: int
    sent: Sent

    @property
    def finished(self) -> bool:
        """Whether it has its answer."""
        ...

    @property
    def done(self) -> bool:
        """Whether it also knows that all others have theirs: it need not be called again."""
        ...

    def take(self, data: bytes) -> None:
        """A message came."""
        ...

    def give(self, round_: int, neighbours: Sequence[int]) -> list[tuple[int, bytes]]:
        """The messages of a round: to whom, and what."""
        ...

    def state(self) -> dict[str, Array]:
        """All that it needs to go on, as arrays (`dualq.base.save_arrays` keeps them)."""
        ...

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from a state; the log itself must be given again."""
        ...


class CountingAgent:
    """An agent that shares its table, masked or as it is."""

    def __init__(self, agent: int, house: House, common: Common, task: Task, secret: bytes, life: int = 0):
        self.id, self.house, self.common, self.task = agent, house, common, task
        self.secret = secret
        self.flood = Flood(agent, task.size, 1 + 2 * ATTEMPTS, life)
        self.attempt, self.coordinator = 0, task.size
        self.members = np.ones(task.size, bool)
        self.round = -1
        self.grew = np.zeros(task.size, np.int64)  # in which of our rounds each was last heard of
        self.beat = self.flood.beat.copy()
        self.layout: Layout | None = None
        self.total: Summed | None = None
        self.columns: list[Array] | None = None
        self.hellos: list[dict] = []
        self.sent = Sent()

    # ---- what engines ask

    @property
    def finished(self) -> bool:
        """Whether the summed table is here."""
        return self.columns is not None

    @property
    def done(self) -> bool:
        """Whether all that can be heard have it too."""
        return self.finished and self._all_have_all()

    def _all_have_all(self) -> bool:
        here = np.flatnonzero(~self._silent())
        return all(self.flood.everybody_has(topic, here, self._members) for topic in self._topics)

    def take(self, data: bytes) -> None:
        """Read a message; what is not whole, or not for this run, is refused and counted."""
        try:
            message = unpacked_message(data, self.task.run, self.id, self.task.size, self.task.key)
            self._hear(message)
        except (MessageError, KeyError, ValueError, IndexError):
            self.sent.refused += 1

    def _hear(self, message: Message) -> None:
        parts = message.parts
        if "turn" in parts:
            self._follow(parts["turn"])
            self.flood.hear(message.sender, message.round, parts, self._topics)

    def give(self, round_: int, neighbours: Sequence[int]) -> list[tuple[int, bytes]]:
        """Go on as far as what has come allows, and say what neighbours lack."""
        self.round = round_
        self._watch()
        self._advance()
        return [(to, self._packed(to, self._parts(to))) for to in neighbours]

    def _parts(self, to: int) -> dict[str, Array]:
        turn = np.array([self.attempt, self.coordinator, *self.members], np.int64)
        return {"turn": turn, **self.flood.parts(to, self.round, self._topics)}

    def _packed(self, to: int, parts: Mapping[str, Array]) -> bytes:
        message = Message(self.task.run, self.id, to, self.round, parts)
        data = message.packed(self.task.key)
        self.sent.messages += 1
        self.sent.numbers += message.numbers
        self.sent.bytes += len(data)
        return data

    # ---- stages

    @property
    def _members(self) -> list[int]:
        return np.flatnonzero(self.members).tolist()

    @property
    def _topics(self) -> list[int]:
        """Hello, and the tables of this attempt."""
        first = 1 + 2 * self.attempt
        return [HELLO, first, *([first + 1] if self._averaged else [])]

    @property
    def _averaged(self) -> bool:
        return self.task.reward == "mean"

    def _advance(self) -> None:
        if self.finished:
            return
        if (HELLO, self.id) not in self.flood.pieces:
            self.flood.publish(HELLO, self._hello())
        if not self.flood.has(HELLO, self._members):
            return
        if not self.hellos:
            self._agree()
        self._add_up()

    def _add_up(self) -> None:
        layout = self.layout
        assert layout is not None
        words = self._sum(1 + 2 * self.attempt, lambda: layout.table(self.house))
        if words is None:
            return
        self.total = total = layout.summed(words)
        if not self._averaged:
            self.columns = total.columns
        elif (more := self._sum(2 + 2 * self.attempt, lambda: layout.weighted(self.house, total))) is not None:
            self.columns = layout.reweighted(total, more)

    def _sum(self, topic: int, table) -> Array | None:
        """The sum of all tables on a topic, once they are here; the own one is published first."""
        if self.members[self.id] and (topic, self.id) not in self.flood.pieces:
            self.flood.publish(topic, self._hidden(table(), topic))
        if not self.flood.has(topic, self._members):
            return None
        pieces = np.stack([self.flood.pieces[topic, author] for author in self._members])
        return pieces.sum(axis=0, dtype=np.uint64)

    def _hidden(self, table: Array, topic: int) -> Array:
        if self.task.share == "counts":
            return table
        words = {a: bytes.fromhex(self.hellos[a]["word"]) for a in self._members if a != self.id}
        seeds = {a: shared_seed(self.secret, word) for a, word in words.items()}
        return masked(table, self.id, seeds, f"{self.task.run.hex()} {topic} {self._members}")

    def counts(self) -> Counts:
        """The counts of all logs together."""
        assert self.total is not None
        assert self.columns is not None
        ranges = [hello["ranges"] for hello in self.hellos if hello["ranges"] is not None]
        given = self.common.cost_ranges
        said = {
            "states": self.common.states,
            "actions": self.common.actions,
            "reward_range": self.common.reward_range or _widest([r["reward"] for r in ranges]),
            "range_known": self.common.reward_range is not None,
            "cost_ranges": {c: given.get(c) or _widest([r[c] for r in ranges]) for c in self.common.costs},
            "cost_ranges_known": frozenset(self.common.cost_ranges),
        }
        return self.total.counts(self.columns, said)

    # ---- hello

    def _hello(self) -> Array:
        """How the log was read, what a table needs, and, where the pattern must be agreed on, which entries it has."""
        counts = self.house.counts
        said = {
            **self.task.words(),
            **self.common.words(),
            "unit": list(self.house.unit),
            "word": public_word(self.secret).hex() if self.task.share != "counts" else "",
            "ranges": None if counts is None else {"reward": counts.reward_range, **counts.cost_ranges},
            "keys": None if self._dense else self.house.keys.tolist(),
        }
        return np.frombuffer(json.dumps(said).encode(), np.uint8)

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.common.states), len(self.common.actions)

    @property
    def _dense(self) -> bool:
        return self.task.share == "iterates" or every_entry(self._shape) <= MOST_DENSE

    def _agree(self) -> None:
        """Compare what all have said; a LogError that names the agent where something does not fit."""
        pieces = [self.flood.pieces.get((HELLO, a)) for a in range(self.task.size)]
        self.hellos = [{} if piece is None else from_json_array(piece) for piece in pieces]
        mine = json.loads(json.dumps({**self.task.words(), **self.common.words()}))
        for a in self._members:
            for what, value in mine.items():
                if self.hellos[a].get(what) != value:
                    raise LogError(differs(a, what, self.hellos[a].get(what), value), argument="logs", value=a)
        self.hellos = [hello if a in self._members else {"ranges": None} for a, hello in enumerate(self.hellos)]
        said = [self.hellos[a] for a in self._members]
        keys = None if self._dense else np.unique(np.concatenate([np.array(h["keys"], np.int64) for h in said]))
        unit = common_unit(Unit(*hello["unit"]) for hello in said)
        self.layout = Layout(self._shape, self.common.costs, unit, keys, self._averaged)

    # ---- drop-outs

    def _silent(self) -> Array:
        """Who has not been heard of for longer than patience allows."""
        silent = self.round - self.grew > self.task.patience
        silent[self.id] = False
        return silent

    def _watch(self) -> None:
        """Note who lives; where one is lost, the first of those present repeats the round without it."""
        self.grew[self.flood.beat > self.beat] = self.round
        self.beat = self.flood.beat.copy()
        silent = self._silent()
        present = np.flatnonzero(self.members & ~silent)
        if self.finished or not silent.any() or not present.size or present[0] != self.id:
            return
        topic = next((t for t in self._topics if not self.flood.has(t, self._members)), HELLO)
        lost = [j for j in np.flatnonzero(self.members & silent) if not self.flood.somebody_has(topic, present, int(j))]
        if lost:
            members = self.members.copy()
            members[lost] = False
            self._repeat(self.attempt + 1, self.id, members)

    def _follow(self, turn: Array) -> None:
        """Repeat the round where others do."""
        if (turn[0], -turn[1]) > (self.attempt, -self.coordinator) and turn.size == 2 + self.task.size:
            self._repeat(int(turn[0]), int(turn[1]), turn[2:].astype(bool))

    def _repeat(self, attempt: int, coordinator: int, members: Array) -> None:
        if attempt >= ATTEMPTS:
            raise LogError(f"agents were lost {attempt} times; run again with those that stay")
        self.attempt, self.coordinator, self.members = attempt, coordinator, members.copy()
        self.layout, self.total, self.columns, self.hellos = None, None, None, []

    # ---- state

    def state(self) -> dict[str, Array]:
        """All that the next round needs; layouts and sums are made again from the pieces."""
        sent = self.sent
        numbers = [self.attempt, self.coordinator, self.round, sent.messages, sent.numbers, sent.bytes, sent.refused]
        own = {
            "numbers": np.array(numbers, np.int64),
            "members": self.members.copy(),
            "grew": self.grew.copy(),
            "known beat": self.beat.copy(),
            "secret": np.frombuffer(self.secret, np.uint8),
        }
        return own | {f"flood {name}": array for name, array in self.flood.state().items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from a state."""
        self.attempt, self.coordinator, self.round, *sent = arrays["numbers"].tolist()
        self.sent = Sent(*sent)
        self.members, self.grew = arrays["members"].copy(), arrays["grew"].copy()
        self.beat, self.secret = arrays["known beat"].copy(), arrays["secret"].tobytes()
        known = {name.removeprefix("flood "): x for name, x in arrays.items() if name.startswith("flood ")}
        self.flood.restore(known)
        self.layout, self.total, self.columns, self.hellos = None, None, None, []
        if self._was_ahead(arrays):
            self._advance()

    def _was_ahead(self, arrays: Mapping[str, Array]) -> bool:
        """Whether something must be made again from the pieces."""
        return (HELLO, self.id) in self.flood.pieces


def differs(agent: int, what: str, found: object, wanted: object) -> str:
    """What does not fit, in a sentence."""
    if what in ("states", "actions"):
        return f"agent {agent}: its {what} have other labels than those of the others; read all logs with the same ones"
    return f"agent {agent}: its {what.replace('_', ' ')} is {found}; the others have {wanted}"


def _digest(labels: Labels) -> str:
    return hashlib.sha256(repr((labels.names, list(labels))).encode()).hexdigest()


def _widest(ranges: Sequence[Range]) -> Range:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else (0.0, 0.0)
