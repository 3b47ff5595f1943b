"""What is said of a policy from outside that was judged by a log; the vocabulary is that of `words`.

this policy            the one that was given, by its name in a comparison
what was done so far   the policy that left the log
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

from dualq.app.report.guarantee_words import earns_more, nothing
from dualq.app.report.words import (
    about,
    amounts_from,
    because,
    distinct,
    earned,
    estimate,
    in_one_line,
    listed,
    number,
    per,
    percent,
    provided,
    returned,
    said,
    small,
)
from dualq.app.report.words import no_error as no_error_of
from dualq.base import count, sentence, visible

if TYPE_CHECKING:
    from dualq.base import Label
    from dualq.offline import (
        CostOf,
        Estimate,
        Evaluation,
        GivenLimit,
        NumberEvaluation,
        Otherwise,
        PolicyCertificate,
        Weighted,
    )

    AnyEvaluation = Evaluation | NumberEvaluation

CHANGE = (
    "To get a guarantee, cut the numbers into bins (--bins): then the policy is a table. For single decisions and "
    "short episodes, a column with the probability of each logged action (--propensity) gives one, too."
)
BASIS = {
    "proven": "guaranteed, as said above",
    "exact": "yes: it holds in every state by itself",
    "model": "in the model of the log; not guaranteed",
    "estimated": "expected, not guaranteed",
    "missed": "no, it is not even expected",
}
CHANGES = ("this policy", "so far", "differs", "how often", "rows")  # the columns, after those of the state


def is_table(e: AnyEvaluation) -> TypeGuard[Evaluation]:
    """Whether states are labels, or bins."""
    return e.approximation == "table"


def is_of_numbers(e: AnyEvaluation) -> TypeGuard[NumberEvaluation]:
    """Whether states are made of numbers."""
    return e.approximation != "table"


def source_of(e: AnyEvaluation) -> str:
    """Where the policy came from."""
    return e.given.source if is_table(e) else e.source if is_of_numbers(e) else ""


# ---- the verdict


def verdict(e: AnyEvaluation) -> str:
    """The verdict and the numbers it rests on."""
    word = e.verdict.capitalize()
    if e.contradicted:
        found = listed([f"that {reason}" for reason in distinct(e.withheld[: len(e.contradicted)])])
        return f"{word}. The log shows {found}, so the numbers below cannot be trusted."
    both = f"This policy is expected to earn {estimate(e.expected)}{_per(e)}; what was done so far earns "
    return f"{word}. {both}{estimate(e.logged)}.{_difference(e)}{_missed(e)}"


def _missed(e: AnyEvaluation) -> str:
    """The limits that it is not even expected to keep, which belong beside the verdict."""
    missed = [limit for limit in e.limits if limit.basis == "missed"]
    found = [f"{limit.text} (it is expected to reach {number(limit.estimate.value)})" for limit in missed]
    return f" But it does not keep {listed(found)}." if found else ""


def _per(e: AnyEvaluation) -> str:
    return per(e) if is_table(e) else ""


def _difference(e: AnyEvaluation) -> str:
    gain = e.difference
    if gain.standard_error is None:
        return f" No error can be given: {no_error(e)}."
    if gain.value == 0.0 and gain.standard_error == 0.0:
        return " It does what was done so far."
    more = "more" if gain.value >= 0.0 else "less"
    words = f" It earns {number(abs(gain.value))} ± {small(gain.standard_error)} {more}"
    if e.verdict == "cannot tell" and is_table(e) and _large(gain):
        return f"{words}, but {percent(e.unsupported)} of its decisions the log never saw: that part is a guess."
    if e.verdict == "cannot tell":
        return f"{words}: too uncertain to tell which is better."
    return f"{words}." + (" At worst you lose next to nothing." if e.verdict == "no worse" else "")


def _large(gain: Estimate) -> bool:
    return abs(gain.value) > 2.0 * gain.error_or_nan


def no_error(e: AnyEvaluation) -> str:
    """Why there is none."""
    if e.contradicted:
        return e.withheld[0]
    if is_table(e):
        of_the_log = e.logged.standard_error is None
        return no_error_of(e) if of_the_log else f"{percent(e.unsupported)} of its decisions the log never saw"
    return "too few rows of the log count for it, or its value is no function of these columns"


def brief(e: AnyEvaluation) -> str:
    """Two lines, for those who print it."""
    kind = type(e).__name__
    first = f"{kind}: {e.verdict}. Expected {estimate(e.expected)}, so far {estimate(e.logged)}, "
    return f"{first}difference {estimate(e.difference)}.\n  {in_one_line(guarantees(e)[0])}"


# ---- what is guaranteed


def guarantees(e: AnyEvaluation) -> list[str]:
    """What is guaranteed of the policy, in one sentence with its conditions; or why nothing is."""
    if is_table(e):
        return _table_guarantees(e)
    w = by_weights(e)
    if w is None:
        return [because("Nothing is guaranteed", e.withheld), CHANGE]
    earns = f"this policy earns {number(w.low)} to {number(w.high)}, by the logged propensities"
    return [f"Guaranteed ({percent(w.confidence)}): {earns}{provided(_conditions(w))}"]


def by_weights(e: AnyEvaluation) -> Weighted | None:
    """What a log's propensities prove of a rule over numbers, of which nothing else is proven."""
    w = e.weighted
    return None if is_table(e) or w is None or w.hopeless or w.unbalanced or e.contradicted else w


