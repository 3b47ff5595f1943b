"""Branches: a policy as conditions and decisions, from which every form is written.

    branch      one condition for each column of the state, and what to do where all of them hold
    condition   the value is one of some (`values`), or a finite number from `low` on and below `high`
    decision    actions with whole numbers t: the first whose t is above the draw of the case (model/draws.py), 0 <=
                draw < PRIME; one action with t = PRIME where nothing is random

No two branches hold together, and where none does the state is unknown: it gets `otherwise`, or nothing.
A table has a branch for each state. A policy over numbers has one for each cell, where it is one of cells; of others
the tree of rules may be had, which gives nearly the same decisions (`approximate`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dualq.base import Label, Labels, LogError
from dualq.logs import Bins
from dualq.model import FunctionPolicy, thresholds
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.approximate.rules import CellRule
from dualq.offline.approximate.tree import Tree
from dualq.offline.deciding import Decider
from dualq.offline.fit import Fit
from dualq.offline.saved.loading import load
from dualq.offline.saved.opening import decider_of, doubt_of, source_of

Array = np.ndarray


@dataclass(frozen=True)
class Condition:
    """What a column must hold: one of some values, or a number in an interval."""

    values: tuple[Label, ...] | None = None  # None: a number
    low: float | None = None  # it is at least this
    high: float | None = None  # and below this


@dataclass(frozen=True)
class Branch:
    """What to do where all conditions hold, in the order of the columns."""

    when: tuple[Condition, ...]
    do: tuple[tuple[int, int], ...]  # (place of the action, t), t rising


@dataclass(frozen=True)
class Branches:
    """A policy, ready to be written."""

    columns: tuple[str, ...]  # of the state
    edges: dict[str, tuple[float, ...]]  # {column of numbers: where it is cut}; () where it is not, for a tree
    actions: Labels
    table: bool  # whether every branch is one state
    source: str  # one line: where it comes from
    doubt: str = ""  # why it should not be used
    otherwise: Label = None  # the action in an unknown state; None: there is none
    branches: tuple[Branch, ...] = field(default=(), repr=False)

    @cached_property
    def random(self) -> bool:
        """Whether some decision is drawn."""
        return any(len(branch.do) > 1 for branch in self.branches)

    def kinds(self, column: int) -> set[type]:
        """The types of the labels in a column."""
        values = (branch.when[column].values for branch in self.branches)
        return {type(value) for some in values for value in some or ()}


Exportable: TypeAlias = Fit | NumberFit | Decider | FunctionPolicy | str | os.PathLike[str]


def branches_of(run: Exportable, otherwise: Label = None, approximate: bool = False) -> Branches:
    """The branches of a fit, of its policy, or of the folder in which it was saved."""
    if isinstance(run, Decider):
        return _of_table(run, "a log", "", otherwise)
    if isinstance(run, FunctionPolicy):
        return _of_numbers(run, None, "a log", "", otherwise, approximate)
    if isinstance(run, Fit):
        doubt = "do not use" if run.verdict == "do not use" else ""
        return _of_table(Decider(run.policy, run.read.bins), run.read.source, doubt, otherwise)
    if isinstance(run, NumberFit):
        return _of_numbers(run.policy, run, run.read.source, "", otherwise, approximate)
    policy, doubt, source = decider_of(run), doubt_of(run), source_of(run)
    if isinstance(policy, Decider):
        return _of_table(policy, source, doubt, otherwise)
    fit = load(run) if approximate and not isinstance(policy.rule, CellRule) else None
    return _of_numbers(policy, fit if isinstance(fit, NumberFit) else None, source, doubt, otherwise, approximate)


def _of_table(policy: Decider, source: str, doubt: str, otherwise: Label) -> Branches:
    table, names = policy.policy, policy.names
    edges = {name: tuple(policy.bins[name]) for name in names if name in policy.bins}
    intervals = {name: dict(_intervals(edges[name])) for name in edges}

    def condition(name: str, value: Label) -> Condition:
        return intervals[name].get(value, Condition((value,))) if name in intervals else Condition((value,))

    rows = zip(*table.states.columns().values(), strict=True)
    found = tuple(
        Branch(tuple(map(condition, names, row)), do) for row, do in zip(rows, _decisions(table.matrix), strict=True)
    )
    return Branches(names, edges, table.actions, True, source, doubt, _known(table.actions, otherwise), found)


def _intervals(edges: tuple[float, ...]) -> Iterator[tuple[Label, Condition]]:
    """(label, condition) of each bin."""
    ends = [None, *edges, None]
    for i, label in enumerate(Bins(edges).labels):
        yield label, Condition(None, ends[i], ends[i + 1])


def _decisions(matrix: Array) -> list[tuple[tuple[int, int], ...]]:
    """For each row of probabilities: the actions that may be taken, with their t."""
    rows = []
    for p, t in zip(matrix, thresholds(matrix), strict=True):
        steps = np.diff(t, prepend=0)
        rows.append(tuple((int(a), int(t[a])) for a in np.flatnonzero((steps > 0) & (p > 0.0))))
    return rows


def _known(actions: Labels, otherwise: Label) -> Label:
    return None if otherwise is None else actions[actions.index(otherwise)]


def _of_numbers(
    policy: FunctionPolicy, fit: NumberFit | None, source: str, doubt: str, otherwise: Label, approximate: bool
) -> Branches:
    rule = policy.rule
    if not isinstance(rule, CellRule):
        if not approximate or fit is None:
            what = "the policy is a function of numbers (linear features or a network), not a table or a tree"
            raise LogError(f"{what}: it cannot be written this way; --approximate writes the rules that sum it up")
        rule, share = fit.rules.rule, f"{fit.rules.fidelity:.1%}"
        doubt = (
            f"{doubt}; these rules give {share} of its decisions"
            if doubt
            else f"rules that give {share} of the decisions"
        )
    columns = policy.columns
    edges = dict.fromkeys(columns.numbers, ())
    found = tuple(
        Branch(tuple(_leaf_conditions(rule.tree, path, columns.numbers, columns.categories, columns.names)), do)
        for path, do in zip(rule.tree.paths(), _decisions(rule.probabilities), strict=True)
    )
    return Branches(
        columns.names, edges, policy.actions, False, source, doubt, _known(policy.actions, otherwise), found
    )


def _leaf_conditions(
    tree: Tree,
    path: list[tuple[int, bool]],
    numbers: tuple[str, ...],
    categories: Mapping[str, tuple[Label, ...]],
    names: tuple[str, ...],
) -> Iterator[Condition]:
    """One condition for each column, from the questions that lead to a leaf."""
    order = {name: j for j, name in enumerate((*numbers, *categories))}
    for name in names:
        asked = [(float(tree.threshold[node]), yes) for node, yes in path if tree.feature[node] == order[name]]
        if name in categories:
            labels = categories[name]
            left = [i for i in range(len(labels)) if all((i == int(c)) == yes for c, yes in asked)]
            yield Condition(tuple(labels[i] for i in left))
        else:
            low = max((c for c, yes in asked if not yes), default=None)
            yield Condition(None, low, min((c for c, yes in asked if yes), default=None))
