"""What is said of costs and of limits on them; the vocabulary is that of `words`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualq.app.report.guarantee_words import guarantee
from dualq.app.report.words import about, listed, number, one_shot, pair, percent, provided, relied_on, small

if TYPE_CHECKING:
    from dualq.offline import Estimate, Fit, LimitOutcome

NOT_ASKED = "no certificate was asked for"  # a reason that says nothing against the log
COSTS = "What a step is expected to cost on average. To keep a cost within bounds, use --limit."
COSTS_ONCE = "What a decision is expected to cost on average. To keep a cost within bounds, use --limit."


def cost_words(fit: Fit) -> str:
    """What the table of costs shows."""
    return COSTS_ONCE if one_shot(fit) else COSTS


def cost_table(fit: Fit) -> tuple[list[str], list[list[str]]]:
    """What the two policies cost, for the costs that have no limit: the names of the columns, and a row each."""
    limited = {one.column for one in fit.asked}
    rows = [
        [name, *(_short(both[which]) for which in ("recommended", "logged"))]
        for name, both in fit.costs.items()
        if name not in limited
    ]
    return ["cost", "new policy", "so far"], rows


def _short(e: Estimate) -> str:
    return f"{e.value:.3g}" if e.standard_error is None else f"{e.value:.3g} ± {small(e.standard_error)}"


def doubtful(fit: Fit) -> bool:
    """Whether the log speaks against what the bounds of costs rest on, or leaves it in doubt."""
    return any(reason != NOT_ASKED for reason in fit.withheld)


KEPT = {
    "exact": "yes: it holds in every state by itself",
    "model": "in the model of the log; not guaranteed",
    "frequencies": "in the log's own averages; not guaranteed",
    "missed": "no, it is not even expected",
}


def kept_words(fit: Fit, limit: LimitOutcome) -> str:
    """Whether a limit is kept, in a few words."""
    if limit.basis == "proven":
        return "expected, not guaranteed" if doubtful(fit) else "guaranteed, as said above"
    if limit.basis != "estimated":
        return KEPT[limit.basis]
    if not limit.error:
        return "expected, not guaranteed"
    apart = abs(limit.bound - limit.estimate) / limit.error
    by = f"by {apart:.2g} standard errors" if apart >= 0.1 else "by next to nothing"
    return f"expected, {by}, but not guaranteed"


def limit_table(fit: Fit) -> tuple[list[str], list[list[str]]]:
    """What became of every limit: the names of the columns, and a row each."""
    header = ["limit", "expected", f"{percent(fit.confidence)} bounds", "kept?", "without limits", "so far"]
    return header, [
        [
            limit.text,
            f"{limit.estimate:.3g}" + (f" ± {small(limit.error)}" if limit.error else ""),
            "" if limit.low is None else f"{limit.low:.3g} to {limit.high:.3g}",
            kept_words(fit, limit),
            *(f"{x:.3g}" for x in (limit.free, limit.logged)),
        ]
        for limit in fit.limits
    ]


def limit_words(fit: Fit) -> list[str]:
    """What the limits cost, what other policies would make of them, and what a guarantee would need."""
    words: list[str] = []
    for limit in fit.limits:
        words += [_price(fit, limit), *_others(limit), _needed(fit, limit)]
    if fit.limits_wanted and not doubtful(fit):
        words.append(f"More rows would help most here: {'; '.join(pair(fit, one) for one in fit.limits_wanted[:3])}.")
    return [sentence for sentence in words if sentence]


def guarantees(fit: Fit) -> list[str]:
    """What is guaranteed of the new policy and its limits, with the conditions in the same sentence; what is not."""
    proven = [limit for limit in fit.limits if limit.basis == "proven" and not doubtful(fit)]
    held, ranges = [_held(limit) for limit in proven], _ranges(fit, proven)
    together = relied_on(fit) is not None
    words = guarantee(fit, ranges, held) if together else guarantee(fit)
    if proven and not together:
        clauses = [*ranges, *(clause for clause in fit.conditions if not clause.startswith("no reward "))]
        words.append(f"Guaranteed ({percent(fit.confidence)}): {listed(held)}{provided(clauses)}")
    for limit in fit.limits:
        if limit not in proven and limit.basis != "exact":
            words.append(f"Not guaranteed: that {_held(limit)}. {_expected(limit)}.")
    return words


def _held(limit: LimitOutcome) -> str:
    return f"{limit.name} is at {'most' if limit.sense == '<=' else 'least'} {limit.bound:g}"


def _expected(limit: LimitOutcome) -> str:
    error = f" ± {small(limit.error)}" if limit.error else ""
    return f"Expected: {limit.estimate:.3g}{error}"


def _ranges(fit: Fit, proven: Sequence[LimitOutcome]) -> list[str]:
    """Conditions: the costs of these limits stay within what the log has seen, where nobody said what they can be."""
    counts, names = fit.counts, {limit.name for limit in proven}
    columns = dict.fromkeys(one.column for one in fit.asked if one.column is not None and one.name in names)
    return [
        f"no {column} lies outside {low:.4g} to {high:.4g}"
        for column in columns
        if column not in counts.cost_ranges_known
        for low, high in (counts.cost_ranges[column],)
    ]


def chosen_under(fit: Fit) -> str:
    """What a reader of single decisions must know of a policy with limits; nothing where there are none."""
    if not fit.limits:
        return ""
    limits = listed([limit.text for limit in fit.limits])
    then = "" if one_shot(fit) else " Amounts assume that the new policy is followed afterwards."
    return f"The policy was chosen under {limits}: it may take an action that earns less to keep the limit.{then}"


def _price(fit: Fit, limit: LimitOutcome) -> str:
    """What a little less of it costs, at the rate that holds at the policy; prices are in reward per step."""
    step, alpha = _step(limit.bound), fit.settings["discount"]
    cost, later = step * limit.price, step * limit.price / (1.0 - alpha)
    if not later > 1e-6 * max(1.0, abs(fit.expected.value)):
        if _beyond(limit, limit.estimate) > 0.0:
            nearest = number(limit.estimate)
            return f"{limit.name}: no policy was found that is expected to keep it; the nearest has {nearest}."
        why = (
            "the other limits already see to it"
            if _beyond(limit, limit.free) > 0.0
            else "the best policy keeps it anyway"
        )
        return f"{limit.name}: the limit costs nothing; as far as the log can tell, {why}."
    side = "less" if limit.sense == "<=" else "more"
    total = "" if one_shot(fit) else f", or {later:.3g} of what the new policy earns"
    each = "decision" if one_shot(fit) else "step"
    return (
        f"{limit.name}: {step:g} {side} would cost about {cost:.3g} of reward per {each}{total}, at the present rate."
    )


def _step(bound: float) -> float:
    """One point where the bound is a share of some size, else a power of ten that is at most a tenth of the bound."""
    size = abs(bound)
    if 0.1 <= size <= 1.0 or size == 0.0:
        return 0.01
    return 10.0 ** math.floor(math.log10(size / 10.0))


def _others(limit: LimitOutcome) -> list[str]:
    """What other policies would make of a limit: the best without limits, and the best that never mixes actions."""
    words: list[str] = []
    if (free := _beyond(limit, limit.free)) > 0.0 and limit.price > 0.0:
        words.append(f"{limit.name}: without limits the best policy would break it by {free:.3g}.")
    if (greedy := _beyond(limit, limit.greedy)) > 0.0:
        words.append(
            f"{limit.name}: always taking the action with the highest value (argmax Q), without ever mixing two, would "
            f"break it by {greedy:.3g}, at {limit.greedy:.3g}."
        )
    return words


def _beyond(limit: LimitOutcome, value: float) -> float:
    """How far a value is beyond the bound; nothing, but for rounding, where it is within."""
    beyond = (1.0 if limit.sense == "<=" else -1.0) * (value - limit.bound)
    return beyond if beyond > 1e-9 + 1e-6 * abs(limit.bound) else 0.0


def _needed(fit: Fit, limit: LimitOutcome) -> str:
    if limit.kept or limit.low is None or doubtful(fit):  # more such rows would not help
        return ""
    end = f"at most {limit.high:.3g}" if limit.sense == "<=" else f"at least {limit.low:.3g}"
    known = (
        f"{limit.name}: the log shows no more than that it is {end} ({percent(fit.confidence)}), so the limit is not "
    )
    known += "guaranteed"
    if limit.rows_needed is None:
        return f"{known}."
    return f"{known}. About {about(limit.rows_needed)} rows like these would be needed to guarantee it."


def bounds_words(fit: Fit) -> str:
    """How the confidence is spent where there are limits."""
    left = percent(1.0 - fit.confidence)
    if fit.certificate is None:
        return f"The bounds of all limits hold together with {percent(fit.confidence)} confidence."
    words = f"The bounds of the limits and of what is earned hold together: half of the {left} is spent on each."
    free = fit.careful.expected.value
    more = f" Without limits the new policy would be expected to earn {number(free)}."
    return words + (more if free > fit.expected.value else "")
