"""What is guaranteed of a policy, in words: bounds, conditions, how much more it earns, and what else could be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualq.app.report.words import about, because, estimate, number, per, percent, provided, remedies
from dualq.base import count

if TYPE_CHECKING:
    from dualq.offline import Alternative, Evaluation, Fit
    from dualq.proof import Certificate


def guarantee(fit: Fit, ranges: Sequence[str] = (), limits: Sequence[str] = ()) -> list[str]:
    """What is guaranteed, and in the same sentence on which conditions; or why nothing is, and what to do about it.

    ranges, limits   conditions and claims about limits, to stand in the same sentence (limit_words.py)
    """
    promise = fit.certificate
    if promise is None or fit.withheld:
        return nothing(fit)
    sure = percent(fit.confidence)
    if not promise.informative:
        return [_too_wide(promise, sure), *instead(fit)]
    begin = f"Guaranteed ({sure})" if promise.method == "proven" else f"Likely ({sure}, by the bootstrap: no proof)"
    most = f" (and at most {number(promise.policy_upper)})" if math.isfinite(promise.policy_upper) else ""
    words = (
        f"{begin}: the new policy earns at least {number(promise.lower)}{most}{per(fit)}"
        f"{''.join(f', its {held}' for held in limits)}, and what was done so far earns at most "
        f"{number(promise.behaviour[1])}{provided([*fit.conditions, *ranges])}"
    )
    more = earns_more(promise, "the new policy") or "Whether it earns more is not guaranteed."
    return [f"{words}\n\n{more}", *instead(fit)]


def nothing(judged: Fit | Evaluation) -> list[str]:
    """Why nothing is guaranteed, and what to do about it."""
    if judged.certificate is None:
        return ["Nothing is guaranteed: no certificate was asked for. Use --certificate proven."]
    return [because("Nothing is guaranteed", judged.withheld), *remedies(judged)]


def instead(fit: Fit) -> list[str]:
    """What could be guaranteed of other policies, where too little is of the new one, and what these cost."""
    if not fit.alternatives:
        return []
    each, promise = "; ".join(_other(one) for one in fit.alternatives), fit.certificate
    said = promise is not None and promise.informative  # the sentence before has the conditions
    under, end = (", on the same conditions", ".") if said else ("", provided(fit.conditions))
    return [f"Guaranteed ({percent(fit.confidence)}){under}, of other policies: {each}{end}"]


def _other(one: Alternative) -> str:
    pairs = "combinations of state and action with at least"
    keeps = f"the best that keeps to {pairs} {count(one.rows or 0, 'row')}"
    if one.first is not None:
        keeps = f"the best that the first {count(one.first, 'row')} alone show, on {pairs} {one.rows} of them,"
    lost = f"{number(abs(one.less))} {'less' if one.less > 0.0 else 'more'} than the new policy"
    who = "the safest" if one.rows is None else keeps
    return f"{who} earns at least {number(one.lower)} (expected {estimate(one.expected)}, {lost})"


def earns_more(promise: Certificate, who: str) -> str:
    """How much more than what was logged a policy is proven to earn, and from where that is counted; else nothing."""
    if promise.proven_more <= 0.0:
        return ""
    if promise.gain is None or promise.gain <= promise.improvement:
        return f"On the same conditions, {who} earns at least {number(promise.improvement)} more."
    there, then = number(promise.lower_decided or 0.0), number(promise.earned or 0.0)
    return (
        f"On the same conditions, but counted from every decision in the log rather than from the start: {who} earns "
        f"at least {there}, and the log earned {then}. That is at least {number(promise.gain)} more."
    )


def _too_wide(promise: Certificate, sure: str) -> str:
    low, high = promise.value_range
    needed = promise.rows_needed
    more = f" About {about(needed)} rows like these would be needed." if needed else ""
    return (
        f"Nothing useful is guaranteed yet: with {sure} confidence the new policy earns {number(promise.lower)} to "
        f"{number(promise.policy_upper)}; without any log one would know {number(low)} to {number(high)}."
        f"{more}"
    )
