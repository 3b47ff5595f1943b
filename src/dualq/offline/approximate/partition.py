"""The partition learner: a tree of the state's columns, whose leaves are the states of a table.

Problem    cells in which what an action is worth does not depend on where in the cell the state is:
               E[r + alpha V(s') | x, a] = Q(cell of x, a)
           Then the best policy on the cells is the best of all (Li, Walsh, Littman, 2006: Q*-irrelevance), and what the
           table learner says of the cells, its certificate too, holds for the states.
First      V(x) and the advantages of the linear learner (linear.py), and a clone of what was done
Then       one tree with three kinds of targets, grown best first until there is a cell for each USUAL_ROWS early rows:
               (V - mean) / deviation,   advantages where tried / root mean square,   DONE sqrt(pi(a|x)) of the clone
           The advantages decide what to do, the value says where to go, and what was done keeps the counts fair: where
           the log orders when the shelf is empty, and a cell holds empty and half-full shelves, not to order looks
           good, because it was tried with half-full ones. The mean of q(x, a) over the rows of a in a cell is off by
               Cov(pi(a|x), q(x, a)) / E pi(a|x)        in the cell
           which is 0 where pi or q does not vary in it. The root is what makes the error of a probability about the
           same everywhere; its scale is fixed, so that no cells are spent on a clone that varies by its noise only.
Edges      the roundest number within EDGE of the rows beside the cut: a cut is no surer than that
Which      rows: cells are grown on *earlier* rows (`earlier_and_later`), and counted on the later ones, so that nothing
           that is promised rests on cells that were chosen by the same rows

    early, later = earlier_and_later(rows)
    partition = partition_of(early, discount)
    fit = learn(cell_log(later, partition))            a table fit, its states are cells
    rule = cell_rule(partition, fit.policy)            asked for states of numbers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dualq.base import Label, Labels, LogError, StateColumns, States, visible
from dualq.logs import ArrayLog, Finding, NumberRows, inside_cells, roundest
from dualq.model import Rule, TablePolicy
from dualq.offline.approximate.features import Phi
from dualq.offline.approximate.linear import Saddle, clone, few_features
from dualq.offline.approximate.psi import followed
from dualq.offline.approximate.rules import LEAST_LIKELY, CellRule
from dualq.offline.approximate.tree import Tree, matrix_of
from dualq.offline.approximate.trees import grown_tree, held_out_r2

Array = np.ndarray
Range = tuple[float, float]

EARLY, MOST_EARLY = 0.25, 50_000  # of the rows, the earliest ones
FEWEST = 200  # rows in which cells can be found
MOST_CELLS, FEW_CELLS = 64, 16
CELL_ROWS, USUAL_ROWS = 15, 150  # early rows in each cell: at least, and on average
DONE = 7.0  # deviations of the value for a probability of 1
EDGE = 0.01


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells of states: the leaves of a tree."""

    columns: StateColumns
    tree: Tree

    def __len__(self) -> int:
        return self.tree.leaves

    def cells(self, states: States) -> Array:
        """(n,) the cell of each state."""
        return self.tree.leaf_of(matrix_of(states))

    @cached_property
    def labels(self) -> Labels:
        """The cells in words, as states of a table."""
        return Labels([" and ".join(words) or "any" for words in conditions(self.tree, self.columns)], "cell")


def cell_rule(partition: Partition, policy: TablePolicy) -> CellRule:
    """What a policy over the cells does in states; the model's state "(end)", which comes last, is no cell."""
    return CellRule(partition.tree, policy.matrix[: len(partition)])


# ---- the rows on the cells


def earlier_and_later(rows: NumberRows, share: float = EARLY) -> tuple[NumberRows, NumberRows]:
    """The rows in which cells are found, and those that are counted: by whole episodes, or each cut where few are."""
    share = min(share, MOST_EARLY / max(len(rows), 1))
    group = rows.clusters
    if group.size and group[-1] + 1 == rows.first.sum():  # clusters are episodes
        early = group < share * (group[-1] + 1)
    else:
        begins = np.union1d(0, np.flatnonzero(rows.first))
        size = np.diff(np.append(begins, len(rows)))
        early = np.arange(len(rows)) - np.repeat(begins, size) < np.repeat(share * size, size)
    return _part(rows, early), _part(rows, ~early)


