"""Pieces that reach everybody: each agent passes on what its neighbours lack, until all have all.

A piece is what one agent (its author) has to say on one topic; it never changes. Every message has a head that says
which pieces the sender knows each agent to have, so that a piece is sent until it has arrived and no longer:

    have[t, j, a]   agent j has the piece of author a on topic t, as far as is known here
    echo            the last round of the addressee that the sender has heard: a piece that was sent in or before that
                    round and is still lacking was lost, and is sent again
    beat[j]         the last round of j that anybody heard of: how long somebody has been silent
    life[j]         how often j began with nothing: what it had before, it has no longer

Facts only grow, and merging them is a maximum. So nothing depends on the order of messages, on how often one comes, or
on which of them are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

Array = np.ndarray

AGAIN = 8  # rounds after which a piece is sent again where no echo can come back


class Flood:
    """What one agent knows of the pieces, and of what others have."""

    def __init__(self, agent: int, size: int, topics: int, life: int = 0):
        self.agent, self.size, self.topics = agent, size, topics
        self.pieces: dict[tuple[int, int], Array] = {}
        self.have = np.zeros((topics, size, size), np.uint8)
        self.beat = np.full(size, -1, np.int64)
        self.life = np.zeros(size, np.int64)
        self.life[agent] = life
        self.lives = life  # of all
        self.heard = np.full(size, -1, np.int64)  # the last round of each agent that came from itself
        self.echo = np.full(size, -1, np.int64)  # the last of our rounds that each agent heard
        self.sent: dict[tuple[int, int, int], int] = {}  # (to, topic, author): in which round

    # ---- pieces

    def publish(self, topic: int, piece: Array) -> None:
        """Say something on a topic."""
        self._keep(topic, self.agent, piece)

    def has(self, topic: int, authors: Iterable[int]) -> bool:
        """Whether the pieces of all these authors are here."""
        return all((topic, author) in self.pieces for author in authors)

    def everybody_has(self, topic: int, agents: Iterable[int], authors: Iterable[int]) -> bool:
        """Whether all these agents are known to have the pieces of all these authors."""
        return bool(self.have[topic][np.ix_(list(agents), list(authors))].all())

    def somebody_has(self, topic: int, agents: Iterable[int], author: int) -> bool:
        """Whether one of these agents is known to have an author's piece."""
        return bool(self.have[topic][list(agents), author].any())

    def _keep(self, topic: int, author: int, piece: Array) -> None:
        if (topic, author) not in self.pieces:
            self.pieces[topic, author] = piece
            self.have[topic, self.agent, author] = 1

    # ---- messages

    def parts(self, to: int, round_: int, topics: Iterable[int]) -> dict[str, Array]:
        """What to tell a neighbour in a round: the head, and the pieces on these topics that it lacks."""
        self.beat[self.agent] = round_
        head = np.concatenate([[self.heard[to]], self.beat, self.life]).astype(np.int64)
        parts = {"head": head, "have": np.packbits(self.have)}
        wanted = set(topics)
        for (topic, author), piece in self.pieces.items():
            if topic in wanted and not self.have[topic, to, author] and self._due(to, topic, author, round_):
                self.sent[to, topic, author] = round_
                parts[f"{topic}.{author}"] = piece
        return parts

    def _due(self, to: int, topic: int, author: int, round_: int) -> bool:
        sent = self.sent.get((to, topic, author))
        return sent is None or self.echo[to] >= sent or round_ - sent >= AGAIN

    def hear(self, sender: int, round_: int, parts: Mapping[str, Array], wanted: Iterable[int]) -> None:
        """Take what a message says; pieces on other topics than those wanted are not kept."""
        head, n = parts["head"], self.size
        have = np.unpackbits(parts["have"], count=self.have.size).reshape(self.have.shape)
        life, wanted = head[1 + n : 1 + 2 * n], set(wanted)
        self._renew(life)
        current = life == self.life  # what is said of an earlier life no longer holds
        current[self.agent] = False  # what we have, we know
        self.have |= np.where(current[None, :, None], have, 0).astype(np.uint8)
        np.maximum(self.beat, head[1 : 1 + n], out=self.beat)
        self.beat[sender] = max(self.beat[sender], round_)
        self.heard[sender] = max(self.heard[sender], round_)
        self.echo[sender] = max(self.echo[sender], head[0])
        for name, piece in parts.items():
            topic, dot, author = name.partition(".")
            if dot and int(topic) in wanted:
                self._keep(int(topic), int(author), piece)

    def _renew(self, life: Array) -> None:
        """Forget what agents had that have begun anew."""
        for j in np.flatnonzero(life > self.life):
            if j != self.agent:
                self.have[:, j] = 0
                self.lives += int(life[j] - self.life[j])
                self.life[j] = life[j]
                self.heard[j] = self.echo[j] = -1
                self.sent = {key: when for key, when in self.sent.items() if key[0] != j}

    # ---- state

    def state(self) -> dict[str, Array]:
        """All of it, as arrays."""
        sent = np.array([[*key, when] for key, when in self.sent.items()], np.int64).reshape(-1, 4)
        names = ("have", "beat", "life", "heard", "echo")
        arrays = {name: getattr(self, name).copy() for name in names} | {"sent": sent}
        return arrays | {f"piece {t} {a}": piece for (t, a), piece in self.pieces.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from a state."""
        for name in ("have", "beat", "life", "heard", "echo"):
            setattr(self, name, arrays[name].copy())
        self.lives = int(self.life.sum())
        self.sent = {(int(j), int(t), int(a)): int(r) for j, t, a, r in arrays["sent"]}
        self.pieces = {
            (int(name.split()[1]), int(name.split()[2])): piece
            for name, piece in arrays.items()
            if name.startswith("piece ")
        }
