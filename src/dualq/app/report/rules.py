"""A policy as a few rules: a small tree of questions about the columns of the state.

Problem    a policy over many columns is a long table; a tree that asks at most DEPTH questions tells most of it
Tree       grown greedily (CART; Breiman, Friedman, Olshen, Stone, 1984). m(s, a) is the share of the policy's decisions
           that are action a in state s. States with sums m(a) have the impurity sum_a m(a) (1 - m(a) / sum m); the
           question asked next is the one that lowers the impurity of its two sides together most. Numbers, and bins in
           their order, are asked "at most x?", other columns "is it x?". Sides that all say the same become one.
Fidelity   sum_s m(s, tree(s)): the share of the policy's decisions that the tree gives. A summary, not the policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dualq.base import Label, visible
from dualq.logs import Bins

Array = np.ndarray

DEPTH = 4  # questions, at most, before an answer
LEAST = 1e-3  # of all decisions: a question that lowers the impurity by less is not worth asking


@dataclass(frozen=True)
class Rule:
    """One leaf: what leads to it, what to do, how many decisions that is, and how many of them are so."""

    conditions: tuple[str, ...]
    action: int
    share: float  # of the policy's decisions
    right: float  # of these


@dataclass(frozen=True)
class Rules:
    """The tree: its leaves in order, and its answers."""

    rules: tuple[Rule, ...]
    answer: Array  # (S,) the action that it gives in every state

    @property
    def fidelity(self) -> float:
        """The share of the policy's decisions that the tree gives."""
        return float(sum(rule.share * rule.right for rule in self.rules))


class _Column(NamedTuple):
    """A column of the state as numbers: codes (S,) into its values; questions[k] is (words if yes, words if no)."""

    codes: Array
    ordered: bool  # question k is "code <= k?", else "code == k?"
    questions: list[tuple[str, str]]


class _Split(NamedTuple):
    yes: Array  # (S,) booleans
    words: tuple[str, str]


def rules_of(columns: Mapping[str, Sequence[Label]], mass: Array, bins: Mapping[str, Sequence[float]]) -> Rules:
    """The tree. columns: of the states; mass (S, A): shares of the decisions; bins: {column: edges}."""
    coded = [_coded(name, labels, bins.get(name)) for name, labels in columns.items()]
    everywhere = np.ones(len(mass), bool)
    answer = np.zeros(len(mass), int)
    return Rules(tuple(_grown(coded, mass, everywhere, (), answer)), answer)


def _coded(name: str, labels: Sequence[Label], edges: Sequence[float] | None) -> _Column:
    if edges is not None and set(labels).issubset(order := Bins(tuple(edges)).labels):
        cuts = [f"{edge:.10g}" for edge in edges]
        return _Column(
            np.array([order.index(label) for label in labels]),
            True,
            [(f"{name} < {x}", f"{name} >= {x}") for x in cuts],
        )
    numbers = {label for label in labels if isinstance(label, int | float) and not isinstance(label, bool)}
    ordered = numbers == set(labels)
    values: list[Label] = [*sorted(numbers)] if ordered else sorted(set(labels), key=str)
    place = {value: k for k, value in enumerate(values)}
    codes = np.array([place[label] for label in labels])
    if ordered:
        return _Column(codes, True, [(f"{name} <= {x}", f"{name} > {x}") for x in values[:-1]])
    return _Column(codes, False, [(f"{name} is {visible(x)}", f"{name} is not {visible(x)}") for x in values])


def _grown(
    columns: list[_Column], mass: Array, here: Array, conditions: tuple[str, ...], answer: Array
) -> Iterator[Rule]:
    """The leaves below the states that are `here`; `answer` is filled in."""
    split = _best(columns, mass, here) if len(conditions) < DEPTH else None
    if split is not None:
        sides = (here & split.yes, here & ~split.yes)
        below = [
            rule
            for side, words in zip(sides, split.words, strict=True)
            for rule in _grown(columns, mass, side, (*conditions, words), answer)
        ]
        if len({rule.action for rule in below}) > 1:
            yield from below
            return
    sums = mass[here].sum(axis=0)
    action, total = int(sums.argmax()), float(sums.sum())
    answer[here] = action
    yield Rule(conditions, action, total, float(sums[action]) / total if total > 0.0 else 1.0)


def _best(columns: list[_Column], mass: Array, here: Array) -> _Split | None:
    """The question that lowers the impurity most; None where none lowers it by much."""
    total = mass[here].sum(axis=0)
    lowest, found = float(_impurity(total)) - LEAST, None
    for column in columns:
        sums = np.zeros((int(column.codes.max()) + 1, mass.shape[1]))
        np.add.at(sums, column.codes[here], mass[here])
        yes = (np.cumsum(sums, axis=0) if column.ordered else sums)[: len(column.questions)]
        after = _impurity(yes) + _impurity(np.maximum(total - yes, 0.0))
        if after.size and after.min() < lowest:
            k = int(after.argmin())
            lowest = float(after[k])
            found = _Split(column.codes <= k if column.ordered else column.codes == k, column.questions[k])
    return found


def _impurity(sums: Array) -> Array:
    total = sums.sum(axis=-1)
    return total - (sums**2).sum(axis=-1) / np.where(total > 0.0, total, 1.0)
