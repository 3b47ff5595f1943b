"""evaluate, where states are made of numbers: a rule from outside, valued by the dual of the saddle problem.

A rule is a function of the state's columns: a Python function, a line such as `order = 6 if stock <= 1 else 0`, or what
was learned elsewhere over numbers. approximate/evaluation.py values it from the rows alone, doubly robust, with its
error; approximate/logged.py says what the log itself earned, by the same clusters of rows, so that the difference has
an error of its own. Nothing is promised of functions of numbers, but by the propensities of a log that has them
(weighting.py): these need no model. What stands for it:

    effective_size   the share of the rows that count for the rule; below 2% it goes where the log never was
    misfit           what a forest still predicts of what is left over; above 5 % no error is given
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dualq._version import __version__
from dualq.base import LogError, States, door
from dualq.logs import Finding, NumberRows, Start, number_checks
from dualq.model import FunctionPolicy, Rule
from dualq.offline.approximate.candidates import Candidate
from dualq.offline.approximate.evaluation import LEAST_EFFECTIVE, Evaluator, most_misfit
from dualq.offline.approximate.evaluation import Evaluation as Found
from dualq.offline.approximate.fit import BEYOND
from dualq.offline.approximate.learning import LEVEL, check_labels, check_rows, starts_of
from dualq.offline.approximate.logged import Logged, logged
from dualq.offline.approximate.price_search import limits_on
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.evaluation import EVALUATION, limit_summary, made_folder, write_summary
from dualq.offline.given_policies import PolicyGiven
from dualq.offline.judging import CostOf, GivenLimit, scaled
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.number_policies import number_rule
from dualq.offline.shown import PagesOf, Shown
from dualq.offline.stages import Read
from dualq.offline.summary import estimate_summary
from dualq.offline.trust import AGAINST, verdict
from dualq.offline.weighting import LEARNED_HERE, Weighted, doubts, weighted_rule, weighted_summary

Array = np.ndarray


@dataclass(frozen=True)
class NumberTask:
    """What is asked of a log of numbers."""

    discount: float
    confidence: float
    start: Start
    limits: LimitsGiven | None
    value_range: tuple[float, float] | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class NumberJudge:
    """A log of numbers, ready to value rules."""

    read: Read
    rows: NumberRows
    task: NumberTask
    where: str
    start: States
    findings: tuple[Finding, ...]
    left_out: tuple[int, int]

    @classmethod
    def of(cls, opened: Read, task: NumberTask, begin: Callable[[str], None]) -> NumberJudge:
        """Read a log's rows, and test them."""
        log = opened.log
        if log is None:
            raise LogError("the log's rows were not saved; open the log again")
        if task.value_range is not None:
            raise LogError("value_range is for proofs, and of a function of numbers nothing is proven; leave it out")
        log.check_ends()
        begin("Reading the log's rows")
        trace, rows = log.trace(), log.number_rows()  # a log of numbers is read once for both
        check_rows(rows)
        check_labels(rows)
        where, start = starts_of(rows, task.start, task.discount)
        return cls(opened, rows, task, where, start, number_checks(trace, LEVEL), log.left_out)

    @cached_property
    def logged(self) -> Logged:
        """What the log earned."""
        return logged(self.rows, self.task.discount, self.start, self.task.seed)

    @cached_property
    def _by(self) -> Evaluator:
        return Evaluator.of(self.rows, self.task.discount, self.start, self.task.seed)

    def found(self, rule: Rule) -> Found:
        """The value of a rule."""
        return self._by.weighed(rule).earning(self._by.rows.r)

    @cached_property
    def logged_costs(self) -> dict[str, Logged]:
        """What the log cost."""
        rows, task = self.rows, self.task
        return {
            name: logged(rows.earning(cost), task.discount, self.start, task.seed) for name, cost in rows.costs.items()
        }


def evaluate_numbers(
    opened: Read, policy: PolicyGiven, task: NumberTask, begin: Callable[[str], None]
) -> NumberEvaluation:
    """Judge a rule by a log whose state has numbers."""
    judge = NumberJudge.of(opened, task, begin)
    begin("Judging the policy")
    return judged_rule(judge, policy)


def judged_log(judge: NumberJudge, name: str) -> NumberEvaluation:
    """What was logged, by its own returns, beside rules that were judged."""
    return NumberEvaluation(judge, "what was done so far", None, judge.logged.evaluation, name=name)


