"""Agents: each holds one log, takes messages, gives messages, and ends with what all logs together say.

An agent knows nothing of transport. Whoever runs it (simulation.py, or a program that moves files) calls `give` once a
round and sends what it gives, calls `take` with what arrives, and may keep `state()` and go on from it later.

    hello    how the log was read, its labels, the ranges seen, the unit of the sums, a public word for masks; from all
             of them each agent finds what all logs have in common (agreement.py)
    pattern  which entries the table has, where there are too many to send all
    table    what the log says (tables.py), masked or not; the tables of all add up to that of the pooled log
    rewards  a second table, where rewards are averaged over houses

Drop-outs. Whoever has not been heard of for `patience` rounds, and whose piece nobody present has, is left out: the
first of the agents present says so, and the round is repeated without the lost, with new masks. Its piece of the old
round, should it come late, is neither kept nor passed on.

A new life. An agent that has lost its state begins anew with nothing, and tells the others so. It must not say twice
what it has said before, with other masks: it first waits for its own words to come back. Where it is known by a word
whose secret is lost, and its table is still lacking, all must begin again, and it says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dualq.base import LogError, from_json_array
from dualq.logs import Counts
from dualq.offline.together.agreement import Common, Range, agreed
from dualq.offline.together.exact_sums import Unit, common_unit
from dualq.offline.together.flooding import Flood
from dualq.offline.together.masks import masked, public_word, shared_seed
from dualq.offline.together.messages import Message, MessageError, unpacked_message
from dualq.offline.together.tables import MOST_DENSE, House, Layout, Summed, every_entry

Array = np.ndarray

HELLO, TOPICS = 0, 3  # then, of each attempt: pattern, table, rewards
LOST = 25  # rounds after which an agent that began anew takes it that nobody knew it before
ATTEMPTS = 8  # how often a round can be repeated without agents that were lost


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

    def __init__(self, agent: int, house: House, reading: Common | None, task: Task, secret: bytes, life: int = 0):
        """reading: how its log was read; None where it has no rows."""
        self.id, self.house, self.reading, self.task = agent, house, reading, task
        self.secret = secret
        self.flood = Flood(agent, task.size, 1 + TOPICS * ATTEMPTS, life)
        self.attempt, self.coordinator = 0, task.size
        self.members = np.ones(task.size, bool)
        self.round, self.began = -1, -1
        self.grew = np.zeros(task.size, np.int64)  # in which of our rounds each was last heard of
        self.beat = self.flood.beat.copy()
        self.layout: Layout | None = None
        self.total: Summed | None = None
        self.columns: list[Array] | None = None
        self.hellos: list[dict] = []
        self.agreed: Common | None = None
        self.placed = house  # the house among the labels of all
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
        return all(self.flood.everybody_has(topic, here, self._members) for topic in self._needed)

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
        self._at(round_)
        self._watch()
        self._advance()
        return [(to, self._packed(to, self._parts(to))) for to in neighbours]

    def _at(self, round_: int) -> None:
        self.round, self.began = round_, round_ if self.began < 0 else self.began

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

    def _topic(self, which: int) -> int:
        """0: the pattern of this attempt, 1: its tables, 2: its rewards."""
        return 1 + TOPICS * self.attempt + which

    @property
    def _topics(self) -> list[int]:
        """All that may be said in this attempt."""
        return [HELLO, *map(self._topic, range(TOPICS))]

    @property
    def _needed(self) -> list[int]:
        """What must be said in it, as far as is known."""
        pattern = [] if self.agreed is None or self._dense else [self._topic(0)]
        return [HELLO, *pattern, self._topic(1), *([self._topic(2)] if self._averaged else [])]

    @property
    def _averaged(self) -> bool:
        return self.task.reward == "mean"

    def _advance(self) -> None:
        if self.finished or self._waits():
            return
        if (HELLO, self.id) not in self.flood.pieces:
            self.flood.publish(HELLO, self._hello())
        if not self.flood.has(HELLO, self._members):
            return
        if not self.hellos:
            self._agree()
        self._add_up()

    def _waits(self) -> bool:
        """Whether words of an earlier life may still come back."""
        young = self.flood.life[self.id] > 0 and self.round - self.began <= LOST
        return young and any((topic, self.id) not in self.flood.pieces for topic in self._needed)

    def _add_up(self) -> None:
        self.layout = layout = self._laid_out() if self.layout is None else self.layout
        if layout is None:
            return
        words = self._sum(self._topic(1), lambda: layout.table(self.placed))
        if words is None:
            return
        self.total = total = layout.summed(words)
        if not self._averaged:
            self.columns = total.columns
        elif (more := self._sum(self._topic(2), lambda: layout.weighted(self.placed, total))) is not None:
            self.columns = layout.reweighted(total, more)

    def _laid_out(self) -> Layout | None:
        """Where what stands in a table, once everybody has said which entries it has, where that is needed."""
        keys, topic = None, self._topic(0)
        if not self._dense:
            if self.members[self.id] and (topic, self.id) not in self.flood.pieces:
                self.flood.publish(topic, self.placed.keys)
            if not self.flood.has(topic, self._members):
                return None
            keys = np.unique(np.concatenate([self.flood.pieces[topic, a] for a in self._members]))
        unit = common_unit(Unit(*self.hellos[a]["unit"]) for a in self._members)
        return Layout(self._shape, self.common.costs, unit, keys, self._averaged)

    def _sum(self, topic: int, table: Callable[[], Array]) -> Array | None:
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
        if self.hellos[self.id]["word"] != public_word(self.secret).hex():
            lost = "began anew before its table was known, and its secret is lost"
            raise LogError(f"agent {self.id} {lost}; begin again with all agents")
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
        """How the log was read, and what a table needs."""
        counts = self.house.counts
        said = {
            **self.task.words(),
            "log": None if self.reading is None else self.reading.words(),
            "unit": list(self.house.unit),
            "word": public_word(self.secret).hex() if self.task.share != "counts" else "",
            "ranges": None if counts is None else {"reward": counts.reward_range, **counts.cost_ranges},
        }
        return np.frombuffer(json.dumps(said).encode(), np.uint8)

    @property
    def common(self) -> Common:
        """What all logs have in common, once all have said hello."""
        assert self.agreed is not None
        return self.agreed

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.common.states), len(self.common.actions)

    @property
    def _dense(self) -> bool:
        return self.task.share == "iterates" or every_entry(self._shape) <= MOST_DENSE

    def _agree(self) -> None:
        """Compare what all have said; a LogError that names the agent where something does not fit."""
        said = {a: from_json_array(self.flood.pieces[HELLO, a]) for a in self._members}
        mine = json.loads(json.dumps(self.task.words()))
        for a, hello in said.items():
            for what, value in mine.items():
                if hello.get(what) != value:
                    other = f"agent {a}: its {what} is {hello.get(what)}; the others have {value}"
                    raise LogError(other, argument="logs", value=a)
        self.agreed = agreed({a: hello["log"] for a, hello in said.items() if hello["log"] is not None})
        self.placed = self.house if self.reading is None else self.house.among(self.reading, self.agreed)
        self.hellos = [said.get(a, {"ranges": None}) for a in range(self.task.size)]

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
        topic = next((t for t in self._needed if not self.flood.has(t, self._members)), HELLO)
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
        self._forget()

    def _forget(self) -> None:
        """What follows from the pieces is made again from them."""
        self.layout, self.total, self.columns, self.hellos, self.agreed = None, None, None, [], None

    # ---- state

    def state(self) -> dict[str, Array]:
        """All that the next round needs; layouts and sums are made again from the pieces."""
        sent = self.sent
        numbers = [self.attempt, self.coordinator, self.round, self.began]
        numbers += [sent.messages, sent.numbers, sent.bytes, sent.refused]
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
        self.attempt, self.coordinator, self.round, self.began, *sent = arrays["numbers"].tolist()
        self.sent = Sent(*sent)
        self.members, self.grew = arrays["members"].copy(), arrays["grew"].copy()
        self.beat, self.secret = arrays["known beat"].copy(), arrays["secret"].tobytes()
        known = {name.removeprefix("flood "): x for name, x in arrays.items() if name.startswith("flood ")}
        self.flood.restore(known)
        self._forget()
        if self._was_ahead(arrays):
            self._advance()

    def _was_ahead(self, arrays: Mapping[str, Array]) -> bool:
        """Whether something must be made again from the pieces."""
        return (HELLO, self.id) in self.flood.pieces


def state_digest(arrays: Mapping[str, Array]) -> str:
    """A SHA-256 of an agent's state: the same where two engines have done the same."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _widest(ranges: Sequence[Range]) -> Range:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else (0.0, 0.0)
