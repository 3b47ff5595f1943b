"""learn, where states are made of numbers: rows -> candidates -> judged alike -> one of them -> NumberFit.

    partition   a table of cells, found by what they predict (partition.py)
    linear      the saddle problem in linear features (linear.py)
    neural      the saddle problem in small networks (neural.py; needs the extra `neural`)
    auto        all of these that are installed; the rule of candidates.py chooses
The clone, which does what was logged, is always a candidate; so is the vote of those that are better.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from dualq.base import LARGEST, InfeasibleError, Label, LogError, States, count, pip_install
from dualq.logs import Finding, Log, NumberRows, Start, number_checks
from dualq.model import Rule, Words
from dualq.offline.approximate.asked import Asked
from dualq.offline.approximate.candidates import CLONE, DOUBTED, Candidate, Choice, choose, name_of_vote, voters
from dualq.offline.approximate.cells import CellFit, CellTable, cell_table, doubts
from dualq.offline.approximate.evaluation import (
    LEAST_EFFECTIVE,
    Apart,
    Honest,
    Judges,
    Learner,
    honest,
    judges,
    learned_apart,
)
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.approximate.linear import clone, learned_in, learned_linear, learned_quickly
from dualq.offline.approximate.logged import Logged, logged
from dualq.offline.approximate.neural import learned_neural
from dualq.offline.approximate.partition import EARLY, FEWEST, earlier_and_later
from dualq.offline.approximate.price_search import (
    PricedLimit,
    check_kept,
    limits_on,
    no_surer_than_counted,
    priced,
    searched,
)
from dualq.offline.approximate.rules import VoteRule
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.stages import Read

Array = np.ndarray
Begin = Callable[[str], None]

FEWEST_ROWS = 20
MOST_LABELS = 200  # of a category: each is a feature of its own
FEW_WORDS = 0.25  # of the rows: more than that are no slips among numbers
SAMPLE = 5_000  # rows that a fit keeps, for explanations
LEVEL = 0.01  # of all checks together
NEURAL = ("jax", "optax")
MISSING = f"the neural learner was not tried: it needs JAX ({pip_install('neural')})"
CELLS = round(2 * FEWEST / EARLY)  # rows of a log, in half of which cells can be found
ONE_ACTION = "the log has one action only, so that every policy does what was done so far"
LIMITED = "with limits only the linear learner is tried (each price is learned anew); without them dualq tries all"
TOO_FEW = f"the partition learner was not tried: it needs about {CELLS:,} rows"


def learn_numbers(opened: Read, asked: Asked, begin: Begin) -> NumberFit:
    """Learn from a log whose state has numbers."""
    log = opened.log
    if log is None:
        raise LogError("this fit was loaded, and its log was not saved with it; learn from the log again")
    log.check_ends()
    begin("Reading the log's rows")
    trace, rows = log.trace(), log.number_rows()  # a log of numbers is read once for both
    check_rows(rows)
    check_labels(rows)
    where, starts = starts_of(rows, asked.start, asked.discount)
    begin("Checking the log")
    findings = number_checks(trace, LEVEL)  # before anything is learned: memory for both would be the most of all
    del trace
    task = Task(log, rows, findings, asked, starts, begin)
    names, remarks = _learners(asked, rows)
    found, limits = _learned(task, names)
    begin("Judging what was learned")
    candidates = [task.judged(name, one) for name, one in found.items()]
    if not limits and (voting := voters(candidates)):
        name = name_of_vote(voting)
        found[name] = vote_of([found[one.name] for one in voting], [one.worth for one in voting])
        candidates.insert(-1, task.judged(name, found[name]))  # the clone stays the last
    choice = Choice(0, _kept(names[0], candidates)) if limits else choose(candidates)
    chosen = candidates[choice.place]
    cells = task.cells if chosen.learner == "partition" else None
    costs = task.costs(found[chosen.name]) | ({} if cells is None else cells.costs)
    candidates[choice.place] = chosen = replace(chosen, costs=costs)
    begin("Explaining")
    return NumberFit(
        read=opened,
        columns=rows.columns,
        actions=rows.actions,
        candidates=tuple(candidates),
        choice=choice,
        logged=task.earned,
        discount=asked.discount,
        confidence=asked.confidence,
        where=where,
        asked=asked.approximation,
        rows=len(rows),
        left_out=log.left_out,
        findings=findings,
        sample=_sample(rows, asked.seed),
        limits=tuple(limits),
        cells=None if cells is None else cells.fit,
        inside=None if cells is None else cells.inside,
        remarks=(*remarks, *([ONE_ACTION] if len(rows.actions) == 1 else [])),
    )


def _learned(task: Task, names: Sequence[str]) -> tuple[dict[str, Apart], Sequence[PricedLimit]]:
    """What learners give and, last, the clone; and what became of limits."""
    found: dict[str, Apart] = {}
    limits: Sequence[PricedLimit] = ()
    if task.asked.limits is not None and names != ["partition"]:
        found, limits = task.limited(names[0], limits_on(task.rows, task.asked.limits))
    else:
        if task.asked.limits is not None:
            limits = task.cells.limits
            check_kept(limits, bool(task.doubts(task.cells)))  # before halves are learned
        last = sorted(names, key="neural".__eq__)  # JAX, once it is loaded, stays in memory
        learned = {name: task.learned(name) for name in last}
        found = {rule: one for name in names for rule, one in learned[name].items()}
    clone = found.pop(CLONE, None) or task.learned(CLONE)[CLONE]  # the linear learner has one
    return {**found, CLONE: clone}, limits


def vote_of(voting: Sequence[Apart], weights: Sequence[float]) -> Apart:
    """The vote of rules; those of the halves vote with the same weights."""
    return Apart(*(VoteRule(rules, tuple(weights)) for rules in zip(*voting, strict=True)))


def _kept(learner: str, candidates: Sequence[Candidate]) -> str:
    first, *others = candidates  # of limits nothing is asked but of the first
    if all(one.expected.value <= first.expected.value for one in others):
        return f"The {learner} policy is expected to keep the limits, and to earn the most of those that were tried."
    return f"The {learner} policy is expected to keep the limits; the clone, of which that was not asked, earns more."


def check_rows(rows: NumberRows) -> None:
    """A LogError where rows are too few for any function, or numbers too large to be squared."""
    if len(rows) < FEWEST_ROWS:
        wrong = f"{count(len(rows), 'row')} with a known next state: too few to learn a function of numbers"
        raise LogError(f"{wrong}; {FEWEST_ROWS} are needed")
    numbers = dict(zip(rows.columns.numbers, rows.state.numbers.T, strict=True))
    for name, x in {**numbers, "the reward": rows.r, **rows.costs}.items():
        if (largest := float(np.abs(x).max())) > LARGEST:
            raise LogError(f"{name} is {largest:g} somewhere; numbers beyond {LARGEST:g} must be corrected or left out")


def check_labels(rows: NumberRows) -> None:
    """A LogError where a category has so many labels that nothing can be learned of each."""
    for (name, labels), places in zip(rows.columns.categories.items(), rows.state.categories.T, strict=True):
        if len(labels) > MOST_LABELS:
            wrong = (
                f"{name!r} has {len(labels):,} different labels in {len(rows):,} rows; as a category of the state it"
            )
            right = "leave it out, or make a number or fewer labels of it"
            words = [place for place, label in enumerate(labels) if not _is_number(label)]
            if words and 0 < (many := int(np.isin(places, words).sum())) <= FEW_WORDS * len(rows):
                right = f"in {count(many, 'row')} it holds words, such as {labels[words[0]]!r}, and else numbers; "
                right += "correct them, or set such rows aside with skip_bad=True (--skip-bad)"
            raise LogError(f"{wrong} may have at most {MOST_LABELS}: {right}", argument="state", column=name)


def _is_number(label: Label) -> bool:
    try:
        return math.isfinite(float(str(label)))
    except ValueError:
        return False


def _learners(asked: Asked, rows: NumberRows) -> tuple[list[str], list[str]]:
    """Which learners are tried; and what to say of those that are not."""
    few = asked.of_cells and not _enough_for_cells(rows, asked.seed)
    if few and asked.approximation == "partition":
        right = "learn with approximation linear, or cut the numbers into bins"
        raise LogError(f"cells need about {CELLS:,} rows, and the log has {len(rows):,}; {right}")
    if asked.approximation != "auto":
        return [asked.approximation], []
    if asked.limits is not None:
        return ["linear"], [LIMITED]
    networks = all(importlib.util.find_spec(name) for name in NEURAL)
    names = [*(["neural"] if networks else []), "linear", *([] if few else ["partition"])]
    return names, [*([] if networks else [MISSING]), *([TOO_FEW] if few else [])]


def _enough_for_cells(rows: NumberRows, seed: int) -> bool:
    """Whether cells can be found in the earlier rows of the log and of its halves."""
    return all(len(earlier_and_later(part)[0]) >= FEWEST for part in (rows, *rows.halves(seed)))


def starts_of(rows: NumberRows, start: Start, discount: float) -> tuple[str, States]:
    """Where value is measured: in a word, and as states; one decision per case is measured over all rows."""
    if start is None:
        start = "episodes" if rows.has_episodes and discount > 0.0 else "log"
    if start == "episodes" and not rows.has_episodes:
        raise LogError("start is 'episodes', but the log does not say where episodes begin; use \"log\"")
    if isinstance(start, str) and start in ("episodes", "log"):
        return start, rows.starts if start == "episodes" else rows.state
    if isinstance(start, Mapping):
        return "as given", rows.columns.coded({str(name): np.atleast_1d(values) for name, values in start.items()})
    right = '"episodes", "log", or a table of states: {column: values}'
    raise LogError(f"start is {start!r}; where states are made of numbers it must be {right}", argument="start")


def _price_words(prices: Sequence[float]) -> str:
    word = "price" if len(prices) == 1 else "prices"
    return f"{word} {', '.join(f'{price:.3g}' for price in prices)}"


def _sample(rows: NumberRows, seed: int) -> NumberRows:
    """Some of the rows, drawn at random, in their order."""
    rows = replace(rows, propensity=None)  # which nobody asks of a sample
    if len(rows) <= SAMPLE:
        return rows
    return rows.at(np.sort(np.random.default_rng(seed).choice(len(rows), SAMPLE, replace=False)))


# ---- learners, all of one shape


def _neural(rows: NumberRows, discount: float, seed: int) -> dict[str, Rule]:
    found = learned_neural(rows, discount, seed)
    return {f"neural, {name}": rule for name, rule in found.items() if name != CLONE}


def _clone(rows: NumberRows, discount: float, seed: int) -> dict[str, Rule]:
    return {CLONE: clone(rows, seed)}


LEARNERS: dict[str, Learner] = {"neural": _neural, CLONE: _clone}


@dataclass(frozen=True, eq=False)
class Task:
    """Rows, where value is measured, and what the log earned: all that candidates are judged by."""

    log: Log
    rows: NumberRows
    findings: tuple[Finding, ...]  # what the log says of the way it was read
    asked: Asked
    start: States
    begin: Begin

    @cached_property
    def judges(self) -> Judges:
        """Who values all candidates."""
        return judges(self.rows, self.asked.discount, self.start, self.asked.seed)

    @cached_property
    def logged(self) -> Logged:
        """What the log earned."""
        return logged(self.rows, self.asked.discount, self.start, self.asked.seed)

    @property
    def earned(self) -> Estimate:
        """The same as an estimate."""
        return Estimate(self.logged.value, self.logged.standard_error)

    @cached_property
    def table(self) -> CellTable:
        """The table of the cells."""
        asked = self.asked
        limits, start = asked.limits, self.start if isinstance(asked.start, Mapping) else asked.start
        proof = asked.certificate, asked.seed, asked.known
        return cell_table(self.rows, asked.discount, asked.confidence, start, limits, *proof)

    @cached_property
    def cells(self) -> CellFit:
        """The same with its certificate; where that guarantees no limits, the policy that is expected to keep them."""
        asked, limits = self.asked, self.asked.limits
        if self.table.limits_proven:
            found = self._proven(self.table)
            if limits is None or not self.doubts(found):
                return found
        assert limits is not None
        return self._proven(self.table.expecting(limits, asked.confidence, asked.certificate, asked.known.looks))

    def _proven(self, table: CellTable) -> CellFit:
        return table.proven(self.asked.confidence, self.asked.certificate, self.asked.known)

    def doubts(self, cells: CellFit) -> tuple[str, ...]:
        """Why nothing is promised of them."""
        contradicted = tuple(dict.fromkeys(finding.what for finding in self.findings if finding.found))
        return doubts(cells.fit, cells.inside, contradicted, len(self.rows), self.log.left_out)

    def learned(self, learner: str) -> dict[str, Apart]:
        """The policies of a learner."""
        self.begin("Imitating what was done so far" if learner == CLONE else f"Learning ({learner})")
        ways = {**LEARNERS, "partition": self._of_cells, "linear": self._linear}
        return learned_apart(self.rows, ways[learner], self.asked.discount, self.asked.seed)

    def _linear(self, rows: NumberRows, discount: float, seed: int) -> dict[str, Rule]:
        """In waves, or in the features that the user gave."""
        given = self.asked.features
        found = learned_linear(rows, discount, seed) if given is None else learned_in(given, rows, discount, seed)
        named = {"linear": "linear", "linear, dual": "dual", "linear, iterated": "iterated", CLONE: "clone"}
        return {name: found[rule] for name, rule in named.items()}

    def _quickly(self, rows: NumberRows, discount: float, seed: int) -> dict[str, Rule]:
        found = learned_quickly(rows, discount, seed, self.asked.features)
        return {"linear": found["linear"], "linear, dual": found["dual"]}

    def _of_cells(self, rows: NumberRows, discount: float, seed: int) -> dict[str, Rule]:
        """The policy of the cells; with limits, the one that keeps them."""
        limits = self.asked.limits
        if rows is self.rows:
            return {"partition": self.table.rule if limits is None else self.cells.rule}
        margin = "certified" if limits is None else self.cells.fit.solved.margin or "certified"
        return {"partition": cell_table(rows, discount, limits=limits, seed=seed, margin=margin).rule}

    def judged(self, name: str, learned: Apart) -> Candidate:
        """As a candidate; one at a time, since what it takes to judge is large."""
        one = honest(learned, self.judges)
        error = one.standard_error if one.effective_size >= LEAST_EFFECTIVE else None
        apart = None if error is None else one.error_of_difference(self.logged.evaluation)
        rough = None if name == CLONE else one.rough_error  # what was done is none to try
        return Candidate(
            name=name,
            rule=one.rule,
            expected=Estimate(one.value, error),
            gain=Estimate(one.value - self.logged.value, apart),
            effective_size=one.effective_size,
            misfit=one.full.misfit,
            values=one.full.values,
            carried=one.full.carried,
            rough_error=None if rough is None else one.error_of_difference(self.logged.evaluation),
        )

    def costs(self, learned: Apart) -> dict[str, Estimate]:
        """All of the log, on average per step."""
        if not self.rows.costs:
            return {}
        one = honest(learned, self.judges)
        return {cost: self._cost(one, cost) for cost in self.rows.costs}

    def _cost(self, one: Honest, cost: str) -> Estimate:
        found, step = one.cost(cost), 1.0 - self.asked.discount
        error = found.standard_error if one.effective_size >= LEAST_EFFECTIVE else None
        mean = Estimate(step * found.value, None if error is None else step * error)
        return no_surer_than_counted(mean, self.rows.costs[cost], max(one.effective_size * len(self.rows), 2.0))

    # ---- limits

    def limited(self, learner: str, bounds: Sequence[Words]) -> tuple[dict[str, Apart], list[PricedLimit]]:
        """The policy that keeps the limits at the lowest prices, and what became of these.

        Each of a learner's policies has prices of its own: the dual one, near to what was done, can be told where the
        best action cannot. Of those that keep the limits, the one that is worth the most.
        """
        names = ["neural, tilted"] if learner == "neural" else ["linear", "linear, dual"]  # the most even of networks
        way = self._quickly if learner == "linear" else LEARNERS[learner]

        @cache
        def learned_at(*prices: float) -> dict[str, Apart]:
            self.begin(f"Learning ({learner}) at {_price_words(prices)}")

            def dear(rows: NumberRows, discount: float, seed: int) -> dict[str, Rule]:
                return way(priced(rows, bounds, np.array(prices)), discount, seed)

            return learned_apart(self.rows, dear, self.asked.discount, self.asked.seed)

        def costs(one: Honest) -> dict[str, Estimate]:
            return {bound.name: self._cost(one, bound.name) for bound in bounds}

        kept: list[tuple[str, Honest, Array]] = []
        missed: list[InfeasibleError] = []
        for name in names:
            try:
                found = searched(
                    self.rows,
                    bounds,
                    lambda prices, name=name: honest(learned_at(*prices.tolist())[name], self.judges),
                    costs,
                )
                kept.append((name, *found))
            except InfeasibleError as error:
                missed.append(error)
        if not kept:
            raise missed[-1]
        name, one, prices = max(kept, key=lambda each: each[1].value - DOUBTED * each[1].error)
        found = costs(one)
        return {name: learned_at(*prices.tolist())[name]}, [
            PricedLimit(bound.name, bound.sense, bound.bound, found[bound.name], self._logged_cost(bound.name), p)
            for bound, p in zip(bounds, prices.tolist(), strict=True)
        ]

    def _logged_cost(self, cost: str) -> Estimate:
        rows, step = self.rows.earning(self.rows.costs[cost]), 1.0 - self.asked.discount
        found = logged(rows, self.asked.discount, self.start, self.asked.seed)
        return Estimate(step * found.value, step * found.standard_error)