def judged_rule(judge: NumberJudge, policy: PolicyGiven, name: str = "this policy") -> NumberEvaluation:
    """A rule, however it is given, judged by a log that is ready."""
    given = number_rule(policy, judge.rows, judge.task.discount, judge.where, judge.logged.value)
    found = judge.found(given.rule)
    return NumberEvaluation(judge, given.source, given.rule, found, given.learned, given.chosen_here, name)


@door
@dataclass(frozen=True, eq=False, repr=False)
class NumberEvaluation(Shown):
    """What a log of numbers says of a rule; nothing is promised."""

    judge: NumberJudge = field(repr=False)
    source: str  # of the policy
    rule: Rule | None = field(repr=False)  # None: what was logged
    found: Found = field(repr=False)
    learned: Candidate | None = None  # of the fit that learned it from this very log
    chosen_here: bool = False  # whether these rows chose it, for whatever question
    name: str = "this policy"
    version: str = __version__

    approximation = "numbers"
    certificate = None  # of a function of numbers nothing can be proven from a log alone
    promised = False
    unsupported = None  # a share of decisions is told by `effective_size` here

    @property
    def read(self) -> Read:
        """The log, and how it was understood."""
        return self.judge.read

    @property
    def policy(self) -> FunctionPolicy:
        """The policy that was judged."""
        if self.rule is None:
            raise LogError("what was logged is no rule; `learn` imitates it where nothing better is found")
        return FunctionPolicy(self.judge.rows.columns, self.judge.rows.actions, self.rule)

    @property
    def learned_here(self) -> bool:
        """Whether it was learned from this very log: then its value is that of `learn`, without its luck."""
        return self.learned is not None

    @property
    def confidence(self) -> float:
        """Of intervals."""
        return self.judge.task.confidence

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The assumptions that the log speaks against."""
        return tuple(dict.fromkeys(finding.what for finding in self.judge.findings if finding.found))

    @property
    def withheld(self) -> tuple[str, ...]:
        """Why nothing is promised."""
        return (*(AGAINST[what] for what in self.contradicted), BEYOND)

    # ---- numbers

    def _believed(self, value: float, error: float | None) -> Estimate:
        found = self.found
        usable = self.rule is None or (found.covered and found.standard_error is not None)
        return Estimate(value, error if usable and not self.contradicted else None)

    @cached_property
    def expected(self) -> Estimate:
        """What the rule is expected to earn; no error where it may not be believed."""
        if self.learned is not None:
            return self._believed(self.learned.expected.value, self.learned.expected.standard_error)
        return self._believed(self.found.value, self.found.error)

    @property
    def logged(self) -> Estimate:
        """What the log itself earned."""
        return Estimate(self.judge.logged.value, None if self.contradicted else self.judge.logged.standard_error)

    @cached_property
    def difference(self) -> Estimate:
        """Of the two, with its own error: they rest on the same rows."""
        if self.learned is not None:
            return self._believed(self.learned.gain.value, self.learned.gain.standard_error)
        error = self.found.error_of_difference(self.judge.logged.evaluation)
        return self._believed(self.found.value - self.judge.logged.value, error)

    def better_than(self, other: NumberEvaluation) -> Estimate:
        """What the rule earns more than another one on the same log, with the error of that difference."""
        if self.decides_as(other):
            return Estimate(0.0, 0.0)
        error = self.found.error_of_difference(other.found)
        for one in (self, other):
            if one.learned is not None:
                luck = one.learned.expected.error_or_nan**2 - one.found.error**2
                error = float(np.sqrt(error**2 + max(luck, 0.0)))
        gain = self._believed(self.expected.value - other.expected.value, error)
        return gain if other.expected.standard_error is not None else Estimate(gain.value, None)

    def decides_as(self, other: NumberEvaluation) -> bool:
        """Whether both take the same decisions in every row of the log; of what was logged nobody can tell."""
        if self.rule is None or other.rule is None:
            return self is other
        state = self.judge.rows.state
        return np.allclose(self.rule(state), other.rule(state), rtol=0.0, atol=1e-9)

    @cached_property
    def weighing(self) -> Weighted | str | None:
        """Its value by the log's own returns, where propensities were recorded (weighting.py); or why not."""
        judge = self.judge
        if self.rule is None or judge.rows.propensity is None:
            return None
        if self.chosen_here:
            return LEARNED_HERE
        return weighted_rule(judge.rows, self.rule, judge.task.discount, judge.where, self.confidence)

    @property
    def weighted(self) -> Weighted | None:
        """The same; None where there are no propensities, or they are no use."""
        return self.weighing if isinstance(self.weighing, Weighted) else None

    @property
    def effective_size(self) -> float:
        """The share of the rows that count for the rule."""
        return self.found.effective_size

    @property
    def misfit(self) -> float:
        """What is left over and can still be foretold; more than a little, and the value is not to be believed."""
        return self.found.misfit

    @property
    def most_misfit(self) -> float:
        """How much of that so many rows bear."""
        return most_misfit(len(self.judge.rows))

    @cached_property
    def costs(self) -> dict[str, CostOf]:
        """{cost: what a step costs on average, from the start}."""
        return {name: self._cost(name) for name in self.judge.rows.costs}

    def _cost(self, name: str) -> CostOf:
        step, usual = 1.0 - self.judge.task.discount, self.judge.logged_costs[name]
        mine = usual.evaluation if self.rule is None else self.found.cost(name)
        apart = mine.error_of_difference(usual.evaluation)
        each = (
            self._believed(mine.value, mine.error),
            Estimate(usual.value, usual.standard_error),
            self._believed(mine.value - usual.value, apart),
        )
        return CostOf(*(scaled(e, step) for e in each))

    @cached_property
    def limits(self) -> tuple[GivenLimit, ...]:
        """Which of the limits are expected to be kept; nothing is promised."""
        asked = self.judge.task.limits
        return () if asked is None else tuple(self._limit(w) for w in limits_on(self.judge.rows, asked))

    def _limit(self, words: object) -> GivenLimit:
        name, sense, bound = words.name, words.sense, words.bound  # pyright: ignore[reportAttributeAccessIssue]
        cost = self.costs[name]
        beyond = (cost.policy.value - bound) * (1.0 if sense == "<=" else -1.0)
        text, basis = f"{name} {sense} {bound:g}", "estimated" if beyond <= 0.0 else "missed"
        return GivenLimit(name, text, sense, bound, cost.policy, cost.logged.value, None, None, False, basis)

    @property
    def limits_kept(self) -> bool:
        """Whether every limit is promised: never for functions of numbers; True where there are none."""
        return not self.limits

    @property
    def verdict(self) -> str:
        """One of "better", "no worse", "cannot tell" and "do not use"."""
        mine = Estimate(self.expected.value, self.difference.standard_error)
        against = bool(self.contradicted)
        usual = Estimate(self.logged.value, 0.0)
        return verdict(mine, usual, contradicted=against, promised_gain=0.0, as_logged=self.rule is None)

    @property
    def warnings(self) -> list[str]:
        """What to know before trusting any of it."""
        found = [finding.words for finding in self.judge.findings if finding.found]
        if self.rule is None:
            return found
        if not self.found.covered:
            found.append(
                f"only {self.effective_size:.1%} of the log's rows count for the policy (less than "
                f"{LEAST_EFFECTIVE:.0%}): it goes where the log never was, and no error is given"
            )
        elif not self.found.carried:
            found.append("the value is no function of these columns, as far as the rows tell: no error is given")
        return found + doubts(self.weighing, self.expected.value)

    # ---- what leaves the room

    def summary(self) -> dict[str, object]:
        """The settings and the numbers, as plain values: what --json prints and evaluation.json keeps."""
        judge = self.judge
        return {
            "policy": self.source,
            "name": self.name,
            "source": self.read.source,
            "columns": dict(self.read.columns),
            "numbers": list(judge.rows.columns.numbers),
            "discount": judge.task.discount,
            "start": judge.where,
            "confidence": self.confidence,
            "version": self.version,
            "rows": len(judge.rows),
            "actions": len(judge.rows.actions),
            "expected": estimate_summary(self.expected),
            "logged": estimate_summary(self.logged),
            "difference": estimate_summary(self.difference),
            "effective_size": self.effective_size,
            "misfit": None if self.rule is None else self.misfit,
            "weighted": weighted_summary(self.weighing),
            "not_weighted": self.weighing if isinstance(self.weighing, str) else None,
            "certificate": None,
            "verdict": self.verdict,
            "promised": False,
            "withheld": list(self.withheld),
            "contradicted": list(self.contradicted),
            "warnings": self.warnings,
            "learned_here": self.learned_here,
            "limits": [limit_summary(limit) for limit in self.limits],
            "limits_kept": self.limits_kept,
            "costs": {
                name: {which: estimate_summary(e) for which, e in of._asdict().items()}
                for name, of in self.costs.items()
            },
        }

    @property
    def _pages(self) -> PagesOf:
        from dualq.app import EvaluationPages

        return EvaluationPages(self)

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write evaluation.json into a folder; its path."""
        path = made_folder(folder) / EVALUATION
        write_summary(path, self.summary())
        return [str(path)]
