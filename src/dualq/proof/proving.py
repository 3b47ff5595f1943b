"""The certificate: a floor for one policy, a ceiling for every policy, from a log alone.

docs/certificate.md states the theorem and proves it; the folder `proof` computes it, a file per step:

Split     the log, in time order, into blocks; before each block e the earlier ones give a function f_e of the states
          (a plug-in value; f_1 = 0)                                              logs/blocks.py, confidence_sets.py
Event 1   the mean of r + alpha f_e(s') over a pair's rows is near its expectation                         noise.py
Event 2   the frequencies of a pair's successors are near their probabilities                         successors.py
Delta     what each of these may fail with is handed out by one ledger                                    ledger.py
Floor     the fixed point of what each pair is worth at least; ceilings are floors upside down            floors.py
Value     the policy's own value as one martingale, for a policy that pays its price             martingale.py, prior.py

Pairs that were never logged are worth the end of the value range. The policy may depend on the same log in any way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from dualq.base import Begin, ModelError, door, silent
from dualq.logs import Counts
from dualq.model import TablePolicy, checked_discount
from dualq.proof.bootstrap import bootstrap
from dualq.proof.causes import causes_of, taken_off
from dualq.proof.certificate import (
    Certificate,
    assumptions_of,
    moved_back,
    per_state,
    rows_needed,
    says_something,
    wanted_pairs,
)
from dualq.proof.confidence_sets import ConfidenceSet, confidence_sets, logged_policy, plug_in
from dualq.proof.evidence import centre_of, merged_counts, moved_counts, scaled_counts
from dualq.proof.floors import Bound, floor_of, floors_of, plug_in_value
from dualq.proof.ledger import Ledger
from dualq.proof.martingale import OwnValue
from dualq.proof.own_value import Decided, OwnEvent, coarse, decided_start, foresighted, shared_out
from dualq.proof.prior import Prior
from dualq.proof.questions import Available, Question, Weights, check_confidence, one_of, question_of
from dualq.solvers import solve

Array = np.ndarray

MOST_WANTED = 1000  # pairs that are kept with what more of their rows would bring
COVERED = (
    "floor and ceiling of the policy",
    "the ceiling of every policy",
    "the ceilings of policies that keep to pairs with k rows",
    "the interval of the logged behaviour",
)
FEW = 4  # policies that can be the best, of which each has a ceiling of its own
LADDER = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)  # of a pair: ceilings over the pairs with at least so many


@door
def certificate_of(
    counts: Counts | Sequence[Counts],
    policy: TablePolicy,
    discount: float,
    start: Weights,
    confidence: float = 0.95,
    available: Available = None,
    method: str = "proven",
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
    fixed: bool = False,
    looks: int = 1,
) -> Certificate:
    """Floor, ceiling and the behaviour's interval, jointly valid with the given confidence.

    counts        of the whole log, or of its blocks in time order (`counts_in_blocks`): about half as wide
    policy        any policy, chosen from the same log or not
    start         where value is measured: weights per state, or {state label: weight}; fixed before the rows were seen
                  (`learn` knows how to measure from what the log itself shows)
    available     {state label: [action labels]} or (S, A) booleans: what "any policy" may do; every action if not given
    method        "proven" (docs/certificate.md) or "bootstrap" (approximate: it may break its promise)
    value_range   what values can be, if more is known than the rewards' range says: (0, 1) where only the end pays 1
    seed          of the bootstrap
    fixed         whether the policy was chosen before these rows were seen: then it costs nothing to have chosen it
    looks         how often the log is looked at in all, with other discounts, periods or columns: one certificate
                  does not cover several looks, and each of so many gets its part of 1 - confidence
    """
    blocks = [counts] if isinstance(counts, Counts) else list(counts)
    merged = merged_counts(blocks)
    check_method(method)
    check_confidence(confidence)
    discount = checked_discount(discount)
    question = question_of(
        merged, policy, discount, start, confidence, available, value_range, seed, fixed=fixed, looks=looks
    )
    ledger = Ledger(1.0 - confidence)
    found = certified(blocks, merged, question, method, one_of(looks, ledger))
    return dataclasses.replace(found, ledger=ledger)


def certified(
    blocks: Sequence[Counts],
    merged: Counts,
    ask: Question,
    method: str,
    ledger: Ledger,
    begin: Begin = silent,
) -> Certificate:
    """The certificate that answers a question by a method, on what the ledger has; `begin` is told of its parts."""
    if centre := centre_of(merged):
        moved = [moved_counts(block, centre) for block in blocks]
        values = centre / (1.0 - ask.alpha)
        low, high = (end - values for end in ask.value_range)
        there = certified(moved, merged_counts(moved), ask._replace(value_range=(low, high)), method, ledger, begin)
        return dataclasses.replace(moved_back(there, values), assumptions=assumptions_of(blocks, merged, ask))
    found = METHODS[method](blocks, merged, ask, ledger, begin)
    return dataclasses.replace(found, rows_needed=_rows_needed(found, blocks, ask, ledger.delta, begin))


def check_method(method: str) -> None:
    """A ModelError where there is none such."""
    if method not in METHODS:
        raise ModelError(f"no method {method!r}; there are {', '.join(METHODS)}, and None for no certificate")


def _rows_needed(found: Certificate, blocks: Sequence[Counts], ask: Question, delta: float, begin: Begin) -> int | None:
    """About how many rows like these would say something; more say more."""
    if found.informative:
        return found.rows

    def enough(factor: int) -> bool:
        begin(f"Proving: whether {factor:,} times the rows would say more")
        scaled = [scaled_counts(block, factor) for block in blocks]
        return SAY_SOMETHING[found.method](scaled, merged_counts(scaled), ask, Ledger(delta, "with more rows"))

    return rows_needed(found.rows, enough)


def proven(
    blocks: Sequence[Counts], merged: Counts, ask: Question, ledger: Ledger, begin: Begin = silent
) -> Certificate:
    """The certificate that docs/certificate.md proves."""
    pairs, own = shared_out(blocks, ledger)
    begin("Proving: how sure each pair is")
    sets = confidence_sets(coarse(blocks), merged, ask.alpha, pairs)
    pairs.cover(*COVERED)
    model = sets["optimal"]
    low, high = ask.value_range
    eta = ask.start
    logged = merged.support.to_log(logged_policy(merged, plug_in(merged, ask.alpha)))
    best = _best_plug_in(merged, ask)
    unknown = float(eta @ best[:-1])
    f, usual = (plug_in_value(model, policy, unknown) for policy in (ask.policy, logged))
    begin("Proving: floors and ceilings")
    # Whichever reference is the better one: all of them hold together.
    lows, highs, usual_lows, usual_highs, (ceiling, ceiling_supported) = floors_of(
        [
            [(m, f, low, ask.allowed, ask.policy, 1.0) for m in sets.values()],
            [(m, -f, -high, ask.allowed, ask.policy, -1.0) for m in sets.values()],
            [(m, usual, low, ask.allowed, logged, 1.0) for m in sets.values()],
            [(m, -usual, -high, ask.allowed, logged, -1.0) for m in sets.values()],
            [(model, -best, -high, allowed, None, -1.0) for allowed in (ask.allowed, _supported(merged, ask))],
        ]
    )
    floor = max(lows, key=lambda b: float(eta @ b.value))
    behaviour_low = np.max([b.value for b in usual_lows], axis=0)
    behaviour_high = np.min([-b.value for b in usual_highs], axis=0)
    upper, upper_supported = -ceiling.value, -ceiling_supported.value
    decided = decided_start(merged, ask.alpha)
    event = _own_event(blocks, merged, ask, own)
    value = None if event is None else event.interval(ask, lows, highs, None if decided is None else decided.start)
    floors = floor.value if value is None else np.maximum(floor.value, value.states[0])
    highest = min(float(eta @ upper), _best_of_few(event, sets, f, ask, ceiling, floors))
    supported = min(float(eta @ upper_supported), highest)
    lower = float(eta @ floor.value)
    tops = -np.max([b.value for b in highs], axis=0)
    tops = np.minimum(tops, upper) if bool(ask.allowed[ask.policy > 0.0].all()) else tops
    policy_upper = float(eta @ tops)
    if value is not None:
        lower, policy_upper = max(lower, value.ends[0][0]), min(policy_upper, value.ends[0][1])
        tops = np.minimum(tops, value.states[1])
    if bool(ask.allowed[ask.policy > 0.0].all()):
        policy_upper = min(policy_upper, highest)
    table = per_state(merged, floors, upper, upper_supported, behaviour_low, behaviour_high)

    return Certificate(
        lower=lower,
        upper=highest,
        upper_supported=supported,
        behaviour=(float(eta @ behaviour_low), float(eta @ behaviour_high)),
        estimate=float(eta @ f[:-1]),
        confidence=ask.confidence,
        method="proven",
        rows=merged.total,
        value_range=ask.value_range,
        policy_upper=policy_upper,
        lower_decided=None if decided is None else _floor_at(decided, lows, value, tops),
        earned=None if decided is None else decided.earned,
        ceilings=_ceilings(model, best, merged, ask, supported, highest),
        per_state=table,
        causes=causes_of(model, eta, unknown, (f, floor), (best, ceiling_supported), (lower, supported, highest)),
        assumptions=assumptions_of(blocks, merged, ask),
        _pairs=wanted_pairs(merged, taken_off(model, eta, unknown, floor, 1.0)[0], MOST_WANTED),
        ledger=ledger,
    )


def _own_event(blocks: Sequence[Counts], merged: Counts, ask: Question, own: Ledger | None) -> OwnEvent | None:
    """The event of the policy's own value; None where it cannot be foreseen."""
    parts = foresighted(blocks)
    if own is None or parts is None:
        return None
    return OwnEvent(parts, merged, None if ask.fixed else Prior(parts[0], merged, ask.alpha, ask.allowed), own, True)


