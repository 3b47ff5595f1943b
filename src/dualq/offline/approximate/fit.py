"""NumberFit: what was learned from a log whose states are made of numbers.

fit.policy             the recommended policy, a function of the state's columns;  fit.reason  why this one
fit.approximation      "partition", "linear", "neural", "vote" where policies of several learners vote, or "clone" where
                       what was done so far is recommended
fit.candidates         every policy that was tried, with what it is expected to earn
fit.expected, logged   estimates of the recommended policy's value and of what the log earned, with standard errors
fit.gain               their difference, with its own error
fit.verdict            "better", "no worse", "cannot tell" or "do not use"
fit.promised           True only where the policy is one of cells, and the certificate of the cells holds
fit.act, act_many      raw columns in, labels of actions out
fit.explain(state)     the nearest rows of the log, each action's value and support, which columns matter there
fit.rules              the policy as a small tree, with the share of decisions that the tree gives
fit.save("run/")       arrays and JSON;  `dualq.load` makes it again
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from dualq._version import __version__
from dualq.base import (
    LARGEST,
    Label,
    LabelLike,
    Labels,
    LogError,
    StateColumns,
    States,
    checked_whole,
    door,
    write_whole,
    written_together,
)
from dualq.logs import Argument, Finding, Log, NumberRows, read_log
from dualq.model import Cases, FunctionPolicy, Seed, dataclass_kind, write_saved
from dualq.offline.approximate.candidates import Candidate, Choice
from dualq.offline.approximate.cells import doubts
from dualq.offline.approximate.evaluation import evaluated
from dualq.offline.approximate.partition import conditions, questions
from dualq.offline.approximate.price_search import PricedLimit
from dualq.offline.approximate.surrogate import Dependence, Surrogate, dependence, importance, surrogate
from dualq.offline.approximate.surroundings import NEAREST, Surroundings
from dualq.offline.approximate.tree import matrix_of
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.fit import Fit
from dualq.offline.saved.number_kinds import NUMBER_FIT, NUMBER_KINDS
from dualq.offline.saved.opening import ARRAYS, NUMBERS, write_numbers
from dualq.offline.shapes import EstimateNumbers
from dualq.offline.stages import Read
from dualq.offline.summary import certificate_summary, estimate_summary
from dualq.offline.trust import AGAINST, of_rows_left_out, verdict
from dualq.proof import Certificate

Array = np.ndarray

MOST_POINTS = 1_000  # of a grid, on either side
STEPS = 9  # values at which each column is tried, to see whether it matters
BEYOND = "the policy is a function of numbers, and no bound of such a policy can be proven from a log alone"


class ActionFacts(TypedDict):
    """What is known of one action in one state."""

    action: dict[str, Label]
    rows: int  # among the nearest rows of the log
    logged_share: float
    value: float  # as estimated; later decisions are the recommended policy's
    recommended: float


class NumberFacts(TypedDict):
    """What is known of one state of numbers."""

    state: dict[str, Label]
    nearest: int  # how many rows of the log were looked at
    distance: float  # of the farthest of them, in standard deviations of the inputs
    usual_distance: float  # for all but one in a hundred rows of the log it is at most this
    actions: list[ActionFacts]
    matters: dict[str, float]  # {column: share of its usual range where the decision would be another}


class GridCell(NamedTuple):
    """A point of a map over two columns."""

    x: float
    y: float
    action: int
    rows: int  # of the sample, near


class Leaf(NamedTuple):
    """One of a few rules that sum up the policy."""

    conditions: tuple[str, ...]  # one for each column
    action: int
    mostly: bool  # the policy draws its actions there, and this is the likeliest
    share: float  # of the log's states
    path: tuple[str, ...]  # the same question by question


@door
@dataclass(frozen=True, eq=False)
class NumberFit:
    """What was learned; the top of this file says how to ask it."""

    read: Read = field(repr=False)
    columns: StateColumns = field(repr=False)
    actions: Labels = field(repr=False)
    candidates: tuple[Candidate, ...]
    choice: Choice
    logged: Estimate  # what the log's own episodes earned
    discount: float
    confidence: float
    where: str  # value is measured there: "episodes", "log", "as given"
    asked: str  # the approximation that was asked for
    rows: int
    left_out: tuple[int, int]  # rows without a successor, rows set aside
    findings: tuple[Finding, ...] = field(repr=False)  # what the log says of the way it was read
    sample: NumberRows = field(repr=False)  # some of its rows, for explanations
    limits: tuple[PricedLimit, ...] = ()
    cells: Fit | None = field(default=None, repr=False)  # the table of the cells, where the policy is one of cells
    inside: Finding | None = field(default=None, repr=False)  # whether numbers still tell something inside its cells
    remarks: tuple[str, ...] = ()
    version: str = __version__

    @property
    def whole(self) -> bool:
        """Whether what was done so far was all recorded, to the ends of the episodes."""
        return self.discount == 0.0 or self.sample.not_whole is None

    @property
    def set_aside(self) -> str | None:
        """The file of the rows that were set aside, if there are some."""
        return self.read.quarantine if self.left_out[1] else None

    @property
    def chosen(self) -> Candidate:
        """The candidate that is recommended."""
        return self.candidates[self.choice.place]

    @property
    def approximation(self) -> str:
        """Which learner the recommended policy is from."""
        return self.chosen.learner

    @property
    def reason(self) -> str:
        """One sentence: why this policy."""
        return self.choice.reason

    @property
    def policy(self) -> FunctionPolicy:
        """The recommended policy."""
        return FunctionPolicy(self.columns, self.actions, self.chosen.rule)

    @property
    def expected(self) -> Estimate:
        """What the recommended policy is expected to earn; without an error where it may not be believed."""
        return self.chosen.expected if not self.contradicted else Estimate(self.chosen.expected.value, None)

    @property
    def gain(self) -> Estimate:
        """What it is expected to earn over what was logged."""
        return self.chosen.gain

    @property
    def costs(self) -> dict[str, Estimate]:
        """What it costs per step."""
        return self.chosen.costs

    # ---- what may be said of it

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The assumptions that the log speaks against."""
        return tuple(dict.fromkeys(finding.what for finding in self.findings if finding.found))

    @property
    def certificate(self) -> Certificate | None:
        """Of the cells, where the policy is one of cells; of other functions of numbers nothing can be proven."""
        return None if self.cells is None else self.cells.certificate

    @property
    def withheld(self) -> tuple[str, ...]:
        """Why nothing is promised; empty where the certificate may be relied on."""
        if self.cells is None:
            return (*(AGAINST[what] for what in self.contradicted), BEYOND)
        return doubts(self.cells, self.inside, self.contradicted, self.rows, self.left_out)

    @property
    def promised(self) -> bool:
        """Whether a certificate may be relied on, under `conditions`."""
        return self.certificate is not None and not self.withheld

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a promise takes for granted and no test can see: clauses that follow "if"."""
        if self.cells is None:
            return ()
        return ("the cells lose nothing that matters", *of_rows_left_out(*self.left_out), *self.cells.conditions)

    @property
    def verdict(self) -> str:
        """One of "better", "no worse", "cannot tell" and "do not use"."""
        as_logged = self.approximation == "clone"
        if as_logged and not self.contradicted:
            return "no worse"
        zero = Estimate(0.0, 0.0)  # the gain has an error of its own: the two policies share their rows
        return verdict(self.gain, zero, contradicted=bool(self.contradicted), promised_gain=0.0, as_logged=as_logged)

    @property
    def warnings(self) -> list[str]:
        """What to know before trusting any of it."""
        found = [finding.words for finding in self.findings if finding.found]
        if not self.chosen.usable and self.chosen.doubt:
            found.append(f"the expected value cannot be relied on: {self.chosen.doubt}")
        return [*found, *self.remarks]

    # ---- questions

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None, case: int | None = None) -> Label:
        """The label of an action in a state, drawn where the policy is random."""
        return self.policy.act(state, seed, default, case)

    def act_many(
        self, table: Mapping[str, ArrayLike], seed: Seed = None, default: Label = None, case: Cases = None
    ) -> list[Label]:
        """The label of an action for each row of a table or frame, as `act` says; None, or `default`, where unknown.

        case   of each row, by which a random policy draws: a column of the table, or whole numbers; without one, the
               number of the row, from 0
        """
        return self.policy.act_many(table, seed, default, case)

    @cached_property
    def rules(self) -> Surrogate:
        """The policy as a small tree, and the share of its decisions that the tree gives."""
        return surrogate(self.chosen.rule, self.sample)

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The tree of `rules`, leaf by leaf."""
        found = self.rules
        share = np.bincount(found.tree.leaf_of(matrix_of(self.sample.state)), minlength=found.tree.leaves)
        said, asked = conditions(found.tree, self.columns), questions(found.tree, self.columns)
        shares = (share / len(self.sample)).tolist()
        each = zip(said, found.answer.tolist(), found.mostly, shares, asked, strict=True)
        return [Leaf(tuple(words), action, mostly, part, tuple(path)) for words, action, mostly, part, path in each]

    @cached_property
    def importance(self) -> dict[str, float]:
        """{column: the share of decisions that rest on it}, the largest first."""
        return importance(self.chosen.rule, self.sample)

    def dependence(self, column: str, points: int = 20) -> Dependence:
        """How often each action is taken as one column varies, all others as logged."""
        return dependence(self.chosen.rule, self.sample, column, points)

    def grid(self, x: str, y: str, points: int) -> list[GridCell]:
        """The action at a grid over two columns of numbers; the others have their medians, or commonest labels."""
        points, columns = checked_whole("points", points, 1, MOST_POINTS, LogError), self.sample.state.numbers
        for name in (x, y):
            if name not in self.columns.numbers:
                known = ", ".join(self.columns.numbers)
                raise LogError(f"{name!r} is no number of the state; its numbers are {known}", argument="x", value=name)
        ends = [self.columns.numbers.index(name) for name in (x, y)]
        edges = [np.quantile(columns[:, j], np.linspace(0.02, 0.98, points + 1)) for j in ends]
        xs, ys = ((edge[1:] + edge[:-1]) / 2.0 for edge in edges)
        numbers = np.tile(np.median(columns, axis=0), (points**2, 1))
        numbers[:, ends[0]], numbers[:, ends[1]] = np.tile(xs, points), np.repeat(ys, points)
        usual = [int(np.bincount(column[column >= 0]).argmax()) for column in self.sample.state.categories.T]
        chosen = self.chosen.rule(States(numbers, np.tile(np.array(usual, np.int64), (points**2, 1)))).argmax(axis=1)
        rows = np.histogram2d(columns[:, ends[1]], columns[:, ends[0]], [edges[1], edges[0]])[0].ravel()
        return [
            GridCell(*each)
            for each in zip(*numbers[:, ends].T.tolist(), chosen.tolist(), rows.astype(int), strict=True)
        ]

    def explain(self, state: LabelLike) -> NumberFacts:
        """The nearest rows of the log, each action's value and support there, and which columns matter."""
        here = self.columns.state(state)
        around = Surroundings.of(self.sample)
        distance = np.linalg.norm(around.Z - around.inputs(here, LARGEST), axis=1)
        near = np.argsort(distance)[:NEAREST]
        rows = np.bincount(self.sample.a[near], minlength=len(self.actions))
        p, q = self.chosen.rule(here)[0], self.chosen.values(here)[0]
        return {
            "state": self.columns.named(here, 0),
            "nearest": near.size,
            "distance": float(distance[near[-1]]),
            "usual_distance": around.usual,
            "actions": [
                {
                    "action": self.actions.named(a),
                    "rows": int(rows[a]),
                    "logged_share": float(rows[a] / near.size),
                    "value": float(q[a]),
                    "recommended": float(p[a]),
                }
                for a in sorted(range(p.size), key=lambda a: (-p[a], -rows[a]))
            ],
            "matters": {name: self._matters(here, name) for name in self.columns.names},
        }

    def _matters(self, here: States, name: str) -> float:
        """The share of a column's usual values with which another action would be taken."""
        table: dict[str, list[Any]] = {column: [value] for column, value in self.columns.named(here, 0).items()}
        if name in self.columns.categories:
            values: list[Any] = list(self.columns.categories[name])
        else:
            column = self.sample.state.numbers[:, self.columns.numbers.index(name)]
            values = np.quantile(column, np.linspace(0.05, 0.95, STEPS)).tolist()
        many = {column: value * len(values) for column, value in table.items()} | {name: values}
        usual = self.chosen.rule(here)[0].argmax()
        return float((self.chosen.rule(self.columns.coded(many)).argmax(axis=1) != usual).mean())

    def frontier(self, cost: str, points: int | None = None) -> NoReturn:
        """There is no trade-off curve here: each of its points would be learned anew."""
        raise LogError(f"no trade-off for {cost!r}: it needs a table of states; give bins, or learn with a limit")

    def score(self, log: object, **reading: Argument) -> float:
        """What the policy is expected to earn by the rows of another log, which had no say in the choice; no bound."""
        opened = log if isinstance(log, Log) else read_log(log, **{**reading, "numbers": list(self.columns.numbers)})
        rows = opened.number_rows().coded_as(self.columns, self.actions)
        start = rows.starts if rows.has_episodes else rows.state
        return evaluated(rows, self.chosen.rule, self.discount, start).value

    # ---- what leaves the room

    def summary(self) -> dict[str, object]:
        """The settings and the numbers, as plain values: what --json prints and fit.json keeps."""
        promise = self.certificate
        return {
            "source": self.read.source,
            "columns": dict(self.read.columns),
            "guessed": dict(self.read.guessed),
            "discount": self.discount,
            "start": self.where,
            "version": self.version,
            "approximation": self.approximation,
            "asked": self.asked,
            "rows": self.rows,
            "dropped": self.left_out[0],
            "skipped": self.left_out[1],
            "set_aside": self.set_aside,
            "numbers": list(self.columns.numbers),
            "actions": len(self.actions),
            "reason": self.reason,
            "expected": estimate_summary(self.expected),
            "logged": estimate_summary(self.logged),
            "gain": estimate_summary(self.gain),
            "returns": estimate_summary(self.logged),
            "confidence": self.confidence,
            "certificate": None if promise is None else certificate_summary(promise),
            "verdict": self.verdict,
            "promised": self.promised,
            "withheld": list(self.withheld),
            "conditions": list(self.conditions),
            "contradicted": list(self.contradicted),
            "warnings": self.warnings,
            "candidates": [_candidate_summary(one) for one in self.candidates],
            "limits": [limit.summary(bool(self.withheld)) for limit in self.limits],
            "limits_kept": self.limits_kept,
            "costs": {name: estimate_summary(cost) for name, cost in self.costs.items()},
            "rules": {"fidelity": self.rules.fidelity, "sentences": list(self.rules.sentences)},
        }

    @property
    def limits_kept(self) -> bool:
        """Whether every limit is guaranteed, by the proof of cells only; True where there are none.

        What is not guaranteed is expected to be kept, with a margin of two errors: no other policy is recommended.
        """
        return all(limit.basis(bool(self.withheld)) == "proven" for limit in self.limits)

    def __repr__(self) -> str:
        from dualq.app import NumberPages

        return NumberPages(self).brief()

    def _repr_html_(self) -> str:
        from dualq.app import NumberPages

        return NumberPages(self).notebook()

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report: one HTML page that needs no network."""
        from dualq.app import NumberPages

        write_whole(path, NumberPages(self).report().encode())

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write solution.npz and, last, fit.json into a folder; their paths. With fit.json it is whole."""
        kinds = (*NUMBER_KINDS, dataclass_kind(NUMBER_FIT, NumberFit))
        with written_together(folder, last=NUMBERS) as part:
            write_saved(part / ARRAYS, kinds, policy=self.policy, fit=self)
            write_numbers(part, self.summary())
        return [str(Path(folder, name)) for name in (NUMBERS, ARRAYS)]


class CandidateSummary(TypedDict):
    """A candidate as plain values."""

    name: str
    expected: EstimateNumbers
    gain: EstimateNumbers
    effective_size: float
    misfit: float
    doubt: str | None


def _candidate_summary(one: Candidate) -> CandidateSummary:
    return {
        "name": one.name,
        "expected": estimate_summary(one.expected),
        "gain": estimate_summary(one.gain),
        "effective_size": one.effective_size,
        "misfit": one.misfit,
        "doubt": one.doubt,
    }