def _conditions(w: Weighted) -> list[str]:
    low, high = w.reward_range
    return [
        "the logged propensities are right",
        "the policy was not chosen by this log",
        f"no reward lies outside {low:.4g} to {high:.4g}",
        *([] if w.longest == 1 else [f"no episode is longer than {w.longest} steps"]),
        f"no {w.unit} is missing because of what it showed, and the system stays as it was",
    ]


def useful(e: AnyEvaluation) -> PolicyCertificate | None:
    """The bounds of a policy where they are guaranteed, and say more than the range of rewards does."""
    return e.certificate if e.promised and e.certificate is not None and e.certificate.informative else None


def _table_guarantees(e: Evaluation) -> list[str]:
    promise = e.certificate
    if promise is None or e.withheld:
        return nothing(e)
    sure = percent(e.confidence)
    if not promise.informative:
        return [_too_wide(e, promise, sure), *_limits_guaranteed(e)]
    begin = (
        f"Guaranteed ({sure})" if promise.whole.method == "proven" else f"Likely ({sure}, by the bootstrap: no proof)"
    )
    words = (
        f"{begin}: this policy earns {number(promise.lower)} to {number(promise.upper)}{_per(e)}, and what was done so "
        f"far earns {number(promise.behaviour[0])} to {number(promise.behaviour[1])}{provided(e.conditions)}"
    )
    loss = -promise.improvement[1]
    less = f"On the same conditions, this policy earns at least {number(loss)} less." if loss > 0.0 else ""
    compared = less or earns_more(promise.whole, "this policy") or "Which of the two earns more is not guaranteed."
    return [f"{words}\n\n{compared}", *_limits_guaranteed(e)]


def _too_wide(e: Evaluation, promise: PolicyCertificate, sure: str) -> str:
    low, high = promise.whole.value_range
    needed = promise.whole.rows_needed
    more = f" About {about(needed)} rows like these would be needed." if needed else ""
    if (e.unsupported or 0.0) > 0.0 and not needed:
        more = (
            f" {percent(e.unsupported or 0.0)} of its decisions the log never saw: no number of such rows would help."
        )
    return (
        f"Nothing useful is guaranteed: with {sure} confidence this policy earns {number(promise.lower)} to "
        f"{number(promise.upper)}; without any log one would know {number(low)} to {number(high)}.{more}"
    )


