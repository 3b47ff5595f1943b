"""Network: who can send to whom in which round, and what becomes of messages on the way.

    graph    a set of edges (i, j) between agents 0 .. n-1; for ever, one set per round in turn, or by a rule
    loss     the share of messages that never arrive;  duplication   the share that arrive twice
    delay    messages are up to so many rounds late, each by a number of its own;  reordering   within a round, shuffled
    away     {agent: [(from, until), ...]}: rounds in which it neither sends nor hears; until=None: it never comes back

All of it is drawn from one seed. A network in which some agent can never hear of some other, however long it runs, is
refused: its parts are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypedDict, Unpack

import numpy as np

from dualq.base import ModelError, door, few

Edge = tuple[int, int]
Edges = frozenset[Edge]  # both directions, where messages can go both ways
Rule = Callable[[int], Iterable[Edge]]
Absence = tuple[int, int | None]  # from this round until before that one; None: for ever

LARGEST = 100_000  # agents
HORIZON = 1000  # rounds of a rule within which every agent must be able to hear of every other


class Troubles(TypedDict, total=False):
    """What may happen to messages and agents."""

    loss: float
    delay: int
    reordering: bool
    duplication: float
    away: Mapping[int, Sequence[Absence]]


class Failures(Troubles, total=False):
    """The same, and the seed of it."""

    seed: int


@door
@dataclass(frozen=True, eq=False)
class Network:
    """Who can send to whom, and what becomes of messages on the way.

    Parameters
    ----------
    size : int
        How many agents there are.
    graphs : sequence of edges, or a rule
        One set of edges per round, in turn; or a function from the round to its edges.
    loss, duplication : float
        The shares of messages that never arrive, and that arrive twice.
    delay : int
        The most rounds that a message is late.
    reordering : bool
        Whether messages of one round arrive in any order.
    away : {agent: [(from, until), ...]}
        The rounds in which agents are away; `until` is None where one never comes back.
    seed : int
        Of everything that is drawn.

    Examples
    --------
    >>> import dualq
    >>> net = dualq.Network.ring(5, loss=0.1)
    >>> net
    Network(ring of 5 agents, 10% of messages lost)
    >>> net.neighbours(0, 0)
    (1, 4)
    """

    size: int
    graphs: tuple[Edges, ...] | Rule = field(repr=False)
    name: str = "network"
    loss: float = 0.0
    delay: int = 0
    reordering: bool = False
    duplication: float = 0.0
    away: Mapping[int, Sequence[Absence]] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self):
        _check_size(self.size)
        for name, share in (("loss", self.loss), ("duplication", self.duplication)):
            if not 0.0 <= share < 1.0:
                raise ModelError(
                    f"{name} is {share:g}; it must be a share of the messages, from 0 to below 1", value=share
                )
        if self.delay < 0:
            raise ModelError(f"delay is {self.delay}; it must be a number of rounds, 0 or more", value=self.delay)
        object.__setattr__(self, "away", {agent: _absences(agent, given) for agent, given in self.away.items()})
        if not callable(self.graphs):
            object.__setattr__(self, "graphs", tuple(self._checked(graph) for graph in self.graphs))
        for agent in self.away:
            self._check_agent(agent, "away")
        self._check_connected()

    # ---- shapes

    @classmethod
    def ring(cls, size: int, **failures: Unpack[Failures]) -> Network:
        """Every agent has two neighbours."""
        _check_size(size)
        return cls._fixed(size, [(i, (i + 1) % size) for i in range(size) if size > 1], "ring", failures)

    @classmethod
    def star(cls, size: int, **failures: Unpack[Failures]) -> Network:
        """Agent 0 is the neighbour of all others."""
        _check_size(size)
        return cls._fixed(size, [(0, i) for i in range(1, size)], "star", failures)

    @classmethod
    def complete(cls, size: int, **failures: Unpack[Failures]) -> Network:
        """All are neighbours."""
        _check_size(size)
        return cls._fixed(size, [(i, j) for i in range(size) for j in range(i)], "complete graph", failures)

    @classmethod
    def grid(cls, rows: int, columns: int | None = None, **failures: Unpack[Failures]) -> Network:
        """Agents on a grid, rows x columns, row by row; neighbours are those above, below, left and right."""
        columns = rows if columns is None else columns
        _check_size(rows * columns)
        place = np.arange(rows * columns).reshape(rows, columns)
        across = zip(place[:, :-1].ravel().tolist(), place[:, 1:].ravel().tolist(), strict=True)
        down = zip(place[:-1].ravel().tolist(), place[1:].ravel().tolist(), strict=True)
        return cls._fixed(rows * columns, [*across, *down], f"{rows} x {columns} grid", failures)

    @classmethod
    def random(cls, size: int, p: float, seed: int = 0, **failures: Unpack[Troubles]) -> Network:
        """Each two agents are neighbours with probability p; drawn again, at most 1,000 times, until connected."""
        _check_size(size)
        if seed < 0:
            raise ModelError(f"seed is {seed}; it must be a whole number, 0 or more", argument="seed", value=seed)
        rng = np.random.default_rng(seed)
        edges: list[Edge] = []
        for _ in range(HORIZON):
            edges = [(i, j) for i in range(size) for j in range(i) if rng.random() < p]
            if len(_parts(size, _both(edges))) <= 1:
                break
        return cls._fixed(size, edges, "random graph", {"seed": seed, **failures})

    @classmethod
    def of(
        cls, edges: Iterable[Edge], size: int | None = None, directed: bool = False, **failures: Unpack[Failures]
    ) -> Network:
        """The agents that these edges join; directed: messages go from the first to the second alone."""
        try:
            edges = [(int(i), int(j)) for i, j in edges]
        except (TypeError, ValueError):
            raise ModelError("edges are pairs of agents, such as [(0, 1), (1, 2)]", argument="edges") from None
        size = max((max(edge) for edge in edges), default=0) + 1 if size is None else size
        return cls(size, (frozenset(edges if directed else _both(edges)),), "graph", **cls._words(failures))

    @classmethod
    def changing(
        cls, graphs: Sequence[Iterable[Edge]] | Rule, size: int, directed: bool = False, **failures: Unpack[Failures]
    ) -> Network:
        """A graph per round, in turn, or a rule that gives the edges of a round."""
        words = cls._words(failures)
        if callable(graphs):
            rule = graphs
            return cls(size, rule if directed else lambda r: _both(rule(r)), "changing graph", **words)
        made = tuple(frozenset(graph if directed else _both(graph)) for graph in graphs)
        if not made:
            raise ModelError("a changing network needs at least one graph; none was given")
        return cls(size, made, "changing graph", **words)

    @classmethod
    def _fixed(cls, size: int, edges: Iterable[Edge], name: str, failures: Failures) -> Network:
        return cls(size, (frozenset(_both(edges)),), name, **cls._words(failures))

    @staticmethod
    def _words(failures: Failures) -> Failures:
        unknown = [word for word in failures if word not in Failures.__annotations__]
        if unknown:
            raise ModelError(f"a network has no {unknown[0]!r}; it has {', '.join(Failures.__annotations__)}")
        return failures

    def with_failures(self, **failures: Unpack[Failures]) -> Self:
        """The same graph with other failures."""
        return replace(self, **self._words(failures))

    # ---- what engines ask

    def edges(self, round_: int) -> Edges:
        """The directed edges of a round."""
        if callable(self.graphs):
            return self._checked(self.graphs(round_))
        return self.graphs[round_ % len(self.graphs)]

    def neighbours(self, agent: int, round_: int) -> tuple[int, ...]:
        """To whom an agent can send in a round, in order."""
        if callable(self.graphs):
            return tuple(sorted(j for i, j in self.edges(round_) if i == agent))
        return self._lists[round_ % len(self.graphs)][agent]

    @property
    def _lists(self) -> list[list[tuple[int, ...]]]:
        known = vars(self).get("_lists_made")
        if known is None:
            assert not callable(self.graphs)
            known = [
                [tuple(sorted(j for i, j in graph if i == agent)) for agent in range(self.size)]
                for graph in self.graphs
            ]
            vars(self)["_lists_made"] = known
        return known

    def present(self, agent: int, round_: int) -> bool:
        """Whether an agent takes part in a round."""
        absences = self.away.get(agent)
        if absences is None:
            return True
        return not any(begin <= round_ and (end is None or round_ < end) for begin, end in absences)

    def gone(self, agent: int, round_: int) -> bool:
        """Whether an agent is away in a round and never comes back."""
        return any(begin <= round_ and end is None for begin, end in self.away.get(agent, ()))

    def __repr__(self) -> str:
        words = [f"{self.name} of {self.size} agents"]
        words += [f"{self.loss:.0%} of messages lost"] if self.loss else []
        words += [f"up to {self.delay} rounds late"] if self.delay else []
        words += [f"{self.duplication:.0%} twice"] if self.duplication else []
        words += ["in any order"] if self.reordering else []
        words += [f"{len(self.away)} sometimes away"] if self.away else []
        return f"Network({', '.join(words)})"

    # ---- checks at the border

    def _checked(self, edges: Iterable[Edge]) -> Edges:
        edges = frozenset((int(i), int(j)) for i, j in edges)
        for edge in edges:
            for agent in edge:
                self._check_agent(agent, f"the edge {edge}")
            if edge[0] == edge[1]:
                raise ModelError(f"the edge {edge} leads from an agent to itself; leave it out", value=edge)
        return edges

    def _check_agent(self, agent: int, where: str) -> None:
        if not 0 <= agent < self.size:
            raise ModelError(f"{where} names agent {agent}; agents are 0 to {self.size - 1}", value=agent)

    def _check_connected(self) -> None:
        """A ModelError where some agent can never hear of some other; those who leave count while they are here."""
        rounds = HORIZON if callable(self.graphs) else max(len(self.graphs), 1 + max(self._last_change(), 0))
        seen: set[Edge] = set()
        parts: list[list[int]] = []
        for round_ in range(rounds):
            seen |= {e for e in self.edges(round_) if self.present(e[0], round_) and self.present(e[1], round_)}
            if len(parts := _parts(self.size, seen)) <= 1:
                return
        named = "; ".join("{" + few(part, 8) + "}" for part in parts)
        how = "no messages ever pass between some of its parts in both directions"
        raise ModelError(f"the network is never connected, {how}: {named}; add edges between them")

    def _last_change(self) -> int:
        assert not callable(self.graphs)
        moments = [m for absences in self.away.values() for absence in absences for m in absence if m is not None]
        return max(moments, default=0) + len(self.graphs)


def _check_size(size: int) -> None:
    if not 1 <= size <= LARGEST:
        raise ModelError(f"a network of {size} agents; there must be at least one and at most {LARGEST:,}", value=size)


def _absences(agent: int, given: Iterable[Absence]) -> tuple[Absence, ...]:
    absences = tuple((int(begin), None if end is None else int(end)) for begin, end in given)
    for begin, end in absences:
        if begin < 0 or (end is not None and end <= begin):
            raise ModelError(
                f"agent {agent} is away from round {begin} until {end}; the second must come after the first"
            )
    return absences


def _both(edges: Iterable[Edge]) -> set[Edge]:
    return {way for i, j in edges for way in ((i, j), (j, i))}


def _parts(size: int, edges: Iterable[Edge]) -> list[list[int]]:
    """The strongly connected parts of a graph: agents that can hear of each other."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    pairs = np.array(sorted(edges), np.int64).reshape(-1, 2)
    graph = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    count, which = connected_components(graph, connection="strong")
    return [
        np.flatnonzero(which == part).tolist() for part in sorted(range(count), key=lambda p: (which == p).argmax())
    ]
