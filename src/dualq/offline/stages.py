"""The five stages of learning, each a frozen value: to look at, to keep, and to go on from.

    Read       a log, and how it was understood                                                        read
    Counted    what it says of a model: counts, what it cannot tell, where value is measured           count
    Modelled   the careful model of it and the policy that is best there; what its episodes earned     model
    Solved     the saddle point, the policy that is recommended, what became of the limits             solve
    Proven     what can be promised of it                                                              prove

A stage holds the one before it. What changes later repeats nothing earlier: other limits are `solve` and `prove` on the
same Modelled (`fit.with_limits`). Nothing is changed in place, so whoever stops between two stages leaves nothing half
done, and can go on from the last value he has.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dualq._version import __version__
from dualq.base import Begin, LogError, few, silent
from dualq.logs import (
    ROW,
    Argument,
    Counts,
    Coverage,
    Finding,
    Log,
    OpenEnds,
    Start,
    counts_in_blocks,
    open_ends_of,
    read_log,
    reading_of,
    returns_of,
    start_weights,
)
from dualq.model import Solution, TablePolicy
from dualq.offline.careful.clusters import Groups
from dualq.offline.careful.model import Careful, careful_model, checked_strength
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates
from dualq.offline.limited.parsing import LimitsGiven, asked_for
from dualq.offline.limited.search import SHARE_OF_VALUE, LimitOutcome, keep, program_gap
from dualq.offline.solving import SOLVERS, on_log
from dualq.offline.trust import ASSUMPTIONS
from dualq.proof import (
    Certificate,
    Ledger,
    Wanted,
    certified,
    check_confidence,
    check_method,
    merged_counts,
    one_of,
    paid_at_the_end,
    question_of,
)
from dualq.solvers import duality_gap

Array = np.ndarray

LASTING = 200_000  # entries of counts from which on a stage takes many seconds, and its parts are named


# ---- 1 · Read


@dataclass(frozen=True, eq=False)
class Read:
    """A log, and how it was understood."""

    source: str
    columns: dict[str, list[str]]  # {part: columns}
    guessed: dict[str, list[str]]  # those that nobody named
    bins: dict[str, list[float]]  # {column: edges}
    quarantine: str | None  # the file of the rows that were set aside
    reading: dict[str, object] = field(default_factory=dict, repr=False)  # arguments of read_log, for more such rows
    log: Log | None = field(default=None, repr=False)  # None where a fit was loaded: its rows were not saved


def read(log: object, discount: float = 0.95, approximation: str = "table", **columns: Argument) -> Read:
    """Open a log; where nothing that comes later counts, and no word was said of it, every row is a case of its own.

    approximation   all but "table": numbers that hardly come again stay numbers, unless bins are given for some
    """
    if not isinstance(log, Log):
        later = (columns.get(part) for part in ("next_state", "time", "episode", "terminal", "truncated"))
        if discount == 0.0 and all(part in (None, False) for part in later):
            columns = columns | {"terminal": ROW}
        if approximation != "table" and not columns.get("bins") and columns.get("numbers") is None:
            columns = columns | {"numbers": "auto"}
        log = read_log(log, **columns)
    elif columns:
        raise LogError(f"the log is open already; give {', '.join(columns)} to read_log")
    return Read(
        source=log.source,
        columns={part: list(names) for part, names in log.columns.items()},
        guessed={part: list(names) for part, names in log.guessed.items()},
        bins={column: list(bins.edges) for column, bins in log.bins.items()},
        quarantine=None if log.quarantine is None else str(log.quarantine),
        reading=reading_of(log),
        log=log,
    )


# ---- 2 · Counted


@dataclass(frozen=True, eq=False)
class Counted:
    """What a log says of a model that does not change with time."""

    read: Read = field(repr=False)
    counts: Counts = field(repr=False)
    coverage: Coverage = field(repr=False)  # what the log can and cannot tell
    start: Array = field(repr=False)  # (S,) where value is measured; sums to one
    where: str  # the same in a word: "episodes", "log", "uniform", "as given"
    available: Array | None = field(default=None, repr=False)  # (S, A) which pairs exist; None where nobody said so
    first: Array | None = field(default=None, repr=False)  # (S,) how often a state is the first of an episode
    span: tuple[float, float] | None = None  # the first and last moment of the log's clock, where it has one
    open_ends: OpenEnds | None = field(default=None, repr=False)  # episodes that may go on in a later log

    @property
    def measured(self) -> str:
        """Where the start comes from: from the rows themselves ("episodes", "log"), or "given" beforehand."""
        return self.where if self.where in ("episodes", "log") else "given"

    @cached_property
    def blocks(self) -> tuple[Counts, ...]:
        """The counts cut in time order, from which is proven; the log is asked for them when they are first needed."""
        return (self.counts,) if self.read.log is None else tuple(counts_in_blocks(self.read.log))


def count(read: Read, start: Start = None, discount: float = 0.95) -> Counted:
    """Count a log, and say what it cannot tell; without a word, one decision per case is measured over all rows."""
    log = _rows_of(read)
    if start is None and discount == 0.0:
        start = "log"  # every decision counts alike, not only the first of an episode
    log.check_ends()
    counts, coverage = log.counts(), log.coverage()
    where = start if isinstance(start, str) else "as given"
    if start is None:
        where = "episodes" if log.has_episodes else "log"
    first, trace = log.starts() if log.has_episodes else None, log.trace()
    span = None if trace is None else trace.span
    words = {"available": log.available, "first": first, "span": span, "open_ends": open_ends_of(log)}
    return Counted(read, counts, coverage, start_weights(log, start), where, **words)


def _rows_of(read: Read) -> Log:
    if read.log is None:
        raise LogError("this fit was loaded, and its log was not saved with it; learn from the log again")
    return read.log


# ---- 3 · Modelled


@dataclass(frozen=True, eq=False)
class Modelled:
    """The careful model of a log, and what its own episodes say beside it."""

    counted: Counted = field(repr=False)
    careful: Careful
    returns: Estimate | None = None  # the mean discounted return of the log's own episodes, where it has some
    returns_check: Finding | None = field(default=None, repr=False)  # whether the model agrees with it
    returns_filled: float = 0.0  # the part of it that the model filled in
    shared: tuple[float, float] = (
        1.0,
        1.0,
    )  # what errors of `expected` and `logged` were multiplied with (clusters.py)

    @property
    def discount(self) -> float:
        """What a reward one step later is worth."""
        return self.careful.mdp.discount

    @cached_property
    def estimates(self) -> Estimates:
        """What policies earn and cost, as estimated."""
        return Estimates(self.counted.counts, self.careful, self.counted.start)


def model(counted: Counted, discount: float = 0.95, pessimism: float | None = None, begin: Begin = silent) -> Modelled:
    """Fit the careful model, and compare what it says of the log's episodes with what they earned.

    begin   told of each round of a log that takes long
    """
    counts, trace = counted.counts, _rows_of(counted.read).trace()
    careful = careful_model(counts, discount, counted.start, pessimism, begin=_within(begin, counts))
    if trace is None:
        return Modelled(counted, careful)
    shared = (1.0, 1.0)
    if trace.has_episodes:
        shared = shared_factors(careful, Groups.of(trace), counts.support.to_model(counted.start))
        careful = with_shared_errors(careful, shared)
    mdp, to_log = counts.mdp(discount), counts.support.to_log
    V = careful.behaviour.value(mdp)
    onward = np.where(counts.visits > 0, to_log(mdp.q_values(V) - mdp.rewards), 0.0)
    found = returns_of(trace, to_log(V), to_log(mdp.rewards), onward, mdp.discount, counted.coverage.level)
    if found is None:
        return Modelled(counted, careful, shared=shared)
    earned = Estimate(found.value, found.standard_error)
    return Modelled(counted, careful, earned, found.finding, found.filled, shared)


def shared_factors(careful: Careful, groups: Groups, start: Array) -> tuple[float, float]:
    """How much larger the errors of `expected` and `logged` are, as rows of one moment or episode err together."""
    expected, logged = (groups.factor(careful.mdp, policy, start) for policy in (careful.policy, careful.behaviour))
    return expected, logged


def with_shared_errors(careful: Careful, factors: tuple[float, float]) -> Careful:
    """The careful model with errors multiplied by these."""
    old = careful.expected, careful.logged
    expected, logged = (Estimate(e.value, f * e.error_or_nan) for e, f in zip(old, factors, strict=True))
    return dataclasses.replace(careful, expected=expected, logged=logged)


# ---- 4 · Solved


@dataclass(frozen=True, eq=False)
class Solved:
    """The saddle point of the careful model, with limits or without, and the policy that is recommended."""

    modelled: Modelled = field(repr=False)
    solution: Solution
    policy: TablePolicy = field(repr=False)  # on the log's states
    reason: str  # one sentence: why this one
    solver: str
    gap: float | None  # what the solver leaves open
    margin: str | None = None  # how far inside the limits; None where there are none
    limits: tuple[LimitOutcome, ...] = ()  # what became of each limit
    asked: tuple[Asked, ...] = field(default=(), repr=False)  # the limits as they were asked for
    limits_wanted: tuple[Wanted, ...] = field(default=(), repr=False)  # pairs whose rows a promise would need most
    ledger: Ledger | None = field(default=None, repr=False)  # what of 1 - confidence the limits have taken


def solve(
    modelled: Modelled,
    solver: str = "exact",
    limits: LimitsGiven | None = None,
    margin: str = "certified",
    confidence: float = 0.95,
    certificate: str | None = "proven",
    looks: int = 1,
) -> Solved:
    """Find the policy: the best in the careful model, or the best that keeps the limits."""
    ledger = Ledger(1.0 - confidence)
    if limits is None:
        solution, policy, reason = SOLVERS[solver](modelled.estimates, modelled.counted.read.log)
        gap = duality_gap(modelled.careful.mdp, solution)
        return Solved(modelled, solution, policy, reason, solver, gap, ledger=ledger)
    counted, asked = modelled.counted, asked_for(limits, modelled.estimates)
    account = one_of(looks, ledger).take("limits", 1.0 - SHARE_OF_VALUE if certificate is not None else 1.0)
    found = keep(modelled.estimates, asked, counted.blocks, account, margin, counted.measured)
    return Solved(
        modelled,
        found.solution,
        on_log(found.policy, counted.counts),
        found.reason,
        solver,
        program_gap(found.solution),
        margin,
        found.limits,
        asked,
        found.wanted,
        ledger,
    )


# ---- 5 · Proven


@dataclass(frozen=True, eq=False)
class Proven:
    """What can be promised of the policy, and of any policy."""

    solved: Solved = field(repr=False)
    certificate: Certificate | None
    confidence: float
    assumed: tuple[str, ...] = ()  # what the user vouches for
    value_range: tuple[float, float] | None = None  # what values can be, as the user said
    ledger: Ledger | None = field(default=None, repr=False)  # what 1 - confidence was spent on
    version: str = __version__
    looks: int = 1  # how often the log is looked at in all


def prove(
    solved: Solved,
    confidence: float = 0.95,
    certificate: str | None = "proven",
    value_range: tuple[float, float] | None = None,
    assumed: Sequence[str] = (),
    looks: int = 1,
    begin: Begin = silent,
) -> Proven:
    """Prove a floor and a ceiling, with what the limits have left of 1 - confidence; `begin` as in `model`."""
    ledger = _ledger(solved, confidence)
    words: dict[str, Any] = {
        "assumed": tuple(assumed),
        "value_range": value_range,
        "ledger": ledger,
        "looks": looks,
    }
    if certificate is None:
        return Proven(solved, None, confidence, **words)
    modelled, counted = solved.modelled, solved.modelled.counted
    account = one_of(looks, ledger).take("value", SHARE_OF_VALUE if solved.asked else 1.0)
    values = value_range or paid_at_the_end(counted.counts)
    blocks, merged = list(counted.blocks), merged_counts(counted.blocks)
    within = _within(begin, merged)
    ask = question_of(
        merged,
        solved.policy,
        modelled.discount,
        counted.start,
        1.0 - account.delta,
        counted.available,
        values,
        measured=counted.measured,
        looks=looks,
    )
    promise = dataclasses.replace(certified(blocks, merged, ask, certificate, account, within), ledger=ledger)
    return Proven(solved, promise, confidence, **words)


def _within(begin: Begin, counts: Counts) -> Begin:
    """Who is told of what happens inside a stage: nobody, where that does not last."""
    return begin if counts.n.size >= LASTING else silent


def _ledger(solved: Solved, confidence: float) -> Ledger:
    """What the limits have left, as a ledger of its own (a stage is never changed); a new one where they took none."""
    taken = solved.ledger
    if taken is None or not taken.accounts:
        return Ledger(1.0 - confidence)
    if taken.delta != 1.0 - confidence:
        right = f"prove with that, or solve with {confidence:g}"
        raise LogError(f"confidence is {confidence:g}, but the limits were solved with {1.0 - taken.delta:g}; {right}")
    return copy.deepcopy(taken)


# ---- checks at the border


def check_words(
    solver: str,
    confidence: float,
    certificate: str | None,
    limits: LimitsGiven | None,
    assumed: Sequence[str],
    pessimism: float | None = None,
) -> None:
    """Refuse words that no stage knows, before the first one begins."""
    if solver not in SOLVERS:
        raise LogError(f"solver is {solver!r}; it must be one of {', '.join(SOLVERS)}")
    check_confidence(confidence)
    if pessimism is not None:
        checked_strength("pessimism", pessimism)
    if certificate is not None:
        check_method(certificate)
    for word in assumed:
        if not isinstance(word, str) or word not in ASSUMPTIONS:
            raise LogError(f"assume is {word!r}; it must be one of {few(ASSUMPTIONS)}")
    if limits is not None and solver != "exact":
        raise LogError(f"solver is {solver!r}; with limits it must be exact")
