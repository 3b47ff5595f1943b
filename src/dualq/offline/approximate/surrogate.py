"""A rule over numbers in words: a small tree that says nearly the same, and what each column does to it.

Surrogate     grown on half of the clusters, with the rule's probabilities as targets: the gain is the drop of the
              impurity sum_a m(a) (1 - m(a) / sum m), as for tables of labels. A leaf answers with its likeliest action;
              leaves side by side that answer alike are one.
Fidelity      mean over the other half of P(tree's answer | x): the share of the rule's decisions that the tree gives.
              A summary, not the rule.
Dependence    the share of each action if a column were x in every row, all else as logged
Importance    mean over rows of 1/2 sum_a |P(a | x) - P(a | x~)|, x~ with one column exchanged between rows at random:
              the share of decisions that rest on the column
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualq.base import Label, LogError, States, checked_whole
from dualq.logs import NumberRows
from dualq.model import Rule
from dualq.offline.approximate.partition import conditions, rounded
from dualq.offline.approximate.rules import CellRule
from dualq.offline.approximate.tree import Tree, matrix_of
from dualq.offline.approximate.trees import grown_tree, leaf_means

Array = np.ndarray

MOST = 20_000  # rows that are asked
LEAST_ROWS = 5  # in a leaf
LEAST_GAIN = 1e-3  # of all decisions: a question that lowers the impurity by less is not worth asking
CERTAIN = 0.98  # the likeliest action of a rule that does not draw
FINE = 20_000  # places at which a number may be cut: the rule's own threshold can be found


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The tree, how far it can be trusted, and its leaves as sentences."""

    tree: Tree
    answer: Array  # (leaves,) places of actions
    mostly: tuple[bool, ...]  # of each leaf, whether the rule draws its actions there: the answer is the likeliest
    fidelity: float  # the share of the rule's decisions that it gives, on rows that it did not see
    sentences: tuple[str, ...]  # "if wear >= 3.2 and heat < 0.5: repair"
    actions: int  # how many there are

    @property
    def rule(self) -> CellRule:
        """The tree as a rule."""
        return CellRule(self.tree, np.eye(self.actions)[self.answer])


@dataclass(frozen=True, eq=False)
class Dependence:
    """How often each action is taken as one column varies."""

    column: str
    at: tuple[Label, ...]  # values of the column
    shares: Array  # (values, A)


def surrogate(rule: Rule, rows: NumberRows, max_leaves: int = 8, seed: int = 0) -> Surrogate:
    """A tree of at most so many leaves that does nearly what the rule does."""
    grown_on, held = (_some(half, seed) for half in rows.halves(seed))
    X, P = matrix_of(grown_on.state), rule(grown_on.state)
    categories, least = len(rows.columns.categories), LEAST_GAIN * len(X)
    tree = grown_tree(
        X, P, categories=categories, max_leaves=max_leaves, min_rows=LEAST_ROWS, min_gain=least, cuts=FINE
    )
    tree = tree.merged(_answers(tree, X, P))
    tree = rounded(tree, X, edge=0.0)
    tree = tree.joined(_answers(tree, X, P))
    answer = _answers(tree, X, P)
    given = answer[tree.leaf_of(matrix_of(held.state))]
    fidelity = float(rule(held.state)[np.arange(len(held)), given].mean())
    surely = leaf_means(tree.leaf_of(X), P.max(axis=1, keepdims=True), np.ones((len(P), 1)), tree.leaves)[:, 0]
    mostly = tuple((surely < CERTAIN).tolist())
    return Surrogate(tree, answer, mostly, fidelity, _sentences(tree, answer, mostly, rows), len(rows.actions))


def _answers(tree: Tree, X: Array, P: Array) -> Array:
    """(leaves,) the likeliest action."""
    return leaf_means(tree.leaf_of(X), P, np.ones_like(P), tree.leaves).argmax(axis=1)


def _sentences(tree: Tree, answer: Array, mostly: Sequence[bool], rows: NumberRows) -> tuple[str, ...]:
    words = [f"if {' and '.join(parts)}" if parts else "always" for parts in conditions(tree, rows.columns)]
    each = zip(words, mostly, answer, strict=True)
    return tuple(f"{if_}: {'mostly ' if drawn else ''}{rows.actions[int(a)]}" for if_, drawn, a in each)


def dependence(rule: Rule, rows: NumberRows, column: str, points: int = 20, seed: int = 0) -> Dependence:
    """The share of each action as this column varies, the others as logged; at quantiles, or at all labels."""
    asked = _some(rows, seed, MOST // checked_whole("points", points, 1, MOST, LogError))
    numbers, categories = list(rows.columns.numbers), list(rows.columns.categories)
    if column in numbers:
        x = rows.state.numbers[:, numbers.index(column)]
        at = np.unique(np.quantile(x, np.linspace(0.0, 1.0, points), method="nearest"))
        shares = [rule(_with(asked.state, numbers.index(column), value)).mean(axis=0) for value in at]
        return Dependence(column, tuple(at.tolist()), np.array(shares))
    if column not in categories:
        raise LogError(f"no column {column!r}; the state has {', '.join(rows.columns.names)}")
    labels, place = rows.columns.categories[column], len(numbers) + categories.index(column)
    shares = [rule(_with(asked.state, place, k)).mean(axis=0) for k in range(len(labels))]
    return Dependence(column, labels, np.array(shares))


def importance(rule: Rule, rows: NumberRows, seed: int = 0) -> dict[str, float]:
    """{column: the share of decisions that rest on it}, the largest first."""
    asked, draw = _some(rows, seed).state, np.random.default_rng(seed)
    P, X = rule(asked), matrix_of(asked)
    found = {}
    for j, name in enumerate((*rows.columns.numbers, *rows.columns.categories)):
        changed = rule(_with(asked, j, draw.permutation(X[:, j])))
        found[name] = float(np.abs(changed - P).sum(axis=1).mean() / 2.0)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _with(states: States, column: int, values: float | Array) -> States:
    """The states with other values in one column: numbers first, then categories."""
    numbers, categories = states.numbers.copy(), states.categories.copy()
    if column < numbers.shape[1]:
        numbers[:, column] = values
    else:
        categories[:, column - numbers.shape[1]] = values
    return States(numbers, categories)


def _some(rows: NumberRows, seed: int, most: int = MOST) -> NumberRows:
    """At most so many of the rows, drawn at random, in their order."""
    if len(rows) <= most:
        return rows
    return rows.at(np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False)))
