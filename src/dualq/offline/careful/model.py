"""Careful learning: from counts to a model that does not promise more than the log can tell, and its policy.

Problem   the plug-in model (frequencies for probabilities) has a best policy that is best at finding lucky pairs:
          of many thin pairs some look good by chance, and its value is a promise that nobody keeps.
Pooling   thin pairs lean on their state's average and on what the action does elsewhere, P~ and R~, and are charged a
Penalty   penalty for the doubt that choosing them adds (`pooling`).
Policy    the best in that model (`fitting`).
Claims    `claimed` is the policy's value in (P~, R~), without the penalty; `expected` is what is left of it without
          luck, with its standard error (`selection_bias`).
Halves    the model of each half of the rows is fitted once, here: values and costs ask the same two halves.

`pessimism` multiplies z and k. 0 is the plug-in; 1 the default, which needs no tuning (benchmarks/offline.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualq.base import (
    Begin,
    LogError,
    Weights,
    as_distribution,
    checked_weights,
    count,
    one_by_one,
    silent,
    together,
)
from dualq.logs import Counts
from dualq.model import MDP, TablePolicy
from dualq.offline.careful.fitting import Fitted, alone, fitted
from dualq.offline.careful.pooling import Rows, row_variance
from dualq.offline.careful.selection_bias import Estimate, expect, gain_reliability, halves, log_variance

Array = np.ndarray

DEALS = 5  # of the rows to two halves
HALVES = "one half of the rows", "the other half"
STRONGEST = 1e6  # pessimism: beyond it all is lost but what was logged
MANY_ENTRIES = 50_000  # of counts, from which on a thread is worth its while
FEW_PAIRS = 20  # with more of them, good and bad luck of one deal even out


@dataclass(frozen=True, eq=False)
class Careful:
    """What a log supports: a model, the policy that is best in it, and what that policy may be expected to earn.

    Arrays are (S, A) in the model's states: those of the log, and "(end)" where some row ended.
    """

    mdp: MDP  # pairs that were logged; pooled, less the penalty
    policy: TablePolicy  # the recommended one
    behaviour: TablePolicy  # n(s, a) / n(s); over all states' actions, and undecided, where the log never was
    V: Array = field(repr=False)  # optimal in mdp
    penalty: Array = field(repr=False)  # taken off the rewards of mdp
    weight: Array = field(repr=False)  # w = n / (n + k): what the pair's own rows count for
    error: Array = field(repr=False)  # standard error of r + alpha V(s') of a pair; inf where it was never seen
    expected: Estimate  # value of the policy from the start, without what is luck in `claimed`
    logged: Estimate  # value of the logged behaviour from the start
    claimed: float  # value of the policy from the start in the pooled model
    careful: float  # the same with the penalties taken off
    reliability: float  # the part of claimed - logged that is not luck: one half is asked about the other's choices
    pessimism: float
    moved: float  # how far V still moved in the last round
    reason: str
    halves: tuple[Fitted, ...] | None = field(default=None, repr=False)  # of the rows; None where it was not kept


def careful_model(
    counts: Counts,
    discount: float,
    start: Weights | None = None,
    pessimism: float | None = None,
    *,
    pooling: float = 1.0,
    begin: Begin = silent,
) -> Careful:
    """A model that is careful where the log is thin, and the policy that is best in it.

    start       (S,) weights of the states where value is measured; how often the log left each state, if not given
    pessimism   0: the plug-in; 1: the default; more: closer to what the log did
    pooling     multiplies k once more; 0 leaves pairs apart (for studies: there is no need to set it)
    begin       told of each round
    """
    pessimism = 1.0 if pessimism is None else checked_strength("pessimism", pessimism)
    pooling = checked_strength("pooling", pooling)
    rows = Rows.of(counts, discount)
    start = _checked_start(start, rows)
    fit, deals = _fitted_all(rows, pessimism, pooling, begin)
    policy, behaviour = fit.policy, rows.behaviour
    apart = rows.pooled_model(alone(rows), fit.unknown_value)  # on average the log needs no pooling
    gain = float(start @ (policy.value(fit.pooled) - behaviour.value(apart)))
    reliability = gain_reliability(deals, start, gain)
    expected, logged, claimed = expect(rows, fit.pooled, apart, policy, behaviour, start, reliability)
    return Careful(
        mdp=fit.mdp,
        policy=policy,
        behaviour=behaviour,
        V=fit.V,
        penalty=fit.penalty,
        weight=fit.shares,
        error=pair_errors(rows, fit.V, fit.shares),
        expected=expected,
        logged=logged,
        claimed=claimed,
        careful=float(start @ policy.value(fit.mdp)),
        reliability=reliability.value,
        pessimism=pessimism,
        moved=fit.moved,
        reason=_reason(rows, policy, pessimism),
        halves=deals[0],
    )


def _fitted_all(
    rows: Rows, pessimism: float, pooling: float, begin: Begin
) -> tuple[Fitted, tuple[tuple[Fitted, ...], ...]]:
    """What all rows teach, and what each half of them would have, dealt several times where there are few pairs."""
    counts, discount = rows.counts, rows.plug_in.discount
    times = DEALS if np.count_nonzero(counts.visits) <= FEW_PAIRS else 1
    dealt = [(one, other) for one, other in _deals(counts, times) if one.total and other.total]

    def learned(half: Counts, whose: str) -> Callable[[Begin], Fitted]:
        return lambda begin: fitted(Rows.of(half, discount), pessimism, pooling, begin, whose)

    tasks = [lambda begin: fitted(rows, pessimism, pooling, begin)]
    tasks += [learned(half, whose) for deal in dealt for half, whose in zip(deal, HALVES, strict=True)]
    side_by_side = together if counts.n.size >= MANY_ENTRIES else one_by_one
    fit, *halves = side_by_side(tasks, begin)
    return fit, tuple(zip(halves[::2], halves[1::2], strict=True)) or ((),)


def fitted_halves(counts: Counts, discount: float, pessimism: float) -> tuple[Fitted, ...]:
    """The first of these deals; nothing where a half has no rows."""
    dealt = _deals(counts, 1)[0]
    return tuple(fitted(Rows.of(half, discount), pessimism) for half in dealt) if all(h.total for h in dealt) else ()


def _deals(counts: Counts, times: int) -> list[tuple[Counts, Counts]]:
    """Drawn by how often what was seen: the same log is always dealt alike, and two logs are not."""
    rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(counts.n, np.int64).tobytes()))
    return [halves(counts, rng) for _ in range(times)]


def pair_errors(rows: Rows, V: Array, shares: Array) -> Array:
    """Standard error of the mean of y in a pair: sqrt(sigma^2 / (n + k)); inf where the pair was never seen."""
    moments = rows.moments(V)
    sigma2 = row_variance(rows, moments, shares, log_variance(rows, moments))
    return np.where(rows.supported, np.sqrt(sigma2 * shares / np.maximum(rows.n, 1.0)), np.inf)


def _reason(rows: Rows, policy: TablePolicy, pessimism: float) -> str:
    """How the policy was chosen."""
    choices = rows.supported.sum(axis=1) > 1
    chosen, usual = policy.matrix.argmax(axis=1), rows.n.argmax(axis=1)
    changed = int((choices & (chosen != usual)).sum())
    care = "Averages of the log are taken at face value, however few rows they have (pessimism 0)."
    if pessimism > 0.0:
        care = "Rarely tried actions are judged cautiously."
    several, states = int(choices.sum()), count(int(rows.seen.sum()), "state")
    if several == 0:
        return f"The log has tried only one action in each state, so there is nothing to choose. {care}"
    differs = f"in {changed:,} of these the new policy prefers an action other than the most frequent one"
    kept = "in all of these the new policy prefers the most frequent one"
    return f"In {several:,} of {states} the log has tried more than one action; {differs if changed else kept}. {care}"


# ---- checks at the border


def checked_strength(name: str, value: Any) -> float:
    """How strongly something is done, 1 by default: pessimism, pooling."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 <= number <= STRONGEST:
        words = f"{name} is {value!r}; it must be a number between 0 and {STRONGEST:,.0f} (1 is the default)"
        raise LogError(words, argument=name, value=value)
    return number


def _checked_start(start: Weights | None, rows: Rows) -> Array:
    """Weights of the model's states, summing to one."""
    if start is None:
        return rows.total / rows.total.sum()
    given = checked_weights("start", start, rows.counts.states, LogError)
    return rows.counts.support.to_model(as_distribution("start", given, LogError))
