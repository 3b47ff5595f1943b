"""The certificate: a floor for one policy, a ceiling for every policy, from a log alone.

docs/certificate.md states the theorem and proves it; the folder `proof` computes it, a file per step:

Split     the log, in time order, into blocks; before each block e the earlier ones give a function f_e of the states
          (a plug-in value; f_1 = 0)                                                        logs/blocks.py, floors.py
Event 1   the mean of r + alpha f_e(s') over a pair's rows is near its expectation                         noise.py
Event 2   the frequencies of a pair's successors are near their probabilities                         successors.py
Floor     the fixed point of what each pair is worth at least; ceilings are floors upside down            floors.py

Pairs that were never logged are worth the end of the value range. The policy may depend on the same log in any way.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dualq.base import ModelError
from dualq.logs import Counts
from dualq.model import TablePolicy, checked_discount
from dualq.proof.evidence import evidence_of, merged_counts, paying_counts, scaled_counts, turned_counts, value_range_of
from dualq.proof.floors import (
    ROUNDS,
    Bound,
    Model,
    floor_of,
    logged_policy,
    mixed_chain,
    models_of,
    plug_in,
    plug_in_value,
    solved_chain,
)
from dualq.solvers import solve

Array = np.ndarray

FIRST_ROWS = 100  # asked for where there are hardly any
FACTORS = [4**k for k in range(1, 9)]  # times the rows, tried when it is asked how many would do
RESAMPLES = 200  # of the bootstrap
INFORMATIVE = 0.5  # of the value range: floor and ceiling further apart than this say too little to act on
ABOVE = 1e-3  # of the value range: a floor no further than this above the least that rewards allow says nothing
USEFUL = 0.25  # of the value range: a ceiling over all policies that is this far from the floor tells something
ROWS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)  # of a pair: ceilings over the pairs with at least so many


# ---- what users get


@dataclass(frozen=True)
class Wanted:
    """A pair that the floor suffers from, and what more rows of it would bring."""

    state: Any
    action: Any
    visits: int  # rows in the log
    rows: int  # more rows, which would about halve what the pair costs
    raises: float  # the floor, about


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds that hold together with the given confidence; the numbers are at the start.

    lower             the policy's true value is at least this
    upper             no policy's value is more, over all actions (or the available ones)
    upper_supported   no policy's value is more that keeps to pairs in the log
    policy_upper      the policy's own true value is at most this: with `lower`, its interval
    ceilings          {k: no policy's value is more that keeps to pairs with at least k rows}; all hold together
    behaviour         (low, high): between these is the value of n(s, a) / n(s), the logged frequencies as a policy
    estimate          the policy's value on the log's own frequencies: no bound
    per_state         the same bounds in every state, as columns
    causes            {cause: its part of the regret}; the parts add up
    assumptions       what all of it rests on, one sentence each
    """

    lower: float
    upper: float
    upper_supported: float
    behaviour: tuple[float, float]
    estimate: float
    confidence: float
    method: str
    rows: int
    value_range: tuple[float, float]
    per_state: dict[str, Any] = field(repr=False)
    causes: dict[str, float] = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    _pairs: tuple[Wanted, ...] = field(repr=False)
    policy_upper: float = np.inf
    ceilings: Mapping[str, float] = field(default_factory=dict, repr=False)
    rows_needed: int | None = None  # about how many rows like these would promise something; None where none would

    @property
    def regret(self) -> float:
        """No policy is better than the certified one by more than this."""
        return self.upper - self.lower

    @property
    def improvement(self) -> float:
        """The policy is better than the logged behaviour by at least this; a promise only where it is positive."""
        return self.lower - self.behaviour[1]

    @property
    def informative(self) -> bool:
        """Whether the policy's interval says clearly more than the range of rewards does.

        True where it is at most half as wide as the value range, and its floor is above the least that rewards allow:
        with rewards in [0, 1], "at least 0" is no promise.
        """
        return _informative(self.lower, self.policy_upper, self.value_range)

    @property
    def useful_ceiling(self) -> tuple[int, float] | None:
        """(k, ceiling over pairs with at least k rows): the first that is clearly below what rewards allow."""
        low, high = self.value_range
        for rows, ceiling in self.ceilings.items():
            if ceiling - self.lower <= USEFUL * (high - low):
                return int(rows), ceiling
        return None

    def wanted(self, most: int = 10) -> list[Wanted]:
        """The pairs where more data would raise the floor most."""
        return list(self._pairs[:most])


