"""Parts of a fit as plain values: what --json prints, and what fit.json keeps."""

from __future__ import annotations

import dataclasses

from dualq.offline.alternatives import Alternative
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.limited.search import LimitOutcome
from dualq.offline.shapes import EstimateNumbers
from dualq.proof import Certificate


def estimate_summary(estimate: Estimate) -> EstimateNumbers:
    """A value and its standard error."""
    return {"value": estimate.value, "standard_error": estimate.standard_error}


def limit_summary(limit: LimitOutcome) -> dict[str, object]:
    """What became of a limit."""
    return {**dataclasses.asdict(limit), "standard_error": limit.error}


def certificate_summary(promise: Certificate) -> dict[str, object]:
    """What is promised, and what it rests on."""
    return {
        "lower": promise.lower,
        "policy_upper": promise.policy_upper,
        "upper": promise.upper,
        "ceilings": dict(promise.ceilings),
        "upper_supported": promise.upper_supported,
        "behaviour": list(promise.behaviour),
        "improvement": promise.improvement,
        "lower_decided": promise.lower_decided,
        "earned": promise.earned,
        "gain": promise.gain,
        "informative": promise.informative,
        "confidence": promise.confidence,
        "method": promise.method,
        "rows_needed": promise.rows_needed,
        "causes": dict(promise.causes),
        "wanted": [dataclasses.asdict(pair) for pair in promise.wanted(10)],
        "assumptions": list(promise.assumptions),
    }


def alternative_summary(one: Alternative) -> dict[str, object]:
    """A policy that can be certified beside the recommended one, by what it does in each state."""
    policy = one.policy
    return {
        "rows": one.rows,
        "first": one.first,
        "expected": estimate_summary(one.expected),
        "lower": one.lower,
        "upper": one.upper,
        "less": one.less,
        "actions": [
            {policy.actions.describe(int(a)): float(row[a]) for a in row.nonzero()[0]} for row in policy.matrix
        ],
    }
