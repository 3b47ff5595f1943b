"""NumberRows: the rows of a log whose state has numbers in it, for learners that need no state to be seen twice.

Rows are sorted by episode, and by time within each. Only rows that can be used are here: not bad, and what followed is
known, or the episode ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dualq.base import Label, Labels, LogError, StateColumns, States

Array = np.ndarray
Range = tuple[float, float]

FEW_EPISODES = 40  # fewer do not tell how much episodes differ: blocks of rows stand for them


@dataclass(frozen=True, eq=False)
class NumberRows:
    """Rows in order; (rows,) each."""

    columns: StateColumns
    actions: Labels
    state: States
    a: Array  # places of actions
    r: Array
    next_state: States  # the state itself where the episode ended
    ended: Array  # nothing follows
    episode: Array  # 0, 1, 2, ...: rows of one episode have one number, and stand together
    costs: Mapping[str, Array] = field(default_factory=dict)
    has_episodes: bool = True  # whether the log says where episodes begin; False: one long recording
    begins: Array | None = None  # the first row of each episode; None: each change of `episode`
    reward_range: Range | None = None  # what rewards can be, where somebody said so
    cost_ranges: Mapping[str, Range] = field(default_factory=dict)  # the same of costs
    propensity: Array | None = None  # with which probability the action was taken, where that was recorded
    not_whole: str | None = None  # why not all episodes are here from their first row to their end

    def __len__(self) -> int:
        return self.a.size

    @property
    def live(self) -> Array:
        """1 where something follows, else 0."""
        return 1.0 - self.ended

    @cached_property
    def first(self) -> Array:
        """Whether a row is the first of its episode."""
        if self.begins is not None:
            return self.begins
        return np.append(True, np.diff(self.episode) != 0)[: len(self)]

    @property
    def starts(self) -> States:
        """The first states of the episodes."""
        return self.state.at(self.first)

    @cached_property
    def clusters(self) -> Array:
        """Rows that may err together: episodes, or blocks of about sqrt(n) rows where there are few of them."""
        border = np.diff(self.episode) != 0  # an episode whose first row cannot be used is one too
        if border.sum() + 1 < FEW_EPISODES:
            length = max(1, round(np.sqrt(len(self))))
            border |= np.diff(np.arange(len(self)) // length) != 0
        return np.append(0, np.cumsum(border))[: len(self)]

    def at(self, which: Array) -> NumberRows:
        """The rows at these places, or where this mask holds, in their order."""
        return replace(
            self,
            state=self.state.at(which),
            a=self.a[which],
            r=self.r[which],
            next_state=self.next_state.at(which),
            ended=self.ended[which],
            episode=self.episode[which],
            costs={name: cost[which] for name, cost in self.costs.items()},
            begins=self.first[which],
            propensity=None if self.propensity is None else self.propensity[which],
        )

    def in_first_half(self, seed: int = 0) -> Array:
        """Whether a row is in the first of two halves, drawn by clusters: rows that may err together stay together."""
        clusters = self.clusters
        return (np.random.default_rng(seed).permutation(clusters[-1] + 1) % 2 == 0)[clusters]

    def half(self, first: bool, seed: int = 0) -> NumberRows:
        """The first half, or the second."""
        return self.at(self.in_first_half(seed) == first)

    def halves(self, seed: int = 0) -> tuple[NumberRows, NumberRows]:
        """The two halves."""
        return self.half(True, seed), self.half(False, seed)

    def coded_as(self, columns: StateColumns, actions: Labels) -> NumberRows:
        """The same rows with the places that labels have elsewhere: in another log, or for another policy."""
        places = np.array([actions.index(label) for label in self.actions], np.int64)

        def states(mine: States) -> States:
            coded = [
                np.array([*(_place(columns, name, label) for label in labels), -1], np.int64)[mine.categories[:, j]]
                for j, (name, labels) in enumerate(self.columns.categories.items())
            ]
            return States(mine.numbers, np.array(coded, np.int64).reshape(len(coded), len(mine)).T)

        if self.columns.names != columns.names or self.columns.numbers != columns.numbers:
            raise LogError(f"the state has the columns {', '.join(self.columns.names)}, not {', '.join(columns.names)}")
        moved = {"state": states(self.state), "next_state": states(self.next_state), "a": places[self.a]}
        return replace(self, columns=columns, actions=actions, **moved)

    def earning(self, rewards: Array) -> NumberRows:
        """The same rows with other rewards: a cost, or a reward less what a cost is worth."""
        return replace(self, r=rewards, reward_range=None)


def _place(columns: StateColumns, category: str, label: Label) -> int:
    """Of a label among those of a category; -1 where it is not one of them."""
    labels = columns.categories[category]
    return labels.index(label) if label in labels else -1