def _best_of_few(
    event: OwnEvent | None, sets: dict[str, ConfidenceSet], f: Array, ask: Question, ceiling: Bound, floors: Array
) -> float:
    """A ceiling of every policy, where few can be the best one: the highest of their own, which all hold at once.

    Some best policy is for sure about its actions, and takes none whose ceiling is below the floor of its state.
    """
    good = ask.allowed & (-ceiling.pairs.reshape(ask.allowed.shape) >= floors[:, None])
    many = good.sum(axis=1)
    several = many[many != 1]  # the product of all of them would have as many digits as there are states
    few = several.size <= FEW and 1 <= math.prod(several.tolist()) <= FEW
    if event is None or ask.fixed or not few:
        return np.inf
    policies = (np.eye(good.shape[1])[list(actions)] for actions in product(*map(np.flatnonzero, good)))
    asks = (ask._replace(policy=policy) for policy in policies)
    return max(event.ceiling(one, *policy_bounds(sets, f, one)) for one in asks)


def _floor_at(decided: Decided, lows: Sequence[Bound], value: OwnValue | None, tops: Array) -> float:
    """The policy's floor where the log's decisions were taken, by whatever is best; what is owed, at its ceilings."""
    floor = max(float(decided.start @ bound.value) for bound in lows)
    floor = floor if value is None else max(floor, value.ends[1][0])
    return decided.more * floor - float(decided.owed @ tops)


