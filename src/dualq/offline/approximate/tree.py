"""Tree: questions about the columns of a state, and leaves; arrays only, asked with NumPy alone.

A question is x < c of a number, or x = c of a category; trees.py grows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dualq.base import States

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """Questions and leaves, (nodes,) each; the root is node 0."""

    feature: Array  # the column that is asked for; -1: a leaf
    threshold: Array  # c
    equal: Array  # whether the question is x = c, of a category; else x < c
    left: Array  # the node if yes; -1 in a leaf
    right: Array
    leaf: Array  # 0, 1, 2, ... from left to right; -1: a question

    @property
    def leaves(self) -> int:
        """How many there are."""
        return self.left.size // 2 + 1

    @cached_property
    def depth(self) -> int:
        """How many questions lead to the deepest leaf."""
        deep = np.zeros(self.left.size, int)
        for node in np.flatnonzero(self.left > 0):  # children come after their parents
            deep[[self.left[node], self.right[node]]] = deep[node] + 1
        return int(deep.max())

    def leaf_of(self, X: Array) -> Array:
        """(n,) the leaf of each row of X (n, d)."""
        node, rows = np.zeros(len(X), int), np.arange(len(X))
        for _ in range(self.depth):
            x, c = X[rows, self.feature[node]], self.threshold[node]  # in a leaf: any column, and nothing comes of it
            yes = np.where(self.equal[node], x == c, x < c)
            node = np.where(self.leaf[node] >= 0, node, np.where(yes, self.left[node], self.right[node]))
        return self.leaf[node]

    def pruned(self, leaves: int) -> Tree:
        """The same tree before it had more than so many leaves."""
        kept = slice(0, 2 * max(1, min(leaves, self.leaves)) - 1)
        inside = self.left[kept] < kept.stop
        left, right = (np.where(inside, side[kept], -1) for side in (self.left, self.right))
        return tree_of(np.where(inside, self.feature[kept], -1), self.threshold[kept], self.equal[kept], left, right)

    def merged(self, answer: Array) -> Tree:
        """Without the questions below which all leaves have the same answer; answer (leaves,)."""
        said = np.where(self.leaf >= 0, np.asarray(answer)[self.leaf], -1)
        for node in np.flatnonzero(self.left > 0)[::-1]:
            said[node] = said[self.left[node]] if said[self.left[node]] == said[self.right[node]] else -1
        kept, asked = np.zeros(said.size, bool), (self.left > 0) & (said < 0)
        kept[0], kept[self.left[asked]], kept[self.right[asked]] = True, True, True
        place = np.cumsum(kept) - 1
        left, right = (np.where(asked, place[side], -1)[kept] for side in (self.left, self.right))
        return tree_of(np.where(asked, self.feature, -1)[kept], self.threshold[kept], self.equal[kept], left, right)

    def joined(self, answer: Array) -> Tree:
        """Neighbours along one number that answer alike as one: (x < a: yes; x < b: yes; else no) is (x < b: yes)."""
        said = np.where(self.leaf >= 0, np.asarray(answer)[self.leaf], -1)
        for node in np.flatnonzero(self.left > 0).tolist():
            for near, far in ((self.left, self.right), (self.right, self.left)):
                beside, below = int(near[node]), int(far[node])
                alike = self.feature[node] == self.feature[below] and not self.equal[node]
                if alike and said[beside] >= 0 and said[beside] == said[near[below]]:
                    return self._without(below, near).joined(np.delete(answer, self.leaf[near[below]]))
        return self

    def _without(self, below: int, near: Array) -> Tree:
        """The question `below` takes the place of the one above it, and the leaf on this side of it is dropped."""
        left, right, threshold = self.left.copy(), self.right.copy(), self.threshold.copy()
        above = int(np.flatnonzero((left == below) | (right == below))[0])
        threshold[above] = threshold[below]
        if near is self.left:
            right[above] = right[below]
        else:
            left[above] = left[below]
        kept = np.ones(left.size, bool)
        kept[[below, near[below]]] = False
        place = np.cumsum(kept) - 1
        left, right = (np.where(side[kept] > 0, place[side[kept]], -1) for side in (left, right))
        return tree_of(self.feature[kept], threshold[kept], self.equal[kept], left, right)

    def paths(self) -> list[list[tuple[int, bool]]]:
        """What leads to each leaf: (node, whether its answer is yes), from the root on."""
        found: list[list[tuple[int, bool]]] = [[] for _ in range(self.leaves)]
        todo: list[tuple[int, list[tuple[int, bool]]]] = [(0, [])]
        while todo:
            node, path = todo.pop()
            if self.leaf[node] >= 0:
                found[self.leaf[node]] = path
                continue
            todo += [(int(self.right[node]), [*path, (node, False)]), (int(self.left[node]), [*path, (node, True)])]
        return found


def tree_of(feature: Array, threshold: Array, equal: Array, left: Array, right: Array) -> Tree:
    """A tree whose leaves are numbered from left to right."""
    leaf, todo, count = np.full(feature.size, -1), [0], 0
    while todo:
        node = todo.pop()
        if left[node] < 0:
            leaf[node], count = count, count + 1
        else:
            todo += [int(right[node]), int(left[node])]
    return Tree(feature, threshold, equal, left, right, leaf)


def matrix_of(states: States) -> Array:
    """(n, N + C) the columns of states as trees read them: numbers, then places of categories."""
    return np.hstack([states.numbers, states.categories])