def _limits_guaranteed(e: AnyEvaluation) -> list[str]:
    held = [limit.text for limit in e.limits if limit.basis == "proven"]
    return [f"On the same conditions: {listed(held)}."] if held else []


# ---- numbers


def worth_table(e: AnyEvaluation) -> tuple[list[str], list[list[str]]]:
    """What the policy and the log earn, the difference, and what is guaranteed."""
    header = ["", "expected"]
    rows = [
        ["this policy", estimate(e.expected)],
        ["what was done so far", estimate(e.logged)],
        ["difference", estimate(e.difference)],
    ]
    promise = e.certificate
    if promise is not None and promise.informative:
        sure = percent(e.confidence)
        header.append(f"bounds, {sure}, not guaranteed" if e.withheld else f"guaranteed ({sure}), as said above")
        ends = ((promise.lower, promise.upper), promise.behaviour, promise.improvement)
        rows = [[*row, f"{number(low)} to {number(high)}"] for row, (low, high) in zip(rows, ends, strict=True)]
    if is_table(e) and e.returns is not None:
        rows.append([returned(e), estimate(e.returns)])
    if e.weighted is not None:
        rows.append(_weighted_row(e.weighted))
    return header, [[*row, *[""] * (len(header) - len(row))] for row in rows]


def _weighted_row(w: Weighted) -> list[str]:
    return [f"this policy, by the log's own {w.unit}s, weighed", estimate(w.estimate)]


def weighted_words(e: AnyEvaluation) -> list[str]:
    """What the logged propensities say."""
    if e.weighing is None:
        return []
    if isinstance(e.weighing, str):
        return [f"The logged propensities were not used: {e.weighing}."]
    w = e.weighing
    known = "" if w.range_known else f", if no reward lies outside {_range(w)}"
    sizes = f"{w.episodes:,} {w.unit}s count as {about(max(1, round(w.effective_size)))} of equal weight"
    longest = "" if w.longest == 1 else f" and no episode is longer than {w.longest} steps"
    if longest and w.range_known:
        longest = f", if no episode is longer than {w.longest} steps"
    return [
        f"By the logged propensities alone, which assume nothing of the state: {number(w.low)} to {number(w.high)} "
        f"({percent(w.confidence)}, by itself{known}{longest}), estimated at {estimate(w.estimate)}. {sentence(sizes)}"
    ]


def _range(w: Weighted) -> str:
    low, high = w.reward_range
    return f"{low:.4g} to {high:.4g}"


def luck_words(e: AnyEvaluation) -> str:
    """Whether the policy was chosen by this log."""
    if e.learned_here and is_table(e) and e.given.digest is None:
        return (
            "This policy decides as the one that dualq learns from this log does. It may have been chosen for its "
            "luck in it, so that luck is taken off, as `learn` does."
        )
    if e.learned_here:
        return "This policy was learned from this very log: what was luck in its choice is taken off, as `learn` does."
    return (
        "Nothing is taken off for luck: if this policy was chosen because it looked good in this log, it is worth "
        "less. `dualq compare` judges several together."
    )


def amounts(e: AnyEvaluation) -> str:
    """What the amounts are."""
    if is_table(e):
        return earned(e)
    return amounts_from(e.judge.where, e.judge.task.discount) if is_of_numbers(e) else ""


def support_words(e: NumberEvaluation) -> str:
    """How much of the log counts for a rule over numbers."""
    return (
        f"{percent(e.effective_size)} of the log's rows count for this policy (effective sample size); below 2% it "
        f"goes where the log never was. A forest predicts {percent(max(e.misfit, 0.0))} of what the value leaves "
        f"unexplained (misfit); above {percent(e.most_misfit)} no error is given."
    )


# ---- what the log never saw


def unseen_words(e: Evaluation) -> str:
    """How much of the policy the log never saw."""
    share, shown = e.unsupported, len(e.never_seen())
    if share <= 0.0:
        return "The log has tried every decision of this policy."
    first = f"{sentence(percent(share))[:-1]} of its time this policy does what the log never tried in that state."
    rest = " What it earns there is a guess (the average of what was done in that state), and no promise."
    return f"{first}{rest}" + (" The most frequent of them:" if shown > 1 else "")