def policy_bounds(sets: dict[str, ConfidenceSet], f: Array, ask: Question) -> tuple[list[Bound], list[Bound]]:
    """What the events of pairs say of the policy, with each reference: floors of V, and of -V."""
    low, high = ask.value_range
    lows = [floor_of(m, f, low, ask.allowed, ask.policy, 1.0) for m in sets.values()]
    return lows, [floor_of(m, -f, -high, ask.allowed, ask.policy, -1.0) for m in sets.values()]


def _ceilings(
    model: ConfidenceSet, best: Array, merged: Counts, ask: Question, first: float, highest: float
) -> dict[str, float]:
    """{k: ceiling over policies that keep to pairs with at least k rows}, where such a policy can begin at all.

    Where a state has no pair with k rows they may take any action: so they are no part of those that keep to logged
    pairs, only of all.
    """
    found, n, high = {"1": first}, merged.visits, ask.value_range[1]
    for rows in LADDER[1:]:
        thick = n >= rows
        if (~np.any(thick, axis=1) & (ask.start > 0.0)).any():
            break
        if not ((n > 0) & ~thick).any():
            continue
        # where no pair has so many rows nothing is known: any action, worth all that is possible
        allowed = np.where(thick.any(axis=1, keepdims=True), thick, ask.allowed)
        found[str(rows)] = min(-float(ask.start @ floor_of(model, -best, -high, allowed, None, -1.0).value), highest)
    return found


def _proven_says_something(blocks: Sequence[Counts], merged: Counts, ask: Question, ledger: Ledger) -> bool:
    """Whether `proven` would be informative by one event of pairs alone: an estimate, and a cheap one."""
    pairs, _ = shared_out(blocks, ledger)
    asked = np.array([ask.policy.ravel() > 0.0, np.zeros(ask.policy.size, bool)])  # one floor, of one policy
    model = confidence_sets(coarse(blocks), merged, ask.alpha, pairs, asked)["optimal"]
    f = plug_in_value(model, ask.policy, float(merged.reward_sum.sum()) / max(merged.total, 1) / (1.0 - ask.alpha))
    floor = floor_of(model, f, ask.value_range[0], ask.allowed, ask.policy, 1.0)
    lower, estimate = float(ask.start @ floor.value), float(ask.start @ f[:-1])
    return says_something(lower, 2.0 * estimate - lower, ask.value_range)  # the ceiling is about as far away


def _best_plug_in(merged: Counts, ask: Question) -> Array:
    """(S + 1,) the best values in the empirical model."""
    return np.append(merged.support.to_log(solve(plug_in(merged, ask.alpha)).V), 0.0)


def _supported(merged: Counts, ask: Question) -> Array:
    """(S, A) the logged pairs; in states where nothing was logged, any action."""
    logged = merged.visits > 0
    return np.where(logged.any(axis=1, keepdims=True), logged, ask.allowed)


def _bootstrap_says_something(blocks: Sequence[Counts], merged: Counts, ask: Question, ledger: Ledger) -> bool:
    return bootstrap(blocks, merged, ask, ledger).informative


METHODS = {"proven": proven, "bootstrap": bootstrap}
SAY_SOMETHING = {"proven": _proven_says_something, "bootstrap": _bootstrap_says_something}