def _part(rows: NumberRows, which: Array) -> NumberRows:
    """Some of the rows; an episode that was cut begins where its rest begins."""
    part = rows.at(which)
    return replace(part, begins=part.first | np.append(True, np.diff(part.episode) != 0)[: len(part)])


def cell_log(
    rows: NumberRows,
    partition: Partition,
    reward_range: Range | None = None,
    cost_ranges: Mapping[str, Range] | None = None,
    source: str = "cells of numbers",
) -> ArrayLog:
    """The rows as a log whose states are cells: what the table learner, its checks and its certificate read."""
    s, s_next = _places(rows, partition.tree)
    episode = np.cumsum(rows.first) - 1 if rows.has_episodes else None
    return ArrayLog(
        *(s, rows.a, rows.r, s_next, partition.labels, rows.actions, rows.ended),
        reward_range=reward_range,
        source=source,
        episode=episode,
        costs=rows.costs,
        cost_ranges=cost_ranges,
    )


def _places(rows: NumberRows, tree: Tree) -> tuple[Array, Array]:
    """The cells of states and next states; after an end nothing follows, and the cell stands for itself."""
    s = tree.leaf_of(matrix_of(rows.state))
    return s, np.where(rows.ended, s, tree.leaf_of(matrix_of(rows.next_state)))


def lost_inside(rows: NumberRows, partition: Partition, V: Array, discount: float, level: float = 0.01) -> Finding:
    """Do numbers and categories, within a cell, still predict r + alpha V(s') or a cost, and how well? V (cells,)."""
    pair, y = _outcomes(rows, partition, V, discount)
    numbers = dict(zip(rows.columns.numbers, rows.state.numbers.T, strict=True))
    places = dict(zip(rows.columns.categories, rows.state.categories.T, strict=True))
    found = inside_cells(pair, {**numbers, **places}, {"is earned": y, **rows.costs}, level)
    share = inside_r2(rows, partition, V, discount) if found.found else 0.0
    if share <= 0.0:  # too little for a forest to find
        return found
    size = f"; of what varies inside them a forest of all columns explains {100.0 * share:.2g}%"
    return replace(found, words=found.words + size)


def inside_r2(rows: NumberRows, partition: Partition, V: Array, discount: float, seed: int = 0) -> float:
    """R^2 on rows not seen of r + alpha V(s') less its mean in (cell, a), by the state and the action: 0 where cells
    lose nothing.
    """
    pair, y = _outcomes(rows, partition, V, discount)
    rest = y - (np.bincount(pair, y) / np.maximum(np.bincount(pair), 1))[pair]
    hot = [rows.state.categories[:, [j]] == np.arange(size) for j, size in enumerate(rows.columns.sizes)]
    X = np.hstack([rows.state.numbers, *hot, rows.a[:, None] == np.arange(len(rows.actions))])
    return held_out_r2(X, rest, rows.clusters, seed)


def _outcomes(rows: NumberRows, partition: Partition, V: Array, discount: float) -> tuple[Array, Array]:
    """(n,) the number of (cell, a), and r + alpha V(s')."""
    s, s_next = _places(rows, partition.tree)
    return s * len(rows.actions) + rows.a, rows.r + discount * rows.live * V[s_next]


# ---- growing


