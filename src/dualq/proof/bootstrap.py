"""The second opinion: percentiles over resampled models, approximate and often too sure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualq.base import Begin, silent
from dualq.logs import Counts
from dualq.proof.certificate import Certificate, assumptions_of, per_state
from dualq.proof.confidence_sets import ConfidenceSet, logged_policy, plug_in
from dualq.proof.evidence import evidence_of
from dualq.proof.floors import ROUNDS, plug_in_value
from dualq.proof.ledger import Ledger
from dualq.proof.questions import Question

Array = np.ndarray

RESAMPLES = 200


def bootstrap(
    blocks: Sequence[Counts], merged: Counts, ask: Question, ledger: Ledger, begin: Begin = silent
) -> Certificate:
    """Percentiles over resampled models (Bayesian bootstrap of each pair's rows): approximate, and often too sure."""
    ev = evidence_of([merged], merged)
    S, A = ev.shape
    tail, _ = (account.delta for account in ledger.alike("low ends", "high ends"))
    ledger.cover("each interval by itself, approximately: nothing is proven")
    n, sums = ev.n[0], ev.r[0]
    total = ev.per_pair(n)
    rng = np.random.default_rng(ask.seed)
    deviation = np.sqrt(ev.scatter[0]) / np.maximum(n, 1.0)
    low, high = ask.value_range
    logged = merged.support.to_log(logged_policy(merged, plug_in(merged, ask.alpha)))
    supported = merged.visits > 0
    anything = np.where(supported.any(axis=1, keepdims=True), supported, ask.allowed)
    values, behaviours, uppers, uppers_supported = ([] for _ in range(4))
    nothing = np.zeros(S * A)
    for i in range(RESAMPLES):
        begin(f"Resampling, {i + 1} of {RESAMPLES}")
        p = rng.gamma(np.maximum(n, 1e-3))
        p /= ev.per_pair(p)[ev.pair]
        means = sums / np.maximum(n, 1.0) + deviation * rng.standard_normal(n.size)
        r = np.clip(ev.per_pair(p * means), *merged.reward_range)
        model = ConfidenceSet(ev, ask.alpha, total, ev.n, p, r, p, nothing, ev.n, nothing, nothing, nothing, nothing)
        values.append(plug_in_value(model, ask.policy, low)[:-1])
        behaviours.append(plug_in_value(model, logged, 0.5 * (low + high))[:-1])
        uppers.append(_best_value(model, ask.allowed, high))
        uppers_supported.append(_best_value(model, anything, high))
    lower = np.quantile(values, tail, axis=0)
    upper, upper_supported = (np.quantile(u, 1.0 - tail, axis=0) for u in (uppers, uppers_supported))
    policy_upper = float(np.quantile(np.array(values) @ ask.start, 1.0 - tail))
    behaviour_low, behaviour_high = np.quantile(behaviours, [tail, 1.0 - tail], axis=0)
    eta = ask.start
    ends = [float(np.quantile(np.array(x) @ eta, q)) for x, q in (
        (values, tail), (uppers, 1.0 - tail), (uppers_supported, 1.0 - tail),
        (behaviours, tail), (behaviours, 1.0 - tail),
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
        per_state=per_state(merged, lower, upper, upper_supported, behaviour_low, behaviour_high),
        causes={},
        assumptions=(
            "bootstrap: approximate, it holds less often than it says",
            *assumptions_of(blocks, merged, ask)[1:],
        ),
        _pairs=(),
        ledger=ledger,
    )


def _best_value(model: ConfidenceSet, allowed: Array, unknown: float) -> Array:
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