def _informative(lower: float, upper: float, value_range: tuple[float, float]) -> bool:
    low, high = value_range
    return bool(upper - lower <= INFORMATIVE * (high - low) and lower - low > ABOVE * (high - low))


def certificate_of(
    counts: Counts | Sequence[Counts],
    policy: TablePolicy,
    discount: float,
    start: Any,
    confidence: float = 0.95,
    available: Any = None,
    method: str = "proven",
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> Certificate:
    """Floor, ceiling and the behaviour's interval, jointly valid with the given confidence.

    counts        of the whole log, or of its blocks in time order (`counts_in_blocks`): about half as wide
    policy        any policy, chosen from the same log or not
    start         where value is measured: weights per state, or {state label: weight}
    available     {state label: [action labels]} or (S, A) booleans: what "any policy" may do; every action if not given
    method        "proven" (docs/certificate.md) or "bootstrap" (approximate: it may break its promise)
    value_range   what values can be, if more is known than the rewards' range says: (0, 1) where only the end pays 1
    seed          of the bootstrap
    """
    blocks = [counts] if isinstance(counts, Counts) else list(counts)
    merged = merged_counts(blocks)
    if method not in METHODS:
        raise ModelError(f"no method {method!r}; there are {', '.join(METHODS)}")
    check_confidence(confidence)
    discount = checked_discount(discount)
    question = question_of(merged, policy, discount, start, confidence, available, value_range, seed)
    found = METHODS[method](blocks, merged, question)
    return dataclasses.replace(found, rows_needed=_rows_needed(found, blocks, question))


def cost_bounds(
    counts: Counts | Sequence[Counts],
    policy: TablePolicy,
    cost: str,
    discount: float,
    start: Any,
    confidence: float = 0.95,
    sense: str = "<=",
) -> tuple[float, float]:
    """(low, high) of what a policy costs a step on average: (1 - discount) times the discounted total, from the start.

    sense   which end is to be close: the high one for "<=", the low one for ">="

    A cost is a reward with a range of its own; the policy may be chosen from the same log. Several intervals, or an
    interval and a certificate, hold together with the sum of what each leaves open: give each its part.
    """
    blocks = [counts] if isinstance(counts, Counts) else list(counts)
    if sense not in ("<=", ">="):
        raise ModelError(f"sense is {sense!r}; it must be '<=' or '>='")
    sign = -1.0 if sense == "<=" else 1.0  # a reward is close to its floor: the references are those of the best policy
    blocks = [turned_counts(paying_counts(block, cost), sign) for block in blocks]
    merged = merged_counts(blocks)
    check_confidence(confidence)
    discount = checked_discount(discount)
    pi, eta = _checked_policy(policy, merged), _checked_start(start, merged)
    low, high = value_range_of(None, merged, discount)
    models = models_of(blocks, merged, float(discount), 1.0 - confidence)
    everything = np.ones(merged.shape, bool)
    f = plug_in_value(models["behaviour"], pi, 0.5 * (low + high))
    floors = [floor_of(m, f, low, everything, pi, 1.0).value for m in models.values()]
    ceilings = [-floor_of(m, -f, -high, everything, pi, -1.0).value for m in models.values()]
    ends = sorted(sign * float(eta @ end) for end in (np.max(floors, axis=0), np.min(ceilings, axis=0)))
    return (1.0 - discount) * ends[0], (1.0 - discount) * ends[1]


def _rows_needed(found: Certificate, blocks: Sequence[Counts], ask: Question) -> int | None:
    """An estimate: the least of 4, 16, 64, ... times the same rows that would say something; more say more."""
    if found.informative:
        return found.rows

    def enough(factor: int) -> bool:
        scaled = [scaled_counts(block, factor) for block in blocks]
        return SAY_SOMETHING[found.method](scaled, merged_counts(scaled), ask)

    first = bisect_left(FACTORS, True, key=enough)
    return FACTORS[first] * found.rows if first < len(FACTORS) else None


class Question(NamedTuple):
    """What is asked, checked."""

    policy: Array  # (S, A)
    alpha: float
    start: Array  # (S,)
    confidence: float
    allowed: Array  # (S, A)
    value_range: tuple[float, float]
    range_given: bool
    seed: int


def question_of(
    merged: Counts,
    policy: TablePolicy,
    discount: float,
    start: Any,
    confidence: float,
    available: Any = None,
    value_range: Any = None,
    seed: int = 0,
) -> Question:
    """What is asked of a log, its parts checked."""
    return Question(
        _checked_policy(policy, merged),
        float(discount),
        _checked_start(start, merged),
        float(confidence),
        _checked_available(available, merged),
        value_range_of(value_range, merged, discount),
        value_range is not None,
        seed,
    )


def proven(blocks: list[Counts], merged: Counts, ask: Question) -> Certificate:
    """The certificate that docs/certificate.md proves."""
    models = models_of(blocks, merged, ask.alpha, 1.0 - ask.confidence)
    model = models["optimal"]
    low, high = ask.value_range
    eta = ask.start
    logged = merged.support.to_log(logged_policy(merged, plug_in(merged, ask.alpha)))
    best = _best_plug_in(merged, ask)
    unknown = float(eta @ best[:-1])
    f, usual = (plug_in_value(model, policy, unknown) for policy in (ask.policy, logged))
    floor = max(
        (floor_of(m, f, low, ask.allowed, ask.policy, 1.0) for m in models.values()), key=lambda b: float(eta @ b.value)
    )
    ceiling = floor_of(model, -best, -high, ask.allowed, None, -1.0)
    ceiling_supported = floor_of(model, -best, -high, _supported(merged, ask), None, -1.0)
    # Whichever reference is the better one: all of them hold together.
    behaviour_low = np.max([floor_of(m, usual, low, ask.allowed, logged, 1.0).value for m in models.values()], axis=0)
    behaviour_high = np.min(
        [-floor_of(m, -usual, -high, ask.allowed, logged, -1.0).value for m in models.values()], axis=0
    )
    policy_ceilings = [-floor_of(m, -f, -high, ask.allowed, ask.policy, -1.0).value for m in models.values()]
    upper, upper_supported = -ceiling.value, -ceiling_supported.value
    table = _table(merged, floor.value, upper, upper_supported, behaviour_low, behaviour_high)

    return Certificate(
        lower=float(eta @ floor.value),
        upper=float(eta @ upper),
        upper_supported=float(eta @ upper_supported),
        behaviour=(float(eta @ behaviour_low), float(eta @ behaviour_high)),
        estimate=float(eta @ f[:-1]),
        confidence=ask.confidence,
        method="proven",
        rows=merged.total,
        value_range=ask.value_range,
        policy_upper=float(eta @ np.minimum(np.min(policy_ceilings, axis=0), upper)),
        ceilings=_ceilings(model, best, merged, ask, float(eta @ upper_supported)),
        per_state=table,
        causes=_causes(model, eta, unknown, (f, floor), (best, ceiling_supported), ceiling),
        assumptions=assumptions_of(merged, ask),
        _pairs=_wanted(merged, _costs(model, eta, unknown, floor, 1.0)[0]),
    )


def _ceilings(model: Model, best: Array, merged: Counts, ask: Question, first: float) -> dict[str, float]:
    """{k: ceiling over policies that keep to pairs with at least k rows}, where such a policy can begin at all."""
    found, n, high = {"1": first}, merged.visits, ask.value_range[1]
    for rows in ROWS[1:]:
        thick = n >= rows
        if (~np.any(thick, axis=1) & (ask.start > 0.0)).any():
            break
        if not ((n > 0) & ~thick).any():
            continue
        # where no pair has so many rows nothing is known: any action, worth all that is possible
        allowed = np.where(thick.any(axis=1, keepdims=True), thick, ask.allowed)
        found[str(rows)] = -float(ask.start @ floor_of(model, -best, -high, allowed, None, -1.0).value)
    return found


def _proven_says_something(blocks: list[Counts], merged: Counts, ask: Question) -> bool:
    """Whether `proven` would be informative, from no more bounds than that takes."""
    models = models_of(blocks, merged, ask.alpha, 1.0 - ask.confidence)
    low, high = ask.value_range
    best = _best_plug_in(merged, ask)
    f = plug_in_value(models["optimal"], ask.policy, float(ask.start @ best[:-1]))
    ceilings = (-floor_of(m, -f, -high, ask.allowed, ask.policy, -1.0).value for m in models.values())
    upper = min(float(ask.start @ ceiling) for ceiling in ceilings)
    if not _informative(float(ask.start @ f[:-1]), upper, ask.value_range):
        return False  # the estimate itself is too far below, and a floor is lower still
    floors = (floor_of(m, f, low, ask.allowed, ask.policy, 1.0).value for m in models.values())
    return any(_informative(float(ask.start @ lower), upper, ask.value_range) for lower in floors)


def _best_plug_in(merged: Counts, ask: Question) -> Array:
    """(S + 1,) the best values in the empirical model."""
    return np.append(merged.support.to_log(solve(plug_in(merged, ask.alpha)).V), 0.0)


def _supported(merged: Counts, ask: Question) -> Array:
    """(S, A) the logged pairs; in states where nothing was logged, any action."""
    logged = merged.visits > 0
    return np.where(logged.any(axis=1, keepdims=True), logged, ask.allowed)


def _costs(model: Model, eta: Array, unknown: float, bound: Bound, sign: float) -> tuple[Array, Array]:
    """What each pair takes off the plug-in value, and the rewards' part of it (pairs,).

    A floor V falls short of the empirical model by d = r^ + alpha P^ V - (its own bound) in every pair; so it is below
    the plug-in value of the same policy by the sum of d over the empirical occupancy, exactly.
    """
    ev = model.evidence
    V = np.append(bound.value, 0.0)
    expected = np.where(
        model.n > 0, sign * model.r + model.alpha * ev.per_pair(model.p * V[ev.columns]), sign * unknown
    )
    nothing, nowhere = np.zeros(model.n.size), np.zeros(model.n.size, np.int64)
    chain = mixed_chain(ev, bound.choice, model.p, nothing, nowhere, model.n == 0)
    weight = (solved_chain(chain, model.alpha, eta, transpose=True)[:, None] * bound.choice).ravel()
    short = np.where(weight > 0.0, expected - bound.pairs, 0.0)
    from_rewards = np.where(weight > 0.0, np.clip(short, 0.0, bound.noise), 0.0) * model.reward_part
    return weight * short, weight * from_rewards * (model.n > 0)


def _causes(
    model: Model, eta: Array, unknown: float, floor: tuple[Array, Bound], best: tuple[Array, Bound], ceiling: Bound
) -> dict[str, float]:
    """The regret by cause: how far floor and ceiling are from their plug-in values, and these from each other."""
    causes: dict[str, float] = dict.fromkeys(("thin pairs", "reward noise", "unsupported pairs"), 0.0)
    for (value, bound), sign in ((floor, 1.0), (best, -1.0)):
        costs, rewards = _costs(model, eta, unknown, bound, sign)
        unseen = float(costs[model.n == 0].sum())
        shares = np.array([float(costs.sum() - rewards.sum()) - unseen, float(rewards.sum()), unseen])
        width = float(eta @ (sign * value[:-1] - bound.value))
        # the ceiling may belong to a policy that the empirical model thinks worse
        shares *= width / total if (total := float(shares.sum())) > 0.0 else 0.0
        for cause, share in zip(causes, shares, strict=True):
            causes[cause] += float(share)
    causes["unsupported pairs"] += float(eta @ (best[1].value - ceiling.value))
    causes["estimated distance to the best policy"] = float(eta @ (best[0] - floor[0])[:-1])
    return causes


def _wanted(counts: Counts, costs: Array) -> tuple[Wanted, ...]:
    """Pairs by what they cost the floor; four times the rows about halve it."""
    A, n = counts.shape[1], counts.visits.ravel()
    return tuple(
        Wanted(
            counts.states[int(i) // A],
            counts.actions[int(i) % A],
            int(n[i]),
            int(max(3 * n[i], FIRST_ROWS)),
            0.5 * float(costs[i]),
        )
        for i in np.argsort(-costs, kind="stable")[:1000]
        if costs[i] > 0.0
    )


def assumptions_of(counts: Counts, ask: Question) -> tuple[str, ...]:
    """What the numbers rest on, one sentence each."""
    low, high = counts.reward_range
    known = "known" if counts.range_known else "as observed: no other can ever happen"
    value = f"[{ask.value_range[0]:g}, {ask.value_range[1]:g}]"
    ends = "episodes end where the log says so" if counts.ended.any() else "no episode ends: none in the log did"
    later = (
        "what happens next depends on the state and the action only: not on what came before, nor on the time",
        f"what is earned over time is in {value} ({'given' if ask.range_given else 'from the rewards'})",
        ends,
    )
    at_once = (
        "what an action earns depends on the state and the action only: not on what came before, nor on the time",
    )
    return (
        f"all bounds hold together with probability {ask.confidence:g}",
        *(later if ask.alpha > 0.0 else at_once),
        f"the {len(counts.states)} states and {len(counts.actions)} actions of the log are all there are",
        f"rewards are in [{low:g}, {high:g}] ({known})",
        "rows were cut off independently of what happened, and none is missing because of what it showed",
        "the state includes everything that matters and that the decisions were based on",
        "no decision was based on later rows of the log, and nobody chose its length by looking at its rows",
        "the starting states and the available actions are as given",
    )


def _table(counts: Counts, *columns: Array) -> dict[str, Any]:
    names = ("lower", "upper", "upper_supported", "behaviour_low", "behaviour_high")
    table: dict[str, Any] = counts.states.columns()
    table["rows"] = counts.visits.sum(axis=1)
    return table | dict(zip(names, columns, strict=True))


# ---- the second opinion


def _bootstrap(blocks: list[Counts], merged: Counts, ask: Question) -> Certificate:
    """Percentiles over resampled models (Bayesian bootstrap of each pair's rows): approximate, and often too sure."""
    ev = evidence_of([merged], merged)
    S, A = ev.shape
    n, delta = ev.n[0], 1.0 - ask.confidence
    total, sums = ev.per_pair(n), ev.r[0]
    rng = np.random.default_rng(ask.seed)
    deviation = np.sqrt(ev.scatter[0]) / np.maximum(n, 1.0)
    low, high = ask.value_range
    logged = merged.support.to_log(logged_policy(merged, plug_in(merged, ask.alpha)))
    supported = merged.visits > 0
    anything = np.where(supported.any(axis=1, keepdims=True), supported, ask.allowed)
    values, behaviours, uppers, uppers_supported = ([] for _ in range(4))
    nothing = np.zeros(S * A)
    for _ in range(RESAMPLES):
        p = rng.gamma(np.maximum(n, 1e-3))
        p /= ev.per_pair(p)[ev.pair]
        means = sums / np.maximum(n, 1.0) + deviation * rng.standard_normal(n.size)
        r = np.clip(ev.per_pair(p * means), *merged.reward_range)
        model = Model(ev, ask.alpha, total, ev.n, p, r, p, nothing, ev.n, nothing, nothing, nothing, nothing)
        values.append(plug_in_value(model, ask.policy, low)[:-1])
        behaviours.append(plug_in_value(model, logged, 0.5 * (low + high))[:-1])
        uppers.append(_best_value(model, ask.allowed, high))
        uppers_supported.append(_best_value(model, anything, high))
    lower = np.quantile(values, delta / 2.0, axis=0)
    upper, upper_supported = (np.quantile(u, 1.0 - delta / 2.0, axis=0) for u in (uppers, uppers_supported))
    policy_upper = float(np.quantile(np.array(values) @ ask.start, 1.0 - delta / 2.0))
    behaviour_low, behaviour_high = np.quantile(behaviours, [delta / 2.0, 1.0 - delta / 2.0], axis=0)
    eta = ask.start
    ends = [float(np.quantile(np.array(x) @ eta, q)) for x, q in (
        (values, delta / 2.0), (uppers, 1.0 - delta / 2.0), (uppers_supported, 1.0 - delta / 2.0),
        (behaviours, delta / 2.0), (behaviours, 1.0 - delta / 2.0),
    )]  # fmt: skip
    return Certificate(
        lower=ends[0],
        upper=ends[1],
        upper_supported=ends[2],
        policy_upper=policy_upper,
        ceilings={"1": ends[2]},
        behaviour=(ends[3], ends[4]),
        estimate=float(np.mean(values, axis=0) @ eta),
        confidence=ask.confidence,
        method="bootstrap",
        rows=merged.total,
        value_range=ask.value_range,
        per_state=_table(merged, lower, upper, upper_supported, behaviour_low, behaviour_high),
        causes={},
        assumptions=("bootstrap: approximate, it holds less often than it says", *assumptions_of(merged, ask)[1:]),
        _pairs=(),
    )


def _best_value(model: Model, allowed: Array, unknown: float) -> Array:
    """V* (S,) on the frequencies over the allowed actions, where pairs never logged are worth `unknown`."""
    S, A = model.evidence.shape
    policy = np.zeros((S, A))
    policy[np.arange(S), allowed.argmax(axis=1)] = 1.0
    V = np.zeros(S + 1)
    for _ in range(ROUNDS):
        V = plug_in_value(model, policy, unknown)
        backed = model.r + model.alpha * model.evidence.per_pair(model.p * V[model.evidence.columns])
        q = np.where(allowed, np.where(model.n == 0, unknown, backed).reshape(S, A), -np.inf)
        better = q.max(axis=1) > (policy * np.where(allowed, q, 0.0)).sum(axis=1) + 1e-10 * (1.0 + np.abs(V[:-1]))
        if not better.any():
            return V[:-1]
        policy[better] = np.arange(A) == q[better].argmax(axis=1)[:, None]
    return V[:-1]


def _bootstrap_says_something(blocks: list[Counts], merged: Counts, ask: Question) -> bool:
    return _bootstrap(blocks, merged, ask).informative


METHODS = {"proven": proven, "bootstrap": _bootstrap}
SAY_SOMETHING = {"proven": _proven_says_something, "bootstrap": _bootstrap_says_something}


# ---- checks at the border


def check_confidence(confidence: Any) -> None:
    """A ModelError where it is none."""
    if not (isinstance(confidence, int | float | np.floating) and 0.0 < confidence < 1.0):
        raise ModelError(f"confidence is {confidence!r}; it must be between 0 and 1, such as 0.95")


def _checked_policy(policy: TablePolicy, counts: Counts) -> Array:
    S, A = counts.shape
    matrix = policy.matrix
    if matrix.shape not in ((S, A), (S + 1, A)):  # the empirical model has "(end)" as a last state
        raise ModelError(f"the policy is for {matrix.shape} states and actions, the log has {counts.shape}")
    return counts.support.to_log(matrix)


def _checked_start(start: Any, counts: Counts) -> Array:
    S = len(counts.states)
    if isinstance(start, Mapping):
        weights = np.zeros(S)
        for label, weight in start.items():
            weights[counts.states.index(label)] += weight
    else:
        weights = np.array(start, dtype=float)
    if weights.shape not in ((S,), (S + 1,)):
        raise ModelError(f"start has shape {weights.shape}; it must be {(S,)}, one weight per state")
    weights = counts.support.to_log(weights)
    if not ((weights >= 0.0).all() and 0.0 < weights.sum() < np.inf):
        raise ModelError("start has a negative weight, or no positive one; weights must be a distribution over states")
    return weights / weights.sum()


def _checked_available(available: Any, counts: Counts) -> Array:
    if available is None:
        return np.ones(counts.shape, bool)
    if isinstance(available, Mapping):
        allowed = np.ones(counts.shape, bool)
        for state, actions in available.items():
            s = counts.states.index(state)
            allowed[s] = False
            allowed[s, [counts.actions.index(action) for action in actions]] = True
    else:
        allowed = np.array(available, dtype=bool)
    if allowed.shape != counts.shape:
        raise ModelError(f"available has shape {allowed.shape}; it must be {counts.shape}, states and actions")
    if (none := ~allowed.any(axis=1)).any():
        raise ModelError(f"no action is available in {counts.states.describe(int(none.argmax()))}; name at least one")
    if (taken := (counts.visits > 0) & ~allowed).any():
        s, a = (int(i) for i in np.argwhere(taken)[0])
        where = f"{counts.actions.describe(a)} in {counts.states.describe(s)}"
        raise ModelError(f"the log has {where}, which is not available; add it")
    return allowed
