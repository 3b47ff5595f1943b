"""compare: several policies, what was done so far and what dualq learns, judged by one log, in one table.

Together   The bounds of the certificate hold for all policies at once: its events are about the rows of pairs, and no
           policy enters them (docs/certificate.md). So all floors and ceilings of a comparison hold together with the
           asked confidence, on one delta that is spent once, and those of the policy that is chosen because of them
           too.
Paired     All estimates rest on the same rows. The difference of any two has an error of its own (careful/given.py),
           which is smaller than the two would say.
Best       is the one with the highest estimate. It was chosen for that, so that its estimate is too high, the more
           the more policies there are. What can be said all the same, about k policies: with z the quantile at
           1 - (1 - confidence) / (k - 1) (Bonferroni; Hsu's comparisons with the best), for all others j together
               earns more than j by at least      difference_j - z error_j
               falls short of the best by at most  max_j (z error_j - difference_j, 0)
           approximately, as far as errors are; proven is  max_j upper_j - lower_best.
Luck       what was learned from this log has its luck taken off already (`learned_here`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from scipy.special import ndtri

from dualq.base import InfeasibleError, Label, LogError, door
from dualq.logs import Argument, Start
from dualq.model import TablePolicy
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.evaluating import checked_words, judged, log_bins
from dualq.offline.evaluation import Evaluation, made_folder, write_summary
from dualq.offline.given_policies import GivenPolicy, PolicyGiven, given_policy
from dualq.offline.judging import Judge
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.number_evaluation import NumberEvaluation, NumberJudge, NumberTask, judged_log, judged_rule
from dualq.offline.shapes import ComparisonSummary, Standing
from dualq.offline.shown import PagesOf, Shown
from dualq.offline.stages import Modelled, Read, count, model, read, solve
from dualq.offline.summary import estimate_summary
from dualq.proof import Ledger

AnyEvaluation: TypeAlias = Evaluation | NumberEvaluation

SO_FAR, LEARNED = "so far", "learned"  # what was logged, and what dualq learns from the log
COMPARISON = "comparison.json"


@door
def compare(
    log: object,
    policies: Mapping[str, PolicyGiven],
    *,
    discount: float = 0.95,
    confidence: float = 0.95,
    start: Start = None,
    otherwise: Label | None = None,
    certificate: str | None = "proven",
    limits: LimitsGiven | None = None,
    value_range: tuple[float, float] | None = None,
    assume: str | Iterable[str] = (),
    learned: bool = True,
    progress: Callable[[str], None] | None = None,
    **columns: Argument,
) -> Comparison:
    """Judge several policies by one log, beside what was done so far and what dualq learns from it.

    policies   {name: policy}, each as `evaluate` takes it
    learned    whether what dualq learns from the log is among them
    The other arguments are those of `evaluate`.

    Examples
    --------
    >>> import dualq
    >>> log = dualq.problems.two_state().record(steps=5000, seed=0)
    >>> c = dualq.compare(log, {"mine": {0: 0, 1: 1}, "yours": {0: 1, 1: 0}}, discount=0.9)
    >>> [name for name in c.names]
    ['learned', 'mine', 'so far', 'yours']
    """
    begin = progress or (lambda stage: None)
    _check_names(policies)
    assumed = checked_words(confidence, certificate, limits, assume)
    opened = read(log, discount, "auto", **columns)
    if opened.log is not None and opened.log.numbers:
        task = NumberTask(discount, confidence, start, limits, value_range)
        return Comparison(_of_numbers(opened, policies, task, learned, begin), confidence)
    begin("Counting the log's rows")
    counted = count(opened, start, discount)
    counts, bins = counted.counts, log_bins(opened)
    given = {name: given_policy(one, counts, bins, otherwise) for name, one in policies.items()}
    begin("Judging (the first run also compiles)")
    judge = Judge.of(model(counted, discount), limits, confidence, certificate, value_range, how_many=False)
    careful = judge.modelled.careful
    given[SO_FAR] = _of_log(counts.support.policy_to_log(careful.behaviour), SO_FAR)
    if learned:
        policy = _learned(judge.modelled, limits, confidence, certificate)
        given[LEARNED] = replace(_of_log(policy, LEARNED), digest=counts.digest())
    found = [replace(judged(judge, one, assumed, begin), name=name) for name, one in given.items()]
    return Comparison(tuple(found), confidence)


def _check_names(policies: Mapping[str, PolicyGiven]) -> None:
    if not isinstance(policies, Mapping) or not policies:
        raise LogError("compare needs {name: policy}, with one policy at least", argument="policies")
    for name in policies:
        if name in (SO_FAR, LEARNED):
            raise LogError(f"a policy is named {name!r}, which is in the comparison anyway; give it another name")


def _learned(modelled: Modelled, limits: LimitsGiven | None, confidence: float, certificate: str | None) -> TablePolicy:
    """What dualq learns, within the limits; without them, where none can keep them."""
    if limits is not None:
        try:
            return solve(modelled, "exact", limits, "certified", confidence, certificate).policy
        except InfeasibleError:
            pass
    return modelled.counted.counts.support.policy_to_log(modelled.careful.policy)


def _of_log(table: TablePolicy, name: str) -> GivenPolicy:
    words = {SO_FAR: "what was done so far", LEARNED: "what dualq learns from this log"}
    return GivenPolicy(table, words[name])


def _of_numbers(
    opened: Read, policies: Mapping[str, PolicyGiven], task: NumberTask, learned: bool, begin: Callable[[str], None]
) -> tuple[NumberEvaluation, ...]:
    """The same where states are made of numbers; what was done so far is judged by its own returns."""
    from dualq.offline.approximate.learning import Asked, learn_numbers

    judge = NumberJudge.of(opened, task, begin)
    begin("Judging the policies")
    found = [judged_rule(judge, one, name) for name, one in policies.items()]
    if learned:
        asked = Asked("auto", task.discount, task.confidence, task.start, task.limits, None)
        found.append(judged_rule(judge, learn_numbers(opened, asked, begin), LEARNED))
    return (*found, judged_log(judge, SO_FAR))


@door
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Policies that were judged by one log, the best first.

    c.names, c["mine"]     the policies by name, the highest estimate first; each is an `Evaluation`
    c.best                 the name of the first;  c.clear  whether it is better than every other, all together
    c.over(name)           what the best earns more than another, with the error of that difference
    c.at_least(name)       at least this much more, for all others together, approximately
    c.behind               by no more than this does the best fall short of any of the others, approximately
    c.behind_proven        the same, proven, under `conditions`
    c.table()              one row each
    c.report("page.html")
    """

    judged: tuple[AnyEvaluation, ...] = field(repr=False)
    confidence: float

    @cached_property
    def _order(self) -> dict[str, AnyEvaluation]:
        """By name, the highest estimate first; after them those without an error, and those that miss a limit."""
        keys = [
            (
                any(limit.basis == "missed" for limit in e.limits),
                e.expected.standard_error is None and not e.contradicted,
                -e.expected.value,
            )
            for e in self.judged
        ]
        return {self.judged[i].name: self.judged[i] for i in sorted(range(len(keys)), key=keys.__getitem__)}

    @property
    def names(self) -> list[str]:
        """The policies, the best first."""
        return list(self._order)

    def __getitem__(self, name: str) -> AnyEvaluation:
        if name not in self._order:
            raise LogError(f"no policy {name!r}; there are {', '.join(self.names)}")
        return self._order[name]

    def __iter__(self):
        return iter(self._order.values())

    @property
    def best(self) -> str:
        """The name of the policy with the highest estimate."""
        return self.names[0]

    @property
    def first(self) -> AnyEvaluation:
        """The best."""
        return self[self.best]

    @property
    def verdict(self) -> str:
        """ "clear": the best is better than all others together; "alike": all decide as it does; "cannot tell"; "do not
        use": the log speaks against how it was read.
        """
        if self.first.contradicted:
            return "do not use"
        if not self._others:
            return "alike"
        return "clear" if self.clear else "cannot tell"

    @cached_property
    def alike(self) -> list[str]:
        """The policies that take the same decisions as the best."""
        return [name for name in self.names[1:] if decide_alike(self.first, self[name])]

    @cached_property
    def _others(self) -> list[str]:
        """Those that do not decide as the best does."""
        return [name for name in self.names[1:] if name not in self.alike]

    def over(self, name: str) -> Estimate:
        """What the best is expected to earn more than another, with the error of that difference."""
        return paired(self.first, self[name])

    @property
    def quantile(self) -> float:
        """z: how many errors each of the differences from the best is given, so that all hold together."""
        return float(ndtri(1.0 - (1.0 - self.confidence) / max(len(self.judged) - 1, 1)))

    def at_least(self, name: str) -> float | None:
        """The best earns at least this much more, for all others together, approximately; None without an error."""
        gain = self.over(name)
        return None if gain.standard_error is None else gain.value - self.quantile * gain.standard_error

    @property
    def clear(self) -> bool:
        """Whether the best is better than every other that decides otherwise, all together; approximately."""
        least = [self.at_least(name) for name in self._others]
        return all(low is not None and low > 0.0 for low in least) and bool(least)

    @property
    def behind(self) -> float | None:
        """By no more than this does the best fall short of any of the others; None where an error is missing."""
        least = [self.at_least(name) for name in self._others]
        known = [low for low in least if low is not None]
        return None if len(known) < len(least) else max((-low for low in known), default=0.0) if known else 0.0

    @property
    def behind_proven(self) -> float | None:
        """The same, proven: the highest ceiling of the others less the floor of the best; None where nothing is."""
        if self.first.certificate is None or not self.promised:
            return None
        uppers = [e.certificate.upper for e in self if e.certificate is not None and e is not self.first]
        return max(max(uppers) - self.first.certificate.lower, 0.0) if uppers else 0.0

    @property
    def safest(self) -> str | None:
        """The name of the policy with the highest floor; the choice is covered: all floors hold together."""
        floors = {e.name: e.certificate.lower for e in self if e.certificate is not None and e.promised}
        return max(floors, key=floors.__getitem__) if floors else None

    @property
    def promised(self) -> bool:
        """Whether the bounds of all policies may be relied on, as far as the log itself can tell."""
        return all(e.promised for e in self)

    @property
    def withheld(self) -> tuple[str, ...]:
        """Why nothing is promised of some, in a few words each."""
        return tuple(dict.fromkeys(reason for e in self for reason in e.withheld))

    @property
    def ledger(self) -> Ledger | None:
        """What 1 - confidence was spent on: once, for all policies."""
        promise = self.first.certificate
        return None if promise is None else promise.ledger

    def table(self) -> list[Standing]:
        """A row for each policy, the best first."""
        return [self._standing(e) for e in self]

    def _standing(self, e: AnyEvaluation) -> Standing:
        promise, best = e.certificate, e is self.first
        return {
            "name": e.name,
            "expected": estimate_summary(e.expected),
            "over_so_far": estimate_summary(e.difference),
            "behind_best": None if best else estimate_summary(self.over(e.name)),
            "behind_at_least": None if best else self.at_least(e.name),
            "lower": None if promise is None else promise.lower,
            "upper": None if promise is None else promise.upper,
            "promised": e.promised,
            "unsupported": e.unsupported,
            "limits_kept": e.limits_kept,
            "costs": {name: estimate_summary(of.policy) for name, of in e.costs.items()},
            "verdict": e.verdict,
        }

    def summary(self) -> ComparisonSummary:
        """As plain values: what --json prints."""
        return {
            "best": self.best,
            "safest": self.safest,
            "verdict": self.verdict,
            "clear": self.clear,
            "alike": self.alike,
            "behind": self.behind,
            "behind_proven": self.behind_proven,
            "confidence": self.confidence,
            "promised": self.promised,
            "withheld": list(self.withheld),
            "ledger": None if self.ledger is None else self.ledger.summary(),
            "table": self.table(),
            "policies": [dict(e.summary()) for e in self],
        }

    @property
    def _pages(self) -> PagesOf:
        from dualq.app import ComparisonPages

        return ComparisonPages(self)

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write comparison.json into a folder; its path."""
        path = made_folder(folder) / COMPARISON
        write_summary(path, self.summary())
        return [str(path)]


def decide_alike(one: AnyEvaluation, other: AnyEvaluation) -> bool:
    """Whether two policies take the same decisions wherever the log was."""
    if isinstance(one, Evaluation) and isinstance(other, Evaluation):
        return one.decides_as(other)
    if isinstance(one, NumberEvaluation) and isinstance(other, NumberEvaluation):
        return one.decides_as(other)
    return False


def paired(one: AnyEvaluation, other: AnyEvaluation) -> Estimate:
    """What one policy earns more than another on the same log."""
    if isinstance(one, Evaluation) and isinstance(other, Evaluation):
        return one.better_than(other)
    if isinstance(one, NumberEvaluation) and isinstance(other, NumberEvaluation):
        return one.better_than(other)
    raise LogError("one policy was judged on labels and the other on numbers; judge both on one log")