def unseen_table(e: Evaluation) -> tuple[list[str], list[list[str]]]:
    """The decisions that the log never saw."""
    rows = [
        [*_cells(row["state"]), said(row["action"]), percent(row["time_share"]), f"{row['rows_of_state']:,}"]
        for row in e.never_seen()
    ]
    return [*e.counts.states.names, "this policy", "how often", "rows of the state"], rows


def _cells(state: dict[str, Label]) -> list[str]:
    return [visible(value) for value in state.values()]


def filled_words(e: Evaluation) -> list[str]:
    """What was done about states that the policy does not name."""
    if not e.given.missing:
        return []
    states = e.counts.states
    named = "; ".join(states.describe(s) for s in e.given.missing[:3]) + ("; ..." if len(e.given.missing) > 3 else "")
    how = "does what was done so far" if e.given.otherwise == "logged" else f"does {e.given.otherwise}"
    return [f"In {count(len(e.given.missing), 'state')} that it does not name ({named}) it {how} (--otherwise)."]


# ---- what it does otherwise


def changed(e: Evaluation) -> str:
    """How much it differs from what was done so far."""
    states = int(e.counts.visits.any(axis=1).sum())
    if not e.num_changes:
        return "This policy decides as was done so far."
    share = sentence(percent(e.share_changed))[:-1]
    first = f"{share} of its decisions differ from what was done so far, in {e.num_changes:,} of "
    return f"{first}{count(states, 'state')}."


def change_cells(row: Otherwise) -> list[str]:
    """A row of the table of changes, without the state."""
    chance = "" if row["probability"] > 1.0 - 1e-9 else f" ({percent(row['probability'])})"
    return [
        f"{said(row['policy'])}{chance}",
        f"{said(row['logged'])} ({percent(row['logged_share'])})",
        percent(row["share"]),
        percent(row["time_share"]),
        f"{row['rows']:,}",
    ]


CHANGES_EXPLAINED = (
    "this policy: its action there. so far: the most frequent action in the log, and its share. differs: the share of "
    "decisions in this state that differ. how often: the share of all decisions of this policy. rows: how often the "
    "log tried this action in this state."
)


# ---- costs and limits


def cost_table(e: AnyEvaluation) -> tuple[list[str], list[list[str]]]:
    """What a step costs."""
    return ["cost", "this policy", "so far", "difference"], [[name, *_costs(of)] for name, of in e.costs.items()]


def _costs(of: CostOf) -> list[str]:
    return [_short(one) for one in of]


def _short(e: Estimate) -> str:
    return f"{e.value:.3g}" if e.standard_error is None else f"{e.value:.3g} ± {small(e.standard_error)}"


def limit_table(e: AnyEvaluation) -> tuple[list[str], list[list[str]]]:
    """Whether the limits are kept."""
    header = ["limit", "expected", f"{percent(e.confidence)} bounds", "kept?", "so far"]
    return header, [[limit.text, _short(limit.estimate), *_limit_cells(e, limit)] for limit in e.limits]


def _limit_cells(e: AnyEvaluation, limit: GivenLimit) -> list[str]:
    bounds = "" if limit.low is None or limit.high is None else f"{limit.low:.3g} to {limit.high:.3g}"
    doubtful = limit.basis == "proven" and any(reason != "no certificate was asked for" for reason in e.withheld)
    basis = BASIS["estimated"] if doubtful else BASIS[limit.basis]
    error = limit.estimate.error_or_nan
    if limit.basis == "estimated" and math.isfinite(error) and error > 0.0:
        basis = f"expected, by {abs(limit.bound - limit.estimate.value) / error:.2g} standard errors; not guaranteed"
    return [bounds, basis, f"{limit.logged:.3g}"]
