"""evaluate: judge a policy from outside by a log, on one page: read, count, model, judge, prove -> Evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dualq.base import Label, door
from dualq.logs import Argument, Bins, Start
from dualq.offline.evaluation import Evaluation
from dualq.offline.given_policies import GivenPolicy, PolicyGiven, given_policy
from dualq.offline.judging import Judge, PolicyCertificate
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.number_evaluation import NumberEvaluation, NumberTask, evaluate_numbers
from dualq.offline.stages import Read, check_words, count, model, read
from dualq.offline.weighting import LEARNED_HERE, weighted_value


@door
def evaluate(
    log: object,
    policy: PolicyGiven,
    *,
    discount: float = 0.95,
    confidence: float = 0.95,
    start: Start = None,
    otherwise: Label | None = None,
    certificate: str | None = "proven",
    limits: LimitsGiven | None = None,
    value_range: tuple[float, float] | None = None,
    assume: str | Iterable[str] = (),
    progress: Callable[[str], None] | None = None,
    **columns: Argument,
) -> Evaluation | NumberEvaluation:
    """Judge a policy by a log: what it earns and costs, how it compares with what was done, and how sure that is.

    log           a Log, or anything that `read_log` reads when its columns have common names
    policy        a Policy or a Fit; {state: action} or {state: {action: probability}}; a function of the state, which
                  gets its label, or {column: value} where it has several columns, and gives an action; the path of a
                  policy.csv, of a .json or of a run; or a rule such as "order = 6 if stock <= 1 else 0"
    discount      what a reward one step later is worth
    confidence    of the certificate and of the intervals
    start         where value is measured, as in `learn`
    otherwise     what to do in states that the policy does not name: "logged", or an action
    certificate   "proven", "bootstrap" (approximate), or None
    limits        limits that the policy should keep, as in `learn`
    value_range   what values can be, if more is known than rewards say
    assume        what you vouch for where the log cannot tell, as in `learn`
    progress      called with the name of each stage when it begins
    columns       of `read_log`, where `log` is not opened yet

    Examples
    --------
    >>> import dualq
    >>> log = dualq.problems.two_state().record(steps=5000, seed=0)
    >>> e = dualq.evaluate(log, {0: 0, 1: 1}, discount=0.9)
    >>> e.difference.value > 0.0, e.certificate.lower <= e.expected.value <= e.certificate.upper
    (True, True)
    >>> dualq.evaluate(log, {0: 0, 1: 7}, discount=0.9)
    Traceback (most recent call last):
    dualq.base.errors.LogError: the policy: in state=1 it takes an action that the log does not have: no action 7; \
known are 0, 1
    """
    begin = progress or (lambda stage: None)
    assumed = checked_words(confidence, certificate, limits, assume)
    opened = read(log, discount, "auto", **columns)
    if opened.log is not None and opened.log.numbers:
        return evaluate_numbers(opened, policy, NumberTask(discount, confidence, start, limits, value_range), begin)
    begin("Counting the log's rows")
    counted = count(opened, start, discount)
    given = given_policy(policy, counted.counts, log_bins(opened), otherwise)
    begin("Judging (the first run also compiles)")
    judge = Judge.of(model(counted, discount), limits, confidence, certificate, value_range)
    return judged(judge, given, assumed, begin)


def checked_words(
    confidence: float, certificate: str | None, limits: LimitsGiven | None, assume: str | Iterable[str]
) -> tuple[str, ...]:
    """What the user vouches for; words that nobody knows are refused."""
    assumed = (assume,) if isinstance(assume, str) else tuple(assume)
    check_words("exact", confidence, certificate, limits, assumed)
    return assumed


def log_bins(opened: Read) -> Mapping[str, Bins]:
    """The bins of the log's columns."""
    return {} if opened.log is None else dict(opened.log.bins)


def judged(judge: Judge, given: GivenPolicy, assumed: tuple[str, ...], begin: Callable[[str], None]) -> Evaluation:
    """A policy, judged by a log that is ready."""
    if judge.method is not None:
        begin("Proving floor and ceiling")
    limits = judge.limits(given)
    promise = judge.certificate(given.table)
    modelled, counts = judge.modelled, judge.counts
    opened, where = modelled.counted.read, modelled.counted.where
    known = counts.reward_range, counts.range_known
    weighted = weighted_value(opened.log, given.table.matrix, modelled.discount, where, judge.confidence, *known)
    if weighted is not None and given.digest == counts.digest():
        weighted = LEARNED_HERE
    of_policy = None if promise is None else PolicyCertificate(promise)
    return Evaluation(judge, given, of_policy, limits, weighted, assumed)
