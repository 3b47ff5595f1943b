"""The table of one house: all that its log says of a model, in words that add up to the table of all houses together.

    n(s, a, s', ended)       one word for every entry of a pattern that all houses share
    sums of r, r^2, costs    limbs of whole numbers of a common unit (exact_sums.py)
    first states, left out   how often each state is the first of an episode; rows without successor, rows set aside
    seen(s, a)               1 where the house has the pair: where rewards are averaged over houses

Rewards of several houses are put together in one of two ways:

    "pooled"   R(s, a) = sum_i sum r_i / sum_i n_i         every row counts alike: what one pooled log would say
    "mean"     R(s, a) = average of sum r_i / n_i          every house that has the pair counts alike
    For "mean" a second table follows: sums of rewards times n / (k n_i), k the houses that have the pair, in units that
    are 2^64 times finer.

The pattern is every (s, a, s', ended) there is, where these are few; else those that occur in some house, which tells
everybody which entries each house has, though not how often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dualq.logs import Counts, Log
from dualq.offline.together.agreement import Common, places_among
from dualq.offline.together.exact_sums import Unit, floats, from_words, to_words, unit_of, whole_numbers

Array = np.ndarray

MOST_DENSE = 100_000  # entries of a pattern that has all there are
FINER = 64  # bits by which the unit of weighted sums is finer


@dataclass(frozen=True, eq=False)
class House:
    """What one agent knows of its log: counts, where episodes begin, what was left out. None: it has no rows."""

    counts: Counts | None
    starts: Array | None = None  # (S,) None where the log knows no episodes
    left_out: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, log: Log | None) -> House:
        """A log, counted by its owner."""
        if log is None or not len(log):
            return cls(None)
        log.check_ends()
        starts = log.starts().astype(np.int64) if log.has_episodes else None
        return cls(log.counts(), starts, log.left_out)

    def among(self, own: Common, all_: Common) -> House:
        """The same with the labels of all houses."""
        counts = self.counts
        if counts is None or (own.states == all_.states and own.actions == all_.actions):
            return self
        states, actions = places_among(own.states, all_.states), places_among(own.actions, all_.actions)
        sums, costs = [counts.n, *self.sums(tuple(counts.cost_sums))], tuple(counts.cost_sums)
        placed = Counts.from_groups(
            states[counts.s],
            actions[counts.a],
            states[counts.s_next],
            counts.ended,
            sums,
            costs,
            states=all_.states,
            actions=all_.actions,
            reward_range=counts.reward_range,
            range_known=counts.range_known,
            cost_ranges=counts.cost_ranges,
            cost_ranges_known=counts.cost_ranges_known,
        )
        if self.starts is None:
            return House(placed, None, self.left_out)
        starts = np.zeros(len(all_.states), np.int64)
        starts[states] = self.starts
        return House(placed, starts, self.left_out)

    def sums(self, costs: Sequence[str]) -> list[Array]:
        """Sums and sums of squares of the reward, then of each of these costs, an entry each."""
        counts = self.counts
        if counts is None:
            return []
        paid = [x[c] for c in costs for x in (counts.cost_sums, counts.cost_square_sums)]
        return [counts.reward_sum, counts.reward_square_sum, *paid]

    @property
    def unit(self) -> Unit:
        """The unit in which its sums are whole numbers."""
        costs = () if self.counts is None else tuple(self.counts.cost_sums)
        return unit_of(np.concatenate([np.zeros(1), *self.sums(costs)]))

    @property
    def keys(self) -> Array:
        """(entries,) the places of its entries among all there are."""
        counts = self.counts
        if counts is None:
            return np.zeros(0, np.int64)
        S, A = counts.shape
        pair = counts.s.astype(np.int64) * A + counts.a
        return (pair * S + counts.s_next) * 2 + counts.ended


@dataclass(frozen=True, eq=False)
class Layout:
    """Where what stands in a table; the same for all houses."""

    shape: tuple[int, int]
    costs: tuple[str, ...]
    unit: Unit
    keys: Array | None = field(default=None, repr=False)  # the pattern; None: every (s, a, s', ended)
    averaged: bool = False  # whether rewards are averaged over houses

    @property
    def entries(self) -> int:
        """How many entries the pattern has."""
        return every_entry(self.shape) if self.keys is None else self.keys.size

    def places(self, keys: Array) -> Array:
        """The places of entries in the pattern."""
        return keys if self.keys is None else np.searchsorted(self.keys, keys)

    @property
    def pairs(self) -> int:
        """|S| |A|."""
        return self.shape[0] * self.shape[1]

    @cached_property
    def ends(self) -> list[int]:
        """Where n, the sums, the first states, what was left out, and the pairs seen end."""
        sums = self.entries * 2 * (1 + len(self.costs)) * self.unit.limbs
        return np.cumsum([self.entries, sums, self.shape[0], 2, self.pairs if self.averaged else 0]).tolist()

    @property
    def weighted_limbs(self) -> int:
        """The limbs of sums that are weighted: finer, and with room for the weights, at most 2^32 each."""
        return self.unit.limbs + 4

    # ---- one house's words

    def table(self, house: House) -> Array:
        """(words,) the table of a house."""
        words = np.zeros(self.ends[-1], np.uint64)
        if house.counts is None:
            return words
        n, sums, starts, left_out, seen = np.split(words, self.ends[:-1])
        at = self.places(house.keys)
        n[at] = house.counts.n
        by_sum = sums.reshape(-1, self.entries, self.unit.limbs)
        for k, column in enumerate(house.sums(self.costs)):
            by_sum[k, at] = to_words(whole_numbers(column, self.unit.exponent), self.unit.limbs)
        if house.starts is not None:
            starts[:] = house.starts
        left_out[:] = house.left_out
        if self.averaged:
            seen[:] = (house.counts.visits > 0).ravel()
        return words

    def weighted(self, house: House, total: Summed) -> Array:
        """(words,) sums of rewards and their squares times n / (k n_i)."""
        words = np.zeros((2, self.entries, self.weighted_limbs), np.uint64)
        if house.counts is None:
            return words.ravel()
        at, pair = self.places(house.keys), house.keys // (2 * self.shape[0])
        above = total.visits[pair].tolist()
        below = (total.seen[pair] * house.counts.visits.ravel()[pair]).tolist()
        for k, column in enumerate(house.sums(())):
            exact = whole_numbers(column, self.unit.exponent - FINER)
            parts = [m * a // b for m, a, b in zip(exact, above, below, strict=True)]
            words[k, at] = to_words(parts, self.weighted_limbs)
        return words.ravel()

    # ---- all houses together

    def summed(self, words: Array) -> Summed:
        """What a sum of tables says."""
        n, sums, starts, left_out, seen = np.split(words, self.ends[:-1])
        here = np.flatnonzero(n)
        by_sum = sums.reshape(-1, self.entries, self.unit.limbs)[:, here]
        keys = here if self.keys is None else self.keys[here]
        columns = [floats(from_words(rows), self.unit.exponent) for rows in by_sum]
        return Summed(self, keys, n[here].astype(np.int64), columns, starts.astype(np.int64), left_out, seen)

    def reweighted(self, total: Summed, words: Array) -> list[Array]:
        """The columns of the sums with rewards averaged over houses."""
        rows = words.reshape(2, self.entries, -1)[:, self.places(total.keys)]
        return [*(floats(from_words(row), self.unit.exponent - FINER) for row in rows), *total.columns[2:]]


@dataclass(frozen=True, eq=False)
class Summed:
    """The table of all houses together."""

    layout: Layout
    keys: Array  # (entries,) those that occur
    n: Array
    columns: list[Array]  # sums and sums of squares, of the reward and of each cost
    starts: Array  # (S,)
    left_out: Array
    houses: Array  # (S A,) how many houses have the pair; empty where nobody asked

    @cached_property
    def visits(self) -> Array:
        """(S A,) n(s, a)."""
        pairs = self.keys // (2 * self.layout.shape[0])
        return np.bincount(pairs, self.n, self.layout.pairs).astype(np.int64)

    @property
    def seen(self) -> Array:
        """(S A,) how many houses have the pair."""
        return self.houses.astype(np.int64)

    def counts(self, columns: Sequence[Array], said: Mapping[str, object]) -> Counts:
        """As Counts, with the labels and ranges that all houses share."""
        S, A = self.layout.shape
        rest, ended = np.divmod(self.keys, 2)
        pair, s_next = np.divmod(rest, S)
        s, a = np.divmod(pair, A)
        sums = [self.n.astype(float), *columns]
        return Counts.from_groups(s, a, s_next, ended.astype(bool), sums, self.layout.costs, **said)  # pyright: ignore[reportArgumentType]


def every_entry(shape: tuple[int, int]) -> int:
    """How many (s, a, s', ended) there are."""
    return 2 * shape[0] ** 2 * shape[1]