def partition_of(rows: NumberRows, discount: float, seed: int = 0) -> Partition:
    """Cells in which each action is worth the same everywhere, grown on these rows; count other rows on them."""
    if len(rows) < FEWEST:
        raise LogError(f"cells are found in {len(rows)} rows; {FEWEST} are needed")
    learned = _learned(rows, discount, seed)
    leaves = min(MOST_CELLS, max(FEW_CELLS, len(rows) // USUAL_ROWS))
    X, categories = matrix_of(rows.state), len(rows.columns.categories)
    targets = learned.targets(rows.state)
    tree = grown_tree(X, *targets, categories=categories, max_leaves=leaves, min_rows=CELL_ROWS)
    return Partition(rows.columns, rounded(tree, X))


@dataclass(frozen=True, eq=False)
class _Targets:
    """What cells should be alike in, as functions of the state."""

    phi: Phi
    theta: Array  # (D,) of v
    advantage: Array  # (D, A)
    clone: Rule

    def targets(self, states: States) -> tuple[Array, Array]:
        """(n, 1 + 2 A) value, advantages, what was done; weights, 0 where hardly tried."""
        x, done = self.phi(states), self.clone(states)
        V, e = (x @ self.theta)[:, None], x @ self.advantage
        tried = (done >= np.minimum(LEAST_LIKELY, done.max(axis=1, keepdims=True))).astype(float)
        beside = np.where(tried > 0.0, e - np.where(tried > 0.0, e, -np.inf).max(axis=1, keepdims=True), 0.0)
        parts = (
            (V - V.mean()) / (V.std() or 1.0),
            beside / (np.sqrt((beside**2).sum() / tried.sum()) or 1.0),
            DONE * np.sqrt(done),
        )
        return np.hstack(parts), np.hstack([np.ones_like(V), tried, np.ones_like(done)])


def _learned(rows: NumberRows, discount: float, seed: int) -> _Targets:
    """By the linear learner."""
    rows, phi = followed(rows), few_features(rows, seed)
    found = Saddle.of(rows, phi, discount, rows.starts if len(rows.starts) else rows.state).down_the_path()
    return _Targets(phi, found.theta, found.advantage, clone(rows, seed))


# ---- edges and words


def rounded(tree: Tree, X: Array, edge: float = EDGE) -> Tree:
    """The same tree with rounder thresholds: at most so large a share of a question's rows changes sides."""
    threshold, inside = tree.threshold.copy(), {0: np.arange(len(X))}
    for node in np.flatnonzero(tree.feature >= 0).tolist():
        x = X[inside[node], tree.feature[node]]
        if not tree.equal[node]:
            threshold[node] = _round_near(np.sort(x), threshold[node], edge)
        yes = x == threshold[node] if tree.equal[node] else x < threshold[node]
        inside[int(tree.left[node])], inside[int(tree.right[node])] = inside[node][yes], inside[node][~yes]
    return replace(tree, threshold=threshold)


def _round_near(x: Array, cut: float, edge: float) -> float:
    """A round number between the values that lie so many rows below and above the cut; x is sorted."""
    place, beside = int(np.searchsorted(x, cut)), int(edge * x.size)
    return roundest(x[max(place - 1 - beside, 0)], x[min(place + beside, x.size - 1)], cut)


def conditions(tree: Tree, columns: StateColumns) -> list[list[str]]:
    """What leads to each leaf, in words: one for each column that is asked for."""
    names = (*columns.numbers, *columns.categories)
    found = []
    for path in tree.paths():
        asked = dict.fromkeys(int(tree.feature[node]) for node, _ in path)
        found.append([_words(names[j], _answers(tree, path, j), columns.categories.get(names[j])) for j in asked])
    return found


def questions(tree: Tree, columns: StateColumns) -> list[list[str]]:
    """The same question by question, from the root on: leaves below one question begin alike."""
    names = (*columns.numbers, *columns.categories)

    def words(node: int, yes: bool) -> str:
        name = names[int(tree.feature[node])]
        return _words(name, [(float(tree.threshold[node]), yes)], columns.categories.get(name))

    return [[words(node, yes) for node, yes in path] for path in tree.paths()]


def _answers(tree: Tree, path: list[tuple[int, bool]], column: int) -> list[tuple[float, bool]]:
    """The thresholds of one column, and whether the answer was yes."""
    return [(float(tree.threshold[node]), yes) for node, yes in path if tree.feature[node] == column]


def _words(name: str, answers: list[tuple[float, bool]], labels: tuple[Label, ...] | None) -> str:
    if labels is not None:
        said = [visible(labels[int(place)]) for place, yes in answers if yes]
        if said:
            return f"{name} = {said[0]}"
        return f"{name} not {' or '.join(visible(labels[int(place)]) for place, _ in answers)}"
    low, high = (
        max([c for c, yes in answers if not yes], default=None),
        min([c for c, yes in answers if yes], default=None),
    )
    if low is not None and high is not None:
        return f"{low:.10g} <= {name} < {high:.10g}"
    return f"{name} >= {low:.10g}" if low is not None else f"{name} < {high:.10g}"
