"""A rule over numbers from whatever was given: a run, a fit, a line, a function of one state, a policy.

Whether these rows chose it is found out, too: then what it is worth by them has luck in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from dualq.base import DualqError, Label, LabelLike, LogError, States
from dualq.logs import NumberRows
from dualq.model import FunctionPolicy, Policy, Rule
from dualq.offline.approximate.candidates import Candidate
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.fit import Fit
from dualq.offline.given_policies import PolicyGiven
from dualq.offline.one_line_rules import OneLineRule, is_rule, parsed
from dualq.offline.saved.loading import load

Array = np.ndarray

MOST_SHARED = 0.01  # of a fit's rows in a log: with more of them the log is not a new one
DISTINCT = 0.9  # of a fit's rows differ from all others


class GivenRule(NamedTuple):
    """A rule over the log's own columns, however it was given."""

    source: str
    rule: Rule
    learned: Candidate | None = None  # if it was learned from this log, for the same question
    chosen_here: bool = False  # if it was, for whatever question


def number_rule(policy: PolicyGiven, rows: NumberRows, discount: float, where: str, logged: float) -> GivenRule:
    """The rule that somebody gave, to be judged by these rows: at this discount, from these starts.

    logged   what the rows earned; two logs whose numbers take few values have the same rows, and earned otherwise
    """
    if isinstance(policy, str | os.PathLike) and Path(policy).is_dir():
        return number_rule(load(policy), rows, discount, where, logged)._replace(source=str(policy))
    if isinstance(policy, str) and is_rule(policy):
        line = parsed(policy, rows.columns.names, rows.actions.names, rows.columns.categories)
        return GivenRule(f'the rule "{line.text}"', _OfLine(line, rows))
    if isinstance(policy, NumberFit):
        asked = policy.discount == discount and policy.where == where
        share, distinct = _share_among(policy.sample, rows)
        same = share == 1.0 and policy.rows == len(rows)
        same = same and (distinct or not asked or math.isclose(policy.logged.value, logged))
        chosen_here = same or (distinct and share > MOST_SHARED)
        return GivenRule("the fit", _moved(policy.policy, rows), policy.chosen if same and asked else None, chosen_here)
    if isinstance(policy, FunctionPolicy):
        return GivenRule("the policy", _moved(policy, rows))
    if isinstance(policy, Fit):  # of bins: asked state by state
        return GivenRule("the fit", _OfFunction(lambda state: policy.policy.probabilities(policy.label(state)), rows))
    if isinstance(policy, Policy):
        return GivenRule("the policy", _OfFunction(policy.probabilities, rows))
    if callable(policy):
        name = getattr(policy, "__name__", "function")
        return GivenRule(f"the function {name}", _OfFunction(cast("Callable[[LabelLike], object]", policy), rows))
    right = "a function of the state, a rule such as order = 6 if stock <= 1 else 0, or a run"
    raise LogError(
        f"the log's state has numbers ({', '.join(rows.columns.numbers)}), so its policy must be {right}; or cut the "
        "numbers into bins (--bins)",
        argument="policy",
    )


def _share_among(sample: NumberRows, rows: NumberRows) -> tuple[float, bool]:
    """The share of a fit's rows that are rows of this log, to the last bit; and whether that is no chance.

    By numbers and rewards: where nearly all rows differ in them, two that are the same are one row.
    """
    if sample.columns.numbers != rows.columns.numbers:
        return 0.0, True
    kept, here = ([row.tobytes() for row in np.column_stack([one.state.numbers, one.r])] for one in (sample, rows))
    known = set(here)
    return sum(row in known for row in kept) / len(kept), len(set(kept)) > DISTINCT * len(kept)


def _moved(policy: FunctionPolicy, rows: NumberRows) -> Rule:
    """The rule of a policy with places of its own, over the columns and actions of this log."""
    mine, theirs = rows.columns, policy.columns
    if mine.names != theirs.names or mine.numbers != theirs.numbers:
        names = ", ".join(theirs.names), ", ".join(mine.names)
        raise LogError(f"the policy's states have the columns {names[0]}, and the log's {names[1]}", argument="policy")
    at = np.array([policy.actions.index(label) for label in rows.actions], np.int64)

    def rule(states: States) -> Array:
        chances = policy.rule(_recoded(states, rows, theirs.categories))[:, at]
        return chances / np.maximum(chances.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    return rule


def _recoded(states: States, rows: NumberRows, categories: Mapping[str, tuple[Label, ...]]) -> States:
    columns = []
    for j, (name, labels) in enumerate(rows.columns.categories.items()):
        known = {label: place for place, label in enumerate(categories[name])}
        places = np.array([*(known.get(label, -1) for label in labels), -1], np.int64)
        columns.append(places[states.categories[:, j]])
    return States(states.numbers, np.array(columns, np.int64).reshape(len(columns), len(states)).T)


@dataclass(frozen=True, eq=False)
class _OfLine:
    """A rule in one line, over many states at once."""

    line: OneLineRule
    rows: NumberRows

    def __call__(self, states: States) -> Array:
        columns = self.rows.columns
        table = {name: states.numbers[:, j] for j, name in enumerate(columns.numbers)}
        for j, (name, labels) in enumerate(columns.categories.items()):
            known = np.array([*labels, None], object)
            table[name] = known[states.categories[:, j]]
        return _chances(self.line(table).tolist(), self.rows, self.line.text)


@dataclass(frozen=True, eq=False)
class _OfFunction:
    """A function of one state, asked state by state; of one column it gets the number alone."""

    function: Callable[[LabelLike], object]
    rows: NumberRows

    def __call__(self, states: States) -> Array:
        columns, alone = self.rows.columns, len(self.rows.columns.names) == 1
        answers = []
        for i in range(len(states)):
            state = columns.named(states, i)
            try:
                answers.append(self.function(next(iter(state.values())) if alone else state))
            except DualqError:
                raise
            except Exception as error:
                raise LogError(f"the function failed in {state}: {type(error).__name__}: {error}") from error
        return _chances(answers, self.rows, "the function")


def _chances(answers: list[object], rows: NumberRows, source: str) -> Array:
    """(n, A) probabilities from actions, or from {action: probability}."""
    places = {label: place for place, label in enumerate(rows.actions)}
    found = np.zeros((len(answers), len(places)))
    for i, answer in enumerate(answers):
        for label, p in answer.items() if isinstance(answer, Mapping) else ((answer, 1.0),):
            place = places.get(_plain(label))
            if place is None:
                known = ", ".join(map(repr, list(places)[:8]))
                wrong = f"{source} gives {label!r}, which is no action of the log"
                raise LogError(f"{wrong}; its actions are {known}", value=label)
            found[i, place] += float(p)
    if not np.allclose(found.sum(axis=1), 1.0, atol=1e-6):
        raise LogError(f"{source} gives probabilities that sum to {found.sum(axis=1).min():g}; they must sum to 1")
    return found


def _plain(label: object) -> Label:
    """A number as Python has it: 6.0 and 6 are one action already."""
    return cast(Label, label.item() if isinstance(label, np.generic) else label)
