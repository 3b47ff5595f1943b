"""Bellman tracking: no table leaves its owner, and yet all agents come to the Q of the pooled log.

Problem   Q = T(V), V = max_a Q, with T(V) = sum_i T_i(V) the Bellman operator of all rows together, and of agent i
              T_i(V) = (R_i + alpha C_i V) / d        C_i its counts n_i(s, a, s'), d the visits of all (a masked sum)
              R_i = sum of its rewards ("pooled"), or d / (k n_i) times that ("mean")
Update    gradient tracking on T with push-sum weights. Agent i holds V, y (S A numbers) and a weight w. Each round:
              f = 1 / (1 + neighbours);  sent_ij += f (y, w) for each;  (y, w) <- f (y, w)
              what has come:  (y, w) += sent_ji - taken_ji;  taken_ji <- sent_ji
              V' = (1 - b) V + b max_a (y / w),  b = min(1, w) / 2;  less its mean;  clipped to +- sigma / (1 - alpha)
              y += N (T_i(V') - T_i(V))
          Messages hold all that was ever sent, not what is new: whatever was lost or late comes with the next, and what
          comes twice or in the wrong order changes nothing. The y of all, with what is on its way, always add up to
          N sum T_i(V_i); so where all y / w are alike, they are T(V).
Gives     Q = y / w + alpha / (1 - alpha) midrange(max_a y / w - V)      (V is known but for a constant)
Seen      All agents find, entry by entry, the largest and the least y / w and V of a moment. From these alone everybody
          knows the largest disagreement and the residual max_a y / w - V; an answer is one for which both are small,
          twice in a row, and all agents take the same: the middle. Without that there is no answer.

An agent that begins anew with nothing tells the others, and all begin anew with the V they have: a new generation. What
comes from an older one is not taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualq.base import kernel
from dualq.offline.together.agents import HELLO, CountingAgent, Task
from dualq.offline.together.agreement import Common
from dualq.offline.together.messages import Message
from dualq.offline.together.tables import House

Array = np.ndarray

YOUNG = 20  # rounds in which an agent that began with nothing still finds out which generation is the last
BLOCK = 1 << 20  # generations: so many names for those that begin one
CHECKED = 3  # words before the flags: generation, epoch, whether it is decided


class Visits(NamedTuple):
    """What agents add up before they begin: how often each pair was seen, in how many houses; first states; ends."""

    d: Array  # (S A,)
    houses: Array  # (S A,) how many have the pair
    starts: Array  # (S,)
    ends: bool  # whether some row ended


class Operator(NamedTuple):
    """N alpha C_i / d, one entry per (s, a, s') that the agent has."""

    pair: Array  # (entries,)
    to: Array
    share: Array


class Answer(NamedTuple):
    """What all agents found."""

    Q: Array  # (states of the model, A); -inf where a pair was never seen
    residual: float  # half the spread of max_a y / w - V
    disagreement: float
    bound: float  # how far Q can be from the exact one, if y / w is T(V)


class TrackingAgent(CountingAgent):
    """An agent that shares iterates; of its table only the visits, masked."""

    def __init__(self, agent: int, house: House, reading: Common | None, task: Task, secret: bytes, life: int = 0):
        super().__init__(agent, house, reading, task, secret, life)
        self.visits: Visits | None = None
        self.z = np.zeros(0)  # y, then w
        self.V = np.zeros(0)
        self.flows: dict[int, Array] = {}  # all that was sent to each
        self.taken: dict[int, Array] = {}
        self.last: dict[int, int] = {}  # the round of the newest message of each
        self.generation = 0 if life == 0 else -1  # -1: not yet known
        self.epoch, self.good = 0, 0
        self.who = np.zeros(task.size)
        self.high = self.low = np.zeros(0)
        self.decided = False
        self.wordy = np.ones(task.size, bool)  # whose last message had a head: it may lack something
        self.settled: tuple[int, int] | None = None  # the attempt and lives in which all had all pieces
        self.disagreement = self.residual = np.inf

    # ---- what engines ask

    @property
    def finished(self) -> bool:
        """Whether an answer was found."""
        return self.decided

    @property
    def done(self) -> bool:
        """Whether all agents have it."""
        return self.decided and bool(self.who.all())

    def give(self, round_: int, neighbours: Sequence[int]) -> list[tuple[int, bytes]]:
        """One round of the update, and what it sends."""
        self._at(round_)
        if self.visits is None:
            self._watch()
            self._advance()
        tracking = self.visits is not None and self.generation >= 0
        flows: dict[int, Array] = {}
        checks: tuple[Array, ...] = ()
        if tracking:
            move(self.z, self.V, self.barrier, self.operator, self.limit)
            self._check()
            checks = self._said()
            flows = self._push(neighbours)
        quiet = tracking and self._settled()
        return [(to, self._packed(to, self._told(to, checks, flows, quiet))) for to in neighbours]

    def _told(self, to: int, checks: tuple[Array, ...], flows: Mapping[int, Array], quiet: bool) -> dict[str, Array]:
        parts = {} if quiet and not self.wordy[to] else self._parts(to)
        if parts and quiet:
            parts["quiet"] = np.zeros(0)  # nothing is lacking here: no answer is needed
        if flows:
            parts["track"] = np.concatenate((*checks, flows[to]))
        return parts

    def _settled(self) -> bool:
        """Whether all have all pieces: true until somebody begins anew."""
        now = self.attempt, self.flood.lives
        if self.settled != now and self._all_have_all():
            self.settled = now
        return self.settled == now

    def _hear(self, message: Message) -> None:
        self.wordy[message.sender] = "turn" in message.parts and "quiet" not in message.parts
        super()._hear(message)
        if "track" in message.parts and self.visits is not None:
            self._track(message.sender, message.round, message.parts["track"])

    # ---- the visits of all

    @property
    def _topics(self) -> list[int]:
        return [HELLO, self._topic(1)]

    @property
    def _needed(self) -> list[int]:
        return self._topics

    def _add_up(self) -> None:
        words = self._sum(self._topic(1), self._visits_table)
        if words is None:
            return
        S, A = self._shape
        d, houses, starts, ended = np.split(words.astype(np.int64), [S * A, 2 * S * A, 2 * S * A + S])
        self.visits = Visits(d, houses, starts, bool(ended[0]))
        self._begin()

    def _visits_table(self) -> Array:
        S, A = self._shape
        words, counts = np.zeros(2 * S * A + S + 1, np.uint64), self.placed.counts
        if counts is None:
            return words
        words[: S * A] = counts.visits.ravel()
        words[S * A : 2 * S * A] = (counts.visits > 0).ravel()
        words[2 * S * A : -1] = 0 if self.placed.starts is None else self.placed.starts
        words[-1] = counts.n[counts.ended].sum()
        return words

    # ---- the operator

    def _begin(self) -> None:
        """The local operator N T_i(V) = c + M V, and y = c: V begins at 0."""
        visits = self.visits
        assert visits is not None
        (S, A), N, alpha = self._shape, self.task.size, self.task.discount
        self.size = S + visits.ends
        d = np.zeros(self.size * A)
        d[: S * A] = visits.d
        stuck, c = ~d.reshape(self.size, A).any(axis=1), np.zeros(self.size * A)
        # where nothing is known, nothing is paid; each agent has its share of that
        loops = np.flatnonzero(np.repeat(stuck, A))
        pair, to, n = [loops], [loops // A], [np.full(loops.size, alpha)]
        counts = self.placed.counts
        if counts is not None and self.members[self.id]:
            own = counts.s.astype(np.int64) * A + counts.a
            pair, to, n = [*pair, own], [*to, counts.successor], [*n, N * alpha * counts.n / d[own]]
            c[: S * A] += self._rewards(visits)
        self.c = c
        self.operator = Operator(*(np.concatenate(x) for x in (pair, to, n)))
        self.barrier = np.where((d > 0) | np.repeat(stuck, A), 0.0, -np.inf)
        ranges = [hello["ranges"] for hello in self.hellos if hello["ranges"] is not None]
        low, high = self.common.reward_range or (
            min(r["reward"][0] for r in ranges),
            max(r["reward"][1] for r in ranges),
        )
        self.limit = max(abs(low), abs(high)) / (1.0 - alpha)
        self.V = np.zeros(self.size) if self.V.size != self.size else self.V
        self._anew()

    def _rewards(self, visits: Visits) -> Array:
        """(S A,) N times the agent's share of the reward of each pair."""
        counts, N = self.placed.counts, self.task.size
        assert counts is not None
        sums, n = counts.per_pair(counts.reward_sum).ravel(), np.maximum(counts.visits.ravel(), 1)
        weight = n * visits.houses if self._averaged else visits.d
        return N * sums / np.maximum(weight, 1)

    def _anew(self) -> None:
        """Begin a generation with the V at hand."""
        self.z = np.append(self.c, 1.0)
        add_product(self.z, self.operator, self.V)
        self.flows, self.taken, self.last = {}, {}, {}
        self.epoch, self.good, self.decided = 0, 0, False
        self._snapshot()

    # ---- a round

    def _push(self, neighbours: Sequence[int]) -> dict[int, Array]:
        share = self.z / (1 + len(neighbours))
        for to in neighbours:
            if to in self.flows:
                self.flows[to] += share
            else:
                self.flows[to] = share.copy()
        self.z = share
        return self.flows

    def _track(self, sender: int, round_: int, said: Array) -> None:
        """Take what is new of another's flow, and what it knows of all."""
        if self._of_another_generation(int(said[0])):
            return
        at, size = CHECKED + self.task.size, self.high.size
        if said.size != at + 2 * size + self.z.size:
            return
        if round_ > self.last.get(sender, -1):
            if sender not in self.taken:
                self.taken[sender] = np.zeros(self.z.size)
            take_flow(self.z, self.taken[sender], said[at + 2 * size :])
            self.last[sender] = round_
        self._compare(said[1], said[2], said[CHECKED:at], said[at : at + size], said[at + size : at + 2 * size])

    def _of_another_generation(self, theirs: int) -> bool:
        """Begin anew where another has; True where what was said is to be left alone."""
        if theirs == self.generation:
            return False
        young = self.flood.life[self.id] > 0 and self.round - self.began <= YOUNG
        if young and theirs > self.generation:
            name = int(self.flood.life[self.id]) * self.task.size + self.id
            self.generation = (theirs // BLOCK + 1) * BLOCK + name
            self._anew()
            return True
        if theirs > self.generation >= 0:
            self.generation = theirs
            self._anew()
            return False
        return True

    # ---- what all agents see

    def _snapshot(self) -> None:
        self.high = np.concatenate((self.z[:-1] / self.z[-1], self.V))
        self.low = self.high.copy()
        self.who = np.zeros(self.task.size)
        self.who[self.id] = 1.0

    def _said(self) -> tuple[Array, ...]:
        return np.array((self.generation, self.epoch, self.decided), float), self.who, self.high, self.low

    def _compare(self, epoch: float, decided: float, who: Array, high: Array, low: Array) -> None:
        """Put together what two agents have seen of the same moment; what is decided is decided for all."""
        if decided and not self.decided:
            self.high, self.low, self.epoch, self.decided = high.copy(), low.copy(), int(epoch), True
            self.who = np.zeros(self.task.size)
            self.who[self.id] = 1.0
        if bool(decided) != self.decided or epoch < self.epoch:
            return
        if epoch > self.epoch:
            self.epoch = int(epoch)
            self._snapshot()
        if not self.decided:
            widen(self.high, self.low, high, low)
        np.maximum(self.who, who, out=self.who)

    def _check(self) -> None:
        """Once the largest and the least of all agents are known: is it an answer?"""
        if self.decided or not self.who.all():
            return
        found = self.found()
        self.disagreement, self.residual = found.disagreement, found.residual
        self.good = self.good + 1 if found.bound <= self.task.tolerance * max(self.limit, 1e-300) else 0
        if self.good >= 2:
            self.decided = True
            self.who = np.zeros(self.task.size)
            self.who[self.id] = 1.0
        else:
            self.epoch += 1
            self._snapshot()

    def found(self) -> Answer:
        """The middle of what all agents have, and how good it is."""
        alpha, middle = self.task.discount, 0.5 * (self.high + self.low)
        disagreement = float((self.high - self.low).max())
        return self._answer(middle[: self.c.size], middle[self.c.size :], disagreement, alpha)

    def own(self) -> Array:
        """The agent's own Q of this moment."""
        return self._answer(self.z[:-1] / self.z[-1], self.V, 0.0, self.task.discount).Q

    def _answer(self, q: Array, V: Array, disagreement: float, alpha: float) -> Answer:
        q = (q + self.barrier).reshape(self.size, -1)
        gap = q.max(axis=1) - V
        high, low = float(gap.max()), float(gap.min())
        factor, residual = alpha / (1.0 - alpha), 0.5 * (high - low)
        bound = factor * (residual + disagreement) + disagreement
        return Answer(q + factor * 0.5 * (high + low), residual, disagreement, bound)

    # ---- state

    def state(self) -> dict[str, Array]:
        """All that the next round needs; the operator is made again from the log and the visits."""
        numbers = (self.generation, self.epoch, self.good, self.decided)
        settled = np.array([] if self.settled is None else self.settled, np.int64)
        own = {"track": np.array(numbers, np.int64), "wordy": self.wordy.copy(), "settled": settled}
        if self.visits is None:
            return super().state() | own
        own |= {"z": self.z.copy(), "V": self.V.copy(), "who": self.who.copy()}
        own |= {"high": self.high.copy(), "low": self.low.copy(), "seen": np.array([self.disagreement, self.residual])}
        own["last"] = np.array(list(self.last.items()), np.int64).reshape(-1, 2)
        for name, flows in (("flow", self.flows), ("taken", self.taken)):
            own |= {f"{name} {j}": flow.copy() for j, flow in flows.items()}
        return super().state() | own

    def _was_ahead(self, arrays: Mapping[str, Array]) -> bool:
        return "z" in arrays

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from a state."""
        super().restore(arrays)
        self.generation, self.epoch, self.good, decided = arrays["track"].tolist()
        self.decided = bool(decided)
        self.wordy = arrays["wordy"].copy()
        known = arrays["settled"].tolist()
        self.settled = (known[0], known[1]) if known else None
        if "z" not in arrays:
            return
        self.z, self.V, self.who = arrays["z"].copy(), arrays["V"].copy(), arrays["who"].copy()
        self.high, self.low = arrays["high"].copy(), arrays["low"].copy()
        self.disagreement, self.residual = arrays["seen"].tolist()
        self.generation, self.epoch, self.good, decided = arrays["track"].tolist()
        self.decided = bool(decided)
        self.last = {int(j): int(r) for j, r in arrays["last"]}
        named = {name: [n for n in arrays if n.startswith(f"{name} ")] for name in ("flow", "taken")}
        self.flows = {int(n.split()[1]): arrays[n].copy() for n in named["flow"]}
        self.taken = {int(n.split()[1]): arrays[n].copy() for n in named["taken"]}


# ---- the numbers of a round


@kernel
def move(z, V, barrier, operator, limit):
    """V' of an agent that has (y, w) and V, and y += N (T_i(V') - T_i(V)), in place."""
    before = V.copy()
    next_V(z, V, barrier, limit)
    add_product(z, operator, V - before)


@kernel
def next_V(z, V, barrier, limit):
    """V' in place: all that it takes is known to everybody."""
    num_states = V.size
    num_actions, w = barrier.size // num_states, z[-1]
    b, total = 0.5 * min(1.0, w), 0.0
    for s in range(num_states):
        best = -np.inf
        for pair in range(s * num_actions, (s + 1) * num_actions):
            best = max(best, z[pair] / w + barrier[pair])
        V[s] = (1.0 - b) * V[s] + b * best
        total += V[s]
    for s in range(num_states):
        V[s] = min(max(V[s] - total / num_states, -limit), limit)


@kernel
def add_product(z, operator, V):
    """y += (N alpha C_i / d) V."""
    for e in range(operator.pair.size):
        z[operator.pair[e]] += operator.share[e] * V[operator.to[e]]


@kernel
def take_flow(z, taken, sent):
    """(y, w) += sent - taken; taken <- sent."""
    for i in range(z.size):
        z[i] += sent[i] - taken[i]
        taken[i] = sent[i]


@kernel
def widen(high, low, other_high, other_low):
    """The largest and the least of two, entry by entry."""
    for i in range(high.size):
        high[i] = max(high[i], other_high[i])
        low[i] = min(low[i], other_low[i])
